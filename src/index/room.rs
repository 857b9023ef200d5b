//! Whether there is room for a build before it begins.
//!
//! Takes how many notes are to come and what earlier tries met, says whether the disk has what they
//! need. Blocking: one look at the disk and one file that is gone at once. Any thread.
//!
//! **Invariant:** what is asked for is less than what a build needs, or little more than what was
//! too little for the last one: no build is held back for long that would come to its end, and none
//! is begun again and again only to fill the disk. Where there is room for the words and not for the
//! vectors, the words are built alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::base::fs;
use crate::base::store::StoreError;
use crate::index::error::IndexError;

/// What builds of one index learned of the room that they need. It outlives the [`crate::index::Index`]
/// that is given up after a failure; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// So many bytes a note were too few.
    too_few: Arc<AtomicU64>,
    /// Whether the disk had none for the vectors at the last look.
    is_short: Arc<AtomicBool>,
}

/// An index of nothing has some files, and is written beside itself.
const LEAST: u64 = 512 << 10;
/// The least that a note takes: one without content has its name in each store.
const LEAST_A_NOTE: u64 = 256;
/// How much more than what was too little is asked for: one part in so many.
const MORE: u64 = 8;

impl Room {
    /// Fails as a write does where there is too little room for the words of so many notes; looks
    /// whether there is for vectors of so many bytes each, too.
    pub(super) fn check(&self, dir: &Path, notes: usize, vectors: u64) -> Result<(), IndexError> {
        let words = self.needed(notes);
        fs::try_room_in(dir, words).map_err(StoreError::from)?;
        let both = words.saturating_add(vectors.saturating_mul(notes as u64));
        let is_short = vectors > 0 && fs::try_room_in(dir, both).is_err();
        self.is_short.store(is_short, Ordering::SeqCst);
        if is_short {
            tracing::warn!(bytes = both, "no room for words and vectors: vectors come later");
        }
        Ok(())
    }

    fn needed(&self, notes: usize) -> u64 {
        let notes = notes as u64;
        let learned = self.too_few.load(Ordering::SeqCst).saturating_mul(notes);
        let least = LEAST.saturating_add(LEAST_A_NOTE.saturating_mul(notes));
        least.max(learned.saturating_add(learned / MORE))
    }

    /// Whether there is too little for all, or a build found that: words are written alone.
    pub(super) fn is_tight(&self) -> bool {
        self.too_few.load(Ordering::SeqCst) > 0 || self.is_short.load(Ordering::SeqCst)
    }

    /// The disk was full after a build of so many notes wrote so many bytes.
    pub(super) fn was_too_little(&self, bytes: u64, notes: usize) {
        self.too_few.fetch_max(bytes.div_ceil(notes.max(1) as u64), Ordering::SeqCst);
    }

    /// A build came to its end.
    pub(super) fn sufficed(&self) {
        self.too_few.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::trouble::Trouble;

    #[test]
    fn what_was_too_little_is_not_tried_again_and_little_more_is() {
        let room = Room::default();
        assert_eq!(room.needed(0), 512 << 10);
        assert_eq!(room.needed(2000), (512 << 10) + 512_000);
        room.was_too_little(8_000_000, 2000);
        assert_eq!(room.needed(2000), 9_000_000);
        // Of fewer notes that are still owed.
        assert_eq!(room.needed(1000), 4_500_000);
        assert_eq!(room.needed(1), (512 << 10) + 256);
        // A disk that others filled meanwhile teaches nothing.
        room.was_too_little(1000, 2000);
        assert_eq!(room.needed(2000), 9_000_000);
        room.sufficed();
        assert_eq!(room.needed(2000), (512 << 10) + 512_000);
    }

    #[test]
    fn a_disk_without_room_is_full_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room::default();
        room.check(dir.path(), 10, 0).unwrap();
        room.was_too_little(u64::MAX / 4, 10);
        let err = room.check(dir.path(), 10, 0).unwrap_err();
        assert_eq!(err.trouble(), Some(Trouble::Full), "{err}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_disk_with_room_for_the_words_alone_gets_these_alone() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room::default();
        for (vectors, is_tight) in
            [(800, false), (u64::MAX / 4, true), (u64::MAX, true), (0, false)]
        {
            room.check(dir.path(), 10, vectors).unwrap();
            assert_eq!(room.is_tight(), is_tight, "{vectors}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

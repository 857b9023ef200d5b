//! When a mass disappearance waits for a person.
//!
//! Pure. Takes the paths that are gone, gives those whose deletion is held back.
//!
//! **Invariant:** what is held stays held until it is back or was let through by name.

use std::collections::BTreeSet;

use crate::vault::VaultPath;

/// From where on a disappearance is held: both numbers must be reached in one batch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HoldPolicy {
    /// Notes gone.
    pub count: usize,
    /// Of the notes in HEAD, 0..=1.
    pub share: f64,
}

impl Default for HoldPolicy {
    fn default() -> Self {
        Self { count: 20, share: 0.5 }
    }
}

impl HoldPolicy {
    /// Whether the deletion of so many notes of so many waits.
    pub fn holds(self, gone: usize, of: usize) -> bool {
        gone >= self.count && gone as f64 >= of as f64 * self.share
    }
}

/// The deletions to hold.
///
/// `gone` are paths in HEAD that the disk has no more and whose content did not reappear
/// elsewhere; `held` those held before; `let_through` those a person let through.
/// `notes_in_head` is asked only when it matters.
pub fn deletions_to_hold(
    gone: &BTreeSet<VaultPath>,
    held: &BTreeSet<VaultPath>,
    let_through: &BTreeSet<VaultPath>,
    policy: HoldPolicy,
    is_note: fn(&VaultPath) -> bool,
    notes_in_head: impl FnOnce() -> usize,
) -> BTreeSet<VaultPath> {
    let waiting = || gone.iter().filter(|it| !let_through.contains(*it));
    let notes_gone = waiting().filter(|it| is_note(it)).count();
    if notes_gone >= policy.count && policy.holds(notes_gone, notes_in_head()) {
        return waiting().cloned().collect();
    }
    waiting().filter(|it| held.contains(*it)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: std::ops::Range<usize>) -> BTreeSet<VaultPath> {
        names.map(|n| VaultPath::new(format!("n/{n:03}.md")).unwrap()).collect()
    }

    fn check(gone: usize, in_head: usize, held: usize) {
        let none = BTreeSet::new();
        let policy = HoldPolicy::default();
        let waits = deletions_to_hold(&paths(0..gone), &none, &none, policy, |_| true, || in_head);
        assert_eq!(waits.len(), held, "{gone} of {in_head}");
    }

    #[test]
    fn both_numbers_must_be_reached() {
        check(19, 19, 0);
        check(20, 40, 20);
        check(20, 41, 0);
        check(20, 20, 20);
        check(500, 1_001, 0);
    }

    #[test]
    fn only_notes_count_but_everything_gone_waits() {
        let none = BTreeSet::new();
        let policy = HoldPolicy { count: 2, share: 0.5 };
        let is_note = |path: &VaultPath| path.extension() == Some(b"md");
        let mut gone = paths(0..2);
        gone.insert(VaultPath::new("photo.jpg").unwrap());
        assert_eq!(deletions_to_hold(&gone, &none, &none, policy, is_note, || 4).len(), 3);
        let images = (0..90).map(|n| VaultPath::new(format!("{n}.jpg")).unwrap()).collect();
        assert!(deletions_to_hold(&images, &none, &none, policy, is_note, || 4).is_empty());
    }

    #[test]
    fn what_is_held_stays_held_until_it_is_let_through() {
        let none = BTreeSet::new();
        let policy = HoldPolicy::default();
        let held = paths(0..30);
        // 25 came back: the other five stay held, a new single deletion does not join them.
        let mut gone = paths(25..30);
        gone.extend(paths(90..91));
        let waits = deletions_to_hold(&gone, &held, &none, policy, |_| true, || 100);
        assert_eq!(waits, paths(25..30));
        assert!(deletions_to_hold(&paths(0..30), &held, &held, policy, |_| true, || 30).is_empty());
    }
}

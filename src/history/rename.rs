//! Which creations are old notes at a new place.
//!
//! Pure. Takes the changes of one batch, gives pairs of old and new path.
//!
//! **Invariant:** each path is in one pair at most, and a path that still exists is never the old
//! side of one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gix::index::entry::Stat;

use crate::history::look::Touched;
use crate::history::seen::Seen;
use crate::vault::VaultPath;

/// Pairs of old and new path: the same inode first, whatever the content became, then the same
/// content.
pub(super) fn renames(changes: &BTreeMap<VaultPath, Touched>) -> Vec<(VaultPath, VaultPath)> {
    let gone: Vec<_> = changes.iter().filter(|it| it.1.new.is_none()).collect();
    let made: Vec<_> = changes.iter().filter(|it| it.1.old.is_none()).collect();
    let mut taken = BTreeSet::new();
    let mut pairs = BTreeMap::new();

    let mut by_inode = HashMap::new();
    for (path, touched) in &gone {
        if let Some(was) = &touched.was {
            by_inode.insert((was.dev, was.ino), (*path, was));
        }
    }
    for (path, touched) in &made {
        if let Some(seen) = &touched.seen
            && let Some((old, was)) = by_inode.get(&inode_of(seen))
            && is_older(seen, was)
            && taken.insert((*old).clone())
        {
            pairs.insert((*path).clone(), (*old).clone());
        }
    }

    let mut by_content = HashMap::<_, Vec<&VaultPath>>::new();
    for (path, touched) in &gone {
        if let Some((blob, kind)) = touched.old
            && !blob.is_empty_blob()
            && !taken.contains(*path)
        {
            by_content.entry((blob, kind)).or_default().push(path);
        }
    }
    for (path, touched) in &made {
        if pairs.contains_key(*path) {
            continue;
        }
        let Some(candidates) = touched.new.and_then(|it| by_content.get_mut(&it)) else {
            continue;
        };
        // Of several with one content, the one that keeps its name.
        let same_name = candidates.iter().position(|it| it.file_name() == path.file_name());
        if !candidates.is_empty() {
            let old = candidates.remove(same_name.unwrap_or(0));
            pairs.insert((*path).clone(), old.clone());
        }
    }
    pairs.into_iter().map(|(new, old)| (old, new)).collect()
}

fn inode_of(seen: &Seen) -> (u32, u32) {
    let stat = seen.stat();
    (stat.dev, stat.ino)
}

/// Whether the inode was there already when the index was told of it; otherwise it was freed and
/// given to a new file.
fn is_older(seen: &Seen, was: &Stat) -> bool {
    seen.born.is_some_and(|born| born <= (i64::from(was.ctime.secs), i64::from(was.ctime.nsecs)))
}

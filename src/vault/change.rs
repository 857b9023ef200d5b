//! What changed between two states of the vault.
//!
//! Pure. Observed, never proposed: the differences between two trees, path by path.
//!
//! **Invariant:** folding `a → b` and `b → c` gives exactly `a → c` (property-tested).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use crate::vault::ids::BlobId;
use crate::vault::path::VaultPath;

/// How Git stores a path.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum FileMode {
    File,
    Executable,
    Symlink,
    /// A submodule or nested repository: never added by us, never read.
    Gitlink,
}

/// A path's content in one tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct Entry {
    pub blob: BlobId,
    pub mode: FileMode,
}

/// One path in two trees; never equal on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    pub old: Option<Entry>,
    pub new: Option<Entry>,
}

/// The difference between two trees.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangeSet {
    changes: BTreeMap<VaultPath, Change>,
}

impl ChangeSet {
    /// Notes that `path` went from `old` to `new`, after whatever it did before.
    pub fn push(&mut self, path: VaultPath, old: Option<Entry>, new: Option<Entry>) {
        match self.changes.entry(path) {
            Slot::Vacant(slot) => {
                if old != new {
                    slot.insert(Change { old, new });
                }
            }
            Slot::Occupied(mut slot) => {
                if slot.get().old == new {
                    slot.remove();
                } else {
                    slot.get_mut().new = new;
                }
            }
        }
    }

    /// The difference over both steps: `self` first, then `later`.
    pub fn then(mut self, later: &Self) -> Self {
        for (path, change) in &later.changes {
            self.push(path.clone(), change.old, change.new);
        }
        self
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&VaultPath, &Change)> {
        self.changes.iter()
    }

    pub fn get(&self, path: &VaultPath) -> Option<&Change> {
        self.changes.get(path)
    }

    pub fn len(&self) -> usize {
        self.changes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl FromIterator<(VaultPath, Change)> for ChangeSet {
    fn from_iter<I: IntoIterator<Item = (VaultPath, Change)>>(changes: I) -> Self {
        let mut set = Self::default();
        for (path, change) in changes {
            set.push(path, change.old, change.new);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Tree = BTreeMap<u8, u8>;

    fn entry(content: u8) -> Entry {
        let blob = BlobId::from_bytes(&[content; 20]).unwrap();
        Entry { blob, mode: FileMode::File }
    }

    fn diff(from: &Tree, to: &Tree) -> ChangeSet {
        let mut set = ChangeSet::default();
        for name in 0..8 {
            let side = |tree: &Tree| tree.get(&name).map(|it| entry(*it));
            set.push(VaultPath::new(format!("{name}.md")).unwrap(), side(from), side(to));
        }
        set
    }

    proptest! {
        #[test]
        fn two_steps_folded_are_one_step(
            a in prop::collection::btree_map(0..8u8, 0..3u8, 0..8),
            b in prop::collection::btree_map(0..8u8, 0..3u8, 0..8),
            c in prop::collection::btree_map(0..8u8, 0..3u8, 0..8),
        ) {
            prop_assert_eq!(diff(&a, &b).then(&diff(&b, &c)), diff(&a, &c));
            prop_assert!(diff(&a, &b).then(&diff(&b, &a)).is_empty());
        }
    }
}

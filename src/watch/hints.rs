//! Where to look again.
//!
//! Pure. Takes what was noticed, gives one set that says everything once.
//!
//! **Invariant:** merging is a union: order, repetition and grouping make no difference
//! (property-tested), so a burst may be cut into batches anywhere.

use std::collections::BTreeSet;

use crate::vault::VaultPath;

/// Places that may differ from what was last seen there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hints {
    /// Look at these paths again: there, gone or changed.
    pub paths: BTreeSet<VaultPath>,
    /// Scan these folders again with all that is below; one that is gone took its content along.
    pub folders: BTreeSet<VaultPath>,
    /// Scan everything: events were lost, or there is nothing better to say.
    pub rescan: bool,
    /// Somebody moved HEAD, a ref or the index, or let go of a lock.
    pub git: bool,
    /// The vault's folder is not where it was: nothing in it may be taken for deleted.
    pub lost: bool,
}

impl Hints {
    /// Says "scan everything".
    pub fn everything() -> Self {
        Self { rescan: true, ..Self::default() }
    }

    /// Takes in what `other` says.
    pub fn merge(&mut self, mut other: Self) {
        self.paths.append(&mut other.paths);
        self.folders.append(&mut other.folders);
        self.rescan |= other.rescan;
        self.git |= other.git;
        self.lost |= other.lost;
    }

    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a look that follows these hints sees `path`.
    pub fn covers(&self, path: &VaultPath) -> bool {
        self.rescan
            || self.paths.contains(path)
            || self.folders.iter().any(|it| path.is_within(it.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hints() -> impl Strategy<Value = Hints> {
        let set = || prop::collection::btree_set("[ab](/[ab]){0,2}", 0..5);
        (set(), set(), any::<[bool; 3]>()).prop_map(|(paths, folders, [rescan, git, lost])| {
            let named = |names: BTreeSet<String>| {
                names.into_iter().map(|it| VaultPath::new(it).unwrap()).collect()
            };
            Hints { paths: named(paths), folders: named(folders), rescan, git, lost }
        })
    }

    fn merged(mut a: Hints, b: Hints) -> Hints {
        a.merge(b);
        a
    }

    proptest! {
        #[test]
        fn merging_is_a_union(a in hints(), b in hints(), c in hints()) {
            let ab = merged(a.clone(), b.clone());
            prop_assert_eq!(&ab, &merged(b.clone(), a.clone()));
            prop_assert_eq!(merged(ab.clone(), c.clone()), merged(a.clone(), merged(b.clone(), c)));
            prop_assert_eq!(&merged(ab.clone(), a.clone()), &ab);
            prop_assert_eq!(&merged(Hints::default(), a.clone()), &a);
            prop_assert_eq!(ab.is_empty(), a.is_empty() && b.is_empty());
            for path in a.paths.iter().chain(&b.paths).chain(&a.folders).chain(&b.folders) {
                prop_assert!(ab.covers(path));
            }
        }
    }

    #[test]
    fn a_folder_covers_what_is_below_it_and_no_namesake() {
        let path = |it: &str| VaultPath::new(it).unwrap();
        let hints = Hints { folders: [path("a/b")].into(), ..Hints::default() };
        assert!(hints.covers(&path("a/b")) && hints.covers(&path("a/b/c/d.md")));
        assert!(!hints.covers(&path("a/bc.md")) && !hints.covers(&path("a")));
        assert!(Hints::everything().covers(&path("x")));
    }
}

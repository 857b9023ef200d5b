//! Which paths something happened at last.
//!
//! Pure. Takes paths as they are noticed, says how new each is.
//!
//! **Invariant:** it keeps the newest [`MOST`] and no more; what is older is as old as what was never
//! noticed.

use std::collections::{BTreeMap, BTreeSet};

use crate::vault::VaultPath;

/// So many paths are kept.
const MOST: usize = 2000;

/// The paths that were noticed last.
#[derive(Debug, Default)]
pub struct Recent {
    /// The last of several that were noticed together has their number.
    turn: u64,
    by_path: BTreeMap<VaultPath, u64>,
    by_turn: BTreeSet<(u64, VaultPath)>,
}

impl Recent {
    /// Something happened at these, at about the same time.
    pub fn notice<'a>(&mut self, paths: impl Iterator<Item = &'a VaultPath>) {
        self.turn += 1;
        for path in paths {
            if let Some(before) = self.by_path.insert(path.clone(), self.turn) {
                self.by_turn.remove(&(before, path.clone()));
            }
            self.by_turn.insert((self.turn, path.clone()));
            if self.by_turn.len() > MOST
                && let Some((_, oldest)) = self.by_turn.pop_first()
            {
                self.by_path.remove(&oldest);
            }
        }
    }

    /// How new a path is: a higher number is newer, those of one number came together, and 0 is
    /// older than all.
    pub fn turn_of(&self, path: &VaultPath) -> u64 {
        self.by_path.get(path).copied().unwrap_or(0)
    }

    /// All that are kept, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &VaultPath> {
        self.by_turn.iter().rev().map(|it| &it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> VaultPath {
        VaultPath::new(name).unwrap()
    }

    #[test]
    fn what_was_noticed_last_comes_first_and_counts_once() {
        let mut recent = Recent::default();
        recent.notice([path("a.md"), path("b.md")].iter());
        recent.notice([path("c.md")].iter());
        recent.notice([path("a.md")].iter());
        let newest: Vec<String> = recent.newest().map(ToString::to_string).collect();
        assert_eq!(newest, ["a.md", "c.md", "b.md"]);
        let turns = ["a.md", "b.md", "c.md", "d.md"].map(|it| recent.turn_of(&path(it)));
        assert_eq!(turns, [3, 1, 2, 0]);
    }

    #[test]
    fn it_is_bounded_and_keeps_the_newest() {
        let mut recent = Recent::default();
        let many: Vec<VaultPath> = (0..3000).map(|it| path(&format!("{it:04}.md"))).collect();
        recent.notice(many.iter());
        recent.notice([path("0000.md")].iter());
        assert_eq!((recent.by_path.len(), recent.by_turn.len()), (2000, 2000));
        assert_eq!(recent.newest().next(), Some(&path("0000.md")));
        assert_eq!(["0000.md", "0001.md"].map(|it| recent.turn_of(&path(it))), [2, 0]);
    }
}

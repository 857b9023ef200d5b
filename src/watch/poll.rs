//! What changed, where there are no watches to tell.
//!
//! Takes the vault as it was and looks at every file's metadata again; gives hints for what
//! differs. Blocking; runs on the worker's thread.
//!
//! **Invariant:** a difference is hinted at once and by name, so a vault without watches behaves
//! like one with them, only later.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::base::fs;
use crate::vault::VaultPath;
use crate::watch::admit::House;
use crate::watch::hints::Hints;
use crate::watch::scan::{Step, walk};
use crate::watch::tap::{MARKER_PREFIX, is_git_noise};

/// Every file's metadata in one number each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    files: BTreeMap<VaultPath, u64>,
    git: u64,
}

impl Snapshot {
    /// The vault as it is now.
    pub fn take(
        house: &House,
        git_dirs: &[PathBuf],
        is_ignored: &mut dyn FnMut(&VaultPath) -> bool,
    ) -> Self {
        let mut files = BTreeMap::new();
        walk(house, None, is_ignored, &mut |step| {
            if let Step::File(name, entry) = step
                && let Ok(meta) = entry.metadata()
            {
                files.insert(name, print_of(&meta));
            }
        });
        Self { files, git: git_print(git_dirs) }
    }

    /// What differs between `self` and `later`.
    pub fn diff(&self, later: &Self) -> Hints {
        let changed = later.files.iter().filter(|(it, print)| self.files.get(*it) != Some(*print));
        let gone = self.files.keys().filter(|it| !later.files.contains_key(*it));
        Hints {
            paths: changed.map(|(it, _)| it).chain(gone).cloned().collect(),
            git: self.git != later.git,
            ..Hints::default()
        }
    }
}

fn print_of(meta: &std::fs::Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    // ctime moves with every write and chmod, also where somebody sets mtime back.
    (meta.ino(), meta.len(), meta.mode()).hash(&mut hasher);
    (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()).hash(&mut hasher);
    hasher.finish()
}

/// One number over HEAD, the index and the refs of the git directories.
fn git_print(git_dirs: &[PathBuf]) -> u64 {
    let mut files = BTreeMap::new();
    let mut waiting: Vec<PathBuf> = git_dirs.to_vec();
    while let Some(dir) = waiting.pop() {
        let is_top = git_dirs.contains(&dir);
        // A git directory that is gone or unreadable is a number of its own.
        for entry in fs::read_dir(&dir).unwrap_or_default() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                if !is_top || name == "refs" {
                    waiting.push(entry.path());
                }
            } else if !is_git_noise(&name) && !name.starts_with(MARKER_PREFIX) {
                files.insert(entry.path(), print_of(&meta));
            }
        }
    }
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_hinted_by_name() {
        let path = |it: &str| VaultPath::new(it).unwrap();
        let snapshot = |files: &[(&str, u64)], git| Snapshot {
            files: files.iter().map(|(it, print)| (path(it), *print)).collect(),
            git,
        };
        let before = snapshot(&[("a.md", 1), ("b.md", 2), ("c.md", 3)], 7);
        let after = snapshot(&[("a.md", 1), ("b.md", 9), ("d.md", 3)], 8);
        let hints = before.diff(&after);
        assert_eq!(hints.paths, [path("b.md"), path("c.md"), path("d.md")].into());
        assert!(hints.git && hints.folders.is_empty() && !hints.rescan);
        assert!(before.diff(&before).is_empty());
    }
}

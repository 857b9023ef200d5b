//! Disks to which `Note.md` and `note.md` are one file (exFAT, FAT, folders with case folding).
//!
//! Takes paths, says which of them are there by their very name: `lstat` finds both. Asked only where
//! the disk finds the repository by another name as well; `core.ignoreCase` may come from another
//! machine. Committer thread only.
//!
//! **Invariant:** where git has two notes that such a disk cannot tell apart, neither is deleted.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use gix::bstr::{BStr, ByteSlice as _};

use crate::base::fs;
use crate::history::git_index::GitIndex;
use crate::history::on_disk::Ways;
use crate::history::place::Place;
use crate::vault::VaultPath;

/// Whether the disk of this vault takes two spellings for one name.
pub(super) fn is_blind(place: &Place) -> bool {
    fs::lstat(&place.dot_git.with_file_name(".GIT")).is_ok()
}

/// The names in the folders of one look, each read once.
#[derive(Debug)]
pub(super) struct Names {
    is_asked: bool,
    folders: HashMap<PathBuf, HashSet<OsString>>,
}

impl Names {
    pub fn new(place: &Place) -> Self {
        Self { is_asked: is_blind(place), folders: HashMap::new() }
    }

    /// Whether what `lstat` finds at `path` has this very name; where that cannot be told it has.
    pub fn has(&mut self, path: &Path) -> bool {
        let (true, Some(folder), Some(name)) = (self.is_asked, path.parent(), path.file_name())
        else {
            return true;
        };
        if !self.folders.contains_key(folder) {
            let Ok(entries) = fs::read_dir(folder) else { return true };
            let names = entries.iter().map(std::fs::DirEntry::file_name).collect();
            self.folders.insert(folder.to_owned(), names);
        }
        self.folders.get(folder).is_none_or(|it| it.contains(name))
    }
}

/// Whether what is at `path` has another spelling of this name.
pub(super) fn is_spelt_otherwise(path: &Path) -> bool {
    let mut names = Names { is_asked: true, folders: HashMap::new() };
    !names.has(path)
}

impl Ways<'_> {
    /// Whether another tracked note of a name that the disk takes for this one is there instead.
    pub(super) fn is_taken_by_a_twin(&mut self, path: &VaultPath) -> bool {
        let on_disk = self.place.disk(path);
        if !self.names.is_asked || self.names.has(&on_disk) {
            return false;
        }
        let folded = fold(path.as_bytes().as_bstr());
        let below = match path.parent() {
            Some(folder) => [self.place.rela(&folder).as_slice(), b"/"].concat(),
            None => self.place.prefix_slash().into(),
        };
        let index = self.index;
        let mut others = index.below(below.as_bstr()).filter_map(|it| self.place.vault_path(it));
        others.any(|it| {
            it != *path
                && fold(it.as_bytes().as_bstr()) == folded
                && self.names.has(&self.place.disk(&it))
        })
    }
}

/// Adds the tracked paths that the disk takes for one of those that git does not know: they are old
/// names, and go in the same commit as the new ones come.
pub(super) fn add_others(
    all: &mut BTreeSet<VaultPath>,
    found: &BTreeSet<VaultPath>,
    index: &GitIndex,
    place: &Place,
) {
    let is_new = |path: &&VaultPath| index.entry(place.rela(path).as_bstr()).is_none();
    let new: HashSet<String> =
        all.iter().chain(found).filter(is_new).map(|it| fold(it.as_bytes().as_bstr())).collect();
    if new.is_empty() {
        return;
    }
    let prefix = place.prefix_slash();
    let tracked = index.below(prefix.as_bstr()).filter_map(|it| place.vault_path(it));
    all.extend(tracked.filter(|it| new.contains(&fold(it.as_bytes().as_bstr()))));
}

/// One spelling for all that such a disk may take for the same name.
fn fold(path: &BStr) -> String {
    path.to_str_lossy().to_uppercase()
}

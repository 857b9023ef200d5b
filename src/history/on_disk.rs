//! What stands at a path of the vault, and on the way to it.
//!
//! Takes vault paths, gives what the disk has there. Symlinks are never followed, neither in the
//! last step nor on the way. Committer thread only.
//!
//! **Invariant:** what lies behind a symlink, in another repository or in a folder that cannot be
//! read is never taken for a file of the vault, nor for gone because of the latter.

use std::collections::HashMap;

use gix::bstr::ByteSlice as _;
use gix::index::entry::Mode;

use crate::base::fs;
use crate::base::trouble::told;
use crate::history::git_index::GitIndex;
use crate::history::place::Place;
use crate::history::seen::Seen;
use crate::history::spelling::Names;
use crate::vault::VaultPath;

/// What a path is on disk.
pub(super) enum Disk {
    Gone,
    Folder,
    Special,
    Nested,
    /// Below a folder that is a submodule to git, although no repository is there.
    Submodule,
    Unreadable(String),
    File(Seen),
    Link(Seen),
}

/// What a folder on the way to a path is.
#[derive(Clone, Debug)]
enum Way {
    Open,
    Gone,
    Nested,
    Submodule,
    Unreadable(String),
}

/// The folders that one look came through.
pub(super) struct Ways<'a> {
    pub place: &'a Place,
    pub index: &'a GitIndex,
    pub names: Names,
    known: HashMap<VaultPath, Way>,
    /// The open folder that was looked into last: the next path mostly lies in it too.
    here: Option<VaultPath>,
}

impl<'a> Ways<'a> {
    pub fn new(place: &'a Place, index: &'a GitIndex) -> Self {
        Self { place, index, names: Names::new(place), known: HashMap::new(), here: None }
    }

    /// Whether git has a submodule at `folder`.
    fn is_gitlink(&self, folder: &VaultPath) -> bool {
        let rela = self.place.rela(folder);
        self.index.entry(rela.as_bstr()).is_some_and(|it| it.mode == Mode::COMMIT)
    }

    /// What stands at `path`.
    pub fn disk(&mut self, path: &VaultPath) -> Disk {
        let slash = path.as_bytes().rfind_byte(b'/');
        let folder = slash.map(|slash| &path.as_bytes()[..slash]);
        let is_here = folder.is_some() && folder == self.here.as_ref().map(VaultPath::as_bytes);
        if !is_here && let Some(folder) = path.parent() {
            match self.way(&folder) {
                Way::Open => self.here = Some(folder),
                Way::Gone => return Disk::Gone,
                Way::Nested => return Disk::Nested,
                Way::Submodule => return Disk::Submodule,
                Way::Unreadable(why) => return Disk::Unreadable(why),
            }
        }
        match fs::lstat_if_there(&self.place.disk(path)) {
            Ok(None) => Disk::Gone,
            Ok(Some(_)) if !self.names.has(&self.place.disk(path)) => Disk::Gone,
            Ok(Some(meta)) if meta.is_file() => Disk::File(Seen::new(&meta)),
            Ok(Some(meta)) if meta.is_symlink() => Disk::Link(Seen::new(&meta)),
            Ok(Some(meta)) if meta.is_dir() => Disk::Folder,
            Ok(Some(_)) => Disk::Special,
            Err(err) => Disk::Unreadable(told(&err.source)),
        }
    }

    /// What the way down to `folder` is; each folder is looked at once in a snapshot.
    fn way(&mut self, folder: &VaultPath) -> Way {
        if let Some(known) = self.known.get(folder) {
            return known.clone();
        }
        let above = match folder.parent() {
            Some(parent) => self.way(&parent),
            None => Way::Open,
        };
        let way = match above {
            Way::Open => {
                let on_disk = self.place.disk(folder);
                match fs::lstat_if_there(&on_disk) {
                    Ok(Some(_)) if !self.names.has(&on_disk) => Way::Gone,
                    Ok(Some(meta)) if meta.is_dir() => {
                        match fs::lstat_if_there(&on_disk.join(".git")) {
                            Ok(Some(_)) if fs::is_repository(&on_disk) => Way::Nested,
                            Ok(_) if self.is_gitlink(folder) => Way::Submodule,
                            Ok(_) => Way::Open,
                            Err(err) => Way::Unreadable(told(&err.source)),
                        }
                    }
                    // A symlink leads elsewhere: what was below is gone.
                    Ok(_) => Way::Gone,
                    Err(err) => Way::Unreadable(told(&err.source)),
                }
            }
            closed => closed,
        };
        self.known.insert(folder.clone(), way.clone());
        way
    }
}

//! Which folders are entered.
//!
//! Takes a folder, looks at it (no symlink is followed), says whether the scan and the watches may
//! go in. Blocking, any thread.
//!
//! **Invariant:** the scan and the watches ask here and nowhere else, so they agree.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::base::fs::{self, PathError};
use crate::vault::VaultPath;
use crate::watch::filter::Filter;

/// What stands at the path of a folder.
#[derive(Debug)]
pub(super) enum Door {
    /// A folder of the vault.
    Open,
    /// The vault's own business or a program's: derived state, the mount point, a sync client's.
    Filtered,
    /// Git ignores it.
    Ignored,
    /// Another repository begins here.
    Repository,
    /// Another file system is mounted here.
    OtherDevice,
    /// No folder: nothing, a file, a symlink.
    Absent,
    /// It cannot be looked at.
    Unreadable(PathError),
}

/// The vault's folder and what is needed to judge what lies in it.
#[derive(Clone, Debug)]
pub(super) struct House {
    pub root: PathBuf,
    pub device: u64,
    pub inode: u64,
    pub filter: Filter,
}

impl House {
    /// The folder at `root` as it is now, under its real path.
    pub fn at(root: &Path, filter: Filter) -> Result<Self, PathError> {
        let root = fs::canonicalize(root)?;
        let (device, inode) = fs::identity(&root)?;
        Ok(Self { root, device, inode, filter })
    }

    /// Whether the very same folder is still there.
    pub fn is_there(&self) -> bool {
        fs::lstat(&self.root)
            .is_ok_and(|it| it.is_dir() && (it.dev(), it.ino()) == (self.device, self.inode))
    }

    /// The vault's name for a path on the disk; `None` for the root, what is outside or in a `.git`.
    pub fn name_of(&self, path: &Path) -> Option<VaultPath> {
        VaultPath::from_os(path.strip_prefix(&self.root).ok()?).ok()
    }

    /// What stands at the folder `name`, its parents taken for granted.
    pub fn door(&self, name: &VaultPath, is_ignored: &mut dyn FnMut(&VaultPath) -> bool) -> Door {
        if self.filter.drops_folder(name) {
            return Door::Filtered;
        }
        let path = self.root.join(name.as_path());
        match fs::lstat_if_there(&path) {
            Err(err) => Door::Unreadable(err),
            Ok(Some(meta)) if meta.is_dir() => {
                if meta.dev() != self.device {
                    Door::OtherDevice
                } else if fs::is_repository(&path) {
                    Door::Repository
                } else if is_ignored(name) {
                    Door::Ignored
                } else {
                    Door::Open
                }
            }
            Ok(_) => Door::Absent,
        }
    }

    /// The same, asked of every folder from the root down to `name`: the first that is not open.
    pub fn door_through(
        &self,
        name: &VaultPath,
        is_ignored: &mut dyn FnMut(&VaultPath) -> bool,
    ) -> (VaultPath, Door) {
        let mut way: Vec<VaultPath> =
            std::iter::successors(Some(name.clone()), VaultPath::parent).collect();
        while let Some(step) = way.pop() {
            match self.door(&step, is_ignored) {
                Door::Open if !way.is_empty() => {}
                door => return (step, door),
            }
        }
        (name.clone(), Door::Absent)
    }
}

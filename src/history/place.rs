//! Where a vault lies in its repository.
//!
//! Takes vault paths, gives repository paths and places on disk, and back. Any thread.
//!
//! **Invariant:** nothing outside `prefix` is ever ours: a repository path that does not lie
//! below it has no vault path.

use std::path::{Path, PathBuf};

use gix::bstr::{BStr, BString, ByteSlice as _};

use crate::base::fs::{self, PathError};
use crate::history::shared::Shared;
use crate::vault::VaultPath;

/// The directories of one vault and its repository.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The vault.
    pub root: PathBuf,
    /// The `.git` by which the repository was found: a folder, or a file or symlink that leads to
    /// one.
    pub dot_git: PathBuf,
    /// The repository's work tree; the vault or a folder above it.
    pub workdir: PathBuf,
    /// This work tree's git directory: `HEAD`, `index`.
    pub git_dir: PathBuf,
    /// What all work trees share: `refs`, `objects`, `config`.
    pub common_dir: PathBuf,
    /// From the work tree to the vault, without slashes at the ends; empty where they are one.
    pub prefix: BString,
    /// The permissions of what is made in the git directory.
    pub shared: Shared,
}

impl Place {
    /// As git names it.
    pub fn rela(&self, path: &VaultPath) -> BString {
        if self.prefix.is_empty() {
            return path.as_bytes().into();
        }
        [self.prefix.as_slice(), b"/", path.as_bytes()].concat().into()
    }

    /// As the vault names it; `None` outside the vault and for names that are no paths.
    pub fn vault_path(&self, rela: &BStr) -> Option<VaultPath> {
        let inside = if self.prefix.is_empty() {
            rela
        } else {
            rela.strip_prefix(self.prefix.as_slice())?.strip_prefix(b"/")?.as_bstr()
        };
        VaultPath::new(inside).ok()
    }

    /// Where it is on disk.
    pub fn disk(&self, path: &VaultPath) -> PathBuf {
        self.root.join(path.as_path())
    }

    /// What the paths below the vault begin with in git; empty where the vault is the work tree.
    pub fn prefix_slash(&self) -> BString {
        if self.prefix.is_empty() {
            return BString::default();
        }
        [self.prefix.as_slice(), b"/"].concat().into()
    }

    pub fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// Our own files in the git directory.
    pub fn private(&self) -> PathBuf {
        self.git_dir.join("remd")
    }

    /// One of them that each vault in the repository has for itself.
    pub fn own(&self, name: &str) -> PathBuf {
        self.private().join(match self.prefix.as_slice() {
            b"" => name.to_owned(),
            prefix => format!("{name}-{:08x}", crc32fast::hash(prefix)),
        })
    }

    /// Writes one of them.
    pub fn keep(&self, path: &Path, bytes: &[u8]) -> Result<(), PathError> {
        self.shared.create_dir_all(&self.private())?;
        fs::write_atomic(path, bytes)?;
        self.shared.adjust(path)
    }

    /// Where the loose file of a shared reference lies.
    pub fn shared_ref(&self, name: &BStr) -> PathBuf {
        self.common_dir
            .join(gix::path::from_bstr(name).unwrap_or_else(|_| Path::new("refs").into()))
    }

    /// The files and folders whose change may mean that HEAD or the index moved.
    pub fn watched(&self) -> Vec<PathBuf> {
        let mut paths = vec![
            self.git_dir.join("HEAD"),
            self.index(),
            self.common_dir.join("refs/heads"),
            self.common_dir.join("packed-refs"),
            self.common_dir.join("info/exclude"),
            self.common_dir.join("config"),
        ];
        paths.dedup();
        paths
    }
}

/// `path` with a suffix on its last name: `index` → `index.lock`.
pub(super) fn lock_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

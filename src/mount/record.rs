//! What a killed agent leaves behind, written down beforehand.
//!
//! Takes a file outside the vault, keeps in it where the mount is and whether its folder was made
//! for it. The next start, or `remd unmount`, reads it and puts things back. Blocking.
//!
//! **Invariant:** a folder counts as made here only while it is the very one (the same inode), so
//! that a folder that a person made in its place is never removed.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::base::fs::{self, PathError};

/// The first line; raised when the rest changes.
const HEADING: &[u8] = b"remd mount 1\n";

/// The file of one vault.
#[derive(Clone, Debug)]
pub struct Record {
    file: PathBuf,
}

/// What it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// With every symlink resolved, as the kernel's table has it.
    pub path: PathBuf,
    pub folder: Folder,
}

/// Whose the folder under the mount is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folder {
    /// It was there before.
    Kept,
    /// It is about to be made here.
    Making,
    /// It was made here and is this inode.
    Made(u64),
}

impl Record {
    pub fn at(file: &Path) -> Self {
        Self { file: file.to_owned() }
    }

    /// What an earlier run wrote; `None` where there is nothing, or nothing that can be read.
    pub fn read(&self) -> Option<Left> {
        let bytes = match fs::read_if_there(&self.file) {
            Ok(bytes) => bytes?,
            Err(err) => {
                tracing::warn!(%err, "what an earlier run left is not known");
                return None;
            }
        };
        let left = parse(&bytes);
        if left.is_none() {
            tracing::warn!(file = %self.file.display(), "a mount's record cannot be read");
        }
        left
    }

    pub fn write(&self, left: &Left) -> Result<(), PathError> {
        if let Some(folder) = self.file.parent() {
            fs::create_private_dir_all(folder)?;
        }
        let folder = match left.folder {
            Folder::Kept => "kept".to_owned(),
            Folder::Making => "making".to_owned(),
            Folder::Made(inode) => format!("made {inode}"),
        };
        let path = left.path.as_os_str().as_bytes();
        fs::write_atomic(&self.file, &[HEADING, folder.as_bytes(), b"\n", path].concat())
    }

    /// Nothing is left behind any more.
    pub fn erase(&self) -> Result<(), PathError> {
        fs::remove_file(&self.file)
    }
}

impl Left {
    /// Whether the folder at the path, as it is now, was made here.
    pub fn is_made_here(&self) -> Result<bool, PathError> {
        let Some(meta) = fs::lstat_if_there(&self.path)? else { return Ok(false) };
        Ok(meta.is_dir()
            && match self.folder {
                Folder::Kept => false,
                Folder::Making => true,
                Folder::Made(inode) => meta.ino() == inode,
            })
    }

    /// Takes the folder away if it was made here and holds nothing. What is in it is somebody's.
    pub fn remove_folder(&self) -> Result<(), PathError> {
        if !self.is_made_here()? {
            return Ok(());
        }
        match fs::remove_dir(&self.path) {
            Err(err) if err.kind() == io::ErrorKind::DirectoryNotEmpty => {
                tracing::debug!(path = %self.path.display(), "the folder holds something and stays");
                Ok(())
            }
            removed => removed,
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Left> {
    let rest = bytes.strip_prefix(HEADING)?;
    let end = rest.iter().position(|it| *it == b'\n')?;
    let folder = match std::str::from_utf8(&rest[..end]).ok()? {
        "kept" => Folder::Kept,
        "making" => Folder::Making,
        made => Folder::Made(made.strip_prefix("made ")?.parse().ok()?),
    };
    let path = PathBuf::from(OsString::from_vec(rest[end + 1..].to_vec()));
    path.is_absolute().then_some(Left { path, folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let record = Record::at(&dir.path().join("deep/er/record"));
        assert_eq!(record.read(), None);
        record.erase().unwrap();
        let odd = PathBuf::from(OsString::from_vec(b"/a b\n\xff".to_vec()));
        for folder in [Folder::Kept, Folder::Making, Folder::Made(u64::MAX)] {
            let left = Left { path: odd.clone(), folder };
            record.write(&left).unwrap();
            assert_eq!(record.read(), Some(left));
        }
        record.erase().unwrap();
        assert_eq!(record.read(), None);
        for bad in
            ["", "remd mount 2\nkept\n/x", "remd mount 1\nmade x\n/x", "remd mount 1\nkept\nx"]
        {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn only_the_very_folder_goes_and_only_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m");
        fs::create_dir_all(&path).unwrap();
        let inode = fs::lstat(&path).unwrap().ino();
        let made = Left { path: path.clone(), folder: Folder::Made(inode) };
        let others = Left { path: path.clone(), folder: Folder::Made(inode + 1) };
        let kept = Left { path: path.clone(), folder: Folder::Kept };
        for left in [&others, &kept] {
            left.remove_folder().unwrap();
            assert!(path.is_dir());
        }
        fs::write_atomic(&path.join("mine"), b"mine").unwrap();
        made.remove_folder().unwrap();
        assert!(path.join("mine").is_file());
        fs::remove_file(&path.join("mine")).unwrap();
        made.remove_folder().unwrap();
        assert!(!path.exists());
        made.remove_folder().unwrap();
    }
}

//! The only door to the disk.
//!
//! Takes paths, gives bytes or a [`PathError`] that names the path. Blocking, any thread.
//!
//! **Invariant:** a file written here is whole or not there: temp file in the same folder, fsync,
//! rename, fsync of the folder.

#![expect(clippy::disallowed_methods, reason = "this is the door")]

use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::fault;

/// An I/O error that says which path it is about and what was tried.
#[derive(Debug, thiserror::Error)]
#[error("Cannot {action} `{}`", path.display())]
pub struct PathError {
    pub action: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl PathError {
    /// The kind of the underlying I/O error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Whether the path is simply not there.
    pub fn is_absent(&self) -> bool {
        matches!(self.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }
}

/// `result` with the path and the action in its error.
pub fn at<T>(action: &'static str, path: &Path, result: io::Result<T>) -> Result<T, PathError> {
    result.map_err(|source| PathError { action, path: path.to_owned(), source })
}

/// The whole file.
pub fn read(path: &Path) -> Result<Vec<u8>, PathError> {
    at("read", path, std::fs::read(path))
}

/// The whole file, or `None` where there is none.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, PathError> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(err) if err.is_absent() => Ok(None),
        Err(err) => Err(err),
    }
}

/// The first `limit` bytes of a regular file, without following a symlink in the last step.
pub fn read_regular(path: &Path, limit: u64) -> Result<Vec<u8>, PathError> {
    at(
        "read",
        path,
        (|| {
            // O_NONBLOCK: a FIFO that took the file's place must not hang us.
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open(path)?;
            let meta = file.metadata()?;
            if !meta.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
            }
            let mut bytes = Vec::with_capacity(usize::try_from(meta.len().min(limit)).unwrap_or(0));
            file.take(limit).read_to_end(&mut bytes)?;
            Ok(bytes)
        })(),
    )
}

/// Opens a regular file for reading; a symlink in the last step or a FIFO is refused, not waited for.
pub fn open_regular(path: &Path) -> Result<File, PathError> {
    at(
        "open",
        path,
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .and_then(|file| match file.metadata()?.is_file() {
                true => Ok(file),
                false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
            }),
    )
}

/// What `lstat` says; symlinks are not followed.
pub fn lstat(path: &Path) -> Result<Metadata, PathError> {
    at("stat", path, std::fs::symlink_metadata(path))
}

/// What `lstat` says, or `None` where nothing is.
pub fn lstat_if_there(path: &Path) -> Result<Option<Metadata>, PathError> {
    match lstat(path) {
        Ok(meta) => Ok(Some(meta)),
        // Symlinks on the way that lead in a circle lead to nothing.
        Err(err) if err.is_absent() || err.source.raw_os_error() == Some(libc::ELOOP) => Ok(None),
        Err(err) => Err(err),
    }
}

/// What `stat` says; symlinks are followed.
pub fn stat(path: &Path) -> Result<Metadata, PathError> {
    at("stat", path, std::fs::metadata(path))
}

/// The device and inode numbers of what is at `path` (symlinks followed).
pub fn identity(path: &Path) -> Result<(u64, u64), PathError> {
    stat(path).map(|meta| (meta.dev(), meta.ino()))
}

/// Whether Git would take `folder` for the top of a repository.
///
/// An empty `.git` or one that is still being made is none: notes beside it must not vanish.
pub fn is_repository(folder: &Path) -> bool {
    let git = folder.join(".git");
    match lstat(&git) {
        Err(_) => false,
        Ok(meta) if meta.is_file() => {
            read_regular(&git, 8).is_ok_and(|it| it.starts_with(b"gitdir:"))
        }
        Ok(_) => {
            lstat(&git.join("HEAD")).is_ok()
                && ["objects", "refs"].iter().all(|it| stat(&git.join(it)).is_ok())
        }
    }
}

/// The target of a symlink.
pub fn read_link(path: &Path) -> Result<PathBuf, PathError> {
    at("read the link", path, std::fs::read_link(path))
}

/// The path with every symlink resolved; it must exist.
pub fn canonicalize(path: &Path) -> Result<PathBuf, PathError> {
    at("resolve", path, std::fs::canonicalize(path))
}

/// The names in a folder, unsorted.
pub fn read_dir(path: &Path) -> Result<Vec<std::fs::DirEntry>, PathError> {
    at("list", path, std::fs::read_dir(path).and_then(Iterator::collect))
}

/// Makes a folder in one that is there; fine where it is already there itself.
pub fn create_dir(path: &Path) -> Result<(), PathError> {
    match std::fs::create_dir(path) {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => at("create the folder", path, result),
    }
}

/// Makes a folder and its parents; fine where it is already there.
pub fn create_dir_all(path: &Path) -> Result<(), PathError> {
    at("create the folder", path, std::fs::create_dir_all(path))
}

/// Whether this process may make something in the folder `path`, or in the nearest folder above it
/// that is there.
pub fn can_be_made(path: &Path) -> bool {
    let there = path.ancestors().find(|it| stat(it).is_ok());
    let Some(name) = there.and_then(|it| CString::new(it.as_os_str().as_bytes()).ok()) else {
        return false;
    };
    // SAFETY: access(2) reads a NUL-terminated path, which lives for the whole call.
    unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}

/// Makes a file of some size in the folder `dir` and removes it again: what is wrong there, if
/// something is.
pub fn try_write_in(dir: &Path) -> Result<(), PathError> {
    let temp = dir.join(temp_name());
    let made = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&temp)?;
        file.write_all(&[0; 4096])?;
        // Some file systems say only now that there is no room.
        file.sync_data()
    })();
    // Nothing is there where it could not be made.
    let _removed = std::fs::remove_file(&temp);
    at("write in", dir, made)
}

/// Finds out whether `dir` has room for so many bytes: fails as a write of them would. Nothing is
/// left behind, and nothing is written where the file system can set room aside.
pub fn try_room_in(dir: &Path, bytes: u64) -> Result<(), PathError> {
    let full = || io::Error::from_raw_os_error(libc::ENOSPC);
    if free_bytes(dir)? < bytes {
        return at("find room in", dir, Err(full()));
    }
    // What is free may be another's: a share of this user, blocks that are kept back.
    let temp = dir.join(temp_name());
    let made = (|| {
        let file = OpenOptions::new().write(true).create_new(true).open(&temp)?;
        std::fs::remove_file(&temp)?;
        let length = libc::off_t::try_from(bytes).map_err(|_| full())?;
        // SAFETY: the descriptor is open for the whole call, which takes no memory of ours.
        match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                err if matches!(err.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) => Err(err),
                // It cannot do that: then what is free has to serve.
                _ => Ok(()),
            },
        }
    })();
    at("find room in", dir, made)
}

/// How many bytes this user may still write on the file system that holds `dir`.
pub fn free_bytes(dir: &Path) -> Result<u64, PathError> {
    let name = CString::new(dir.as_os_str().as_bytes());
    let name = at("look at the disk of", dir, name.map_err(io::Error::other))?;
    // SAFETY: `statvfs` is plain numbers, for which all zeroes is a value.
    let mut room: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a NUL and both pointers live for the whole call.
    let said = match unsafe { libc::statvfs(name.as_ptr(), &mut room) } {
        0 => Ok(room.f_bavail.saturating_mul(room.f_frsize)),
        _ => Err(io::Error::last_os_error()),
    };
    at("look at the disk of", dir, said)
}

/// Makes a folder that only its owner may enter, and its parents.
pub fn create_private_dir_all(path: &Path) -> Result<(), PathError> {
    use std::os::unix::fs::DirBuilderExt as _;
    at(
        "create the folder",
        path,
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path),
    )
}

/// Opens for reading.
pub fn open(path: &Path) -> Result<File, PathError> {
    at("open", path, File::open(path))
}

/// Opens what exists for reading and writing: a device.
pub fn open_read_write(path: &Path) -> Result<File, PathError> {
    at("open", path, OpenOptions::new().read(true).write(true).open(path))
}

/// Opens for appending, making the file where there is none.
pub fn open_append(path: &Path) -> Result<File, PathError> {
    at("open", path, OpenOptions::new().create(true).append(true).read(true).open(path))
}

/// Opens what exists for appending.
pub fn open_to_append(path: &Path) -> Result<File, PathError> {
    at("open", path, OpenOptions::new().append(true).read(true).open(path))
}

/// Makes a new file; an error if something is there already.
pub fn create_new(path: &Path) -> Result<File, PathError> {
    at("create", path, OpenOptions::new().write(true).create_new(true).open(path))
}

/// The same for a file that nobody may write to once it is closed.
pub fn create_new_read_only(path: &Path) -> Result<File, PathError> {
    at("create", path, OpenOptions::new().write(true).create_new(true).mode(0o444).open(path))
}

/// Appends `bytes` in one write, making the file where there is none.
pub fn append(path: &Path, bytes: &[u8]) -> Result<(), PathError> {
    open_append(path).and_then(|mut file| at("append to", path, file.write_all(bytes)))
}

/// Removes a file; fine where there is none.
pub fn remove_file(path: &Path) -> Result<(), PathError> {
    match std::fs::remove_file(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        result => at("remove", path, result),
    }
}

/// Removes an empty folder; fine where there is none.
pub fn remove_dir(path: &Path) -> Result<(), PathError> {
    match std::fs::remove_dir(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        result => at("remove the folder", path, result),
    }
}

/// Removes a folder of derived state with all that is in it. Never called on a vault or a mount.
///
/// A thread of a library that is on its way out may still put a file there meanwhile: the folder is
/// emptied again then, for a second at most.
pub fn remove_derived(path: &Path) -> Result<(), PathError> {
    let mut tries = 100;
    loop {
        match std::fs::remove_dir_all(path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(err) if err.kind() == io::ErrorKind::DirectoryNotEmpty && tries > 0 => {
                tries -= 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            result => return at("remove the folder", path, result),
        }
    }
}

/// Renames within one file system; replaces what is there.
pub fn rename(from: &Path, to: &Path) -> Result<(), PathError> {
    at("rename", from, std::fs::rename(from, to))
}

/// Renames within one file system; an error if `to` exists.
pub fn rename_new(from: &Path, to: &Path) -> Result<(), PathError> {
    let name =
        |it: &Path| at("rename", it, CString::new(it.as_os_str().as_bytes()).map_err(Into::into));
    let (one, other) = (name(from)?, name(to)?);
    let here = libc::AT_FDCWD;
    // SAFETY: both are strings that end with a nul and outlive the call.
    let done = unsafe {
        libc::renameat2(here, one.as_ptr(), here, other.as_ptr(), libc::RENAME_NOREPLACE)
    };
    let err = match done {
        0 => return Ok(()),
        _ => io::Error::last_os_error(),
    };
    match err.raw_os_error() {
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => {
            at("rename", to, std::fs::hard_link(from, to))?;
            remove_file(from)
        }
        _ => at("rename", to, Err(err)),
    }
}

/// Lets two names of one file system change places, in one step where the file system can do that; where
/// it can't, `to` is gone for a moment.
pub fn exchange(from: &Path, to: &Path) -> Result<(), PathError> {
    let name =
        |it: &Path| at("rename", it, CString::new(it.as_os_str().as_bytes()).map_err(Into::into));
    let (one, other) = (name(from)?, name(to)?);
    let here = libc::AT_FDCWD;
    // SAFETY: both are strings that end with a nul and outlive the call.
    let done =
        unsafe { libc::renameat2(here, one.as_ptr(), here, other.as_ptr(), libc::RENAME_EXCHANGE) };
    let err = match done {
        0 => return Ok(()),
        _ => io::Error::last_os_error(),
    };
    match err.raw_os_error() {
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => {
            let mut aside = from.as_os_str().to_owned();
            aside.push(".aside");
            let aside = PathBuf::from(aside);
            rename(to, &aside)?;
            rename(from, to)?;
            rename(&aside, from)
        }
        _ => at("rename", from, Err(err)),
    }
}

/// Gives `from` a second name; an error if `to` exists.
pub fn hard_link(from: &Path, to: &Path) -> Result<(), PathError> {
    at("link", to, fault::error("fs.hard_link").and_then(|()| std::fs::hard_link(from, to)))
}

/// Makes a symlink at `link` that says `target`.
pub fn symlink(target: &Path, link: &Path) -> Result<(), PathError> {
    at("link", link, std::os::unix::fs::symlink(target, link))
}

/// Sets permission bits.
pub fn set_mode(path: &Path, mode: u32) -> Result<(), PathError> {
    at(
        "set the mode of",
        path,
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)),
    )
}

/// Sets the time of the last change to now; fails where there is no file.
pub fn touch(path: &Path) -> Result<(), PathError> {
    let touched = File::open(path).and_then(|it| it.set_modified(std::time::SystemTime::now()));
    at("set the time of", path, touched)
}

/// Forces a file's content to the disk.
pub fn sync_file(path: &Path) -> Result<(), PathError> {
    at("sync", path, File::open(path).and_then(|it| it.sync_all()))
}

/// Forces a folder's names to the disk.
pub fn sync_dir(path: &Path) -> Result<(), PathError> {
    sync_file(path)
}

/// Forces everything on the file system that holds `path` to the disk: one call for a bulk write.
pub fn sync_filesystem(path: &Path) -> Result<(), PathError> {
    use std::os::fd::AsRawFd as _;
    at(
        "sync",
        path,
        File::open(path).and_then(|file| {
            // SAFETY: the descriptor is open for the whole call; syncfs takes nothing else.
            match unsafe { libc::syncfs(file.as_raw_fd()) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        }),
    )
}

/// Replaces `path` by `bytes`: temp file beside it, fsync, rename, fsync of the folder.
///
/// An existing file keeps its permission bits; a new one gets `0o666` under the umask.
/// Refuses to replace a symlink or a folder.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), PathError> {
    at(
        "write",
        path,
        (|| {
            let kept = match std::fs::symlink_metadata(path) {
                Ok(meta) if meta.is_file() => Some(meta.permissions()),
                Ok(_) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
                }
                Err(err) if err.kind() == io::ErrorKind::NotFound => None,
                Err(err) => return Err(err),
            };
            let parent =
                path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
            // A short name of its own: the final one may already be 255 bytes long.
            let temp = parent.join(temp_name());
            let written = (|| {
                let mut file = OpenOptions::new().write(true).create_new(true).open(&temp)?;
                file.write_all(bytes)?;
                fault::error("fs.write_atomic")?;
                if let Some(permissions) = kept {
                    file.set_permissions(permissions)?;
                }
                file.sync_all()?;
                std::fs::rename(&temp, path)
            })();
            if written.is_err() {
                // The error that counts is the first one.
                let _removed = std::fs::remove_file(&temp);
            }
            written?;
            File::open(parent)?.sync_all()
        })(),
    )
}

/// The prefix of every temp file this program makes; the watcher and the scan skip it.
pub const TEMP_PREFIX: &str = ".remd-tmp-";

fn temp_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{TEMP_PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_still_written_to_is_removed_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("derived");
        std::fs::create_dir_all(&folder).unwrap();
        let of_it = folder.clone();
        let writer = std::thread::spawn(move || {
            (0..2000).filter(|it| std::fs::write(of_it.join(it.to_string()), "x").is_ok()).count()
        });
        remove_derived(&folder).unwrap();
        writer.join().unwrap();
        assert!(!folder.exists());
        remove_derived(&folder).unwrap();
    }

    #[test]
    fn a_file_with_the_longest_name_can_be_replaced_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n".repeat(255));
        write_atomic(&path, b"one").unwrap();
        set_mode(&path, 0o640).unwrap();
        write_atomic(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap(), b"two");
        assert_eq!(stat(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(read_dir(dir.path()).unwrap().len(), 1, "no temp file stays behind");
    }

    #[test]
    fn a_symlink_is_never_replaced_and_never_read_through() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        write_atomic(&target, b"kept").unwrap();
        symlink(&target, &link).unwrap();
        assert!(write_atomic(&link, b"new").is_err());
        assert!(read_regular(&link, 100).is_err());
        assert_eq!(read(&target).unwrap(), b"kept");
    }
}

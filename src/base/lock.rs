//! One agent a vault: an advisory lock on the vault directory itself.
//!
//! Takes a directory, gives a guard. The kernel drops the lock with its holder, so there is no
//! stale one to clean. Any thread.
//!
//! **Invariant:** the lock follows the directory, not its name: a bind mount, a symlink or a
//! second path to the same vault meets the same lock.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use crate::base::fs::{self, PathError};

/// Holds the lock until dropped.
#[derive(Debug)]
pub struct DirLock {
    file: File,
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing is not enough: a child of ours between its fork and its exec has the file too.
        // What fails is left to the kernel.
        let _closed_soon = self.file.unlock();
    }
}

/// Takes the lock, or gives `None` where somebody holds it.
pub fn try_lock_dir(dir: &Path) -> Result<Option<DirLock>, PathError> {
    let file = fs::open(dir)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(DirLock { file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => {
            let source = io::Error::new(source.kind(), format!("no lock to be had: {source}"));
            Err(PathError { action: "lock", path: dir.to_owned(), source })
        }
    }
}

/// Who holds a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    pub pid: u32,
    pub uid: u32,
}

/// The process that holds the lock of `dir`, where the kernel tells: not across containers, nor on
/// every file system.
pub fn holder(dir: &Path) -> Option<Holder> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = fs::stat(dir).ok()?;
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    let locks = fs::read(Path::new("/proc/locks")).ok()?;
    // `1: FLOCK  ADVISORY  WRITE 123 00:2f:456 0 EOF`
    let pid = String::from_utf8_lossy(&locks).lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next()?;
        let pid = words.nth(2)?;
        (kind == "FLOCK" && words.next() == Some(file.as_str())).then(|| pid.parse().ok())?
    })?;
    let uid = fs::stat(Path::new(&format!("/proc/{pid}"))).ok()?.uid();
    Some(Holder { pid, uid })
}

/// Whether a process is there and does not run: stopped by a signal or a debugger.
pub fn is_suspended(pid: u32) -> bool {
    // `123 (name) T …`: the name may hold anything.
    let stat = fs::read(Path::new(&format!("/proc/{pid}/stat"))).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    let state = stat.rsplit(')').next().and_then(|it| it.trim_start().chars().next());
    matches!(state, Some('T' | 't'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_the_file_keeps_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let lock = try_lock_dir(dir.path()).unwrap().unwrap();
        let inherited = lock.file.try_clone().unwrap();
        drop(lock);
        assert!(try_lock_dir(dir.path()).unwrap().is_some());
        drop(inherited);
    }

    #[test]
    fn a_second_name_of_the_directory_meets_the_same_lock() {
        let dir = tempfile::tempdir().unwrap();
        let vault = dir.path().join("vault");
        fs::create_dir_all(&vault).unwrap();
        fs::symlink(&vault, &dir.path().join("again")).unwrap();
        let held = try_lock_dir(&vault).unwrap();
        assert!(held.is_some());
        // Where the kernel names a holder, it is us.
        assert!(holder(&vault).is_none_or(|it| it.pid == std::process::id()));
        assert!(try_lock_dir(&dir.path().join("again")).unwrap().is_none());
        drop(held);
        assert!(try_lock_dir(&dir.path().join("again")).unwrap().is_some());
    }
}

//! Lock files that can be told from everybody else's.
//!
//! Takes the path that git locks (`index.lock`, `HEAD.lock`), gives a guard. The lock is a second
//! name of a private file below `.git/remd/` that we hold under `flock`: after a kill -9 the
//! same inode without a holder says "ours, and its owner is dead". Committer thread only.
//!
//! **Invariant:** a lock that is not provably ours is never removed.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::clock;
use crate::base::fs::{self, PathError};
use crate::history::shared::Shared;

/// How the private names begin.
const PREFIX: &str = "lock-";
/// How a private file says which inode it stands for, where hard links do not work.
const RECORD: &str = "remd-lock";

/// A lock that somebody holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldLock {
    pub path: PathBuf,
    pub age: Duration,
    /// A process that has it open; git may hold a lock without that.
    pub holder: Option<u32>,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("`{}` is held by another program", .0.path.display())]
    Held(HeldLock),
    #[error(transparent)]
    Disk(#[from] PathError),
}

/// A file that can become a lock: written and synced before anybody has to wait for it.
#[derive(Debug)]
pub struct Draft {
    file: File,
    private: PathBuf,
    shared: Shared,
}

/// Holds a lock until it is dropped, or until its content took the place of what it locks.
#[derive(Debug)]
pub struct OwnLock {
    draft: Draft,
    path: PathBuf,
    /// Keeps the `flock` on the private file where the lock is another inode.
    _record: Option<File>,
    is_there: bool,
}

impl Draft {
    /// An empty one.
    pub fn new(private_dir: &Path, shared: Shared) -> Result<Self, PathError> {
        shared.create_dir_all(private_dir)?;
        let private = private_dir.join(private_name());
        let file = fs::create_new(&private)?;
        // Where flock is not to be had, our remnants are shown like anybody's; nothing else changes.
        let _locked = file.try_lock();
        let draft = Self { file, private, shared };
        shared.adjust(&draft.private)?;
        Ok(draft)
    }

    /// Where it lies now.
    pub fn path(&self) -> &Path {
        &self.private
    }

    /// Replaces its content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PathError> {
        let written = self.file.set_len(0).and_then(|()| self.file.rewind());
        fs::at("write", &self.private, written.and_then(|()| self.file.write_all(bytes)))
    }

    /// Makes it the lock at `path`, trying again until `wait` has passed.
    pub fn take(self, path: &Path, wait: Duration) -> Result<OwnLock, LockError> {
        let mut lock =
            OwnLock { draft: self, path: path.to_owned(), _record: None, is_there: false };
        let deadline = clock::now() + wait;
        let mut pause = Duration::from_millis(2);
        loop {
            match lock.try_link() {
                Ok(()) => {
                    lock.is_there = true;
                    return Ok(lock);
                }
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
                    if clock::now() >= deadline {
                        return Err(LockError::Held(describe(path)));
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
                Err(err) if err.kind() == io::ErrorKind::NotFound => {
                    let parent = path.parent().unwrap_or(Path::new("."));
                    lock.draft.shared.create_dir_all(parent)?;
                    if clock::now() >= deadline {
                        return Err(err.into());
                    }
                }
                Err(err) => return Err(err.into()),
            }
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Err(err) = fs::remove_file(&self.private) {
            tracing::debug!(path = %self.private.display(), %err, "private lock stays behind");
        }
    }
}

impl OwnLock {
    /// Takes an empty lock at `path`, trying again until `wait` has passed.
    pub fn take(
        private_dir: &Path,
        shared: Shared,
        path: &Path,
        wait: Duration,
    ) -> Result<Self, LockError> {
        Draft::new(private_dir, shared)?.take(path, wait)
    }

    /// What will take the locked file's place.
    pub fn file(&mut self) -> &mut File {
        &mut self.draft.file
    }

    /// Gives it the permissions of what it will take the place of, and those that git's setting adds.
    pub fn keep_mode_of(&mut self, target: &Path) -> Result<(), PathError> {
        use std::os::unix::fs::PermissionsExt as _;
        let now = fs::at("stat", &self.path, self.draft.file.metadata())?.permissions();
        if let Ok(Some(old)) = fs::lstat_if_there(target)
            && old.mode() & 0o7777 != now.mode() & 0o7777
        {
            fs::set_mode(&self.path, old.mode() & 0o7777)?;
        }
        self.draft.shared.adjust(&self.path)
    }

    /// Lets the lock's content take the place of what it locks, and releases it.
    pub fn rename_onto(mut self, target: &Path) -> Result<(), PathError> {
        fs::rename(&self.path, target)?;
        self.is_there = false;
        Ok(())
    }

    fn try_link(&mut self) -> Result<(), PathError> {
        match fs::hard_link(&self.draft.private, &self.path) {
            Err(err)
                if !matches!(
                    err.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                ) =>
            {
                // No hard links here (FAT, some network file systems): an ordinary lock with the
                // same content, and a note of its inode.
                let content = fs::read(&self.draft.private)?;
                let mut file = fs::create_new(&self.path)?;
                self.is_there = true;
                self.draft.shared.adjust(&self.path)?;
                let written = file.write_all(&content).and_then(|()| file.sync_data());
                fs::at("write", &self.path, written)?;
                let meta = fs::at("stat", &self.path, file.metadata())?;
                self.draft.write(format!("{RECORD} {} {}\n", meta.dev(), meta.ino()).as_bytes())?;
                self._record = Some(std::mem::replace(&mut self.draft.file, file));
                Ok(())
            }
            result => result,
        }
    }
}

impl Drop for OwnLock {
    fn drop(&mut self) {
        if self.is_there
            && let Err(err) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %err, "lock stays behind");
        }
    }
}

/// The lock at `path` as a person wants to know it.
pub fn describe(path: &Path) -> HeldLock {
    let age = fs::lstat(path)
        .ok()
        .and_then(|meta| meta.modified().ok())
        .and_then(|it| clock::wall().duration_since(it).ok())
        .unwrap_or_default();
    HeldLock { path: path.to_owned(), age, holder: holder_of(path) }
}

/// Waits until nobody holds the lock at `path`, or until `wait` has passed.
pub fn wait_until_free(path: &Path, wait: Duration) {
    let deadline = clock::now() + wait;
    while fs::lstat_if_there(path).is_ok_and(|it| it.is_some()) && clock::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The locks among `paths` that are there.
pub fn present(paths: impl IntoIterator<Item = PathBuf>) -> Vec<HeldLock> {
    paths
        .into_iter()
        .filter(|it| fs::lstat_if_there(it).is_ok_and(|meta| meta.is_some()))
        .map(|it| describe(&it))
        .collect()
}

/// Removes the locks of ours whose owner is dead, and says which.
///
/// `known` are the paths where a lock of ours may stand; below `refs` any `*.lock` may.
pub fn clear_leftovers(
    private_dir: &Path,
    known: &[PathBuf],
    refs: &Path,
) -> Result<Vec<PathBuf>, PathError> {
    let mut cleared = Vec::new();
    if fs::lstat_if_there(private_dir)?.is_none() {
        return Ok(cleared);
    }
    for entry in fs::read_dir(private_dir)? {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let private = entry.path();
        let Ok(file) = fs::open_regular(&private) else { continue };
        if file.try_lock().is_err() {
            continue; // Its owner lives.
        }
        let (identity, linked) = identity_of(&file, &private)?;
        let found = known
            .iter()
            .find(|it| is_same(it, identity))
            .cloned()
            .or_else(|| linked.then(|| find_lock(refs, identity, 0)).flatten());
        if let Some(path) = found {
            fs::remove_file(&path)?;
            cleared.push(path);
        }
        fs::remove_file(&private)?;
    }
    Ok(cleared)
}

/// The inode that a private file stands for, and whether it has a second name.
fn identity_of(file: &File, path: &Path) -> Result<((u64, u64), bool), PathError> {
    let meta = fs::at("stat", path, file.metadata())?;
    if meta.nlink() == 1 {
        let mut text = String::new();
        let read = file.take(128).read_to_string(&mut text);
        let mut words = text.split_whitespace();
        if read.is_ok()
            && words.next() == Some(RECORD)
            && let (Some(Ok(dev)), Some(Ok(ino))) =
                (words.next().map(str::parse), words.next().map(str::parse))
        {
            return Ok(((dev, ino), true));
        }
    }
    Ok(((meta.dev(), meta.ino()), meta.nlink() > 1))
}

fn is_same(path: &Path, identity: (u64, u64)) -> bool {
    fs::lstat(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == identity)
}

fn find_lock(dir: &Path, identity: (u64, u64), depth: usize) -> Option<PathBuf> {
    fs::read_dir(dir).ok()?.into_iter().find_map(|entry| {
        let path = entry.path();
        let is_dir = entry.file_type().is_ok_and(|it| it.is_dir());
        if is_dir && depth < 16 {
            find_lock(&path, identity, depth + 1)
        } else {
            (path.extension().is_some_and(|it| it == "lock") && is_same(&path, identity))
                .then_some(path)
        }
    })
}

/// A process that has `path` open, as far as we may look.
pub fn holder_of(path: &Path) -> Option<u32> {
    let path = fs::canonicalize(path).ok()?;
    for entry in fs::read_dir(Path::new("/proc")).ok()? {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(&entry.path().join("fd")) else { continue };
        if descriptors.iter().any(|it| fs::read_link(&it.path()).is_ok_and(|to| to == path)) {
            return Some(pid);
        }
    }
    None
}

fn private_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // A pid comes back after a crash; the time keeps the names apart.
    let seconds = clock::unix_seconds();
    format!("{PREFIX}{}-{seconds}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_there_while_held_and_a_second_one_says_who() {
        let dir = tempfile::tempdir().unwrap();
        let (private, path) = (dir.path().join("remd"), dir.path().join("index.lock"));
        let lock = OwnLock::take(&private, Shared::default(), &path, Duration::ZERO).unwrap();
        let second = OwnLock::take(&private, Shared::default(), &path, Duration::ZERO);
        match second {
            Err(LockError::Held(held)) => {
                assert_eq!(held.path, path);
                assert_eq!(held.holder, None.or(holder_of(&path)));
            }
            other => panic!("{other:?}"),
        }
        drop(lock);
        assert!(!path.exists());
        assert_eq!(private.read_dir().unwrap().count(), 0);
    }

    #[test]
    fn the_content_takes_the_place_of_what_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        let (private, path) = (dir.path().join("remd"), dir.path().join("index.lock"));
        let mut lock = OwnLock::take(&private, Shared::default(), &path, Duration::ZERO).unwrap();
        lock.file().write_all(b"new").unwrap();
        lock.rename_onto(&dir.path().join("index")).unwrap();
        assert_eq!(fs::read(&dir.path().join("index")).unwrap(), b"new");
        assert!(!path.exists());
        assert_eq!(private.read_dir().unwrap().count(), 0);
    }

    #[test]
    fn only_our_own_lock_of_a_dead_owner_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let private = dir.path().join("remd");
        let refs = dir.path().join("refs");
        let index = dir.path().join("index.lock");
        let branch = refs.join("heads/main.lock");
        let foreign = dir.path().join("HEAD.lock");
        fs::create_dir_all(&refs.join("heads")).unwrap();
        fs::create_dir_all(&private).unwrap();
        let known = [index.clone(), foreign.clone()];
        fs::create_new(&foreign).unwrap();

        let alive = OwnLock::take(&private, Shared::default(), &index, Duration::ZERO).unwrap();
        assert!(clear_leftovers(&private, &known, &refs).unwrap().is_empty());
        assert!(index.exists(), "its owner lives");
        drop(alive);

        // What a kill -9 leaves: both names, no flock.
        for (n, path) in [&index, &branch].into_iter().enumerate() {
            let name = private.join(format!("lock-1-1-{n}"));
            fs::create_new(&name).unwrap();
            fs::hard_link(&name, path).unwrap();
        }
        let cleared = clear_leftovers(&private, &known, &refs).unwrap();
        assert_eq!(cleared.len(), 2);
        assert!(!index.exists() && !branch.exists() && foreign.exists());
        assert_eq!(private.read_dir().unwrap().count(), 0);
    }
}

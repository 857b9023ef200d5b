//! What the disk says of a file, as far as it tells one state from another.
//!
//! Takes metadata, gives a [`Seen`] that compares with another one and with git's index. Any
//! thread.
//!
//! **Invariant:** two looks that are the same, the first of them no longer fresh, saw the same
//! content.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gix::index::entry::{Stat, stat};

use crate::base::clock;
use crate::base::fs::{self, PathError};
use crate::history::place::Place;
use crate::history::spelling;
use crate::vault::VaultPath;

/// What `lstat` said, as far as it tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    changed: (i64, i64),
    pub born: Option<(i64, i64)>,
    /// Changed so shortly before that a second change may leave the same time.
    is_fresh: bool,
}

impl Seen {
    pub fn new(meta: &Metadata) -> Self {
        let changed = (meta.ctime(), meta.ctime_nsec());
        let mut seen = Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed,
            born: meta.created().ok().and_then(since_epoch),
            is_fresh: false,
        };
        seen.is_fresh = seen.tick_left().is_some();
        seen
    }

    /// How long until a further change is sure to leave another time than this one.
    ///
    /// By the time of the last status change: the kernel sets it, and no program can.
    pub fn tick_left(&self) -> Option<Duration> {
        let age = self.age()?;
        // Without fractions the file system may count in whole or double seconds.
        let tick = Duration::from_millis(if self.changed.1 == 0 { 2_000 } else { 20 });
        tick.checked_sub(age).filter(|it| !it.is_zero())
    }

    /// How long ago its status changed; `None` where that lies ahead, as after the clock was put
    /// back.
    pub fn age(&self) -> Option<Duration> {
        let (seconds, nanos) = self.changed;
        let changed = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        clock::wall().duration_since(UNIX_EPOCH + changed).ok()
    }

    pub fn is_link(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFLNK
    }

    pub fn is_executable(&self) -> bool {
        self.mode & libc::S_IXUSR != 0
    }

    /// Whether the file is still the one that was seen.
    pub fn is_same(&self, other: &Self) -> bool {
        Self { is_fresh: false, ..*self } == Self { is_fresh: false, ..*other }
    }

    /// Whether a file that looks like `now` surely has the content that it had then.
    pub fn proves(&self, now: &Self) -> bool {
        !self.is_fresh && self.is_same(now)
    }

    /// As the index keeps it: the low 32 bits of each, as git does.
    pub fn stat(&self) -> Stat {
        let time = |(seconds, nanos): (i64, i64)| stat::Time {
            secs: low(seconds as u64),
            nsecs: low(nanos as u64),
        };
        Stat {
            mtime: time(self.modified),
            ctime: time(self.changed),
            dev: low(self.device),
            ino: low(self.inode),
            uid: self.owner.0,
            gid: self.owner.1,
            // Size 0 makes git look at the content.
            size: if self.is_fresh { 0 } else { low(self.size) },
        }
    }

    /// The same with the size as it is, for comparing.
    pub fn comparable(&self) -> Stat {
        Stat { size: low(self.size), ..self.stat() }
    }
}

/// Whether the disk still is what a look found: nothing at all, or the very same file.
pub(super) fn is_unchanged(place: &Place, path: &VaultPath, seen: Option<&Seen>) -> bool {
    match (fs::lstat_if_there(&place.disk(path)), seen) {
        (Ok(None), None) => true,
        (Ok(Some(meta)), None) => {
            meta.is_dir() || leads_elsewhere(place, path) || is_spelt_otherwise(place, path)
        }
        (Ok(Some(meta)), Some(seen)) => Seen::new(&meta).is_same(seen),
        _ => false,
    }
}

/// Whether the path became something else between two steps.
pub(super) fn is_swapped(err: &PathError) -> bool {
    err.is_absent()
        || err.source.raw_os_error() == Some(libc::ELOOP)
        || err.kind() == std::io::ErrorKind::InvalidInput
}

fn low(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

fn since_epoch(time: SystemTime) -> Option<(i64, i64)> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some((i64::try_from(since.as_secs()).ok()?, i64::from(since.subsec_nanos())))
}

/// Whether the disk has the path, or a folder on the way, in another spelling only.
fn is_spelt_otherwise(place: &Place, path: &VaultPath) -> bool {
    std::iter::successors(Some(path.clone()), VaultPath::parent)
        .any(|it| spelling::is_spelt_otherwise(&place.disk(&it)))
}

/// Whether a folder on the way to `path` is a symlink, so that what `lstat` finds is not there.
fn leads_elsewhere(place: &Place, path: &VaultPath) -> bool {
    std::iter::successors(path.parent(), VaultPath::parent)
        .any(|it| fs::lstat(&place.disk(&it)).is_ok_and(|meta| !meta.is_dir()))
}

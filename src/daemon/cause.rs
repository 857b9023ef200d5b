//! What may have ended a failure, asked cheaply.
//!
//! Takes a folder that could not be written or read, gives a [`Pulse`]: how the disk and the files
//! are now. Whoever failed compares it with the one of then, and tries again early where
//! something got better. Blocking (some hundred `stat`s and one small file), any thread.
//!
//! **Invariant:** only asked while something is wrong; the pauses of a [`Backoff`] grow whatever
//! the pulse says, so that a pulse that never holds still costs no loop.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::base::trouble::Trouble;
use crate::base::{access, clock, fs};

/// What ends a trouble that was met at one of these places: what is closed there is named.
pub fn remedy(trouble: Trouble, places: &[&Path]) -> String {
    let closed = (trouble == Trouble::NotAllowed).then(|| access::remedy(places)).flatten();
    closed.unwrap_or_else(|| trouble.hint().to_owned())
}

/// How the place of a failure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pulse {
    /// Whether a file can be made there.
    can_write: bool,
    free: u64,
    /// One number over the names and times of what lies there.
    print: u64,
}

/// So much more room is worth a try.
const ROOM: u64 = 16 << 20;

impl Pulse {
    /// Of a git directory or a folder of derived state; nothing there is a state too.
    pub fn of(dir: &Path) -> Self {
        Self::taken(dir, fs::try_write_in(dir).is_ok())
    }

    fn taken(dir: &Path, can_write: bool) -> Self {
        Self { can_write, free: fs::free_bytes(dir).unwrap_or(0), print: print(dir) }
    }

    /// Whether something changed since `then` that may have been the cause.
    pub fn eased(&self, then: &Self) -> bool {
        self.can_write && !then.can_write
            || self.free > then.free.saturating_add(ROOM)
            || then.free < ROOM && self.free > then.free.saturating_mul(2)
            || self.print != then.print
    }
}

/// The pauses between tries, growing.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// The next pause.
    pause: Duration,
    least: Duration,
    most: Duration,
    /// When it is time, and how the place was when it failed.
    wait: Option<(Instant, Pulse)>,
}

/// How often the pulse is taken while something is wrong.
pub const LOOK: Duration = Duration::from_secs(2);

/// The longest pause where a folder may be filled again bit by bit.
const ELSEWHERE: Duration = Duration::from_secs(10);

impl Backoff {
    pub fn new(least: Duration, most: Duration) -> Self {
        Self { pause: least, least, most, wait: None }
    }

    /// It failed: the next try is a pause away, twice as long as the last one.
    pub fn failed(&mut self, dir: &Path) {
        self.wait = Some((clock::now() + self.pause, Pulse::of(dir)));
        self.pause = (self.pause * 2).min(self.most);
    }

    /// The same where somebody else's folder may be in the place: nothing is written there, and
    /// what comes into it shows in no pulse.
    pub fn failed_elsewhere(&mut self, dir: &Path) {
        self.wait = Some((clock::now() + self.pause, Pulse::taken(dir, true)));
        self.pause = (self.pause * 2).min(self.most).min(ELSEWHERE);
    }

    /// It went well.
    pub fn over(&mut self) {
        self.pause = self.least;
        self.wait = None;
    }

    /// It is tried again now: how that goes says what comes next.
    pub fn begin(&mut self) {
        self.wait = None;
    }

    /// Whether something failed and waits.
    pub fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// When to ask [`Self::is_due`] again; `None` where nothing failed.
    pub fn look_at(&self) -> Option<Instant> {
        self.wait.map(|it| it.0.min(clock::now() + LOOK))
    }

    /// Whether it is time to try again: the pause is over, or the place got better.
    pub fn is_due(&mut self, dir: &Path) -> bool {
        let Some((until, then)) = self.wait else { return false };
        if clock::now() >= until {
            return true;
        }
        // Where writing was not what failed, the disk is left alone.
        let can_write = then.can_write || fs::try_write_in(dir).is_ok();
        let now = Pulse::taken(dir, can_write);
        let eased = now.eased(&then);
        if eased {
            tracing::debug!(dir = %dir.display(), "what failed may work again");
        }
        eased
    }
}

/// The folder, the files in it that matter, and the folders of a git directory's objects.
fn print(dir: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut add = |path: &Path, with_times: bool| {
        let Ok(meta) = fs::lstat(path) else { return };
        path.hash(&mut hasher);
        (meta.ino(), meta.mode(), meta.uid()).hash(&mut hasher);
        if with_times {
            (meta.len(), meta.mtime(), meta.mtime_nsec()).hash(&mut hasher);
        }
    };
    // Its own time moves with our looking whether it can be written.
    add(dir, false);
    for name in ["HEAD", "HEAD.lock", "index", "index.lock", "packed-refs", "config"] {
        add(&dir.join(name), true);
    }
    for folder in ["objects", "objects/pack", "refs/heads"] {
        let mut inside: Vec<_> = fs::read_dir(&dir.join(folder))
            .unwrap_or_default()
            .iter()
            .map(|it| it.path())
            .collect();
        inside.sort();
        for path in inside {
            add(&path, true);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_grow_and_a_better_place_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        std::fs::create_dir_all(git.join("objects/ab")).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let minute = Duration::from_secs(60);
        let mut backoff = Backoff::new(minute, 8 * minute);
        assert!(!backoff.is_due(&git) && !backoff.is_waiting());
        for _ in 0..9 {
            backoff.failed(&git);
            assert!(!backoff.is_due(&git), "nothing changed");
        }
        assert_eq!(backoff.pause, 8 * minute);
        for mend in [
            &|| std::fs::write(git.join("HEAD"), "ref: refs/heads/other\n").unwrap(),
            &|| std::fs::write(git.join("objects/ab/cdef"), "mended").unwrap(),
            &|| std::fs::remove_dir_all(&git).unwrap(),
            &|| std::fs::create_dir(&git).unwrap(),
        ] as [&dyn Fn(); 4]
        {
            backoff.failed(&git);
            mend();
            assert!(backoff.is_due(&git), "something changed");
        }
        backoff.over();
        assert!(!backoff.is_waiting() && backoff.pause == minute);
    }

    #[test]
    fn room_is_noticed() {
        let full = Pulse { can_write: false, free: 0, print: 1 };
        assert!(!full.eased(&full));
        assert!(Pulse { can_write: true, ..full }.eased(&full));
        assert!(Pulse { free: 1 << 20, ..full }.eased(&full));
        let some = Pulse { can_write: true, free: 100 << 20, print: 1 };
        assert!(!Pulse { free: 101 << 20, ..some }.eased(&some));
        assert!(Pulse { free: 200 << 20, ..some }.eased(&some));
    }
}

//! The watcher as the house sees it: started once, asked how it is, flushed.
//!
//! Takes the vault's folder and a sink for [`Hints`]; any thread may hold it. What goes on behind
//! is in `worker`.
//!
//! **Invariant:** the sink is called from one thread, never while an event waits for a lock, and
//! [`Watcher::flush`] returns `true` only after it got the hints for all that was on disk before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::fs::{self, PathError};
use crate::base::latest::Latest;
use crate::vault::VaultPath;
use crate::watch::admit::House;
use crate::watch::filter::Filter;
use crate::watch::hints::Hints;
use crate::watch::limits::WatchLimit;
use crate::watch::settle::Settle;
use crate::watch::tap::{Inbox, MARKER_PREFIX, marker_name, read_marker};
use crate::watch::worker::Worker;

/// Says whether Git ignores a folder. Asked anew whenever a `.gitignore` changes.
pub type IgnoredDir = Box<dyn FnMut(&VaultPath) -> bool + Send>;

/// Takes hints with the times of the first and the last event behind them. It must not block.
pub type Sink = Box<dyn Fn(Hints, Settle) + Send>;

/// How the watcher is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchStats {
    pub mode: WatchMode,
    /// Folders with a watch.
    pub watches: usize,
    /// The limit that is met first; `None` where the system does not say.
    pub limit: Option<WatchLimit>,
    /// Whether the kernel's events still arrive; polling needs none.
    pub alive: bool,
    /// When a thread that had ended was replaced last.
    pub replaced: Option<Instant>,
}

/// How changes are noticed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchMode {
    /// By the kernel's events.
    Inotify,
    /// By looking at every file from time to time, as watching failed; tried again every minute.
    Polling { why: String, remedy: String },
    /// The same from the start: what the vault lies on raises no events for the writes of others.
    PollingRemote,
    /// Not at all: the vault's folder is gone. Comes back with it.
    Off { why: String },
}

/// Watches a vault until dropped.
#[derive(Debug)]
pub struct Watcher {
    inbox: Arc<Inbox>,
    stats: Latest<WatchStats>,
    callers: Arc<Callers>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts watching: on return every folder has its watch, or the vault is polled instead.
    ///
    /// No hints are given for what is there already; the caller scans after this returns. `git_dirs`
    /// are the git directory and, where it differs, the one that holds the refs; they need not
    /// exist yet. Fails only where `root` is not to be had.
    pub fn start(
        root: &Path,
        git_dirs: &[PathBuf],
        filter: Filter,
        is_ignored_dir: IgnoredDir,
        sink: Sink,
    ) -> Result<Self, PathError> {
        let house = House::at(root, filter)?;
        let git_dirs: Vec<PathBuf> =
            git_dirs.iter().map(|it| fs::canonicalize(it).unwrap_or_else(|_| it.clone())).collect();
        remove_old_markers(&git_dirs);
        let inbox = Arc::new(Inbox::new(house, git_dirs));
        let callers = Arc::new(Callers::default());
        let (worker, stats) =
            Worker::start(Arc::clone(&inbox), Arc::clone(&callers), is_ignored_dir, sink);
        let thread = std::thread::Builder::new()
            .name("watcher".into())
            .spawn(move || worker.run())
            .map_err(|source| PathError {
                action: "start a thread to watch",
                path: root.to_owned(),
                source,
            })?;
        Ok(Self { inbox, stats, callers, thread: Some(thread) })
    }

    /// How the watcher is, as last known.
    pub fn stats(&self) -> WatchStats {
        self.stats.get()
    }

    /// Where the watcher says how it is, for whoever follows it.
    pub fn mailbox(&self) -> Latest<WatchStats> {
        self.stats.clone()
    }

    /// Hands over the hints for every change that is on disk now, without waiting for quiet.
    ///
    /// A marker in the git directory follows the changes through the kernel's queue; when it has
    /// come by, so have they. `false` where it did not within `limit`: the caller scans.
    pub fn flush(&self, limit: Duration) -> bool {
        let until = clock::now() + limit;
        let (number, done) = self.callers.join();
        let marker = match (self.stats.get().mode, self.inbox.git_dirs.first()) {
            (WatchMode::Inotify, Some(dir)) => {
                let marker = dir.join(marker_name(number));
                if let Err(err) = fs::create_new(&marker) {
                    tracing::debug!(error = %err, "no marker could be made");
                    self.callers.leave(number);
                    return false;
                }
                Some(marker)
            }
            // Without events there is nothing to wait behind: the worker looks for itself.
            _ => {
                self.inbox.tell(|it| it.called = true);
                None
            }
        };
        let done =
            done.recv_timeout(until.saturating_duration_since(clock::now())).is_ok_and(|it| it);
        self.callers.leave(number);
        if let Some(marker) = marker
            && let Err(err) = fs::remove_file(&marker)
        {
            tracing::debug!(error = %err, "a marker stays behind until the next start");
        }
        done
    }

    /// Hands over the hints for every event that the kernel has now, within `limit`. Where nothing
    /// moved it costs two system calls and nothing on the disk.
    ///
    /// A reading of the vault's folder follows them through the kernel's queue. Another's reading
    /// may be taken for it, and a change be missed that way: what must not is for [`Self::flush`].
    pub fn catch_up(&self, limit: Duration) -> bool {
        if self.stats.get().mode != WatchMode::Inotify {
            return false;
        }
        let until = clock::now() + limit;
        let left = || until.saturating_duration_since(clock::now());
        let seen = self.inbox.pongs();
        if fs::open(&self.inbox.house.root).is_err() || !self.inbox.wait_pong(seen, left()) {
            return false;
        }
        if !self.inbox.waits() {
            return true;
        }
        let (number, done) = self.callers.join_probe();
        self.inbox.tell(|it| it.called = true);
        let is_done = done.recv_timeout(left()).is_ok();
        self.callers.leave(number);
        is_done
    }

    /// Whether the threads behind answer within `limit`; one that does not is replaced.
    pub fn check_alive(&self, limit: Duration) -> bool {
        let until = clock::now() + limit;
        let left = || until.saturating_duration_since(clock::now());
        if self.stats.get().mode == WatchMode::Inotify {
            let seen = self.inbox.pongs();
            let asked = fs::open(&self.inbox.house.root);
            if asked.is_err() || !self.inbox.wait_pong(seen, left()) {
                self.inbox.tell(|it| it.suspect = true);
                return false;
            }
        }
        let (number, done) = self.callers.join_probe();
        self.inbox.tell(|it| it.called = true);
        let alive = done.recv_timeout(left()).is_ok();
        self.callers.leave(number);
        alive
    }

    #[cfg(test)]
    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.inbox.tell(|it| it.stop = true);
        if let Some(thread) = self.thread.take() {
            // It caught its own panics; there is nobody left to tell.
            let _ended = thread.join();
        }
    }
}

/// Who waits for the worker.
#[derive(Debug, Default)]
pub(super) struct Callers {
    last: AtomicU64,
    waiting: Mutex<BTreeMap<u64, (Wish, SyncSender<bool>)>>,
}

/// What a caller waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// That its marker came by.
    Flush,
    /// Any answer.
    Probe,
}

impl Callers {
    fn join(&self) -> (u64, Receiver<bool>) {
        self.add(Wish::Flush)
    }

    fn join_probe(&self) -> (u64, Receiver<bool>) {
        self.add(Wish::Probe)
    }

    fn add(&self, wish: Wish) -> (u64, Receiver<bool>) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = sync_channel(1);
        self.lock().insert(number, (wish, sender));
        (number, receiver)
    }

    fn leave(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Those who wait now for `wish`.
    pub fn present(&self, wish: Wish) -> Vec<u64> {
        self.lock().iter().filter(|(_, it)| it.0 == wish).map(|(it, _)| *it).collect()
    }

    /// Lets these go.
    pub fn answer(&self, numbers: &[u64], done: bool) {
        let mut waiting = self.lock();
        for (_, sender) in numbers.iter().filter_map(|it| waiting.remove(it)) {
            // Whoever gave up meanwhile scans.
            let _gave_up = sender.try_send(done);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, (Wish, SyncSender<bool>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the markers of processes that were killed.
fn remove_old_markers(git_dirs: &[PathBuf]) {
    let is_nobodys = |name: &str| match read_marker(name) {
        Some((process, _)) => {
            process == std::process::id()
                || fs::lstat(&Path::new("/proc").join(process.to_string())).is_err()
        }
        None => name.starts_with(MARKER_PREFIX),
    };
    for dir in git_dirs {
        for entry in fs::read_dir(dir).unwrap_or_default() {
            if is_nobodys(&entry.file_name().to_string_lossy())
                && let Err(err) = fs::remove_file(&entry.path())
            {
                tracing::debug!(error = %err, "an old marker stays behind");
            }
        }
    }
}

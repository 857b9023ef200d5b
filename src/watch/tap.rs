//! The only file that knows notify: kernel events in, an [`Inbox`] of names out.
//!
//! notify's thread calls [`Inbox::note`] for each event; it adds a name to a set under a lock that
//! nobody holds for long, and goes back. The first names after a quiet while are taken at once,
//! more of a burst are gathered for [`GATHER`]. The debouncer's thread calls [`Inbox::fall_due`]
//! when a burst has been still for [`DEBOUNCE`].
//!
//! The names are taken before the debouncer, because it folds some away: a note saved atomically
//! and removed 50 ms later is "created and removed" to it, that is, nothing, although the note was
//! there before. What is used of it is when, not what.
//!
//! **Invariant:** every event that is not our own reading or a temp file's leaves a name in the
//! inbox, or `overflow` where there were too many.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use notify_debouncer_full::notify::event::{
    AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind, RenameMode,
};
use notify_debouncer_full::notify::{
    self, Config, ErrorKind, Event, EventHandler, EventKind, RecommendedWatcher, RecursiveMode,
    WatcherKind,
};
use notify_debouncer_full::{DebounceEventResult, Debouncer, NoCache, new_debouncer_opt};

use crate::base::fs::TEMP_PREFIX;
use crate::base::{clock, fault};
use crate::vault::VaultPath;
use crate::watch::admit::House;
use crate::watch::settle::Settle;

/// How long a burst must be still before its names are handed on.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// How often the debouncer's thread looks, also when nothing happens: this is what idling costs.
/// It allows no longer one. The quiet window does not suffer, it counts from the events' times.
const TICK: Duration = DEBOUNCE;

/// Names are handed on at once, and then gathered for so long: a burst costs little, and the first
/// edit after quiet is known as soon as it is there. When it is committed is no matter of this.
pub(super) const GATHER: Duration = Duration::from_millis(50);

/// More names than this are not worth keeping apart.
const MANY: usize = 50_000;

/// The start of a marker's file name in the git directory; the agent's process and a number follow.
/// Other vaults in the same repository have agents, too.
pub(super) const MARKER_PREFIX: &str = "remd-marker-";

/// A marker's file name.
pub(super) fn marker_name(number: u64) -> String {
    format!("{MARKER_PREFIX}{}-{number}", std::process::id())
}

/// The process whose marker it is, and its number.
pub(super) fn read_marker(name: &str) -> Option<(u32, u64)> {
    let (process, number) = name.strip_prefix(MARKER_PREFIX)?.split_once('-')?;
    Some((process.parse().ok()?, number.parse().ok()?))
}

/// What was noticed since the last look.
#[derive(Debug, Default)]
pub(super) struct Noticed {
    /// Names that may differ.
    pub names: BTreeSet<VaultPath>,
    /// Names that may be folders which came, went or changed: to be looked at without waiting.
    pub folders: BTreeSet<VaultPath>,
    /// When the first and the last of them were noticed.
    pub span: Option<Settle>,
    /// The debouncer says that it is time.
    pub due: bool,
    /// Events were lost.
    pub overflow: bool,
    /// More than [`MANY`] names, or the ignore rules at the top changed.
    pub rescan: bool,
    /// Something moved in the git directory,
    pub git: bool,
    /// and it was a folder.
    pub git_folders: bool,
    /// Something happened to the vault's folder itself.
    pub root: bool,
    /// Markers that came by.
    pub markers: Vec<u64>,
    /// Somebody waits for the worker to look at its callers.
    pub called: bool,
    /// The notify thread did not answer.
    pub suspect: bool,
    pub stop: bool,
}

impl Noticed {
    /// Whether there is something to hand on.
    fn waits(&self) -> bool {
        self.span.is_some() || self.overflow || self.rescan
    }

    fn is_urgent(&self) -> bool {
        self.due
            || !self.folders.is_empty()
            || self.overflow
            || self.rescan
            || self.git_folders
            || self.root
            || !self.markers.is_empty()
            || self.called
            || self.suspect
            || self.stop
    }
}

/// Where the threads of notify leave what they noticed.
#[derive(Debug)]
pub(super) struct Inbox {
    pub house: House,
    pub git_dirs: Vec<PathBuf>,
    noticed: Mutex<Noticed>,
    /// Whether the worker has taken what it has not handed on yet.
    is_held: AtomicBool,
    wake: Condvar,
    pongs: Mutex<u64>,
    answered: Condvar,
    #[cfg(test)]
    pub panic_at: Mutex<Option<VaultPath>>,
}

impl Inbox {
    pub fn new(house: House, git_dirs: Vec<PathBuf>) -> Self {
        Self {
            house,
            git_dirs,
            noticed: Mutex::default(),
            is_held: AtomicBool::new(false),
            wake: Condvar::new(),
            pongs: Mutex::new(0),
            answered: Condvar::new(),
            #[cfg(test)]
            panic_at: Mutex::default(),
        }
    }

    /// Everything noticed, as soon as something cannot wait, at `free_at` where there are names, or
    /// at `until`.
    pub fn take(&self, until: Instant, free_at: Instant) -> Noticed {
        let mut noticed = self.lock();
        loop {
            let until = match noticed.span {
                Some(span) => until.min(span.first.max(free_at)),
                None => until,
            };
            let left = until.saturating_duration_since(clock::now());
            if noticed.is_urgent() || left.is_zero() {
                if noticed.waits() {
                    self.is_held.store(true, Ordering::SeqCst);
                }
                return std::mem::take(&mut noticed);
            }
            noticed =
                self.wake.wait_timeout(noticed, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Changes what is noticed and wakes the worker.
    pub fn tell(&self, change: impl FnOnce(&mut Noticed)) {
        change(&mut self.lock());
        self.wake.notify_one();
    }

    /// Says that all that was taken is handed on.
    pub fn handed_on(&self) {
        self.is_held.store(false, Ordering::SeqCst);
    }

    /// Whether something was noticed that is not handed on yet.
    pub fn waits(&self) -> bool {
        let noticed = self.lock();
        noticed.waits() || self.is_held.load(Ordering::SeqCst)
    }

    /// How often the notify thread has answered.
    pub fn pongs(&self) -> u64 {
        *self.pongs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the notify thread answers again after `seen`, within `limit`.
    pub fn wait_pong(&self, seen: u64, limit: Duration) -> bool {
        let pongs = self.pongs.lock().unwrap_or_else(PoisonError::into_inner);
        let (pongs, _) = self
            .answered
            .wait_timeout_while(pongs, limit, |it| *it == seen)
            .unwrap_or_else(PoisonError::into_inner);
        *pongs != seen
    }

    /// Stops every thread that has something to say, so that a test can flood the kernel's queue.
    #[cfg(test)]
    pub fn hold(&self) -> MutexGuard<'_, Noticed> {
        self.lock()
    }

    fn fall_due(&self, result: DebounceEventResult) {
        if let Err(errors) = &result {
            for err in errors {
                tracing::warn!(error = %err, "the watcher met an error");
            }
        }
        self.tell(|it| {
            it.due = true;
            it.overflow |= result.is_err();
        });
    }

    /// Takes one event down; says whether the debouncer should hear of it.
    fn note(&self, event: &Event) -> bool {
        fault::thread_end("watcher.event");
        if event.need_rescan() {
            self.tell(|it| it.overflow = true);
            return true;
        }
        let Some(path) = event.paths.first() else { return false };
        let may_be_folder = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
            EventKind::Access(_) => {
                // Our own reading comes back as these. One is a question: see `Engine::ping`.
                if *path == self.house.root {
                    *self.pongs.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    self.answered.notify_all();
                }
                return false;
            }
            // Said before as `From` and `To`.
            EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => return false,
            EventKind::Create(CreateKind::File)
            | EventKind::Remove(RemoveKind::File)
            | EventKind::Modify(ModifyKind::Data(_)) => false,
            _ => true,
        };
        if let Some(dir) = self.git_dirs.iter().find(|it| path.starts_with(it)) {
            self.note_git(dir, path, event.kind, may_be_folder)
        } else {
            self.note_vault(path, event.kind, may_be_folder)
        }
    }

    fn note_vault(&self, path: &Path, kind: EventKind, may_be_folder: bool) -> bool {
        if *path == self.house.root {
            if matches!(kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
                self.tell(|it| it.root = true);
            }
            return false;
        }
        let Some(name) = self.house.name_of(path) else {
            // A `.git` that is not ours came or went: its folder became another repository or
            // ceased to be one.
            if let Some(folder) = path.parent().and_then(|it| self.house.name_of(it)) {
                self.add(None, Some(folder), false);
            }
            return false;
        };
        #[cfg(test)]
        if self.panic_at.lock().is_ok_and(|it| it.as_ref() == Some(&name)) {
            panic!("told to");
        }
        if self.house.filter.drops_folder(&name) {
            return false;
        }
        let folder = may_be_folder.then(|| name.clone());
        if self.house.filter.drops_file(&name) {
            // A folder may be named like a temp file.
            if folder.is_some() {
                self.add(None, folder, false);
            }
            return false;
        }
        if name.file_name() == b".gitignore" {
            // What was ignored may not be any more, and the other way round.
            let parent = name.parent();
            let top = parent.is_none();
            self.add(Some(name), parent, top);
        } else {
            self.add(Some(name), folder, false);
        }
        true
    }

    fn add(&self, name: Option<VaultPath>, folder: Option<VaultPath>, rescan: bool) {
        let now = Settle::at(clock::now());
        let mut noticed = self.lock();
        let first = noticed.span.is_none();
        let urgent = folder.is_some() || rescan;
        noticed.span = Some(noticed.span.map_or(now, |it| it.merge(now)));
        noticed.names.extend(name);
        noticed.folders.extend(folder);
        noticed.rescan |= rescan;
        if noticed.names.len() > MANY {
            noticed.names.clear();
            noticed.rescan = true;
        }
        drop(noticed);
        if first || urgent {
            self.wake.notify_one();
        }
    }

    fn note_git(&self, dir: &Path, path: &Path, kind: EventKind, may_be_folder: bool) -> bool {
        let name = path.strip_prefix(dir).ok().and_then(Path::to_str).unwrap_or_default();
        if name.starts_with(MARKER_PREFIX) {
            if matches!(kind, EventKind::Create(_))
                && let Some((process, number)) = read_marker(name)
                && process == std::process::id()
            {
                self.tell(|it| it.markers.push(number));
            }
            return false;
        }
        let gone = matches!(
            kind,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From))
        );
        // A lock that is taken says nothing yet; one that is let go says "look again".
        if (name.ends_with(".lock") && !gone) || is_git_noise(name) {
            return false;
        }
        let now = Settle::at(clock::now());
        self.tell(|it| {
            it.span = Some(it.span.map_or(now, |span| span.merge(now)));
            it.git = true;
            it.git_folders |= may_be_folder && (name.is_empty() || name.starts_with("refs"));
        });
        true
    }

    // A panic elsewhere leaves sets of names behind, all of them true.
    fn lock(&self) -> MutexGuard<'_, Noticed> {
        self.noticed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What Git and the house write in a git directory without moving HEAD, a ref of the user's or the
/// index.
pub(super) fn is_git_noise(name: &str) -> bool {
    matches!(
        name,
        "objects" | "logs" | "hooks" | "gc.pid" | "gc.log" | "FETCH_HEAD" | "description"
    ) || name.starts_with(TEMP_PREFIX)
        || name.starts_with("remd")
        || name.starts_with("refs/remd")
        || name.starts_with("tmp_")
}

/// Why a folder is not watched.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchFailed {
    #[error("inotify watch limit reached")]
    Limit,
    #[error("limit of inotify instances or open files reached")]
    Instances,
    /// It is gone, or may not be read: nothing to watch there.
    #[error("Nothing to watch")]
    Nothing,
    #[error("the watcher thread ended")]
    Dead,
    #[error("{0}")]
    Other(String),
}

/// The running library.
pub(super) struct Engine {
    watcher: RecommendedWatcher,
    debouncer: Debouncer<Feed, NoCache>,
}

impl Engine {
    /// Starts notify's threads; nothing is watched yet.
    pub fn start(inbox: &Arc<Inbox>) -> Result<Self, WatchFailed> {
        let told = Arc::clone(inbox);
        let debouncer = new_debouncer_opt::<_, Feed, NoCache>(
            DEBOUNCE,
            Some(TICK),
            move |result| told.fall_due(result),
            NoCache,
            Config::default(),
        )
        .map_err(failed)?;
        let Some(mut feed) = FEED.take() else { return Err(WatchFailed::Dead) };
        let inbox = Arc::clone(inbox);
        let tap = move |event: notify::Result<Event>| {
            if event.as_ref().map_or(true, |it| inbox.note(it)) {
                feed.handle_event(event);
            }
        };
        let config = Config::default().with_follow_symlinks(false);
        let watcher = notify::Watcher::new(tap, config).map_err(failed)?;
        Ok(Self { watcher, debouncer })
    }

    /// Watches one folder, not what is below; fine where it is watched already.
    pub fn watch(&mut self, folder: &Path) -> Result<(), WatchFailed> {
        self.guarded(|it| notify::Watcher::watch(it, folder, RecursiveMode::NonRecursive))
    }

    /// Watches a folder no longer; fine where it was not watched.
    pub fn unwatch(&mut self, folder: &Path) {
        // Most often the kernel or notify was faster: the folder is gone.
        let _unknown = self.guarded(|it| notify::Watcher::unwatch(it, folder));
    }

    /// Ends notify's threads, also where one of them died already.
    pub fn end(self) {
        let Self { watcher, debouncer } = self;
        debouncer.stop_nonblocking();
        // notify panics when its thread is not there to take the message.
        let _dead = catch_unwind(AssertUnwindSafe(|| drop(watcher)));
    }

    // notify panics when its thread is not there to answer.
    fn guarded(
        &mut self,
        call: impl FnOnce(&mut RecommendedWatcher) -> notify::Result<()>,
    ) -> Result<(), WatchFailed> {
        match catch_unwind(AssertUnwindSafe(|| call(&mut self.watcher))) {
            Ok(result) => result.map_err(failed),
            Err(_) => Err(WatchFailed::Dead),
        }
    }
}

fn failed(err: notify::Error) -> WatchFailed {
    use std::io::ErrorKind as Io;
    match &err.kind {
        ErrorKind::MaxFilesWatch => WatchFailed::Limit,
        ErrorKind::PathNotFound | ErrorKind::WatchNotFound => WatchFailed::Nothing,
        ErrorKind::Io(io) if matches!(io.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
            WatchFailed::Instances
        }
        ErrorKind::Io(io)
            if matches!(io.kind(), Io::NotFound | Io::NotADirectory | Io::PermissionDenied)
                || io.raw_os_error() == Some(libc::ELOOP) =>
        {
            WatchFailed::Nothing
        }
        _ => WatchFailed::Other(err.to_string()),
    }
}

thread_local! {
    /// Hands the debouncer's own handler from [`Feed::new`] to [`Engine::start`], its caller.
    static FEED: RefCell<Option<Box<dyn EventHandler>>> = const { RefCell::new(None) };
}

/// Stands in for the watcher that the debouncer wants to own: it only takes the debouncer's
/// handler, so that events reach it through the tap, and no list of roots is searched per folder.
#[derive(Debug)]
struct Feed;

impl notify::Watcher for Feed {
    fn new<F: EventHandler>(handler: F, _: Config) -> notify::Result<Self> {
        FEED.set(Some(Box::new(handler)));
        Ok(Self)
    }

    fn watch(&mut self, _: &Path, _: RecursiveMode) -> notify::Result<()> {
        Ok(())
    }

    fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
        Ok(())
    }

    fn kind() -> WatcherKind {
        WatcherKind::NullWatcher
    }
}

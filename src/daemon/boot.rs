//! The order of starting, and its reverse.
//!
//! Takes a [`Plan`], gives a running [`Agent`]: lock → history → watcher, only collecting →
//! committer (looks at everything first) → encoder → indexer → packer → auditor → chronicler →
//! socket → mount → ready. The main thread.
//!
//! **Invariant:** whatever was started is stopped in reverse, with a last look at the vault, also
//! after a signal; the mount goes first, so that nobody hangs in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::base::clock;
use crate::base::fault;
use crate::base::fs::{self, PathError};
use crate::base::latest::Latest;
use crate::base::lock::{self, DirLock};
use crate::base::process::Stop;
use crate::base::trouble::{Trouble, told};
use crate::config::{Dirs, Loaded, Settings};
use crate::daemon::committer::Committer;
use crate::daemon::desk::Desk;
use crate::daemon::encoder::Encoder;
use crate::daemon::house::{House, Ledger, MountState, Shelf};
use crate::daemon::indexer::Indexer;
use crate::daemon::intake::Intake;
use crate::daemon::keeper::{self, Keeper};
use crate::daemon::problems::{Level, Problems};
use crate::daemon::reindex::Reindex;
use crate::daemon::settings::Checker;
use crate::daemon::worker::Worker;
use crate::daemon::{auditor, chronicler, ending, ground, hooking, packer, unseen};
use crate::history::{GitError, History, OpenError, Options, SnapshotError};
use crate::mount::{self, MountError, Tally};
use crate::render::status::Committing;
use crate::serve::socket::Socket;
use crate::vault::VaultPath;
use crate::watch::{Filter, Watcher};

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// An existing vault, without symlinks in its path.
    pub vault: PathBuf,
    pub dirs: Dirs,
    pub loaded: Loaded,
    /// `key=value` of the command line, kept for a reload.
    pub overrides: Vec<String>,
    pub mount: MountWish,
    /// Whether no agent has run on this vault before.
    pub adopting: bool,
}

/// Whether and where to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountWish {
    Off,
    At(PathBuf),
}

/// Why an agent ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Somebody stopped it.
    Stopped,
    /// Another folder at the vault's path is the vault now: to be booted again.
    Returned,
}

/// Why the agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error("Another agent{} runs on `{}`", pid.map_or(String::new(), |it| format!(" (process {it})")), vault.display())]
    AnotherAgent { vault: PathBuf, pid: Option<u32> },
    /// Asked to take down what is in use.
    #[error("The agent{} of `{}` is running, and its mount is its own", pid.map_or(String::new(), |it| format!(" (process {it})")), vault.display())]
    StillRuns { vault: PathBuf, pid: Option<u32> },
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error(transparent)]
    History(#[from] OpenError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error("Cannot start the runtime")]
    Runtime(#[source] std::io::Error),
}

impl BootError {
    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Disk(_) | Self::Runtime(_) => true,
            Self::Snapshot(err) => err.is_transient(),
            Self::Mount(err) => err.is_transient(),
            Self::AnotherAgent { .. }
            | Self::StillRuns { .. }
            | Self::History(_)
            | Self::Git(_) => false,
        }
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            Self::AnotherAgent { .. } => {
                Some("`remd status` shows how it is; stop it before you start another.".to_owned())
            }
            Self::History(err) => err.hint(),
            Self::Snapshot(err) => err.hint(),
            Self::Mount(err) => err.hint(),
            Self::StillRuns { pid, .. } => {
                let stop = pid.map_or("stop it".to_owned(), |it| format!("`kill {it}`"));
                Some(format!(
                    "It unmounts when it stops: Ctrl-C where it runs, {stop}, or `systemctl --user \
                     stop` for a service. What somebody else unmounts it mounts again."
                ))
            }
            Self::Disk(err) => Trouble::of(&err.source).map(|it| it.hint().to_owned()),
            Self::Git(err) => Some(err.hint()),
            Self::Runtime(err) => Trouble::of(err).map(|it| it.hint().to_owned()),
        }
    }
}

/// How long the first look at the vault waits for the index to be opened, at most.
const OPENING: Duration = Duration::from_secs(1);

/// A running agent.
pub struct Agent {
    house: House,
    // In the order of starting; stopped from the end.
    _lock: DirLock,
    watcher: Option<Arc<Watcher>>,
    committer: Option<JoinHandle<()>>,
    encoder: Encoder,
    indexer: Option<(Indexer, JoinHandle<()>)>,
    /// Those that sleep on the ledger, the last started last.
    workers: Vec<Worker>,
    socket: Option<Socket>,
    keeper: Option<Keeper>,
    desk: Arc<Desk>,
    signals: Signals,
    runtime: tokio::runtime::Runtime,
}

/// What a signal wants of us.
struct Signals {
    term: Signal,
    int: Signal,
    hangup: Signal,
}

impl Signals {
    /// From here on a signal waits until somebody listens: one that comes during the start would
    /// end the process there and then, with a mount left behind.
    fn catch() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// Starts everything. The agent is running and listening when this returns.
pub fn boot(plan: Plan) -> Result<Agent, BootError> {
    let Plan { vault, dirs, loaded, overrides, mount, adopting } = plan;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(64)
        .build()
        .map_err(BootError::Runtime)?;
    let signals = {
        let _inside = runtime.enter();
        Signals::catch().map_err(BootError::Runtime)?
    };
    let lock = take_lock(&vault, &dirs)?;
    let settings = loaded.settings;
    let children = Stop::default();
    let options = Options { stop: children.clone(), ..super::options(&settings) };
    let mut history = History::open(&vault, &options)?;
    if let MountWish::At(place) = &mount {
        history.keep_out(place);
    }
    let house = House {
        vault: vault.clone(),
        identity: fs::identity(&vault)?,
        git_dir: history.common_dir().to_owned(),
        dirs: dirs.clone(),
        since: clock::unix_seconds(),
        settings: Latest::new(settings.clone()),
        checker: Arc::new(Checker::new(overrides)),
        problems: Problems::default(),
        intake: Intake::default(),
        children,
        reader: history.reader().with_path_log(&chronicler::folder(&vault, &settings.layout)),
        // Where it cannot be read, the first look says why.
        ledger: Latest::new(Ledger {
            head: history.head().ok().flatten(),
            head_since: clock::unix_seconds(),
            ..Ledger::default()
        }),
        exposed: Latest::new(Arc::default()),
        shelf: Latest::new(Shelf::default()),
        watch: Latest::new(None),
        reindex: Reindex::default(),
        mount: Latest::new(MountState::Off),
        returned: Arc::default(),
        tally: Tally::default(),
    };
    super::report_settings(&house.problems, &loaded.warnings);
    notes(&house, &history);
    hooking::settle_and_report(&vault, &settings, &house.problems);
    ground::report(&house.problems, &ground::of(&vault));
    let filter = filter(&settings, &mount, &vault);
    let watcher = start_watcher(&house, &history, &filter).map(Arc::new);
    let committer = {
        let committer = Committer::new(house.clone(), history, filter, adopting);
        let shelf = house.shelf.clone();
        spawn("committer", move || {
            // The first look takes all the disk and a processor: what is searched in an instant
            // goes first.
            let _opened = shelf.wait_newer(0, OPENING);
            committer.run();
        })?
    };
    let encoder = Encoder::new(house.clone());
    // Not joined: what it waits for may take a minute.
    let _encoding = {
        let encoder = encoder.clone();
        spawn("encoder", move || encoder.run())?
    };
    let indexer = Indexer::new(house.clone(), encoder.clone());
    let thread = {
        let indexer = indexer.clone();
        spawn("indexer", move || indexer.run())?
    };
    let workers = [packer::start, auditor::start, chronicler::start]
        .into_iter()
        .map(|start| start(&house))
        .collect::<std::io::Result<Vec<Worker>>>()
        .map_err(BootError::Runtime)?;
    let desk = Arc::new(Desk::new(house.clone(), watcher.as_ref().map(Arc::downgrade)));
    fault::hold("boot.listen");
    let socket = {
        let _inside = runtime.enter();
        Socket::bind(&dirs.socket(&vault)?)?.also_at(&dirs.socket_by_path(&vault)?)?
    };
    let keeper = match &mount {
        MountWish::Off => {
            keeper::clear_left(&house);
            None
        }
        MountWish::At(place) => {
            Some(Keeper::start(&house, &desk, place).map_err(BootError::Runtime)?)
        }
    };
    Ok(Agent {
        house,
        _lock: lock,
        watcher,
        committer: Some(committer),
        encoder,
        indexer: Some((indexer, thread)),
        workers,
        socket: Some(socket),
        keeper,
        desk,
        signals,
        runtime,
    })
}

impl Agent {
    pub fn house(&self) -> &House {
        &self.house
    }

    /// Runs until SIGTERM or SIGINT, or until the vault is another folder; SIGHUP reads the settings
    /// again.
    ///
    /// `ready` is called on a thread of its own once the first look and the first index are done.
    pub fn run_to_end(
        mut self,
        ready: impl FnOnce(&House) + Send + 'static,
        progress: impl Fn(&str, usize, usize) + Send + 'static,
    ) -> Result<End, BootError> {
        let house = self.house.clone();
        let returned = Arc::clone(&house.returned);
        // Not joined: it says something to a person, and a stop does not wait for that.
        let _talker = spawn("talker", move || {
            wait_ready(&house, &progress);
            drop(progress);
            ready(&house);
        })?;
        let socket = self.socket.take();
        let desk = Arc::clone(&self.desk);
        let Signals { term, int, hangup } = &mut self.signals;
        let vault = self.house.vault.display();
        let end = self.runtime.block_on(async {
            if let Some(socket) = socket {
                tokio::spawn(socket.serve(desk.clone()));
            }
            tell_systemd(&[NotifyState::Ready]);
            tracing::info!(vault = %vault, pid = std::process::id(), "ready");
            loop {
                tokio::select! {
                    _ = term.recv() => return End::Stopped,
                    _ = int.recv() => return End::Stopped,
                    () = returned.notified() => return End::Returned,
                    _ = hangup.recv() => {
                        let desk = Arc::clone(&desk);
                        tokio::task::spawn_blocking(move || desk.reload());
                    }
                }
            }
        });
        if end == End::Stopped {
            tell_systemd(&[NotifyState::Stopping]);
        }
        self.stop(end);
        Ok(end)
    }

    /// Stops everything, the last started first.
    fn stop(mut self, end: End) {
        tracing::info!("stopping");
        let _until_stopped = ending::spawn_deadline();
        if let Some(keeper) = self.keeper.take() {
            keeper.stop();
        }
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        self.workers.drain(..).rev().for_each(Worker::stop);
        drop(self.watcher.take());
        self.house.intake.stop();
        // A filter, a hook or a signing program at work would keep us; their files are committed
        // at the next start.
        let stop = self.house.children.clone();
        let call_off = std::thread::spawn(move || {
            std::thread::sleep(CHILD_GRACE);
            stop.set();
        });
        if let Some(committer) = self.committer.take() {
            ending::join(committer);
        }
        drop(call_off);
        if let Some((indexer, thread)) = self.indexer.take() {
            indexer.stop();
            match end {
                End::Stopped => ending::leave(thread),
                // The index is opened again in this process.
                End::Returned => ending::join(thread),
            }
        }
        self.encoder.stop();
        tracing::info!("stopped");
    }
}

/// What a child of the committer may still take when the agent stops.
const CHILD_GRACE: Duration = Duration::from_secs(3);

/// Waits until everything that was there at the start is committed and can be searched.
fn wait_ready(house: &House, progress: &dyn Fn(&str, usize, usize)) {
    let mut seen = 0;
    loop {
        let (version, shelf) = house.shelf.get_versioned();
        let ledger = house.ledger.get();
        if let Some(Committing { done, all, adopting }) = ledger.committing {
            progress(if adopting { "adopting" } else { "committing" }, done, all);
        } else if let Some(it) = shelf.progress {
            progress(it.what(), it.done, it.all);
        }
        let at = shelf.view.and_then(|it| it.at());
        if ledger.looked && shelf.progress.is_none() && at == ledger.head.map(|it| it.commit) {
            return;
        }
        if ledger.waiting_for.is_some() {
            return;
        }
        seen = seen.max(version);
        let _newer = house.shelf.wait_newer(seen, TICK);
    }
}

/// How often a progress bar looks.
const TICK: Duration = Duration::from_millis(100);

/// Puts away what a killed agent's mount left, for `remd unmount`. Gives where it was.
///
/// The vault need not be there any more: its mount may be.
pub fn clear_mount(vault: &Path, dirs: &Dirs) -> Result<Option<PathBuf>, BootError> {
    let _lock = match take_lock(vault, dirs) {
        Err(BootError::Disk(err)) if err.is_absent() => None,
        Err(BootError::AnotherAgent { vault, pid }) => {
            return Err(BootError::StillRuns { vault, pid });
        }
        taken => Some(taken?),
    };
    Ok(mount::clear_left(&dirs.mount_record(vault))?)
}

/// Takes the vault's lock, or says who has it.
///
/// A killed agent holds it until the kernel has taken the process and its mount down: where nobody
/// answers, that is waited for.
pub(super) fn take_lock(vault: &Path, dirs: &Dirs) -> Result<DirLock, BootError> {
    let until = clock::now() + DYING;
    loop {
        if let Some(lock) = lock::try_lock_dir(vault)? {
            return Ok(lock);
        }
        let pid = running_pid(vault, dirs);
        if pid.is_some() || clock::now() >= until {
            let pid = pid.or_else(|| lock::holder(vault).map(|it| it.pid));
            return Err(BootError::AnotherAgent { vault: vault.to_owned(), pid });
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// How long an agent that was killed may take to be gone.
const DYING: Duration = Duration::from_secs(2);
/// The pause between two tries of the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The process that answers on the vault's socket, if one does.
fn running_pid(vault: &Path, dirs: &Dirs) -> Option<u32> {
    use crate::serve::{Answer, Request, client};
    let socket = dirs.socket(vault).ok()?;
    match client::ask(&socket, Request::Status, Duration::from_secs(2)).ok()? {
        Answer::Status(status) => status.agent.pid,
        _ => None,
    }
}

/// What a person should know from the start.
fn notes(house: &House, history: &History) {
    unseen::report_identity(&house.problems, history);
    if history.is_purge_unfinished() {
        house.problems.report(
            "purge",
            Level::Error,
            "A purge was cut short: what it erases may still be in the repository",
            "Stop the agent and run the same `remd purge` again; it goes on there.",
        );
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|it| fs::stat(&it.join("git")).is_ok()) {
        house.problems.report(
            "git",
            Level::Note,
            "The program `git` is not installed; remd commits without it, but its loose objects are never packed",
            "sudo apt install git",
        );
    }
    if let Some(user) = user_without_linger() {
        house.problems.report(
            "linger",
            Level::Note,
            "This service ends when you log out, and edits wait until you are back",
            &format!("loginctl enable-linger {user}"),
        );
    }
    if house.dirs.runtime_is_fallback {
        house.problems.report(
            "runtime-dir",
            Level::Note,
            &format!(
                "XDG_RUNTIME_DIR names no folder of yours; the socket is below `{}`",
                house.dirs.runtime.display()
            ),
            "Log in through systemd (`loginctl`), or set XDG_RUNTIME_DIR to a folder of your own.",
        );
    }
}

/// The user, where we are a service of a user's own systemd that ends with the last session.
fn user_without_linger() -> Option<String> {
    let said = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    // Both are set for services only, the first by a user's manager only.
    let (_manager, _service) = (said("MANAGERPID")?, said("INVOCATION_ID")?);
    let user = said("USER").or_else(|| said("LOGNAME"))?;
    let lingers = fs::lstat(&Path::new("/var/lib/systemd/linger").join(&user)).is_ok();
    (!lingers).then_some(user)
}

/// What is never looked at: derived state, the jobs' sessions, and a mount point in the vault
/// (where nothing is mounted, but somebody may try).
pub(super) fn filter(settings: &Settings, mount: &MountWish, vault: &Path) -> Filter {
    let layout = &settings.layout;
    let mount = match mount {
        MountWish::At(path) => path.strip_prefix(vault).ok(),
        MountWish::Off => None,
    };
    let mount = mount.and_then(|it| VaultPath::from_os(it).ok());
    let derived = [&layout.metadata, &layout.agent];
    Filter::new(derived.into_iter().filter_map(|it| VaultPath::new(it).ok()).chain(mount))
}

/// Ignore rules that were read so long ago are read again.
const RULES_KEEP: Duration = Duration::from_millis(50);

fn start_watcher(house: &House, history: &History, filter: &Filter) -> Option<Watcher> {
    let hinted = house.clone();
    let mut ignores = history.ignores().ok();
    let mut read_at = clock::now();
    let mut git_dirs = vec![history.git_dir().to_owned(), history.common_dir().to_owned()];
    git_dirs.dedup();
    let watcher = Watcher::start(
        &house.vault,
        &git_dirs,
        filter.clone(),
        Box::new(move |path| {
            let Some(ignores) = &mut ignores else { return false };
            // The watcher asks anew when a rule changes; a walk asks many times in a row.
            if clock::now() - read_at > RULES_KEEP {
                if let Err(err) = ignores.reload() {
                    tracing::warn!(error = %told(&err), "ignore rules stay as they were");
                }
                read_at = clock::now();
            }
            ignores.is_ignored(path, true)
        }),
        Box::new(move |hints, burst| hinted.hint(hints, burst)),
    );
    match watcher {
        Ok(watcher) => {
            house.watch.set(Some(watcher.mailbox()));
            Some(watcher)
        }
        Err(err) => {
            house.problems.report(
                "watch",
                Level::Error,
                &told(&err),
                "Edits are found by a look every ten minutes; mend this and restart the agent.",
            );
            None
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, BootError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(BootError::Runtime)
}

fn tell_systemd(states: &[NotifyState<'_>]) {
    if let Err(err) = sd_notify::notify(states) {
        tracing::warn!(error = %err, "cannot tell systemd");
    }
}

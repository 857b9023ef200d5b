//! Child processes with a deadline.
//!
//! Takes a program, arguments and a limit, gives its output, or a conversation with it. Blocking,
//! any thread but tokio's.
//!
//! **Invariant:** no child is waited for past its deadline, none inherits our standard input or
//! terminal, and none that we started stays behind as a zombie.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::errand::Errands;

/// What is kept of a child's standard error.
const STDERR_KEPT: usize = 64 << 10;
/// What is kept of the standard output of a child that nobody expects much of.
const STDOUT_KEPT: usize = 16 << 20;
/// How long the pipes of a child that has ended may stay open: something it left behind has them.
const PIPE_GRACE: Duration = Duration::from_millis(500);
/// How often a wait looks whether it was called off.
const TICK: Duration = Duration::from_millis(20);

/// Calls off the children of whoever carries it: they are killed, and no new one is started.
#[derive(Clone, Default, Debug)]
pub struct Stop {
    own: Arc<AtomicBool>,
    above: Option<Arc<AtomicBool>>,
    /// What these children are at.
    pub errands: Errands,
}

impl Stop {
    /// One that is set with this one, and can be set alone.
    pub fn below(&self) -> Self {
        let (above, errands) = (Some(Arc::clone(&self.own)), self.errands.clone());
        Self { own: Arc::default(), above, errands }
    }

    pub fn set(&self) {
        self.own.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        let is_set = |it: &Arc<AtomicBool>| it.load(Ordering::SeqCst);
        is_set(&self.own) || self.above.as_ref().is_some_and(is_set)
    }
}

/// What a child reads.
#[derive(Clone, Debug)]
pub enum Input {
    Nothing,
    Bytes(Arc<[u8]>),
    /// A file, from where it stands.
    File(Arc<File>),
}

/// A child to be started.
#[derive(Clone, Debug)]
pub struct Job {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Where it works; ours where there is none.
    pub dir: Option<PathBuf>,
    /// Variables set, or taken out of what it would inherit.
    pub env: Vec<(OsString, Option<OsString>)>,
    pub input: Input,
    pub limit: Duration,
    /// Bytes of standard output that are kept; what comes after them is read and dropped.
    pub keep: usize,
    pub stop: Stop,
    /// Whether it takes only what nobody else wants of the machine, and ends with us.
    pub is_background: bool,
}

impl Job {
    pub fn new(program: impl Into<OsString>, limit: Duration) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            dir: None,
            env: vec![("LC_ALL".into(), Some("C".into()))],
            input: Input::Nothing,
            limit,
            keep: STDOUT_KEPT,
            stop: Stop::default(),
            is_background: false,
        }
    }

    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn spawn(&self, stdin: Stdio) -> Result<Child, ProcessError> {
        let start = |source| ProcessError::Start { program: self.name(), source };
        if self.stop.is_set() {
            return Err(ProcessError::Stopped { program: self.name() });
        }
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let is_background = self.is_background;
        // SAFETY: between fork and exec only system calls are made, which are async-signal-safe.
        // setsid(2) gives the child a process group to be killed by, and takes our terminal away
        // from it.
        unsafe {
            command.pre_exec(move || {
                if libc::setsid() == -1 {
                    return Err(io::Error::last_os_error());
                }
                if is_background {
                    step_back();
                }
                Ok(())
            });
        }
        command.spawn().map_err(start)
    }
}

/// Lets everybody else go first, and end us with the thread that started us. What the system does
/// not grant is gone without.
///
/// # Safety
///
/// Only between fork and exec: it is the whole process that steps back.
unsafe fn step_back() {
    // SAFETY: these take integers and concern the calling process only.
    unsafe {
        libc::nice(19);
        #[cfg(target_os = "linux")]
        {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // This process (1, 0), class idle.
            libc::syscall(libc::SYS_ioprio_set, 1, 0, 3 << 13);
        }
    }
}

/// Lets everybody else go before the calling thread from now on. What the system does not grant is
/// gone without.
pub fn let_others_go_first() {
    // SAFETY: these take integers; on Linux they concern the calling thread only.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::nice(19);
        // This thread (1, 0), class idle.
        libc::syscall(libc::SYS_ioprio_set, 1, 0, 3 << 13);
    }
}

/// What a child left behind.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// The first of it.
    pub stderr: Vec<u8>,
    /// Whether `stdout` is all that came: it ended, and was not more than is kept.
    pub is_whole: bool,
}

/// Why a child gave no output.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("Cannot start `{program}`")]
    Start { program: String, source: io::Error },
    #[error("`{program}` did not end within {} s and was stopped", limit.as_secs())]
    Deadline { program: String, limit: Duration },
    #[error("`{program}` was called off")]
    Stopped { program: String },
}

/// Runs a program to its end, or kills its whole process group at the deadline.
pub fn run<S: AsRef<OsStr>>(
    program: &str,
    args: &[S],
    limit: Duration,
) -> Result<Output, ProcessError> {
    let args = args.iter().map(|it| it.as_ref().to_owned()).collect();
    run_job(&Job { args, ..Job::new(program, limit) })
}

/// The same with all that a [`Job`] can say.
pub fn run_job(job: &Job) -> Result<Output, ProcessError> {
    let deadline = clock::now() + job.limit;
    let start = |source| ProcessError::Start { program: job.name(), source };
    let stdin = match &job.input {
        Input::Nothing => Stdio::null(),
        Input::Bytes(_) => Stdio::piped(),
        Input::File(file) => file.try_clone().map_err(start)?.into(),
    };
    let mut child = job.spawn(stdin)?;
    let stdout = Drain::new(child.stdout.take(), job.keep);
    let stderr = Drain::new(child.stderr.take(), STDERR_KEPT);
    if let (Some(mut stdin), Input::Bytes(input)) = (child.stdin.take(), &job.input) {
        let input = Arc::clone(input);
        // A child may end without reading all; that is its business.
        std::thread::spawn(move || stdin.write_all(&input).is_ok());
    }
    let Some(status) = wait(&mut child, deadline, &job.stop).map_err(start)? else {
        return Err(match job.stop.is_set() {
            true => ProcessError::Stopped { program: job.name() },
            false => ProcessError::Deadline { program: job.name(), limit: job.limit },
        });
    };
    let until = clock::now() + PIPE_GRACE;
    let (stdout, ended) = stdout.take(until);
    let (stderr, _) = stderr.take(until);
    let is_whole = ended && stdout.len() <= job.keep;
    Ok(Output { status, stdout, stderr, is_whole })
}

/// What is never asked for: as much as a service gets, and what old programs that we start can walk
/// through when they close everything.
const MOST_FILES: u64 = 524_288;

/// Lets this process, and those it starts, open as many files as it is allowed to; gives how many.
pub fn raise_file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit(2) fills the struct that we own.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let most = limit.rlim_max.min(MOST_FILES);
    if limit.rlim_cur < most {
        let raised = libc::rlimit { rlim_cur: most, ..limit };
        // SAFETY: setrlimit(2) reads the struct that we own.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } != 0 {
            return Err(io::Error::last_os_error());
        }
        limit = raised;
    }
    Ok(limit.rlim_cur)
}

/// Variables by which git is told of another repository than the one that is looked at; they are
/// set in hooks, and in shells that came from one.
const GIT_REDIRECTS: [&str; 16] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_QUARANTINE_PATH",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_CONFIG",
    "GIT_CEILING_DIRECTORIES",
];

/// Forgets what the environment says of another repository, for us and for every child.
///
/// # Safety
///
/// Only while the process has one thread.
pub unsafe fn forget_git_redirects() {
    for name in GIT_REDIRECTS {
        // SAFETY: nobody else reads the environment, as the caller says.
        unsafe { std::env::remove_var(name) };
    }
}

/// A conversation with a child over its standard input and output.
///
/// While a deadline is set the child is killed when it passes, so that a read or a write of ours
/// ends with an error instead of waiting. Dropping it kills and reaps.
#[derive(Debug)]
pub struct Talk {
    child: Child,
    pub to: Option<ChildStdin>,
    pub from: Option<ChildStdout>,
    stderr: Drain,
    leash: Arc<Leash>,
    limit: Duration,
    name: String,
}

#[derive(Debug, Default)]
struct Leash {
    state: Mutex<LeashState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct LeashState {
    deadline: Option<Instant>,
    /// Why the child was killed, if it was.
    killed: bool,
    over: bool,
}

impl Talk {
    /// Starts the child; `limit` is for each step from [`Talk::begin`] to [`Talk::rest`].
    pub fn start(job: &Job) -> Result<Self, ProcessError> {
        let mut child = job.spawn(Stdio::piped())?;
        let stderr = Drain::new(child.stderr.take(), STDERR_KEPT);
        let leash = Arc::new(Leash::default());
        let (pid, stop, held) = (child.id(), job.stop.clone(), Arc::clone(&leash));
        std::thread::spawn(move || held.hold(pid, &stop));
        Ok(Self {
            to: child.stdin.take(),
            from: child.stdout.take(),
            child,
            stderr,
            leash,
            limit: job.limit,
            name: job.name(),
        })
    }

    /// From now on the child has `limit` for what it is asked.
    pub fn begin(&self) {
        self.leash.set(|it| it.deadline = Some(clock::now() + self.limit));
    }

    /// The child may rest for as long as it likes.
    pub fn rest(&self) {
        self.leash.set(|it| it.deadline = None);
    }

    /// Whether a deadline has passed and the child was killed for it.
    pub fn is_killed(&self) -> bool {
        self.leash.state.lock().unwrap_or_else(PoisonError::into_inner).killed
    }

    /// What the child has said on its standard error so far.
    pub fn stderr(&self) -> Vec<u8> {
        self.stderr.so_far()
    }

    /// Closes the pipes, and gives what the child has said on its standard error to its end.
    pub fn last_words(mut self, grace: Duration) -> Vec<u8> {
        (self.to, self.from) = (None, None);
        let stderr = std::mem::replace(&mut self.stderr, Drain::new(None::<File>, 0));
        stderr.take(clock::now() + grace).0
    }

    /// Closes the pipes and gives the child `grace` to end by itself.
    pub fn end(mut self, grace: Duration) {
        self.to = None;
        self.from = None;
        let until = clock::now() + grace;
        while clock::now() < until && self.child.try_wait().is_ok_and(|it| it.is_none()) {
            std::thread::sleep(TICK / 4);
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // First the leash: from here on nobody else kills by this pid.
        self.leash.set(|it| it.over = true);
        if self.child.try_wait().is_ok_and(|it| it.is_none()) {
            kill_group(self.child.id());
        }
        if let Err(err) = self.child.wait() {
            tracing::debug!(%err, program = self.name, "not reaped");
        }
    }
}

impl Leash {
    fn set(&self, change: impl FnOnce(&mut LeashState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_all();
    }

    /// Kills the child when its deadline passes or it is called off.
    fn hold(&self, pid: u32, stop: &Stop) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.over {
            state = match state.deadline {
                Some(deadline) if !state.killed => {
                    if clock::now() >= deadline || stop.is_set() {
                        kill_group(pid);
                        state.killed = true;
                        continue;
                    }
                    self.wake.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0
                }
                _ => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Reads a pipe to its end on its own thread, so that a chatty child never blocks; what is over
/// the number of bytes kept is dropped.
#[derive(Debug)]
struct Drain(Arc<Drained>);

/// What came through a pipe so far, and whether it ended.
#[derive(Debug)]
struct Drained {
    state: Mutex<(Vec<u8>, bool)>,
    ended: Condvar,
}

impl Drain {
    fn new(pipe: Option<impl Read + Send + 'static>, keep: usize) -> Self {
        let state = Mutex::new((Vec::new(), pipe.is_none()));
        let shared = Arc::new(Drained { state, ended: Condvar::new() });
        if let Some(pipe) = pipe {
            let into = Arc::clone(&shared);
            std::thread::spawn(move || drain(pipe, keep, &into));
        }
        Self(shared)
    }

    fn so_far(&self) -> Vec<u8> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// What came, and whether it ended before `until`.
    fn take(self, until: Instant) -> (Vec<u8>, bool) {
        let Drained { state, ended } = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(clock::now());
            if state.1 || left.is_zero() {
                return (std::mem::take(&mut state.0), state.1);
            }
            state = ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn drain(mut pipe: impl Read, keep: usize, into: &Drained) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
            // A pipe that breaks ends the output; what came before it counts.
            Err(_) => break,
        };
        let mut state = into.state.lock().unwrap_or_else(PoisonError::into_inner);
        // One more than is kept tells that there was more.
        let room = (keep + 1).saturating_sub(state.0.len());
        state.0.extend_from_slice(&buffer[..read.min(room)]);
    }
    into.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
    into.ended.notify_all();
}

fn kill_group(pid: u32) {
    let group = libc::pid_t::try_from(pid).unwrap_or(libc::pid_t::MAX);
    // SAFETY: kill(2) takes two integers; the group is the child's own (setsid), and the child is
    // not reaped yet, so the number is still its.
    unsafe {
        libc::kill(-group, libc::SIGKILL);
    }
}

/// Waits for the child with a growing pause; `None` when it had to be killed.
fn wait(child: &mut Child, deadline: Instant, stop: &Stop) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if clock::now() >= deadline || stop.is_set() {
            kill_group(child.id());
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(TICK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Job {
        Job { args: vec!["-c".into(), script.into()], ..Job::new("sh", limit) }
    }

    #[test]
    fn a_child_that_hangs_is_stopped_at_its_deadline() {
        let hung = run("sleep", &["600"], Duration::from_millis(50));
        assert!(matches!(hung, Err(ProcessError::Deadline { .. })));
        let output = run("printf", &["ok"], Duration::from_secs(10)).unwrap();
        assert_eq!(output.stdout, b"ok");
        assert!(output.is_whole);
    }

    #[test]
    fn what_a_child_leaves_behind_is_not_waited_for() {
        let started = clock::now();
        let output = run_job(&shell("sleep 600 & echo done", Duration::from_secs(60))).unwrap();
        assert_eq!(output.stdout, b"done\n");
        assert!(!output.is_whole && started.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn a_flood_is_read_and_cut() {
        let job = Job { keep: 10, ..shell("yes | head -c 9000000 | tee /dev/stderr", LIMIT) };
        let output = run_job(&job).unwrap();
        assert!(output.status.success() && !output.is_whole);
        assert_eq!((output.stdout.len(), output.stderr.len()), (11, STDERR_KEPT + 1));
    }

    #[test]
    fn input_goes_through_and_need_not_be_read() {
        let input: Arc<[u8]> = vec![b'x'; 1 << 20].into();
        let job = Job { input: Input::Bytes(Arc::clone(&input)), ..Job::new("cat", LIMIT) };
        assert_eq!(run_job(&job).unwrap().stdout, &*input);
        let job = Job { input: Input::Bytes(input), ..Job::new("true", LIMIT) };
        assert!(run_job(&job).unwrap().status.success());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"from a file").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let job = Job { input: Input::File(Arc::new(file)), ..Job::new("cat", LIMIT) };
        assert_eq!(run_job(&job).unwrap().stdout, b"from a file");
    }

    #[test]
    fn a_child_can_be_called_off() {
        let job = shell("sleep 600", LIMIT);
        let stop = job.stop.clone();
        assert!(!stop.below().is_set());
        let called_off = std::thread::scope(|scope| {
            let running = scope.spawn(|| run_job(&job));
            stop.set();
            running.join().unwrap()
        });
        assert!(matches!(called_off, Err(ProcessError::Stopped { .. })));
    }

    #[test]
    fn a_conversation_has_a_deadline_and_leaves_no_zombie() {
        let mut job = Job::new("cat", LIMIT);
        let mut talk = Talk::start(&job).unwrap();
        talk.begin();
        talk.to.as_mut().unwrap().write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        talk.from.as_mut().unwrap().read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        talk.rest();
        let pid = talk.child.id();
        talk.end(LIMIT);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());

        job = Job { limit: Duration::from_millis(50), ..shell("sleep 600", LIMIT) };
        let mut talk = Talk::start(&job).unwrap();
        talk.begin();
        assert_eq!(talk.from.as_mut().unwrap().read(&mut [0; 9]).unwrap(), 0);
        assert!(talk.is_killed());
    }

    const LIMIT: Duration = Duration::from_secs(60);
}

//! Runs the user's filter drivers beside the committer.
//!
//! Takes a file and the driver that its attributes name; gives the driver's output, or says that
//! it is still at work, or why it failed and when it is tried again. One thread for each driver,
//! one file at a time; the asker waits only a moment.
//!
//! **Invariant:** a driver that hangs, crashes, floods or is missing costs its own files time, and
//! no other file more than [`Limits::patience`].

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gix::bstr::{BStr, BString, ByteSlice as _};

use crate::base::clock;
use crate::base::process::{Input, Job, ProcessError, Stop, run_job};
use crate::history::dialogue::Dialogue;
use crate::history::filters::Cleaning;
use crate::history::place::Place;
use crate::history::pointer;
use crate::history::seen::Seen;

/// A long-running filter that nobody asked for so long is ended.
const IDLE: Duration = Duration::from_secs(5);
/// What a filter may give beyond twice its input.
const SPARE: u64 = 1 << 20;
/// The first pause after a failure; it doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// How much of what a driver says is passed on.
const SAID: usize = 300;

/// How long things that the user's settings start may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A filter for one file, a hook, a signature.
    pub child: Duration,
    /// What a look waits for a filter before it goes on without the file.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { child: Duration::from_secs(30), patience: Duration::from_secs(2) }
    }
}

/// A driver as the user's settings have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Driver {
    pub name: BString,
    clean: Option<BString>,
    smudge: Option<BString>,
    process: Option<BString>,
    pub required: bool,
}

impl Driver {
    pub fn new(driver: &gix::filter::plumbing::Driver) -> Self {
        let set = |it: &Option<BString>| it.clone().filter(|it| !it.is_empty());
        Self {
            name: driver.name.clone(),
            clean: set(&driver.clean),
            smudge: set(&driver.smudge),
            process: set(&driver.process),
            required: driver.required || pointer::is_guarded(driver.name.as_ref()),
        }
    }

    /// Whether it has a say in what is stored.
    pub fn can_clean(&self) -> bool {
        self.clean.is_some() || self.process.is_some()
    }
}

/// What came of a file.
pub(super) enum Cleaned {
    Bytes(Vec<u8>),
    /// The driver failed on it and need not succeed: git would store the file as it is.
    Raw,
    /// It has not answered yet.
    AtWork,
    Wait {
        why: String,
        again: Duration,
    },
}

/// Which way a driver works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Clean,
    Smudge,
}

impl Direction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Smudge => "smudge",
        }
    }
}

/// Why a driver gave nothing.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It did not want this file.
    File(String),
    /// It is missing, hangs or does not keep to the protocol: it would fail on any file.
    Driver(String),
    Stopped,
}

type Answer = Result<Vec<u8>, Fault>;

/// One file for a driver's thread.
struct Task {
    driver: Driver,
    direction: Direction,
    rela: BString,
    input: Input,
    size: u64,
}

/// The thread of one driver and what it is at.
struct Worker {
    tasks: Sender<Task>,
    answers: Receiver<Answer>,
    at: Option<(BString, Seen)>,
    /// The last answer that nobody has fetched.
    unfetched: Option<(BString, Seen, Answer)>,
    thread: JoinHandle<()>,
}

/// When something that failed is tried again.
#[derive(Clone, Debug)]
struct Pause {
    why: String,
    length: Duration,
    until: Instant,
}

/// All drivers of one repository, for one asker.
pub(super) struct Drivers {
    place: Place,
    limits: Limits,
    stop: Stop,
    workers: HashMap<BString, Worker>,
    /// Failures of drivers, and of single files.
    broken: HashMap<BString, (Driver, Pause)>,
    refused: HashMap<BString, (Seen, Driver, Pause)>,
}

impl Drivers {
    pub fn new(place: &Place, limits: Limits, stop: &Stop) -> Self {
        Self {
            place: place.clone(),
            limits,
            stop: stop.below(),
            workers: HashMap::new(),
            broken: HashMap::new(),
            refused: HashMap::new(),
        }
    }

    /// What failed may be tried again at once: the settings are others now.
    pub fn forget_failures(&mut self) {
        self.broken.clear();
        self.refused.clear();
    }

    /// The file through the driver's `clean`.
    pub fn clean(&mut self, driver: &Driver, job: &Cleaning<'_>) -> Cleaned {
        let now = clock::now();
        let rela = job.rela;
        let waits = |pause: &Pause| Cleaned::Wait {
            why: pause.why.clone(),
            again: pause.until.saturating_duration_since(now),
        };
        if let Some((failed, pause)) = self.broken.get(&driver.name)
            && failed == driver
            && pause.until > now
        {
            return if driver.required { waits(pause) } else { Cleaned::Raw };
        }
        if let Some((seen, failed, pause)) = self.refused.get(rela)
            && failed == driver
            && seen.is_same(job.seen)
            && pause.until > now
        {
            return if driver.required { waits(pause) } else { Cleaned::Raw };
        }
        match self.ask(driver, job) {
            Some(answer) => self.note(driver, rela, job.seen, answer),
            None => {
                // What failed stays named until it has not.
                let broken = self.broken.get(&driver.name).map(|it| &it.1);
                match broken.or(self.refused.get(rela).map(|it| &it.2)) {
                    Some(it) => Cleaned::Wait { why: it.why.clone(), again: MIN_PAUSE },
                    None => Cleaned::AtWork,
                }
            }
        }
    }

    /// The answer for this file, if its driver has one after a moment.
    fn ask(&mut self, driver: &Driver, job: &Cleaning<'_>) -> Option<Answer> {
        let is_it = |at: &(BString, Seen)| at.0 == job.rela && at.1.is_same(job.seen);
        let patience = self.limits.patience;
        let worker = match self.workers.get_mut(&driver.name) {
            Some(worker) => worker,
            None => {
                let worker = Worker::start(&self.place, self.limits.child, &self.stop);
                self.workers.entry(driver.name.clone()).or_insert(worker)
            }
        };
        let gone = || Some(Err(Fault::Driver("the filter's thread ended".to_owned())));
        if let Some(at) = &worker.at {
            match worker.answers.try_recv() {
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    self.workers.remove(&driver.name);
                    return gone();
                }
                Ok(answer) if is_it(at) => {
                    worker.at = None;
                    return Some(answer);
                }
                Ok(answer) => {
                    let (rela, seen) = worker.at.take()?;
                    worker.unfetched = Some((rela, seen, answer));
                }
            }
        }
        if let Some((rela, seen, answer)) = worker.unfetched.take() {
            if rela == job.rela {
                if seen.is_same(job.seen) {
                    return Some(answer);
                }
            } else {
                worker.unfetched = Some((rela, seen, answer));
            }
        }
        let task = Task {
            driver: driver.clone(),
            direction: Direction::Clean,
            rela: job.rela.to_owned(),
            input: Input::File(Arc::clone(job.file)),
            size: job.size,
        };
        if worker.tasks.send(task).is_err() {
            self.workers.remove(&driver.name);
            return gone();
        }
        match worker.answers.recv_timeout(patience) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => {
                worker.at = Some((job.rela.to_owned(), *job.seen));
                None
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.workers.remove(&driver.name);
                gone()
            }
        }
    }

    /// Keeps account of who failed, so that nothing is tried in a loop.
    fn note(&mut self, driver: &Driver, rela: &BStr, seen: &Seen, answer: Answer) -> Cleaned {
        let (why, is_driver) = match answer {
            Ok(bytes) => {
                self.broken.remove(&driver.name);
                self.refused.remove(rela);
                return Cleaned::Bytes(bytes);
            }
            Err(Fault::Stopped) => {
                let why = format!("the filter `{}` was called off", driver.name);
                return Cleaned::Wait { why, again: MIN_PAUSE };
            }
            Err(Fault::File(why)) => (why, false),
            Err(Fault::Driver(why)) => (why, true),
        };
        let last = match is_driver {
            true => self.broken.get(&driver.name).map(|it| it.1.length),
            false => self.refused.get(rela).filter(|it| it.0.is_same(seen)).map(|it| it.2.length),
        };
        let length = last.map_or(MIN_PAUSE, |it| (it * 2).min(MAX_PAUSE));
        let pause = Pause {
            why: format!("the filter `{}` failed: {why}", driver.name),
            length,
            until: clock::now() + length,
        };
        let wait = Cleaned::Wait { why: pause.why.clone(), again: length };
        if is_driver {
            self.broken.insert(driver.name.clone(), (driver.clone(), pause));
        } else {
            self.refused.insert(rela.to_owned(), (*seen, driver.clone(), pause));
        }
        if driver.required { wait } else { Cleaned::Raw }
    }
}

impl Drop for Drivers {
    /// Nobody will ask again: what runs is killed, what rests is ended.
    fn drop(&mut self) {
        self.stop.set();
        for (_, worker) in self.workers.drain() {
            drop(worker.tasks);
            if worker.thread.join().is_err() {
                tracing::error!("the thread of a filter ended by a fault in itself");
            }
        }
    }
}

impl Worker {
    fn start(place: &Place, limit: Duration, stop: &Stop) -> Self {
        let (tasks, inbox) = channel::<Task>();
        let (outbox, answers) = channel();
        let (place, stop) = (place.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut dialogue = None;
            loop {
                let task = match dialogue.is_some() {
                    true => match inbox.recv_timeout(IDLE) {
                        Err(RecvTimeoutError::Timeout) => {
                            dialogue = None;
                            continue;
                        }
                        task => task.ok(),
                    },
                    false => inbox.recv().ok(),
                };
                let Some(task) = task else { return };
                let about = place.vault_path(task.rela.as_ref()).map(|it| it.to_string());
                let at_work =
                    stop.errands.begin(format!("the filter `{}`", task.driver.name), about);
                let answer = work(&task, &mut dialogue, &place.workdir, limit, &stop);
                drop(at_work);
                if outbox.send(answer).is_err() {
                    return;
                }
            }
        });
        Self { tasks, answers, at: None, unfetched: None, thread }
    }
}

/// Runs one file through a driver, now; for those who may wait.
pub(super) fn smudge(
    driver: &Driver,
    rela: &BStr,
    bytes: Arc<[u8]>,
    workdir: &Path,
    limit: Duration,
    stop: &Stop,
) -> Result<Option<Vec<u8>>, Fault> {
    if driver.smudge.is_none() && driver.process.is_none() {
        return Ok(None);
    }
    let size = bytes.len() as u64;
    let (driver, rela, input) = (driver.clone(), rela.to_owned(), Input::Bytes(bytes));
    let task = Task { driver, direction: Direction::Smudge, rela, input, size };
    work(&task, &mut None, workdir, limit, stop).map(Some)
}

fn work(
    task: &Task,
    dialogue: &mut Option<Dialogue>,
    workdir: &Path,
    limit: Duration,
    stop: &Stop,
) -> Answer {
    let driver = &task.driver;
    // Larger files may take longer: a second for every 4 MiB.
    let limit = limit + Duration::from_secs(task.size >> 22);
    let keep = usize::try_from(task.size.saturating_mul(2) + SPARE).unwrap_or(usize::MAX);
    let job = |command: &BStr, input: Input| Job {
        args: vec!["-c".into(), OsString::from_vec(command.to_vec())],
        dir: Some(workdir.to_owned()),
        env: environment(),
        input,
        keep,
        stop: stop.clone(),
        ..Job::new("sh", limit)
    };
    if let Some(process) = &driver.process {
        let mut talk = match dialogue.take().filter(|it| it.is_with(process.as_ref())) {
            Some(talk) => talk,
            None => Dialogue::open(process.as_ref(), &job(process.as_ref(), Input::Nothing))?,
        };
        let answer = talk.ask(task.direction, task.rela.as_ref(), &task.input, keep);
        if !matches!(answer, Err(Fault::Driver(_) | Fault::Stopped)) {
            *dialogue = Some(talk);
        }
        return answer;
    }
    let command = match task.direction {
        Direction::Clean => &driver.clean,
        Direction::Smudge => &driver.smudge,
    };
    let Some(command) = command else {
        return Err(Fault::Driver(format!("no `{}` is set for it", task.direction.as_str())));
    };
    let command = with_path(command.as_ref(), task.rela.as_ref());
    let output = match run_job(&job(command.as_ref(), task.input.clone())) {
        Ok(output) => output,
        Err(ProcessError::Stopped { .. }) => return Err(Fault::Stopped),
        Err(ProcessError::Deadline { limit, .. }) => {
            return Err(Fault::Driver(format!("it did not end within {} s", limit.as_secs())));
        }
        Err(err) => return Err(Fault::Driver(err.to_string())),
    };
    if !output.status.success() {
        let why = format!("{}{}", output.status, said(&output.stderr));
        // A shell says so where the command is not there, or is no program.
        return Err(match output.status.code() {
            Some(126 | 127) => Fault::Driver(why),
            _ => Fault::File(why),
        });
    }
    match output.is_whole {
        true => Ok(output.stdout),
        false => Err(Fault::File("it gave more than can be, or left its output open".to_owned())),
    }
}

/// `%f` is the path, quoted for the shell: a name is never a command.
fn with_path(command: &BStr, rela: &BStr) -> BString {
    let mut quoted = b"'".to_vec();
    for byte in rela.iter() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    let mut out = BString::default();
    let mut rest = command.as_bytes();
    while let Some(at) = rest.find_byte(b'%') {
        out.extend_from_slice(&rest[..at]);
        match rest.get(at + 1) {
            Some(b'f') => out.extend_from_slice(&quoted),
            Some(b'%') => out.push(b'%'),
            Some(other) => out.extend_from_slice(&[b'%', *other]),
            None => out.push(b'%'),
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// What a program that works on this repository may not inherit: whose repository it is says the
/// folder it works in.
pub(super) fn environment() -> Vec<(OsString, Option<OsString>)> {
    let foreign = [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_NAMESPACE",
        "GIT_PREFIX",
        "GIT_CONFIG_PARAMETERS",
        "GIT_CONFIG_COUNT",
        "GIT_EDITOR",
    ];
    let mut env: Vec<_> = foreign.iter().map(|it| (OsString::from(it), None)).collect();
    // Nobody is there to be asked.
    env.push(("GIT_TERMINAL_PROMPT".into(), Some("0".into())));
    env.push(("SSH_ASKPASS_REQUIRE".into(), Some("never".into())));
    env
}

/// The first line of what a program said, for people; nothing where it said nothing.
pub(super) fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
    let mut said = String::new();
    for line in lines.take(3) {
        said.push_str(if said.is_empty() { ": " } else { " / " });
        said.extend(line.chars().filter(|it| !it.is_control()));
    }
    if said.chars().count() > SAID {
        said = said.chars().take(SAID).chain(['…']).collect();
    }
    said
}

/// The file from its start, whoever read it before.
pub(super) fn rewound(file: &File) -> std::io::Result<File> {
    let mut file = file.try_clone()?;
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_command_is_one_word() {
        let check = |command: &str, path: &str, expected: &str| {
            assert_eq!(with_path(command.into(), path.into()), expected);
        };
        check("clean -- %f", "a b.md", "clean -- 'a b.md'");
        check("clean %f %f", "it's", r"clean 'it'\''s' 'it'\''s'");
        check("date +%%s; x %n %", "$(rm)", "date +%s; x %n %");
        check("x %f", "$(reboot)`x`;\n", "x '$(reboot)`x`;\n'");
    }

    #[test]
    fn what_a_program_says_is_bounded() {
        assert_eq!(said(b""), "");
        assert_eq!(said(b"\n  bad \x1b[31mfile\n\nmore\n"), ": bad [31mfile / more");
        assert_eq!(said(&b"x".repeat(9_000)).chars().count(), SAID + 1);
    }
}

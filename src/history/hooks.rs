//! The user's own hooks around a commit of ours.
//!
//! Takes the tree about to be committed and its message; gives what the hooks made of them, or
//! why they refuse. `pre-commit`, `prepare-commit-msg` and `commit-msg` run before anything is
//! locked, with an index of their own; `post-commit` after everything is released, on a thread of
//! its own. Only files in git's hooks folder (or `core.hooksPath`) that may be executed.
//!
//! **Invariant:** without hooks this costs a stat for each name. A hook works within its
//! deadline, and never on the index that the person and git use.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use gix::bstr::ByteSlice as _;

use crate::base::clock;
use crate::base::fs::{self, PathError};
use crate::base::process::{Job, ProcessError, Stop, run_job};
use crate::history::drivers::{environment, said};
use crate::history::gate::Refusal;
use crate::history::message;
use crate::history::own_hooks;
use crate::history::place::Place;

/// What hooks see who want to let our commits pass.
pub const MARK: &str = "REMD_COMMIT";

/// How long a running `post-commit` is waited for at the end.
const GRACE: Duration = Duration::from_secs(2);

/// Whether git runs a program of the user before it moves the branch.
pub(super) fn delay_commits(repo: &gix::Repository, place: &Place) -> bool {
    let folder = folder_of(repo, place);
    ["pre-commit", "prepare-commit-msg", "commit-msg"].iter().any(|it| find(&folder, it).is_some())
}

/// Where Git looks for hooks.
pub(super) fn folder_of(repo: &gix::Repository, place: &Place) -> PathBuf {
    match repo.config_snapshot().string("core.hooksPath").filter(|it| !it.is_empty()) {
        Some(path) => place.workdir.join(crate::history::sign::at_home(path)),
        None => place.common_dir.join("hooks"),
    }
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(name);
    let meta = fs::stat(&path).ok()?;
    let is_one = meta.is_file() && meta.mode() & 0o111 != 0;
    // What our own would tell us we know.
    (is_one && !own_hooks::is_ours_alone(&path, meta.len(), name)).then_some(path)
}

/// The hooks that there are now.
#[derive(Clone, Debug)]
pub(super) struct Hooks {
    pub pre_commit: Option<PathBuf>,
    prepare_message: Option<PathBuf>,
    commit_message: Option<PathBuf>,
    pub post_commit: Option<PathBuf>,
    place: Place,
    limit: Duration,
    stop: Stop,
    author: (String, String),
}

impl Hooks {
    /// Looks for them.
    pub fn find(
        repo: &gix::Repository,
        place: &Place,
        author: (String, String),
        limit: Duration,
        stop: &Stop,
    ) -> Self {
        let folder = folder_of(repo, place);
        let find = |name| find(&folder, name);
        Self {
            pre_commit: find("pre-commit"),
            prepare_message: find("prepare-commit-msg"),
            commit_message: find("commit-msg"),
            post_commit: find("post-commit"),
            place: place.clone(),
            limit,
            stop: stop.clone(),
            author,
        }
    }

    /// Whether one runs before the branch moves.
    pub fn have_a_say(&self) -> bool {
        self.pre_commit.is_some() || self.prepare_message.is_some() || self.commit_message.is_some()
    }

    /// A folder for one run, empty.
    pub fn folder(&self) -> Result<PathBuf, PathError> {
        let folder = self.place.own("hook");
        fs::remove_derived(&folder)?;
        fs::create_private_dir_all(&folder)?;
        Ok(folder)
    }

    /// Asks `pre-commit` about the index at `index`.
    pub fn ask_pre_commit(&self, index: &Path) -> Result<(), Refusal> {
        match &self.pre_commit {
            Some(hook) => self.ask(hook, "pre-commit", &[], Some(index)),
            None => Ok(()),
        }
    }

    /// Lets the hooks see and change the message; what we say of the commit stays in it.
    pub fn ask_about_message(
        &self,
        folder: &Path,
        index: Option<&Path>,
        text: String,
    ) -> Result<String, Refusal> {
        if self.prepare_message.is_none() && self.commit_message.is_none() {
            return Ok(text);
        }
        let file = folder.join("COMMIT_EDITMSG");
        fs::write_atomic(&file, text.as_bytes()).map_err(|err| disk(&err))?;
        let argument = file.clone().into_os_string();
        if let Some(hook) = &self.prepare_message {
            let args = [argument.clone(), "message".into()];
            self.ask(hook, "prepare-commit-msg", &args, index)?;
        }
        if let Some(hook) = &self.commit_message {
            self.ask(hook, "commit-msg", &[argument], index)?;
        }
        let changed = fs::read(&file).map_err(|err| disk(&err))?;
        match message::with_trailers_of(&changed, &text) {
            Some(text) => Ok(text),
            None => Err(Refusal {
                what: "A hook left the commit without a message".to_owned(),
                remedy: format!("Mend `{}`.", self.folder_of_hooks()),
                is_about_content: true,
            }),
        }
    }

    fn folder_of_hooks(&self) -> String {
        let any = self.prepare_message.as_ref().or(self.commit_message.as_ref());
        any.and_then(|it| it.parent()).map(|it| it.display().to_string()).unwrap_or_default()
    }

    fn ask(
        &self,
        hook: &Path,
        name: &str,
        args: &[OsString],
        index: Option<&Path>,
    ) -> Result<(), Refusal> {
        let remedy = format!(
            "Do what it asks for, or let our commits pass in `{}`: `[ -n \"${MARK}\" ] && exit 0`.",
            hook.display()
        );
        let job = self.job(hook, args, index);
        let _at_work = self.stop.errands.begin(format!("the hook `{name}`"), None);
        match run_job(&job) {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let spoken = match said(&output.stderr) {
                    it if it.is_empty() => said(&output.stdout),
                    it => it,
                };
                let what = format!("The hook `{name}` refuses the commit{spoken}");
                Err(Refusal { what, remedy, is_about_content: true })
            }
            Err(err) => {
                let what = format!("The hook `{name}` did not decide: {}", plain(&err));
                Err(Refusal { what, remedy, is_about_content: false })
            }
        }
    }

    fn job(&self, hook: &Path, args: &[OsString], index: Option<&Path>) -> Job {
        let mut env = environment();
        env.retain(|it| it.0 != "GIT_EDITOR");
        let mut set = |name: &str, value: OsString| env.push((name.into(), Some(value)));
        set("GIT_DIR", self.place.git_dir.clone().into());
        set("GIT_WORK_TREE", self.place.workdir.clone().into());
        set("GIT_PREFIX", OsString::new());
        set("GIT_EDITOR", ":".into());
        set("GIT_AUTHOR_NAME", self.author.0.clone().into());
        set("GIT_AUTHOR_EMAIL", self.author.1.clone().into());
        set(MARK, "1".into());
        if let Some(index) = index {
            set("GIT_INDEX_FILE", index.into());
        }
        Job {
            args: args.to_vec(),
            dir: Some(self.place.workdir.clone()),
            env,
            keep: 64 << 10,
            stop: self.stop.clone(),
            ..Job::new(hook.as_os_str(), self.limit)
        }
    }
}

fn plain(err: &ProcessError) -> String {
    match err {
        ProcessError::Start { source, .. } => format!("it does not start: {source}"),
        ProcessError::Deadline { limit, .. } => {
            format!("it did not end within {} s and was stopped", limit.as_secs())
        }
        ProcessError::Stopped { .. } => "it was called off".to_owned(),
    }
}

fn disk(err: &PathError) -> Refusal {
    Refusal {
        what: format!("A hook cannot be asked: {err}: {}", err.source),
        remedy: "Check `.git/remd` and the disk.".to_owned(),
        is_about_content: false,
    }
}

/// Runs `post-commit`, one after the other, beside the committer.
#[derive(Debug)]
pub(super) struct After {
    tasks: Option<Sender<Hooks>>,
    results: Receiver<Option<String>>,
    thread: Option<JoinHandle<()>>,
    running: usize,
    stop: Stop,
}

impl After {
    pub fn new(stop: &Stop) -> Self {
        Self { tasks: None, results: channel().1, thread: None, running: 0, stop: stop.below() }
    }

    /// Lets `post-commit` run, where there is one.
    pub fn run(&mut self, hooks: &Hooks) {
        if hooks.post_commit.is_none() {
            return;
        }
        let hooks = Hooks { stop: self.stop.clone(), ..hooks.clone() };
        let unsent = match &self.tasks {
            Some(tasks) => tasks.send(hooks).err().map(|it| it.0),
            None => Some(hooks),
        };
        if let Some(hooks) = unsent {
            let (tasks, inbox) = channel::<Hooks>();
            let (outbox, results) = channel();
            self.thread = Some(std::thread::spawn(move || {
                for hooks in inbox {
                    if outbox.send(after(&hooks)).is_err() {
                        return;
                    }
                }
            }));
            self.results = results;
            self.running = 0;
            if tasks.send(hooks).is_err() {
                return;
            }
            self.tasks = Some(tasks);
        }
        self.running += 1;
    }

    /// How the last run that is over went: `Some(None)` is well.
    pub fn result(&mut self) -> Option<Option<String>> {
        let mut last = None;
        while let Ok(result) = self.results.try_recv() {
            self.running = self.running.saturating_sub(1);
            last = Some(result);
        }
        last
    }

    pub fn is_running(&self) -> bool {
        self.running > 0
    }
}

impl Drop for After {
    /// What was started may end, for a moment; then it is called off.
    fn drop(&mut self) {
        let until = clock::now() + GRACE;
        while self.is_running() && clock::now() < until && !self.stop.is_set() {
            match self.result() {
                Some(Some(why)) => tracing::warn!("{why}"),
                Some(None) => {}
                None => std::thread::sleep(GRACE / 400),
            }
        }
        self.stop.set();
        self.tasks = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of `post-commit` ended by a fault in itself");
        }
    }
}

fn after(hooks: &Hooks) -> Option<String> {
    let hook = hooks.post_commit.as_ref()?;
    let _at_work = hooks.stop.errands.begin_beside("the hook `post-commit`".to_owned());
    match run_job(&hooks.job(hook, &[], None)) {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let spoken = said(output.stderr.trim());
            Some(format!("The hook `post-commit` failed ({}){spoken}", output.status))
        }
        Err(ProcessError::Stopped { .. }) => None,
        Err(err) => Some(format!("The hook `post-commit` failed: {}", plain(&err))),
    }
}

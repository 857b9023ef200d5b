//! Answers where no agent runs.
//!
//! Takes a vault, reads its repository and last index, changes nothing but a missing index.
//! Blocking, the command's thread.
//!
//! **Invariant:** the same bytes as with an agent, or the answer says in what it is less.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::trouble::{Trouble, told};
use crate::base::{clock, fs, lock};
use crate::config::{Dirs, Settings};
use crate::daemon::committer::leaks::policy_line;
use crate::daemon::problems::Level;
use crate::daemon::{cause, changes, ground, health, looks, models, pages, reranking, settings};
use crate::embed::Embedder;
use crate::history::{OpenError, ReadError, Reader};
use crate::index::{Card, Index, IndexError, IndexReader, IndexView, Update};
use crate::mount;
use crate::render::AsOf;
use crate::render::status::{
    Agent, Head, Index as IndexStatus, Mount, Pending, Problem, Status, Watch,
};
use crate::search::{self, Look, Query};
use crate::serve::{Answer, Form};
use crate::vault::{CommitId, Entry, Layout, VaultPath};

/// How many changed paths are read before a command gives up catching up with HEAD.
const MOST_PATHS: usize = 2000;
/// And how long that may take.
const CATCH_UP: Duration = Duration::from_millis(500);
/// How long whoever builds an index waits for the vectors of very long notes.
const VECTORS_LIMIT: Duration = Duration::from_secs(5);
/// How long a query may take.
const SEARCH_LIMIT: Duration = Duration::from_secs(10);

/// What an answer says of the disk where no agent is.
pub const NO_AGENT: &str = "no agent: edits since then unknown";
/// The same where one is that does not answer.
pub const SILENT_AGENT: &str = "agent does not answer: edits since then unknown";

/// Answers a query from the last index and what was committed since; `unseen` says why nobody has
/// looked at the disk.
pub fn search(
    vault: &Path,
    dirs: &Dirs,
    query: &Query,
    form: Form,
    unseen: &'static str,
    progress: &dyn Fn(usize, usize),
) -> Answer {
    let settings = settings(vault, dirs);
    let ready = match ready(vault, dirs, &settings, progress) {
        Ok(ready) => ready,
        Err(failed) => return failed.answer(),
    };
    let choice = reranking::choose(&settings);
    let wider = reranking::wider(&choice, query);
    let until = clock::now() + SEARCH_LIMIT;
    let mut results = match search::search(&ready.view, &wider, settings::rules(&settings), until) {
        Ok(results) => results,
        Err(err) => {
            let hint = err.hint();
            return Answer::Failed { message: err.to_string(), hint, usage: true };
        }
    };
    results.commits_behind = ready.commits_behind;
    // The page says what is wrong with the server.
    let _said = reranking::apply(&choice, query, &mut results);
    results.unseen = Some(unseen);
    results.partial = ready.partial.or(results.partial);
    pages::answer(query, &results, form, vault)
}

/// Why a vault cannot be searched.
#[derive(Debug)]
pub struct Failed {
    pub message: String,
    pub hint: String,
}

impl Failed {
    fn of(err: &(dyn std::error::Error + 'static), vault: &Path, layout: &Layout) -> Self {
        Self {
            message: format!("`{}` cannot be searched: {}", vault.display(), told(err)),
            hint: remedy_of(err, vault, layout),
        }
    }

    fn answer(self) -> Answer {
        let Self { message, hint } = self;
        Answer::Failed { message, hint: Some(hint), usage: false }
    }
}

/// Looks at the last index and what was committed since.
pub fn look(
    vault: &Path,
    dirs: &Dirs,
    look: &Look,
    form: Form,
    unseen: &'static str,
    progress: &dyn Fn(usize, usize),
) -> Answer {
    let settings = settings(vault, dirs);
    let ready = match ready(vault, dirs, &settings, progress) {
        Ok(ready) => ready,
        Err(failed) => return failed.answer(),
    };
    let as_of = |is_asked: &dyn Fn(&Card) -> bool| AsOf {
        at: ready.view.at(),
        commits_behind: ready.commits_behind,
        unseen: Some(unseen),
        notes_in_part: search::in_part(&ready.view, is_asked),
        ..AsOf::default()
    };
    let ground = looks::Ground {
        view: &ready.view,
        as_of: &as_of,
        partial: ready.partial.clone(),
        rules: settings::rules(&settings),
        leave: search::Leave::Freely,
        vault,
    };
    looks::answer(&ground, look, form, clock::now() + SEARCH_LIMIT)
}

/// What can be asked, and why it is less than HEAD.
pub struct Ready {
    pub view: Arc<IndexView>,
    pub partial: Option<String>,
    pub commits_behind: usize,
}

/// The last index and what was committed since.
pub fn ready(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    progress: &dyn Fn(usize, usize),
) -> Result<Ready, Failed> {
    let layout = &settings.layout;
    let ready = (|| -> Result<Ready, Box<dyn std::error::Error>> {
        let history = Reader::open(vault)?;
        let head = history.head()?.map(|it| it.commit);
        let model = &|| models::for_a_command(settings, dirs);
        let mut ready = view(vault, &history, head, layout, model, progress)?;
        if let (Some(at), Some(head)) = (ready.view.at(), head)
            && at != head
        {
            ready.commits_behind = history.count_between(Some(at), head, 1000)?;
        }
        Ok(ready)
    })();
    ready.map_err(|err| Failed::of(err.as_ref(), vault, layout))
}

fn view(
    vault: &Path,
    history: &Reader,
    head: Option<CommitId>,
    layout: &Layout,
    model: &dyn Fn() -> Arc<dyn Embedder>,
    progress: &dyn Fn(usize, usize),
) -> Result<Ready, Box<dyn std::error::Error>> {
    let metadata = vault.join(&layout.metadata);
    let Some(head) = head else {
        let view =
            IndexReader::empty(layout).with_model(models::on_board()).view(Vec::new(), None)?;
        return Ok(Ready { view, partial: None, commits_behind: 0 });
    };
    let reader = match IndexReader::open(&metadata, layout)? {
        Ok(reader) => with_model(reader, model()),
        Err(_) => return build(vault, history, head, layout, progress),
    };
    let Some(changes) = changes::changed_since(history, reader.cursors(), head)? else {
        return build(vault, history, head, layout, progress);
    };
    let all = changes.len();
    let deadline = clock::now() + CATCH_UP;
    let mut updates: Vec<Update> = Vec::new();
    for (path, entry) in changes {
        if updates.len() >= MOST_PATHS || clock::now() >= deadline {
            break;
        }
        updates.push(changes::update_or_name(history, path, entry, layout)?);
    }
    let read = updates.len();
    let partial = (read < all)
        .then(|| format!("{} of {all} changed notes are not read; start the agent", all - read));
    // The last commit that the whole answer is true for.
    let at = if partial.is_none() { Some(head) } else { reader.cursors().first().copied() };
    Ok(Ready { view: reader.view(updates, at)?, partial, commits_behind: 0 })
}

/// Searched by the model of the settings where the index has all its vectors, else by the one that
/// costs nothing.
fn with_model(reader: IndexReader, model: Arc<dyn Embedder>) -> IndexReader {
    let reader = reader.with_model(model);
    match reader.missing_vectors() {
        0 => reader,
        _ => reader.with_model(models::on_board()),
    }
}

/// Builds the index that is missing, and keeps it; in memory where the vault can't be written.
fn build(
    vault: &Path,
    history: &Reader,
    head: CommitId,
    layout: &Layout,
    progress: &dyn Fn(usize, usize),
) -> Result<Ready, Box<dyn std::error::Error>> {
    let notes = changes::indexed(history, head, layout)?;
    let total = notes.len();
    // Nobody else may write it while we do: an agent that starts meanwhile does all else, and opens
    // what we leave.
    let metadata = vault.join(&layout.metadata);
    let kept = Index::open_with_model(&metadata, layout, models::on_board()).map(|it| it.0).ok();
    if let Some(mut index) = kept {
        match build_in(&mut index, history, &notes, head, layout, progress) {
            Ok(view) => return Ok(Ready { view, partial: None, commits_behind: 0 }),
            // A full disk keeps no index, and the notes can be read all the same. What Git does not
            // give is told below.
            Err(err) => tracing::debug!(err = told(err.as_ref()), "no index can be kept"),
        }
    }
    let mut updates = Vec::new();
    for (at, (path, entry)) in notes.into_iter().take(MOST_PATHS).enumerate() {
        updates.push(changes::update_or_name(history, path, Some(entry), layout)?);
        progress(at + 1, total);
    }
    let partial = (updates.len() < total)
        .then(|| format!("no index can be kept here; {} of {total} notes are read", updates.len()));
    let reader = IndexReader::empty(layout).with_model(models::on_board());
    Ok(Ready { view: reader.view(updates, Some(head))?, partial, commits_behind: 0 })
}

fn build_in(
    index: &mut Index,
    history: &Reader,
    notes: &[(VaultPath, Entry)],
    head: CommitId,
    layout: &Layout,
    progress: &dyn Fn(usize, usize),
) -> Result<Arc<IndexView>, Box<dyn std::error::Error>> {
    let mut build = index.begin_rebuild(notes.len())?;
    for (at, (path, entry)) in notes.iter().enumerate() {
        if let Update::Put { path, blob, role, doc } =
            changes::update_or_name(history, path.clone(), Some(*entry), layout)?
        {
            build.add(&path, blob, role, &doc)?;
        }
        progress(at + 1, notes.len());
    }
    build.finish(head)?;
    // Of very long notes they are not made while the words are.
    let until = clock::now() + VECTORS_LIMIT;
    while index.owes_at_once() && clock::now() < until {
        if let Err(err) = index.tend_at_once(until) {
            // The page says what is missing, and an agent makes it.
            tracing::debug!(err = told(&err), "vectors are missing");
            break;
        }
    }
    Ok(index.view())
}

/// How a vault is whose agent is not there, or cannot be asked.
pub fn status(vault: &Path, dirs: &Dirs, unreachable: Option<Unreachable>) -> Status {
    let mut problems = Vec::new();
    let mut problem = |id: &str, level: Level, what: String, remedy: &str| {
        problems.push(Problem {
            id: id.to_owned(),
            level: level.text().to_owned(),
            what,
            remedy: remedy.to_owned(),
            since: 0,
            count: 1,
        });
    };
    let head = match Reader::open(vault) {
        Ok(reader) => match reader.head() {
            Ok(head) => head,
            Err(err) => {
                match reader.missing(None) {
                    Some(it) => problem("history", Level::Error, it.what, &it.remedy),
                    None => {
                        let what = format!("Git's data cannot be read: {}", told(&err));
                        problem("history", Level::Error, what, &err.hint());
                    }
                }
                None
            }
        },
        Err(err) => {
            let remedy = err.hint().unwrap_or_else(|| "Run `remd up` on this vault.".to_owned());
            problem("history", Level::Error, told(&err), &remedy);
            None
        }
    };
    let settings = settings(vault, dirs);
    if let Some((what, remedy)) = models::trouble(&settings, dirs) {
        problem("model", Level::Warning, what, &remedy);
    }
    let layout = settings.layout;
    let folder = vault.join(&layout.metadata).display().to_string();
    let unread =
        |err: &IndexError| format!("The index in `{folder}` cannot be read: {}", told(err));
    let mut notes = None;
    let index = match IndexReader::open(&vault.join(&layout.metadata), &layout) {
        Ok(Ok(reader)) => {
            let at = reader.cursors().first().copied();
            match reader.view(Vec::new(), at) {
                Ok(view) => {
                    let counts = view.counts();
                    let (troubled_notes, troubled) = health::troubled(&view);
                    notes = health::troubled_problem(&view);
                    let is_behind = at != head.as_ref().map(|it| it.commit);
                    IndexStatus {
                        commit: at.map(|it| it.to_string()),
                        commits_behind: usize::from(is_behind),
                        notes: counts.notes,
                        chunks: counts.chunks,
                        links: counts.links,
                        bytes: view.bytes_on_disk(),
                        troubled_notes,
                        troubled,
                        ..IndexStatus::default()
                    }
                }
                Err(err) => {
                    problem(
                        "index",
                        Level::Error,
                        unread(&err),
                        &index_remedy(&err, Path::new(&folder)),
                    );
                    IndexStatus::default()
                }
            }
        }
        // Nothing was committed, so nothing is missing.
        Ok(Err(_)) if head.is_none() => IndexStatus::default(),
        Ok(Err(_)) => {
            let metadata = vault.join(&layout.metadata);
            match fs::can_be_made(&metadata) {
                true => problem(
                    "index",
                    Level::Note,
                    "There is no index of the last commit yet".to_owned(),
                    "`remd up` or the next `remd search` builds it.",
                ),
                false => problem(
                    "index",
                    Level::Warning,
                    format!("There is no index, and none can be made at `{}`", metadata.display()),
                    "`remd search` reads the notes themselves, and says when these are too many; \
                     make the vault writable for an index.",
                ),
            }
            IndexStatus::default()
        }
        Err(err) => {
            problem("index", Level::Error, unread(&err), &index_remedy(&err, Path::new(&folder)));
            IndexStatus::default()
        }
    };
    // What an agent does that cannot be asked, nobody knows; its mount is in the kernel's table.
    let (agent, mount, watch, unseen) = match &unreachable {
        None => (
            Agent::default(),
            mount_left(vault, dirs),
            Watch { mode: "off".to_owned(), ..Watch::default() },
            "no agent looks at the disk",
        ),
        Some(it) => (
            Agent { pid: it.pid, silent: Some(it.state.to_owned()), ..Agent::default() },
            mount_of_silent(vault, dirs),
            Watch { mode: "unknown".to_owned(), ..Watch::default() },
            "the agent does not answer",
        ),
    };
    let (verdict, summary) = match unreachable {
        None => ("stopped", "no agent is running; edits are not committed (`remd up`)".to_owned()),
        Some(Unreachable { what, remedy, .. }) => {
            problem("unreachable", Level::Error, what.clone(), &remedy);
            ("unreachable", what)
        }
    };
    problems.extend(notes);
    problems.extend(ground::of(vault).into_iter().map(|it| Problem {
        id: it.id.to_owned(),
        level: Level::Note.text().to_owned(),
        what: it.what,
        remedy: it.remedy,
        since: 0,
        count: 1,
    }));
    Status {
        schema_version: health::SCHEMA_VERSION,
        verdict: verdict.to_owned(),
        summary,
        vault: vault.display().to_string(),
        layout: settings.layout_name.to_owned(),
        agent: Agent { version: env!("CARGO_PKG_VERSION").to_owned(), ..agent },
        head: head.map(|it| Head {
            commit: it.commit.to_string(),
            branch: it.branch,
            subject: it.subject,
            time: it.time,
        }),
        pending: Pending { unseen: Some(unseen.to_owned()), ..Pending::default() },
        index,
        mount,
        watch,
        secrets: policy_line(settings.secrets),
        leaks: Vec::new(),
        problems,
    }
}

/// How the mount stands where no agent runs: one that was killed leaves it behind.
fn mount_left(vault: &Path, dirs: &Dirs) -> Mount {
    let left = mount::still_mounted(&dirs.mount_record(vault));
    let why = "dead, as its agent was killed; the next `remd up`, or `remd unmount`, clears it";
    Mount {
        state: if left.is_some() { "failed" } else { "off" }.to_owned(),
        why: left.is_some().then(|| why.to_owned()),
        path: left.map(|it| it.display().to_string()),
        ..Mount::default()
    }
}

/// How the mount stands of an agent that does not answer.
fn mount_of_silent(vault: &Path, dirs: &Dirs) -> Mount {
    match mount::still_mounted(&dirs.mount_record(vault)) {
        Some(path) => Mount {
            state: "mounted".to_owned(),
            path: Some(path.display().to_string()),
            why: Some("does not answer".to_owned()),
            ..Mount::default()
        },
        None => Mount { state: "unknown".to_owned(), ..Mount::default() },
    }
}

/// An agent that runs and answers nobody here.
pub struct Unreachable {
    pub what: String,
    pub remedy: String,
    /// Its process, where it is known.
    pub pid: Option<u32>,
    /// What it is instead of running, in a word or two.
    pub state: &'static str,
}

/// An agent that takes a request and gives no sign.
pub fn silent(vault: &Path) -> Unreachable {
    let pid = lock::holder(vault).map(|it| it.pid);
    let agent = pid.map_or("the agent".to_owned(), |it| format!("the agent (process {it})"));
    match pid.filter(|it| lock::is_suspended(*it)) {
        Some(pid) => Unreachable {
            what: format!("{agent} is stopped and does nothing"),
            remedy: format!("Let it go on: `kill -CONT {pid}` (or `fg` where Ctrl-Z stopped it)."),
            pid: Some(pid),
            state: "stopped",
        },
        None => Unreachable {
            what: format!("{agent} does not answer"),
            remedy:
                "The machine or its disk may be very busy: ask again. If it stays so, stop the \
                     agent and say `remd up`; nothing is lost."
                    .to_owned(),
            pid,
            state: "does not answer",
        },
    }
}

/// Whether the vault's lock is held although nobody answers.
pub fn unreachable(vault: &Path, dirs: &Dirs) -> Option<Unreachable> {
    // One that starts takes its lock again and again for a while: ours, of a moment, ends nobody.
    if !matches!(lock::try_lock_dir(vault), Ok(None)) {
        return None;
    }
    let socket = dirs.socket(vault).ok()?;
    let what =
        format!("an agent runs (its lock is held) but can't be reached at `{}`", socket.display());
    let holder = lock::holder(vault);
    let process = holder.map_or(String::new(), |it| format!(" (process {})", it.pid));
    // SAFETY: getuid takes nothing and cannot fail.
    let us = unsafe { libc::getuid() };
    let remedy = match holder {
        Some(it) if it.uid != us => {
            format!("It is another user's (uid {}){process}: run the command as them.", it.uid)
        }
        _ => format!(
            "It is starting or stopping, or was started with another XDG_RUNTIME_DIR{process}: \
             run the command with that one, or stop the agent and say `remd up`."
        ),
    };
    Some(Unreachable { what, remedy, pid: holder.map(|it| it.pid), state: "cannot be reached" })
}

/// What to do about whatever kept a query from being answered.
fn remedy_of(err: &(dyn std::error::Error + 'static), vault: &Path, layout: &Layout) -> String {
    if let Some(trouble) = Trouble::behind(err) {
        let places = [vault.join(".git"), vault.join(&layout.metadata)];
        return cause::remedy(trouble, &places.each_ref().map(|it| it.as_path()));
    }
    let by_kind = if let Some(err) = err.downcast_ref::<OpenError>() {
        err.hint()
    } else if let Some(err) = err.downcast_ref::<ReadError>() {
        Some(err.hint())
    } else if let Some(err) = err.downcast_ref::<IndexError>() {
        err.hint()
    } else {
        None
    };
    by_kind.unwrap_or_else(|| "`remd status` says more.".to_owned())
}

fn index_remedy(err: &IndexError, folder: &Path) -> String {
    match err.trouble() {
        Some(trouble) => cause::remedy(trouble, &[folder]),
        None => "It is built anew by itself at the next start of the agent.".to_owned(),
    }
}

/// The settings that hold where no agent has read them.
pub fn settings(vault: &Path, dirs: &Dirs) -> Settings {
    // A file that can't be read is the agent's to report; here the defaults serve.
    settings::load(vault, dirs, &[]).map(|it| it.settings).unwrap_or_default()
}

//! How the agent is, and its three faces: text, JSON, Markdown.
//!
//! Pure. Ages are counted from a `now` that comes in, so that the same state gives the same page.
//!
//! **Invariant:** the first line is the verdict, and every problem carries its remedy.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod at_work;
mod leak;

pub use at_work::{AtWork, Committing};
pub use leak::Leak;

use crate::base::clock::age_text;
use crate::render::{counted, json_page, markdown_escaped};
use crate::vault::path::escape;

/// Everything `remd status` knows. Times are Unix seconds, sizes bytes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    pub schema_version: u32,
    /// `ok`, `working`, `degraded`, `held`, `stopped`.
    pub verdict: String,
    /// One sentence for people.
    pub summary: String,
    pub vault: String,
    /// `default` or `reme`: what the vault's folders are called.
    #[serde(default)]
    pub layout: String,
    pub agent: Agent,
    pub head: Option<Head>,
    pub pending: Pending,
    pub index: Index,
    pub mount: Mount,
    pub watch: Watch,
    /// The policy on what looks like a credential, for people.
    pub secrets: String,
    /// What looks like a credential and is not allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaks: Vec<Leak>,
    pub problems: Vec<Problem>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Agent {
    /// Whether it runs and answers.
    pub running: bool,
    /// What one that is there and does not answer is instead: `stopped` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<String>,
    pub pid: Option<u32>,
    pub since: Option<i64>,
    pub version: String,
    pub paused: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Head {
    pub commit: String,
    pub branch: Option<String>,
    pub subject: String,
    pub time: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pending {
    /// Paths seen changed and not committed yet.
    pub edits: usize,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Why they wait, where it is more than the quiet window.
    pub waiting_for: Option<String>,
    /// Paths whose deletion is held back.
    pub held_deletions: usize,
    /// The first of them, for people.
    pub held_examples: Vec<String>,
    /// Paths kept out of the branch and why (too large, staged by a person, unreadable).
    pub kept_out: Vec<KeptOut>,
    /// Places that are not looked into, and why: repositories of their own, other file systems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<KeptOut>,
    /// Filters, hooks and signatures under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_work: Vec<AtWork>,
    /// How far a commit of very many files is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committing: Option<Committing>,
    /// Why there may be edits that nobody has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
}

/// A number as people read it: `100,000`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KeptOut {
    pub path: String,
    pub why: String,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Index {
    pub commit: Option<String>,
    pub commits_behind: usize,
    /// Seconds since the index last reached HEAD; `None` while it is there.
    pub behind_for: Option<f64>,
    pub notes: usize,
    pub chunks: usize,
    pub links: usize,
    /// 0..=1 while a first build or rebuild runs.
    pub progress: Option<f64>,
    pub bytes: u64,
    pub ambiguous_links: usize,
    /// The vectors beside the words; `None` where no model is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vectors: Option<Vectors>,
    /// While it is made anew beside the one that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reindex: Option<Reindexing>,
    /// How many notes are not read as they stand, and the first of them with the reasons.
    pub troubled_notes: usize,
    pub troubled: Vec<Troubled>,
}

/// An index, or a part of it, that is made anew.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reindexing {
    /// `all`, `bm25`, `embedding`, `tag`.
    pub scope: String,
    pub done: usize,
    pub all: usize,
    /// How far it is, for people.
    pub text: String,
}

/// How far the vectors of the notes are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Vectors {
    pub model: String,
    pub dimension: usize,
    pub vectors: usize,
    /// Notes without vectors yet: found by their words alone.
    pub missing: usize,
    /// Whether a graph of neighbours says where to look, where they are many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<VectorGraph>,
    /// Those of another model, which take their place when they are whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextVectors>,
}

/// A graph of neighbours, by which only a few of many vectors are looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct VectorGraph {
    /// `in_use`, `reading`, `building`, `waiting` (for quiet, or for vectors) or `failed`.
    pub state: String,
    /// Vectors in it, and all that there are where it is being built.
    pub done: usize,
    pub all: usize,
    /// Why there is none, or why it is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How far the vectors of another model are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NextVectors {
    pub model: String,
    pub dimension: usize,
    /// Notes that have theirs, and all notes.
    pub done: usize,
    pub all: usize,
}

/// A note that is not read as it stands: frontmatter that does not parse, text that is too long
/// or in no known encoding.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Troubled {
    pub path: String,
    pub problems: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mount {
    /// `mounted`, `off`, `failed`; `unknown` where the agent does not answer.
    pub state: String,
    pub path: Option<String>,
    pub why: Option<String>,
    /// Searches that reading files here has started; listing and probing start none.
    #[serde(default)]
    pub questions: u64,
    /// How many of them were sent to the provider of the settings, as an opened page was.
    #[serde(default)]
    pub sent: u64,
    /// How many were not sent, as there were enough in that minute.
    #[serde(default)]
    pub withheld: u64,
    /// Other pages made: the status, the links of a note, the README.
    #[serde(default)]
    pub pages: u64,
    /// Requests that got no answer by their deadline.
    #[serde(default)]
    pub late: u64,
    /// Requests turned away because too many waited already.
    #[serde(default)]
    pub refused: u64,
    /// Files and folders open now.
    #[serde(default)]
    pub open: usize,
    /// Bytes of pages kept for the next reader.
    #[serde(default)]
    pub cached_bytes: usize,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Watch {
    /// `inotify`, `polling`, `off`; `unknown` where the agent does not answer.
    pub mode: String,
    pub watches: usize,
    pub watch_limit: Option<usize>,
}

/// Something that needs a person, or that a person should know.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Problem {
    /// Stable and short: `index-lock`, `held-deletions`, `watch-limit`, `unreadable`.
    pub id: String,
    /// `error`, `warning`, `note`.
    pub level: String,
    pub what: String,
    pub remedy: String,
    pub since: i64,
    /// How often it was met.
    pub count: u64,
}

/// One screen for people: the verdict, a line a subject, then each problem with its remedy.
pub fn text(status: &Status, now: i64) -> Vec<u8> {
    let mut out = format!("{}\n", verdict(status));
    for (subject, line) in lines(status, now) {
        out.push_str(&format!("  {subject:<8} {}\n", one_line(&line)));
    }
    if !status.problems.is_empty() {
        out.push_str(&format!("\nproblems ({}):\n", status.problems.len()));
    }
    for problem in &status.problems {
        out.push_str(&format!("  {}\n", one_line(&problem_line(problem, now))));
        if !problem.remedy.is_empty() {
            out.push_str(&format!("    hint: {}\n", one_line(&problem.remedy)));
        }
    }
    out.into_bytes()
}

/// The whole state for programs.
pub fn json(status: &Status) -> Vec<u8> {
    json_page(status)
}

/// The same screen as Markdown.
pub fn markdown(status: &Status, now: i64) -> Vec<u8> {
    let mut out = format!("# {}\n\n| | |\n|---|---|\n", markdown_escaped(&verdict(status)));
    for (subject, line) in lines(status, now) {
        out.push_str(&format!("| {subject} | {} |\n", markdown_escaped(&line)));
    }
    if !status.problems.is_empty() {
        out.push_str("\n## Problems\n\n");
    }
    for problem in &status.problems {
        out.push_str(&format!("- {}\n", markdown_escaped(&problem_line(problem, now))));
        if !problem.remedy.is_empty() {
            out.push_str(&format!("  - hint: {}\n", markdown_escaped(&problem.remedy)));
        }
    }
    out.into_bytes()
}

/// The verdict and its sentence.
pub fn verdict(status: &Status) -> String {
    match status.summary.as_str() {
        "" => status.verdict.clone(),
        summary => format!("{}: {}", status.verdict, one_line(summary)),
    }
}

/// The subjects and what there is to say of each.
fn lines(status: &Status, now: i64) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("vault", vault_line(status)),
        ("agent", agent_line(&status.agent, now)),
        ("head", head_line(status.head.as_ref(), now)),
        ("pending", pending_line(status)),
    ];
    if !status.pending.held_examples.is_empty() {
        let more = status.pending.held_deletions.saturating_sub(status.pending.held_examples.len());
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        lines.push(("held", format!("{}{more}", status.pending.held_examples.join(", "))));
    }
    let kept_out = &status.pending.kept_out;
    for it in kept_out.iter().take(KEPT_OUT_SHOWN) {
        lines.push(("kept out", format!("{}: {}", it.path, it.why)));
    }
    if kept_out.len() > KEPT_OUT_SHOWN {
        let more = kept_out.len() - KEPT_OUT_SHOWN;
        lines.push(("kept out", format!("and {more} more (`remd status --json` names all)")));
    }
    for it in &status.pending.at_work {
        lines.push(("at work", it.text(now)));
    }
    lines.push(("index", index_line(status)));
    if let Some(it) = &status.index.reindex {
        lines.push(("reindex", format!("{}: {} (`remd reindex --cancel`)", it.scope, it.text)));
    }
    if let Some(vectors) = &status.index.vectors {
        lines.push(("vectors", vectors_line(vectors)));
    }
    lines.push(("mount", mount_line(&status.mount)));
    lines.push(("watch", watch_line(&status.watch)));
    if !status.secrets.is_empty() {
        lines.push(("secrets", status.secrets.clone()));
    }
    lines
}

fn vault_line(status: &Status) -> String {
    match status.layout.as_str() {
        "" => status.vault.clone(),
        layout => format!("{}, layout {layout}", status.vault),
    }
}

fn agent_line(agent: &Agent, now: i64) -> String {
    if let Some(silent) = agent.silent.as_ref().filter(|_| !agent.running) {
        let process = agent.pid.map_or(String::new(), |it| format!(" (process {it})"));
        return format!("{silent}{process}");
    }
    let mut line = if agent.running { "running" } else { "not running" }.to_owned();
    if let Some(since) = agent.since.filter(|_| agent.running) {
        line.push_str(&format!(" for {}", age(since, now)));
    }
    if let Some(pid) = agent.pid {
        line.push_str(&format!(", process {pid}"));
    }
    if agent.paused {
        line.push_str(", committing paused");
    }
    if !agent.version.is_empty() {
        line.push_str(&format!(", version {}", agent.version));
    }
    line
}

fn head_line(head: Option<&Head>, now: i64) -> String {
    let Some(head) = head else { return "no commit yet".to_owned() };
    let branch = head.branch.as_deref().unwrap_or("(no branch)");
    format!("{} on {branch}, {} ago, {}", short(&head.commit), age(head.time, now), head.subject)
}

/// So many paths that are kept out are named for people; programs get all.
const KEPT_OUT_SHOWN: usize = 10;

fn pending_line(status: &Status) -> String {
    let pending = &status.pending;
    // What is a problem is said there, once.
    let is_said = |why: &str| status.problems.iter().any(|it| it.what.ends_with(why));
    let mut parts = Vec::new();
    match (pending.edits, &pending.waiting_for) {
        (0, None) => {}
        (0, Some(why)) if is_said(why) => {}
        (0, Some(why)) => parts.push(why.clone()),
        (edits, why) => {
            let edits = counted(edits, "edit", "edits");
            let why = why.as_ref().map_or(String::new(), |it| match is_said(it) {
                true => " (see the problem below)".to_owned(),
                false => format!(": {it}"),
            });
            parts.push(format!("{edits} not committed yet{why}"));
        }
    }
    if pending.held_deletions > 0 {
        parts.push(format!(
            "{} held back",
            counted(pending.held_deletions, "deletion", "deletions")
        ));
    }
    if !pending.kept_out.is_empty() {
        parts.push(format!("{} kept out", counted(pending.kept_out.len(), "path", "paths")));
    }
    if let Some(why) = &pending.unseen {
        parts.push(format!("unknown: {why}"));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
}

fn index_line(status: &Status) -> String {
    let index = &status.index;
    let is_unwell = status.problems.iter().any(|it| it.id == "index" && it.level == "error");
    let mut line = match (&index.commit, index.progress) {
        (_, Some(progress)) => format!("being built, {:.0} %", progress.clamp(0.0, 1.0) * 100.0),
        (None, None) => "empty".to_owned(),
        (Some(commit), None) => format!("at {}", short(commit)),
    };
    if index.commits_behind > 0 {
        line.push_str(&format!(", {} behind", counted(index.commits_behind, "commit", "commits")));
        if let Some(seconds) = index.behind_for {
            let age = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            line.push_str(&format!(" for {}", age_text(age)));
        }
    } else if is_unwell {
        line.push_str(", not well (see the problem below)");
    } else if index.commit.is_some() && index.progress.is_none() {
        line.push_str(", current");
    }
    line.push_str(&format!(
        "; {}, {}, {}",
        counted(index.notes, "note", "notes"),
        counted(index.chunks, "chunk", "chunks"),
        counted(index.links, "link", "links"),
    ));
    // What cannot be looked at has no size.
    if index.bytes > 0 || !is_unwell {
        line.push_str(&format!(", {}", bytes_text(index.bytes)));
    }
    if index.ambiguous_links > 0 {
        line.push_str(&format!(
            "; {} that could mean several notes",
            counted(index.ambiguous_links, "link", "links")
        ));
    }
    line
}

fn vectors_line(vectors: &Vectors) -> String {
    let count = counted(vectors.vectors, "vector", "vectors");
    let mut line = format!("{}, {count} of {} parts", vectors.model, vectors.dimension);
    if vectors.missing > 0 {
        line.push_str(&format!(
            "; being made for {}, found by words meanwhile",
            counted(vectors.missing, "note", "notes")
        ));
    }
    if let Some(graph) = &vectors.graph {
        line.push_str(&graph_text(graph));
    }
    if let Some(next) = &vectors.next {
        line.push_str(&format!(
            "; those of {} ({} parts) take their place when all are made: {} of {} notes",
            one_line(&next.model),
            next.dimension,
            grouped(next.done),
            grouped(next.all)
        ));
    }
    line
}

fn graph_text(graph: &VectorGraph) -> String {
    let why = graph.why.as_deref().map(one_line).unwrap_or_default();
    match graph.state.as_str() {
        "in_use" if why.is_empty() => "; a graph of neighbours is in use".to_owned(),
        "in_use" => format!("; a graph of neighbours is in use, and not kept: {why}"),
        "building" => format!(
            "; a graph of neighbours is being built: {} of {}",
            grouped(graph.done),
            grouped(graph.all)
        ),
        "failed" => format!("; all of them are looked at, without a graph: {why}"),
        _ => "; all of them are looked at until a graph of neighbours is there".to_owned(),
    }
}

fn mount_line(mount: &Mount) -> String {
    let mut line = mount.state.clone();
    if let Some(path) = &mount.path {
        line.push_str(&format!(" at {path}"));
    }
    if let Some(why) = &mount.why {
        line.push_str(&format!(": {why}"));
    }
    if mount.questions > 0 {
        let questions = usize::try_from(mount.questions).unwrap_or(usize::MAX);
        line.push_str(&format!("; {} asked", counted(questions, "question", "questions")));
    }
    if mount.sent > 0 {
        line.push_str(&format!(", {} sent to the provider", mount.sent));
    }
    if mount.withheld > 0 {
        line.push_str(&format!(", {} more than `mount.paid_per_minute`", mount.withheld));
    }
    if mount.late + mount.refused > 0 {
        line.push_str(&format!(", {} in vain", mount.late + mount.refused));
    }
    line
}

fn watch_line(watch: &Watch) -> String {
    match (watch.watches, watch.watch_limit) {
        (0, None) => watch.mode.clone(),
        (watches, None) => format!("{}, {}", watch.mode, counted(watches, "watch", "watches")),
        (watches, Some(limit)) => format!("{}, {watches} of {limit} watches", watch.mode),
    }
}

fn problem_line(problem: &Problem, now: i64) -> String {
    let mut line = format!("{} {}: {}", problem.level, problem.id, problem.what);
    if problem.since > 0 {
        match now - problem.since {
            ..1 => line.push_str(" (just now"),
            _ => line.push_str(&format!(" (for {}", age(problem.since, now))),
        }
        // A note that stands is met at every look: that says nothing.
        if problem.count > 1 && problem.level != "note" {
            line.push_str(&format!(", met {} times", problem.count));
        }
        line.push(')');
    }
    line
}

fn age(then: i64, now: i64) -> String {
    age_text(Duration::from_secs(u64::try_from(now.saturating_sub(then)).unwrap_or(0)))
}

/// A commit id as Git abbreviates it.
fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

fn one_line(text: &str) -> Cow<'_, str> {
    escape(text.as_bytes())
}

#[cfg(test)]
mod tests;

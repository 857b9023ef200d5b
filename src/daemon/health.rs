//! Assembles [`Status`] and decides what *settled* means.
//!
//! Reads the house's mailboxes, asks nobody. Any thread.
//!
//! **Invariant:** the verdict is never better than the worst open problem.

use std::path::Path;

use crate::base::{clock, sink};
use crate::daemon::committer::leaks::policy_line;
use crate::daemon::house::{House, Ledger, MountState, Progress, Shelf};
use crate::daemon::problems::Level;
use crate::index::{GraphState, IndexView};
use crate::mount;
use crate::render::counted;
use crate::render::status::{
    Agent, AtWork, Head, Index, Leak, Mount, NextVectors, Pending, Problem, Reindexing, Status,
    Troubled, VectorGraph, Vectors, Watch,
};
use crate::vault::remedy;
use crate::watch::{WatchMode, WatchStats};

/// The version of the status object; raised when a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// Commits are counted up to here.
const MOST_COUNTED: usize = 1000;

/// How many held paths are named; the rest is counted.
const HELD_EXAMPLES: usize = 5;

/// How many edits that wait are named; the rest is counted.
const EDITS_NAMED: usize = 100;

/// How many notes that are not read as they stand are named; the rest is counted.
const TROUBLED_NAMED: usize = 100;

/// The agent's state right now.
pub fn status(house: &House) -> Status {
    let ledger = house.ledger.get();
    let shelf = house.shelf.get();
    let watch = house.watch.get().map(|it| it.get());
    let commits_behind = commits_behind(house);
    let is_lost = house.problems.is_open("vault-lost");
    let mut problems = house.problems.list();
    // What watches nothing for want of a vault is no problem of its own.
    match is_lost {
        true => problems.retain(|it| it.id != "watch"),
        false => problems.extend(watch.as_ref().and_then(watch_problem)),
    }
    if !house.problems.is_open("index") && house.is_vault_there() {
        problems.extend(shelf.view.as_deref().and_then(taken_away_problem));
    }
    problems.extend(shelf.view.as_deref().and_then(troubled_problem));
    if !ledger.held.is_empty() {
        problems.insert(0, held_problem(ledger.held.len()));
    }
    let (mount, unmounted) = mount(&house.mount.get());
    let mount = with_tally(mount, house.tally.read());
    problems.extend(unmounted);
    problems.extend(sink::lost().map(log_problem));
    let (edits, paths) = match is_lost {
        true => (0, Vec::new()),
        false => {
            let first = house.intake.first_edits(&ledger.named, EDITS_NAMED);
            (waiting_edits(house, &ledger), first.iter().map(|it| it.to_string()).collect())
        }
    };
    let paused = house.intake.is_paused();
    let mut status = Status {
        schema_version: SCHEMA_VERSION,
        vault: house.vault.display().to_string(),
        layout: house.settings.get().layout_name.to_owned(),
        agent: Agent {
            running: true,
            silent: None,
            pid: Some(std::process::id()),
            since: Some(house.since),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            paused,
        },
        head: ledger.head.as_ref().map(|it| Head {
            commit: it.commit.to_string(),
            branch: it.branch.clone(),
            subject: it.subject.clone(),
            time: it.time,
        }),
        pending: Pending {
            edits,
            paths,
            waiting_for: if paused {
                Some("paused (`remd resume`)".to_owned())
            } else {
                ledger.waiting_for
            },
            held_deletions: ledger.held.len(),
            held_examples: ledger
                .held
                .iter()
                .take(HELD_EXAMPLES)
                .map(|it| it.to_string())
                .collect(),
            kept_out: Vec::clone(&ledger.kept_out),
            skipped: Vec::clone(&ledger.skipped),
            at_work: at_work(house),
            committing: ledger.committing,
            unseen: unseen(house).map(str::to_owned),
        },
        index: Index {
            reindex: house.reindex.under_way().map(|(scope, stage)| Reindexing {
                scope: scope.name().to_owned(),
                done: stage.done,
                all: stage.all,
                text: stage.text(),
            }),
            ..index(&shelf, commits_behind, ledger.head_since)
        },
        mount,
        watch: Watch {
            mode: match watch.as_ref().map(|it| &it.mode) {
                Some(WatchMode::Inotify) => "inotify".to_owned(),
                Some(WatchMode::Polling { .. } | WatchMode::PollingRemote) => "polling".to_owned(),
                Some(WatchMode::Off { .. }) | None => "off".to_owned(),
            },
            watches: watch.as_ref().map_or(0, |it| it.watches),
            watch_limit: watch.and_then(|it| it.limit).map(|it| it.watches),
        },
        secrets: policy_line(house.settings.get().secrets),
        leaks: ledger.leaks.iter().chain(&**house.exposed.get()).cloned().collect(),
        problems,
        ..Status::default()
    };
    (status.verdict, status.summary) = verdict(&status, shelf.progress, ledger.looked);
    status
}

/// How many commits HEAD is ahead of the index.
pub fn commits_behind(house: &House) -> usize {
    let head = house.ledger.get().head.map(|it| it.commit);
    let at = house.shelf.get().view.and_then(|it| it.at());
    match (at, head) {
        (at, head) if at == head => 0,
        (_, None) => 0,
        // What cannot be counted is at least one.
        (at, Some(head)) => house.reader.count_between(at, head, MOST_COUNTED).unwrap_or(1).max(1),
    }
}

/// What of the user's own is done around commits right now, what edits wait for first.
pub fn at_work(house: &House) -> Vec<AtWork> {
    let filtering = house.ledger.get().filtering;
    let mut list: Vec<AtWork> = house
        .children
        .errands
        .list()
        .into_iter()
        // What waits for a filter is steadier than what the filter is at just now.
        .filter(|it| filtering.iter().all(|known| known.what != it.what))
        .map(|it| AtWork {
            what: it.what,
            path: it.about,
            more: 0,
            since: it.since,
            is_waited_for: it.is_waited_for,
        })
        .collect();
    list.extend(filtering);
    list.sort_by_key(|it| (!it.is_waited_for, it.since));
    list
}

/// How many edits on disk no commit has yet: those that wait, also for a filter, and deletions held
/// back. Where the vault is gone, that its notes went with it is no edit; [`unseen`] says so.
pub fn edits_uncommitted(house: &House) -> usize {
    let ledger = house.ledger.get();
    let is_lost = house.problems.is_open("vault-lost");
    let waiting = if is_lost { 0 } else { waiting_edits(house, &ledger) };
    waiting + ledger.filtering_paths + ledger.held.len()
}

/// How many paths are kept out of the commits until somebody does something about it.
pub fn kept_out(house: &House) -> usize {
    let ledger = house.ledger.get();
    ledger.kept_out.len().saturating_sub(ledger.filtering_paths)
}

/// How many edits wait: without what is kept out or held back, which is said by itself.
fn waiting_edits(house: &House, ledger: &Ledger) -> usize {
    let any = house.intake.pending().min(1);
    house.intake.edits_beside(&ledger.named).max(any)
}

/// Why the disk may say something else than an answer: edits that nobody has seen, an index that
/// is not proven yet.
pub fn unseen(house: &House) -> Option<&'static str> {
    let watch = house.watch.get().map(|it| it.get());
    if house.problems.is_open("vault-lost") {
        Some("vault gone")
    } else if !house.ledger.get().looked {
        Some("first look at the vault not done")
    } else if watch.is_none_or(|it| !it.alive || matches!(it.mode, WatchMode::Off { .. })) {
        Some("not watched: edits of the last minutes unknown")
    } else if house.ledger.get().unreadable_folders > 0 {
        Some("a folder cannot be read")
    } else if house.shelf.get().view.is_some_and(|it| !it.is_proven()) {
        Some("index still being checked")
    } else {
        None
    }
}

/// For how long it is shown that a thread was replaced.
const REPLACED_SHOWN: std::time::Duration = std::time::Duration::from_secs(60);

/// What is wrong with the watcher, if something is.
fn watch_problem(stats: &WatchStats) -> Option<Problem> {
    let (level, what, remedy) = match &stats.mode {
        // A note of `ground` says why.
        WatchMode::PollingRemote => return None,
        WatchMode::Inotify if stats.alive => match stats.replaced {
            Some(at) if clock::now() - at < REPLACED_SHOWN => (
                Level::Warning,
                "A thread of the watcher ended a moment ago".to_owned(),
                "Another one watches and everything is looked at; please report the fault."
                    .to_owned(),
            ),
            _ => return None,
        },
        WatchMode::Inotify => (
            Level::Error,
            "The watcher does not answer".to_owned(),
            "It is replaced by itself; edits are found by a look every ten minutes.".to_owned(),
        ),
        WatchMode::Polling { why, remedy } => {
            (Level::Warning, format!("Polling instead of watching: {why}"), remedy.clone())
        }
        WatchMode::Off { why } => (
            Level::Error,
            format!("Nothing is watched: {why}"),
            "Edits are found by a look every ten minutes; mend this and restart.".to_owned(),
        ),
    };
    Some(Problem {
        id: "watch".to_owned(),
        level: level.text().to_owned(),
        what,
        remedy,
        since: 0,
        count: 1,
    })
}

fn held_problem(held: usize) -> Problem {
    Problem {
        id: "held-deletions".to_owned(),
        level: Level::Warning.text().to_owned(),
        what: match held {
            1 => "1 file is gone from the disk; its deletion is held back".to_owned(),
            _ => format!("{held} files are gone from the disk; their deletion is held back"),
        },
        remedy:
            "Bring them back (an unmounted folder?), or let the deletion through: `remd accept`"
                .to_owned(),
        since: 0,
        count: 1,
    }
}

fn log_problem(lost: sink::Lost) -> Problem {
    Problem {
        id: "log".to_owned(),
        level: Level::Note.text().to_owned(),
        what: "The agent's log cannot be written; its lines are lost".to_owned(),
        remedy: "Look where its standard error goes: a full disk, or a program that reads no more"
            .to_owned(),
        since: lost.since,
        count: lost.lines,
    }
}

/// An index that somebody took away since the indexer looked is named at once.
fn taken_away_problem(view: &IndexView) -> Option<Problem> {
    view.is_taken_away().then(|| Problem {
        id: "index".to_owned(),
        level: Level::Warning.text().to_owned(),
        what: "The index was taken away by somebody else; what is in memory is searched".to_owned(),
        remedy: "It is made anew by itself in a moment.".to_owned(),
        since: 0,
        count: 1,
    })
}

fn index(shelf: &Shelf, commits_behind: usize, head_since: i64) -> Index {
    let progress = shelf.progress.map(Progress::share);
    #[expect(clippy::cast_precision_loss, reason = "an age for people")]
    let behind_for =
        (commits_behind > 0).then(|| (clock::unix_seconds() - head_since).max(0) as f64);
    let Some(view) = &shelf.view else {
        return Index { commits_behind, behind_for, progress, ..Index::default() };
    };
    let counts = view.counts();
    let (troubled_notes, troubled) = troubled(view);
    Index {
        troubled_notes,
        troubled,
        commit: view.at().map(|it| it.to_string()),
        commits_behind,
        behind_for,
        notes: counts.notes,
        chunks: counts.chunks,
        links: counts.links,
        progress,
        bytes: view.bytes_on_disk(),
        ambiguous_links: counts.ambiguous_links,
        vectors: view.vectors().map(|it| Vectors {
            model: it.model,
            dimension: it.dimension,
            vectors: it.vectors,
            missing: it.missing,
            graph: graph(it.graph),
            next: shelf.next_space.as_ref().map(|it| NextVectors {
                model: it.model.clone(),
                dimension: it.dimension,
                done: it.done,
                all: it.all,
            }),
        }),
        ..Index::default()
    }
}

fn graph(state: GraphState) -> Option<VectorGraph> {
    let (state, done, all, why) = match state {
        GraphState::None => return None,
        GraphState::Waiting => ("waiting", 0, 0, None),
        GraphState::Reading => ("reading", 0, 0, None),
        GraphState::Building { done, all } => ("building", done, all, None),
        GraphState::InUse { vectors, unkept } => ("in_use", vectors, vectors, unkept),
        GraphState::Failed(why) => ("failed", 0, 0, Some(why)),
    };
    Some(VectorGraph { state: state.to_owned(), done, all, why })
}

/// How many notes are not read as they stand, and the first of them.
pub fn troubled(view: &IndexView) -> (usize, Vec<Troubled>) {
    let all = view.troubled();
    let named = all.iter().take(TROUBLED_NAMED).map(|it| Troubled {
        path: it.path.to_string(),
        problems: it.problems.iter().map(|it| it.to_string()).collect(),
    });
    (all.len(), named.collect())
}

/// The same as a note for people.
pub fn troubled_problem(view: &IndexView) -> Option<Problem> {
    let all = view.troubled();
    let first = all.first()?;
    let verb = if all.len() == 1 { "note is" } else { "notes are" };
    let why = first.problems.join("; ");
    let rest = match all.len() {
        1 => "",
        _ => " `remd status --json` names more under `index.troubled`.",
    };
    let remedy = first.problems.first().map_or("", |it| remedy::of(it));
    Some(Problem {
        id: "notes".to_owned(),
        level: Level::Note.text().to_owned(),
        what: format!("{} {verb} not read as written, as `{}`: {why}", all.len(), first.path),
        remedy: format!("{remedy}{rest}"),
        since: 0,
        count: 1,
    })
}

/// How the mount stands; one that somebody took away since the keeper looked is named at once.
fn mount(state: &MountState) -> (Mount, Option<Problem>) {
    let failed = |path: &Path, why: &str| Mount {
        state: "failed".to_owned(),
        path: Some(path.display().to_string()),
        why: Some(why.to_owned()),
        ..Mount::default()
    };
    match state {
        MountState::Off => (Mount { state: "off".to_owned(), ..Mount::default() }, None),
        MountState::Mounted { path, device: Some(device) } if !mount::is_at(path, device) => {
            let why =
                format!("`{}` was unmounted, or mounted over, by somebody else", path.display());
            let problem = Problem {
                id: "mount".to_owned(),
                level: Level::Warning.text().to_owned(),
                what: why.clone(),
                remedy: "It is mounted again by itself in a moment.".to_owned(),
                since: 0,
                count: 1,
            };
            (failed(path, &why), Some(problem))
        }
        MountState::Mounted { path, .. } => {
            let path = Some(path.display().to_string());
            (Mount { state: "mounted".to_owned(), path, ..Mount::default() }, None)
        }
        MountState::Failed { path, why } => (failed(path, why), None),
    }
}

/// The same with what it has done.
fn with_tally(mount: Mount, counted: mount::Counted) -> Mount {
    Mount {
        questions: counted.questions,
        sent: counted.sent,
        withheld: counted.withheld,
        pages: counted.pages,
        late: counted.late,
        refused: counted.refused,
        open: counted.open,
        cached_bytes: counted.cached_bytes,
        ..mount
    }
}

fn verdict(status: &Status, progress: Option<Progress>, looked: bool) -> (String, String) {
    let worst = |level: &str| status.problems.iter().find(|it| it.level == level);
    let (verdict, summary) = if let Some(problem) = worst("error") {
        ("degraded", problem.what.clone())
    } else if status.pending.held_deletions > 0 {
        let deletions = match status.pending.held_deletions {
            1 => "1 deletion is".to_owned(),
            many => format!("{many} deletions are"),
        };
        ("held", format!("{deletions} held back until you decide"))
    } else if let Some(leak) = status.leaks.iter().find(|it| it.held) {
        let Leak { path, line, .. } = leak;
        ("held", format!("`{path}` is held: line {line} looks like a credential"))
    } else if let Some(problem) = worst("warning") {
        ("degraded", problem.what.clone())
    } else if status.agent.paused {
        ("working", "committing is paused; go on with `remd resume`".to_owned())
    } else if let Some(why) = &status.pending.waiting_for {
        ("working", format!("edits wait: {why}"))
    } else if let Some(it) = status.pending.at_work.iter().find(|it| it.is_waited_for) {
        ("working", format!("edits wait: {}", it.text(clock::unix_seconds())))
    } else if let Some(committing) = &status.pending.committing {
        ("working", committing.text())
    } else if let Some(progress) = progress {
        ("working", format!("{}, {:.0} % done", progress.what(), progress.share() * 100.0))
    } else if !looked {
        ("working", "looking at the vault".to_owned())
    } else if status.pending.edits > 0 {
        let edits = counted(status.pending.edits, "edit", "edits");
        ("working", format!("{edits} not committed yet"))
    } else if status.index.commits_behind > 0 {
        let commits = counted(status.index.commits_behind, "commit", "commits");
        ("working", format!("the index is {commits} behind"))
    } else {
        ("ok", "everything is committed and searchable".to_owned())
    };
    (verdict.to_owned(), summary)
}

//! `remd forget`, `remd checkpoint`.
//!
//! Takes parsed arguments, shows what would go, asks the agent; where none runs, does it here.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::args::{CheckpointArgs, ForgetArgs};
use crate::cli::change::{How, ask, print};
use crate::cli::past;
use crate::cli::report::{self, CliError, Exit};
use crate::config::Dirs;
use crate::history::Reader;
use crate::render::changed::{Changed, Outcome, Verb};
use crate::serve::protocol::{Forget, Wish};
use crate::vault::path::escape;

/// So many lines of one note go without a question.
const FEW: usize = 5;

/// `remd forget`.
pub fn forget(vault: &Path, dirs: &Dirs, args: &ForgetArgs) -> Result<Exit, CliError> {
    let reader = past::open(vault)?;
    let Some(what) = args.what.as_deref().filter(|_| !args.list) else {
        return list(&reader, args.json);
    };
    let path = match !args.text && past::is_there(vault, &reader, what)? {
        true => Some(past::vault_path(vault, what)?),
        false => None,
    };
    let is_path = path.is_some();
    let wish = match path {
        Some(path) => Forget::Path(path.to_hex()),
        None => Forget::Words(what.to_string_lossy().into_owned()),
    };
    let wish = Wish::Forget(wish);
    let how = if args.dry_run { How::Show } else { How::ShowCommitted };
    let would = ask(vault, dirs, wish.clone(), how)?;
    if args.dry_run || would.outcome == Outcome::Nothing {
        return print(&would, Verb::Forget, args.json);
    }
    if !args.yes && is_much(&would, is_path) {
        print(&would, Verb::Forget, args.json)?;
        report::talk("hint: `--yes` does it; `remd undo` takes it back.");
        return Ok(Exit::PersonMustDecide);
    }
    let mut changed = ask(vault, dirs, wish, How::Do)?;
    if changed.outcome == Outcome::Done {
        changed.notes.push(
            "No job writes it again. History still has it, and so may conversations: `remd purge` \
             erases."
                .to_owned(),
        );
    }
    print(&changed, Verb::Forget, args.json)
}

/// Whether a person should look at it first: one note by its name is what they said.
fn is_much(would: &Changed, is_path: bool) -> bool {
    let diff = would.diff.as_deref().unwrap_or_default();
    let gone = diff.lines().filter(|it| it.starts_with('-') && !it.starts_with("---")).count();
    would.changes.len() > 1 || !is_path && gone > FEW
}

fn list(reader: &Reader, json: bool) -> Result<Exit, CliError> {
    let stones = match reader.head()? {
        Some(head) => reader.tombstones(head.commit)?,
        None => Default::default(),
    };
    let mut rows = Vec::new();
    for commit in &stones.commits {
        let (subject, when) = reader.subject(*commit)?;
        rows.push((*commit, when, subject));
    }
    if json {
        let rows: Vec<Value> =
            rows.iter().map(|it| json!({"commit": it.0, "when": it.1, "subject": it.2})).collect();
        report::data(format!("{:#}\n", json!({"schema_version": 1, "forgotten": rows})))?;
    } else {
        for (commit, when, subject) in &rows {
            report::data(format!("{} {when} {}\n", commit.short(), escape(subject.as_bytes())))?;
        }
        if rows.is_empty() {
            report::talk("Nothing is forgotten.");
        } else {
            report::talk("hint: `remd undo REV` brings one back, and lets jobs write it again.");
        }
    }
    Ok(if rows.is_empty() { Exit::No } else { Exit::Done })
}

/// `remd checkpoint`.
pub fn checkpoint(vault: &Path, dirs: &Dirs, args: &CheckpointArgs) -> Result<Exit, CliError> {
    let reader = past::open(vault)?;
    if let Some(name) = &args.name {
        if args.dry_run {
            let head = reader.head()?.map(|it| it.commit.short()).unwrap_or_default();
            report::talk(&format!("Would name commit {head}, or what is committed before it."));
            return Ok(Exit::Done);
        }
        let wish = Wish::Checkpoint { name: name.clone(), note: args.message.clone() };
        let changed = ask(vault, dirs, wish, How::Do)?;
        return print(&changed, Verb::Checkpoint, args.json);
    }
    let all = reader.checkpoints()?;
    if args.json {
        let rows: Vec<Value> = all
            .iter()
            .map(|it| json!({"name": it.name, "commit": it.commit, "time": it.time}))
            .collect();
        report::data(format!("{:#}\n", json!({"schema_version": 1, "checkpoints": rows})))?;
    } else {
        for it in &all {
            let (subject, when) = reader.subject(it.commit)?;
            let (name, subject) = (escape(it.name.as_bytes()), escape(subject.as_bytes()));
            report::data(format!("{name}  {} {when} {subject}\n", it.commit.short()))?;
        }
        if all.is_empty() {
            report::talk("There is no checkpoint yet; `remd checkpoint NAME` makes one.");
        }
    }
    Ok(if all.is_empty() { Exit::No } else { Exit::Done })
}

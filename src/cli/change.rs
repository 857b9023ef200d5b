//! `remd undo`, `remd restore`: the past, brought back as a new commit.
//!
//! Takes parsed arguments, asks the agent; where none runs, does it here.

use std::path::Path;
use std::time::Duration;

use crate::cli::args::{RestoreArgs, UndoArgs};
use crate::cli::report::{self, CliError, Exit};
use crate::cli::{past, status};
use crate::config::Dirs;
use crate::daemon::changing::NotChanged;
use crate::daemon::{alone, offline};
use crate::history::{Favor, Reader, What};
use crate::render::changed::{Changed, Outcome, Verb};
use crate::serve::protocol::Wish;
use crate::serve::{Answer, Request};

/// A little longer than the agent gives itself.
const LIMIT: Duration = Duration::from_secs(120);

/// What becomes of a wish.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Do,
    /// Nothing is written: without an agent not even what waits on the disk is committed.
    Show,
    /// What is on disk is committed, as it is before the wish is carried out.
    ShowCommitted,
}

impl How {
    fn of(dry_run: bool) -> Self {
        if dry_run { Self::Show } else { Self::Do }
    }
}

/// `remd undo`.
pub fn undo(vault: &Path, dirs: &Dirs, args: &UndoArgs) -> Result<Exit, CliError> {
    let favor = match (args.keep_mine, args.keep_theirs) {
        (true, _) => Some(Favor::Mine),
        (_, true) => Some(Favor::Theirs),
        _ => None,
    };
    let reader = past::open(vault)?;
    let resolve = |rev: &str| {
        let rev = if rev.is_empty() { "HEAD" } else { rev };
        reader.resolve(rev).map_err(|err| {
            let err = CliError::from_error(&err).hint("`remd log` lists the commits.");
            past::explained(&reader, err)
        })
    };
    let what = match (&args.rev, &args.job) {
        (_, Some(run)) => What::Run(run.clone()),
        (Some(rev), None) => match rev.split_once("..") {
            Some((from, to)) => What::Between(resolve(from)?, resolve(to)?),
            None => What::Commit(resolve(rev)?),
        },
        (None, None) => What::Last,
    };
    let changed = ask(vault, dirs, Wish::Undo { what, favor }, How::of(args.dry_run))?;
    print(&changed, Verb::Undo, args.json)
}

/// `remd restore`.
pub fn restore(vault: &Path, dirs: &Dirs, args: &RestoreArgs) -> Result<Exit, CliError> {
    let reader = past::open(vault)?;
    // From outside the vault a path is meant below it.
    let absolute = std::path::absolute(&args.path)?;
    let is_whole = absolute == vault || args.path == "." && !absolute.starts_with(vault);
    let path = match is_whole {
        true => None,
        false => Some(past::vault_path(vault, &args.path)?.to_hex()),
    };
    let at = args.at.as_deref().map(|it| moment(&reader, it)).transpose()?;
    if path.is_none() && at.is_none() {
        return Err(CliError::new("Which version of the vault is meant?")
            .hint("`remd restore . --at yesterday`; `remd log` lists the commits."));
    }
    let wish = Wish::Restore { path, at, exactly: args.exactly };
    let changed = ask(vault, dirs, wish, How::of(args.dry_run))?;
    print(&changed, Verb::Restore, args.json)
}

fn moment(reader: &Reader, text: &str) -> Result<crate::vault::CommitId, CliError> {
    reader.moment(text).map_err(|err| past::explained(reader, CliError::from_error(&err)))
}

/// By the agent, or here where none runs.
pub(super) fn ask(vault: &Path, dirs: &Dirs, wish: Wish, how: How) -> Result<Changed, CliError> {
    let request = Request::Change { wish: wish.clone(), dry_run: how != How::Do };
    match status::ask_agent(vault, dirs, &request, LIMIT) {
        Ok(Answer::Changed(changed)) => Ok(*changed),
        Ok(Answer::Decide { message, hint }) => Err(to_decide(message, hint)),
        Ok(other) => Err(status::unexpected(other)),
        Err(err) if err.exit == Exit::NoAgent && offline::unreachable(vault, dirs).is_none() => {
            let settings = offline::settings(vault, dirs);
            let changed = match how {
                How::Do => alone::change(vault, dirs, &settings, &wish)?,
                How::Show => alone::rehearse(vault, &wish),
                How::ShowCommitted => alone::rehearse_committed(vault, dirs, &settings, &wish)?,
            };
            changed.map_err(not_changed)
        }
        Err(err) => Err(err),
    }
}

/// A person must do something first.
pub(super) fn to_decide(message: String, hint: Option<String>) -> CliError {
    CliError { hint, ..CliError::new(message).exit(Exit::PersonMustDecide) }
}

/// Why nothing was changed.
pub(super) fn not_changed(why: NotChanged) -> CliError {
    let NotChanged { message, hint, needs_person, .. } = why;
    match needs_person {
        true => to_decide(message, hint),
        false => CliError { hint, ..CliError::new(message) },
    }
}

pub(super) fn print(changed: &Changed, verb: Verb, json: bool) -> Result<Exit, CliError> {
    match json {
        true => report::data(changed.json())?,
        false => {
            report::data(changed.text())?;
            report::talk(&changed.said(verb));
        }
    }
    Ok(match changed.outcome {
        Outcome::Done | Outcome::Would => Exit::Done,
        Outcome::Nothing => Exit::No,
        Outcome::Overlaps => Exit::PersonMustDecide,
    })
}

//! `remd status`, `accept`, `pause`, `resume`, `reload`: asking the agent.
//!
//! Takes parsed arguments, prints what the agent says. One thread.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::base::clock;
use crate::cli::args::{Accept, StatusArgs};
use crate::cli::find;
use crate::cli::report::{self, CliError, Exit};
use crate::config::{Dirs, keys};
use crate::daemon::offline;
use crate::render::status::{self, Status};
use crate::serve::client::{self, AskError};
use crate::serve::{Answer, Request};

/// How long an agent may take for an answer that needs no work.
pub const PROMPT: Duration = Duration::from_secs(5);

/// An agent that starts is asked again after this.
const STARTING: Duration = Duration::from_millis(50);

/// How long committing many deletions may take.
const ACCEPT: Duration = Duration::from_secs(120);

/// `remd status`.
pub fn status(vault: &Path, dirs: &Dirs, args: &StatusArgs) -> Result<Exit, CliError> {
    if args.wait.is_some() {
        return wait_settled(vault, dirs, args);
    }
    let status = match client::ask_any(&dirs.sockets(vault)?, &Request::Status, PROMPT) {
        Ok(Answer::Status(status)) => *status,
        Ok(other) => return Err(unexpected(other)),
        Err(AskError::NobodyThere) => {
            find::require(vault)?;
            offline::status(vault, dirs, offline::unreachable(vault, dirs))
        }
        Err(AskError::Silent | AskError::Deadline(_)) => {
            offline::status(vault, dirs, Some(offline::silent(vault)))
        }
        Err(err) => return Err(err.into()),
    };
    print(&status, args.json)?;
    Ok(exit_of(&status))
}

fn wait_settled(vault: &Path, dirs: &Dirs, args: &StatusArgs) -> Result<Exit, CliError> {
    let limit = keys::duration(&args.timeout)
        .map_err(|wanted| CliError::new(format!("--timeout: wanted {wanted}")))?;
    let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let request = Request::Settle { timeout_ms };
    match ask_agent(vault, dirs, &request, limit + PROMPT)? {
        Answer::Settled { settled, waiting_for, needs_person, status } => {
            print(&status, args.json)?;
            if settled {
                return Ok(Exit::Done);
            }
            for what in waiting_for {
                report::talk(&format!("not settled: {what}"));
            }
            Ok(if needs_person { Exit::PersonMustDecide } else { Exit::Partial })
        }
        other => Err(unexpected(other)),
    }
}

/// Asks the agent. One that has the vault's lock and does not listen yet is given time to.
pub fn ask_agent(
    vault: &Path,
    dirs: &Dirs,
    request: &Request,
    limit: Duration,
) -> Result<Answer, CliError> {
    let last_try = clock::now() + PROMPT;
    loop {
        match client::ask_any(&dirs.sockets(vault)?, request, limit) {
            Err(AskError::NobodyThere) => {}
            Err(AskError::Silent) => {
                return Err(CliError::no_agent(Some(offline::silent(vault))));
            }
            answered => return Ok(answered?),
        }
        find::require(vault)?;
        let unreachable = offline::unreachable(vault, dirs);
        if unreachable.is_none() || clock::now() > last_try {
            return Err(CliError::no_agent(unreachable));
        }
        std::thread::sleep(STARTING);
    }
}

/// A request that is answered by a sentence, and perhaps paths.
pub fn simple(
    vault: &Path,
    dirs: &Dirs,
    request: Request,
    limit: Duration,
) -> Result<Exit, CliError> {
    let (said, paths) = done(vault, dirs, request, limit)?;
    for path in paths {
        report::data(format!("{path}\n"))?;
    }
    report::talk(&said);
    Ok(Exit::Done)
}

/// `remd accept`.
pub fn accept(vault: &Path, dirs: &Dirs, args: &Accept) -> Result<Exit, CliError> {
    let request = Request::Accept { dry_run: args.dry_run };
    if !args.json {
        return simple(vault, dirs, request, ACCEPT);
    }
    let (said, paths) = done(vault, dirs, request, ACCEPT)?;
    let object =
        json!({"schema_version": 1, "said": said, "dry_run": args.dry_run, "paths": paths});
    report::data(format!("{object:#}\n"))?;
    Ok(Exit::Done)
}

fn done(
    vault: &Path,
    dirs: &Dirs,
    request: Request,
    limit: Duration,
) -> Result<(String, Vec<String>), CliError> {
    match ask_agent(vault, dirs, &request, limit)? {
        Answer::Done { said, paths } => Ok((said, paths)),
        other => Err(unexpected(other)),
    }
}

/// An answer that is an error, or does not fit the question.
pub fn unexpected(answer: Answer) -> CliError {
    match answer {
        Answer::Failed { message, hint, .. } => {
            let err = CliError::new(message);
            match hint {
                Some(hint) => err.hint(hint),
                None => err,
            }
        }
        _ => CliError::new("The agent's answer does not fit the question")
            .hint("Restart the agent, so that both are of the same remd."),
    }
}

fn print(status: &Status, json: bool) -> Result<(), CliError> {
    let now = clock::unix_seconds();
    report::data(if json { status::json(status) } else { status::text(status, now) })
}

fn exit_of(status: &Status) -> Exit {
    match status.verdict.as_str() {
        "held" => Exit::PersonMustDecide,
        "degraded" => Exit::Partial,
        "stopped" | "unreachable" => Exit::NoAgent,
        _ => Exit::Done,
    }
}

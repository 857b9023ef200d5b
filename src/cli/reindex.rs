//! `remd reindex`.
//!
//! Takes parsed arguments, asks the agent to make the index anew in the background, or makes it where
//! none runs, with a progress bar. One thread.

use std::path::Path;

use serde_json::json;

use crate::cli::args::ReindexArgs;
use crate::cli::find;
use crate::cli::report::{self, CliError, Exit};
use crate::cli::status::{self, PROMPT, unexpected};
use crate::cli::up::Bar;
use crate::config::Dirs;
use crate::daemon::offline;
use crate::daemon::reindex::{self, Ended};
use crate::serve::client::{self, AskError};
use crate::serve::{Answer, Request};

/// `remd reindex`.
pub fn reindex(vault: &Path, dirs: &Dirs, args: &ReindexArgs) -> Result<Exit, CliError> {
    let request = match args.cancel {
        true => Request::CancelReindex,
        false => Request::Reindex { scope: args.scope.clone(), dry_run: args.dry_run },
    };
    let answer = match client::ask_any(&dirs.sockets(vault)?, &request, PROMPT) {
        Err(AskError::NobodyThere) => {
            find::require(vault)?;
            match offline::unreachable(vault, dirs) {
                // It starts, and may listen in a moment.
                Some(_) => status::ask_agent(vault, dirs, &request, PROMPT)?,
                None if args.cancel => {
                    let said = "Nothing is being made anew: no agent is running.".to_owned();
                    Answer::No { said, hint: None }
                }
                None => here(vault, dirs, args)?,
            }
        }
        Err(AskError::Silent) => return Err(CliError::no_agent(Some(offline::silent(vault)))),
        answered => answered?,
    };
    let (is_done, said, hint) = match answer {
        Answer::Done { said, .. } => (true, said, None),
        Answer::No { said, hint } => (false, said, hint),
        other => return Err(unexpected(other)),
    };
    if args.json {
        let object = json!({
            "schema_version": 1,
            "done": is_done,
            "scope": args.scope,
            "dry_run": args.dry_run,
            "cancel": args.cancel,
            "said": said,
        });
        report::data(format!("{object:#}\n"))?;
    } else {
        report::talk(&said);
        if let Some(hint) = hint {
            report::talk(&format!("hint: {hint}"));
        }
    }
    Ok(if is_done { Exit::Done } else { Exit::No })
}

/// Without an agent, now.
fn here(vault: &Path, dirs: &Dirs, args: &ReindexArgs) -> Result<Answer, CliError> {
    let settings = offline::settings(vault, dirs);
    let bar = Bar::new();
    let progress = |what: &str, done, all| bar.at(what, done, all);
    let ended = reindex::here(vault, dirs, &settings, &args.scope, args.dry_run, &progress);
    drop(bar);
    let said = match ended.map_err(|err| {
        let what = format!("`{}` cannot be indexed anew", vault.display());
        let said = CliError::from_error(err.as_ref());
        let causes = std::iter::once(said.message.clone()).chain(said.causes.clone()).collect();
        CliError { message: what, causes, ..said }
    })? {
        Ended::Done(said) | Ended::Would(said) => said,
        Ended::Empty => "Nothing is committed, so that there is nothing to index.".to_owned(),
        Ended::Busy => {
            return Ok(Answer::No {
                said: "Another remd command is writing the index.".to_owned(),
                hint: Some("Ask again when it has ended.".to_owned()),
            });
        }
    };
    Ok(Answer::Done { said, paths: Vec::new() })
}

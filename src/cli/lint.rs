//! `remd lint`: what of the notes a person may want to mend.
//!
//! Takes parsed arguments, asks the agent, or the last index where none runs.

use std::path::Path;
use std::time::Duration;

use crate::cli::args::LintArgs;
use crate::cli::past;
use crate::cli::report::{self, CliError, Exit};
use crate::cli::status;
use crate::cli::up::Bar;
use crate::config::Dirs;
use crate::daemon::{linting, offline};
use crate::render::lint::Linted;
use crate::search::lint::Check;
use crate::serve::protocol::LintAsked;
use crate::serve::{Answer, Request};
use crate::vault::VaultPath;

/// A little longer than the agent gives itself.
const LIMIT: Duration = Duration::from_secs(150);

/// `remd lint`.
pub fn lint(vault: &Path, dirs: &Dirs, args: &LintArgs) -> Result<Exit, CliError> {
    let asked = LintAsked {
        paths: paths(vault, args)?.iter().map(VaultPath::to_hex).collect(),
        only: args.only.iter().filter_map(|it| Check::named(it)).collect(),
    };
    let linted = find(vault, dirs, &asked)?;
    match args.json {
        true => report::data(linted.json())?,
        false => {
            report::data(linted.text())?;
            report::talk(&linted.said());
        }
    }
    Ok(match (&linted.partial, linted.findings.is_empty()) {
        (_, false) => Exit::No,
        (Some(_), true) => Exit::Partial,
        (None, true) => Exit::Done,
    })
}

/// What is named, which must be there; nothing for the whole vault.
fn paths(vault: &Path, args: &LintArgs) -> Result<Vec<VaultPath>, CliError> {
    let mut paths = Vec::new();
    for given in &args.paths {
        let absolute = std::path::absolute(given)?;
        if absolute == vault || given == "." && !absolute.starts_with(vault) {
            return Ok(Vec::new());
        }
        let path = past::vault_path(vault, given)?;
        if crate::base::fs::lstat_if_there(&vault.join(path.as_path()))?.is_none() {
            return Err(CliError::new(format!("No such note or folder: `{path}`"))
                .hint("A path is meant from the vault's root, or from the current folder."));
        }
        paths.push(path);
    }
    Ok(paths)
}

fn find(vault: &Path, dirs: &Dirs, asked: &LintAsked) -> Result<Linted, CliError> {
    match status::ask_agent(vault, dirs, &Request::Lint { asked: asked.clone() }, LIMIT) {
        Ok(Answer::Linted(linted)) => Ok(*linted),
        Ok(other) => Err(status::unexpected(other)),
        Err(err) if err.exit == Exit::NoAgent && offline::unreachable(vault, dirs).is_none() => {
            Ok(Linted {
                unseen: Some(offline::NO_AGENT.to_owned()),
                ..from_index(vault, dirs, asked)?
            })
        }
        Err(err) => Err(err),
    }
}

/// By the last index and what was committed since.
fn from_index(vault: &Path, dirs: &Dirs, asked: &LintAsked) -> Result<Linted, CliError> {
    let settings = offline::settings(vault, dirs);
    let bar = Bar::new();
    let ready = offline::ready(vault, dirs, &settings, &|done, all| bar.at("indexing", done, all))
        .map_err(|err| CliError::new(err.message).hint(err.hint))?;
    drop(bar);
    let reader = past::open(vault)?;
    let part = linting::part(asked).unwrap_or_default();
    let survey = linting::survey(vault, &reader, &ready.view)
        .map_err(|err| CliError::from_error(&err).hint(err.hint()))?;
    let mut linted = linting::linted(&ready.view, &survey, &part);
    linted.partial = ready.partial.or(linted.partial);
    Ok(linted)
}

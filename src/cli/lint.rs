//! `remd lint`: what of the notes a person may want to mend.
//!
//! Takes parsed arguments, asks the agent, or the last index where none runs.

use std::path::Path;
use std::time::Duration;

use crate::cli::args::LintArgs;
use crate::cli::report::{self, CliError, Exit};
use crate::cli::up::Bar;
use crate::cli::{change, past, status};
use crate::config::Dirs;
use crate::daemon::{linting, offline};
use crate::render::changed::Outcome;
use crate::render::lint::Linted;
use crate::search::lint::Check;
use crate::serve::protocol::{Fix, LintAsked};
use crate::serve::{Answer, Request};
use crate::vault::VaultPath;

/// A little longer than the agent gives itself.
const LIMIT: Duration = Duration::from_secs(150);

/// `remd lint`.
pub fn lint(vault: &Path, dirs: &Dirs, args: &LintArgs) -> Result<Exit, CliError> {
    let asked = LintAsked {
        paths: paths(vault, args)?.iter().map(VaultPath::to_hex).collect(),
        only: args.only.iter().filter_map(|it| Check::named(it)).collect(),
        fix: match (args.fix, args.dry_run) {
            (false, _) => Fix::Nothing,
            (true, true) => Fix::Rehearse,
            (true, false) => Fix::Mend,
        },
    };
    let linted = find(vault, dirs, &asked)?;
    match args.json {
        true => report::data(linted.json())?,
        false => {
            report::data(linted.text())?;
            report::talk(&linted.said());
        }
    }
    if let Some(fix) = linted.fix.as_ref().filter(|_| args.dry_run) {
        return Ok(if fix.outcome == Outcome::Would { Exit::Done } else { Exit::No });
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
        Ok(Answer::Decide { message, hint }) => Err(change::to_decide(message, hint)),
        Ok(other) => Err(status::unexpected(other)),
        Err(err) if err.exit == Exit::NoAgent && offline::unreachable(vault, dirs).is_none() => {
            let settings = offline::settings(vault, dirs);
            let bar = Bar::new();
            let at = |done, all| bar.at("indexing", done, all);
            let linted = linting::without_agent(vault, dirs, &settings, asked, &at);
            drop(bar);
            let linted = linted.map_err(change::not_changed)?;
            // What is mended is committed first.
            let unseen = (asked.fix != Fix::Mend).then(|| offline::NO_AGENT.to_owned());
            Ok(Linted { unseen, ..linted })
        }
        Err(err) => Err(err),
    }
}

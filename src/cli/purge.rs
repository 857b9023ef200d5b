//! `remd purge`: erased from the whole history, after a clear question.
//!
//! Takes parsed arguments, shows what it is about, asks, and does it under the vault's lock.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use serde_json::json;

use crate::base::trouble::told;
use crate::cli::args::PurgeArgs;
use crate::cli::past;
use crate::cli::report::{self, CliError, Exit};
use crate::config::Dirs;
use crate::daemon::alone::{self, NotPurged};
use crate::daemon::boot::BootError;
use crate::daemon::offline;
use crate::history::{PurgePlan, PurgeTarget, Purged, Reader};
use crate::render::counted;
use crate::vault::VaultPath;

/// Names that a question lists.
const LISTED: usize = 20;

/// `remd purge`.
pub fn purge(vault: &Path, dirs: &Dirs, args: &PurgeArgs) -> Result<Exit, CliError> {
    let reader = past::open(vault)?;
    let target = target(vault, &reader, args)?;
    if args.dry_run {
        let plan = reader.plan_purge(&target)?;
        return print(&plan, None, args.json);
    }
    let settings = offline::settings(vault, dirs);
    let mut ask = |plan: &PurgePlan| {
        report::talk(&question(plan));
        args.yes || is_yes()
    };
    match alone::purge(vault, dirs, &settings, &target, &mut ask) {
        Ok((plan, purged)) => print(&plan, Some(&purged), args.json),
        Err(NotPurged::No) => {
            report::talk("Nothing is erased. `--yes` erases without a question.");
            Ok(Exit::PersonMustDecide)
        }
        Err(NotPurged::Boot(BootError::AnotherAgent { pid, .. })) => {
            let pid = pid.map_or_else(String::new, |it| format!(" (process {it})"));
            Err(CliError::new(format!(
                "The agent of this vault is running{pid}; nothing is erased"
            ))
            .hint("Stop it, purge, and start it again: everybody else must let go of the history."))
        }
        Err(err) => {
            let hint = match &err {
                NotPurged::Purge(err) => err.hint(),
                NotPurged::Apply(err) => err.hint(),
                NotPurged::Boot(_) | NotPurged::No => None,
            };
            let cli = CliError::new(told(&err));
            Err(CliError { hint, ..cli })
        }
    }
}

fn target(vault: &Path, reader: &Reader, args: &PurgeArgs) -> Result<PurgeTarget, CliError> {
    if !args.commit
        && let Ok(path) = past::vault_path(vault, &args.what)
        && was_there(vault, reader, &path)?
    {
        return Ok(PurgeTarget::Path(path));
    }
    let what = args.what.to_string_lossy();
    match reader.resolve(&what) {
        Ok(commit) => Ok(PurgeTarget::Commit(commit)),
        Err(err) => Err(past::explained(
            reader,
            CliError::from_error(&err).hint(
                "Give a note or folder that is or was in the vault, or a commit of `remd log`.",
            ),
        )),
    }
}

fn was_there(vault: &Path, reader: &Reader, path: &VaultPath) -> Result<bool, CliError> {
    if past::is_there(vault, reader, path.as_path())? {
        return Ok(true);
    }
    let filter = crate::history::LogFilter { path: Some(path.clone()), limit: 1 };
    Ok(!reader.log(&filter)?.is_empty())
}

/// What it is about.
fn question(plan: &PurgePlan) -> String {
    let mut text = format!(
        "Erases {} from {}, for good:\n",
        counted(plan.versions, "version", "versions"),
        counted(plan.commits, "commit", "commits")
    );
    for path in plan.paths.iter().take(LISTED) {
        let now = if plan.in_head.contains(path) { " (in the vault now: deleted)" } else { "" };
        text.push_str(&format!("  {path}{now}\n"));
    }
    if plan.paths.len() > LISTED {
        text.push_str(&format!("  … and {} more\n", plan.paths.len() - LISTED));
    }
    text.push_str(&format!(
        "{} another id, and with them: {}.\n",
        counted(plan.rewritten, "commit gets", "commits get"),
        plan.references.join(", ")
    ));
    text.push_str(
        "Signatures of these commits go. Git's record of where branches have been goes, and with it \
         everything that no branch or tag has. Index and caches are made anew by the next start.",
    );
    for path in &plan.elsewhere {
        text.push_str(&format!("\nThe very same text stays in `{path}`."));
    }
    text
}

/// Whether a person at a terminal says the word.
fn is_yes() -> bool {
    if !std::io::stdin().is_terminal() {
        return false;
    }
    report::talk("Type `purge` to erase it:");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok() && line.trim() == "purge"
}

fn print(plan: &PurgePlan, purged: Option<&Purged>, json: bool) -> Result<Exit, CliError> {
    let remains = remains(plan, purged);
    if json {
        let paths: Vec<&VaultPath> = plan.paths.iter().collect();
        let object = json!({
            "schema_version": 1,
            "outcome": match (purged, plan.is_empty()) {
                (_, true) => "nothing",
                (Some(_), false) => "done",
                (None, false) => "would",
            },
            "paths": paths,
            "versions": plan.versions,
            "commits": plan.commits,
            "rewritten": plan.rewritten,
            "references": plan.references,
            "left": purged.map(|it| it.left),
            "remains": remains,
        });
        report::data(format!("{object:#}\n"))?;
    } else if plan.is_empty() {
        report::talk(match purged {
            Some(Purged { versions: 1.., .. }) => "A purge that was cut short is finished.",
            _ => "No commit has anything of that.",
        });
    } else {
        match purged {
            None => report::talk(&question(plan)),
            Some(purged) => report::talk(&format!(
                "Erased {} from {}.",
                counted(purged.versions, "version", "versions"),
                counted(purged.commits, "commit", "commits")
            )),
        }
        for line in &remains {
            report::talk(line);
        }
    }
    Ok(match (plan.is_empty(), purged.map_or(0, |it| it.left)) {
        (true, 0) if purged.is_none_or(|it| it.versions == 0) => Exit::No,
        (_, 0) => Exit::Done,
        _ => Exit::Partial,
    })
}

/// What is still to be done, or stays.
fn remains(plan: &PurgePlan, purged: Option<&Purged>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(Purged { left: left @ 1.., .. }) = purged {
        lines.push(format!(
            "{} of it still in the repository, as something else has the very same text.",
            counted(*left, "version is", "versions are")
        ));
    }
    for path in &plan.elsewhere {
        lines.push(format!("The very same text stays in `{path}`; `remd purge` erases that too."));
    }
    for (path, count) in &plan.later {
        let count = counted(*count, "later version", "later versions");
        lines.push(format!(
            "{count} of `{path}` may still hold lines of it; `remd purge '{path}'` erases them all."
        ));
    }
    if plan.is_empty() {
        return lines;
    }
    for name in &plan.remotes {
        let short = name.strip_prefix("refs/remotes/").unwrap_or(name);
        let (remote, branch) = short.split_once('/').unwrap_or((short, "BRANCH"));
        lines.push(format!(
            "The remote `{remote}` still has it: `git push --force {remote} {branch}` replaces its \
             branch (it cannot be undone there), and its server may keep old objects for a while."
        ));
    }
    lines.push(
        "Other clones, backups and whoever has fetched it still have it: clone those anew, and \
         change a password or key that was in it."
            .to_owned(),
    );
    lines
}

//! Names what the commits and the disk do not show: places that are not looked into, versions that
//! only `wip` has.
//!
//! Takes what the committer found, gives problems for `status`. The committer's thread.

use std::collections::BTreeMap;

use crate::daemon::problems::{Level, Problems};
use crate::history::History;
use crate::vault::VaultPath;
use crate::watch::Skip;

/// Names what no scan looked into.
pub fn report_skipped(problems: &Problems, skipped: &BTreeMap<VaultPath, Skip>) {
    match skipped.first_key_value() {
        None => problems.clear("skipped"),
        Some((path, why)) => problems.report(
            "skipped",
            match skipped.values().any(|it| matches!(it, Skip::Unreadable(_))) {
                true => Level::Warning,
                false => Level::Note,
            },
            &match skipped.len() {
                1 => format!("`{path}` is not looked into: {why}"),
                count => format!("{count} places are not looked into, as `{path}`: {why}"),
            },
            "Nothing in them is committed or searched; list them in .gitignore if that is meant.",
        ),
    }
}

/// Names what no path in the vault may be called.
pub fn report_nameless(problems: &Problems, names: &[String]) {
    match names {
        [] => problems.clear("nameless"),
        [first, rest @ ..] => problems.report(
            "nameless",
            Level::Warning,
            &match rest.len() {
                0 => format!("`{first}` is not looked into: Git keeps this name for itself"),
                more => format!(
                    "{} places are not looked into, as `{first}`: Git keeps this name for itself",
                    more + 1
                ),
            },
            "Nothing in it is committed or searched; give it another name.",
        ),
    }
}

/// Names what only the `wip` reference has any more.
pub fn report_stranded(problems: &Problems, history: &History) {
    let stranded = history.stranded();
    match stranded.first() {
        None => problems.clear("kept-aside"),
        Some(path) => {
            let wip = history.wip_name();
            problems.report(
                "kept-aside",
                Level::Note,
                &match stranded.len() {
                    1 => format!("A version of `{path}` that is neither on disk nor committed is kept in `{wip}`"),
                    count => format!("Versions of {count} files, as `{path}`, that are neither on disk nor committed are kept in `{wip}`"),
                },
                &format!("`git show {wip}:PATH` shows it; `git update-ref -d {wip}` gives it up."),
            );
        }
    }
}

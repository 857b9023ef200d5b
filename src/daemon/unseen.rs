//! Names what the commits and the disk do not show: what is kept out and why, what a filter is at
//! work on, places that are not looked into, versions that only `wip` has.
//!
//! Takes what the committer found, gives problems for `status`. The committer's thread.

use std::collections::BTreeMap;

use crate::base::clock;
use crate::daemon::problems::{Level, Problems};
use crate::history::{HeldLock, History, Kept};
use crate::render::status::{AtWork, KeptOut};
use crate::vault::VaultPath;
use crate::watch::Skip;

/// What waits for a filter, and since when.
#[derive(Debug, Default)]
pub struct Filtering {
    /// The filter's name, and the Unix second when the file was first seen to wait.
    since: BTreeMap<VaultPath, (String, i64)>,
}

impl Filtering {
    /// Notes what is kept out now.
    pub fn note(&mut self, kept_out: &BTreeMap<VaultPath, Kept>) {
        let now = clock::unix_seconds();
        let old = std::mem::take(&mut self.since);
        for (path, why) in kept_out {
            if let Kept::Filtering { name } = why {
                let since = old.get(path).map_or(now, |it| it.1);
                self.since.insert(path.clone(), (name.clone(), since));
            }
        }
    }

    /// One line a filter: the file that has waited longest, and how many others do.
    pub fn list(&self) -> Vec<AtWork> {
        let mut of_each: BTreeMap<&str, AtWork> = BTreeMap::new();
        for (path, (name, since)) in &self.since {
            let path = path.to_string();
            match of_each.get_mut(name.as_str()) {
                None => {
                    let what = format!("the filter `{name}`");
                    let (path, since, is_waited_for) = (Some(path), *since, true);
                    of_each.insert(name, AtWork { what, path, more: 0, since, is_waited_for });
                }
                Some(first) => {
                    first.more += 1;
                    if *since < first.since {
                        (first.path, first.since) = (Some(path), *since);
                    }
                }
            }
        }
        of_each.into_values().collect()
    }
}

/// As `status --json` lists it.
pub fn listed<W: std::fmt::Display>(all: &BTreeMap<VaultPath, W>) -> Vec<KeptOut> {
    all.iter().map(|(path, why)| KeptOut { path: path.to_string(), why: why.to_string() }).collect()
}

/// So many paths a problem names.
const NAMED: usize = 5;

/// Names what stays out of the commits. A filter that is at work is no trouble, and what is held
/// for a credential has a problem of its own.
pub fn report_kept_out(problems: &Problems, kept_out: &BTreeMap<VaultPath, Kept>) {
    let is_trouble = |it: &Kept| {
        !matches!(it, Kept::Filtering { .. } | Kept::Secret { .. } | Kept::WaitsFor { .. })
    };
    let troubles = || kept_out.iter().filter(|it| is_trouble(it.1));
    let Some((path, why)) = troubles().next() else { return problems.clear("kept-out") };
    let alike = |it: &Kept| std::mem::discriminant(it) == std::mem::discriminant(why);
    let (what, remedy) = match troubles().count() {
        1 => (format!("`{path}` is kept out of the commits: {why}"), why.hint(path).into_owned()),
        count => {
            let others = match troubles().all(|it| alike(it.1)) {
                true => "`remd status --json` names them all.",
                false => "Others have other reasons: `remd status --json` names them all.",
            };
            let what = format!("{count} files are kept out of the commits, as `{path}`: {why}");
            (what, format!("For `{path}`: {} {others}", why.hint(path)))
        }
    };
    problems.report("kept-out", Level::Warning, &what, &remedy);
}

/// Names a lock that nobody seems to own.
pub fn report_stale_lock(problems: &Problems, lock: Option<&HeldLock>) {
    let Some(lock) = lock else { return problems.clear("stale-lock") };
    let (path, age) = (lock.path.display(), clock::age_text(lock.age));
    problems.report(
        "stale-lock",
        Level::Warning,
        &format!("`{path}` has been there for {age} and no git process works here"),
        &format!("If no git command is running elsewhere, remove it: `rm '{path}'`."),
    );
}

/// Says by whose name commits go out, where Git knows none: it may come and go at any time.
pub fn report_identity(problems: &Problems, history: &History) {
    if history.has_identity() {
        return problems.clear("identity");
    }
    if problems.is_open("identity") {
        return;
    }
    problems.report(
        "identity",
        Level::Note,
        "Git knows no name and address for you; commits carry `remd`",
        "git config --global user.name 'Your Name' && git config --global user.email you@example.org",
    );
}

/// Names what no scan looked into, what cannot be read first.
pub fn report_skipped(problems: &Problems, skipped: &BTreeMap<VaultPath, Skip>) {
    let is_unreadable = |it: &Skip| matches!(it, Skip::Unreadable(_));
    let worst = skipped.iter().find(|it| is_unreadable(it.1));
    let Some((path, why)) = worst.or(skipped.first_key_value()) else {
        return problems.clear("skipped");
    };
    let (level, remedy) = match why {
        Skip::Unreadable(_) => (
            Level::Warning,
            "Make it readable (`chmod -R u+rX`); it is looked at again by itself. What was \
             committed of it stays, and is searched.",
        ),
        Skip::Repository => (
            Level::Note,
            "Nothing in it is committed here: it has a history of its own. List it in \
             `.gitignore` if that is meant.",
        ),
        Skip::OtherDevice => (
            Level::Note,
            "Nothing in it is committed; what was committed of it before stays, and is searched. \
             List it in `.gitignore` if that is meant.",
        ),
        Skip::Special => (
            Level::Note,
            "There is no text in it to commit. List it in `.gitignore` if that is meant.",
        ),
    };
    let alike = |it: &Skip| std::mem::discriminant(it) == std::mem::discriminant(why);
    let same: Vec<_> = skipped.iter().filter(|it| alike(it.1)).map(|it| it.0).collect();
    let named: Vec<_> = same.iter().take(NAMED).map(|it| format!("`{it}`")).collect();
    let what = match skipped.len() {
        1 => format!("`{path}` is not looked into: {why}"),
        count => format!("{count} places are not looked into, as {}: {why}", named.join(", ")),
    };
    let remedy = match skipped.len() == named.len() {
        true => remedy.to_owned(),
        false => format!("{remedy} `remd status --json` names them all."),
    };
    problems.report("skipped", level, &what, &remedy);
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

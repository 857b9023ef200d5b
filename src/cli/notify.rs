//! `remd notify EVENT`: what Git's hooks call.
//!
//! Takes the name of a hook, and where Git runs it; tells the agents of the vaults there. One thread.
//!
//! **Invariant:** prints nothing, takes [`LIMIT`] at most and ends well, whatever is there or not;
//! but for `pre-push`, which may refuse, and says so.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::clock;
use crate::cli::args::NotifyArgs;
use crate::cli::report::{self, Exit};
use crate::config::Dirs;
use crate::daemon::pushed;
use crate::history;
use crate::serve::{Request, client};

/// How long all of it may take.
const LIMIT: Duration = Duration::from_millis(200);
/// More lines than any push has.
const LONGEST_LIST: u64 = 16 << 20;

/// Runs it; `named` is the vault where somebody names one, `git_dir` what Git says of the
/// repository.
pub fn notify(
    args: &NotifyArgs,
    named: Option<&Path>,
    git_dir: Option<&OsStr>,
    dirs: &Dirs,
) -> Exit {
    let event = args.event.first().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    if event == "pre-push" {
        return judge_push(&args.event, &vaults(named, git_dir), dirs);
    }
    let until = clock::now() + LIMIT;
    for vault in vaults(named, git_dir) {
        for socket in dirs.sockets(&vault).unwrap_or_default() {
            let left = until.saturating_duration_since(clock::now());
            // Whoever is not there, or does not listen, sees it by looking at `.git`.
            if client::tell(&socket, Request::Notify { event: event.clone() }, left).is_ok() {
                break;
            }
        }
    }
    Exit::Done
}

/// The vaults that Git's work may be about.
fn vaults(named: Option<&Path>, git_dir: Option<&OsStr>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.to_owned()];
    }
    let here = std::env::current_dir().ok();
    let above = git_dir.map(Path::new).and_then(|it| std::path::absolute(it).ok());
    let above = above.and_then(|it| it.parent().map(Path::to_owned));
    for place in [here.clone(), above].into_iter().flatten() {
        let vaults = history::vaults_at(&place).unwrap_or_default();
        if !vaults.is_empty() {
            return vaults;
        }
    }
    here.into_iter().collect()
}

/// Whether what is about to be pushed may be.
fn judge_push(words: &[OsString], vaults: &[PathBuf], dirs: &Dirs) -> Exit {
    let mut list = Vec::new();
    // A list that cannot be read is Git's affair.
    if std::io::stdin().lock().take(LONGEST_LIST).read_to_end(&mut list).is_err() {
        return Exit::Done;
    }
    let to = words.get(1).map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let pushes = pushed::read(&list);
    let refusal = pushed::refuse(&pushes, &to)
        .or_else(|| pushed::refuse_leaks(&pushes, &to, vaults, dirs, &mut report::talk));
    match refusal {
        None => Exit::Done,
        Some(refusal) => {
            report::talk(&refusal);
            Exit::No
        }
    }
}

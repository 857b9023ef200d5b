//! Whether a person is in the middle of something.
//!
//! Takes the repository's places, gives the operation under way. Reads the state that git itself
//! reads, never what git leaves behind (`REBASE_HEAD`, `ORIG_HEAD`, `AUTO_MERGE`). Any thread.

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use crate::base::fs;
use crate::history::place::Place;
use crate::history::refs::HeadState;
use crate::history::{History, hooks};

/// What a person is doing with the repository.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Rebase,
    ApplyMailbox,
    Merge,
    CherryPick,
    Revert,
    Bisect,
    /// An editor is open on a commit message.
    Commit,
    /// HEAD is on no branch.
    DetachedHead,
}

impl Operation {
    /// What ends it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Rebase => "Finish it with `git rebase --continue` or `git rebase --abort`.",
            Self::ApplyMailbox => "Finish it with `git am --continue` or `git am --abort`.",
            Self::Merge => "Finish it with `git merge --continue` or `git merge --abort`.",
            Self::CherryPick => "Finish it with `git cherry-pick --continue` or `--abort`.",
            Self::Revert => "Finish it with `git revert --continue` or `--abort`.",
            Self::Bisect => "End it with `git bisect reset`.",
            Self::Commit => "Save and close the commit message, or quit its editor.",
            Self::DetachedHead => "Go back to a branch with `git switch BRANCH`.",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rebase => "a rebase is in progress",
            Self::ApplyMailbox => "a mailbox is being applied",
            Self::Merge => "a merge is in progress",
            Self::CherryPick => "a cherry-pick is in progress",
            Self::Revert => "a revert is in progress",
            Self::Bisect => "a bisect is in progress",
            Self::Commit => "a commit message is being written",
            Self::DetachedHead => "HEAD is detached",
        })
    }
}

impl History {
    /// A person's operation under way, during which nothing is committed.
    pub(super) fn operation(&self, head: &HeadState) -> Option<Operation> {
        operation(&self.place)
            .or_else(|| head.branch.is_none().then_some(Operation::DetachedHead))
            .or_else(|| self.is_commit_in_hooks().then_some(Operation::Commit))
    }

    /// Whether a `git commit` is in its hooks: it has read HEAD, and dies when that moves. Without
    /// hooks that takes no time worth asking for.
    fn is_commit_in_hooks(&self) -> bool {
        hooks::delay_commits(&self.repo, &self.place) && has_live_commit(&self.place.workdir)
    }
}

/// The operation under way by the files in the git directory; a detached HEAD is seen by whoever
/// reads HEAD.
pub(super) fn operation(place: &Place) -> Option<Operation> {
    let has =
        |name: &str| fs::lstat_if_there(&place.git_dir.join(name)).is_ok_and(|it| it.is_some());
    if has("rebase-merge") {
        return Some(Operation::Rebase);
    }
    if has("rebase-apply") {
        return Some(match has("rebase-apply/applying") {
            true => Operation::ApplyMailbox,
            false => Operation::Rebase,
        });
    }
    for (name, operation) in [
        ("MERGE_HEAD", Operation::Merge),
        ("CHERRY_PICK_HEAD", Operation::CherryPick),
        ("REVERT_HEAD", Operation::Revert),
        ("BISECT_LOG", Operation::Bisect),
    ] {
        if has(name) {
            return Some(operation);
        }
    }
    // The folder alone may be a left-over: git takes it for nothing either.
    if has("sequencer/todo") {
        let todo = fs::read(&place.git_dir.join("sequencer/todo")).unwrap_or_default();
        return Some(match todo.starts_with(b"revert") {
            true => Operation::Revert,
            false => Operation::CherryPick,
        });
    }
    is_message_open(place).then_some(Operation::Commit)
}

/// Whether a `git commit` waits for its editor: the message is younger than the last reflog entry
/// (a finished commit writes that afterwards) and a git process works in this work tree.
fn is_message_open(place: &Place) -> bool {
    let Some(message) = modified(&place.git_dir.join("COMMIT_EDITMSG")) else {
        return false;
    };
    let logged = modified(&place.git_dir.join("logs/HEAD"));
    logged.is_none_or(|it| message >= it) && has_live_commit(&place.workdir)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::lstat_if_there(path).ok().flatten().and_then(|meta| meta.modified().ok())
}

fn has_live_commit(workdir: &Path) -> bool {
    git_at_work(workdir, |words| words.contains(&&b"commit"[..])).is_some()
}

/// A living git process in this work tree; the lock that nobody has open may be its.
pub(super) fn any_git_at_work(workdir: &Path) -> Option<u32> {
    git_at_work(workdir, |_| true)
}

/// A living git process in this work tree that writes objects or deletes them; one that shows the
/// log in a pager may stay for days.
pub(super) fn git_at_objects(workdir: &Path) -> Option<u32> {
    const WRITERS: [&str; 14] = [
        "am",
        "cherry-pick",
        "commit",
        "fetch",
        "gc",
        "index-pack",
        "maintenance",
        "merge",
        "pack-objects",
        "prune",
        "pull",
        "rebase",
        "repack",
        "revert",
    ];
    let is_writer = |word: &&[u8]| WRITERS.iter().any(|it| it.as_bytes() == *word);
    git_at_work(workdir, |words| words.iter().any(is_writer))
}

/// The first git process here whose command line `is_meant`.
fn git_at_work(workdir: &Path, is_meant: impl Fn(&[&[u8]]) -> bool) -> Option<u32> {
    let workdir = fs::canonicalize(workdir).ok()?;
    fs::read_dir(Path::new("/proc")).unwrap_or_default().iter().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let process = entry.path();
        let is_git = fs::read(&process.join("comm")).is_ok_and(|it| it == b"git\n");
        let is_meant = || {
            let line = fs::read(&process.join("cmdline")).unwrap_or_default();
            is_meant(&line.split(|byte| *byte == 0).collect::<Vec<_>>())
        };
        let is_here =
            || fs::read_link(&process.join("cwd")).is_ok_and(|it| it.starts_with(&workdir));
        (is_git && is_meant() && is_here()).then_some(pid)
    })
}

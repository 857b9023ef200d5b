//! Finishes what a crash cut short.
//!
//! Takes the repository as it was left, gives the number of index entries put right. Whether
//! there was a crash at all is told by a marker that a clean end removes. Committer thread, at
//! open.
//!
//! **Invariant:** an entry is touched only where it says exactly what the last commit of ours
//! replaced, for every path of that commit: the state between the ref and the index.

use gix::bstr::ByteSlice as _;

use crate::base::fs;
use crate::history::error::{SnapshotError, git};
use crate::history::git_index::{GitIndex, LOCK_WAIT, Patch};
use crate::history::lock::OwnLock;
use crate::history::look::kind_of;
use crate::history::place::{Place, lock_of};
use crate::history::reader::{self, Step};
use crate::history::{message, refs};

/// Stands in the git directory while a writer has it open.
const MARKER: &str = "open";

/// Looks after a crash and leaves the marker of this run.
pub(super) fn after_crash(repo: &gix::Repository, place: &Place) -> Result<usize, SnapshotError> {
    let marker = place.private().join(MARKER);
    let crashed = fs::lstat_if_there(&marker)?.is_some();
    let repaired = if crashed { finish_index(repo, place)? } else { 0 };
    fs::create_dir_all(&place.private())?;
    if !crashed {
        fs::write_atomic(&marker, b"A writer has this repository open, or was killed.\n")?;
    }
    Ok(repaired)
}

/// Takes the marker away: nothing is half done.
pub(super) fn close(place: &Place) {
    if let Err(err) = fs::remove_file(&place.private().join(MARKER)) {
        tracing::debug!(%err, "marker stays behind");
    }
}

/// Brings the index to HEAD where the last commit of ours did not get that far.
pub(super) fn finish_index(repo: &gix::Repository, place: &Place) -> Result<usize, SnapshotError> {
    let Some(head) = refs::read_head(repo)?.commit else {
        return Ok(0);
    };
    let commit = git("read a commit", repo.find_commit(head))?;
    let text = git("read a commit", commit.message_raw())?;
    let committer = git("read a commit", commit.committer())?;
    if committer.name != "remd" || message::parse(text).cause().is_none() {
        return Ok(0);
    }
    let steps = steps_of(repo, &commit)?;
    let mut index = GitIndex::load(repo, place)?;
    let is_before = |step: &Step| {
        let entry = index.entry(step.0.as_bstr());
        let found = entry.and_then(|it| Some((it.id, kind_of(it.mode)?)));
        found == step.1 && !index.is_unmerged(step.0.as_bstr())
    };
    if steps.is_empty() || !steps.iter().all(is_before) {
        return Ok(0);
    }
    let lock = OwnLock::take(&place.private(), &lock_of(&place.index()), LOCK_WAIT)?;
    if !index.is_current(place)? {
        return Err(SnapshotError::Moved);
    }
    // Without a stat git and the next look read the file once.
    let patches: Vec<_> = steps
        .into_iter()
        .map(|(path, _, new)| Patch {
            path,
            new: new.map(|(id, kind)| (id, kind.into(), Default::default())),
        })
        .collect();
    index.patch(&patches);
    index.write(repo, place, lock)?;
    Ok(patches.len())
}

/// Makes the index again from HEAD where its file is gone or empty: to git that looks as if all
/// had been staged for deletion, and nothing would be committed until a person saw it.
///
/// What is in HEAD and not on the disk stays out, as staged: a clone without a checkout has no
/// index either, and its notes are not deleted.
pub(super) fn remake_index(
    repo: &gix::Repository,
    place: &Place,
    head: &refs::HeadState,
) -> Result<(), SnapshotError> {
    let is_lost = || fs::lstat_if_there(&place.index()).map(|it| it.is_none_or(|it| it.len() == 0));
    let Some(commit) = head.commit else { return Ok(()) };
    if !is_lost()? {
        return Ok(());
    }
    let lock = OwnLock::take(&place.private(), &lock_of(&place.index()), LOCK_WAIT)?;
    if !is_lost()? {
        return Ok(());
    }
    let commit = git("read a commit", repo.find_commit(commit))?;
    let tree = git("read a commit", commit.tree_id())?;
    let is_there = |rela: &gix::bstr::BStr| match place.vault_path(rela) {
        Some(path) => fs::lstat_if_there(&place.disk(&path)).is_ok_and(|it| it.is_some()),
        None => true,
    };
    let mut index = GitIndex::from_tree(repo, &tree, is_there)?;
    index.write(repo, place, lock)?;
    tracing::warn!(path = %place.index().display(), "git's index was gone and is made again from HEAD");
    Ok(())
}

/// The paths of a commit against its first parent.
fn steps_of(repo: &gix::Repository, commit: &gix::Commit<'_>) -> Result<Vec<Step>, SnapshotError> {
    let new = git("read a tree", commit.tree_id())?.detach();
    let old = match commit.parent_ids().next() {
        Some(parent) => {
            let parent = git("read a commit", repo.find_commit(parent))?;
            Some(git("read a tree", parent.tree_id())?.detach())
        }
        None => None,
    };
    Ok(reader::tree_changes(repo, old, Some(new))?)
}

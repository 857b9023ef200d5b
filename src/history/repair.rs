//! Finishes what a crash cut short.
//!
//! Takes the repository as it was left, gives the number of index entries put right. Before a
//! reference moves, the commit's name is written down, and struck out when the index has followed:
//! after a kill that note is the proof that the index is behind. After a power cut, which may lose
//! the note, only an index that is behind in every path of our last commit is. Committer thread.
//!
//! **Invariant:** an entry is touched only where it says exactly what the unfinished commit of ours
//! replaced: what a person staged before or since stays.

use std::path::Path;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use crate::base::fs::{self, PathError};
use crate::history::busy::{self, Operation};
use crate::history::error::{SnapshotError, git};
use crate::history::git_index::{GitIndex, LOCK_WAIT, NewIndex, Patch, kind_of};
use crate::history::lock::{HeldLock, OwnLock};
use crate::history::objects::TreeView;
use crate::history::place::{Place, lock_of};
use crate::history::reader::{self, Step};
use crate::history::refs::HeadState;
use crate::history::{History, lock, message, refs};

/// Stands in the git directory while a writer has it open; says in which life of the machine.
const MARKER: &str = "open";
/// Holds the name of the commit whose index entries are not written yet.
const UNFINISHED: &str = "unfinished";

/// The length of the fixed part of a temp object's name; six random letters follow.
const TEMP_OBJECT: usize = ".tmp".len();

/// How sure it is that the index is behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Proof {
    /// The note says so: every entry that is as before is put right.
    Noted,
    /// The machine went down: only where all of them are.
    Guessed,
}

/// Looks after a crash and leaves the marker of this run.
pub(super) fn after_crash(repo: &gix::Repository, place: &Place) -> Result<usize, SnapshotError> {
    let marker = place.own(MARKER);
    let left = fs::read_if_there(&marker)?;
    let this_boot = boot();
    let repaired = match &left {
        Some(left) if noted(place)?.is_some() || *left != this_boot => finish_index(repo, place)?,
        _ => 0,
    };
    if left.is_some() {
        sweep_objects(repo.objects.store_ref().path());
    }
    place.shared.create_dir_all(&place.private())?;
    if left.is_none_or(|it| it != this_boot) {
        place.keep(&marker, &this_boot)?;
    }
    Ok(repaired)
}

/// Removes what a kill left of an object that was still being written: a temp file of our library
/// that no process has open. Git itself keeps such files for ever.
fn sweep_objects(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap_or_default() {
        let name = entry.file_name();
        let is_temp = name.len() == TEMP_OBJECT + 6
            && name.as_encoded_bytes().starts_with(b".tmp")
            && entry.file_type().is_ok_and(|it| it.is_file());
        if is_temp
            && lock::holder_of(&entry.path()).is_none()
            && let Err(err) = fs::remove_file(&entry.path())
        {
            tracing::debug!(%err, "a half-written object stays behind");
        }
    }
}

/// Notes that the reference is about to move to `commit` and the index has not followed.
pub(super) fn begin(place: &Place, commit: ObjectId) -> Result<(), PathError> {
    let path = place.own(UNFINISHED);
    fs::remove_file(&path)?;
    let mut file = fs::create_new(&path)?;
    let written = std::io::Write::write_all(&mut file, commit.to_hex().to_string().as_bytes());
    fs::at("write", &path, written)
}

/// Strikes the note out.
pub(super) fn end(place: &Place) {
    if let Err(err) = fs::remove_file(&place.own(UNFINISHED)) {
        tracing::debug!(%err, "note of an unfinished commit stays behind");
    }
}

/// Takes the marker away: nothing is half done.
pub(super) fn close(place: &Place) {
    if let Err(err) = fs::remove_file(&place.own(MARKER)) {
        tracing::debug!(%err, "marker stays behind");
    }
}

fn noted(place: &Place) -> Result<Option<ObjectId>, PathError> {
    let text = fs::read_if_there(&place.own(UNFINISHED))?;
    Ok(text.and_then(|it| ObjectId::from_hex(&it).ok()))
}

/// One life of the machine.
fn boot() -> Vec<u8> {
    let id = fs::read_regular(Path::new("/proc/sys/kernel/random/boot_id"), 64);
    let mut text = b"A writer has this repository open, or was killed, in boot ".to_vec();
    text.extend(id.unwrap_or_default());
    text
}

impl History {
    /// Brings an index along that could not follow the last commit, or that is gone; gives the
    /// lock that somebody else holds, where that is why it could not be done.
    pub(super) fn mend_index(
        &mut self,
        head: &HeadState,
        operation: Option<Operation>,
    ) -> Result<Option<HeldLock>, SnapshotError> {
        let mend = || {
            if self.is_unfinished {
                finish_index(&self.repo, &self.place)?;
            }
            match operation {
                Some(_) => Ok(()),
                None => remake_index(&self.repo, &self.place, head),
            }
        };
        match mend() {
            Ok(()) => {
                self.is_unfinished = false;
                Ok(None)
            }
            Err(SnapshotError::Locked { lock, .. }) => Ok(Some(lock)),
            Err(err) => Err(err),
        }
    }

    /// The same error; a lock that no process has open may still belong to a git command here.
    pub(super) fn with_owner(&self, err: SnapshotError) -> SnapshotError {
        match err {
            SnapshotError::Locked { lock, wip } => {
                let holder = lock.holder.or_else(|| busy::any_git_at_work(&self.place.workdir));
                SnapshotError::Locked { lock: HeldLock { holder, ..lock }, wip }
            }
            err => err,
        }
    }
}

/// Brings the index to HEAD where the last commit of ours did not get that far.
fn finish_index(repo: &gix::Repository, place: &Place) -> Result<usize, SnapshotError> {
    let repaired = finish(repo, place)?;
    end(place);
    Ok(repaired)
}

fn finish(repo: &gix::Repository, place: &Place) -> Result<usize, SnapshotError> {
    let Some(head) = refs::read_head(repo)?.commit else {
        return Ok(0);
    };
    let (commit, proof) = match noted(place)? {
        Some(commit) if commit == head => (commit, Proof::Noted),
        // Another vault's agent committed on top of it.
        Some(commit) if is_before(repo, commit, head)? => (commit, Proof::Noted),
        // The branch never moved.
        Some(_) => return Ok(0),
        None => (head, Proof::Guessed),
    };
    let commit = git("read a commit", repo.find_commit(commit))?;
    let text = git("read a commit", commit.message_raw())?;
    let committer = git("read a commit", commit.committer())?;
    if committer.name != "remd" || message::parse(text).cause().is_none() {
        return Ok(0);
    }
    let mut steps = steps_of(repo, &commit)?;
    if commit.id != head {
        let newest = git("read a commit", repo.find_commit(head))?;
        let newest = git("read a commit", newest.tree_id())?.detach();
        let mut newest = TreeView::new(repo, Some(newest));
        let mut still = Vec::with_capacity(steps.len());
        for step in steps {
            // What was changed again since is no longer ours.
            if newest.file(step.0.as_bstr())?.map(|(kind, id)| (id, kind)) == step.2 {
                still.push(step);
            }
        }
        steps = still;
    }
    let mut index = GitIndex::load(repo, place)?;
    let is_behind = |step: &Step| {
        let entry = index.entry(step.0.as_bstr());
        let found = entry.and_then(|it| Some((it.id, kind_of(it.mode)?)));
        found == step.1 && !index.is_unmerged(step.0.as_bstr())
    };
    let all = steps.len();
    let behind: Vec<_> = steps.into_iter().filter(is_behind).collect();
    if behind.is_empty() || proof == Proof::Guessed && behind.len() < all {
        return Ok(0);
    }
    let lock = OwnLock::take(&place.private(), place.shared, &lock_of(&place.index()), LOCK_WAIT)?;
    if !index.is_current(place)? {
        return Err(SnapshotError::Moved);
    }
    // Without a stat git and the next look read the file once.
    let patches: Vec<_> = behind
        .into_iter()
        .map(|(path, _, new)| Patch {
            path,
            new: new.map(|(id, kind)| (id, kind.into(), Default::default())),
        })
        .collect();
    index.patch(place, &patches)?;
    index.write(repo, place, lock)?;
    Ok(patches.len())
}

/// Makes the index again from HEAD where its file is gone or empty: to git that looks as if all
/// had been staged for deletion, and nothing would be committed until a person saw it.
///
/// What is in HEAD and not on the disk stays out, as staged: a clone without a checkout has no
/// index either, and its notes are not deleted.
fn remake_index(
    repo: &gix::Repository,
    place: &Place,
    head: &HeadState,
) -> Result<(), SnapshotError> {
    let is_lost = || fs::lstat_if_there(&place.index()).map(|it| it.is_none_or(|it| it.len() == 0));
    let Some(commit) = head.commit else { return Ok(()) };
    if !is_lost()? {
        return Ok(());
    }
    let lock = OwnLock::take(&place.private(), place.shared, &lock_of(&place.index()), LOCK_WAIT)?;
    if !is_lost()? {
        return Ok(());
    }
    let commit = git("read a commit", repo.find_commit(commit))?;
    let tree = git("read a commit", commit.tree_id())?;
    let is_there = |rela: &gix::bstr::BStr| match place.vault_path(rela) {
        Some(path) => fs::lstat_if_there(&place.disk(&path)).is_ok_and(|it| it.is_some()),
        None => true,
    };
    let mut index = NewIndex::from_tree(repo, &tree, is_there)?.finish()?;
    index.write(repo, place, lock)?;
    tracing::warn!(path = %place.index().display(), "git's index was gone and is made again from HEAD");
    Ok(())
}

/// Whether `head` is a commit on top of `commit`.
fn is_before(
    repo: &gix::Repository,
    commit: ObjectId,
    head: ObjectId,
) -> Result<bool, SnapshotError> {
    // A commit that was written down and never made is in nobody's history.
    Ok(repo.find_header(commit).is_ok() && reader::is_ancestor(repo, commit, head)?)
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

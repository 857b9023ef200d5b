//! Moves a branch by compare-and-swap, durably.
//!
//! Takes the expected and the new commit and the synced content, moves the loose reference under
//! git's own lock names, writes the reflogs, syncs. Written by hand because the content must be on disk before the
//! rename, and because our locks must be told from others' after a crash. Committer thread only.
//!
//! **Invariant:** a reference is never seen empty, and never moved from anything but `expected`.

use std::path::Path;
use std::time::Duration;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};

use crate::base::{fault, fs};
use crate::history::error::{SnapshotError, git};
use crate::history::lock::{Draft, OwnLock};
use crate::history::place::{Place, lock_of};

/// Git waits 100 ms for a reference; we wait longer, nobody waits for us.
const WAIT: Duration = Duration::from_secs(1);

/// What HEAD says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HeadState {
    /// The full name of the branch; `None` while HEAD is detached.
    pub branch: Option<BString>,
    /// `None` on an unborn branch.
    pub commit: Option<ObjectId>,
}

/// Reads HEAD from the disk.
pub(super) fn read_head(repo: &gix::Repository) -> Result<HeadState, crate::history::GitError> {
    let head = git("read HEAD", repo.head())?;
    let branch = head.referent_name().map(|it| it.as_bstr().to_owned());
    let commit = git("read HEAD", head.try_into_peeled_id())?.map(gix::Id::detach);
    // Without this folder every branch looks unborn, and the next commit would begin a new history.
    if commit.is_none() {
        git("read HEAD", fs::stat(&repo.common_dir().join("refs")))?;
    }
    Ok(HeadState { branch, commit })
}

/// A move of one reference.
pub(super) struct Move<'a> {
    pub name: &'a BStr,
    pub expected: Option<ObjectId>,
    pub new: ObjectId,
    /// `name <mail> seconds offset` and what happened, for the reflog.
    pub signature: &'a [u8],
    pub reason: &'a str,
}

/// The content of a reference that points to `commit`, to be synced together with the objects.
pub(super) fn draft(place: &Place, commit: ObjectId) -> Result<Draft, fs::PathError> {
    let mut draft = Draft::new(&place.private(), place.shared)?;
    draft.write(format!("{}\n", commit.to_hex()).as_bytes())?;
    Ok(draft)
}

/// Moves the branch that HEAD is on, if both still are what they were.
pub(super) fn move_branch(
    repo: &gix::Repository,
    place: &Place,
    step: &Move<'_>,
    draft: Draft,
) -> Result<(), SnapshotError> {
    let head_path = place.git_dir.join("HEAD");
    let _head_lock = OwnLock::take(&place.private(), place.shared, &lock_of(&head_path), WAIT)?;
    let now = read_head(repo)?;
    if now.branch.as_ref().map(|it| it.as_bstr()) != Some(step.name) || now.commit != step.expected
    {
        return Err(SnapshotError::Moved);
    }
    set(repo, place, step, draft, true)
}

/// Moves any shared reference, if it still is what it was.
pub(super) fn move_ref(
    repo: &gix::Repository,
    place: &Place,
    step: &Move<'_>,
    draft: Draft,
) -> Result<(), SnapshotError> {
    set(repo, place, step, draft, false)
}

fn set(
    repo: &gix::Repository,
    place: &Place,
    step: &Move<'_>,
    draft: Draft,
    is_head: bool,
) -> Result<(), SnapshotError> {
    let path = place.shared_ref(step.name);
    let lock = draft.take(&lock_of(&path), WAIT)?;
    let found = git("read a reference", repo.try_find_reference(step.name))?;
    let found = found.and_then(|it| it.target().try_id().map(ToOwned::to_owned));
    if found != step.expected {
        return Err(SnapshotError::Moved);
    }
    if is_head {
        fault::point("committer.in_ref");
    }
    if is_head {
        log(repo, place, step)?;
    }
    lock.rename_onto(&path)?;
    if let Some(folder) = path.parent() {
        fs::sync_dir(folder)?;
        if step.expected.is_none() {
            sync_up_to(folder, &place.common_dir)?;
        }
    }
    Ok(())
}

/// A new name may lie in new folders, whose own names must last too.
fn sync_up_to(folder: &Path, top: &Path) -> Result<(), fs::PathError> {
    let mut at = folder;
    while at != top
        && let Some(parent) = at.parent()
    {
        fs::sync_dir(parent)?;
        at = parent;
    }
    Ok(())
}

fn log(repo: &gix::Repository, place: &Place, step: &Move<'_>) -> Result<(), fs::PathError> {
    let wanted = repo.config_snapshot().string("core.logAllRefUpdates");
    if wanted.is_some_and(|it| {
        [&b"false"[..], b"no", b"off", b"0"].iter().any(|no| it.eq_ignore_ascii_case(no))
    }) {
        return Ok(());
    }
    let zero = ObjectId::null(repo.object_hash());
    let old = step.expected.unwrap_or(zero);
    let mut line = format!("{} {} ", old.to_hex(), step.new.to_hex()).into_bytes();
    line.extend_from_slice(step.signature);
    line.extend_from_slice(b"\t");
    line.extend(step.reason.bytes().map(|it| if it == b'\n' { b' ' } else { it }));
    line.push(b'\n');
    let branch = place
        .common_dir
        .join("logs")
        .join(gix::path::from_bstr(step.name).unwrap_or_else(|_| Path::new("HEAD").into()));
    for path in [place.git_dir.join("logs/HEAD"), branch] {
        if let Some(folder) = path.parent() {
            place.shared.create_dir_all(folder)?;
        }
        let is_new = place.shared.is_set() && fs::lstat_if_there(&path)?.is_none();
        fs::append(&path, &line)?;
        if is_new {
            place.shared.adjust(&path)?;
        }
    }
    Ok(())
}

/// Removes a reference that still is `expected`, also where it is packed.
pub(super) fn delete_ref(
    repo: &gix::Repository,
    name: &BStr,
    expected: ObjectId,
) -> Result<(), crate::history::GitError> {
    use gix::refs::transaction::{Change, PreviousValue, RefEdit, RefLog};
    let name = git("remove a reference", gix::refs::FullName::try_from(name))?;
    let edit = RefEdit {
        change: Change::Delete {
            expected: PreviousValue::ExistingMustMatch(expected.into()),
            log: RefLog::AndReference,
        },
        name,
        deref: false,
    };
    git("remove a reference", repo.edit_reference(edit)).map(|_| ())
}

//! Names for moments: annotated tags.
//!
//! Takes a name, gives the commit that it stands for from now on. Committer thread.
//!
//! **Invariant:** a name that is there is never moved, and none reads as another moment.

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};

use crate::base::{clock, when};
use crate::history::error::{ReadError, SnapshotError, git};
use crate::history::reader::Reader;
use crate::history::refs::{self, Move, move_ref};
use crate::history::signed::Signed;
use crate::history::{History, commit_id, objects};
use crate::vault::CommitId;

/// Why there is no such checkpoint now.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("`{name}` can be no name of a checkpoint: {why}")]
    Name { name: String, why: &'static str },
    #[error("There is a checkpoint `{name}` already, of commit {}", .commit.short())]
    Taken { name: String, commit: CommitId },
    #[error("There is no commit yet")]
    Unborn,
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl CheckpointError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Name { .. } => Some("As in `remd checkpoint before-the-move`.".to_owned()),
            Self::Taken { name, .. } => Some(format!(
                "Choose another name; `git tag -d {name}` removes the old one and loses no note."
            )),
            Self::Unborn => Some("Write a note first.".to_owned()),
            Self::Snapshot(err) => err.hint(),
            Self::Read(err) => Some(err.hint()),
        }
    }
}

/// A tag, and what it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    pub name: String,
    pub commit: CommitId,
    /// Seconds since the epoch, by the committer of the commit.
    pub time: i64,
}

impl History {
    /// Names HEAD.
    pub fn checkpoint(&mut self, name: &str, note: &str) -> Result<CommitId, CheckpointError> {
        check_name(name)?;
        let head = self.head()?.ok_or(CheckpointError::Unborn)?;
        let taken = |commit| CheckpointError::Taken { name: name.to_owned(), commit };
        if let Some(found) = self.reader().checkpoints()?.into_iter().find(|it| it.name == name) {
            return Err(taken(found.commit));
        }
        let signed = Signed::new(&self.repo, &self.options, None);
        let target = ObjectId::try_from(head.commit.as_bytes());
        let target = git("read HEAD", target).map_err(SnapshotError::from)?;
        let message = match note.trim() {
            "" => format!("Checkpoint {name}\n"),
            note => format!("{note}\n"),
        };
        let tagger = signed.object(target, Vec::new(), String::new()).author;
        let tag = gix::objs::Tag {
            target,
            target_kind: gix::objs::Kind::Commit,
            name: name.into(),
            tagger: Some(tagger),
            message: message.into(),
            signature: None,
        };
        let written = objects::write_object(&self.repo, &tag).map_err(SnapshotError::from)?;
        let draft = refs::draft(&self.place, written).map_err(SnapshotError::from)?;
        let synced = self.objects.sync(&[written], &[draft.path()]);
        synced.map_err(SnapshotError::from)?;
        let full = BString::from(format!("refs/tags/{name}"));
        let step = Move {
            name: full.as_bstr(),
            expected: None,
            new: written,
            signature: &signed.for_log(),
            reason: "checkpoint",
        };
        match move_ref(&self.repo, &self.place, &step, draft) {
            Err(SnapshotError::Moved) => Err(taken(head.commit)),
            moved => Ok(moved.map(|()| head.commit)?),
        }
    }
}

impl Reader {
    /// All tags that stand for commits, the newest commit first.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>, ReadError> {
        let repo = self.repo.to_thread_local();
        let mut found = Vec::new();
        let references = git("list the tags", repo.references())?;
        for reference in git("list the tags", references.tags())? {
            let mut reference = git("read a tag", reference)?;
            let name = reference.name().shorten().to_string();
            // Of a tree or a file, or of what is not here.
            let Ok(commit) = reference.peel_to_commit() else { continue };
            let time = commit.time().map(|it| it.seconds).unwrap_or_default();
            if let Some(commit) = commit_id(&commit.id) {
                found.push(Checkpoint { name, commit, time });
            }
        }
        found.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
        Ok(found)
    }
}

fn check_name(name: &str) -> Result<(), CheckpointError> {
    let no = |why| Err(CheckpointError::Name { name: name.to_owned(), why });
    let full = format!("refs/tags/{name}");
    if gix::validate::reference::name(full.as_bytes().as_bstr()).is_err() || name.starts_with('-') {
        return no("Git allows no blanks, `..`, `~`, `^`, `:`, `?`, `*`, `[` or `\\` in it");
    }
    if name == "HEAD" || when::read(name, clock::unix_seconds()).is_some() {
        return no("it reads as a date or an age");
    }
    if name.len() >= 7 && name.bytes().all(|it| it.is_ascii_hexdigit()) {
        return no("it reads as the hash of a commit");
    }
    Ok(())
}

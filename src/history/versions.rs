//! What one note was, commit by commit.
//!
//! Takes a path, gives its versions across its renames, newest first. Any thread.
//!
//! **Invariant:** a path that is gone has its versions too: the last one says that it was deleted.

use crate::history::error::ReadError;
use crate::history::log::{self, Said};
use crate::history::message::CauseKind;
use crate::history::reader::{Reader, known};
use crate::history::snapshot::entry;
use crate::history::trail::{Step, Trail};
use crate::vault::change::Entry;
use crate::vault::{CommitId, VaultPath};

/// A note as one commit left it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastVersion {
    pub commit: CommitId,
    /// Seconds since the epoch, by the author, and how far his clock was ahead of UTC.
    pub time: i64,
    pub offset: i32,
    /// What it was called then.
    pub path: VaultPath,
    /// What it was called before this commit, where that is another name.
    pub from: Option<VaultPath>,
    /// `None` where the commit deleted it.
    pub entry: Option<Entry>,
    pub author: String,
    pub mail: String,
    pub subject: String,
    pub cause: Option<CauseKind>,
    pub trailers: Vec<(String, String)>,
}

impl PastVersion {
    /// When, on its author's clock: `2026-06-29 14:03`.
    pub fn when(&self) -> String {
        log::when(self.time, self.offset)
    }

    /// The first trailer of that name.
    pub fn trailer(&self, key: &str) -> Option<&str> {
        self.trailers.iter().find(|it| it.0.eq_ignore_ascii_case(key)).map(|it| it.1.as_str())
    }
}

impl Reader {
    /// The versions of a note from HEAD back, newest first, at most `limit`.
    ///
    /// A version is what a commit left that changed the note against each of its parents. Where it
    /// was made of another note, they go on with that one; where there was one of its name before,
    /// with that.
    pub fn versions(&self, path: &VaultPath, limit: usize) -> Result<Vec<PastVersion>, ReadError> {
        match self.head()? {
            Some(head) => self.versions_from(head.commit, path, limit),
            None => Ok(Vec::new()),
        }
    }

    /// The same from any commit.
    pub fn versions_from(
        &self,
        from: CommitId,
        path: &VaultPath,
        limit: usize,
    ) -> Result<Vec<PastVersion>, ReadError> {
        let repo = self.cached();
        let from = known(&repo, from)?;
        let mut trail = Trail::new(repo.clone(), &self.place, from, Some(path), self.table(&repo))?;
        let mut versions = Vec::new();
        while versions.len() < limit {
            let Some(step) = trail.next()? else { break };
            versions.push(version(&repo, path, step)?);
        }
        Ok(versions)
    }

    /// A handle that keeps what it has read for a while.
    pub(super) fn cached(&self) -> gix::Repository {
        let mut repo = self.repo.to_thread_local();
        repo.object_cache_size_if_unset(8 << 20);
        repo
    }
}

fn version(repo: &gix::Repository, path: &VaultPath, step: Step) -> Result<PastVersion, ReadError> {
    let said = Said::of(repo, step.id)?;
    // A folder that came where the note was is not the note.
    let file = step.now.filter(|(mode, _)| !mode.is_tree());
    Ok(PastVersion {
        commit: said.commit,
        time: said.time,
        offset: said.offset,
        path: step.path.unwrap_or_else(|| path.clone()),
        from: step.from,
        entry: file.and_then(|(mode, id)| entry((id, mode.kind()))),
        author: said.author,
        mail: said.mail,
        cause: said.parsed.cause(),
        subject: said.parsed.subject,
        trailers: said.parsed.trailers,
    })
}

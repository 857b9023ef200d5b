//! What commits say and did, newest first.
//!
//! Takes what is looked for, gives commits with their cause and the lines that they changed. Any
//! thread.
//!
//! **Invariant:** a commit without trailers, of another program, is shown like every other.

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use crate::history::error::{GitError, ReadError, git};
use crate::history::message::{self, CauseKind, Parsed};
use crate::history::objects::TreeView;
use crate::history::reader::{self, Reader, head, known, no_commit};
use crate::history::{commit_id, text};
use crate::vault::change::Entry;
use crate::vault::{CommitId, VaultPath};

/// Lines of a file that a log still counts.
const COUNTED_BYTES: usize = 1 << 20;
/// Files of one commit whose lines a log counts.
const COUNTED_FILES: usize = 200;

/// Which commits a log shows.
#[derive(Clone, Debug, Default)]
pub struct LogFilter {
    /// Only commits that changed this file, or something in this folder.
    pub path: Option<VaultPath>,
    /// At most so many.
    pub limit: usize,
}

/// A commit as a log shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    pub commit: CommitId,
    /// Seconds since the epoch, by the author, and how far his clock was ahead of UTC.
    pub time: i64,
    pub offset: i32,
    pub author: String,
    pub mail: String,
    pub subject: String,
    pub body: String,
    pub cause: Option<CauseKind>,
    pub trailers: Vec<(String, String)>,
    /// Against the first parent.
    pub changes: Vec<PathStat>,
}

impl LogEntry {
    /// When, on its author's clock: `2026-06-29 14:03`.
    pub fn when(&self) -> String {
        when(self.time, self.offset)
    }
}

/// A moment on a clock that is so far ahead of UTC: `2026-06-29 14:03`.
pub(super) fn when(time: i64, offset: i32) -> String {
    let time = gix::date::Time::new(time, offset);
    time.format_or_unix(gix::date::time::CustomFormat::new("%Y-%m-%d %H:%M"))
}

/// What a commit says of itself.
pub(super) struct Said {
    pub commit: CommitId,
    /// By the author.
    pub time: i64,
    pub offset: i32,
    pub author: String,
    pub mail: String,
    pub parsed: Parsed,
}

impl Said {
    pub fn of(repo: &gix::Repository, id: ObjectId) -> Result<Self, ReadError> {
        let commit = git("read a commit", repo.find_commit(id))?;
        let author = git("read a commit", commit.author())?;
        let time = author.time().unwrap_or_default();
        Ok(Self {
            commit: commit_id(&id).ok_or_else(|| no_commit(&id.to_string()))?,
            time: time.seconds,
            offset: time.offset,
            author: author.name.to_string(),
            mail: author.email.to_string(),
            parsed: message::parse(git("read a commit", commit.message_raw())?),
        })
    }
}

/// What a commit did to one path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathStat {
    pub path: VaultPath,
    pub old: Option<Entry>,
    pub new: Option<Entry>,
    /// Lines; `None` for what is no text, or too much of it, or not here.
    pub lines: Option<(u32, u32)>,
    /// Whether a partial clone has left a side of it with its remote.
    pub is_left_out: bool,
}

impl Reader {
    /// The newest commits first.
    pub fn log(&self, filter: &LogFilter) -> Result<Vec<LogEntry>, ReadError> {
        let repo = self.repo.to_thread_local();
        let Some(head) = head(&repo)? else { return Ok(Vec::new()) };
        self.log_from(head.commit, filter)
    }

    /// The same from any commit.
    pub fn log_from(&self, from: CommitId, filter: &LogFilter) -> Result<Vec<LogEntry>, ReadError> {
        use gix::revision::walk::Sorting;
        use gix::traverse::commit::simple::CommitTimeOrder;
        let repo = self.repo.to_thread_local();
        let sorting = Sorting::ByCommitTime(CommitTimeOrder::NewestFirst);
        let walk = repo.rev_walk([known(&repo, from)?]).sorting(sorting).all();
        let mut entries = Vec::new();
        for step in git("walk the history", walk)? {
            if entries.len() >= filter.limit {
                break;
            }
            let step = git("walk the history", step)?;
            let parents: Vec<_> = step.parent_ids().map(gix::Id::detach).collect();
            if let Some(path) = &filter.path
                && !self.touches(&repo, step.id, &parents, path)?
            {
                continue;
            }
            entries.push(self.log_entry(&repo, step.id, filter.path.as_ref())?);
        }
        Ok(entries)
    }

    /// One commit as the log shows it.
    pub fn show(&self, commit: CommitId) -> Result<LogEntry, ReadError> {
        let repo = self.repo.to_thread_local();
        let id = known(&repo, commit)?;
        self.log_entry(&repo, id, None)
    }

    /// Whether a commit changed `path` against every parent.
    fn touches(
        &self,
        repo: &gix::Repository,
        commit: ObjectId,
        parents: &[ObjectId],
        path: &VaultPath,
    ) -> Result<bool, ReadError> {
        let rela = self.place.rela(path);
        let at = |id: ObjectId| -> Result<_, GitError> {
            let commit = git("read a commit", repo.find_commit(id))?;
            let tree = git("read a commit", commit.tree_id())?.detach();
            TreeView::new(repo, Some(tree)).get(rela.as_bstr())
        };
        let here = at(commit)?;
        if parents.is_empty() {
            return Ok(here.is_some());
        }
        for parent in parents {
            if at(*parent)? == here {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn log_entry(
        &self,
        repo: &gix::Repository,
        id: ObjectId,
        path: Option<&VaultPath>,
    ) -> Result<LogEntry, ReadError> {
        let commit = git("read a commit", repo.find_commit(id))?;
        let new = git("read a commit", commit.tree_id())?.detach();
        let old = match commit.parent_ids().next() {
            // A shallow clone ends here.
            Some(parent) => match repo.find_commit(parent) {
                Ok(parent) => Some(git("read a commit", parent.tree_id())?.detach()),
                Err(_) => None,
            },
            None => None,
        };
        let said = Said::of(repo, id)?;
        let mut changes = Vec::new();
        for (changed, change) in self.changes(repo, old, new)?.iter() {
            if path.is_some_and(|it| !changed.is_within(it.as_bytes())) {
                continue;
            }
            let lines = match changes.len() < COUNTED_FILES {
                true => text::count_lines(repo, change.old, change.new, COUNTED_BYTES)?,
                false => None,
            };
            let (old, new) = (change.old, change.new);
            let is_left_out = lines.is_none()
                && [old, new].into_iter().flatten().any(|it| reader::is_left_out(repo, it));
            changes.push(PathStat { path: changed.clone(), old, new, lines, is_left_out });
        }
        Ok(LogEntry {
            commit: said.commit,
            time: said.time,
            offset: said.offset,
            author: said.author,
            mail: said.mail,
            cause: said.parsed.cause(),
            subject: said.parsed.subject,
            body: said.parsed.body,
            trailers: said.parsed.trailers,
            changes,
        })
    }
}

//! What commits say and did, newest first.
//!
//! Takes what is looked for, gives commits with their cause and the lines that they changed. Any
//! thread.
//!
//! **Invariant:** a commit without trailers, of another program, is shown like every other.

use gix::ObjectId;

use crate::history::error::{ReadError, git};
use crate::history::grep::Needle;
use crate::history::message::{self, CauseKind, Parsed};
use crate::history::place::Place;
use crate::history::reader::{self, Reader, known, no_commit};
use crate::history::trail::{Step, Trail};
use crate::history::{commit_id, text};
use crate::vault::change::{Change, Entry};
use crate::vault::{CommitId, VaultPath};

/// Lines of a file that a log still counts.
const COUNTED_BYTES: usize = 1 << 20;
/// Files of one commit whose lines a log counts.
pub const COUNTED_FILES: usize = 200;

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
    /// The same by the committer.
    pub committed: i64,
    /// Also those that a shallow clone has not.
    pub parents: Vec<CommitId>,
    pub author: String,
    pub mail: String,
    pub subject: String,
    pub body: String,
    pub cause: Option<CauseKind>,
    pub trailers: Vec<(String, String)>,
    /// What was asked for, as this commit calls it; and what it was called before, where that is
    /// another name.
    pub path: Option<VaultPath>,
    pub from: Option<VaultPath>,
    /// Against the first parent.
    pub changes: Vec<PathStat>,
}

impl LogEntry {
    /// When, on its author's clock: `2026-06-29 14:03`.
    pub fn when(&self) -> String {
        when(self.time, self.offset)
    }

    /// The first trailer of that name.
    pub fn trailer(&self, key: &str) -> Option<&str> {
        self.trailers.iter().find(|it| it.0.eq_ignore_ascii_case(key)).map(|it| it.1.as_str())
    }

    /// Whether it brings several lines of history together.
    pub fn is_merge(&self) -> bool {
        self.parents.len() > 1
    }
}

impl Reader {
    /// The subject of a commit, and when it was made, on its author's clock.
    pub fn subject(&self, commit: CommitId) -> Result<(String, String), ReadError> {
        let repo = self.repo.to_thread_local();
        let object = git("read a commit", repo.find_commit(known(&repo, commit)?))?;
        let parsed = message::parse(git("read a commit", object.message_raw())?);
        let time = git("read a commit", object.author())?.time().unwrap_or_default();
        Ok((parsed.subject, when(time.seconds, time.offset)))
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
    /// By the committer.
    pub committed: i64,
    pub parents: Vec<CommitId>,
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
            committed: git("read a commit", commit.committer())?.time().map_or(0, |it| it.seconds),
            parents: commit.parent_ids().filter_map(|it| commit_id(&it)).collect(),
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

/// What a log leaves out of what it is asked for, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cut {
    /// A shallow clone has no older commits.
    pub is_shallow: bool,
}

/// Goes back commit by commit, newest first; each with its words, and with its changes when it is
/// asked for them.
pub struct LogWalk {
    trail: Option<Trail>,
    place: Place,
}

impl LogWalk {
    /// The next commit, without its changes.
    pub fn step(&mut self) -> Result<Option<LogEntry>, ReadError> {
        let Some(trail) = &mut self.trail else { return Ok(None) };
        let Some(step) = trail.next()? else { return Ok(None) };
        Ok(Some(entry_of(&trail.nodes.repo, step)?))
    }

    /// Adds the changes: against the first parent; of a merge, what no parent has.
    pub fn fill(&self, entry: &mut LogEntry) -> Result<(), ReadError> {
        let Some(trail) = &self.trail else { return Ok(()) };
        entry.changes = changes(&trail.nodes.repo, &self.place, entry, Merge::OwnPart)?;
        Ok(())
    }

    /// What all commits from `oldest` to `newest` changed together, where each is the parent of the
    /// next.
    pub fn between(
        &self,
        newest: &LogEntry,
        oldest: &LogEntry,
    ) -> Result<Vec<PathStat>, ReadError> {
        let together = LogEntry { parents: oldest.parents.clone(), ..newest.clone() };
        match &self.trail {
            Some(trail) => changes(&trail.nodes.repo, &self.place, &together, Merge::OwnPart),
            None => Ok(Vec::new()),
        }
    }

    /// Whether an added or removed line of the commit has the text, in whatever case; `None` where
    /// `is_over` said so before the end.
    pub fn mentions(
        &self,
        entry: &LogEntry,
        needle: &Needle,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<bool>, ReadError> {
        let Some(trail) = &self.trail else { return Ok(Some(false)) };
        let repo = &trail.nodes.repo;
        for (_, change) in touched(repo, &self.place, entry, Merge::OwnPart)? {
            if is_over() {
                return Ok(None);
            }
            if needle.is_changed(repo, change)? {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    /// What could not be shown so far.
    pub fn cut(&self) -> Cut {
        Cut { is_shallow: self.trail.as_ref().is_some_and(|it| it.nodes.is_cut) }
    }
}

/// What of a merge is its change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Merge {
    /// What it brought into its first parent.
    Whole,
    /// What no parent has: the rest is told by the commits that it brought.
    OwnPart,
}

impl Reader {
    /// From a commit back: the commits that changed a file (along its renames), a folder, or the
    /// whole vault.
    pub fn walk(
        &self,
        from: Option<CommitId>,
        path: Option<&VaultPath>,
    ) -> Result<LogWalk, ReadError> {
        let repo = self.cached();
        let trail = match from {
            Some(from) => {
                let from = known(&repo, from)?;
                // The whole vault needs no table: every commit is a step.
                let is_narrow = path.is_some() || !self.place.prefix.is_empty();
                let table = if is_narrow { self.table(&repo) } else { None };
                Some(Trail::new(repo, &self.place, from, path, table)?)
            }
            None => None,
        };
        Ok(LogWalk { trail, place: self.place.clone() })
    }

    /// The newest commits first.
    pub fn log(&self, filter: &LogFilter) -> Result<Vec<LogEntry>, ReadError> {
        let Some(head) = self.head()? else { return Ok(Vec::new()) };
        self.log_from(head.commit, filter)
    }

    /// The same from any commit.
    pub fn log_from(&self, from: CommitId, filter: &LogFilter) -> Result<Vec<LogEntry>, ReadError> {
        let mut walk = self.walk(Some(from), filter.path.as_ref())?;
        let mut entries = Vec::new();
        while entries.len() < filter.limit {
            let Some(mut entry) = walk.step()? else { break };
            walk.fill(&mut entry)?;
            entries.push(entry);
        }
        Ok(entries)
    }

    /// One commit as the log shows it; of a merge, all that it brought into its first parent.
    pub fn show(&self, commit: CommitId) -> Result<LogEntry, ReadError> {
        let repo = self.repo.to_thread_local();
        let id = known(&repo, commit)?;
        let mut entry = entry_of(&repo, Step { id, path: None, from: None, now: None })?;
        entry.changes = changes(&repo, &self.place, &entry, Merge::Whole)?;
        Ok(entry)
    }
}

fn entry_of(repo: &gix::Repository, step: Step) -> Result<LogEntry, ReadError> {
    let said = Said::of(repo, step.id)?;
    Ok(LogEntry {
        commit: said.commit,
        parents: said.parents,
        time: said.time,
        offset: said.offset,
        committed: said.committed,
        author: said.author,
        mail: said.mail,
        cause: said.parsed.cause(),
        subject: said.parsed.subject,
        body: said.parsed.body,
        trailers: said.parsed.trailers,
        path: step.path,
        from: step.from,
        changes: Vec::new(),
    })
}

/// What a commit changed of what its entry is about.
fn touched(
    repo: &gix::Repository,
    place: &Place,
    entry: &LogEntry,
    merge: Merge,
) -> Result<Vec<(VaultPath, Change)>, ReadError> {
    let new = reader::tree_of(repo, entry.commit)?;
    let old: Vec<_> = entry
        .parents
        .iter()
        // A shallow clone ends here.
        .filter(|it| reader::known(repo, **it).is_ok())
        .map(|it| reader::tree_of(repo, *it))
        .collect::<Result<_, _>>()?;
    let all = reader::vault_changes(repo, place, old.first().copied(), Some(new))?;
    let is_asked = |path: &VaultPath| match (&entry.path, &entry.from) {
        (Some(asked), from) => {
            path.is_within(asked.as_bytes()) || from.as_ref().is_some_and(|it| it == path)
        }
        (None, _) => true,
    };
    let mut found: Vec<_> =
        all.iter().filter(|it| is_asked(it.0)).map(|it| (it.0.clone(), *it.1)).collect();
    if merge == Merge::OwnPart {
        for other in old.iter().skip(1) {
            let other = reader::vault_changes(repo, place, Some(*other), Some(new))?;
            found.retain(|it| other.get(&it.0).is_some());
        }
    }
    Ok(found)
}

/// The same with the lines counted.
fn changes(
    repo: &gix::Repository,
    place: &Place,
    entry: &LogEntry,
    merge: Merge,
) -> Result<Vec<PathStat>, ReadError> {
    let mut changes = Vec::new();
    let mut found = touched(repo, place, entry, merge)?;
    // A file at a new name: what changed is what differs from the old one.
    let mut renamed = None;
    if let (Some(path), Some(from)) = (&entry.path, &entry.from)
        && let Some(old) = found.iter().find(|it| it.0 == *from).and_then(|it| it.1.old)
    {
        renamed = Some((path.clone(), old));
        found.retain(|it| it.0 != *from);
    }
    for (path, mut change) in found {
        if let Some((new, old)) = &renamed
            && *new == path
        {
            change.old = Some(*old);
        }
        let lines = match changes.len() < COUNTED_FILES {
            true => text::count_lines(repo, change.old, change.new, COUNTED_BYTES)?,
            false => None,
        };
        let (old, new) = (change.old, change.new);
        let is_left_out = lines.is_none()
            && [old, new].into_iter().flatten().any(|it| reader::is_left_out(repo, it));
        changes.push(PathStat { path, old, new, lines, is_left_out });
    }
    Ok(changes)
}

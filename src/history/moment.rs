//! The commit that a person means by a moment.
//!
//! Takes a revision, a date or an age, gives the commit at which the vault was as it was then. Any
//! thread.
//!
//! **Invariant:** a name of Git's goes before a date: a branch called `2026-06-01` is that branch.
//! No tree is read, and of a merge only what was here before it.

use gix::ObjectId;

use crate::base::{clock, when};
use crate::history::commit_id;
use crate::history::error::{ReadError, git};
use crate::history::path_log::Table;
use crate::history::reader::{Reader, head};
use crate::history::trail::Nodes;
use crate::vault::CommitId;

/// A shorter run of hexadecimal digits is no hash: `365d` is an age.
const SHORTEST_HASH: usize = 7;

impl Reader {
    /// The commit that `text` means, tried in this order: a branch, tag or other reference; a hash of
    /// at least 7 digits; what else Git takes for a revision (`HEAD~5`); a date or a time
    /// (`2026-06-01`, `2026-06-01T14:00`); an age (`2h`, `3d`, `yesterday`).
    ///
    /// A date is the last commit up to its end, by the time of its committer, along first parents; a
    /// time that is still to come is HEAD.
    pub fn moment(&self, text: &str) -> Result<CommitId, ReadError> {
        let text = text.trim();
        let repo = self.repo.to_thread_local();
        let is_ref = || matches!(repo.try_find_reference(text), Ok(Some(_)));
        let is_hex = text.bytes().all(|it| it.is_ascii_hexdigit());
        if is_ref() || !is_hex || text.len() >= SHORTEST_HASH {
            match self.resolve(text) {
                Err(err) if err.is_not_found() => {}
                found => return found,
            }
        }
        let now = clock::unix_seconds();
        match when::read(text, now) {
            Some(stretch) => self.at_time(&repo, stretch.to, now, text),
            None => Err(ReadError::NotFound { what: "revision or date", name: text.to_owned() }),
        }
    }

    /// The last commit of HEAD's first parents that was made at `time` or before.
    fn at_time(
        &self,
        repo: &gix::Repository,
        time: i64,
        now: i64,
        text: &str,
    ) -> Result<CommitId, ReadError> {
        let no_commit = || ReadError::NotFound { what: "commit", name: "HEAD".to_owned() };
        let head = head(repo)?.ok_or_else(no_commit)?;
        if time >= now {
            return Ok(head.commit);
        }
        let id = ObjectId::try_from(head.commit.as_bytes()).map_err(|_| no_commit())?;
        let table = self.table(repo);
        let mut nodes = Nodes::new(repo.clone())?;
        let (mut next, mut begins) = (Some(id), head.time);
        while let Some(id) = next {
            if let Some(table) = &table
                && let Some(number) = table.number(id)
            {
                match at_time_in(table, number, time) {
                    Ok(found) => return commit_id(&found).ok_or_else(no_commit),
                    Err(first) => begins = first,
                }
                break;
            }
            let node = nodes.read(id)?;
            if node.time <= time {
                return commit_id(&id).ok_or_else(no_commit);
            }
            begins = node.time;
            next = node.parents.first().copied();
        }
        Err(ReadError::TooEarly {
            moment: text.to_owned(),
            begins: clock::local_text(begins),
            is_shallow: git("read what a shallow clone left out", repo.is_shallow())?,
        })
    }
}

/// The same among the commits of a table; or when the first of them was made.
fn at_time_in(table: &Table, from: u32, time: i64) -> Result<ObjectId, i64> {
    let (mut next, mut begins) = (Some(from), i64::MAX);
    while let Some(number) = next {
        let Some(commit) = table.commits.get(number) else { break };
        if commit.time <= time {
            return Ok(commit.id);
        }
        begins = commit.time;
        next = table.commits.parents(number).next();
    }
    Err(begins)
}

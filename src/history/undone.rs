//! Which commits a person means to take back.
//!
//! Takes what was asked for, gives commits, newest first. Reads commits only. Any thread.

use std::collections::BTreeSet;

use gix::bstr::ByteSlice as _;

use crate::history::commit_id;
use crate::history::error::{ReadError, git};
use crate::history::message::{self, CauseKind, Parsed};
use crate::history::reader::{self, Reader};
use crate::vault::CommitId;

/// What is to be taken back.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The last change that is not taken back yet, and takes back none itself.
    Last,
    /// One commit.
    Commit(CommitId),
    /// All commits of the second one that the first has not.
    Between(CommitId, CommitId),
    /// All that a job's run did, and the runs that it began.
    Run(String),
}

/// A commit on the way.
struct Met<'a> {
    commit: CommitId,
    parsed: &'a Parsed,
    /// Whether it has no parent.
    is_first: bool,
}

impl Reader {
    /// The commits of HEAD's history that are meant, newest first.
    pub fn commits_to_undo(&self, head: CommitId, what: &What) -> Result<Vec<CommitId>, ReadError> {
        match what {
            What::Commit(commit) => match self.is_ancestor(*commit, head)? {
                true => Ok(vec![*commit]),
                false => Err(not_here(*commit)),
            },
            What::Between(from, to) => {
                if !self.is_ancestor(*to, head)? {
                    return Err(not_here(*to));
                }
                self.commits(Some(*from), *to, &mut |_| Some(true))
            }
            What::Last => {
                let mut undone = BTreeSet::new();
                self.commits(None, head, &mut |met| {
                    let Met { commit, parsed, is_first } = *met;
                    let takes_back: Vec<_> = message::reverted(&parsed.body).collect();
                    if undone.contains(&commit) {
                        // Taken back: what it had taken back stands again.
                        return Some(false);
                    }
                    let is_undo = parsed.cause() == Some(CauseKind::Undo) || !takes_back.is_empty();
                    undone.extend(takes_back);
                    // What the vault began with is taken back only by its name.
                    if is_undo || is_first { Some(false) } else { None }
                })
            }
            What::Run(run) => {
                let mut runs = BTreeSet::from([run.clone()]);
                // A run that another began is newer than it: the second walk knows them all.
                let mut grows = true;
                let mut found = Vec::new();
                while grows {
                    let before = runs.len();
                    found = self.commits(None, head, &mut |met| {
                        let of = |key| met.parsed.trailer(key).is_some_and(|it| runs.contains(it));
                        let is_of_it = of("Remd-Run") || of("Remd-Parent");
                        if is_of_it && let Some(run) = met.parsed.trailer("Remd-Run") {
                            runs.insert(run.to_owned());
                        }
                        Some(is_of_it)
                    })?;
                    grows = runs.len() > before;
                }
                match found.is_empty() {
                    true => Err(ReadError::NotFound { what: "run of a job", name: run.clone() }),
                    false => Ok(found),
                }
            }
        }
    }

    /// The commits of this kind that nobody has taken back, newest first.
    pub(super) fn standing(
        &self,
        head: CommitId,
        is_wanted: &dyn Fn(&Parsed) -> bool,
    ) -> Result<Vec<CommitId>, ReadError> {
        let mut undone = BTreeSet::new();
        self.commits(None, head, &mut |met| {
            if undone.contains(&met.commit) {
                return Some(false);
            }
            undone.extend(message::reverted(&met.parsed.body));
            Some(is_wanted(met.parsed))
        })
    }

    /// What a commit says.
    pub(super) fn message(&self, commit: CommitId) -> Result<Parsed, ReadError> {
        let repo = self.repo.to_thread_local();
        let object = git("read a commit", repo.find_commit(reader::known(&repo, commit)?))?;
        Ok(message::parse(git("read a commit", object.message_raw())?))
    }

    /// Walks from `to` to what `from` has; `pick` takes a commit, passes over it, or (`None`) takes
    /// it and ends the walk.
    fn commits(
        &self,
        from: Option<CommitId>,
        to: CommitId,
        pick: &mut dyn FnMut(&Met<'_>) -> Option<bool>,
    ) -> Result<Vec<CommitId>, ReadError> {
        use gix::revision::walk::Sorting;
        use gix::traverse::commit::simple::CommitTimeOrder;
        let repo = self.repo.to_thread_local();
        let hidden = match from {
            Some(from) => Some(reader::known(&repo, from)?),
            None => None,
        };
        let walk = repo
            .rev_walk([reader::known(&repo, to)?])
            .with_hidden(hidden)
            .sorting(Sorting::ByCommitTime(CommitTimeOrder::NewestFirst))
            .all();
        let mut found = Vec::new();
        for step in git("walk the history", walk)? {
            let id = git("walk the history", step)?.id;
            let Some(commit) = commit_id(&id) else { continue };
            let object = git("read a commit", repo.find_commit(id))?;
            let text = git("read a commit", object.message_raw())?;
            let parsed = message::parse(text.as_bytes());
            let is_first = object.parent_ids().next().is_none();
            match pick(&Met { commit, parsed: &parsed, is_first }) {
                Some(true) => found.push(commit),
                Some(false) => {}
                None => {
                    found.push(commit);
                    break;
                }
            }
        }
        Ok(found)
    }
}

fn not_here(commit: CommitId) -> ReadError {
    ReadError::NotFound { what: "commit on this branch", name: commit.to_string() }
}

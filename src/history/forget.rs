//! What a person wants forgotten: taken out, and never brought back by a job.
//!
//! Takes a path or words, gives a plan; reads from history what was forgotten so far. A commit with
//! the trailer [`FORGET`] is a tombstone as long as nobody takes it back: what it deleted must not be
//! written again by a program. Reads objects, writes nothing. Any thread.
//!
//! **Invariant:** a tombstone says no more than its commit: whoever purges that leaves no trace.

use std::collections::BTreeSet;

use crate::history::error::ReadError;
use crate::history::reader::Reader;
use crate::history::undo::Plan;
use crate::vault::forget::{bare, without};
use crate::vault::note::is_markdown;
use crate::vault::{BlobId, CommitId, VaultPath};

/// Marks a tombstone: `path` where notes went as a whole, `lines` where lines of some did.
pub const FORGET: &str = "Remd-Forget";

/// A shorter line may stand in any note.
const TELLING: usize = 12;

/// What is not to be written again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tombstones {
    /// Notes that were forgotten as a whole.
    pub paths: BTreeSet<VaultPath>,
    /// Lines of them, and of others, as [`bare`] has them.
    lines: BTreeSet<String>,
    /// The commits that say so, newest first.
    pub commits: Vec<CommitId>,
}

impl Tombstones {
    /// Why a program may not write `text` to `path`, if it may not.
    pub fn refuses(&self, path: &VaultPath, text: &str) -> Option<String> {
        if self.paths.contains(path) {
            return Some(format!("`{path}` was forgotten by a person (`remd forget --list`)"));
        }
        let number = text.lines().position(|line| self.lines.contains(&bare(line)))?;
        Some(format!(
            "line {} of `{path}` was forgotten by a person (`remd forget --list`)",
            number + 1
        ))
    }
}

impl Reader {
    /// How to delete `path`, a note or a folder.
    pub fn plan_forget_path(&self, head: CommitId, path: &VaultPath) -> Result<Plan, ReadError> {
        let mut plan = Plan::default();
        for (at, entry) in self.list(head)? {
            if at.is_within(path.as_bytes()) {
                plan.changes.push(at, Some(entry), None);
            }
        }
        match plan.changes.is_empty() {
            true => Err(ReadError::NotFound { what: "note or folder", name: path.to_string() }),
            false => Ok(plan),
        }
    }

    /// How to take every line out of the notes that holds `words`.
    pub fn plan_forget_words(&self, head: CommitId, words: &str) -> Result<Plan, ReadError> {
        let mut plan = Plan::default();
        for (path, entry) in self.list(head)? {
            if !is_markdown(&path) {
                continue;
            }
            let Ok(text) = String::from_utf8(self.read_blob(entry.blob)?) else { continue };
            let Some(left) = without(&text, words) else { continue };
            let blob = self.blob_of(left.text.as_bytes())?;
            plan.changes.push(path, Some(entry), Some(crate::vault::Entry { blob, ..entry }));
            plan.fresh.insert(blob, left.text.into_bytes());
        }
        Ok(plan)
    }

    /// All that is forgotten at `head`.
    pub fn tombstones(&self, head: CommitId) -> Result<Tombstones, ReadError> {
        let mut stones = Tombstones::default();
        for commit in self.standing(head, &|it| it.trailer(FORGET).is_some())? {
            let parent = self.parent(commit)?;
            let is_whole = self.message(commit)?.trailer(FORGET) == Some("path");
            for (path, change) in self.diff(parent, commit)?.iter() {
                let Some(old) = change.old else { continue };
                if change.new.is_none() && is_whole {
                    stones.paths.insert(path.clone());
                }
                let kept: BTreeSet<String> = match change.new {
                    Some(new) => self.bare_lines(new.blob)?.into_iter().collect(),
                    None => BTreeSet::new(),
                };
                let gone = self.bare_lines(old.blob)?.into_iter();
                stones.lines.extend(gone.filter(|it| !kept.contains(it)));
            }
            stones.commits.push(commit);
        }
        Ok(stones)
    }

    fn bare_lines(&self, blob: BlobId) -> Result<Vec<String>, ReadError> {
        let Ok(text) = String::from_utf8(self.read_blob(blob)?) else { return Ok(Vec::new()) };
        Ok(text.lines().map(bare).filter(|it| it.chars().count() >= TELLING).collect())
    }
}

//! What is gone from the vault, and when.
//!
//! Takes where HEAD is, gives the notes that a commit below it deleted and that are not in it,
//! newest deletion first. Any thread.
//!
//! **Invariant:** what lives on under another name is not gone: neither what the deleting commit
//! renamed nor what HEAD has word for word elsewhere.

use std::collections::{HashMap, HashSet};

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use crate::history::error::{ReadError, git};
use crate::history::lineage;
use crate::history::log::when;
use crate::history::message::{self, CauseKind};
use crate::history::path_log::Table;
use crate::history::reader::{Reader, known, vault_changes};
use crate::history::trail::{Nodes, at, tree_of};
use crate::history::{commit_id, log::Said, snapshot};
use crate::vault::change::Entry;
use crate::vault::{BlobId, CommitId, VaultPath};

/// Of a commit with more new files none is compared with what it deleted.
const MOST_MADE: usize = 100;

/// A note that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deletion {
    pub path: VaultPath,
    /// What it was at last.
    pub entry: Entry,
    /// The commit that deleted it.
    pub commit: CommitId,
    /// The last one that has it.
    pub before: CommitId,
    /// By the author of the deletion.
    pub time: i64,
    pub offset: i32,
    pub author: String,
    pub cause: Option<CauseKind>,
}

impl Deletion {
    /// When, on its author's clock: `2026-06-29 14:03`.
    pub fn when(&self) -> String {
        when(self.time, self.offset)
    }
}

/// What is gone, and whether that is all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Deletions {
    pub found: Vec<Deletion>,
    /// Not everything was looked at in time.
    pub is_partial: bool,
}

/// A path that a commit deleted, against its first parent.
struct Candidate {
    commit: ObjectId,
    path: VaultPath,
}

impl Reader {
    /// The notes that are gone from HEAD, each by its last deletion, newest first; those of `kind`
    /// only.
    pub fn deleted(
        &self,
        kind: &dyn Fn(&VaultPath) -> bool,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Deletions, ReadError> {
        let Some(head) = self.head()? else { return Ok(Deletions::default()) };
        let repo = self.cached();
        let head_id = known(&repo, head.commit)?;
        let living: HashMap<VaultPath, BlobId> =
            self.list(head.commit)?.into_iter().map(|(path, entry)| (path, entry.blob)).collect();
        let contents: HashSet<BlobId> = living.values().copied().collect();
        let mut nodes = Nodes::new(repo)?;
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut is_partial = false;
        let mut take = |nodes: &mut Nodes, it: Candidate| -> Result<(), ReadError> {
            let is_new =
                !living.contains_key(&it.path) && kind(&it.path) && seen.insert(it.path.clone());
            if is_new
                && let Some(deletion) = self.deletion(nodes, it)?
                && !contents.contains(&deletion.entry.blob)
            {
                found.push(deletion);
            }
            Ok(())
        };
        let mut table = self.table(&nodes.repo);
        // Newest first: what the table has not, then what it has.
        let mut queue = std::collections::BinaryHeap::new();
        let mut queued = HashSet::from([head_id]);
        let mut entries = Vec::new();
        let offer = |nodes: &mut Nodes,
                     id: ObjectId,
                     queue: &mut std::collections::BinaryHeap<_>,
                     entries: &mut Vec<u32>,
                     table: &Option<Table>|
         -> Result<(), ReadError> {
            match table.as_ref().and_then(|it| it.number(id)) {
                Some(number) => entries.push(number),
                None => queue.push((nodes.read(id)?.time, id)),
            }
            Ok(())
        };
        offer(&mut nodes, head_id, &mut queue, &mut entries, &table)?;
        loop {
            while let Some((_, id)) = queue.pop() {
                if is_over() {
                    is_partial = true;
                    break;
                }
                let node = nodes.read(id)?;
                for parent in &node.parents {
                    if queued.insert(*parent) {
                        offer(&mut nodes, *parent, &mut queue, &mut entries, &table)?;
                    }
                }
                for path in self.gone_by(&nodes, id)? {
                    take(&mut nodes, Candidate { commit: id, path })?;
                }
            }
            let Some(of_table) = table.take().filter(|_| !is_partial) else { break };
            match gone_of(&of_table, &entries) {
                Some(gone) => {
                    for candidate in gone {
                        if is_over() {
                            is_partial = true;
                            break;
                        }
                        take(&mut nodes, candidate)?;
                    }
                    break;
                }
                // Damaged: all is walked.
                None => {
                    for number in std::mem::take(&mut entries) {
                        if let Some(commit) = of_table.commits.get(number) {
                            queue.push((commit.time, commit.id));
                        }
                    }
                }
            }
        }
        Ok(Deletions { found, is_partial })
    }

    /// What a commit deleted that no parent had deleted.
    fn gone_by(&self, nodes: &Nodes, id: ObjectId) -> Result<Vec<VaultPath>, ReadError> {
        let node_tree = tree_of(&nodes.repo, id)?;
        let commit = git("read a commit", nodes.repo.find_commit(id))?;
        let mut gone: Option<Vec<VaultPath>> = None;
        for parent in commit.parent_ids() {
            let Ok(tree) = tree_of(&nodes.repo, parent.detach()) else { continue };
            let changes = vault_changes(&nodes.repo, &self.place, Some(tree), Some(node_tree))?;
            let here = |path: &VaultPath| changes.get(path).is_some_and(|it| it.new.is_none());
            gone = Some(match gone {
                None => {
                    changes.iter().filter(|it| it.1.new.is_none()).map(|it| it.0.clone()).collect()
                }
                Some(gone) => gone.into_iter().filter(here).collect(),
            });
        }
        Ok(gone.unwrap_or_default())
    }

    /// What is to be said of a deletion; nothing where it was a rename.
    fn deletion(&self, nodes: &mut Nodes, it: Candidate) -> Result<Option<Deletion>, ReadError> {
        let said = Said::of(&nodes.repo, it.commit)?;
        let told = message::renames(&said.parsed);
        if told.iter().any(|(old, new)| *old == it.path && self.is_in(nodes, it.commit, new)) {
            return Ok(None);
        }
        for parent in nodes.read(it.commit)?.parents {
            let tree = tree_of(&nodes.repo, parent)?;
            let rela = self.place.rela(&it.path);
            let before = at(&nodes.repo, Some(tree), rela.as_bstr())?;
            let entry = before
                .filter(|(mode, _)| mode.is_blob())
                .and_then(|(mode, id)| snapshot::entry((id, mode.kind())));
            if let (Some(entry), Some(before)) = (entry, commit_id(&parent)) {
                return Ok(Some(Deletion {
                    path: it.path,
                    entry,
                    commit: said.commit,
                    before,
                    time: said.time,
                    offset: said.offset,
                    cause: said.parsed.cause(),
                    author: said.author,
                }));
            }
        }
        Ok(None)
    }

    /// What a deleted note was renamed to, where it was changed at the same time and no message says
    /// so.
    pub fn became(&self, deletion: &Deletion) -> Result<Option<VaultPath>, ReadError> {
        let repo = self.cached();
        let (id, before) = (known(&repo, deletion.commit)?, known(&repo, deletion.before)?);
        let trees = (tree_of(&repo, before)?, tree_of(&repo, id)?);
        let changes = vault_changes(&repo, &self.place, Some(trees.0), Some(trees.1))?;
        let made: Vec<&VaultPath> =
            changes.iter().filter(|it| it.1.old.is_none()).map(|it| it.0).collect();
        if made.len() > MOST_MADE {
            return Ok(None);
        }
        for path in made {
            let source = lineage::source(&repo, &self.place, id, trees, path)?;
            if source.as_ref() == Some(&deletion.path) {
                return Ok(Some(path.clone()));
            }
        }
        Ok(None)
    }

    fn is_in(&self, nodes: &Nodes, commit: ObjectId, path: &VaultPath) -> bool {
        let tree = tree_of(&nodes.repo, commit).ok();
        at(&nodes.repo, tree, self.place.rela(path).as_bstr()).is_ok_and(|it| it.is_some())
    }
}

/// What the commits deleted that these reach, newest first; `None` where the table cannot say.
fn gone_of(table: &Table, entries: &[u32]) -> Option<Vec<Candidate>> {
    let commits = &table.commits;
    let mut reached = vec![false; commits.len() as usize];
    entries.iter().for_each(|it| reached[*it as usize] = true);
    for number in (0..commits.len()).rev() {
        if reached[number as usize] {
            commits.parents(number).for_each(|it| reached[it as usize] = true);
        }
    }
    let mut gone = table.gone().ok()??;
    gone.retain(|it| reached.get(it.0 as usize).copied().unwrap_or(false));
    gone.sort_by_key(|it| std::cmp::Reverse(commits.get(it.0).map(|it| it.rank())));
    let candidates = gone.into_iter().filter_map(|(number, path)| {
        Some(Candidate { commit: commits.get(number)?.id, path: VaultPath::new(path).ok()? })
    });
    Some(candidates.collect())
}

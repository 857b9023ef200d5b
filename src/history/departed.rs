//! Files that are gone, and where they went.
//!
//! Takes a commit, tells from there back which commits took which files away, and of each what
//! became of it. Reads objects only. Any thread.
//!
//! **Invariant:** only what one commit shows is said: a file went where that commit made one of it,
//! and where it could be more than one all of them are named.

use std::collections::HashMap;
use std::time::Instant;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use crate::base::clock;
use crate::history::commit_id;
use crate::history::error::{GitError, ReadError};
use crate::history::lineage;
use crate::history::reader::{Reader, known, tree_changes};
use crate::history::trail::{self, Trail};
use crate::vault::{BlobId, CommitId, VaultPath};

/// The most renames that one file is followed through.
const MOST_RENAMES: usize = 100;

/// A commit that took files away.
#[derive(Clone, Debug)]
struct Parting {
    commit: ObjectId,
    trees: (ObjectId, ObjectId),
    gone: Vec<VaultPath>,
}

/// The commits that took files away, newest first, as far as was looked.
pub struct Departed {
    repo: gix::Repository,
    reader: Reader,
    partings: Vec<Parting>,
    /// Which of them took a path away.
    by_path: HashMap<VaultPath, Vec<usize>>,
    /// Which of them made a path.
    by_made: HashMap<VaultPath, Vec<usize>>,
    /// Whether there was time to look as far as was asked for.
    pub is_complete: bool,
}

/// What became of a file that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Under this name it is there, or was last.
    Became(VaultPath),
    /// It was deleted.
    Deleted,
    /// It may have become each of these.
    Unclear(Vec<VaultPath>),
}

impl Reader {
    /// Goes back from `head`, and shows `visit` each commit that took files away by its number and
    /// what it took, until that says that it is enough, there are no more, or it is late.
    ///
    /// A merge takes nothing away: the commits that it joins are looked at themselves.
    pub fn departed(
        &self,
        head: CommitId,
        until: Instant,
        visit: &mut dyn FnMut(usize, &[VaultPath]) -> bool,
    ) -> Result<Departed, ReadError> {
        let repo = self.cached();
        let head = known(&repo, head)?;
        let mut trail = Trail::new(repo.clone(), &self.place, head, None, None)?;
        let mut departed = Departed {
            repo,
            reader: self.clone(),
            partings: Vec::new(),
            by_path: HashMap::new(),
            by_made: HashMap::new(),
            is_complete: true,
        };
        while let Some(step) = trail.next()? {
            if clock::now() >= until {
                departed.is_complete = false;
                break;
            }
            let node = trail.nodes.read(step.id)?;
            let [parent] = node.parents.as_slice() else { continue };
            let trees = (trail.nodes.read(*parent)?.tree, node.tree);
            let Some(at) = departed.take(step.id, trees)? else { continue };
            if visit(at, &departed.partings[at].gone) {
                break;
            }
        }
        Ok(departed)
    }
}

impl Departed {
    fn take(
        &mut self,
        commit: ObjectId,
        trees: (ObjectId, ObjectId),
    ) -> Result<Option<usize>, GitError> {
        let (mut gone, mut made) = (Vec::new(), Vec::new());
        for (rela, before, after) in tree_changes(&self.repo, Some(trees.0), Some(trees.1))? {
            let Some(path) = self.reader.place.vault_path(rela.as_ref()) else { continue };
            match (before, after) {
                (Some(_), None) => gone.push(path),
                (None, Some(_)) => made.push(path),
                _ => {}
            }
        }
        if gone.is_empty() {
            return Ok(None);
        }
        let at = self.partings.len();
        for path in &gone {
            self.by_path.entry(path.clone()).or_default().push(at);
        }
        for path in made {
            self.by_made.entry(path).or_default().push(at);
        }
        self.partings.push(Parting { commit, trees, gone });
        Ok(Some(at))
    }

    /// What became of a file that the commit of this number took away, through all its later
    /// renames.
    pub fn fate(&self, path: &VaultPath, at: usize) -> Result<Fate, ReadError> {
        let (mut path, mut at) = (path.clone(), at);
        let mut is_followed = false;
        for _ in 0..MOST_RENAMES {
            let Some(parting) = self.partings.get(at) else { break };
            let place = &self.reader.place;
            let heirs = lineage::heirs(&self.repo, place, parting.commit, parting.trees, &path)?;
            match heirs.as_slice() {
                [] => return Ok(Fate::Deleted),
                [one] => path = one.clone(),
                several => return Ok(Fate::Unclear(several.to_vec())),
            }
            is_followed = true;
            // The first commit after this one that took it away again.
            let later = self.by_path.get(&path).into_iter().flatten();
            match later.copied().filter(|it| *it < at).max() {
                Some(later) => at = later,
                None => break,
            }
        }
        Ok(if is_followed { Fate::Became(path) } else { Fate::Deleted })
    }

    /// What a note was called before it came to its name, newest first.
    pub fn names_before(&self, path: &VaultPath) -> Result<Vec<VaultPath>, ReadError> {
        let mut names = Vec::new();
        let mut path = path.clone();
        let mut from = 0;
        while names.len() < MOST_RENAMES {
            let mut found = None;
            let made = self.by_made.get(&path).into_iter().flatten().copied();
            for at in made.filter(|it| *it >= from) {
                let Some(parting) = self.partings.get(at) else { continue };
                let place = &self.reader.place;
                let trees = parting.trees;
                let source = lineage::source(&self.repo, place, parting.commit, trees, &path)?;
                if let Some(source) = source {
                    found = Some((at + 1, source));
                    break;
                }
            }
            let Some((next, source)) = found else { break };
            names.push(source.clone());
            (path, from) = (source, next);
        }
        Ok(names)
    }

    /// What a file held before the commit of this number took it away; nothing of an empty one.
    pub fn content(&self, path: &VaultPath, at: usize) -> Result<Option<BlobId>, ReadError> {
        let Some(parting) = self.partings.get(at) else { return Ok(None) };
        let rela = self.reader.place.rela(path);
        let found = trail::at(&self.repo, Some(parting.trees.0), rela.as_bstr())?;
        let found = found.map(|it| it.1).filter(|it| !it.is_empty_blob());
        Ok(found.and_then(|it| BlobId::from_bytes(it.as_bytes())))
    }

    /// The commit of a number.
    pub fn commit(&self, at: usize) -> Option<CommitId> {
        commit_id(&self.partings.get(at)?.commit)
    }
}

//! The commits that changed a path, along its renames.
//!
//! Takes a path (or the whole vault) and where to begin, gives step by step the commits that changed
//! it, newest first. Any thread.
//!
//! **Invariant:** a commit is a step if the path differs in it from every parent; where a file
//! was made of another one, its trail goes on at that one. A vault that is all of its repository
//! has every commit for a step.

use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice as _};
use gix::objs::tree::EntryMode;

use crate::history::error::{GitError, git};
use crate::history::lineage;
use crate::history::place::Place;
use crate::vault::VaultPath;

/// What a tree has at a path.
pub(super) type Found = Option<(EntryMode, ObjectId)>;

/// A commit that changed the path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub id: ObjectId,
    /// What the path was called in this commit; `None` for the whole vault.
    pub path: Option<VaultPath>,
    /// What it was called before, where that is another name.
    pub from: Option<VaultPath>,
    pub now: Found,
}

/// A commit without its words.
pub(super) struct Node {
    /// By the committer.
    pub time: i64,
    pub tree: ObjectId,
    /// Those that are here: a shallow clone ends somewhere.
    pub parents: Vec<ObjectId>,
}

/// Reads commits, and knows where a shallow clone ends.
pub(super) struct Nodes {
    pub repo: gix::Repository,
    shallow: HashSet<ObjectId>,
    /// Whether one was read behind which more is left out.
    pub is_cut: bool,
}

impl Nodes {
    pub fn new(repo: gix::Repository) -> Result<Self, GitError> {
        let shallow = git("read what a shallow clone left out", repo.shallow_commits())?;
        let shallow = shallow.map(|it| it.iter().copied().collect()).unwrap_or_default();
        Ok(Self { repo, shallow, is_cut: false })
    }

    pub fn read(&mut self, id: ObjectId) -> Result<Node, GitError> {
        let commit = git("read a commit", self.repo.find_commit(id))?;
        let decoded = git("read a commit", commit.decode())?;
        // A time that makes no sense is the beginning of time, as for git.
        let time =
            decoded.committer().ok().and_then(|it| it.time().ok()).map_or(0, |it| it.seconds);
        let parents = match self.shallow.contains(&id) {
            true => {
                self.is_cut = true;
                Vec::new()
            }
            false => decoded.parents().collect(),
        };
        Ok(Node { time, tree: decoded.tree(), parents })
    }
}

/// Walks from one commit down.
pub(super) struct Trail {
    pub nodes: Nodes,
    place: Place,
    /// Newest first; among commits of one second as they were found.
    queue: BinaryHeap<(i64, std::cmp::Reverse<usize>, ObjectId)>,
    /// What is looked for in a commit that waits: places among `paths`.
    wanted: HashMap<ObjectId, (Node, Vec<usize>)>,
    seen: HashSet<(ObjectId, usize)>,
    paths: Vec<Option<VaultPath>>,
    found: VecDeque<Step>,
    counter: usize,
}

impl Trail {
    /// Of a file, along its renames; of a folder; or of the whole vault.
    pub fn new(
        repo: gix::Repository,
        place: &Place,
        from: ObjectId,
        path: Option<&VaultPath>,
    ) -> Result<Self, GitError> {
        let mut trail = Self {
            nodes: Nodes::new(repo)?,
            place: place.clone(),
            queue: BinaryHeap::new(),
            wanted: HashMap::new(),
            seen: HashSet::new(),
            paths: vec![path.cloned()],
            found: VecDeque::new(),
            counter: 0,
        };
        trail.want(from, 0)?;
        Ok(trail)
    }

    /// The next commit that changed it.
    pub fn next(&mut self) -> Result<Option<Step>, GitError> {
        loop {
            if let Some(step) = self.found.pop_front() {
                return Ok(Some(step));
            }
            let Some((_, _, id)) = self.queue.pop() else { return Ok(None) };
            let Some((node, wanted)) = self.wanted.remove(&id) else { continue };
            for path in wanted {
                self.look(id, &node, path)?;
            }
        }
    }

    fn want(&mut self, id: ObjectId, path: usize) -> Result<(), GitError> {
        if !self.seen.insert((id, path)) {
            return Ok(());
        }
        if let Some((_, wanted)) = self.wanted.get_mut(&id) {
            wanted.push(path);
            return Ok(());
        }
        let node = self.nodes.read(id)?;
        self.counter += 1;
        self.queue.push((node.time, std::cmp::Reverse(self.counter), id));
        self.wanted.insert(id, (node, vec![path]));
        Ok(())
    }

    fn look(&mut self, id: ObjectId, node: &Node, wanted: usize) -> Result<(), GitError> {
        let path = self.paths[wanted].clone();
        let rela = match &path {
            Some(path) => self.place.rela(path),
            None => self.place.prefix.clone(),
        };
        if rela.is_empty() {
            self.found.push_back(Step { id, path, from: None, now: None });
            return node.parents.iter().try_for_each(|it| self.want(*it, wanted));
        }
        let (mut now, mut before, mut is_step) = (None, Vec::new(), true);
        if node.parents.is_empty() {
            now = at(&self.nodes.repo, Some(node.tree), rela.as_bstr())?;
            is_step = now.is_some();
        }
        for parent in &node.parents {
            let tree = self.nodes.read(*parent)?.tree;
            let both = at_both(&self.nodes.repo, Some(node.tree), Some(tree), rela.as_bstr())?;
            is_step &= both.is_some();
            now = both.map_or(now, |it| it.0);
            before.push((*parent, tree, both));
        }
        let mut came_from = None;
        for (parent, tree, both) in before {
            let is_made = matches!(both, Some((Some((mode, _)), None)) if !mode.is_tree());
            let source = match &path {
                Some(path) if is_made => {
                    let trees = (tree, node.tree);
                    lineage::source(&self.nodes.repo, &self.place, id, trees, path)?
                }
                _ => None,
            };
            let next = match source {
                Some(source) => {
                    came_from.get_or_insert_with(|| source.clone());
                    self.number(source)
                }
                None => wanted,
            };
            self.want(parent, next)?;
        }
        if is_step {
            self.found.push_back(Step { id, path, from: came_from, now });
        }
        Ok(())
    }

    fn number(&mut self, path: VaultPath) -> usize {
        let path = Some(path);
        self.paths.iter().position(|it| *it == path).unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        })
    }
}

/// What two trees have at a path; nothing where that is the same.
pub(super) fn at_both(
    repo: &gix::Repository,
    a: Option<ObjectId>,
    b: Option<ObjectId>,
    path: &BStr,
) -> Result<Option<(Found, Found)>, GitError> {
    let mut names = path.split(|it| *it == b'/').peekable();
    let (mut a, mut b) = (a, b);
    while let Some(name) = names.next() {
        if a == b {
            return Ok(None);
        }
        let (in_a, in_b) = (child(repo, a, name)?, child(repo, b, name)?);
        if names.peek().is_none() {
            return Ok((in_a != in_b).then_some((in_a, in_b)));
        }
        let folder = |it: Found| it.filter(|it| it.0.is_tree()).map(|it| it.1);
        (a, b) = (folder(in_a), folder(in_b));
    }
    Ok(None)
}

/// What a tree has at a path.
pub(super) fn at(
    repo: &gix::Repository,
    tree: Option<ObjectId>,
    path: &BStr,
) -> Result<Found, GitError> {
    Ok(at_both(repo, tree, None, path)?.and_then(|it| it.0))
}

fn child(repo: &gix::Repository, tree: Option<ObjectId>, name: &[u8]) -> Result<Found, GitError> {
    let Some(id) = tree else { return Ok(None) };
    let tree = git("read a tree", repo.find_tree(id))?;
    for entry in tree.iter() {
        let entry = git("read a tree", entry)?;
        if entry.filename().as_bytes() == name {
            return Ok(Some((entry.mode(), entry.object_id())));
        }
    }
    Ok(None)
}

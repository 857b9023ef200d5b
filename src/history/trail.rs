//! The commits that changed a path, along its renames.
//!
//! Takes a path (or the whole vault) and where to begin, gives step by step the commits that changed
//! it, newest first. Any thread.
//!
//! **Invariant:** a commit is a step if the path differs in it from every parent; where a file
//! was made of another one, its trail goes on at that one. A vault that is all of its repository
//! has every commit for a step. What a table of paths has not yet comes before all that it has.

use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice as _};
use gix::objs::tree::EntryMode;

use crate::base::trouble::told;
use crate::history::error::{GitError, git};
use crate::history::lineage;
use crate::history::path_log::{self, Commit, SegmentError, Table};
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
    known: Option<Known>,
}

/// What the table of paths says, below the commits that it has not.
struct Known {
    table: Table,
    /// All ids by number, once it is worth it.
    numbers: Option<HashMap<ObjectId, u32>>,
    asked: usize,
    /// Where the walk came upon it: commits and what is looked for there.
    entries: Vec<(u32, usize)>,
    /// What is left to be looked at, the newest last.
    ready: Option<Vec<(u32, usize)>>,
}

/// After so many commits looked for in the list all are put where they are found at once.
const ASKED: usize = 8;

impl Known {
    fn number(&mut self, id: ObjectId) -> Option<u32> {
        self.asked += 1;
        if self.asked > ASKED {
            let commits = &self.table.commits;
            let all = || commits.iter().map(|(number, it)| (it.id, number)).collect();
            return self.numbers.get_or_insert_with(all).get(&id).copied();
        }
        self.table.number(id)
    }
}

/// What is to be looked for in the parents of a commit: the parent, and another path where what is
/// looked for was called otherwise there.
type Next = (ObjectId, Option<VaultPath>);

impl Trail {
    /// Of a file, along its renames; of a folder; or of the whole vault.
    pub fn new(
        repo: gix::Repository,
        place: &Place,
        from: ObjectId,
        path: Option<&VaultPath>,
        table: Option<Table>,
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
            known: table.map(|table| Known {
                table,
                numbers: None,
                asked: 0,
                entries: Vec::new(),
                ready: None,
            }),
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
            if let Some((_, _, id)) = self.queue.pop() {
                let Some((node, wanted)) = self.wanted.remove(&id) else { continue };
                for path in wanted {
                    let (step, next) = self.look(id, &node, path)?;
                    for (parent, source) in next {
                        let path = source.map_or(path, |it| self.number(it));
                        self.want(parent, path)?;
                    }
                    self.found.extend(step);
                }
                continue;
            }
            match self.next_known()? {
                Some((id, path)) => {
                    let node = self.nodes.read(id)?;
                    // The table may take one path for another: only the trees know.
                    let (step, _) = self.look(id, &node, path)?;
                    self.found.extend(step);
                }
                None if self.queue.is_empty() => return Ok(None),
                None => {}
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
        if let Some(known) = &mut self.known
            && let Some(number) = known.number(id)
        {
            known.entries.push((number, path));
            return Ok(());
        }
        let node = self.nodes.read(id)?;
        self.counter += 1;
        self.queue.push((node.time, std::cmp::Reverse(self.counter), id));
        self.wanted.insert(id, (node, vec![path]));
        Ok(())
    }

    /// What the table names next.
    fn next_known(&mut self) -> Result<Option<(ObjectId, usize)>, GitError> {
        let Some(mut known) = self.known.take() else { return Ok(None) };
        if known.ready.is_none() {
            match self.sweep(&mut known) {
                Ok(ready) => known.ready = Some(ready),
                Err(Swept::Git(err)) => return Err(err),
                Err(Swept::Table(err)) => {
                    tracing::debug!(err = %told(&err), "the history is walked without its table");
                    // Without the table from here on.
                    for (number, path) in known.entries {
                        if let Some(commit) = known.table.commits.get(number) {
                            self.seen.remove(&(commit.id, path));
                            self.want(commit.id, path)?;
                        }
                    }
                    return Ok(None);
                }
            }
        }
        let next = known.ready.as_mut().and_then(Vec::pop);
        let found =
            next.and_then(|(number, path)| Some((known.table.commits.get(number)?.id, path)));
        self.known = Some(known);
        Ok(found)
    }

    /// The commits of the table that may be steps: those that the entries reach, path by path, as
    /// each is called there.
    fn sweep(&mut self, known: &mut Known) -> Result<Vec<(u32, usize)>, Swept> {
        let commits = &known.table.commits;
        let mut seen = HashMap::<usize, Vec<bool>>::new();
        let mut waiting = known.entries.clone();
        let mut found = Vec::new();
        while let Some((_, path)) = waiting.last().copied() {
            let starts: Vec<u32> =
                waiting.iter().filter(|it| it.1 == path).map(|it| it.0).collect();
            waiting.retain(|it| it.1 != path);
            let key = self.paths[path].as_ref().map_or(&b""[..], VaultPath::as_bytes);
            let changed: HashMap<u32, bool> = known
                .table
                .find(path_log::key(key))
                .map_err(Swept::Table)?
                .into_iter()
                .map(|it| (it.number, it.is_made))
                .collect();
            let seen = seen.entry(path).or_insert_with(|| vec![false; commits.len() as usize]);
            let Some(highest) = starts.iter().max().copied() else { continue };
            let mut reached = vec![false; highest as usize + 1];
            starts.iter().for_each(|it| reached[*it as usize] = true);
            for number in (0..=highest).rev() {
                let at = number as usize;
                if !reached[at] || std::mem::replace(&mut seen[at], true) {
                    continue;
                }
                let is_made = changed.get(&number).copied();
                if is_made.is_some() {
                    found.push((number, path));
                }
                let parents: Vec<u32> = commits.parents(number).collect();
                let mut sources = Vec::new();
                if is_made == Some(true)
                    && let Some(commit) = commits.get(number)
                {
                    let node = self.nodes.read(commit.id)?;
                    sources = self.look(commit.id, &node, path)?.1;
                }
                for (at, parent) in parents.into_iter().enumerate() {
                    match sources.get(at).and_then(|it| it.1.clone()) {
                        Some(source) => {
                            let source = self.number(source);
                            waiting.push((parent, source));
                        }
                        None => {
                            if let Some(it) = reached.get_mut(parent as usize) {
                                *it = true;
                            }
                        }
                    }
                }
            }
        }
        found.sort_by_key(|it| (commits.get(it.0).map(Commit::rank), it.1));
        Ok(found)
    }

    /// Whether a commit is a step, and what is to be looked for in its parents.
    fn look(
        &mut self,
        id: ObjectId,
        node: &Node,
        wanted: usize,
    ) -> Result<(Option<Step>, Vec<Next>), GitError> {
        let path = self.paths[wanted].clone();
        let rela = match &path {
            Some(path) => self.place.rela(path),
            None => self.place.prefix.clone(),
        };
        if rela.is_empty() {
            let next = node.parents.iter().map(|it| (*it, None)).collect();
            return Ok((Some(Step { id, path, from: None, now: None }), next));
        }
        let (mut now, mut before, mut is_step) = (None, Vec::new(), true);
        if node.parents.is_empty() {
            now = at(&self.nodes.repo, Some(node.tree), rela.as_bstr())?;
            is_step = now.is_some();
        }
        for parent in &node.parents {
            let tree = tree_of(&self.nodes.repo, *parent)?;
            let both = at_both(&self.nodes.repo, Some(node.tree), Some(tree), rela.as_bstr())?;
            is_step &= both.is_some();
            now = both.map_or(now, |it| it.0);
            before.push((*parent, tree, both));
        }
        let (mut came_from, mut next) = (None, Vec::new());
        for (parent, tree, both) in before {
            let is_made = matches!(both, Some((Some((mode, _)), None)) if !mode.is_tree());
            let source = match &path {
                Some(path) if is_made => {
                    let trees = (tree, node.tree);
                    lineage::source(&self.nodes.repo, &self.place, id, trees, path)?
                }
                _ => None,
            };
            if came_from.is_none() {
                came_from.clone_from(&source);
            }
            next.push((parent, source));
        }
        Ok((is_step.then_some(Step { id, path, from: came_from, now }), next))
    }

    fn number(&mut self, path: VaultPath) -> usize {
        let path = Some(path);
        self.paths.iter().position(|it| *it == path).unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        })
    }
}

/// Why the table did not say what there is.
enum Swept {
    Table(SegmentError),
    Git(GitError),
}

impl From<GitError> for Swept {
    fn from(err: GitError) -> Self {
        Self::Git(err)
    }
}

/// The tree of a commit.
pub(super) fn tree_of(repo: &gix::Repository, id: ObjectId) -> Result<ObjectId, GitError> {
    let commit = git("read a commit", repo.find_commit(id))?;
    Ok(git("read a commit", commit.tree_id())?.detach())
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

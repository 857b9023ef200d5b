//! Commits written anew without what is wanted gone.
//!
//! Takes the tips of all references, gives for every commit the one that takes its place. Each tree
//! is looked at once, and only along the paths in question. Committer thread to write; any thread to
//! count.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::objs::Kind;

use crate::history::error::{GitError, git};
use crate::history::look::Version;
use crate::history::{objects, reader};

/// What is to go, by paths in git.
#[derive(Clone, Default, Debug)]
pub(super) struct Wanted {
    /// Files and folders with every version.
    pub all: BTreeSet<BString>,
    /// Single versions of a file, and what stood there before, if something did.
    pub some: BTreeMap<BString, BTreeMap<ObjectId, Option<Version>>>,
    /// Names that no message shall hold.
    pub names: BTreeSet<BString>,
}

impl Wanted {
    /// Whether that version of that file is to go.
    pub fn takes(&self, rela: &BStr, id: ObjectId) -> bool {
        let is_below = |it: &BString| {
            rela.strip_prefix(it.as_slice()).is_some_and(|it| it.is_empty() || it.starts_with(b"/"))
        };
        self.all.iter().any(is_below) || self.some.get(rela).is_some_and(|it| it.contains_key(&id))
    }
}

/// What stands in the place of a name in a message.
const GONE: &[u8] = b"(purged)";

/// A name on the way to what is wanted.
#[derive(Default)]
struct Node {
    below: HashMap<BString, usize>,
    is_all: bool,
    some: BTreeMap<ObjectId, Option<Version>>,
}

pub(super) struct Rewriter<'a> {
    repo: &'a gix::Repository,
    nodes: Vec<Node>,
    names: &'a BTreeSet<BString>,
    /// Nothing is written where it is only counted.
    is_writing: bool,
    trees: HashMap<(ObjectId, usize), ObjectId>,
    commits: HashMap<ObjectId, ObjectId>,
    /// Contents that go.
    pub blobs: HashSet<ObjectId>,
    /// Commits that have some of it themselves.
    pub with_it: usize,
    /// Objects that are not known to be durable yet.
    pub written: Vec<ObjectId>,
}

impl<'a> Rewriter<'a> {
    pub fn new(repo: &'a gix::Repository, wanted: &'a Wanted, is_writing: bool) -> Self {
        let mut rewriter = Self {
            repo,
            nodes: vec![Node::default()],
            names: &wanted.names,
            is_writing,
            trees: HashMap::new(),
            commits: HashMap::new(),
            blobs: HashSet::new(),
            with_it: 0,
            written: Vec::new(),
        };
        for path in &wanted.all {
            let node = rewriter.node(path.as_bstr());
            rewriter.nodes[node].is_all = true;
        }
        for (path, versions) in &wanted.some {
            let node = rewriter.node(path.as_bstr());
            rewriter.nodes[node].some.extend(versions.iter().map(|it| (*it.0, *it.1)));
        }
        rewriter
    }

    fn node(&mut self, path: &BStr) -> usize {
        let mut at = 0;
        for name in path.split(|it| *it == b'/') {
            at = match self.nodes[at].below.get(name.as_bstr()) {
                Some(next) => *next,
                None => {
                    self.nodes.push(Node::default());
                    let next = self.nodes.len() - 1;
                    self.nodes[at].below.insert(name.into(), next);
                    next
                }
            };
        }
        at
    }

    /// What takes the place of a commit.
    pub fn now(&self, commit: &ObjectId) -> ObjectId {
        self.commits.get(commit).copied().unwrap_or(*commit)
    }

    pub fn is_changed(&self, commit: &ObjectId) -> bool {
        self.now(commit) != *commit
    }

    /// Commits that become others.
    pub fn changed(&self) -> impl Iterator<Item = (&ObjectId, &ObjectId)> {
        self.commits.iter().filter(|it| it.0 != it.1)
    }

    /// Goes through all commits behind `tips`, parents first.
    pub fn walk(&mut self, tips: &[ObjectId]) -> Result<(), GitError> {
        let mut stack: Vec<(ObjectId, bool)> = tips.iter().map(|it| (*it, false)).collect();
        while let Some((id, are_parents_done)) = stack.pop() {
            if self.commits.contains_key(&id) {
                continue;
            }
            // What a shallow clone has not got stays what it is.
            if git("read a commit", self.repo.try_find_header(id))?.is_none() {
                self.commits.insert(id, id);
                continue;
            }
            let commit = git("read a commit", self.repo.find_commit(id))?;
            if are_parents_done {
                let new = self.commit(id, &commit)?;
                self.commits.insert(id, new);
                continue;
            }
            stack.push((id, true));
            let parents = commit.parent_ids().map(gix::Id::detach);
            stack.extend(parents.filter(|it| !self.commits.contains_key(it)).map(|it| (it, false)));
        }
        Ok(())
    }

    fn commit(&mut self, id: ObjectId, commit: &gix::Commit<'_>) -> Result<ObjectId, GitError> {
        let decoded = git("read a commit", commit.decode())?;
        let old_tree = decoded.tree();
        let old_parents: Vec<ObjectId> = decoded.parents().collect();
        let tree = self.tree(old_tree, 0)?;
        let parents: Vec<ObjectId> = old_parents.iter().map(|it| self.now(it)).collect();
        let message = self.message(decoded.message);
        self.with_it += usize::from(tree != old_tree);
        if tree == old_tree && parents == old_parents && message.is_none() {
            return Ok(id);
        }
        // One that did nothing else leaves no trace.
        if let ([old_parent], [parent]) = (old_parents.as_slice(), parents.as_slice()) {
            let did_something = self.tree_of(*old_parent)? != Some(old_tree);
            if did_something && self.tree_now(*old_parent)? == Some(tree) {
                return Ok(*parent);
            }
        }
        let mut new = git("read a commit", gix::objs::Commit::try_from(decoded))?;
        new.tree = tree;
        new.parents = parents.into();
        if let Some(message) = message {
            new.message = message;
        }
        // A signature is of the old one.
        new.extra_headers.retain(|it| !it.0.starts_with(b"gpgsig"));
        self.write(&new)
    }

    fn tree_of(&self, commit: ObjectId) -> Result<Option<ObjectId>, GitError> {
        if git("read a commit", self.repo.try_find_header(commit))?.is_none() {
            return Ok(None);
        }
        let commit = git("read a commit", self.repo.find_commit(commit))?;
        Ok(Some(git("read a commit", commit.tree_id())?.detach()))
    }

    /// The new tree of an old commit.
    fn tree_now(&mut self, commit: ObjectId) -> Result<Option<ObjectId>, GitError> {
        match self.tree_of(commit)? {
            Some(tree) => self.tree(tree, 0).map(Some),
            None => Ok(None),
        }
    }

    fn tree(&mut self, id: ObjectId, node: usize) -> Result<ObjectId, GitError> {
        if let Some(known) = self.trees.get(&(id, node)) {
            return Ok(*known);
        }
        let tree = git("read a tree", self.repo.find_tree(id))?;
        let decoded = git("read a tree", tree.decode())?;
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        let mut new = gix::objs::Tree::from(decoded);
        let mut entries = Vec::with_capacity(new.entries.len());
        let mut is_same = true;
        for mut entry in std::mem::take(&mut new.entries) {
            let Some(below) = self.nodes[node].below.get(&entry.filename).copied() else {
                entries.push(entry);
                continue;
            };
            if self.nodes[below].is_all {
                self.note(&entry)?;
                is_same = false;
                continue;
            }
            if entry.mode.is_tree() {
                let now = self.tree(entry.oid, below)?;
                is_same &= now == entry.oid;
                entry.oid = now;
                if now != empty {
                    entries.push(entry);
                }
                continue;
            }
            match self.nodes[below].some.get(&entry.oid).copied() {
                None => entries.push(entry),
                Some(before) => {
                    self.blobs.insert(entry.oid);
                    is_same = false;
                    if let Some((id, kind)) = before {
                        (entry.oid, entry.mode) = (id, kind.into());
                        entries.push(entry);
                    }
                }
            }
        }
        new.entries = entries;
        let now = if is_same { id } else { self.write(&new)? };
        self.trees.insert((id, node), now);
        Ok(now)
    }

    /// All contents in what goes as a whole.
    fn note(&mut self, entry: &gix::objs::tree::Entry) -> Result<(), GitError> {
        if entry.mode.is_tree() {
            let below = reader::versions_below(self.repo, Some(entry.oid), b"".as_bstr())?;
            self.blobs.extend(below.into_iter().map(|it| it.1.0));
        } else if !entry.mode.is_commit() {
            self.blobs.insert(entry.oid);
        }
        Ok(())
    }

    /// The message without the names; `None` where it has none of them.
    fn message(&self, message: &BStr) -> Option<BString> {
        let mut text = message.to_owned();
        for name in self.names {
            text = without_name(text.as_bstr(), name.as_bstr());
        }
        (text != message).then_some(text)
    }

    fn write(&mut self, object: &impl gix::objs::WriteTo) -> Result<ObjectId, GitError> {
        let mut bytes = Vec::new();
        git("write an object", object.write_to(&mut bytes))?;
        if !self.is_writing {
            let hash = self.repo.object_hash();
            return git("hash an object", gix::objs::compute_hash(hash, object.kind(), &bytes));
        }
        let id = objects::write(self.repo, object.kind(), &bytes)?;
        self.written.push(id);
        Ok(id)
    }

    /// The object of a tag that names `commit` from now on, signed by nobody.
    pub fn tag(&mut self, tag: ObjectId, commit: ObjectId) -> Result<ObjectId, GitError> {
        let found = git("read a tag", self.repo.find_tag(tag))?;
        let mut new =
            git("read a tag", gix::objs::Tag::try_from(git("read a tag", found.decode())?))?;
        (new.target, new.target_kind, new.signature) = (commit, Kind::Commit, None);
        self.write(&new)
    }
}

/// `text` with each `name` that stands for itself taken out.
fn without_name(text: &BStr, name: &BStr) -> BString {
    let is_part = |it: &u8| it.is_ascii_alphanumeric() || b"/_-.".contains(it) || *it >= 0x80;
    let mut out = BString::default();
    let mut rest: &[u8] = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        let left = before.last().or(out.last());
        let is_alone = !left.is_some_and(is_part)
            && !after.first().is_some_and(|it| is_part(it) && *it != b'.');
        out.extend_from_slice(before);
        out.extend_from_slice(if is_alone { GONE } else { name });
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_goes_where_it_stands_for_itself() {
        let check = |text: &str, expected: &str| {
            assert_eq!(without_name(text.into(), "d/a.md".into()), expected, "{text:?}");
        };
        check("memory: create d/a.md", "memory: create (purged)");
        check(
            "x\n\nrename d/a.md → b.md\nupdate d/a.md\n",
            "x\n\nrename (purged) → b.md\nupdate (purged)\n",
        );
        check("memory: create more/d/a.md", "memory: create more/d/a.md");
        check("see d/a.md.", "see (purged).");
        check("d/a.mdx and d/a.md", "d/a.mdx and (purged)");
    }
}

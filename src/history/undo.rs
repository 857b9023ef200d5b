//! The inverse of commits, worked out on what there is now.
//!
//! Takes commits, newest first, and HEAD; gives what has to become of which path so that the
//! commits' own changes are gone and every later edit stays, or where a later edit lies on the same
//! lines. Reads objects, writes nothing. Any thread.
//!
//! **Invariant:** what a plan changes differs from HEAD, and only there where one of the commits
//! made a difference.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use crate::history::error::{ReadError, git};
use crate::history::lineage;
use crate::history::objects::TreeView;
use crate::history::pointer;
use crate::history::reader::{self, Reader};
use crate::history::snapshot::entry;
use crate::history::text::is_binary;
use crate::history::three_way::{self, Favor, Merged};
use crate::vault::change::{Entry, FileMode};
use crate::vault::{BlobId, Change, ChangeSet, CommitId, VaultPath};

/// A note that moved has at least this much of what it was.
const SAME_NOTE: f64 = 0.5;
/// Contents over so many bytes are told apart by their ids alone.
const COMPARED: u64 = 1 << 20;
/// Pairs of contents that are compared to find out where a note went.
const MOST_PAIRS: usize = 10_000;

/// What has to become of the vault.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Against HEAD.
    pub changes: ChangeSet,
    /// Contents that git has not got yet.
    pub fresh: HashMap<BlobId, Vec<u8>>,
    /// Where later edits are in the way: nothing is to be done before a person has decided.
    pub overlaps: Vec<Overlap>,
}

/// A later edit on what would be brought back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overlap {
    /// As it is called now.
    pub path: VaultPath,
    pub kind: OverlapKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OverlapKind {
    /// Both changed these lines of the note as it is now, from 1.
    Lines(Vec<RangeInclusive<u32>>),
    /// The change made it, and it was edited since.
    EditedSince,
    /// It is no text, and was changed since.
    NoText,
    /// The change edited it, and it was deleted since.
    DeletedSince,
    /// Something else is in its place now.
    Taken,
}

/// One file before and after a commit; a rename has another path on each side.
#[derive(Clone, Debug)]
struct Step {
    before: Option<(VaultPath, Entry)>,
    after: Option<(VaultPath, Entry)>,
}

impl Reader {
    /// The name that a file with these bytes has in git.
    pub fn blob_of(&self, bytes: &[u8]) -> Result<BlobId, ReadError> {
        let hash = self.repo.to_thread_local().object_hash();
        let id = git("hash a note", gix::objs::compute_hash(hash, gix::objs::Kind::Blob, bytes))?;
        let no_id = || ReadError::NotFound { what: "blob", name: id.to_string() };
        BlobId::from_bytes(id.as_bytes()).ok_or_else(no_id)
    }

    /// How to take back what `commits` did, newest first, on top of `head`.
    ///
    /// `favor` says whose lines stand where later edits are on the same ones.
    pub fn plan_undo(
        &self,
        head: CommitId,
        commits: &[CommitId],
        favor: Option<Favor>,
    ) -> Result<Plan, ReadError> {
        let repo = self.repo.to_thread_local();
        let tree = reader::tree_of(&repo, head)?;
        let mut work = Work {
            reader: self,
            repo: &repo,
            head: TreeView::new(&repo, Some(tree)),
            root: tree,
            favor,
            now: BTreeMap::new(),
            plan: Plan::default(),
        };
        for commit in commits {
            work.undo(*commit)?;
        }
        work.finish()
    }
}

struct Work<'a> {
    reader: &'a Reader,
    repo: &'a gix::Repository,
    head: TreeView<'a>,
    root: ObjectId,
    favor: Option<Favor>,
    /// What is not as in HEAD any more.
    now: BTreeMap<VaultPath, Option<Entry>>,
    plan: Plan,
}

impl Work<'_> {
    fn undo(&mut self, commit: CommitId) -> Result<(), ReadError> {
        let parent = self.reader.parent(commit)?;
        let changes = self.reader.diff(parent, commit)?;
        let mut since = None;
        let told = lineage::told(self.repo, reader::known(self.repo, commit)?)?;
        for step in self.steps(&changes, &told)? {
            self.invert(&step, commit, &mut since)?;
        }
        Ok(())
    }

    /// What a commit did, file by file, with its renames found.
    ///
    /// `told` are the renames that its message tells of.
    fn steps(
        &self,
        changes: &ChangeSet,
        told: &[(VaultPath, VaultPath)],
    ) -> Result<Vec<Step>, ReadError> {
        let side = |side: fn(&Change) -> Option<Entry>, other: fn(&Change) -> Option<Entry>| {
            let alone = changes.iter().filter(move |(_, it)| other(it).is_none());
            let files = alone.filter_map(move |(path, it)| Some((path.clone(), side(it)?)));
            files.filter(|it| !is_module(&it.1)).collect::<Vec<_>>()
        };
        let (gone, made) = (side(|it| it.old, |it| it.new), side(|it| it.new, |it| it.old));
        let moved = self.pairs(&gone, &made, told)?;
        let old_names: BTreeSet<&VaultPath> = moved.values().map(|it| &it.0).collect();
        let mut steps = Vec::new();
        for (path, change) in changes.iter() {
            let side =
                |it: Option<Entry>| it.filter(|it| !is_module(it)).map(|it| (path.clone(), it));
            let (mut before, after) = (side(change.old), side(change.new));
            if old_names.contains(path) && after.is_none() || before.is_none() && after.is_none() {
                continue;
            }
            before = before.or_else(|| moved.get(path).cloned());
            steps.push(Step { before, after });
        }
        // What frees a name comes before what needs it.
        steps.sort_by_key(|it| it.before.is_some() && it.after.is_none());
        Ok(steps)
    }

    /// Where each of `made` was before, if it is one of `gone`.
    fn pairs(
        &self,
        gone: &[(VaultPath, Entry)],
        made: &[(VaultPath, Entry)],
        told: &[(VaultPath, VaultPath)],
    ) -> Result<BTreeMap<VaultPath, (VaultPath, Entry)>, ReadError> {
        let mut pairs = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for (from, to) in told {
            let old = gone.iter().find(|it| it.0 == *from && !taken.contains(from));
            if let Some(old) = old.filter(|_| made.iter().any(|it| it.0 == *to)) {
                taken.insert(from.clone());
                pairs.insert(to.clone(), old.clone());
            }
        }
        for (path, entry) in made.iter().filter(|it| told.iter().all(|told| told.1 != it.0)) {
            let same = |it: &&(VaultPath, Entry)| {
                it.1.blob == entry.blob && !is_empty(&it.1) && !taken.contains(&it.0)
            };
            let named = gone.iter().filter(same).find(|it| it.0.file_name() == path.file_name());
            if let Some(old) = named.or_else(|| gone.iter().find(same)) {
                taken.insert(old.0.clone());
                pairs.insert(path.clone(), old.clone());
            }
        }
        let open: Vec<_> = made.iter().filter(|it| !pairs.contains_key(&it.0)).collect();
        let left: Vec<_> = gone.iter().filter(|it| !taken.contains(&it.0)).collect();
        if open.len().saturating_mul(left.len()) > MOST_PAIRS {
            return Ok(pairs);
        }
        let mut old_texts = Vec::new();
        for (_, entry) in &left {
            old_texts.push(self.small(entry)?);
        }
        let mut ranked = Vec::new();
        for (to, (_, entry)) in open.iter().enumerate() {
            let Some(new) = self.small(entry)? else { continue };
            for (from, old) in old_texts.iter().enumerate() {
                let Some(old) = old else { continue };
                let alike = lineage::likeness(old, &new);
                if alike >= SAME_NOTE {
                    ranked.push((alike, from, to));
                }
            }
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut from_taken, mut to_taken) = (BTreeSet::new(), BTreeSet::new());
        for (_, from, to) in ranked {
            if !from_taken.contains(&from) && to_taken.insert(to) {
                from_taken.insert(from);
                pairs.insert(open[to].0.clone(), left[from].clone());
            }
        }
        Ok(pairs)
    }

    /// Takes one step back.
    fn invert(
        &mut self,
        step: &Step,
        commit: CommitId,
        since: &mut Option<ChangeSet>,
    ) -> Result<(), ReadError> {
        let Some((after_path, after)) = &step.after else {
            // It was deleted: it comes back, unless something else is there.
            let Some((path, old)) = &step.before else { return Ok(()) };
            return match self.at(path)? {
                Some(there) if there.blob == old.blob => Ok(()),
                Some(_) => self.decide(path, OverlapKind::Taken, Some(*old)),
                None => self.bring_back(path, *old),
            };
        };
        let (path, there) = match self.at(after_path)? {
            Some(there) => (after_path.clone(), there),
            None => match self.went(after_path, after, commit, since)? {
                Some(found) => found,
                None => {
                    return match &step.before {
                        // It is gone already.
                        None => Ok(()),
                        Some((path, old)) if self.at(path)? == Some(*old) => Ok(()),
                        Some((path, old)) => {
                            self.decide(path, OverlapKind::DeletedSince, Some(*old))
                        }
                    };
                }
            },
        };
        let Some((before_path, before)) = &step.before else {
            if there.blob != after.blob {
                return self.decide(&path, OverlapKind::EditedSince, None);
            }
            self.put(&path, None);
            return Ok(());
        };
        let Some(blob) = self.merged(&path, *after, there, *before)? else { return Ok(()) };
        let mode = if there.mode == after.mode { before.mode } else { there.mode };
        let entry = Entry { blob, mode };
        // A name that it was given later stays.
        let goes_back = before_path != after_path && path == *after_path;
        if !goes_back {
            self.put(&path, Some(entry));
            return Ok(());
        }
        if self.at(before_path)?.is_some() || self.is_taken(before_path)? {
            self.decide(before_path, OverlapKind::Taken, Some(entry))?;
            match self.favor {
                Some(Favor::Theirs) => self.put(&path, None),
                Some(Favor::Mine) => self.put(&path, Some(entry)),
                None => {}
            }
            return Ok(());
        }
        self.put(&path, None);
        self.put(before_path, Some(entry));
        Ok(())
    }

    /// The content that has the later edits and not the change; `None` where that is for a person
    /// to say, or where the later one stays.
    fn merged(
        &mut self,
        path: &VaultPath,
        after: Entry,
        there: Entry,
        before: Entry,
    ) -> Result<Option<BlobId>, ReadError> {
        if there.blob == after.blob || before.blob == there.blob {
            return Ok(Some(before.blob));
        }
        if before.blob == after.blob {
            return Ok(Some(there.blob));
        }
        let (base, mine, theirs) =
            (self.bytes(after.blob)?, self.bytes(there.blob)?, self.bytes(before.blob)?);
        let is_text = |it: &[u8]| !is_binary(it) && !pointer::is_lfs(it);
        let are_files = [after, there, before].iter().all(|it| it.mode != FileMode::Symlink);
        if !are_files || ![&base, &mine, &theirs].iter().all(|it| is_text(it)) {
            return Ok(match self.favor {
                Some(Favor::Mine) => Some(there.blob),
                Some(Favor::Theirs) => Some(before.blob),
                None => {
                    self.overlap(path, OverlapKind::NoText);
                    None
                }
            });
        }
        match three_way::merge(&base, &mine, &theirs, self.favor) {
            Merged::Text(text) => Ok(Some(self.keep(text)?)),
            Merged::Overlap(lines) => {
                self.overlap(path, OverlapKind::Lines(lines));
                Ok(None)
            }
        }
    }

    fn overlap(&mut self, path: &VaultPath, kind: OverlapKind) {
        self.plan.overlaps.push(Overlap { path: path.clone(), kind });
    }

    /// Does at `path` as the person favours, or says that there is something to decide.
    fn decide(
        &mut self,
        path: &VaultPath,
        kind: OverlapKind,
        theirs: Option<Entry>,
    ) -> Result<(), ReadError> {
        // A folder in the place of a note, or a note in that of a folder, is never cleared away.
        let is_shut = theirs.is_some() && self.is_taken(path)?;
        match self.favor {
            Some(Favor::Theirs) if !is_shut => self.put(path, theirs),
            Some(Favor::Mine) => {}
            _ => self.overlap(path, kind),
        }
        Ok(())
    }

    fn bring_back(&mut self, path: &VaultPath, entry: Entry) -> Result<(), ReadError> {
        if self.is_taken(path)? {
            return self.decide(path, OverlapKind::Taken, Some(entry));
        }
        self.put(path, Some(entry));
        Ok(())
    }

    /// Whether a folder is at `path`, or a file at a folder on the way.
    fn is_taken(&mut self, path: &VaultPath) -> Result<bool, ReadError> {
        let mut above = path.parent();
        while let Some(folder) = above {
            if self.at(&folder)?.is_some() {
                return Ok(true);
            }
            above = folder.parent();
        }
        let after = self.now.range(path.clone()..).skip_while(|it| it.0 == path);
        let mut below = after.take_while(|it| it.0.as_bytes().starts_with(path.as_bytes()));
        if below.any(|(it, now)| now.is_some() && it.is_within(path.as_bytes())) {
            return Ok(true);
        }
        let rela = self.reader.place.rela(path);
        if !self.head.get(rela.as_bstr())?.is_some_and(|it| it.0.is_tree()) {
            return Ok(false);
        }
        for below in reader::files_below(self.repo, Some(self.root), rela.as_bstr())? {
            let Some(below) = self.reader.place.vault_path(below.as_bstr()) else {
                return Ok(true);
            };
            if self.at(&below)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where a note of `commit` is now that its path has none, if it was only moved.
    fn went(
        &mut self,
        path: &VaultPath,
        entry: &Entry,
        commit: CommitId,
        since: &mut Option<ChangeSet>,
    ) -> Result<Option<(VaultPath, Entry)>, ReadError> {
        if self.now.contains_key(path) {
            // It was us who took it away.
            return Ok(None);
        }
        if since.is_none() {
            let old = reader::tree_of(self.repo, commit)?;
            let place = &self.reader.place;
            *since = Some(reader::vault_changes(self.repo, place, Some(old), Some(self.root))?);
        }
        let Some(since) = since else { return Ok(None) };
        let made: Vec<(VaultPath, Entry)> = since
            .iter()
            .filter(|(_, it)| it.old.is_none())
            .filter_map(|(path, it)| Some((path.clone(), it.new?)))
            .collect();
        let found = self.pairs(&[(path.clone(), *entry)], &made, &[])?;
        let Some(now) = found.into_keys().next() else { return Ok(None) };
        Ok(self.at(&now)?.map(|entry| (now, entry)))
    }

    /// What is at `path` with all that was taken back so far.
    fn at(&mut self, path: &VaultPath) -> Result<Option<Entry>, ReadError> {
        if let Some(now) = self.now.get(path) {
            return Ok(*now);
        }
        let found = self.head.file(self.reader.place.rela(path).as_bstr())?;
        Ok(found.and_then(|(kind, id)| entry((id, kind))))
    }

    fn put(&mut self, path: &VaultPath, new: Option<Entry>) {
        self.now.insert(path.clone(), new);
    }

    fn bytes(&self, blob: BlobId) -> Result<Vec<u8>, ReadError> {
        match self.plan.fresh.get(&blob) {
            Some(bytes) => Ok(bytes.clone()),
            None => reader::read_blob(self.repo, blob),
        }
    }

    /// The text of a note that is small enough to be compared.
    fn small(&self, entry: &Entry) -> Result<Option<Vec<u8>>, ReadError> {
        let Some((id, _)) = reader::version(*entry) else { return Ok(None) };
        if entry.mode == FileMode::Symlink || self.plan.fresh.contains_key(&entry.blob) {
            return Ok(None);
        }
        match git("read a blob", self.repo.try_find_header(id))? {
            Some(header) if header.size() <= COMPARED && header.size() > 0 => {
                Ok(Some(reader::read_blob(self.repo, entry.blob)?).filter(|it| !is_binary(it)))
            }
            _ => Ok(None),
        }
    }

    fn keep(&mut self, text: Vec<u8>) -> Result<BlobId, ReadError> {
        let blob = self.reader.blob_of(&text)?;
        self.plan.fresh.insert(blob, text);
        Ok(blob)
    }

    fn finish(mut self) -> Result<Plan, ReadError> {
        for (path, new) in std::mem::take(&mut self.now) {
            let found = self.head.file(self.reader.place.rela(&path).as_bstr())?;
            let old = found.and_then(|(kind, id)| entry((id, kind)));
            self.plan.changes.push(path, old, new);
        }
        let wanted: BTreeSet<BlobId> =
            self.plan.changes.iter().filter_map(|(_, it)| it.new).map(|it| it.blob).collect();
        self.plan.fresh.retain(|blob, _| wanted.contains(blob));
        Ok(self.plan)
    }
}

fn is_module(entry: &Entry) -> bool {
    entry.mode == FileMode::Gitlink
}

/// Of nothing nobody can tell where it went.
fn is_empty(entry: &Entry) -> bool {
    reader::version(*entry).is_some_and(|it| it.0.is_empty_blob())
}

//! The table's only writer.
//!
//! Takes heads, adds what the table has not of their history, the oldest first. One thread.
//!
//! A commit costs an append to the tail; a full tail becomes a segment, and segments of like size
//! become one, so that what a commit costs does not grow with the history.
//!
//! **Invariant:** files first, manifest second, old files away last: a kill leaves the table as it
//! was, or with more. Nothing but the table's own folder is written.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use gix::ObjectId;

use super::format::{Added, Commits, MOST_COMMITS, Posting, RECORD, framed, key};
use super::segment::{self, Segment, SegmentError};
use super::table::{Identity, Manifest, Read, segment_path, tail_path};
use crate::base::fs::{self, PathError};
use crate::history::error::{GitError, ReadError};
use crate::history::reader::{Reader, known, vault_changes};
use crate::history::trail::{Node, Nodes};
use crate::vault::{ChangeSet, CommitId};

/// A tail of so many commits …
const TAIL_COMMITS: usize = 512;
/// … or postings becomes a segment.
const TAIL_POSTINGS: usize = 16_384;
/// The same where much is added at once.
const BULK_COMMITS: usize = 8192;
const BULK_POSTINGS: usize = 262_144;
/// After so many commits that are not among the newest, all are put where they are found at once.
const SEARCHES: usize = 16;

/// Why the table was not brought up to a commit.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("`{}` is damaged", .0.display())]
    Damaged(PathBuf),
    #[error("The history has more commits than a table of paths can number")]
    TooMany,
}

impl From<GitError> for KeepError {
    fn from(err: GitError) -> Self {
        Self::Read(err.into())
    }
}

impl KeepError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Disk(err) => match crate::base::trouble::Trouble::of(&err.source) {
                Some(trouble) => trouble.hint().to_owned(),
                None => format!("Check `{}`.", err.path.display()),
            },
            Self::Read(err) => err.hint(),
            Self::Damaged(_) => "It is made anew by itself.".to_owned(),
            Self::TooMany => "`remd log PATH` walks through the commits instead.".to_owned(),
        }
    }
}

/// Keeps one table.
pub struct Keeper {
    reader: Reader,
    dir: PathBuf,
    state: Option<State>,
}

/// What is on the disk.
struct State {
    manifest: Manifest,
    commits: Commits,
    tail: Vec<Added>,
    tail_postings: usize,
}

impl Keeper {
    /// Of the vault that `reader` reads, in this folder; nothing is read or made yet.
    pub fn new(reader: &Reader, dir: &Path) -> Self {
        Self { reader: reader.clone(), dir: dir.to_owned(), state: None }
    }

    /// Forgets what can be read again.
    pub fn rest(&mut self) {
        self.state = None;
    }

    /// Adds what the table has not of a commit and those before it; whether that was all before
    /// `is_over` said to stop. What was added until then stays.
    pub fn catch_up(
        &mut self,
        head: CommitId,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool, KeepError> {
        let added = self.add(head, is_over);
        if added.is_err() {
            // What is in memory may be more than the disk has.
            self.state = None;
        }
        if let Err(KeepError::Damaged(_)) = &added {
            // The next try makes all anew.
            fs::remove_file(&self.dir.join("manifest"))?;
        }
        added
    }

    fn add(&mut self, head: CommitId, is_over: &dyn Fn() -> bool) -> Result<bool, KeepError> {
        let repo = self.reader.cached();
        let identity = Identity::of(&repo, &self.reader.place)?;
        let mut state = match self.state.take() {
            // Somebody may have taken the folder away meanwhile.
            Some(state)
                if state.manifest.identity == identity
                    && Manifest::read(&self.dir)?.as_ref() == Some(&state.manifest) =>
            {
                state
            }
            _ => self.load(&identity)?,
        };
        let head = known(&repo, head)?;
        let mut nodes = Nodes::new(repo)?;
        let (missing, is_all) = missing(&mut nodes, &state.commits, head, is_over)?;
        let is_bulk = missing.len() > TAIL_COMMITS;
        let mut numbers = HashMap::new();
        let mut frames = Vec::new();
        for id in &missing {
            if is_over() {
                self.keep(&mut state, is_bulk, &frames)?;
                self.state = Some(state);
                return Ok(false);
            }
            let node = nodes.read(*id)?;
            let number_of =
                |it: &ObjectId| numbers.get(it).copied().or_else(|| state.commits.find(*it));
            let parents: Vec<u32> = node.parents.iter().filter_map(number_of).collect();
            if state.commits.len() >= MOST_COMMITS {
                return Err(KeepError::TooMany);
            }
            let mut added = self.changes(&nodes, &node)?;
            let (number, records) = state.commits.add(*id, node.time, &parents);
            numbers.insert(*id, number);
            added.records = records;
            added.postings.iter_mut().for_each(|it| it.number = number);
            state.tail_postings += added.postings.len();
            if !is_bulk {
                frames.extend(added.frame());
            }
            state.tail.push(added);
            let (most_commits, most_postings) = match is_bulk {
                true => (BULK_COMMITS, BULK_POSTINGS),
                false => (TAIL_COMMITS, TAIL_POSTINGS),
            };
            if state.tail.len() >= most_commits || state.tail_postings >= most_postings {
                frames.clear();
                self.flush(&mut state)?;
            }
        }
        self.keep(&mut state, is_bulk, &frames)?;
        self.state = Some(state);
        Ok(is_all)
    }

    /// What is on the disk, or an empty table in its place where that holds no longer.
    fn load(&self, identity: &Identity) -> Result<State, KeepError> {
        if let Some(read) = Read::of(&self.dir, identity)?
            && let Some(mut state) = self.checked(&read)
        {
            if read.torn {
                self.flush(&mut state)?;
            }
            return Ok(state);
        }
        fs::remove_derived(&self.dir)?;
        fs::create_dir_all(&self.dir)?;
        let manifest = Manifest::new(identity.clone());
        manifest.write(&self.dir)?;
        Ok(State { manifest, commits: Commits::default(), tail: Vec::new(), tail_postings: 0 })
    }

    fn checked(&self, read: &Read) -> Option<State> {
        let mut commits = read.commits.clone();
        for added in &read.tail {
            commits.read(&added.records)?;
        }
        for (number, count) in &read.manifest.segments {
            Segment::open(&segment_path(&self.dir, *number), *count)
                .and_then(|it| it.check())
                .ok()?;
        }
        let gone = match fs::read_if_there(&self.dir.join("gone")) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(_) => return None,
        };
        let valid = usize::try_from(read.manifest.gone).ok()?;
        let gone = gone.get(..valid)?;
        if super::format::frames(gone).1 != valid {
            return None;
        }
        Some(State {
            manifest: read.manifest.clone(),
            commits,
            tail: read.tail.clone(),
            tail_postings: read.tail.iter().map(|it| it.postings.len()).sum(),
        })
    }

    /// What a commit changed; its number is not known yet.
    fn changes(&self, nodes: &Nodes, node: &Node) -> Result<Added, KeepError> {
        let place = &self.reader.place;
        let mut parents = Vec::new();
        for parent in &node.parents {
            let tree = crate::history::trail::tree_of(&nodes.repo, *parent)?;
            parents.push(vault_changes(&nodes.repo, place, Some(tree), Some(node.tree))?);
        }
        if parents.is_empty() {
            parents.push(vault_changes(&nodes.repo, place, None, Some(node.tree))?);
        }
        let (first, others) = parents.split_at(1);
        let mut added = Added { records: Vec::new(), postings: Vec::new(), gone: Vec::new() };
        for (path, change) in first.iter().flat_map(|it| it.iter()) {
            let theirs: Vec<_> = others.iter().map(|it| it.get(path)).collect();
            // What a parent of a merge has is told by that parent.
            if theirs.iter().any(Option::is_none) {
                continue;
            }
            let is_made = change.new.is_some()
                && (change.old.is_none() || theirs.iter().flatten().any(|it| it.old.is_none()));
            added.postings.push(Posting { key: key(path.as_bytes()), number: 0, is_made });
            if change.new.is_none() {
                added.gone.push(path.as_bytes().to_vec());
            }
        }
        // What a side of a merge has under another name shows against that side only: the merge is
        // no step of it, but the place where its names part.
        let named: HashSet<u64> = added.postings.iter().map(|it| it.key).collect();
        let mut parted = HashSet::new();
        for side in parents.iter().filter(|_| !others.is_empty()) {
            if side.iter().all(|it| it.1.new.is_some()) {
                continue;
            }
            let made = side.iter().filter(|it| it.1.old.is_none());
            parted.extend(made.map(|it| key(it.0.as_bytes())).filter(|it| !named.contains(it)));
        }
        let parted = parted.into_iter().map(|key| Posting { key, number: 0, is_made: true });
        added.postings.extend(parted);
        // A merge of different files of a folder makes a folder that no parent has.
        let mut folders = folders_of(&parents[0], place.prefix.is_empty());
        for other in &parents[1..] {
            let theirs = folders_of(other, place.prefix.is_empty());
            folders.retain(|it| theirs.contains(it));
        }
        let folders = folders.into_iter().map(|key| Posting { key, number: 0, is_made: false });
        added.postings.extend(folders);
        Ok(added)
    }

    /// Puts on the disk what only the memory has.
    fn keep(&self, state: &mut State, is_bulk: bool, frames: &[u8]) -> Result<(), KeepError> {
        match (is_bulk, state.tail.is_empty(), frames.is_empty()) {
            (true, false, _) => self.flush(state),
            (false, _, false) => {
                Ok(fs::append(&tail_path(&self.dir, state.manifest.tail), frames)?)
            }
            _ => Ok(()),
        }
    }

    /// Makes a segment of the tail.
    fn flush(&self, state: &mut State) -> Result<(), KeepError> {
        let tail = std::mem::take(&mut state.tail);
        state.tail_postings = 0;
        let old = state.manifest.clone();
        let manifest = &mut state.manifest;
        let (mut records, mut gone, mut postings) = (Vec::new(), Vec::new(), Vec::new());
        for added in tail {
            let number = manifest.commits + u32::try_from(records.len() / RECORD).unwrap_or(0);
            for path in added.gone {
                gone.extend(framed(&[&number.to_le_bytes()[..], &path].concat()));
            }
            records.extend(added.records);
            postings.extend(added.postings);
        }
        put(&self.dir.join("commits"), u64::from(manifest.commits) * RECORD as u64, &records)?;
        put(&self.dir.join("gone"), manifest.gone, &gone)?;
        manifest.commits += u32::try_from(records.len() / RECORD).unwrap_or(0);
        manifest.gone += gone.len() as u64;
        let number = manifest.next;
        let count = segment::write(&segment_path(&self.dir, number), postings)?;
        manifest.segments.push((number, count));
        manifest.next += 1;
        self.merge(manifest)?;
        manifest.tail = manifest.next;
        manifest.next += 1;
        manifest.write(&self.dir)?;
        for (number, _) in &old.segments {
            if !manifest.segments.iter().any(|it| it.0 == *number) {
                fs::remove_file(&segment_path(&self.dir, *number))?;
            }
        }
        Ok(fs::remove_file(&tail_path(&self.dir, old.tail))?)
    }

    /// Makes one of the last two segments as long as they are of like size.
    fn merge(&self, manifest: &mut Manifest) -> Result<(), KeepError> {
        while let [.., one, other] = manifest.segments[..]
            && one.1 < 2 * other.1
        {
            let path = |number| segment_path(&self.dir, number);
            let open = |it: (u64, u64)| Segment::open(&path(it.0), it.1);
            let number = manifest.next;
            let merged =
                open(one).and_then(|one| segment::merge(&path(number), &one, &open(other)?));
            let count = match merged {
                Ok(count) => count,
                Err(SegmentError::Disk(err)) => return Err(err.into()),
                // The next look at the folder finds it, too, and makes all anew.
                Err(SegmentError::Damaged(path)) => return Err(KeepError::Damaged(path)),
            };
            manifest.segments.truncate(manifest.segments.len() - 2);
            manifest.segments.push((number, count));
            manifest.next += 1;
            // One that never was in a manifest is nobody's.
            if other.0 + 1 == number {
                fs::remove_file(&path(other.0))?;
            }
        }
        Ok(())
    }
}

/// The keys of all folders with a change in them; of the vault itself, too, where the repository has
/// more than it.
fn folders_of(changes: &ChangeSet, is_whole: bool) -> HashSet<u64> {
    let mut folders = HashSet::new();
    for (path, _) in changes.iter() {
        let mut folder = path.parent();
        while let Some(it) = folder {
            if !folders.insert(key(it.as_bytes())) {
                break;
            }
            folder = it.parent();
        }
    }
    if !is_whole && !changes.is_empty() {
        folders.insert(key(b""));
    }
    folders
}

/// Writes behind what is valid; what a crash left there goes.
fn put(path: &Path, valid: u64, bytes: &[u8]) -> Result<(), PathError> {
    let mut file = fs::open_append(path)?;
    fs::at("cut", path, file.set_len(valid))?;
    fs::at("append to", path, file.write_all(bytes))
}

/// The commits that the table has not, parents first; and whether those are all.
fn missing(
    nodes: &mut Nodes,
    commits: &Commits,
    head: ObjectId,
    is_over: &dyn Fn() -> bool,
) -> Result<(Vec<ObjectId>, bool), KeepError> {
    let mut all: Option<HashSet<ObjectId>> = None;
    let mut searches = 0;
    let mut has = |id: ObjectId| {
        if let Some(all) = &all {
            return all.contains(&id);
        }
        searches += 1;
        if searches > SEARCHES {
            all = Some(commits.iter().map(|it| it.1.id).collect());
        }
        commits.find(id).is_some()
    };
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    // A commit, and whether its parents have been seen to.
    let mut stack = vec![(head, false)];
    while let Some((id, is_next)) = stack.pop() {
        match is_next {
            false if seen.contains(&id) || has(id) => {}
            false => {
                if is_over() {
                    // Without the oldest there is nothing to begin with.
                    return Ok((Vec::new(), false));
                }
                seen.insert(id);
                let parents = nodes.read(id)?.parents;
                stack.push((id, true));
                // The first parent last, so that it is the first to be numbered.
                stack.extend(parents.into_iter().rev().map(|it| (it, false)));
            }
            true => found.push(id),
        }
    }
    Ok((found, true))
}

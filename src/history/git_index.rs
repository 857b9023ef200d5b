//! Git's index: read once, patched, written under its own lock.
//!
//! Takes the entries of a batch, leaves every other entry and its flags as they are. The bytes of
//! the file are kept between snapshots while the file on disk stays the same. Committer thread
//! only.
//!
//! **Invariant:** an entry that git would call clean by its stat was clean when the index was
//! written; where that is not certain its size is set to 0, which makes git look.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::{Flags, Mode, Stat};
use gix::objs::tree::EntryKind;

use crate::base::fs::{self, PathError};
use crate::history::error::{GitError, READ_INDEX, SnapshotError, git};
use crate::history::index_image::{Entry, Image};
use crate::history::lock::OwnLock;
use crate::history::place::Place;
use crate::history::reader;
use crate::history::seen::Seen;

pub(super) use crate::history::index_image::Patch;

/// What is tried when it is written.
const WRITE_INDEX: &str = "write the index";

/// What tells one state of the index file from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The second of its last change, as entries count them.
    fn second(&self) -> u32 {
        u32::try_from(self.modified.0.max(0)).unwrap_or(u32::MAX)
    }
}

/// The index and the file it came from.
pub(super) struct GitIndex {
    image: Image,
    stamp: Option<Stamp>,
    /// Whose stat may prove nothing, or will not any more once the index is written again: all
    /// that changed in the second of the stamp or later.
    young: Vec<BString>,
}

/// An index in the making, from a tree.
pub(super) struct NewIndex {
    file: gix::index::File,
}

impl NewIndex {
    /// The index as `tree` has it, but for what `is_there` denies; in a sparse checkout that is
    /// marked as left out.
    pub fn from_tree(
        repo: &gix::Repository,
        tree: &gix::oid,
        is_there: impl Fn(&BStr) -> bool,
    ) -> Result<Self, SnapshotError> {
        let mut file = git("read a tree", repo.index_from_tree(tree))?;
        if repo.config_snapshot().boolean("core.sparseCheckout").unwrap_or(false) {
            for (entry, path) in file.entries_mut_with_paths() {
                if !is_there(path) {
                    entry.flags |= Flags::SKIP_WORKTREE | Flags::EXTENDED;
                }
            }
        } else {
            file.remove_entries(|_, path, _| !is_there(path));
        }
        Ok(Self { file })
    }

    /// Takes over what `other` knows of the files that it has in the same version; `newer` knows
    /// better.
    pub fn take_stats(&mut self, other: Option<&GitIndex>, newer: impl Fn(&BStr) -> Option<Stat>) {
        for (entry, path) in self.file.entries_mut_with_paths() {
            let known = other.and_then(|it| it.entry(path));
            // Absent on purpose: nobody is to bring it back.
            let absent = Flags::SKIP_WORKTREE;
            if known.is_some_and(|it| it.flags.contains(absent)) {
                entry.flags |= absent | Flags::EXTENDED;
            }
            let known = known.filter(|it| it.id == entry.id && it.mode == entry.mode);
            if let Some(stat) = newer(path).or_else(|| known.map(|it| it.stat)) {
                entry.stat = stat;
            }
        }
    }

    /// The index that it is now.
    pub fn finish(self) -> Result<GitIndex, SnapshotError> {
        Ok(GitIndex::new(encoded(&self.file)?, None))
    }
}

impl GitIndex {
    /// Reads the index; none is an empty one.
    pub fn load(repo: &gix::Repository, place: &Place) -> Result<Self, SnapshotError> {
        let path = place.index();
        loop {
            let stamp = stamp_of(&path)?;
            let image = read(repo, &path);
            // Replaced while we read it: read it again.
            if stamp == stamp_of(&path)? {
                return Ok(Self::new(image?, stamp));
            }
        }
    }

    /// Reads the index at any place.
    pub fn load_at(repo: &gix::Repository, path: &Path) -> Result<Self, SnapshotError> {
        Ok(Self::new(read(repo, path)?, None))
    }

    fn new(image: Image, stamp: Option<Stamp>) -> Self {
        let young = stamp.map(|it| image.younger(it.second())).unwrap_or_default();
        Self { image, stamp, young }
    }

    /// Whether a sparse checkout left files out.
    pub fn is_skipping(&self) -> bool {
        self.image.is_skipping()
    }

    /// Writes it at any place, where nobody else is: no lock.
    pub fn write_at(&mut self, repo: &gix::Repository, path: &Path) -> Result<(), SnapshotError> {
        let (entries, rest) = self.image.file(skips_hash(repo));
        Ok(fs::write_atomic(path, &[entries, &rest].concat())?)
    }

    /// Whether the file on disk is still the one that was read.
    pub fn is_current(&self, place: &Place) -> Result<bool, PathError> {
        Ok(self.stamp == stamp_of(&place.index())?)
    }

    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.image.entries()
    }

    /// The entries of git's rule files, which a sparse checkout has here and not on the disk.
    pub fn rules(&self) -> gix::index::State {
        let mut state = gix::index::State::new(self.image.hash());
        let is_rule = |it: &Entry<'_>| {
            let name = it.path.rsplit(|it| *it == b'/').next();
            matches!(name, Some(b".gitattributes" | b".gitignore"))
        };
        for it in self.image.entries().filter(is_rule) {
            state.dangerously_push_entry(it.stat, it.id, it.flags, it.mode, it.path);
        }
        state
    }

    /// The entry at `path`, conflicts aside.
    pub fn entry(&self, path: &BStr) -> Option<Entry<'_>> {
        self.image.entry(path)
    }

    /// Whether `path` is in conflict.
    pub fn is_unmerged(&self, path: &BStr) -> bool {
        self.image.range(path).any(|it| self.image.at(it).stage() != 0)
    }

    /// The paths below a folder (`prefix` ends with a slash, or is empty for all).
    pub fn below<'a>(&'a self, prefix: &BStr) -> impl Iterator<Item = &'a BStr> {
        self.image.below(prefix)
    }

    /// The paths whose entry is another one than in `old`; a newer stat alone is none.
    pub fn differences<'a>(&'a self, old: &'a Self) -> Vec<&'a BStr> {
        let told = Flags::INTENT_TO_ADD | Flags::SKIP_WORKTREE | Flags::ASSUME_VALID;
        let of = |index: &'a Self| {
            index.entries().map(move |it| {
                let state = (it.id, it.mode, it.flags & told);
                ((it.path, it.stage()), state)
            })
        };
        let (mut before, mut now) = (of(old).peekable(), of(self).peekable());
        let mut paths = Vec::new();
        loop {
            let path = match (before.peek(), now.peek()) {
                (None, None) => return paths,
                (Some(one), Some(other)) if one == other => {
                    before.next();
                    now.next();
                    continue;
                }
                (Some(one), Some(other)) => one.0.min(other.0),
                (Some(one), None) | (None, Some(one)) => one.0,
            };
            before.next_if(|it| it.0 == path);
            now.next_if(|it| it.0 == path);
            paths.push(path.0);
        }
    }

    /// The paths that `patch` will look at, in order.
    #[cfg(test)]
    pub fn young(&self) -> &[BString] {
        &self.young
    }

    /// Whether the entry's stat is no proof: the file may have changed after its last look
    /// without a newer time.
    pub fn is_racy(&self, stat: &Stat) -> bool {
        self.stamp.is_some_and(|it| is_racy(stat, it))
    }

    /// Puts the batch into the index held in memory.
    pub fn patch(&mut self, place: &Place, patches: &[Patch]) -> Result<(), GitError> {
        // Who was racy by the old time stamp must not become trusted by the new one. Most builds of
        // git count in whole seconds: what that makes racy is looked at with all its digits.
        if let Some(stamp) = self.stamp {
            for path in &self.young {
                for number in self.image.range(path.as_bstr()) {
                    let Entry { path, stat, .. } = self.image.at(number);
                    if is_racy(&stat, stamp)
                        || stat.mtime.secs >= stamp.second() && is_edited(place, path, &stat)
                    {
                        self.image.distrust(number);
                    }
                }
            }
        }
        git(WRITE_INDEX, self.image.patch(patches))?;
        self.young.extend(patches.iter().filter(|it| it.new.is_some()).map(|it| it.path.clone()));
        Ok(())
    }

    /// Writes the index through its lock, which is released.
    pub fn write(
        &mut self,
        repo: &gix::Repository,
        place: &Place,
        mut lock: OwnLock,
    ) -> Result<(), SnapshotError> {
        let path = place.index();
        let (entries, rest) = self.image.file(skips_hash(repo));
        let file = lock.file();
        fs::at("write", &path, file.write_all(entries).and_then(|()| file.write_all(&rest)))?;
        fs::at("sync", &path, file.sync_data())?;
        lock.keep_mode_of(&path)?;
        lock.rename_onto(&path)?;
        let stamp = stamp_of(&path)?;
        self.follow_stamp(stamp);
        Ok(())
    }

    /// The file is written: who is young by its new time is.
    fn follow_stamp(&mut self, stamp: Option<Stamp>) {
        let old = std::mem::replace(&mut self.stamp, stamp);
        match (old.map(|it| it.second()), stamp.map(|it| it.second())) {
            // What was older than the old second is older than this one.
            (Some(old), Some(second)) if old <= second => {
                let mut young = std::mem::take(&mut self.young);
                young.sort();
                young.dedup();
                let is_young = |path: &BString| {
                    let entries = self.image.range(path.as_bstr()).map(|it| self.image.at(it).stat);
                    let mut times = entries.map(|it| it.mtime.secs.max(it.ctime.secs));
                    times.any(|it| it >= second)
                };
                young.retain(is_young);
                self.young = young;
            }
            // The clock was put back.
            (_, Some(second)) => self.young = self.image.younger(second),
            (_, None) => self.young.clear(),
        }
    }
}

/// The file at `path` as it is; what is not simply a list of entries is made one by the library.
fn read(repo: &gix::Repository, path: &Path) -> Result<Image, SnapshotError> {
    let hash = repo.object_hash();
    if let Some(mut bytes) = fs::read_if_there(path)? {
        bytes.truncate(bytes.len().saturating_sub(hash.len_in_bytes()));
        if let Some(image) = Image::of(bytes, hash) {
            return Ok(image);
        }
    }
    let options = gix::index::decode::Options::default();
    let file = gix::index::File::at_or_default(path, hash, true, options);
    let file = git(READ_INDEX, file)?;
    let file = if file.is_sparse() { expanded(repo, &file)? } else { file };
    encoded(&file)
}

fn encoded(file: &gix::index::File) -> Result<Image, SnapshotError> {
    use gix::index::write::{Extensions, Options};
    let state: &gix::index::State = file;
    let extensions = Extensions::Given { tree_cache: true, end_of_index_entry: false };
    // An entry takes 62 bytes, its path and some padding.
    let mut bytes = Vec::with_capacity(state.entries().len() * 128 + 4096);
    git(READ_INDEX, state.write_to(&mut bytes, Options { extensions, skip_hash: true }))?;
    let image = Image::of(bytes, state.object_hash());
    Ok(git(READ_INDEX, image.ok_or("Entries that no Git would write"))?)
}

/// A sparse index with every folder that it keeps as one entry written out, as git itself does
/// before it looks into one: its files are there, marked as absent from the disk.
fn expanded(
    repo: &gix::Repository,
    sparse: &gix::index::File,
) -> Result<gix::index::File, SnapshotError> {
    let mut full = gix::index::State::new(repo.object_hash());
    for entry in sparse.entries() {
        let path = entry.path(sparse);
        if entry.mode != Mode::DIR {
            full.dangerously_push_entry(entry.stat, entry.id, entry.flags, entry.mode, path);
            continue;
        }
        for (below, _, version) in reader::tree_changes(repo, None, Some(entry.id))? {
            let Some((id, kind)) = version else { continue };
            let below = [path.as_bytes(), below.as_slice()].concat();
            let absent = Flags::SKIP_WORKTREE | Flags::EXTENDED;
            let stat = Stat::default();
            full.dangerously_push_entry(stat, id, absent, kind.into(), below.as_bstr());
        }
    }
    full.sort_entries();
    Ok(gix::index::File::from_state(full, sparse.path()))
}

fn skips_hash(repo: &gix::Repository) -> bool {
    repo.config_snapshot().boolean("index.skipHash").unwrap_or(false)
}

/// How long git's own commands make us wait for `index.lock`.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(2);

fn stamp_of(path: &Path) -> Result<Option<Stamp>, PathError> {
    Ok(fs::lstat_if_there(path)?.map(|meta| Stamp {
        inode: meta.ino(),
        size: meta.size(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        changed: (meta.ctime(), meta.ctime_nsec()),
    }))
}

/// Whether the disk has another state of the file than the one that `stat` was taken from.
fn is_edited(place: &Place, path: &BStr, stat: &Stat) -> bool {
    let Ok(path) = gix::path::from_bstr(path) else { return true };
    let Ok(Some(meta)) = fs::lstat_if_there(&place.workdir.join(path)) else { return false };
    let now = Seen::new(&meta).comparable();
    (now.mtime, now.ctime, now.ino, now.size) != (stat.mtime, stat.ctime, stat.ino, stat.size)
}

/// A change that the stat does not show must have left its time of status change as it was, so
/// that lies in the tick of the index or later; git itself goes by the time of modification.
fn is_racy(stat: &Stat, index: Stamp) -> bool {
    let time = |it: gix::index::entry::stat::Time| (i64::from(it.secs), i64::from(it.nsecs));
    let modified = time(stat.mtime);
    let near = (index.modified.0 + 2, index.modified.1);
    time(stat.ctime) >= index.modified || (modified >= index.modified && modified <= near)
}

/// The kind of a tree entry that an index entry stands for; `None` for a sparse folder.
pub(super) fn kind_of(mode: Mode) -> Option<EntryKind> {
    match mode {
        Mode::FILE => Some(EntryKind::Blob),
        Mode::FILE_EXECUTABLE => Some(EntryKind::BlobExecutable),
        Mode::SYMLINK => Some(EntryKind::Link),
        Mode::COMMIT => Some(EntryKind::Commit),
        _ => None,
    }
}

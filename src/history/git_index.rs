//! Git's index: read once, patched, written under its own lock.
//!
//! Takes the entries of a batch, leaves every other entry and its flags as they are. The decoded
//! file is kept between snapshots while the file on disk stays the same. Committer thread only.
//!
//! **Invariant:** an entry that git would call clean by its stat was clean when the index was
//! written; where that is not certain its size is set to 0, which makes git look.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::{Flags, Mode, Stage, Stat};
use gix::index::extension::Tree;
use gix::objs::tree::EntryKind;

use crate::base::fs::{self, PathError};
use crate::history::error::{READ_INDEX, SnapshotError, git};
use crate::history::lock::OwnLock;
use crate::history::place::Place;
use crate::history::reader;
use crate::history::seen::Seen;

/// What tells one state of the index file from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// One entry of a batch; `None` takes it out.
pub(super) struct Patch {
    pub path: BString,
    pub new: Option<(ObjectId, Mode, Stat)>,
}

/// The decoded index and the file it came from.
pub(super) struct GitIndex {
    file: gix::index::File,
    stamp: Option<Stamp>,
    /// Whether a sparse checkout left files out, as it was when the index was read.
    is_skipping: bool,
}

impl GitIndex {
    /// Reads the index; none is an empty one.
    pub fn load(repo: &gix::Repository, place: &Place) -> Result<Self, SnapshotError> {
        let path = place.index();
        loop {
            let stamp = stamp_of(&path)?;
            let file = gix::index::File::at_or_default(
                &path,
                repo.object_hash(),
                true,
                gix::index::decode::Options::default(),
            );
            // Replaced while we read it: read it again.
            if stamp == stamp_of(&path)? {
                let file = git(READ_INDEX, file)?;
                let file = if file.is_sparse() { expanded(repo, &file)? } else { file };
                return Ok(Self::new(file, stamp));
            }
        }
    }

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
        Ok(Self::new(file, None))
    }

    fn new(file: gix::index::File, stamp: Option<Stamp>) -> Self {
        let is_skipping = file.entries().iter().any(|it| it.flags.contains(Flags::SKIP_WORKTREE));
        Self { file, stamp, is_skipping }
    }

    /// Whether a sparse checkout left files out.
    pub fn is_skipping(&self) -> bool {
        self.is_skipping
    }

    /// Reads the index at any place.
    pub fn load_at(repo: &gix::Repository, path: &Path) -> Result<Self, SnapshotError> {
        let options = gix::index::decode::Options::default();
        let file = gix::index::File::at_or_default(path, repo.object_hash(), true, options);
        Ok(Self::new(git(READ_INDEX, file)?, None))
    }

    /// Takes over what `other` knows of the files that it has in the same version; `newer` knows
    /// better.
    pub fn take_stats(&mut self, other: Option<&Self>, newer: impl Fn(&BStr) -> Option<Stat>) {
        let paths: Vec<BString> =
            self.file.entries().iter().map(|it| it.path(&self.file).to_owned()).collect();
        for (entry, path) in self.file.entries_mut().iter_mut().zip(paths) {
            let known = other.and_then(|it| it.entry(path.as_bstr()));
            // Absent on purpose: nobody is to bring it back.
            let absent = Flags::SKIP_WORKTREE;
            if known.is_some_and(|it| it.flags.contains(absent)) {
                entry.flags |= absent | Flags::EXTENDED;
            }
            let known = known.filter(|it| it.id == entry.id && it.mode == entry.mode);
            if let Some(stat) = newer(path.as_bstr()).or_else(|| known.map(|it| it.stat)) {
                entry.stat = stat;
            }
        }
    }

    /// Writes it at any place, where nobody else is: no lock.
    pub fn write_at(&self, repo: &gix::Repository, path: &Path) -> Result<(), SnapshotError> {
        Ok(fs::write_atomic(path, &self.encoded(write_options(repo))?)?)
    }

    /// Whether the file on disk is still the one that was read.
    pub fn is_current(&self, place: &Place) -> Result<bool, PathError> {
        Ok(self.stamp == stamp_of(&place.index())?)
    }

    pub fn state(&self) -> &gix::index::State {
        &self.file
    }

    /// The entry at `path`, conflicts aside.
    pub fn entry(&self, path: &BStr) -> Option<&gix::index::Entry> {
        self.file.entry_by_path_and_stage(path, Stage::Unconflicted)
    }

    /// Whether `path` is in conflict.
    pub fn is_unmerged(&self, path: &BStr) -> bool {
        self.file
            .entry_range(path)
            .is_some_and(|range| self.file.entries()[range].iter().any(|it| it.stage_raw() != 0))
    }

    /// The paths below a folder (`prefix` ends with a slash, or is empty for all).
    pub fn below<'a>(&'a self, prefix: &BStr) -> impl Iterator<Item = &'a BStr> {
        self.file.prefixed_entries(prefix).unwrap_or_default().iter().map(|it| it.path(&self.file))
    }

    /// The paths whose entry is another one than in `old`; a newer stat alone is none.
    pub fn differences<'a>(&'a self, old: &'a Self) -> Vec<&'a BStr> {
        let told = Flags::INTENT_TO_ADD | Flags::SKIP_WORKTREE | Flags::ASSUME_VALID;
        let of = |file: &'a gix::index::File| {
            file.entries().iter().map(move |it| {
                let state = (it.id, it.mode, it.flags & told);
                ((it.path(file), it.stage_raw()), state)
            })
        };
        let (mut before, mut now) = (of(&old.file).peekable(), of(&self.file).peekable());
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
            // A folder of a sparse index ends with a slash.
            paths.push(path.0.strip_suffix(b"/").unwrap_or(path.0).as_bstr());
        }
    }

    /// Whether the entry's stat is no proof: the file may have changed after its last look
    /// without a newer time.
    pub fn is_racy(&self, stat: &Stat) -> bool {
        self.stamp.is_some_and(|it| is_racy(stat, it))
    }

    /// Puts the batch into the index held in memory.
    pub fn patch(&mut self, place: &Place, patches: &[Patch]) {
        // Who was racy by the old time stamp must not become trusted by the new one. Most builds of
        // git count in whole seconds: what that makes racy is looked at with all its digits.
        if let Some(stamp) = self.stamp {
            let second = u32::try_from(stamp.modified.0).unwrap_or(u32::MAX);
            for (entry, path) in self.file.entries_mut_with_paths() {
                if is_racy(&entry.stat, stamp)
                    || entry.stat.mtime.secs >= second && is_edited(place, path, &entry.stat)
                {
                    entry.stat.size = 0;
                }
            }
        }
        let mut removed = false;
        let mut added = Vec::new();
        for patch in patches {
            let path = patch.path.as_bstr();
            match (self.file.entry_range(path), &patch.new) {
                (Some(range), Some((id, mode, stat))) => {
                    let entries = &mut self.file.entries_mut()[range];
                    for other in &mut entries[1..] {
                        other.flags |= Flags::REMOVE;
                        removed = true;
                    }
                    let entry = &mut entries[0];
                    entry.id = *id;
                    entry.mode = *mode;
                    entry.stat = *stat;
                    entry.flags = Flags::empty();
                }
                (Some(range), None) => {
                    for entry in &mut self.file.entries_mut()[range] {
                        entry.flags |= Flags::REMOVE;
                    }
                    removed = true;
                }
                (None, Some(_)) => added.push(patch),
                (None, None) => {}
            }
            if let Some(tree) = self.file.tree_mut() {
                invalidate(tree, path);
            }
        }
        // Only now: a look-up needs the order that this breaks.
        for patch in &added {
            if let Some((id, mode, stat)) = &patch.new {
                let path = patch.path.as_bstr();
                self.file.dangerously_push_entry(*stat, *id, Flags::empty(), *mode, path);
            }
        }
        if removed {
            self.file.remove_entries(|_, _, entry| entry.flags.contains(Flags::REMOVE));
        }
        if !added.is_empty() {
            self.file.sort_entries();
        }
    }

    /// Writes the index through its lock, which is released.
    pub fn write(
        &mut self,
        repo: &gix::Repository,
        place: &Place,
        mut lock: OwnLock,
    ) -> Result<(), SnapshotError> {
        let path = place.index();
        let bytes = self.encoded(write_options(repo))?;
        let file = lock.file();
        fs::at("write", &path, file.write_all(&bytes))?;
        drop(bytes);
        fs::at("sync", &path, file.sync_data())?;
        lock.keep_mode_of(&path)?;
        lock.rename_onto(&path)?;
        self.stamp = stamp_of(&path)?;
        Ok(())
    }
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

fn write_options(repo: &gix::Repository) -> gix::index::write::Options {
    let skip_hash = repo.config_snapshot().boolean("index.skipHash").unwrap_or(false);
    gix::index::write::Options { skip_hash, ..gix::index::write::Options::default() }
}

impl GitIndex {
    /// The file as git reads it.
    ///
    /// Encoded as a whole and hashed at once: field by field through a hasher it takes several
    /// times as long, with each commit, the more notes there are.
    fn encoded(&self, options: gix::index::write::Options) -> Result<Vec<u8>, SnapshotError> {
        let state: &gix::index::State = &self.file;
        // An entry takes 62 bytes, its path and some padding.
        let mut bytes = Vec::with_capacity(state.entries().len() * 128 + 4096);
        git("write the index", state.write_to(&mut bytes, options))?;
        let hash = state.object_hash();
        if options.skip_hash {
            bytes.extend_from_slice(hash.null().as_slice());
        } else {
            let mut hasher = gix::hash::hasher(hash);
            hasher.update(&bytes);
            let trailer = git("write the index", hasher.try_finalize())?;
            bytes.extend_from_slice(trailer.as_slice());
        }
        Ok(bytes)
    }
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

/// Marks the cached trees on the way to `path` as out of date, as git does.
fn invalidate(root: &mut Tree, path: &BStr) {
    let mut tree = root;
    let mut rest = path.as_bytes();
    loop {
        tree.num_entries = None;
        let Some(slash) = rest.find_byte(b'/') else {
            // A file where a folder was.
            tree.children.retain(|it| it.name.as_slice() != rest);
            return;
        };
        let (name, below) = (&rest[..slash], &rest[slash + 1..]);
        match tree.children.iter().position(|it| it.name.as_slice() == name) {
            Some(at) => tree = &mut tree.children[at],
            None => return,
        }
        rest = below;
    }
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

//! Git's index as the bytes of its file.
//!
//! Takes a file of version 2 or 3 and batches of entries, gives the file with these entries put in
//! and all others as they were. Nothing is decoded that nobody asks for: an edit costs its own
//! entries, a checksum from the first of them on, and the writing. Pure.
//!
//! **Invariant:** the bytes are a file that git reads, in git's order, after every step.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::stat::Time;
use gix::index::entry::{Flags, Mode, Stat};

use crate::history::index_sum::Sum;
use crate::history::index_trees::invalidated;

/// Signature, version and the number of entries.
const HEADER: usize = 12;
/// The stat and the mode of an entry, in front of its id.
const STAT: usize = 40;
/// The bits of the flags that say how long a path is; where all are set, its end does.
const PATH_LEN: u16 = 0xfff;
const EXTENDED: u16 = 0x4000;

/// An entry, decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub path: &'a BStr,
    pub id: ObjectId,
    pub mode: Mode,
    pub stat: Stat,
    pub flags: Flags,
}

impl Entry<'_> {
    /// Which side of a conflict it is; 0 for none.
    pub fn stage(&self) -> u32 {
        self.flags.stage_raw()
    }
}

/// One entry of a batch; `None` takes it out.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    pub path: BString,
    pub new: Option<(ObjectId, Mode, Stat)>,
}

/// The file, but for its checksum and what is only kept for git's own speed.
#[derive(Debug)]
pub(super) struct Image {
    hash: gix::hash::Kind,
    /// Header and entries.
    bytes: Vec<u8>,
    /// Where each entry begins.
    starts: Vec<u32>,
    /// The body of the extension `TREE`, if there is one.
    trees: Vec<u8>,
    is_skipping: bool,
    sum: Sum,
    /// The entry behind the one that was asked for last: mostly the next to be asked for.
    next: AtomicUsize,
}

impl Image {
    /// None at all.
    pub fn empty(hash: gix::hash::Kind) -> Self {
        let bytes = [b"DIRC".as_slice(), &[0, 0, 0, 2], &[0; 4]].concat();
        Self {
            hash,
            bytes,
            starts: Vec::new(),
            trees: Vec::new(),
            is_skipping: false,
            sum: Sum::new(hash),
            next: AtomicUsize::new(0),
        }
    }

    /// The image of a file without its checksum; `None` where it is not simply a list of entries:
    /// version 4, split, sparse, or damaged.
    pub fn of(mut bytes: Vec<u8>, hash: gix::hash::Kind) -> Option<Self> {
        let version = bytes.strip_prefix(b"DIRC")?.first_chunk().map(|it| u32::from_be_bytes(*it));
        if !matches!(version, Some(2 | 3)) || u32::try_from(bytes.len()).is_err() {
            return None;
        }
        let count = u32::from_be_bytes(*bytes.get(8..HEADER)?.first_chunk()?) as usize;
        let mut image = Self { starts: Vec::new(), ..Self::empty(hash) };
        // Not by a count that a damaged file names.
        image.starts.reserve_exact(count.min(bytes.len() / (STAT + 8)));
        let mut at = HEADER;
        let mut last: Option<(&[u8], u32)> = None;
        for _ in 0..count {
            let (path, flags, end) = framed(&bytes, at, hash.len_in_bytes())?;
            let key = (path, flags.stage_raw());
            if path.is_empty() || last.is_some_and(|it| it >= key) {
                return None;
            }
            last = Some(key);
            if flags.contains(Flags::EXTENDED) && version != Some(3) {
                return None;
            }
            image.is_skipping |= flags.contains(Flags::SKIP_WORKTREE);
            image.starts.push(u32::try_from(at).ok()?);
            at = end;
        }
        let entries_end = at;
        while at < bytes.len() {
            let (name, len) = bytes.get(at..at + 8)?.split_at(4);
            let len = u32::from_be_bytes(*len.first_chunk()?) as usize;
            let body = at + 8..at + 8 + len;
            let content = bytes.get(body.clone())?;
            if name == b"TREE" {
                image.trees = content.to_vec();
            } else if !name[0].is_ascii_uppercase() {
                // Git must understand it, so must we.
                return None;
            }
            at = body.end;
        }
        bytes.truncate(entries_end);
        bytes.shrink_to_fit();
        image.bytes = bytes;
        Some(image)
    }

    pub fn hash(&self) -> gix::hash::Kind {
        self.hash
    }

    /// Whether an entry is marked as absent from the disk.
    pub fn is_skipping(&self) -> bool {
        self.is_skipping
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = Entry<'_>> {
        (0..self.len()).map(|it| self.at(it))
    }

    /// The entry at `path`, conflicts aside.
    pub fn entry(&self, path: &BStr) -> Option<Entry<'_>> {
        let first = match self.next.load(Ordering::Relaxed) {
            next if self.starts.get(next).is_some_and(|it| self.path(*it) == path) => next,
            _ => self.starts.partition_point(|it| self.path(*it) < path),
        };
        let entry = (first < self.len()).then(|| self.at(first))?;
        self.next.store(first + 1, Ordering::Relaxed);
        (entry.path == path && entry.stage() == 0).then_some(entry)
    }

    /// All entries at `path`; more than one where it is in conflict.
    pub fn range(&self, path: &BStr) -> Range<usize> {
        let first = self.starts.partition_point(|it| self.path(*it) < path);
        let count = self.starts[first..].iter().take_while(|it| self.path(**it) == path).count();
        first..first + count
    }

    /// The paths that begin with `prefix`.
    pub fn below<'a>(&'a self, prefix: &BStr) -> impl Iterator<Item = &'a BStr> {
        let first = self.starts.partition_point(|it| self.path(*it) < prefix);
        let prefix = prefix.to_owned();
        let paths = self.starts[first..].iter().map(|it| self.path(*it));
        paths.take_while(move |it| it.starts_with(&prefix))
    }

    pub fn at(&self, number: usize) -> Entry<'_> {
        let start = self.starts[number] as usize;
        let id_end = start + STAT + self.hash.len_in_bytes();
        let word = |n: usize| be32(&self.bytes, start + 4 * n);
        let time = |n: usize| Time { secs: word(n), nsecs: word(n + 1) };
        Entry {
            path: self.path(self.starts[number]),
            id: ObjectId::from_bytes_or_panic(&self.bytes[start + STAT..id_end]),
            mode: Mode::from_bits_truncate(word(6)),
            stat: Stat {
                ctime: time(0),
                mtime: time(2),
                dev: word(4),
                ino: word(5),
                uid: word(7),
                gid: word(8),
                size: word(9),
            },
            flags: flags_at(&self.bytes, id_end),
        }
    }

    /// The paths whose file was changed in this second or later.
    pub fn younger(&self, second: u32) -> Vec<BString> {
        let is_young = |start: usize| {
            be32(&self.bytes, start) >= second || be32(&self.bytes, start + 8) >= second
        };
        let young = self.starts.iter().filter(|it| is_young(**it as usize));
        young.map(|it| self.path(*it).to_owned()).collect()
    }

    /// Makes git look at the file of an entry: its size becomes 0.
    pub fn distrust(&mut self, number: usize) {
        let at = self.starts[number] as usize + STAT - 4;
        if self.bytes[at..at + 4] != [0; 4] {
            self.bytes[at..at + 4].fill(0);
            self.sum.forget_from(at);
        }
    }

    /// Puts the batch in.
    pub fn patch(&mut self, patches: &[Patch]) -> Result<(), TooLarge> {
        // In order, and the last one of each path.
        let patches: BTreeMap<_, _> = patches.iter().map(|it| (&it.path, it)).collect();
        let patches: Vec<&Patch> = patches.into_values().collect();
        let places: Vec<_> = patches.iter().map(|it| self.range(it.path.as_bstr())).collect();
        let is_in_place = |(patch, place): (&&Patch, &Range<usize>)| match &patch.new {
            Some(_) => place.len() == 1 && !self.at(place.start).flags.contains(Flags::EXTENDED),
            None => place.is_empty(),
        };
        if patches.iter().zip(&places).all(is_in_place) {
            for (patch, place) in patches.iter().zip(&places) {
                let Some(new) = &patch.new else { continue };
                let start = self.starts[place.start] as usize;
                let entry = encoded(new, patch.path.as_bstr());
                self.bytes[start..start + entry.len()].copy_from_slice(&entry);
                self.sum.forget_from(start);
            }
        } else {
            self.rebuild(&patches, &places)?;
        }
        let paths: Vec<&BStr> = patches.iter().map(|it| it.path.as_bstr()).collect();
        if let Some(trees) = invalidated(&self.trees, self.hash.len_in_bytes(), &paths) {
            self.trees = trees;
        }
        Ok(())
    }

    /// With entries that come or go: what lies between is copied as it is.
    fn rebuild(&mut self, patches: &[&Patch], places: &[Range<usize>]) -> Result<(), TooLarge> {
        let more: usize =
            patches.iter().map(|it| STAT + 8 + self.hash.len_in_bytes() + it.path.len()).sum();
        let mut bytes = Vec::with_capacity(self.bytes.len() + more);
        let mut starts = Vec::with_capacity(self.len() + patches.len());
        bytes.extend_from_slice(&self.bytes[..HEADER]);
        let begin = |number: usize| match self.starts.get(number) {
            Some(start) => *start as usize,
            None => self.bytes.len(),
        };
        let mut first_change = self.bytes.len();
        let mut next = 0;
        let ends = places.iter().map(|it| it.start).chain([self.len()]);
        for (at, end) in ends.enumerate() {
            let from = begin(next);
            let delta = bytes.len();
            for start in &self.starts[next..end.max(next)] {
                starts.push(*start as usize - from + delta);
            }
            bytes.extend_from_slice(&self.bytes[from..begin(end.max(next))]);
            let (Some(patch), Some(place)) = (patches.get(at), places.get(at)) else { break };
            first_change = first_change.min(bytes.len());
            next = place.end.max(next);
            let Some(new) = &patch.new else { continue };
            starts.push(bytes.len());
            let start = bytes.len();
            bytes.extend_from_slice(&encoded(new, patch.path.as_bstr()));
            bytes.extend_from_slice(&patch.path);
            // One to eight zeroes.
            let len = (bytes.len() - start + 8) & !7;
            bytes.resize(start + len, 0);
        }
        let count = u32::try_from(starts.len()).map_err(|_| TooLarge)?;
        if u32::try_from(bytes.len()).is_err() {
            return Err(TooLarge);
        }
        let header = &mut bytes[8..HEADER];
        if *header != count.to_be_bytes() {
            header.copy_from_slice(&count.to_be_bytes());
            first_change = 0;
        }
        bytes.shrink_to_fit();
        self.starts = starts.into_iter().map(|it| it as u32).collect();
        self.bytes = bytes;
        self.sum.forget_from(first_change);
        Ok(())
    }

    /// The file: header and entries, then all that is behind them, without a checksum where git is
    /// told to do without.
    pub fn file(&mut self, skip_hash: bool) -> (&[u8], Vec<u8>) {
        let mut rest = Vec::with_capacity(self.trees.len() + 64);
        if !self.trees.is_empty() {
            rest.extend_from_slice(b"TREE");
            rest.extend_from_slice(&(self.trees.len() as u32).to_be_bytes());
            rest.extend_from_slice(&self.trees);
        }
        let sum = match skip_hash {
            true => self.hash.null().as_bytes().to_vec(),
            false => self.sum.of(&self.bytes, &[&rest]),
        };
        rest.extend_from_slice(&sum);
        (&self.bytes, rest)
    }

    /// Bytes hashed for all the files so far.
    #[cfg(test)]
    pub fn hashed(&self) -> u64 {
        self.sum.work()
    }

    /// The path of the entry that begins at `start`.
    fn path(&self, start: u32) -> &BStr {
        let flags = start as usize + STAT + self.hash.len_in_bytes();
        path_at(&self.bytes, flags).unwrap_or_default().as_bstr()
    }
}

/// A file that would be larger than git's index can be.
#[derive(Debug, thiserror::Error)]
#[error("Index of more than 4 GB")]
pub(super) struct TooLarge;

/// Path, flags and end of the entry at `at`.
fn framed(bytes: &[u8], at: usize, id_len: usize) -> Option<(&[u8], Flags, usize)> {
    let after_id = at + STAT + id_len;
    let path = path_at(bytes, after_id)?;
    let path_start = path.as_ptr() as usize - bytes.as_ptr() as usize;
    let end = at + ((path_start + path.len() - at + 8) & !7);
    let flags = flags_at(bytes, after_id);
    let known = Flags::INTENT_TO_ADD | Flags::SKIP_WORKTREE;
    let is_known = (flags.bits() >> 16) & !(known.bits() >> 16) == 0;
    // A name with an end in its middle is none.
    let is_whole = end <= bytes.len() && bytes[path_start + path.len()] == 0;
    (is_known && is_whole && !path.contains(&0)).then_some((path, flags, end))
}

/// The path behind the flags that are at `flags`.
fn path_at(bytes: &[u8], flags: usize) -> Option<&[u8]> {
    let word = u16::from_be_bytes(*bytes.get(flags..)?.first_chunk()?);
    let start = flags + if word & EXTENDED == 0 { 2 } else { 4 };
    match word & PATH_LEN {
        PATH_LEN => {
            let rest = bytes.get(start..)?;
            rest.get(..rest.find_byte(0)?)
        }
        len => bytes.get(start..start + len as usize),
    }
}

/// The flags at `at`, in memory's form; how long the path is is left out.
fn flags_at(bytes: &[u8], at: usize) -> Flags {
    let word = |at: usize| u32::from(bytes[at]) << 8 | u32::from(bytes[at + 1]);
    let low = word(at);
    let high = if low & u32::from(EXTENDED) == 0 { 0 } else { word(at + 2) };
    Flags::from_bits_retain(high << 16 | low & !u32::from(PATH_LEN))
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |it| u32::from_be_bytes(*it))
}

/// An entry as the file has it, up to its path.
fn encoded((id, mode, stat): &(ObjectId, Mode, Stat), path: &BStr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(STAT + id.as_bytes().len() + 2);
    let (ctime, mtime) = (stat.ctime, stat.mtime);
    for word in [
        ctime.secs,
        ctime.nsecs,
        mtime.secs,
        mtime.nsecs,
        stat.dev,
        stat.ino,
        mode.bits(),
        stat.uid,
        stat.gid,
        stat.size,
    ] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(id.as_bytes());
    let len = u16::try_from(path.len()).unwrap_or(PATH_LEN).min(PATH_LEN);
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes
}

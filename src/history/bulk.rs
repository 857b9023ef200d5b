//! Many new blobs at once: packs instead of a file each.
//!
//! Takes contents, gives their ids; they can be read once [`Bulk::finish`] has returned. A few
//! become loose objects, as git does it; many become packs of some megabytes, so that 100,000
//! notes are a handful of files and not 100,000. Committer thread only.
//!
//! **Invariant:** a pack has its name only when all of it is on the disk. One that is cut short is
//! a `tmp_pack_…` that `git gc` removes, and whole ones are found again: an adoption that was
//! killed goes on where it was.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::zlib::stream::deflate::{Compress, FlushCompress};
use gix::zlib::{Compression, Status};

use crate::base::fs::{self, PathError};
use crate::history::error::{GitError, git};
use crate::history::objects;
use crate::history::shared::Shared;

/// So many new blobs are written one by one …
const FEW: usize = 256;
/// … as long as they are no more than this together.
const FEW_BYTES: usize = 4 << 20;
/// What is larger is written alone.
const LARGE: usize = 1 << 20;
/// A pack is closed when it has grown to this.
const PACK_BYTES: usize = 16 << 20;

/// New blobs of one look.
pub(super) struct Bulk<'repo> {
    repo: &'repo gix::Repository,
    /// Not yet enough for a pack.
    first: Vec<(ObjectId, Vec<u8>)>,
    /// Written as files of their own.
    alone: Vec<ObjectId>,
    first_bytes: usize,
    pack: Option<Pack>,
    /// All that was taken.
    known: HashSet<ObjectId>,
}

/// A pack in memory.
struct Pack {
    bytes: Vec<u8>,
    /// Each with the checksum of its bytes and where they start.
    entries: Vec<(ObjectId, u32, u32)>,
    deflate: Compress,
}

impl<'repo> Bulk<'repo> {
    pub fn new(repo: &'repo gix::Repository) -> Self {
        Self {
            repo,
            first: Vec::new(),
            alone: Vec::new(),
            first_bytes: 0,
            pack: None,
            known: HashSet::new(),
        }
    }

    /// Takes a blob.
    pub fn write(&mut self, bytes: Vec<u8>) -> Result<ObjectId, GitError> {
        if bytes.len() > LARGE {
            return self.write_alone(&bytes);
        }
        let kind = gix::object::Kind::Blob;
        let id = gix::objs::compute_hash(self.repo.object_hash(), kind, &bytes);
        let id = git("write a blob", id)?;
        if !self.known.insert(id) || self.pack.is_some() && self.is_packed(&id) {
            return Ok(id);
        }
        match &mut self.pack {
            Some(pack) => pack.add(id, &bytes)?,
            None => {
                self.first_bytes += bytes.len();
                self.first.push((id, bytes));
                if self.first.len() > FEW || self.first_bytes > FEW_BYTES {
                    let mut pack = Pack::new(self.repo.object_hash());
                    for (id, bytes) in std::mem::take(&mut self.first) {
                        if !self.is_packed(&id) {
                            pack.add(id, &bytes)?;
                        }
                    }
                    self.pack = Some(pack);
                }
            }
        }
        if self.pack.as_ref().is_some_and(|it| it.bytes.len() >= PACK_BYTES) {
            self.close_pack()?;
        }
        Ok(id)
    }

    /// Writes what still waits; gives all that are files of their own, to be synced. A few are
    /// that whatever a pack is said to hold: see [`objects::write`].
    pub fn finish(&mut self) -> Result<Vec<ObjectId>, GitError> {
        for (_, bytes) in std::mem::take(&mut self.first) {
            self.write_alone(&bytes)?;
        }
        self.first_bytes = 0;
        self.close_pack()?;
        self.pack = None;
        Ok(std::mem::take(&mut self.alone))
    }

    fn write_alone(&mut self, bytes: &[u8]) -> Result<ObjectId, GitError> {
        let id = objects::write(self.repo, gix::objs::Kind::Blob, bytes)?;
        self.alone.push(id);
        Ok(id)
    }

    /// Whether an earlier try has written it.
    fn is_packed(&self, id: &ObjectId) -> bool {
        self.repo.objects.exists_without_refresh(id)
    }

    fn close_pack(&mut self) -> Result<(), GitError> {
        let Some(pack) = self.pack.as_mut().filter(|it| !it.entries.is_empty()) else {
            return Ok(());
        };
        let hash = self.repo.object_hash();
        let full = std::mem::replace(pack, Pack::new(hash));
        let folder = self.repo.objects.store_ref().path().join("pack");
        full.write(hash, &folder, Shared::of(self.repo)?)
    }
}

impl Pack {
    fn new(hash: gix::hash::Kind) -> Self {
        let mut bytes = Vec::with_capacity(PACK_BYTES + LARGE);
        bytes.extend_from_slice(b"PACK\0\0\0\x02\0\0\0\0");
        let per_blob = 12 + hash.len_in_bytes();
        let entries = Vec::with_capacity(PACK_BYTES / 1024 / per_blob * per_blob);
        Self { bytes, entries, deflate: Compress::new(Compression::DEFAULT) }
    }

    fn add(&mut self, id: ObjectId, blob: &[u8]) -> Result<(), GitError> {
        let start = self.bytes.len();
        // Kind 3 is a blob; its length follows, four bits and then seven at a time.
        let mut rest = blob.len() >> 4;
        let mut byte = 3 << 4 | low_bits(blob.len(), 4);
        while rest > 0 {
            self.bytes.push(byte | 0x80);
            byte = low_bits(rest, 7);
            rest >>= 7;
        }
        self.bytes.push(byte);
        let data = self.bytes.len();
        self.bytes.resize(data + blob.len() + blob.len() / 256 + 128, 0);
        self.deflate.reset();
        let all = FlushCompress::Finish;
        let status = self.deflate.compress(blob, &mut self.bytes[data..], all);
        if git("compress a blob", status)? != Status::StreamEnd {
            return git("compress a blob", Err("it grew too much"));
        }
        let length = git("compress a blob", usize::try_from(self.deflate.total_out()))?;
        self.bytes.truncate(data + length);
        let offset = git("write a pack", u32::try_from(start))?;
        self.entries.push((id, crc32fast::hash(&self.bytes[start..]), offset));
        Ok(())
    }

    /// Writes the pack and then its index, each under its name only when it is on the disk.
    fn write(
        mut self,
        hash: gix::hash::Kind,
        folder: &Path,
        shared: Shared,
    ) -> Result<(), GitError> {
        let count = git("write a pack", u32::try_from(self.entries.len()))?;
        self.bytes[8..12].copy_from_slice(&count.to_be_bytes());
        let checksum = checksum(hash, &self.bytes)?;
        self.bytes.extend_from_slice(checksum.as_slice());
        let name = format!("pack-{}", checksum.to_hex());
        let index = index_of(hash, self.entries, checksum)?;
        let place = |extension: &str| folder.join(format!("{name}.{extension}"));
        let written = shared
            .create_dir_all(folder)
            .and_then(|()| write_named(folder, &place("pack"), &self.bytes, shared))
            .and_then(|()| write_named(folder, &place("idx"), &index, shared))
            .and_then(|()| fs::sync_dir(folder));
        git("write a pack", written)
    }
}

/// The index of a pack, version 2.
fn index_of(
    hash: gix::hash::Kind,
    mut entries: Vec<(ObjectId, u32, u32)>,
    pack: ObjectId,
) -> Result<Vec<u8>, GitError> {
    entries.sort_unstable_by_key(|it| it.0);
    let mut bytes = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..=u8::MAX {
        let up_to = entries.partition_point(|it| it.0.first_byte() <= first);
        bytes.extend_from_slice(&git("write a pack", u32::try_from(up_to))?.to_be_bytes());
    }
    entries.iter().for_each(|it| bytes.extend_from_slice(it.0.as_slice()));
    entries.iter().for_each(|it| bytes.extend_from_slice(&it.1.to_be_bytes()));
    entries.iter().for_each(|it| bytes.extend_from_slice(&it.2.to_be_bytes()));
    bytes.extend_from_slice(pack.as_slice());
    let own = checksum(hash, &bytes)?;
    bytes.extend_from_slice(own.as_slice());
    Ok(bytes)
}

fn checksum(hash: gix::hash::Kind, bytes: &[u8]) -> Result<ObjectId, GitError> {
    let mut hasher = gix::hash::hasher(hash);
    hasher.update(bytes);
    git("write a pack", hasher.try_finalize())
}

fn write_named(folder: &Path, place: &Path, bytes: &[u8], shared: Shared) -> Result<(), PathError> {
    // A name by which git knows what is left over.
    let unfinished: PathBuf = folder.join(format!("tmp_pack_remd{}", std::process::id()));
    fs::remove_file(&unfinished)?;
    let write = || {
        let mut file = fs::create_new_read_only(&unfinished)?;
        fs::at("write", &unfinished, file.write_all(bytes))?;
        shared.adjust(&unfinished)?;
        fs::at("sync", &unfinished, file.sync_all())?;
        fs::rename(&unfinished, place)
    };
    let written = write();
    if written.is_err() {
        // What stopped the write may stop this too; git removes it in time.
        let _removed = fs::remove_file(&unfinished);
    }
    written
}

fn low_bits(value: usize, bits: u32) -> u8 {
    u8::try_from(value & ((1 << bits) - 1)).unwrap_or(0)
}

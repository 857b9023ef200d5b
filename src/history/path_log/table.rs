//! The table, to read.
//!
//! Takes its folder, gives commits by number and the numbers of those that changed a path. Any
//! thread, any process, beside the writer.
//!
//! **Invariant:** what is read belongs to one manifest; a folder that is not valid for this
//! repository as it is now gives no table.

use std::path::{Path, PathBuf};

use gix::ObjectId;
use serde::{Deserialize, Serialize};

use super::format::{Added, Commits, Posting, RECORD, VERSION, framed, frames, tail, word};
use super::segment::{Segment, SegmentError};
use crate::base::fs::{self, PathError};
use crate::base::trouble::told;
use crate::history::error::{GitError, git};
use crate::history::place::Place;

/// A merge of segments takes some away while they are opened: so often is the manifest read again.
const TRIES: usize = 5;

/// For which repository a table holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    version: u32,
    /// Bytes of an id.
    hash: usize,
    /// Where the vault lies in it, and where a shallow clone ends: another start of history makes
    /// other changes.
    place: u32,
    shallow: u32,
}

impl Identity {
    pub fn of(repo: &gix::Repository, place: &Place) -> Result<Self, GitError> {
        let shallow = git("read what a shallow clone left out", repo.shallow_commits())?;
        let ids: Vec<u8> =
            shallow.iter().flat_map(|it| it.iter()).flat_map(|it| it.as_bytes().to_vec()).collect();
        Ok(Self {
            version: VERSION,
            hash: repo.object_hash().len_in_bytes(),
            place: crc32fast::hash(&place.prefix),
            shallow: crc32fast::hash(&ids),
        })
    }
}

/// What is valid in the folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    pub identity: Identity,
    /// Records in `commits`.
    pub commits: u32,
    /// Bytes of `gone`.
    pub gone: u64,
    /// Oldest first: the number in the name, and how many postings.
    pub segments: Vec<(u64, u64)>,
    pub tail: u64,
    /// The number of the next file.
    pub next: u64,
}

impl Manifest {
    pub fn new(identity: Identity) -> Self {
        Self { identity, commits: 0, gone: 0, segments: Vec::new(), tail: 0, next: 1 }
    }

    pub fn read(dir: &Path) -> Result<Option<Self>, PathError> {
        let Some(bytes) = fs::read_if_there(&dir.join("manifest"))? else { return Ok(None) };
        let (bodies, _) = frames(&bytes);
        Ok(bodies.first().and_then(|it| serde_json::from_slice(it).ok()))
    }

    pub fn write(&self, dir: &Path) -> Result<(), PathError> {
        // Numbers only: nothing in it that JSON cannot hold.
        let body = serde_json::to_vec(self).unwrap_or_default();
        fs::write_atomic(&dir.join("manifest"), &framed(&body))
    }
}

pub fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("segment-{number}"))
}

pub fn tail_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("tail-{number}"))
}

/// What a folder holds, whole.
pub struct Read {
    pub manifest: Manifest,
    /// Without the tail's.
    pub commits: Commits,
    pub tail: Vec<Added>,
    /// Bytes behind the tail's last whole frame.
    pub torn: bool,
}

impl Read {
    /// `None` where there is no table, or none that holds for this repository.
    pub fn of(dir: &Path, identity: &Identity) -> Result<Option<Self>, PathError> {
        let Some(manifest) = Manifest::read(dir)?.filter(|it| it.identity == *identity) else {
            return Ok(None);
        };
        let mut bytes = fs::read_if_there(&dir.join("commits"))?.unwrap_or_default();
        let valid = manifest.commits as usize * RECORD;
        if bytes.len() < valid {
            return Ok(None);
        }
        bytes.truncate(valid);
        let mut commits = Commits::default();
        if commits.read(&bytes).is_none() {
            return Ok(None);
        }
        let bytes = fs::read_if_there(&tail_path(dir, manifest.tail))?.unwrap_or_default();
        let (tail, length) = tail(&bytes);
        Ok(Some(Self { manifest, commits, tail, torn: length < bytes.len() }))
    }
}

/// The number of a commit, and a path that it deleted.
pub type Gone = (u32, Vec<u8>);

/// A table that is open.
pub struct Table {
    dir: PathBuf,
    manifest: Manifest,
    pub commits: Commits,
    tail: Vec<Added>,
    segments: Vec<Segment>,
}

impl Table {
    /// `None` where there is none that holds.
    pub fn open(dir: &Path, repo: &gix::Repository, place: &Place) -> Option<Self> {
        let identity = Identity::of(repo, place).ok()?;
        for _ in 0..TRIES {
            match Self::try_open(dir, &identity) {
                Ok(found) => return found,
                Err(err) => tracing::debug!(err = %told(&err), "the table of paths is read again"),
            }
        }
        None
    }

    fn try_open(dir: &Path, identity: &Identity) -> Result<Option<Self>, SegmentError> {
        let Some(read) = Read::of(dir, identity)? else { return Ok(None) };
        let Read { manifest, mut commits, tail, .. } = read;
        for added in &tail {
            if commits.read(&added.records).is_none() {
                return Ok(None);
            }
        }
        let segments =
            manifest.segments.iter().map(|it| Segment::open(&segment_path(dir, it.0), it.1));
        let segments = segments.collect::<Result<_, _>>()?;
        Ok(Some(Self { dir: dir.to_owned(), manifest, commits, tail, segments }))
    }

    /// The number of a commit.
    pub fn number(&self, id: ObjectId) -> Option<u32> {
        self.commits.find(id)
    }

    /// The commits that changed the path with this key, and perhaps some more.
    pub fn find(&self, key: u64) -> Result<Vec<Posting>, SegmentError> {
        let mut found = Vec::new();
        for segment in &self.segments {
            found.extend(segment.find(key)?);
        }
        let tail = self.tail.iter().flat_map(|it| &it.postings);
        found.extend(tail.filter(|it| it.key == key));
        Ok(found)
    }

    /// All that was deleted, oldest first. `None` where the file is damaged.
    pub fn gone(&self) -> Result<Option<Vec<Gone>>, PathError> {
        let mut bytes = fs::read_if_there(&self.dir.join("gone"))?.unwrap_or_default();
        let valid = usize::try_from(self.manifest.gone).unwrap_or(usize::MAX);
        if bytes.len() < valid {
            return Ok(None);
        }
        bytes.truncate(valid);
        let (bodies, length) = frames(&bytes);
        if length < valid {
            return Ok(None);
        }
        let mut found = Vec::new();
        for body in bodies {
            let Some(number) = word(body, 0) else { return Ok(None) };
            found.push((number, body[4..].to_vec()));
        }
        let mut number = self.manifest.commits;
        for added in &self.tail {
            found.extend(added.gone.iter().map(|it| (number, it.clone())));
            number += u32::try_from(added.records.len() / RECORD).unwrap_or(0);
        }
        Ok(Some(found))
    }
}

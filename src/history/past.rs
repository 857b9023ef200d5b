//! The vault at a commit, a folder at a time.
//!
//! Takes a commit and a folder, gives the names in it; takes a file, gives its size or its bytes. Any
//! thread.
//!
//! **Invariant:** a listing reads the tree objects on the way to its folder and the links in it, and
//! nothing else, however many notes the vault has.

use std::collections::HashSet;
use std::time::Instant;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::objs::tree::EntryMode;

use crate::base::clock;
use crate::history::error::{GitError, ReadError, git};
use crate::history::reader::{Reader, object_id, read_blob, tree_of};
use crate::history::snapshot::entry;
use crate::history::{pointer, readable, shape};
use crate::vault::listing::Found;
use crate::vault::{BlobId, CommitId, FileMode, Listing, VaultPath};

/// The most bytes of one file that are read: it is held in memory as a whole.
pub const LARGEST: u64 = 256 << 20;

/// The longest target of a link, as of most kernels.
const LONGEST_TARGET: u64 = 4096;

/// What a file of the past holds, as far as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Held {
    Size(u64),
    Bytes(Vec<u8>),
    /// More than [`LARGEST`].
    TooLarge(u64),
    /// A partial clone has left it with its remote.
    LeftOut,
}

impl Reader {
    /// The names in a folder of the vault at a commit, `None` where there is no such folder; the
    /// vault itself where none is named.
    pub fn folder(
        &self,
        commit: CommitId,
        folder: Option<&VaultPath>,
    ) -> Result<Option<Listing>, ReadError> {
        let repo = self.repo.to_thread_local();
        let mut tree = tree_of(&repo, commit)?;
        let inside = [self.place.prefix.as_slice(), folder.map_or(&[][..], VaultPath::as_bytes)];
        let names = inside.iter().flat_map(|it| it.split(|it| *it == b'/'));
        for name in names.filter(|it| !it.is_empty()) {
            match child(&repo, tree, name)? {
                Some((mode, id)) if mode.is_tree() => tree = id,
                // A submodule: nothing of it is here.
                Some((mode, _)) if mode.is_commit() => return Ok(Some(Listing::default())),
                _ => return Ok(None),
            }
        }
        let tree = git("read a tree", repo.find_tree(tree))?;
        let mut found: Vec<Found> = Vec::new();
        for row in tree.iter() {
            let row = git("read a tree", row)?;
            let (name, mode) = (row.filename().to_vec(), row.mode());
            if mode.is_tree() {
                found.push((name, None, None));
                continue;
            }
            let Some(entry) = entry((row.object_id(), mode.kind())) else { continue };
            let target = match entry.mode {
                FileMode::Symlink => Some(target(&repo, entry.blob)?),
                _ => None,
            };
            found.push((name, Some(entry), target));
        }
        Ok(Some(Listing::new(found)))
    }

    /// The files that commits changed last and that are there now, as far as `takes` takes them, the
    /// newest first and each once, at most `most`; and whether there was no time for all.
    pub fn changed_last(
        &self,
        from: CommitId,
        most: usize,
        takes: &dyn Fn(&VaultPath) -> bool,
        until: Instant,
    ) -> Result<(Vec<VaultPath>, bool), ReadError> {
        let mut walk = self.walk(Some(from), None)?;
        let mut seen = HashSet::new();
        let mut paths = Vec::new();
        while let Some(entry) = walk.step()? {
            if clock::now() >= until {
                return Ok((paths, true));
            }
            let parent = entry.parents.first().copied().filter(|it| self.exists(*it));
            // What a merge brought is told by the commits that it brought.
            if entry.is_merge() {
                continue;
            }
            for (path, change) in self.diff(parent, entry.commit)?.iter() {
                if change.new.is_some() && takes(path) && seen.insert(path.clone()) {
                    paths.push(path.clone());
                    if paths.len() >= most {
                        return Ok((paths, false));
                    }
                }
            }
        }
        Ok((paths, false))
    }

    /// When a commit was made: seconds since the epoch, by its committer.
    pub fn committed_at(&self, commit: CommitId) -> Result<i64, ReadError> {
        let repo = self.repo.to_thread_local();
        let missing = || ReadError::NotFound { what: "commit", name: commit.to_string() };
        let id = object_id(commit.as_bytes()).ok_or_else(missing)?;
        let commit = git("read a commit", repo.find_commit(id))?;
        Ok(git("read a commit", commit.time())?.seconds)
    }

    /// How long a file of the past is, as a person reads it: its bytes, where only they tell.
    pub fn past_size(&self, path: &VaultPath, blob: BlobId) -> Result<Held, ReadError> {
        let repo = self.repo.to_thread_local();
        let size = match blob_size(&repo, blob)? {
            Some(size) => size,
            None => return Ok(Held::LeftOut),
        };
        // Stored in another form, it is of another length.
        let is_plain = !pointer::may_be_lfs(size) && !pointer::is_encryption_known(&repo);
        match size > LARGEST || is_plain {
            true => Ok(Held::Size(size)),
            false => self.held(&repo, path, blob, size),
        }
    }

    /// What a file of the past holds, as a person reads it, or as it is stored where that can't be
    /// had here.
    pub fn past_bytes(&self, path: &VaultPath, blob: BlobId) -> Result<Held, ReadError> {
        let repo = self.repo.to_thread_local();
        match blob_size(&repo, blob)? {
            Some(size) => self.held(&repo, path, blob, size),
            None => Ok(Held::LeftOut),
        }
    }

    fn held(
        &self,
        repo: &gix::Repository,
        path: &VaultPath,
        blob: BlobId,
        size: u64,
    ) -> Result<Held, ReadError> {
        if size > LARGEST {
            return Ok(Held::TooLarge(size));
        }
        let stored = read_blob(repo, blob)?;
        if !pointer::is_lfs(&stored) && !pointer::is_encrypted(&stored) {
            return Ok(Held::Bytes(stored));
        }
        let turned = readable::turn_back(repo, &self.place, path, stored.clone())?;
        Ok(Held::Bytes(turned.unwrap_or(stored)))
    }
}

/// What is called `name` in a tree, read up to there.
fn child(
    repo: &gix::Repository,
    tree: ObjectId,
    name: &[u8],
) -> Result<Option<(EntryMode, ObjectId)>, GitError> {
    let tree = git("read a tree", repo.find_tree(tree))?;
    for row in tree.iter() {
        let row = git("read a tree", row)?;
        if row.filename().as_bytes() == name {
            return Ok(Some((row.mode(), row.object_id())));
        }
    }
    Ok(None)
}

/// Where a link points; nowhere, where that is not here or no path.
fn target(repo: &gix::Repository, blob: BlobId) -> Result<Box<[u8]>, ReadError> {
    match blob_size(repo, blob)? {
        Some(size) if size <= LONGEST_TARGET => Ok(read_blob(repo, blob)?.into()),
        _ => Ok(Box::default()),
    }
}

/// How long a blob is; `None` where a partial clone has left it out.
fn blob_size(repo: &gix::Repository, blob: BlobId) -> Result<Option<u64>, ReadError> {
    let missing = || ReadError::NotFound { what: "blob", name: blob.to_string() };
    let id = object_id(blob.as_bytes()).ok_or_else(missing)?;
    match git("read a blob", repo.try_find_header(id))? {
        Some(header) => Ok(Some(header.size())),
        None if shape::is_partial(repo) => Ok(None),
        None => Err(missing()),
    }
}

//! Trees in memory, and objects made durable.
//!
//! Takes a tree and edits, gives the new tree; takes the ids just written, gives them back synced.
//! Committer thread only.
//!
//! **Invariant:** nothing refers to an object before [`Objects::sync`] has returned for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::tree::{EntryKind, EntryMode};

use crate::base::fs::{self, PathError};
use crate::history::error::{GitError, git};
use crate::history::shared::Shared;

/// From how many objects on one flush of the file system is cheaper than one for each file.
const BULK: usize = 64;

/// One edit of a tree: the path in git and what it becomes.
pub(super) type TreeEdit = (BString, Option<(ObjectId, EntryKind)>);

/// Makes written objects durable.
#[derive(Debug)]
pub(super) struct Objects {
    dir: PathBuf,
    /// Fan-out folders whose own names are already synced, and which folder that was: git removes
    /// one that it has emptied, and the next object makes another.
    rooted: HashMap<PathBuf, FolderId>,
}

/// Inode and birth: an inode is used again, where the file system knows no birth it must do.
type FolderId = (u64, Option<SystemTime>);

impl Objects {
    pub fn new(repo: &gix::Repository) -> Self {
        Self { dir: repo.objects.store_ref().path().to_owned(), rooted: HashMap::new() }
    }

    /// Whether it still is a loose object: a `git prune` or `repack` sweeps what no reference names
    /// yet.
    pub fn is_loose(&self, id: &ObjectId) -> bool {
        fs::lstat_if_there(&loose_path(&self.dir, id)).is_ok_and(|it| it.is_some())
    }

    /// Forces the loose objects among `ids` and their folders to the disk, and the files `also`.
    ///
    /// Side by side: the disk flushes once for all that ask at the same time.
    pub fn sync(&mut self, ids: &[ObjectId], also: &[&Path]) -> Result<(), PathError> {
        if ids.len() > BULK {
            fs::sync_filesystem(&self.dir)?;
            return also.iter().try_for_each(|it| fs::sync_file(it));
        }
        let mut folders = BTreeMap::<PathBuf, BTreeSet<PathBuf>>::new();
        for id in ids {
            let file = loose_path(&self.dir, id);
            let Some(folder) = file.parent().map(Path::to_owned) else { continue };
            // What is not there was there before, in a pack.
            if fs::lstat_if_there(&file)?.is_some() {
                folders.entry(folder).or_default().insert(file);
            }
        }
        std::thread::scope(|scope| {
            let mut syncs: Vec<_> = folders
                .iter()
                .map(|(folder, files)| {
                    scope.spawn(|| {
                        files.iter().try_for_each(|it| unless_gone(fs::sync_file(it)))?;
                        unless_gone(fs::sync_dir(folder))
                    })
                })
                .collect();
            syncs.extend(also.iter().map(|it| scope.spawn(|| fs::sync_file(it))));
            syncs.into_iter().try_for_each(joined)
        })?;
        let mut is_rooted = true;
        for folder in folders.into_keys() {
            is_rooted &= self.take_for_rooted(folder)?;
        }
        if !is_rooted {
            fs::sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// Whether the name of a fan-out folder is synced already; from now on it is.
    fn take_for_rooted(&mut self, folder: PathBuf) -> Result<bool, PathError> {
        let Some(meta) = fs::lstat_if_there(&folder)? else { return Ok(true) };
        let id = (meta.ino(), meta.created().ok());
        Ok(self.rooted.insert(folder, id) == Some(id))
    }
}

/// A repack may take a loose object away at any moment; its pack is synced by git.
fn unless_gone(synced: Result<(), PathError>) -> Result<(), PathError> {
    match synced {
        Err(err) if err.is_absent() => Ok(()),
        synced => synced,
    }
}

/// Writes an object as a loose one, whatever the packs are said to hold.
///
/// The library's own way leaves out what a pack has, and goes on believing in a pack that a `git
/// gc` beside us has deleted; a loose object that is old may be swept before it is referred to, so
/// its time is renewed as git does.
pub(super) fn write(
    repo: &gix::Repository,
    kind: gix::objs::Kind,
    bytes: &[u8],
) -> Result<ObjectId, GitError> {
    use gix::objs::Write as _;
    let hash = gix::objs::compute_hash(repo.object_hash(), kind, bytes);
    let id = git("write an object", hash)?;
    let dir = repo.objects.store_ref().path();
    let path = loose_path(dir, &id);
    if fs::touch(&path).is_err() {
        let folder = path.parent().filter(|it| fs::lstat(it).is_err());
        let store = gix::odb::loose::Store::at(dir, repo.object_hash());
        git("write an object", store.write_buf_with_known_id(kind, bytes, id))?;
        let shared = Shared::of(repo)?;
        let mut made = [Some(path.as_path()), folder].into_iter().flatten();
        git("write an object", made.try_for_each(|it| shared.adjust(it)))?;
    }
    Ok(id)
}

/// The same for an object that is not encoded yet.
pub(super) fn write_object(
    repo: &gix::Repository,
    object: impl gix::objs::WriteTo,
) -> Result<ObjectId, GitError> {
    let mut bytes = Vec::new();
    git("write an object", object.write_to(&mut bytes))?;
    write(repo, object.kind(), &bytes)
}

fn loose_path(dir: &Path, id: &gix::oid) -> PathBuf {
    let hex = id.to_hex().to_string();
    let (fan, name) = hex.split_at(2);
    dir.join(fan).join(name)
}

/// What a thread gave; one that panicked ends us too.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Writes the trees that `edits` change below `base`, noting their ids in `written`.
pub(super) fn edit_tree(
    repo: &gix::Repository,
    base: ObjectId,
    edits: &[TreeEdit],
    written: &mut Vec<ObjectId>,
) -> Result<ObjectId, GitError> {
    let mut editor = git("read the tree", repo.edit_tree(base))?.detach();
    // Removals first: a file may take the place of a folder, and the other way round.
    for (path, new) in edits {
        if new.is_none() {
            git("edit the tree", editor.remove(components(path.as_bstr())))?;
        }
    }
    for (path, new) in edits {
        if let Some((id, kind)) = new {
            git("edit the tree", editor.upsert(components(path.as_bstr()), *kind, *id))?;
        }
    }
    let tree = editor.write(|tree| {
        let id = write_object(repo, tree)?;
        written.push(id);
        Ok::<_, GitError>(id)
    });
    git("write a tree", tree)
}

fn components(path: &BStr) -> impl Iterator<Item = &BStr> {
    path.split(|it| *it == b'/').map(ByteSlice::as_bstr)
}

/// A tree that is asked for many paths, each of its folders read once.
pub(super) struct TreeView<'repo> {
    repo: &'repo gix::Repository,
    root: Option<ObjectId>,
    folders: HashMap<BString, Option<Rc<Folder>>>,
}

/// One decoded tree object, by name.
#[derive(Debug, Default)]
struct Folder {
    names: Vec<u8>,
    entries: Vec<(std::ops::Range<usize>, EntryMode, ObjectId)>,
}

impl<'repo> TreeView<'repo> {
    /// `None` is the empty tree.
    pub fn new(repo: &'repo gix::Repository, root: Option<ObjectId>) -> Self {
        Self { repo, root, folders: HashMap::new() }
    }

    /// What the tree has at `path`.
    pub fn get(&mut self, path: &BStr) -> Result<Option<(EntryMode, ObjectId)>, GitError> {
        let (folder, name) = match path.rfind_byte(b'/') {
            Some(slash) => (path[..slash].as_bstr(), path[slash + 1..].as_bytes()),
            None => (b"".as_bstr(), path.as_bytes()),
        };
        Ok(self.folder(folder)?.and_then(|it| it.get(name)))
    }

    /// The file (not the folder) that the tree has at `path`.
    pub fn file(&mut self, path: &BStr) -> Result<Option<(EntryKind, ObjectId)>, GitError> {
        Ok(self.get(path)?.filter(|(mode, _)| !mode.is_tree()).map(|(mode, id)| (mode.kind(), id)))
    }

    fn folder(&mut self, path: &BStr) -> Result<Option<Rc<Folder>>, GitError> {
        if let Some(known) = self.folders.get(path) {
            return Ok(known.clone());
        }
        let id = if path.is_empty() {
            self.root
        } else {
            self.get(path)?.filter(|(mode, _)| mode.is_tree()).map(|it| it.1)
        };
        let folder = match id {
            Some(id) => Some(Rc::new(self.read(id)?)),
            None => None,
        };
        self.folders.insert(path.to_owned(), folder.clone());
        Ok(folder)
    }

    fn read(&self, id: ObjectId) -> Result<Folder, GitError> {
        let tree = git("read a tree", self.repo.find_tree(id))?;
        let mut folder = Folder::default();
        for entry in tree.iter() {
            let entry = git("read a tree", entry)?;
            let start = folder.names.len();
            folder.names.extend_from_slice(entry.filename());
            folder.entries.push((start..folder.names.len(), entry.mode(), entry.object_id()));
        }
        let names = std::mem::take(&mut folder.names);
        folder.entries.sort_by(|a, b| names[a.0.clone()].cmp(&names[b.0.clone()]));
        folder.names = names;
        Ok(folder)
    }
}

impl Folder {
    fn get(&self, name: &[u8]) -> Option<(EntryMode, ObjectId)> {
        let at = self.entries.binary_search_by(|it| self.names[it.0.clone()].cmp(name)).ok()?;
        let (_, mode, id) = &self.entries[at];
        Some((*mode, *id))
    }
}

/// Whether `git fsck --strict` lets a tree hold the path. It refuses what some file system takes for
/// `.git` (`git~1`, `.git ` on NTFS, also behind a backslash; zero-width letters in it on HFS+), and
/// a symlink that one takes for `.gitmodules`.
pub(super) fn may_stand_in_a_tree(rela: &BStr, is_link: bool) -> bool {
    use gix::validate::path::component;
    let rules =
        component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };
    let last = rela.split(|it| *it == b'/').count() - 1;
    rela.split(|it| *it == b'/').enumerate().all(|(at, name)| {
        let mode = (is_link && at == last).then_some(component::Mode::Symlink);
        // Git looks at what stands behind each backslash too.
        name.split(|it| *it == b'\\')
            .filter(|it| !matches!(it, [] | [b'.'] | [b'.', b'.']))
            .all(|part| gix::validate::path::component(part.as_bstr(), mode, rules).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `git gc` empties fan-out folders and removes them: the name of the next one, though it is
    /// the same, is not on the disk yet.
    #[test]
    fn a_folder_that_came_again_is_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, other) = (dir.path().join("17"), dir.path().join("other"));
        let mut objects = Objects { dir: dir.path().to_owned(), rooted: HashMap::new() };
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(&other).unwrap();
        assert!(!objects.take_for_rooted(folder.clone()).unwrap());
        assert!(objects.take_for_rooted(folder.clone()).unwrap());
        std::fs::remove_dir(&folder).unwrap();
        assert!(objects.take_for_rooted(folder.clone()).unwrap(), "nothing to sync");
        // Made before the first one went, it has another inode whatever the file system does.
        std::fs::rename(&other, &folder).unwrap();
        assert!(!objects.take_for_rooted(folder).unwrap(), "another folder of the same name");
    }
}

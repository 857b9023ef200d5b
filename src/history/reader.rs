//! Reads history, from any thread.
//!
//! Takes commits, paths and revisions, gives changes and contents; all paths are the
//! vault's own and nothing outside the vault is seen. Each call works on a handle of its own.
//!
//! **Invariant:** reads only objects and references, never the index, and the work tree only
//! where a caller asks for it by name.

use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::objs::tree::EntryKind;

use crate::history::error::{GitError, ReadError, git};
use crate::history::look::Version;
use crate::history::message;
use crate::history::objects::TreeView;
use crate::history::path_log::Table;
use crate::history::place::Place;
use crate::history::snapshot::entry;
use crate::history::{Head, commit_id, pointer, readable, shape, text};
use crate::vault::change::Entry;
use crate::vault::{BlobId, ChangeSet, CommitId, VaultPath};

/// A cheap handle for reading; clone it for every thread.
#[derive(Clone)]
pub struct Reader {
    pub(super) repo: gix::ThreadSafeRepository,
    pub(super) place: Place,
    /// Where the table of paths lies, if there is one.
    pub(super) path_log: Option<PathBuf>,
}

/// Contents of files.
pub struct Blobs(gix::Repository);

impl Blobs {
    /// The bytes of a blob; `None` where it is not here, damaged, or has more than so many.
    pub fn read(&self, blob: BlobId, most: u64) -> Option<Vec<u8>> {
        let id = object_id(blob.as_bytes())?;
        let header = self.0.try_find_header(id).ok()??;
        (header.size() <= most).then(|| read_blob(&self.0, blob).ok())?
    }
}

/// One side of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Nothing at all: before the first commit.
    Nothing,
    Commit(CommitId),
    /// The vault as it is on disk.
    Disk,
}

impl Reader {
    pub(super) fn new(repo: gix::ThreadSafeRepository, place: Place) -> Self {
        Self { repo, place, path_log: None }
    }

    /// The same, with a table of paths in this folder to look into; one that is not there, or does
    /// not hold, costs time only.
    pub fn with_path_log(mut self, folder: &Path) -> Self {
        self.path_log = Some(folder.to_owned());
        self
    }

    /// The table of paths.
    pub(super) fn table(&self, repo: &gix::Repository) -> Option<Table> {
        Table::open(self.path_log.as_deref()?, repo, &self.place)
    }

    /// Whether both are at the same place in their repository.
    pub fn is_at_the_place_of(&self, other: &Self) -> bool {
        self.place.prefix == other.place.prefix
    }

    /// Where HEAD is; `None` on an unborn branch.
    pub fn head(&self) -> Result<Option<Head>, ReadError> {
        head(&self.repo.to_thread_local())
    }

    /// What changed in the vault between two commits; from nothing where there is no first one.
    pub fn diff(&self, from: Option<CommitId>, to: CommitId) -> Result<ChangeSet, ReadError> {
        let repo = self.repo.to_thread_local();
        let old = match from {
            Some(from) => Some(tree_of(&repo, from)?),
            None => None,
        };
        self.changes(&repo, old, tree_of(&repo, to)?)
    }

    /// The bytes of a blob.
    pub fn read_blob(&self, blob: BlobId) -> Result<Vec<u8>, ReadError> {
        read_blob(&self.repo.to_thread_local(), blob)
    }

    /// For reading the contents of many files, on one thread.
    pub fn blobs(&self) -> Blobs {
        Blobs(self.repo.to_thread_local())
    }

    /// Whether a partial clone has left a blob with its remote.
    pub fn is_left_out(&self, blob: BlobId) -> bool {
        is_blob_left_out(&self.repo.to_thread_local(), blob)
    }

    /// The bytes of a note as a person reads it, or why they cannot be had.
    ///
    /// What git-crypt or LFS keep in another form is turned back, with a deadline and without the
    /// network; what any other filter stores is read as it is stored.
    pub fn read_note(
        &self,
        path: &VaultPath,
        blob: BlobId,
    ) -> Result<Result<Vec<u8>, String>, ReadError> {
        let bytes = self.read_blob(blob)?;
        if !pointer::is_lfs(&bytes) && !pointer::is_encrypted(&bytes) {
            return Ok(Ok(bytes));
        }
        readable::turn_back(&self.repo.to_thread_local(), &self.place, path, bytes)
    }

    /// What `path` is in a commit.
    pub fn entry(&self, commit: CommitId, path: &VaultPath) -> Result<Option<Entry>, ReadError> {
        let repo = self.repo.to_thread_local();
        let mut view = TreeView::new(&repo, Some(tree_of(&repo, commit)?));
        let found = view.file(self.place.rela(path).as_bstr())?;
        Ok(found.and_then(|(kind, id)| entry((id, kind))))
    }

    /// All files of the vault in a commit, sorted by path.
    pub fn list(&self, commit: CommitId) -> Result<Vec<(VaultPath, Entry)>, ReadError> {
        let repo = self.repo.to_thread_local();
        let changes = self.changes(&repo, None, tree_of(&repo, commit)?)?;
        Ok(changes.iter().filter_map(|(path, it)| Some((path.clone(), it.new?))).collect())
    }

    /// Whether the commit is there.
    pub fn exists(&self, commit: CommitId) -> bool {
        let repo = self.repo.to_thread_local();
        object_id(commit.as_bytes()).is_some_and(|it| repo.find_commit(it).is_ok())
    }

    /// Commits reachable from `to` and not from `from`, counted up to `limit`.
    pub fn count_between(
        &self,
        from: Option<CommitId>,
        to: CommitId,
        limit: usize,
    ) -> Result<usize, ReadError> {
        let repo = self.repo.to_thread_local();
        let hidden = from.and_then(|it| object_id(it.as_bytes()));
        let walk = repo.rev_walk([known(&repo, to)?]).with_hidden(hidden).all();
        Ok(git("walk the history", walk)?.take(limit).filter(Result::is_ok).count())
    }

    /// Whether `from` is `to` or among its ancestors.
    pub fn is_ancestor(&self, from: CommitId, to: CommitId) -> Result<bool, ReadError> {
        let repo = self.repo.to_thread_local();
        let (from, to) = (known(&repo, from)?, known(&repo, to)?);
        Ok(is_ancestor(&repo, from, to)?)
    }

    /// The commit that a revision names: a hash, a branch, a tag, `HEAD~2`.
    pub fn resolve(&self, revision: &str) -> Result<CommitId, ReadError> {
        let repo = self.repo.to_thread_local();
        let missing = || ReadError::NotFound { what: "revision", name: revision.to_owned() };
        let found = match repo.rev_parse_single(revision) {
            Ok(found) => found,
            Err(_) => {
                let whole = with_whole_id(&repo, revision).ok_or_else(missing)?;
                repo.rev_parse_single(whole.as_str()).map_err(|_| missing())?
            }
        };
        let object = git("read a commit", found.object())?;
        let commit = object.peel_to_kind(gix::objs::Kind::Commit).map_err(|_| missing())?;
        commit_id(&commit.id).ok_or_else(missing)
    }

    /// The first parent of a commit.
    pub fn parent(&self, commit: CommitId) -> Result<Option<CommitId>, ReadError> {
        let repo = self.repo.to_thread_local();
        let commit = git("read a commit", repo.find_commit(known(&repo, commit)?))?;
        let parent = commit.parent_ids().next().map(gix::Id::detach);
        Ok(parent.and_then(|it| commit_id(&it)))
    }

    /// The difference as unified diff text, of all paths or of one (a file or a folder).
    pub fn diff_text(
        &self,
        from: Side,
        to: Side,
        path: Option<&VaultPath>,
    ) -> Result<Vec<u8>, ReadError> {
        let repo = self.repo.to_thread_local();
        text::diff_text(&repo, &self.place, from, to, path)
    }

    pub(super) fn changes(
        &self,
        repo: &gix::Repository,
        old: Option<ObjectId>,
        new: ObjectId,
    ) -> Result<ChangeSet, ReadError> {
        vault_changes(repo, &self.place, old, Some(new))
    }
}

/// `revision` with the short id that it begins with written out.
///
/// Gix takes every short id for one of SHA-1, and finds none in a repository with longer ones.
fn with_whole_id(repo: &gix::Repository, revision: &str) -> Option<String> {
    let digits = revision.bytes().take_while(u8::is_ascii_hexdigit).count();
    let (short, rest) = revision.split_at(digits);
    let length = repo.object_hash().len_in_hex();
    if digits >= length || !(rest.is_empty() || rest.starts_with(['~', '^', ':', '@'])) {
        return None;
    }
    let padded = format!("{short:0<length$}");
    let padded = ObjectId::from_hex(padded.as_bytes()).ok()?;
    let prefix = gix::hash::Prefix::new(&padded, digits).ok()?;
    let found = repo.objects.lookup_prefix(prefix, None).ok()??.ok()?;
    Some(format!("{found}{rest}"))
}

/// Where HEAD is; `None` on an unborn branch.
pub(super) fn head(repo: &gix::Repository) -> Result<Option<Head>, ReadError> {
    let state = crate::history::refs::read_head(repo)?;
    let Some(id) = state.commit else { return Ok(None) };
    let commit = git("read a commit", repo.find_commit(id))?;
    let text = git("read a commit", commit.message_raw())?;
    let time = git("read a commit", commit.committer())?.time().unwrap_or_default();
    Ok(Some(Head {
        commit: commit_id(&id).ok_or_else(|| no_commit(&id.to_string()))?,
        branch: state.branch.map(|it| short_branch(it.as_bstr())),
        subject: message::parse(text).subject,
        time: time.seconds,
    }))
}

/// `refs/heads/main` → `main`.
pub(super) fn short_branch(name: &BStr) -> String {
    name.strip_prefix(b"refs/heads/").unwrap_or(name).to_str_lossy().into_owned()
}

/// One file in two trees: its path in git, before and after.
pub(super) type Step = (BString, Option<Version>, Option<Version>);

/// Whether `from` is `to` or among its ancestors.
pub(super) fn is_ancestor(
    repo: &gix::Repository,
    from: ObjectId,
    to: ObjectId,
) -> Result<bool, GitError> {
    let base = git("walk the history", repo.merge_base(from, to))?;
    Ok(base.is_some_and(|it| it.detach() == from))
}

/// The files that differ between two trees, by their paths in git.
pub(super) fn tree_changes(
    repo: &gix::Repository,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
) -> Result<Vec<Step>, GitError> {
    use gix::diff::tree::recorder::Change;
    let tree = |id: Option<ObjectId>| match id {
        Some(id) => git("read a tree", repo.find_tree(id)),
        None => Ok(repo.empty_tree()),
    };
    let (old, new) = (tree(old)?, tree(new)?);
    let mut recorder = gix::diff::tree::Recorder::default();
    let walked = gix::diff::tree(
        gix::objs::TreeRefIter::from_bytes(&old.data, repo.object_hash()),
        gix::objs::TreeRefIter::from_bytes(&new.data, repo.object_hash()),
        gix::diff::tree::State::default(),
        &repo.objects,
        &mut recorder,
    );
    git("compare trees", walked)?;
    let file = |mode: gix::objs::tree::EntryMode, id| (!mode.is_tree()).then(|| (id, mode.kind()));
    let mut files = Vec::with_capacity(recorder.records.len());
    for change in recorder.records {
        let (path, old, new) = match change {
            Change::Addition { entry_mode, oid, path, .. } => (path, None, file(entry_mode, oid)),
            Change::Deletion { entry_mode, oid, path, .. } => (path, file(entry_mode, oid), None),
            Change::Modification { previous_entry_mode, previous_oid, entry_mode, oid, path } => {
                (path, file(previous_entry_mode, previous_oid), file(entry_mode, oid))
            }
        };
        if old.is_some() || new.is_some() {
            files.push((path, old, new));
        }
    }
    Ok(files)
}

/// The same, only what lies in the vault and by its paths there.
pub(super) fn vault_changes(
    repo: &gix::Repository,
    place: &Place,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
) -> Result<ChangeSet, ReadError> {
    let below = |root: Option<ObjectId>| -> Result<Option<ObjectId>, GitError> {
        if place.prefix.is_empty() {
            return Ok(root);
        }
        let found = TreeView::new(repo, root).get(place.prefix.as_bstr())?;
        Ok(found.filter(|it| it.0.is_tree()).map(|it| it.1))
    };
    let mut changes = ChangeSet::default();
    for (path, old, new) in tree_changes(repo, below(old)?, below(new)?)? {
        // A name that no vault can have (`.GIT` and the like) is nobody's note.
        if let Ok(path) = VaultPath::new(path.as_bytes()) {
            changes.push(path, old.and_then(entry), new.and_then(entry));
        }
    }
    Ok(changes)
}

/// The files below a folder of a tree; the whole tree where `folder` is empty.
pub(super) fn files_below(
    repo: &gix::Repository,
    root: Option<ObjectId>,
    folder: &BStr,
) -> Result<Vec<BString>, GitError> {
    Ok(versions_below(repo, root, folder)?.into_iter().map(|it| it.0).collect())
}

/// The same with what they are.
pub(super) fn versions_below(
    repo: &gix::Repository,
    root: Option<ObjectId>,
    folder: &BStr,
) -> Result<Vec<(BString, Version)>, GitError> {
    let mut prefix = folder.to_owned();
    let root = match folder.is_empty() {
        true => root,
        false => {
            prefix.push(b'/');
            let found = TreeView::new(repo, root).get(folder)?;
            let Some((_, id)) = found.filter(|it| it.0.is_tree()) else { return Ok(Vec::new()) };
            Some(id)
        }
    };
    let files = tree_changes(repo, None, root)?;
    let versions = files.into_iter().filter_map(|(path, _, new)| {
        let mut whole = prefix.clone();
        whole.extend_from_slice(&path);
        Some((whole, new?))
    });
    Ok(versions.collect())
}

/// Whether a partial clone has left a file's content with its remote.
pub(super) fn is_left_out(repo: &gix::Repository, entry: Entry) -> bool {
    entry.mode != crate::vault::change::FileMode::Gitlink && is_blob_left_out(repo, entry.blob)
}

fn is_blob_left_out(repo: &gix::Repository, blob: BlobId) -> bool {
    let is_missing = |it: ObjectId| repo.try_find_header(it).is_ok_and(|it| it.is_none());
    object_id(blob.as_bytes()).is_some_and(is_missing) && shape::is_partial(repo)
}

/// The bytes of a blob.
pub(super) fn read_blob(repo: &gix::Repository, blob: BlobId) -> Result<Vec<u8>, ReadError> {
    let missing = || ReadError::NotFound { what: "blob", name: blob.to_string() };
    let id = object_id(blob.as_bytes()).ok_or_else(missing)?;
    let found = git("read a blob", repo.try_find_object(id))?.ok_or_else(missing)?;
    match found.kind {
        gix::objs::Kind::Blob => Ok(found.detach().data),
        _ => Err(missing()),
    }
}

/// The tree of a commit.
pub(super) fn tree_of(repo: &gix::Repository, commit: CommitId) -> Result<ObjectId, ReadError> {
    let commit = git("read a commit", repo.find_commit(known(repo, commit)?))?;
    Ok(git("read a commit", commit.tree_id())?.detach())
}

/// The kind of a vocabulary entry, as git has it.
pub(super) fn version(entry: Entry) -> Option<Version> {
    use crate::vault::change::FileMode;
    let kind = match entry.mode {
        FileMode::File => EntryKind::Blob,
        FileMode::Executable => EntryKind::BlobExecutable,
        FileMode::Symlink => EntryKind::Link,
        FileMode::Gitlink => EntryKind::Commit,
    };
    Some((object_id(entry.blob.as_bytes())?, kind))
}

pub(super) fn object_id(bytes: &[u8]) -> Option<ObjectId> {
    ObjectId::try_from(bytes).ok()
}

/// The id, where the repository has such a commit.
pub(super) fn known(repo: &gix::Repository, commit: CommitId) -> Result<ObjectId, ReadError> {
    let missing = || no_commit(&commit.to_string());
    let id = object_id(commit.as_bytes()).ok_or_else(missing)?;
    match git("read a commit", repo.try_find_header(id))? {
        Some(header) if header.kind() == gix::objs::Kind::Commit => Ok(id),
        _ => Err(missing()),
    }
}

pub(super) fn no_commit(name: &str) -> ReadError {
    ReadError::NotFound { what: "commit", name: name.to_owned() }
}

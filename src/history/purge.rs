//! Erases from the whole history what should never have been in it.
//!
//! Takes what to erase, gives what that is about; and, once a person has said yes, writes every
//! commit anew that has it, moves all local references, and removes the old objects. The only thing
//! here that rewrites history. Blocking; nobody else may write the repository meanwhile.
//!
//! **Invariant:** a commit that has nothing of it, nor an ancestor that has, stays the very same.
//! **Invariant:** references move only when all new objects are on the disk; a purge that was cut
//! short after that is finished by the next one, and named until then.
//! **Not here:** what others have fetched.

mod rewrite;
mod sweep;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::refs::Target;
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};

use crate::base::fs::PathError;
use crate::base::{fault, fs};
use crate::history::error::{GitError, ReadError, SnapshotError, git};
use crate::history::reader::{self, Reader};
use crate::history::refs::read_head;
use crate::history::signed::Signed;
use crate::history::{History, lock, place};
use crate::vault::change::Entry;
use crate::vault::path::c_quoted;
use crate::vault::{CommitId, VaultPath};
use rewrite::{Rewriter, Wanted};

/// Holds the contents of a purge that is not finished.
const NOTE: &str = "purging";

/// What a person wants to be gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PurgeTarget {
    /// Every version of a file, or of all below a folder; of a file also under its former names.
    Path(VaultPath),
    /// What one commit brought in.
    Commit(CommitId),
}

/// What a purge is about.
#[derive(Clone, Default, Debug)]
pub struct PurgePlan {
    wanted: Wanted,
    /// The names that it is about.
    pub paths: BTreeSet<VaultPath>,
    /// Versions that go.
    pub versions: usize,
    /// Commits that have one of them.
    pub commits: usize,
    /// Commits that get another id, as they or one before them have.
    pub rewritten: usize,
    /// Local references that move.
    pub references: Vec<String>,
    /// References to what remotes have that still hold it: they go, and the remotes keep it.
    pub remotes: Vec<String>,
    /// Where HEAD has the very same content under another name: it stays.
    pub elsewhere: BTreeSet<VaultPath>,
    /// Later versions that hold lines of it, and stay.
    pub later: BTreeMap<VaultPath, usize>,
    /// What HEAD has of it.
    pub in_head: BTreeSet<VaultPath>,
}

impl PurgePlan {
    pub fn is_empty(&self) -> bool {
        self.rewritten == 0
    }
}

/// Why nothing was erased, or not all of it yet.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    #[error("{what}")]
    Refused { what: String, remedy: &'static str },
    #[error("`git {command}` failed: {said}")]
    Git { command: &'static str, said: String },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

impl PurgeError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { remedy, .. } => Some((*remedy).to_owned()),
            Self::Git { .. } => Some("Mend that, and purge again: it goes on there.".to_owned()),
            Self::Read(err) => Some(err.hint()),
            Self::Snapshot(err) => err.hint(),
        }
    }
}

impl From<GitError> for PurgeError {
    fn from(err: GitError) -> Self {
        Self::Read(err.into())
    }
}

/// What is gone.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Purged {
    pub commits: usize,
    pub versions: usize,
    /// Contents that are still in the repository, as something else has them.
    pub left: usize,
}

/// A reference and the commit behind it.
struct Named {
    reference: gix::refs::FullName,
    /// What it points to itself: a commit, or the object of a tag.
    target: ObjectId,
    commit: ObjectId,
}

impl Named {
    fn is_remote(&self) -> bool {
        self.reference.as_bstr().starts_with(b"refs/remotes/")
    }
}

impl Reader {
    /// What a purge would be about.
    pub fn plan_purge(&self, target: &PurgeTarget) -> Result<PurgePlan, ReadError> {
        let repo = self.cached();
        let mut plan = PurgePlan::default();
        match target {
            PurgeTarget::Path(path) => {
                plan.wanted.all.insert(self.place.rela(path));
                plan.paths.insert(path.clone());
                self.add_former_names(path, &mut plan)?;
                for path in &plan.paths {
                    let names = [path.as_bytes().into(), c_quoted(path).as_bytes().into()];
                    plan.wanted.names.extend(names);
                }
            }
            PurgeTarget::Commit(commit) => self.add_commit(*commit, &mut plan)?,
        }
        let named = named(&repo)?;
        let tips: Vec<ObjectId> = named.iter().map(|it| it.commit).collect();
        let wanted = plan.wanted.clone();
        let mut rewriter = Rewriter::new(&repo, &wanted, false);
        rewriter.walk(&tips)?;
        (plan.commits, plan.versions) = (rewriter.with_it, rewriter.blobs.len());
        plan.rewritten = rewriter.changed().count();
        for it in named.iter().filter(|it| rewriter.is_changed(&it.commit)) {
            let name = it.reference.as_bstr().to_string();
            let list = if it.is_remote() { &mut plan.remotes } else { &mut plan.references };
            list.push(name);
        }
        let head = match self.head()? {
            Some(head) => self.list(head.commit)?,
            None => Vec::new(),
        };
        for (path, entry) in head {
            let Some((id, _)) = reader::version(entry) else { continue };
            if wanted.takes(self.place.rela(&path).as_bstr(), id) {
                plan.in_head.insert(path);
            } else if rewriter.blobs.contains(&id) && !id.is_empty_blob() {
                plan.elsewhere.insert(path);
            }
        }
        Ok(plan)
    }

    /// What a note was called before, version by version: another note may have that name by now.
    fn add_former_names(&self, path: &VaultPath, plan: &mut PurgePlan) -> Result<(), ReadError> {
        for version in self.versions(path, usize::MAX)? {
            let Some((id, _)) = version.entry.and_then(reader::version) else { continue };
            if version.path != *path {
                let rela = self.place.rela(&version.path);
                plan.wanted.some.entry(rela).or_default().insert(id, None);
                plan.paths.insert(version.path);
            }
        }
        Ok(())
    }

    /// What a commit made of each path becomes what it was before.
    fn add_commit(&self, commit: CommitId, plan: &mut PurgePlan) -> Result<(), ReadError> {
        let parent = self.parent(commit)?;
        for (path, change) in self.diff(parent, commit)?.iter() {
            let Some(new) = change.new else { continue };
            let Some((id, _)) = reader::version(new) else { continue };
            let old = change.old.and_then(reader::version);
            if old.is_some_and(|it| it.0 == id) {
                continue;
            }
            let rela = self.place.rela(path);
            plan.wanted.some.entry(rela).or_default().insert(id, old);
            plan.paths.insert(path.clone());
            let added =
                &self.lines(new)? - &change.old.map_or(Ok(BTreeSet::new()), |it| self.lines(it))?;
            let mut later = 0;
            let mut seen = HashSet::from([new.blob]);
            for version in self.versions(path, usize::MAX)? {
                if version.commit == commit {
                    break;
                }
                let Some(entry) = version.entry.filter(|it| seen.insert(it.blob)) else { continue };
                later += usize::from(!self.lines(entry)?.is_disjoint(&added));
            }
            if later > 0 {
                plan.later.insert(path.clone(), later);
            }
        }
        Ok(())
    }

    /// The lines of a file that say something.
    fn lines(&self, entry: Entry) -> Result<BTreeSet<Vec<u8>>, ReadError> {
        let bytes = self.read_blob(entry.blob)?;
        let lines = bytes.lines().filter(|it| !it.trim().is_empty());
        Ok(lines.map(<[u8]>::to_vec).collect())
    }
}

impl History {
    /// Erases it. HEAD must have nothing of it any more.
    pub fn purge(&mut self, target: &PurgeTarget) -> Result<Purged, PurgeError> {
        let refused =
            |what: &str, remedy| Err(PurgeError::Refused { what: what.to_owned(), remedy });
        let head = read_head(&self.repo)?;
        if head.branch.is_none() {
            return refused("HEAD is on no branch", "`git switch BRANCH`, and purge again.");
        }
        if let Some(operation) = self.operation(&head) {
            return Err(SnapshotError::Busy { operation, wip: None }.into());
        }
        let index_lock = place::lock_of(&self.place.index());
        if let Some(lock) = lock::present([index_lock]).pop() {
            return Err(self.with_owner(SnapshotError::Locked { lock, wip: None }).into());
        }
        if !git("list the work trees", self.repo.worktrees())?.is_empty()
            || self.place.git_dir != self.place.common_dir
        {
            return refused(
                "The repository has more than one work tree",
                "`git worktree list` names them; remove the others, and purge again.",
            );
        }
        if git("read a reference", self.repo.try_find_reference("refs/stash"))?.is_some() {
            return refused(
                "There is a stash, which would be lost",
                "`git stash pop` or `git stash drop` it, and purge again.",
            );
        }
        let plan = self.reader().plan_purge(target)?;
        if let Some(path) = plan.in_head.first() {
            let what = format!("`{path}` still has it");
            return Err(PurgeError::Refused {
                what,
                remedy: "Take it back (`remd undo REV`) or delete it first, and purge again.",
            });
        }
        let mut rewriter = Rewriter::new(&self.repo, &plan.wanted, true);
        let named = named(&self.repo)?;
        let tips: Vec<ObjectId> = named.iter().map(|it| it.commit).collect();
        rewriter.walk(&tips)?;
        let mut edits = Vec::new();
        for it in &named {
            if rewriter.is_changed(&it.commit) {
                edits.push(edit(it, &mut rewriter)?);
            }
        }
        let Rewriter { written, blobs, with_it, .. } = rewriter;
        let blobs: Vec<ObjectId> = blobs.into_iter().collect();
        self.objects.sync(&written, &[]).map_err(SnapshotError::from)?;
        self.keep_note(&blobs).map_err(SnapshotError::from)?;
        fault::point("purge.before_refs");
        self.move_all(edits)?;
        fault::point("purge.after_refs");
        let left = self.sweep(&blobs)?;
        self.end_note().map_err(SnapshotError::from)?;
        Ok(Purged { commits: with_it, versions: blobs.len(), left })
    }

    /// Whether a purge was cut short when the references had moved already.
    pub fn is_purge_unfinished(&self) -> bool {
        fs::lstat_if_there(&self.place.own(NOTE)).is_ok_and(|it| it.is_some())
    }

    /// Finishes one that was cut short; `None` where none was.
    pub fn finish_purge(&mut self) -> Result<Option<Purged>, PurgeError> {
        let note = fs::read_if_there(&self.place.own(NOTE)).map_err(SnapshotError::from)?;
        let Some(note) = note else { return Ok(None) };
        let blobs: Vec<ObjectId> =
            note.lines().filter_map(|it| ObjectId::from_hex(it).ok()).collect();
        let left = self.sweep(&blobs)?;
        // The references may not have moved: then it is all still to be done.
        if left == 0 {
            self.end_note().map_err(SnapshotError::from)?;
        }
        Ok(Some(Purged { commits: 0, versions: blobs.len(), left }))
    }

    fn keep_note(&self, blobs: &[ObjectId]) -> Result<(), PathError> {
        let lines: String = blobs.iter().map(|it| format!("{it}\n")).collect();
        self.place.keep(&self.place.own(NOTE), lines.as_bytes())
    }

    fn end_note(&self) -> Result<(), PathError> {
        fs::remove_file(&self.place.own(NOTE))
    }

    fn move_all(&mut self, edits: Vec<RefEdit>) -> Result<(), PurgeError> {
        let signed = Signed::new(&self.repo, &self.options, None);
        let committer = signed.committer();
        let time = committer.time.to_string();
        let committer = gix::actor::SignatureRef {
            name: committer.name.as_bstr(),
            email: committer.email.as_bstr(),
            time: &time,
        };
        let moved = self.repo.edit_references_as(edits, Some(committer));
        git("move the references", moved)?;
        fs::sync_filesystem(&self.place.common_dir).map_err(SnapshotError::from)?;
        Ok(())
    }
}

/// How a reference moves; what a remote had is fetched again, if it still has it.
fn edit(it: &Named, rewriter: &mut Rewriter<'_>) -> Result<RefEdit, GitError> {
    let expected = PreviousValue::MustExistAndMatch(Target::Object(it.target));
    let change = if it.is_remote() {
        Change::Delete { expected, log: RefLog::AndReference }
    } else {
        let commit = rewriter.now(&it.commit);
        let new = match it.target == it.commit {
            true => commit,
            false => rewriter.tag(it.target, commit)?,
        };
        let log = LogChange {
            mode: RefLog::AndReference,
            force_create_reflog: false,
            message: "purge".into(),
        };
        Change::Update { log, expected, new: Target::Object(new) }
    };
    Ok(RefEdit { change, name: it.reference.clone(), deref: false })
}

/// All references that stand for a commit.
fn named(repo: &gix::Repository) -> Result<Vec<Named>, GitError> {
    let mut found = Vec::new();
    let references = git("list the references", repo.references())?;
    for reference in git("list the references", references.all())? {
        let mut reference = git("read a reference", reference)?;
        // A symbolic one follows the one that it names.
        let Some(target) = reference.target().try_id().map(ToOwned::to_owned) else { continue };
        let full = reference.inner.name.clone();
        // Of a tree or a file: not ours, and no way to a commit.
        let Ok(commit) = reference.peel_to_commit() else { continue };
        found.push(Named { reference: full, target, commit: commit.id });
    }
    Ok(found)
}

//! Makes a plan true: in the vault and in one commit, or not at all.
//!
//! Takes what shall become of which path, given that HEAD and the disk agree on all of them; gives
//! the snapshot. Committer thread only.
//!
//! **Invariant:** what a person saves meanwhile is never overwritten: the plan is stale then, and
//! everything is as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use gix::bstr::ByteSlice as _;
use gix::objs::tree::EntryKind;

use crate::base::fs::{self, PathError};
use crate::base::process::{Input, Job, ProcessError, run_job};
use crate::history::drivers::{environment, said};
use crate::history::error::{GitError, ReadError, SnapshotError, git};
use crate::history::filters::Filters;
use crate::history::git_index::LOCK_WAIT;
use crate::history::lock::{self, wait_until_free};
use crate::history::objects::TreeView;
use crate::history::place::Place;
use crate::history::place::lock_of;
use crate::history::refs::read_head;
use crate::history::snapshot::entry;
use crate::history::swap::{Swap, SwapError, Wanted};
use crate::history::undo::Plan;
use crate::history::{Cause, History, Look, Snapshot, objects, reader, swap};
use crate::vault::change::Entry;
use crate::vault::{CommitId, VaultPath};

/// How often a plan is made again because somebody edits meanwhile.
const ROUNDS: usize = 5;

/// Why a plan was not carried out; everything is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// HEAD or a file is not what the plan was made for.
    #[error("`{0}` keeps changing")]
    Stale(String),
    /// A file is in the way that history knows nothing of.
    #[error("`{path}` is in the way: {why}")]
    InTheWay { path: VaultPath, why: String, remedy: String },
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Disk(#[from] PathError),
}

impl ApplyError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Stale(_) => Some("Ask again when nobody is writing it.".to_owned()),
            Self::InTheWay { remedy, .. } => Some(remedy.clone()),
            Self::Snapshot(err) => err.hint(),
            Self::Read(err) => Some(err.hint()),
            Self::Disk(err) => Some(crate::base::trouble::Trouble::of(&err.source).map_or_else(
                || format!("Check `{}`.", err.path.display()),
                |it| it.hint().to_owned(),
            )),
        }
    }
}

impl From<GitError> for ApplyError {
    fn from(err: GitError) -> Self {
        Self::Snapshot(err.into())
    }
}

/// How it went.
#[derive(Debug)]
pub enum Applied {
    /// In one commit: what was planned, and the snapshot of it.
    Done(Box<(Plan, Snapshot)>),
    /// Everything is so already.
    Nothing,
    /// A person must decide; the plan says where.
    Overlaps(Plan),
}

impl History {
    /// Makes what `plan` gives for HEAD true, as one commit with `cause`.
    ///
    /// Edits of the same files that no commit has are committed before, as the edits they are;
    /// `on_edit` hears of that.
    pub fn change(
        &mut self,
        plan: &dyn Fn(CommitId) -> Result<Plan, ReadError>,
        cause: &Cause,
        on_edit: &mut dyn FnMut(&Snapshot),
    ) -> Result<Applied, ApplyError> {
        let mut stale = String::from("HEAD");
        for _ in 0..ROUNDS {
            let Some(head) = self.head()?.map(|it| it.commit) else { return Ok(Applied::Nothing) };
            let planned = plan(head)?;
            if !planned.overlaps.is_empty() {
                return Ok(Applied::Overlaps(planned));
            }
            if planned.changes.is_empty() {
                return Ok(Applied::Nothing);
            }
            // An edit that is not committed yet is a later edit as well.
            let paths: BTreeSet<VaultPath> =
                planned.changes.iter().map(|it| it.0.clone()).collect();
            let edits = self.snapshot(&Look { paths, ..Look::default() }, &Cause::edit())?;
            if edits.head.is_some() {
                on_edit(&edits);
                continue;
            }
            self.check_free(&planned, &edits)?;
            match self.apply(&planned, head, cause) {
                Ok(snapshot) => return Ok(Applied::Done(Box::new((planned, snapshot)))),
                Err(ApplyError::Stale(what)) => stale = what,
                Err(err) => return Err(err),
            }
        }
        Err(ApplyError::Stale(stale))
    }

    /// Whether all that the plan is about is as in HEAD, on disk and in the index.
    fn check_free(&self, plan: &Plan, looked: &Snapshot) -> Result<(), ApplyError> {
        let in_the_way = |path: &VaultPath, why: String, remedy: &str| ApplyError::InTheWay {
            path: path.clone(),
            why,
            remedy: remedy.to_owned(),
        };
        for (path, why) in &looked.kept_out {
            // A folder of ours is kept out as a whole.
            if plan.changes.iter().any(|it| it.0.is_within(path.as_bytes())) {
                return Err(in_the_way(path, why.to_string(), &why.hint(path)));
            }
        }
        for path in looked.held.iter().chain(&looked.put_off).chain(&looked.again) {
            if plan.changes.get(path).is_some() {
                let remedy = "`remd status` says what waits; then ask again.";
                return Err(in_the_way(path, "its own change is not committed yet".into(), remedy));
            }
        }
        for (path, change) in plan.changes.iter() {
            if change.old.is_none()
                && let Some(meta) = fs::lstat_if_there(&self.place.disk(path)).unwrap_or(None)
                && !meta.is_dir()
            {
                let remedy = "Move it away, and ask again.";
                return Err(in_the_way(path, "a file that Git ignores is there".into(), remedy));
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        plan: &Plan,
        head: CommitId,
        cause: &Cause,
    ) -> Result<Snapshot, ApplyError> {
        let stale = || ApplyError::Stale("HEAD".to_owned());
        self.check_vault()?;
        let state = read_head(&self.repo)?;
        if state.commit.is_none_or(|it| it.as_bytes() != head.as_bytes()) {
            return Err(stale());
        }
        if let Some(operation) = self.operation(&state) {
            return Err(SnapshotError::Busy { operation, wip: None }.into());
        }
        let lock = lock_of(&self.place.index());
        wait_until_free(&lock, LOCK_WAIT);
        if let Some(lock) = lock::present([lock]).pop() {
            return Err(self.with_owner(SnapshotError::Locked { lock, wip: None }).into());
        }
        let mut expected = BTreeMap::new();
        let mut wanted = Vec::new();
        for (path, change) in plan.changes.iter() {
            let blob = change.new.map(|it| it.blob.to_string());
            wanted.push(Wanted { path: path.clone(), blob });
            expected.insert(path.clone(), change.new.and_then(reader::version));
        }
        let place = self.place.clone();
        // One file at a time: all of them may be more than the memory holds.
        let mut content = |path: &VaultPath| match plan.changes.get(path).and_then(|it| it.new) {
            Some(new) => self.on_disk(plan, path, new).map(Some),
            None => Ok(None),
        };
        let swap =
            Swap::stage(&place, &wanted, &mut content).and_then(Swap::go).map_err(refused)?;
        let deletions = plan.changes.iter().filter(|it| it.1.new.is_none()).map(|it| it.0.clone());
        // Asked for by name: it is no mass disappearance.
        let let_through = std::mem::replace(&mut self.let_through, deletions.collect());
        let paths = expected.keys().cloned().collect();
        self.expected = Some(expected);
        let made = self.snapshot(&Look { paths, ..Look::default() }, cause);
        self.expected = None;
        self.let_through = let_through;
        match made {
            Ok(snapshot) if snapshot.head.is_some() => {
                swap.end();
                Ok(snapshot)
            }
            Ok(_) | Err(SnapshotError::Moved) => {
                swap.back();
                Err(ApplyError::Stale(
                    plan.changes
                        .iter()
                        .next()
                        .map_or_else(|| "HEAD".to_owned(), |it| it.0.to_string()),
                ))
            }
            Err(err) => {
                swap.back();
                Err(err.into())
            }
        }
    }

    /// What a blob is in the work tree, as git would check it out.
    fn on_disk(
        &self,
        plan: &Plan,
        path: &VaultPath,
        new: Entry,
    ) -> Result<(Vec<u8>, EntryKind), ApplyError> {
        let Some((id, kind)) = reader::version(new) else {
            return Err(ReadError::NotFound { what: "blob", name: new.blob.to_string() }.into());
        };
        let bytes = match plan.fresh.get(&new.blob) {
            Some(bytes) => bytes.clone(),
            None => reader::read_blob(&self.repo, new.blob)?,
        };
        let rela = self.place.rela(path);
        let index = gix::index::State::new(self.repo.object_hash());
        let mut filters = Filters::new(&self.repo, &index)?;
        let rules = filters.rules(rela.as_bstr())?;
        if kind == EntryKind::Link || filters.leaves_as_is(&rules) {
            return Ok((bytes, kind));
        }
        if plan.fresh.contains_key(&new.blob) {
            objects::write(&self.repo, gix::objs::Kind::Blob, &bytes)?;
        }
        let mut named = b"--path=".to_vec();
        named.extend_from_slice(&rela);
        use std::os::unix::ffi::OsStringExt as _;
        let args = ["cat-file".into(), "--filters".into(), OsString::from_vec(named)];
        let job = Job {
            args: args.into_iter().chain([id.to_string().into()]).collect(),
            dir: Some(self.place.workdir.clone()),
            env: environment(),
            input: Input::Nothing,
            keep: usize::try_from(self.options.max_file).unwrap_or(usize::MAX),
            stop: self.options.stop.clone(),
            ..Job::new("git", self.options.limits.child)
        };
        let refused = |why: String| ApplyError::InTheWay {
            path: path.clone(),
            why,
            remedy: "Mend the filter that `.gitattributes` names for it, and ask again.".to_owned(),
        };
        match run_job(&job) {
            Ok(output) if output.status.success() && output.is_whole => Ok((output.stdout, kind)),
            Ok(output) if output.status.success() => {
                Err(refused("it is more than `commit.max_file` as a file".to_owned()))
            }
            Ok(output) => Err(refused(said(&output.stderr))),
            Err(ProcessError::Start { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Err(refused("the program `git` is needed to turn it into a file".to_owned()))
            }
            Err(err) => Err(refused(err.to_string())),
        }
    }
}

fn refused(err: SwapError) -> ApplyError {
    match err {
        SwapError::Changed(path) => ApplyError::Stale(path.to_string()),
        SwapError::InTheWay(path, why) => {
            ApplyError::InTheWay { path, why, remedy: "Move it away, and ask again.".to_owned() }
        }
        SwapError::Disk(err) => ApplyError::Disk(err),
        SwapError::Unread(err) => *err,
    }
}

/// Puts a change in order that a crash has cut short.
pub(super) fn after_crash(repo: &gix::Repository, place: &Place) -> Result<(), PathError> {
    let tree = || -> Option<gix::ObjectId> {
        let head = read_head(repo).ok()?.commit?;
        git("read a commit", repo.find_commit(head)).ok()?.tree_id().ok().map(gix::Id::detach)
    };
    let tree = tree();
    swap::after_crash(place, |path, blob| {
        let mut view = TreeView::new(repo, tree);
        let found = view.file(place.rela(path).as_bstr()).ok().flatten();
        let found = found.and_then(|(kind, id)| entry((id, kind)));
        found.map(|it| it.blob.to_string()).as_deref() == blob
    })
}

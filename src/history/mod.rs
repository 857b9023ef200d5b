//! The vault's history: every change a commit, by gix.
//!
//! One thread (the committer) owns a [`History`] and is the only writer; any thread reads through
//! a [`Reader`]. Hints go in, commits come out; each path is looked at again here.
//!
//! **Invariant:** disk first, ref second. A crash at any point leaves an ordinary uncommitted edit
//! or a finished commit, and the next [`History::open`] needs no hands.
//! **Invariant:** only what lies in the vault is committed, and never what a person has staged.
//! **Not here:** when to look (`watch`), what a note means (`vault`), remotes.

mod apply;
mod blame;
mod bulk;
mod busy;
mod candidates;
mod checkpoint;
mod deleted;
mod departed;
mod dialogue;
mod draft;
mod drivers;
mod encoding;
mod error;
pub mod evidence;
mod exposed;
mod filters;
mod find;
mod forget;
mod gate;
mod git_index;
mod grep;
mod half_saved;
mod held;
mod held_list;
mod hook_text;
mod hooks;
mod ignores;
mod index_image;
mod index_sum;
mod index_trees;
mod kept;
mod leaks;
mod lineage;
mod lock;
mod log;
mod long_lines;
mod look;
mod made;
mod marked;
pub mod message;
mod missing;
mod module;
mod moment;
mod objects;
mod on_disk;
mod open;
mod own_hooks;
mod packing;
mod past;
mod path_log;
mod place;
mod pointer;
mod purge;
mod readable;
mod reader;
mod refs;
mod remembered;
mod rename;
mod repair;
mod restore;
mod seen;
mod shape;
mod shared;
mod sign;
mod signed;
mod snapshot;
mod spelling;
mod swap;
mod talk;
mod text;
mod three_way;
mod trail;
mod undo;
mod undone;
mod unsettled;
mod versions;
mod wip;
mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use apply::{Applied, ApplyError};
pub use blame::{Blame, BlameError, Origin, Source, Writer, split_lines};
pub use busy::Operation;
pub use checkpoint::{Checkpoint, CheckpointError};
pub use deleted::{Deletion, Deletions};
pub use departed::{Departed, Fate};
pub use draft::{Draft, FileState, LONGEST_DRAFT};
pub use drivers::Limits;
pub use error::{GitError, ReadError, SnapshotError};
pub use exposed::{Clean, Exposed, Exposure, Span};
pub use find::OpenError;
pub use forget::{FORGET, Tombstones};
pub use grep::Needle;
pub use held::HoldPolicy;
pub use ignores::Ignores;
pub use kept::Kept;
pub use leaks::Secrets;
pub use lock::HeldLock;
pub use log::{COUNTED_FILES, Cut, LogEntry, LogFilter, LogWalk, PathStat};
pub use message::CauseKind;
pub use open::git_dir_of;
pub use own_hooks::{
    HookState, OwnHook, OwnHooks, install_hooks, own_hooks, removable, remove_hooks, vaults_at,
};
pub use packing::{PackError, Packing, clear_packing, pack_loose};
pub use past::{Held, LARGEST};
pub use path_log::{KeepError, Keeper};
pub use purge::{PurgeError, PurgePlan, PurgeTarget, Purged};
pub use reader::{Blobs, Reader, Side};
pub use remembered::{remember, remembered};
pub use shape::{Shape, shape};
pub use talk::Message;
pub use text::Likeness;
pub use three_way::Favor;
pub use undo::{Overlap, OverlapKind, Plan};
pub use undone::What;
pub use versions::PastVersion;
pub use words::{Ink, bracketed, words};

use crate::base::clock;
use crate::base::fs::TEMP_PREFIX;
use crate::base::process::Stop;
use crate::vault::{ChangeSet, CommitId, VaultPath};
use drivers::Drivers;
use gate::Gate;
use git_index::GitIndex;
use hooks::After;
use made::Restless;
use objects::Objects;
use place::Place;

/// How a vault's history is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// New files over this many bytes stay out.
    pub max_file: u64,
    pub hold_deletions: HoldPolicy,
    pub secrets: Secrets,
    /// Stands for this machine in `refs/remd/wip/<host>` and in mail addresses.
    pub host: String,
    /// Folders of the vault that are never committed.
    pub excluded: Vec<String>,
    /// Names that are never committed, at any depth: temp files, as patterns of a `.gitignore`.
    pub ignored: Vec<String>,
    /// What counts as a note when many vanish.
    pub is_note: fn(&VaultPath) -> bool,
    /// For what git's settings make us start: filters, hooks, signatures.
    pub limits: Limits,
    /// Calls those off.
    pub stop: Stop,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_file: 100_000_000,
            hold_deletions: HoldPolicy::default(),
            secrets: Secrets::default(),
            host: "localhost".to_owned(),
            excluded: vec!["mem_metadata".to_owned(), "mem_agent".to_owned()],
            ignored: vec![format!("{TEMP_PREFIX}*")],
            is_note: |path| path.extension().is_some_and(|it| it.eq_ignore_ascii_case(b"md")),
            limits: Limits::default(),
            stop: Stop::default(),
        }
    }
}

/// Where HEAD is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    pub commit: CommitId,
    /// Short: `main`. `None` while detached.
    pub branch: Option<String>,
    pub subject: String,
    /// Seconds since the epoch, by the committer.
    pub time: i64,
}

/// Where to look.
#[derive(Clone, Default, Debug)]
pub struct Look {
    /// To be looked at again.
    pub paths: BTreeSet<VaultPath>,
    /// What a scan found.
    pub found: BTreeSet<VaultPath>,
    /// Folders (`None` is the vault) of which `found` is the complete list: what git has below
    /// them and the scan has not is gone.
    pub complete_below: Vec<Option<VaultPath>>,
    /// Folders that could not be seen, as another file system is mounted over them: nothing
    /// below them is taken for gone.
    pub hidden_below: Vec<VaultPath>,
    /// In the middle of a burst: what became nothing less than so long ago is put off.
    pub settling: Option<Duration>,
}

/// Who and why, for the commit.
#[derive(Clone, Debug)]
pub struct Cause {
    pub kind: CauseKind,
    /// Name and mail; the vault's Git user where there is none.
    pub author: Option<(String, String)>,
    /// After `Remd-Cause`, in this order.
    pub trailers: Vec<(String, String)>,
    /// Whole lines for the end of the message's body.
    pub note: Vec<String>,
}

impl Cause {
    /// A person's edit.
    pub fn edit() -> Self {
        Self { kind: CauseKind::Edit, author: None, trailers: Vec::new(), note: Vec::new() }
    }
}

/// What a look led to.
#[derive(Clone, Default, Debug)]
pub struct Snapshot {
    /// The new commit, if there was something to commit.
    pub head: Option<Head>,
    pub changes: ChangeSet,
    /// Old path, new path.
    pub renames: Vec<(VaultPath, VaultPath)>,
    /// Notes that had text and have none now.
    pub emptied: Vec<VaultPath>,
    pub kept_out: Vec<(VaultPath, Kept)>,
    /// Deletions held back, all that are held now.
    pub held: BTreeSet<VaultPath>,
    /// Changed while they were read: to be looked at again.
    pub again: BTreeSet<VaultPath>,
    /// May be half of a save, as [`Look::settling`] has it: to be looked at once more.
    pub put_off: BTreeSet<VaultPath>,
    /// Waiting for something that sends no hint, and how long from now to look again.
    pub later: BTreeMap<VaultPath, Duration>,
    /// From the call to the moment when objects and branch were safe on disk; the index follows.
    pub durable_after: Option<Duration>,
}

/// The history of one vault, for its only writer.
pub struct History {
    options: Options,
    place: Place,
    repo: gix::Repository,
    objects: Objects,
    drivers: Drivers,
    index: Option<GitIndex>,
    settings: open::SettingsStamp,
    /// The `info/exclude` that is known to have our lines.
    excludes: Option<open::SettingsStamp>,
    /// Kept out of git where it lies in the work tree.
    mount_point: Option<std::path::PathBuf>,
    marked: marked::Contents,
    /// Device and inode of the vault's folder.
    identity: (u64, u64),
    held: BTreeSet<VaultPath>,
    let_through: BTreeSet<VaultPath>,
    unsettled: unsettled::Unsettled,
    /// Whether a `wip` reference may be there.
    has_wip: bool,
    /// Kept in `wip` although neither the disk nor a commit has it any more.
    stranded: BTreeSet<VaultPath>,
    /// The `wip` that all commits were searched for, and when by the moves of HEAD.
    searched: Option<(gix::ObjectId, u64)>,
    /// The error that all that is remembered was dropped for, until a snapshot goes well.
    forgot_for: Option<String>,
    /// The last commit's index entries were not written.
    is_unfinished: bool,
    /// Hears of a commit as soon as it is durable, while git's index still waits to be written.
    on_durable: Box<dyn Fn(&Head) + Send>,
    /// Hears how far a look is that has much to write.
    on_progress: Box<dyn Fn(usize, usize) + Send>,
    /// Closed while a hook or a signing program stands in the way.
    gate: Gate,
    /// Runs `post-commit`.
    after: After,
    /// What hooks change while they run.
    restless: BTreeMap<VaultPath, Restless>,
    /// What the last look found that is in no commit, once all of it is kept in `wip`.
    found: Option<BTreeSet<VaultPath>>,
    half_saved: half_saved::HalfSaved,
    /// What the commit under way has to make of which path: all of it, or there is none.
    expected: Option<BTreeMap<VaultPath, Option<look::Version>>>,
}

impl History {
    /// Where HEAD is; `None` on an unborn branch.
    pub fn head(&self) -> Result<Option<Head>, ReadError> {
        reader::head(&self.repo)
    }

    /// A handle for reading, for any thread.
    pub fn reader(&self) -> Reader {
        Reader::new(self.repo.clone().into_sync(), self.place.clone())
    }

    /// The ignore rules, for the scan and the watcher.
    pub fn ignores(&self) -> Result<Ignores, GitError> {
        Ignores::new(self.repo.clone(), self.place.clone())
    }

    /// The vault.
    pub fn root(&self) -> &Path {
        &self.place.root
    }

    /// This work tree's git directory.
    pub fn git_dir(&self) -> &Path {
        &self.place.git_dir
    }

    /// The git directory that holds the references: another one only in a linked work tree.
    pub fn common_dir(&self) -> &Path {
        &self.place.common_dir
    }

    /// Files and folders whose change may mean that HEAD, the index or the rules moved.
    pub fn watched(&self) -> Vec<PathBuf> {
        self.place.watched()
    }

    /// A person's operation under way, during which nothing is committed.
    pub fn busy(&self) -> Option<Operation> {
        self.operation(&refs::read_head(&self.repo).ok()?)
    }

    /// Git's locks that are there now, for `status`.
    pub fn locks(&self) -> Vec<HeldLock> {
        let head = self.place.git_dir.join("HEAD");
        let packed = self.place.common_dir.join("packed-refs");
        let mut paths: Vec<_> =
            [self.place.index(), head, packed].iter().map(|it| place::lock_of(it)).collect();
        if let Ok(Some(branch)) = refs::read_head(&self.repo).map(|it| it.branch) {
            paths.push(place::lock_of(&self.place.shared_ref(branch.as_ref())));
        }
        let mut locks = lock::present(paths);
        if locks.iter().any(|it| it.holder.is_none()) {
            let owner = busy::any_git_at_work(&self.place.workdir);
            locks.iter_mut().for_each(|it| it.holder = it.holder.or(owner));
        }
        locks
    }

    /// Takes other limits, from the next snapshot on.
    pub fn set_options(&mut self, options: Options) {
        self.options = options;
        self.excludes = None;
    }

    /// What a hook or a signing program stood in the way of may be tried again, if it is not
    /// a moment ago.
    pub fn try_again(&mut self) {
        self.gate.hurry(clock::now());
        self.restless.values_mut().for_each(Restless::hurry);
    }

    /// What the last look found that is in no commit: `Some` when no commit was made and all of it
    /// is kept in `wip`.
    pub fn found_waiting(&self) -> Option<&BTreeSet<VaultPath>> {
        self.found.as_ref()
    }

    /// How the last `post-commit` hook that is over went: why it failed, if it did.
    pub fn hook_result(&mut self) -> Option<Option<String>> {
        self.after.result()
    }

    /// Whether a `post-commit` hook is running.
    pub fn is_hook_running(&self) -> bool {
        self.after.is_running()
    }

    /// Calls `tell` with each commit as soon as it is durable, before git's index is written.
    pub fn on_durable(&mut self, tell: impl Fn(&Head) + Send + 'static) {
        self.on_durable = Box::new(tell);
    }

    /// Calls `tell` now and then during a look that finds very much to commit: paths looked at,
    /// and all there are.
    pub fn on_progress(&mut self, tell: impl Fn(usize, usize) + Send + 'static) {
        self.on_progress = Box::new(tell);
    }

    /// Deletions held back.
    pub fn held(&self) -> &BTreeSet<VaultPath> {
        &self.held
    }

    /// What only `refs/remd/wip/<host>` has: a person's Git took it from the disk before it was
    /// committed.
    pub fn stranded(&self) -> &BTreeSet<VaultPath> {
        &self.stranded
    }

    /// Lets what is held now through at the next snapshot, and says how many paths that is.
    pub fn accept_held(&mut self) -> usize {
        self.let_through = self.held.clone();
        self.let_through.len()
    }

    /// Whether Git knows who the user is; edits are signed `remd` where it does not.
    pub fn has_identity(&self) -> bool {
        self.repo.author().is_some_and(|it| it.is_ok())
    }
}

/// As the vault's vocabulary has it.
fn commit_id(id: &gix::oid) -> Option<CommitId> {
    CommitId::from_bytes(id.as_bytes())
}

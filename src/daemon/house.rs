//! What the threads of one agent share.
//!
//! Every field is a mailbox, a door or a constant: a thread writes its own mailbox and reads the
//! others'. Any thread.
//!
//! **Invariant:** nothing here is the truth about the vault; Git and the disk are.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::latest::Latest;
use crate::base::process::Stop;
use crate::base::{clock, fs};
use crate::config::{Dirs, Settings};
use crate::daemon::intake::Intake;
use crate::daemon::problems::Problems;
use crate::daemon::reindex::Reindex;
use crate::daemon::settings::Checker;
use crate::history::{Head, Reader};
use crate::index::{IndexView, NextSpace};
use crate::mount::Tally;
use crate::render::status::{AtWork, Committing, KeptOut, Leak};
use crate::vault::VaultPath;
use crate::watch::{Hints, Settle, WatchStats};

/// The shared parts; cloning shares them.
#[derive(Clone)]
pub struct House {
    /// The vault's root, without symlinks.
    pub vault: PathBuf,
    /// The device and inode of its folder.
    pub identity: (u64, u64),
    /// The git directory that holds the objects.
    pub git_dir: PathBuf,
    pub dirs: Dirs,
    /// Unix seconds.
    pub since: i64,
    pub settings: Latest<Settings>,
    /// Notices edits of the settings files.
    pub checker: Arc<Checker>,
    pub problems: Problems,
    pub intake: Intake,
    /// Calls off the filters, hooks and signing programs at work.
    pub children: Stop,
    pub reader: Reader,
    /// The committer's word.
    pub ledger: Latest<Ledger>,
    /// The auditor's word: what HEAD has that looks like a credential.
    pub exposed: Latest<Arc<Vec<Leak>>>,
    /// The indexer's word.
    pub shelf: Latest<Shelf>,
    /// The watcher's word.
    pub watch: Latest<Option<Latest<WatchStats>>>,
    pub mount: Latest<MountState>,
    /// The index being made anew.
    pub reindex: Reindex,
    /// Rung when another folder at the path turns out to be the vault: all begins anew with it.
    pub returned: Arc<tokio::sync::Notify>,
    /// What the mount has done so far.
    pub tally: Tally,
}

impl House {
    /// Hands in hints, to be committed and, before that, shown by the indexer.
    pub fn hint(&self, hints: Hints, burst: Settle) {
        self.intake.hint(hints, burst);
        self.ledger.update(|_| {});
    }

    /// Whether the vault's folder is the one that was opened: nothing is made or written elsewhere.
    pub fn is_vault_there(&self) -> bool {
        fs::identity(&self.vault).is_ok_and(|it| it == self.identity)
    }
}

/// Where the committer stands.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub head: Option<Head>,
    /// When the agent first saw this head, in Unix seconds.
    pub head_since: i64,
    /// Why edits wait longer than the quiet window, for people.
    pub waiting_for: Option<String>,
    // Shared, as every page asks for the ledger: these can be as many as the notes.
    pub kept_out: Arc<Vec<KeptOut>>,
    /// What is held for what looks like a credential.
    pub leaks: Arc<Vec<Leak>>,
    /// Which files that are.
    pub leaking: Arc<BTreeSet<VaultPath>>,
    /// What is not looked into.
    pub skipped: Arc<Vec<KeptOut>>,
    /// Which of it a filter is at work on.
    pub filtering: Vec<AtWork>,
    /// How many paths that is.
    pub filtering_paths: usize,
    pub held: Arc<BTreeSet<VaultPath>>,
    /// All that is kept out or held.
    pub named: Arc<BTreeSet<VaultPath>>,
    /// Folders that cannot be read: nobody knows what is in them.
    pub unreadable_folders: usize,
    /// Whether the first look at the whole vault is done.
    pub looked: bool,
    /// How far a commit of very many files is.
    pub committing: Option<Committing>,
}

impl Ledger {
    /// HEAD is here now.
    pub fn reach(&mut self, head: Option<Head>) {
        if self.head.as_ref().map(|it| it.commit) != head.as_ref().map(|it| it.commit) {
            self.head_since = clock::unix_seconds();
        }
        self.head = head;
    }
}

/// Where the indexer stands.
#[derive(Clone, Default)]
pub struct Shelf {
    /// What can be searched; `None` until the index is open.
    pub view: Option<Arc<IndexView>>,
    /// Counts views, so that a page knows whether it is still true.
    pub generation: u64,
    /// While many notes come in.
    pub progress: Option<Progress>,
    /// While what somebody did to the index's files is looked at and mended.
    pub is_looked_at: bool,
    /// The vectors of another model that are made beside those that are searched.
    pub next_space: Option<NextSpace>,
}

/// How far the index is with many notes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    pub done: usize,
    pub all: usize,
    /// All are read; the last of them are on their way to the disk.
    pub is_last_step: bool,
}

impl Progress {
    pub fn of(done: usize, all: usize) -> Self {
        Self { done, all, is_last_step: false }
    }

    /// The share of the work that is done; never all of it.
    pub fn share(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let share = self.done as f64 / self.all.max(1) as f64;
        share.min(1.0) * BEFORE_LAST_STEP
    }

    /// What is under way, for people.
    pub fn what(self) -> &'static str {
        match self.is_last_step {
            true => "writing the last of the index",
            false => "indexing",
        }
    }
}

/// The share of the work that goes note by note.
const BEFORE_LAST_STEP: f64 = 0.98;

/// Where the mount stands.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum MountState {
    #[default]
    Off,
    Mounted {
        path: PathBuf,
        /// By which it is known again, where it can be.
        device: Option<String>,
    },
    Failed {
        path: PathBuf,
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_never_all_before_it_is_over() {
        assert_eq!(Progress::of(0, 0).share(), 0.0);
        assert_eq!(Progress::of(0, 20_000).share(), 0.0);
        assert_eq!(Progress::of(10_000, 20_000).share(), 0.49);
        let last = Progress { is_last_step: true, ..Progress::of(20_000, 20_000) };
        assert_eq!((last.share(), last.what()), (0.98, "writing the last of the index"));
    }
}

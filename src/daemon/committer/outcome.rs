//! What became of a turn: everybody is told.
//!
//! Takes a snapshot, or why there is none; gives the ledger, the problems, the next try. The
//! committer's thread.
//!
//! **Invariant:** what failed stays named until it is well, and is tried again.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::clock;
use crate::base::trouble::{Trouble, told};
use crate::daemon::cause;
use crate::daemon::committer::{Committer, LOCK_AGE, RECONCILE, is_unreadable};
use crate::daemon::intake::Flushed;
use crate::daemon::problems::Level;
use crate::daemon::returned::Found;
use crate::daemon::unseen;
use crate::history::{Snapshot, SnapshotError};
use crate::vault::VaultPath;

impl Committer {
    /// Says how a hook that ran beside us went.
    pub(super) fn report_hook(&mut self) {
        match self.history.hook_result() {
            None => {}
            Some(None) => self.house.problems.clear("post-commit"),
            Some(Some(why)) => self.house.problems.report(
                "post-commit",
                Level::Note,
                &why,
                "The commit stands; mend the hook. The next commit runs it again.",
            ),
        }
    }

    /// Tells everybody what the snapshot found.
    pub(super) fn publish(&mut self, snapshot: &Snapshot) -> Flushed {
        if let Some(head) = &snapshot.head {
            tracing::info!(commit = %head.commit.short(), changes = snapshot.changes.len(), subject = %head.subject, durable_us = snapshot.durable_after.map(|it| it.as_micros()), "committed");
        }
        let head = match &snapshot.head {
            Some(head) => Some(head.clone()),
            None => self.history.head().ok().flatten(),
        };
        self.report_hook();
        let kept_out = unseen::listed(&self.kept_out);
        let skipped = unseen::listed(&self.skipped);
        let held: BTreeSet<VaultPath> = snapshot.held.iter().cloned().collect();
        let named = held.iter().chain(self.kept_out.keys()).cloned().collect();
        let waiting_for = kept_out.iter().map(|it| format!("`{}`: {}", it.path, it.why)).collect();
        self.filtering.note(&self.kept_out);
        let filtering = self.filtering.list();
        let unreadable_folders = self.skipped.values().filter(|it| is_unreadable(it)).count();
        let flushed = Flushed {
            committed: filtering.is_empty(),
            waiting_for,
            needs_person: !held.is_empty() || self.is_leak_held(),
            accepted: Vec::new(),
        };
        unseen::report_stranded(&self.house.problems, &self.history);
        unseen::report_identity(&self.house.problems, &self.history);
        unseen::report_kept_out(&self.house.problems, &self.kept_out);
        self.report_leaks();
        let leaks = self.leaks();
        let leaking = self.leaking();
        self.house.ledger.update(|ledger| {
            ledger.reach(head);
            ledger.waiting_for = None;
            ledger.kept_out = Arc::new(kept_out);
            (ledger.leaks, ledger.leaking) = (Arc::new(leaks), Arc::new(leaking));
            ledger.filtering_paths = filtering.iter().map(|it| 1 + it.more).sum();
            ledger.skipped = Arc::new(skipped);
            ledger.filtering = filtering;
            ledger.unreadable_folders = unreadable_folders;
            (ledger.held, ledger.named) = (Arc::new(held), Arc::new(named));
            ledger.committing = None;
            ledger.looked = true;
        });
        flushed
    }

    /// All that a look found is in HEAD or in `wip`: nothing of it is unknown.
    pub(super) fn kept_in_wip(&self, looked_at_all: bool) {
        let unreadable_folders = self.skipped.values().filter(|it| is_unreadable(it)).count();
        self.house.ledger.update(|ledger| {
            ledger.unreadable_folders = unreadable_folders;
            ledger.looked |= looked_at_all;
        });
    }

    /// Names the locks that stop nothing of ours, but a person's next `git gc` or `git commit`.
    pub(super) fn look_for_locks(&mut self, committed: bool) {
        let locks = self.history.locks();
        self.locks_at = (!locks.is_empty()).then(|| clock::now() + LOCK_AGE);
        let stale = locks.iter().find(|it| it.age >= LOCK_AGE && it.holder.is_none());
        unseen::report_stale_lock(&self.house.problems, stale.filter(|_| committed));
    }

    pub(super) fn well(&mut self, looked_at_all: bool) {
        self.retry.over();
        self.waiting = None;
        if looked_at_all {
            self.reconcile_at = clock::now() + RECONCILE;
        }
        for id in ["commit", "commit-held", "commit-fault", "vault-lost", "git-lock", "git-busy"] {
            self.house.problems.clear(id);
        }
    }

    pub(super) fn unwell(&mut self, err: &SnapshotError) -> Flushed {
        self.house.ledger.update(|it| it.committing = None);
        if matches!(err, SnapshotError::Stopped) {
            tracing::info!("stopped in the middle of a look; the next start takes it up again");
            return Flushed { waiting_for: vec![err.to_string()], ..Flushed::default() };
        }
        let mut what = told(err);
        let mut remedy = err.hint().unwrap_or_else(|| "It is tried again by itself.".to_owned());
        match err {
            SnapshotError::VaultLost(_) => self.look_out(&mut what, &mut remedy),
            SnapshotError::Git(_) | SnapshotError::Disk(_) => {
                let branch = self.house.ledger.get().head.and_then(|it| it.branch);
                let git_dir = self.history.git_dir();
                let closed = Trouble::behind(err).filter(|it| *it == Trouble::NotAllowed);
                let missing = self.history.missing(branch.as_deref());
                match missing.filter(|_| closed.is_none()) {
                    Some(missing) => (what, remedy) = (missing.what, missing.remedy),
                    None => {
                        what =
                            format!("Nothing can be committed to `{}`: {what}", git_dir.display());
                        if let Some(closed) = closed {
                            let (vault, common) = (&self.house.vault, &self.house.git_dir);
                            remedy = cause::remedy(closed, &[git_dir, common, vault]);
                        }
                    }
                }
            }
            _ => {}
        }
        let why = what.clone();
        if matches!(err, SnapshotError::Busy { .. }) {
            what = format!("Edits wait: {why}");
        }
        let (id, level) = match err {
            SnapshotError::VaultLost(_) => ("vault-lost", Level::Error),
            SnapshotError::Locked { lock, .. } if lock.holder.is_some() => {
                ("git-lock", Level::Warning)
            }
            SnapshotError::Locked { .. } => ("git-lock", Level::Error),
            SnapshotError::Busy { .. } | SnapshotError::Moved => ("git-busy", Level::Warning),
            SnapshotError::Held { .. } => ("commit-held", Level::Error),
            _ => ("commit", Level::Error),
        };
        for other in ["git-lock", "git-busy", "commit"].iter().filter(|it| **it != id) {
            self.house.problems.clear(other);
        }
        self.house.problems.report(id, level, &what, &remedy);
        unseen::report_stranded(&self.house.problems, &self.history);
        self.is_passing = matches!(err, SnapshotError::Locked { .. } | SnapshotError::Moved);
        self.retry_later();
        // A person's own commits and moves of HEAD are followed all the same; those of another
        // folder in the vault's place are not the vault's.
        let is_lost = matches!(err, SnapshotError::VaultLost(_));
        let head = (!is_lost).then(|| self.history.head().ok()).flatten();
        self.house.ledger.update(|ledger| {
            if let Some(head) = head {
                ledger.reach(head);
            }
            ledger.waiting_for = Some(why.clone());
        });
        Flushed {
            committed: false,
            waiting_for: vec![why],
            needs_person: matches!(
                err,
                SnapshotError::Busy { .. }
                    | SnapshotError::Held { .. }
                    | SnapshotError::VaultLost(_)
            ),
            accepted: Vec::new(),
        }
    }

    pub(super) fn retry_later(&mut self) {
        match self.house.is_vault_there() {
            true => self.retry.failed(self.history.git_dir()),
            false => self.retry.failed_elsewhere(self.history.git_dir()),
        }
    }

    /// Says what is where the vault was; where that is the vault again, has it taken up.
    fn look_out(&mut self, what: &mut String, remedy: &mut String) {
        match self.lookout.look(&self.house, &self.filter) {
            Found::Nothing => {}
            Found::Stranger(why) => {
                *what = format!("{what}: {why}");
                "Put the vault's own folder back, and the agent goes on by itself; restart the \
                 agent if the folder that is there is meant."
                    .clone_into(remedy);
            }
            Found::Restless => {
                // Soon again.
                self.retry.over();
                "It is coming back; the agent takes it up once nothing changes in it."
                    .clone_into(remedy);
            }
            Found::Vault => {
                tracing::info!(vault = %self.house.vault.display(), "the vault is back");
                "It is back; the agent takes it up.".clone_into(remedy);
                self.house.returned.notify_one();
            }
        }
    }
}

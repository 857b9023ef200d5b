//! Builds an index of very many notes, step by step.
//!
//! Takes the notes of a commit, or what an index lacks of them, and an [`Index`]; shows how far it is
//! and what can be searched meanwhile. The indexer's thread.
//!
//! **Invariant:** what is whole is searched until the new is; whoever is stopped or killed between two
//! notes loses a step at most.

use crate::base::{clock, fault};
use crate::daemon::changes::{indexed, lacking, update_or_name};
use crate::daemon::house::Progress;
use crate::daemon::index_told::FollowError;
use crate::daemon::indexer::Indexer;
use crate::index::{Index, Rebuild};
use crate::vault::{CommitId, Entry, Layout, VaultPath};

/// So many notes are read into memory where no index can be kept.
const MOST_IN_MEMORY: usize = 2000;

impl Indexer {
    pub(super) fn rebuild(
        &self,
        index: &mut Index,
        head: CommitId,
        layout: &Layout,
        why: &str,
    ) -> Result<(), FollowError> {
        let notes = indexed(&self.house.reader, head, layout)?;
        let total = notes.len();
        // What is whole is searched until the new one is.
        let keeps_old = self.house.shelf.get().view.is_some_and(|it| it.at().is_some());
        let build = match index.begin_rebuild(total) {
            Err(err) if err.trouble().is_some() => {
                self.read_into_memory(index, notes, head, layout)?;
                return Err(err.into());
            }
            begun => begun?,
        };
        tracing::info!(notes = total, why, "building the index");
        if !keeps_old {
            self.publish(build.view(), Some(Progress::of(0, total)));
        }
        let notes = notes.into_iter().map(|(path, entry)| (path, Some(entry)));
        self.build(build, notes, head, layout)?;
        self.built(index);
        Ok(())
    }

    /// Ends a build that was left off: whatever HEAD has otherwise than the index.
    pub(super) fn go_on(
        &self,
        index: &mut Index,
        head: CommitId,
        layout: &Layout,
    ) -> Result<(), FollowError> {
        let notes = indexed(&self.house.reader, head, layout)?;
        let all = notes.len();
        let changes = lacking(&index.view(), notes, layout);
        tracing::info!(notes = changes.len(), all, "going on with the index");
        let build = index.go_on(changes.len())?;
        self.publish(build.view(), Some(Progress::of(0, changes.len())));
        self.build(build, changes, head, layout)?;
        self.built(index);
        Ok(())
    }

    /// Reads the notes, one after the other, and makes them durable step by step.
    pub(super) fn build(
        &self,
        mut build: Rebuild<'_>,
        changes: impl IntoIterator<Item = (VaultPath, Option<Entry>)>,
        head: CommitId,
        layout: &Layout,
    ) -> Result<(), FollowError> {
        let started = clock::now();
        let total = build.progress().total;
        for (at, (path, entry)) in changes.into_iter().enumerate() {
            if self.is_stopped() {
                // The next start goes on from here.
                build.step()?;
                return Err(FollowError::Stopped);
            }
            fault::point("indexer.note");
            fault::hold("indexer.note");
            let update = update_or_name(&self.house.reader, path, entry, layout)?;
            if build.take(update)? {
                self.publish(build.view(), Some(Progress::of(at + 1, total)));
            } else if at % 64 == 0 {
                self.progress(Progress::of(at, total));
            }
        }
        self.progress(Progress { is_last_step: true, ..Progress::of(total, total) });
        build.end(head)?;
        let took_ms = (clock::now() - started).as_millis();
        tracing::info!(commit = %head.short(), notes = total, took_ms, "index built");
        Ok(())
    }

    pub(super) fn built(&self, index: &Index) {
        self.well(index);
        self.publish(index.view(), None);
    }

    /// Makes a few notes searchable where no index can be kept: a vault on a read-only disk.
    fn read_into_memory(
        &self,
        index: &mut Index,
        notes: Vec<(VaultPath, Entry)>,
        head: CommitId,
        layout: &Layout,
    ) -> Result<(), FollowError> {
        let is_shown = self.house.shelf.get().view.is_some_and(|it| it.at().is_some());
        if is_shown || notes.len() > MOST_IN_MEMORY {
            return Ok(());
        }
        let updates = notes
            .into_iter()
            .map(|(path, entry)| update_or_name(&self.house.reader, path, Some(entry), layout))
            .collect::<Result<Vec<_>, _>>()?;
        index.stage(updates, head)?;
        self.publish(index.view(), None);
        Ok(())
    }
}

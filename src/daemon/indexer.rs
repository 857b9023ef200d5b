//! Follows HEAD: what is committed can be searched.
//!
//! Takes heads from the ledger, gives views to the shelf. Owns the [`Index`]. Runs on a thread of
//! its own, named like this file.
//!
//! **Invariant:** the index's own cursors say where to go on, never a message: a head that was
//! missed is caught up with by the next.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::base::store::StoreError;
use crate::base::trouble::Trouble;
use crate::base::{clock, fault, fs};
use crate::daemon::cause::{self, Backoff};
use crate::daemon::changes::{changed_since, update_or_name};
use crate::daemon::drafts::Front;
use crate::daemon::embedding::Embedding;
use crate::daemon::encoder::Encoder;
use crate::daemon::house::{House, Progress};
use crate::daemon::index_told::FollowError;
use crate::daemon::problems::Level;
use crate::index::{Damage, Index, IndexError, Opened, Room, Why};
use crate::vault::{CommitId, Entry, Layout, VaultPath};

/// Staged notes become durable when nothing came for this long …
const IDLE: Duration = Duration::from_secs(1);
/// … or after this long.
const MAX_STAGED_FOR: Duration = Duration::from_secs(10);
/// The writer is closed when nothing came for this long.
const REST: Duration = Duration::from_secs(5);
/// How often is looked whether somebody touched the index's files, when nothing else is to do. It
/// costs a `stat` a file.
const LOOK_AT_FILES: Duration = Duration::from_secs(4);
/// How long the thread sleeps when nothing is owed.
const LONG: Duration = Duration::from_secs(3600);
/// The first pause after a failure; it doubles up to [`MAX_RETRY`]. What may have ended the
/// failure is noticed sooner ([`Backoff`]).
const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(300);
/// So many notes wait in memory for a disk that cannot be written, and no more.
const MOST_WAITING: usize = 5000;
/// So long vectors are made before somebody looks for commits again.
const TEND: Duration = Duration::from_millis(100);
/// More changed notes than this go to the disk one by one, in steps, with progress: memory stays
/// flat, and a kill costs a step.
const MANY: usize = 500;

/// What the thread has in hand.
struct Work {
    index: Option<Index>,
    layout: Layout,
    metadata: PathBuf,
    backoff: Backoff,
    /// The next look at what Git did not give.
    reread: Backoff,
    room: Room,
    /// Whether an index was open before and was given up.
    is_suspect: bool,
    /// When there were other packs than before, at the last look at what a partial clone left out.
    packs: Option<SystemTime>,
    /// The next try at vectors that could not be made or written.
    vectors: Backoff,
    /// Once there is a folder for what a provider is paid for.
    embedding: Option<Embedding>,
}

/// A handle on the indexer; cloning shares it.
#[derive(Clone)]
pub struct Indexer {
    pub(super) house: House,
    pub(super) encoder: Encoder,
    pub(super) front: Arc<Mutex<Front>>,
    stop: Arc<AtomicBool>,
}

impl Indexer {
    pub fn new(house: House, encoder: Encoder) -> Self {
        Self { house, encoder, front: Arc::default(), stop: Arc::default() }
    }

    /// Ends the thread after what is staged is durable.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.house.ledger.update(|_| {});
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Works until stopped.
    pub fn run(self) {
        let layout = self.house.settings.get().layout;
        let metadata = self.house.vault.join(&layout.metadata);
        let [backoff, reread, vectors] = [(); 3].map(|()| Backoff::new(MIN_RETRY, MAX_RETRY));
        let (index, room, is_suspect, packs) = (None, Room::default(), false, None);
        let embedding = None;
        let mut work = Work {
            index,
            layout,
            metadata,
            backoff,
            reread,
            room,
            is_suspect,
            packs,
            vectors,
            embedding,
        };
        while !self.is_stopped() {
            let followed =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.follow(&mut work)));
            match followed {
                Ok(Ok(())) | Ok(Err(FollowError::Stopped)) => continue,
                Ok(Err(FollowError::Index(IndexError::Busy))) => {
                    self.wait_for_the_other();
                    continue;
                }
                Ok(Err(FollowError::VaultAway)) => {}
                Ok(Err(_)) if !self.house.is_vault_there() => work.index = None, // No damage.
                Ok(Err(err)) => {
                    self.unwell(&err);
                    if let FollowError::Index(IndexError::Damaged(_)) = &err {
                        self.house.shelf.update(|it| it.view = None);
                    }
                    // What a build has in memory is not what is on the disk.
                    let is_ahead = work.index.as_ref().is_some_and(Index::is_unfinished);
                    if err.spoils_the_index() || is_ahead {
                        work.index = None;
                    }
                }
                Err(_) => {
                    let what = "The indexer met a fault in itself; its log says more";
                    self.report(what, "It is tried again by itself.");
                    work.index = None;
                }
            }
            work.backoff.failed(&work.metadata);
            self.wait_out(&mut work);
        }
    }

    /// A command builds the index: it is opened when that has ended.
    fn wait_for_the_other(&self) {
        let what = "Another remd command is building the index";
        let remedy = "It is searched when that has ended; edits are committed all the same.";
        self.house.problems.report("index", Level::Note, what, remedy);
        let seen = self.house.ledger.get_versioned().0;
        let _newer = self.house.ledger.wait_newer(seen, cause::LOOK);
    }

    /// Waits until another try is worth it.
    fn wait_out(&self, work: &mut Work) {
        let failed_at = clock::now();
        let mut seen = self.house.ledger.get_versioned().0;
        while !self.is_stopped() && !work.backoff.is_due(&work.metadata) {
            let head = self.house.ledger.wait_newer(seen, cause::LOOK);
            if let Some((version, _)) = head {
                seen = version;
                // What is committed now may be had although what came before it may not.
                if work.index.is_some() && clock::now() - failed_at >= MIN_RETRY {
                    return;
                }
            }
        }
    }

    /// Opens the index and follows HEAD until something fails or it is stopped.
    fn follow(&self, work: &mut Work) -> Result<(), FollowError> {
        if !self.house.is_vault_there() {
            return Err(FollowError::VaultAway);
        }
        if work.index.is_none() {
            self.make_folder(&work.layout)?;
            self.take_up_reindex(&work.metadata);
            // Only what nothing was amiss with is searched before it is looked at as a whole.
            let open = if work.is_suspect { Index::open_with_models } else { Index::open_soon };
            work.is_suspect = true;
            let Work { embedding, metadata, .. } = work;
            let models = embedding
                .get_or_insert_with(|| Embedding::new(&self.house, &self.encoder, metadata))
                .models();
            let (mut index, opened) = open(&work.metadata, &work.layout, models)?;
            index.knows(work.room.clone());
            self.show_opened(&index);
            self.catch_up_from(&mut index, opened, &work.layout)?;
            work.index = Some(index);
        }
        let Work {
            index: Some(index),
            layout,
            metadata,
            backoff,
            reread,
            packs,
            vectors,
            embedding: Some(embedding),
            ..
        } = work
        else {
            return Ok(());
        };
        let (mut seen, mut rung, mut waits_since) = (0, 0, None);
        let mut staged_since = (index.staged() > 0).then(clock::now);
        let mut resting = false;
        loop {
            let limit = match staged_since {
                Some(since) => IDLE.min(MAX_STAGED_FOR.saturating_sub(clock::now() - since)),
                None if resting => LOOK_AT_FILES,
                None => REST,
            };
            let may_tend = !vectors.is_waiting() || vectors.is_due(metadata);
            if may_tend {
                self.follow_encoder(index, embedding, vectors, metadata);
            }
            let tends = index.owes_at_once() && may_tend;
            let limit = match index.is_proven() {
                _ if backoff.is_waiting() => cause::LOOK,
                true if tends => Duration::ZERO,
                true if vectors.is_waiting() => limit.min(cause::LOOK),
                true => limit,
                false => Duration::ZERO,
            };
            // However often the encoder rings, what waits for quiet has its turn.
            let now = clock::now();
            let left = limit.saturating_sub(now - *waits_since.get_or_insert(now));
            let drafts_in = self.drafts_owed_in().unwrap_or(LONG);
            let (newer, is_over) =
                self.house.ledger.wait_newer_or_rung(seen, &mut rung, left.min(drafts_in));
            // A look at drafts is no quiet.
            let is_over = is_over && left <= drafts_in;
            let quiet = newer.is_none() && is_over && !tends;
            if newer.is_some() || is_over {
                waits_since = None;
            }
            if let Err(damage) = index.check()
                && !self.is_stopped()
            {
                if !self.house.is_vault_there() {
                    return Err(FollowError::VaultAway);
                }
                self.look_anew(&damage.to_string(), matches!(damage, Damage::Gone(_)));
                work.index = None;
                return Ok(());
            }
            if let Some((scope, built)) = self.reindex(index, layout, metadata) {
                // What it was built from is behind what is here: the rest follows when it is open.
                let placed = work.index.take().map_or(Ok(()), |it| it.take_over(scope));
                if placed.is_ok() && scope.has_vectors() {
                    embedding.refused.replace(built.refused, &self.house.problems);
                }
                self.reindexed(scope, placed.map_err(Into::into), &work.metadata);
                work.is_suspect = false;
                return Ok(());
            }
            let is_new = newer.is_some();
            if let Some((version, ledger)) = newer {
                seen = version;
                if self.is_stopped() {
                    index.flush()?;
                    return Err(FollowError::Stopped);
                }
                // With a disk that cannot be written the rest waits in Git, not in memory.
                let may_stage = !backoff.is_waiting() || index.staged() < MOST_WAITING;
                fault::thread_end("indexer.follow");
                if let Some(head) = ledger.head.filter(|_| may_stage)
                    && index.view().at() != Some(head.commit)
                {
                    self.catch_up(index, head.commit, layout)?;
                    resting = false;
                    if index.staged() > 0 {
                        staged_since.get_or_insert(clock::now());
                    }
                }
            }
            if is_new || self.drafts_owed_in().is_some_and(|it| it.is_zero()) {
                let came = self.look_at_drafts(layout);
                if self.take_what_came(index, came)? {
                    resting = false;
                    staged_since.get_or_insert(clock::now());
                }
            }
            if let Err(damage) = index.check_vectors()
                && !self.is_stopped()
            {
                self.mend_vectors(index, &damage);
                resting = false;
            } else if tends && !is_new {
                self.tend(index, vectors, metadata);
                resting = false;
            }
            if quiet {
                index.draw_neighbours_if_due();
            }
            if quiet
                && (self.read_again(index, reread, layout)?
                    || self.read_what_came(index, packs, layout)?)
            {
                resting = false;
                staged_since.get_or_insert(clock::now());
            }
            if backoff.is_waiting() && !backoff.is_due(metadata) {
                continue;
            }
            if !index.is_proven() {
                match index.prove() {
                    Ok(()) => {
                        if backoff.is_waiting() {
                            backoff.over();
                            seen = 0;
                            self.well(index);
                        }
                        if index.is_proven() {
                            // Somebody may wait for that.
                            self.house.shelf.update(|_| {});
                        }
                    }
                    Err(IndexError::Damaged(what)) => {
                        let why = format!("it was damaged, and so may answers be: {what}");
                        self.look_anew(&why, false);
                        work.index = None;
                        return Ok(());
                    }
                    Err(err) => {
                        self.unwell(&err.into());
                        backoff.failed(metadata);
                    }
                }
                continue;
            }
            let is_owed = staged_since.is_some_and(|it| clock::now() - it >= MAX_STAGED_FOR);
            let done = match staged_since {
                Some(_) if quiet || is_owed || backoff.is_waiting() => self.flush(index),
                None if (quiet || backoff.is_waiting()) && !resting => self.rest(index),
                _ => continue,
            };
            match done {
                Ok(()) => {
                    resting = staged_since.is_none();
                    staged_since = None;
                    if backoff.is_waiting() {
                        backoff.over();
                        // What was committed meanwhile.
                        seen = 0;
                    }
                }
                // The disk's trouble: nothing is lost, all is searched, it is tried again.
                Err(err) if !err.spoils_the_index() && index.staged() <= MOST_WAITING => {
                    self.unwell(&err);
                    backoff.failed(metadata);
                    if index.staged() > 0 {
                        staged_since.get_or_insert(clock::now());
                    }
                }
                Err(err) => return Err(err),
            }
        }
    }

    /// Makes some of the vectors that cost nothing, in the pauses between commits.
    fn tend(&self, index: &mut Index, backoff: &mut Backoff, metadata: &Path) {
        let tended = index.tend_at_once(clock::now() + TEND);
        self.tended(tended, backoff, metadata);
        self.publish(index.view(), None);
    }

    /// Makes the folder of derived state, and nothing above the vault.
    fn make_folder(&self, layout: &Layout) -> Result<(), FollowError> {
        let mut folder = self.house.vault.clone();
        for part in Path::new(&layout.metadata) {
            folder.push(part);
            // On a read-only disk the index that is there is read as it is.
            if let Err(err) = fs::create_dir(&folder)
                && (Trouble::of(&err.source).is_none() || fs::stat(&folder).is_err())
            {
                return Err(IndexError::from(StoreError::from(err)).into());
            }
        }
        Ok(())
    }

    /// Shows what was found on the disk, unless something newer is shown already.
    fn show_opened(&self, index: &Index) {
        let shown = self.house.shelf.get().view.and_then(|it| it.at());
        if shown.is_none() {
            self.publish(index.view(), None);
        }
    }

    /// From whatever was on the disk to HEAD.
    fn catch_up_from(
        &self,
        index: &mut Index,
        opened: Opened,
        layout: &Layout,
    ) -> Result<(), FollowError> {
        let Some(head) = self.wait_for_head()? else { return Err(FollowError::Stopped) };
        match opened {
            Opened::Ready { cursors } => self.go_on_from(index, &cursors, head, layout),
            Opened::Unfinished => self.go_on(index, head, layout),
            Opened::Rebuild(why) => {
                let why = match why {
                    Why::Missing => "there is none yet".to_owned(),
                    Why::Corrupt(what) => format!("it is corrupt: {what}"),
                    Why::Version(what) => format!("it is of another version: {what}"),
                    Why::Unfinished => "the last build did not end".to_owned(),
                    Why::Unreadable(what) => format!("it cannot be read: {what}"),
                };
                self.rebuild(index, head, layout, &why)
            }
        }
    }

    fn catch_up(
        &self,
        index: &mut Index,
        head: CommitId,
        layout: &Layout,
    ) -> Result<(), FollowError> {
        if index.is_unfinished() {
            return self.go_on(index, head, layout);
        }
        let Some(at) = index.view().at() else {
            return self.rebuild(index, head, layout, "it has no commit");
        };
        self.go_on_from(index, &BTreeSet::from([at]), head, layout)
    }

    /// From the cursors to HEAD; anew where history has lost one of them.
    fn go_on_from(
        &self,
        index: &mut Index,
        cursors: &BTreeSet<CommitId>,
        head: CommitId,
        layout: &Layout,
    ) -> Result<(), FollowError> {
        match changed_since(&self.house.reader, cursors, head)? {
            Some(updates) => self.take(index, updates, head, layout),
            None => self.rebuild(index, head, layout, "its commit is gone from history"),
        }
    }

    fn take(
        &self,
        index: &mut Index,
        changes: BTreeMap<VaultPath, Option<Entry>>,
        head: CommitId,
        layout: &Layout,
    ) -> Result<(), FollowError> {
        let started = clock::now();
        let count = changes.len();
        if count > MANY && index.is_kept() {
            match index.go_on(count) {
                // On a disk that cannot be written they are searched from memory.
                Err(err) if err.trouble().is_some() => {}
                build => {
                    let build = build?;
                    self.publish(build.view(), Some(Progress::of(0, count)));
                    self.build(build, changes, head, layout)?;
                    self.built(index);
                    return Ok(());
                }
            }
        }
        let mut updates = Vec::with_capacity(count);
        for (at, (path, entry)) in changes.into_iter().enumerate() {
            if self.is_stopped() {
                return Err(FollowError::Stopped);
            }
            updates.push(update_or_name(&self.house.reader, path, entry, layout)?);
            if count > MANY && at % 64 == 0 {
                self.progress(Progress::of(at, count));
            }
        }
        index.stage(updates, head)?;
        self.well(index);
        self.publish(index.view(), None);
        let took_ms = (clock::now() - started).as_millis();
        tracing::debug!(commit = %head.short(), notes = count, took_ms, "searchable");
        Ok(())
    }

    pub(super) fn progress(&self, progress: Progress) {
        self.house.shelf.update(|it| it.progress = Some(progress));
    }

    fn flush(&self, index: &mut Index) -> Result<(), FollowError> {
        let started = clock::now();
        let flushed = index.flush();
        if flushed.is_ok() {
            self.well(index);
        }
        self.publish(index.view(), None);
        flushed?;
        tracing::debug!(took_ms = (clock::now() - started).as_millis(), "index durable");
        Ok(())
    }

    fn rest(&self, index: &mut Index) -> Result<(), FollowError> {
        index.rest()?;
        self.well(index);
        self.publish(index.view(), None);
        Ok(())
    }

    /// The first head that the committer tells; `None` when stopped before.
    fn wait_for_head(&self) -> Result<Option<CommitId>, FollowError> {
        let mut seen = 0;
        loop {
            let (version, ledger) = self.house.ledger.get_versioned();
            if self.is_stopped() {
                return Ok(None);
            }
            if let Some(head) = ledger.head {
                return Ok(Some(head.commit));
            }
            seen = seen.max(version);
            let _newer = self.house.ledger.wait_newer(seen, LONG);
        }
    }
}

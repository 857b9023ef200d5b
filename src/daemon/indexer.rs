//! Follows HEAD: what is committed can be searched.
//!
//! Takes heads from the ledger, gives views to the shelf. Owns the [`Index`]. Runs on a thread of
//! its own, named like this file.
//!
//! **Invariant:** the index's own cursors say where to go on, never a message: a head that was
//! missed is caught up with by the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::daemon::committer::chain;
use crate::daemon::house::House;
use crate::daemon::problems::Level;
use crate::history::{ReadError, Reader};
use crate::index::{Index, IndexError, IndexView, Opened, Update, Why};
use crate::vault::note::read_note;
use crate::vault::role::role_of;
use crate::vault::{CommitId, Entry, FileMode, Layout, VaultPath};

/// Staged notes become durable when nothing came for this long …
const IDLE: Duration = Duration::from_secs(1);
/// … or after this long.
const MAX_STAGED_FOR: Duration = Duration::from_secs(10);
/// The writer is closed when nothing came for this long.
const REST: Duration = Duration::from_secs(5);
/// How long the thread sleeps when nothing is owed.
const LONG: Duration = Duration::from_secs(3600);
/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(2);
/// More changed notes than this are shown with progress.
const MANY: usize = 500;

/// Why the index could not follow.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    History(#[from] ReadError),
    #[error("Stopped")]
    Stopped,
}

/// A handle on the indexer; cloning shares it.
#[derive(Clone)]
pub struct Indexer {
    house: House,
    stop: Arc<AtomicBool>,
}

impl Indexer {
    pub fn new(house: House) -> Self {
        Self { house, stop: Arc::default() }
    }

    /// Ends the thread after what is staged is durable.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.house.ledger.update(|_| {});
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Works until stopped.
    pub fn run(self) {
        let mut index = None;
        while !self.is_stopped() {
            let followed =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.follow(&mut index)));
            match followed {
                Ok(Ok(())) | Ok(Err(FollowError::Stopped)) => {}
                Ok(Err(err)) => {
                    let remedy = match &err {
                        FollowError::Index(err) => err.hint(),
                        _ => None,
                    };
                    self.unwell(&chain(&err), remedy);
                    index = None;
                }
                Err(_) => {
                    self.unwell("The indexer met a fault in itself; its log says more", None);
                    index = None;
                }
            }
            if !self.is_stopped() {
                let seen = self.house.ledger.get_versioned().0;
                let _newer = self.house.ledger.wait_newer(seen, RETRY);
            }
        }
    }

    /// Opens the index and follows HEAD until something fails or it is stopped.
    fn follow(&self, slot: &mut Option<Index>) -> Result<(), FollowError> {
        let layout = self.house.settings.get().layout;
        let metadata = self.house.vault.join(&layout.metadata);
        let (mut index, opened) = Index::open(&metadata, &layout)?;
        self.publish(index.view(), None);
        self.catch_up_from(&mut index, opened, &layout)?;
        let index = slot.insert(index);
        let mut seen = 0;
        let mut staged_since: Option<Instant> = None;
        let mut resting = false;
        loop {
            let limit = match staged_since {
                Some(since) => IDLE.min(MAX_STAGED_FOR.saturating_sub(clock::now() - since)),
                None if resting => LONG,
                None => REST,
            };
            match self.house.ledger.wait_newer(seen, limit) {
                Some((version, ledger)) => {
                    seen = version;
                    if self.is_stopped() {
                        index.flush()?;
                        return Err(FollowError::Stopped);
                    }
                    let Some(head) = ledger.head else { continue };
                    if index.view().at() != Some(head.commit) {
                        self.catch_up(index, head.commit, &layout)?;
                        resting = false;
                        if index.staged() > 0 {
                            staged_since.get_or_insert(clock::now());
                        }
                    }
                    if staged_since.is_some_and(|it| clock::now() - it >= MAX_STAGED_FOR) {
                        self.flush(index)?;
                        staged_since = None;
                    }
                }
                None if staged_since.is_some() => {
                    self.flush(index)?;
                    staged_since = None;
                }
                None if !resting => {
                    index.rest()?;
                    self.publish(index.view(), None);
                    resting = true;
                }
                None => {}
            }
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
            Opened::Ready { cursors } if cursors.iter().all(|it| self.house.reader.exists(*it)) => {
                let updates = changed_since(&self.house.reader, &cursors, head)?;
                self.take(index, updates, head, layout)
            }
            Opened::Ready { .. } => {
                self.rebuild(index, head, layout, "its commit is gone from history")
            }
            Opened::Rebuild(why) => {
                let why = match why {
                    Why::Missing => "there is none yet".to_owned(),
                    Why::Corrupt(what) => format!("it is corrupt: {what}"),
                    Why::Version(what) => format!("it is of another version: {what}"),
                    Why::Unfinished => "the last build did not end".to_owned(),
                    Why::Unlockable(what) => format!("it cannot be locked: {what}"),
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
        let Some(at) = index.view().at() else {
            return self.rebuild(index, head, layout, "it has no commit");
        };
        let updates = changed_since(&self.house.reader, &BTreeSet::from([at]), head)?;
        self.take(index, updates, head, layout)
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
        let mut updates = Vec::with_capacity(count);
        for (at, (path, entry)) in changes.into_iter().enumerate() {
            if self.is_stopped() {
                return Err(FollowError::Stopped);
            }
            updates.push(update(&self.house.reader, path, entry, layout)?);
            if count > MANY && at % 64 == 0 {
                self.house.shelf.update(|it| it.progress = Some((at, count)));
            }
        }
        index.stage(updates, head)?;
        self.publish(index.view(), None);
        self.house.problems.clear("index");
        let took_ms = (clock::now() - started).as_millis();
        tracing::debug!(commit = %head.short(), notes = count, took_ms, "searchable");
        Ok(())
    }

    fn rebuild(
        &self,
        index: &mut Index,
        head: CommitId,
        layout: &Layout,
        why: &str,
    ) -> Result<(), FollowError> {
        let started = clock::now();
        let notes = indexed(&self.house.reader, head, layout)?;
        tracing::info!(notes = notes.len(), why, "building the index");
        let total = notes.len();
        let mut build = index.begin_rebuild(total)?;
        self.publish(build.view(), Some((0, total)));
        for (at, (path, entry)) in notes.into_iter().enumerate() {
            if self.is_stopped() {
                return Err(FollowError::Stopped);
            }
            if let Update::Put { path, blob, role, doc } =
                update(&self.house.reader, path, Some(entry), layout)?
                && build.add(&path, blob, role, &doc)?
            {
                self.publish(build.view(), Some((at + 1, total)));
            } else if at % 64 == 0 {
                self.house.shelf.update(|it| it.progress = Some((at, total)));
            }
        }
        let view = build.finish(head)?;
        self.publish(view, None);
        self.house.problems.clear("index");
        let took_ms = (clock::now() - started).as_millis();
        tracing::info!(commit = %head.short(), notes = total, took_ms, "index built");
        Ok(())
    }

    fn flush(&self, index: &mut Index) -> Result<(), FollowError> {
        let started = clock::now();
        index.flush()?;
        self.publish(index.view(), None);
        tracing::debug!(took_ms = (clock::now() - started).as_millis(), "index durable");
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

    fn publish(&self, view: Arc<IndexView>, progress: Option<(usize, usize)>) {
        self.house.shelf.update(|it| {
            it.view = Some(view);
            it.progress = progress;
            it.generation += 1;
        });
    }

    fn unwell(&self, what: &str, remedy: Option<String>) {
        let remedy = remedy.unwrap_or_else(|| "It is tried again by itself.".to_owned());
        self.house.problems.report("index", Level::Error, what, &remedy);
    }
}

/// Everything that differs between any of the cursors and `head`, as it is in `head`.
pub fn changed_since(
    reader: &Reader,
    cursors: &BTreeSet<CommitId>,
    head: CommitId,
) -> Result<BTreeMap<VaultPath, Option<Entry>>, ReadError> {
    let mut changed = BTreeMap::new();
    for cursor in cursors {
        for (path, change) in reader.diff(Some(*cursor), head)?.iter() {
            changed.insert(path.clone(), change.new);
        }
    }
    Ok(changed)
}

/// Every path in `head` that the index holds.
pub fn indexed(
    reader: &Reader,
    head: CommitId,
    layout: &Layout,
) -> Result<Vec<(VaultPath, Entry)>, ReadError> {
    let mut list = reader.list(head)?;
    list.retain(|(path, entry)| is_read(path, entry, layout));
    Ok(list)
}

/// What the index has to do about one path.
pub fn update(
    reader: &Reader,
    path: VaultPath,
    entry: Option<Entry>,
    layout: &Layout,
) -> Result<Update, ReadError> {
    Ok(match entry {
        Some(entry) if is_read(&path, &entry, layout) => {
            let doc = match reader.read_note(&path, entry.blob)? {
                Ok(bytes) => read_note(&path, &bytes),
                Err(why) => {
                    // Found by its name, and named in `status`; not by what stands for it.
                    let mut doc = read_note(&path, b"");
                    doc.problems.push(why);
                    doc
                }
            };
            Update::Put { role: role_of(&path, layout), blob: entry.blob, doc, path }
        }
        _ => Update::Remove(path),
    })
}

/// Whether the content of a path is read for the index: a symlink's is only its target.
fn is_read(path: &VaultPath, entry: &Entry, layout: &Layout) -> bool {
    matches!(entry.mode, FileMode::File | FileMode::Executable)
        && role_of(path, layout).is_indexed()
}

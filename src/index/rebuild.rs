//! Builds the index from nothing.
//!
//! Takes every note once, gives views of what is there so far. Blocking; the indexer's thread.
//! Memory is bounded: lines are compressed as they come, documents go to tantivy's own buffer.
//!
//! **Invariant:** until [`Rebuild::finish`] no store has a cursor, so that a build that did not
//! end is never taken for a whole one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tantivy::TantivyDocument;
use tantivy::indexer::UserOperation;

use crate::base::clock;
use crate::base::store::StoreError;
use crate::base::{fs, process};
use crate::index::analyze::tokenizers;
use crate::index::card::Card;
use crate::index::directory::Folder;
use crate::index::error::IndexError;
use crate::index::guard::Guard;
use crate::index::indexer::{Disk, Index, boxed, keyword_dir, open_writer, schema_mark};
use crate::index::shelf::Shelf;
use crate::index::state::State;
use crate::index::stores::{Pages, Stores};
use crate::index::view::{Building, IndexView};
use crate::vault::{BlobId, CommitId, NoteDoc, Role, VaultPath};

/// A build that runs.
pub struct Rebuild<'a> {
    index: &'a mut Index,
    pages: Pages,
    progress: Building,
    /// The view from before, served to the end; `None` where there was none.
    old: Option<Arc<IndexView>>,
    next_look: Instant,
    pause: Duration,
}

/// Lines that wait in memory, at most.
const MOST_WAITING: usize = 4 << 20;
/// The first part is shown after this time, the next ones after twice as long each.
const FIRST_LOOK: Duration = Duration::from_millis(300);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl<'a> Rebuild<'a> {
    pub(super) fn begin(index: &'a mut Index, total: usize) -> Result<Self, IndexError> {
        let old = index.view.at().is_some().then(|| index.view());
        // The writer's lock goes with it; what views hold stays mapped.
        index.disk = None;
        index.at = None;
        let stores_gone = Stores::folders(&index.dir).into_iter();
        for folder in stores_gone.chain([keyword_dir(&index.dir)]) {
            fs::remove_derived(&folder).map_err(StoreError::from)?;
        }
        // Names of notes go on from where they were: nothing old is ever taken for new.
        let generation = format!("{}{:x}", schema_mark(), clock::unix_seconds()) + &suffix();
        let stores = Stores::create(&index.dir, &generation)?;
        let folder = keyword_dir(&index.dir);
        fs::create_dir(&folder).map_err(StoreError::from)?;
        let directory = Folder::open(&folder).map_err(tantivy::TantivyError::from)?;
        let keyword = tantivy::Index::builder()
            .schema(index.fields.schema.clone())
            .tokenizers(tokenizers())
            .open_or_create(directory)?;
        let writer = Some(open_writer(&keyword)?);
        let shelf = Arc::new(Shelf::of(&keyword, &index.fields, None)?);
        let guard = Arc::new(Guard::of(&index.dir));
        let (graves, at) = (None, None);
        index.disk = Some(Disk { stores, keyword, writer, shelf, graves, generation, at, guard });
        index.state = State::new(&index.layout);
        let progress = Building { done: 0, total };
        let mut rebuild = Self {
            index,
            pages: Pages::default(),
            progress,
            old,
            next_look: clock::now() + FIRST_LOOK,
            pause: FIRST_LOOK,
        };
        rebuild.publish();
        Ok(rebuild)
    }

    /// What can be asked now.
    pub fn view(&self) -> Arc<IndexView> {
        self.index.view()
    }

    pub fn progress(&self) -> Building {
        self.progress
    }

    /// Adds a note; says whether there is a new view.
    pub fn add(
        &mut self,
        path: &VaultPath,
        blob: BlobId,
        role: Role,
        doc: &NoteDoc,
    ) -> Result<bool, IndexError> {
        self.progress.done += 1;
        if role.is_indexed() {
            let card = Arc::new(Card::new(self.index.next_id, path, blob, role, doc));
            self.index.next_id += 1;
            let was_there = self.index.state.put(Arc::clone(&card)).is_some();
            self.pages.put(&card, doc, &self.index.layout, was_there);
            let disk = self.index.disk.as_mut().ok_or(IndexError::NotBuilt)?;
            if self.pages.settle().map_err(boxed)? > MOST_WAITING {
                disk.stores.append_part(std::mem::take(&mut self.pages))?;
            }
            let mut operations: Vec<UserOperation<TantivyDocument>> = Vec::new();
            if was_there {
                operations.push(UserOperation::Delete(self.index.fields.path_term(path)));
            }
            let documents = self.index.fields.documents(&card, doc);
            operations.extend(documents.into_iter().map(UserOperation::Add));
            disk.writer()?.run(operations)?;
        }
        if self.old.is_some() || clock::now() < self.next_look {
            return Ok(false);
        }
        self.show()?;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.next_look = clock::now() + self.pause;
        Ok(true)
    }

    /// Makes the whole durable and true for `at`.
    pub fn finish(mut self, at: CommitId) -> Result<Arc<IndexView>, IndexError> {
        let pages = std::mem::take(&mut self.pages);
        let disk = self.index.disk.as_mut().ok_or(IndexError::NotBuilt)?;
        disk.stores.append(pages, Some(&at.to_string()))?;
        disk.commit(Some(at))?;
        if let Some(writer) = disk.writer.take() {
            writer.wait_merging_threads()?;
        }
        disk.renew(&self.index.fields)?;
        disk.guard = Arc::new(disk.guard.renewed(&self.index.dir, &disk.shelf));
        process::give_memory_back();
        self.index.at = Some(at);
        self.index.publish(None);
        Ok(self.index.view())
    }

    /// Commits what is there, without a cursor, to be searched.
    fn show(&mut self) -> Result<(), IndexError> {
        let disk = self.index.disk.as_mut().ok_or(IndexError::NotBuilt)?;
        disk.commit(None)?;
        disk.renew(&self.index.fields)?;
        disk.guard = Arc::new(disk.guard.renewed(&self.index.dir, &disk.shelf));
        self.publish();
        Ok(())
    }

    fn publish(&mut self) {
        match &self.old {
            Some(old) => self.index.view = Arc::clone(old),
            None => self.index.publish(Some(self.progress)),
        }
    }
}

/// Tells two builds within one second apart.
fn suffix() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("-{:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

//! Builds the index from nothing, or goes on with what there is of it.
//!
//! Takes every note once, gives views of what is there so far. Blocking; the indexer's thread.
//! Memory is bounded: lines are compressed as they come, documents go to tantivy's own buffer.
//! Every few seconds a step is made durable, so that a kill costs no more than that.
//!
//! **Invariant:** until [`Rebuild::end`] the last commit has no cursor, so that a build that did
//! not end is never taken for a whole one; what it holds are whole notes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tantivy::TantivyDocument;
use tantivy::indexer::UserOperation;

use crate::base::store::StoreError;
use crate::base::trouble::Trouble;
use crate::base::{clock, fault, fs};
use crate::index::analyze::tokenizers;
use crate::index::card::Card;
use crate::index::directory::Folder;
use crate::index::error::IndexError;
use crate::index::guard::Guard;
use crate::index::indexer::{Disk, Index, Update, boxed, open_writer};
use crate::index::open::keyword_dir;
use crate::index::payload::schema_mark;
use crate::index::shelf::Shelf;
use crate::index::state::State;
use crate::index::stores::{Pages, Stores};
use crate::index::vectors::Vectors;
use crate::index::view::{Building, IndexView, folder_bytes};
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
    /// What lay on the disk before.
    bytes_before: u64,
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
        for folder in stores_gone.chain([keyword_dir(&index.dir), Vectors::root(&index.dir)]) {
            fs::remove_derived(&folder).map_err(StoreError::from)?;
        }
        if let Some(vectors) = &mut index.vectors {
            vectors.forget();
        }
        // A build that the disk has no room for would fill it, and end for all that.
        index.check_room(total)?;
        // Names of notes go on from where they were: nothing old is ever taken for new.
        let own = || format!("{}{:x}", schema_mark(), clock::unix_seconds()) + &suffix();
        let twin = index.twin.as_ref();
        let generation = twin.map_or_else(own, |it| it.generation.clone());
        let stores = Stores::create(&index.dir, &generation)?;
        let folder = keyword_dir(&index.dir);
        fs::create_dir(&folder).map_err(StoreError::from)?;
        let directory = Folder::open(&folder, &index.met).map_err(tantivy::TantivyError::from)?;
        let keyword = tantivy::Index::builder()
            .schema(index.fields.schema.clone())
            .tokenizers(tokenizers())
            .open_or_create(directory)?;
        let writer = Some(open_writer(&keyword, &index.met)?);
        let shelf = Arc::new(Shelf::of(&keyword, &index.fields, None)?);
        let guard = Arc::new(Guard::of(&index.dir));
        let (graves, at) = (None, None);
        index.disk = Some(Disk { stores, keyword, writer, shelf, graves, generation, at, guard });
        index.state = State::new(&index.layout);
        if let Some((vectors, disk)) = index.vectors.as_mut().zip(index.disk.as_ref()) {
            vectors.set_generation(&disk.generation);
            vectors.begin_files_at(index.twin.as_ref().map_or(0, |it| it.first_file));
        }
        Ok(Self::begun(index, total, old))
    }

    pub(super) fn go_on(index: &'a mut Index, total: usize) -> Result<Self, IndexError> {
        let has_room = index.check_room(total).is_ok();
        let writer = index.disk.as_mut().ok_or(IndexError::NotBuilt)?.writer(&index.met)?;
        if !has_room {
            // What a build that failed left of the notes that it did not make durable. Where that
            // fails too, there is still no room.
            let _collected = writer.garbage_collect_files().wait();
            index.check_room(total)?;
        }
        index.at = None;
        Ok(Self::begun(index, total, None))
    }

    fn begun(index: &'a mut Index, total: usize, old: Option<Arc<IndexView>>) -> Self {
        index.is_unfinished = true;
        let bytes_before = bytes_of_words(&index.dir);
        let mut rebuild = Self {
            index,
            pages: Pages::default(),
            progress: Building { done: 0, total },
            old,
            next_look: clock::now() + fault::pause("indexer.step", FIRST_LOOK),
            pause: FIRST_LOOK,
            bytes_before,
        };
        rebuild.publish();
        rebuild
    }

    /// What can be asked now.
    pub fn view(&self) -> Arc<IndexView> {
        self.index.view()
    }

    pub fn progress(&self) -> Building {
        self.progress
    }

    /// Takes a note's change; says whether there is a new view.
    pub fn take(&mut self, update: Update) -> Result<bool, IndexError> {
        match update {
            Update::Put { path, blob, role, doc } if role.is_indexed() => {
                self.add(&path, blob, role, &doc)
            }
            Update::Put { path, .. } | Update::Remove(path) => {
                let removed = self.remove(&path);
                removed.map_err(|err| self.failed(err))
            }
        }
    }

    /// Adds a note, or puts it in the place of what its path had; says whether there is a new view.
    pub fn add(
        &mut self,
        path: &VaultPath,
        blob: BlobId,
        role: Role,
        doc: &NoteDoc,
    ) -> Result<bool, IndexError> {
        let added = self.put(path, blob, role, doc);
        added.map_err(|err| self.failed(err))
    }

    fn put(
        &mut self,
        path: &VaultPath,
        blob: BlobId,
        role: Role,
        doc: &NoteDoc,
    ) -> Result<bool, IndexError> {
        self.progress.done += 1;
        if role.is_indexed() {
            let twin = self.index.twin.as_ref();
            let number = twin.and_then(|it| it.number_of(path, blob, role)).unwrap_or_else(|| {
                self.index.next_id += 1;
                self.index.next_id - 1
            });
            let card = Arc::new(Card::new(number, path, blob, role, doc));
            let old = self.index.state.put(Arc::clone(&card));
            // The disk may have what the state does not know.
            let was_there = old.is_some() || self.index.cautious;
            self.index.put_vectors(old.as_deref(), &card, doc);
            let vectors = self.index.vectors.as_ref().and_then(|it| it.at_rest(card.id));
            self.pages.put(&card, doc, vectors.as_ref(), &self.index.layout, was_there);
            let disk = self.index.disk.as_mut().ok_or(IndexError::NotBuilt)?;
            let mut operations: Vec<UserOperation<TantivyDocument>> = Vec::new();
            if was_there {
                operations.push(UserOperation::Delete(self.index.fields.path_term(path)));
            }
            let documents = self.index.fields.documents(&card, doc);
            operations.extend(documents.into_iter().map(UserOperation::Add));
            disk.writer(&self.index.met)?.run(operations)?;
        }
        self.added()
    }

    /// Takes a note out; says whether there is a new view.
    fn remove(&mut self, path: &VaultPath) -> Result<bool, IndexError> {
        self.progress.done += 1;
        let old = self.index.state.remove(path);
        if let (Some(vectors), Some(old)) = (&mut self.index.vectors, &old) {
            vectors.remove(old);
        }
        if old.is_some() || self.index.cautious {
            self.pages.remove(path, &self.index.layout);
            let disk = self.index.disk.as_mut().ok_or(IndexError::NotBuilt)?;
            disk.writer(&self.index.met)?
                .run([UserOperation::Delete(self.index.fields.path_term(path))])?;
        }
        self.added()
    }

    fn added(&mut self) -> Result<bool, IndexError> {
        let disk = self.index.disk.as_mut().ok_or(IndexError::NotBuilt)?;
        if self.pages.settle().map_err(boxed)? > MOST_WAITING {
            disk.stores.append_part(std::mem::take(&mut self.pages))?;
        }
        if clock::now() < self.next_look {
            return Ok(false);
        }
        self.make_step()?;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.next_look = clock::now() + fault::pause("indexer.step", self.pause);
        Ok(self.old.is_none())
    }

    /// Makes the whole durable and true for `at`, in as few segments as it is worth.
    pub fn finish(self, at: CommitId) -> Result<Arc<IndexView>, IndexError> {
        let index = self.ended(at)?;
        let disk = index.disk.as_mut().ok_or(IndexError::NotBuilt)?;
        let merged = disk.close_writer().and_then(|_| disk.renew(&index.fields));
        merged.map_err(|err| err.caused_by(&index.met))?;
        index.renew_guard();
        index.publish(None);
        Ok(index.view())
    }

    /// Makes the whole durable and true for `at`. Segments may still become fewer: that is for
    /// [`Index::rest`].
    pub fn end(self, at: CommitId) -> Result<Arc<IndexView>, IndexError> {
        let index = self.ended(at)?;
        index.publish(None);
        Ok(index.view())
    }

    fn ended(mut self, at: CommitId) -> Result<&'a mut Index, IndexError> {
        let ended = self.commit(Some(at));
        ended.map_err(|err| self.failed(err))?;
        let index = self.index;
        index.write_vectors();
        index.renew_guard();
        index.room.sufficed();
        index.at = Some(at);
        index.is_unfinished = false;
        index.cautious = false;
        Ok(index)
    }

    /// Makes durable what is there, without a cursor, to be searched: who is killed goes on from
    /// here.
    pub fn step(&mut self) -> Result<(), IndexError> {
        let made = self.make_step();
        made.map_err(|err| self.failed(err))
    }

    fn make_step(&mut self) -> Result<(), IndexError> {
        self.commit(None)?;
        self.publish();
        Ok(())
    }

    /// Why it failed; the next build learns of a full disk.
    fn failed(&self, err: IndexError) -> IndexError {
        let err = self.index.with_its_cause(err);
        if err.trouble() == Some(Trouble::Full) {
            let bytes = bytes_of_words(&self.index.dir).saturating_sub(self.bytes_before);
            self.index.room.was_too_little(bytes, self.progress.total);
        }
        err
    }

    /// First the stores, then tantivy, which says how long they are.
    fn commit(&mut self, at: Option<CommitId>) -> Result<(), IndexError> {
        let pages = std::mem::take(&mut self.pages);
        let disk = self.index.disk.as_mut().ok_or(IndexError::NotBuilt)?;
        disk.stores.append(pages, at.map(|it| it.to_string()).as_deref())?;
        disk.commit(at, &self.index.met)?;
        disk.renew(&self.index.fields)?;
        self.index.renew_guard();
        Ok(())
    }

    fn publish(&mut self) {
        match &self.old {
            Some(old) => self.index.view = Arc::clone(old),
            None => self.index.publish(Some(self.progress)),
        }
    }
}

/// What the index takes on the disk without the vectors.
fn bytes_of_words(dir: &Path) -> u64 {
    folder_bytes(dir).saturating_sub(folder_bytes(&Vectors::root(dir)))
}

/// Tells two builds within one second apart.
fn suffix() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("-{:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

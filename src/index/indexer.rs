//! Keeps the index at a commit.
//!
//! Takes updates (notes put, notes gone) and the commit they lead to; shows them at once
//! ([`Index::stage`]) and makes them durable in batches ([`Index::flush`]): first the stores, then
//! tantivy, each with its cursor. Blocking; one owner, the indexer's thread.
//!
//! **Invariant:** every store says for itself up to which commit it is true. After a crash they
//! may differ; whoever applies the differences from *each* of them to HEAD has the whole truth
//! again.

use std::path::PathBuf;
use std::sync::Arc;

use tantivy::indexer::{LogMergePolicy, UserOperation};
use tantivy::{IndexWriter, TantivyDocument};

use crate::base::fault;
use crate::base::lock::DirLock;
use crate::index::beside::Twin;
use crate::index::card::Card;
use crate::index::directory::Met;
use crate::index::error::IndexError;
use crate::index::guard::{Damage, Guard};
use crate::index::merge::worth_merging;
use crate::index::overlay::{Overlay, Waiting};
use crate::index::payload::Payload;
use crate::index::proof::Proof;
use crate::index::rebuild::Rebuild;
use crate::index::room::Room;
use crate::index::schema::Fields;
use crate::index::shelf::Shelf;
use crate::index::spaces::Spaces;
use crate::index::state::State;
use crate::index::stores::{Pages, Stores};
use crate::index::tally::Graves;
use crate::index::view::{Building, IndexView};
use crate::vault::{BlobId, CommitId, Layout, NoteDoc, Role, VaultPath};

/// One note's change.
#[expect(clippy::large_enum_variant, reason = "most are puts, and each is on its way to a box")]
#[derive(Clone, Debug)]
pub enum Update {
    /// The note is there, with this content.
    Put { path: VaultPath, blob: BlobId, role: Role, doc: NoteDoc },
    /// The note is gone, or nothing that the index holds any more.
    Remove(VaultPath),
}

/// The index and its one writer.
pub struct Index {
    pub(super) dir: PathBuf,
    pub(super) layout: Layout,
    pub(super) fields: Arc<Fields>,
    pub(super) disk: Option<Disk>,
    pub(super) state: State,
    pub(super) next_id: u64,
    pub(super) at: Option<CommitId>,
    pub(super) overlay: Overlay,
    /// `None` where no model is in use.
    pub(super) vectors: Option<Spaces>,
    /// Whether files of vectors could not be made one.
    pub(super) is_untidy: bool,
    /// Whether a store may hold more of a path than the others know.
    pub(super) cautious: bool,
    /// What of the files has still to be looked at.
    pub(super) proof: Option<Proof>,
    /// Whether a build is under way, or was left off: it holds some notes, true for no commit.
    pub(super) is_unfinished: bool,
    /// The one that this is built beside of, if it is.
    pub(super) twin: Option<Twin>,
    pub(super) view: Arc<IndexView>,
    pub(super) room: Room,
    pub(super) met: Met,
    /// One writer a folder, be it an agent or a command; `None` where no folder can be made.
    pub(super) _lock: Option<DirLock>,
}

/// What lies on the disk.
pub(super) struct Disk {
    pub(super) stores: Stores,
    pub(super) keyword: tantivy::Index,
    pub(super) writer: Option<IndexWriter>,
    pub(super) shelf: Arc<Shelf>,
    /// What is dead on the shelf and not deleted in it; `None` where that has to be looked for.
    pub(super) graves: Option<Arc<Graves>>,
    pub(super) generation: String,
    pub(super) at: Option<CommitId>,
    pub(super) guard: Arc<Guard>,
}

/// What one thread of tantivy may gather before it writes a segment.
const WRITER_BUDGET: usize = 20 << 20;
/// A batch larger than this goes to the disk at once instead of into memory.
const MOST_STAGED: usize = 1000;

impl Index {
    /// Lets its builds know what earlier ones learned of the room that they need.
    pub fn knows(&mut self, room: Room) {
        self.room = room;
    }

    /// What can be asked now.
    pub fn view(&self) -> Arc<IndexView> {
        Arc::clone(&self.view)
    }

    /// How many changes are searched but not on the disk yet.
    pub fn staged(&self) -> usize {
        self.overlay.waiting.len()
    }

    /// Makes the updates visible and durable.
    pub fn apply(&mut self, updates: Vec<Update>, at: CommitId) -> Result<(), IndexError> {
        if !self.take(updates).is_empty()
            && let Some(disk) = &mut self.disk
        {
            // It is written anew at once.
            disk.graves = None;
        }
        self.at = Some(at);
        self.flush()
    }

    /// Makes the updates visible at once; [`Self::flush`] makes them durable.
    pub fn stage(&mut self, updates: Vec<Update>, at: CommitId) -> Result<(), IndexError> {
        if updates.len() > MOST_STAGED && self.disk.is_some() {
            return self.apply(updates, at);
        }
        let paths = self.take(updates);
        self.at = Some(at);
        self.bury(&paths)?;
        self.overlay.show(paths, &self.fields)?;
        self.publish(None);
        Ok(())
    }

    /// Makes everything durable that is staged. A failure changes nothing that can be asked; the
    /// next call tries again.
    pub fn flush(&mut self) -> Result<(), IndexError> {
        if self.overlay.waiting.is_empty() {
            self.publish(None);
            return Ok(());
        }
        let flushed = self
            .prove_all()
            .and_then(|()| self.write_waiting())
            .map_err(|err| self.with_its_cause(err));
        self.renew_guard();
        match &flushed {
            Ok(()) => {
                self.overlay = Overlay::default();
                self.cautious = false;
            }
            Err(_) => {
                self.cautious = true;
                if let Some(disk) = &mut self.disk {
                    // What it holds uncommitted is written again with the next attempt.
                    disk.writer = None;
                }
                self.overlay.show_all(&self.fields)?;
            }
        }
        self.publish(None);
        flushed
    }

    /// Puts the index to rest until the next change: everything durable, the cursor too, dead
    /// lines gone, small segments made one, the writer closed and its memory given back.
    pub fn rest(&mut self) -> Result<(), IndexError> {
        self.flush()?;
        // What is damaged must not get into what is written anew.
        self.prove_all()?;
        let rested = self.tidy_up().map_err(|err| self.with_its_cause(err));
        self.renew_guard();
        self.publish(None);
        rested
    }

    /// Whether the files are as they were left. Where they are not, the index is opened anew, which
    /// looks at all that is in them.
    pub fn check(&self) -> Result<(), Damage> {
        match &self.disk {
            Some(Disk { writer: None, guard, .. }) => guard.check(),
            Some(disk) => disk.guard.check_written(),
            None => Ok(()),
        }
    }

    /// Whether all is known to be what was written.
    pub fn is_proven(&self) -> bool {
        self.proof.is_none()
    }

    /// Looks at the next part of what was opened. After [`IndexError::Damaged`] it is of no use any
    /// more, and what was found in it may have been wrong.
    pub fn prove(&mut self) -> Result<(), IndexError> {
        if let (Some(proof), Some(disk)) = (&mut self.proof, &self.disk)
            && proof.step(&disk.stores, &disk.keyword).map_err(IndexError::from)?
        {
            self.proof = None;
        }
        Ok(())
    }

    fn prove_all(&mut self) -> Result<(), IndexError> {
        while !self.is_proven() {
            self.prove()?;
        }
        Ok(())
    }

    /// A thread of tantivy's that met a full disk ends, and does not say why.
    pub(super) fn with_its_cause(&self, err: IndexError) -> IndexError {
        err.caused_by(&self.met)
    }

    pub(super) fn renew_guard(&mut self) {
        if let Some(disk) = &mut self.disk {
            let vectors = self.vectors.as_ref();
            disk.guard = Arc::new(disk.guard.renewed(&self.dir, &disk.shelf, vectors));
        }
    }

    fn tidy_up(&mut self) -> Result<(), IndexError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        if let Some(at) = self.at.filter(|it| disk.at != Some(*it)) {
            disk.stores.append(Pages::default(), Some(&at.to_string()))?;
            disk.commit(Some(at), &self.met)?;
        }
        disk.stores.compact(&self.state, self.vectors.as_ref())?;
        let written = disk.close_writer()?;
        // A merge of the writer's own could be under way before.
        if disk.merge(&self.met)? | written {
            disk.renew(&self.fields)?;
            if self.cautious {
                disk.graves = None;
            }
        }
        self.tidy_vectors();
        Ok(())
    }

    /// Starts to build the index anew; `total` notes will be added. What was there is searched
    /// until the build ends, if it was whole; otherwise what is built so far.
    pub fn begin_rebuild(&mut self, total: usize) -> Result<Rebuild<'_>, IndexError> {
        self.overlay = Overlay::default();
        self.cautious = false;
        self.proof = None;
        Proof::forget(&self.dir);
        let met = self.met.clone();
        Rebuild::begin(self, total).map_err(|err| err.caused_by(&met))
    }

    /// Goes on with a build that did not end, or lets very many notes come to an index that is
    /// whole: it is true for no commit until [`Rebuild::end`].
    pub fn go_on(&mut self, total: usize) -> Result<Rebuild<'_>, IndexError> {
        self.flush()?;
        self.prove_all()?;
        let met = self.met.clone();
        Rebuild::go_on(self, total).map_err(|err| err.caused_by(&met))
    }

    /// Whether a build was begun and not ended. What lies on the disk is what its last step left:
    /// after a failure the index is to be opened anew.
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Whether there is anything on the disk.
    pub fn is_kept(&self) -> bool {
        self.disk.is_some()
    }

    /// Takes the updates into the state and the overlay; gives the paths that changed.
    fn take(&mut self, updates: Vec<Update>) -> Vec<VaultPath> {
        let mut paths = Vec::with_capacity(updates.len());
        for update in updates {
            match update {
                Update::Put { path, blob, role, doc } if role.is_indexed() => {
                    let known = self.state.card(&path);
                    let is_same = known.is_some_and(|it| it.blob == blob && it.role == role);
                    if is_same && !self.cautious {
                        continue;
                    }
                    let card = Arc::new(Card::new(self.next_id, &path, blob, role, &doc));
                    self.next_id += 1;
                    let old = self.state.put(Arc::clone(&card));
                    self.overlay.put(card, doc, old.is_some());
                    paths.push(path);
                    if let (Some(vectors), Some(old)) = (&mut self.vectors, old) {
                        vectors.remove(&old);
                    }
                }
                Update::Put { path, .. } | Update::Remove(path) => {
                    let old = self.state.remove(&path);
                    let was_there = old.is_some();
                    if let (Some(vectors), Some(old)) = (&mut self.vectors, old) {
                        vectors.remove(&old);
                    }
                    if was_there || self.cautious {
                        self.overlay.remove(&path, was_there);
                        paths.push(path);
                    }
                }
            }
        }
        if let Some(vectors) = &mut self.vectors {
            vectors.put(paths.iter().filter_map(|it| self.overlay.put_at(it)));
        }
        paths
    }

    fn write_waiting(&mut self) -> Result<(), IndexError> {
        let disk = self.disk.as_mut().ok_or(IndexError::NotBuilt)?;
        let mut pages = Pages::default();
        for (path, waiting) in &self.overlay.waiting {
            match waiting {
                Waiting::Put { card, doc, on_disk } => {
                    let vectors = self.vectors.as_ref().and_then(|it| it.at_rest(card.id));
                    let was_there = *on_disk || self.cautious;
                    pages.put(card, doc, vectors.as_ref(), &self.layout, was_there);
                }
                Waiting::Remove { on_disk: false } if !self.cautious => {}
                Waiting::Remove { .. } => pages.remove(path, &self.layout),
            }
        }
        fault::point("indexer.before_stores");
        disk.stores.append(pages, self.at.map(|it| it.to_string()).as_deref())?;
        let writer = disk.writer(&self.met)?;
        for (path, waiting) in &self.overlay.waiting {
            let mut operations: Vec<UserOperation<TantivyDocument>> =
                vec![UserOperation::Delete(self.fields.path_term(path))];
            if let Waiting::Put { card, doc, .. } = waiting {
                operations
                    .extend(self.fields.documents(card, doc).into_iter().map(UserOperation::Add));
            }
            writer.run(operations)?;
        }
        disk.commit(self.at, &self.met)?;
        disk.renew(&self.fields)?;
        fault::point("indexer.before_vectors");
        self.write_vectors();
        Ok(())
    }

    /// Marks what the disk has of the paths as dead.
    fn bury(&mut self, paths: &[VaultPath]) -> Result<(), IndexError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let Some(graves) = &mut disk.graves else { return Ok(()) };
        let graves = Arc::make_mut(graves);
        for path in paths {
            graves.bury(&disk.shelf, &self.fields.path_term(path), &self.fields)?;
        }
        Ok(())
    }

    pub(super) fn publish(&mut self, building: Option<Building>) {
        let shelves = self.disk.iter().map(|it| &it.shelf).chain(self.overlay.shelves());
        self.view = IndexView::assemble(
            self.state.clone(),
            shelves.cloned().collect(),
            self.disk.as_ref().and_then(|it| it.graves.clone()),
            Arc::clone(&self.fields),
            self.at,
            building,
            Some(&self.dir),
        )
        .meaning(self.vectors.as_ref().map(Spaces::meaning))
        .guarded(
            self.disk.as_ref().map(|it| Arc::clone(&it.guard)),
            self.proof.as_ref().map(Proof::is_over),
        );
    }
}

impl Disk {
    /// Takes up what was committed: whatever died before is deleted in it.
    pub(super) fn renew(&mut self, fields: &Fields) -> Result<(), IndexError> {
        self.shelf = Arc::new(Shelf::of(&self.keyword, fields, Some(&self.shelf))?);
        self.graves = Some(Arc::new(Graves::none(&self.shelf)));
        Ok(())
    }

    /// The writer, opened when it is needed.
    pub(super) fn writer(&mut self, met: &Met) -> Result<&mut IndexWriter, IndexError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => open_writer(&self.keyword, met)?,
        };
        Ok(self.writer.insert(writer))
    }

    /// Closes the writer, if it is open, after its merges; says whether it was.
    pub(super) fn close_writer(&mut self) -> Result<bool, IndexError> {
        let Some(writer) = self.writer.take() else { return Ok(false) };
        writer.wait_merging_threads()?;
        Ok(true)
    }

    /// Makes one of the segments that are worth it, and says whether any were.
    fn merge(&mut self, met: &Met) -> Result<bool, IndexError> {
        let segments: Vec<_> = self
            .keyword
            .searchable_segment_metas()?
            .iter()
            .map(|it| (it.id(), u64::from(it.num_docs())))
            .collect();
        let segments = worth_merging(&segments);
        if segments.is_empty() {
            return Ok(false);
        }
        self.writer(met)?.merge(&segments).wait()?;
        self.close_writer()
    }

    /// Commits with the cursor; without one, as a step of a build.
    pub(super) fn commit(&mut self, at: Option<CommitId>, met: &Met) -> Result<(), IndexError> {
        let payload = Payload {
            at: at.map(|it| it.to_string()),
            generation: self.generation.clone(),
            stores: at.is_none().then(|| self.stores.lengths()),
        };
        let mut commit = self.writer(met)?.prepare_commit()?;
        fault::point("indexer.before_commit");
        commit.set_payload(&serde_json::to_string(&payload).map_err(boxed)?);
        commit.commit()?;
        met.over();
        fault::point("indexer.after_commit");
        self.at = at;
        Ok(())
    }
}

pub(super) fn open_writer(keyword: &tantivy::Index, met: &Met) -> Result<IndexWriter, IndexError> {
    // Its threads have met nothing yet.
    met.over();
    let writer: IndexWriter = keyword.writer_with_num_threads(1, WRITER_BUDGET)?;
    let mut policy = LogMergePolicy::default();
    // Deleted documents weigh in the statistics until they are merged away.
    policy.set_del_docs_ratio_before_merge(0.3);
    writer.set_merge_policy(Box::new(policy));
    Ok(writer)
}

pub(super) fn boxed(err: impl std::error::Error + Send + Sync + 'static) -> IndexError {
    IndexError::Keyword(Box::new(err))
}

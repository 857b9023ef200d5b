//! What the index knows at one moment.
//!
//! Takes nothing after it is made: a view is a snapshot that any number of threads ask, while the
//! index goes on.
//!
//! **Invariant:** two questions to one view are answered from the same state: the disk index, the
//! overlay before it and the cards belong together.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::base::clock;
use crate::base::fs;
use crate::embed::{Embedder, Identity, Vector};
use crate::index::IndexError;
use crate::index::ask::Ask;
use crate::index::card::{Card, Edge};
use crate::index::guard::{Damage, Guard};
use crate::index::keyword::{self, Block, Candidate, Found, Ground, Share, Weights};
use crate::index::living::Living;
use crate::index::meaning::{Meaning, Near, Nearest};
use crate::index::neighbours::GraphState;
use crate::index::rows::Rows;
use crate::index::schema::Fields;
use crate::index::shelf::{Passage, Shelf};
use crate::index::state::leads::{Goal, Lead};
use crate::index::state::{State, Tie};
use crate::index::tally::Graves;
use crate::vault::{CommitId, Layout, Resolution, VaultPath};

/// A snapshot of the index.
pub struct IndexView {
    state: State,
    /// The disk index first, then the overlay.
    shelves: Vec<Arc<Shelf>>,
    /// What is dead on the disk index and not deleted in it, where that is known.
    graves: Option<Arc<Graves>>,
    fields: Arc<Fields>,
    at: Option<CommitId>,
    building: Option<Building>,
    dir: Option<PathBuf>,
    /// The vectors; `None` where no model is in use.
    meaning: Option<Meaning>,
    /// By which it is seen that somebody touched the files below.
    guard: Option<Arc<Guard>>,
    /// By which it is seen that those files are what was written; `None` where that was known.
    is_proven: Option<Arc<AtomicBool>>,
    memo: Memo,
}

/// How far a first build or rebuild is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Building {
    pub done: usize,
    pub total: usize,
}

/// How much the index holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub notes: usize,
    pub chunks: usize,
    pub links: usize,
    /// Links that could mean more than one note.
    pub ambiguous_links: usize,
}

/// How far the vectors are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VectorCounts {
    /// Which model made them.
    pub model: String,
    pub dimension: usize,
    /// Vectors, those of notes that are gone included.
    pub vectors: usize,
    /// Notes whose vectors are not made yet.
    pub missing: usize,
    /// Whether a graph of neighbours says where to look, at this moment.
    pub graph: GraphState,
}

/// Answers that are worked out once a view.
#[derive(Default)]
pub(super) struct Memo {
    listing: OnceLock<Vec<Arc<Card>>>,
    living: OnceLock<Living>,
    troubled: OnceLock<Vec<Arc<Card>>>,
    inlinks: Mutex<HashMap<VaultPath, Arc<Vec<Tie>>>>,
}

/// The inlinks of so many notes are kept.
const MOST_INLINKS: usize = 256;

impl IndexView {
    pub(super) fn assemble(
        state: State,
        shelves: Vec<Arc<Shelf>>,
        graves: Option<Arc<Graves>>,
        fields: Arc<Fields>,
        at: Option<CommitId>,
        building: Option<Building>,
        dir: Option<&Path>,
    ) -> Arc<Self> {
        let (dir, memo) = (dir.map(Path::to_owned), Memo::default());
        Arc::new(Self {
            state,
            shelves,
            graves,
            fields,
            at,
            building,
            dir,
            meaning: None,
            guard: None,
            is_proven: None,
            memo,
        })
    }

    /// The same view with these cards in the place of those at their paths; `shelf` has their
    /// documents, `rows` those of their vectors that are made.
    pub(super) fn with_cards(
        &self,
        cards: &[&Arc<Card>],
        shelf: Option<&Arc<Shelf>>,
        rows: Option<(&Identity, &Arc<Rows>)>,
    ) -> Result<Arc<Self>, IndexError> {
        let (mut state, mut graves) = (self.state.clone(), self.graves.clone());
        let mut meaning = self.meaning.clone();
        let rows = rows.filter(|it| self.embedder().is_some_and(|own| own.identity() == it.0));
        for card in cards {
            if let (Some(graves), Some(first)) = (&mut graves, self.shelves.first()) {
                let path = self.fields.path_term(&card.path);
                Arc::make_mut(graves).bury(first, &path, &self.fields)?;
            }
            state.put(Arc::clone(card));
            let is_made = rows.is_some_and(|it| it.1.group_of(card.id).is_some());
            if let Some(meaning) = meaning.as_mut().filter(|_| !is_made) {
                meaning.missing += 1;
            }
        }
        if let (Some(meaning), Some((_, rows))) = (&mut meaning, rows) {
            meaning.blocks.push(Arc::clone(rows));
        }
        Ok(Arc::new(Self {
            state,
            shelves: self.shelves.iter().chain(shelf).cloned().collect(),
            graves,
            fields: Arc::clone(&self.fields),
            at: self.at,
            building: self.building,
            dir: self.dir.clone(),
            meaning,
            guard: self.guard.clone(),
            is_proven: self.is_proven.clone(),
            memo: Memo::default(),
        }))
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The same view, with vectors.
    pub(super) fn meaning(self: Arc<Self>, meaning: Option<Meaning>) -> Arc<Self> {
        let mut view = self;
        if let Some(own) = Arc::get_mut(&mut view) {
            own.meaning = meaning;
        }
        view
    }

    /// The same view, which tells when somebody touches its files, and whether they were proven.
    pub(super) fn guarded(
        self: Arc<Self>,
        guard: Option<Arc<Guard>>,
        is_proven: Option<Arc<AtomicBool>>,
    ) -> Arc<Self> {
        let mut view = self;
        if let Some(own) = Arc::get_mut(&mut view) {
            own.guard = guard;
            own.is_proven = is_proven;
        }
        view
    }

    /// Whether the files behind this view are as they were written: asked after a query, which
    /// then may be believed. It costs one `stat` a file.
    pub fn check(&self) -> Result<(), Damage> {
        self.guard.as_ref().map_or(Ok(()), |it| it.check_segments())
    }

    /// Whether the vectors of this view are as they were written: asked after they were, which then
    /// may be believed. It costs one `stat` a file.
    pub fn has_whole_vectors(&self) -> bool {
        let is_mapped = |it: &Meaning| it.blocks.iter().all(|it| it.is_whole());
        self.guard.as_ref().is_none_or(|it| it.check_mapped_vectors().is_ok())
            && self.meaning.as_ref().is_none_or(is_mapped)
    }

    /// Whether what lies on the disk of this view was taken away as a whole. What is mapped can still
    /// be asked; it costs one `stat`.
    pub fn is_taken_away(&self) -> bool {
        self.guard.as_ref().is_some_and(|it| it.is_taken_away())
    }

    /// Whether the files behind this view are known to be what was written. It may become so while
    /// the view is asked.
    pub fn is_proven(&self) -> bool {
        self.is_proven.as_ref().is_none_or(|it| it.load(Ordering::SeqCst))
    }

    /// The commit that answers are true for; `None` before the first build has ended.
    pub fn at(&self) -> Option<CommitId> {
        self.at
    }

    /// Whether a build still runs, so that answers are a part of the truth.
    pub fn building(&self) -> Option<Building> {
        self.building
    }

    pub fn layout(&self) -> &Layout {
        &self.state.layout
    }

    pub fn counts(&self) -> Counts {
        Counts {
            notes: self.state.notes(),
            chunks: self.state.chunks(),
            links: self.state.links(),
            ambiguous_links: self.state.ambiguous(),
        }
    }

    /// What is known of a note; `None` where it is not indexed.
    pub fn note(&self, path: &VaultPath) -> Option<&Arc<Card>> {
        self.state.card(path)
    }

    /// All indexed notes, by path.
    pub fn notes(&self) -> &[Arc<Card>] {
        self.memo.listing.get_or_init(|| {
            let mut cards: Vec<Arc<Card>> = self.state.cards().cloned().collect();
            cards.sort_by(|a, b| a.path.cmp(&b.path));
            cards
        })
    }

    /// The notes of which something could not be read as it stands, by path.
    pub fn troubled(&self) -> &[Arc<Card>] {
        self.memo.troubled.get_or_init(|| {
            let mut cards: Vec<Arc<Card>> = self.state.troubled().cloned().collect();
            cards.sort_by(|a, b| a.path.cmp(&b.path));
            cards
        })
    }

    /// The indexed notes that `path` links to, in the order of its links.
    pub fn outlinks(&self, path: &VaultPath) -> Vec<Tie> {
        self.state.outlinks(path)
    }

    /// The indexed notes that link to `path`, by their paths.
    pub fn inlinks(&self, path: &VaultPath) -> Arc<Vec<Tie>> {
        let lock = || self.memo.inlinks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(path) {
            return Arc::clone(known);
        }
        let ties = Arc::new(self.state.inlinks(path));
        let mut memo = lock();
        if memo.len() >= MOST_INLINKS {
            memo.clear();
        }
        memo.insert(path.clone(), Arc::clone(&ties));
        ties
    }

    /// Where a link of a note leads among the indexed notes.
    pub fn resolve(&self, from: &Card, edge: &Edge) -> Resolution {
        self.state.resolve(from, edge)
    }

    /// The indexed notes whose name is the link's but for case, normal form and folder, those with
    /// the fewest folders first.
    pub fn alike(&self, target: &str) -> Vec<&VaultPath> {
        self.state.alike(target)
    }

    /// The links of a note with what each leads to, those to itself aside.
    pub fn leads(&self, card: &Arc<Card>) -> Vec<Lead> {
        self.state.leads(card)
    }

    /// The links that lead to a place, by the notes they stand in.
    pub fn leads_to(&self, goal: &Goal) -> Vec<Lead> {
        self.state.leads_to(goal)
    }

    /// The note that a link with this target in the note `from` leads to.
    pub fn meant_from(&self, from: &VaultPath, target: &str) -> Option<&Arc<Card>> {
        self.state.meant(from, target)
    }

    /// The note that a person calls so: its path, or what a link at the vault's root would say.
    pub fn meant(&self, name: &str) -> Option<&Arc<Card>> {
        self.state.meant_anywhere(name)
    }

    /// The mean of a note's vectors; `None` where it has none.
    pub fn direction(&self, card: &Card) -> Option<Vector> {
        self.meaning.as_ref()?.direction(card)
    }

    /// What the index takes on the disk.
    pub fn bytes_on_disk(&self) -> u64 {
        self.dir.as_ref().map_or(0, |dir| folder_bytes(dir))
    }

    /// The notes that answer best by their words, at most `pool`, among those that `keep` takes.
    pub fn find(
        &self,
        ask: &Ask,
        keep: &dyn Fn(&Card) -> bool,
        pool: usize,
        deadline: Instant,
    ) -> Result<Found, IndexError> {
        Ok(keyword::find(&self.ground()?, ask, keep, pool, deadline)?)
    }

    /// What a candidate's score is the sum of.
    pub fn shares(&self, ask: &Ask, candidate: &Candidate) -> Result<Vec<Share>, IndexError> {
        Ok(keyword::shares(&self.ground()?, ask, candidate)?)
    }

    /// The highest number of a living note.
    pub(super) fn highest_number(&self) -> u64 {
        self.state.cards().map(|it| it.id).max().unwrap_or(0)
    }

    /// The model that the vectors are of; `None` where none is in use.
    pub fn embedder(&self) -> Option<&dyn Embedder> {
        self.meaning.as_ref().map(|it| &*it.embedder)
    }

    /// The same view, whose questions go to another's mouth: `wrap` is given the model and must give
    /// one of the same space.
    pub fn asking_by(
        self: Arc<Self>,
        wrap: impl FnOnce(Arc<dyn Embedder>) -> Arc<dyn Embedder>,
    ) -> Arc<Self> {
        let mut view = self;
        if let Some(meaning) = Arc::get_mut(&mut view).and_then(|it| it.meaning.as_mut()) {
            meaning.embedder = wrap(Arc::clone(&meaning.embedder));
        }
        view
    }

    /// How far the vectors are.
    pub fn vectors(&self) -> Option<VectorCounts> {
        let meaning = self.meaning.as_ref()?;
        let identity = meaning.embedder.identity();
        Some(VectorCounts {
            model: identity.model.clone(),
            dimension: identity.dimension,
            vectors: meaning.blocks.iter().map(|it| it.rows()).sum(),
            missing: meaning.missing,
            graph: meaning.neighbours.state(),
        })
    }

    /// The notes that are nearest to a vector, at most `pool`, among those that `keep` takes.
    pub fn nearest(
        &self,
        query: &Vector,
        keep: &dyn Fn(&Card) -> bool,
        pool: usize,
        deadline: Instant,
    ) -> Nearest {
        let meaning = self.meaning.as_ref();
        meaning.map_or_else(Nearest::default, |it| {
            it.nearest(&self.state, query, keep, pool, deadline)
        })
    }

    /// How near one note is; `None` where it has no vector.
    pub fn nearness(&self, query: &Vector, card: &Arc<Card>) -> Option<Near> {
        self.meaning.as_ref()?.nearness(query, card)
    }

    /// A note as a candidate that no word of the query found.
    pub fn candidate(&self, card: &Arc<Card>, chunk: usize) -> Result<Candidate, IndexError> {
        let (note, passage, named) = (0.0, 0.0, false);
        let block = self.block_of(card)?;
        Ok(Candidate { card: Arc::clone(card), chunk, note, passage, named, block })
    }

    /// The texts of a note's chunks as they are stored.
    pub(super) fn texts_of(&self, card: &Arc<Card>) -> Result<Vec<String>, IndexError> {
        let mut candidate = self.candidate(card, 0)?;
        let mut texts = Vec::with_capacity(card.chunks.len());
        for chunk in 0..card.chunks.len() {
            candidate.chunk = chunk;
            texts.push(self.passage(&candidate)?.text);
        }
        Ok(texts)
    }

    /// Where the documents of a note lie.
    fn block_of(&self, card: &Card) -> Result<Block, IndexError> {
        let term = self.fields.path_term(&card.path);
        // The overlay has the newer ones.
        for (shelf_at, shelf) in self.shelves.iter().enumerate().rev() {
            if let Some((segment, doc)) = shelf.note_at(&term, card.id)? {
                return Ok(Block { shelf: shelf_at, segment, doc });
            }
        }
        Err(IndexError::Keyword("a living note has no documents".into()))
    }

    /// The vectors of every note that has been looked at.
    #[cfg(test)]
    pub(super) fn all_vectors(
        &self,
    ) -> std::collections::BTreeMap<String, Vec<(u32, u32, Vec<u16>)>> {
        let meaning = self.meaning.iter();
        let all = meaning.flat_map(|it| self.notes().iter().map(move |card| (card, it.of(card))));
        all.filter_map(|(card, rows)| Some((card.path.to_string(), rows?))).collect()
    }

    /// How many candidates a graph of neighbours names for a query.
    #[cfg(test)]
    pub(super) fn named_by_graph(&self, query: &Vector) -> usize {
        let meaning = self.meaning.as_ref();
        meaning.map_or(0, |it| it.through_count(&self.state, &query.quantised()))
    }

    /// Whether somebody is at work on that graph.
    #[cfg(test)]
    pub(super) fn draws_graph(&self) -> bool {
        self.meaning.as_ref().is_some_and(|it| it.neighbours.is_at_work())
    }

    /// Which of the candidates have all that the query means to the letter.
    pub fn are_literal<'a>(
        &self,
        ask: &Ask,
        candidates: impl Iterator<Item = &'a Candidate>,
    ) -> Result<Vec<bool>, IndexError> {
        Ok(keyword::are_literal(&self.ground()?, ask, candidates)?)
    }

    /// The text of a candidate's chunk; empty for a note without one.
    pub fn passage(&self, candidate: &Candidate) -> Result<Passage, IndexError> {
        if candidate.card.chunks.is_empty() {
            return Ok(Passage::default());
        }
        let block = candidate.block;
        let doc = block.doc + 1 + u32::try_from(candidate.chunk).unwrap_or(0);
        Ok(self.shelves[block.shelf].passage(block.segment, doc, &self.fields)?)
    }

    /// Reads the stored text of every chunk that `keep` takes until `each` says stop or the
    /// deadline comes; `false` for the latter.
    pub fn read_all(
        &self,
        keep: &dyn Fn(&Card) -> bool,
        deadline: Instant,
        each: &mut dyn FnMut(Candidate, &str),
    ) -> Result<bool, IndexError> {
        for (shelf_at, shelf) in self.shelves.iter().enumerate() {
            for (segment, reader) in shelf.readers().iter().enumerate() {
                for doc in reader.doc_ids_alive() {
                    if clock::now() >= deadline {
                        return Ok(false);
                    }
                    let place = shelf.place_of(segment, doc);
                    let card = match self.state.card_of(shelf.note_of(segment, doc)) {
                        Some(card) if place > 0 && keep(card) => card,
                        _ => continue,
                    };
                    let passage = shelf.passage(segment, doc, &self.fields)?;
                    let block = Block { shelf: shelf_at, segment, doc: doc - place };
                    let chunk = place as usize - 1;
                    let candidate = Candidate {
                        card: Arc::clone(card),
                        chunk,
                        note: 0.0,
                        passage: 0.0,
                        named: false,
                        block,
                    };
                    each(candidate, &passage.text);
                }
            }
        }
        Ok(true)
    }

    /// The sums over the living as they are kept, and as a look at every document finds them.
    #[cfg(test)]
    pub(super) fn sums_kept_and_counted(
        &self,
    ) -> tantivy::Result<(crate::index::tally::Sums, crate::index::tally::Sums)> {
        let counted = Living::count(&self.shelves, None, &self.state, &self.fields)?;
        Ok((self.ground()?.living.sums(), counted.sums()))
    }

    pub(super) fn ground(&self) -> tantivy::Result<Ground<'_>> {
        let (shelves, fields, state) = (&self.shelves, &self.fields, &self.state);
        let living = match self.memo.living.get() {
            Some(living) => living,
            None => {
                let counted = Living::count(shelves, self.graves.as_ref(), state, fields)?;
                self.memo.living.get_or_init(|| counted)
            }
        };
        Ok(Ground { shelves, fields, weights: Weights::default(), state, living })
    }
}

impl std::fmt::Debug for IndexView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexView")
            .field("at", &self.at)
            .field("notes", &self.state.notes())
            .field("shelves", &self.shelves.len())
            .finish_non_exhaustive()
    }
}

/// The size of the files in a folder and below; what vanishes meanwhile counts nothing.
pub(super) fn folder_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .iter()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => folder_bytes(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

//! The index for those who do not write it: a command line without an agent.
//!
//! Takes the folder of derived state, gives a view, with what has changed since laid over it.
//! Blocking; any thread, beside a writer in another process.
//!
//! **Invariant:** nothing on the disk is changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::embed::Embedder;
use crate::index::card::Card;
use crate::index::directory::Met;
use crate::index::error::{IndexError, Why};
use crate::index::indexer::Update;
use crate::index::open::open_keyword;
use crate::index::overlay::Overlay;
use crate::index::payload::payload;
use crate::index::schema::Fields;
use crate::index::shelf::Shelf;
use crate::index::state::State;
use crate::index::stores::Stores;
use crate::index::vectors::Vectors;
use crate::index::view::IndexView;
use crate::vault::{CommitId, Layout};

/// An index opened to read.
pub struct IndexReader {
    state: State,
    fields: Arc<Fields>,
    shelf: Option<Arc<Shelf>>,
    next_id: u64,
    cursors: BTreeSet<CommitId>,
    dir: Option<PathBuf>,
    generation: String,
    vectors: Option<Vectors>,
}

/// How often the opening is tried while a writer is between its stores.
const ATTEMPTS: usize = 3;

impl IndexReader {
    /// Opens what is there, or says why it can't be read.
    pub fn open(metadata_dir: &Path, layout: &Layout) -> Result<Result<Self, Why>, IndexError> {
        let mut last = Self::open_once(metadata_dir, layout)?;
        for _ in 1..ATTEMPTS {
            match &last {
                Ok(reader) if reader.cursors.len() == 1 => break,
                Err(Why::Missing | Why::Version(_)) => break,
                _ => last = Self::open_once(metadata_dir, layout)?,
            }
        }
        Ok(last)
    }

    /// An index of nothing, to lay notes over.
    pub fn empty(layout: &Layout) -> Self {
        Self {
            state: State::new(layout),
            fields: Arc::new(Fields::new()),
            shelf: None,
            next_id: 1,
            cursors: BTreeSet::new(),
            dir: None,
            generation: String::new(),
            vectors: None,
        }
    }

    /// The same, to be searched by what this model makes of the notes, too.
    pub fn with_model(mut self, model: Arc<dyn Embedder>) -> Self {
        let dir = self.dir.clone().unwrap_or_default();
        let mut vectors = Vectors::new(&dir, model, &self.generation);
        if self.dir.is_some() {
            vectors.read_only();
            vectors.look_for_missing(&self.state);
        }
        self.next_id = self.next_id.max(vectors.highest() + 1);
        self.vectors = Some(vectors);
        self
    }

    /// How many notes lack vectors of its model.
    pub fn missing_vectors(&self) -> usize {
        self.vectors.as_ref().map_or(0, Vectors::missing)
    }

    /// The commits whose differences to HEAD are to be laid over it.
    pub fn cursors(&self) -> &BTreeSet<CommitId> {
        &self.cursors
    }

    /// What can be asked, with `updates` laid over it; true for `at` then.
    pub fn view(
        &self,
        updates: Vec<Update>,
        at: Option<CommitId>,
    ) -> Result<Arc<IndexView>, IndexError> {
        let (mut state, mut overlay, mut next_id) =
            (self.state.clone(), Overlay::default(), self.next_id);
        let mut vectors = self.vectors.clone();
        let mut paths = Vec::new();
        for update in updates {
            match update {
                Update::Put { path, blob, role, doc } if role.is_indexed() => {
                    let card = Arc::new(Card::new(next_id, &path, blob, role, &doc));
                    next_id += 1;
                    let old = state.put(Arc::clone(&card));
                    overlay.put(card, doc, false);
                    paths.push(path);
                    if let (Some(vectors), Some(old)) = (&mut vectors, old) {
                        vectors.remove(&old);
                    }
                }
                Update::Put { path, .. } | Update::Remove(path) => {
                    let old = state.remove(&path);
                    if let (Some(vectors), Some(old)) = (&mut vectors, old) {
                        vectors.remove(&old);
                    }
                    overlay.remove(&path, false);
                }
            }
        }
        if let Some(vectors) = &mut vectors {
            vectors.put(paths.iter().filter_map(|it| overlay.put_at(it)));
        }
        overlay.show(paths, &self.fields)?;
        let shelves = self.shelf.iter().chain(overlay.shelves()).cloned().collect();
        Ok(IndexView::assemble(
            state,
            shelves,
            None,
            Arc::clone(&self.fields),
            at,
            None,
            self.dir.as_deref(),
        )
        .meaning(vectors.as_ref().map(Vectors::meaning)))
    }

    fn open_once(dir: &Path, layout: &Layout) -> Result<Result<Self, Why>, IndexError> {
        let stores = match Stores::open_read_only(dir) {
            Ok(stores) => stores,
            Err(err) if err.needs_rebuild() => return Ok(Err(Why::from(&err))),
            Err(err) => return Err(err.into()),
        };
        let (fields, met) = (Fields::new(), Met::default());
        let keyword = match open_keyword(dir, &fields, &met) {
            Ok(keyword) => keyword,
            Err(why) => return Ok(Err(why)),
        };
        let (cursors, generation) = match payload(&keyword).and_then(|it| it.cursors(&stores)) {
            Ok(found) => found,
            Err(why) => return Ok(Err(why.caused_by(&met))),
        };
        let (state, highest) = match stores.read(layout) {
            Ok(read) => read,
            Err(err) if err.needs_rebuild() => return Ok(Err(Why::from(&err))),
            Err(err) => return Err(err.into()),
        };
        let shelf = Shelf::of(&keyword, &fields, None)
            .map_err(|err| IndexError::from(err).caused_by(&met))?;
        let next_id = highest.max(shelf.highest_note()) + 1;
        let (fields, shelf) = (Arc::new(fields), Some(Arc::new(shelf)));
        let (dir, vectors) = (Some(dir.to_owned()), None);
        Ok(Ok(Self { state, fields, shelf, next_id, cursors, dir, generation, vectors }))
    }
}

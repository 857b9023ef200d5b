//! The stores beside the keyword index: chunks, graph, catalogs.
//!
//! Takes updates, appends them; gives the cards back when the index is opened. Blocking; the
//! indexer's thread, and read only anywhere.
//!
//! **Invariant:** the last lines of a path are the ones that count; a tombstone stands before
//! them whenever the path was there before.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crate::base::cow::Quick;
use crate::base::fs;
use crate::base::store::{Batch, Heading, Store, StoreError};
use crate::index::card::{
    AnyLine, Card, CatalogLine, ChunkLine, Edge, GraphLine, Tombstone, completed,
};
use crate::index::spaces::Spaces;
use crate::index::state::State;
use crate::index::vectors::AtRest;
use crate::vault::{Layout, NoteDoc, VaultPath};

/// Changes when a line changes its meaning.
const VERSION: u32 = 3;

type ByPath<T> = HashMap<VaultPath, T, BuildHasherDefault<Quick>>;

/// The open stores.
pub(super) struct Stores {
    chunks: Store,
    graph: Store,
    catalog: Store,
    digest: Store,
}

/// Lines on their way into all four.
#[derive(Default)]
pub(super) struct Pages {
    chunks: Batch,
    graph: Batch,
    catalog: Batch,
    digest: Batch,
}

/// How much of a store must be dead before it is written anew, and how small one is left alone.
const LEAST_COMPACTED: u64 = 2000;

const CHUNKS: (&str, &str) = ("file_store/file_chunks_default_v1.jsonl.zst", "file_chunks");
const GRAPH: (&str, &str) = ("file_graph/default.jsonl.zst", "file_graph");
const CATALOG: (&str, &str) = ("file_catalog/default.jsonl.zst", "file_catalog");
const DIGEST: (&str, &str) = ("file_catalog/digest.jsonl.zst", "file_catalog_digest");

impl Stores {
    /// Makes empty stores of one generation in the place of whatever is there.
    pub(super) fn create(dir: &Path, generation: &str) -> Result<Self, StoreError> {
        let make = |(name, format): (&str, &str)| {
            let path = dir.join(name);
            // Not `dir` itself: where the vault was moved away nothing is made in its place.
            if let Some(parent) = path.parent() {
                fs::create_dir(parent)?;
            }
            let heading = Heading {
                format: format.to_owned(),
                version: VERSION,
                generation: generation.to_owned(),
            };
            Store::create(&path, &heading)
        };
        Ok(Self {
            chunks: make(CHUNKS)?,
            graph: make(GRAPH)?,
            catalog: make(CATALOG)?,
            digest: make(DIGEST)?,
        })
    }

    /// Opens what is there to go on with it.
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::opened(|(name, format)| Store::open(&dir.join(name), format, VERSION))
    }

    /// Opens what a build left off, as long as the stores were at its last step.
    pub(super) fn open_cut(dir: &Path, lengths: [u64; 4]) -> Result<Self, StoreError> {
        let [chunks, graph, catalog, digest] = lengths;
        let open = |(name, format): (&str, &str), length| {
            Store::open_cut(&dir.join(name), format, VERSION, length)
        };
        Ok(Self {
            chunks: open(CHUNKS, chunks)?,
            graph: open(GRAPH, graph)?,
            catalog: open(CATALOG, catalog)?,
            digest: open(DIGEST, digest)?,
        })
    }

    /// How long they are, in the order of [`Self::cursors`].
    pub(super) fn lengths(&self) -> [u64; 4] {
        [&self.chunks, &self.graph, &self.catalog, &self.digest].map(Store::bytes)
    }

    /// Looks at what [`Self::read`] does not: the rest has been read to the end.
    pub(super) fn verify(&self) -> Result<(), StoreError> {
        self.chunks.verify()?;
        self.digest.verify()
    }

    /// Opens what is there without changing it.
    pub(super) fn open_read_only(dir: &Path) -> Result<Self, StoreError> {
        Self::opened(|(name, format)| Store::open_read_only(&dir.join(name), format, VERSION))
    }

    fn opened(
        open: impl Fn((&str, &str)) -> Result<Store, StoreError>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            chunks: open(CHUNKS)?,
            graph: open(GRAPH)?,
            catalog: open(CATALOG)?,
            digest: open(DIGEST)?,
        })
    }

    /// What each store says it is true for.
    pub(super) fn cursors(&self) -> [Option<&str>; 4] {
        [&self.chunks, &self.graph, &self.catalog, &self.digest].map(Store::at)
    }

    /// The generation, where all stores are of the same.
    pub(super) fn generation(&self) -> Option<&str> {
        let own = self.catalog.generation();
        [&self.chunks, &self.graph, &self.digest]
            .iter()
            .all(|it| it.generation() == own)
            .then_some(own)
    }

    /// The living notes, read from the catalog and, beside it, the graph; and the highest number
    /// that any note ever had.
    pub(super) fn read(&self, layout: &Layout) -> Result<(State, u64), StoreError> {
        let (cards, links) = thread::scope(|scope| {
            let links = scope.spawn(|| self.read_links());
            let cards = self.read_cards();
            (cards, links.join().unwrap_or_else(|fault| resume_unwind(fault)))
        });
        let ((cards, highest), mut links) = (cards?, links?);
        let linked = |(path, mut card): (VaultPath, Arc<Card>)| {
            // Nobody else has it yet.
            if let Some(links) = links.remove(&path)
                && let Some(card) = Arc::get_mut(&mut card)
            {
                card.links = links;
            }
            card
        };
        Ok((State::of(layout, &cards.into_iter().map(linked).collect::<Vec<_>>()), highest))
    }

    /// The living cards, still without links.
    fn read_cards(&self) -> Result<(ByPath<Arc<Card>>, u64), StoreError> {
        let (mut cards, mut highest) = (ByPath::default(), 0);
        let understand = |line: &[u8]| {
            let line: CatalogLine = serde_json::from_slice(line).map_err(|err| err.to_string())?;
            match line.deleted {
                true => line.path().map(Err),
                // Where it will stay: moved later it would leave holes in memory.
                false => line.read().map(Arc::new).map(Ok),
            }
        };
        self.catalog.replay_understood(understand, |line| match line {
            Ok(card) => {
                highest = highest.max(card.id);
                cards.insert(card.path.clone(), card);
            }
            Err(gone) => {
                cards.remove(&gone);
            }
        })?;
        Ok((cards, highest))
    }

    /// The last links of each path; a tombstone has none.
    fn read_links(&self) -> Result<ByPath<Box<[Edge]>>, StoreError> {
        let mut links = ByPath::default();
        let understand = |line: &[u8]| {
            let line: GraphLine = serde_json::from_slice(line).map_err(|err| err.to_string())?;
            Ok((line.path()?, line.links()))
        };
        self.graph.replay_understood(understand, |(path, edges)| {
            links.insert(path, edges);
        })?;
        Ok(links)
    }

    /// Appends and forces to the disk; all stores are true for `at` from then on.
    pub(super) fn append(&mut self, pages: Pages, at: Option<&str>) -> Result<(), StoreError> {
        self.chunks.append(pages.chunks, at)?;
        self.graph.append(pages.graph, at)?;
        self.digest.append(pages.digest, at)?;
        self.catalog.append(pages.catalog, at)
    }

    /// Appends a part of a bulk build, not yet forced to the disk.
    pub(super) fn append_part(&mut self, pages: Pages) -> Result<(), StoreError> {
        self.chunks.append_unsynced(pages.chunks)?;
        self.graph.append_unsynced(pages.graph)?;
        self.digest.append_unsynced(pages.digest)?;
        self.catalog.append_unsynced(pages.catalog)
    }

    /// Writes those stores anew that hold more dead lines than living ones. Chunks whose vectors
    /// came after their line get them then.
    pub(super) fn compact(
        &mut self,
        state: &State,
        vectors: Option<&Spaces>,
    ) -> Result<(), StoreError> {
        let complete = |path: &VaultPath, at: usize, line: &[u8]| {
            completed(line, at, &vectors?.at_rest(state.card(path)?.id)?)
        };
        let as_it_is = |_: &VaultPath, _: usize, _: &[u8]| None;
        let (notes, chunks) = (state.notes() as u64, state.chunks() as u64);
        let stores: [(&mut Store, u64, Rewritten<'_>); 4] = [
            (&mut self.chunks, chunks, &complete),
            (&mut self.graph, notes, &as_it_is),
            (&mut self.catalog, notes, &as_it_is),
            (&mut self.digest, 0, &as_it_is),
        ];
        for (store, living, rewritten) in stores {
            if store.records() > LEAST_COMPACTED && store.records() > living * 2 {
                compact_store(store, rewritten)?;
            }
        }
        Ok(())
    }

    pub(super) fn folders(dir: &Path) -> [PathBuf; 3] {
        ["file_store", "file_graph", "file_catalog"].map(|it| dir.join(it))
    }
}

impl Pages {
    /// The lines of a new or changed note.
    pub(super) fn put(
        &mut self,
        card: &Card,
        doc: &NoteDoc,
        vectors: Option<&AtRest<'_>>,
        layout: &Layout,
        was_there: bool,
    ) {
        if was_there {
            self.remove(&card.path, layout);
        }
        for (at, chunk) in doc.chunks.iter().enumerate() {
            self.chunks.push(&ChunkLine::of(&card.path, at, chunk, vectors));
        }
        if !doc.links.is_empty() {
            self.graph.push(&GraphLine::of(&card.path, &doc.links));
        }
        self.catalog.push(&CatalogLine::of(card));
        if is_digest(&card.path, layout) {
            self.digest.push(&CatalogLine::of(card));
        }
    }

    /// The lines of a note that is gone.
    pub(super) fn remove(&mut self, path: &VaultPath, layout: &Layout) {
        let tombstone = Tombstone::of(path);
        self.chunks.push(&tombstone);
        self.graph.push(&tombstone);
        self.catalog.push(&tombstone);
        if is_digest(path, layout) {
            self.digest.push(&tombstone);
        }
    }

    /// Compresses what has come together; gives the bytes that wait.
    pub(super) fn settle(&mut self) -> std::io::Result<usize> {
        let batches = [&mut self.chunks, &mut self.graph, &mut self.catalog, &mut self.digest];
        let mut weight = 0;
        for batch in batches {
            batch.settle()?;
            weight += batch.weight();
        }
        Ok(weight)
    }
}

fn is_digest(path: &VaultPath, layout: &Layout) -> bool {
    path.is_within(layout.digest.as_bytes())
}

/// What is written in the place of a path's line of this number; `None` for the line itself.
type Rewritten<'a> = &'a dyn Fn(&VaultPath, usize, &[u8]) -> Option<Vec<u8>>;

/// Keeps, of each path, the lines behind its last tombstone.
fn compact_store(store: &mut Store, rewritten: Rewritten<'_>) -> Result<(), StoreError> {
    let mut starts: HashMap<VaultPath, u64> = HashMap::new();
    store.replay(|number, line| {
        let any: AnyLine = serde_json::from_slice(line).map_err(|err| err.to_string())?;
        if any.deleted {
            starts.insert(any.path()?, number);
        }
        Ok(())
    })?;
    let at = store.at().map(str::to_owned);
    let mut rewrite = store.rewrite()?;
    let mut batch = Batch::default();
    let mut failed = None;
    // The lines of a note lie one behind the other.
    let mut last: Option<(VaultPath, usize)> = None;
    store.replay(|number, line| {
        let any: AnyLine = serde_json::from_slice(line).map_err(|err| err.to_string())?;
        let path = any.path()?;
        if any.deleted || starts.get(&path).is_some_and(|it| number < *it) {
            last = None;
            return Ok(());
        }
        let at = last.as_ref().filter(|it| it.0 == path).map_or(0, |it| it.1 + 1);
        batch.push_line(rewritten(&path, at, line).as_deref().unwrap_or(line));
        last = Some((path, at));
        batch.settle().map_err(|err| err.to_string())?;
        if batch.weight() > (4 << 20) && failed.is_none() {
            failed = rewrite.append(std::mem::take(&mut batch)).err();
        }
        Ok(())
    })?;
    if let Some(err) = failed {
        return Err(err);
    }
    rewrite.append(batch)?;
    *store = rewrite.finish(at.as_deref())?;
    Ok(())
}

//! What the living notes add up to: the statistics that BM25 asks for.
//!
//! Takes the shelves of a view and the notes that are alive, counts once a view. Any thread.
//!
//! **Invariant:** the numbers are those of the living documents alone. What was replaced or
//! deleted and still lies in a segment counts for nothing, so that scores do not tell which part of
//! the index is in memory, on the disk, or merged yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use tantivy::query::{Bm25StatisticsProvider, EnableScoring};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet as _, TERMINATED, Term};

use crate::index::schema::{DocKind, Fields};
use crate::index::shelf::Shelf;
use crate::index::state::State;

/// The sums over all living documents of a view.
pub(super) struct Living {
    notes: u64,
    chunks: u64,
    /// Lengths as BM25 reads them (quantised by tantivy), summed for each field that is scored.
    tokens: BTreeMap<Field, u64>,
    /// Of each segment of each shelf, whether something in it is dead.
    dead: Vec<Vec<bool>>,
}

impl Living {
    /// Counts; the cost grows with the documents, not with their length.
    pub(super) fn count(
        shelves: &[Arc<Shelf>],
        state: &State,
        fields: &Fields,
    ) -> tantivy::Result<Self> {
        let mut living = Self {
            notes: 0,
            chunks: 0,
            tokens: BTreeMap::new(),
            dead: Vec::with_capacity(shelves.len()),
        };
        for shelf in shelves {
            let mut dead = Vec::new();
            for (segment, reader) in shelf.readers().iter().enumerate() {
                let scored = [fields.whole, fields.names, fields.stem, fields.exact];
                let mut norms = Vec::with_capacity(scored.len());
                for field in scored {
                    norms.push((field, reader.get_fieldnorms_reader(field)?, 0_u64));
                }
                let mut alive = 0;
                for doc in 0..reader.max_doc() {
                    if !is_alive(shelf, state, segment, doc) {
                        continue;
                    }
                    alive += 1;
                    match shelf.place_of(segment, doc) {
                        0 => living.notes += 1,
                        _ => living.chunks += 1,
                    }
                    for (_, norm, sum) in &mut norms {
                        *sum += u64::from(norm.fieldnorm(doc));
                    }
                }
                for (field, _, sum) in norms {
                    *living.tokens.entry(field).or_default() += sum;
                }
                dead.push(alive < reader.max_doc());
            }
            living.dead.push(dead);
        }
        Ok(living)
    }
}

fn is_alive(shelf: &Shelf, state: &State, segment: usize, doc: DocId) -> bool {
    !shelf.readers()[segment].is_deleted(doc)
        && state.card_of(shelf.note_of(segment, doc)).is_some()
}

/// Statistics over all shelves, counted for one kind of document: what is in memory weighs as
/// if it were on disk.
pub(super) struct Shared<'a> {
    pub(super) shelves: &'a [Arc<Shelf>],
    pub(super) state: &'a State,
    pub(super) living: &'a Living,
    pub(super) kind: DocKind,
}

impl<'a> Shared<'a> {
    /// For building weights; `None` where there is nothing to search.
    pub(super) fn scoring(&'a self) -> Option<EnableScoring<'a>> {
        let first = self.shelves.first()?;
        Some(EnableScoring::enabled_from_statistics_provider(self, first.searcher()))
    }
}

impl Bm25StatisticsProvider for Shared<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        // A field that is not here is asked for its documents, never for a score.
        Ok(self.living.tokens.get(&field).copied().unwrap_or(1))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        let docs = match self.kind {
            DocKind::Note => self.living.notes,
            DocKind::Chunk => self.living.chunks,
        };
        // Never zero: it divides.
        Ok(docs.max(1))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let mut frequency = 0;
        for (shelf, dead) in self.shelves.iter().zip(&self.living.dead) {
            for (segment, reader) in shelf.readers().iter().enumerate() {
                let index = reader.inverted_index(term.field())?;
                if !dead[segment] {
                    frequency += u64::from(index.doc_freq(term)?);
                    continue;
                }
                let Some(mut postings) = index.read_postings(term, IndexRecordOption::Basic)?
                else {
                    continue;
                };
                let mut doc = postings.doc();
                while doc != TERMINATED {
                    frequency += u64::from(is_alive(shelf, self.state, segment, doc));
                    doc = postings.advance();
                }
            }
        }
        // tantivy insists on it; only a damaged index could say otherwise.
        Ok(frequency.min(self.total_num_docs()?))
    }
}

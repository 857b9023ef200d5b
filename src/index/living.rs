//! What the living notes add up to: the statistics that BM25 asks for.
//!
//! Takes the shelves of a view and what is dead on each, gives sums. Any thread.
//!
//! **Invariant:** the numbers are those of the living documents alone. What was replaced or
//! deleted and still lies in a segment counts for nothing, so that scores do not tell which part of
//! the index is in memory, on the disk, or merged yet.

use std::sync::Arc;

use tantivy::Term;
use tantivy::query::{Bm25StatisticsProvider, EnableScoring};
use tantivy::schema::Field;

use crate::index::schema::{DocKind, Fields};
use crate::index::shelf::Shelf;
use crate::index::state::State;
use crate::index::tally::{Graves, Sums};

/// The sums over all living documents of a view.
pub(super) struct Living {
    sums: Sums,
    /// Of each shelf, what is dead and not deleted.
    graves: Vec<Arc<Graves>>,
}

impl Living {
    /// Adds up; `first` is what is known to be dead on the first shelf. Where that is not known,
    /// and on the others, which are small, every document is looked at.
    pub(super) fn count(
        shelves: &[Arc<Shelf>],
        first: Option<&Arc<Graves>>,
        state: &State,
        fields: &Fields,
    ) -> tantivy::Result<Self> {
        let mut living = Self { sums: Sums::default(), graves: Vec::with_capacity(shelves.len()) };
        for (at, shelf) in shelves.iter().enumerate() {
            let graves = match first.filter(|_| at == 0) {
                Some(known) => Arc::clone(known),
                None => Arc::new(Graves::found(shelf, state, fields)?),
            };
            let sums = shelf.sums().without(graves.sums());
            living.sums = living.sums.plus(sums);
            living.graves.push(graves);
        }
        Ok(living)
    }

    #[cfg(test)]
    pub(super) fn sums(&self) -> Sums {
        self.sums
    }
}

/// Statistics over all shelves, counted for one kind of document: what is in memory weighs as
/// if it were on disk.
pub(super) struct Shared<'a> {
    pub(super) shelves: &'a [Arc<Shelf>],
    pub(super) fields: &'a Fields,
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
        let at = self.fields.scored().iter().position(|it| *it == field);
        // A field that is not here is asked for its documents, never for a score.
        Ok(at.map_or(1, |it| self.living.sums.tokens[it]))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        let docs = match self.kind {
            DocKind::Note => self.living.sums.notes,
            DocKind::Chunk => self.living.sums.chunks,
        };
        // Never zero: it divides.
        Ok(docs.max(1))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let mut frequency: u64 = 0;
        for (shelf, graves) in self.shelves.iter().zip(&self.living.graves) {
            for (segment, reader) in shelf.readers().iter().enumerate() {
                let index = reader.inverted_index(term.field())?;
                let all = u64::from(index.doc_freq(term)?);
                let left = shelf.tally(segment).frequency(&index, term, all)?;
                let buried = graves.with_term(segment, &index, term, all)?;
                frequency += left.saturating_sub(buried);
            }
        }
        // tantivy insists on it; only a damaged index could say otherwise.
        Ok(frequency.min(self.total_num_docs()?))
    }
}

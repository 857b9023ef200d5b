//! Looks where a graph of neighbours leads.
//!
//! Takes a query, gives candidates as a look at all rows does: those that the graph names, and
//! beside it every row that came after it was built. Any thread.
//!
//! **Invariant:** what it gives are living notes that the filter takes, and as many as were asked
//! for; where the graph does not name so many all rows are looked at, so that a filter costs time
//! and nothing that it takes is lost.

use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::{Meaning, Rough, Which};
use crate::embed::Quantised;
use crate::index::card::Card;
use crate::index::neighbours::Drawn;
use crate::index::state::State;

/// For each candidate that is asked for so many rows are followed, and so many at least: a note has
/// several rows, and what is followed further finds more.
const FOLLOWED: usize = 4;
const LEAST_FOLLOWED: usize = if cfg!(test) { 100 } else { 1000 };
/// Where a filter takes some of them, so many times more.
const FURTHER: usize = 4;
/// Where more than one row in so many is not in the graph, looking at all is as good.
const BESIDE_SHARE: usize = 4;

impl Meaning {
    /// The nearest by eight bits, at most `most`, and whether the deadline came first; `None` where
    /// all are to be looked at.
    pub(super) fn through<'a>(
        &self,
        state: &'a State,
        query: &Quantised,
        keep: &dyn Fn(&Card) -> bool,
        most: usize,
        deadline: Instant,
    ) -> Option<(BinaryHeap<Rough<'a>>, bool)> {
        let drawn = self.neighbours.graph()?;
        let beside: Vec<Arc<[u32]>> = self.blocks.iter().map(|it| drawn.beside(it)).collect();
        let rows: usize = self.blocks.iter().map(|it| it.rows()).sum();
        if beside.iter().map(|it| it.len()).sum::<usize>() * BESIDE_SHARE > rows {
            return None;
        }
        let width = (most * FOLLOWED).max(LEAST_FOLLOWED);
        let mut named = self.named(&drawn, state, query, keep, width, deadline)?;
        if named.len() < most {
            // A filter that takes next to nothing is not worth a longer way.
            if named.len() * FURTHER < most {
                return None;
            }
            named = self.named(&drawn, state, query, keep, width * FURTHER, deadline)?;
        }
        // What was written into its file meanwhile may have led anywhere.
        if named.len() < most || !drawn.graph.is_whole() {
            return None;
        }
        let which = Which::These(&beside);
        let (mut best, cut) = self.compare(state, query, keep, most, which, deadline);
        for it in named {
            best.push(it);
            if best.len() > most {
                best.pop();
            }
        }
        Some((best, cut))
    }

    /// How many candidates there are by the graph.
    #[cfg(test)]
    pub(in crate::index) fn through_count(&self, state: &State, query: &Quantised) -> usize {
        let deadline = crate::base::clock::now() + std::time::Duration::from_secs(60);
        let found = self.through(state, query, &|_| true, 40, deadline);
        found.map_or(0, |it| it.0.len())
    }

    /// The notes that the graph names, each by its best row, best first.
    fn named<'a>(
        &self,
        drawn: &Drawn,
        state: &'a State,
        query: &Quantised,
        keep: &dyn Fn(&Card) -> bool,
        width: usize,
        deadline: Instant,
    ) -> Option<Vec<Rough<'a>>> {
        let guesses = drawn.graph.near(query, width, deadline)?;
        let mut seen = HashSet::with_capacity(guesses.len());
        let named = guesses.into_iter().filter_map(|guess| {
            let (id, nth) = drawn.graph.place(guess.row);
            if !seen.insert(id) {
                return None;
            }
            let card = state.card_of(id).filter(|it| keep(it))?;
            let (block, group) = self.find(id)?;
            let row = self.blocks[block].rows_of(group).nth(nth)?;
            Some(Rough { nearness: guess.nearness, card, block, row })
        });
        Some(named.collect())
    }
}

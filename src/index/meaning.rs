//! What a view knows of the meaning of its notes.
//!
//! Takes the blocks of vectors of one space and a query's vector, gives the notes nearest to it.
//! Every living row is looked at, unless a graph says where to look ([`through`]), and a filter narrows what is ranked instead of what was ranked
//! already. Where there are many rows the signs of their numbers tell which of them are compared:
//! of 20,000 passages of LoCoMo and Cranfield the sixth part that differed in the fewest signs had
//! 99.6 % of the nearest 10 and 98.8 % of the nearest 50. Any thread.
//!
//! **Invariant:** only living notes answer, each by its best passage; the order is that of the
//! exact cosines, ties by path.

mod through;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::base::clock;
use crate::embed::{Embedder, Quantised, Vector, signs};
use crate::index::card::Card;
use crate::index::neighbours::Known;
use crate::index::rows::Rows;
use crate::index::state::State;

/// The vectors of a view.
#[derive(Clone)]
pub(super) struct Meaning {
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) blocks: Vec<Arc<Rows>>,
    /// Living notes whose vectors are not made yet.
    pub(super) missing: usize,
    /// What may name candidates.
    pub(super) neighbours: Known,
}

/// A note near a query.
#[derive(Clone, Debug)]
pub struct Near {
    pub card: Arc<Card>,
    /// Its best chunk, counted from 0.
    pub chunk: usize,
    pub cosine: f32,
}

/// What a look at the vectors found.
#[derive(Clone, Debug, Default)]
pub struct Nearest {
    /// Best first.
    pub near: Vec<Near>,
    /// Whether the deadline came first.
    pub cut: bool,
}

/// How many candidates in eight bits stand behind each one asked for, and how many at least.
const SHORTLIST: usize = 3;
const LEAST_SHORTLIST: usize = 40;
/// The clock is asked once in so many rows. Few in tests, so that notes lie on either side.
const COMPARED_AT_ONCE: usize = if cfg!(test) { 5 } else { 1 << 14 };
/// So many rows are all compared: it takes a millisecond. Few in tests, which have few.
const COMPARED: usize = if cfg!(test) { 24 } else { 1 << 14 };
/// Of more than that, one row in so many is.
const COMPARED_SHARE: usize = 6;
/// The clock is asked once in so many rows whose signs are counted.
const COUNTED: usize = 1 << 16;

/// A candidate, by eight bits. The worst is the greatest.
struct Rough<'a> {
    nearness: f32,
    card: &'a Arc<Card>,
    block: usize,
    row: usize,
}

/// Which rows are compared.
#[derive(Clone, Copy)]
enum Which<'a> {
    All,
    /// Those that differ in few signs.
    Worth(&'a Worth),
    /// Of each block, these, in ascending order.
    These(&'a [Arc<[u32]>]),
}

/// In how many signs each row differs from a query, block by block.
struct Worth {
    differing: Vec<u16>,
    starts: Vec<usize>,
    /// A row that differs in more is not compared.
    most: u16,
}

impl Worth {
    fn of(&self, block: usize, rows: usize) -> (&[u16], u16) {
        let start = self.starts[block];
        (&self.differing[start..start + rows], self.most)
    }
}

/// The rows of a stretch that differ in at most so many signs. One in a few does, in no order, so
/// there is no branch on it.
fn pick(stretch: Range<u32>, differing: &[u16], most: u16, to: &mut Vec<u32>) {
    let differing = &differing[stretch.start as usize..stretch.end as usize];
    to.resize(differing.len(), 0);
    let mut count = 0;
    for (row, it) in stretch.zip(differing) {
        to[count] = row;
        count += usize::from(*it <= most);
    }
    to.truncate(count);
}

impl PartialEq for Rough<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rough<'_> {}

impl PartialOrd for Rough<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rough<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.nearness.total_cmp(&self.nearness).then_with(|| self.card.path.cmp(&other.card.path))
    }
}

impl Meaning {
    /// The `pool` nearest notes among those that `keep` takes.
    pub(super) fn nearest(
        &self,
        state: &State,
        query: &Vector,
        keep: &dyn Fn(&Card) -> bool,
        pool: usize,
        deadline: Instant,
    ) -> Nearest {
        let mut found = Nearest::default();
        if pool == 0 || query.dimension() != self.embedder.identity().dimension {
            return found;
        }
        let small = query.quantised();
        let most = (pool * SHORTLIST).max(LEAST_SHORTLIST);
        let through = self.through(state, &small, keep, most, deadline);
        let (best, cut) =
            through.unwrap_or_else(|| self.among_all(state, &small, keep, most, deadline));
        found.cut = cut;
        let near = best.into_iter().map(|it| self.exactly(query, it.card, it.block, it.row));
        found.near = near.collect();
        found.near.sort_by(|a, b| {
            b.cosine.total_cmp(&a.cosine).then_with(|| a.card.path.cmp(&b.card.path))
        });
        // A note that a merge left in two blocks, or whose rows were compared in two goes.
        let mut seen = HashSet::new();
        found.near.retain(|it| seen.insert(it.card.id));
        found.near.truncate(pool);
        found
    }

    /// The nearest by eight bits of all rows, at most `most`, and whether the deadline came first.
    fn among_all<'a>(
        &self,
        state: &'a State,
        query: &Quantised,
        keep: &dyn Fn(&Card) -> bool,
        most: usize,
        deadline: Instant,
    ) -> (BinaryHeap<Rough<'a>>, bool) {
        let worth = self.worth_comparing(query, deadline);
        let which = worth.as_ref().map_or(Which::All, Which::Worth);
        let best = self.compare(state, query, keep, most, which, deadline);
        if worth.is_some() && best.0.len() < most && !best.1 {
            // A filter takes so few that the nearest of them may be far.
            return self.compare(state, query, keep, most, Which::All, deadline);
        }
        best
    }

    /// Which rows differ from the query in few signs; `None` where all are to be compared.
    fn worth_comparing(&self, query: &Quantised, deadline: Instant) -> Option<Worth> {
        let rows: usize = self.blocks.iter().map(|it| it.rows()).sum();
        if rows <= COMPARED {
            return None;
        }
        let signs = signs(&query.parts);
        let mut differing = Vec::with_capacity(rows);
        let mut starts = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            starts.push(differing.len());
            for from in (0..block.rows()).step_by(COUNTED) {
                if clock::now() >= deadline {
                    return None;
                }
                block.differing(&signs, from, COUNTED, &mut differing);
            }
        }
        let mut counts = vec![0; query.parts.len() + 1];
        for it in &differing {
            counts[usize::from(*it).min(query.parts.len())] += 1;
        }
        let wanted = (rows / COMPARED_SHARE).max(COMPARED);
        let mut sum = 0;
        let most = counts.iter().position(|it| {
            sum += it;
            sum >= wanted
        });
        let most = most.and_then(|it| u16::try_from(it).ok()).unwrap_or(u16::MAX);
        Some(Worth { differing, starts, most })
    }

    /// The same of some rows.
    fn compare<'a>(
        &self,
        state: &'a State,
        query: &Quantised,
        keep: &dyn Fn(&Card) -> bool,
        most: usize,
        which: Which<'_>,
        deadline: Instant,
    ) -> (BinaryHeap<Rough<'a>>, bool) {
        let mut best: BinaryHeap<Rough> = BinaryHeap::with_capacity(most + 1);
        let (mut rows, mut nearness) = (Vec::new(), Vec::new());
        for (block_at, block) in self.blocks.iter().enumerate() {
            let mut group = 0;
            for from in (0..block.rows()).step_by(COMPARED_AT_ONCE) {
                if clock::now() >= deadline {
                    return (best, true);
                }
                let stretch = from as u32..(from + COMPARED_AT_ONCE).min(block.rows()) as u32;
                rows.clear();
                match which {
                    Which::All => rows.extend(stretch),
                    Which::Worth(worth) => {
                        let (differing, most) = worth.of(block_at, block.rows());
                        pick(stretch, differing, most, &mut rows);
                    }
                    Which::These(lists) => {
                        let list = &lists[block_at];
                        let until = |end| list.partition_point(|it| *it < end);
                        rows.extend_from_slice(&list[until(stretch.start)..until(stretch.end)]);
                    }
                }
                block.rough(query, &rows, &mut nearness);
                let mut at = 0;
                while let (Some(row), Some(nearest)) = (rows.get(at), nearness.get(at)) {
                    // Whose it is, who lives, and what the filter says, costs more than a look.
                    let is_far = best.len() >= most
                        && best.peek().is_some_and(|worst| *nearest < worst.nearness);
                    if is_far {
                        at += 1;
                        continue;
                    }
                    group = block.group_at(*row as usize, group);
                    let end = block.end_of(group);
                    let of_it = rows[at..].iter().take_while(|it| (**it as usize) < end).count();
                    let of_it = at..at + of_it.max(1);
                    at = of_it.end;
                    let nearest = of_it
                        .map(|it| (nearness[it], rows[it] as usize))
                        .reduce(|best, it| if it.0 > best.0 { it } else { best });
                    let card = state.card_of(block.id(group)).filter(|it| keep(it));
                    if let (Some(card), Some((nearness, row))) = (card, nearest) {
                        best.push(Rough { nearness, card, block: block_at, row });
                        if best.len() > most {
                            best.pop();
                        }
                    }
                }
            }
        }
        (best, false)
    }

    /// How near one note is; `None` where it has no vector.
    pub(super) fn nearness(&self, query: &Vector, card: &Arc<Card>) -> Option<Near> {
        let small = query.quantised();
        let (block_at, group) = self.find(card.id)?;
        let block = &self.blocks[block_at];
        let rows: Vec<u32> = block.rows_of(group).map(|it| it as u32).collect();
        let mut nearness = Vec::new();
        block.rough(&small, &rows, &mut nearness);
        let nearest = nearness.iter().zip(&rows);
        let row = nearest.reduce(|best, it| if it.0 > best.0 { it } else { best })?.1;
        Some(self.exactly(query, card, block_at, *row as usize))
    }

    /// The mean of a note's vectors; `None` where it has none.
    pub(super) fn direction(&self, card: &Card) -> Option<Vector> {
        let (block, group) = self.find(card.id)?;
        let block = &self.blocks[block];
        let mut sum = vec![0.0_f32; self.embedder.identity().dimension];
        for row in block.rows_of(group) {
            let vector = Vector::from_halves(&block.halves(row)).ok()?;
            sum.iter_mut().zip(vector.parts()).for_each(|(sum, part)| *sum += part);
        }
        Vector::new(sum).ok()
    }

    fn find(&self, id: u64) -> Option<(usize, usize)> {
        self.blocks.iter().enumerate().rev().find_map(|(at, it)| Some((at, it.group_of(id)?)))
    }

    fn exactly(&self, query: &Vector, card: &Arc<Card>, block: usize, row: usize) -> Near {
        let block = &self.blocks[block];
        let chunk = block.place(row).chunk as usize;
        Near { card: Arc::clone(card), chunk, cosine: block.cosine(query, row) }
    }

    /// The vectors of one note, in half precision, by chunk and window.
    #[cfg(test)]
    pub(super) fn of(&self, card: &Card) -> Option<Vec<(u32, u32, Vec<u16>)>> {
        let (block, group) = self.find(card.id)?;
        let block = &self.blocks[block];
        let row = |row: usize| {
            let place = block.place(row);
            (place.chunk, place.window, block.halves(row))
        };
        Some(block.rows_of(group).map(row).collect())
    }
}

impl std::fmt::Debug for Meaning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meaning")
            .field("model", &self.embedder.identity().model)
            .field("blocks", &self.blocks.len())
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

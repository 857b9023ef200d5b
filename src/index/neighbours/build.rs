//! Builds a graph of neighbours.
//!
//! Takes blocks of vectors, gives the bytes of a graph over the rows of the living notes. The
//! library (hnsw_rs) finds who is whose neighbour; what it holds in memory for that, some two
//! kilobytes a row, is given back before anything is searched. Blocking, for minutes, on threads
//! that let everybody else go first.
//!
//! **Invariant:** a build that is stopped ends within the time of one row and leaves nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::available_parallelism;

use hnsw_rs::prelude::{Distance, Hnsw};
use rayon::ThreadPool;

use crate::base::process;
use crate::embed::product;
use crate::index::neighbours::graph::{NONE, Parts, compose, mark_of};
use crate::index::rows::{Heading, Rows};

/// How far a build is, and whether it is called off.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) done: AtomicUsize,
    pub(super) all: AtomicUsize,
    pub(super) is_stopped: AtomicBool,
}

/// Why there is no graph.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    #[error("It was called off")]
    Stopped,
    #[error("No thread for it can be had")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("There are too many vectors for it")]
    TooLarge,
}

/// Links of a row in the upper layers; in the lowest there are twice as many.
const LINKS: usize = 16;
/// How many rows are looked at to find those of a new one.
const LOOKED_AT: usize = 200;
const LAYERS: usize = 16;
/// Rows that are in this layer too are where a search may begin: one in 256.
const ENTRY_LAYER: u8 = 2;
/// What a row takes in memory while the graph is built, but for its own numbers.
const BYTES_A_ROW: usize = 2_200;

/// How much memory the build of a graph of so many rows takes.
pub(super) fn memory_for(rows: usize, dimension: usize) -> usize {
    rows * (BYTES_A_ROW + dimension * 2)
}

/// How far two rows lie apart, each in eight bits and the scale behind them.
#[derive(Clone, Copy, Default)]
struct Apart;

impl Distance<i8> for Apart {
    fn eval(&self, a: &[i8], b: &[i8]) -> f32 {
        let ((a, a_scale), (b, b_scale)) = (halved(a), halved(b));
        // Rounding takes the product of a row with itself past 1; the library takes nothing below
        // nought, and `max` makes a number of what is none.
        (1.0 - product(a, b) as f32 * a_scale * b_scale).max(0.0)
    }
}

fn halved(row: &[i8]) -> (&[i8], f32) {
    match row.split_last_chunk::<4>() {
        Some((parts, scale)) => (parts, f32::from_le_bytes(scale.map(i8::cast_unsigned))),
        None => (row, 0.0),
    }
}

/// Builds a graph over the rows of the notes that `keep` takes.
pub(super) fn build(
    heading: &Heading,
    blocks: &[Arc<Rows>],
    keep: &dyn Fn(u64) -> bool,
    progress: &Progress,
) -> Result<Vec<u8>, BuildError> {
    let Layout { notes, left, places } = laid_out(blocks, keep);
    u32::try_from(places.len()).ok().filter(|it| *it < NONE).ok_or(BuildError::TooLarge)?;
    progress.done.store(0, Ordering::SeqCst);
    progress.all.store(places.len(), Ordering::SeqCst);
    let threads = available_parallelism().map_or(1, |it| it.get().div_ceil(2));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|it| format!("neighbours-{it}"))
        .start_handler(|_| process::let_others_go_first())
        .build()?;
    let row = |at: usize| {
        let (block, row): (u32, u32) = places[at];
        blocks[block as usize].in_eight_bits(row as usize)
    };
    let links = linked(&pool, places.len(), &row, progress);
    let (links, entries) = links.ok_or(BuildError::Stopped)?;
    let parts = Parts {
        heading,
        notes: &notes,
        left: &left,
        entries: &entries,
        links: &links,
        width: LINKS * 2,
    };
    compose(&parts, row).ok_or(BuildError::TooLarge)
}

/// Who is in a graph, and who is not.
#[derive(Default)]
struct Layout {
    /// Each note, and where its rows end.
    notes: Vec<(u64, u32)>,
    /// The dead, and a mark of their rows.
    left: Vec<(u64, u32)>,
    /// Where each row lies: block, row.
    places: Vec<(u32, u32)>,
}

fn laid_out(blocks: &[Arc<Rows>], keep: &dyn Fn(u64) -> bool) -> Layout {
    let mut found: BTreeMap<u64, (u32, usize)> = BTreeMap::new();
    for (at, block) in (0..).zip(blocks) {
        for group in 0..block.groups() {
            let id = block.id(group);
            found.insert(id, (at, group));
        }
    }
    let mut layout = Layout::default();
    for (id, (block, group)) in found {
        let rows = blocks[block as usize].rows_of(group);
        if !keep(id) {
            layout.left.push((id, mark_of(&blocks[block as usize], group)));
        } else if !rows.is_empty() {
            layout.places.extend(rows.map(|it| (block, it as u32)));
            layout.notes.push((id, layout.places.len() as u32));
        }
    }
    layout
}

/// The links of the lowest layer, row by row, and the rows of the upper ones; `None` when stopped.
fn linked<'a>(
    pool: &ThreadPool,
    rows: usize,
    row: &(dyn Fn(usize) -> (&'a [i8], f32) + Sync),
    progress: &Progress,
) -> Option<(Vec<u32>, Vec<u32>)> {
    let hnsw: Hnsw<i8, Apart> = Hnsw::new(LINKS, rows, LAYERS, LOOKED_AT, Apart);
    let insert = |at: usize| {
        let (parts, scale) = row(at);
        let scale = scale.to_le_bytes().map(u8::cast_signed);
        hnsw.insert_slice((&[parts, &scale].concat(), at));
        progress.done.fetch_add(1, Ordering::Relaxed);
    };
    // Notes of one time lie side by side: taken as they come they would be linked to each other
    // before anything that is nearer is there.
    let stride = stride(rows);
    let next = AtomicUsize::new(1);
    if rows > 0 {
        // Alone: several first ones would know nothing of each other.
        insert(0);
    }
    pool.broadcast(|_| {
        while !progress.is_stopped.load(Ordering::SeqCst) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= rows {
                break;
            }
            insert((at as u64 * stride % rows as u64) as usize);
        }
    });
    let is_whole = hnsw.get_nb_point() == rows;
    let mut links = vec![NONE; if is_whole { rows * LINKS * 2 } else { 0 }];
    let mut entries = Vec::new();
    if is_whole && rows > 0 {
        for point in hnsw.get_point_indexation() {
            let (at, layer) = (point.get_origin_id(), point.get_point_id().0);
            if layer >= ENTRY_LAYER || at == 0 {
                entries.push(at as u32);
            }
            let of_it = &mut links[at * LINKS * 2..(at + 1) * LINKS * 2];
            let near = point.get_neighborhood_id();
            for (link, near) in of_it.iter_mut().zip(near.first().into_iter().flatten()) {
                *link = near.d_id as u32;
            }
        }
    }
    // The library takes itself apart on the threads of whoever drops it.
    pool.install(|| drop(hnsw));
    entries.sort_unstable();
    is_whole.then_some((links, entries))
}

/// A step that comes by every row: one that has no part in common with their number.
fn stride(rows: usize) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let rows = rows.max(1) as u64;
    // About the golden section of it: the next ones lie far apart.
    let mut stride = (rows * 618 / 1000).max(1);
    while gcd(stride, rows) != 1 {
        stride += 1;
    }
    stride
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_comes_by_every_row_once() {
        for rows in [1, 2, 3, 10, 97, 100, 618, 1000] {
            let stride = stride(rows);
            let mut seen: Vec<u64> = (0..rows as u64).map(|it| it * stride % rows as u64).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..rows as u64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_row_lies_apart_from_itself_by_nothing_and_no_scale_is_taken_for_a_number() {
        let row = |parts: [i8; 2], scale: f32| {
            [&parts[..], &scale.to_le_bytes().map(u8::cast_signed)].concat()
        };
        let a = row([127, 0], 1.0 / 127.0);
        assert!(Apart.eval(&a, &a).abs() < 1e-6);
        assert!((Apart.eval(&a, &row([0, 127], 1.0 / 127.0)) - 1.0).abs() < 1e-6);
        assert_eq!(Apart.eval(&a, &row([127, 0], 1.0)), 0.0);
        assert_eq!(Apart.eval(&a, &row([127, 0], f32::NAN)), 0.0);
    }
}

//! Finds the nearest of many vectors by looking at all of them.
//!
//! Pure. Takes vectors in groups (the windows of one chunk, the chunks of one note), keeps them in
//! eight bits a part; gives the best groups by their best row, near in eight bits first, then
//! exact by half-precision numbers that the caller keeps wherever it likes.
//!
//! A look at everything needs no graph, knows every deletion at once and keeps its recall under
//! any filter. `benches/vectors.rs` measures it.
//!
//! **Invariant:** the answer is that of the exact cosines over the rows that the filter lets in,
//! as long as eight bits put the best of them among the shortlist; sorted by cosine, ties by the
//! group put in first.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use crate::embed::vector::{Quantised, Vector, VectorError, dot_halves};

/// Vectors of one space, ready to be scanned.
#[derive(Clone, Debug)]
pub struct Table {
    dimension: usize,
    parts: Vec<i8>,
    scales: Vec<f32>,
    /// Each group's name and where its rows end; rows of a group lie together.
    groups: Vec<Group>,
    at: HashMap<u64, usize>,
    dead: usize,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    name: u64,
    start: u32,
    end: u32,
    dead: bool,
}

/// A group that answers, by its best row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Near {
    pub group: u64,
    /// Which row of the table, for its exact numbers.
    pub row: usize,
    /// Which of the group's rows, from 0.
    pub part: usize,
    pub cosine: f32,
}

/// The exact numbers of a table's rows, in half precision.
pub trait Exact {
    /// Half-precision bits of a row; `None` where they can't be had.
    fn row(&self, row: usize) -> Option<&[u16]>;
}

/// Exact numbers in memory.
#[derive(Clone, Default, Debug)]
pub struct Halves {
    dimension: usize,
    parts: Vec<u16>,
}

/// How many candidates in eight bits stand behind each one asked for, and how many at least.
const SHORTLIST: usize = 4;
const LEAST_SHORTLIST: usize = 40;

impl Table {
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension,
            parts: Vec::new(),
            scales: Vec::new(),
            groups: Vec::new(),
            at: HashMap::new(),
            dead: 0,
        }
    }

    /// Makes room for so many more groups and rows: a table that grows by itself holds up to twice
    /// what it needs.
    pub fn reserve(&mut self, groups: usize, rows: usize) {
        self.parts.reserve_exact(rows * self.dimension);
        self.scales.reserve_exact(rows);
        self.groups.reserve_exact(groups);
        self.at.reserve(groups);
    }

    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Living groups.
    pub fn groups(&self) -> usize {
        self.at.len()
    }

    /// Rows, those of dead groups included.
    pub fn rows(&self) -> usize {
        self.scales.len()
    }

    /// Rows of groups that are gone: memory and time that a new table would save.
    pub fn dead_rows(&self) -> usize {
        self.dead
    }

    /// Bytes that the table holds.
    pub fn bytes(&self) -> usize {
        self.parts.capacity()
            + self.scales.capacity() * size_of::<f32>()
            + self.groups.capacity() * size_of::<Group>()
            + self.at.capacity() * size_of::<(u64, usize)>() * 8 / 7
    }

    /// Puts a group in, in the place of the one of this name; a group without vectors is none.
    /// The rows it got are the last ones of the table.
    pub fn put(&mut self, name: u64, vectors: &[Vector]) -> Result<(), VectorError> {
        let odd = vectors.iter().find(|it| it.dimension() != self.dimension);
        if let Some(odd) = odd {
            let (actual, wanted) = (odd.dimension(), self.dimension);
            return Err(VectorError::Dimension { actual, wanted });
        }
        self.remove(name);
        if vectors.is_empty() {
            return Ok(());
        }
        let start = self.rows() as u32;
        for vector in vectors {
            let Quantised { parts, scale } = vector.quantised();
            self.parts.extend_from_slice(&parts);
            self.scales.push(scale);
        }
        self.at.insert(name, self.groups.len());
        self.groups.push(Group { name, start, end: self.rows() as u32, dead: false });
        Ok(())
    }

    /// Takes a group out; its rows stay as dead ones.
    pub fn remove(&mut self, name: u64) {
        if let Some(at) = self.at.remove(&name) {
            let group = &mut self.groups[at];
            group.dead = true;
            self.dead += (group.end - group.start) as usize;
        }
    }

    /// The rows of a group.
    pub fn rows_of(&self, name: u64) -> Option<std::ops::Range<usize>> {
        let group = &self.groups[*self.at.get(&name)?];
        Some(group.start as usize..group.end as usize)
    }

    /// The exact cosine of a group's best row, for one that another branch found.
    pub fn nearness(&self, query: &Vector, name: u64, exact: &dyn Exact) -> Option<Near> {
        let rows = self.rows_of(name)?;
        let small = query.quantised();
        let row = rows.clone().max_by(|a, b| {
            self.rough(&small, *a).total_cmp(&self.rough(&small, *b)).then(b.cmp(a))
        })?;
        Some(self.exactly(query, &small, name, row, rows.start, exact))
    }

    /// The `limit` nearest groups that the filter lets in, best first.
    pub fn nearest(
        &self,
        query: &Vector,
        limit: usize,
        takes: &dyn Fn(u64) -> bool,
        exact: &dyn Exact,
    ) -> Vec<Near> {
        if query.dimension() != self.dimension || limit == 0 {
            return Vec::new();
        }
        let small = query.quantised();
        let shortlist = (limit * SHORTLIST).max(LEAST_SHORTLIST);
        // The worst of the shortlist on top.
        let mut best: BinaryHeap<Reverse<Rough>> = BinaryHeap::with_capacity(shortlist + 1);
        for (at, group) in self.groups.iter().enumerate() {
            if group.dead {
                continue;
            }
            let mut found: Option<Rough> = None;
            for row in group.start as usize..group.end as usize {
                let rough = Rough { nearness: self.rough(&small, row), group: at, row };
                if found.is_none_or(|it| rough > it) {
                    found = Some(rough);
                }
            }
            let Some(found) = found else { continue };
            let is_among = best.len() < shortlist || best.peek().is_some_and(|it| found > it.0);
            // The filter costs more than a comparison.
            if is_among && takes(group.name) {
                best.push(Reverse(found));
                if best.len() > shortlist {
                    best.pop();
                }
            }
        }
        let mut near: Vec<(usize, Near)> = best
            .into_iter()
            .map(|Reverse(it)| {
                let group = &self.groups[it.group];
                let start = group.start as usize;
                (it.group, self.exactly(query, &small, group.name, it.row, start, exact))
            })
            .collect();
        near.sort_by(|a, b| b.1.cosine.total_cmp(&a.1.cosine).then(a.0.cmp(&b.0)));
        near.truncate(limit);
        near.into_iter().map(|it| it.1).collect()
    }

    fn rough(&self, query: &Quantised, row: usize) -> f32 {
        let from = row * self.dimension;
        let parts = &self.parts[from..from + self.dimension];
        dot_small(&query.parts, parts) as f32 * self.scales[row]
    }

    fn exactly(
        &self,
        query: &Vector,
        small: &Quantised,
        group: u64,
        row: usize,
        start: usize,
        exact: &dyn Exact,
    ) -> Near {
        let cosine = match exact.row(row) {
            Some(halves) if halves.len() == self.dimension => dot_halves(query.parts(), halves),
            // What the eight bits say is near enough where the exact numbers can't be read.
            _ => self.rough(small, row) * small.scale,
        };
        Near { group, row, part: row - start, cosine: cosine.clamp(-1.0, 1.0) }
    }
}

/// A candidate, by eight bits. Greater is better: nearer, or put in before.
#[derive(Clone, Copy, PartialEq)]
struct Rough {
    nearness: f32,
    group: usize,
    row: usize,
}

impl Eq for Rough {}

impl PartialOrd for Rough {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rough {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nearness.total_cmp(&other.nearness).then(other.row.cmp(&self.row))
    }
}

impl Halves {
    pub fn new(dimension: usize) -> Self {
        Self { dimension, parts: Vec::new() }
    }

    /// Adds a row, in the order of the table's.
    pub fn push(&mut self, vector: &Vector) {
        self.parts.extend_from_slice(&vector.to_halves());
    }
}

impl Exact for Halves {
    fn row(&self, row: usize) -> Option<&[u16]> {
        self.parts.get(row * self.dimension..(row + 1) * self.dimension)
    }
}

/// The product of two vectors of eight-bit parts.
pub fn dot_small(a: &[i8], b: &[i8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { dot_small_avx2(a, b) };
    }
    dot_small_plain(a, b)
}

fn dot_small_plain(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

/// The same, 16 parts at a time. Any dimension up to 2^17 fits the sums.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dot_small_avx2(a: &[i8], b: &[i8]) -> i32 {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_madd_epi16,
        _mm256_setzero_si256,
    };
    let (a_wide, a_rest) = a.as_chunks::<16>();
    let (b_wide, b_rest) = b.as_chunks::<16>();
    let load = |parts: &[i8; 16]| {
        // SAFETY: the array has the 16 bytes that are read; no alignment is asked for.
        _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(parts.as_ptr().cast::<__m128i>()) })
    };
    let mut sums = _mm256_setzero_si256();
    for (a, b) in a_wide.iter().zip(b_wide) {
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(load(a), load(b)));
    }
    // SAFETY: eight numbers of 32 bits lie in 256.
    let sums: [i32; 8] = unsafe { std::mem::transmute(sums) };
    sums.iter().sum::<i32>() + dot_small_plain(a_rest, b_rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vector(parts: &[f32]) -> Vector {
        Vector::new(parts.to_vec()).unwrap()
    }

    struct Filled {
        table: Table,
        halves: Halves,
    }

    fn filled(groups: &[(u64, &[Vector])]) -> Filled {
        let dimension = groups[0].1[0].dimension();
        let (mut table, mut halves) = (Table::new(dimension), Halves::new(dimension));
        for (name, vectors) in groups {
            table.put(*name, vectors).unwrap();
            vectors.iter().for_each(|it| halves.push(it));
        }
        Filled { table, halves }
    }

    impl Filled {
        fn names(&self, query: &Vector, limit: usize, takes: impl Fn(u64) -> bool) -> Vec<u64> {
            let near = self.table.nearest(query, limit, &takes, &self.halves);
            near.into_iter().map(|it| it.group).collect()
        }
    }

    #[test]
    fn groups_come_by_their_best_row() {
        let (east, north) = (vector(&[1.0, 0.0]), vector(&[0.0, 1.0]));
        let between = vector(&[1.0, 1.0]);
        let groups: [(u64, &[Vector]); 3] = [
            (7, &[north.clone(), east.clone()]),
            (3, std::slice::from_ref(&between)),
            (5, std::slice::from_ref(&north)),
        ];
        let filled = filled(&groups);
        let near = filled.table.nearest(&east, 3, &|_| true, &filled.halves);
        assert_eq!(
            near.iter().map(|it| (it.group, it.part)).collect::<Vec<_>>(),
            [(7, 1), (3, 0), (5, 0)]
        );
        assert!((near[0].cosine - 1.0).abs() < 1e-3 && near[2].cosine.abs() < 1e-3);
        assert!((near[1].cosine - 0.5_f32.sqrt()).abs() < 1e-3);
        let seven = filled.table.nearness(&east, 7, &filled.halves).unwrap();
        assert_eq!(seven, near[0]);
        assert_eq!(filled.table.nearness(&east, 8, &filled.halves), None);
    }

    #[test]
    fn a_filter_loses_nothing() {
        // 2,000 near ones outside, three farther ones inside: all three come.
        let near = vector(&[1.0, 0.01, 0.0]);
        let far = vector(&[1.0, 1.0, 0.0]);
        let mut groups: Vec<(u64, &[Vector])> =
            (0..2000).map(|it| (it, std::slice::from_ref(&near))).collect();
        groups.extend((5000..5003).map(|it| (it, std::slice::from_ref(&far))));
        let filled = filled(&groups);
        let query = vector(&[1.0, 0.0, 0.0]);
        assert_eq!(filled.names(&query, 5, |it| it >= 5000), [5000, 5001, 5002]);
        assert_eq!(filled.names(&query, 3, |_| true), [0, 1, 2]); // equals: put in first
    }

    #[test]
    fn what_is_taken_out_or_replaced_is_not_found() {
        let (east, north) = (vector(&[1.0, 0.0]), vector(&[0.0, 1.0]));
        let groups: [(u64, &[Vector]); 2] =
            [(1, std::slice::from_ref(&east)), (2, std::slice::from_ref(&north))];
        let mut filled = filled(&groups);
        filled.table.put(1, std::slice::from_ref(&north)).unwrap();
        filled.halves.push(&north);
        filled.table.remove(2);
        filled.table.remove(9);
        let near = filled.table.nearest(&east, 9, &|_| true, &filled.halves);
        assert_eq!(near.iter().map(|it| (it.group, it.row)).collect::<Vec<_>>(), [(1, 2)]);
        let table = &filled.table;
        assert_eq!((table.groups(), table.rows(), table.dead_rows()), (1, 3, 2));
        filled.table.put(1, &[]).unwrap();
        assert_eq!(filled.table.groups(), 0);
    }

    #[test]
    fn another_size_is_refused_and_changes_nothing() {
        let mut table = Table::new(2);
        table.put(1, &[vector(&[1.0, 0.0])]).unwrap();
        let odd = table.put(1, &[vector(&[1.0, 0.0]), vector(&[1.0])]).unwrap_err();
        assert_eq!(odd, VectorError::Dimension { actual: 1, wanted: 2 });
        assert_eq!((table.groups(), table.rows(), table.dead_rows()), (1, 1, 0));
        assert_eq!(table.nearest(&vector(&[1.0]), 5, &|_| true, &Halves::new(2)), []);
    }

    #[test]
    fn without_exact_numbers_eight_bits_answer() {
        let mut table = Table::new(2);
        table.put(1, &[vector(&[0.6, 0.8])]).unwrap();
        let near = table.nearest(&vector(&[1.0, 0.0]), 1, &|_| true, &Halves::new(2));
        assert!((near[0].cosine - 0.6).abs() < 0.01);
    }

    proptest! {
        #[test]
        fn wide_and_plain_products_are_equal(
            a in prop::collection::vec(any::<i8>(), 0..200), seed in any::<u8>()
        ) {
            let b: Vec<i8> = a.iter().map(|it| it.wrapping_mul(seed.cast_signed())).collect();
            prop_assert_eq!(dot_small(&a, &b), dot_small_plain(&a, &b));
        }

        #[test]
        fn the_answer_is_that_of_exact_cosines(
            rows in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 12), 1..120),
            asked in prop::collection::vec(-1.0_f32..1.0, 12),
        ) {
            let all: Vec<Vector> = rows.into_iter().filter_map(|it| Vector::new(it).ok()).collect();
            let Ok(query) = Vector::new(asked) else { return Ok(()) };
            prop_assume!(!all.is_empty());
            let groups: Vec<(u64, &[Vector])> =
                all.iter().enumerate().map(|(at, it)| (at as u64, std::slice::from_ref(it))).collect();
            let filled = filled(&groups);
            let found = filled.table.nearest(&query, 10, &|it| it % 2 == 0, &filled.halves);
            let mut wanted: Vec<f32> =
                all.iter().step_by(2).map(|it| it.cosine(&query)).collect();
            wanted.sort_by(|a, b| b.total_cmp(a));
            wanted.truncate(10);
            prop_assert_eq!(found.len(), wanted.len());
            for (found, wanted) in found.iter().zip(&wanted) {
                prop_assert!((found.cosine - wanted).abs() < 2e-3);
            }
        }
    }
}

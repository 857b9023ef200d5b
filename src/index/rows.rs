//! Vectors of notes, as they lie in a file.
//!
//! Takes notes with the vectors of their passages, gives one block of bytes that is searched where
//! it lies: mapped from a file, or in memory until it is written. Of each vector there is a bit a
//! part, to look at all of them, eight bits a part for those that may be near, and half-precision
//! numbers, to be exact about the best.
//! Written once and never changed. Any thread.
//!
//! **Invariant:** bytes that are not whole, of another space or of another index are refused; no
//! bytes make a reader fail later. A note is here once, its number in ascending order.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::fs::{self, PathError};
use crate::embed::{Identity, Quantised, Vector, differing, dot_halves, products, signs_width};
use crate::index::sections::{Bytes, Form, Sections, fixed, large, signed, small};

mod composed;

/// What a block is of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Heading {
    pub(super) identity: Identity,
    /// Which text was made of a passage.
    pub(super) text: u32,
    /// The index whose notes it numbers.
    pub(super) generation: String,
}

impl Heading {
    /// Of a block that is never written.
    pub(super) fn in_memory(identity: Identity) -> Self {
        Self { identity, text: 0, generation: String::new() }
    }
}

/// Why bytes are no block of this space.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowsError {
    #[error(transparent)]
    Io(#[from] PathError),
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: &'static str },
    /// Whole, but of another index or space.
    #[error("`{}` is of another index", path.display())]
    Other { path: PathBuf },
}

/// A vector on its way into a block.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    /// The passage, counted from 0 within the note.
    pub(super) chunk: u32,
    /// Which part of the passage, where it is too long for one.
    pub(super) window: u32,
    pub(super) vector: Vector,
}

/// A block of vectors.
#[derive(Debug)]
pub(super) struct Rows {
    bytes: Bytes,
    /// Where it lies; `None` while it is in memory only.
    path: Option<PathBuf>,
    plan: Plan,
}

/// Where everything is.
#[derive(Clone, Copy, Debug)]
struct Plan {
    dimension: usize,
    groups: usize,
    rows: usize,
    group_at: usize,
    place_at: usize,
    scale_at: usize,
    sign_at: usize,
    part_at: usize,
    half_at: usize,
    end: usize,
}

/// A row of a block, by which it is found again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) chunk: u32,
    pub(super) window: u32,
}

const FORM: Form = Form {
    magic: b"remd-vec",
    version: 1,
    // And dimension, length of the heading, groups, rows.
    fixed: 40,
    is_none: "it is no file of vectors",
};
const GROUP: usize = 12;
const PLACE: usize = 8;

impl Plan {
    fn of(dimension: usize, groups: usize, rows: usize, heading: usize) -> Option<Self> {
        let mut at = Sections::behind(&FORM, heading)?;
        let group_at = at.section(groups, GROUP)?;
        let place_at = at.section(rows, PLACE)?;
        let scale_at = at.section(rows, 4)?;
        let sign_at = at.section(rows, signs_width(dimension))?;
        let part_at = at.section(rows, dimension)?;
        let half_at = at.section(rows, dimension.checked_mul(2)?)?;
        let end = at.end();
        Some(Self {
            dimension,
            groups,
            rows,
            group_at,
            place_at,
            scale_at,
            sign_at,
            part_at,
            half_at,
            end,
        })
    }
}

impl Rows {
    /// Maps a block and looks at every byte of it.
    pub(super) fn open(path: &Path, heading: &Heading) -> Result<Self, RowsError> {
        let (rows, found) = Self::map(path)?;
        if found != *heading {
            return Err(RowsError::Other { path: path.to_owned() });
        }
        Ok(rows)
    }

    /// The highest number of a note in a block of `generation`, whatever its space; 0 where it is
    /// of another index, or nothing that can be read.
    pub(super) fn highest_in(path: &Path, generation: &str) -> u64 {
        match Self::map(path) {
            Ok((rows, heading)) if heading.generation == generation => rows.highest(),
            _ => 0,
        }
    }

    fn map(path: &Path) -> Result<(Self, Heading), RowsError> {
        let bytes = Bytes::map(path)?;
        let damaged = |why| RowsError::Damaged { path: path.to_owned(), why };
        let (plan, heading) = read(&bytes).map_err(damaged)?;
        let rows = Self { bytes, path: Some(path.to_owned()), plan };
        rows.check_groups().map_err(damaged)?;
        Ok((rows, heading))
    }

    /// Writes the block to a new file, whole or not at all, and gives it back mapped from there.
    pub(super) fn write(&self, path: &Path, heading: &Heading) -> Result<Self, RowsError> {
        fs::write_atomic(path, self.bytes())?;
        Self::open(path, heading)
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether no page of its file was lost.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes.is_whole()
    }

    /// How many notes are here, dead ones included.
    pub(super) fn groups(&self) -> usize {
        self.plan.groups
    }

    pub(super) fn rows(&self) -> usize {
        self.plan.rows
    }

    /// How large it is.
    pub(super) fn size(&self) -> usize {
        self.bytes().len()
    }

    /// The number of a note.
    pub(super) fn id(&self, group: usize) -> u64 {
        let at = self.plan.group_at + group * GROUP;
        u64::from_le_bytes(fixed(self.bytes(), at))
    }

    /// The highest number of a note here.
    pub(super) fn highest(&self) -> u64 {
        self.plan.groups.checked_sub(1).map_or(0, |last| self.id(last))
    }

    /// Where a note is.
    pub(super) fn group_of(&self, id: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.plan.groups);
        while low < high {
            let middle = low.midpoint(high);
            match self.id(middle).cmp(&id) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The note that a row is of, which is not before the note `from`.
    pub(super) fn group_at(&self, row: usize, from: usize) -> usize {
        let (mut low, mut step) = (from, 1);
        while low + step < self.plan.groups && self.end_of(low + step) <= row {
            low += step;
            step *= 2;
        }
        let mut high = (low + step).min(self.plan.groups.saturating_sub(1));
        while low < high {
            let middle = low.midpoint(high);
            match self.end_of(middle) <= row {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The rows of a note.
    pub(super) fn rows_of(&self, group: usize) -> std::ops::Range<usize> {
        let start = group.checked_sub(1).map_or(0, |before| self.end_of(before));
        let end = self.end_of(group);
        start.min(end)..end
    }

    /// What a row is of.
    pub(super) fn place(&self, row: usize) -> Place {
        let at = self.plan.place_at + row * PLACE;
        let number = |at| u32::from_le_bytes(fixed(self.bytes(), at));
        Place { chunk: number(at), window: number(at + 4) }
    }

    /// In how many signs the rows of a part of the block differ from a query's, which ends early at
    /// the end of the block.
    pub(super) fn differing(&self, query: &[u8], from: usize, rows: usize, to: &mut Vec<u16>) {
        let width = signs_width(self.plan.dimension);
        let end = self.plan.rows.min(from.saturating_add(rows));
        let at = self.plan.sign_at;
        differing(query, &self.bytes()[at + from.min(end) * width..at + end * width], to);
    }

    /// How near rows are, in eight bits, but for the query's own scale.
    pub(super) fn rough(&self, query: &Quantised, rows: &[u32], to: &mut Vec<f32>) {
        let Plan { dimension, part_at, scale_at, .. } = self.plan;
        let parts = signed(&self.bytes()[part_at..part_at + self.plan.rows * dimension]);
        to.clear();
        products(&query.parts, parts, rows, |it| to.push(it as f32));
        for (nearness, row) in to.iter_mut().zip(rows) {
            *nearness *= f32::from_le_bytes(fixed(self.bytes(), scale_at + *row as usize * 4));
        }
    }

    /// The numbers of a row in eight bits, and their scale.
    pub(super) fn in_eight_bits(&self, row: usize) -> (&[i8], f32) {
        let Plan { dimension, part_at, scale_at, .. } = self.plan;
        let parts = &self.bytes()[part_at + row * dimension..part_at + (row + 1) * dimension];
        (signed(parts), f32::from_le_bytes(fixed(self.bytes(), scale_at + row * 4)))
    }

    /// The exact cosine of a row.
    pub(super) fn cosine(&self, query: &Vector, row: usize) -> f32 {
        let cosine = dot_halves(query.parts(), &self.halves(row));
        // A page that was lost under the map reads as zeroes, never as no number.
        if cosine.is_finite() { cosine.clamp(-1.0, 1.0) } else { 0.0 }
    }

    /// The half-precision numbers of a row.
    pub(super) fn halves(&self, row: usize) -> Vec<u16> {
        let Plan { dimension, half_at, .. } = self.plan;
        let from = half_at + row * dimension * 2;
        let (pairs, _) = self.bytes()[from..from + dimension * 2].as_chunks::<2>();
        pairs.iter().map(|it| u16::from_le_bytes(*it)).collect()
    }

    /// Where the rows of a note end; they begin where those of the one before do.
    pub(super) fn end_of(&self, group: usize) -> usize {
        let at = self.plan.group_at + group * GROUP + 8;
        // Never past the end, whatever a page that was lost under the map reads as.
        (u32::from_le_bytes(fixed(self.bytes(), at)) as usize).min(self.plan.rows)
    }

    fn check_groups(&self) -> Result<(), &'static str> {
        let (mut last, mut end) = (None, 0);
        for group in 0..self.plan.groups {
            let (id, next) = (self.id(group), self.end_of(group));
            if last.is_some_and(|it| it >= id) || next < end {
                return Err("its notes are in no order");
            }
            (last, end) = (Some(id), next);
        }
        if end == self.plan.rows { Ok(()) } else { Err("it has rows of no note") }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What the bytes are, if every one of them is as it was written.
fn read(bytes: &[u8]) -> Result<(Plan, Heading), &'static str> {
    FORM.check(bytes)?;
    let (dimension, length) = (small(bytes, 16) as usize, small(bytes, 20) as usize);
    let plan = Plan::of(dimension, large(bytes, 24)?, large(bytes, 32)?, length);
    let plan = plan.ok_or("its size")?;
    let heading: Heading = FORM.heading(bytes, length, plan.end)?;
    if heading.identity.dimension != dimension {
        return Err("its dimension is not that of its space");
    }
    Ok((plan, heading))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::embed::Normalisation;
    use proptest::prelude::*;

    fn heading() -> Heading {
        let identity = Identity {
            backend: "static".into(),
            model: "m".into(),
            dimension: 3,
            source: "d".into(),
            normalisation: Normalisation::L2,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        };
        Heading { identity, text: 1, generation: "g".into() }
    }

    fn row(chunk: u32, window: u32, parts: [f32; 3]) -> Row {
        Row { chunk, window, vector: Vector::new(parts.to_vec()).unwrap() }
    }

    fn notes() -> BTreeMap<u64, Vec<Row>> {
        BTreeMap::from([
            (2, vec![row(0, 0, [1.0, 0.0, 0.0]), row(3, 1, [0.0, 1.0, 0.0])]),
            (5, vec![]),
            (9, vec![row(0, 0, [1.0, 1.0, 0.0])]),
        ])
    }

    /// A note, and each of its rows: passage, window, thousandths of a cosine.
    type Fact = (u64, Vec<(u32, u32, i32)>);

    /// What a block says of each of its notes.
    fn facts(rows: &Rows) -> Vec<Fact> {
        let asked = Vector::new(vec![1.0, 0.0, 0.0]).unwrap();
        let fact = |row: usize| {
            let Place { chunk, window } = rows.place(row);
            (chunk, window, (rows.cosine(&asked, row) * 1000.0).round() as i32)
        };
        (0..rows.groups())
            .map(|group| (rows.id(group), rows.rows_of(group).map(fact).collect()))
            .collect()
    }

    fn wanted() -> Vec<Fact> {
        vec![(2, vec![(0, 0, 1000), (3, 1, 0)]), (5, vec![]), (9, vec![(0, 0, 707)])]
    }

    #[test]
    fn a_block_says_the_same_in_memory_and_from_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let block = Rows::build(&heading(), &notes());
        assert_eq!(facts(&block), wanted());
        assert_eq!((block.group_of(5), block.group_of(4)), (Some(1), None));
        let small = Vector::new(vec![1.0, 0.0, 0.0]).unwrap().quantised();
        let mut near = Vec::new();
        block.rough(&small, &[2, 0], &mut near);
        assert!((near[0] * small.scale - 0.707).abs() < 0.01, "{near:?}");
        assert!((near[1] * small.scale - 1.0).abs() < 0.01, "{near:?}");
        let groups = [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)];
        assert_eq!(groups.map(|(row, from)| block.group_at(row, from)), [0, 0, 2, 2, 2]);
        let path = dir.path().join("1.rows");
        let mapped = block.write(&path, &heading()).unwrap();
        assert_eq!((facts(&mapped), mapped.highest()), (wanted(), 9));
        assert_eq!(Rows::highest_in(&path, "g"), 9);
        assert_eq!(Rows::highest_in(&path, "another"), 0);
    }

    #[test]
    fn merging_leaves_the_dead_out_and_counts_nobody_twice() {
        let one = Arc::new(Rows::build(&heading(), &notes()));
        let other = BTreeMap::from([(3, vec![row(1, 0, [1.0, 0.0, 0.0])]), (9, vec![])]);
        let other = Arc::new(Rows::build(&heading(), &other));
        let both = [one, other];
        let merged = Rows::merged(&heading(), &both, &|it| it != 2).unwrap();
        assert_eq!(facts(&merged), [(3, vec![(1, 0, 1000)]), (5, vec![]), (9, vec![])]);
        assert!(Rows::merged(&heading(), &both, &|_| false).is_none());
    }

    #[test]
    fn another_space_or_index_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.rows");
        Rows::build(&heading(), &notes()).write(&path, &heading()).unwrap();
        let mut others = vec![heading(); 4];
        others[0].identity.model = "n".into();
        others[1].identity.source = "e".into();
        others[2].text = 2;
        others[3].generation = "h".into();
        for other in others {
            assert!(matches!(Rows::open(&path, &other), Err(RowsError::Other { .. })));
        }
    }

    proptest! {
        #[test]
        fn no_other_byte_is_believed(at in 0..800_usize, bit in 0..8_u32, cut in any::<bool>()) {
            let mut bytes = Rows::build(&heading(), &notes()).bytes().to_vec();
            let at = at % bytes.len();
            match cut {
                true => bytes.truncate(at),
                false => bytes[at] ^= 1 << bit,
            }
            prop_assert!(read(&bytes).is_err());
        }
    }
}

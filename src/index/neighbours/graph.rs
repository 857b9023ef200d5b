//! A graph of neighbours, as it lies in a file.
//!
//! Takes the links that a build found, gives bytes that are searched where they lie: of each row
//! its number in eight bits and the rows near it, of the upper layers their rows alone, by which a
//! search begins. What the library keeps in memory for one row would be some fifteen times as much.
//! Written once and never changed. Any thread.
//!
//! **Invariant:** bytes that are not whole, of another version, space or index are refused; no bytes
//! make a reader fail later. What is found here is a guess at who is near, never how near.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::base::clock;
use crate::embed::{Quantised, products};
use crate::index::guard::{Print, print_of};
use crate::index::rows::{Heading, Rows, RowsError};
use crate::index::sections::{Bytes, Form, Sections, fixed, large, signed, small};

/// A graph over the rows of notes.
pub(in crate::index) struct Graph {
    bytes: Bytes,
    plan: Plan,
    /// Where it lies, and the file as it was when it was read.
    kept: Option<(PathBuf, Option<Print>)>,
}

/// What a graph is made of.
pub(super) struct Parts<'a> {
    pub(super) heading: &'a Heading,
    /// Each note, ascending, and where its rows end.
    pub(super) notes: &'a [(u64, u32)],
    /// Notes of the blocks that were dead when it was built, ascending, and a mark of their rows
    /// ([`mark_of`]): nobody has to look for them elsewhere.
    pub(super) left: &'a [(u64, u32)],
    /// Rows by which a search begins.
    pub(super) entries: &'a [u32],
    /// Of each row `width` neighbours; [`NONE`] where there are fewer.
    pub(super) links: &'a [u32],
    pub(super) width: usize,
}

/// Where everything is.
#[derive(Clone, Copy)]
struct Plan {
    dimension: usize,
    width: usize,
    groups: usize,
    left: usize,
    entries: usize,
    rows: usize,
    group_at: usize,
    left_at: usize,
    entry_at: usize,
    scale_at: usize,
    link_at: usize,
    part_at: usize,
    end: usize,
}

/// A row near a query; the nearest is the greatest.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) struct Guess {
    pub(in crate::index) nearness: f32,
    pub(in crate::index) row: u32,
}

/// No row.
pub(super) const NONE: u32 = u32::MAX;
const FORM: Form = Form {
    magic: b"remd-hnw",
    version: 1,
    // And dimension, length of the heading, width, entries, notes, notes left out, rows.
    fixed: 56,
    is_none: "it is no graph of vectors",
};
const GROUP: usize = 12;
/// A search begins at so many of the entries, the nearest ones.
const STARTS: usize = 8;
/// The clock is asked once in so many steps of a search.
const STEPS: usize = 64;

impl Plan {
    fn of(counts: [usize; 6], heading: usize) -> Option<Self> {
        let [dimension, width, groups, left, entries, rows] = counts;
        let mut at = Sections::behind(&FORM, heading)?;
        let group_at = at.section(groups, GROUP)?;
        let left_at = at.section(left, GROUP)?;
        let entry_at = at.section(entries, 4)?;
        let scale_at = at.section(rows, 4)?;
        let link_at = at.section(rows, width.checked_mul(4)?)?;
        let part_at = at.section(rows, dimension)?;
        let end = at.end();
        Some(Self {
            dimension,
            width,
            groups,
            left,
            entries,
            rows,
            group_at,
            left_at,
            entry_at,
            scale_at,
            link_at,
            part_at,
            end,
        })
    }
}

impl PartialEq for Guess {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Guess {}

impl PartialOrd for Guess {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Guess {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nearness.total_cmp(&other.nearness).then_with(|| self.row.cmp(&other.row))
    }
}

/// The bytes of a graph; `row` gives each row in eight bits. `None` where it is too large to be.
pub(super) fn compose<'a>(
    parts: &Parts<'_>,
    row: impl Fn(usize) -> (&'a [i8], f32),
) -> Option<Vec<u8>> {
    let Parts { heading, notes, left, entries, links, width } = *parts;
    let (rows, dimension) = (links.len() / width.max(1), heading.identity.dimension);
    let heading = serde_json::to_vec(heading).unwrap_or_default();
    let counts = [dimension, width, notes.len(), left.len(), entries.len(), rows];
    let plan = Plan::of(counts, heading.len())?;
    let mut bytes = Vec::with_capacity(plan.end);
    FORM.begin(&mut bytes);
    for number in [dimension, heading.len(), width, entries.len()] {
        bytes.extend_from_slice(&u32::try_from(number).ok()?.to_le_bytes());
    }
    for number in [notes.len(), left.len(), rows] {
        bytes.extend_from_slice(&(number as u64).to_le_bytes());
    }
    bytes.extend_from_slice(&heading);
    bytes.resize(plan.group_at, 0);
    for (id, end) in notes {
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&end.to_le_bytes());
    }
    bytes.resize(plan.left_at, 0);
    for (id, mark) in left {
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&mark.to_le_bytes());
    }
    bytes.resize(plan.entry_at, 0);
    bytes.extend(entries.iter().flat_map(|it| it.to_le_bytes()));
    bytes.resize(plan.scale_at, 0);
    bytes.extend((0..rows).flat_map(|it| row(it).1.to_le_bytes()));
    bytes.resize(plan.link_at, 0);
    bytes.extend(links.iter().flat_map(|it| it.to_le_bytes()));
    bytes.resize(plan.part_at, 0);
    for it in 0..rows {
        bytes.extend(row(it).0.iter().map(|it| it.cast_unsigned()));
    }
    FORM.seal(&mut bytes);
    Some(bytes)
}

impl Graph {
    /// Maps a graph and looks at every byte of it.
    pub(super) fn open(path: &Path, heading: &Heading) -> Result<Self, RowsError> {
        // Before it is read: what is written into it meanwhile shows.
        let print = print_of(path);
        let graph = Self::believed(Bytes::map(path)?, path, heading)?;
        Ok(Self { kept: Some((path.to_owned(), print)), ..graph })
    }

    /// The same of bytes that are in no file.
    pub(super) fn of(bytes: Vec<u8>, heading: &Heading) -> Result<Self, RowsError> {
        Self::believed(Bytes::Owned(bytes), Path::new("memory"), heading)
    }

    fn believed(bytes: Bytes, path: &Path, heading: &Heading) -> Result<Self, RowsError> {
        let damaged = |why| RowsError::Damaged { path: path.to_owned(), why };
        let (plan, found) = read(&bytes).map_err(damaged)?;
        if found != *heading {
            return Err(RowsError::Other { path: path.to_owned() });
        }
        let graph = Self { bytes, plan, kept: None };
        graph.check().map_err(damaged)?;
        Ok(graph)
    }

    /// Whether its file is what it was, and no page of it was lost. One `stat`.
    pub(in crate::index) fn is_whole(&self) -> bool {
        self.bytes.is_whole()
            && self.kept.as_ref().is_none_or(|(path, print)| print_of(path) == *print)
    }

    pub(super) fn rows(&self) -> usize {
        self.plan.rows
    }

    /// How many notes are here, dead ones included.
    pub(super) fn notes(&self) -> usize {
        self.plan.groups
    }

    /// The number of a note.
    pub(super) fn id(&self, note: usize) -> u64 {
        u64::from_le_bytes(fixed(&self.bytes, self.plan.group_at + note * GROUP))
    }

    /// The note that a row is of, and which of its rows it is.
    pub(in crate::index) fn place(&self, row: u32) -> (u64, usize) {
        let row = row as usize;
        let note = partition(self.plan.groups, |it| self.end_of(it) <= row);
        let note = note.min(self.plan.groups.saturating_sub(1));
        (self.id(note), row.saturating_sub(self.start_of(note)))
    }

    /// Whether the rows that a block has of a note are here, or were dead when this was built.
    pub(super) fn has(&self, block: &Rows, group: usize) -> bool {
        let id = block.id(group);
        let note = partition(self.plan.groups, |it| self.id(it) < id);
        if note >= self.plan.groups || self.id(note) != id {
            let left = |it: usize| self.plan.left_at + it * GROUP;
            let number = |it| u64::from_le_bytes(fixed(&self.bytes, left(it)));
            let at = partition(self.plan.left, |it| number(it) < id);
            return at < self.plan.left
                && number(at) == id
                && self.number(left(at) + 8) == mark_of(block, group);
        }
        let (ours, theirs) = (self.start_of(note)..self.end_of(note), block.rows_of(group));
        ours.len() == theirs.len()
            && ours.zip(theirs).all(|(ours, row)| self.scale(ours) == block.in_eight_bits(row).1)
    }

    /// Rows near a query, nearest first; `None` where the deadline comes first. Those that are far
    /// from the best of them are looked at until `width` nearer ones are known.
    pub(in crate::index) fn near(
        &self,
        query: &Quantised,
        width: usize,
        deadline: Instant,
    ) -> Option<Vec<Guess>> {
        if query.parts.len() != self.plan.dimension {
            return Some(Vec::new());
        }
        let mut seen = vec![0_u64; self.plan.rows.div_ceil(64)];
        let mut is_new = |row: u32| {
            let (word, bit) = (row as usize / 64, 1 << (row % 64));
            let is_new = seen.get(word).is_some_and(|it| it & bit == 0);
            if is_new {
                seen[word] |= bit;
            }
            is_new
        };
        let (mut places, mut found) = (Vec::new(), Vec::new());
        places.extend((0..self.plan.entries).map(|it| self.number(self.plan.entry_at + it * 4)));
        self.look(query, &places, &mut found);
        found.sort_unstable_by(|a: &Guess, b| b.cmp(a));
        found.truncate(STARTS);
        let mut open: BinaryHeap<Guess> =
            found.iter().copied().filter(|it| is_new(it.row)).collect();
        let mut best: BinaryHeap<Reverse<Guess>> = open.iter().copied().map(Reverse).collect();
        let mut steps = 0;
        while let Some(next) = open.pop() {
            let is_full = best.len() >= width;
            if is_full && best.peek().is_some_and(|worst| next < worst.0) {
                break;
            }
            steps += 1;
            if steps % STEPS == 0 && clock::now() >= deadline {
                return None;
            }
            places.clear();
            places.extend(self.links(next.row).filter(|it| is_new(*it)));
            self.look(query, &places, &mut found);
            for guess in &found {
                if best.len() >= width && best.peek().is_some_and(|worst| *guess <= worst.0) {
                    continue;
                }
                open.push(*guess);
                best.push(Reverse(*guess));
                if best.len() > width {
                    best.pop();
                }
            }
        }
        // The worst is the greatest of the reversed.
        Some(best.into_sorted_vec().into_iter().map(|it| it.0).collect())
    }

    /// How near rows are, but for the query's own scale.
    fn look(&self, query: &Quantised, rows: &[u32], to: &mut Vec<Guess>) {
        let Plan { part_at, end, .. } = self.plan;
        to.clear();
        let mut row = rows.iter();
        products(&query.parts, signed(&self.bytes[part_at..end]), rows, |it| {
            if let Some(row) = row.next() {
                let nearness = it as f32 * self.scale(*row as usize);
                to.push(Guess { nearness, row: *row });
            }
        });
    }

    fn links(&self, row: u32) -> impl Iterator<Item = u32> {
        let at = self.plan.link_at + row as usize * self.plan.width * 4;
        let links = (0..self.plan.width).map(move |it| self.number(at + it * 4));
        links.take_while(|it| *it != NONE)
    }

    fn scale(&self, row: usize) -> f32 {
        // What a row that is not there has, after a page was lost.
        let at = self.plan.scale_at + row.min(self.plan.rows.saturating_sub(1)) * 4;
        f32::from_le_bytes(fixed(&self.bytes, at))
    }

    fn start_of(&self, note: usize) -> usize {
        note.checked_sub(1).map_or(0, |before| self.end_of(before))
    }

    fn end_of(&self, note: usize) -> usize {
        self.number(self.plan.group_at + note * GROUP + 8) as usize
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_le_bytes(fixed(&self.bytes, at))
    }

    fn check(&self) -> Result<(), &'static str> {
        let Plan { groups, rows, entries, entry_at, .. } = self.plan;
        let (mut last, mut end) = (None, 0);
        for note in 0..groups {
            let (id, next) = (self.id(note), self.end_of(note));
            if last.is_some_and(|it| it >= id) || next < end {
                return Err("its notes are in no order");
            }
            (last, end) = (Some(id), next);
        }
        let is_row = |it: u32| (it as usize) < rows;
        if end != rows || NONE as usize <= rows {
            return Err("it has rows of no note");
        }
        if !(0..entries).all(|it| is_row(self.number(entry_at + it * 4))) {
            return Err("it begins nowhere");
        }
        match (0..rows).all(|it| self.links(it as u32).all(is_row)) {
            true => Ok(()),
            false => Err("it leads nowhere"),
        }
    }
}

/// By which the rows that a block has of a note are known again.
pub(super) fn mark_of(block: &Rows, group: usize) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    block.rows_of(group).for_each(|it| sum.update(&block.in_eight_bits(it).1.to_le_bytes()));
    sum.finalize()
}

/// The first number below `count` for which it is not so.
fn partition(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match is_before(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// What the bytes are, if every one of them is as it was written.
fn read(bytes: &[u8]) -> Result<(Plan, Heading), &'static str> {
    FORM.check(bytes)?;
    let few = |at| small(bytes, at) as usize;
    let many = |at| large(bytes, at);
    let length = few(20);
    let counts = [few(16), few(24), many(32)?, many(40)?, few(28), many(48)?];
    let plan = Plan::of(counts, length).ok_or("its size")?;
    let heading: Heading = FORM.heading(bytes, length, plan.end)?;
    if heading.identity.dimension != plan.dimension {
        return Err("its dimension is not that of its space");
    }
    Ok((plan, heading))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::embed::{Identity, Normalisation, Vector};
    use crate::index::rows::Row;

    fn heading() -> Heading {
        let identity = Identity {
            backend: "static".into(),
            model: "m".into(),
            dimension: 2,
            source: "d".into(),
            normalisation: Normalisation::L2,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        };
        Heading { identity, text: 1, generation: "g".into() }
    }

    fn row(chunk: u32, parts: [f32; 2]) -> Row {
        Row { chunk, window: 0, vector: Vector::new(parts.to_vec()).unwrap() }
    }

    fn first() -> Vec<Row> {
        vec![row(0, [1.0, 0.0]), row(1, [1.0, 1.0]), row(2, [0.0, 1.0])]
    }

    /// Of note 7 three directions, of note 9 two.
    fn block() -> Rows {
        let second = vec![row(0, [-1.0, 0.0]), row(1, [-1.0, -1.0])];
        Rows::build(&heading(), &BTreeMap::from([(7, first()), (8, vec![]), (9, second)]))
    }

    /// A row of rows, each linked to the next and the one before.
    fn bytes(links: &[u32], entries: &[u32]) -> Vec<u8> {
        let (heading, block) = (heading(), block());
        let notes = [(7, 3), (8, 3), (9, 5)];
        let left = [(3, mark_of(&block, 0))];
        let parts =
            Parts { heading: &heading, notes: &notes, left: &left, entries, links, width: 2 };
        compose(&parts, |it| block.in_eight_bits(it)).unwrap()
    }

    const LINKS: [u32; 10] = [1, NONE, 0, 2, 1, 3, 2, 4, 3, NONE];

    fn open(bytes: Vec<u8>) -> Result<Graph, RowsError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("graph");
        std::fs::write(&path, &bytes).unwrap();
        Graph::open(&path, &heading())
    }

    fn near(graph: &Graph, parts: [f32; 2], width: usize) -> Vec<u32> {
        let query = Vector::new(parts.to_vec()).unwrap().quantised();
        let found = graph.near(&query, width, clock::now() + Duration::from_secs(60)).unwrap();
        found.iter().map(|it| it.row).collect()
    }

    #[test]
    fn a_search_goes_from_neighbour_to_neighbour() {
        let graph = open(bytes(&LINKS, &[4])).unwrap();
        assert_eq!((graph.rows(), graph.notes()), (5, 3));
        // From the farthest to the nearest, whose way leads by all of them.
        assert_eq!(near(&graph, [1.0, 0.2], 5), [0, 1, 2, 4, 3]);
        assert_eq!(near(&graph, [1.0, 0.2], 2), [0, 1]);
        assert_eq!([0, 2, 3, 4].map(|it| graph.place(it)), [(7, 0), (7, 2), (9, 0), (9, 1)]);
        let block = block();
        assert_eq!([0, 1, 2].map(|it| graph.has(&block, it)), [true; 3]);
        let others = BTreeMap::from([(7, vec![row(0, [1.0, 0.0])]), (10, vec![])]);
        let other = Rows::build(&heading(), &others);
        assert_eq!([0, 1].map(|it| graph.has(&other, it)), [false; 2]);
        // One that was dead then, and another that has its number.
        let dead = Rows::build(&heading(), &BTreeMap::from([(3, first())]));
        assert!(graph.has(&dead, 0));
        let another = Rows::build(&heading(), &BTreeMap::from([(3, vec![row(0, [1.0, 0.0])])]));
        assert!(!graph.has(&another, 0));
        let late = graph.near(&Vector::new(vec![1.0, 0.0]).unwrap().quantised(), 5, clock::now());
        // A few steps cost nothing, whatever the clock says.
        assert_eq!(late.unwrap().len(), 5);
    }

    #[test]
    fn no_byte_may_be_another_and_none_may_be_missing() {
        let whole = bytes(&LINKS, &[4]);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(open(damaged).is_err(), "byte {at}");
            assert!(open(whole[..at].to_vec()).is_err(), "cut at {at}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert!(open(longer).is_err());
        assert!(open(whole).is_ok());
    }

    #[test]
    fn what_is_whole_and_leads_astray_is_refused() {
        let astray = |links: [u32; 10], entries: &[u32]| match open(bytes(&links, entries)) {
            Err(RowsError::Damaged { why, .. }) => why,
            _ => "nothing",
        };
        let mut links = LINKS;
        links[3] = 5;
        assert_eq!(astray(links, &[4]), "it leads nowhere");
        assert_eq!(astray(LINKS, &[5]), "it begins nowhere");
        let other = Heading { generation: "h".into(), ..heading() };
        let found = Graph::of(bytes(&LINKS, &[4]), &other);
        assert!(matches!(found, Err(RowsError::Other { .. })));
        let mut later = bytes(&LINKS, &[4]);
        later[8] += 1;
        assert!(matches!(
            open(later),
            Err(RowsError::Damaged { why: "it is of another version", .. })
        ));
    }
}

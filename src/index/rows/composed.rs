//! Puts a block together: of notes with their vectors, or of other blocks.
//!
//! Pure. Takes notes in ascending order, gives the bytes that a reader believes.
//!
//! **Invariant:** the bytes of a block are those that its parts have, whichever way they came.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{FORM, GROUP, Heading, PLACE, Plan, Row, Rows};
use crate::embed::{Quantised, signs, signs_width};
use crate::index::sections::{ALIGN, Bytes};

impl Rows {
    /// A block in memory; a note without a row says that it was looked at and has none.
    pub(in crate::index) fn build(heading: &Heading, notes: &BTreeMap<u64, Vec<Row>>) -> Self {
        let mut draft = Draft::new(heading);
        for (id, rows) in notes {
            for row in rows {
                let Quantised { parts, scale } = row.vector.quantised();
                draft.places.extend_from_slice(&row.chunk.to_le_bytes());
                draft.places.extend_from_slice(&row.window.to_le_bytes());
                draft.scales.extend_from_slice(&scale.to_le_bytes());
                draft.signs.extend(signs(&parts));
                draft.parts.extend(parts.iter().map(|it| it.cast_unsigned()));
                let halves = row.vector.to_halves();
                draft.halves.extend(halves.iter().flat_map(|it| it.to_le_bytes()));
                draft.rows += 1;
            }
            draft.end_group(*id);
        }
        draft.finish()
    }

    /// The notes of several blocks that `keep` takes, in one; `None` where there are none.
    pub(in crate::index) fn merged(
        heading: &Heading,
        blocks: &[Arc<Self>],
        keep: &dyn Fn(u64) -> bool,
    ) -> Option<Self> {
        let mut notes: BTreeMap<u64, (&Self, usize)> = BTreeMap::new();
        for block in blocks {
            for group in 0..block.groups() {
                let id = block.id(group);
                if keep(id) {
                    notes.insert(id, (block, group));
                }
            }
        }
        if notes.is_empty() {
            return None;
        }
        let mut draft = Draft::new(heading);
        for (id, (block, group)) in notes {
            let range = block.rows_of(group);
            let (dimension, plan, bytes) = (block.plan.dimension, &block.plan, block.bytes());
            let cut =
                |at: usize, size: usize| &bytes[at + range.start * size..at + range.end * size];
            draft.places.extend_from_slice(cut(plan.place_at, PLACE));
            draft.scales.extend_from_slice(cut(plan.scale_at, 4));
            draft.signs.extend_from_slice(cut(plan.sign_at, signs_width(dimension)));
            draft.parts.extend_from_slice(cut(plan.part_at, dimension));
            draft.halves.extend_from_slice(cut(plan.half_at, dimension * 2));
            draft.rows += range.len();
            draft.end_group(id);
        }
        Some(draft.finish())
    }
}

/// A block being put together.
struct Draft<'a> {
    heading: &'a Heading,
    groups: Vec<u8>,
    places: Vec<u8>,
    scales: Vec<u8>,
    signs: Vec<u8>,
    parts: Vec<u8>,
    halves: Vec<u8>,
    rows: usize,
}

impl<'a> Draft<'a> {
    fn new(heading: &'a Heading) -> Self {
        let empty = Vec::new;
        Self {
            heading,
            groups: empty(),
            places: empty(),
            scales: empty(),
            signs: empty(),
            parts: empty(),
            halves: empty(),
            rows: 0,
        }
    }

    fn end_group(&mut self, id: u64) {
        self.groups.extend_from_slice(&id.to_le_bytes());
        self.groups.extend_from_slice(&(self.rows as u32).to_le_bytes());
    }

    fn finish(self) -> Rows {
        let dimension = self.heading.identity.dimension;
        let heading = serde_json::to_vec(self.heading).unwrap_or_default();
        let (groups, rows) = (self.groups.len() / GROUP, self.rows);
        let mut bytes = Vec::with_capacity(
            FORM.fixed
                + heading.len()
                + self.parts.len() * 3
                + rows * 12
                + self.groups.len()
                + self.signs.len()
                + 6 * ALIGN,
        );
        FORM.begin(&mut bytes);
        bytes.extend_from_slice(&(dimension as u32).to_le_bytes());
        bytes.extend_from_slice(&(heading.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(groups as u64).to_le_bytes());
        bytes.extend_from_slice(&(rows as u64).to_le_bytes());
        bytes.extend_from_slice(&heading);
        let mut starts = [0; 6];
        let sections = [self.groups, self.places, self.scales, self.signs, self.parts, self.halves];
        for (start, section) in starts.iter_mut().zip(sections) {
            bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
            *start = bytes.len();
            bytes.extend_from_slice(&section);
        }
        FORM.seal(&mut bytes);
        let [group_at, place_at, scale_at, sign_at, part_at, half_at] = starts;
        let end = bytes.len();
        let plan = Plan {
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
        };
        Rows { bytes: Bytes::Owned(bytes), path: None, plan }
    }
}

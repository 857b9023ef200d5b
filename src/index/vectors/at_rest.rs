//! The vectors of passages as the chunk store has them.
//!
//! Pure. Takes a note's number, gives of each of its passages one direction in half precision: of a
//! passage that was embedded in several windows the mean of these, as rows keep each of them. It is
//! there for whoever reads the store with other tools, and names the space that it lies in.
//!
//! **Invariant:** a direction is of the text of its own line, or it is not there.

use std::collections::BTreeMap;

use super::Vectors;
use crate::embed::{Identity, Vector};

/// What the lines of a note's passages carry.
pub(in crate::index) struct AtRest<'a> {
    pub(in crate::index) identity: &'a Identity,
    pub(in crate::index) space: String,
    of_chunks: BTreeMap<u32, Vector>,
}

impl AtRest<'_> {
    /// The direction of a passage, little-endian, in base64.
    pub(in crate::index) fn of(&self, chunk: usize) -> Option<String> {
        let vector = self.of_chunks.get(&u32::try_from(chunk).ok()?)?;
        Some(vector.to_f16_base64())
    }
}

impl Vectors {
    /// The vectors of a note, where they are made.
    pub(in crate::index) fn at_rest(&self, id: u64) -> Option<AtRest<'_>> {
        let mut blocks = self.disk.iter().chain(&self.tail).rev();
        let (block, group) = blocks.find_map(|it| Some((it, it.group_of(id)?)))?;
        let identity = &self.heading.identity;
        let mut sums: BTreeMap<u32, Vec<f32>> = BTreeMap::new();
        for row in block.rows_of(group) {
            let vector = Vector::from_halves(&block.halves(row)).ok()?;
            let sum =
                sums.entry(block.place(row).chunk).or_insert_with(|| vec![0.0; identity.dimension]);
            sum.iter_mut().zip(vector.parts()).for_each(|(sum, part)| *sum += part);
        }
        let mean = |(chunk, sum)| Some((chunk, Vector::new(sum).ok()?));
        let of_chunks = sums.into_iter().filter_map(mean).collect();
        Some(AtRest { identity, space: identity.space(), of_chunks })
    }
}

//! Whether a space of vectors is of use.
//!
//! Takes the living notes, counts those that have text and no vector in a space. Blocking where it
//! begins anew; the indexer's thread.
//!
//! **Invariant:** a space of a provider that has nothing to say of more than a few notes is not
//! whole enough to be searched in place of another one.

use std::collections::HashSet;

use crate::base::fs;
use crate::index::state::State;
use crate::index::vectors::{Vectors, VectorsError};

/// Whether so many notes may lack vectors: one of ten, or a single one.
fn are_few(lacking: usize, all: usize) -> bool {
    lacking == 0 || (lacking < all && lacking <= (all / 10).max(1))
}

impl Vectors {
    /// Whether no note lacks vectors but a few that the model was asked for in vain, and will be again.
    pub(in crate::index) fn is_whole(&self, state: &State) -> bool {
        let is_left = |it: &u64| self.tried.is_put_off(*it);
        are_few(self.missing.len(), state.cards().count()) && self.missing.iter().all(is_left)
    }

    /// How many notes have text and no vector, where they are too many: what a provider refuses is
    /// not missing. A model on this machine refuses nothing; to one that knows few words many notes
    /// say nothing.
    pub(in crate::index) fn mute(&self, state: &State) -> Option<usize> {
        if !self.is_remote() {
            return None;
        }
        let mut with_vectors = HashSet::new();
        for rows in self.disk.iter().chain(&self.tail) {
            let groups = (0..rows.groups()).filter(|it| !rows.rows_of(*it).is_empty());
            with_vectors.extend(groups.map(|it| rows.id(it)));
        }
        let is_mute = |id: &u64, chunks: usize| chunks > 0 && !with_vectors.contains(id);
        let mute = state.cards().filter(|it| is_mute(&it.id, it.chunks.len())).count();
        (!are_few(mute, state.cards().count())).then_some(mute)
    }

    /// Gives up all that it has, so that each note is asked for again.
    pub(in crate::index) fn begin_anew(&mut self, state: &State) -> Result<(), VectorsError> {
        self.forget();
        self.look_for_missing(state);
        fs::remove_derived(&self.folder).map_err(VectorsError::Disk)
    }
}

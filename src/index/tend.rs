//! Looks after the vectors of the index, beside its words.
//!
//! Takes notes as they are put, makes and keeps their vectors: at once where that costs nothing,
//! otherwise in steps while all is searched. Blocking; the index's owner.
//!
//! **Invariant:** words never wait for vectors, and never fail for their sake: what could not be
//! made or kept is owed, and whoever tends it is told why.

use std::time::Instant;

use crate::base::trouble::told;
use crate::index::card::Card;
use crate::index::indexer::Index;
use crate::index::vectors::VectorsError;
use crate::vault::NoteDoc;

impl Index {
    /// Whether there are vectors to make or to write, in steps ([`Self::tend_vectors`]). Nothing is
    /// made of what is not proven yet.
    pub fn owes_vectors(&self) -> bool {
        self.is_proven()
            && self.vectors.as_ref().is_some_and(|it| {
                // What an edit brought is written with it.
                let is_left = it.is_unwritten() && self.overlay.waiting.is_empty();
                it.missing() > 0 || (is_left && self.disk.is_some())
            })
    }

    /// Makes vectors that are missing, until `until` and at least those of one note, and writes
    /// what has come together. A failure leaves what is there to be asked.
    pub fn tend_vectors(&mut self, until: Instant) -> Result<(), VectorsError> {
        if !self.is_proven() {
            return Ok(());
        }
        let tended = self.make_vectors(until);
        self.renew_guard();
        self.publish(None);
        tended
    }

    fn make_vectors(&mut self, until: Instant) -> Result<(), VectorsError> {
        let Some(vectors) = &mut self.vectors else { return Ok(()) };
        if self.disk.is_some() {
            vectors.write_if_large(&self.state)?;
        }
        let view = &self.view;
        let mut texts = |card: &Card| view.note(&card.path).map(|it| view.texts_of(it)).transpose();
        let made = vectors.make(&self.state, &mut texts, until);
        let is_whole = vectors.missing() == 0 && self.overlay.waiting.is_empty();
        let written = match self.disk.is_some() && is_whole {
            true => vectors.write(&self.state),
            false => Ok(()),
        };
        made.and(written)
    }

    /// Takes a note in the place of another, within a build.
    pub(super) fn put_vectors(&mut self, old: Option<&Card>, card: &Card, doc: &NoteDoc) {
        let Some(vectors) = &mut self.vectors else { return };
        if let Some(old) = old {
            vectors.remove(old);
        }
        vectors.put([(card, doc)]);
        if let Err(err) = vectors.write_if_large(&self.state) {
            // Of a large vault they would not all go into memory.
            vectors.let_go(&self.state);
            tracing::warn!(err = told(&err), "vectors can't be kept yet");
        }
    }

    /// Writes what came with what was just written.
    pub(super) fn write_vectors(&mut self) {
        if let Some(vectors) = &mut self.vectors
            && let Err(err) = vectors.write(&self.state)
        {
            // They stay in memory, and are owed.
            tracing::warn!(err = told(&err), "vectors are not written yet");
        }
    }
}

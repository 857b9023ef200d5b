//! Looks after the vectors of the index, beside its words.
//!
//! Takes notes as they are put, makes and keeps their vectors: at once where that costs nothing,
//! otherwise in steps while all is searched; what a provider or a large model has to make goes out
//! as a [`Task`] and comes back as [`Made`]. Blocking; the index's owner.
//!
//! **Invariant:** words never wait for vectors, and never fail for their sake: what could not be
//! made or kept is owed, and whoever tends it is told why.

use std::sync::Arc;
use std::time::Instant;

use crate::base::trouble::told;
use crate::index::card::Card;
use crate::index::error::IndexError;
use crate::index::guard::{Damage, Guard};
use crate::index::indexer::Index;
use crate::index::spaces::{Models, NextSpace, Spaces};
use crate::index::task::{Blame, Made, Task};
use crate::index::vectors::{Vectors, VectorsError};
use crate::vault::NoteDoc;

impl Index {
    /// Whether there are vectors to make or to write, in steps ([`Self::tend_vectors`]). Nothing is
    /// made of what is not proven yet.
    pub fn owes_vectors(&self) -> bool {
        self.is_proven()
            && self.vectors.as_ref().is_some_and(|it| {
                // What an edit brought is written with it.
                let is_left =
                    (it.is_unwritten() || self.is_untidy) && self.overlay.waiting.is_empty();
                it.missing() > 0 || it.owes_at_once() || (is_left && self.disk.is_some())
            })
    }

    /// The same of what needs nobody to be waited for ([`Self::tend_at_once`]).
    pub fn owes_at_once(&self) -> bool {
        let is_left = self.overlay.waiting.is_empty() && self.disk.is_some();
        self.is_proven()
            && self.vectors.as_ref().is_some_and(|it| {
                let is_left = is_left && it.missing() == 0;
                it.owes_at_once() || (is_left && (it.is_unwritten() || self.is_untidy))
            })
    }

    /// Goes over to another model: what is there is searched until the new one has seen all notes.
    pub fn change_models(&mut self, models: Models) {
        match &mut self.vectors {
            Some(vectors) => vectors.change(models, &self.state),
            None => return,
        }
        self.renew_guard();
        self.publish(None);
    }

    /// Lets a graph of neighbours name who is near where there are more vectors than these. It is
    /// read and built while all of them are looked at. Says whether that is new.
    pub fn draw_neighbours_above(&mut self, vectors: usize) -> bool {
        let spaces = self.vectors.as_mut().filter(|it| it.draws_above() != vectors);
        let Some(spaces) = spaces else { return false };
        spaces.draw_above(vectors, &self.state);
        self.publish(None);
        true
    }

    /// Has a graph built that is wanted and not there, whatever took it away: asked when all is
    /// quiet.
    pub fn draw_neighbours_if_due(&self) {
        if let Some(vectors) = self.vectors.as_ref().filter(|_| self.proof.is_none()) {
            vectors.draw_if_due(&self.state);
        }
    }

    /// How far the space is that is made beside the one that is searched.
    pub fn next_space(&self) -> Option<NextSpace> {
        self.vectors.as_ref()?.next(&self.state)
    }

    /// Vectors to be made elsewhere, if any are; a note whose text can't be read is an error only
    /// where there is nothing else to do.
    pub fn task(&mut self) -> Result<Option<Task>, VectorsError> {
        let Some(vectors) = self.vectors.as_mut().filter(|_| self.proof.is_none()) else {
            return Ok(None);
        };
        let view = &self.view;
        let mut texts = |card: &Card| view.note(&card.path).map(|it| view.texts_of(it)).transpose();
        vectors.task(&self.state, &mut texts)
    }

    /// Whether the files of vectors are as they were left. Where they are not, words are searched
    /// all the same, and [`Self::mend_vectors`] sees to the rest.
    pub fn check_vectors(&self) -> Result<(), Damage> {
        let Some(disk) = &self.disk else { return Ok(()) };
        disk.guard.check_vectors()?;
        match self.vectors.as_ref().is_none_or(Spaces::is_mapped_whole) {
            true => Ok(()),
            false => Err(Damage::Changed(Vectors::root(&self.dir))),
        }
    }

    /// Reads the files of vectors again: what of them is not what was written is made again.
    pub fn mend_vectors(&mut self) {
        let prints = Guard::prints_of_vectors(&self.dir);
        if let Some(vectors) = &mut self.vectors {
            vectors.mend(&self.state);
        }
        if let Some(disk) = &mut self.disk {
            disk.guard = Arc::new(disk.guard.with_vectors(prints));
        }
        self.renew_guard();
        self.publish(None);
    }

    /// Makes small files one. What fails is owed, and no fault of the words.
    pub(super) fn tidy_vectors(&mut self) {
        let Some(vectors) = &mut self.vectors else { return };
        let tidied = vectors.tidy_up(&self.state);
        self.is_untidy = tidied.is_err();
        if let Err(err) = tidied {
            tracing::warn!(err = told(&err), "files of vectors are not made one yet");
        }
    }

    /// The notes that something was made of, and of which the model does not take a text, with why.
    pub fn made_of<'a>(
        &'a self,
        made: &'a Made,
    ) -> impl Iterator<Item = (&'a Card, Option<&'a str>)> {
        let is_ours = self.vectors.as_ref().is_some_and(|it| it.are_of(made));
        let ids = made.notes.keys().filter(move |_| is_ours);
        ids.filter_map(|id| {
            let why = made.refused.get(id).map(String::as_str);
            Some((&**self.state.card_of(*id)?, why))
        })
    }

    /// The note that the model failed on while it answers others, with why.
    pub fn failing_of<'a>(&'a self, made: &'a Made) -> Option<(&'a Card, &'a str)> {
        let [id] = made.asked[..] else { return None };
        let is_lacking = !made.notes.contains_key(&id);
        match &made.blame {
            Blame::Notes(why) if is_lacking && self.vectors.as_ref()?.are_of(made) => {
                Some((&**self.state.card_of(id)?, why))
            }
            _ => None,
        }
    }

    /// Takes what was made elsewhere. A failure to keep it leaves it to be searched.
    pub fn take_made(&mut self, made: Made) -> Result<(), VectorsError> {
        let Some(vectors) = &mut self.vectors else { return Ok(()) };
        vectors.take(made, &self.state);
        let written = match self.disk.is_some() && self.proof.is_none() {
            true => vectors.write_if_large(&self.state),
            false => Ok(()),
        };
        self.renew_guard();
        self.publish(None);
        written
    }

    /// Makes what costs nothing to make, until `until`, and writes what has come together.
    pub fn tend_at_once(&mut self, until: Instant) -> Result<(), VectorsError> {
        self.tend(until, false)
    }

    /// Makes vectors that are missing, until `until` and at least those of one note, and writes
    /// what has come together. A failure leaves what is there to be asked.
    pub fn tend_vectors(&mut self, until: Instant) -> Result<(), VectorsError> {
        self.tend(until, true)
    }

    fn tend(&mut self, until: Instant, with_all: bool) -> Result<(), VectorsError> {
        if !self.is_proven() {
            return Ok(());
        }
        let tended = self.make_vectors(until, with_all);
        self.renew_guard();
        self.publish(None);
        tended
    }

    fn make_vectors(&mut self, until: Instant, with_all: bool) -> Result<(), VectorsError> {
        let Some(vectors) = &mut self.vectors else { return Ok(()) };
        if self.disk.is_some() {
            vectors.write_if_large(&self.state)?;
        }
        let view = &self.view;
        let mut texts = |card: &Card| view.note(&card.path).map(|it| view.texts_of(it)).transpose();
        let made = match with_all {
            true => vectors.make(&self.state, &mut texts, until),
            false => vectors.make_at_once(&self.state, &mut texts, until),
        };
        let is_whole = vectors.missing() == 0 && self.overlay.waiting.is_empty();
        let written = match self.disk.is_some() && is_whole {
            true if self.is_untidy => vectors.tidy_up(&self.state),
            true => vectors.write(&self.state),
            false => Ok(()),
        };
        self.is_untidy &= !is_whole || written.is_err();
        made.and(written)
    }

    /// Looks whether the disk has room for a build of so many notes.
    pub(super) fn check_room(&self, notes: usize) -> Result<(), IndexError> {
        let vectors = self.vectors.as_ref().map_or(0, Spaces::bytes_a_note);
        self.room.check(&self.dir, notes, vectors)
    }

    /// Takes a note in the place of another, within a build.
    pub(super) fn put_vectors(&mut self, old: Option<&Card>, card: &Card, doc: &NoteDoc) {
        let Some(vectors) = &mut self.vectors else { return };
        if let Some(old) = old {
            vectors.remove(old);
        }
        if self.room.is_tight() {
            // They are made when the words have what they need.
            return vectors.owe(card);
        }
        vectors.put([(card, doc)].into_iter());
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

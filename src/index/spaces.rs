//! The space of vectors that is searched, and the one that is made to follow it.
//!
//! Takes a model and the notes as they come, passes both on. Another model's vectors are made
//! beside those that are there; the new space takes the place of the old one when it has all
//! living notes, and vectors of all but a few. Blocking; the index's owner.
//!
//! **Invariant:** one space is searched at a time; it changes when the next one is whole, and what
//! fails in the next one changes nothing in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::base::trouble::told;
use crate::embed::Embedder;
use crate::index::card::Card;
use crate::index::meaning::Meaning;
use crate::index::state::State;
use crate::index::task::{Made, Task};
use crate::index::vectors::{AtRest, Passages, Vectors, VectorsError};
use crate::vault::NoteDoc;

/// What embeds the notes, and what does while it begins.
#[derive(Clone)]
pub struct Models {
    pub wanted: Arc<dyn Embedder>,
    /// One that costs nothing, where the wanted one takes its time.
    pub meanwhile: Option<Arc<dyn Embedder>>,
}

impl Models {
    /// This one, and nothing before it is ready.
    pub fn only(wanted: Arc<dyn Embedder>) -> Self {
        Self { wanted, meanwhile: None }
    }
}

pub(super) struct Spaces {
    shown: Vectors,
    next: Option<Vectors>,
    /// Of how many notes the next space, which is whole, has no vector: too many to be searched.
    mute: Option<usize>,
    /// Whether notes came or went since that was counted.
    is_changed: bool,
    meanwhile: Option<Arc<dyn Embedder>>,
    dir: PathBuf,
}

/// How far the space is that is made beside the one that is searched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NextSpace {
    pub model: String,
    pub dimension: usize,
    /// Notes that it has, and all that there are.
    pub done: usize,
    pub all: usize,
    /// Where it has seen all, and is not searched all the same: notes that it has no vector of.
    pub mute: Option<usize>,
}

impl Spaces {
    pub(super) fn new(dir: &Path, models: Models) -> Self {
        let shown = Vectors::new(dir, models.wanted, "");
        Self {
            shown,
            next: None,
            mute: None,
            is_changed: false,
            meanwhile: models.meanwhile,
            dir: dir.to_owned(),
        }
    }

    pub(super) fn shown(&self) -> &Vectors {
        &self.shown
    }

    pub(super) fn read(&mut self) {
        self.shown.read();
    }

    /// Looks which notes lack vectors. Where the wanted space was not whole yet, the one before it
    /// is searched on.
    pub(super) fn look_for_missing(&mut self, state: &State) {
        self.all_mut().for_each(|it| it.look_for_missing(state));
        let is_mute = self.shown.mute(state).is_some();
        if self.shown.missing() > 0 || is_mute {
            let is_left = |it: Vectors| it.has_files().then_some(it);
            let stand_in = self.stand_in();
            let stand_in = match self.shown.is_empty() || is_mute {
                true => stand_in,
                false => stand_in.and_then(is_left),
            };
            if let Some(mut stand_in) = stand_in {
                stand_in.read();
                stand_in.look_for_missing(state);
                self.begin_with(Some(stand_in));
                self.turn(state);
            }
        }
    }

    pub(super) fn forget(&mut self) {
        self.all_mut().for_each(Vectors::forget);
        let stand_in = self.stand_in();
        self.begin_with(stand_in);
    }

    pub(super) fn set_generation(&mut self, generation: &str) {
        self.all_mut().for_each(|it| it.set_generation(generation));
    }

    /// Another model, or the same one anew: what it lacks is made beside what is there.
    pub(super) fn change(&mut self, models: Models, state: &State) {
        let Models { wanted, meanwhile } = models;
        self.meanwhile = meanwhile;
        if self.shown.takes(&wanted) {
            (self.next, self.mute) = (None, None);
            return;
        }
        if let Some(next) = self.next.as_mut().filter(|it| it.identity() == wanted.identity()) {
            next.takes(&wanted);
            // Whoever asks for it again has mended it, and what it refused is asked for again.
            if self.mute.take().is_some()
                && let Err(err) = next.begin_anew(state)
            {
                tracing::warn!(err = told(&err), "vectors that are no use stay");
            }
            return;
        }
        let mut next = self.shown.of_another(&self.dir, wanted);
        next.read();
        next.look_for_missing(state);
        self.next = Some(next);
        let is_unready =
            self.owes_next() || self.next.as_ref().is_some_and(|it| it.mute(state).is_some());
        if self.shown.is_remote() && is_unready {
            // Who names another provider wants nothing sent to the last one any more.
            let stand_in = self.meanwhile.clone().map(|it| self.shown.of_another(&self.dir, it));
            if let Some(mut stand_in) = stand_in {
                stand_in.read();
                stand_in.look_for_missing(state);
                self.shown = stand_in;
            } else if let Some(next) = self.next.take() {
                self.shown = next;
            }
        }
        self.turn(state);
    }

    /// Above how many vectors a graph may name who is near.
    pub(super) fn draws_above(&self) -> usize {
        self.shown.draws_above()
    }

    /// Lets a graph name who is near where there are more vectors than these.
    pub(super) fn draw_above(&mut self, rows: usize, state: &State) {
        self.shown.draw_above(rows, state);
        if let Some(next) = &mut self.next {
            next.draw_above(rows, state);
        }
    }

    /// Has the graphs built that are wanted, now that there is time.
    pub(super) fn draw_if_due(&self, state: &State) {
        self.all().for_each(|it| it.draw_if_due(state));
    }

    /// The vectors of a note that is searched, for the chunk store.
    pub(super) fn at_rest(&self, id: u64) -> Option<AtRest<'_>> {
        self.shown.at_rest(id)
    }

    pub(super) fn meaning(&self) -> Meaning {
        self.shown.meaning()
    }

    pub(super) fn next(&self, state: &State) -> Option<NextSpace> {
        let next = self.next.as_ref()?;
        let (identity, all) = (next.identity(), state.cards().count());
        Some(NextSpace {
            model: identity.model.clone(),
            dimension: identity.dimension,
            done: all.saturating_sub(next.missing()),
            all,
            mute: self.mute,
        })
    }

    pub(super) fn put<'a>(&mut self, notes: impl Iterator<Item = (&'a Card, &'a NoteDoc)> + Clone) {
        self.is_changed = true;
        self.all_mut().for_each(|it| it.put(notes.clone()));
    }

    pub(super) fn owe(&mut self, card: &Card) {
        self.is_changed = true;
        self.all_mut().for_each(|it| it.owe(card));
    }

    pub(super) fn remove(&mut self, card: &Card) {
        self.is_changed = true;
        self.all_mut().for_each(|it| it.remove(card));
    }

    /// Notes that lack vectors, in the space that is worked at.
    pub(super) fn missing(&self) -> usize {
        self.worked_at().missing()
    }

    /// Whether there is work that no provider has to be waited for.
    pub(super) fn owes_at_once(&self) -> bool {
        let is_owed = |it: &Vectors| it.is_instant() && it.missing() > 0;
        let is_counted = self.mute.is_some() && !self.is_changed;
        self.all().any(is_owed)
            || self.next.as_ref().is_some_and(|it| it.missing() == 0 && !is_counted)
    }

    pub(super) fn is_unwritten(&self) -> bool {
        self.all().any(Vectors::is_unwritten)
    }

    /// Makes what costs nothing to make.
    pub(super) fn make_at_once(
        &mut self,
        state: &State,
        texts: &mut dyn FnMut(&Card) -> Passages,
        until: Instant,
    ) -> Result<(), VectorsError> {
        let mut made = Ok(());
        for vectors in self.all_mut().filter(|it| it.is_instant() && it.missing() > 0) {
            made = made.and(vectors.make(state, texts, until));
        }
        self.turn(state);
        made
    }

    /// Makes what is missing, whoever makes it.
    pub(super) fn make(
        &mut self,
        state: &State,
        texts: &mut dyn FnMut(&Card) -> Passages,
        until: Instant,
    ) -> Result<(), VectorsError> {
        self.make_at_once(state, texts, until)?;
        let vectors = self.next.as_mut().unwrap_or(&mut self.shown);
        let made = match vectors.missing() {
            0 => Ok(()),
            _ => vectors.make(state, texts, until),
        };
        self.turn(state);
        made
    }

    /// What is to be made elsewhere next, if anything is.
    pub(super) fn task(
        &mut self,
        state: &State,
        texts: &mut dyn FnMut(&Card) -> Passages,
    ) -> Result<Option<Task>, VectorsError> {
        let vectors = self.next.as_mut().unwrap_or(&mut self.shown);
        match vectors.is_instant() {
            true => Ok(None),
            false => vectors.task(state, texts),
        }
    }

    /// Whether it was made for these, as they were opened.
    pub(super) fn are_of(&self, made: &Made) -> bool {
        self.all().any(|it| it.is_of(&made.space))
    }

    /// Takes what was made elsewhere.
    pub(super) fn take(&mut self, made: Made, state: &State) {
        if let Some(vectors) = self.all_mut().find(|it| it.is_of(&made.space)) {
            vectors.take(made, state);
        }
        self.turn(state);
    }

    pub(super) fn write(&mut self, state: &State) -> Result<(), VectorsError> {
        self.all_mut().try_for_each(|it| it.write(state))
    }

    pub(super) fn write_if_large(&mut self, state: &State) -> Result<(), VectorsError> {
        self.all_mut().try_for_each(|it| it.write_if_large(state))
    }

    pub(super) fn let_go(&mut self, state: &State) {
        self.all_mut().for_each(|it| it.let_go(state));
    }

    pub(super) fn tidy_up(&mut self, state: &State) -> Result<(), VectorsError> {
        self.all_mut().try_for_each(|it| it.tidy_up(state))?;
        if self.next.is_none() && self.shown.is_whole(state) {
            self.shown.remove_other_spaces()?;
        }
        Ok(())
    }

    /// Reads the files again, to the last byte: what is not what was written is given up, and made
    /// again.
    pub(super) fn mend(&mut self, state: &State) {
        for vectors in self.all_mut() {
            vectors.read();
            vectors.look_for_missing(state);
        }
    }

    /// Whether each file is what it was when it was mapped.
    pub(super) fn is_mapped_whole(&self) -> bool {
        self.all().all(Vectors::is_mapped_whole)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.all().flat_map(Vectors::paths)
    }

    pub(super) fn highest(&self) -> u64 {
        self.all().map(Vectors::highest).max().unwrap_or(0)
    }

    /// The least that the vectors of a note take which are made while it is put: of each space a
    /// row, with its signs, in eight bits with its scale and in half precision.
    pub(super) fn bytes_a_note(&self) -> u64 {
        let row = |dimension: u64| dimension.div_ceil(8) + dimension + 4 + dimension * 2;
        let at_once = self.all().filter(|it| it.is_instant());
        at_once.map(|it| row(it.identity().dimension as u64)).sum()
    }

    /// Who makes the vectors that are wanted.
    pub(super) fn embedder(&self) -> Arc<dyn Embedder> {
        self.worked_at().embedder()
    }

    /// The highest number that a next file would have.
    pub(super) fn next_file(&self) -> u64 {
        self.all().map(Vectors::next_file).max().unwrap_or(0)
    }

    /// Gives no file a lower number.
    pub(super) fn begin_files_at(&mut self, number: u64) {
        self.all_mut().for_each(|it| it.begin_files_at(number));
    }

    fn owes_next(&self) -> bool {
        self.next.as_ref().is_some_and(|it| it.missing() > 0)
    }

    fn all(&self) -> impl Iterator<Item = &Vectors> {
        std::iter::once(&self.shown).chain(&self.next)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Vectors> {
        std::iter::once(&mut self.shown).chain(&mut self.next)
    }

    fn worked_at(&self) -> &Vectors {
        self.next.as_ref().unwrap_or(&self.shown)
    }

    /// A space that is there at once, where the wanted one is not.
    fn stand_in(&self) -> Option<Vectors> {
        let model = self.meanwhile.clone()?;
        let is_needed = self.next.is_none() && !self.shown.is_instant();
        is_needed.then(|| self.shown.of_another(&self.dir, model))
    }

    fn begin_with(&mut self, stand_in: Option<Vectors>) {
        if let Some(stand_in) = stand_in {
            self.next = Some(std::mem::replace(&mut self.shown, stand_in));
        }
    }

    /// Lets the next space take its place, if it has all living notes that it can have, and is of
    /// use.
    fn turn(&mut self, state: &State) {
        let whole = self.next.as_ref().filter(|it| it.is_whole(state));
        let mute = whole.and_then(|it| it.mute(state));
        if let (Some(notes), None) = (mute, self.mute) {
            tracing::warn!(notes, "the next model has no vectors of them, and is not searched");
        }
        (self.mute, self.is_changed) = (mute, false);
        if self.mute.is_some() {
            return;
        }
        if let Some(next) = self.next.take_if(|it| it.is_whole(state)) {
            let model = &next.identity().model;
            tracing::info!(model, "the vectors of this model are searched from now on");
            self.shown = next;
            // So that the next start knows which of the two was whole.
            if !self.shown.is_unwritten()
                && let Err(err) = self.shown.remove_other_spaces()
            {
                tracing::warn!(err = told(&err), "vectors of another model stay");
            }
        }
    }
}

//! Which model the indexer goes by, and what it has another thread make.
//!
//! Takes the settings as they change, tells the encoder; carries tasks there and what was made
//! back into the index. The indexer's thread.
//!
//! **Invariant:** a model that cannot be had is named in `status`, and another one is in use
//! meanwhile; only this thread opens what a provider was paid for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::base::trouble::told;
use crate::daemon::cause::Backoff;
use crate::daemon::encoder::Encoder;
use crate::daemon::house::House;
use crate::daemon::indexer::Indexer;
use crate::daemon::models::{self, Chosen, Wish};
use crate::daemon::problems::Level;
use crate::daemon::refused::{Refused, and_more};
use crate::embed::StaticModel;
use crate::index::{Damage, Index, IndexView, Made, Models, NextSpace, VectorsError};
use crate::vault::{BlobId, VaultPath};

/// The model in use.
pub(super) struct Embedding {
    house: House,
    encoder: Encoder,
    metadata: PathBuf,
    /// Of the settings that were looked at last.
    version: u64,
    wish: Wish,
    models: Models,
    /// Notes of which the model does not take a text.
    pub(super) refused: Refused,
    /// Notes that it fails on while it answers others, and why.
    failing: BTreeMap<VaultPath, (BlobId, String)>,
}

/// The problems that it names.
const MODEL: &str = "model";
const FAILING: &str = "embedding-notes";
const MUTE: &str = "embedding-mute";

impl Embedding {
    pub(super) fn new(house: &House, encoder: &Encoder, metadata: &Path) -> Self {
        let (version, settings) = house.settings.get_versioned();
        let wish = Wish::of(&settings, &house.dirs);
        let chosen = models::choose(&settings, &house.dirs, Some(metadata));
        let models = begin(house, encoder, chosen);
        let (house, encoder, metadata) = (house.clone(), encoder.clone(), metadata.to_owned());
        let refused = Refused::open(&metadata, models.wanted.identity().space());
        refused.tell(&house.problems);
        Self { house, encoder, metadata, version, wish, models, refused, failing: BTreeMap::new() }
    }

    pub(super) fn models(&self) -> Models {
        self.models.clone()
    }

    /// The models of changed settings; `None` where they are those in use.
    fn changed(&mut self) -> Option<Models> {
        let (version, settings) = self.house.settings.get_versioned();
        if version == self.version {
            return None;
        }
        self.version = version;
        let wish = Wish::of(&settings, &self.house.dirs);
        // What could not be had may be there now.
        let is_open = |it| self.house.problems.is_open(it);
        if wish == self.wish && !is_open(MODEL) && !is_open(MUTE) {
            return None;
        }
        // One file has one owner.
        self.encoder.close_cache();
        let chosen = models::choose(&settings, &self.house.dirs, Some(&self.metadata));
        self.wish = wish;
        self.models = begin(&self.house, &self.encoder, chosen);
        let space = self.models.wanted.identity().space();
        self.refused.change(space, &self.house.problems);
        self.failing.clear();
        self.house.problems.clear(FAILING);
        Some(self.models())
    }

    /// Names the notes that something is wrong with.
    fn name_odd(&mut self, index: &Index, made: &Made) {
        let problems = &self.house.problems;
        self.refused.take(index.made_of(made), problems);
        let before = self.failing.len();
        for (card, _) in index.made_of(made) {
            self.failing.remove(&card.path);
        }
        let failing = index.failing_of(made);
        if let Some((card, why)) = failing {
            self.failing.insert(card.path.clone(), (card.blob, why.to_owned()));
        }
        if failing.is_some() || self.failing.len() < before {
            self.tell_failing();
        }
    }

    /// Forgets those that are gone, or other notes by now.
    fn forget_gone(&mut self, view: &IndexView) {
        self.refused.forget_gone(view, &self.house.problems);
        let before = self.failing.len();
        let lives = |path: &VaultPath, blob| view.note(path).is_some_and(|it| it.blob == blob);
        self.failing.retain(|path, (blob, _)| lives(path, *blob));
        if self.failing.len() < before {
            self.tell_failing();
        }
    }

    /// Names a model that has no vectors of too many notes to be searched.
    fn tell_mute(&self, next: Option<&NextSpace>, shown: Option<String>) {
        let problems = &self.house.problems;
        let Some((next, notes)) = next.and_then(|it| Some((it, it.mute?))) else {
            problems.clear(MUTE);
            return;
        };
        let why = match self.refused.first() {
            Some(it) => format!(" (`{}`: {})", it.path, it.why),
            None => String::new(),
        };
        let shown = shown.map_or("words alone".to_owned(), |it| format!("the vectors of `{it}`"));
        let (model, all, board) = (&next.model, next.all, StaticModel::on_board_identity().model);
        let what = format!(
            "`{model}` is not searched: it gives no vector of {notes} of {all} notes{why}; search \
             goes on with {shown}"
        );
        let remedy = format!(
            "Look whether it is a model that embeds, and how its provider runs; then `remd reload` \
             has all notes asked for again. `remd model use {board}` does without it."
        );
        if !problems.list().iter().any(|it| it.id == MUTE && it.what == what) {
            problems.report(MUTE, Level::Warning, &what, &remedy);
        }
    }

    fn tell_failing(&self) {
        let Some((path, (_, why))) = self.failing.iter().next() else {
            self.house.problems.clear(FAILING);
            return;
        };
        let more = and_more(self.failing.len());
        let what = format!("The model fails on `{path}`{more} and answers for others: {why}");
        let remedy = "Words find it all the same; it is asked again by itself, ever more rarely, and \
                      at once after an edit.";
        self.house.problems.report(FAILING, Level::Note, &what, remedy);
    }
}

/// Says what could not be done, and has the rest done.
fn begin(house: &House, encoder: &Encoder, chosen: Chosen) -> Models {
    match &chosen.trouble {
        Some((what, remedy)) => house.problems.report(MODEL, Level::Warning, what, remedy),
        None => house.problems.clear(MODEL),
    }
    let Models { wanted, meanwhile } = chosen.models;
    let identity = wanted.identity();
    let (model, backend, space) = (&identity.model, &identity.backend, identity.space());
    tracing::info!(model, backend, space, "embedding");
    let wanted = match chosen.serving.is_some() {
        true => encoder.watched(wanted),
        false => wanted,
    };
    encoder.serve(chosen.serving);
    Models { wanted, meanwhile }
}

impl Indexer {
    /// Goes over to another model where the settings say so, takes what was made, and has the next
    /// notes made.
    pub(super) fn follow_encoder(
        &self,
        index: &mut Index,
        embedding: &mut Embedding,
        backoff: &mut Backoff,
        metadata: &Path,
    ) {
        if let Some(models) = embedding.changed() {
            index.change_models(models);
            self.publish_vectors(index);
        }
        let above = self.house.settings.get().ann_above;
        if index.draw_neighbours_above(above) {
            self.publish_vectors(index);
        }
        if let Some(made) = embedding.encoder.take_made() {
            embedding.name_odd(index, &made);
            // What failed before is over when it goes well.
            match index.take_made(made) {
                Ok(()) if !backoff.is_waiting() => {}
                taken => self.tended(taken, backoff, metadata),
            }
            self.publish_vectors(index);
        }
        embedding.forget_gone(&index.view());
        let encoder = &embedding.encoder;
        if encoder.is_free() {
            match index.task() {
                Ok(task) => encoder.give(task),
                Err(err) => self.tended(Err(err), backoff, metadata),
            }
        }
        let next = index.next_space();
        embedding.tell_mute(next.as_ref(), index.view().vectors().map(|it| it.model));
        if self.house.shelf.get().next_space != next {
            self.house.shelf.update(|it| it.next_space = next);
        }
    }

    /// Gives up files of vectors that somebody touched, where they are not what was written. They
    /// are made again while words are searched.
    pub(super) fn mend_vectors(&self, index: &mut Index, damage: &Damage) {
        let what = format!("{damage}; keywords answer meanwhile");
        let remedy = "They are made again by themselves.";
        self.house.problems.report("vectors", Level::Warning, &what, remedy);
        index.mend_vectors();
        self.publish_vectors(index);
        if !index.owes_vectors() {
            self.house.problems.clear("vectors");
        }
    }

    /// Shows a view with other vectors; a build that goes on goes on.
    fn publish_vectors(&self, index: &Index) {
        let progress = self.house.shelf.get().progress;
        self.publish(index.view(), progress);
    }

    /// How making or keeping vectors went.
    pub(super) fn tended(
        &self,
        tended: Result<(), VectorsError>,
        backoff: &mut Backoff,
        metadata: &Path,
    ) {
        match tended {
            Ok(()) => {
                if backoff.is_waiting() {
                    backoff.over();
                }
                self.house.problems.clear("vectors");
            }
            Err(err) => {
                let remedy =
                    err.hint().unwrap_or_else(|| "It is tried again by itself.".to_owned());
                let what = format!("{}; keywords answer meanwhile", told(&err));
                self.house.problems.report("vectors", Level::Warning, &what, &remedy);
                backoff.failed(metadata);
            }
        }
    }
}

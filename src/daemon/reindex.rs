//! `remd reindex`: the index, or a part of it, made anew while the old one answers.
//!
//! Takes what somebody asks for, builds beside the index in use on a thread of its own, and says when
//! the new one is whole, so that the indexer puts it in place. What is asked for lies in a file until
//! it is done: a kill or a stop begins anew with the next start.
//!
//! **Invariant:** one at a time; until the new one is whole nothing of the old one is touched, and
//! whatever ends it before leaves the old one as it is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::fs::{self, PathError};
use crate::base::{clock, fault};
use crate::config::{Dirs, Settings};
use crate::daemon::changes::{changed_since, indexed, update_or_name};
use crate::daemon::encoder::health_of;
use crate::daemon::models::{self, Chosen};
use crate::daemon::refused::{self, RefusedNote, and_more};
use crate::daemon::reindex_vectors::{Asks, lack_no_vectors};
use crate::embed::Health;
use crate::history::{ReadError, Reader};
use crate::index::{Beside, Index, IndexError, Opened, Scope, VectorsError};
use crate::render::counted;
use crate::vault::Layout;

/// What is asked for and how far it is; cloning shares it.
#[derive(Clone, Default)]
pub struct Reindex {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    wanted: Option<Scope>,
    is_running: bool,
    is_called_off: bool,
    /// Whether what was built is being put in place: it is too late to call it off.
    is_placed: bool,
    progress: Stage,
    /// What became of the build, until the indexer takes it.
    built: Option<Result<Built, BuildError>>,
}

/// What was built beside an index.
#[derive(Debug, Default)]
pub struct Built {
    /// Notes of which the model does not take a text.
    pub refused: Vec<RefusedNote>,
}

/// What became of calling one off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallOff {
    /// There is none.
    None,
    Done(Scope),
    /// What was built is being put in place.
    TooLate(Scope),
}

/// What the indexer has to do about one.
#[derive(Debug)]
pub(super) enum Turn {
    Nothing,
    Begin(Scope),
    /// It is whole: nobody can call it off any more.
    Place(Scope, Built),
    Failed(Scope, BuildError),
}

/// How far it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stage {
    pub done: usize,
    pub all: usize,
    /// Whether only vectors are lacking, which a model takes its time for.
    pub is_at_vectors: bool,
    /// Why it does not go on right now.
    pub waits_for: Option<String>,
}

impl Stage {
    /// For people.
    pub fn text(&self) -> String {
        let Self { done, all, is_at_vectors, waits_for } = self;
        let text = match (all, is_at_vectors) {
            (0, _) => "begins".to_owned(),
            (_, true) => format!("vectors of {done} of {all} notes"),
            (_, false) => format!("{done} of {all} notes"),
        };
        waits_for.as_ref().map_or_else(|| text.clone(), |why| format!("{text}; {why}"))
    }
}

/// Why a build beside the index ended.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("Called off")]
    CalledOff,
    #[error("The vault was away")]
    Away,
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    History(#[from] ReadError),
    #[error(transparent)]
    Vectors(#[from] VectorsError),
    #[error("No thread can be started")]
    NoThread(#[source] std::io::Error),
    #[error("A fault in the program; its log says more")]
    Fault,
}

impl BuildError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> String {
        let own = match self {
            Self::Index(err) => err.hint(),
            Self::Vectors(err) => err.hint(),
            Self::History(err) => Some(err.hint()),
            Self::CalledOff | Self::Away | Self::NoThread(_) | Self::Fault => None,
        };
        let again = "The old index goes on; ask again with `remd reindex`.";
        own.map_or_else(|| again.to_owned(), |it| format!("{it} {again}"))
    }
}

/// What can be asked for.
pub const SCOPES: [&str; 4] = Scope::NAMES;
/// What is asked for lies here until it is done.
const WANTED: &str = "reindex.wanted";
/// A command is not kept for longer than this by a model that gives nothing.
const MOST_PATIENCE: Duration = Duration::from_secs(600);

fn marker(metadata: &Path) -> PathBuf {
    metadata.join(WANTED)
}

impl Reindex {
    /// Asks for one. `Err` where one is under way: which, and how far it is.
    pub fn ask(
        &self,
        scope: Scope,
        metadata: &Path,
    ) -> Result<Result<(), (Scope, Stage)>, PathError> {
        let mut state = self.lock();
        if let Some(wanted) = state.wanted {
            return Ok(Err((wanted, state.progress.clone())));
        }
        fs::write_atomic(&marker(metadata), scope.name().as_bytes())?;
        *state = State { wanted: Some(scope), ..State::default() };
        Ok(Ok(()))
    }

    /// Calls off the one under way, if there is one and it is not too late.
    pub fn call_off(&self, metadata: &Path) -> Result<CallOff, PathError> {
        let mut state = self.lock();
        let Some(scope) = state.wanted else { return Ok(CallOff::None) };
        if state.is_placed {
            return Ok(CallOff::TooLate(scope));
        }
        remove_marker(metadata)?;
        state.is_called_off = true;
        Ok(CallOff::Done(scope))
    }

    /// Takes up what an agent before was asked for and did not end.
    pub fn take_up(&self, metadata: &Path) -> Result<Option<Scope>, PathError> {
        let mut state = self.lock();
        if state.wanted.is_some() {
            return Ok(state.wanted);
        }
        let Some(name) = fs::read_if_there(&marker(metadata))? else { return Ok(None) };
        state.wanted = std::str::from_utf8(&name).ok().and_then(|it| Scope::named(it.trim()));
        if state.wanted.is_none() {
            remove_marker(metadata)?;
        }
        Ok(state.wanted)
    }

    /// What is asked for, and how far it is.
    pub fn under_way(&self) -> Option<(Scope, Stage)> {
        let state = self.lock();
        state.wanted.filter(|_| !state.is_called_off).map(|it| (it, state.progress.clone()))
    }

    /// What is to be done about it now; `is_there`: whether the vault is.
    pub(super) fn turn(&self, is_there: bool) -> Turn {
        let mut state = self.lock();
        let Some(scope) = state.wanted else { return Turn::Nothing };
        match state.built.take() {
            Some(_) if state.is_called_off => Turn::Failed(scope, BuildError::CalledOff),
            Some(Ok(built)) => {
                state.is_placed = true;
                Turn::Place(scope, built)
            }
            // It begins anew when the vault is back.
            Some(Err(BuildError::Away)) => {
                (state.is_running, state.progress) = (false, Stage::default());
                match is_there {
                    true => Turn::Begin(scope),
                    false => Turn::Nothing,
                }
            }
            Some(Err(err)) => Turn::Failed(scope, err),
            None if state.is_running => Turn::Nothing,
            None if state.is_called_off => Turn::Failed(scope, BuildError::CalledOff),
            None if is_there => Turn::Begin(scope),
            None => Turn::Nothing,
        }
    }

    pub(super) fn begin(&self) {
        self.lock().is_running = true;
    }

    /// It is over: another may be asked for.
    pub(super) fn over(&self, metadata: &Path) -> Result<(), PathError> {
        let mut state = self.lock();
        *state = State::default();
        remove_marker(metadata)
    }

    /// Builds beside the index, to the end; for a thread of its own. `is_there` says whether the
    /// vault still is, `health` how the model is, `wake` is called when the indexer has to look.
    pub(super) fn run(
        &self,
        beside: &Beside,
        reader: &Reader,
        layout: &Layout,
        is_there: &dyn Fn() -> bool,
        health: &dyn Fn() -> Health,
        wake: &dyn Fn(),
    ) {
        let building = std::panic::AssertUnwindSafe(|| {
            let asks = Asks { health, patience: None };
            build(beside, reader, layout, &asks, &|stage| match is_there() {
                true => self.go_on(stage),
                false => Err(BuildError::Away),
            })
        });
        let built = std::panic::catch_unwind(building).unwrap_or(Err(BuildError::Fault));
        let built = match built {
            // What it met then is no fault of what is there.
            Err(BuildError::CalledOff) => Err(BuildError::CalledOff),
            Err(_) if !is_there() => Err(BuildError::Away),
            built => built,
        };
        if let Err(BuildError::Away) = built {
            tracing::info!(scope = beside.scope().name(), "a reindex waits for the vault");
        }
        self.lock().built = Some(built);
        wake();
    }

    fn go_on(&self, stage: Stage) -> Result<(), BuildError> {
        let mut state = self.lock();
        state.progress = stage;
        match state.is_called_off {
            true => Err(BuildError::CalledOff),
            false => Ok(()),
        }
    }

    // Whatever a panic interrupted, each field is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a scope makes anew, at the beginning of a sentence.
pub fn what(scope: Scope) -> &'static str {
    match scope {
        Scope::All => "The whole index",
        Scope::Bm25 => "The index of words",
        Scope::Embedding => "The index of vectors",
        Scope::Tag => "The catalog of notes, tags and links",
    }
}

/// The same within one.
pub fn what_was(scope: Scope) -> &'static str {
    match scope {
        Scope::All => "the whole index",
        Scope::Bm25 => "the index of words",
        Scope::Embedding => "the index of vectors",
        Scope::Tag => "the catalog of notes, tags and links",
    }
}

/// What would be done.
pub fn would(scope: Scope, notes: usize) -> String {
    format!("{} would be made anew from {}.", what(scope), counted(notes, "note", "notes"))
}

/// What was done.
fn done(scope: Scope, notes: usize) -> String {
    format!("{} is made anew from {}.", what(scope), counted(notes, "note", "notes"))
}

/// How one without an agent ended.
pub enum Ended {
    /// It is made anew; in a sentence.
    Done(String),
    /// Nothing was done: what would be.
    Would(String),
    /// Somebody else writes the index.
    Busy,
    /// Nothing is committed, so that there is nothing to index.
    Empty,
}

/// Makes it anew where no agent runs, on the caller's thread.
pub fn here(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    scope: &str,
    dry_run: bool,
    progress: &dyn Fn(&str, usize, usize),
) -> Result<Ended, Box<dyn std::error::Error>> {
    let layout = &settings.layout;
    let scope = Scope::named(scope).ok_or_else(|| format!("There is no scope `{scope}`"))?;
    let reader = Reader::open(vault)?;
    let Some(head) = reader.head()?.map(|it| it.commit) else { return Ok(Ended::Empty) };
    let notes = indexed(&reader, head, layout)?;
    if dry_run {
        return Ok(Ended::Would(would(scope, notes.len())));
    }
    let metadata = vault.join(&layout.metadata);
    // What was paid for is paid for; an agent that would keep it has the index, too.
    let Chosen { models, serving, .. } = models::choose(settings, dirs, Some(&metadata));
    if let Some(local) = serving.as_ref().and_then(|it| it.local.as_ref()) {
        local.load()?;
    }
    let space = serving.as_ref().map(|it| it.model.identity().space());
    let (mut index, opened) = match Index::open_with_models(&metadata, layout, models) {
        Err(IndexError::Busy) => return Ok(Ended::Busy),
        opened => opened?,
    };
    let changes = match &opened {
        Opened::Ready { cursors } => changed_since(&reader, cursors, head)?,
        // What is damaged, or half there, is made anew as a whole.
        Opened::Rebuild(_) | Opened::Unfinished => None,
    };
    let all = notes.len();
    let Some(changes) = changes else {
        let mut rebuild = index.begin_rebuild(all)?;
        for (done, (path, entry)) in notes.into_iter().enumerate() {
            progress("indexing", done, all);
            rebuild.take(update_or_name(&reader, path, Some(entry), layout)?)?;
        }
        rebuild.finish(head)?;
        return Ok(Ended::Done(done(Scope::All, all)));
    };
    let updates = changes
        .into_iter()
        .map(|(path, entry)| update_or_name(&reader, path, entry, layout))
        .collect::<Result<Vec<_>, _>>()?;
    index.apply(updates, head)?;
    let beside = index.beside(scope).ok_or(IndexError::NotBuilt)?;
    let health = || serving.as_ref().map_or(Health::Ok, health_of);
    let asks = Asks { health: &health, patience: Some(MOST_PATIENCE) };
    let built = build(&beside, &reader, layout, &asks, &|stage| {
        let what = if stage.is_at_vectors { "vectors" } else { "indexing" };
        progress(stage.waits_for.as_deref().unwrap_or(what), stage.done, stage.all);
        Ok(())
    });
    if let Some(cached) = serving.as_ref().and_then(|it| it.cached.as_ref()) {
        cached.flush()?;
    }
    let built = match built {
        Ok(built) => built,
        Err(err) => {
            Index::clear_beside(&metadata)?;
            return Err(err.into());
        }
    };
    index.take_over(scope)?;
    let mut said = done(scope, all);
    if let (Some(space), Some(first)) =
        (space.filter(|_| scope.has_vectors()), built.refused.first())
    {
        let more = and_more(built.refused.len());
        said.push_str(&format!(
            " The model does not take a text of `{}`{more}: {}.",
            first.path, first.why
        ));
        refused::keep(&metadata, space, built.refused);
    }
    // What an agent was asked for and did not end is done with it.
    remove_marker(&metadata)?;
    Ok(Ended::Done(said))
}

fn remove_marker(metadata: &Path) -> Result<(), PathError> {
    match fs::remove_file(&marker(metadata)) {
        Err(err) if !err.is_absent() => Err(err),
        _ => Ok(()),
    }
}

/// Builds beside an index, from the notes of its commit, until all is durable. `goes_on` is told how
/// far it is, and says whether to go on.
pub fn build(
    beside: &Beside,
    reader: &Reader,
    layout: &Layout,
    asks: &Asks<'_>,
    goes_on: &dyn Fn(Stage) -> Result<(), BuildError>,
) -> Result<Built, BuildError> {
    let started = clock::now();
    let notes = indexed(reader, beside.at(), layout)?;
    let all = notes.len();
    let mut index = beside.open()?;
    let mut rebuild = index.begin_rebuild(all)?;
    for (done, (path, entry)) in notes.into_iter().enumerate() {
        goes_on(Stage { done, all, ..Stage::default() })?;
        fault::hold("reindex.note");
        fault::point("reindex.note");
        rebuild.take(update_or_name(reader, path, Some(entry), layout)?)?;
    }
    rebuild.end(beside.at())?;
    let refused = lack_no_vectors(&mut index, all, asks, goes_on)?;
    index.rest()?;
    let took_ms = (clock::now() - started).as_millis();
    tracing::info!(scope = beside.scope().name(), notes = all, took_ms, "built anew");
    Ok(Built { refused })
}

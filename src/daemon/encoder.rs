//! Asks the model that takes its time, beside the indexer.
//!
//! Takes tasks from the indexer, gives back what was made, and rings the ledger for it. A provider
//! is asked for a `ping` first, and again whenever something failed, ever more rarely. A question
//! that it was too slow for is asked once more, so that the next one who has it finds its vector
//! in the cache. Runs on a thread of its own, named like this file.
//!
//! **Invariant:** nobody waits for a provider but this thread; one that fails is named until it
//! answers again, and is sent no notes until then.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::trouble::told;
use crate::daemon::house::House;
use crate::daemon::models::Serving;
use crate::daemon::problems::Level;
use crate::embed::{Answer, EmbedError, Embedder, Health, Identity, Purpose, Slot, check_health};
use crate::index::{Made, Task};

/// The first pause after a failure; it doubles up to [`MOST_PAUSE`].
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(300);
/// So many new notes in a row that it fails on are no fault of theirs.
const MOST_IN_A_ROW: u32 = 3;
/// How long the thread sleeps when nothing is owed.
const LONG: Duration = Duration::from_secs(3600);

/// The problems that it names.
const FAILS: &str = "embedding";
const CACHE: &str = "embedding-cache";
const UNASKED: &str = "embedding-unasked";

/// A handle on the encoder; cloning shares it.
#[derive(Clone)]
pub struct Encoder {
    house: House,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    serving: Option<Serving>,
    /// Counts what was served.
    round: u64,
    task: Option<Task>,
    is_busy: bool,
    /// Whether the thread waits for somebody's answer.
    is_asking: bool,
    made: Option<Made>,
    /// The last question that had no answer in time.
    question: Option<String>,
    /// Whether the last answer was good.
    is_well: bool,
    /// When it is asked again, where it was not.
    again_at: Option<Instant>,
    is_stopped: bool,
}

/// What there is to do.
enum Turn {
    Check(Serving),
    Work(Serving, Task),
    Stop,
}

/// What the thread remembers.
struct Memory {
    round: u64,
    pause: Duration,
    /// The last line on a provider's health.
    said: Option<String>,
    /// Whether the last failure was one of notes, which a `ping` says nothing of.
    has_work_failed: bool,
    /// So many tasks failed one after the other while a `ping` was answered.
    in_a_row: u32,
}

impl Memory {
    fn of(round: u64) -> Self {
        Self { round, pause: LEAST_PAUSE, said: None, has_work_failed: false, in_a_row: 0 }
    }
}

impl Encoder {
    pub fn new(house: House) -> Self {
        Self { house, shared: Arc::default() }
    }

    /// Goes over to another model, or to none that takes its time.
    pub fn serve(&self, serving: Option<Serving>) {
        let mut state = self.state();
        match serving.as_ref().filter(|it| state.is_asking && it.check.is_some()) {
            Some(new) => {
                let what = format!(
                    "`{}` has not been asked yet: the provider before it has a question to answer",
                    new.model.identity().model
                );
                let remedy = "It is asked by itself when that one answers, or its time is over.";
                self.house.problems.report(UNASKED, Level::Warning, &what, remedy);
            }
            None => self.house.problems.clear(UNASKED),
        }
        state.serving = serving;
        state.round += 1;
        (state.task, state.question) = (None, None);
        (state.is_well, state.again_at) = (false, None);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Writes down what was paid for, and lets go of the file: another one may open it.
    pub fn close_cache(&self) {
        let cached = self.state().serving.as_ref().and_then(|it| it.cached.clone());
        if let Some(cached) = cached
            && let Err(err) = cached.close()
        {
            tracing::warn!(err = told(&err), "vectors that were paid for are not kept");
        }
    }

    /// How the model is that is asked; asks it, for as long as a check may take.
    pub fn health(&self) -> Health {
        let serving = self.state().serving.clone();
        serving.as_ref().map_or(Health::Ok, health_of)
    }

    /// Whether it takes a task now.
    pub fn is_free(&self) -> bool {
        let state = self.state();
        let is_idle = state.task.is_none() && !state.is_busy && state.made.is_none();
        state.serving.is_some() && state.is_well && is_idle
    }

    /// Gives it a task; `None` where nothing is owed.
    pub fn give(&self, task: Option<Task>) {
        match task {
            Some(task) => {
                self.state().task = Some(task);
                self.shared.changed.notify_all();
            }
            None => {
                self.house.problems.clear(FAILS);
                // Of questions, too; and what could not be written before.
                let serving = self.state().serving.clone();
                if let Some(serving) = serving {
                    self.keep(&serving);
                }
            }
        }
    }

    /// What was made since the last time.
    pub fn take_made(&self) -> Option<Made> {
        self.state().made.take()
    }

    /// The same embedder; where it does not answer somebody, it is asked how it is.
    pub fn watched(&self, model: Arc<dyn Embedder>) -> Arc<dyn Embedder> {
        Arc::new(Watched { model, shared: Arc::clone(&self.shared) })
    }

    /// Ends the thread when what it waits for is over; nothing is written after this.
    pub fn stop(&self) {
        self.close_cache();
        self.state().is_stopped = true;
        self.shared.changed.notify_all();
    }

    // Every change is of whole values.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// Works until stopped.
    pub fn run(self) {
        let mut memory = Memory::of(0);
        loop {
            let turn = self.next(&mut memory);
            let (serving, task) = match turn {
                Turn::Check(serving) => (serving, None),
                Turn::Work(serving, task) => (serving, Some(task)),
                Turn::Stop => return,
            };
            let turned = catch_unwind(AssertUnwindSafe(|| match task {
                None => self.check(&serving, &mut memory),
                Some(task) => self.work(&serving, task, &mut memory),
            }));
            if turned.is_err() {
                self.state().is_busy = false;
                self.failed(&serving, &fault(), &mut memory);
            }
            // The indexer looks what there is for it.
            self.house.ledger.ring();
        }
    }

    fn next(&self, memory: &mut Memory) -> Turn {
        let mut state = self.state();
        state.is_asking = false;
        loop {
            if state.is_stopped {
                return Turn::Stop;
            }
            let now = clock::now();
            if state.round != memory.round {
                *memory = Memory::of(state.round);
                self.house.problems.clear(FAILS);
                self.house.problems.clear(CACHE);
                self.house.problems.clear(UNASKED);
            }
            if let Some(serving) = state.serving.clone() {
                if !state.is_well && state.again_at.is_none_or(|it| it <= now) {
                    state.is_asking = true;
                    return Turn::Check(serving);
                }
                if state.is_well
                    && let Some(task) = state.task.take()
                {
                    (state.is_busy, state.is_asking) = (true, true);
                    return Turn::Work(serving, task);
                }
            }
            let limit = match state.again_at {
                Some(at) if !state.is_well => at.saturating_duration_since(now),
                _ => LONG,
            };
            let changed = &self.shared.changed;
            state = changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn check(&self, serving: &Serving, memory: &mut Memory) {
        let health = health_of(serving);
        if serving.check.is_some() {
            let line = health.line(&self.house.vault);
            if memory.said.as_ref() != Some(&line) {
                match &health {
                    Health::Ok => tracing::info!("{line}"),
                    Health::Failed(_) => tracing::warn!("{line}"),
                }
                memory.said = Some(line);
            }
        }
        match health {
            Health::Ok => {
                if !memory.has_work_failed {
                    memory.pause = LEAST_PAUSE;
                    self.house.problems.clear(FAILS);
                }
                self.ask_again(serving);
                self.well(memory);
            }
            Health::Failed(err) => self.failed(serving, &err, memory),
        }
    }

    /// Asks what there was no time for; the cache keeps it.
    fn ask_again(&self, serving: &Serving) {
        let question = self.state().question.take();
        if let (Some(question), Some(cached), Some(limit)) =
            (question, &serving.cached, serving.check)
        {
            let answer = cached.embed(&[&*question], Purpose::Query, clock::now() + limit);
            if let Some(err) = answer.stopped {
                tracing::debug!(%err, "a question has no vector");
            }
        }
    }

    fn work(&self, serving: &Serving, task: Task, memory: &mut Memory) {
        let round = memory.round;
        let is_over = || {
            let state = self.state();
            state.is_stopped || state.round != round
        };
        let is_again = task.is_again();
        let (mut made, mut failed) = match catch_unwind(AssertUnwindSafe(|| task.run(&is_over))) {
            Ok((made, failed)) => (Some(made), failed),
            Err(_) => (None, Some(fault())),
        };
        self.keep(serving);
        let mut are_notes_odd = false;
        if let Some(made) = &mut made {
            match &failed {
                Some(err) if !is_over() => match blame(made, err, &|| health_of(serving)) {
                    Some(of_model) => failed = Some(of_model),
                    None => are_notes_odd = true,
                },
                None if memory.has_work_failed => made.is_recovery(),
                Some(_) | None => {}
            }
        }
        {
            let mut state = self.state();
            state.is_busy = false;
            if made.is_some() {
                state.made = made;
            }
        }
        match failed {
            // What it said was asked of another one.
            Some(_) if is_over() => {}
            // The indexer names them.
            Some(_) if are_notes_odd && is_again => {}
            Some(_) if are_notes_odd && memory.in_a_row + 1 < MOST_IN_A_ROW => memory.in_a_row += 1,
            Some(err) => {
                memory.has_work_failed = true;
                self.failed(serving, &err, memory);
            }
            None => {
                (memory.has_work_failed, memory.in_a_row) = (false, 0);
                memory.pause = LEAST_PAUSE;
                self.house.problems.clear(FAILS);
            }
        }
    }

    /// Writes down what was paid for.
    fn keep(&self, serving: &Serving) {
        let Some(cached) = &serving.cached else { return };
        match cached.flush() {
            Ok(()) => self.house.problems.clear(CACHE),
            Err(err) => {
                let what = format!("Vectors that were paid for can't be kept: {}", told(&err));
                let remedy = "Look at the room and the owner of the folder of derived state; it is \
                              tried again by itself.";
                self.house.problems.report(CACHE, Level::Warning, &what, remedy);
            }
        }
    }

    fn well(&self, memory: &Memory) {
        let mut state = self.state();
        if state.round == memory.round {
            (state.is_well, state.again_at) = (true, None);
        }
    }

    fn failed(&self, serving: &Serving, err: &EmbedError, memory: &mut Memory) {
        {
            let mut state = self.state();
            if state.round != memory.round || state.is_stopped {
                return;
            }
            (state.is_well, state.again_at) = (false, Some(clock::now() + memory.pause));
        }
        memory.pause = (memory.pause * 2).min(MOST_PAUSE);
        let Identity { backend, model, .. } = serving.model.identity();
        let what = format!("No vectors from `{model}` ({backend}): {err}; search goes on without");
        let remedy = err.hint().unwrap_or_default();
        let remedy = format!("{remedy} It is asked again by itself, ever more rarely.");
        self.house.problems.report(FAILS, Level::Warning, &what, remedy.trim_start());
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How it is.
pub(super) fn health_of(serving: &Serving) -> Health {
    let checked = catch_unwind(AssertUnwindSafe(|| match (serving.check, &serving.local) {
        (Some(limit), _) => check_health(&*serving.model, limit),
        (None, Some(local)) => match local.load() {
            Ok(()) => Health::Ok,
            Err(err) => Health::Failed(err),
        },
        (None, None) => Health::Ok,
    }));
    checked.unwrap_or_else(|_| Health::Failed(fault()))
}

/// Finds out whether the model answers others, which what was made is told; `Some` is what is wrong
/// with the model.
pub(super) fn blame(
    made: &mut Made,
    err: &EmbedError,
    health: &dyn Fn() -> Health,
) -> Option<EmbedError> {
    let of_model = match err.may_be_the_text() {
        true => match health() {
            Health::Ok => None,
            Health::Failed(err) => Some(err),
        },
        false => Some(err.clone()),
    };
    match &of_model {
        Some(_) => made.blame_model(),
        None => made.blame_notes(err.to_string()),
    }
    of_model
}

fn fault() -> EmbedError {
    EmbedError::Unusable("it met a fault in itself; the log says more".to_owned())
}

/// An embedder that is asked how it is where it did not answer a question.
struct Watched {
    model: Arc<dyn Embedder>,
    shared: Arc<Shared>,
}

impl Watched {
    fn look_at(&self, texts: &[&str], answer: &Answer) {
        if answer.stopped.is_none() {
            return;
        }
        let mut state = self.shared.state();
        if state.is_well {
            state.question = texts.first().map(|it| (*it).to_owned());
            (state.is_well, state.again_at) = (false, None);
            self.shared.changed.notify_all();
        }
    }
}

impl Embedder for Watched {
    fn identity(&self) -> &Identity {
        self.model.identity()
    }

    fn window(&self) -> usize {
        self.model.window()
    }

    fn count(&self, text: &str) -> usize {
        self.model.count(text)
    }

    fn prepare<'a>(&self, text: &'a str, purpose: Purpose) -> (Cow<'a, str>, bool) {
        self.model.prepare(text, purpose)
    }

    fn is_remote(&self) -> bool {
        self.model.is_remote()
    }

    fn known(&self, text: &str, purpose: Purpose) -> Option<Slot> {
        self.model.known(text, purpose)
    }

    fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
        let answer = self.model.embed(texts, purpose, deadline);
        if purpose == Purpose::Query {
            self.look_at(texts, &answer);
        }
        answer
    }

    fn embed_by_leave(
        &self,
        question: &str,
        deadline: Instant,
        leave: &dyn Fn() -> Result<(), &'static str>,
    ) -> Result<Answer, &'static str> {
        let answer = self.model.embed_by_leave(question, deadline, leave)?;
        self.look_at(&[question], &answer);
        Ok(answer)
    }
}

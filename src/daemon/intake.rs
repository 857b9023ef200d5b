//! The committer's door: hints, and what people ask of it.
//!
//! Takes hints from the watcher and asks from the socket; the committer sleeps here until
//! something is due. Any thread.
//!
//! **Invariant:** hints merge, so nothing can overflow; an ask is always answered or its sender
//! dropped, so nobody waits for ever.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::vault::VaultPath;
use crate::watch::{Hints, Settle};

/// What can be asked of the committer.
#[derive(Debug)]
pub enum Ask {
    /// Look at everything and commit it now.
    Flush(Sender<Flushed>),
    /// Let the held deletions through.
    Accept(Sender<Flushed>),
}

/// How a flush or an accept went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Whether everything that was on disk is in HEAD, but for what is named below.
    pub committed: bool,
    /// What could not be committed, for people.
    pub waiting_for: Vec<String>,
    /// Whether only a person can go on.
    pub needs_person: bool,
    /// Deletions let through by an accept.
    pub accepted: Vec<VaultPath>,
}

/// Why the committer woke up.
#[derive(Debug)]
pub enum Wake {
    /// A burst of edits is over.
    Settled(Hints),
    /// Asks, with the hints that were there.
    Asked(Hints, Vec<Ask>),
    /// It is time to look again.
    Due(Hints),
    Stop,
}

/// The door; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Intake {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    hints: Hints,
    /// How many places the committer has taken and is not done with.
    taken: usize,
    settle: Option<Settle>,
    asks: Vec<Ask>,
    paused: bool,
    stop: bool,
}

impl State {
    fn take(&mut self) -> Hints {
        self.taken = places(&self.hints);
        std::mem::take(&mut self.hints)
    }
}

fn places(hints: &Hints) -> usize {
    hints.paths.len() + hints.folders.len() + usize::from(hints.rescan)
}

impl Intake {
    /// Hands in hints; `burst` is when their events happened.
    pub fn hint(&self, hints: Hints, burst: Settle) {
        if hints.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.hints.merge(hints);
        state.settle = Some(match state.settle {
            Some(settle) => settle.merge(burst),
            None => burst,
        });
        drop(state);
        self.inner.wake.notify_all();
    }

    /// Puts back what a turn could not finish; it does not restart the quiet window.
    pub fn put_back(&self, hints: Hints) {
        self.lock().hints.merge(hints);
    }

    /// Asks, and waits for the answer; `None` when the time runs out or the committer is gone.
    pub fn ask(
        &self,
        ask: impl FnOnce(Sender<Flushed>) -> Ask,
        limit: Duration,
    ) -> Option<Flushed> {
        let (send, receive) = channel();
        self.lock().asks.push(ask(send));
        self.inner.wake.notify_all();
        receive.recv_timeout(limit).ok()
    }

    pub fn set_paused(&self, paused: bool) {
        let mut state = self.lock();
        state.paused = paused;
        if !paused && state.settle.is_none() && !state.hints.is_empty() {
            state.settle = Some(Settle::at(clock::now()).end_early());
        }
        drop(state);
        self.inner.wake.notify_all();
    }

    pub fn is_paused(&self) -> bool {
        self.lock().paused
    }

    /// Ends the committer after a last look at what is there.
    pub fn stop(&self) {
        self.lock().stop = true;
        self.inner.wake.notify_all();
    }

    /// How many places wait to be looked at, or are being looked at and committed.
    pub fn pending(&self) -> usize {
        let state = self.lock();
        state.taken + places(&state.hints)
    }

    /// Says that what was taken is committed, named in the ledger or put back.
    pub fn done(&self) {
        self.lock().taken = 0;
    }

    /// Sleeps until a burst is over, somebody asks, `look_again` has come, or it is the end.
    pub fn wait(&self, quiet: Duration, max_wait: Duration, look_again: Instant) -> Wake {
        let mut state = self.lock();
        loop {
            if state.stop {
                return Wake::Stop;
            }
            let now = clock::now();
            if !state.asks.is_empty() {
                state.settle = None;
                let asks = std::mem::take(&mut state.asks);
                return Wake::Asked(state.take(), asks);
            }
            let settled_at = match (&state.settle, state.paused) {
                (Some(settle), false) => Some(settle.due_at(quiet, max_wait)),
                _ => None,
            };
            if settled_at.is_some_and(|it| it <= now) {
                state.settle = None;
                return Wake::Settled(state.take());
            }
            if look_again <= now {
                // The quiet window stays what it was: only a look that was owed is made.
                return Wake::Due(if state.settle.is_none() {
                    state.take()
                } else {
                    Hints::default()
                });
            }
            let until = settled_at.map_or(look_again, |it| it.min(look_again));
            state = self
                .inner
                .wake
                .wait_timeout(state, until.saturating_duration_since(now))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    // A panic between two assignments leaves hints too many, never too few.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A commit of many files takes long: meanwhile nobody may hear that all is committed.
    #[test]
    fn what_is_being_committed_still_waits() {
        let intake = Intake::default();
        let now = clock::now();
        let hints = |names: &[&str]| Hints {
            paths: names.iter().filter_map(|it| VaultPath::new(it).ok()).collect(),
            ..Hints::default()
        };
        intake.hint(hints(&["a.md", "b.md"]), Settle::at(now));
        let far = now + Duration::from_secs(60);
        let wake = intake.wait(Duration::ZERO, Duration::ZERO, far);
        assert!(matches!(&wake, Wake::Settled(it) if it.paths.len() == 2), "{wake:?}");
        assert_eq!(intake.pending(), 2);
        intake.hint(hints(&["c.md"]), Settle::at(now));
        assert_eq!(intake.pending(), 3);
        intake.put_back(hints(&["b.md"]));
        intake.done();
        assert_eq!(intake.pending(), 2);
    }
}

//! The committer's door: hints, and what people ask of it.
//!
//! Takes hints from the watcher and asks from the socket; the committer sleeps here until
//! something is due. Any thread.
//!
//! **Invariant:** hints merge, so nothing can overflow; an ask is always answered or its sender
//! dropped, so nobody waits for ever.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::daemon::changing::NotChanged;
use crate::daemon::recent::Recent;
use crate::render::changed::Changed;
use crate::serve::protocol::Wish;
use crate::vault::VaultPath;
use crate::watch::{Hints, Settle};

/// What can be asked of the committer.
#[derive(Debug)]
pub enum Ask {
    /// Look at everything and commit it now.
    Flush(Sender<Flushed>),
    /// Let the held deletions through, unless whoever asked has withdrawn it.
    Accept(Sender<Flushed>, Claim),
    /// Change the vault, unless whoever asked has withdrawn it.
    Change(Box<Wish>, Sender<Result<Changed, NotChanged>>, Claim),
}

/// Whose an ask is: the first to set it has it, the committer to do it or the asker to withdraw it.
pub type Claim = Arc<AtomicBool>;

impl Ask {
    /// Whether it is still asked; it can't be withdrawn any more then.
    pub fn begin(&self) -> bool {
        match self {
            Self::Flush(_) => true,
            Self::Accept(_, claim) | Self::Change(_, _, claim) => {
                !claim.swap(true, Ordering::SeqCst)
            }
        }
    }
}

/// How something went that changes the vault.
#[derive(Debug, PartialEq, Eq)]
pub enum Claimed<T> {
    Done(T),
    /// It was not begun in time, or nobody waits for it any more: it will not be done.
    Withdrawn,
    /// It was begun, and how it ends is not known yet.
    Begun,
}

/// Looks at what Git moved are so far apart: a rebase moves HEAD at each step.
const GIT_PAUSE: Duration = Duration::from_millis(200);

/// How often is looked whether somebody still waits.
pub const STILL_THERE: Duration = Duration::from_millis(200);

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
    Settled(Hints, Moment),
    /// Asks, with the hints that were there.
    Asked(Hints, Vec<Ask>),
    /// It is time to see what is due; [`Intake::take_owed`] gives what was put back.
    Due,
    Stop,
}

/// When a look is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// After a quiet window, or when somebody wants it as it is now.
    Quiet,
    /// In a burst that has waited long enough, or whatever goes on: perhaps in the middle of a save.
    Restless,
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
    /// What a turn could not finish: looked at again when that is due, or when somebody asks.
    owed: Hints,
    /// What of `owed` counts as an edit: what a look found uncommitted, or what none has seen yet.
    owed_edits: Edits,
    /// What the committer has taken and is not done with.
    taken: Edits,
    /// Where something happened last.
    recent: Recent,
    /// How often something was noticed, and how much of that a look at drafts has covered.
    noticed: u64,
    looked: u64,
    /// What somebody has waited for in vain: whoever looks has other work, and keeps nobody else.
    in_vain: u64,
    settle: Option<Settle>,
    /// When to look at what Git moved, whatever else goes on.
    git_due: Option<Instant>,
    /// When such a look was made last.
    git_looked: Option<Instant>,
    asks: Vec<Ask>,
    paused: bool,
    stop: bool,
}

impl State {
    /// What was noticed; with what is owed, if that is due too.
    fn take(&mut self, with_owed: bool) -> Hints {
        let mut hints = std::mem::take(&mut self.hints);
        self.taken = Edits::of(&hints);
        if with_owed {
            self.taken.merge(std::mem::take(&mut self.owed_edits));
            hints.merge(std::mem::take(&mut self.owed));
        }
        hints
    }
}

impl State {
    /// Where the paths stand that no commit has: what was noticed and not looked at yet, what is
    /// looked at, and what waits. One may stand in several; the longest comes first.
    fn edits(&self) -> [&BTreeSet<VaultPath>; 4] {
        let Self { hints, taken, owed_edits, .. } = self;
        let mut sets = [&hints.paths, &hints.folders, &taken.paths, &owed_edits.paths];
        sets.sort_by_key(|it| std::cmp::Reverse(it.len()));
        sets
    }

    /// How many of these `named` has not, each once.
    fn count_edits(&self, named: &BTreeSet<VaultPath>) -> usize {
        let sets = self.edits();
        let is_new = |at: usize, it: &VaultPath| !sets[..at].iter().any(|set| set.contains(it));
        let of_each = (0..sets.len())
            .map(|at| sets[at].iter().filter(|it| !named.contains(*it) && is_new(at, it)).count());
        of_each.sum()
    }
}

/// Edits that no commit has, as far as known.
#[derive(Clone, Debug, Default)]
struct Edits {
    paths: BTreeSet<VaultPath>,
    /// Whether there is a look at everything to come, which finds who knows what.
    unknown: bool,
}

impl Edits {
    /// What was noticed and not looked at yet: each place is one.
    fn of(hints: &Hints) -> Self {
        let paths = hints.paths.union(&hints.folders).cloned().collect();
        Self { paths, unknown: hints.rescan }
    }

    fn merge(&mut self, mut other: Self) {
        self.paths.append(&mut other.paths);
        self.unknown |= other.unknown;
    }
}

impl Intake {
    /// Hands in hints; `burst` is when their events happened.
    pub fn hint(&self, hints: Hints, burst: Settle) {
        if hints.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.recent.notice(hints.folders.iter().chain(&hints.paths));
        state.noticed += u64::from(!hints.paths.is_empty() || !hints.folders.is_empty());
        state.hints.merge(hints);
        state.settle = Some(match state.settle {
            Some(settle) => settle.merge(burst),
            None => burst,
        });
        drop(state);
        self.inner.wake.notify_all();
    }

    /// Hints at HEAD, the references and the index, to be looked at now: what is being edited beside
    /// them keeps its quiet window.
    pub fn hint_git(&self) {
        let now = clock::now();
        let mut state = self.lock();
        let soonest = state.git_looked.map_or(now, |it| now.max(it + GIT_PAUSE));
        state.git_due.get_or_insert(soonest);
        drop(state);
        self.inner.wake.notify_all();
    }

    /// How often something was noticed: for [`Self::looked`].
    pub fn noticed(&self) -> u64 {
        self.lock().noticed
    }

    /// Says that a look at drafts has covered all that was `noticed` when it began.
    pub fn looked(&self, noticed: u64) {
        let mut state = self.lock();
        let is_more = state.looked < noticed;
        state.looked = state.looked.max(noticed);
        drop(state);
        if is_more {
            self.inner.wake.notify_all();
        }
    }

    /// Waits until a look at drafts has covered all that is noticed now, for `limit` at most, and
    /// not at all while a look is out for which somebody has waited so long before.
    pub fn wait_looked(&self, limit: Duration) -> bool {
        let state = self.lock();
        let noticed = state.noticed;
        let waits = |it: &mut State| it.looked < noticed && it.looked >= it.in_vain;
        let waited = self.inner.wake.wait_timeout_while(state, limit, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let is_looked = state.looked >= noticed;
        if !is_looked && state.looked >= state.in_vain {
            state.in_vain = noticed;
        }
        is_looked
    }

    /// Puts back what a turn could not finish. It neither restarts the quiet window nor rides on
    /// the next edit: what failed is tried again in its own time.
    pub fn put_back(&self, hints: Hints) {
        let mut state = self.lock();
        state.owed_edits.merge(Edits::of(&hints));
        state.owed.merge(hints);
    }

    /// The same after a look at all they point at: `found` is what no commit has of it.
    pub fn put_back_looked(&self, hints: Hints, found: BTreeSet<VaultPath>) {
        let mut state = self.lock();
        let edits = &mut state.owed_edits;
        edits.paths.retain(|it| !hints.covers(it));
        edits.paths.extend(found);
        edits.unknown &= !hints.rescan;
        state.owed.merge(hints);
    }

    /// Takes what was put back, and what was noticed unless a burst is still going on.
    pub fn take_owed(&self) -> Hints {
        let mut state = self.lock();
        if state.settle.is_none() {
            return state.take(true);
        }
        state.taken = std::mem::take(&mut state.owed_edits);
        std::mem::take(&mut state.owed)
    }

    /// Whether something was put back.
    pub fn owes(&self) -> bool {
        !self.lock().owed.is_empty()
    }

    /// Asks, and waits for the answer; `None` when the time runs out, the committer is gone, or
    /// `is_gone` says that nobody waits for it any more.
    pub fn ask(
        &self,
        ask: impl FnOnce(Sender<Flushed>) -> Ask,
        limit: Duration,
        is_gone: &dyn Fn() -> bool,
    ) -> Option<Flushed> {
        let (send, receive) = channel();
        self.lock().asks.push(ask(send));
        self.inner.wake.notify_all();
        let until = clock::now() + limit;
        loop {
            let left = until.saturating_duration_since(clock::now());
            match receive.recv_timeout(left.min(STILL_THERE)) {
                Ok(flushed) => return Some(flushed),
                Err(RecvTimeoutError::Timeout) if !left.is_zero() && !is_gone() => {}
                Err(_) => return None,
            }
        }
    }

    /// Asks for the held deletions to be let through, while `is_gone` says no.
    pub fn accept(&self, limit: Duration, is_gone: &dyn Fn() -> bool) -> Claimed<Flushed> {
        self.claimed(Ask::Accept, limit, is_gone)
    }

    /// Asks for a change of the vault, while `is_gone` says no.
    pub fn change(
        &self,
        wish: Wish,
        limit: Duration,
        is_gone: &dyn Fn() -> bool,
    ) -> Claimed<Result<Changed, NotChanged>> {
        let wish = Box::new(wish);
        self.claimed(|send, claim| Ask::Change(wish, send, claim), limit, is_gone)
    }

    fn claimed<T>(
        &self,
        ask: impl FnOnce(Sender<T>, Claim) -> Ask,
        limit: Duration,
        is_gone: &dyn Fn() -> bool,
    ) -> Claimed<T> {
        let (send, receive) = channel();
        let claim = Claim::default();
        self.lock().asks.push(ask(send, Arc::clone(&claim)));
        self.inner.wake.notify_all();
        let until = clock::now() + limit;
        loop {
            let left = until.saturating_duration_since(clock::now());
            match receive.recv_timeout(left.min(STILL_THERE)) {
                Ok(done) => return Claimed::Done(done),
                Err(RecvTimeoutError::Timeout) if !left.is_zero() && !is_gone() => {}
                Err(_) if claim.swap(true, Ordering::SeqCst) => return Claimed::Begun,
                Err(_) => return Claimed::Withdrawn,
            }
        }
    }

    pub fn set_paused(&self, paused: bool) {
        let mut state = self.lock();
        state.paused = paused;
        if !paused {
            let owed = std::mem::take(&mut state.owed);
            state.owed_edits = Edits::default();
            state.hints.merge(owed);
            if state.settle.is_none() && !state.hints.is_empty() {
                state.settle = Some(Settle::at(clock::now()).end_early());
            }
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

    /// How many paths no commit has, as far as known; at least one where everything is to be
    /// looked at.
    pub fn pending(&self) -> usize {
        let state = self.lock();
        let is_unknown = state.hints.rescan || state.taken.unknown || state.owed_edits.unknown;
        state.count_edits(&BTreeSet::new()).max(usize::from(is_unknown))
    }

    /// How many of these paths `named` has not.
    pub fn edits_beside(&self, named: &BTreeSet<VaultPath>) -> usize {
        self.lock().count_edits(named)
    }

    /// The first of those, at most `most`.
    pub fn first_edits(&self, named: &BTreeSet<VaultPath>, most: usize) -> BTreeSet<VaultPath> {
        let state = self.lock();
        let of_each =
            state.edits().map(|it| it.iter().filter(|it| !named.contains(*it)).take(most));
        let first: BTreeSet<&VaultPath> = of_each.into_iter().flatten().collect();
        first.into_iter().take(most).cloned().collect()
    }

    /// At most `most` of those, first where something happened last, each with how new that is
    /// ([`Recent::turn_of`]).
    pub fn newest_edits(&self, named: &BTreeSet<VaultPath>, most: usize) -> Vec<(u64, VaultPath)> {
        let state = self.lock();
        let sets = state.edits();
        let is_edit =
            |it: &&VaultPath| !named.contains(*it) && sets.iter().any(|set| set.contains(*it));
        let newest = state.recent.newest().filter(is_edit).take(most);
        let mut edits: Vec<(u64, VaultPath)> =
            newest.map(|it| (state.recent.turn_of(it), it.clone())).collect();
        let is_older = |it: &&VaultPath| state.recent.turn_of(it) == 0 && !named.contains(*it);
        let mut older = BTreeSet::new();
        for set in sets {
            let left = most - edits.len();
            older.extend(set.iter().filter(is_older).take(left));
        }
        let left = most - edits.len();
        edits.extend(older.into_iter().take(left).map(|it| (0, it.clone())));
        edits
    }

    /// Says that what was taken is committed, named in the ledger or put back.
    pub fn done(&self) {
        self.lock().taken = Edits::default();
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
                return Wake::Asked(state.take(true), asks);
            }
            let git_due = state.git_due.filter(|_| !state.paused);
            if git_due.is_some_and(|it| it <= now) {
                state.git_due = None;
                state.git_looked = Some(now);
                return Wake::Settled(Hints { git: true, ..Hints::default() }, Moment::Restless);
            }
            let settle = state.settle.filter(|_| !state.paused);
            let settled_at = settle.map(|it| it.due_at(quiet, max_wait));
            if settled_at.is_some_and(|it| it <= now) {
                state.settle = None;
                let moment = match settle.is_some_and(|it| !it.ended && it.last + quiet > now) {
                    true => Moment::Restless,
                    false => Moment::Quiet,
                };
                return Wake::Settled(state.take(false), moment);
            }
            if look_again <= now {
                // The quiet window stays what it was: only a look that was owed is made.
                return Wake::Due;
            }
            let until = [settled_at, git_due].into_iter().flatten().fold(look_again, Instant::min);
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
mod tests;

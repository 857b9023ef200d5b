//! The notes that a model was asked for in vain.
//!
//! Takes which notes are asked for and how that ended, says which are to be asked for again. Any
//! thread.
//!
//! **Invariant:** a note that a model fails on while it answers others is asked for ever more rarely,
//! and keeps no other from its turn; where the model answers nobody, no note is put off for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::base::{clock, fault};
use crate::index::task::Blame;

/// The notes that were asked for and have no answer yet.
#[derive(Clone, Default)]
pub(super) struct Tried {
    notes: BTreeMap<u64, Try>,
}

#[derive(Clone, Copy, Default)]
struct Try {
    times: u32,
    /// Whether it is asked for alone from now on: of several one was too much.
    is_alone: bool,
    /// Where the model answers others: when it is asked again.
    not_before: Option<Instant>,
}

/// The first pause; it doubles up to [`MOST_PAUSE`].
const LEAST_PAUSE: Duration = Duration::from_secs(4);
const MOST_PAUSE: Duration = Duration::from_secs(3600);

impl Tried {
    pub(super) fn has(&self, id: u64) -> bool {
        self.notes.contains_key(&id)
    }

    pub(super) fn forget(&mut self, id: u64) {
        self.notes.remove(&id);
    }

    /// These are asked for now.
    pub(super) fn ask(&mut self, ids: impl Iterator<Item = u64>) {
        for id in ids {
            self.notes.entry(id).or_default().times += 1;
        }
    }

    /// Those of `missing` whose time has come, the least tried first: one, or several that may be
    /// asked for together.
    pub(super) fn due(&self, missing: &BTreeSet<u64>) -> Vec<u64> {
        let now = clock::now();
        let is_due = |it: &(&u64, &Try)| {
            missing.contains(it.0) && it.1.not_before.is_none_or(|at| at <= now)
        };
        let mut due: Vec<(u32, u64)> =
            self.notes.iter().filter(is_due).map(|(id, it)| (it.times, *id)).collect();
        due.sort_unstable();
        let is_alone = |id: &u64| self.notes.get(id).is_some_and(|it| it.is_alone);
        let mut due: Vec<u64> = due.into_iter().map(|it| it.1).collect();
        match due.first().is_some_and(is_alone) {
            true => due.truncate(1),
            false => due.retain(|it| !is_alone(it)),
        }
        due
    }

    /// Whether the model fails on this note while it answers others.
    pub(super) fn is_put_off(&self, id: u64) -> bool {
        self.notes.get(&id).is_some_and(|it| it.not_before.is_some())
    }

    /// How it ended for those that were asked for and have nothing.
    pub(super) fn blame(&mut self, lacking: &[u64], was_alone: bool, blame: &Blame) {
        if *blame == Blame::Recovered {
            self.notes.values_mut().for_each(|it| it.not_before = None);
        }
        for id in lacking {
            let Some(tried) = self.notes.get_mut(id) else { continue };
            match blame {
                // Unless it is one of them that ends it each time.
                Blame::Model => tried.is_alone |= tried.times > 1,
                Blame::Notes(_) if was_alone => {
                    let times = tried.times.saturating_sub(1).min(10);
                    let pause = (LEAST_PAUSE * (1 << times)).min(MOST_PAUSE);
                    tried.is_alone = true;
                    tried.not_before = Some(clock::now() + fault::pause("vectors.again", pause));
                }
                Blame::Notes(_) | Blame::Unknown | Blame::Recovered => tried.is_alone = true,
            }
        }
    }
}

//! When a burst of edits is over.
//!
//! Pure. Takes the times of the first and the last event of a burst, gives the moment at which it
//! may be committed: a quiet window after the last one, a hard cap after the first.
//!
//! **Invariant:** the answer depends on the events' own times only, so it is the same however
//! late or in how many batches they were delivered (property-tested).

use std::time::{Duration, Instant};

/// The span of a burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settle {
    /// The first event.
    pub first: Instant,
    /// The last event.
    pub last: Instant,
    /// Whether somebody asked not to wait for quiet.
    pub ended: bool,
}

impl Settle {
    /// A burst of one event.
    pub fn at(time: Instant) -> Self {
        Self { first: time, last: time, ended: false }
    }

    /// The burst that is both.
    pub fn merge(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            ended: self.ended || other.ended,
        }
    }

    /// The same burst, due at once.
    pub fn end_early(self) -> Self {
        Self { ended: true, ..self }
    }

    /// The moment from which the burst counts as over.
    ///
    /// `quiet` lets an editor finish a save in several steps; `max_wait` keeps a writer that never
    /// pauses from never being committed.
    pub fn due_at(self, quiet: Duration, max_wait: Duration) -> Instant {
        match self.ended {
            true => self.first,
            false => (self.last + quiet).min(self.first + max_wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::clock;

    const QUIET: Duration = Duration::from_secs(1);
    const MAX_WAIT: Duration = Duration::from_secs(10);

    fn burst(start: Instant, at_ms: &[u64]) -> Settle {
        at_ms
            .iter()
            .map(|it| Settle::at(start + Duration::from_millis(*it)))
            .reduce(Settle::merge)
            .unwrap()
    }

    #[test]
    fn a_burst_is_over_when_it_is_quiet_or_has_lasted_too_long() {
        let start = clock::now();
        let check = |events: &[u64], due_ms: u64| {
            let due = burst(start, events).due_at(QUIET, MAX_WAIT);
            assert_eq!(due, start + Duration::from_millis(due_ms), "{events:?}");
        };
        check(&[0], 1_000);
        check(&[0, 400], 1_400); // truncate, then write 0.4 s later: one commit
        check(&[0, 900, 1_800, 2_700], 3_700);
        check(&[0, 5_000, 8_999], 9_999);
        check(&[0, 5_000, 9_001], 10_000); // a writer that never pauses meets the cap
        check(&[0, 60_000], 10_000);
    }

    #[test]
    fn a_flush_does_not_wait_for_quiet() {
        let start = clock::now();
        let ended = burst(start, &[0, 700]).end_early();
        assert_eq!(ended.due_at(QUIET, MAX_WAIT), start);
        assert_eq!(ended.merge(burst(start, &[900])).due_at(QUIET, MAX_WAIT), start);
    }

    proptest! {
        #[test]
        fn delivery_makes_no_difference(
            events in prop::collection::vec(0..20_000u64, 1..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let start = clock::now();
            let whole = burst(start, &events);
            let cut = cut.index(events.len());
            if cut > 0 {
                let late = burst(start, &events[cut..]).merge(burst(start, &events[..cut]));
                prop_assert_eq!(late, whole);
            }
            let due = whole.due_at(QUIET, MAX_WAIT);
            prop_assert!(due <= whole.first + MAX_WAIT && due <= whole.last + QUIET);
            prop_assert!(due == whole.first + MAX_WAIT || due == whole.last + QUIET);
        }
    }
}

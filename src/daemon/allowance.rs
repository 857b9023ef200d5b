//! How often the mount may have a provider asked.
//!
//! Pure but for its lock: the time and the limit come in. Any thread.
//!
//! **Invariant:** in no minute is more given than the limit.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

/// What was given in the last minute, the oldest first.
#[derive(Default)]
pub struct Allowance(Mutex<VecDeque<Instant>>);

impl Allowance {
    /// Takes one, if fewer than `most` were taken in the minute before `now`.
    pub fn take(&self, most: usize, now: Instant) -> bool {
        // A panic between leaves whole values.
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while taken.front().is_some_and(|it| now.saturating_duration_since(*it) >= MINUTE) {
            taken.pop_front();
        }
        let is_left = taken.len() < most;
        if is_left {
            taken.push_back(now);
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_has_more_than_the_limit() {
        let allowance = Allowance::default();
        let start = crate::base::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!allowance.take(0, at(0)));
        assert!(allowance.take(2, at(0)) && allowance.take(2, at(50)));
        assert!(!allowance.take(2, at(59)), "two in this minute");
        assert!(allowance.take(2, at(60)), "the first is a minute old");
        assert!(!allowance.take(2, at(109)) && allowance.take(2, at(110)));
        // A lower limit counts what was taken under a higher one.
        assert!(!allowance.take(1, at(111)) && allowance.take(3, at(111)));
    }
}

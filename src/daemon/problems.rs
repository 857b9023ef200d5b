//! What is wrong right now.
//!
//! Takes reports from every thread, gives the list that `status` shows. Any thread.
//!
//! **Invariant:** a failure stays listed, with its remedy, until whoever reported it says that it
//! is over; it is logged when it begins, then ever more rarely, so that no cause writes more than
//! [`MOST_LINES`] lines an hour, whether it lasts, changes its words or comes and goes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::render::status::Problem;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something works less well, or a person must decide.
    Warning,
    /// Worth knowing.
    Note,
}

impl Level {
    pub fn text(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// The list; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    open: BTreeMap<String, Problem>,
    /// What was logged of each, also of those that are over: they may come again at once.
    logged: BTreeMap<String, Lines>,
}

/// So many lines an hour are written of one cause, at most.
pub const MOST_LINES: usize = 12;

/// What was open for so many seconds is worth a line when it is over.
const LASTING: i64 = 600;

/// For how long a line counts.
const HOUR: Duration = Duration::from_secs(3600);

/// The lines that were written of one cause within the last hour.
#[derive(Debug, Default)]
struct Lines {
    written: VecDeque<Instant>,
    /// What was not written since.
    swallowed: u64,
}

impl Lines {
    /// Whether a line may be written now; how many were left out before it.
    ///
    /// The first three are free, so that a start, a change and an end are seen; then the pauses
    /// double: 8 s, 16 s … 34 min.
    fn take(&mut self, now: Instant) -> Option<u64> {
        while self.written.front().is_some_and(|it| now.saturating_duration_since(*it) >= HOUR) {
            self.written.pop_front();
        }
        let pause = match self.written.len() {
            0..=2 => Duration::ZERO,
            lines if lines < MOST_LINES => Duration::from_secs(1 << lines),
            _ => HOUR,
        };
        let last = self.written.back();
        if last.is_some_and(|it| now.saturating_duration_since(*it) < pause) {
            self.swallowed += 1;
            return None;
        }
        self.written.push_back(now);
        Some(std::mem::take(&mut self.swallowed))
    }
}

impl Problems {
    /// Notes a problem, or that it is still there.
    pub fn report(&self, id: &str, level: Level, what: &str, remedy: &str) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let problem = inner.open.entry(id.to_owned()).or_insert_with(|| Problem {
            id: id.to_owned(),
            since: clock::unix_seconds(),
            ..Problem::default()
        });
        problem.count += 1;
        problem.level = level.text().to_owned();
        problem.what = what.to_owned();
        problem.remedy = remedy.to_owned();
        let lines = inner.logged.entry(id.to_owned()).or_default();
        let Some(left_out) = lines.take(clock::now()) else { return };
        let count = problem.count;
        match level {
            Level::Error => tracing::error!(problem = id, count, left_out, "{what}"),
            Level::Warning => tracing::warn!(problem = id, count, left_out, "{what}"),
            Level::Note => tracing::info!(problem = id, count, left_out, "{what}"),
        }
    }

    /// Notes that a problem is over; fine if it never was.
    pub fn clear(&self, id: &str) {
        let mut inner = self.lock();
        let Some(problem) = inner.open.remove(id) else { return };
        let lines = inner.logged.entry(id.to_owned()).or_default();
        // The end of what lasted is always said: six times an hour at most.
        let lasted = clock::unix_seconds() - problem.since >= LASTING;
        let left_out = lines.take(clock::now());
        if let Some(left_out) = left_out.or_else(|| lasted.then_some(lines.swallowed)) {
            tracing::info!(problem = id, count = problem.count, left_out, "over");
        }
    }

    /// Whether this problem is open.
    pub fn is_open(&self, id: &str) -> bool {
        self.lock().open.contains_key(id)
    }

    /// Everything open, the worst first; a vault that is gone explains what else there is.
    pub fn list(&self) -> Vec<Problem> {
        let mut list: Vec<Problem> = self.lock().open.values().cloned().collect();
        let rank = |level: &str| match level {
            "error" => 0,
            "warning" => 1,
            _ => 2,
        };
        list.sort_by_key(|it| (rank(&it.level), it.id != "vault-lost"));
        list
    }

    // A panic between two assignments leaves a problem half described, never a broken list.
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_stays_until_it_is_over() {
        let problems = Problems::default();
        problems.report("b", Level::Warning, "b is odd", "look at b");
        problems.report("a", Level::Error, "a is broken", "mend a");
        problems.report("b", Level::Warning, "b is odd", "look at b");
        let list = problems.list();
        assert_eq!(list.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(list[1].count, 2);
        problems.report("vault-lost", Level::Error, "the vault is gone", "bring it back");
        assert_eq!(problems.list()[0].id, "vault-lost");
        problems.clear("vault-lost");
        problems.clear("b");
        problems.clear("never was");
        assert_eq!(problems.list().len(), 1);
    }

    /// J06: one permanent error, tried again at every tick for hours; also one that comes and goes.
    #[test]
    fn no_cause_floods_the_log_j06() {
        for tick_ms in [50, 1_000, 15_000, 300_000] {
            let start = clock::now();
            let mut lines = Lines::default();
            let mut written = Vec::new();
            for tick in 0..(3 * 3600 * 1000 / tick_ms) {
                let now = start + Duration::from_millis(tick * tick_ms);
                if lines.take(now).is_some() {
                    written.push(now);
                }
            }
            assert_eq!(written[0], start, "the first is never left out");
            for (at, first) in written.iter().enumerate() {
                let within = written[at..].iter().filter(|it| **it - *first < HOUR).count();
                assert!(within <= MOST_LINES, "{within} lines in an hour at {tick_ms} ms");
            }
            assert!(written.len() >= 10, "still said after three hours: {}", written.len());
        }
    }

    #[test]
    fn what_was_left_out_is_counted() {
        let start = clock::now();
        let mut lines = Lines::default();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!([0, 1, 2].map(|it| lines.take(at(it))), [Some(0); 3]);
        assert_eq!([3, 5, 9].map(|it| lines.take(at(it))), [None; 3]);
        assert_eq!(lines.take(at(10)), Some(3));
    }
}

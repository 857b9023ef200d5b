//! What is wrong right now.
//!
//! Takes reports from every thread, gives the list that `status` shows. Any thread.
//!
//! **Invariant:** a failure stays listed, with its remedy, until whoever reported it says that it
//! is over; it is logged when it begins, then ever more rarely, so that no cause floods the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
    open: Arc<Mutex<BTreeMap<String, Problem>>>,
}

impl Problems {
    /// Notes a problem, or that it is still there.
    pub fn report(&self, id: &str, level: Level, what: &str, remedy: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let problem = open.entry(id.to_owned()).or_insert_with(|| Problem {
            id: id.to_owned(),
            level: level.text().to_owned(),
            since: clock::unix_seconds(),
            ..Problem::default()
        });
        problem.count += 1;
        let changed = problem.what != what;
        problem.level = level.text().to_owned();
        problem.what = what.to_owned();
        problem.remedy = remedy.to_owned();
        // The 1st, 2nd, 4th, 8th … time: at most a few dozen lines in the life of a cause.
        if problem.count == 1 || (problem.count.is_power_of_two() || changed) && problem.count < 64
        {
            match level {
                Level::Error => tracing::error!(problem = id, count = problem.count, "{what}"),
                Level::Warning => tracing::warn!(problem = id, count = problem.count, "{what}"),
                Level::Note => tracing::info!(problem = id, count = problem.count, "{what}"),
            }
        }
    }

    /// Notes that a problem is over; fine if it never was.
    pub fn clear(&self, id: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = open.remove(id) {
            tracing::info!(problem = id, count = problem.count, "over");
        }
    }

    /// Everything open, the worst first.
    pub fn list(&self) -> Vec<Problem> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<Problem> = open.values().cloned().collect();
        let rank = |level: &str| match level {
            "error" => 0,
            "warning" => 1,
            _ => 2,
        };
        list.sort_by_key(|it| rank(&it.level));
        list
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
        problems.clear("b");
        problems.clear("never was");
        assert_eq!(problems.list().len(), 1);
    }
}

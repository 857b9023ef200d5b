//! Looks whether HEAD has what looks like a credential: in an adopted folder or repository, by a
//! person's own commit, by a pull, or by the policy `warn`.
//!
//! Takes heads from the ledger, gives what it found to `status`, until HEAD has it no more or a
//! person allowed it. Runs on a thread of its own, named like this file.
//!
//! **Invariant:** nothing is held or taken back for what it finds; nobody waits for it; a commit
//! costs what it changed, and a start reads little of what was found clean before.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::process::Stop;
use crate::base::trouble::told;
use crate::base::{clock, fault};
use crate::daemon::allowing::Allowing;
use crate::daemon::committer::leaks::leak;
use crate::daemon::house::House;
use crate::daemon::problems::Level;
use crate::daemon::worker::{self, Worker};
use crate::history::{Clean, ReadError};
use crate::render::counted;
use crate::render::status::Leak;
use crate::secrets::{Finding, Policy};
use crate::vault::{CommitId, VaultPath};

/// Nothing was committed for so long: the index goes first.
const QUIET: Duration = Duration::from_millis(500);
/// After a failure.
const RETRY: Duration = Duration::from_secs(60);
/// How long the thread sleeps when nothing is owed.
const LONG: Duration = Duration::from_secs(3600);
/// From so many changes on it is worth knowing which of them were found clean before.
const MANY: usize = 200;
/// So many findings are told one by one; the rest is counted.
const NAMED: usize = 100;

/// Starts the thread.
pub fn start(house: &House) -> std::io::Result<Worker> {
    let house = house.clone();
    Worker::start(&house.clone(), "auditor", move |stop| {
        let work = Work {
            house,
            stop,
            allowing: Allowing::default(),
            seen: None,
            found: BTreeMap::new(),
            not_before: None,
        };
        work.run();
    })
}

struct Work {
    house: House,
    stop: Stop,
    allowing: Allowing,
    /// What the findings are of.
    seen: Option<CommitId>,
    found: BTreeMap<VaultPath, Vec<Finding>>,
    not_before: Option<Instant>,
}

impl Work {
    fn run(mut self) {
        while let Some((version, ledger)) = worker::next(&self.house, &self.stop) {
            let policy = self.house.settings.get().secrets;
            let head = ledger.head.map(|it| it.commit);
            let is_off = policy == Policy::Off || !self.house.is_vault_there();
            if is_off {
                (self.seen, self.found) = (None, BTreeMap::new());
            }
            if !is_off && head.is_some() && head != self.seen {
                let now = clock::now();
                let rest = self.not_before.map_or(Duration::ZERO, |it| it - now.min(it));
                let quiet = fault::pause("auditor.quiet", QUIET);
                if self.house.ledger.wait_newer(version, quiet.max(rest)).is_some() {
                    continue;
                }
                if !self.is_settled() {
                    let _newer = self.house.ledger.wait_newer(version, quiet * 4);
                    continue;
                }
                let looked = catch_unwind(AssertUnwindSafe(|| self.look(head)));
                self.not_before = match looked {
                    Ok(Ok(())) => None,
                    Ok(Err(err)) => {
                        tracing::warn!(err = %told(&err), "HEAD is looked at for credentials later");
                        Some(clock::now() + RETRY)
                    }
                    Err(_) => Some(clock::now() + RETRY),
                };
            }
            self.tell();
            if self.seen == head || is_off {
                let _newer = self.house.ledger.wait_newer(version, LONG);
            }
        }
    }

    /// Whether the first look and the index are through.
    fn is_settled(&self) -> bool {
        let (ledger, shelf) = (self.house.ledger.get(), self.house.shelf.get());
        ledger.looked && ledger.committing.is_none() && shelf.progress.is_none()
    }

    /// Brings the findings from the commit they are of to `head`.
    fn look(&mut self, head: Option<CommitId>) -> Result<(), ReadError> {
        let Some(head) = head else { return Ok(()) };
        let reader = &self.house.reader;
        // A commit that is gone says nothing: all of HEAD is looked at.
        let from = self.seen.filter(|it| reader.exists(*it));
        if from.is_none() {
            self.found.clear();
        }
        let changes = reader.diff(from, head)?;
        // Of a few edits nothing is remembered: the next start looks at them once more.
        let mut clean = match changes.len() > MANY {
            true => reader.clean().unwrap_or_else(|err| {
                tracing::debug!(err = %told(&err), "all of HEAD is looked at anew");
                Clean::default()
            }),
            false => Clean::default(),
        };
        self.seen = None;
        for (path, change) in changes.iter() {
            if self.stop.is_set() {
                break;
            }
            self.found.remove(path);
            let Some(entry) = change.new else { continue };
            match reader.leaks_in(path, entry, &mut clean)? {
                Ok(findings) if findings.is_empty() => {}
                Ok(findings) => drop(self.found.insert(path.clone(), findings)),
                Err(why) => tracing::debug!(%path, why, "not looked at for credentials"),
            }
        }
        if !self.stop.is_set() {
            self.seen = Some(head);
        }
        if let Err(err) = reader.keep_clean(&clean) {
            tracing::debug!(err = %told(&err), "what is clean is found out again at the next start");
        }
        Ok(())
    }

    /// Tells what HEAD has and nobody allowed.
    fn tell(&mut self) {
        self.allowing.follow(&self.house.dirs, &self.house.vault);
        let allowance = self.allowing.get();
        let open = |it: &&Finding| !allowance.allows(it);
        let all = self
            .found
            .iter()
            .flat_map(|(path, all)| all.iter().filter(open).map(move |it| (path, it)));
        let leaks: Vec<Leak> = all.map(|(path, it)| leak(path, it, allowance, false)).collect();
        let problems = &self.house.problems;
        match leaks.as_slice() {
            [] => problems.clear("secrets-committed"),
            [first, rest @ ..] => {
                let Leak { path, line, rule, masked, .. } = first;
                let one = format!(
                    "`{path}` has what looks like a credential: line {line}: `{rule}` {masked}"
                );
                let what = match rest.len() {
                    0 => format!("HEAD's {one}"),
                    more => format!(
                        "HEAD's {one}; and {}",
                        counted(more, "other finding", "other findings")
                    ),
                };
                let remedy = format!(
                    "If others may have seen it, change it where it is used; `remd secrets list` \
                     names all; if it is none: `remd secrets allow {path}:{line}`."
                );
                problems.report("secrets-committed", Level::Note, &what, &remedy);
            }
        }
        let listed: Vec<Leak> = leaks.into_iter().take(NAMED).collect();
        if **self.house.exposed.get() != listed {
            self.house.exposed.set(Arc::new(listed));
        }
    }
}

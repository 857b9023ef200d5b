//! Has loose objects packed when nothing else is to do.
//!
//! Takes heads from the ledger, gives nothing but a smaller git directory; what it cannot do is in
//! the list of problems. Runs on a thread of its own, named like this file.
//!
//! Each of our commits leaves a few loose objects. A quiet minute after one they are counted, at
//! the cost of listing one folder, and packed where they are many.
//!
//! **Invariant:** it sleeps until something is committed; nobody waits for it; a stop ends it at
//! once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::base::process::{ProcessError, Stop};
use crate::base::trouble::told;
use crate::base::{clock, fault};
use crate::daemon::house::House;
use crate::daemon::problems::Level;
use crate::daemon::worker::{self, Worker};
use crate::history::{PackError, Packing, clear_packing, pack_loose};
use crate::vault::CommitId;

/// Nothing was committed or looked at for so long: whoever edits is done.
const QUIET: Duration = Duration::from_secs(60);
/// Where edits never cease for [`QUIET`], this will do …
const SHORT: Duration = Duration::from_secs(2);
/// … after so long.
const OVERDUE: Duration = Duration::from_secs(3600);
/// The pause after a try that came to nothing; it doubles up to [`MAX_RETRY`].
const MIN_RETRY: Duration = Duration::from_secs(60);
const MAX_RETRY: Duration = Duration::from_secs(6 * 3600);
/// How long the thread sleeps when nothing is owed.
const LONG: Duration = Duration::from_secs(3600);

/// Starts the thread.
pub fn start(house: &House) -> std::io::Result<Worker> {
    let house = house.clone();
    Worker::start(&house.clone(), "packer", move |stop| {
        let work = Work {
            house,
            stop,
            served: None,
            owed_since: None,
            not_before: None,
            pause: MIN_RETRY,
        };
        work.run();
    })
}

struct Work {
    house: House,
    stop: Stop,
    /// All that this commit and those before it left was looked at.
    served: Option<CommitId>,
    owed_since: Option<Instant>,
    not_before: Option<Instant>,
    pause: Duration,
}

impl Work {
    fn run(mut self) {
        if let Err(err) = clear_packing(&self.house.vault) {
            tracing::debug!(err = %told(&err), "what a killed packing left stays for the next one");
        }
        while let Some((seen, ledger)) = worker::next(&self.house, &self.stop) {
            let head = ledger.head.map(|it| it.commit);
            if head == self.served {
                self.owed_since = None;
                let _newer = self.house.ledger.wait_newer(seen, LONG);
                continue;
            }
            let now = clock::now();
            let owed_since = *self.owed_since.get_or_insert(now);
            let quiet = if now - owed_since < OVERDUE { QUIET } else { SHORT };
            let quiet = fault::pause("packer.quiet", quiet);
            let rest = self.not_before.map_or(Duration::ZERO, |it| it - now.min(it));
            if self.house.ledger.wait_newer(seen, quiet.max(rest)).is_some() {
                continue;
            }
            let tried = catch_unwind(AssertUnwindSafe(|| self.try_to_pack()));
            match tried {
                Ok(true) => {
                    self.served = head;
                    self.not_before = None;
                    self.pause = MIN_RETRY;
                }
                Ok(false) => self.retry_later(),
                Err(_) => {
                    self.report("The packer met a fault in itself; its log says more", "");
                    self.retry_later();
                }
            }
        }
    }

    /// Whether that is all for this head.
    fn try_to_pack(&self) -> bool {
        if !self.is_settled() {
            return false;
        }
        let began = clock::now();
        match pack_loose(&self.house.vault, &self.stop) {
            Ok(Packing::Waits(why)) => {
                tracing::debug!(why, "loose objects are packed later");
                return false;
            }
            Ok(Packing::Done(objects)) => {
                let took_ms = began.elapsed().as_millis();
                tracing::info!(objects, took_ms, "packed what was loose");
            }
            Ok(Packing::NotDue) => {}
            // What the start says of a missing git is enough.
            Err(PackError::NoGit) => {}
            Err(PackError::Process(ProcessError::Stopped { .. })) => return false,
            Err(err) => {
                self.report(
                    &format!("Loose Git objects cannot be packed: {}", told(&err)),
                    err.hint(),
                );
                return false;
            }
        }
        self.house.problems.clear("packing");
        true
    }

    /// Whether nobody has anything else to do.
    fn is_settled(&self) -> bool {
        let (ledger, shelf) = (self.house.ledger.get(), self.house.shelf.get());
        let head = ledger.head.map(|it| it.commit);
        ledger.looked
            && ledger.waiting_for.is_none()
            && ledger.committing.is_none()
            && shelf.progress.is_none()
            && shelf.view.and_then(|it| it.at()) == head
            && !self.house.intake.is_paused()
            && self.house.is_vault_there()
    }

    fn report(&self, what: &str, remedy: &str) {
        self.house.problems.report("packing", Level::Warning, what, remedy);
    }

    fn retry_later(&mut self) {
        let pause = fault::pause("packer.quiet", self.pause);
        self.not_before = Some(clock::now() + pause);
        self.pause = (self.pause * 2).min(MAX_RETRY);
    }
}

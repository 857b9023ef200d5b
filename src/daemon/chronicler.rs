//! Keeps the table of paths up to HEAD.
//!
//! Takes heads from the ledger, gives what `remd log PATH` and the mount's `history/` look into;
//! what it cannot do is in the list of problems. Runs on a thread of its own, named like this file.
//!
//! **Invariant:** nobody waits for it: what the table has not is walked. It sleeps until HEAD moves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::process::{self, Stop};
use crate::base::trouble::told;
use crate::base::{clock, fs};
use crate::daemon::cause::{Backoff, LOOK};
use crate::daemon::house::House;
use crate::daemon::problems::Level;
use crate::daemon::worker::{self, Worker};
use crate::history::{KeepError, Keeper};
use crate::vault::{CommitId, Layout};

/// How long what is in memory is kept for the next commit.
const REST: Duration = Duration::from_secs(30);
/// How long the thread sleeps when nothing is owed.
const LONG: Duration = Duration::from_secs(3600);
/// The pauses after tries that came to nothing.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// Where a vault's table of paths lies.
pub fn folder(vault: &Path, layout: &Layout) -> PathBuf {
    vault.join(&layout.metadata).join("path_log")
}

/// Starts the thread.
pub fn start(house: &House) -> std::io::Result<Worker> {
    let house = house.clone();
    Worker::start(&house.clone(), "chronicler", move |stop| {
        let folder = folder(&house.vault, &house.settings.get().layout);
        let work = Work {
            keeper: Keeper::new(&house.reader, &folder),
            folder,
            house,
            stop,
            served: None,
            backoff: Backoff::new(RETRY.0, RETRY.1),
        };
        work.run();
    })
}

struct Work {
    house: House,
    stop: Stop,
    folder: PathBuf,
    keeper: Keeper,
    /// The table has this commit.
    served: Option<CommitId>,
    backoff: Backoff,
}

impl Work {
    fn run(mut self) {
        // The first time all of a long history is read.
        process::let_others_go_first();
        while let Some((seen, ledger)) = worker::next(&self.house, &self.stop) {
            let head = ledger.head.map(|it| it.commit);
            let wait = match head {
                _ if self.backoff.is_waiting() && !self.backoff.is_due(&self.folder) => LOOK,
                Some(head) if self.served != Some(head) => {
                    self.serve(head);
                    continue;
                }
                _ => REST,
            };
            if self.house.ledger.wait_newer(seen, wait).is_none() && !self.backoff.is_waiting() {
                self.keeper.rest();
                let _newer = self.house.ledger.wait_newer(seen, LONG);
            }
        }
    }

    /// One try.
    fn serve(&mut self, head: CommitId) {
        // Another folder at the vault's path is not ours to write in.
        if !self.house.is_vault_there() {
            self.fail_later();
            return;
        }
        let (keeper, stop) = (&mut self.keeper, self.stop.clone());
        let began = clock::now();
        let tried = catch_unwind(AssertUnwindSafe(|| keeper.catch_up(head, &|| stop.is_set())));
        match tried {
            Ok(Ok(true)) => {
                let took_ms = began.elapsed().as_millis();
                tracing::debug!(commit = %head.short(), took_ms, "the table of paths is there");
                self.served = Some(head);
                self.backoff.over();
                self.house.problems.clear("path-log");
            }
            // Stopped.
            Ok(Ok(false)) => {}
            Ok(Err(err)) => {
                // Its folder may just have been taken away; that is made anew at once.
                let is_first = !self.backoff.is_waiting();
                self.fail_later();
                if !(is_first && is_absent(&err)) {
                    self.report(
                        &format!("The table of paths cannot be kept: {}", told(&err)),
                        &err.hint(),
                    );
                }
            }
            Err(_) => {
                self.fail_later();
                self.report("The table of paths met a fault in itself; its log says more", "");
            }
        }
    }

    fn fail_later(&mut self) {
        // Another vault's folder may be in the place of ours.
        self.backoff.failed_elsewhere(&self.folder);
    }

    fn report(&self, what: &str, remedy: &str) {
        let remedy = match remedy {
            "" => "`remd log PATH` walks through the commits meanwhile.".to_owned(),
            remedy => format!("{remedy} `remd log PATH` walks through the commits meanwhile."),
        };
        self.house.problems.report("path-log", Level::Note, what, &remedy);
    }
}

fn is_absent(err: &KeepError) -> bool {
    matches!(err, KeepError::Disk(err) if fs::PathError::is_absent(err))
}

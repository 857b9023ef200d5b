//! The only writer: turns hints into commits.
//!
//! Takes hints and asks from the intake, gives heads to whoever follows the ledger. Owns the
//! [`History`]. Runs on a thread of its own, named like this file.
//!
//! **Invariant:** a hint is given up only when what it points at is in HEAD, held back, or named
//! in the ledger; whatever fails is tried again, with growing pauses, until it is well.

mod change;
pub mod leaks;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::base::{clock, fault};
use crate::daemon::allowing::Allowing;
use crate::daemon::cause::Backoff;
use crate::daemon::house::House;
use crate::daemon::intake::{Ask, Flushed, Moment, Wake};
use crate::daemon::problems::Level;
use crate::daemon::returned::Lookout;
use crate::daemon::unseen::{self, Filtering};
use crate::history::{Cause, CauseKind, History, Kept, Look, Operation, Snapshot, SnapshotError};
use crate::render::status::Committing;
use crate::vault::VaultPath;
use crate::watch::{self, Filter, Hints, Settle, Skip};

/// The whole vault is looked at this often, whatever the watcher says.
const RECONCILE: Duration = Duration::from_secs(600);

/// The first pause after a failure; it doubles up to [`MAX_RETRY`]. What may have ended the
/// failure is noticed sooner ([`Backoff`]).
const MIN_RETRY: Duration = Duration::from_millis(500);
const MAX_RETRY: Duration = Duration::from_secs(300);

/// The same for a file or folder that cannot be read while all the others can.
const MIN_REREAD: Duration = Duration::from_secs(2);
const MAX_REREAD: Duration = RECONCILE;

/// How often a running `post-commit` hook is asked how it went.
const HOOK_PAUSE: Duration = Duration::from_secs(1);

/// A lock of Git's that nobody seems to own is named from this age on, and looked for this often.
const LOCK_AGE: Duration = Duration::from_secs(10);

/// How often a look is repeated because files changed while they were read.
const MAX_AGAIN: usize = 5;

/// The committer's own state.
pub struct Committer {
    house: House,
    history: History,
    filter: Filter,
    /// The next look at everything.
    reconcile_at: Instant,
    /// The next look at Git's locks, while there are some.
    locks_at: Option<Instant>,
    /// The next try of what failed.
    retry: Backoff,
    /// Whether what failed last passes by itself, so that the next edit may take it along: a lock.
    is_passing: bool,
    /// The next look at what could not be read.
    reread: Backoff,
    /// Looks at what is in the vault's place while it is lost.
    lookout: Lookout,
    /// Whether the first commit of this agent adopts what was there.
    adopting: bool,
    /// What a person allowed although it looks like a credential.
    allowing: Allowing,
    /// What stays out of the commits, and why.
    kept_out: BTreeMap<VaultPath, Kept>,
    /// Which of it waits for a filter that is at work, and since when.
    filtering: Filtering,
    /// What was not looked into, and why.
    skipped: BTreeMap<VaultPath, Skip>,
    /// The person's operation that these hints wait for; all they point at is in `wip`.
    waiting: Option<(Operation, Hints, BTreeSet<VaultPath>)>,
    /// What waits for something that sends no hint, and when it is looked at again.
    later: BTreeMap<VaultPath, Instant>,
}

impl Committer {
    pub fn new(house: House, mut history: History, filter: Filter, adopting: bool) -> Self {
        let ledger = house.ledger.clone();
        // The indexer need not wait for git's index.
        history.on_durable(move |head| {
            ledger.update(|it| {
                it.reach(Some(head.clone()));
                it.committing = None;
            });
        });
        let ledger = house.ledger.clone();
        history.on_progress(move |done, all| {
            ledger.update(|it| {
                let adopting = adopting && !it.looked;
                it.committing = Some(Committing { done, all, adopting });
            });
        });
        Self {
            house,
            history,
            filter,
            reconcile_at: clock::now(),
            locks_at: None,
            retry: Backoff::new(MIN_RETRY, MAX_RETRY),
            is_passing: false,
            reread: Backoff::new(MIN_REREAD, MAX_REREAD),
            lookout: Lookout::default(),
            adopting,
            allowing: Allowing::default(),
            kept_out: BTreeMap::new(),
            filtering: Filtering::default(),
            skipped: BTreeMap::new(),
            waiting: None,
            later: BTreeMap::new(),
        }
    }

    /// Works until the intake is stopped.
    pub fn run(mut self) {
        loop {
            let settings = self.house.settings.get();
            self.take_options();
            let look_again = self.look_again();
            let wake = self.house.intake.wait(settings.quiet, settings.max_wait, look_again);
            // Somebody may have changed them, and asks for what follows from it.
            self.take_options();
            if matches!(wake, Wake::Stop) {
                if !self.house.intake.is_paused() {
                    self.turn(Hints::everything(), Moment::Quiet);
                }
                return;
            }
            let served = catch_unwind(AssertUnwindSafe(|| self.serve(wake)));
            if served.is_err() {
                self.house.problems.report(
                    "commit-fault",
                    Level::Error,
                    "The committer met a fault in itself; its log says more",
                    "Everything is looked at again by itself; please report the fault.",
                );
                self.house.intake.put_back(Hints::everything());
                self.house.intake.done();
                self.retry_later();
            }
        }
    }

    /// When to wake up if nothing happens.
    fn look_again(&self) -> Instant {
        let next = if let Some(at) = self.retry.look_at() {
            at
        } else if self.house.intake.owes() && !self.house.intake.is_paused() {
            clock::now()
        } else {
            let reread = self.reread.look_at();
            reread.map_or(self.reconcile_at, |it| it.min(self.reconcile_at))
        };
        // A hook that runs beside us says how it went when somebody asks.
        let hook_at = self.history.is_hook_running().then(|| clock::now() + HOOK_PAUSE);
        let others = [self.locks_at, hook_at].into_iter().flatten();
        others.chain(self.later.values().copied()).fold(next, Instant::min)
    }

    fn serve(&mut self, wake: Wake) {
        fault::thread_end("committer.serve");
        match wake {
            Wake::Settled(mut hints, moment) => {
                // What waits for a person's operation is compared with where that has got to.
                if self.is_passing || (hints.git && self.waiting.is_some()) {
                    hints.merge(self.house.intake.take_owed());
                }
                self.turn(hints, moment);
            }
            Wake::Due => self.due(),
            Wake::Asked(hints, asks) => self.answer(hints, asks),
            Wake::Stop => {}
        }
    }

    /// Does what it is time for.
    fn due(&mut self) {
        let now = clock::now();
        if self.locks_at.is_some_and(|it| it <= now) {
            self.look_for_locks(!self.retry.is_waiting());
        }
        self.report_hook();
        let mut hints = Hints::default();
        self.later.retain(|path, at| {
            let is_due = *at <= now;
            if is_due {
                hints.paths.insert(path.clone());
            }
            !is_due
        });
        if self.house.intake.is_paused() {
            self.house.intake.put_back(hints);
            self.reconcile_at = now + RECONCILE;
            self.retry.over();
            self.reread.over();
            return;
        }
        if self.retry.is_waiting() && !self.retry.is_due(self.history.git_dir()) {
            self.house.intake.put_back(hints);
            return;
        }
        hints.merge(self.house.intake.take_owed());
        hints.rescan |= self.reconcile_at <= now;
        if self.reread.is_due(&self.house.vault) {
            self.reread.begin();
            let files = self.kept_out.iter().filter(|it| may_be_read_later(it.1));
            hints.paths.extend(files.map(|it| it.0.clone()));
            let folders = self.skipped.iter().filter(|it| is_unreadable(it.1));
            hints.folders.extend(folders.map(|it| it.0.clone()));
        }
        if hints.is_empty() {
            self.house.intake.done();
        } else if let Some(found) = self.still_waits_for(&hints) {
            self.house.intake.put_back_looked(hints, found);
            self.house.intake.done();
            self.retry_later();
        } else {
            self.turn(hints, Moment::Restless);
        }
    }

    /// Whether a look would only find again what is in `wip` already: a bisect may take days.
    fn still_waits_for(&self, hints: &Hints) -> Option<BTreeSet<VaultPath>> {
        let (operation, seen, found) = self.waiting.as_ref()?;
        (seen == hints && self.history.busy() == Some(*operation)).then(|| found.clone())
    }

    fn answer(&mut self, mut hints: Hints, mut asks: Vec<Ask>) {
        asks.retain(Ask::begin);
        if asks.is_empty() {
            if self.house.intake.is_paused() {
                self.house.intake.put_back(hints);
                self.house.intake.done();
            } else {
                self.turn(hints, Moment::Restless);
            }
            return;
        }
        for ask in asks {
            let (reply, accept) = match ask {
                Ask::Flush(reply) => (reply, false),
                Ask::Accept(reply, _) => (reply, true),
                Ask::Change(wish, reply, _) => {
                    let changed = self.change(&wish, std::mem::take(&mut hints));
                    // Whoever asked may have given up waiting; it is done all the same.
                    let _gone = reply.send(changed);
                    continue;
                }
            };
            let accepted: Vec<VaultPath> = if accept {
                let held = self.history.held().iter().cloned().collect();
                self.history.accept_held();
                held
            } else {
                Vec::new()
            };
            let mut flushed = if self.house.intake.is_paused() && !accept {
                self.house.intake.put_back(std::mem::take(&mut hints));
                self.house.intake.done();
                Flushed {
                    waiting_for: vec!["committing is paused (`remd resume`)".to_owned()],
                    needs_person: true,
                    ..Flushed::default()
                }
            } else {
                self.history.try_again();
                // A look at everything serves every hint that was there before it.
                let hints = Hints { rescan: true, ..std::mem::take(&mut hints) };
                self.turn(hints, Moment::Quiet)
            };
            flushed.accepted = accepted;
            // Whoever asked may have given up waiting; the work is done all the same.
            let _gone = reply.send(flushed);
        }
    }

    /// Looks, commits, and says how it went. Hints that could not be served go back.
    fn turn(&mut self, hints: Hints, moment: Moment) -> Flushed {
        let flushed = self.try_turn(hints, moment);
        self.look_for_locks(flushed.committed);
        super::settings::look(&self.house);
        self.house.intake.done();
        flushed
    }

    fn try_turn(&mut self, mut hints: Hints, moment: Moment) -> Flushed {
        for _ in 0..MAX_AGAIN {
            let rescan = hints.rescan;
            match self.commit(&hints, moment) {
                Ok(snapshot) => {
                    let paths = snapshot.put_off.clone();
                    let put_off = Hints { paths, ..Hints::default() };
                    self.house.intake.hint(put_off, Settle::at(clock::now()));
                    self.well(rescan);
                    let flushed = self.publish(&snapshot);
                    if snapshot.again.is_empty() {
                        return flushed;
                    }
                    hints = Hints { paths: snapshot.again, ..Hints::default() };
                }
                Err(err) => {
                    let found = self.history.found_waiting().cloned();
                    self.waiting = match (&err, &found) {
                        (SnapshotError::Busy { operation, .. }, Some(found)) => {
                            Some((*operation, hints.clone(), found.clone()))
                        }
                        _ => None,
                    };
                    match found {
                        Some(found) => {
                            self.kept_in_wip(rescan);
                            self.house.intake.put_back_looked(hints, found);
                        }
                        None => self.house.intake.put_back(hints),
                    }
                    return self.unwell(&err);
                }
            }
        }
        // A file that never holds still: its next event, or the next try, brings it in.
        let waiting_for = hints.paths.iter().map(|it| format!("`{it}` keeps changing")).collect();
        self.house.intake.put_back(hints);
        self.is_passing = true;
        self.retry_later();
        Flushed { waiting_for, ..Flushed::default() }
    }

    fn commit(&mut self, hints: &Hints, moment: Moment) -> Result<Snapshot, SnapshotError> {
        let quiet = self.house.settings.get().quiet;
        let settling = matches!(moment, Moment::Restless).then_some(quiet);
        let look = match self.look(hints) {
            Ok(look) => Look { settling, ..look },
            Err(err) => {
                // A vault that is gone is the better reason, if that is the reason.
                self.history.snapshot(&Look::default(), &Cause::edit())?;
                return Err(err);
            }
        };
        let kind = if self.adopting { CauseKind::Adopt } else { CauseKind::Edit };
        let snapshot = self.history.snapshot(&look, &Cause { kind, ..Cause::edit() })?;
        self.remember_kept_out(&look, &snapshot);
        if hints.rescan {
            self.adopting = false;
        }
        let unread = self.skipped.values().any(is_unreadable)
            || self.kept_out.values().any(may_be_read_later);
        match unread {
            true if !self.reread.is_waiting() => self.reread.failed(&self.house.vault),
            true => {}
            false => self.reread.over(),
        }
        Ok(snapshot)
    }

    /// What the hints point at, listed from the disk.
    fn look(&mut self, hints: &Hints) -> Result<Look, SnapshotError> {
        let mut look = Look { paths: hints.paths.clone(), ..Look::default() };
        let is_rule = |path: &VaultPath| path.file_name() == b".gitattributes";
        if hints.git || hints.paths.iter().any(is_rule) {
            // Other rules or settings may let in what they keep out.
            let filtered = |it: &Kept| matches!(it, Kept::Filter { .. } | Kept::Filtering { .. });
            let paths = self.kept_out.iter().filter(|it| filtered(it.1));
            look.paths.extend(paths.map(|it| it.0.clone()));
        }
        let mut ignores = self.history.ignores()?;
        let folders: Vec<Option<&VaultPath>> =
            if hints.rescan { vec![None] } else { hints.folders.iter().map(Some).collect() };
        for folder in folders {
            let scan = watch::scan(&self.house.vault, folder, &self.filter, &mut |path| {
                ignores.is_ignored(path, true)
            })?;
            look.paths.extend(folder.cloned());
            self.skipped.retain(|path, _| folder.is_some_and(|it| !path.is_within(it.as_bytes())));
            self.skipped.extend(scan.skipped.iter().cloned());
            if folder.is_none() {
                unseen::report_nameless(&self.house.problems, &scan.nameless);
            }
            super::add_scan(&mut look, folder, scan);
        }
        unseen::report_skipped(&self.house.problems, &self.skipped);
        Ok(look)
    }

    /// A look at a part says nothing of what is kept out elsewhere.
    fn remember_kept_out(&mut self, look: &Look, snapshot: &Snapshot) {
        let seen_again = |path: &VaultPath| {
            look.paths.contains(path)
                || look.found.contains(path)
                || look
                    .complete_below
                    .iter()
                    .any(|it| it.as_ref().is_none_or(|folder| path.is_within(folder.as_bytes())))
        };
        let now = clock::now();
        self.later.retain(|path, _| !seen_again(path));
        self.later.extend(snapshot.later.iter().map(|(path, it)| (path.clone(), now + *it)));
        // What the index keeps out is part of every look.
        self.kept_out.retain(|path, why| !seen_again(path) && !why.is_by_index());
        self.kept_out.extend(snapshot.kept_out.iter().cloned());
    }
}

fn is_unreadable(why: &Skip) -> bool {
    matches!(why, Skip::Unreadable(_))
}

/// Whether a path may come in without an event that says so: the process had no file handle left,
/// the disk had an error, a filter failed.
fn may_be_read_later(why: &Kept) -> bool {
    matches!(why, Kept::Unreadable { .. } | Kept::Filter { .. })
}

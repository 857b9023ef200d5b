//! The thread `watcher`: from names that were noticed to hints, and from one way of noticing to
//! another when the first one fails.
//!
//! Takes what the inbox holds, keeps the watches in line with the folders, calls the sink.
//! Blocking; owns the library's threads.
//!
//! **Invariant:** whatever ends a way of noticing (limits, a dead thread, lost events, the vault's
//! folder gone), the next hints say "everything", so the gap is scanned.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::fs;
use crate::base::latest::Latest;
use crate::vault::VaultPath;
use crate::watch::ground::remote_of;
use crate::watch::hints::Hints;
use crate::watch::limits::watch_limit;
use crate::watch::poll::Snapshot;
use crate::watch::settle::Settle;
use crate::watch::tap::{Engine, GATHER, Inbox, Noticed, WatchFailed};
use crate::watch::tree::{Seen, Tree};
use crate::watch::watcher::{Callers, IgnoredDir, Sink, WatchMode, WatchStats, Wish};

/// How often the library's thread is asked whether it lives. It costs two system calls, no disk.
const HEARTBEAT: Duration = Duration::from_secs(4);

/// The clocks drift apart by less; a suspended machine sleeps longer.
const NAP: Duration = Duration::from_secs(2);

/// How often watches are tried again where there were none to be had.
const RETRY: Duration = Duration::from_secs(60);

/// How often a vault is polled at most,
const POLL_FLOOR: Duration = Duration::from_secs(2);

/// and how many times longer than the look itself is the pause after it: 2 % of a core.
const POLL_SHARE: u32 = 50;

/// How changes are noticed now.
enum Way {
    Watching { engine: Box<Engine>, tree: Tree, asked: Option<u64> },
    Polling { seen: Snapshot, next: Instant, retry: Instant },
    Lost,
}

pub(super) struct Worker {
    inbox: Arc<Inbox>,
    callers: Arc<Callers>,
    is_ignored: IgnoredDir,
    sink: Sink,
    stats: Latest<WatchStats>,
    way: Way,
    next_beat: Instant,
    /// When hints may be handed over again.
    free_at: Instant,
    /// How long the machine had slept at the last look.
    slept: Duration,
    pending: Hints,
    span: Option<Settle>,
}

impl Worker {
    /// Watches the whole vault, or polls it where that cannot be.
    pub fn start(
        inbox: Arc<Inbox>,
        callers: Arc<Callers>,
        is_ignored: IgnoredDir,
        sink: Sink,
    ) -> (Self, Latest<WatchStats>) {
        let stats = Latest::new(WatchStats {
            mode: WatchMode::Off { why: "not started yet".into() },
            watches: 0,
            limit: watch_limit(),
            alive: true,
            replaced: None,
        });
        let mut worker = Self {
            inbox,
            callers,
            is_ignored,
            sink,
            stats: stats.clone(),
            way: Way::Lost,
            next_beat: clock::now() + HEARTBEAT,
            free_at: clock::now(),
            slept: clock::slept(),
            pending: Hints::default(),
            span: None,
        };
        worker.begin();
        (worker, stats)
    }

    /// Works until told to stop. A turn that panics is named and the vault scanned.
    pub fn run(mut self) {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    tracing::error!("the watcher panicked; it goes on with a scan");
                    self.expect(Hints::everything());
                }
            }
        }
        self.end_way(Way::Lost);
    }

    fn turn(&mut self) -> bool {
        let noticed = self.inbox.take(self.wake_at(), self.free_at);
        if noticed.stop {
            return false;
        }
        // Who asked before this look is answered after it.
        let probes = self.callers.present(Wish::Probe);
        let flushes = match noticed.overflow || !matches!(self.way, Way::Watching { .. }) {
            // Their markers may be among what was lost, or were never made: all is looked at.
            true => self.callers.present(Wish::Flush),
            false => noticed.markers.clone(),
        };
        match &self.way {
            Way::Watching { .. } => {
                self.watch_on(noticed, !flushes.is_empty() || !probes.is_empty())
            }
            Way::Polling { .. } => self.poll_on(!flushes.is_empty()),
            Way::Lost => self.seek(),
        }
        if self.pending.is_empty() {
            self.inbox.handed_on();
        }
        self.callers.answer(&flushes, true);
        self.callers.answer(&probes, true);
        true
    }

    /// When there is something to do even if nothing is noticed.
    fn wake_at(&self) -> Instant {
        let next = match &self.way {
            Way::Polling { next, retry, .. } => *next.min(retry),
            Way::Watching { .. } | Way::Lost => self.next_beat,
        };
        self.span.map_or(next, |it| next.min(it.first.max(self.free_at)))
    }

    fn watch_on(&mut self, noticed: Noticed, flush: bool) {
        if noticed.suspect || (noticed.root && !self.inbox.house.is_there()) {
            return self.begin_again();
        }
        if clock::now() >= self.next_beat && !self.beat() {
            if self.inbox.house.is_there() {
                tracing::warn!("the watcher's thread ended; another one takes its place");
                self.stats.update(|it| it.replaced = Some(clock::now()));
            }
            return self.begin_again();
        }
        if let Err(err) = self.look(&noticed) {
            tracing::warn!(error = %err, "the vault can be watched no longer");
            return self.begin_again();
        }
        let everything = noticed.overflow || noticed.rescan;
        self.pending.merge(Hints {
            paths: noticed.names,
            rescan: everything,
            git: noticed.git,
            ..Hints::default()
        });
        if let Some(span) = noticed.span {
            self.span = Some(self.span.map_or(span, |it| it.merge(span)));
        }
        if !self.pending.is_empty() && self.span.is_none() {
            self.span = Some(Settle::at(clock::now()));
        }
        let is_free = self.span.is_some() && clock::now() >= self.free_at;
        if noticed.due || everything || flush || is_free {
            self.hand_over();
        }
    }

    /// Brings the watches in line with what was noticed of folders.
    fn look(&mut self, noticed: &Noticed) -> Result<(), WatchFailed> {
        let Way::Watching { engine, tree, .. } = &mut self.way else { return Ok(()) };
        let (house, is_ignored) = (&self.inbox.house, &mut *self.is_ignored);
        if noticed.overflow || noticed.rescan {
            tree.cover(engine, house, None, is_ignored)?;
        } else {
            let mut above: Option<&VaultPath> = None;
            for name in &noticed.folders {
                if above.is_some_and(|it| name.is_within(it.as_bytes())) {
                    continue; // looked at with the folder it lies in
                }
                if tree.cover(engine, house, Some(name), is_ignored)? == Seen::Folder {
                    self.pending.folders.insert(name.clone());
                    above = Some(name);
                }
            }
        }
        if noticed.overflow || noticed.git_folders {
            for dir in &self.inbox.git_dirs {
                tree.cover_git(engine, dir)?;
            }
        }
        let watches = tree.len();
        if self.stats.get().watches != watches {
            self.stats.update(|it| it.watches = watches);
        }
        Ok(())
    }

    /// Asks the library's thread for a sign of life; `false` when it did not answer the last time,
    /// or when the vault's folder is not there any more.
    fn beat(&mut self) -> bool {
        self.next_beat = clock::now() + HEARTBEAT;
        let pongs = self.inbox.pongs();
        let Way::Watching { asked, .. } = &mut self.way else { return true };
        let answered = asked.is_none_or(|it| it != pongs);
        // What other machines wrote on a shared disk while this one slept came with no event.
        let slept = clock::slept();
        if slept > self.slept + NAP {
            self.slept = slept;
            self.pending.merge(Hints::everything());
            self.span.get_or_insert_with(|| Settle::at(clock::now()));
        }
        *asked = Some(pongs);
        // The opening comes back as an event.
        let opened = fs::open(&self.inbox.house.root).is_ok();
        answered && opened && self.inbox.house.is_there()
    }

    fn poll_on(&mut self, now: bool) {
        if !self.inbox.house.is_there() {
            return self.begin_again();
        }
        let start = clock::now();
        if matches!(&self.way, Way::Polling { retry, .. } if start >= *retry) {
            self.retry();
        }
        let Way::Polling { seen, next, .. } = &mut self.way else { return };
        if !now && start < *next {
            return;
        }
        let later = Snapshot::take(&self.inbox.house, &self.inbox.git_dirs, &mut *self.is_ignored);
        let hints = seen.diff(&later);
        *seen = later;
        *next = clock::now() + pause_after(clock::now() - start);
        self.expect(hints);
        self.hand_over();
    }

    /// Tries to watch again; goes on polling where that still cannot be.
    fn retry(&mut self) {
        if self.stats.get().mode == WatchMode::PollingRemote {
            if let Way::Polling { retry, .. } = &mut self.way {
                *retry = clock::now() + RETRY;
            }
            return;
        }
        match self.try_watching() {
            Ok(way) => {
                tracing::info!("the vault is watched again");
                self.way = way;
                self.tell_stats();
                self.expect(Hints::everything());
                self.hand_over();
            }
            Err(_) => {
                if let Way::Polling { retry, .. } = &mut self.way {
                    *retry = clock::now() + RETRY;
                }
            }
        }
    }

    /// Looks whether the vault's folder came back.
    fn seek(&mut self) {
        self.next_beat = clock::now() + HEARTBEAT;
        if self.inbox.house.is_there() {
            self.begin_again();
        }
    }

    /// Ends this way of noticing and begins anew, with a scan for what lies between.
    fn begin_again(&mut self) {
        self.end_way(Way::Lost);
        self.begin();
        self.expect(match self.way {
            Way::Lost => Hints { lost: true, ..Hints::default() },
            _ => Hints::everything(),
        });
        self.hand_over();
    }

    fn begin(&mut self) {
        self.next_beat = clock::now() + HEARTBEAT;
        self.way = if !self.inbox.house.is_there() {
            Way::Lost
        } else {
            match remote_of(&self.inbox.house.root) {
                Some(remote) => self.polling(WatchMode::PollingRemote, &remote.kind),
                None => match self.try_watching() {
                    Ok(way) => way,
                    Err(err) => {
                        let (why, remedy) = explain(&err);
                        self.polling(WatchMode::Polling { why, remedy }, &err.to_string())
                    }
                },
            }
        };
        self.tell_stats();
    }

    fn try_watching(&mut self) -> Result<Way, WatchFailed> {
        let mut engine = Engine::start(&self.inbox)?;
        let mut tree = Tree::default();
        let covered = (|| {
            for dir in &self.inbox.git_dirs {
                tree.cover_git(&mut engine, dir)?;
            }
            tree.cover(&mut engine, &self.inbox.house, None, &mut *self.is_ignored)
        })();
        match covered {
            Ok(_) => Ok(Way::Watching { engine: Box::new(engine), tree, asked: None }),
            Err(err) => {
                // All or nothing: half a tree of watches looks like a whole one, and the user's
                // other programs need theirs.
                engine.end();
                Err(err)
            }
        }
    }

    fn polling(&mut self, mode: WatchMode, why: &str) -> Way {
        let start = clock::now();
        let seen = Snapshot::take(&self.inbox.house, &self.inbox.git_dirs, &mut *self.is_ignored);
        let end = clock::now();
        tracing::warn!(why, "the vault is polled");
        self.stats.update(|it| it.mode = mode);
        Way::Polling { seen, next: end + pause_after(end - start), retry: end + RETRY }
    }

    fn end_way(&mut self, next: Way) {
        if let Way::Watching { engine, .. } = std::mem::replace(&mut self.way, next) {
            engine.end();
        }
    }

    fn tell_stats(&self) {
        let limit = watch_limit();
        self.stats.update(|it| {
            it.limit = limit;
            it.alive = !matches!(self.way, Way::Lost);
            it.watches = 0;
            match &self.way {
                Way::Watching { tree, .. } => {
                    it.mode = WatchMode::Inotify;
                    it.watches = tree.len();
                }
                Way::Polling { .. } => {}
                Way::Lost => {
                    let why =
                        format!("`{}` is not there any more", self.inbox.house.root.display());
                    it.mode = WatchMode::Off { why };
                }
            }
        });
    }

    fn expect(&mut self, hints: Hints) {
        if !hints.is_empty() {
            self.pending.merge(hints);
            self.span.get_or_insert_with(|| Settle::at(clock::now()));
        }
    }

    fn hand_over(&mut self) {
        if !self.pending.is_empty() {
            let span = self.span.unwrap_or_else(|| Settle::at(clock::now()));
            (self.sink)(std::mem::take(&mut self.pending), span);
            self.free_at = clock::now() + GATHER;
        }
        self.span = None;
    }
}

/// How long to leave the disk alone after a look at it that took `cost`.
fn pause_after(cost: Duration) -> Duration {
    (cost * POLL_SHARE).max(POLL_FLOOR)
}

/// Why the vault is polled, and what a person can do about it.
fn explain(err: &WatchFailed) -> (String, String) {
    match err {
        WatchFailed::Limit => {
            let limit = watch_limit();
            let setting = limit.map_or("fs.inotify.max_user_watches", |it| it.setting);
            let now = limit.map_or(String::new(), |it| format!(" ({setting} = {})", it.watches));
            (
                format!("inotify watch limit reached{now}"),
                format!(
                    "`sudo sysctl {setting}=524288`; to keep it, write `{setting} = 524288` to \
                     `/etc/sysctl.d/60-inotify.conf`. A raised limit is noticed by itself within a minute."
                ),
            )
        }
        WatchFailed::Instances => (
            "limit of inotify instances or open files reached".into(),
            "`sudo sysctl fs.inotify.max_user_instances=1024`, which is noticed by itself within a \
             minute; or a higher `ulimit -n` and a restart."
                .into(),
        ),
        WatchFailed::Nothing | WatchFailed::Dead | WatchFailed::Other(_) => (
            format!("inotify does not work here: {err}"),
            "none needed: changes are found by polling, a little later".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_takes_a_fiftieth_of_the_time_at_most() {
        assert_eq!(pause_after(Duration::from_millis(5)), Duration::from_secs(2));
        assert_eq!(pause_after(Duration::from_millis(200)), Duration::from_secs(10));
    }

    #[test]
    fn a_limit_names_its_setting() {
        let (why, remedy) = explain(&WatchFailed::Limit);
        assert!(why.starts_with("inotify watch limit reached"));
        assert!(remedy.contains("sysctl") && remedy.contains("watches"));
        assert!(remedy.contains("noticed by itself within a minute"));
        assert!(explain(&WatchFailed::Instances).1.contains("max_user_instances"));
    }
}

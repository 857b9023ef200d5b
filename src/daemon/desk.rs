//! Answers questions for the mount and the socket.
//!
//! Reads the house's mailboxes, asks the intake. Any thread.
//!
//! **Invariant:** both doors get their pages from here, so that they give the same bytes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::fs::PathError;
use crate::base::trouble::{Trouble, told};
use crate::daemon::allowance::Allowance;
use crate::daemon::house::{House, Progress, Shelf};
use crate::daemon::intake::{Ask, Claimed, Flushed, STILL_THERE};
use crate::daemon::looks::{self, Ground};
use crate::daemon::problems::Level;
use crate::daemon::reindex::{self, CallOff, Stage};
use crate::daemon::reranking::{self, Choice, Rerankers};
use crate::daemon::settings::{self, Reloaded};
use crate::daemon::{health, in_past, pages};
use crate::index::{Card, IndexView, Scope};
use crate::mount::{Answers, Unanswered};
use crate::render::{AsOf, counted};
use crate::search::contexts::Contexts;
use crate::search::{self, Leave, Look, Query, QueryError, Rerank, Results};
use crate::serve::socket::{Caller, Handler};
use crate::serve::{Answer, Form, Request};
use crate::watch::{Hints, Settle, Watcher};

mod change;
mod lint;
mod mount;
mod notify;
mod past;
mod views;

/// How long a query may take before its page is what was found so far.
const SEARCH_LIMIT: Duration = Duration::from_secs(3);

/// How long the marker may take through the watcher.
const MARKER_LIMIT: Duration = Duration::from_secs(1);

/// How long whoever asks waits for an edit that is on its way through the watcher …
const CATCH_UP_LIMIT: Duration = Duration::from_millis(50);
/// … and for a look at it. The page counts it where that was not enough.
const DRAFTS_LIMIT: Duration = Duration::from_millis(150);

/// How often what changed while it settled is taken along: a hook may change files at each commit.
const MORE_ROUNDS: usize = 4;

/// The pauses between two tries to settle.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long accepting held deletions may take.
const ACCEPT_LIMIT: Duration = Duration::from_secs(110);

/// Answers from one house.
pub struct Desk {
    house: House,
    /// Gone while the agent stops.
    watcher: Option<Weak<Watcher>>,
    contexts: Contexts,
    rerankers: Rerankers,
    allowance: Allowance,
}

impl Desk {
    pub fn new(house: House, watcher: Option<Weak<Watcher>>) -> Self {
        let (contexts, rerankers) = (Contexts::default(), Rerankers::default());
        Self { house, watcher, contexts, rerankers, allowance: Allowance::default() }
    }

    /// Reads the settings again; keeps the last good ones where that fails.
    pub fn reload(&self) -> Answer {
        let policy = self.house.settings.get().secrets;
        match settings::reload(&self.house) {
            Ok(Reloaded { layout_moved, warnings }) => {
                let mut said = if layout_moved {
                    "Settings are read again; names of folders change at the next start."
                } else {
                    "Settings are read again."
                }
                .to_owned();
                for warning in &warnings {
                    said.push_str(&format!("\nwarning: {warning}"));
                }
                tracing::info!("settings read again");
                if self.house.settings.get().secrets != policy {
                    // The committer looks again at what is held.
                    let hints = Hints { git: true, ..Hints::default() };
                    self.house.hint(hints, Settle::at(clock::now()));
                }
                // The indexer looks whether another model is meant.
                self.house.ledger.update(|_| {});
                Answer::Done { said, paths: Vec::new() }
            }
            Err(err) => Answer::Failed {
                message: told(&err),
                hint: Some("The last good settings go on.".to_owned()),
                usage: false,
            },
        }
    }

    fn settle(&self, limit: Duration, caller: &Caller) -> Answer {
        let deadline = clock::now() + limit;
        let left = || deadline.saturating_duration_since(clock::now());
        // What is on its way through the watcher arrives first, so that nothing is left over for
        // later; the look at everything below needs none of it to be complete.
        let is_watched = self.hear_watcher(left());
        let mut rounds = 0;
        let mut pause = FIRST_PAUSE;
        let flushed = loop {
            let flushed = self.house.intake.ask(Ask::Flush, left(), &|| caller.is_gone());
            match flushed {
                // A lock that is held, or a file that is being written: it passes. A disk that is
                // full does not, and each try looks at everything.
                Some(Flushed { committed: false, needs_person: false, .. })
                    if left() > 2 * pause && !caller.is_gone() =>
                {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                // What a hook, or a person while it ran, changed belongs to what was asked for.
                Some(Flushed { committed: true, .. })
                    if is_watched
                        && rounds < MORE_ROUNDS
                        && self.hear_watcher(left())
                        && self.house.intake.pending() > 0
                        && !self.house.intake.is_paused() =>
                {
                    rounds += 1;
                }
                other => break other,
            }
        };
        let Some(flushed) = flushed else {
            return self.settled(false, self.still_at_work(), false);
        };
        let mut waiting_for = flushed.waiting_for;
        if flushed.needs_person || !flushed.committed {
            let held = self.house.ledger.get().held.len();
            if held > 0 {
                let held = counted(held, "deletion", "deletions");
                waiting_for.push(format!("{held} held back (`remd accept`)"));
            }
            return self.settled(false, waiting_for, flushed.needs_person);
        }
        // The index follows; HEAD may move on meanwhile, which is no part of this call.
        let Some(head) = self.house.ledger.get().head.map(|it| it.commit) else {
            return self.settled(true, waiting_for, false);
        };
        let mut seen = 0;
        loop {
            let (version, shelf) = self.house.shelf.get_versioned();
            let is_at_work = shelf.progress.is_some() || self.is_checked(&shelf);
            if !is_at_work
                && shelf.view.and_then(|it| it.at()).is_some_and(|at| self.reached(at, head))
            {
                return self.settled(true, waiting_for, false);
            }
            seen = seen.max(version);
            let newer = self.house.shelf.wait_newer(seen, left().min(STILL_THERE));
            if newer.is_none() && (left().is_zero() || caller.is_gone()) {
                return self.settled(
                    false,
                    vec!["the index is still behind HEAD".to_owned()],
                    false,
                );
            }
        }
    }

    /// Lets what is on its way through the watcher arrive; says whether it did.
    fn hear_watcher(&self, limit: Duration) -> bool {
        let Some(watcher) = self.watcher.as_ref().and_then(Weak::upgrade) else { return false };
        let is_heard = watcher.flush(limit.min(MARKER_LIMIT));
        if !is_heard {
            tracing::debug!("the marker did not come through the watcher; the scan decides");
        }
        is_heard
    }

    /// Lets the events that are there arrive, so that what was just saved is known.
    fn catch_up(&self) {
        if let Some(watcher) = self.watcher.as_ref().and_then(Weak::upgrade)
            && !watcher.catch_up(CATCH_UP_LIMIT)
        {
            tracing::debug!("the watcher did not answer in time, or has no events");
        }
    }

    /// Lets what was just saved be found: it is noticed, and looked at.
    fn look_at_edits(&self) {
        self.catch_up();
        // There is nothing to be in front of before.
        let is_ready = self.index_view().is_some_and(|it| it.at().is_some());
        if is_ready && !self.house.intake.wait_looked(DRAFTS_LIMIT) {
            tracing::debug!("an edit is not looked at yet; the page counts it");
        }
    }

    /// What the committer waits for, where it waits for something.
    fn still_at_work(&self) -> Vec<String> {
        let now = clock::unix_seconds();
        let at_work = health::at_work(&self.house);
        let waited_for = at_work.iter().filter(|it| it.is_waited_for).map(|it| it.text(now));
        let waited_for: Vec<String> = waited_for.collect();
        match (waited_for.is_empty(), self.house.ledger.get().waiting_for) {
            (false, _) => waited_for,
            (true, Some(why)) => vec![why],
            (true, None) => vec!["the committer is still at work".to_owned()],
        }
    }

    /// Whether the index's files are still looked at, or have to be. A disk that keeps it from that
    /// is named, and not waited for.
    fn is_checked(&self, shelf: &Shelf) -> bool {
        if shelf.is_looked_at {
            return true;
        }
        let Some(view) = &shelf.view else { return false };
        if self.house.problems.is_open("index") {
            return false;
        }
        if view.is_taken_away() {
            // The indexer looks at once.
            self.house.ledger.update(|_| {});
            return true;
        }
        !view.is_proven()
    }

    /// Whether the index at `at` holds `head`: the same, or something later.
    fn reached(&self, at: crate::vault::CommitId, head: crate::vault::CommitId) -> bool {
        at == head || self.house.ledger.get().head.is_some_and(|it| it.commit == at)
    }

    fn settled(&self, settled: bool, waiting_for: Vec<String>, needs_person: bool) -> Answer {
        let status = Box::new(Answers::status(self));
        Answer::Settled { settled, waiting_for, needs_person, status }
    }

    fn accept(&self, dry_run: bool, caller: &Caller) -> Answer {
        let held: Vec<String> =
            self.house.ledger.get().held.iter().map(|it| it.to_string()).collect();
        if held.is_empty() {
            return Answer::Done { said: "Nothing is held back.".to_owned(), paths: Vec::new() };
        }
        if dry_run {
            let files = counted(held.len(), "file", "files");
            let said = format!("Would commit the deletion of {files}.");
            return Answer::Done { said, paths: held };
        }
        match self.house.intake.accept(ACCEPT_LIMIT, &|| caller.is_gone()) {
            Claimed::Done(Flushed { committed: true, accepted, .. }) => Answer::Done {
                said: format!(
                    "Committed the deletion of {}.",
                    counted(accepted.len(), "file", "files")
                ),
                paths: accepted.iter().map(|it| it.to_string()).collect(),
            },
            Claimed::Done(flushed) => Answer::Failed {
                message: format!("Not committed: {}", flushed.waiting_for.join("; ")),
                hint: Some("It is accepted, and committed as soon as that is over.".to_owned()),
                usage: false,
            },
            Claimed::Begun => Answer::Failed {
                message: "It is accepted, and not committed yet".to_owned(),
                hint: Some("`remd status` says what the committer does.".to_owned()),
                usage: false,
            },
            Claimed::Withdrawn => Answer::Failed {
                message: "The committer did not come to it in time; nothing is accepted".to_owned(),
                hint: Some("`remd status` says what it does; then ask again.".to_owned()),
                usage: false,
            },
        }
    }

    fn reindex(&self, scope: Scope, dry_run: bool) -> Answer {
        if !self.house.is_vault_there() {
            let message = "The vault is not there".to_owned();
            return Answer::Failed { message, hint: None, usage: false };
        }
        if let Some((scope, stage)) = self.house.reindex.under_way() {
            return under_way(scope, &stage);
        }
        if dry_run {
            let notes = self.index_view().map_or(0, |it| it.counts().notes);
            return Answer::Done { said: reindex::would(scope, notes), paths: Vec::new() };
        }
        match self.house.reindex.ask(scope, &self.metadata()) {
            Ok(Ok(())) => {
                // The indexer looks at once.
                self.house.ledger.update(|_| {});
                let said = format!(
                    "{} is made anew in the background; the old one answers meanwhile. `remd status` \
                     says how far it is, `remd reindex --cancel` ends it.",
                    reindex::what(scope)
                );
                Answer::Done { said, paths: Vec::new() }
            }
            Ok(Err((scope, stage))) => under_way(scope, &stage),
            Err(err) => Answer::Failed {
                message: format!("It cannot be begun: {}", told(&err)),
                hint: Trouble::of(&err.source).map(|it| it.hint().to_owned()),
                usage: false,
            },
        }
    }

    fn cancel_reindex(&self) -> Answer {
        match self.house.reindex.call_off(&self.metadata()) {
            Ok(CallOff::Done(scope)) => {
                self.house.ledger.update(|_| {});
                let said = format!("Called off; {} stays as it was.", reindex::what_was(scope));
                Answer::Done { said, paths: Vec::new() }
            }
            Ok(CallOff::TooLate(scope)) => {
                let said = format!("It is too late: {} is put in place.", reindex::what_was(scope));
                Answer::No { said, hint: None }
            }
            Ok(CallOff::None) => {
                Answer::No { said: "Nothing is being made anew.".to_owned(), hint: None }
            }
            Err(err) => Answer::Failed {
                message: format!("It cannot be called off: {}", told(&err)),
                hint: Trouble::of(&err.source).map(|it| it.hint().to_owned()),
                usage: false,
            },
        }
    }

    fn metadata(&self) -> PathBuf {
        self.house.vault.join(&self.house.settings.get().layout.metadata)
    }

    fn page(&self, query: &Query, form: Form) -> Answer {
        let choice = self.rerankers.chosen(&self.house.settings.get());
        if matches!(choice, Choice::Off) {
            self.house.problems.clear("reranker");
        }
        match self.results(query, &choice, clock::now() + SEARCH_LIMIT, Leave::Freely) {
            Ok(results) => pages::answer(query, &results, form, &self.house.vault),
            Err(err) => Answer::Failed { message: err.to_string(), hint: err.hint(), usage: true },
        }
    }

    fn results(
        &self,
        query: &Query,
        choice: &Choice,
        until: Instant,
        leave: Leave<'_>,
    ) -> Result<Results, QueryError> {
        if let Some(moment) = &query.at {
            let layout = self.house.settings.get().layout;
            return in_past::search(&self.house.reader, &layout, query, moment, until);
        }
        self.look_at_edits();
        let shelf = self.house.shelf.get();
        let Some(view) = shelf.view else {
            return Ok(pages::not_ready(shelf.progress));
        };
        let now = clock::now();
        let named = query.context.as_deref();
        let (given, expired) = named.map(|it| self.contexts.given(it, now)).unwrap_or_default();
        let rules = settings::rules(&self.house.settings.get());
        let wider = reranking::wider(choice, query);
        let search = || search::search_but(&view, &wider, rules, until, &given, leave);
        let mut results = match self.trusted(&view, search) {
            None => pages::damaged(view.at()),
            Some(found) => {
                let (mut results, skipped) = found?;
                match reranking::apply(choice, query, &mut results) {
                    Some(why) => self.house.problems.report(
                        "reranker",
                        Level::Warning,
                        &format!("Hits are not reranked: {why}"),
                        "Mend `reranker_config` in the user's settings, or its server; the hits \
                         stand in their own order until then.",
                    ),
                    None if matches!(results.rerank, Rerank::Done(_)) => {
                        self.house.problems.clear("reranker");
                    }
                    None => {}
                }
                results.dedup = named.map(|it| {
                    let before = (given.len(), expired);
                    self.contexts.finish(it, before, skipped, &results.hits, now)
                });
                results
            }
        };
        results.commits_behind = health::commits_behind(&self.house);
        results.edits_uncommitted = health::edits_uncommitted(&self.house);
        results.kept_out = health::kept_out(&self.house);
        results.unseen = health::unseen(&self.house);
        results.partial = self.unfinished(shelf.progress, &view).or(results.partial);
        Ok(results)
    }

    /// Why what the view says is only a part of what is there: never empty for unfinished.
    fn unfinished(&self, progress: Option<Progress>, view: &IndexView) -> Option<String> {
        let ledger = self.house.ledger.get();
        match progress {
            Some(progress) => Some(pages::progress_text(progress)),
            None if view.at().is_some() => None,
            None if !ledger.looked => {
                Some("the vault is being looked at for the first time".to_owned())
            }
            None => ledger.head.is_some().then(|| "the index is not built yet".to_owned()),
        }
    }

    /// What is seen beside a search.
    fn look(&self, look: &Look, form: Form) -> Answer {
        let until = clock::now() + SEARCH_LIMIT;
        let seen = self.grounded(Leave::Freely, |ground| looks::answer(ground, look, form, until));
        seen.unwrap_or_else(|err| Answer::Failed {
            message: err.to_string(),
            hint: Some("Ask again in a moment.".to_owned()),
            usage: false,
        })
    }

    /// What is asked of the index as it is now.
    fn grounded<T>(
        &self,
        leave: Leave<'_>,
        ask: impl FnOnce(&Ground<'_>) -> T,
    ) -> Result<T, Unanswered> {
        self.look_at_edits();
        let shelf = self.house.shelf.get();
        let not_yet = |why: &str| Unanswered::NotYet(why.to_owned());
        let view = shelf.view.ok_or_else(|| not_yet("the index is being opened"))?;
        let as_of = |is_asked: &dyn Fn(&Card) -> bool| self.as_of(&view, is_asked);
        let ground = Ground {
            view: &view,
            as_of: &as_of,
            partial: self.unfinished(shelf.progress, &view),
            rules: settings::rules(&self.house.settings.get()),
            leave,
            vault: &self.house.vault,
        };
        self.trusted(&view, || ask(&ground))
            .ok_or_else(|| not_yet("another program changed the index's files"))
    }

    /// What a view says, unless somebody touched the files that it reads.
    fn trusted<T>(&self, view: &IndexView, ask: impl FnOnce() -> T) -> Option<T> {
        // What was written over may be anything, and the library trusts it.
        let answered = catch_unwind(AssertUnwindSafe(ask));
        match (view.check(), answered) {
            (Ok(()), Ok(answered)) => Some(answered),
            (Ok(()), Err(fault)) => resume_unwind(fault),
            (Err(damage), _) => {
                tracing::debug!(%damage, "an answer is thrown away");
                // The indexer looks at once.
                self.house.ledger.update(|_| {});
                None
            }
        }
    }

    /// What a page about these notes is true for.
    fn as_of(&self, view: &IndexView, is_asked: impl Fn(&Card) -> bool) -> AsOf {
        AsOf {
            at: view.at(),
            commits_behind: health::commits_behind(&self.house),
            edits_uncommitted: health::edits_uncommitted(&self.house),
            kept_out: health::kept_out(&self.house),
            unseen: health::unseen(&self.house),
            notes_in_part: search::in_part(view, is_asked),
        }
    }

    fn index_view(&self) -> Option<Arc<IndexView>> {
        self.house.shelf.get().view
    }
}

/// There is one already.
fn under_way(scope: Scope, stage: &Stage) -> Answer {
    let (name, how_far) = (scope.name(), stage.text());
    Answer::No {
        said: format!("A reindex (`{name}`) is under way: {how_far}."),
        hint: Some("Wait for its end, or end it with `remd reindex --cancel`.".to_owned()),
    }
}

impl Handler for Desk {
    fn answer(&self, request: Request, caller: &Caller) -> Answer {
        match request {
            Request::Status => Answer::Status(Box::new(Answers::status(self))),
            Request::Settle { timeout_ms } => {
                self.settle(Duration::from_millis(timeout_ms), caller)
            }
            Request::Search { query, form } => self.page(&query, form),
            Request::Look { look, form } => self.look(&look, form),
            Request::Notify { event } => self.hear_git(&event),
            Request::Lint { asked } => self.lint(&asked, caller),
            Request::Change { wish, dry_run } => self.change(&wish, dry_run, caller),
            Request::Accept { dry_run } => self.accept(dry_run, caller),
            Request::Pause => {
                self.house.intake.set_paused(true);
                let said = "Committing is paused; edits wait. Go on with `remd resume`.".to_owned();
                Answer::Done { said, paths: Vec::new() }
            }
            Request::Resume => {
                self.house.intake.set_paused(false);
                Answer::Done { said: "Committing goes on.".to_owned(), paths: Vec::new() }
            }
            Request::Reload => self.reload(),
            Request::Reindex { scope, dry_run } => match Scope::named(&scope) {
                Some(scope) => self.reindex(scope, dry_run),
                None => Answer::Failed {
                    message: format!("There is no scope `{scope}`"),
                    hint: Some(format!("One of `{}`.", Scope::NAMES.join("`, `"))),
                    usage: true,
                },
            },
            Request::CancelReindex => self.cancel_reindex(),
        }
    }

    fn is_reachable(&self, trouble: Option<&PathError>) {
        match trouble {
            None => self.house.problems.clear("socket"),
            Some(err) => self.house.problems.report(
                "socket",
                Level::Error,
                &format!("The socket was removed, and no command reaches the agent: {}", told(err)),
                "It listens again by itself as soon as that folder can be made; edits are committed.",
            ),
        }
    }
}

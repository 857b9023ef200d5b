//! What the mount asks the desk.
//!
//! Reads the house's mailboxes, gives what stands behind the files. Called from the mount's threads.
//!
//! **Invariant:** whoever only looks (a listing, a size) has nobody outside asked; whoever opens a
//! page may, so often a minute, and is told where it was not done.

use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::base::clock;
use crate::daemon::desk::Desk;
use crate::daemon::reranking::Choice;
use crate::daemon::{health, looks, settings};
use crate::embed::Embedder;
use crate::index::{Card, IndexView};
use crate::mount::{Answers, EntryKind, Means, Unanswered};
use crate::render::links::{Direction, Links};
use crate::render::nodes::Nodes;
use crate::render::status::Status;
use crate::search::{ENOUGH, Leave, Neighbour, Query, Results, UNASKED};
use crate::vault::VaultPath;

impl Desk {
    /// Whether a page may have a provider asked now; counts it.
    fn leave(&self) -> Result<(), &'static str> {
        let most = self.house.settings.get().paid_per_minute;
        let is_left = self.allowance.take(most, clock::now());
        if is_left {
            self.house.tally.sent();
            return Ok(());
        }
        self.house.tally.withheld();
        Err(ENOUGH)
    }
}

impl Answers for Desk {
    fn view(&self) -> u64 {
        // What was just saved makes another page.
        self.catch_up();
        // All that a whole page says, and no more: whatever else moves in the house changes none.
        let edits = health::edits_uncommitted(&self.house);
        let kept_out = health::kept_out(&self.house);
        let unseen = health::unseen(&self.house);
        let head = self.house.ledger.get().head.map(|it| it.commit);
        let shelf = self.house.shelf.get();
        let mut mixed = std::hash::DefaultHasher::new();
        (edits, kept_out, unseen, head, shelf.generation, shelf.progress.is_some())
            .hash(&mut mixed);
        // The day too: `today.md`, and answers to `last week`, are others tomorrow.
        clock::today().hash(&mut mixed);
        format!("{:?}", settings::rules(&self.house.settings.get())).hash(&mut mixed);
        mixed.finish()
    }

    fn asks_outside(&self) -> bool {
        self.index_view().is_some_and(|it| it.embedder().is_some_and(Embedder::is_remote))
    }

    fn search(&self, query: &Query, means: Means, until: Instant) -> Result<Results, Unanswered> {
        crate::base::fault::hold("desk.search");
        // A server that reranks is for commands: whoever opens a page has not asked for it.
        let leave = || self.leave();
        let results = self.results(query, &Choice::Off, until, by(means, &leave));
        results.map_err(|err| Unanswered::Refused(err.to_string()))
    }

    fn nodes(&self, query: &Query, means: Means, until: Instant) -> Result<Nodes, Unanswered> {
        if query.at.is_some() {
            return Err(Unanswered::Refused("`at=` is an option of `search/`".to_owned()));
        }
        let leave = || self.leave();
        self.grounded(by(means, &leave), |ground| looks::nodes(ground, query, until))?
            .map_err(|err| Unanswered::Refused(err.to_string()))
    }

    fn similar(
        &self,
        path: &VaultPath,
        limit: usize,
        until: Instant,
    ) -> Result<Option<Results>, Unanswered> {
        let leave = Leave::Never(UNASKED);
        self.grounded(leave, |ground| looks::similar(ground, path, limit, until))
    }

    fn entry(&self, path: &VaultPath) -> Option<EntryKind> {
        let view = self.index_view()?;
        if view.note(path).is_some() {
            return Some(EntryKind::Note);
        }
        (!below(&view, path).is_empty()).then_some(EntryKind::Folder)
    }

    fn entries(&self, folder: &VaultPath) -> Vec<(Vec<u8>, EntryKind)> {
        let Some(view) = self.index_view() else { return Vec::new() };
        let mut entries: Vec<(Vec<u8>, EntryKind)> = Vec::new();
        for card in below(&view, folder) {
            let rest = &card.path.as_bytes()[folder.as_bytes().len() + 1..];
            let (name, kind) = match rest.iter().position(|it| *it == b'/') {
                Some(slash) => (&rest[..slash], EntryKind::Folder),
                None => (rest, EntryKind::Note),
            };
            if entries.last().is_none_or(|last| last.0 != name) {
                entries.push((name.to_vec(), kind));
            }
        }
        entries
    }

    fn links(&self, path: &VaultPath, direction: Direction) -> Option<Links> {
        let view = self.index_view()?;
        view.note(path)?;
        let neighbours = match direction {
            Direction::Out => view.outlinks(path).iter().map(Neighbour::from).collect(),
            Direction::In => view.inlinks(path).iter().map(Neighbour::from).collect(),
        };
        // Any note may link here from a part that is not read; a note's own links are its own.
        let as_of = self.as_of(&view, |it| matches!(direction, Direction::In) || it.path == *path);
        Some(Links { neighbours, as_of })
    }

    fn status(&self) -> Status {
        settings::look(&self.house);
        health::status(&self.house)
    }

    fn vault_root(&self) -> &Path {
        &self.house.vault
    }
}

fn by<'a>(means: Means, leave: &'a dyn Fn() -> Result<(), &'static str>) -> Leave<'a> {
    match means {
        Means::AtHand => Leave::Never(UNASKED),
        Means::Outside => Leave::If(leave),
    }
}

/// The indexed notes below a folder, by path.
fn below<'a>(view: &'a IndexView, folder: &VaultPath) -> &'a [Arc<Card>] {
    let prefix = [folder.as_bytes(), b"/"].concat();
    let notes = view.notes();
    let start = notes.partition_point(|it| it.path.as_bytes() < prefix.as_slice());
    let rest = &notes[start..];
    &rest[..rest.partition_point(|it| it.path.as_bytes().starts_with(&prefix))]
}

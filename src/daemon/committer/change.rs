//! Changes of the vault, by its only writer.
//!
//! Takes a wish from the intake, commits what is on disk, carries the wish out and tells everybody.
//! Committer thread only.

use crate::daemon::changing::{self, NotChanged};
use crate::daemon::committer::Committer;
use crate::daemon::intake::{Flushed, Moment};
use crate::history::Snapshot;
use crate::render::changed::Changed;
use crate::serve::protocol::Wish;
use crate::watch::Hints;

impl Committer {
    pub(super) fn change(&mut self, wish: &Wish, hints: Hints) -> Result<Changed, NotChanged> {
        if self.house.intake.is_paused() {
            self.house.intake.put_back(hints);
            self.house.intake.done();
            return Err(NotChanged {
                needs_person: true,
                ..NotChanged::new(
                    "Committing is paused; nothing is changed",
                    "`remd resume` lets it go on; then ask again.",
                )
            });
        }
        let Flushed { committed, waiting_for, needs_person, .. } = self.turn(hints, Moment::Quiet);
        if !committed && needs_person {
            let why = waiting_for.join("; ");
            return Err(NotChanged {
                needs_person,
                ..NotChanged::new(
                    format!("Nothing is changed, as what is on disk waits: {why}"),
                    "`remd status` says more; then ask again.",
                )
            });
        }
        let mut edits: Vec<Snapshot> = Vec::new();
        let changed = changing::change(&mut self.history, wish, &mut |it| edits.push(it.clone()));
        let snapshots = edits.into_iter().chain(changed.iter().filter_map(|it| it.1.clone()));
        for snapshot in snapshots.collect::<Vec<_>>() {
            self.publish(&snapshot);
        }
        changed.map(|it| it.0)
    }
}

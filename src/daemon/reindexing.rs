//! The indexer's part in a reindex: it begins it, and puts in place what was built.
//!
//! Takes what is asked for from the house, starts the thread `reindexer`, says when it is whole. The
//! indexer's thread.
//!
//! **Invariant:** the index in use follows HEAD all the while; however a reindex ends, the next one may
//! be asked for, and a failure is shown until one succeeds or is called off.

use std::path::Path;

use crate::base::fault;
use crate::base::trouble::told;
use crate::daemon::indexer::Indexer;
use crate::daemon::problems::Level;
use crate::daemon::reindex::{BuildError, Built, Turn};
use crate::index::{Index, Scope};
use crate::vault::Layout;

/// The problem of one that failed.
const PROBLEM: &str = "reindex";

impl Indexer {
    /// Goes on with what an agent before was asked for; what else lies beside the index goes.
    pub(super) fn take_up_reindex(&self, metadata: &Path) {
        let taken_up = self.house.reindex.take_up(metadata);
        let done = match taken_up {
            Ok(Some(_)) => return,
            Ok(None) => Index::clear_beside(metadata).map_err(|err| told(&err)),
            Err(err) => Err(told(&err)),
        };
        if let Err(why) = done {
            // It takes room, and nothing else; the next start tries again.
            tracing::warn!(why, "what lies beside the index stays");
        }
    }

    /// Begins what is asked for; gives its scope, and what was built, when that is to be put in place.
    pub(super) fn reindex(
        &self,
        index: &Index,
        layout: &Layout,
        metadata: &Path,
    ) -> Option<(Scope, Built)> {
        let reindex = &self.house.reindex;
        let scope = match reindex.turn(self.house.is_vault_there()) {
            Turn::Nothing => return None,
            Turn::Place(scope, built) => {
                tracing::info!(scope = scope.name(), "putting it in place");
                fault::hold("reindex.placing");
                return Some((scope, built));
            }
            Turn::Failed(scope, err) => {
                self.reindexed(scope, Err(err), metadata);
                return None;
            }
            Turn::Begin(scope) => scope,
        };
        // While it is not whole it is built or looked at already; then it is begun.
        let beside = index.beside(scope)?;
        reindex.begin();
        let (house, layout) = (self.house.clone(), layout.clone());
        let encoder = self.encoder.clone();
        let building = move || {
            let wake = || house.ledger.update(|_| {});
            let is_there = || house.is_vault_there();
            let health = || encoder.health();
            house.reindex.run(&beside, &house.reader, &layout, &is_there, &health, &wake);
        };
        let spawned = std::thread::Builder::new().name("reindexer".to_owned()).spawn(building);
        match spawned {
            Ok(_ends_by_itself) => tracing::info!(scope = scope.name(), "building anew"),
            Err(err) => {
                tracing::warn!(%err, "no thread for a reindex");
                self.reindexed(scope, Err(BuildError::NoThread(err)), metadata);
            }
        }
        None
    }

    /// It has ended, in whatever way.
    pub(super) fn reindexed(&self, scope: Scope, how: Result<(), BuildError>, metadata: &Path) {
        if let Err(err) = Index::clear_beside(metadata) {
            tracing::warn!(err = told(&err), "what lies beside the index stays");
        }
        match how {
            Ok(()) => {
                tracing::info!(scope = scope.name(), "the index built anew is in use");
                self.house.problems.clear(PROBLEM);
            }
            Err(BuildError::CalledOff) => {
                tracing::info!(scope = scope.name(), "a reindex is called off");
                self.house.problems.clear(PROBLEM);
            }
            Err(err) => {
                let name = scope.name();
                let what = format!("`remd reindex --scope {name}` has failed: {}", told(&err));
                self.house.problems.report(PROBLEM, Level::Warning, &what, &err.hint());
            }
        }
        // Last, so that whoever sees the end of it finds it done.
        if let Err(err) = self.house.reindex.over(metadata) {
            tracing::warn!(err = told(&err), "the next start will reindex once more");
        }
    }
}

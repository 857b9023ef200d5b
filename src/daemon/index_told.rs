//! What the indexer says of itself: what is wrong with the index, and when that is over.
//!
//! Takes why it could not follow, gives the problem `index` and the mark that its files are looked
//! at. The indexer's thread.
//!
//! **Invariant:** the problem is over before what ended it is shown, so that who waits for that
//! never finds both.

use crate::base::trouble::{Trouble, told};
use crate::daemon::cause;
use crate::daemon::indexer::Indexer;
use crate::daemon::problems::Level;
use crate::daemon::unread::DAMAGED_HISTORY;
use crate::history::ReadError;
use crate::index::{Index, IndexError};

/// Why the index could not follow.
#[derive(Debug, thiserror::Error)]
pub(super) enum FollowError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    History(#[from] ReadError),
    /// The committer says so.
    #[error("The vault is not there")]
    VaultAway,
    #[error("Stopped")]
    Stopped,
}

impl Indexer {
    /// The files are looked at as a whole; nothing of them is shown until then, unless it is
    /// believed.
    pub(super) fn look_anew(&self, why: &str, is_believed: bool) {
        self.house.shelf.update(|it| {
            it.is_looked_at = true;
            if !is_believed {
                it.view = None;
            }
        });
        let what = format!("The index is looked at anew: {why}");
        let remedy = "It mends itself; keep other programs out of the folder of derived state.";
        self.house.problems.report("index", Level::Warning, &what, remedy);
    }

    /// The index follows. What it could not write is over when nothing of it is left, and all that
    /// it wrote is there.
    pub(super) fn well(&self, index: &Index) {
        let was_looked_at = self.house.shelf.get().is_looked_at;
        let is_whole = || index.is_kept() && index.staged() == 0 && index.check().is_ok();
        if self.house.problems.is_open("index") && (was_looked_at || is_whole()) {
            self.house.problems.clear("index");
        }
        if was_looked_at {
            self.house.shelf.update(|it| it.is_looked_at = false);
        }
    }

    pub(super) fn unwell(&self, err: &FollowError) {
        if !self.house.is_vault_there() {
            // What fails then is no fault of the index; the committer says what it is.
            return;
        }
        // A build that failed is no build in progress.
        self.house.shelf.update(|it| {
            it.progress = None;
            it.is_looked_at = false;
        });
        let remedy = match err {
            FollowError::Index(err) => err.trouble().map_or_else(
                || err.hint(),
                |it| Some(cause::remedy(it, &[self.metadata().as_ref()])),
            ),
            FollowError::History(err) => Some(match Trouble::behind(err) {
                Some(trouble) => cause::remedy(trouble, &[&self.house.git_dir]),
                None => DAMAGED_HISTORY.to_owned(),
            }),
            FollowError::VaultAway | FollowError::Stopped => None,
        };
        let remedy = remedy.unwrap_or_else(|| "It is tried again by itself.".to_owned());
        let (index, git) = (self.metadata(), self.house.git_dir.display());
        let what = match err {
            FollowError::History(_) => format!("Notes cannot be read from `{git}`: {}", told(err)),
            FollowError::Index(IndexError::Damaged(why)) => {
                format!("The index in `{index}` is damaged: {why}")
            }
            err if err.spoils_the_index() => {
                format!("The index in `{index}` is damaged or gone: {}", told(err))
            }
            _ => format!("The index in `{index}` cannot follow: {}", told(err)),
        };
        self.report(&what, &remedy);
    }

    /// Where the index is, for people.
    fn metadata(&self) -> String {
        self.house.vault.join(self.house.settings.get().layout.metadata).display().to_string()
    }

    pub(super) fn report(&self, what: &str, remedy: &str) {
        self.house.problems.report("index", Level::Error, what, remedy);
    }
}

impl FollowError {
    /// Whether what is open cannot be trusted any more.
    pub(super) fn spoils_the_index(&self) -> bool {
        match self {
            Self::Index(err) => !err.is_transient(),
            Self::History(_) | Self::VaultAway | Self::Stopped => false,
        }
    }
}

//! What was just written can be searched: notes of the disk in front of those of the last commit.
//!
//! Takes what the committer's door knows of edits that no commit has, gives views with these laid
//! over. The indexer's thread.
//!
//! **Invariant:** a draft is looked at on the disk whenever something moves, and believed no longer
//! than that; what is no draft any more leaves the shelf with the next look.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::base::fs;
use crate::base::trouble::told;
use crate::daemon::house::Progress;
use crate::daemon::indexer::Indexer;
use crate::index::{Drafts, IndexView, Update};
use crate::vault::note::read_note;
use crate::vault::role::role_of;
use crate::vault::{Layout, VaultPath};

/// More edits than that at once are soon a commit, and searched then.
const MOST: usize = 100;
/// The same for what they say, in bytes.
const MOST_BYTES: usize = 4 << 20;
/// So many names are read of folders that nobody has looked into.
const MOST_NAMES: usize = 1000;

/// What is in front of the index.
#[derive(Default)]
pub(super) struct Front {
    /// The index itself, as it was published last.
    view: Option<Arc<IndexView>>,
    drafts: Drafts,
}

impl Indexer {
    /// Shows a view of the index, and what is known to be newer in front of it.
    pub(super) fn publish(&self, view: Arc<IndexView>, progress: Option<Progress>) {
        let mut front = self.front();
        if view.at().is_none() {
            // A build takes its time, and what is committed meanwhile may be newer than these.
            front.drafts = Drafts::default();
        }
        let shown = laid_over(&view, &front.drafts);
        front.view = Some(view);
        self.house.shelf.update(|it| {
            it.view = Some(shown);
            it.progress = progress;
            it.generation += 1;
        });
    }

    /// Looks which edits no commit has, and shows them.
    pub(super) fn look_at_drafts(&self, layout: &Layout) {
        let mut front = self.front();
        let Some(view) = front.view.clone().filter(|it| it.at().is_some()) else { return };
        let notes =
            if self.house.is_vault_there() { self.drafts(&view, layout) } else { Vec::new() };
        let same = notes.iter().filter_map(|it| match it {
            Update::Put { path, blob, .. } => Some((path, blob)),
            Update::Remove(_) => None,
        });
        let same: Vec<_> = same.collect();
        if front.drafts.are(same.into_iter()) {
            return;
        }
        front.drafts = match view.drafts(notes) {
            Ok(drafts) => drafts,
            Err(err) => {
                // The page counts them as uncommitted, and the commit brings them.
                tracing::warn!(err = told(&err), "edits are searched when they are committed");
                Drafts::default()
            }
        };
        let shown = laid_over(&view, &front.drafts);
        self.house.shelf.update(|it| {
            // Nothing comes back that was taken off the shelf.
            if it.view.is_some() {
                it.view = Some(shown);
                it.generation += 1;
            }
        });
    }

    /// The edits that `view` has not.
    fn drafts(&self, view: &IndexView, layout: &Layout) -> Vec<Update> {
        let named = Arc::clone(&self.house.ledger.get().named);
        let mut paths = BTreeSet::new();
        let mut names = MOST_NAMES;
        for path in self.house.intake.first_edits(&named, MOST) {
            self.add_notes(path, layout, &mut names, &mut paths);
        }
        if paths.is_empty() {
            return Vec::new();
        }
        let is_known = |path: &VaultPath| view.note(path).is_some();
        let drafts = match self.house.reader.drafts(paths.iter().take(MOST), &is_known) {
            Ok(drafts) => drafts,
            Err(err) => {
                tracing::debug!(err = told(&err), "edits are searched when they are committed");
                return Vec::new();
            }
        };
        let mut bytes = 0;
        let drafts = drafts.into_iter().filter(|it| {
            bytes += it.bytes.len();
            // What was emptied keeps what it said until the commit.
            let is_empty = it.bytes.iter().all(u8::is_ascii_whitespace);
            let is_new = view.note(&it.path).is_none_or(|known| known.blob != it.blob);
            is_new && !is_empty && bytes <= MOST_BYTES
        });
        let put = |it: crate::history::Draft| {
            let (role, doc) = (role_of(&it.path, layout), read_note(&it.path, &it.bytes));
            Update::Put { path: it.path, blob: it.blob, role, doc }
        };
        drafts.map(put).collect()
    }

    /// A note, or those in a folder that is new.
    fn add_notes(
        &self,
        path: VaultPath,
        layout: &Layout,
        names: &mut usize,
        to: &mut BTreeSet<VaultPath>,
    ) {
        if role_of(&path, layout).is_indexed() {
            to.insert(path);
            return;
        }
        let on_disk = self.house.vault.join(path.as_path());
        if !fs::lstat(&on_disk).is_ok_and(|it| it.is_dir()) {
            return;
        }
        for entry in fs::read_dir(&on_disk).unwrap_or_default() {
            let Some(left) = names.checked_sub(1) else { return };
            *names = left;
            if let Ok(below) = entry.path().strip_prefix(&self.house.vault)
                && let Ok(below) = VaultPath::from_os(below)
            {
                self.add_notes(below, layout, names, to);
            }
        }
    }

    // Whatever a panic interrupted, both parts are whole.
    fn front(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn laid_over(view: &Arc<IndexView>, drafts: &Drafts) -> Arc<IndexView> {
    view.laid_over(drafts).unwrap_or_else(|err| {
        tracing::warn!(err = told(&err), "edits are searched when they are committed");
        Arc::clone(view)
    })
}

//! What was just written can be searched: notes of the disk in front of those of the last commit.
//!
//! Takes what the committer's door knows of edits that no commit has, gives views with these laid
//! over. The indexer's thread.
//!
//! **Invariant:** a draft is looked at on the disk whenever something moves, and believed no longer
//! than that; what is no draft any more leaves the shelf with the next look. The newest edits come
//! first, and a look costs a small part of the time however many there are.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::trouble::told;
use crate::base::{clock, fs};
use crate::daemon::changes::is_left_out;
use crate::daemon::house::Progress;
use crate::daemon::indexer::Indexer;
use crate::history::{FileState, LONGEST_DRAFT};
use crate::index::{Card, Drafts, IndexView, Update};
use crate::vault::note::read_note;
use crate::vault::role::role_of;
use crate::vault::{BlobId, Layout, VaultPath};

/// More edits than that at once are soon a commit, and searched then.
const MOST: usize = 100;
/// The same for what they say, in bytes.
const MOST_BYTES: u64 = 4 << 20;
/// So many places are looked at for the newest of them.
const MOST_PLACES: usize = 2000;
/// So many names are read of folders that nobody has looked into.
const MOST_NAMES: usize = 1000;
/// After a look the disk is left alone for so many times as long as it took …
const PAUSE: u32 = 4;
/// … but at least and at most so long.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
const MOST_PAUSE: Duration = Duration::from_secs(1);

/// What is in front of the index.
#[derive(Default)]
pub(super) struct Front {
    /// The index itself, as it was published last.
    view: Option<Arc<IndexView>>,
    drafts: Drafts,
    /// What was read of the edits that wait, so that it is not read again.
    read: BTreeMap<VaultPath, Known>,
    /// When the next look may be made.
    free_at: Option<Instant>,
    /// Whether something moved that was not looked at.
    is_owed: bool,
}

/// What a file said when it was read.
struct Known {
    state: FileState,
    blob: BlobId,
    /// What was emptied keeps what it said until the commit.
    is_empty: bool,
    /// Where it was a draft.
    put: Option<Update>,
}

impl Known {
    /// Whether this content is no draft in front of `view`.
    fn is_none(&self, path: &VaultPath, view: &IndexView) -> bool {
        self.is_empty || view.note(path).is_some_and(|it| it.blob == self.blob)
    }
}

/// A note on the disk that may be a draft.
struct Found {
    /// How new it is: when something was noticed there, and the system's own time of the last change.
    newness: (u64, (i64, i64)),
    size: u64,
    state: FileState,
    path: VaultPath,
}

/// What a look has found so far.
struct Finds<'a> {
    layout: &'a Layout,
    names: usize,
    found: Vec<Found>,
}

impl Indexer {
    /// How long until a look is to be made that was put off; `None` where none was.
    pub(super) fn drafts_owed_in(&self) -> Option<Duration> {
        let front = self.front();
        // Before there is a commit there is nothing that they could be in front of.
        let is_ready = front.view.as_ref().is_some_and(|it| it.at().is_some());
        (front.is_owed && is_ready).then(|| match front.free_at {
            Some(at) => at.saturating_duration_since(clock::now()),
            None => Duration::ZERO,
        })
    }

    /// Shows a view of the index, and what is known to be newer in front of it.
    pub(super) fn publish(&self, view: Arc<IndexView>, progress: Option<Progress>) {
        let mut front = self.front();
        if view.at().is_none() {
            // A build takes its time, and what is committed meanwhile may be newer than these.
            front.drafts = Drafts::default();
            front.is_owed = true;
        }
        let shown = laid_over(&view, &front.drafts);
        front.view = Some(view);
        self.house.shelf.update(|it| {
            it.view = Some(shown);
            it.progress = progress;
            it.generation += 1;
        });
    }

    /// Looks which edits no commit has, and shows them; gives notes whose text HEAD has and Git had
    /// not, now that the disk has it.
    pub(super) fn look_at_drafts(&self, layout: &Layout) -> Vec<Update> {
        let mut front = self.front();
        front.is_owed = true;
        let now = clock::now();
        if front.free_at.is_some_and(|it| now < it) {
            return Vec::new();
        }
        let Some(view) = front.view.clone().filter(|it| it.at().is_some()) else {
            return Vec::new();
        };
        front.is_owed = false;
        let noticed = self.house.intake.noticed();
        let (notes, came) = match self.house.is_vault_there() {
            true => self.drafts(&view, layout, &mut front),
            false => (Vec::new(), Vec::new()),
        };
        let took = clock::now() - now;
        front.free_at = Some(clock::now() + (took * PAUSE).clamp(LEAST_PAUSE, MOST_PAUSE));
        let same: Vec<_> = notes
            .iter()
            .filter_map(|it| match it {
                Update::Put { path, blob, .. } => Some((path, blob)),
                Update::Remove(_) => None,
            })
            .collect();
        if front.drafts.are(same.into_iter()) {
            self.house.intake.looked(noticed);
            return came;
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
        self.house.intake.looked(noticed);
        came
    }

    /// The edits that `view` has not, by path; and what HEAD has and `view` could not have.
    fn drafts(
        &self,
        view: &IndexView,
        layout: &Layout,
        front: &mut Front,
    ) -> (Vec<Update>, Vec<Update>) {
        let found = self.newest(layout);
        front.read.retain(|path, _| found.contains_key(path));
        let chosen = chosen(&found, &front.read, view);
        if chosen.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let is_known = |path: &VaultPath| view.note(path).is_some();
        let had = |path: &VaultPath| {
            let known = front.read.get(path).filter(|it| it.put.is_some());
            known.map(|it| it.state)
        };
        let looked = match self.house.reader.drafts(chosen.iter().copied(), &is_known, &had) {
            Ok(looked) => looked,
            Err(err) => {
                tracing::debug!(err = told(&err), "edits are searched when they are committed");
                return (Vec::new(), Vec::new());
            }
        };
        let (mut drafts, mut came) = (Vec::new(), Vec::new());
        for draft in looked {
            let path = draft.path;
            if let Some(text) = draft.text {
                let is_empty = text.bytes.iter().all(u8::is_ascii_whitespace);
                let mut known = Known { state: draft.state, blob: text.blob, is_empty, put: None };
                if known.is_none(&path, view) {
                    // There is room for another one.
                    front.is_owed = true;
                } else {
                    let (role, doc) = (role_of(&path, layout), read_note(&path, &text.bytes));
                    known.put =
                        Some(Update::Put { path: path.clone(), blob: text.blob, role, doc });
                }
                front.read.insert(path.clone(), known);
            }
            let Some(known) = front.read.get(&path) else { continue };
            let Some(put) = known.put.as_ref().filter(|_| !known.is_none(&path, view)) else {
                continue;
            };
            match self.is_in_head(view, &path, known.blob) {
                true if view.note(&path).is_some_and(|it| is_left_out(it)) => {
                    came.push(put.clone())
                }
                true => {}
                false => drafts.push(put.clone()),
            }
        }
        (drafts, came)
    }

    /// Whether a note of which the index has the name alone is in HEAD as the disk has it.
    fn is_in_head(&self, view: &IndexView, path: &VaultPath, blob: BlobId) -> bool {
        let is_nameless = |it: &Arc<Card>| it.blob.as_bytes().iter().all(|it| *it == 0);
        let head = view.at().filter(|_| view.note(path).is_some_and(is_nameless));
        // What cannot be had is no reason to call it an edit.
        head.is_some_and(|head| match self.house.reader.entry(head, path) {
            Ok(entry) => entry.is_some_and(|it| it.blob == blob),
            Err(err) => {
                tracing::debug!(err = told(&err), path = %path, "not known whether it is an edit");
                true
            }
        })
    }

    /// The notes at the newest edits, and in folders that are new.
    fn newest(&self, layout: &Layout) -> BTreeMap<VaultPath, Found> {
        let ledger = self.house.ledger.get();
        let named = Arc::clone(&ledger.named);
        let mut finds = Finds { layout, names: MOST_NAMES, found: Vec::new() };
        for (turn, path) in self.house.intake.newest_edits(&named, MOST_PLACES) {
            self.add_notes(path, turn, &mut finds);
        }
        // What is held for what looks like a credential may wait for long.
        for path in ledger.leaking.iter().take(MOST) {
            self.add_notes(path.clone(), 0, &mut finds);
        }
        // A folder may be named beside what is in it.
        finds.found.sort_by_key(|it| it.newness);
        finds.found.into_iter().map(|it| (it.path.clone(), it)).collect()
    }

    /// A note, or those in a folder that is new.
    fn add_notes(&self, path: VaultPath, turn: u64, to: &mut Finds<'_>) {
        let on_disk = self.house.vault.join(path.as_path());
        let Ok(meta) = fs::lstat(&on_disk) else { return };
        // Nothing that is mounted in the vault is looked into: it is not committed either.
        if meta.dev() != self.house.identity.0 {
            return;
        }
        if role_of(&path, to.layout).is_indexed() {
            if meta.is_file() && meta.len() <= LONGEST_DRAFT {
                let newness = (turn, (meta.ctime(), meta.ctime_nsec()));
                let (size, state) = (meta.len(), FileState::of(&meta));
                to.found.push(Found { newness, size, state, path });
            }
            return;
        }
        if !meta.is_dir() {
            return;
        }
        for entry in fs::read_dir(&on_disk).unwrap_or_default() {
            let Some(left) = to.names.checked_sub(1) else { return };
            to.names = left;
            if let Ok(below) = entry.path().strip_prefix(&self.house.vault)
                && let Ok(below) = VaultPath::from_os(below)
            {
                self.add_notes(below, turn, to);
            }
        }
    }

    // Whatever a panic interrupted, each part is whole.
    fn front(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The newest that may be drafts, as many as there is room for, by path. What is known to be none
/// takes no other's place.
fn chosen<'a>(
    found: &'a BTreeMap<VaultPath, Found>,
    read: &BTreeMap<VaultPath, Known>,
    view: &IndexView,
) -> Vec<&'a VaultPath> {
    let is_none = |it: &Found| {
        let known = read.get(&it.path).filter(|known| known.state.proves(&it.state));
        known.is_some_and(|known| known.is_none(&it.path, view))
    };
    let mut newest: Vec<&Found> = found.values().filter(|it| !is_none(it)).collect();
    newest.sort_by_key(|it| Reverse(it.newness));
    let mut left = MOST_BYTES;
    newest.retain(|it| {
        let rest = left.checked_sub(it.size);
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    newest.truncate(MOST);
    let mut paths: Vec<&VaultPath> = newest.into_iter().map(|it| &it.path).collect();
    paths.sort();
    paths
}

fn laid_over(view: &Arc<IndexView>, drafts: &Drafts) -> Arc<IndexView> {
    view.laid_over(drafts).unwrap_or_else(|err| {
        tracing::warn!(err = told(&err), "edits are searched when they are committed");
        Arc::clone(view)
    })
}

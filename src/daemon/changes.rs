//! What the index has to do about a path: from Git's differences to updates.
//!
//! Takes commits, gives the paths that differ and what they say in HEAD. Blocking, any thread.
//!
//! **Invariant:** a note that Git does not give keeps none of its neighbours out: it is there by
//! its name, with the reason among its problems.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::trouble::{Trouble, told};
use crate::history::{ReadError, Reader};
use crate::index::{Card, IndexView, Update};
use crate::vault::note::read_note;
use crate::vault::role::role_of;
use crate::vault::{BlobId, CommitId, Entry, FileMode, Layout, VaultPath};

/// Everything that differs between any of the cursors and `head`, as it is in `head`; `None` where
/// a cursor is none any more: its commit, or what that had, is gone from history while `head` is
/// whole.
pub fn changed_since(
    reader: &Reader,
    cursors: &BTreeSet<CommitId>,
    head: CommitId,
) -> Result<Option<BTreeMap<VaultPath, Option<Entry>>>, ReadError> {
    let mut changed = BTreeMap::new();
    for cursor in cursors {
        let changes = match reader.diff(Some(*cursor), head) {
            Ok(changes) => changes,
            Err(err) if Trouble::behind(&err).is_none() => {
                // A damaged HEAD is another matter: nothing can be built from it either.
                reader.list(head)?;
                tracing::debug!(cursor = %cursor.short(), %err, "a cursor is gone from history");
                return Ok(None);
            }
            Err(err) => return Err(err),
        };
        for (path, change) in changes.iter() {
            changed.insert(path.clone(), change.new);
        }
    }
    Ok(Some(changed))
}

/// Every path in `head` that the index holds.
pub fn indexed(
    reader: &Reader,
    head: CommitId,
    layout: &Layout,
) -> Result<Vec<(VaultPath, Entry)>, ReadError> {
    let mut list = reader.list(head)?;
    list.retain(|(path, entry)| is_read(path, entry, layout));
    Ok(list)
}

/// What an index of no one commit lacks of `notes`, the whole of HEAD, and what it has too much.
pub fn lacking(
    view: &IndexView,
    notes: Vec<(VaultPath, Entry)>,
    layout: &Layout,
) -> BTreeMap<VaultPath, Option<Entry>> {
    let mut lacking: BTreeMap<VaultPath, Option<Entry>> =
        view.notes().iter().map(|it| (it.path.clone(), None)).collect();
    for (path, entry) in notes {
        let card = view.note(&path);
        match card.is_some_and(|it| it.blob == entry.blob && it.role == role_of(&path, layout)) {
            true => lacking.remove(&path),
            false => lacking.insert(path, Some(entry)),
        };
    }
    lacking
}

/// What the index has to do about one path.
pub fn update(
    reader: &Reader,
    path: VaultPath,
    entry: Option<Entry>,
    layout: &Layout,
) -> Result<Update, ReadError> {
    Ok(match entry {
        Some(entry) if is_read(&path, &entry, layout) => {
            let doc = match reader.read_note(&path, entry.blob)? {
                Ok(bytes) => read_note(&path, &bytes),
                Err(why) => {
                    // Found by its name, and named in `status`; not by what stands for it.
                    let mut doc = read_note(&path, b"");
                    doc.problems.push(why);
                    doc
                }
            };
            Update::Put { role: role_of(&path, layout), blob: entry.blob, doc, path }
        }
        _ => Update::Remove(path),
    })
}

/// The same; of a note whose object in Git is damaged, or not here, only the name is indexed, with
/// the reason among its problems, so that it does not keep its neighbours out.
pub fn update_or_name(
    reader: &Reader,
    path: VaultPath,
    entry: Option<Entry>,
    layout: &Layout,
) -> Result<Update, ReadError> {
    let err = match update(reader, path.clone(), entry, layout) {
        Err(err) if Trouble::behind(&err).is_none() => err,
        other => return other,
    };
    // A repository that is gone as a whole is another matter.
    reader.head()?;
    let mut doc = read_note(&path, b"");
    let is_left_out = entry.is_some_and(|it| reader.is_left_out(it.blob));
    doc.problems = vec![match is_left_out {
        true => format!("{LEFT_OUT}: it is a partial clone, and nothing is fetched"),
        false => format!("{NOT_IN_GIT}: {}", told(&err)),
    }];
    // The content is unknown: whatever is read later is another one.
    let Some(blob) = BlobId::from_bytes(&[0; 20]) else { return Err(err) };
    Ok(Update::Put { role: role_of(&path, layout), blob, doc, path })
}

/// How the problem of a note begins whose content Git does not give.
const NOT_IN_GIT: &str = "cannot be read from Git";

/// The same where the content was never here.
const LEFT_OUT: &str = "its text is with the remote only";

/// The notes of a view whose content Git did not give.
pub fn not_in_git(view: &IndexView) -> impl Iterator<Item = &Card> {
    with_problem(view, NOT_IN_GIT)
}

/// The notes of a view whose content a partial clone has not got.
pub fn left_out(view: &IndexView) -> impl Iterator<Item = &Card> {
    with_problem(view, LEFT_OUT)
}

/// Whether a partial clone has not got what this note says.
pub fn is_left_out(card: &Card) -> bool {
    has_problem(card, LEFT_OUT)
}

fn has_problem(card: &Card, start: &str) -> bool {
    card.problems.iter().any(|it| it.starts_with(start))
}

fn with_problem<'a>(view: &'a IndexView, start: &'static str) -> impl Iterator<Item = &'a Card> {
    view.troubled().iter().map(|it| &**it).filter(move |it| has_problem(it, start))
}

/// Whether the content of a path is read for the index: a symlink's is only its target.
fn is_read(path: &VaultPath, entry: &Entry, layout: &Layout) -> bool {
    matches!(entry.mode, FileMode::File | FileMode::Executable)
        && role_of(path, layout).is_indexed()
}

//! Small vaults for tests.
//!
//! Takes paths and texts, gives updates, indexes in temporary folders, and what a view says in a
//! form that can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sha2::Digest as _;
use tempfile::TempDir;

use crate::base::clock;
use crate::index::{Ask, Index, IndexView, Opened, Update};
use crate::vault::note::read_note;
use crate::vault::role::role_of;
use crate::vault::{BlobId, CommitId, Layout, VaultPath};

pub(crate) fn path(text: impl AsRef<[u8]>) -> VaultPath {
    VaultPath::new(text).unwrap()
}

pub(crate) fn commit(number: u8) -> CommitId {
    CommitId::from_bytes(&[number; 20]).unwrap()
}

pub(crate) fn blob(bytes: &[u8]) -> BlobId {
    BlobId::from_bytes(&sha2::Sha256::digest(bytes)).unwrap()
}

pub(crate) fn put(at: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> Update {
    let (path, text) = (path(at), text.as_ref());
    let role = role_of(&path, &Layout::default());
    Update::Put { blob: blob(text), role, doc: read_note(&path, text), path }
}

pub(crate) fn remove(at: impl AsRef<[u8]>) -> Update {
    Update::Remove(path(at))
}

/// An index in `dir`, built from `notes` if it has to be.
pub(crate) fn open(dir: &Path, updates: Vec<Update>, at: CommitId) -> Index {
    let (mut index, opened) = Index::open(dir, &Layout::default()).unwrap();
    match opened {
        Opened::Ready { .. } => index.apply(updates, at).unwrap(),
        Opened::Rebuild(_) => rebuild(&mut index, updates, at),
        Opened::Unfinished => panic!("a build was left off"),
    }
    index
}

pub(crate) fn rebuild(index: &mut Index, updates: Vec<Update>, at: CommitId) {
    let mut rebuild = index.begin_rebuild(updates.len()).unwrap();
    for update in updates {
        if let Update::Put { path, blob, role, doc } = update {
            rebuild.add(&path, blob, role, &doc).unwrap();
        }
    }
    rebuild.finish(at).unwrap();
}

pub(crate) fn built<P: AsRef<[u8]>, T: AsRef<[u8]>>(
    notes: impl IntoIterator<Item = (P, T)>,
) -> (TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let updates = notes.into_iter().map(|(path, text)| put(path, text)).collect();
    let index = open(dir.path(), updates, commit(1));
    (dir, index)
}

pub(crate) fn hits(view: &IndexView, text: &str) -> BTreeSet<(String, u32)> {
    let deadline = clock::now() + Duration::from_secs(60);
    let found = view.find(&Ask::new(text), &|_| true, 200, deadline).unwrap();
    assert!(!found.cut);
    let line = |it: &crate::index::Candidate| it.card.chunks.get(it.chunk).map_or(0, |it| it.0);
    found.candidates.iter().map(|it| (it.card.path.to_string(), line(it))).collect()
}

/// All that a view knows of its notes.
pub(crate) fn facts(view: &Arc<IndexView>) -> BTreeMap<String, String> {
    view.notes()
        .iter()
        .map(|card| {
            let ties = |ties: &[crate::index::Tie]| -> Vec<String> {
                let tie = |it: &crate::index::Tie| {
                    format!("{} {:?} {:?}", it.card.path, it.anchors, it.relation)
                };
                ties.iter().map(tie).collect()
            };
            let fact = format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {:?} out {:?} in {:?}",
                card.blob,
                card.role,
                card.name,
                card.description,
                card.tags,
                card.date,
                card.chunks,
                ties(&view.outlinks(&card.path)),
                ties(&view.inlinks(&card.path)),
            );
            (card.path.to_string(), fact)
        })
        .collect()
}

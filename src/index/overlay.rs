//! What is searched already and not on the disk yet.
//!
//! Takes the documents of changed notes, gives small indexes in memory that are searched before
//! the one on disk, with the statistics of both. The indexer's thread; the indexes are shared
//! with views.
//!
//! **Invariant:** of each path only the newest change waits, and it is in some index here until
//! it is on the disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::index::card::Card;
use crate::index::schema::Fields;
use crate::index::shelf::Shelf;
use crate::vault::{NoteDoc, VaultPath};

/// Changes on their way to the disk.
#[derive(Default)]
pub(super) struct Overlay {
    pub(super) waiting: BTreeMap<VaultPath, Waiting>,
    /// Oldest first, each with the notes that were put on it.
    shelves: Vec<(Arc<Shelf>, Vec<VaultPath>)>,
}

/// The newest change of a path.
pub(super) enum Waiting {
    Put { card: Arc<Card>, doc: Box<NoteDoc>, on_disk: bool },
    Remove { on_disk: bool },
}

/// So many indexes of about one size are made one, eight times as large: each index costs every
/// query a look, and each making costs the edit that meets it some time.
const RUN: usize = 8;

impl Overlay {
    /// Takes the new version of a note. `on_disk`: the disk has an older one.
    pub(super) fn put(&mut self, card: Arc<Card>, doc: NoteDoc, on_disk: bool) {
        let on_disk = self.on_disk(&card.path).unwrap_or(on_disk);
        let path = card.path.clone();
        self.waiting.insert(path, Waiting::Put { card, doc: Box::new(doc), on_disk });
    }

    /// Takes a note's end.
    pub(super) fn remove(&mut self, path: &VaultPath, on_disk: bool) {
        let on_disk = self.on_disk(path).unwrap_or(on_disk);
        self.waiting.insert(path.clone(), Waiting::Remove { on_disk });
    }

    /// What was put at a path last.
    pub(super) fn put_at(&self, path: &VaultPath) -> Option<(&Card, &NoteDoc)> {
        match self.waiting.get(path)? {
            Waiting::Put { card, doc, .. } => Some((card, doc)),
            Waiting::Remove { .. } => None,
        }
    }

    fn on_disk(&self, path: &VaultPath) -> Option<bool> {
        self.waiting.get(path).map(|it| match it {
            Waiting::Put { on_disk, .. } | Waiting::Remove { on_disk } => *on_disk,
        })
    }

    /// The indexes in memory.
    pub(super) fn shelves(&self) -> impl Iterator<Item = &Arc<Shelf>> {
        self.shelves.iter().map(|it| &it.0)
    }

    /// Makes the waiting notes at `paths` searchable.
    pub(super) fn show(
        &mut self,
        mut paths: Vec<VaultPath>,
        fields: &Fields,
    ) -> tantivy::Result<()> {
        loop {
            let size = size_of(paths.len());
            let alike = self.shelves.iter().rev().take_while(|it| size_of(it.1.len()) <= size);
            let alike = alike.count();
            if alike < RUN - 1 {
                break;
            }
            for (_, older) in self.shelves.drain(self.shelves.len() - alike..) {
                paths.extend(older);
            }
            paths.sort();
            paths.dedup();
        }
        let shelf = self.shelf_of(paths.iter().filter_map(|it| self.waiting.get(it)), fields)?;
        self.shelves.extend(shelf.map(|it| (it, paths)));
        Ok(())
    }

    /// Makes all that waits searchable anew, in one index.
    pub(super) fn show_all(&mut self, fields: &Fields) -> tantivy::Result<()> {
        self.shelves.clear();
        self.show(self.waiting.keys().cloned().collect(), fields)
    }

    fn shelf_of<'a>(
        &self,
        waiting: impl Iterator<Item = &'a Waiting>,
        fields: &Fields,
    ) -> tantivy::Result<Option<Arc<Shelf>>> {
        let blocks: Vec<_> = waiting
            .filter_map(|it| match it {
                Waiting::Put { card, doc, .. } => Some(fields.documents(card, doc)),
                Waiting::Remove { .. } => None,
            })
            .collect();
        if blocks.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Shelf::in_memory(blocks, fields)?)))
    }
}

/// How many times eight notes.
fn size_of(notes: usize) -> u32 {
    notes.max(1).ilog(RUN)
}

//! Notes that no commit has yet, in front of those that one has.
//!
//! Takes notes as they lie on the disk, lays them over a view: they are found by words and, where
//! the model costs nothing, by meaning. Nothing of them is kept: the commit brings them again. Any
//! thread.
//!
//! **Invariant:** drafts add and replace, never remove; what a commit has already is no draft, and
//! no number of a draft is ever that of a note on the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::embed::Identity;
use crate::index::card::{Card, FIRST_DRAFT};
use crate::index::error::IndexError;
use crate::index::indexer::Update;
use crate::index::rows::{Heading, Rows};
use crate::index::shelf::Shelf;
use crate::index::vectors::rows_at_once;
use crate::index::view::IndexView;
use crate::vault::{BlobId, VaultPath};

/// Notes that no commit has yet, ready to be laid over views.
#[derive(Default)]
pub struct Drafts {
    cards: Vec<Arc<Card>>,
    shelf: Option<Arc<Shelf>>,
    /// Their vectors, and the space these lie in.
    rows: Option<(Identity, Arc<Rows>)>,
}

impl Drafts {
    pub fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// Whether these are exactly those notes.
    pub fn are<'a>(
        &self,
        notes: impl ExactSizeIterator<Item = (&'a VaultPath, &'a BlobId)>,
    ) -> bool {
        notes.len() == self.cards.len()
            && notes.zip(&self.cards).all(|((path, blob), it)| *path == it.path && *blob == it.blob)
    }
}

impl IndexView {
    /// Makes drafts of the notes that are put, to be laid over this view and those that follow it.
    pub fn drafts(&self, notes: Vec<Update>) -> Result<Drafts, IndexError> {
        let identity = self.embedder().map(|it| it.identity().clone());
        let (mut cards, mut blocks, mut made) = (Vec::new(), Vec::new(), BTreeMap::new());
        for note in notes {
            let Update::Put { path, blob, role, doc } = note else { continue };
            if !role.is_indexed() {
                continue;
            }
            let card = Arc::new(Card::new(next_id(), &path, blob, role, &doc));
            if let Some(embedder) = self.embedder()
                && let Some(rows) = rows_at_once(embedder, &doc)
            {
                made.insert(card.id, rows);
            }
            blocks.push(self.fields().documents(&card, &doc));
            cards.push(card);
        }
        let shelf = match blocks.is_empty() {
            true => None,
            false => Some(Arc::new(Shelf::in_memory(blocks, self.fields())?)),
        };
        let rows = identity.filter(|_| !made.is_empty()).map(|identity| {
            let heading = Heading::in_memory(identity.clone());
            (identity, Arc::new(Rows::build(&heading, &made)))
        });
        Ok(Drafts { cards, shelf, rows })
    }

    /// The same view with the drafts before it.
    pub fn laid_over(self: &Arc<Self>, drafts: &Drafts) -> Result<Arc<Self>, IndexError> {
        let is_new =
            |it: &&Arc<Card>| self.note(&it.path).is_none_or(|known| known.blob != it.blob);
        let cards: Vec<&Arc<Card>> = drafts.cards.iter().filter(is_new).collect();
        if cards.is_empty() {
            return Ok(Arc::clone(self));
        }
        let rows = drafts.rows.as_ref().map(|(space, rows)| (space, rows));
        self.with_cards(&cards, drafts.shelf.as_ref(), rows)
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(FIRST_DRAFT);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

//! The keyword index by itself: no stores, no graph, no overlay, no commits to follow.
//!
//! The yardstick of `benches/`: what tantivy alone takes for the same documents, schema and
//! tokenizers. Blocking; one owner.
//!
//! **Invariant:** its documents are those of [`Index`](crate::index::Index), from the same notes.

use std::path::Path;

use tantivy::indexer::UserOperation;
use tantivy::{IndexWriter, directory::MmapDirectory};

use crate::index::IndexError;
use crate::index::analyze::tokenizers;
use crate::index::card::Card;
use crate::index::indexer::boxed;
use crate::index::schema::Fields;
use crate::index::shelf::Shelf;
use crate::vault::{BlobId, NoteDoc, Role, VaultPath};

/// A keyword index with nothing around it.
pub struct Bare {
    fields: Fields,
    index: tantivy::Index,
    writer: IndexWriter,
    next_id: u64,
}

impl Bare {
    /// Makes an empty one in an existing folder; `budget` bytes for each of the `threads`.
    pub fn create(dir: &Path, threads: usize, budget: usize) -> Result<Self, IndexError> {
        let fields = Fields::new();
        let index = tantivy::Index::builder()
            .schema(fields.schema.clone())
            .tokenizers(tokenizers())
            .open_or_create(MmapDirectory::open(dir).map_err(boxed)?)?;
        let writer = index.writer_with_num_threads(threads, threads * budget)?;
        Ok(Self { fields, index, writer, next_id: 1 })
    }

    /// Puts a note in the place of the one its path had.
    pub fn put(
        &mut self,
        path: &VaultPath,
        blob: BlobId,
        role: Role,
        doc: &NoteDoc,
    ) -> Result<(), IndexError> {
        let card = Card::new(self.next_id, path, blob, role, doc);
        let mut operations = vec![UserOperation::Delete(self.fields.path_term(path))];
        operations.extend(self.fields.documents(&card, doc).into_iter().map(UserOperation::Add));
        self.next_id += 1;
        self.writer.run(operations)?;
        Ok(())
    }

    /// Makes durable what was put, and opens it to be searched.
    pub fn commit(&mut self) -> Result<(), IndexError> {
        self.writer.commit()?;
        Shelf::of(&self.index, &self.fields, None)?;
        Ok(())
    }

    /// Waits until the segments are merged.
    pub fn close(self) -> Result<(), IndexError> {
        Ok(self.writer.wait_merging_threads()?)
    }
}

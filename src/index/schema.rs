//! How a note lies in the keyword index.
//!
//! Pure. A note is a block of documents: the note itself (its whole text, its names), then its
//! chunks in order. The block stays together through merges, so that a chunk finds its note and
//! a note its chunks by counting.
//!
//! **Invariant:** `place` counts from 0 (the note) within the block, and `note` is the same in
//! the whole block and in no other.

use tantivy::schema::{
    BytesOptions, FAST, Field, IndexRecordOption, NumericOptions, STORED, STRING, Schema,
    TextFieldIndexing, TextOptions,
};
use tantivy::{TantivyDocument, Term};

use crate::index::analyze::{EXACT, STEM};
use crate::index::card::Card;
use crate::index::words::name_key;
use crate::vault::{NoteDoc, VaultPath};

/// Changes when the same note gives other documents: an index of another version is made again.
pub(super) const VERSION: u32 = 2;

/// The fields by name.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) schema: Schema,
    /// The path's bytes, in every document of a block: what a replacement deletes by.
    path: Field,
    /// `note` or `chunk`: counted for the statistics of each kind.
    kind: Field,
    note: Field,
    place: Field,
    /// The whole note with its names and date, stemmed.
    pub(super) whole: Field,
    /// Name, aliases, file stem, path words, tags, description and headings, stemmed.
    pub(super) names: Field,
    /// Each name as one folded key.
    pub(super) keys: Field,
    /// A chunk as it is spelled, with places.
    pub(super) exact: Field,
    /// A chunk with the headings above it, the note's name and date, stemmed.
    pub(super) stem: Field,
    pub(super) text: Field,
    pub(super) headings: Field,
}

/// How many fields are scored.
pub(super) const SCORED: usize = 4;

pub(super) const NOTE: &str = "note";
pub(super) const PLACE: &str = "place";

impl Fields {
    pub(super) fn new() -> Self {
        let mut builder = Schema::builder();
        let analyzed = |form: &str, record| {
            TextOptions::default().set_indexing_options(
                TextFieldIndexing::default().set_tokenizer(form).set_index_option(record),
            )
        };
        let counted = analyzed(STEM, IndexRecordOption::WithFreqs);
        let key = TextOptions::default().set_indexing_options(
            TextFieldIndexing::default()
                .set_tokenizer("raw")
                .set_fieldnorms(false)
                .set_index_option(IndexRecordOption::Basic),
        );
        Self {
            path: builder.add_bytes_field("path", BytesOptions::default().set_indexed()),
            kind: builder.add_text_field("kind", STRING),
            note: builder.add_u64_field(NOTE, NumericOptions::from(FAST)),
            place: builder.add_u64_field(PLACE, NumericOptions::from(FAST)),
            whole: builder.add_text_field("whole", counted.clone()),
            names: builder
                .add_text_field("names", analyzed(STEM, IndexRecordOption::WithFreqsAndPositions)),
            keys: builder.add_text_field("keys", key),
            exact: builder
                .add_text_field("exact", analyzed(EXACT, IndexRecordOption::WithFreqsAndPositions)),
            stem: builder.add_text_field("stem", counted),
            text: builder.add_text_field("text", STORED),
            headings: builder.add_text_field("headings", STORED),
            schema: builder.build(),
        }
    }

    /// The fields whose lengths BM25 asks for.
    pub(super) fn scored(&self) -> [Field; SCORED] {
        [self.whole, self.names, self.stem, self.exact]
    }

    /// What selects every document of the note at `path`.
    pub(super) fn path_term(&self, path: &VaultPath) -> Term {
        Term::from_field_bytes(self.path, path.as_bytes())
    }

    /// The block of a note.
    pub(super) fn documents(&self, card: &Card, doc: &NoteDoc) -> Vec<TantivyDocument> {
        let mut block = Vec::with_capacity(doc.chunks.len() + 1);
        let mut note = self.document(card, DocKind::Note, 0);
        for chunk in &doc.chunks {
            note.add_text(self.whole, &chunk.text);
        }
        // Found with the note, though no passage of it.
        for value in &doc.properties {
            note.add_text(self.whole, value);
        }
        let names = names(&card.path, doc);
        // The words around a text are a part of it, for its score and for its length.
        for name in names.iter().map(String::as_str).chain(card.date.as_deref()) {
            note.add_text(self.whole, name);
        }
        for name in &names {
            note.add_text(self.names, name);
        }
        for key in keys(&card.path, doc) {
            note.add_text(self.keys, &key);
        }
        block.push(note);
        for (at, chunk) in doc.chunks.iter().enumerate() {
            let mut document = self.document(card, DocKind::Chunk, at as u64 + 1);
            document.add_text(self.exact, &chunk.text);
            document.add_text(self.stem, &chunk.text);
            document.add_text(self.text, &chunk.text);
            for heading in &chunk.headings {
                document.add_text(self.stem, heading);
                document.add_text(self.headings, heading);
            }
            for around in [Some(&*card.name), card.date.as_deref()].into_iter().flatten() {
                document.add_text(self.stem, around);
            }
            block.push(document);
        }
        block
    }

    fn document(&self, card: &Card, kind: DocKind, place: u64) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        document.add_bytes(self.path, card.path.as_bytes());
        document.add_text(self.kind, kind.name());
        document.add_u64(self.note, card.id);
        document.add_u64(self.place, place);
        document
    }
}

/// The two kinds of documents in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DocKind {
    Note,
    Chunk,
}

impl DocKind {
    fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Chunk => "chunk",
        }
    }
}

/// What a note is called, for weighted words.
fn names(path: &VaultPath, doc: &NoteDoc) -> Vec<String> {
    let mut names = vec![doc.name.clone()];
    names.extend(doc.aliases.iter().cloned());
    names.extend(doc.description.iter().cloned());
    names.extend(doc.tags.iter().cloned());
    let mut path_words = String::from_utf8_lossy(path.as_bytes()).into_owned();
    path_words.truncate(path_words.rfind('.').filter(|it| *it > 0).unwrap_or(path_words.len()));
    names.push(path_words.replace('/', " "));
    let mut seen = std::collections::HashSet::new();
    for heading in doc.chunks.iter().flat_map(|it| &it.headings) {
        if seen.insert(heading) {
            names.push(heading.clone());
        }
    }
    names
}

/// What a query has to be, as a whole, to name the note.
fn keys(path: &VaultPath, doc: &NoteDoc) -> Vec<String> {
    let stem = String::from_utf8_lossy(path.stem());
    let whole = path.lossy();
    let mut keys: Vec<String> = [doc.name.as_str(), &stem, &whole]
        .into_iter()
        .chain(doc.aliases.iter().map(String::as_str))
        .map(name_key)
        .filter(|it| !it.is_empty())
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

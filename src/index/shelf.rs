//! Documents that can be searched: the index on disk, or a small one in memory.
//!
//! Takes an opened tantivy index, gives its segments with the columns that lead from a document
//! to its note. Any thread.
//!
//! **Invariant:** a shelf never changes; what is deleted later is still on it, and the view that
//! holds it knows which notes are alive.

use std::collections::HashMap;
use std::sync::Arc;

use tantivy::columnar::ColumnValues;
use tantivy::directory::RamDirectory;
use tantivy::index::SegmentId;
use tantivy::schema::{Field, IndexRecordOption, Value as _};
use tantivy::{
    DocAddress, DocId, DocSet as _, Index, IndexSettings, ReloadPolicy, Searcher, SegmentReader,
    TERMINATED, TantivyDocument, Term,
};

use crate::index::analyze::tokenizers;
use crate::index::schema::{Fields, NOTE, PLACE};
use crate::index::tally::{NoteDocs, Sums, Tally};

/// A searchable set of documents.
pub(super) struct Shelf {
    searcher: Searcher,
    segments: Vec<Segment>,
}

struct Segment {
    note: Arc<dyn ColumnValues<u64>>,
    place: Arc<dyn ColumnValues<u64>>,
    tally: Arc<Tally>,
}

/// A passage as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Passage {
    pub text: String,
    pub headings: Vec<String>,
}

/// How much a small index may take while it is built.
const RAM_BUDGET: usize = 4 << 20;

impl Shelf {
    /// What `index` holds now; what `before` counted is not counted again.
    pub(super) fn of(
        index: &Index,
        fields: &Fields,
        before: Option<&Self>,
    ) -> tantivy::Result<Self> {
        let reader = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .doc_store_cache_num_blocks(16)
            .try_into()?;
        Self::from_searcher(reader.searcher(), fields, before)
    }

    fn from_searcher(
        searcher: Searcher,
        fields: &Fields,
        before: Option<&Self>,
    ) -> tantivy::Result<Self> {
        let known: HashMap<SegmentId, &Arc<Tally>> = before
            .iter()
            .flat_map(|it| it.readers().iter().zip(&it.segments))
            .map(|(reader, segment)| (reader.segment_id(), &segment.tally))
            .collect();
        let segments = searcher
            .segment_readers()
            .iter()
            .map(|it| {
                let columns = it.fast_fields();
                let place = columns.column_first_or_default(PLACE)?;
                let before = known.get(&it.segment_id()).copied();
                let tally = Tally::of(it, |doc| place_of(&*place, doc), fields, before)?;
                Ok(Segment { note: columns.column_first_or_default(NOTE)?, place, tally })
            })
            .collect::<tantivy::Result<_>>()?;
        Ok(Self { searcher, segments })
    }

    /// A small index in memory over whole blocks.
    pub(super) fn in_memory(
        blocks: impl IntoIterator<Item = Vec<TantivyDocument>>,
        fields: &Fields,
    ) -> tantivy::Result<Self> {
        // No compression: it is gone soon.
        let settings = IndexSettings {
            docstore_compression: tantivy::store::Compressor::None,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let mut writer = Index::builder()
            .schema(fields.schema.clone())
            .settings(settings)
            .tokenizers(tokenizers())
            .single_segment_index_writer(RamDirectory::create(), RAM_BUDGET)?;
        for document in blocks.into_iter().flatten() {
            writer.add_document(document)?;
        }
        Self::of(&writer.finalize()?, fields, None)
    }

    pub(super) fn searcher(&self) -> &Searcher {
        &self.searcher
    }

    pub(super) fn readers(&self) -> &[SegmentReader] {
        self.searcher.segment_readers()
    }

    /// The note of a document.
    pub(super) fn note_of(&self, segment: usize, doc: DocId) -> u64 {
        self.segments[segment].note.get_val(doc)
    }

    /// The document's place in its block: 0 the note, then its chunks.
    pub(super) fn place_of(&self, segment: usize, doc: DocId) -> u32 {
        place_of(&*self.segments[segment].place, doc)
    }

    /// The segment and document of a note, by the term of its path.
    pub(super) fn note_at(
        &self,
        path: &Term,
        note: u64,
    ) -> tantivy::Result<Option<(usize, DocId)>> {
        for (segment, reader) in self.readers().iter().enumerate() {
            let index = reader.inverted_index(path.field())?;
            let Some(mut docs) = index.read_postings(path, IndexRecordOption::Basic)? else {
                continue;
            };
            while docs.doc() != TERMINATED {
                let doc = docs.doc();
                if self.note_of(segment, doc) == note && self.place_of(segment, doc) == 0 {
                    return Ok(Some((segment, doc)));
                }
                docs.advance();
            }
        }
        Ok(None)
    }

    /// Which documents of a segment are notes.
    pub(super) fn note_docs(&self, segment: usize) -> &NoteDocs {
        self.segments[segment].tally.notes()
    }

    pub(super) fn tally(&self, segment: usize) -> &Tally {
        &self.segments[segment].tally
    }

    /// Over all documents that tantivy has not deleted.
    pub(super) fn sums(&self) -> Sums {
        self.segments.iter().fold(Sums::default(), |sums, it| sums.plus(it.tally.left()))
    }

    /// The highest number any note ever had here.
    pub(super) fn highest_note(&self) -> u64 {
        self.segments.iter().map(|it| it.note.max_value()).max().unwrap_or(0)
    }

    /// The stored text of a chunk.
    pub(super) fn passage(
        &self,
        segment: usize,
        doc: DocId,
        fields: &Fields,
    ) -> tantivy::Result<Passage> {
        let address = DocAddress::new(u32::try_from(segment).unwrap_or(u32::MAX), doc);
        let document: TantivyDocument = self.searcher.doc(address)?;
        let text = |field: Field| {
            document.get_all(field).filter_map(|it| it.as_str().map(str::to_owned)).collect()
        };
        let texts: Vec<String> = text(fields.text);
        Ok(Passage {
            text: texts.into_iter().next().unwrap_or_default(),
            headings: text(fields.headings),
        })
    }
}

fn place_of(column: &dyn ColumnValues<u64>, doc: DocId) -> u32 {
    u32::try_from(column.get_val(doc)).unwrap_or(0)
}

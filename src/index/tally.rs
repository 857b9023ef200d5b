//! The sums that BM25 asks for, kept so that no query and no edit counts the whole again.
//!
//! Takes a segment once, gives its sums and what tantivy has deleted in it; takes the notes that
//! died since, gives their documents and sums. Any thread; a [`Tally`] never changes.
//!
//! **Invariant:** the cost of a change is that of the changed notes, not of the vault.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::{InvertedIndexReader, SegmentId};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet as _, SegmentReader, TERMINATED, Term};

use crate::index::schema::{Fields, SCORED};
use crate::index::shelf::Shelf;
use crate::index::state::State;

/// Sums over some documents.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sums {
    pub(super) notes: u64,
    pub(super) chunks: u64,
    /// Lengths as BM25 reads them (quantised by tantivy), in the order of [`Fields::scored`].
    pub(super) tokens: [u64; SCORED],
}

/// One segment.
pub(super) struct Tally {
    id: SegmentId,
    /// What tantivy has deleted, in order.
    deleted: Vec<DocId>,
    notes: Arc<NoteDocs>,
    /// Over all documents, whatever was deleted since.
    all: Sums,
    /// Over those that are left.
    left: Sums,
    /// The same in the order in which they died: who comes later has the same beginning.
    log: Vec<DocId>,
    /// How many of the first so many of the log have a term, for the terms that were asked for.
    /// Shared with what was counted before and what will be: only who died since is looked at.
    with_term: Arc<Mutex<HashMap<Term, Gone>>>,
}

/// So many of the first `of` dead have a term.
#[derive(Clone, Copy)]
struct Gone {
    have: u64,
    of: usize,
}

/// Terms that are remembered for one segment.
const MOST_TERMS: usize = 8192;

/// Documents of one shelf that tantivy has not deleted and that are dead all the same.
#[derive(Clone, Default)]
pub(super) struct Graves {
    /// For each segment, in order.
    docs: Vec<Vec<DocId>>,
    sums: Sums,
}

impl Tally {
    /// Counts a segment, or goes on from what was counted `before`.
    pub(super) fn of(
        reader: &SegmentReader,
        place: impl Fn(DocId) -> u32,
        fields: &Fields,
        before: Option<&Arc<Self>>,
    ) -> tantivy::Result<Arc<Self>> {
        let before = before.filter(|it| it.id == reader.segment_id());
        // What is deleted stays deleted: the same number is the same set.
        let gone = reader.num_deleted_docs() as usize;
        if let Some(same) = before.filter(|it| it.deleted.len() == gone) {
            return Ok(Arc::clone(same));
        }
        let norms = Norms::of(reader, fields)?;
        let sum = |docs: &mut dyn Iterator<Item = DocId>| {
            let mut sums = Sums::default();
            docs.for_each(|doc| sums.add(place(doc), norms.lengths(doc)));
            sums
        };
        let (all, notes) = match before {
            Some(before) => (before.all, Arc::clone(&before.notes)),
            None => {
                let notes = NoteDocs::of(reader.max_doc(), &place);
                (sum(&mut (0..reader.max_doc())), Arc::new(notes))
            }
        };
        let deleted: Vec<DocId> = match gone {
            0 => Vec::new(),
            _ => (0..reader.max_doc()).filter(|it| reader.is_deleted(*it)).collect(),
        };
        let left = all.without(sum(&mut deleted.iter().copied()));
        let (mut log, with_term) = match before {
            Some(before) => (before.log.clone(), Arc::clone(&before.with_term)),
            None => Default::default(),
        };
        let is_new = |it: &DocId| before.is_none_or(|old| old.deleted.binary_search(it).is_err());
        log.extend(deleted.iter().copied().filter(is_new));
        let id = reader.segment_id();
        Ok(Arc::new(Self { id, deleted, notes, all, left, log, with_term }))
    }

    /// Which documents are notes.
    pub(super) fn notes(&self) -> &NoteDocs {
        &self.notes
    }

    pub(super) fn left(&self) -> Sums {
        self.left
    }

    /// How many documents that are left have the term, of `all` that ever had.
    pub(super) fn frequency(
        &self,
        index: &InvertedIndexReader,
        term: &Term,
        all: u64,
    ) -> tantivy::Result<u64> {
        if self.deleted.is_empty() || all == 0 {
            return Ok(all);
        }
        let lock = || self.with_term.lock().unwrap_or_else(PoisonError::into_inner);
        let of = self.log.len();
        let known = lock().get(term).copied().filter(|it| it.of <= of);
        let have = match known {
            Some(known) if known.of == of => return Ok(all.saturating_sub(known.have)),
            Some(known) => {
                let mut since = self.log[known.of..].to_vec();
                since.sort_unstable();
                known.have + having(&since, index, term, all)?
            }
            None => having(&self.deleted, index, term, all)?,
        };
        let mut known = lock();
        if known.len() >= MOST_TERMS {
            known.clear();
        }
        // A view of before is asked seldom; it must not take away what newer ones know.
        let newest = known.get(term).is_none_or(|it| it.of < of);
        if newest {
            known.insert(term.clone(), Gone { have, of });
        }
        Ok(all.saturating_sub(have))
    }
}

impl Graves {
    /// Where nothing is dead that tantivy has not deleted.
    pub(super) fn none(shelf: &Shelf) -> Self {
        Self { docs: vec![Vec::new(); shelf.readers().len()], sums: Sums::default() }
    }

    /// Looks at every document: the cost is that of the shelf.
    pub(super) fn found(shelf: &Shelf, state: &State, fields: &Fields) -> tantivy::Result<Self> {
        let mut graves = Self::none(shelf);
        for (segment, reader) in shelf.readers().iter().enumerate() {
            let is_dead = |doc: &DocId| {
                !reader.is_deleted(*doc) && state.card_of(shelf.note_of(segment, *doc)).is_none()
            };
            let dead: Vec<DocId> = (0..reader.max_doc()).filter(is_dead).collect();
            graves.add(shelf, segment, &dead, fields)?;
        }
        Ok(graves)
    }

    /// Buries the documents of a path, all that the shelf has of it.
    pub(super) fn bury(
        &mut self,
        shelf: &Shelf,
        path: &Term,
        fields: &Fields,
    ) -> tantivy::Result<()> {
        for (segment, reader) in shelf.readers().iter().enumerate() {
            let index = reader.inverted_index(path.field())?;
            let Some(mut postings) = index.read_postings(path, IndexRecordOption::Basic)? else {
                continue;
            };
            let mut dead = Vec::new();
            let mut doc = postings.doc();
            while doc != TERMINATED {
                if !reader.is_deleted(doc) && self.docs[segment].binary_search(&doc).is_err() {
                    dead.push(doc);
                }
                doc = postings.advance();
            }
            self.add(shelf, segment, &dead, fields)?;
        }
        Ok(())
    }

    pub(super) fn sums(&self) -> Sums {
        self.sums
    }

    /// How many of the dead in a segment have the term, of `all` that ever had.
    pub(super) fn with_term(
        &self,
        segment: usize,
        index: &InvertedIndexReader,
        term: &Term,
        all: u64,
    ) -> tantivy::Result<u64> {
        having(&self.docs[segment], index, term, all)
    }

    fn add(
        &mut self,
        shelf: &Shelf,
        segment: usize,
        docs: &[DocId],
        fields: &Fields,
    ) -> tantivy::Result<()> {
        if docs.is_empty() {
            return Ok(());
        }
        let norms = Norms::of(&shelf.readers()[segment], fields)?;
        for doc in docs {
            self.sums.add(shelf.place_of(segment, *doc), norms.lengths(*doc));
        }
        let known = &mut self.docs[segment];
        // A block lies together: one place to make room in.
        let at = known.partition_point(|it| *it < docs[0]);
        known.splice(at..at, docs.iter().copied());
        if !known.is_sorted() {
            known.sort_unstable();
        }
        Ok(())
    }
}

impl Sums {
    fn add(&mut self, place: u32, lengths: [u64; SCORED]) {
        match place {
            0 => self.notes += 1,
            _ => self.chunks += 1,
        }
        for (sum, length) in self.tokens.iter_mut().zip(lengths) {
            *sum += length;
        }
    }

    pub(super) fn plus(mut self, other: Self) -> Self {
        self.notes += other.notes;
        self.chunks += other.chunks;
        for (sum, more) in self.tokens.iter_mut().zip(other.tokens) {
            *sum += more;
        }
        self
    }

    pub(super) fn without(mut self, part: Self) -> Self {
        self.notes = self.notes.saturating_sub(part.notes);
        self.chunks = self.chunks.saturating_sub(part.chunks);
        for (sum, less) in self.tokens.iter_mut().zip(part.tokens) {
            *sum = sum.saturating_sub(less);
        }
        self
    }
}

/// Which documents of a segment are notes: each is followed by its chunks.
pub(super) struct NoteDocs {
    /// A bit for each document.
    bits: Vec<u64>,
    count: DocId,
}

impl NoteDocs {
    fn of(count: DocId, place: impl Fn(DocId) -> u32) -> Self {
        let mut bits = vec![0; count.div_ceil(64) as usize];
        for doc in (0..count).filter(|it| place(*it) == 0) {
            bits[(doc / 64) as usize] |= 1 << (doc % 64);
        }
        Self { bits, count }
    }

    /// The note that a document belongs to.
    pub(super) fn note_of(&self, doc: DocId) -> DocId {
        let mut at = doc / 64;
        let mut word = self.bits[at as usize] & (u64::MAX >> (63 - doc % 64));
        while word == 0 && at > 0 {
            at -= 1;
            word = self.bits[at as usize];
        }
        at * 64 + (63 - word.leading_zeros().min(63))
    }

    /// Where the next note after `note` begins, or the end.
    pub(super) fn end_of(&self, note: DocId) -> DocId {
        let mut at = note / 64;
        // Shifted twice: by 64 at once is not allowed.
        let mut word = self.bits[at as usize] & (u64::MAX << (note % 64) << 1);
        while word == 0 {
            at += 1;
            match self.bits.get(at as usize) {
                Some(next) => word = *next,
                None => return self.count,
            }
        }
        at * 64 + word.trailing_zeros()
    }
}

/// The lengths of a segment's documents.
struct Norms([FieldNormReader; SCORED]);

impl Norms {
    fn of(reader: &SegmentReader, fields: &Fields) -> tantivy::Result<Self> {
        let norm = |field: Field| reader.get_fieldnorms_reader(field);
        let [a, b, c, d] = fields.scored();
        Ok(Self([norm(a)?, norm(b)?, norm(c)?, norm(d)?]))
    }

    fn lengths(&self, doc: DocId) -> [u64; SCORED] {
        self.0.each_ref().map(|it| u64::from(it.fieldnorm(doc)))
    }
}

/// A step over postings to a document, as so many steps from one to the next.
const JUMP: u64 = 16;

/// How many of `docs` (in order) have the term; `all` documents ever had it.
fn having(
    docs: &[DocId],
    index: &InvertedIndexReader,
    term: &Term,
    all: u64,
) -> tantivy::Result<u64> {
    if docs.is_empty() || all == 0 {
        return Ok(0);
    }
    let Some(mut postings) = index.read_postings(term, IndexRecordOption::Basic)? else {
        return Ok(0);
    };
    let mut count = 0;
    if docs.len() as u64 * JUMP < all {
        for doc in docs {
            if postings.doc() < *doc {
                postings.seek(*doc);
            }
            count += u64::from(postings.doc() == *doc);
        }
        return Ok(count);
    }
    let mut doc = postings.doc();
    let mut rest = docs.iter().peekable();
    while doc != TERMINATED {
        while rest.next_if(|it| **it < doc).is_some() {}
        count += u64::from(rest.peek().is_some_and(|it| **it == doc));
        doc = postings.advance();
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_document_belongs_to_the_note_before_it(
            chunks in prop::collection::vec(0..200_u32, 1..20),
        ) {
            let places: Vec<u32> = chunks.iter().flat_map(|it| 0..=*it).collect();
            let count = DocId::try_from(places.len()).unwrap();
            let notes = NoteDocs::of(count, |doc| places[doc as usize]);
            let mut start = 0;
            for chunk in chunks {
                let end = start + chunk + 1;
                for doc in start..end {
                    prop_assert_eq!(notes.note_of(doc), start);
                }
                prop_assert_eq!(notes.end_of(start), end);
                start = end;
            }
        }
    }
}

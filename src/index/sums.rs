//! Adds up the scores of a segment's documents, clause by clause.
//!
//! Takes the clauses of a plan, gives each note's own score and that of its best chunk. Works
//! through windows of documents, so that memory is small and stays in the processor's cache: a
//! query of five words meets each note in a dozen lists, and adding them up takes less than
//! finding out which of them could be skipped. Any thread.
//!
//! **Invariant:** each document that any clause has is counted once for each clause.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::query::{Bm25Weight, Scorer, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet as _, SegmentReader, TERMINATED, Term};

use crate::index::tally::NoteDocs;

/// One term or phrase in one field.
pub(super) struct Clause {
    pub(super) what: String,
    pub(super) form: Form,
}

pub(super) enum Form {
    Word { term: Term, weight: Bm25Weight },
    Phrase { weight: Box<dyn Weight>, boost: f32 },
}

/// A note with the scores that the clauses give it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sums {
    /// The note's own document; its chunks follow.
    pub(super) doc: DocId,
    pub(super) note: f32,
    /// The best chunk, counted from 0, and its score; the first of equals.
    pub(super) chunk: u32,
    pub(super) passage: f32,
}

/// Documents that are added up at once.
const WINDOW: DocId = 1 << 15;

/// Gives `each` every note of a segment that has any of the words, in order, until it says stop.
pub(super) fn blocks(
    clauses: &[Clause],
    reader: &SegmentReader,
    notes: &NoteDocs,
    mut each: impl FnMut(Sums),
    mut go_on: impl FnMut() -> bool,
) -> tantivy::Result<()> {
    let mut cursors = Vec::with_capacity(clauses.len());
    for clause in clauses {
        cursors.extend(Cursor::of(clause, reader)?);
    }
    let mut sums = vec![0.0; WINDOW as usize];
    let mut open: Option<(Sums, DocId)> = None;
    while let Some(first) = cursors.iter().map(Cursor::doc).min().filter(|it| *it != TERMINATED) {
        if !go_on() {
            break;
        }
        let start = first - first % WINDOW;
        for cursor in &mut cursors {
            cursor.add(start, &mut sums);
        }
        cursors.retain(|it| it.doc() != TERMINATED);
        collect(start, &mut sums, notes, &mut open, &mut each);
    }
    if let Some((last, _)) = open {
        each(last);
    }
    Ok(())
}

/// The score that a clause gives a document; `None` where it does not have it.
pub(super) fn score_of(
    clause: &Clause,
    reader: &SegmentReader,
    doc: DocId,
) -> tantivy::Result<Option<f32>> {
    let Some(mut cursor) = Cursor::of(clause, reader)? else { return Ok(None) };
    Ok(cursor.seek(doc))
}

/// Reads the window and leaves it empty.
fn collect(
    start: DocId,
    sums: &mut [f32],
    notes: &NoteDocs,
    // With where the next note begins.
    open: &mut Option<(Sums, DocId)>,
    each: &mut impl FnMut(Sums),
) {
    for (at, few) in sums.chunks_mut(64).enumerate() {
        if few.iter().fold(0, |bits, it| bits | it.to_bits()) == 0 {
            continue;
        }
        let first = start + DocId::try_from(at * 64).unwrap_or(0);
        for (doc, sum) in (first..).zip(few) {
            let score = std::mem::take(sum);
            if score == 0.0 {
                continue;
            }
            if open.is_none_or(|it| it.1 <= doc) {
                let note = notes.note_of(doc);
                let next = Sums { doc: note, note: 0.0, chunk: 0, passage: 0.0 };
                if let Some((done, _)) = open.replace((next, notes.end_of(note))) {
                    each(done);
                }
            }
            let Some((block, _)) = open else { continue };
            if doc == block.doc {
                block.note = score;
            } else if score > block.passage {
                block.passage = score;
                block.chunk = doc - block.doc - 1;
            }
        }
    }
}

/// A clause on its way through a segment.
enum Cursor<'a> {
    Word {
        postings: Box<BlockSegmentPostings>,
        /// In the block that is read now.
        at: usize,
        norms: FieldNormReader,
        weight: &'a Bm25Weight,
    },
    Phrase(Box<dyn Scorer>),
}

impl<'a> Cursor<'a> {
    fn of(clause: &'a Clause, reader: &SegmentReader) -> tantivy::Result<Option<Self>> {
        Ok(match &clause.form {
            Form::Word { term, weight } => {
                let index = reader.inverted_index(term.field())?;
                let found = index.read_block_postings(term, IndexRecordOption::WithFreqs)?;
                let Some(postings) = found else { return Ok(None) };
                let norms = reader.get_fieldnorms_reader(term.field())?;
                Some(Self::Word { postings: Box::new(postings), at: 0, norms, weight })
            }
            Form::Phrase { weight, boost } => Some(Self::Phrase(weight.scorer(reader, *boost)?)),
        })
    }

    fn doc(&self) -> DocId {
        match self {
            Self::Word { postings, at, .. } => {
                postings.docs().get(*at).copied().unwrap_or(TERMINATED)
            }
            Self::Phrase(scorer) => scorer.doc(),
        }
    }

    /// Adds the scores of the window that begins at `start`.
    fn add(&mut self, start: DocId, sums: &mut [f32]) {
        let end = start.saturating_add(WINDOW);
        match self {
            Self::Word { postings, at, norms, weight } => loop {
                let rest = postings.docs().iter().zip(postings.freqs()).skip(*at);
                for (doc, frequency) in rest {
                    if *doc >= end {
                        return;
                    }
                    let norm = norms.fieldnorm_id(*doc);
                    sums[(*doc - start) as usize] += weight.score(norm, *frequency);
                    *at += 1;
                }
                postings.advance();
                *at = 0;
                if postings.docs().is_empty() {
                    return;
                }
            },
            Self::Phrase(scorer) => {
                let mut doc = scorer.doc();
                while doc < end {
                    sums[(doc - start) as usize] += scorer.score();
                    doc = scorer.advance();
                }
            }
        }
    }

    /// The score of one document at or after this place.
    fn seek(&mut self, doc: DocId) -> Option<f32> {
        match self {
            Self::Word { postings, norms, weight, .. } => {
                let at = postings.seek(doc);
                let found = postings.docs().get(at) == Some(&doc);
                found.then(|| weight.score(norms.fieldnorm_id(doc), postings.freq(at)))
            }
            Self::Phrase(scorer) => {
                if scorer.doc() < doc {
                    scorer.seek(doc);
                }
                (scorer.doc() == doc).then(|| scorer.score())
            }
        }
    }
}

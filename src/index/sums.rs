//! Adds up the scores of a segment's documents, clause by clause.
//!
//! Takes the clauses of a plan, gives each note's own score and that of its best chunk. Works
//! through windows of documents, so that memory is small and stays in the processor's cache.
//! The notes are added up first. A chunk has no word that its note does not have, so what the
//! words of a note could give a chunk at the most tells which notes can be among the best: only
//! their chunks are looked up. Words that cannot bring a note among the best, not even all of them
//! together, are only looked up in notes that have another word (MaxScore: Turtle and Flood, Query
//! evaluation: strategies and optimizations, 1995). Any thread.
//!
//! **Invariant:** a note that is given has each clause counted once for each document; a note that
//! is left out could not score more than what was asked for.

use std::ops::Range;

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
    pub(super) part: Part,
}

/// Which documents a clause looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Note,
    /// Chunks. `under` is the place in the plan of a clause that every note has of which a chunk
    /// has this one; `None` where there is no such clause.
    Chunk {
        under: Option<usize>,
    },
}

pub(super) enum Form {
    Word { term: Term, weight: Bm25Weight },
    Phrase { weight: Box<dyn Weight>, boost: f32 },
}

impl Clause {
    /// What it could give a document at the most.
    pub(super) fn most(&self) -> f32 {
        match &self.form {
            Form::Word { weight, .. } => weight.max_score(),
            Form::Phrase { .. } => f32::INFINITY,
        }
    }
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

/// What is asked of a segment.
pub(super) struct Wanted<'a> {
    pub(super) notes: &'a NoteDocs,
    /// Notes that are given whatever they score, in order, if they have any word.
    pub(super) named: &'a [DocId],
    /// A note is wanted that scores more.
    pub(super) more_than: Option<f32>,
}

/// Documents that are added up at once; few in tests, which have few.
const WINDOW: DocId = if cfg!(test) { 1 << 6 } else { 1 << 15 };
/// Marks a note that has some clause.
const TOUCHED: u32 = 1 << 31;
/// Marks a note that is named.
const NAMED: u32 = 1 << 30;
/// Words that have a mark of their own.
const MARKS: usize = 30;
/// Sums of the same parts in another order differ by less. They are made in double precision, so
/// that what is shown does not depend on the order.
const ROUNDING: f32 = 1.0001;

/// Gives `each` the notes of a segment that score more than is asked for, and perhaps others, in
/// order, until `go_on` says stop. `each` gives back what a note has to exceed from then on.
pub(super) fn blocks(
    clauses: &[Clause],
    reader: &SegmentReader,
    wanted: &Wanted,
    mut each: impl FnMut(Sums) -> Option<f32>,
    mut go_on: impl FnMut() -> bool,
) -> tantivy::Result<()> {
    let Some(marks) = marks(clauses) else {
        return all_blocks(
            clauses,
            reader,
            wanted.notes,
            |it| {
                each(it);
            },
            go_on,
        );
    };
    let mut notes: Vec<Listed> = Vec::new();
    let mut chunks = Vec::new();
    // What the words with a mark could give a chunk.
    let mut reach = [0.0; MARKS];
    for (clause, mark) in clauses.iter().zip(marks) {
        let Some(cursor) = Cursor::of(clause, reader)? else { continue };
        match clause.part {
            Part::Note => notes.push(Listed { cursor, mark: mark | TOUCHED, most: clause.most() }),
            Part::Chunk { .. } => {
                reach[mark.trailing_zeros() as usize] += clause.most();
                chunks.push((cursor, mark));
            }
        }
    }
    for listed in &mut notes {
        listed.most += most_of(listed.mark, &reach);
    }
    // What says least for its length comes last.
    notes.sort_by(|a, b| b.share().total_cmp(&a.share()));
    let mut light: Vec<Listed> = Vec::new();
    let mut light_most = 0.0;
    let mut named = wanted.named.iter().peekable();
    let mut more_than = wanted.more_than;
    let mut sums = vec![0.0; WINDOW as usize];
    let mut seen = vec![0; WINDOW as usize];
    let mut scores = Vec::new();
    loop {
        // A named note is given for any word, so that none is light.
        while let (Some(least), Some(last)) = (more_than, notes.last())
            && wanted.named.is_empty()
            && (light_most + last.most) * ROUNDING <= least
        {
            light_most += last.most;
            light.extend(notes.pop());
        }
        let first = notes.iter().map(|it| it.cursor.doc()).min().filter(|it| *it != TERMINATED);
        let Some(first) = first else { break };
        if !go_on() {
            break;
        }
        let start = first - first % WINDOW;
        for Listed { cursor, mark, .. } in &mut notes {
            cursor.add(start, |at, score| {
                sums[at] += f64::from(score);
                seen[at] |= *mark;
            });
        }
        notes.retain(|it| it.cursor.doc() != TERMINATED);
        while let Some(doc) = named.next_if(|it| **it < start.saturating_add(WINDOW)) {
            if let Some(seen) = doc.checked_sub(start).and_then(|at| seen.get_mut(at as usize)) {
                *seen |= NAMED;
            }
        }
        for (few, at) in seen.chunks_mut(64).zip((0..).step_by(64)) {
            if few.iter().fold(0, |all, it| all | *it) == 0 {
                continue;
            }
            for (seen, at) in few.iter_mut().zip(at..) {
                let marks = std::mem::take(seen);
                if marks & TOUCHED == 0 {
                    continue;
                }
                let mut marks = marks;
                let mut note = std::mem::take(&mut sums[at]);
                let is_short = |note: f64, marks, light_most: f32| {
                    let most = note as f32 + most_of(marks, &reach) + light_most;
                    marks & NAMED == 0 && more_than.is_some_and(|it| most * ROUNDING <= it)
                };
                if is_short(note, marks, light_most) {
                    continue;
                }
                let doc = start + DocId::try_from(at).unwrap_or(0);
                for Listed { cursor, mark, .. } in &mut light {
                    if let Some(score) = cursor.seek(doc) {
                        note += f64::from(score);
                        marks |= *mark;
                    }
                }
                if is_short(note, marks, 0.0) {
                    continue;
                }
                let note = note as f32;
                let end = wanted.notes.end_of(doc);
                let (chunk, passage) = best_chunk(&mut chunks, marks, doc + 1..end, &mut scores);
                more_than = each(Sums { doc, note, chunk, passage });
            }
        }
    }
    Ok(())
}

/// A clause on notes.
struct Listed<'a> {
    cursor: Cursor<'a>,
    mark: u32,
    /// What it could give a note and its best chunk at the most.
    most: f32,
}

impl Listed<'_> {
    /// What it could give for each note it has.
    fn share(&self) -> f32 {
        match &self.cursor {
            Cursor::Word { postings, .. } => self.most / postings.doc_freq().max(1) as f32,
            Cursor::Phrase(_) => f32::INFINITY,
        }
    }
}

/// A mark for each clause, that of a clause on chunks being the one of the clause it is under;
/// `None` where there are more than there is room for or a clause is under none.
fn marks(clauses: &[Clause]) -> Option<Vec<u32>> {
    let mut marks = vec![0; clauses.len()];
    let mut used = 0;
    for (at, clause) in clauses.iter().enumerate() {
        let Part::Chunk { under } = clause.part else { continue };
        let under = under?;
        if marks[under] == 0 {
            if used == MARKS {
                return None;
            }
            marks[under] = 1 << used;
            used += 1;
        }
        marks[at] = marks[under];
    }
    Some(marks)
}

fn most_of(marks: u32, reach: &[f32; MARKS]) -> f32 {
    let mut rest = marks & !(TOUCHED | NAMED);
    let mut most = 0.0;
    while rest != 0 {
        most += reach[rest.trailing_zeros() as usize];
        rest &= rest - 1;
    }
    most
}

/// The best of a note's chunks, counted from 0, and its score; the first of equals.
fn best_chunk(
    cursors: &mut [(Cursor, u32)],
    marks: u32,
    docs: Range<DocId>,
    scores: &mut Vec<f64>,
) -> (u32, f32) {
    scores.clear();
    scores.resize(docs.len(), 0.0);
    for (cursor, _) in cursors.iter_mut().filter(|it| it.1 & marks != 0) {
        cursor.add_from(docs.start, docs.end, |at, score| scores[at] += f64::from(score));
    }
    let mut best = (0, 0.0);
    for (at, score) in (0..).zip(scores.iter().map(|it| *it as f32)) {
        if score > best.1 {
            best = (at, score);
        }
    }
    best
}

/// Gives `each` every note of a segment that has any of the words, in order, until it says stop.
fn all_blocks(
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
            cursor.add(start, |at, score| sums[at] += f64::from(score));
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
    sums: &mut [f64],
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
            let score = std::mem::take(sum) as f32;
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

    /// Gives the scores of the window that begins at `start`, by place in it. Nothing before the
    /// window is left.
    fn add(&mut self, start: DocId, to: impl FnMut(usize, f32)) {
        self.give(start, start.saturating_add(WINDOW), to);
    }

    /// Gives the scores of a few documents, all of them behind those asked for before.
    fn add_from(&mut self, start: DocId, end: DocId, to: impl FnMut(usize, f32)) {
        if start >= end {
            return;
        }
        match self {
            Self::Word { postings, at, .. } => *at = postings.seek(start),
            Self::Phrase(scorer) if scorer.doc() < start => {
                scorer.seek(start);
            }
            Self::Phrase(_) => {}
        }
        self.give(start, end, to);
    }

    /// Gives the scores from here up to `end`, by place behind `start`.
    fn give(&mut self, start: DocId, end: DocId, mut to: impl FnMut(usize, f32)) {
        match self {
            Self::Word { postings, at, norms, weight } => loop {
                let rest = postings.docs().iter().zip(postings.freqs()).skip(*at);
                for (doc, frequency) in rest {
                    if *doc >= end {
                        return;
                    }
                    let norm = norms.fieldnorm_id(*doc);
                    to((*doc - start) as usize, weight.score(norm, *frequency));
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
                    to((doc - start) as usize, scorer.score());
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

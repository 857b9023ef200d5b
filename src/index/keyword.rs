//! Finds notes by their words.
//!
//! Takes an [`Ask`] and a filter, gives candidates: notes with the score of the whole note and of
//! their best passage. Two passes over the postings (notes, chunks), each pruned by the score of
//! its worst candidate so far; then each candidate gets the score that it lacks. The filter and
//! the liveness of notes are asked inside the passes, so that a filter never empties a full
//! result. Any thread.
//!
//! **Invariant:** a candidate's score is `note + passage`, whichever pass found it.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use tantivy::query::{
    BooleanWeight, EnableScoring, Explanation, Occur, PhraseQuery, Query, Scorer, SumCombiner,
    TermQuery, Weight,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, SegmentReader, Term};

use crate::base::clock;
use crate::index::ask::{Ask, Phrase, Word};
use crate::index::card::Card;
use crate::index::living::{Living, Shared};
use crate::index::schema::{DocKind, Fields};
use crate::index::shelf::Shelf;
use crate::index::state::State;

/// How much each part of a note counts. Flat around these values on every set of
/// `benches/quality.rs`; half and half is the mean of two views of one text.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    pub whole: f32,
    pub names: f32,
    pub stem: f32,
    pub exact: f32,
    pub phrase: f32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { whole: 0.5, names: 0.3, stem: 0.5, exact: 0.15, phrase: 1.0 }
    }
}

/// A note that may be an answer.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub card: Arc<Card>,
    /// The best chunk, counted from 0; 0 where no chunk matches.
    pub chunk: usize,
    /// The weighted BM25 of the whole note and its names.
    pub note: f32,
    /// The weighted BM25 of the best chunk.
    pub passage: f32,
    /// Whether the query is one of the note's names.
    pub named: bool,
    pub(super) block: Block,
}

/// Where a note's documents lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Block {
    pub(super) shelf: usize,
    pub(super) segment: usize,
    /// The note's own document; its chunks follow.
    pub(super) doc: DocId,
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Found {
    /// Best first.
    pub candidates: Vec<Candidate>,
    /// Whether the deadline came first.
    pub cut: bool,
    /// Words that were left out because there were too many.
    pub dropped: usize,
}

/// A part of a score, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    pub what: String,
    pub score: f32,
}

/// What a search needs of its view.
pub(super) struct Ground<'a> {
    pub(super) shelves: &'a [Arc<Shelf>],
    pub(super) fields: &'a Fields,
    pub(super) weights: Weights,
    /// The living notes.
    pub(super) state: &'a State,
    pub(super) living: &'a Living,
}

impl<'a> Ground<'a> {
    fn shared(&self, kind: DocKind) -> Shared<'a> {
        Shared { shelves: self.shelves, fields: self.fields, living: self.living, kind }
    }
}

/// The rarest words of a query that are searched.
const MOST_TERMS: usize = 96;
/// A pass keeps at least this many, so that a note strong in one pass only is not missed.
const LEAST_POOL: usize = 48;
/// Callbacks between two looks at the clock.
const CLOCK_STEP: u32 = 128;

/// The notes that answer best, at most `pool`.
pub(super) fn find(
    ground: &Ground,
    ask: &Ask,
    keep: &dyn Fn(&Card) -> bool,
    pool: usize,
    deadline: Instant,
) -> tantivy::Result<Found> {
    let mut found = Found { dropped: ask.dropped, ..Found::default() };
    let plan = Plan::new(ground, ask, &mut found)?;
    let mut search = Search { ground, keep, deadline, cut: false, candidates: HashMap::new() };
    let width = pool.max(LEAST_POOL);
    search.pass(&plan.note, DocKind::Note, width)?;
    search.pass(&plan.chunk, DocKind::Chunk, width)?;
    search.named(&ask.key, pool)?;
    search.complete(&plan)?;
    found.cut = search.cut;
    let mut candidates: Vec<Candidate> =
        search.candidates.into_values().map(|it| it.candidate).collect();
    candidates.retain(|it| it.named || it.score() > 0.0);
    candidates.sort_by(|a, b| {
        b.named
            .cmp(&a.named)
            .then(b.score().total_cmp(&a.score()))
            .then_with(|| a.card.path.cmp(&b.card.path))
    });
    candidates.truncate(pool);
    found.candidates = candidates;
    Ok(found)
}

/// The parts that a candidate's score is the sum of, by field and word.
pub(super) fn shares(
    ground: &Ground,
    ask: &Ask,
    candidate: &Candidate,
) -> tantivy::Result<Vec<Share>> {
    let plan = Plan::new(ground, ask, &mut Found::default())?;
    let Block { shelf, segment, doc } = candidate.block;
    let reader = &ground.shelves[shelf].readers()[segment];
    let mut shares = Vec::new();
    let chunk = doc + 1 + DocId::try_from(candidate.chunk).unwrap_or(0);
    for (clauses, doc) in [(&plan.note, doc), (&plan.chunk, chunk)] {
        for clause in clauses {
            let mut scorer = clause.weight.scorer(reader, clause.boost)?;
            if scorer.doc() < doc {
                scorer.seek(doc);
            }
            if scorer.doc() == doc {
                let score = scorer.score();
                shares.push(Share { what: clause.what.clone(), score });
            }
        }
    }
    Ok(shares)
}

impl Candidate {
    /// The keyword score: the note's and its best passage's.
    pub fn score(&self) -> f32 {
        self.note + self.passage
    }
}

/// One term or phrase in one field.
struct Clause {
    weight: Arc<dyn Weight>,
    boost: f32,
    what: String,
}

/// A clause inside a sum: built once, used by the pass and for single documents.
struct Summand {
    weight: Arc<dyn Weight>,
    boost: f32,
}

impl Weight for Summand {
    fn scorer(&self, reader: &SegmentReader, boost: f32) -> tantivy::Result<Box<dyn Scorer>> {
        self.weight.scorer(reader, boost * self.boost)
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.weight.explain(reader, doc)
    }
}

struct Plan {
    note: Vec<Clause>,
    chunk: Vec<Clause>,
}

impl Plan {
    fn new(ground: &Ground, ask: &Ask, found: &mut Found) -> tantivy::Result<Self> {
        let notes = ground.shared(DocKind::Note);
        let chunks = ground.shared(DocKind::Chunk);
        let mut plan = Self { note: Vec::new(), chunk: Vec::new() };
        let (Some(note), Some(chunk)) = (notes.scoring(), chunks.scoring()) else {
            return Ok(plan);
        };
        let Fields { whole, names, exact, stem, .. } = *ground.fields;
        let weights = ground.weights;
        for word in rarest(ground, &ask.words, found)? {
            if let Some(text) = &word.stem {
                plan.note.extend(term("note", whole, text, weights.whole * word.weight, note)?);
                plan.note.extend(term("names", names, text, weights.names * word.weight, note)?);
                plan.chunk.extend(term("passage", stem, text, weights.stem * word.weight, chunk)?);
            }
            if let Some(text) = &word.exact {
                // A word without a stem is a stop word asked for by itself.
                let is_alone = word.stem.is_none() && !word.is_contraction();
                let weight = if is_alone { weights.stem } else { weights.exact };
                plan.chunk.extend(term("spelling", exact, text, weight * word.weight, chunk)?);
            }
        }
        for Phrase { exact: words, stem } in &ask.phrases {
            plan.chunk.extend(phrase("phrase", exact, words, weights.phrase, chunk)?);
            plan.note.extend(phrase("phrase in names", names, stem, weights.phrase, note)?);
        }
        Ok(plan)
    }
}

/// The words that say most, where there are too many.
fn rarest<'a>(
    ground: &Ground,
    words: &'a [Word],
    found: &mut Found,
) -> tantivy::Result<Vec<&'a Word>> {
    if words.len() <= MOST_TERMS {
        return Ok(words.iter().collect());
    }
    let mut counted = Vec::new();
    for word in words {
        let term = match (&word.stem, &word.exact) {
            (Some(stem), _) => Term::from_field_text(ground.fields.stem, stem),
            (None, Some(exact)) => Term::from_field_text(ground.fields.exact, exact),
            (None, None) => continue,
        };
        let mut count = 0;
        for shelf in ground.shelves {
            count += shelf.searcher().doc_freq(&term)?;
        }
        if count > 0 {
            counted.push((count, word));
        }
    }
    counted.sort_by_key(|it| it.0);
    found.dropped += counted.len().saturating_sub(MOST_TERMS);
    counted.truncate(MOST_TERMS);
    Ok(counted.into_iter().map(|it| it.1).collect())
}

fn term(
    what: &str,
    field: Field,
    text: &str,
    boost: f32,
    scoring: EnableScoring,
) -> tantivy::Result<Option<Clause>> {
    let query = TermQuery::new(Term::from_field_text(field, text), IndexRecordOption::WithFreqs);
    clause(what, text, Box::new(query), boost, scoring)
}

fn phrase(
    what: &str,
    field: Field,
    words: &[(usize, String)],
    boost: f32,
    scoring: EnableScoring,
) -> tantivy::Result<Option<Clause>> {
    let term = |text: &str| Term::from_field_text(field, text);
    let query: Box<dyn Query> = match words {
        [] => return Ok(None),
        [(_, one)] => Box::new(TermQuery::new(term(one), IndexRecordOption::WithFreqs)),
        many => Box::new(PhraseQuery::new_with_offset(
            many.iter().map(|(place, text)| (*place, term(text))).collect(),
        )),
    };
    let shown: Vec<&str> = words.iter().map(|it| it.1.as_str()).collect();
    clause(what, &shown.join(" "), query, boost, scoring)
}

fn clause(
    what: &str,
    text: &str,
    query: Box<dyn Query>,
    boost: f32,
    scoring: EnableScoring,
) -> tantivy::Result<Option<Clause>> {
    if boost <= 0.0 {
        return Ok(None);
    }
    let weight = query.weight(scoring)?.into();
    Ok(Some(Clause { weight, boost, what: format!("{what} `{text}`") }))
}

struct Search<'a> {
    ground: &'a Ground<'a>,
    keep: &'a dyn Fn(&Card) -> bool,
    deadline: Instant,
    cut: bool,
    candidates: HashMap<Block, Partial>,
}

/// A candidate that may still lack a score.
struct Partial {
    candidate: Candidate,
    has_note: bool,
    has_passage: bool,
}

/// A scored document, ordered so that the worst is the greatest.
#[derive(PartialEq)]
struct Scored {
    score: f32,
    at: (usize, usize, DocId),
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.at.cmp(&other.at))
    }
}

impl Search<'_> {
    /// The best documents of one kind, by the sum of the clauses.
    fn pass(&mut self, clauses: &[Clause], kind: DocKind, width: usize) -> tantivy::Result<()> {
        if clauses.is_empty() {
            return Ok(());
        }
        let summands = clauses.iter().map(|it| {
            let summand = Summand { weight: Arc::clone(&it.weight), boost: it.boost };
            (Occur::Should, Box::new(summand) as Box<dyn Weight>)
        });
        let weight = BooleanWeight::with_minimum_number_should_match(
            summands.collect(),
            1,
            true,
            Box::new(SumCombiner::default),
        );
        let mut heap: BinaryHeap<Scored> = BinaryHeap::with_capacity(width + 1);
        for (shelf_at, shelf) in self.ground.shelves.iter().enumerate() {
            for (segment, reader) in shelf.readers().iter().enumerate() {
                if self.is_late() {
                    break;
                }
                let (mut steps, mut late) = (0, false);
                let threshold = |heap: &BinaryHeap<Scored>| match heap.peek() {
                    Some(worst) if heap.len() == width => worst.score,
                    _ => 0.0,
                };
                weight.for_each_pruning(threshold(&heap), reader, &mut |doc, score| {
                    steps += 1;
                    if late || (steps % CLOCK_STEP == 0 && clock::now() >= self.deadline) {
                        late = true;
                        // Nothing scores more than this: the pass ends by itself.
                        return f32::INFINITY;
                    }
                    if !reader.is_deleted(doc) && self.takes(shelf, segment, doc) {
                        heap.push(Scored { score, at: (shelf_at, segment, doc) });
                        if heap.len() > width {
                            heap.pop();
                        }
                    }
                    threshold(&heap)
                })?;
                self.cut |= late;
            }
        }
        for Scored { score, at: (shelf, segment, doc) } in heap.into_vec() {
            self.note_down(shelf, segment, doc, Some(score), kind);
        }
        Ok(())
    }

    /// The notes that bear the query as a name.
    fn named(&mut self, key: &str, most: usize) -> tantivy::Result<()> {
        let shared = self.ground.shared(DocKind::Note);
        let (Some(scoring), false) = (shared.scoring(), key.is_empty()) else { return Ok(()) };
        let term = Term::from_field_text(self.ground.fields.keys, key);
        let weight = TermQuery::new(term, IndexRecordOption::Basic).weight(scoring)?;
        let mut named = Vec::new();
        for (shelf_at, shelf) in self.ground.shelves.iter().enumerate() {
            for (segment, reader) in shelf.readers().iter().enumerate() {
                weight.for_each(reader, &mut |doc, _| {
                    if named.len() < most
                        && !reader.is_deleted(doc)
                        && self.takes(shelf, segment, doc)
                    {
                        named.push((shelf_at, segment, doc));
                    }
                })?;
            }
        }
        for (shelf, segment, doc) in named {
            let block = Block { shelf, segment, doc };
            self.note_down(shelf, segment, doc, None, DocKind::Note);
            if let Some(partial) = self.candidates.get_mut(&block) {
                partial.candidate.named = true;
            }
        }
        Ok(())
    }

    fn takes(&self, shelf: &Shelf, segment: usize, doc: DocId) -> bool {
        self.ground.state.card_of(shelf.note_of(segment, doc)).is_some_and(|card| (self.keep)(card))
    }

    fn note_down(
        &mut self,
        shelf: usize,
        segment: usize,
        doc: DocId,
        score: Option<f32>,
        kind: DocKind,
    ) {
        let on = &self.ground.shelves[shelf];
        let Some(card) = self.ground.state.card_of(on.note_of(segment, doc)).cloned() else {
            return;
        };
        let place = on.place_of(segment, doc);
        let block = Block { shelf, segment, doc: doc.saturating_sub(place) };
        let partial = self.candidates.entry(block).or_insert_with(|| Partial {
            candidate: Candidate { card, chunk: 0, note: 0.0, passage: 0.0, named: false, block },
            has_note: false,
            has_passage: false,
        });
        let Some(score) = score else { return };
        match kind {
            DocKind::Note => {
                partial.candidate.note = score;
                partial.has_note = true;
            }
            DocKind::Chunk => {
                partial.has_passage = true;
                partial.candidate.offer(place, score);
            }
        }
    }

    /// Gives each candidate the score that its pass did not.
    fn complete(&mut self, plan: &Plan) -> tantivy::Result<()> {
        let mut by_segment: HashMap<(usize, usize), (Vec<DocId>, Vec<DocId>)> = HashMap::new();
        for (block, partial) in &self.candidates {
            let (notes, chunks) = by_segment.entry((block.shelf, block.segment)).or_default();
            if !partial.has_note {
                notes.push(block.doc);
            }
            if !partial.has_passage {
                let count = DocId::try_from(partial.candidate.card.chunks.len()).unwrap_or(0);
                chunks.extend(block.doc + 1..=block.doc + count);
            }
        }
        for ((shelf, segment), (notes, chunks)) in by_segment {
            for (clauses, docs, kind) in
                [(&plan.note, notes, DocKind::Note), (&plan.chunk, chunks, DocKind::Chunk)]
            {
                for (doc, score) in self.scores(shelf, segment, clauses, docs)? {
                    self.note_down(shelf, segment, doc, Some(score), kind);
                }
            }
        }
        Ok(())
    }

    /// The sums of the clauses for single documents.
    fn scores(
        &mut self,
        shelf: usize,
        segment: usize,
        clauses: &[Clause],
        mut docs: Vec<DocId>,
    ) -> tantivy::Result<Vec<(DocId, f32)>> {
        docs.sort_unstable();
        docs.dedup();
        let mut sums = vec![0.0_f32; docs.len()];
        let reader = &self.ground.shelves[shelf].readers()[segment];
        for clause in clauses {
            if docs.is_empty() || self.is_late() {
                break;
            }
            let mut scorer = clause.weight.scorer(reader, clause.boost)?;
            for (doc, sum) in docs.iter().zip(&mut sums) {
                if scorer.doc() < *doc {
                    scorer.seek(*doc);
                }
                if scorer.doc() == *doc {
                    *sum += scorer.score();
                }
            }
        }
        Ok(docs.into_iter().zip(sums).filter(|it| it.1 > 0.0).collect())
    }

    fn is_late(&mut self) -> bool {
        self.cut |= clock::now() >= self.deadline;
        self.cut
    }
}

impl Candidate {
    /// Takes the chunk at `place` as the best one if it scores more; ties go to the first.
    fn offer(&mut self, place: u32, score: f32) {
        let chunk = place.saturating_sub(1) as usize;
        let is_better = score > self.passage || (score == self.passage && chunk < self.chunk);
        if is_better {
            self.passage = score;
            self.chunk = chunk;
        }
    }
}

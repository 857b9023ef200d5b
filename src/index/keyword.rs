//! Finds notes by their words.
//!
//! Takes an [`Ask`] and a filter, gives candidates: notes with the score of the whole note and of
//! their best passage. One pass over the postings of all words adds both up, note by note. The
//! filter and the liveness of notes are asked inside the pass, of notes that could still be among
//! the best, so that a filter never empties a full result. Any thread.
//!
//! **Invariant:** the candidates are the best by `note + passage`, none is missed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Instant;

use tantivy::query::{Bm25Weight, PhraseQuery, Query, TermQuery, Weight};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet as _, Term};

use crate::base::clock;
use crate::index::ask::{Ask, Phrase, Word};
use crate::index::card::Card;
use crate::index::living::{Living, Shared};
use crate::index::schema::{DocKind, Fields};
use crate::index::shelf::Shelf;
use crate::index::state::State;
use crate::index::sums::{self, Clause, Form, Part, Sums, Wanted, score_of};
use crate::index::words::is_unspaced;

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
    /// What a note would have at the most that is full of all words of the query, by its text. A
    /// word that no note has counts like the rarest.
    pub whole: f32,
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
/// The notes that answer best, at most `pool`.
pub(super) fn find(
    ground: &Ground,
    ask: &Ask,
    keep: &dyn Fn(&Card) -> bool,
    pool: usize,
    deadline: Instant,
) -> tantivy::Result<Found> {
    let mut found = Found { dropped: ask.dropped, ..Found::default() };
    let plan = plan(ground, ask, &mut found)?;
    let mut search =
        Search { ground, keep, deadline, cut: false, most: pool, best: BinaryHeap::new() };
    let mut named = search.named(&ask.key)?;
    search.pass(&plan, &mut named)?;
    found.cut = search.cut;
    let mut candidates = search.candidates(&named);
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
    let plan = plan(ground, ask, &mut Found::default())?;
    let Block { shelf, segment, doc } = candidate.block;
    let reader = &ground.shelves[shelf].readers()[segment];
    let mut shares = Vec::new();
    let chunk = doc + 1 + DocId::try_from(candidate.chunk).unwrap_or(0);
    for clause in &plan {
        for doc in [doc, chunk] {
            if let Some(score) = score_of(clause, reader, doc)? {
                shares.push(Share { what: clause.what.clone(), score });
            }
        }
    }
    Ok(shares)
}

/// Which of the notes have all that the query means to the letter: its quoted phrases and
/// identifiers.
pub(super) fn are_literal<'a>(
    ground: &Ground,
    ask: &Ask,
    candidates: impl Iterator<Item = &'a Candidate>,
) -> tantivy::Result<Vec<bool>> {
    let shared = ground.shared(DocKind::Chunk);
    let Some(scoring) = shared.scoring() else { return Ok(candidates.map(|_| false).collect()) };
    let weight = |field: Field, words: &[(usize, String)]| -> tantivy::Result<_> {
        let mut terms: Vec<(usize, Term)> =
            words.iter().map(|it| (it.0, Term::from_field_text(field, &it.1))).collect();
        Ok(match terms.len() {
            0 => None,
            1 => {
                let (_, term) = terms.remove(0);
                Some(TermQuery::new(term, IndexRecordOption::Basic).weight(scoring)?)
            }
            _ => {
                let phrase: Box<dyn Weight> =
                    PhraseQuery::new_with_offset(terms).weight(scoring)?;
                Some(phrase)
            }
        })
    };
    let Fields { exact, names, .. } = *ground.fields;
    // Of each, one of these is to be there.
    let mut wanted: Vec<[Option<Box<dyn Weight>>; 2]> = Vec::new();
    for phrase in &ask.phrases {
        wanted.push([weight(exact, &phrase.exact)?, weight(names, &phrase.stem)?]);
    }
    for identifier in &ask.identifiers {
        wanted.push([weight(exact, &[(0, identifier.clone())])?, None]);
    }
    let has_all = |candidate: &Candidate| -> tantivy::Result<bool> {
        let Block { shelf, segment, doc } = candidate.block;
        let reader = &ground.shelves[shelf].readers()[segment];
        let last = doc + DocId::try_from(candidate.card.chunks.len()).unwrap_or(0);
        for either in &wanted {
            let mut is_there = false;
            for weight in either.iter().flatten() {
                let mut docs = weight.scorer(reader, 1.0)?;
                let at = docs.doc();
                is_there |= (if at < doc { docs.seek(doc) } else { at }) <= last;
            }
            if !is_there {
                return Ok(false);
            }
        }
        Ok(true)
    };
    candidates.map(has_all).collect()
}

impl Candidate {
    /// The keyword score: the note's and its best passage's.
    pub fn score(&self) -> f32 {
        self.note + self.passage
    }
}

/// Whether whatever is spelled like this has the same stem. Between apostrophes and in scripts
/// without spaces the pieces beside it decide whether there is one.
fn has_one_stem(exact: &str) -> bool {
    !exact.chars().any(|it| it == '\'' || is_unspaced(it))
}

/// What a query adds up: clauses over notes and clauses over chunks.
fn plan(ground: &Ground, ask: &Ask, found: &mut Found) -> tantivy::Result<Vec<Clause>> {
    let note = &ground.shared(DocKind::Note);
    let chunk = &ground.shared(DocKind::Chunk);
    let mut plan = Vec::new();
    let Fields { whole, names, exact, stem, .. } = *ground.fields;
    let weights = ground.weights;
    for word in rarest(ground, &ask.words, found)? {
        // Where a chunk has the word, the whole note has its stem.
        let mut under = None;
        if let Some(text) = &word.stem {
            let clause = term("note", whole, text, weights.whole * word.weight, note, Part::Note)?;
            under = clause.is_some().then_some(plan.len());
            found.whole += most(&clause);
            plan.extend(clause);
            plan.extend(term("names", names, text, weights.names * word.weight, note, Part::Note)?);
            let part = Part::Chunk { under };
            let clause = term("passage", stem, text, weights.stem * word.weight, chunk, part)?;
            found.whole += most(&clause);
            plan.extend(clause);
        }
        if let Some(text) = &word.exact {
            // A word without a stem is a stop word asked for by itself.
            let is_alone = word.stem.is_none() && !word.is_contraction();
            let weight = if is_alone { weights.stem } else { weights.exact };
            let part = Part::Chunk { under: under.filter(|_| has_one_stem(text)) };
            let clause = term("spelling", exact, text, weight * word.weight, chunk, part)?;
            found.whole += most(&clause);
            plan.extend(clause);
        }
    }
    let part = Part::Chunk { under: None };
    for Phrase { exact: words, stem } in &ask.phrases {
        plan.extend(phrase("phrase", exact, words, weights.phrase, chunk, part)?);
        plan.extend(phrase("phrase in names", names, stem, weights.phrase, note, Part::Note)?);
    }
    Ok(plan)
}

/// What a clause gives a document at the most.
fn most(clause: &Option<Clause>) -> f32 {
    clause.as_ref().map_or(0.0, Clause::most)
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
    statistics: &Shared,
    part: Part,
) -> tantivy::Result<Option<Clause>> {
    if boost <= 0.0 {
        return Ok(None);
    }
    let term = Term::from_field_text(field, text);
    let weight = Bm25Weight::for_terms(statistics, std::slice::from_ref(&term))?.boost_by(boost);
    Ok(Some(Clause { what: format!("{what} `{text}`"), form: Form::Word { term, weight }, part }))
}

fn phrase(
    what: &str,
    field: Field,
    words: &[(usize, String)],
    boost: f32,
    statistics: &Shared,
    part: Part,
) -> tantivy::Result<Option<Clause>> {
    let many = match words {
        [] => return Ok(None),
        [(_, one)] => return term(what, field, one, boost, statistics, part),
        many => many,
    };
    let Some(scoring) = statistics.scoring() else { return Ok(None) };
    let terms = many.iter().map(|(place, text)| (*place, Term::from_field_text(field, text)));
    let weight = PhraseQuery::new_with_offset(terms.collect()).weight(scoring)?;
    let shown: Vec<&str> = words.iter().map(|it| it.1.as_str()).collect();
    let what = format!("{what} `{}`", shown.join(" "));
    Ok(Some(Clause { what, form: Form::Phrase { weight, boost }, part }))
}

struct Search<'a> {
    ground: &'a Ground<'a>,
    keep: &'a dyn Fn(&Card) -> bool,
    deadline: Instant,
    cut: bool,
    most: usize,
    /// The best so far, at most `most`; the worst of them on top.
    best: BinaryHeap<Scored>,
}

/// A scored note, ordered so that the worst is the greatest. Of equals the first by its path is
/// the better one, wherever it lies in the index.
struct Scored {
    score: f32,
    card: Arc<Card>,
    at: Block,
    sums: Sums,
}

impl PartialEq for Scored {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then_with(|| self.card.path.cmp(&other.card.path))
    }
}

impl Search<'_> {
    /// Adds everything up; of the `named` notes the sums are kept, whatever they are.
    fn pass(&mut self, plan: &[Clause], named: &mut BTreeMap<Block, Sums>) -> tantivy::Result<()> {
        let (ground, deadline) = (self.ground, self.deadline);
        for (shelf_at, shelf) in ground.shelves.iter().enumerate() {
            for (segment, reader) in shelf.readers().iter().enumerate() {
                if clock::now() >= deadline {
                    self.cut = true;
                    break;
                }
                let mut late = false;
                let names: Vec<DocId> = named
                    .keys()
                    .filter(|it| (it.shelf, it.segment) == (shelf_at, segment))
                    .map(|it| it.doc)
                    .collect();
                let wanted = Wanted {
                    notes: shelf.note_docs(segment),
                    named: &names,
                    more_than: self.more_than(),
                };
                let each = |sums: Sums| {
                    let at = Block { shelf: shelf_at, segment, doc: sums.doc };
                    if let Some(named) = named.get_mut(&at) {
                        *named = sums;
                    }
                    self.offer(shelf, at, sums);
                    self.more_than()
                };
                sums::blocks(plan, reader, &wanted, each, || {
                    late = clock::now() >= deadline;
                    !late
                })?;
                self.cut |= late;
            }
        }
        Ok(())
    }

    /// The score that a note has to exceed; `None` while there is room for any. An equal of the
    /// worst may stand before it.
    fn more_than(&self) -> Option<f32> {
        let is_full = self.best.len() >= self.most;
        is_full.then(|| self.best.peek().map_or(f32::INFINITY, |worst| worst.score.next_down()))
    }

    /// Takes a note if it is among the best.
    fn offer(&mut self, shelf: &Shelf, at: Block, sums: Sums) {
        let score = sums.note + sums.passage;
        if self.more_than().is_some_and(|it| score <= it) {
            return;
        }
        if shelf.readers()[at.segment].is_deleted(at.doc) {
            return;
        }
        let card = self.ground.state.card_of(shelf.note_of(at.segment, at.doc));
        let Some(card) = card.filter(|it| (self.keep)(it)) else { return };
        self.best.push(Scored { score, card: Arc::clone(card), at, sums });
        if self.best.len() > self.most {
            self.best.pop();
        }
    }

    /// The notes that bear the query as a name.
    fn named(&mut self, key: &str) -> tantivy::Result<BTreeMap<Block, Sums>> {
        let mut named = BTreeMap::new();
        let shared = self.ground.shared(DocKind::Note);
        let (Some(scoring), false) = (shared.scoring(), key.is_empty()) else { return Ok(named) };
        let term = Term::from_field_text(self.ground.fields.keys, key);
        let weight = TermQuery::new(term, IndexRecordOption::Basic).weight(scoring)?;
        for (shelf_at, shelf) in self.ground.shelves.iter().enumerate() {
            for (segment, reader) in shelf.readers().iter().enumerate() {
                weight.for_each(reader, &mut |doc, _| {
                    if named.len() < self.most
                        && !reader.is_deleted(doc)
                        && self.takes(shelf, segment, doc)
                    {
                        let at = Block { shelf: shelf_at, segment, doc };
                        named.insert(at, Sums { doc, note: 0.0, chunk: 0, passage: 0.0 });
                    }
                })?;
            }
        }
        Ok(named)
    }

    fn takes(&self, shelf: &Shelf, segment: usize, doc: DocId) -> bool {
        self.ground.state.card_of(shelf.note_of(segment, doc)).is_some_and(|card| (self.keep)(card))
    }

    /// What was found, in no order.
    fn candidates(self, named: &BTreeMap<Block, Sums>) -> Vec<Candidate> {
        let mut all: BTreeMap<Block, Sums> =
            self.best.into_iter().map(|it| (it.at, it.sums)).collect();
        all.extend(named.iter().map(|(at, sums)| (*at, *sums)));
        let candidate = |(block, sums): (Block, Sums)| {
            let shelf = &self.ground.shelves[block.shelf];
            let card = self.ground.state.card_of(shelf.note_of(block.segment, block.doc))?;
            Some(Candidate {
                card: Arc::clone(card),
                chunk: sums.chunk as usize,
                note: sums.note,
                passage: sums.passage,
                named: named.contains_key(&block),
                block,
            })
        };
        all.into_iter().filter_map(candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::index::testing::{built, commit, put, remove};

    /// Words of every kind: those whose stem and spelling go together, and those where they do
    /// not.
    const WORDS: [&str; 18] = [
        "tide",
        "tides",
        "harbour",
        "Running",
        "ran",
        "the",
        "what",
        "café",
        "don't",
        "don",
        "日本",
        "日",
        "handleWebSocket",
        "socket",
        "v0.4.2",
        "path/to/tide.md",
        "Straße",
        "2026-06-29",
    ];

    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(&WORDS[..]), 1..14).prop_map(|it| it.join(" "))
    }

    fn note() -> impl Strategy<Value = String> {
        prop::collection::vec((text(), text()), 1..4).prop_map(|sections| {
            let section = |(head, body): &(String, String)| {
                format!("# {head}\n\n{body}\n\n{}\n\n", "filler words to end a passage ".repeat(40))
            };
            sections.iter().map(section).collect()
        })
    }

    /// What a pass over every word finds, and one that leaves out what can't be among the best.
    fn found(ground: &Ground, text: &str, most: usize, leave_out: bool) -> Vec<String> {
        let ask = Ask::new(text);
        let mut plan = plan(ground, &ask, &mut Found::default()).unwrap();
        if !leave_out {
            for clause in &mut plan {
                if let Part::Chunk { under } = &mut clause.part {
                    *under = None;
                }
            }
        }
        let deadline = clock::now() + Duration::from_secs(60);
        let (keep, best) = (&|_: &Card| true, BinaryHeap::new());
        let mut search = Search { ground, keep, deadline, cut: false, most, best };
        let mut named = search.named(&ask.key).unwrap();
        search.pass(&plan, &mut named).unwrap();
        search
            .candidates(&named)
            .iter()
            .map(|it| {
                let (note, passage) = (it.note.to_bits(), it.passage.to_bits());
                format!("{} {} {note:x} {passage:x} {}", it.card.path, it.chunk, it.named)
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
        #[test]
        fn what_is_left_out_is_not_among_the_best(
            notes in prop::collection::vec(note(), 2..30),
            queries in prop::collection::vec(text(), 1..8),
            most in 1..6_usize,
        ) {
            let named = |(at, text): (usize, &String)| (format!("{}{at}.md", WORDS[at % 5]), text.clone());
            let (_dir, mut index) = built(notes.iter().enumerate().map(named));
            let changed = vec![put("tide0.md", &notes[1]), remove("tides1.md"), put("new.md", "tide")];
            index.apply(changed, commit(2)).unwrap();
            let view = index.view();
            let ground = view.ground().unwrap();
            for query in queries.iter().map(String::as_str).chain(WORDS) {
                for most in [most, 200] {
                    let all = found(&ground, query, most, false);
                    prop_assert_eq!(all, found(&ground, query, most, true), "{}", query);
                }
            }
        }
    }
}

//! Ranks what the index finds.
//!
//! Takes a view, a query and a deadline, gives [`Results`]. By words a note's score is the BM25 of
//! the whole note plus that of its best passage, by meaning the cosine of its best passage; `fuse`
//! makes one of the two, `ranked` puts them in order. Any thread.
//!
//! **Invariant:** each note once; hits are sorted by the score they show, ties by path; a trace
//! adds up to its score.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use crate::index::{Ask, Candidate, Card, Found, IndexError, IndexView, Tie};
use crate::search::filter::{Filter, QueryError, asked};
use crate::search::fuse::{Fusion, Scales};
use crate::search::near::{Branch, Leave};
use crate::search::query::{Query, Rules};
use crate::search::ranked::Ranked;
use crate::search::results::{BranchState, FoundNodes, Hit, Neighbour, Node, Rerank, Results};
use crate::search::timely::Timely;
use crate::search::{heirs, literal, near, ranked};
use crate::vault::ChunkId;
use crate::vault::chunk::chunk_id;
use crate::vault::decode;

/// Neighbours a hit shows in each direction.
const MOST_NEIGHBOURS: usize = 10;
/// So many candidates are looked at however few hits are asked for, so that the first are the same;
/// not for the documented rule.
const LEAST_CANDIDATES: usize = 30;
/// The most candidates a branch gives.
const MOST_CANDIDATES: usize = 200;

const KEYWORD: &str = "keyword: BM25 (k1 1.2, b 0.75) of the whole note plus that of its best \
                       passage; a note named by the query first; day pages below their notes";
const VECTOR: &str = "vector: cosine of the best passage";
const LEADS: &str = "what has the quoted phrases and identifiers of the query before what has not";
const LITERAL: &str = "literal: the query has no word, so the text itself was looked for; score \
                       is its share of the passage";

/// What `min_score` is compared with, under each rule.
const BY_SCORE: &str = "; `min_score`: the score shown, which words alone bring to 1 at most";
const BY_RANK: &str = "; `min_score`: the score shown, at most 0.0164";
const ALL_THE_SAME: &str = "; `min_score`: as if both branches had answered, with 1 as the words' most, \
                            although the branch's own score is shown";
const BY_ITSELF: &str = "; `min_score`: the score shown, the branch's own";

/// The notes that answer best.
pub fn search(
    view: &IndexView,
    query: &Query,
    rules: Rules,
    deadline: Instant,
) -> Result<Results, QueryError> {
    search_but(view, query, rules, deadline, &HashSet::new(), Leave::Freely).map(|it| it.0)
}

/// The notes that answer best by passages that were not given before, and how many hits were left
/// out for it.
pub fn search_but(
    view: &IndexView,
    query: &Query,
    rules: Rules,
    deadline: Instant,
    given: &HashSet<ChunkId>,
    leave: Leave<'_>,
) -> Result<(Results, usize), QueryError> {
    asked(query)?;
    let mut skipped = 0;
    let filter = Filter::new(query)?;
    let mut results = Results {
        hits: Vec::new(),
        at: view.at(),
        commits_behind: 0,
        edits_uncommitted: 0,
        kept_out: 0,
        unseen: None,
        notes_in_part: in_part(view, |card| filter.is_asked(card)),
        keyword: BranchState::Used(0),
        vector: BranchState::Off("no model"),
        partial: view
            .building()
            .map(|it| format!("index is being built: {} of {} notes", it.done, it.total)),
        ranking: KEYWORD.to_owned(),
        fusion: None,
        dedup: None,
        rerank: Rerank::Off,
    };
    let filled = answer(view, query, rules, &filter, deadline, leave).and_then(|mut answer| {
        results.ranking = answer.ranking();
        results.fusion = answer.fusion.map(Fusion::name);
        (results.keyword, results.vector) = (answer.keyword, answer.vector);
        if answer.cut {
            results.partial = Some("the deadline came before the end of the search".to_owned());
        }
        answer.ranked.retain(|it| query.min_score.is_none_or(|least| it.score() >= least));
        let ask = answer.ask.filter(|_| query.explain);
        for ranked in answer.ranked {
            if results.hits.len() == query.limit {
                break;
            }
            let hit = hit(view, ranked, answer.scale, answer.fusion, ask.as_ref())?;
            match given.contains(&hit.id) {
                true => skipped += 1,
                false => results.hits.push(hit),
            }
        }
        Ok(())
    });
    if let Err(err) = filled {
        // The page says that it is a part of the truth; the log says why.
        tracing::error!(error = &err as &dyn std::error::Error, "index can't be searched");
        results.keyword = BranchState::Off("index can't be read");
        results.partial = Some("the index can't be read; see `remd status`".to_owned());
    }
    let (near, words) = (results.vector.found(), results.keyword.found());
    tracing::info!("vector_hits={near} keyword_hits={words}");
    Ok((results, skipped))
}

/// Whether all of a query is meant to the letter: a word, a phrase, an identifier alone.
pub fn is_to_the_letter(text: &str) -> bool {
    let ask = Ask::new(text.trim());
    ask.is_wordless() || ask.is_all_literal()
}

/// How many of these notes are searched in part, as they are too long.
pub fn in_part(view: &IndexView, is_asked: impl Fn(&Card) -> bool) -> usize {
    let is_cut = |card: &Card| card.problems.iter().any(|it| decode::is_cut(it));
    view.troubled().iter().filter(|it| is_cut(it) && is_asked(it)).count()
}

/// A hit that no word led to.
pub(super) fn passage_hit(
    view: &IndexView,
    card: &Arc<Card>,
    chunk: usize,
    cosine: f32,
) -> Result<Hit, IndexError> {
    let ranked = Ranked::near(view.candidate(card, chunk)?, cosine);
    let hit = hit(view, ranked, 1.0, None, None)?;
    Ok(Hit { vector: Some(cosine), keyword: None, ..hit })
}

/// The digest nodes that answer best, never crowded out by other notes.
pub fn nodes(
    view: &IndexView,
    query: &Query,
    rules: Rules,
    deadline: Instant,
    leave: Leave<'_>,
) -> Result<FoundNodes, QueryError> {
    asked(query)?;
    let filter = Filter::new(query)?.in_digest(&view.layout().digest);
    let mut found = FoundNodes::default();
    let ranked = match answer(view, query, rules, &filter, deadline, leave) {
        Ok(answer) => {
            (found.keyword, found.vector) = (answer.keyword, answer.vector);
            if answer.cut {
                found.partial = Some("the deadline came before the end of the search".to_owned());
            }
            answer.ranked
        }
        Err(err) => {
            tracing::error!(error = &err as &dyn std::error::Error, "index can't be searched");
            found.partial = Some("the index can't be read; see `remd status`".to_owned());
            Vec::new()
        }
    };
    found.candidates = ranked.len();
    found.nodes = ranked
        .into_iter()
        .map(|it| Node {
            path: it.candidate.card.path.clone(),
            name: it.candidate.card.name.to_string(),
            description: it.candidate.card.description.as_deref().map(str::to_owned),
            score: it.score(),
        })
        .filter(|it| query.min_score.is_none_or(|least| it.score >= least))
        .take(query.limit)
        .collect();
    Ok(found)
}

/// What the branches have to say together, best first.
struct Answer {
    ranked: Vec<Ranked>,
    /// `None` for a literal scan.
    ask: Option<Ask>,
    dropped: usize,
    cut: bool,
    keyword: BranchState,
    vector: BranchState,
    /// The rule, where both branches had something to say.
    fusion: Option<Fusion>,
    /// What a score is multiplied by to be the one branch's own.
    scale: f32,
    /// Why some notes are preferred for their day, for people.
    timely: Option<String>,
}

impl Answer {
    fn ranking(&self) -> String {
        let mut ranking = match (&self.ask, &self.keyword) {
            (None, _) => LITERAL.to_owned(),
            (Some(_), BranchState::Off(_)) => VECTOR.to_owned(),
            (Some(_), _) => KEYWORD.to_owned(),
        };
        if let Some(fusion) = self.fusion {
            ranking.push_str(&format!("; {VECTOR}; {}; {LEADS}", fusion.text()));
        }
        ranking.push_str(match self.fusion {
            Some(Fusion::Score { .. }) => BY_SCORE,
            Some(Fusion::Rrf { .. }) => BY_RANK,
            None if self.scale != 1.0 => ALL_THE_SAME,
            None => BY_ITSELF,
        });
        if let Some(timely) = &self.timely {
            ranking.push_str(&format!("; {timely}"));
        }
        if self.dropped > 0 {
            let dropped = self.dropped;
            ranking.push_str(&format!("; {dropped} words of the query, the most common, left out"));
        }
        ranking
    }
}

fn pool(limit: usize) -> usize {
    (limit * 3).min(MOST_CANDIDATES)
}

fn answer(
    view: &IndexView,
    query: &Query,
    rules: Rules,
    filter: &Filter,
    deadline: Instant,
    leave: Leave<'_>,
) -> Result<Answer, IndexError> {
    let (text, pool) = (query.text.trim(), pool(query.limit));
    let ask = Ask::new(text);
    if ask.is_wordless() {
        let (found, whole) = literal::scan(view, text, filter, pool, deadline)?;
        return Ok(Answer {
            keyword: BranchState::Used(found.len()),
            vector: BranchState::Off("the query has no word"),
            ranked: ranked::by_words(view, found, Vec::new(), &Timely::default())?,
            ask: None,
            dropped: 0,
            cut: !whole,
            fusion: None,
            scale: 1.0,
            timely: None,
        });
    }
    let wanted = query.vector_weight.filter(|it| it.is_finite());
    let timely = Timely::of(text, &ask, wanted, rules);
    let is_documented = wanted.is_some() || rules.by_rank.is_some();
    let pool = timely.pool(if is_documented { pool } else { pool.max(LEAST_CANDIDATES) });
    let of_time = timely.of_time(view, |card| filter.takes(card), query.limit);
    let (no_words, no_vectors) =
        (wanted.is_some_and(|it| it >= 1.0), wanted.is_some_and(|it| it <= 0.0));
    let words = match no_words {
        true => Found::default(),
        false => view.find(&ask, &|card| filter.takes(card), pool, deadline)?,
    };
    let off = |why| Branch { state: BranchState::Off(why), found: None };
    let Branch { state, found: near } = match wanted {
        _ if no_vectors => off("`vector_weight` is 0"),
        // Whoever types a word, a phrase or a path and finds it wants no neighbours of it.
        None if ask.is_all_literal()
            && !words.candidates.is_empty()
            && view.embedder().is_some() =>
        {
            off("the query is meant to the letter")
        }
        _ => near::branch(view, text, filter, pool, deadline, leave),
    };
    let keyword = match no_words {
        true => BranchState::Off("`vector_weight` is 1"),
        false => BranchState::Used(words.candidates.len()),
    };
    let mut answer = Answer {
        ranked: Vec::new(),
        ask: Some(ask),
        dropped: words.dropped,
        cut: words.cut,
        keyword,
        vector: state,
        fusion: None,
        scale: 1.0,
        timely: timely.text(),
    };
    let model = view.embedder().map(|it| it.identity().model.as_str());
    let Some(model) = model.filter(|_| wanted.is_none_or(|it| it > 0.0)) else {
        answer.ranked = ranked::by_words(view, words.candidates, of_time, &timely)?;
        return Ok(answer);
    };
    let fusion = Fusion::chosen(wanted, rules.by_rank, rules.by_score, model);
    // Without a vector the scale stays that of the rule, so that `min_score` means the same.
    let mut near = near.unwrap_or_default();
    if !words.candidates.is_empty() {
        near.add(view, words.candidates.iter().map(|it| &it.card));
    }
    answer.cut |= near.cut;
    // The notes that words found have their nearness, too.
    if near.has_looked() {
        answer.vector = near.state();
    }
    let is_both = !words.candidates.is_empty() && !near.near.is_empty();
    let best = words.candidates.iter().map(Candidate::score).fold(0.0, f32::max);
    let nearest = near.near.iter().map(|it| it.cosine).fold(0.0, f32::max);
    let scales = Scales::of(words.whole, best, nearest);
    answer.fusion = is_both.then_some(fusion);
    answer.scale = match fusion {
        _ if is_both => 1.0,
        Fusion::Rrf { .. } => 1.0,
        Fusion::Score { .. } if !words.candidates.is_empty() && best > 0.0 => scales.of_words(),
        Fusion::Score { vector_weight } => scales.of_cosine(vector_weight),
    };
    if let Some(ask) = &answer.ask {
        answer.ranked =
            ranked::fused(view, ask, (fusion, scales), words.candidates, &near, of_time, &timely)?;
    }
    Ok(answer)
}

fn hit(
    view: &IndexView,
    ranked: Ranked,
    scale: f32,
    fusion: Option<Fusion>,
    explain: Option<&Ask>,
) -> Result<Hit, IndexError> {
    let passage = view.passage(&ranked.candidate)?;
    let card = &ranked.candidate.card;
    let (start_line, end_line) = card.chunks.get(ranked.candidate.chunk).copied().unwrap_or((1, 1));
    let (vector, keyword) = match &ranked.fused {
        Some(fused) => (fused.vector.map(|it| it.score), fused.keyword.map(|it| it.score)),
        None => (None, Some(ranked.score())),
    };
    let outlinks = view.outlinks(&card.path);
    let inlinks = view.inlinks(&card.path);
    let trace = match explain {
        Some(ask) => trace(view, &ranked, scale, fusion, ask)?,
        None => Vec::new(),
    };
    Ok(Hit {
        id: chunk_id(&card.path, start_line, end_line, &passage.text),
        path: card.path.clone(),
        start_line,
        end_line,
        score: ranked.score() * scale,
        vector,
        keyword,
        name: card.name.to_string(),
        description: card.description.as_deref().map(str::to_owned),
        headings: passage.headings,
        text: passage.text,
        uncommitted: card.is_uncommitted(),
        outlinks_total: outlinks.len(),
        outlinks: outlinks.iter().take(MOST_NEIGHBOURS).map(Neighbour::from).collect(),
        inlinks_total: inlinks.len(),
        inlinks: inlinks.iter().take(MOST_NEIGHBOURS).map(Neighbour::from).collect(),
        superseded: heirs::heir(view, card),
        trace,
    })
}

/// A line for each part of the score; the figures with a sign add up to the last one.
fn trace(
    view: &IndexView,
    ranked: &Ranked,
    scale: f32,
    fusion: Option<Fusion>,
    ask: &Ask,
) -> Result<Vec<String>, IndexError> {
    let shares = view.shares(ask, &ranked.candidate)?;
    let mut lines = Vec::new();
    match (fusion, &ranked.fused) {
        (Some(fusion), Some(fused)) => {
            if let Some(keyword) = fused.keyword {
                let (share, rank, score) = (keyword.share, keyword.rank, keyword.score);
                lines.push(format!("{share:+.4} keyword: rank {rank}, BM25 {score:.4}"));
                lines.extend(shares.iter().map(|it| format!("  {:.4} {}", it.score, it.what)));
            } else {
                lines.push("+0.0000 keyword: not among its candidates".to_owned());
            }
            if let Some(vector) = fused.vector {
                let (share, rank, score) = (vector.share, vector.rank, vector.score);
                lines.push(format!(
                    "{share:+.4} vector: rank {rank}, cosine {score:.4}{}",
                    place_of(ranked)
                ));
            } else if fused.beyond != 0.0 {
                let beyond = fused.beyond;
                lines.push(format!("{beyond:+.4} vector: none, counted as the farthest"));
            } else {
                lines.push("+0.0000 vector: none".to_owned());
            }
            lines.push(format!("rule {}", fusion.text()));
        }
        (_, Some(fused)) if fused.keyword.is_none() => {
            let score = fused.vector.map_or(0.0, |it| it.score);
            lines.push(format!("{score:+.4} cosine{}", place_of(ranked)));
        }
        _ => lines.extend(shares.iter().map(|it| format!("{:+.4} {}", it.score, it.what))),
    }
    for (score, why) in [
        (ranked.timely.meant, "it is of the time that the query names"),
        (ranked.timely.recent, "it is recent"),
        (ranked.timely.manual, "it is of remd's manual"),
        (ranked.literal, "it has what the query quotes or spells out"),
        (ranked.named, "the query is a name of this note"),
        (-ranked.superseded, "another note has replaced it"),
        (-ranked.held, "the page of a day stands below its notes"),
    ] {
        if score != 0.0 {
            lines.push(format!("{:+.4} {why}", score * scale));
        }
    }
    lines.push(format!("={:.4}", ranked.score() * scale));
    Ok(lines)
}

/// The lines of the nearest passage, for people.
fn place_of(ranked: &Ranked) -> String {
    let chunk = ranked.near_chunk.and_then(|it| ranked.candidate.card.chunks.get(it));
    chunk.map_or_else(String::new, |(start, end)| format!(" of lines {start}-{end}"))
}

impl From<&Tie> for Neighbour {
    fn from(tie: &Tie) -> Self {
        Self {
            path: tie.card.path.clone(),
            name: tie.card.name.to_string(),
            description: tie.card.description.as_deref().map(str::to_owned),
            anchors: tie.anchors.iter().map(|it| it.to_string()).collect(),
            relation: tie.relation.as_deref().map(str::to_owned),
        }
    }
}

//! Ranks what the index finds.
//!
//! Takes a view, a query and a deadline, gives [`Results`]. A note's score is the BM25 of the
//! whole note plus that of its best passage; a note whose name the query is stands first; the
//! page of a day stands below the notes of that day. Any thread.
//!
//! **Invariant:** each note once; hits are sorted by the score they show, ties by path; a trace
//! adds up to its score.

use std::time::Instant;

use crate::index::{Ask, Candidate, Card, IndexError, IndexView, Tie};
use crate::search::filter::{Filter, QueryError, asked};
use crate::search::literal;
use crate::search::query::Query;
use crate::search::results::{BranchState, Hit, Neighbour, Node, Results};
use crate::vault::chunk::chunk_id;
use crate::vault::role::date_of;
use crate::vault::{Role, VaultPath, decode};

/// Neighbours a hit shows in each direction.
const MOST_NEIGHBOURS: usize = 10;
/// The most candidates a branch gives.
const MOST_CANDIDATES: usize = 200;
/// What a note named by the query has over the best of the others.
const NAMED_LEAD: f32 = 1.0;
/// What the page of a day keeps of the score of its day's weakest note.
const DAY_PAGE_SHARE: f32 = 0.99;

const RANKING: &str = "keyword: BM25 (k1 1.2, b 0.75) of the whole note plus that of its best \
                       passage; a note named by the query first; day pages below their notes";
const LITERAL: &str = "literal: the query has no word, so the text itself was looked for; score \
                       is its share of the passage";

/// The notes that answer best.
pub fn search(view: &IndexView, query: &Query, deadline: Instant) -> Result<Results, QueryError> {
    let text = asked(query)?;
    let filter = Filter::new(query)?;
    let limit = query.limit;
    let mut results = Results {
        hits: Vec::new(),
        at: view.at(),
        commits_behind: 0,
        edits_uncommitted: 0,
        kept_out: 0,
        unseen: None,
        notes_in_part: in_part(view, |card| filter.is_asked(card)),
        keyword: BranchState::Used(0),
        vector: BranchState::Off("no vectors in this index"),
        partial: view
            .building()
            .map(|it| format!("index is being built: {} of {} notes", it.done, it.total)),
        ranking: RANKING.to_owned(),
    };
    let filled = answer(view, text, &filter, pool(limit), deadline).and_then(|mut answer| {
        results.keyword = BranchState::Used(answer.ranked.len());
        results.ranking = answer.ranking();
        if answer.cut {
            results.partial = Some("the deadline came before the end of the search".to_owned());
        }
        answer.ranked.retain(|it| query.min_score.is_none_or(|least| it.score() >= least));
        answer.ranked.truncate(limit);
        let ask = answer.ask.filter(|_| query.explain);
        for ranked in answer.ranked {
            results.hits.push(hit(view, ranked, ask.as_ref())?);
        }
        Ok(())
    });
    if let Err(err) = filled {
        // The page says that it is a part of the truth; the log says why.
        tracing::error!(error = &err as &dyn std::error::Error, "index can't be searched");
        results.keyword = BranchState::Off("index can't be read");
        results.partial = Some("the index can't be read; see `remd status`".to_owned());
    }
    Ok(results)
}

/// How many of these notes are searched in part, as they are too long.
pub fn in_part(view: &IndexView, is_asked: impl Fn(&Card) -> bool) -> usize {
    let is_cut = |card: &Card| card.problems.iter().any(|it| decode::is_cut(it));
    view.troubled().iter().filter(|it| is_cut(it) && is_asked(it)).count()
}

/// The digest nodes that answer best, never crowded out by other notes.
pub fn nodes(view: &IndexView, query: &Query, deadline: Instant) -> Result<Vec<Node>, QueryError> {
    let text = asked(query)?;
    let filter = Filter::new(query)?.in_digest(&view.layout().digest);
    let limit = query.limit;
    let ranked = match answer(view, text, &filter, pool(limit), deadline) {
        Ok(answer) => answer.ranked,
        Err(err) => {
            tracing::error!(error = &err as &dyn std::error::Error, "index can't be searched");
            Vec::new()
        }
    };
    let mut nodes: Vec<Node> = ranked
        .into_iter()
        .map(|it| Node {
            path: it.candidate.card.path.clone(),
            name: it.candidate.card.name.to_string(),
            description: it.candidate.card.description.as_deref().map(str::to_owned),
            score: it.score(),
        })
        .filter(|it| query.min_score.is_none_or(|least| it.score >= least))
        .collect();
    nodes.truncate(limit);
    Ok(nodes)
}

/// What the keyword branch has to say, best first.
struct Answer {
    ranked: Vec<Ranked>,
    /// `None` for a literal scan.
    ask: Option<Ask>,
    dropped: usize,
    cut: bool,
}

struct Ranked {
    candidate: Candidate,
    /// What being named by the query adds.
    lead: f32,
    /// What being the page of a day takes away.
    held: f32,
}

impl Answer {
    fn ranking(&self) -> String {
        match (&self.ask, self.dropped) {
            (None, _) => LITERAL.to_owned(),
            (Some(_), 0) => RANKING.to_owned(),
            (Some(_), dropped) => {
                format!("{RANKING}; {dropped} words of the query, the most common, left out")
            }
        }
    }
}

impl Ranked {
    fn score(&self) -> f32 {
        self.candidate.score() + self.lead - self.held
    }
}

fn pool(limit: usize) -> usize {
    (limit * 3).min(MOST_CANDIDATES)
}

fn answer(
    view: &IndexView,
    text: &str,
    filter: &Filter,
    pool: usize,
    deadline: Instant,
) -> Result<Answer, IndexError> {
    let ask = Ask::new(text);
    if ask.is_wordless() {
        let (found, whole) = literal::scan(view, text, filter, pool, deadline)?;
        let ranked = found.into_iter().map(Ranked::from).collect();
        return Ok(Answer { ranked, ask: None, dropped: 0, cut: !whole });
    }
    let found = view.find(&ask, &|card| filter.takes(card), pool, deadline)?;
    let ranked = ranked(found.candidates);
    Ok(Answer { ranked, ask: Some(ask), dropped: found.dropped, cut: found.cut })
}

/// Puts named notes first, day pages below their notes, the rest by score.
fn ranked(candidates: Vec<Candidate>) -> Vec<Ranked> {
    let mut all: Vec<Ranked> = candidates.into_iter().map(Ranked::from).collect();
    let best = all.iter().filter(|it| !it.candidate.named).map(Ranked::score).fold(0.0, f32::max);
    for at in 0..all.len() {
        if all[at].candidate.named {
            all[at].lead = best + NAMED_LEAD;
        } else if all[at].candidate.card.role == Role::DayPage {
            let weakest = weakest_of_day(&all, &all[at].candidate.card.path);
            let own = all[at].score();
            if let Some(weakest) = weakest.filter(|it| *it <= own) {
                all[at].held = own - weakest * DAY_PAGE_SHARE;
            }
        }
    }
    all.sort_by(|a, b| {
        b.score()
            .total_cmp(&a.score())
            .then_with(|| a.candidate.card.path.cmp(&b.candidate.card.path))
    });
    all
}

/// The lowest score among the notes of the day that `page` is of.
fn weakest_of_day(all: &[Ranked], page: &VaultPath) -> Option<f32> {
    let day = date_of(page)?;
    let folder = match page.parent() {
        Some(parent) if parent.file_name() == day.as_bytes() => parent,
        Some(parent) => parent.join(day.as_bytes()).ok()?,
        None => VaultPath::new(day).ok()?,
    };
    all.iter()
        .filter(|it| {
            let card = &it.candidate.card;
            card.role != Role::DayPage && card.path.is_within(folder.as_bytes())
        })
        .map(|it| it.candidate.score())
        .reduce(f32::min)
}

impl From<Candidate> for Ranked {
    fn from(candidate: Candidate) -> Self {
        Self { candidate, lead: 0.0, held: 0.0 }
    }
}

fn hit(view: &IndexView, ranked: Ranked, explain: Option<&Ask>) -> Result<Hit, IndexError> {
    let passage = view.passage(&ranked.candidate)?;
    let card = &ranked.candidate.card;
    let (start_line, end_line) = card.chunks.get(ranked.candidate.chunk).copied().unwrap_or((1, 1));
    let outlinks = view.outlinks(&card.path);
    let inlinks = view.inlinks(&card.path);
    let trace = match explain {
        Some(ask) => trace(view, &ranked, ask)?,
        None => Vec::new(),
    };
    Ok(Hit {
        id: chunk_id(&card.path, start_line, end_line, &passage.text),
        path: card.path.clone(),
        start_line,
        end_line,
        score: ranked.score(),
        vector: None,
        keyword: Some(ranked.score()),
        name: card.name.to_string(),
        description: card.description.as_deref().map(str::to_owned),
        headings: passage.headings,
        text: passage.text,
        uncommitted: false,
        outlinks_total: outlinks.len(),
        outlinks: outlinks.iter().take(MOST_NEIGHBOURS).map(Neighbour::from).collect(),
        inlinks_total: inlinks.len(),
        inlinks: inlinks.iter().take(MOST_NEIGHBOURS).map(Neighbour::from).collect(),
        trace,
    })
}

/// A line for each part of the score; their figures add up to the last one.
fn trace(view: &IndexView, ranked: &Ranked, ask: &Ask) -> Result<Vec<String>, IndexError> {
    let mut lines: Vec<String> = view
        .shares(ask, &ranked.candidate)?
        .iter()
        .map(|it| format!("{:+.4} {}", it.score, it.what))
        .collect();
    if ranked.lead != 0.0 {
        lines.push(format!("{:+.4} the query is a name of this note", ranked.lead));
    }
    if ranked.held != 0.0 {
        lines.push(format!("{:+.4} the page of a day stands below its notes", -ranked.held));
    }
    lines.push(format!("={:.4}", ranked.score()));
    Ok(lines)
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

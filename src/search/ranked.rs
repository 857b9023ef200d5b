//! One order of what the branches found.
//!
//! Pure, but for what a view is asked of a note. Takes candidates with their scores, gives them
//! ranked: fused, what is meant to the letter first, a note that the query names before all, the
//! page of a day below the notes of that day.
//!
//! **Invariant:** each note once; sorted by score, ties by path; a score is the sum of its parts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::index::{Ask, Candidate, Card, IndexError, IndexView};
use crate::search::fuse::{Fused, Fusion, Scales, fuse};
use crate::search::heirs;
use crate::search::near::FoundNear;
use crate::search::timely::{Extra, Timely};
use crate::vault::role::date_of;
use crate::vault::{Role, VaultPath};

/// What a note named by the query has over the best of the others.
const NAMED_LEAD: f32 = 1.0;
/// What the notes that have it to the letter have over the best of the others.
const LITERAL_LEAD: f32 = 0.01;
/// What the page of a day keeps of the score of its day's weakest note.
const DAY_PAGE_SHARE: f32 = 0.99;

/// A note in its place.
pub(super) struct Ranked {
    pub(super) candidate: Candidate,
    /// What it was found by, where two branches were asked.
    pub(super) fused: Option<Fused<VaultPath>>,
    /// The chunk that is nearest to the query, counted from 0.
    pub(super) near_chunk: Option<usize>,
    base: f32,
    /// What the note's day adds.
    pub(super) timely: Extra,
    /// What being named by the query adds.
    pub(super) named: f32,
    /// What having it to the letter adds.
    pub(super) literal: f32,
    /// What being the page of a day takes away.
    pub(super) held: f32,
    /// What being superseded takes away.
    pub(super) superseded: f32,
}

impl Ranked {
    fn new(candidate: Candidate, base: f32, timely: &Timely) -> Self {
        let (fused, near_chunk, named, literal) = (None, None, 0.0, 0.0);
        let timely = timely.extra(&candidate.card, base);
        Self {
            candidate,
            fused,
            near_chunk,
            base,
            timely,
            named,
            literal,
            held: 0.0,
            superseded: 0.0,
        }
    }

    /// A note by its nearness alone.
    pub(super) fn near(candidate: Candidate, cosine: f32) -> Self {
        Self::new(candidate, cosine, &Timely::default())
    }

    /// What it has of its own, before it is set against the others.
    fn own(&self) -> f32 {
        self.base + self.timely.sum()
    }

    /// What it is sorted by.
    pub(super) fn score(&self) -> f32 {
        self.own() + self.named + self.literal - self.held - self.superseded
    }

    fn card(&self) -> &Arc<Card> {
        &self.candidate.card
    }
}

/// The order of what words found, by their scores.
pub(super) fn by_words(
    view: &IndexView,
    candidates: Vec<Candidate>,
    of_time: Vec<Arc<Card>>,
    timely: &Timely,
) -> Result<Vec<Ranked>, IndexError> {
    let best = candidates.iter().map(Candidate::score).fold(0.0, f32::max);
    let timely = &timely.beside(best);
    let ranked = candidates.into_iter().map(|it| {
        let score = it.score();
        Ranked::new(it, score, timely)
    });
    let mut all = ranked.collect();
    add_of_time(view, of_time, timely, &mut all)?;
    Ok(in_order(view, all))
}

/// Adds the notes that are an answer for their day alone.
fn add_of_time(
    view: &IndexView,
    of_time: Vec<Arc<Card>>,
    timely: &Timely,
    all: &mut Vec<Ranked>,
) -> Result<(), IndexError> {
    let known: HashSet<VaultPath> = all.iter().map(|it| it.card().path.clone()).collect();
    for card in of_time.iter().filter(|it| !known.contains(&it.path)) {
        let mut ranked = Ranked::new(view.candidate(card, 0)?, 0.0, timely);
        let (key, score, shown, beyond) = (card.path.clone(), 0.0, 0.0, 0.0);
        ranked.fused = Some(Fused { key, score, shown, vector: None, keyword: None, beyond });
        all.push(ranked);
    }
    Ok(())
}

/// The order of what both branches found.
pub(super) fn fused(
    view: &IndexView,
    ask: &Ask,
    (fusion, scales): (Fusion, Scales),
    words: Vec<Candidate>,
    near: &FoundNear,
    of_time: Vec<Arc<Card>>,
    timely: &Timely,
) -> Result<Vec<Ranked>, IndexError> {
    // The words' own order has named notes before better ones; ranks are those of the scores.
    let mut by_score: Vec<(VaultPath, f32)> =
        words.iter().map(|it| (it.card.path.clone(), it.score())).collect();
    by_score.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let by_cosine: Vec<(VaultPath, f32)> =
        near.near.iter().map(|it| (it.card.path.clone(), it.cosine)).collect();
    let mut words: HashMap<VaultPath, Candidate> =
        words.into_iter().map(|it| (it.card.path.clone(), it)).collect();
    let chunks: HashMap<&VaultPath, _> =
        near.near.iter().map(|it| (&it.card.path, (&it.card, it.chunk))).collect();
    let mut all = Vec::new();
    for fused in fuse(fusion, scales, &by_cosine, &by_score) {
        let near = chunks.get(&fused.key);
        let candidate = match (words.remove(&fused.key), near) {
            // Where no word is in a passage, only in the names around, the nearest is shown.
            (Some(mut candidate), Some((_, chunk))) if candidate.passage <= 0.0 => {
                candidate.chunk = *chunk;
                candidate
            }
            (Some(candidate), _) => candidate,
            (None, Some((card, chunk))) => view.candidate(card, *chunk)?,
            (None, None) => continue,
        };
        let mut ranked = Ranked::new(candidate, fused.score as f32, timely);
        ranked.near_chunk = near.map(|it| it.1);
        ranked.fused = Some(fused);
        all.push(ranked);
    }
    add_of_time(view, of_time, timely, &mut all)?;
    if ask.is_literal() {
        lead_the_literal(view, ask, &mut all)?;
    }
    Ok(in_order(view, all))
}

/// Puts what has it to the letter before all that has not, in its own order.
fn lead_the_literal(view: &IndexView, ask: &Ask, all: &mut [Ranked]) -> Result<(), IndexError> {
    let has = view.are_literal(ask, all.iter().map(|it| &it.candidate))?;
    let of =
        |wanted: bool| all.iter().zip(&has).filter(move |it| *it.1 == wanted).map(|it| it.0.own());
    let (Some(weakest), Some(best)) = (of(true).reduce(f32::min), of(false).reduce(f32::max))
    else {
        return Ok(());
    };
    if weakest <= best {
        for (ranked, _) in all.iter_mut().zip(&has).filter(|it| *it.1) {
            ranked.literal = best - weakest + LITERAL_LEAD;
        }
    }
    Ok(())
}

/// Puts named notes first, day pages below their notes, superseded ones below their heirs, the rest
/// by score.
fn in_order(view: &IndexView, mut all: Vec<Ranked>) -> Vec<Ranked> {
    let plain = all.iter().filter(|it| !it.candidate.named);
    let best = plain.map(Ranked::score).fold(0.0, f32::max);
    for at in 0..all.len() {
        if all[at].candidate.named {
            all[at].named = best + NAMED_LEAD;
        } else if all[at].card().role == Role::DayPage {
            let weakest = weakest_of_day(&all, &all[at].card().path);
            let own = all[at].score();
            if let Some(weakest) = weakest.filter(|it| *it <= own) {
                all[at].held = own - weakest * DAY_PAGE_SHARE;
            }
        }
    }
    heirs::put_below(view, &mut all);
    all.sort_by(|a, b| {
        b.score().total_cmp(&a.score()).then_with(|| a.card().path.cmp(&b.card().path))
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
        .filter(|it| it.card().role != Role::DayPage && it.card().path.is_within(folder.as_bytes()))
        .map(|it| it.own() + it.literal)
        .reduce(f32::min)
}

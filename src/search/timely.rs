//! What a note's day adds to its score, and what being of the manual takes.
//!
//! Pure. Takes the rules and a question, then of each note its own score, gives the extra: for a
//! day that the question names, where the settings say so for a day that is recent, and the half
//! that a note of remd's own manual gives up to the notes of whoever lives here.
//!
//! **Invariant:** the extra is a bounded part of the note's own score: what matches better by more
//! than that stays before, and what does not match at all stays out.

use crate::base::calendar::Day;
use crate::index::{Ask, Card};
use crate::search::query::Rules;
use crate::search::times::Times;

/// The most that being of the named time adds, as a share of the note's own score. Of LoCoMo's
/// questions that name a time (99 a set, `benches/quality.rs`), with a note a turn recall@5 went
/// from .648 to .699 and MRR from .506 to .567, with a note a session MRR from .870 to .895; from
/// a tenth to 0.15 no measure of either set fell on either half.
const MEANT: f32 = 0.15;
/// The most that being recent adds.
const RECENT: f32 = 0.1;
/// What a note of the manual gives up of its score: a dozen general notes in a young vault have the
/// words of every question.
const MANUAL: f32 = 0.5;
/// The tags of the notes that `vault-template` brings, all of which a note of the manual has.
const MANUAL_TAGS: [&str; 2] = ["remd", "manual"];
/// Many notes speak of the like on other days: so many times the candidates are looked at.
const WIDER: usize = 4;
/// The most candidates.
const MOST: usize = 200;

/// Which days are preferred.
#[derive(Default)]
pub(super) struct Timely {
    times: Option<Times>,
    recent: Option<(Day, u32)>,
    own_first: bool,
}

/// What is added to one note's score.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Extra {
    pub(super) meant: f32,
    pub(super) recent: f32,
    /// What it gives up; not above nothing.
    pub(super) manual: f32,
}

impl Extra {
    pub(super) fn sum(self) -> f32 {
        self.meant + self.recent + self.manual
    }
}

impl Timely {
    /// Nothing for a query that is meant to the letter, nor for the documented rank fusion, whose
    /// scores are what they are said to be.
    pub(super) fn of(text: &str, ask: &Ask, wanted: Option<f64>, rules: Rules) -> Self {
        if wanted.is_some() || rules.by_rank.is_some() || ask.is_all_literal() {
            return Self::default();
        }
        let times = rules.dates_from.and_then(|today| Times::named(text, today));
        Self { times, recent: rules.recent_from, own_first: true }
    }

    /// How many candidates are looked at.
    pub(super) fn pool(&self, pool: usize) -> usize {
        if self.times.is_some() { (pool * WIDER).min(MOST).max(pool) } else { pool }
    }

    pub(super) fn extra(&self, card: &Card, own: f32) -> Extra {
        let own = own.max(0.0);
        let is_manual = || MANUAL_TAGS.iter().all(|it| card.tags.iter().any(|tag| **tag == **it));
        let manual = if self.own_first && is_manual() { -own * MANUAL } else { 0.0 };
        let Some(date) = card.date.as_deref() else { return Extra { manual, ..Extra::default() } };
        let meant = self.times.as_ref().map_or(0.0, |it| it.nearness(date));
        let recent = self.recent.and_then(|(today, half)| {
            let age = today.since(Day::read(date)?).max(0);
            Some((-(age as f32) / half.max(1) as f32).exp2())
        });
        Extra { meant: own * MEANT * meant, recent: own * RECENT * recent.unwrap_or(0.0), manual }
    }

    /// For people.
    pub(super) fn text(&self) -> Option<String> {
        let meant = self.times.as_ref().map(|it| {
            format!("notes of {} preferred, by at most {MEANT} of their score", it.text())
        });
        let recent = self.recent.map(|(_, half)| {
            format!("recent notes preferred, by at most {RECENT} of their score, half of it after {half} days")
        });
        let parts: Vec<String> = meant.into_iter().chain(recent).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

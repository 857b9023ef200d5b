//! What a note's day adds to its score, and what being of the manual takes.
//!
//! Pure. Takes the rules and a question, then of each note its own score, gives the extra: for a
//! day that the question names, where the settings say so for a day that is recent, and the half
//! that a note of remd's own manual gives up to the notes of whoever lives here.
//!
//! **Invariant:** the extra is a bounded part of the note's own score: what matches better by more
//! than that stays before, and what does not match at all stays out. Only a question that names a
//! time and nothing else is answered by the notes of that time, whatever they say.

use std::sync::Arc;

use crate::base::calendar::Day;
use crate::index::{Ask, Card, IndexView};
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
/// What being of the time adds where the question names nothing else, beside what the best has.
const ALL: f32 = 1.05;
/// What a question about a time says beside it.
const BESIDE: [&str; 22] = [
    "after",
    "before",
    "diary",
    "during",
    "event",
    "events",
    "go",
    "going",
    "happen",
    "happened",
    "happening",
    "journal",
    "list",
    "log",
    "note",
    "notes",
    "show",
    "since",
    "summary",
    "until",
    "went",
    "wrote",
];
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
    /// Whether the question says nothing beside its time: what is of it is the answer then.
    is_all: bool,
    /// What the best of the others has.
    best: f32,
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
        if wanted.is_some() || rules.by_rank.is_some() {
            return Self::default();
        }
        let times = rules.dates_from.and_then(|today| Times::named(text, today));
        let says_more = |it: &Times| Ask::new(it.rest()).subjects().any(|it| !BESIDE.contains(&it));
        let is_all = times.as_ref().is_some_and(|it| !says_more(it));
        // `yesterday` is a word, too; a date in figures is looked for as it is written.
        if ask.is_all_literal() && (!is_all || text.contains(|it: char| it.is_ascii_digit())) {
            return Self::default();
        }
        Self { times, recent: rules.recent_from, own_first: true, is_all, best: 1.0 }
    }

    /// How many candidates are looked at.
    pub(super) fn pool(&self, pool: usize) -> usize {
        if self.times.is_some() { (pool * WIDER).min(MOST).max(pool) } else { pool }
    }

    /// The same where the best has so much.
    pub(super) fn beside(&self, best: f32) -> Self {
        Self { times: self.times.clone(), best: best.max(1.0), ..*self }
    }

    pub(super) fn extra(&self, card: &Card, own: f32) -> Extra {
        let own = own.max(0.0);
        let is_manual = || MANUAL_TAGS.iter().all(|it| card.tags.iter().any(|tag| **tag == **it));
        let manual = if self.own_first && is_manual() { -own * MANUAL } else { 0.0 };
        let Some(date) = card.date.as_deref() else { return Extra { manual, ..Extra::default() } };
        let meant = self.times.as_ref().map_or(0.0, |it| it.nearness(date));
        // Before all that is of another time.
        let meant = if self.is_all { self.best * ALL * meant } else { own * MEANT * meant };
        let recent = self.recent.and_then(|(today, half)| {
            let age = today.since(Day::read(date)?).max(0);
            Some((-(age as f32) / half.max(1) as f32).exp2())
        });
        Extra { meant, recent: own * RECENT * recent.unwrap_or(0.0), manual }
    }

    /// The notes of the time that is all that the question names, at most so many, the newest.
    pub(super) fn of_time(
        &self,
        view: &IndexView,
        keep: impl Fn(&Card) -> bool,
        most: usize,
    ) -> Vec<Arc<Card>> {
        let Some(times) = self.times.as_ref().filter(|_| self.is_all) else { return Vec::new() };
        let is_of_it = |it: &Card| it.date.as_deref().is_some_and(|it| times.nearness(it) >= 1.0);
        let all = view.notes().iter().filter(|it| is_of_it(it) && keep(it));
        let mut notes: Vec<Arc<Card>> = all.cloned().collect();
        notes.sort_by(|a, b| b.date.cmp(&a.date).then_with(|| a.path.cmp(&b.path)));
        notes.truncate(most);
        notes
    }

    /// For people.
    pub(super) fn text(&self) -> Option<String> {
        let meant = self.times.as_ref().map(|it| match self.is_all {
            true => format!("notes of {} first: the question names nothing else", it.text()),
            false => format!("notes of {} preferred, by at most {MEANT} of their score", it.text()),
        });
        let recent = self.recent.map(|(_, half)| {
            format!("recent notes preferred, by at most {RECENT} of their score, half of it after {half} days")
        });
        let parts: Vec<String> = meant.into_iter().chain(recent).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

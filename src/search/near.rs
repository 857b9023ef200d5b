//! The vector branch: what means something like the question.
//!
//! Takes a view and a query, gives the nearest notes, or why there are none. One call of the model
//! a query, with a deadline of its own; of a provider only by [`Leave`]. Any thread.
//!
//! **Invariant:** a model that is slow, away or silent costs the branch, never the answer; a branch
//! that knows a part of the notes says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::embed::{Embedder, Purpose, Slot, Vector};
use crate::index::{Card, IndexView, Near};
use crate::search::filter::Filter;
use crate::search::results::{BranchState, NO_ANSWER};

/// The beginning of a longer query says what it is about.
const LONGEST_QUERY: usize = 4096;
/// A lone word of more pieces is none that a table of pieces knows: its vector is that of its
/// letters.
const MOST_PIECES: usize = 2;
/// How long a query waits for its vector.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The cosine under which a note of its own is no answer, for models that were measured: half of
/// all notes lie above it somewhere, and a query of made-up words finds nothing.
const LEAST_NEAR: &[(&str, f32)] = &[("remd-static-256", 0.25)];

/// Whether a question may be sent to a provider.
#[derive(Clone, Copy)]
pub enum Leave<'a> {
    /// Somebody asks it on purpose.
    Freely,
    /// Not, and why; what is known of it already is used.
    Never(&'static str),
    /// Asked right before it is sent, and once for all who ask the same.
    If(&'a dyn Fn() -> Result<(), &'static str>),
}

/// What the vector branch has to say.
pub(super) struct Branch {
    pub(super) state: BranchState,
    pub(super) found: Option<FoundNear>,
}

/// Notes by their nearness.
#[derive(Default)]
pub(super) struct FoundNear {
    /// Best first, ties by path.
    pub(super) near: Vec<Near>,
    query: Option<Vector>,
    missing: usize,
    /// Whether the deadline came first.
    pub(super) cut: bool,
    /// Whether somebody touched the files of vectors.
    is_damaged: bool,
}

/// What of a query goes to the model.
pub fn as_asked(text: &str) -> &str {
    let text = text.trim();
    &text[..text.floor_char_boundary(LONGEST_QUERY)]
}

/// The notes nearest to the text, at most `pool`.
pub(super) fn branch(
    view: &IndexView,
    text: &str,
    filter: &Filter,
    pool: usize,
    deadline: Instant,
    leave: Leave<'_>,
) -> Branch {
    let off = |why| Branch { state: BranchState::Off(why), found: None };
    let (Some(model), Some(counts)) = (view.embedder(), view.vectors()) else {
        return off("no model");
    };
    if counts.vectors == 0 && counts.missing > 0 {
        return off("vectors are being made");
    }
    let text = as_asked(text);
    let is_one_word = text.split_whitespace().nth(1).is_none();
    if is_one_word && model.identity().backend == "static" && model.count(text) > MOST_PIECES {
        return off("the model does not know this word");
    }
    let query = match vector_of(model, text, deadline, leave) {
        Ok(query) => query,
        Err(why) => return off(why),
    };
    let mut found = view.nearest(&query, &|card| filter.takes(card), pool, deadline);
    if let Some((_, least)) = LEAST_NEAR.iter().find(|it| it.0 == counts.model) {
        found.near.retain(|it| it.cosine >= *least);
    }
    let missing = counts.missing;
    let (near, cut, query) = (found.near, found.cut, Some(query));
    let mut found = FoundNear { near, query, missing, cut, is_damaged: false };
    found.check(view);
    Branch { state: found.state(), found: Some(found) }
}

fn vector_of(
    model: &dyn Embedder,
    text: &str,
    deadline: Instant,
    leave: Leave<'_>,
) -> Result<Vector, &'static str> {
    let slot = match leave {
        Leave::Never(why) if model.is_remote() => {
            Some(model.known(text, Purpose::Query).ok_or(why)?)
        }
        _ => {
            let until = deadline.min(clock::now() + LONGEST_WAIT);
            let answer = match leave {
                Leave::If(leave) => model.embed_by_leave(text, until, leave)?,
                Leave::Freely | Leave::Never(_) => model.embed(&[text], Purpose::Query, until),
            };
            if let Some(err) = &answer.stopped {
                tracing::debug!(%err, "the query has no vector");
            }
            answer.slots.into_iter().next()
        }
    };
    match slot {
        Some(Slot::Vector { vector, .. }) => Ok(vector),
        Some(Slot::Silent) => Err("the model knows too few words of the query"),
        Some(Slot::Refused(_)) => Err("the model refuses the query"),
        Some(Slot::Missing) | None => Err(NO_ANSWER),
    }
}

impl FoundNear {
    /// Says of notes that words found how near they are, too: a missing cosine would count as none.
    pub(super) fn add<'a>(&mut self, view: &IndexView, cards: impl Iterator<Item = &'a Arc<Card>>) {
        let Some(query) = &self.query else { return };
        let known = self.near.len();
        for card in cards {
            if !self.near[..known].iter().any(|it| Arc::ptr_eq(&it.card, card)) {
                self.near.extend(view.nearness(query, card));
            }
        }
        self.near.sort_by(|a, b| {
            b.cosine.total_cmp(&a.cosine).then_with(|| a.card.path.cmp(&b.card.path))
        });
        self.check(view);
    }

    /// Gives up what was read of files that are not what was written.
    fn check(&mut self, view: &IndexView) {
        if !view.has_whole_vectors() {
            self.near.clear();
            self.is_damaged = true;
        }
    }

    /// Whether the question has a vector.
    pub(super) fn has_looked(&self) -> bool {
        self.query.is_some()
    }

    /// How the branch took part.
    pub(super) fn state(&self) -> BranchState {
        match (self.near.len(), self.missing) {
            _ if self.is_damaged => BranchState::Off("vectors are being made again"),
            (found, 0) => BranchState::Used(found),
            (found, missing) => BranchState::Part { found, missing },
        }
    }
}

//! What is near a note.
//!
//! Takes a view and a note, gives the notes whose best passages lie nearest to the mean of the
//! note's own. No word is looked up and no model is asked. Any thread.
//!
//! **Invariant:** the note itself, pages of days and what search skips by default are not in it.

use std::sync::Arc;
use std::time::Instant;

use crate::index::{Card, IndexError, IndexView};
use crate::search::rank::{in_part, passage_hit};
use crate::search::results::{BranchState, Results};
use crate::vault::Role;

/// How many notes are shown where nobody says.
pub const SIMILAR: usize = 10;

const RANKING: &str = "similar: cosine of the best passage with the mean of the note's own";
const ALONE: &str = "a note is compared by its vectors";

/// The notes nearest to one, at most `limit`.
pub fn similar(view: &IndexView, card: &Arc<Card>, limit: usize, deadline: Instant) -> Results {
    let building = view.building();
    let mut results = Results {
        at: view.at(),
        notes_in_part: in_part(view, |it| it.role == Role::Note),
        keyword: BranchState::Off(ALONE),
        partial: building
            .map(|it| format!("index is being built: {} of {} notes", it.done, it.total)),
        ranking: RANKING.to_owned(),
        ..Results::default()
    };
    let Some(counts) = view.vectors() else { return results };
    let Some(direction) = view.direction(card) else {
        results.vector = BranchState::Off("this note has no vector");
        return results;
    };
    let keep = |it: &Card| it.role == Role::Note && it.path != card.path;
    let found = view.nearest(&direction, &keep, limit, deadline);
    if found.cut {
        results.partial = Some("the deadline came before the end of the search".to_owned());
    }
    let hits: Result<Vec<_>, IndexError> =
        found.near.iter().map(|it| passage_hit(view, &it.card, it.chunk, it.cosine)).collect();
    match hits {
        Ok(hits) => {
            let found = hits.len();
            results.vector = match counts.missing {
                0 => BranchState::Used(found),
                missing => BranchState::Part { found, missing },
            };
            results.hits = hits;
        }
        Err(err) => {
            tracing::error!(error = &err as &dyn std::error::Error, "index can't be searched");
            results.vector = BranchState::Off("index can't be read");
            results.partial = Some("the index can't be read; see `remd status`".to_owned());
        }
    }
    results
}

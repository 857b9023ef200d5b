//! Answers what no index of words can: a query of marks alone.
//!
//! Takes the text as typed, reads every stored passage until the deadline, and looks for it as it
//! stands. Any thread.

use std::collections::HashMap;
use std::time::Instant;

use crate::index::{Candidate, IndexError, IndexView};
use crate::search::filter::Filter;
use crate::vault::VaultPath;

/// Notes that hold `text` literally, best first: the larger its share of the passage, the better.
/// `false` where the deadline came first.
pub(super) fn scan(
    view: &IndexView,
    text: &str,
    filter: &Filter,
    pool: usize,
    deadline: Instant,
) -> Result<(Vec<Candidate>, bool), IndexError> {
    let mut best: HashMap<VaultPath, Candidate> = HashMap::new();
    let whole =
        view.read_all(&|card| filter.takes(card), deadline, &mut |mut candidate, passage| {
            let share = share_of(text, passage);
            if share <= 0.0 {
                return;
            }
            candidate.passage = share;
            match best.get_mut(&candidate.card.path) {
                Some(known) if (known.passage, candidate.chunk) >= (share, known.chunk) => {}
                _ => {
                    best.insert(candidate.card.path.clone(), candidate);
                }
            }
        })?;
    let mut found: Vec<Candidate> = best.into_values().collect();
    found.sort_by(|a, b| {
        b.passage.total_cmp(&a.passage).then_with(|| a.card.path.cmp(&b.card.path))
    });
    found.truncate(pool);
    Ok((found, whole))
}

/// How much of the passage is the text, 0 to 1.
fn share_of(text: &str, passage: &str) -> f32 {
    let count = passage.matches(text).count();
    if count == 0 { 0.0 } else { (count * text.len()) as f32 / passage.len() as f32 }
}

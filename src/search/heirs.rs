//! Notes that another one has replaced.
//!
//! Pure, but for what a view is asked of a note. A note whose frontmatter says `status: superseded`
//! or names its heir in `superseded_by` stays to be found, below the one that replaced it.
//!
//! **Invariant:** an heir of an heir counts as well, and a circle of heirs ends.

use std::sync::Arc;

use crate::index::{Card, IndexView};
use crate::search::ranked::Ranked;
use crate::search::results::Heir;

/// What a superseded note keeps of its heir's score, and of its own where its heir is not found.
const SHARE: f32 = 0.99;
const ALONE: f32 = 0.9;
/// The longest line of heirs that is followed.
const MOST_HEIRS: usize = 8;

/// What replaced a note, as its frontmatter says; `None` for one that holds.
pub(super) fn heir(view: &IndexView, card: &Card) -> Option<Heir> {
    let by = card.superseded.as_deref()?;
    let next = next(view, card);
    Some(Heir {
        path: next.map(|it| it.path.clone()),
        name: next.map_or_else(|| by.to_owned(), |it| it.name.to_string()),
    })
}

/// The note that replaced one; `None` where none is named, or it is not there.
fn next<'a>(view: &'a IndexView, card: &Card) -> Option<&'a Arc<Card>> {
    let by = card.superseded.as_deref().filter(|it| !it.is_empty())?;
    view.meant_from(&card.path, by).filter(|it| it.path != card.path)
}

/// Puts every superseded note below those of its heirs that were found too. One that the query
/// names stays, unless it names the heir as well.
pub(super) fn put_below(view: &IndexView, all: &mut [Ranked]) {
    let mut lines: Vec<(usize, Vec<usize>)> = Vec::new();
    for (at, ranked) in all.iter().enumerate() {
        let card = &ranked.candidate.card;
        if card.superseded.is_none() {
            continue;
        }
        let mut seen = vec![card.path.clone()];
        let mut heirs = Vec::new();
        let mut current = next(view, card);
        while let Some(heir) = current.filter(|it| !seen.contains(&it.path)) {
            if let Some(place) = all.iter().position(|it| it.candidate.card.path == heir.path) {
                heirs.push(place);
            }
            seen.push(heir.path.clone());
            current = next(view, heir).filter(|_| seen.len() <= MOST_HEIRS);
        }
        lines.push((at, heirs));
    }
    // The last heirs first, so that each is in its place when it is asked.
    lines.sort_by_key(|it| it.1.len());
    for (at, heirs) in lines {
        let own = all[at].score();
        let is_named = all[at].candidate.named;
        let heirs = heirs.into_iter().map(|it| &all[it]);
        let lowest =
            heirs.filter(|it| !is_named || it.candidate.named).map(Ranked::score).reduce(f32::min);
        let target = match lowest {
            Some(heir) => below(heir),
            None if is_named => own,
            None => own - own.abs() * (1.0 - ALONE),
        };
        if own > target {
            all[at].superseded = own - target;
        }
    }
}

/// A little lower, whatever the sign.
fn below(score: f32) -> f32 {
    score - (score.abs() * (1.0 - SHARE)).max(f32::EPSILON)
}

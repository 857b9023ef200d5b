//! Which weight of vectors answers best, without fooling oneself.
//!
//! Pure. Takes how each question is answered with each weight; chooses on one half of the questions
//! and looks at the other, both ways. Every second question of a category goes to the other half.
//!
//! **Invariant:** what is said to be gained was measured on questions that the weight was not chosen
//! on; a weight with which words alone would do better is not chosen.

use std::collections::BTreeMap;

use crate::search::judge::measures::Measures;

/// The weights that are tried.
pub const WEIGHTS: [f64; 14] =
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0];

/// Fewer questions than this in a half say little.
pub const FEW: usize = 50;

/// How one question is answered.
#[derive(Clone, Debug)]
pub struct Tried {
    pub category: Option<String>,
    pub by_words: Measures,
    /// With the rule that is in use.
    pub in_use: Measures,
    /// With each of [`WEIGHTS`].
    pub with: Vec<Measures>,
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuned {
    /// A weight chosen on one half, looked at on the other; both ways.
    pub crossed: [Crossed; 2],
    /// The weight that does best on all questions, where what is gained by choosing one holds on
    /// questions that it was not chosen on.
    pub proposed: Option<f64>,
    /// On all questions, with each weight.
    pub with: Vec<(f64, Measures)>,
    /// Whether there are so few questions that it says little.
    pub is_few: bool,
}

/// A weight chosen on one half, looked at on the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Crossed {
    pub weight: f64,
    /// How many questions it was chosen on, and looked at with.
    pub chosen_on: usize,
    pub seen_on: usize,
    /// On the half that it was not chosen on.
    pub in_use: Measures,
    pub found: Measures,
}

impl Crossed {
    /// What it gains where it was not chosen.
    pub fn gain(&self) -> f64 {
        self.found.overall() - self.in_use.overall()
    }
}

/// Chooses; `None` where there are no two halves.
pub fn tune(tried: &[Tried], in_use: Option<f64>) -> Option<Tuned> {
    let halves = halves(tried);
    let crossed = |on: usize| {
        let (own, other) = (&halves[on], &halves[1 - on]);
        let at = best(own, in_use)?;
        Some(Crossed {
            weight: WEIGHTS[at],
            chosen_on: own.len(),
            seen_on: other.len(),
            in_use: Measures::mean(other.iter().map(|it| &it.in_use)),
            found: Measures::mean(other.iter().filter_map(|it| it.with.get(at))),
        })
    };
    if halves.iter().any(Vec::is_empty) {
        return None;
    }
    let crossed = [crossed(0)?, crossed(1)?];
    let all: Vec<&Tried> = tried.iter().collect();
    let gain: f64 = crossed.iter().map(Crossed::gain).sum();
    let is_never_a_loss = crossed.iter().all(|it| it.gain() >= -1e-9);
    let proposed = best(&all, in_use).filter(|_| gain > 1e-9 && is_never_a_loss);
    let proposed = proposed.map(|at| WEIGHTS[at]).filter(|it| in_use != Some(*it));
    let with = WEIGHTS.iter().enumerate();
    let with = with.map(|(at, weight)| (*weight, mean_with(&all, at))).collect();
    let is_few = halves.iter().any(|it| it.len() < FEW);
    Some(Tuned { crossed, proposed, with, is_few })
}

/// Every second question of each category.
fn halves(tried: &[Tried]) -> [Vec<&Tried>; 2] {
    let mut halves = [Vec::new(), Vec::new()];
    let mut seen: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut odd_ones = 0;
    for one in tried {
        let count = seen.entry(one.category.as_deref()).or_insert_with(|| {
            // Categories of one question each do not all begin in the same half.
            odd_ones += 1;
            odd_ones - 1
        });
        halves[*count % 2].push(one);
        *count += 1;
    }
    halves
}

fn mean_with(tried: &[&Tried], at: usize) -> Measures {
    Measures::mean(tried.iter().filter_map(|it| it.with.get(at)))
}

/// The place of the best weight: of equals the one nearest to that in use.
fn best(tried: &[&Tried], in_use: Option<f64>) -> Option<usize> {
    let by_words = Measures::mean(tried.iter().map(|it| &it.by_words));
    let far = |at: usize| in_use.map_or(WEIGHTS[at], |it| (WEIGHTS[at] - it).abs());
    (0..WEIGHTS.len())
        .map(|at| (at, mean_with(tried, at)))
        .filter(|it| WEIGHTS[it.0] == 0.0 || it.1.is_nowhere_below(&by_words))
        .max_by(|(a, one), (b, other)| {
            let (one, other) = (one.overall(), other.overall());
            match (one - other).abs() < 1e-9 {
                true => far(*b).total_cmp(&far(*a)),
                false => one.total_cmp(&other),
            }
        })
        .map(|it| it.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All three measures that count have this value.
    fn value(it: f64) -> Measures {
        Measures { recall_5: it, mrr: it, ndcg_10: it, ..Measures::default() }
    }

    /// Questions that are answered this well with a weight.
    fn tried(count: usize, with: impl Fn(usize, f64) -> f64) -> Vec<Tried> {
        let one = |at: usize| Tried {
            category: None,
            by_words: value(0.4),
            in_use: value(with(at, 0.5)),
            with: WEIGHTS.iter().map(|it| value(with(at, *it))).collect(),
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn what_both_halves_gain_by_is_proposed() {
        // The best is 0.7 for all: .6 there, less by its distance elsewhere.
        let tuned = tune(&tried(200, |_, it| 0.6 - (it - 0.7).abs() / 10.0), Some(0.5)).unwrap();
        assert_eq!((tuned.proposed, tuned.is_few), (Some(0.7), false));
        for crossed in tuned.crossed {
            assert_eq!((crossed.weight, crossed.chosen_on, crossed.seen_on), (0.7, 100, 100));
            assert!((crossed.gain() - 0.02).abs() < 1e-9, "{crossed:?}");
        }
        assert!((tuned.with[5].1.mrr - 0.58).abs() < 1e-9 && tuned.with[5].0 == 0.5);
    }

    #[test]
    fn what_only_chance_gains_by_is_not() {
        // One half likes 1.0, the other 0.1: each loses by the other's choice.
        let likes = |at: usize| if at.is_multiple_of(2) { 1.0 } else { 0.1 };
        let tuned = tune(&tried(40, |at, it| 0.6 - (it - likes(at)).abs() / 10.0), Some(0.5));
        let tuned = tuned.unwrap();
        assert_eq!((tuned.crossed[0].weight, tuned.crossed[1].weight), (1.0, 0.1));
        assert!(tuned.crossed.iter().all(|it| it.gain() < 0.0), "{tuned:?}");
        assert_eq!((tuned.proposed, tuned.is_few), (None, true));
    }

    #[test]
    fn the_one_in_use_stays_where_no_other_is_better() {
        let tuned = tune(&tried(40, |_, _| 0.5), Some(0.5)).unwrap();
        assert_eq!((tuned.proposed, tuned.crossed[0].weight), (None, 0.5));
        assert_eq!(tune(&tried(1, |_, _| 0.5), Some(0.5)), None);
        assert_eq!(tune(&[], None), None);
    }

    #[test]
    fn a_weight_with_which_words_alone_do_better_is_never_chosen() {
        // Every weight but none does worse than words (.4) in the one measure, better by the mean.
        let mut all = tried(40, |_, it| if it == 0.0 { 0.4 } else { 0.6 });
        for one in &mut all {
            one.with.iter_mut().skip(1).for_each(|it| it.mrr = 0.39);
        }
        assert_eq!(tune(&all, Some(0.5)).unwrap().crossed[0].weight, 0.0);
    }
}

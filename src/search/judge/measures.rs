//! How well one list of notes answers one question, and many of them together.
//!
//! Pure. Takes the notes that answer and what was found, best first; gives recall, hit, reciprocal
//! rank and nDCG with one grade of relevance.
//!
//! **Invariant:** each is between 0 and 1, whatever comes in.

use std::collections::BTreeSet;

/// What is measured, for one question or as the mean of many.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize)]
pub struct Measures {
    /// The share of the notes that answer among the first 1, 5, 10.
    #[serde(rename = "recall@1")]
    pub recall_1: f64,
    #[serde(rename = "recall@5")]
    pub recall_5: f64,
    #[serde(rename = "recall@10")]
    pub recall_10: f64,
    /// Whether one of the first 5 answers.
    #[serde(rename = "hit@5")]
    pub hit_5: f64,
    /// One by the rank of the first note that answers.
    pub mrr: f64,
    /// The gain of each of the first 10 by the logarithm of its rank, by the best there can be.
    #[serde(rename = "ndcg@10")]
    pub ndcg_10: f64,
}

impl Measures {
    /// Of one question. A note that is found twice counts where it is found first.
    pub fn of(relevant: &BTreeSet<String>, found: &[String]) -> Self {
        let mut seen = BTreeSet::new();
        let is_right: Vec<bool> = found
            .iter()
            .filter(|it| seen.insert(it.as_str()))
            .map(|it| relevant.contains(it))
            .collect();
        let among = |most: usize| is_right.iter().take(most).filter(|it| **it).count() as f64;
        let all = relevant.len().max(1) as f64;
        let gain = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
        let gained = |it: &[bool]| -> f64 {
            it.iter().enumerate().filter(|it| *it.1).map(|(rank, _)| gain(rank)).sum()
        };
        let best = gained(&vec![true; relevant.len().min(10)]);
        let first = is_right.iter().position(|it| *it);
        Self {
            recall_1: among(1) / all,
            recall_5: among(5) / all,
            recall_10: among(10) / all,
            hit_5: among(5).min(1.0),
            mrr: first.map_or(0.0, |rank| 1.0 / (rank + 1) as f64),
            ndcg_10: match best > 0.0 {
                true => gained(&is_right[..is_right.len().min(10)]) / best,
                false => 0.0,
            },
        }
    }

    /// The mean of many; of none it is nothing.
    pub fn mean<'a>(of: impl IntoIterator<Item = &'a Self>) -> Self {
        let (mut sum, mut count) = ([0.0; 6], 0_usize);
        for it in of {
            sum.iter_mut().zip(it.values()).for_each(|(sum, value)| *sum += value);
            count += 1;
        }
        let [recall_1, recall_5, recall_10, hit_5, mrr, ndcg_10] =
            sum.map(|it| it / count.max(1) as f64);
        Self { recall_1, recall_5, recall_10, hit_5, mrr, ndcg_10 }
    }

    /// In the order of [`Self::NAMES`].
    pub fn values(&self) -> [f64; 6] {
        let Self { recall_1, recall_5, recall_10, hit_5, mrr, ndcg_10 } = *self;
        [recall_1, recall_5, recall_10, hit_5, mrr, ndcg_10]
    }

    /// For the heads of tables.
    pub const NAMES: [&'static str; 6] = ["R@1", "R@5", "R@10", "hit@5", "MRR", "nDCG@10"];

    /// One number to choose by: recall, the first rank and the order weigh alike.
    pub fn overall(&self) -> f64 {
        (self.recall_5 + self.mrr + self.ndcg_10) / 3.0
    }

    /// Whether no measure that is chosen by is lower than the other's.
    pub fn is_nowhere_below(&self, other: &Self) -> bool {
        let least = -1e-9;
        self.recall_5 - other.recall_5 >= least
            && self.mrr - other.mrr >= least
            && self.ndcg_10 - other.ndcg_10 >= least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(relevant: &str, found: &str, wanted: [f64; 6]) {
        let list = |it: &str| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let measures = Measures::of(&list(relevant).into_iter().collect(), &list(found));
        for ((found, wanted), name) in measures.values().iter().zip(wanted).zip(Measures::NAMES) {
            assert!((found - wanted).abs() < 1e-12, "{name}: {found}, not {wanted}");
        }
    }

    #[test]
    fn measures_are_those_worked_out_by_hand() {
        let log = f64::log2;
        // One note, found at the third place: 1/3, and 1/log2(4) of the best gain 1.
        check("a", "x y a", [0.0, 1.0, 1.0, 1.0, 1.0 / 3.0, 0.5]);
        // Two of three, at 1 and 6: best 1 + 1/log2(3) + 1/2.
        let best = 1.0 + 1.0 / log(3.0) + 0.5;
        let gained = 1.0 + 1.0 / log(7.0);
        check("a b c", "a u v w x b", [1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 1.0, gained / best]);
        // Behind the tenth place only the rank counts.
        check("a", "1 2 3 4 5 6 7 8 9 10 11 a", [0.0, 0.0, 0.0, 0.0, 1.0 / 12.0, 0.0]);
        // A double takes no place.
        check("a", "x x x a", [0.0, 1.0, 1.0, 1.0, 0.5, 1.0 / log(3.0)]);
        check("a", "", [0.0; 6]);
        // Of twelve notes the first ten can be right: nDCG is whole, recall is not.
        let twelve = "1 2 3 4 5 6 7 8 9 10 11 12";
        check(twelve, twelve, [1.0 / 12.0, 5.0 / 12.0, 10.0 / 12.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_mean_is_that_of_each_measure() {
        let one = Measures { recall_1: 1.0, mrr: 1.0, ..Measures::default() };
        let mean = Measures::mean([&one, &Measures::default()]);
        assert_eq!(mean.values(), [0.5, 0.0, 0.0, 0.0, 0.5, 0.0]);
        assert_eq!(Measures::mean([]), Measures::default());
        let whole = Measures { recall_5: 0.6, mrr: 0.3, ndcg_10: 0.9, ..Measures::default() };
        assert!((whole.overall() - 0.6).abs() < 1e-12);
        assert!(whole.is_nowhere_below(&whole) && !Measures::default().is_nowhere_below(&whole));
    }

    proptest! {
        #[test]
        fn measures_stay_between_none_and_all(
            relevant in prop::collection::btree_set("[a-f]", 0..6),
            found in prop::collection::vec("[a-h]", 0..14),
        ) {
            let measures = Measures::of(&relevant, &found);
            for value in measures.values() {
                prop_assert!((0.0..=1.0 + 1e-12).contains(&value), "{measures:?}");
            }
        }
    }
}

//! Makes one order out of what keywords and vectors found.
//!
//! Pure. Takes each branch's hits, best first; gives them fused, with each branch's rank, score
//! and share, so that the trace adds up.
//!
//! Score fusion is the default: BM25 divided by the query's best, plus a weight times the cosine,
//! divided by the nearest's, of what the words leave open. It keeps how much better a hit is, where
//! ranks forget it: who has the words stays on top, a weak model moves what is in doubt and brings
//! what has no word of the query. Where even the best has little of what the query says, words are
//! that much less sure: a share of what all its words would give stands in the best's place. So
//! does a fixed nearness where nothing is near. Reciprocal rank fusion is there for who asks for it.
//!
//! **Invariant:** the order is total and the same in every run; a hit's score is the sum of its
//! shares; without one branch the order is the other's own.

use std::collections::HashMap;
use std::hash::Hash;

/// How two branches become one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fusion {
    /// `w / (60 + rank)` of the vector branch plus `(1 - w) / (60 + rank)` of the keyword branch.
    Rrf { vector_weight: f64 },
    /// `k + w * c * (1 - k)`, `k` being `bm25 / best` and `c` being `cosine / nearest`, neither
    /// divisor below its [`Scales`].
    Score { vector_weight: f64 },
}

/// What the scores of the branches are divided by in score fusion.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scales {
    bm25: f64,
    cosine: f64,
}

impl Scales {
    /// For a query whose words all together give at most `whole` by BM25, and whose best hits have
    /// these scores.
    pub fn of(whole: f32, best: f32, nearest: f32) -> Self {
        let number = |it: f32| if it.is_finite() { f64::from(it).max(0.0) } else { 0.0 };
        Self {
            bm25: number(best).max(number(whole) * LEAST_SHARE),
            cosine: number(nearest).max(LEAST_NEAREST),
        }
    }

    /// What a fused score of words alone is multiplied by to be their own.
    pub fn of_words(self) -> f32 {
        self.bm25 as f32
    }

    /// The same of the cosine alone.
    pub fn of_cosine(self, weight: f64) -> f32 {
        if weight > 0.0 { (self.cosine / weight) as f32 } else { 1.0 }
    }
}

/// A hit of both branches together.
#[derive(Clone, PartialEq, Debug)]
pub struct Fused<K> {
    pub key: K,
    /// What hits are sorted by, and what `min_score` is compared with.
    pub score: f64,
    /// What is shown: the branch's own score where only one took part.
    pub shown: f64,
    pub vector: Option<Share>,
    pub keyword: Option<Share>,
    /// What a hit that the vector branch did not return has of it.
    pub beyond: f64,
}

/// What one branch says of a hit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    /// From 1.
    pub rank: usize,
    /// The branch's own score: the cosine, or BM25.
    pub score: f32,
    /// Its part of the fused score.
    pub share: f64,
}

/// The constant of reciprocal rank fusion.
const RRF_K: f64 = 60.0;

/// The documented weight of vectors in reciprocal rank fusion.
pub const RRF_VECTOR_WEIGHT: f64 = 0.7;

/// The weight of the cosine for models that were measured, by `benches/quality.rs` on the given
/// halves of LoCoMo (a note a session, a note a turn) and Cranfield.
const MEASURED: &[(&str, f64)] = &[("remd-static-256", 0.5), ("all-MiniLM-L6-v2", 0.6)];

/// The best by words is as sure as one that has this share of what all words of the query give at
/// the most. A good answer has it: half of the answers of LoCoMo and Cranfield have 0.31 to 0.64.
/// Without it `how` and `work` alone made the best of `how does the user travel to work`.
const LEAST_SHARE: f64 = 0.25;

/// The nearest is as near as this at least: what is less near means something else.
const LEAST_NEAREST: f64 = 0.35;

/// The weight for a model that nobody measured: that of the weakest.
const UNMEASURED: f64 = 0.5;

impl Fusion {
    /// The rule for a query: what the request asks for, else the settings, else what suits the
    /// model. `requested` is the request's `vector_weight`, which means the documented rule.
    pub fn chosen(
        requested: Option<f64>,
        by_rank: Option<f64>,
        by_score: Option<f64>,
        model: &str,
    ) -> Self {
        if let Some(weight) = requested.filter(|it| it.is_finite()).or(by_rank) {
            return Self::Rrf { vector_weight: weight.clamp(0.0, 1.0) };
        }
        let vector_weight = by_score
            .filter(|it| it.is_finite() && *it >= 0.0)
            .unwrap_or_else(|| Self::weight_of(model));
        Self::Score { vector_weight }
    }

    /// The weight of a model's cosine in score fusion.
    pub fn weight_of(model: &str) -> f64 {
        MEASURED.iter().find(|it| it.0 == model).map_or(UNMEASURED, |it| it.1)
    }

    /// The name in settings and metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rrf { .. } => "rrf",
            Self::Score { .. } => "score",
        }
    }

    /// For `--explain`.
    pub fn text(self) -> String {
        match self {
            Self::Rrf { vector_weight } => format!(
                "rrf: {vector_weight}/(60 + rank among vectors) + {}/(60 + rank among keywords)",
                round(1.0 - vector_weight)
            ),
            Self::Score { vector_weight } => {
                format!(
                    "score: k + {vector_weight} * c * (1 - k), k = BM25 / the best, at least \
                     {LEAST_SHARE} of all words' most; c = cosine / the nearest, at least \
                     {LEAST_NEAREST}"
                )
            }
        }
    }
}

/// Fuses two branches. Where one found nothing the other's own order stands, and its scores are
/// shown; in score fusion [`Fused::score`] keeps its scale all the same.
pub fn fuse<K: Clone + Eq + Hash>(
    fusion: Fusion,
    scales: Scales,
    vector: &[(K, f32)],
    keyword: &[(K, f32)],
) -> Vec<Fused<K>> {
    let (vector, keyword) = (distinct(vector), distinct(keyword));
    let is_one = vector.is_empty() || keyword.is_empty();
    let mut fused = match fusion {
        Fusion::Rrf { vector_weight } => by_rank(vector_weight, &vector, &keyword),
        Fusion::Score { vector_weight } => by_score(vector_weight, scales, &vector, &keyword),
    };
    for hit in fused.iter_mut().filter(|_| is_one) {
        let own = hit.vector.or(hit.keyword).map_or(0.0, |it| f64::from(it.score));
        hit.shown = own;
        if let Fusion::Rrf { .. } = fusion {
            hit.score = own;
            for share in [&mut hit.vector, &mut hit.keyword].into_iter().flatten() {
                share.share = own;
            }
        }
    }
    // The sort is stable: of equals those that vectors found come first, in their order.
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused
}

/// Reciprocal rank fusion without exception: a branch that found nothing adds nothing.
pub fn rrf<K: Clone + Eq + Hash>(
    vector_weight: f64,
    vector: &[(K, f32)],
    keyword: &[(K, f32)],
) -> Vec<Fused<K>> {
    let mut fused = by_rank(vector_weight, &distinct(vector), &distinct(keyword));
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused
}

fn by_rank<K: Clone + Eq + Hash>(
    vector_weight: f64,
    vector: &[(K, f32)],
    keyword: &[(K, f32)],
) -> Vec<Fused<K>> {
    let of_rank = |weight: f64, rank: usize| weight / (RRF_K + rank as f64);
    joined(
        vector,
        keyword,
        |rank, _| of_rank(vector_weight, rank),
        |rank, _| of_rank(1.0 - vector_weight, rank),
        0.0,
    )
}

fn by_score<K: Clone + Eq + Hash>(
    vector_weight: f64,
    scales: Scales,
    vector: &[(K, f32)],
    keyword: &[(K, f32)],
) -> Vec<Fused<K>> {
    let best = scales.bm25;
    // What lies the other way is no nearer for it.
    let cosine = |it: f32| vector_weight * f64::from(it).max(0.0) / scales.cosine;
    // A hit that is not among the nearest is at most as near as the farthest of them. That it is
    // not near at all would be wrong where a model's cosines all lie high.
    let beyond = vector.iter().map(|it| cosine(it.1)).reduce(f64::min).unwrap_or(0.0);
    let mut fused = joined(
        vector,
        keyword,
        |_, score| cosine(score),
        |_, score| if best > 0.0 { f64::from(score) / best } else { 0.0 },
        beyond,
    );
    for hit in &mut fused {
        let Some(keyword) = hit.keyword else { continue };
        // The surer the words, the less is left open.
        let open = 1.0 - keyword.share.clamp(0.0, 1.0);
        hit.beyond *= open;
        let mut score = keyword.share + hit.beyond;
        if let Some(vector) = &mut hit.vector {
            vector.share *= open;
            score += vector.share;
        }
        (hit.score, hit.shown) = (score, score);
    }
    fused
}

fn joined<K: Clone + Eq + Hash>(
    vector: &[(K, f32)],
    keyword: &[(K, f32)],
    of_vector: impl Fn(usize, f32) -> f64,
    of_keyword: impl Fn(usize, f32) -> f64,
    beyond: f64,
) -> Vec<Fused<K>> {
    let mut fused: Vec<Fused<K>> = Vec::with_capacity(vector.len() + keyword.len());
    let mut at: HashMap<&K, usize> = HashMap::with_capacity(vector.len());
    for (index, (key, score)) in vector.iter().enumerate() {
        let share = of_vector(index + 1, *score);
        let vector = Some(Share { rank: index + 1, score: *score, share });
        at.insert(key, fused.len());
        let key = key.clone();
        fused.push(Fused { key, score: share, shown: share, vector, keyword: None, beyond: 0.0 });
    }
    for (index, (key, score)) in keyword.iter().enumerate() {
        let share = of_keyword(index + 1, *score);
        let keyword = Some(Share { rank: index + 1, score: *score, share });
        if let Some(hit) = at.get(key).map(|it| &mut fused[*it]) {
            hit.keyword = keyword;
            hit.score += share;
            hit.shown = hit.score;
        } else {
            let (key, score) = (key.clone(), share + beyond);
            fused.push(Fused { key, score, shown: score, vector: None, keyword, beyond });
        }
    }
    fused
}

/// The first of each key; what is no number is no hit.
fn distinct<K: Clone + Eq + Hash>(hits: &[(K, f32)]) -> Vec<(K, f32)> {
    let mut seen = std::collections::HashSet::new();
    hits.iter().filter(|it| it.1.is_finite() && seen.insert(&it.0)).cloned().collect()
}

/// Four decimals, without the tail that binary fractions have.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where the best has what counts as much, and the nearest is near.
    fn fuse<K: Clone + Eq + Hash>(
        fusion: Fusion,
        vector: &[(K, f32)],
        keyword: &[(K, f32)],
    ) -> Vec<Fused<K>> {
        let best = |hits: &[(K, f32)]| {
            hits.iter().map(|it| it.1).filter(|it| it.is_finite()).fold(0.0, f32::max)
        };
        super::fuse(fusion, Scales::of(0.0, best(keyword), best(vector)), vector, keyword)
    }

    const RRF: Fusion = Fusion::Rrf { vector_weight: RRF_VECTOR_WEIGHT };
    const SCORE: Fusion = Fusion::Score { vector_weight: 0.5 };

    fn check(fused: &[Fused<&'static str>], wanted: &[(&str, f64)]) {
        let found: Vec<(&str, f64)> = fused.iter().map(|it| (it.key, it.score)).collect();
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert_eq!(found.0, wanted.0);
            assert!((found.1 - wanted.1).abs() < 1e-12, "{found:?} {wanted:?}");
        }
    }

    #[test]
    fn rank_fusion_has_the_golden_values() {
        let fused = fuse(RRF, &[("A", 0.9), ("B", 0.8)], &[("B", 3.0), ("C", 2.0)]);
        check(
            &fused,
            &[
                ("B", 0.016_208_355_367_530_406),
                ("A", 0.011_475_409_836_065_573),
                ("C", 0.004_838_709_677_419_356),
            ],
        );
        assert_eq!(fused[0].vector.unwrap().rank, 2);
        assert_eq!((fused[1].keyword, fused[2].vector), (None, None));
    }

    #[test]
    fn a_branch_alone_keeps_its_own_scores() {
        let keyword = [("B", 3.0), ("C", 2.0)];
        check(&fuse(RRF, &[], &keyword), &[("B", 3.0), ("C", 2.0)]);
        check(&fuse(RRF, &[("A", 0.5), ("B", -0.25)], &[]), &[("A", 0.5), ("B", -0.25)]);
        // In score fusion the scale of `min_score` stays; what is shown is the branch's own.
        let fused = fuse(SCORE, &[], &keyword);
        check(&fused, &[("B", 1.0), ("C", 2.0 / 3.0)]);
        assert_eq!(fused.iter().map(|it| it.shown).collect::<Vec<_>>(), [3.0, 2.0]);
        let fused = fuse(SCORE, &[("A", 0.5)], &[]);
        assert_eq!((fused[0].score, fused[0].shown), (0.5, 0.5));
        check(&fuse::<&'static str>(SCORE, &[], &[]), &[]);
    }

    #[test]
    fn nodes_get_nothing_from_a_branch_that_is_missing() {
        let fused = rrf(0.7, &[], &[("B", 3.0), ("B", 2.5), ("C", 2.0)]);
        check(&fused, &[("B", 0.3 / 61.0), ("C", 0.3 / 62.0)]);
        assert_eq!(format!("{:.4} {:.4}", fused[0].score, fused[1].score), "0.0049 0.0048");
    }

    #[test]
    fn scores_are_divided_by_the_best_and_the_cosine_is_weighed() {
        // C 4/4 and nothing left open, B 2/4 + .5*.8/.9 of the other half, A 0 + .5*.9/.9,
        // D 0 + .5*.6/.9
        let fused = fuse(SCORE, &[("A", 0.9), ("B", 0.8), ("D", 0.6)], &[("C", 4.0), ("B", 2.0)]);
        assert_eq!(fused.iter().map(|it| it.key).collect::<Vec<_>>(), ["C", "B", "A", "D"]);
        for (hit, wanted) in fused.iter().zip([1.0, 13.0 / 18.0, 0.5, 1.0 / 3.0]) {
            assert!((hit.score - wanted).abs() < 1e-6, "{hit:?}");
        }
        assert!(fused[0].beyond == 0.0 && fused[0].vector.is_none());
        // One without a vector counts as the farthest: E 1/4 + at most .5*.6/.9 of three quarters.
        let fused = fuse(SCORE, &[("C", 0.9), ("D", 0.6)], &[("C", 4.0), ("E", 1.0)]);
        let e = fused.iter().find(|it| it.key == "E").unwrap();
        assert!((e.score - 0.5).abs() < 1e-6 && (e.beyond - 0.25).abs() < 1e-6, "{e:?}");
    }

    #[test]
    fn the_best_by_words_is_no_surer_than_what_it_has_of_the_query() {
        let score = |whole, best, nearest| {
            let vector = [("V", nearest), ("K", 0.0)];
            let fused =
                super::fuse(SCORE, Scales::of(whole, best, nearest), &vector, &[("K", best)]);
            fused.iter().map(|it| (it.key, (it.score * 1000.0).round())).collect::<Vec<_>>()
        };
        // A tenth of 40 where a quarter is wanted: 4/10.
        assert_eq!(score(40.0, 4.0, 0.7), [("V", 500.0), ("K", 400.0)]);
        // Nothing is near: .5 * .14/.35.
        assert_eq!(score(40.0, 4.0, 0.14), [("K", 400.0), ("V", 200.0)]);
        // Half of the query is more than enough.
        assert_eq!(score(8.0, 4.0, 0.7), [("K", 1000.0), ("V", 500.0)]);
        let scales = Scales::of(40.0, 4.0, 0.14);
        assert_eq!((scales.of_words(), scales.of_cosine(0.5)), (10.0, 0.7));
        assert_eq!(Scales::of(f32::NAN, f32::INFINITY, -1.0), Scales::of(0.0, 0.0, 0.0));
    }

    #[test]
    fn the_best_by_words_stays_on_top_whatever_the_vectors_say() {
        let fusion = Fusion::Score { vector_weight: 1.0 };
        let fused =
            fuse(fusion, &[("V", 1.0), ("B", 0.99), ("K", -1.0)], &[("K", 9.0), ("B", 8.9)]);
        assert_eq!(fused.iter().map(|it| it.key).collect::<Vec<_>>(), ["V", "K", "B"]);
        let fusion = Fusion::Score { vector_weight: 0.5 };
        let fused =
            fuse(fusion, &[("V", 1.0), ("B", 0.99), ("K", -1.0)], &[("K", 9.0), ("B", 8.9)]);
        assert_eq!(fused.iter().map(|it| it.key).collect::<Vec<_>>(), ["K", "B", "V"]);
    }

    #[test]
    fn equals_keep_the_order_of_vectors_then_keywords() {
        let fused = fuse(Fusion::Rrf { vector_weight: 0.5 }, &[("V", 0.5)], &[("K", 9.0)]);
        assert_eq!(fused.iter().map(|it| it.key).collect::<Vec<_>>(), ["V", "K"]);
        let fused = fuse(SCORE, &[("V", 0.0)], &[("K", 0.0), ("L", 0.0)]);
        assert_eq!(fused.iter().map(|it| it.key).collect::<Vec<_>>(), ["V", "K", "L"]);
    }

    #[test]
    fn a_request_s_weight_means_ranks_and_the_model_s_means_scores() {
        let check = |requested, by_rank, by_score, model, wanted| {
            assert_eq!(Fusion::chosen(requested, by_rank, by_score, model), wanted);
        };
        let rrf = |vector_weight| Fusion::Rrf { vector_weight };
        let score = |vector_weight| Fusion::Score { vector_weight };
        check(None, None, None, "remd-static-256", score(0.5));
        check(None, None, None, "all-MiniLM-L6-v2", score(0.6));
        check(None, None, None, "somebody-s", score(0.5));
        check(None, None, Some(0.4), "all-MiniLM-L6-v2", score(0.4));
        check(None, None, Some(f64::NAN), "all-MiniLM-L6-v2", score(0.6));
        check(None, Some(0.7), Some(0.4), "all-MiniLM-L6-v2", rrf(0.7));
        check(Some(0.2), None, None, "remd-static-256", rrf(0.2));
        check(Some(7.0), None, None, "remd-static-256", rrf(1.0));
        check(Some(-1.0), Some(0.7), None, "remd-static-256", rrf(0.0));
        check(Some(f64::NAN), None, None, "remd-static-256", score(0.5));
        assert_eq!(
            RRF.text(),
            "rrf: 0.7/(60 + rank among vectors) + 0.3/(60 + rank among keywords)"
        );
    }

    proptest! {
        #[test]
        fn scores_are_the_sum_of_their_shares_and_sorted(
            vector in prop::collection::vec((0..30_u8, -1.0_f32..1.0), 0..20),
            keyword in prop::collection::vec((0..30_u8, 0.0_f32..50.0), 0..20),
            by_rank in any::<bool>(),
        ) {
            let fusion = if by_rank { RRF } else { SCORE };
            let fused = fuse(fusion, &vector, &keyword);
            prop_assert!(fused.windows(2).all(|it| it[0].score >= it[1].score));
            for hit in &fused {
                let shares = [hit.vector, hit.keyword].into_iter().flatten();
                let sum: f64 = shares.map(|it| it.share).sum::<f64>() + hit.beyond;
                prop_assert!((sum - hit.score).abs() < 1e-9);
            }
            let mut keys: Vec<u8> = fused.iter().map(|it| it.key).collect();
            keys.sort_unstable();
            keys.dedup();
            prop_assert_eq!(keys.len(), fused.len());
            prop_assert_eq!(fuse(fusion, &vector, &keyword), fused);
        }

        #[test]
        fn what_is_no_number_is_no_hit(odd in prop::sample::select(vec![
            f32::NAN, f32::INFINITY, f32::NEG_INFINITY,
        ])) {
            let fused = fuse(SCORE, &[("A", odd), ("B", 0.5)], &[("C", odd), ("D", 1.0)]);
            let mut keys: Vec<&str> = fused.iter().map(|it| it.key).collect();
            keys.sort_unstable();
            prop_assert_eq!(keys, ["B", "D"]);
        }
    }
}

//! Which segments become one when the index rests.
//!
//! Pure. Each segment costs every query a look at its dictionary for every word, so few are
//! better; but a merge writes its segments anew, so large ones are left alone until the others
//! together are worth it.
//!
//! **Invariant:** afterwards each segment is at least [`STEP`] times as large as all smaller ones
//! together, so that there are few, and a document is written again only as often as the whole
//! grew by that factor.

/// How much larger a segment is than all smaller ones together, to be left alone.
const STEP: u64 = 3;

/// The segments to make one, by their sizes in documents; none where all is well.
pub(super) fn worth_merging<T: Copy>(segments: &[(T, u64)]) -> Vec<T> {
    let mut sorted = segments.to_vec();
    sorted.sort_by_key(|it| it.1);
    let (mut below, mut count) = (0, 0);
    for (at, (_, size)) in sorted.iter().enumerate() {
        if at > 0 && *size < below * STEP {
            count = at + 1;
        }
        below += size;
    }
    sorted[..count].iter().map(|it| it.0).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(sizes: &[u64], merged: &[u64]) {
        let segments: Vec<(u64, u64)> = sizes.iter().map(|it| (*it, *it)).collect();
        assert_eq!(worth_merging(&segments), merged, "{sizes:?}");
    }

    #[test]
    fn small_ones_become_one_and_a_large_one_is_left_alone() {
        check(&[], &[]);
        check(&[7], &[]);
        check(&[40_000, 1], &[]);
        check(&[40_000, 1, 1], &[1, 1]);
        check(&[40_000, 10, 2], &[]);
        // A first build, shown after twice as long each time.
        check(&[900, 1800, 3600, 7200], &[900, 1800, 3600, 7200]);
        // Edits that add up to a third of the whole.
        check(&[40_000, 13_000, 400], &[400, 13_000, 40_000]);
        check(&[40_000, 13_000, 100], &[]);
    }

    proptest! {
        #[test]
        fn what_is_left_is_steep(sizes in prop::collection::vec(0..100_000u64, 0..40)) {
            let segments: Vec<(usize, u64)> = sizes.into_iter().enumerate().collect();
            let merged = worth_merging(&segments);
            prop_assert!(merged.len() != 1);
            let mut left: Vec<u64> =
                segments.iter().filter(|it| !merged.contains(&it.0)).map(|it| it.1).collect();
            left.extend((!merged.is_empty()).then(|| {
                segments.iter().filter(|it| merged.contains(&it.0)).map(|it| it.1).sum::<u64>()
            }));
            left.sort_unstable();
            let mut below = 0;
            for size in left {
                prop_assert!(size >= below * STEP, "{size} beside {below}");
                below += size;
            }
        }
    }
}

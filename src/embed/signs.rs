//! Which numbers of a vector are above nought, a bit each.
//!
//! Pure. Vectors that are near have most of these in common (Charikar, Similarity estimation
//! techniques from rounding algorithms, 2002): counting those that differ costs a thirtieth of a
//! product in eight bits, and tells which rows are worth one.
//!
//! **Invariant:** rows are compared as a whole number of words of 64 bits; what is past the end of a
//! vector never differs.

/// How many bytes the signs of a vector take.
pub const fn signs_width(dimension: usize) -> usize {
    dimension.div_ceil(64) * 8
}

/// The signs of a vector, from its numbers in eight bits.
pub fn signs(parts: &[i8]) -> Vec<u8> {
    let mut signs = vec![0; signs_width(parts.len())];
    for (at, part) in parts.iter().enumerate() {
        signs[at / 8] |= u8::from(*part > 0) << (at % 8);
    }
    signs
}

/// Adds for each row in how many signs it differs from the query.
pub fn differing(query: &[u8], rows: &[u8], to: &mut Vec<u16>) {
    let (query, _) = query.as_chunks::<8>();
    let query: Vec<u64> = query.iter().map(|it| u64::from_le_bytes(*it)).collect();
    let start = to.len();
    to.resize(start + rows.len() / (query.len() * 8).max(1), 0);
    let to = &mut to[start..];
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { differing_counted(&query, rows, to) };
    }
    differing_plain(&query, rows, to);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn differing_counted(query: &[u64], rows: &[u8], to: &mut [u16]) {
    differing_plain(query, rows, to);
}

// Loops and no closures: those would be compiled without what the processor has.
#[inline(always)]
fn differing_plain(query: &[u64], rows: &[u8], to: &mut [u16]) {
    if let [a, b, c, d] = *query {
        // The model on board has 256 numbers.
        for (to, row) in to.iter_mut().zip(rows.as_chunks::<32>().0) {
            let words = row.as_chunks::<8>().0;
            let mut count = 0;
            for (word, of) in words.iter().zip([a, b, c, d]) {
                count += (u64::from_le_bytes(*word) ^ of).count_ones();
            }
            *to = count as u16;
        }
        return;
    }
    for (to, row) in to.iter_mut().zip(rows.chunks_exact((query.len() * 8).max(1))) {
        let mut count = 0;
        for (word, of) in row.as_chunks::<8>().0.iter().zip(query) {
            count += (u64::from_le_bytes(*word) ^ of).count_ones();
        }
        *to = count as u16;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_differs_is_counted(
            dimension in prop::sample::select(vec![1_usize, 63, 64, 65, 256, 384]),
            seed in any::<[i8; 32]>(),
            count in 1..5_usize,
        ) {
            let vector = |from: usize| -> Vec<i8> {
                (0..dimension).map(|at| seed[(at * 7 + from) % 32].wrapping_add(at as i8)).collect()
            };
            let rows: Vec<u8> = (1..=count).flat_map(|it| signs(&vector(it))).collect();
            let mut found = vec![];
            differing(&signs(&vector(0)), &rows, &mut found);
            let wanted: Vec<u16> = (1..=count)
                .map(|it| {
                    let pairs = vector(0).into_iter().zip(vector(it));
                    pairs.filter(|(a, b)| (*a > 0) != (*b > 0)).count() as u16
                })
                .collect();
            prop_assert_eq!(found, wanted);
        }
    }
}

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
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { differing_counted(query, rows, to) };
    }
    differing_plain(query, rows, to);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn differing_counted(query: &[u8], rows: &[u8], to: &mut Vec<u16>) {
    differing_plain(query, rows, to);
}

#[inline(always)]
fn differing_plain(query: &[u8], rows: &[u8], to: &mut Vec<u16>) {
    let (query, _) = query.as_chunks::<8>();
    let query: Vec<u64> = query.iter().map(|it| u64::from_le_bytes(*it)).collect();
    if let [a, b, c, d] = query[..] {
        // The model on board has 256 numbers.
        let (rows, _) = rows.as_chunks::<32>();
        to.extend(rows.iter().map(|row| {
            let (words, _) = row.as_chunks::<8>();
            let count = |at: usize, of: u64| (u64::from_le_bytes(words[at]) ^ of).count_ones();
            (count(0, a) + count(1, b) + count(2, c) + count(3, d)) as u16
        }));
        return;
    }
    let (words, _) = rows.as_chunks::<8>();
    to.extend(words.chunks_exact(query.len().max(1)).map(|row| {
        let pairs = row.iter().zip(&query);
        pairs.map(|(a, b)| (u64::from_le_bytes(*a) ^ b).count_ones()).sum::<u32>() as u16
    }));
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

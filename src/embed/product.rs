//! Products of vectors in eight bits.
//!
//! Pure. Takes a query and rows that lie one behind the other, gives the product with each row
//! that is asked for. A few rows of many lie far apart, so the next ones are fetched from memory
//! while one is computed.
//!
//! **Invariant:** every way of computing gives the same number.

/// How many rows ahead are fetched.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 8;
/// Bytes that the processor fetches at once.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// The product of two vectors of eight-bit parts.
pub fn product(a: &[i8], b: &[i8]) -> i32 {
    let mut found = 0;
    products(a, b, &[0], |it| found = it);
    found
}

/// The product of the query with each of the rows at these places among `rows`, in their order; 0
/// where a row is not there.
pub fn products(query: &[i8], rows: &[i8], places: &[u32], to: impl FnMut(i32)) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { products_avx2(query, rows, places, to) };
    }
    products_plain(query, rows, places, to);
}

fn products_plain(query: &[i8], rows: &[i8], places: &[u32], mut to: impl FnMut(i32)) {
    for place in places {
        to(plain(query, row(rows, *place, query.len())));
    }
}

fn plain(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

#[inline(always)]
fn row(rows: &[i8], place: u32, width: usize) -> &[i8] {
    let from = place as usize * width;
    rows.get(from..from + width).unwrap_or_default()
}

/// The same, 16 parts at a time. Any dimension up to 2^17 fits the sums.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn products_avx2(query: &[i8], rows: &[i8], places: &[u32], mut to: impl FnMut(i32)) {
    use std::arch::x86_64::{
        __m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_add_epi32,
        _mm256_cvtepi8_epi16, _mm256_madd_epi16, _mm256_setzero_si256,
    };
    #[inline(always)]
    fn wide(parts: &[i8; 16]) -> __m128i {
        // SAFETY: the array has the 16 bytes that are read; no alignment is asked for.
        unsafe { _mm_loadu_si128(parts.as_ptr().cast::<__m128i>()) }
    }
    let (query_wide, query_rest) = query.as_chunks::<16>();
    for (at, place) in places.iter().enumerate() {
        if let Some(next) = places.get(at + AHEAD) {
            for line in row(rows, *next, query.len()).chunks(LINE) {
                #[allow(unused_unsafe, reason = "safe since a later Rust than our oldest")]
                // SAFETY: fetching changes nothing, and the address is one of the slice.
                unsafe {
                    _mm_prefetch(line.as_ptr().cast(), _MM_HINT_T0)
                };
            }
        }
        let (wides, rest) = row(rows, *place, query.len()).as_chunks::<16>();
        let mut sums = _mm256_setzero_si256();
        for (a, b) in query_wide.iter().zip(wides) {
            let (a, b) = (_mm256_cvtepi8_epi16(wide(a)), _mm256_cvtepi8_epi16(wide(b)));
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
        }
        // SAFETY: eight numbers of 32 bits lie in 256.
        let sums: [i32; 8] = unsafe { std::mem::transmute(sums) };
        to(sums.iter().sum::<i32>() + plain(query_rest, rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_that_is_not_there_has_no_product() {
        assert_eq!(product(&[1, 2, 3], &[4, 5, 6]), 32);
        assert_eq!(product(&[1, 2, 3], &[4, 5]), 0);
        let mut found = vec![];
        products(&[1, 2], &[1, 1, -3, 4, 127, 127], &[2, 0, 3, 1], |it| found.push(it));
        assert_eq!(found, [381, 3, 0, 5]);
    }

    proptest! {
        #[test]
        fn wide_and_plain_products_are_equal(
            width in 1..200_usize, count in 1..40_usize, seed in any::<u64>(),
            places in prop::collection::vec(0..50_u32, 0..60),
        ) {
            let part = |at: usize| (seed.rotate_left(at as u32 * 7) as i8).wrapping_add(at as i8);
            let query: Vec<i8> = (0..width).map(part).collect();
            let rows: Vec<i8> = (0..width * count).map(|it| part(it + 3)).collect();
            let (mut found, mut wanted) = (vec![], vec![]);
            products(&query, &rows, &places, |it| found.push(it));
            products_plain(&query, &rows, &places, |it| wanted.push(it));
            prop_assert_eq!(found, wanted);
        }
    }
}

//! The arithmetic of a transformer.
//!
//! Pure. Takes rows of numbers, one row after the other; gives rows. Uses the processor's wide
//! multiply-and-add where it has one.
//!
//! **Invariant:** a row's result does not depend on its neighbours.

use crate::embed::vector::dot;

/// Outputs that are each a weighted sum of all inputs and a constant.
#[derive(Debug)]
pub(super) struct Linear {
    /// One row of inputs' weights for each output.
    weights: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
}

/// Brings rows to mean 0 and variance 1, then to a learned scale.
#[derive(Debug)]
pub(super) struct Norm {
    pub scale: Vec<f32>,
    pub shift: Vec<f32>,
    pub epsilon: f32,
}

/// Rows that are worked on together, so that each weight is read once for all of them.
const ROWS: usize = 4;
/// Outputs that are worked on together, so that each row is read once for both.
const OUTPUTS: usize = 2;
/// Numbers in a wide register.
#[cfg(target_arch = "x86_64")]
const WIDE: usize = 8;

impl Linear {
    pub fn new(weights: Vec<f32>, bias: Vec<f32>) -> Self {
        let inputs = weights.len() / bias.len().max(1);
        Self { weights, bias, inputs }
    }

    pub fn apply(&self, rows: &[f32]) -> Vec<f32> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has what the function is compiled for.
            return self.apply_with(rows, |block, weights| unsafe { products_fma(block, weights) });
        }
        self.apply_with(rows, products)
    }

    #[inline(always)]
    fn apply_with(
        &self,
        rows: &[f32],
        products: impl Fn(&[&[f32]; ROWS], &[&[f32]; OUTPUTS]) -> [[f32; ROWS]; OUTPUTS],
    ) -> Vec<f32> {
        let (inputs, outputs) = (self.inputs, self.bias.len());
        let mut out = vec![0.0; rows.len() / inputs * outputs];
        let blocks = rows.chunks(ROWS * inputs).zip(out.chunks_mut(ROWS * outputs));
        for (rows, out) in blocks {
            let count = rows.len() / inputs;
            // What a short last block lacks is its first row again, and thrown away.
            let block = std::array::from_fn(|at| {
                let at = if at < count { at } else { 0 };
                &rows[at * inputs..(at + 1) * inputs]
            });
            for (pair, weights) in self.weights.chunks(OUTPUTS * inputs).enumerate() {
                let (first, second) = weights.split_at(inputs);
                let second = if second.is_empty() { first } else { second };
                let sums = products(&block, &[first, second]);
                let there = pair * OUTPUTS..outputs.min((pair + 1) * OUTPUTS);
                for (output, sums) in there.zip(sums) {
                    for (at, sum) in sums.into_iter().take(count).enumerate() {
                        out[at * outputs + output] = sum + self.bias[output];
                    }
                }
            }
        }
        out
    }
}

/// The product of each row with the weights of each output.
fn products(rows: &[&[f32]; ROWS], weights: &[&[f32]; OUTPUTS]) -> [[f32; ROWS]; OUTPUTS] {
    std::array::from_fn(|output| std::array::from_fn(|row| dot(rows[row], weights[output])))
}

/// The same with eight sums side by side for each, all of them in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn products_fma(rows: &[&[f32]; ROWS], weights: &[&[f32]; OUTPUTS]) -> [[f32; ROWS]; OUTPUTS] {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps};
    let length = weights.iter().chain(rows).map(|it| it.len()).min().unwrap_or(0);
    let wide = length - length % WIDE;
    let mut sums = [[_mm256_setzero_ps(); ROWS]; OUTPUTS];
    for at in (0..wide).step_by(WIDE) {
        // SAFETY: eight numbers from `at` lie in every row and in all weights, as `at` is at most
        // `wide - 8` and `wide` at most the length of the shortest; no alignment is asked for.
        let load = |from: &[f32]| unsafe { _mm256_loadu_ps(from.as_ptr().add(at)) };
        let (first, second) = (load(weights[0]), load(weights[1]));
        for row in 0..ROWS {
            let parts = load(rows[row]);
            sums[0][row] = _mm256_fmadd_ps(parts, first, sums[0][row]);
            sums[1][row] = _mm256_fmadd_ps(parts, second, sums[1][row]);
        }
    }
    let mut out = [[0.0; ROWS]; OUTPUTS];
    for output in 0..OUTPUTS {
        for row in 0..ROWS {
            // SAFETY: eight numbers of 32 bits lie in 256.
            let lanes: [f32; WIDE] = unsafe { std::mem::transmute(sums[output][row]) };
            let rest = dot(&rows[row][wide..length], &weights[output][wide..length]);
            out[output][row] = lanes.iter().sum::<f32>() + rest;
        }
    }
    out
}

impl Norm {
    pub fn apply(&self, rows: &mut [f32]) {
        let width = self.scale.len();
        for row in rows.chunks_exact_mut(width) {
            let mean = row.iter().sum::<f32>() / width as f32;
            let variance = row.iter().map(|it| (it - mean).powi(2)).sum::<f32>() / width as f32;
            let factor = 1.0 / (variance + self.epsilon).sqrt();
            for ((part, scale), shift) in row.iter_mut().zip(&self.scale).zip(&self.shift) {
                *part = (*part - mean) * factor * scale + shift;
            }
        }
    }
}

/// Makes shares that add up to one.
pub(super) fn softmax(parts: &mut [f32]) {
    let most = parts.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for part in parts.iter_mut() {
        *part = (*part - most).exp();
        sum += *part;
    }
    parts.iter_mut().for_each(|it| *it /= sum);
}

/// `x` times the share of a normal distribution below it.
pub(super) fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function, to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6]
        .into_iter()
        .fold(0.0, |sum, part| (sum + part) * t);
    (1.0 - series * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gelu_is_the_exact_one() {
        // python3 -c "from math import erf; [print(x, x/2*(1+erf(x/2**.5))) for x in (...)]"
        for (x, wanted) in [
            (0.0, 0.0),
            (0.5, 0.345_731_23),
            (1.0, 0.841_344_8),
            (-1.0, -0.158_655_25),
            (3.0, 2.995_950_3),
            (-3.0, -0.004_049_694),
            (20.0, 20.0),
            (-20.0, 0.0),
        ] {
            let found = gelu(x);
            assert!((found - wanted).abs() < 1e-6, "{x}: {found} {wanted}");
        }
    }

    #[test]
    fn shares_add_up_to_one_whatever_the_size() {
        let mut parts = [1000.0, 999.0, -1000.0];
        softmax(&mut parts);
        // 1 / (1 + e^-1)
        assert!((parts[0] - 0.731_058_6).abs() < 1e-6 && parts[2] == 0.0);
        assert!((parts.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn rows_come_to_mean_nought_and_variance_one() {
        let norm = Norm { scale: vec![1.0, 2.0], shift: vec![0.0, 1.0], epsilon: 0.0 };
        let mut rows = [1.0, 3.0, 5.0, 1.0];
        norm.apply(&mut rows);
        assert_eq!(rows, [-1.0, 3.0, 1.0, -1.0]);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_plain_way(
            inputs in 1..40_usize, outputs in 1..6_usize, count in 1..11_usize, seed in any::<u32>()
        ) {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as f32 / 65_536.0 - 0.5
            };
            let weights: Vec<f32> = (0..inputs * outputs).map(|_| next()).collect();
            let bias: Vec<f32> = (0..outputs).map(|_| next()).collect();
            let rows: Vec<f32> = (0..inputs * count).map(|_| next()).collect();
            let linear = Linear::new(weights.clone(), bias.clone());
            let plain = linear.apply_with(&rows, products);
            let found = linear.apply(&rows);
            prop_assert_eq!(found.len(), count * outputs);
            for row in 0..count {
                for output in 0..outputs {
                    let wanted: f64 = (0..inputs)
                        .map(|at| {
                            f64::from(rows[row * inputs + at]) * f64::from(weights[output * inputs + at])
                        })
                        .sum::<f64>() + f64::from(bias[output]);
                    for found in [found[row * outputs + output], plain[row * outputs + output]] {
                        prop_assert!((f64::from(found) - wanted).abs() < 1e-5);
                    }
                }
            }
        }
    }
}

//! A text's place in a model's space.
//!
//! Pure. Takes the numbers that a model or a store gives; refuses those that are no direction
//! (no number at all, not finite, all zero); gives unit vectors, their half-precision form
//! (`_embedding_f16_b64` in the chunk store) and their eight-bit form for scanning.
//!
//! **Invariant:** a [`Vector`] has length one and no part that is not finite, wherever it comes
//! from; a cosine of two of them lies in -1..=1.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Why numbers are no vector.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VectorError {
    #[error("vector is empty")]
    Empty,
    #[error("vector has a part that is not a finite number (at {0})")]
    NotFinite(usize),
    #[error("vector is zero")]
    Zero,
    #[error("embedding dimension mismatch: {actual} != {wanted}")]
    Dimension { actual: usize, wanted: usize },
    #[error("vector is not base64 of half-precision numbers")]
    Encoding,
}

/// A unit vector.
#[derive(Clone, PartialEq, Debug)]
pub struct Vector(Box<[f32]>);

/// A unit vector in eight bits a part: part times `scale` is about the vector's own.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantised {
    pub parts: Box<[i8]>,
    pub scale: f32,
}

impl Vector {
    /// Scales the numbers to length one.
    pub fn new(mut parts: Vec<f32>) -> Result<Self, VectorError> {
        if parts.is_empty() {
            return Err(VectorError::Empty);
        }
        if let Some(at) = parts.iter().position(|it| !it.is_finite()) {
            return Err(VectorError::NotFinite(at));
        }
        // In double precision neither the largest nor the smallest parts leave the range.
        let square: f64 = parts.iter().map(|it| f64::from(*it) * f64::from(*it)).sum();
        let norm = square.sqrt();
        if norm == 0.0 {
            return Err(VectorError::Zero);
        }
        for part in &mut parts {
            *part = (f64::from(*part) / norm) as f32;
        }
        Ok(Self(parts.into_boxed_slice()))
    }

    pub fn dimension(&self) -> usize {
        self.0.len()
    }

    pub fn parts(&self) -> &[f32] {
        &self.0
    }

    /// The cosine with another vector of the same space; 0 where the sizes differ.
    pub fn cosine(&self, other: &Self) -> f32 {
        if self.0.len() != other.0.len() {
            return 0.0;
        }
        dot(&self.0, &other.0).clamp(-1.0, 1.0)
    }

    /// Half-precision bits.
    pub fn to_halves(&self) -> Box<[u16]> {
        self.0.iter().map(|it| half_of(*it)).collect()
    }

    /// From half-precision bits.
    pub fn from_halves(halves: &[u16]) -> Result<Self, VectorError> {
        Self::new(halves.iter().map(|it| from_half(*it)).collect())
    }

    /// Base64 of little-endian half-precision numbers.
    pub fn to_f16_base64(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|it| half_of(*it).to_le_bytes()).collect();
        STANDARD.encode(bytes)
    }

    /// Reads base64 of `dimension` little-endian half-precision numbers.
    pub fn from_f16_base64(text: &str, dimension: usize) -> Result<Self, VectorError> {
        let bytes = STANDARD.decode(text).map_err(|_| VectorError::Encoding)?;
        let (halves, []) = bytes.as_chunks::<2>() else { return Err(VectorError::Encoding) };
        if halves.len() != dimension {
            return Err(VectorError::Dimension { actual: halves.len(), wanted: dimension });
        }
        Self::new(halves.iter().map(|it| from_half(u16::from_le_bytes(*it))).collect())
    }

    /// Eight bits a part, the largest part being ±127.
    pub fn quantised(&self) -> Quantised {
        let largest = self.0.iter().fold(0.0_f32, |most, it| most.max(it.abs()));
        let scale = largest / 127.0;
        // To the nearest, ties away from nought. `round` would be a call for each part.
        let nearest = |it: &f32| {
            let steps = it / scale;
            (steps + 0.5_f32.copysign(steps)) as i8
        };
        let parts = self.0.iter().map(nearest).collect();
        Quantised { parts, scale }
    }
}

/// The product of a vector with half-precision bits, which are not read into a vector for it.
pub fn dot_halves(parts: &[f32], halves: &[u16]) -> f32 {
    parts.iter().zip(halves).map(|(a, b)| a * from_half(*b)).sum()
}

/// The product of two rows of numbers.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    // Eight sums side by side, so that the compiler can use wide registers.
    let mut sums = [0.0_f32; 8];
    let (a_wide, a_rest) = a.as_chunks::<8>();
    let (b_wide, b_rest) = b.as_chunks::<8>();
    for (a, b) in a_wide.iter().zip(b_wide) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// The nearest half-precision number, ties to even; what is too large becomes infinite.
fn half_of(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let exponent = (bits >> 23) & 0xff;
    let fraction = bits & 0x7f_ffff;
    if exponent == 0xff {
        return sign | 0x7c00 | if fraction == 0 { 0 } else { 0x200 };
    }
    // The whole number, one bit before the point, and by how many bits it is too fine.
    let whole = if exponent == 0 { fraction } else { fraction | 0x80_0000 };
    let (base, excess) =
        if exponent > 112 { ((exponent - 113) << 10, 13) } else { (0, 13 + 113 - exponent.max(1)) };
    if excess > 25 {
        return sign;
    }
    let kept = whole >> excess;
    let rest = whole & ((1 << excess) - 1);
    let middle = 1 << (excess - 1);
    let up = rest > middle || (rest == middle && kept & 1 == 1);
    // A carry out of the fraction is a step of the exponent, and past the last one infinity.
    let magnitude = base + kept + u32::from(up);
    sign | magnitude.min(0x7c00) as u16
}

fn from_half(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let exponent = u32::from(half >> 10) & 0x1f;
    let fraction = u32::from(half & 0x3ff);
    match (exponent, fraction) {
        (0, _) => {
            // A subnormal: the fraction times 2^-24, exact in single precision.
            let value = fraction as f32 * f32::from_bits(0x3380_0000);
            f32::from_bits(value.to_bits() | sign)
        }
        (0x1f, _) => f32::from_bits(sign | 0x7f80_0000 | (fraction << 13)),
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (fraction << 13)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_direction_is_refused() {
        assert_eq!(Vector::new(vec![]), Err(VectorError::Empty));
        assert_eq!(Vector::new(vec![0.0, -0.0]), Err(VectorError::Zero));
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(Vector::new(vec![1.0, odd, 2.0]), Err(VectorError::NotFinite(1)));
        }
    }

    #[test]
    fn the_largest_and_the_smallest_parts_have_a_direction() {
        let half = std::f32::consts::FRAC_1_SQRT_2;
        for part in [f32::MAX, 1.0, f32::MIN_POSITIVE, f32::from_bits(1)] {
            assert_eq!(Vector::new(vec![part, -part]).unwrap().parts(), [half, -half]);
        }
    }

    #[test]
    fn halves_are_those_of_ieee_754() {
        // By hand from the format: sign, 5 bits of exponent (bias 15), 10 bits of fraction.
        for (value, half) in [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (0.333_251_95, 0x3555),
            (65504.0, 0x7bff),
            (65519.0, 0x7bff), // below the middle to 65536
            (65520.0, 0x7c00), // the middle: infinity is even
            (6.103_515_6e-5, 0x0400),
            (5.960_464_5e-8, 0x0001),
            (2.980_232_2e-8, 0x0000), // half of the smallest: ties to even
            (2.980_233e-8, 0x0001),
            (1.0e-30, 0x0000),
            (1.000_488_3, 0x3c00), // 1 + 2^-11: a tie, down to even
            (1.001_464_8, 0x3c02), // 1 + 3 * 2^-11: a tie, up to even
            (f32::INFINITY, 0x7c00),
        ] {
            assert_eq!(half_of(value), half, "{value}");
        }
        assert!(from_half(half_of(f32::NAN)).is_nan());
    }

    #[test]
    fn every_half_comes_back() {
        for half in 0..=u16::MAX {
            let value = from_half(half);
            if value.is_nan() {
                assert!(from_half(half_of(value)).is_nan());
            } else {
                assert_eq!(half_of(value), half, "{value}");
            }
        }
    }

    #[test]
    fn base64_is_that_of_little_endian_halves() {
        // python3 -c "import base64,struct; print(base64.b64encode(struct.pack('<2e', 0.6, -0.8)))"
        let vector = Vector::new(vec![3.0, -4.0]).unwrap();
        assert_eq!(vector.to_f16_base64(), "zThmug==");
        let back = Vector::from_f16_base64("zThmug==", 2).unwrap();
        assert!(back.cosine(&vector) > 0.999_999);
    }

    #[test]
    fn stored_text_that_is_no_vector_is_refused() {
        let check = |text: &str, wanted| {
            assert_eq!(Vector::from_f16_base64(text, 2), Err(wanted), "{text}");
        };
        check("zThmug=", VectorError::Encoding);
        check("not base64!", VectorError::Encoding);
        check("zThm", VectorError::Encoding); // three bytes
        check("zTg=", VectorError::Dimension { actual: 1, wanted: 2 });
        check("", VectorError::Dimension { actual: 0, wanted: 2 });
        check("AAAAAA==", VectorError::Zero);
        check("AHwAPA==", VectorError::NotFinite(0)); // infinity, 1
        check("ADwAfg==", VectorError::NotFinite(1)); // 1, no number
    }

    #[test]
    fn eight_bits_are_the_parts_by_the_largest() {
        let quantised = Vector::new(vec![0.6, -0.8]).unwrap().quantised();
        assert_eq!(*quantised.parts, [95, -127]); // 0.6 / 0.8 * 127 = 95.25
        assert!((quantised.scale - 0.8 / 127.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn a_vector_keeps_its_direction_in_every_form(
            parts in prop::collection::vec(-1e6_f32..1e6, 1..400)
        ) {
            prop_assume!(parts.iter().any(|it| it.abs() > 1e-3));
            let vector = Vector::new(parts).unwrap();
            let norm: f64 = vector.parts().iter().map(|it| f64::from(*it).powi(2)).sum();
            prop_assert!((norm - 1.0).abs() < 1e-5);
            let text = vector.to_f16_base64();
            let back = Vector::from_f16_base64(&text, vector.dimension()).unwrap();
            prop_assert!(back.cosine(&vector) > 0.9999);
            prop_assert_eq!(&Vector::from_halves(&vector.to_halves()).unwrap(), &back);
            let Quantised { parts, scale } = vector.quantised();
            for (part, small) in vector.parts().iter().zip(&parts) {
                prop_assert!((part - f32::from(*small) * scale).abs() <= scale * 0.5001);
            }
        }
    }
}

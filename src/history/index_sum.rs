//! The checksum at the end of git's index.
//!
//! Takes the parts of a file, gives their hash, and remembers how far it was at regular places:
//! after a change only what follows it is hashed again. A checksum and no identity, so the
//! processor's own instructions serve and no attack is looked for. Pure.
//!
//! **Invariant:** a place that is remembered is the hash of the bytes before it as they are.

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// Bytes between two places.
pub(super) const STEP: usize = 64 << 10;

#[derive(Clone, Debug)]
enum Hasher {
    Sha1(Sha1),
    Sha256(Sha256),
}

/// The running hash of one file that is written again and again.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    /// The hash of the first `n * STEP` bytes, at `n`.
    places: Vec<Hasher>,
    /// Bytes hashed so far, in all.
    work: u64,
}

impl Sum {
    pub fn new(kind: gix::hash::Kind) -> Self {
        let start = match kind {
            gix::hash::Kind::Sha256 => Hasher::Sha256(Sha256::new()),
            _ => Hasher::Sha1(Sha1::new()),
        };
        Self { places: vec![start], work: 0 }
    }

    /// The bytes from `at` on are others now.
    pub fn forget_from(&mut self, at: usize) {
        self.places.truncate(at / STEP + 1);
    }

    /// The checksum of `bytes`, the ones that places are remembered in, and of `rest` behind them.
    pub fn of(&mut self, bytes: &[u8], rest: &[&[u8]]) -> Vec<u8> {
        self.places.truncate(bytes.len() / STEP + 1);
        let known = self.places.len() - 1;
        let mut hasher = self.places[known].clone();
        let mut steps = bytes[known * STEP..].chunks_exact(STEP);
        for step in steps.by_ref() {
            self.work += hasher.update(step);
            self.places.push(hasher.clone());
        }
        self.work += hasher.update(steps.remainder());
        for part in rest {
            self.work += hasher.update(part);
        }
        match hasher {
            Hasher::Sha1(it) => it.finalize().to_vec(),
            Hasher::Sha256(it) => it.finalize().to_vec(),
        }
    }

    /// Bytes hashed so far, in all.
    #[cfg(test)]
    pub fn work(&self) -> u64 {
        self.work
    }
}

impl Hasher {
    fn update(&mut self, bytes: &[u8]) -> u64 {
        match self {
            Self::Sha1(it) => it.update(bytes),
            Self::Sha256(it) => it.update(bytes),
        }
        bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|it| format!("{it:02x}")).collect()
    }

    #[test]
    fn known_sums() {
        let mut sum = Sum::new(gix::hash::Kind::Sha1);
        assert_eq!(hex(&sum.of(b"a", &[b"b", b"c"])), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let mut sum = Sum::new(gix::hash::Kind::Sha256);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&sum.of(b"abc", &[])), abc);
    }

    #[test]
    fn only_what_follows_a_change_is_hashed_again() {
        let mut bytes = vec![7; 5 * STEP + 9];
        let mut sum = Sum::new(gix::hash::Kind::Sha1);
        sum.of(&bytes, &[b"tail"]);
        for at in [5 * STEP + 8, 5 * STEP, 5 * STEP - 1, STEP, 3, 0] {
            bytes[at] ^= 1;
            sum.forget_from(at);
            let before = sum.work();
            let fresh = Sum::new(gix::hash::Kind::Sha1).of(&bytes, &[b"tail"]);
            assert_eq!(sum.of(&bytes, &[b"tail"]), fresh, "{at}");
            let since = (bytes.len() - at / STEP * STEP + 4) as u64;
            assert_eq!(sum.work() - before, since, "{at}");
        }
        // Shorter, longer, empty: places beyond the end are none.
        for len in [2 * STEP, 2 * STEP + 1, 4 * STEP, 0, 1] {
            sum.forget_from(bytes.len().min(len));
            bytes.resize(len, 9);
            let fresh = Sum::new(gix::hash::Kind::Sha1).of(&bytes, &[]);
            assert_eq!(sum.of(&bytes, &[]), fresh, "{len}");
        }
    }
}

//! Files that are written once and searched where they lie: sections behind a heading.
//!
//! Takes what kind of file it is, gives where its sections begin, and of bytes whether they are
//! whole. Any thread.
//!
//! **Invariant:** bytes of which one is another, or one too few, are refused.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::base::fs::{self, PathError};
use crate::base::mapped::Map;

/// Sections begin at multiples of this: a line of the processor's cache.
pub(super) const ALIGN: usize = 64;

/// Mapped from a file, or in memory only.
#[derive(Debug)]
pub(super) enum Bytes {
    Mapped(Map),
    Owned(Vec<u8>),
}

impl Bytes {
    pub(super) fn map(path: &Path) -> Result<Self, PathError> {
        let file = fs::open_regular(path)?;
        fs::at("map", path, Map::of(&file)).map(Self::Mapped)
    }

    /// Whether no page of its file was lost.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Self::Mapped(map) => map.lost() == 0,
            Self::Owned(_) => true,
        }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// A kind of file. It begins with the magic, the version and the checksum of all behind that, four
/// bytes each but for the magic's eight.
pub(super) struct Form {
    pub(super) magic: &'static [u8; 8],
    /// Changes when the bytes change their meaning.
    pub(super) version: u32,
    /// Bytes before the heading.
    pub(super) fixed: usize,
    /// What to say of another kind.
    pub(super) is_none: &'static str,
}

/// Behind the checksum.
const SUMMED: usize = 16;

impl Form {
    /// The first bytes, the checksum still to come.
    pub(super) fn begin(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.magic);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }

    /// Puts in the checksum of what is complete.
    pub(super) fn seal(&self, bytes: &mut [u8]) {
        let crc = crc32fast::hash(&bytes[SUMMED..]);
        bytes[SUMMED - 4..SUMMED].copy_from_slice(&crc.to_le_bytes());
    }

    /// Whether there are the bytes before the heading, of this kind and version.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<(), &'static str> {
        match bytes {
            _ if bytes.len() < self.fixed || !bytes.starts_with(self.magic) => Err(self.is_none),
            _ if small(bytes, 8) != self.version => Err("it is of another version"),
            _ => Ok(()),
        }
    }

    /// The heading, of so many bytes, of a file that ends at `end`: if every byte is as it was
    /// written.
    pub(super) fn heading<H: DeserializeOwned>(
        &self,
        bytes: &[u8],
        length: usize,
        end: usize,
    ) -> Result<H, &'static str> {
        if end != bytes.len() {
            return Err("it was cut");
        }
        if crc32fast::hash(&bytes[SUMMED..]) != small(bytes, SUMMED - 4) {
            return Err("its checksum is wrong");
        }
        serde_json::from_slice(&bytes[self.fixed..self.fixed + length])
            .map_err(|_| "its heading can't be read")
    }
}

/// Where one section after another begins.
pub(super) struct Sections {
    at: usize,
}

impl Sections {
    /// Behind a heading of so many bytes.
    pub(super) fn behind(form: &Form, heading: usize) -> Option<Self> {
        Some(Self { at: form.fixed.checked_add(heading)? })
    }

    /// The start of one of `count` parts of `size` bytes; `None` where no memory has so many.
    pub(super) fn section(&mut self, count: usize, size: usize) -> Option<usize> {
        let start = self.at.checked_next_multiple_of(ALIGN)?;
        self.at = start.checked_add(count.checked_mul(size)?)?;
        Some(start)
    }

    pub(super) fn end(self) -> usize {
        self.at
    }
}

/// So many bytes at a place that is known to be there.
pub(super) fn fixed<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// A number of four bytes.
pub(super) fn small(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(fixed(bytes, at))
}

/// A size of eight bytes.
pub(super) fn large(bytes: &[u8], at: usize) -> Result<usize, &'static str> {
    usize::try_from(u64::from_le_bytes(fixed(bytes, at))).map_err(|_| "its size")
}

pub(super) fn signed(bytes: &[u8]) -> &[i8] {
    // SAFETY: both are one byte, and every pattern is a value of each.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

//! Postings in a file, sorted by path.
//!
//! Takes sorted postings, writes them in blocks with a sum each; gives those of one path by reading
//! a few blocks.
//!
//! **Invariant:** a segment never changes once it has its name; a block whose sum is wrong is an
//! error, not an absence.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::format::{POSTING, Posting, word};
use crate::base::fs::{self, PathError};

/// Bytes of a block: postings, how many they are, their sum.
const BLOCK: usize = 4096;
/// Postings in a full block.
const FULL: usize = (BLOCK - 8) / POSTING;

/// Why postings were not read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error("`{}` is damaged", .0.display())]
    Damaged(PathBuf),
}

/// An open segment.
pub struct Segment {
    path: PathBuf,
    file: File,
    blocks: u64,
}

impl Segment {
    /// Of so many postings.
    pub fn open(path: &Path, count: u64) -> Result<Self, SegmentError> {
        let file = fs::open(path)?;
        let length = fs::at("read", path, file.metadata())?.len();
        let blocks = count.div_ceil(FULL as u64);
        if length != blocks * BLOCK as u64 {
            return Err(SegmentError::Damaged(path.to_owned()));
        }
        Ok(Self { path: path.to_owned(), file, blocks })
    }

    fn block(&self, at: u64) -> Result<Vec<Posting>, SegmentError> {
        let mut bytes = [0; BLOCK];
        fs::at("read", &self.path, self.file.read_exact_at(&mut bytes, at * BLOCK as u64))?;
        read_block(&bytes).ok_or_else(|| SegmentError::Damaged(self.path.clone()))
    }

    /// All postings of a path.
    pub fn find(&self, key: u64) -> Result<Vec<Posting>, SegmentError> {
        // The last block that begins before the key, or the first.
        let (mut low, mut high) = (0, self.blocks);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.block(middle)?.first() {
                Some(first) if first.key < key => low = middle,
                _ => high = middle,
            }
        }
        let mut found = Vec::new();
        for at in low..self.blocks {
            let block = self.block(at)?;
            found.extend(block.iter().filter(|it| it.key == key));
            if block.last().is_none_or(|it| it.key > key) {
                break;
            }
        }
        Ok(found)
    }

    /// Whether every block is whole.
    pub fn check(&self) -> Result<(), SegmentError> {
        (0..self.blocks).try_for_each(|at| self.block(at).map(|_| ()))
    }
}

fn read_block(bytes: &[u8; BLOCK]) -> Option<Vec<Posting>> {
    let (body, sum) = bytes.split_at(BLOCK - 4);
    if crc32fast::hash(body) != word(sum, 0)? {
        return None;
    }
    let count = usize::try_from(word(body, BLOCK - 8)?).ok().filter(|it| *it <= FULL)?;
    body[..count * POSTING].chunks_exact(POSTING).map(Posting::read).collect()
}

/// Writes a segment from sorted postings; gives how many they are.
struct Writer<'a> {
    path: &'a Path,
    file: std::io::BufWriter<File>,
    block: Vec<Posting>,
    count: u64,
}

impl<'a> Writer<'a> {
    fn new(path: &'a Path) -> Result<Self, PathError> {
        // One of this name that a crash left is in no manifest.
        fs::remove_file(path)?;
        let file = std::io::BufWriter::with_capacity(1 << 16, fs::create_new(path)?);
        Ok(Self { path, file, block: Vec::with_capacity(FULL), count: 0 })
    }

    fn push(&mut self, posting: Posting) -> Result<(), PathError> {
        self.block.push(posting);
        self.count += 1;
        if self.block.len() == FULL { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), PathError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(BLOCK);
        self.block.iter().for_each(|it| bytes.extend(it.bytes()));
        bytes.resize(BLOCK - 8, 0);
        bytes.extend(u32::try_from(self.block.len()).unwrap_or(0).to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        self.block.clear();
        fs::at("write", self.path, self.file.write_all(&bytes))
    }

    fn finish(mut self) -> Result<u64, PathError> {
        self.flush()?;
        fs::at("write", self.path, self.file.flush())?;
        Ok(self.count)
    }
}

/// Makes a segment of postings, and says how many they are.
pub fn write(path: &Path, mut postings: Vec<Posting>) -> Result<u64, PathError> {
    postings.sort_unstable();
    let mut writer = Writer::new(path)?;
    for posting in postings {
        writer.push(posting)?;
    }
    writer.finish()
}

/// Makes one segment of two.
pub fn merge(path: &Path, one: &Segment, other: &Segment) -> Result<u64, SegmentError> {
    let mut writer = Writer::new(path)?;
    let (mut one, mut other) = (Cursor::new(one), Cursor::new(other));
    loop {
        let next = match (one.peek()?, other.peek()?) {
            (None, None) => break,
            (Some(_), None) => one.take(),
            (None, Some(_)) => other.take(),
            (Some(a), Some(b)) => {
                if a <= b {
                    one.take()
                } else {
                    other.take()
                }
            }
        };
        if let Some(next) = next {
            writer.push(next)?;
        }
    }
    Ok(writer.finish()?)
}

/// Goes through a segment, a block at a time.
struct Cursor<'a> {
    segment: &'a Segment,
    next_block: u64,
    block: std::vec::IntoIter<Posting>,
}

impl<'a> Cursor<'a> {
    fn new(segment: &'a Segment) -> Self {
        Self { segment, next_block: 0, block: Vec::new().into_iter() }
    }

    fn peek(&mut self) -> Result<Option<Posting>, SegmentError> {
        while self.block.as_slice().is_empty() && self.next_block < self.segment.blocks {
            self.block = self.segment.block(self.next_block)?.into_iter();
            self.next_block += 1;
        }
        Ok(self.block.as_slice().first().copied())
    }

    fn take(&mut self) -> Option<Posting> {
        self.block.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_also_of_a_path_over_many_blocks_and_after_a_merge() {
        let dir = tempfile::tempdir().unwrap();
        let posting =
            |key: u64, number: u32| Posting { key, number, is_made: number.is_multiple_of(3) };
        let one: Vec<_> = (0..2000).map(|it| posting(u64::from(it % 40), it)).collect();
        let other: Vec<_> =
            (2000..2500).map(|it| posting(7, it)).chain([posting(99, 2500)]).collect();
        let path = |name: &str| dir.path().join(name);
        assert_eq!(write(&path("a"), one.clone()).unwrap(), 2000);
        assert_eq!(write(&path("b"), other.clone()).unwrap(), 501);
        let (a, b) =
            (Segment::open(&path("a"), 2000).unwrap(), Segment::open(&path("b"), 501).unwrap());
        assert_eq!(merge(&path("c"), &a, &b).unwrap(), 2501);
        let c = Segment::open(&path("c"), 2501).unwrap();
        c.check().unwrap();
        let all: Vec<_> = one.iter().chain(&other).copied().collect();
        for key in [0, 1, 7, 39, 40, 98, 99, 100, u64::MAX] {
            let expected: Vec<_> = all.iter().filter(|it| it.key == key).copied().collect();
            assert_eq!(c.find(key).unwrap(), expected, "{key}");
        }
        let mut bytes = std::fs::read(path("c")).unwrap();
        bytes[5000] ^= 1;
        std::fs::write(path("d"), &bytes).unwrap();
        let damaged = Segment::open(&path("d"), 2501).unwrap();
        assert!(matches!(damaged.check(), Err(SegmentError::Damaged(_))));
        std::fs::write(path("e"), &bytes[1..]).unwrap();
        assert!(matches!(Segment::open(&path("e"), 2501), Err(SegmentError::Damaged(_))));
    }

    #[test]
    fn an_empty_segment_has_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        assert_eq!(write(&path, Vec::new()).unwrap(), 0);
        assert_eq!(Segment::open(&path, 0).unwrap().find(1).unwrap(), []);
    }
}

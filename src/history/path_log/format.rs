//! How commits, paths and deletions stand in the table's files.
//!
//! Pure. **Invariant:** what is read is what was written, or nothing: every record has its sum.

use std::collections::HashMap;

use gix::ObjectId;
use sha2::{Digest as _, Sha256};

/// Of the whole folder; another one is made anew.
pub const VERSION: u32 = 2;

/// Bytes of a commit in `commits`.
pub const RECORD: usize = 72;
/// Bytes of a posting.
pub const POSTING: usize = 12;
/// No parent.
const NONE: u32 = u32::MAX;
/// The record only has more parents of the one before.
const MORE: u32 = 1;

/// A commit, by numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commit {
    pub id: ObjectId,
    /// By its committer.
    pub time: i64,
    /// The latest time of it and all its ancestors: clocks that went back don't change the order.
    pub order: i64,
    /// How long the longest way to a first commit is.
    pub depth: u32,
    parents: [u32; 2],
}

impl Commit {
    /// Newer ones are greater, and children than their parents.
    pub fn rank(&self) -> (i64, u32, ObjectId) {
        (self.order, self.depth, self.id)
    }
}

/// All commits by their numbers, parents before children.
#[derive(Clone, Default, Debug)]
pub struct Commits {
    /// `None` where only more parents are.
    list: Vec<Option<Commit>>,
    /// Those of merges of more than two.
    more: HashMap<u32, Vec<u32>>,
}

impl Commits {
    pub fn len(&self) -> u32 {
        u32::try_from(self.list.len()).unwrap_or(NONE)
    }

    pub fn get(&self, number: u32) -> Option<&Commit> {
        self.list.get(number as usize)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Commit)> {
        (0u32..).zip(&self.list).filter_map(|(number, it)| Some((number, it.as_ref()?)))
    }

    pub fn parents(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        let two = self.get(number).map_or([NONE; 2], |it| it.parents);
        let more = self.more.get(&number).into_iter().flatten().copied();
        two.into_iter().filter(|it| *it != NONE).chain(more)
    }

    /// The number of a commit; the newest are found fastest.
    pub fn find(&self, id: ObjectId) -> Option<u32> {
        let at = self.list.iter().rposition(|it| it.as_ref().is_some_and(|it| it.id == id))?;
        u32::try_from(at).ok()
    }

    /// Adds a commit behind its parents, and gives its number and its records.
    pub fn add(&mut self, id: ObjectId, time: i64, parents: &[u32]) -> (u32, Vec<u8>) {
        let of_parents = || parents.iter().filter_map(|it| self.get(*it));
        let order = of_parents().map(|it| it.order).fold(time, i64::max);
        let depth = of_parents().map(|it| it.depth.saturating_add(1)).max().unwrap_or(0);
        let at = |index: usize| parents.get(index).copied().unwrap_or(NONE);
        let commit = Commit { id, time, order, depth, parents: [at(0), at(1)] };
        let number = self.len();
        let mut bytes = record(Some(&commit), commit.parents);
        self.list.push(Some(commit));
        for pair in parents.get(2..).unwrap_or_default().chunks(2) {
            bytes.extend(record(None, [pair[0], pair.get(1).copied().unwrap_or(NONE)]));
            self.list.push(None);
            self.more.entry(number).or_default().extend(pair);
        }
        (number, bytes)
    }

    /// Reads records; `None` where one is damaged or names a parent that is not before it.
    pub fn read(&mut self, bytes: &[u8]) -> Option<()> {
        if !bytes.len().is_multiple_of(RECORD) {
            return None;
        }
        for record in bytes.chunks_exact(RECORD) {
            let (body, sum) = record.split_at(RECORD - 4);
            if crc32fast::hash(body) != word(sum, 0)? {
                return None;
            }
            let parents = [word(body, 52)?, word(body, 56)?];
            let number = self.len();
            if parents.iter().any(|it| *it != NONE && *it >= number) {
                return None;
            }
            if word(body, 60)? == MORE {
                let first = (0..number).rev().find(|it| self.get(*it).is_some())?;
                let of = self.more.entry(first).or_default();
                of.extend(parents.into_iter().filter(|it| *it != NONE));
                self.list.push(None);
                continue;
            }
            let length = usize::try_from(word(body, 64)?).ok()?;
            self.list.push(Some(Commit {
                id: ObjectId::try_from(body.get(..length)?).ok()?,
                time: long(body, 32)?,
                order: long(body, 40)?,
                depth: word(body, 48)?,
                parents,
            }));
        }
        Some(())
    }
}

fn record(commit: Option<&Commit>, parents: [u32; 2]) -> Vec<u8> {
    let mut bytes = vec![0; RECORD];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(52, &parents[0].to_le_bytes());
    put(56, &parents[1].to_le_bytes());
    match commit {
        Some(commit) => {
            let id = commit.id.as_bytes();
            put(0, id);
            put(32, &commit.time.to_le_bytes());
            put(40, &commit.order.to_le_bytes());
            put(48, &commit.depth.to_le_bytes());
            put(64, &u32::try_from(id.len()).unwrap_or(0).to_le_bytes());
        }
        None => put(60, &MORE.to_le_bytes()),
    }
    let sum = crc32fast::hash(&bytes[..RECORD - 4]);
    bytes[RECORD - 4..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// By which a path is found. Two paths with one key cost a look at a tree.
pub fn key(path: &[u8]) -> u64 {
    let digest = Sha256::digest(path);
    digest.iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte))
}

/// That a commit changed a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Posting {
    pub key: u64,
    /// The commit's number.
    pub number: u32,
    /// One of its parents has no such file: it may come from another one.
    pub is_made: bool,
}

/// In front of the number.
const MADE: u32 = 1 << 31;
/// No table has more commits.
pub const MOST_COMMITS: u32 = MADE - 1;

impl Posting {
    pub fn bytes(self) -> [u8; POSTING] {
        let mut bytes = [0; POSTING];
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        let value = self.number | if self.is_made { MADE } else { 0 };
        bytes[8..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    pub fn read(bytes: &[u8]) -> Option<Self> {
        let value = word(bytes, 8)?;
        Some(Self {
            key: u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?),
            number: value & !MADE,
            is_made: value & MADE != 0,
        })
    }
}

/// What one commit adds to the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Added {
    /// Its records in `commits`.
    pub records: Vec<u8>,
    pub postings: Vec<Posting>,
    /// What it deleted.
    pub gone: Vec<Vec<u8>>,
}

impl Added {
    /// A frame of the tail.
    pub fn frame(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let count = |body: &mut Vec<u8>, it: usize| {
            body.extend(u32::try_from(it).unwrap_or(u32::MAX).to_le_bytes());
        };
        count(&mut body, self.records.len());
        body.extend(&self.records);
        count(&mut body, self.postings.len());
        for posting in &self.postings {
            body.extend(posting.bytes());
        }
        for path in &self.gone {
            count(&mut body, path.len());
            body.extend(path);
        }
        framed(&body)
    }

    fn read(body: &[u8]) -> Option<Self> {
        let mut rest = body;
        let mut take = |length: usize| {
            let (part, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(part)
        };
        let length = |bytes: &[u8]| usize::try_from(word(bytes, 0)?).ok();
        let records = length(take(4)?)?;
        let records = take(records)?.to_vec();
        let postings = length(take(4)?)?.checked_mul(POSTING)?;
        let postings =
            take(postings)?.chunks_exact(POSTING).map(Posting::read).collect::<Option<_>>()?;
        let mut gone = Vec::new();
        while let Some(bytes) = take(4) {
            let path = length(bytes)?;
            gone.push(take(path)?.to_vec());
        }
        Some(Self { records, postings, gone })
    }
}

/// A length, a sum and the bytes.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(body.len() + 8);
    frame.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    frame.extend(crc32fast::hash(body).to_le_bytes());
    frame.extend(body);
    frame
}

/// The frames that are whole, from the first on, and how many bytes they take.
pub fn frames(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(length) = word(bytes, at).and_then(|it| usize::try_from(it).ok())
        && let Some(sum) = word(bytes, at + 4)
        && let Some(body) = bytes.get(at + 8..).and_then(|it| it.get(..length))
        && crc32fast::hash(body) == sum
    {
        found.push(body);
        at += 8 + length;
    }
    (found, at)
}

/// The whole frames of a tail, and how many bytes they take.
pub fn tail(bytes: &[u8]) -> (Vec<Added>, usize) {
    let (bodies, mut length) = frames(bytes);
    let mut found = Vec::new();
    let mut at = 0;
    for body in bodies {
        let Some(added) = Added::read(body) else {
            length = at;
            break;
        };
        at += 8 + body.len();
        found.push(added);
    }
    (found, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> ObjectId {
        ObjectId::try_from([n; 20].as_slice()).unwrap()
    }

    #[test]
    fn commits_come_back_with_all_parents_in_an_order_that_no_clock_changes() {
        let mut commits = Commits::default();
        let mut bytes = Vec::new();
        let add = |commits: &mut Commits, bytes: &mut Vec<u8>, id, time, parents: &[u32]| {
            let (number, record) = commits.add(id, time, parents);
            bytes.extend(record);
            number
        };
        let first = add(&mut commits, &mut bytes, id(1), 100, &[]);
        let back = add(&mut commits, &mut bytes, id(2), 50, &[first]);
        let others: Vec<u32> =
            (3..6).map(|it| add(&mut commits, &mut bytes, id(it), 90, &[first])).collect();
        let of_merge = [back, others[0], others[1], others[2]];
        let merge = add(&mut commits, &mut bytes, id(9), 60, &of_merge);
        let last = add(&mut commits, &mut bytes, id(10), 200, &[merge]);
        assert_eq!(commits.parents(merge).collect::<Vec<_>>(), of_merge);
        assert!(commits.get(back).unwrap().rank() > commits.get(first).unwrap().rank());
        assert!(commits.get(merge).unwrap().rank() > commits.get(back).unwrap().rank());

        let mut read = Commits::default();
        read.read(&bytes).unwrap();
        assert_eq!(read.len(), commits.len());
        for (number, commit) in commits.iter() {
            assert_eq!(read.get(number), Some(commit));
            assert!(read.parents(number).eq(commits.parents(number)));
        }
        assert_eq!(read.find(id(10)), Some(last));
        assert_eq!(read.find(id(77)), None);
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(Commits::default().read(&damaged), None, "{at}");
        }
        assert_eq!(Commits::default().read(&bytes[1..]), None);
    }

    #[test]
    fn a_tail_ends_with_its_last_whole_frame() {
        let added = |n: u8| Added {
            records: vec![n; RECORD],
            postings: vec![Posting {
                key: key(&[n]),
                number: n.into(),
                is_made: n.is_multiple_of(2),
            }],
            gone: vec![b"a\nb.md".to_vec(), vec![n; 3]],
        };
        let bytes = [added(1).frame(), added(2).frame()].concat();
        assert_eq!(tail(&bytes), (vec![added(1), added(2)], bytes.len()));
        let first = added(1).frame().len();
        for cut in first..bytes.len() {
            assert_eq!(tail(&bytes[..cut]), (vec![added(1)], first), "{cut}");
        }
        let mut damaged = bytes.clone();
        damaged[first + 12] ^= 1;
        assert_eq!(tail(&damaged).0.len(), 1);
    }
}

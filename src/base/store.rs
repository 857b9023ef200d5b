//! An appendable file of JSON lines in zstd frames.
//!
//! Takes lines, gives them back in the order they were written. A batch is one or more frames;
//! its last line says up to where the whole file is true (`{"at": …}`). Each frame stands behind
//! a skippable frame with its length and hash, so that `zstdcat` reads the file and opening it
//! does not. Blocking; one writer, any number of readers.
//!
//! **Invariant:** what a reader gets is a prefix of what was written, whole batches only (whole
//! frames before the first cursor): a torn tail is cut off by the next writer, and skipped by
//! readers. Between two batches the file is not open for writing, so that its disk can be made
//! read-only or taken away.

mod replay;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::fault;
use crate::base::fs::{self, PathError};
use crate::base::trouble::Trouble;

/// Why a store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("Store `{}` is missing", path.display())]
    Missing { path: PathBuf },
    #[error("Store `{}` is corrupt: {why}", path.display())]
    Corrupt { path: PathBuf, why: String },
    /// Written by another version of this program.
    #[error("Store `{}` is `{found}`, not `{wanted}`", path.display())]
    Version { path: PathBuf, found: String, wanted: String },
    #[error(transparent)]
    Io(#[from] PathError),
}

impl StoreError {
    /// Whether the content is lost, so that it has to be made again.
    pub fn needs_rebuild(&self) -> bool {
        // What is no trouble of the machine is one of the file: a folder in its place, for one.
        !matches!(self, Self::Io(err) if Trouble::of(&err.source).is_some())
    }

    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Io(err) if Trouble::of(&err.source).is_some())
    }

    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io(err) => Some(match Trouble::of(&err.source) {
                Some(trouble) => trouble.hint().to_owned(),
                None => format!("Check space and owner of `{}`.", err.path.display()),
            }),
            _ => Some("It is derived from the notes and made again.".to_owned()),
        }
    }
}

/// What a store is, in its first record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Heading {
    pub format: String,
    pub version: u32,
    /// Equal in all stores that were made together.
    pub generation: String,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// Open to read.
    file: File,
    heading: Heading,
    frames: Vec<Frame>,
    length: u64,
    at: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    offset: u64,
    length: u32,
    records: u32,
    hash: u64,
    has_cursor: bool,
}

/// Lines on their way into a store.
#[derive(Debug, Default)]
pub struct Batch {
    raw: Vec<u8>,
    records: u32,
    sealed: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Cursor {
    at: String,
}

/// The first magic number of zstd's skippable frames: decoders step over them.
const MAGIC: u32 = 0x184D_2A50;
const HEADER: usize = 24;
const CURSOR_FLAG: u32 = 1 << 31;
/// A frame is closed when its lines reach this size, so that memory stays bounded.
const FRAME_TARGET: usize = 1 << 20;
const LEVEL: i32 = 3;

impl Store {
    /// Makes an empty store, replacing what is there.
    pub fn create(path: &Path, heading: &Heading) -> Result<Self, StoreError> {
        let mut batch = Batch::default();
        batch.push(heading);
        batch.seal(false).map_err(|source| io_error("write", path, source))?;
        fs::write_atomic(path, &batch.sealed)?;
        let file = fs::open(path)?;
        let mut store = Self {
            path: path.to_owned(),
            file,
            heading: heading.clone(),
            frames: Vec::new(),
            length: 0,
            at: None,
        };
        store.walk()?;
        Ok(store)
    }

    /// Opens to append; a torn tail is cut off, where that can be done now.
    pub fn open(path: &Path, format: &str, version: u32) -> Result<Self, StoreError> {
        Self::open_read_only(path, format, version)?.cut()
    }

    fn cut(self) -> Result<Self, StoreError> {
        match self.to_append().map(drop) {
            // A disk that is read-only or full now may be otherwise when the first batch comes.
            Err(StoreError::Io(err)) if Trouble::of(&err.source).is_some() => Ok(self),
            cut => cut.map(|()| self),
        }
    }

    /// Opens to read only; a torn tail is skipped.
    pub fn open_read_only(path: &Path, format: &str, version: u32) -> Result<Self, StoreError> {
        let mut store = Self::open_file(path, format, version)?;
        store.at = store.last_cursor()?;
        if let Some(last) = store.frames.iter().rposition(|it| it.has_cursor) {
            // A batch that did not reach its cursor never was.
            store.frames.truncate(last + 1);
            store.length = store.frames[last].end();
        }
        Ok(store)
    }

    /// With all whole frames.
    fn open_file(path: &Path, format: &str, version: u32) -> Result<Self, StoreError> {
        let file = match fs::open(path) {
            Err(err) if err.is_absent() => {
                return Err(StoreError::Missing { path: path.to_owned() });
            }
            file => file?,
        };
        let heading = Heading { format: format.to_owned(), version, generation: String::new() };
        let mut store =
            Self { path: path.to_owned(), file, heading, frames: Vec::new(), length: 0, at: None };
        store.walk()?;
        store.read_heading(format, version)?;
        Ok(store)
    }

    /// Opens to append what was `length` bytes long when it was left off; what is behind that never
    /// was.
    pub fn open_cut(
        path: &Path,
        format: &str,
        version: u32,
        length: u64,
    ) -> Result<Self, StoreError> {
        let mut store = Self::open_file(path, format, version)?;
        store.frames.retain(|it| it.end() <= length);
        if store.frames.last().is_none_or(|it| it.end() != length) {
            return Err(store.corrupt("it is shorter than it was left"));
        }
        store.length = length;
        store.cut()
    }

    /// The state the content is true for; `None` while it is being built.
    pub fn at(&self) -> Option<&str> {
        self.at.as_deref()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn generation(&self) -> &str {
        &self.heading.generation
    }

    /// How many lines it holds, headings and cursors included.
    pub fn records(&self) -> u64 {
        self.frames.iter().map(|it| u64::from(it.records)).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Appends the batch and forces it to the disk. With `at` the whole content is true for that
    /// state from now on.
    pub fn append(&mut self, mut batch: Batch, at: Option<&str>) -> Result<(), StoreError> {
        if let Some(at) = at {
            batch.push(&Cursor { at: at.to_owned() });
        }
        let file = self.write(batch, at)?;
        fs::at("sync", &self.path, file.sync_data())?;
        Ok(())
    }

    /// Appends the batch without forcing it to the disk and without a cursor: for a bulk build,
    /// which ends with [`Self::append`].
    pub fn append_unsynced(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.write(batch, None).map(drop)
    }

    fn write(&mut self, mut batch: Batch, at: Option<&str>) -> Result<File, StoreError> {
        let mut file = self.to_append()?;
        let sealed = batch
            .seal(at.is_some())
            .and_then(|()| match fault::error("store.append") {
                Ok(()) => file.write_all(&batch.sealed),
                // As a disk that fills up does: a part of it.
                Err(err) => file.write_all(&batch.sealed[..batch.sealed.len() / 2]).and(Err(err)),
            })
            .map_err(|source| io_error("write", &self.path, source));
        if let Err(err) = sealed {
            // Half a batch would hide the next one from readers. If this fails too, the next
            // writing cuts it off.
            let _cut = file.set_len(self.length);
            return Err(err);
        }
        self.walk()?;
        if let Some(at) = at {
            self.at = Some(at.to_owned());
        }
        Ok(file)
    }

    /// The file, to write at its end: it must be the one that was opened, as long as it was left.
    fn to_append(&self) -> Result<File, StoreError> {
        let file = match fs::open_to_append(&self.path) {
            Err(err) if err.is_absent() => {
                return Err(StoreError::Missing { path: self.path.clone() });
            }
            file => file?,
        };
        let [ours, there] = [&self.file, &file].map(|it| fs::at("stat", &self.path, it.metadata()));
        let (ours, there) = (ours?, there?);
        if (ours.dev(), ours.ino()) != (there.dev(), there.ino()) || there.len() < self.length {
            return Err(self.corrupt("another program replaced or cut it"));
        }
        if there.len() > self.length {
            fs::at("truncate", &self.path, file.set_len(self.length))?;
        }
        Ok(file)
    }

    /// A store to take this one's place, beside it; nothing changes until
    /// [`Rewrite::finish`].
    pub fn rewrite(&self) -> Result<Rewrite, StoreError> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        let temp = PathBuf::from(name);
        fs::remove_file(&temp)?;
        Ok(Rewrite { store: Self::create(&temp, &self.heading)?, path: self.path.clone() })
    }

    /// Finds the frames from the end of the known ones to the end of the file.
    fn walk(&mut self) -> Result<(), StoreError> {
        let there = fs::at("stat", &self.path, self.file.metadata())?.len();
        let mut header = [0; HEADER];
        let before = self.frames.len();
        while self.length + HEADER as u64 <= there {
            self.read_at(&mut header, self.length)?;
            let Some(frame) = Frame::parse(&header, self.length + HEADER as u64) else { break };
            if frame.end() > there {
                break;
            }
            self.length = frame.end();
            self.frames.push(frame);
        }
        // Only the newest frames can be half on the disk behind a whole length.
        while self.frames.len() > before {
            let last = self.frames[self.frames.len() - 1];
            if self.read_frame(&last).is_ok() {
                break;
            }
            self.frames.pop();
            self.length = last.offset - HEADER as u64;
        }
        Ok(())
    }

    fn read_heading(&mut self, format: &str, version: u32) -> Result<(), StoreError> {
        let first = self.frames.first().ok_or_else(|| self.corrupt("no whole frame"))?;
        let raw = self.decode(first)?;
        let line = raw.split(|it| *it == b'\n').next().unwrap_or_default();
        let heading: Heading =
            serde_json::from_slice(line).map_err(|err| self.corrupt(format!("heading: {err}")))?;
        if heading.format != format || heading.version != version {
            return Err(StoreError::Version {
                path: self.path.clone(),
                found: format!("{} {}", heading.format, heading.version),
                wanted: format!("{format} {version}"),
            });
        }
        self.heading = heading;
        Ok(())
    }

    fn last_cursor(&self) -> Result<Option<String>, StoreError> {
        let Some(frame) = self.frames.iter().rfind(|it| it.has_cursor) else { return Ok(None) };
        let raw = self.decode(frame)?;
        let line = raw.split(|it| *it == b'\n').rfind(|it| !it.is_empty()).unwrap_or_default();
        let cursor: Cursor =
            serde_json::from_slice(line).map_err(|err| self.corrupt(format!("cursor: {err}")))?;
        Ok(Some(cursor.at))
    }

    fn decode(&self, frame: &Frame) -> Result<Vec<u8>, StoreError> {
        zstd::stream::decode_all(self.read_frame(frame)?.as_slice())
            .map_err(|err| self.corrupt(format!("frame at {}: {err}", frame.offset)))
    }

    fn read_frame(&self, frame: &Frame) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; frame.length as usize];
        self.read_at(&mut bytes, frame.offset)?;
        if hash(&bytes, frame.flagged_records()) == frame.hash {
            Ok(bytes)
        } else {
            Err(self.corrupt(format!("frame at {} is not what was written", frame.offset)))
        }
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), StoreError> {
        Ok(fs::at("read", &self.path, self.file.read_exact_at(bytes, offset))?)
    }

    fn corrupt(&self, why: impl Into<String>) -> StoreError {
        StoreError::Corrupt { path: self.path.clone(), why: why.into() }
    }
}

/// A store being written to take another's place.
#[derive(Debug)]
pub struct Rewrite {
    store: Store,
    path: PathBuf,
}

impl Rewrite {
    pub fn append(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.store.append_unsynced(batch)
    }

    /// Ends with the cursor and takes the place of the old file.
    pub fn finish(mut self, at: Option<&str>) -> Result<Store, StoreError> {
        self.store.append(Batch::default(), at)?;
        fs::rename(&self.store.path, &self.path)?;
        if let Some(parent) = self.path.parent() {
            fs::sync_dir(parent)?;
        }
        self.store.path = self.path;
        Ok(self.store)
    }
}

impl Batch {
    /// Adds one line.
    pub fn push(&mut self, record: &impl Serialize) {
        // What is written here are strings and numbers; serde_json refuses neither.
        if serde_json::to_writer(&mut self.raw, record).is_ok() {
            self.raw.push(b'\n');
            self.records += 1;
        }
    }

    /// Adds one line as it stands.
    pub fn push_line(&mut self, line: &[u8]) {
        self.raw.extend_from_slice(line);
        self.raw.push(b'\n');
        self.records += 1;
    }

    /// Compresses what has come together, once it is worth a frame.
    pub fn settle(&mut self) -> io::Result<()> {
        if self.raw.len() >= FRAME_TARGET { self.seal(false) } else { Ok(()) }
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0 && self.sealed.is_empty()
    }

    /// About how many bytes wait in memory.
    pub fn weight(&self) -> usize {
        self.raw.len() + self.sealed.len()
    }

    fn seal(&mut self, has_cursor: bool) -> io::Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        let frame = compressor.compress(&self.raw)?;
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        let records = self.records | if has_cursor { CURSOR_FLAG } else { 0 };
        self.sealed.extend_from_slice(&MAGIC.to_le_bytes());
        self.sealed.extend_from_slice(&(HEADER as u32 - 8).to_le_bytes());
        self.sealed.extend_from_slice(&length.to_le_bytes());
        self.sealed.extend_from_slice(&records.to_le_bytes());
        self.sealed.extend_from_slice(&hash(&frame, records).to_le_bytes());
        self.sealed.extend_from_slice(&frame);
        self.raw.clear();
        self.records = 0;
        Ok(())
    }
}

impl Frame {
    fn parse(header: &[u8; HEADER], offset: u64) -> Option<Self> {
        let word = |at: usize| header[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        if word(0)? != MAGIC || word(4)? != HEADER as u32 - 8 {
            return None;
        }
        let records = word(12)?;
        Some(Self {
            offset,
            length: word(8)?,
            records: records & !CURSOR_FLAG,
            hash: header[16..24].try_into().map(u64::from_le_bytes).ok()?,
            has_cursor: records & CURSOR_FLAG != 0,
        })
    }

    fn flagged_records(&self) -> u32 {
        self.records | if self.has_cursor { CURSOR_FLAG } else { 0 }
    }

    fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// FNV-1a over words of eight bytes: enough to tell a torn frame from a whole one.
fn hash(bytes: &[u8], records: u32) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ (bytes.len() as u64) ^ (u64::from(records) << 32);
    for word in bytes.chunks(8) {
        let mut padded = [0; 8];
        padded[..word.len()].copy_from_slice(word);
        hash = (hash ^ u64::from_le_bytes(padded)).wrapping_mul(PRIME).rotate_left(29);
    }
    hash
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io(PathError { action, path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heading() -> Heading {
        Heading { format: "test".into(), version: 1, generation: "g".into() }
    }

    fn batch(lines: &[&str]) -> Batch {
        let mut batch = Batch::default();
        lines.iter().for_each(|it| batch.push(it));
        batch
    }

    fn lines(store: &Store) -> Vec<String> {
        let mut lines = Vec::new();
        store
            .replay(|_, line| {
                lines.push(serde_json::from_slice(line).map_err(|it| it.to_string())?);
                Ok(())
            })
            .unwrap();
        lines
    }

    #[test]
    fn a_torn_tail_is_cut_at_every_byte_and_the_cursor_goes_back_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl.zst");
        let mut store = Store::create(&path, &heading()).unwrap();
        store.append(batch(&["a", "b"]), Some("one")).unwrap();
        let kept = store.bytes();
        store.append(batch(&["c"]), Some("two")).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in usize::try_from(kept).unwrap()..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(Store::open_read_only(&path, "test", 1).unwrap().at(), Some("one"));
            let mut store = Store::open(&path, "test", 1).unwrap();
            assert_eq!((store.at(), lines(&store).len()), (Some("one"), 2), "cut at {cut}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), kept);
            store.append(batch(&["d"]), Some("three")).unwrap();
            let store = Store::open(&path, "test", 1).unwrap();
            assert_eq!(
                (store.at(), lines(&store)),
                (Some("three"), vec!["a".into(), "b".into(), "d".into()])
            );
        }
    }

    #[test]
    fn a_length_without_its_bytes_is_a_torn_tail() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl.zst");
        let mut store = Store::create(&path, &heading()).unwrap();
        store.append(batch(&["a"]), Some("one")).unwrap();
        store.append(batch(&["b"]), Some("two")).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.len();
        bytes[end - 8..].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        let store = Store::open(&path, "test", 1).unwrap();
        assert_eq!((store.at(), lines(&store)), (Some("one"), vec!["a".to_owned()]));
    }

    #[test]
    fn a_batch_without_its_cursor_never_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl.zst");
        let mut store = Store::create(&path, &heading()).unwrap();
        store.append(batch(&["a"]), Some("one")).unwrap();
        store.append_unsynced(batch(&["half of a batch"])).unwrap();
        assert_eq!(lines(&Store::open_read_only(&path, "test", 1).unwrap()), ["a"]);
        assert_eq!(lines(&Store::open(&path, "test", 1).unwrap()), ["a"]);
    }

    #[test]
    fn missing_corrupt_and_other_versions_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl.zst");
        assert!(matches!(Store::open(&path, "test", 1), Err(StoreError::Missing { .. })));
        std::fs::write(&path, b"not a store").unwrap();
        assert!(matches!(Store::open(&path, "test", 1), Err(StoreError::Corrupt { .. })));
        let mut store = Store::create(&path, &heading()).unwrap();
        store.append(batch(&["a"]), Some("one")).unwrap();
        let middle = usize::try_from(store.bytes()).unwrap() - 4;
        store.append(batch(&["b"]), Some("two")).unwrap();
        assert!(matches!(Store::open(&path, "test", 2), Err(StoreError::Version { .. })));
        let mut bytes = fs::read(&path).unwrap();
        bytes[middle] ^= 0xff;
        std::fs::write(&path, &bytes).unwrap();
        let store = Store::open(&path, "test", 1).unwrap();
        assert!(matches!(store.verify(), Err(StoreError::Corrupt { .. })));
        assert!(store.replay(|_, _| Ok(())).is_err());
    }

    #[test]
    fn a_rewrite_takes_the_place_and_plain_zstd_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl.zst");
        let mut store = Store::create(&path, &heading()).unwrap();
        store.append(batch(&["a", "b"]), Some("one")).unwrap();
        let mut rewrite = store.rewrite().unwrap();
        rewrite.append(batch(&["b"])).unwrap();
        let mut store = rewrite.finish(Some("one")).unwrap();
        store.append(batch(&["c"]), Some("two")).unwrap();
        let store = Store::open(&path, "test", 1).unwrap();
        assert_eq!((store.at(), lines(&store)), (Some("two"), vec!["b".to_owned(), "c".into()]));
        assert_eq!(store.generation(), "g");
        let plain = zstd::stream::decode_all(fs::read(&path).unwrap().as_slice()).unwrap();
        assert_eq!(
            String::from_utf8(plain).unwrap(),
            "{\"format\":\"test\",\"version\":1,\"generation\":\"g\"}\n\"b\"\n{\"at\":\"one\"}\n\"c\"\n{\"at\":\"two\"}\n"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().len(), 1);
    }
}

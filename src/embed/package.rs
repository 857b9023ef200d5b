//! A package of files: what pip calls a wheel, and everybody a zip.
//!
//! Pure. Takes the bytes, gives the names of its files and their contents: stored or deflated, as
//! such packages are; encrypted, spanned and 64-bit ones are refused.
//!
//! **Invariant:** no bytes make it fail otherwise than by an error; what it gives has the sum and
//! the size that the package says, and no more bytes than were asked for.

use zlib_rs::{Inflate, InflateFlush, Status};

/// Why a package, or a file in it, can't be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum PackageError {
    #[error("it is no zip file, or was cut")]
    NoZip,
    #[error("it is damaged at byte {0}")]
    Damaged(usize),
    #[error("`{0}` is packed in a way that is not known here")]
    Unknown(String),
    #[error("`{0}` is not what was packed")]
    Sum(String),
    #[error("`{name}` is larger than {most} bytes")]
    TooLarge { name: String, most: u64 },
}

/// A package in memory.
pub(super) struct Package<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    flags: u16,
    method: u16,
    crc: u32,
    packed: usize,
    size: u64,
    /// Of its local header.
    at: usize,
}

/// The marks before each part, and how long these are without names.
const END: (&[u8], usize) = (b"PK\x05\x06", 22);
const CENTRAL: (&[u8], usize) = (b"PK\x01\x02", 46);
const LOCAL: (&[u8], usize) = (b"PK\x03\x04", 30);
const LONGEST_COMMENT: usize = 0xffff;
/// What needs 64 bits has this instead.
const ELSEWHERE: u32 = u32::MAX;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ENCRYPTED: u16 = 1;

impl<'a> Package<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, PackageError> {
        let least = bytes.len().saturating_sub(END.1 + LONGEST_COMMENT);
        let is_end = |at: &usize| {
            let part = &bytes[*at..];
            part.starts_with(END.0)
                && u16_at(part, 20).is_some_and(|it| usize::from(it) + END.1 == part.len())
        };
        let end = (least..bytes.len()).rev().find(is_end).ok_or(PackageError::NoZip)?;
        let field = |from| u32_at(&bytes[end..], from).ok_or(PackageError::NoZip);
        let count = u16_at(&bytes[end..], 10).ok_or(PackageError::NoZip)?;
        let mut at = field(16)? as usize;
        let mut entries = Vec::new();
        for _ in 0..count {
            let (entry, next) = entry(bytes, at).ok_or(PackageError::Damaged(at))?;
            entries.push(entry);
            at = next;
        }
        Ok(Self { bytes, entries })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|it| &*it.name)
    }

    /// The content of a file; `None` where there is none of this name.
    pub(super) fn file(&self, name: &str, most: u64) -> Option<Result<Vec<u8>, PackageError>> {
        let entry = self.entries.iter().find(|it| it.name == name)?;
        Some(self.content(entry, most))
    }

    fn content(&self, entry: &Entry, most: u64) -> Result<Vec<u8>, PackageError> {
        let name = || entry.name.clone();
        if entry.flags & ENCRYPTED != 0 || entry.size == u64::from(ELSEWHERE) {
            return Err(PackageError::Unknown(name()));
        }
        if entry.size > most {
            return Err(PackageError::TooLarge { name: name(), most });
        }
        let packed = self.packed(entry).ok_or(PackageError::Damaged(entry.at))?;
        let size = usize::try_from(entry.size).map_err(|_| PackageError::NoZip)?;
        let content = match entry.method {
            STORED => packed.to_vec(),
            DEFLATED => inflated(packed, size).ok_or_else(|| PackageError::Sum(name()))?,
            _ => return Err(PackageError::Unknown(name())),
        };
        match content.len() == size && crc32fast::hash(&content) == entry.crc {
            true => Ok(content),
            false => Err(PackageError::Sum(name())),
        }
    }

    fn packed(&self, entry: &Entry) -> Option<&'a [u8]> {
        let local = self.bytes.get(entry.at..)?;
        if !local.starts_with(LOCAL.0) {
            return None;
        }
        let names = usize::from(u16_at(local, 26)?) + usize::from(u16_at(local, 28)?);
        local.get(LOCAL.1 + names..)?.get(..entry.packed)
    }
}

/// What the list at the end says of a file, and where the next one is.
fn entry(bytes: &[u8], at: usize) -> Option<(Entry, usize)> {
    let part = bytes.get(at..)?;
    if !part.starts_with(CENTRAL.0) {
        return None;
    }
    let long = |from| u32_at(part, from);
    let short = |from| u16_at(part, from);
    let (name, extra, comment) = (short(28)?, short(30)?, short(32)?);
    let name_end = CENTRAL.1 + usize::from(name);
    let entry = Entry {
        name: String::from_utf8_lossy(part.get(CENTRAL.1..name_end)?).into_owned(),
        flags: short(8)?,
        method: short(10)?,
        crc: long(16)?,
        packed: long(20)? as usize,
        size: u64::from(long(24)?),
        at: long(42)? as usize,
    };
    Some((entry, at + name_end + usize::from(extra) + usize::from(comment)))
}

/// Exactly so many bytes.
fn inflated(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    // As much as it says, but not before it is seen that there is something: one byte packs a
    // thousand at most.
    if size / 1100 > packed.len() {
        return None;
    }
    // One more, by which too many are noticed.
    let mut content = vec![0; size + 1];
    let mut inflate = Inflate::new(false, 15);
    loop {
        let (taken, given) = (inflate.total_in() as usize, inflate.total_out() as usize);
        let (input, output) = (packed.get(taken..)?, content.get_mut(given..)?);
        match inflate.decompress(input, output, InflateFlush::NoFlush).ok()? {
            Status::StreamEnd => break,
            _ if inflate.total_in() as usize == taken && inflate.total_out() as usize == given => {
                return None;
            }
            _ => {}
        }
    }
    (inflate.total_out() as usize == size).then(|| {
        content.truncate(size);
        content
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `python3`: a.txt deflated (900 times `tide `), d/b.bin stored.
    fn package() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("p.zip");
        let script = "import sys, zipfile as z\n\
            p = z.ZipFile(sys.argv[1], 'w')\n\
            p.writestr('a.txt', 'tide ' * 900, z.ZIP_DEFLATED)\n\
            p.writestr('d/b.bin', bytes(range(256)), z.ZIP_STORED)\n\
            p.comment = b'PK\\x05\\x06 is said here, too'\n\
            p.close()\n";
        let made = std::process::Command::new("python3").args(["-c", script]).arg(&file).status();
        assert!(made.is_ok_and(|it| it.success()), "the test needs python3");
        std::fs::read(file).unwrap()
    }

    #[test]
    fn what_was_packed_comes_out() {
        let bytes = package();
        let package = Package::read(&bytes).unwrap();
        assert_eq!(package.names().collect::<Vec<_>>(), ["a.txt", "d/b.bin"]);
        assert_eq!(package.file("a.txt", 4500).unwrap().unwrap(), "tide ".repeat(900).as_bytes());
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(package.file("d/b.bin", 256).unwrap().unwrap(), bytes);
        assert!(package.file("b.bin", 256).is_none());
        let too_large = PackageError::TooLarge { name: "a.txt".to_owned(), most: 4499 };
        assert_eq!(package.file("a.txt", 4499), Some(Err(too_large)));
    }

    /// Each byte changed and each length cut: an error or the very same content.
    #[test]
    fn no_damage_is_taken_for_content() {
        let whole = package();
        let wanted = ["tide ".repeat(900).into_bytes(), (0..=255).collect()];
        let check = |bytes: &[u8]| {
            let Ok(package) = Package::read(bytes) else { return };
            for (name, wanted) in ["a.txt", "d/b.bin"].iter().zip(&wanted) {
                if let Some(Ok(content)) = package.file(name, 1 << 20) {
                    assert_eq!(content, *wanted);
                }
            }
        };
        for at in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                check(&bytes);
            }
            check(&whole[..at]);
            check(&whole[at..]);
        }
        assert!(Package::read(b"").is_err() && Package::read(b"PK").is_err());
    }
}

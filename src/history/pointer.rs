//! Files that stand for others: LFS pointers, and what git-crypt stores.
//!
//! Takes bytes, says what they are. Reads no more than the start of a file. Any thread.
//!
//! **Invariant:** only what is whole and exact is a pointer; a note that quotes one is a note.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::PathBuf;

use gix::bstr::{BStr, ByteSlice as _};

/// A pointer is shorter than this, by the LFS specification.
const LONGEST: usize = 1024;
/// How everything that git-crypt stores begins.
const ENCRYPTED: &[u8] = b"\0GITCRYPT\0";

/// Whether a driver stands between a person and an accident: storing the raw bytes instead would
/// fill the repository, or give a secret away.
pub(super) fn is_guarded(driver: &BStr) -> bool {
    driver == "lfs" || driver == "git-crypt" || driver.starts_with_str("git-crypt-")
}

/// What lets a file of this driver in.
pub(super) fn remedy(driver: &BStr) -> &'static str {
    match driver {
        it if it == "lfs" => "Install Git LFS (`git-lfs`) and run `git lfs install`.",
        it if is_guarded(it) => "Install git-crypt and run `git-crypt unlock`.",
        _ => {
            "Check `filter.NAME` in Git's settings (`git config --show-origin --get-regexp filter`)."
        }
    }
}

/// The size and the id that an LFS pointer names.
pub(super) fn lfs(bytes: &[u8]) -> Option<(u64, &str)> {
    if bytes.len() >= LONGEST {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let version = lines.next()?.strip_prefix("version ")?;
    let known = ["https://git-lfs.github.com/spec/v1", "http://git-media.io/v/2"];
    if !known.contains(&version) && version != "https://hawser.github.com/spec/v1" {
        return None;
    }
    let (mut id, mut size) = (None, None);
    for line in lines {
        let (key, value) = line.split_once(' ')?;
        match key {
            "oid" => id = value.strip_prefix("sha256:"),
            "size" => size = value.parse().ok(),
            _ if key.starts_with("ext-") => {}
            _ => return None,
        }
    }
    let id = id.filter(|it| {
        it.len() == 64 && it.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    })?;
    Some((size?, id))
}

/// Whether it is a pointer and nothing else.
pub(super) fn is_lfs(bytes: &[u8]) -> bool {
    lfs(bytes).is_some()
}

/// Whether something of this size may be a pointer.
pub(super) fn may_be_lfs(size: u64) -> bool {
    size < LONGEST as u64 && size > "version ".len() as u64
}

/// Whether the settings know how to decrypt what git-crypt wrote.
pub(super) fn is_encryption_known(repo: &gix::Repository) -> bool {
    let config = repo.config_snapshot();
    let mut filters = config.plumbing().sections_by_name("filter").into_iter().flatten();
    filters
        .any(|it| it.header().subsection_name().is_some_and(|it| it.starts_with_str("git-crypt")))
}

/// Whether git-crypt wrote it.
pub(super) fn is_encrypted(bytes: &[u8]) -> bool {
    bytes.starts_with(ENCRYPTED)
}

/// Where the content of an LFS object lies below the folder of LFS (`.git/lfs`).
pub(super) fn object_path(id: &str) -> PathBuf {
    ["objects", &id[..2], &id[2..4], id].iter().collect()
}

/// Whether a file on disk is what its driver would have stored: the checkout left it so.
pub(super) fn is_stored_form(start: &[u8], size: u64) -> bool {
    is_encrypted(start) || (size == start.len() as u64 && (start.is_empty() || is_lfs(start)))
}

/// As much of a file as a pointer can have.
pub(super) fn read_start(mut file: &File) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.rewind()?;
    file.take(LONGEST as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_pointer_is_one() {
        let id = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let pointer =
            format!("version https://git-lfs.github.com/spec/v1\noid sha256:{id}\nsize 12345\n");
        assert_eq!(lfs(pointer.as_bytes()), Some((12345, id)));
        let mut path = object_path(id);
        assert!(path.ends_with(id) && path.pop() && path.ends_with("objects/4d/7a"));
        for no in [
            format!("A pointer looks so:\n\n{pointer}"),
            format!("{pointer}\nand so on\n"),
            pointer.replace("size 12345\n", ""),
            pointer.replace(id, "4d7a"),
            pointer.replace(id, &id.to_uppercase()),
            pointer.replace("git-lfs.github.com", "example.org"),
            pointer.trim_end().to_owned(),
            String::new(),
        ] {
            assert_eq!(lfs(no.as_bytes()), None, "{no}");
        }
        assert!(is_guarded("lfs".into()) && is_guarded("git-crypt-work".into()));
        assert!(!is_guarded("lfs2".into()));
    }
}

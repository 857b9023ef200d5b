//! What the git directory remembers of a vault beside its history.
//!
//! Takes a vault and a name, keeps one word for it in our own folder of the git directory: it
//! neither travels with a clone nor lies among the notes. Any thread; the writer is whoever holds
//! the vault's lock.

use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;

use crate::base::fs;
use crate::history::find::{OpenError, find};
use crate::history::place::Place;

fn file(place: &Place, name: &str) -> PathBuf {
    place.private().join(name)
}

/// What is remembered as `name` of the vault at `root`.
pub fn remembered(root: &Path, name: &str) -> Result<Option<String>, OpenError> {
    let (_, place) = find(root)?;
    let bytes = fs::read_if_there(&file(&place, name))?.unwrap_or_default();
    Ok(records(&bytes).find(|it| it.0 == place.prefix).map(|it| it.1.to_str_lossy().into_owned()))
}

/// Remembers `value` as `name` of the vault at `root`; other vaults in the same repository keep
/// theirs.
pub fn remember(root: &Path, name: &str, value: &str) -> Result<(), OpenError> {
    let (_, place) = find(root)?;
    let path = file(&place, name);
    let before = fs::read_if_there(&path)?.unwrap_or_default();
    let others = records(&before).filter(|it| it.0 != place.prefix);
    let mut bytes = Vec::new();
    for (prefix, value) in others.chain([(place.prefix.as_slice(), value.as_bytes())]) {
        bytes.extend_from_slice(prefix);
        bytes.push(0);
        bytes.extend_from_slice(value);
        bytes.push(0);
    }
    if bytes != before {
        fs::create_dir_all(&place.private())?;
        fs::write_atomic(&path, &bytes)?;
    }
    Ok(())
}

/// Prefix and value, a NUL after each.
fn records(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut parts = bytes.split(|it| *it == 0);
    std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{History, Options};

    #[test]
    fn each_vault_of_a_repository_has_its_own_word() {
        let dir = tempfile::tempdir().unwrap();
        let (top, sub) = (dir.path().join("top"), dir.path().join("top/sub"));
        fs::create_dir_all(&sub).unwrap();
        assert!(remembered(&sub, "layout").is_err());
        History::init(&top, &Options::default()).unwrap();
        assert_eq!(remembered(&sub, "layout").unwrap(), None);
        remember(&sub, "layout", "reme").unwrap();
        remember(&top, "layout", "default").unwrap();
        remember(&sub, "layout", "reme").unwrap();
        assert_eq!(remembered(&sub, "layout").unwrap().as_deref(), Some("reme"));
        assert_eq!(remembered(&top, "layout").unwrap().as_deref(), Some("default"));
    }
}

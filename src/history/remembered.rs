//! What the git directory remembers of a vault beside its history.
//!
//! Takes a vault and a name, keeps one word for it in our own folder of the git directory: it
//! neither travels with a clone nor lies among the notes. Any thread; the writer is whoever holds
//! the vault's lock.

use std::path::Path;

use crate::base::fs;
use crate::history::find::{OpenError, find};

/// What is remembered as `name` of the vault at `root`.
pub fn remembered(root: &Path, name: &str) -> Result<Option<String>, OpenError> {
    let (_, place) = find(root)?;
    let bytes = fs::read_if_there(&place.own(name))?;
    // There may be NULs around it: once all vaults had one file.
    let word = |it: Vec<u8>| String::from_utf8_lossy(&it).trim_matches('\0').to_owned();
    Ok(bytes.map(word).filter(|it| !it.is_empty()))
}

/// Remembers `value` as `name` of the vault at `root`; other vaults in the same repository keep
/// theirs.
pub fn remember(root: &Path, name: &str, value: &str) -> Result<(), OpenError> {
    let (_, place) = find(root)?;
    let path = place.own(name);
    if fs::read_if_there(&path)?.is_none_or(|it| it != value.as_bytes()) {
        place.keep(&path, value.as_bytes())?;
    }
    Ok(())
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

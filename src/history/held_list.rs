//! Remembers what is held back, over restarts and crashes.
//!
//! Takes and gives paths; keeps them in the git directory, NUL after each, as git names them.
//! Committer thread only.
//!
//! **Invariant:** the list on disk is written before anything else of its batch is committed: a
//! restart may hold what a person has just let through, never let through what was held.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gix::bstr::ByteSlice as _;

use crate::base::fs::{self, PathError};
use crate::history::place::Place;
use crate::vault::VaultPath;

fn file(place: &Place) -> PathBuf {
    place.private().join("held")
}

/// What was held when the list was last written.
pub(super) fn load(place: &Place) -> Result<BTreeSet<VaultPath>, PathError> {
    let bytes = fs::read_if_there(&file(place))?.unwrap_or_default();
    Ok(bytes.split(|it| *it == 0).filter_map(|it| place.vault_path(it.as_bstr())).collect())
}

/// Writes the list. What another vault in the same repository holds stays in it.
pub(super) fn save(place: &Place, held: &BTreeSet<VaultPath>) -> Result<(), PathError> {
    let path = file(place);
    let before = fs::read_if_there(&path)?.unwrap_or_default();
    let others = before
        .split(|it| *it == 0)
        .filter(|it| !it.is_empty() && place.vault_path(it.as_bstr()).is_none())
        .map(<[u8]>::to_vec);
    let mut bytes = Vec::new();
    for rela in others.chain(held.iter().map(|it| place.rela(it).into())) {
        bytes.extend_from_slice(&rela);
        bytes.push(0);
    }
    if bytes.is_empty() {
        return fs::remove_file(&path);
    }
    fs::create_dir_all(&place.private())?;
    fs::write_atomic(&path, &bytes)
}

//! Remembers what is held back, over restarts and crashes.
//!
//! Takes and gives paths; keeps them in the git directory, in a file for each vault of the
//! repository, NUL after each, as git names them. Committer thread only.
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
    place.own("held")
}

/// What was held when the list was last written.
pub(super) fn load(place: &Place) -> Result<BTreeSet<VaultPath>, PathError> {
    let bytes = fs::read_if_there(&file(place))?.unwrap_or_default();
    Ok(bytes.split(|it| *it == 0).filter_map(|it| place.vault_path(it.as_bstr())).collect())
}

/// Writes the list.
pub(super) fn save(place: &Place, held: &BTreeSet<VaultPath>) -> Result<(), PathError> {
    let path = file(place);
    if held.is_empty() {
        return fs::remove_file(&path);
    }
    let mut bytes = Vec::new();
    for rela in held.iter().map(|it| place.rela(it)) {
        bytes.extend_from_slice(&rela);
        bytes.push(0);
    }
    place.keep(&path, &bytes)
}

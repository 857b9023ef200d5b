//! Stored forms turned back into what a person reads.
//!
//! Takes a blob of git-crypt or an LFS pointer, gives the note's own bytes, or why they cannot be
//! had here. Any thread that may wait a moment.
//!
//! **Invariant:** nothing is fetched: what is not on this machine is named, not waited for.

use std::sync::Arc;

use gix::bstr::ByteSlice as _;

use crate::base::fs;
use crate::base::process::Stop;
use crate::history::drivers::{Fault, Limits, smudge};
use crate::history::error::ReadError;
use crate::history::filters::Filters;
use crate::history::place::Place;
use crate::history::pointer;
use crate::vault::VaultPath;

/// The note behind `stored`.
pub(super) fn turn_back(
    repo: &gix::Repository,
    place: &Place,
    path: &VaultPath,
    stored: Vec<u8>,
) -> Result<Result<Vec<u8>, String>, ReadError> {
    let rela = place.rela(path);
    let index = gix::index::State::new(repo.object_hash());
    let rules = Filters::new(repo, &index)?.rules(rela.as_bstr())?;
    // A note that only looks like a stored form, as no filter is named for it.
    let Some(name) = rules.driver_name() else { return Ok(Ok(stored)) };
    if name == "lfs"
        && let Some((size, id)) = pointer::lfs(&stored)
    {
        let object = place.common_dir.join("lfs").join(pointer::object_path(id));
        return Ok(match fs::lstat_if_there(&object)? {
            Some(meta) if meta.len() == size => Ok(fs::read_regular(&object, size)?),
            _ => Err("its content is kept by Git LFS and is not on this machine (`git lfs pull`)"
                .to_owned()),
        });
    }
    if !pointer::is_encrypted(&stored) {
        return Ok(Ok(stored));
    }
    let Some(driver) = rules.driver() else {
        return Ok(Err("it is encrypted, and locked (`git-crypt unlock`)".to_owned()));
    };
    let (limit, bytes) = (Limits::default().child, Arc::from(stored));
    let turned = smudge(driver, rela.as_bstr(), bytes, &place.workdir, limit, &Stop::default());
    Ok(match turned {
        Ok(Some(bytes)) if !pointer::is_encrypted(&bytes) => Ok(bytes),
        Ok(_) => Err("it is encrypted, and its filter does not decrypt it".to_owned()),
        Err(Fault::File(why) | Fault::Driver(why)) => {
            Err(format!("it is encrypted, and the filter `{}` failed: {why}", driver.name))
        }
        Err(Fault::Stopped) => Err("it is encrypted, and its filter was called off".to_owned()),
    })
}

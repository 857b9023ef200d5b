//! Looks for credentials where somebody asks: on the disk, in HEAD.
//!
//! Takes a vault and paths, gives findings. Beside an agent or without one; nothing is remembered.
//! Blocking, the command's thread.
//!
//! **Invariant:** what could not be looked at is named.

use std::path::Path;

use crate::base::fs::{self, PathError};
use crate::base::trouble::told;
use crate::config::Settings;
use crate::daemon::boot::{MountWish, filter};
use crate::history::{GitError, ReadError, Reader};
use crate::secrets::{self, Finding};
use crate::vault::VaultPath;
use crate::watch;

/// What is larger is not looked at, and named.
const LARGEST: u64 = 100_000_000;

/// Why nothing can be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LeakScanError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Disk(#[from] PathError),
}

/// What a look gave.
#[derive(Debug, Default)]
pub struct Looked {
    pub found: Vec<(VaultPath, Finding)>,
    pub files: usize,
    pub unread: Vec<(VaultPath, String)>,
}

/// Looks at what git does not ignore; all of it where no path is named.
pub fn on_disk(
    vault: &Path,
    reader: &Reader,
    settings: &Settings,
    paths: &[VaultPath],
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Looked, LeakScanError> {
    let mut ignores = reader.ignores()?;
    let filter = filter(settings, &MountWish::Off, vault);
    let scan = watch::scan(vault, None, &filter, &mut |path| ignores.is_ignored(path, true))?;
    let is_asked =
        |it: &VaultPath| paths.is_empty() || paths.iter().any(|path| it.is_within(path.as_bytes()));
    let mut looked = Looked::default();
    let head = reader.head()?.map(|it| it.commit);
    let skipped = scan.skipped.into_iter().filter(|it| is_asked(&it.0));
    looked.unread.extend(skipped.map(|(path, why)| (path, why.to_string())));
    let mut files: Vec<VaultPath> = scan.found.into_iter().filter(is_asked).collect();
    files.sort();
    let all = files.len();
    for (done, path) in files.into_iter().enumerate() {
        tell(done, all);
        let is_tracked = || match head {
            Some(head) => Ok::<_, ReadError>(reader.entry(head, &path)?.is_some()),
            None => Ok(false),
        };
        if ignores.is_ignored(&path, false) && !is_tracked()? {
            continue;
        }
        let on_disk = vault.join(path.as_path());
        if fs::lstat(&on_disk).is_ok_and(|it| !it.is_file()) {
            continue;
        }
        match fs::read_regular(&on_disk, LARGEST) {
            Ok(bytes) => {
                looked.files += 1;
                let findings = secrets::scan(path.as_bytes(), &bytes);
                looked.found.extend(findings.into_iter().map(|it| (path.clone(), it)));
            }
            Err(err) if err.is_absent() => {}
            Err(err) => looked.unread.push((path, told(&err))),
        }
    }
    Ok(looked)
}

/// What one file has, on the disk and in HEAD: the same finding once.
pub fn of_file(
    vault: &Path,
    reader: &Reader,
    path: &VaultPath,
) -> Result<Vec<Finding>, LeakScanError> {
    let on_disk = vault.join(path.as_path());
    let mut found = match fs::read_regular(&on_disk, LARGEST) {
        Ok(bytes) => secrets::scan(path.as_bytes(), &bytes),
        Err(_) => Vec::new(),
    };
    if let Some(head) = reader.head()?
        && let Some(entry) = reader.entry(head.commit, path)?
    {
        let committed = secrets::scan(path.as_bytes(), &reader.read_blob(entry.blob)?);
        let new = committed.into_iter().filter(|it| !found.iter().any(|known| known.is_same(it)));
        let new: Vec<Finding> = new.collect();
        found.extend(new);
    }
    Ok(found)
}

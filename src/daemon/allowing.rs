//! What a person allowed although it looks like a credential.
//!
//! Takes the user's folders and a vault, gives what is allowed there; adds to it. The list lies
//! among the user's own files, for each vault apart: no vault can allow itself anything. Blocking,
//! any thread.
//!
//! **Invariant:** where the list cannot be read nothing is allowed, and that is said.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::base::fs::{self, PathError};
use crate::base::trouble::told;
use crate::base::{clock, random};
use crate::config::{Dirs, Settings};
use crate::history::Secrets;
use crate::secrets::{Allowance, Allowed, AllowedError, Fingerprint, KEY_BYTES, Key};

/// Why the list cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum AllowingError {
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error("`{path}` is not a list of what is allowed")]
    Form { path: String, source: AllowedError },
    #[error("`{path}` is not the key of this machine's fingerprints")]
    Key { path: String },
}

impl AllowingError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Disk(_) => None,
            Self::Form { path, .. } | Self::Key { path } => Some(format!(
                "Move `{path}` away; what was allowed is held again, and can be allowed again."
            )),
        }
    }
}

/// What is allowed in `vault` (a path without symlinks).
pub fn load(dirs: &Dirs, vault: &Path) -> Result<Allowance, AllowingError> {
    let path = dirs.allowed_secrets(vault);
    let Some(text) = fs::read_if_there(&path)? else {
        return Ok(Allowance::new(key(dirs)?.unwrap_or_default()));
    };
    let Some(key) = key(dirs)? else {
        return Err(AllowingError::Key { path: dirs.secrets_key().display().to_string() });
    };
    let text = String::from_utf8_lossy(&text);
    Allowance::read(key, &text)
        .map_err(|source| AllowingError::Form { path: path.display().to_string(), source })
}

/// The policy and what is allowed, for who works without an agent; an agent says what is wrong.
pub fn secrets(dirs: &Dirs, vault: &Path, settings: &Settings) -> Secrets {
    let allowance = load(dirs, vault).unwrap_or_else(|err| {
        tracing::warn!(err = %told(&err), "nothing is taken for allowed");
        Allowance::default()
    });
    Secrets { policy: settings.secrets, allowance }
}

/// What is allowed, with a key to add to it by.
pub fn load_to_add(dirs: &Dirs, vault: &Path) -> Result<Allowance, AllowingError> {
    make_key(dirs)?;
    load(dirs, vault)
}

/// Allows these findings, each found by its rule in its file.
pub fn allow(
    dirs: &Dirs,
    vault: &Path,
    findings: Vec<(Fingerprint, String, String)>,
) -> Result<(), AllowingError> {
    let mut allowance = load_to_add(dirs, vault)?;
    let at = clock::unix_seconds();
    for (fingerprint, rule, path) in findings {
        allowance.allow(fingerprint, Allowed { rule, path, at });
    }
    let path = dirs.allowed_secrets(vault);
    let text = allowance
        .text()
        .map_err(|source| AllowingError::Form { path: path.display().to_string(), source })?;
    Ok(fs::write_atomic(&path, text.as_bytes())?)
}

fn key(dirs: &Dirs) -> Result<Option<Key>, AllowingError> {
    let path = dirs.secrets_key();
    let Some(bytes) = fs::read_if_there(&path)? else { return Ok(None) };
    let key = <[u8; KEY_BYTES]>::try_from(bytes)
        .map_err(|_| AllowingError::Key { path: path.display().to_string() })?;
    Ok(Some(Key::new(key)))
}

/// Makes the key where there is none; of two who do so at once one is taken by both.
fn make_key(dirs: &Dirs) -> Result<(), AllowingError> {
    let path = dirs.secrets_key();
    if key(dirs)?.is_some() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_private_dir_all(folder)?;
    }
    let mut bytes = [0; KEY_BYTES];
    random::fill(&path, &mut bytes)?;
    let temp = path.with_extension(format!("new-{}", std::process::id()));
    fs::write_atomic(&temp, &bytes)?;
    fs::set_mode(&temp, 0o600)?;
    let linked = fs::hard_link(&temp, &path);
    fs::remove_file(&temp)?;
    match linked {
        Err(err) if err.kind() != std::io::ErrorKind::AlreadyExists => Err(err.into()),
        _ => Ok(()),
    }
}

/// What changes with every edit of the list.
type Stamp = Option<(u64, u64, i64, i64)>;

/// The list as it was last read, for whoever asks often.
#[derive(Debug, Default)]
pub struct Allowing {
    seen: Option<[Stamp; 2]>,
    allowance: Allowance,
    failed: Option<(String, Option<String>)>,
}

impl Allowing {
    /// Reads the list again if somebody changed it: two `stat`s where nobody did. Says whether it
    /// is another one.
    pub fn follow(&mut self, dirs: &Dirs, vault: &Path) -> bool {
        let stamp = |path: &Path| {
            let of = |it: Metadata| (it.ino(), it.size(), it.ctime(), it.ctime_nsec());
            fs::stat(path).ok().map(of)
        };
        let now = [stamp(&dirs.allowed_secrets(vault)), stamp(&dirs.secrets_key())];
        if self.seen == Some(now) && self.failed.is_none() {
            return false;
        }
        self.seen = Some(now);
        let before = std::mem::take(&mut self.allowance);
        match load(dirs, vault) {
            Ok(allowance) => (self.allowance, self.failed) = (allowance, None),
            Err(err) => {
                self.failed = Some((told(&err), err.hint()));
            }
        }
        self.allowance != before
    }

    pub fn get(&self) -> &Allowance {
        &self.allowance
    }

    /// Why the list cannot be read, and what to do about it.
    pub fn failed(&self) -> Option<&(String, Option<String>)> {
        self.failed.as_ref()
    }
}

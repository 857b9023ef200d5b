//! Where things live outside the vault.
//!
//! Takes the environment, gives folders by the XDG Base Directory specification 0.8. Makes
//! nothing by itself. Any thread.
//!
//! **Invariant:** the name of a socket follows the vault's device and inode, so that every path
//! to one vault finds the same agent; a second name follows its path, for a vault that is gone.
//! Both fit into the 107 bytes of a socket address.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::base::fs::{self, PathError};

/// The folders of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// `$XDG_CONFIG_HOME/remd`: `config.yaml`.
    pub config: PathBuf,
    /// `$XDG_STATE_HOME/remd`: run records.
    pub state: PathBuf,
    /// `$XDG_DATA_HOME/remd`: models, what was allowed.
    pub data: PathBuf,
    /// `$XDG_RUNTIME_DIR/remd`: sockets. Without that variable `/run/user/<uid>/remd`, and where
    /// that is not ours either, `run` below the state folder.
    pub runtime: PathBuf,
    /// Whether the runtime folder is the last fallback.
    pub runtime_is_fallback: bool,
}

/// The longest path that fits into a socket address on Linux, in bytes.
const SOCKET_PATH_MAX: usize = 107;

impl Dirs {
    /// Reads `XDG_*` and `HOME`; a relative value is ignored, as the specification says.
    pub fn from_env() -> Self {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
        // SAFETY: getuid takes nothing and cannot fail.
        let uid = unsafe { libc::getuid() };
        let home = absolute("HOME").unwrap_or_else(|| last_resort(uid));
        let config = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let state = absolute("XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state"));
        let state = state.join("remd");
        let data = absolute("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"));
        let owned = |dir: &Path| fs::stat(dir).is_ok_and(|it| it.is_dir() && it.uid() == uid);
        let runtime = absolute("XDG_RUNTIME_DIR")
            .into_iter()
            .chain([PathBuf::from(format!("/run/user/{uid}"))])
            .find(|it| owned(it))
            .map(|it| it.join("remd"));
        Self {
            config: config.join("remd"),
            runtime_is_fallback: runtime.is_none(),
            runtime: runtime.unwrap_or_else(|| fallback(&state, uid)),
            data: data.join("remd"),
            state,
        }
    }

    /// Where models lie that were fetched, a folder each.
    pub fn models(&self) -> PathBuf {
        self.data.join("models")
    }

    /// The user's settings file.
    pub fn user_settings(&self) -> PathBuf {
        self.config.join("config.yaml")
    }

    /// What looks like a credential in `vault` (a path without symlinks) and was allowed.
    pub fn allowed_secrets(&self, vault: &Path) -> PathBuf {
        self.data.join("secrets").join(format!("{}.json", hash_of(vault)))
    }

    /// The key of this machine's fingerprints of credentials.
    pub fn secrets_key(&self) -> PathBuf {
        self.data.join("secrets/key")
    }

    /// Where the agent that serves `vault` (a path without symlinks, which need not exist any more)
    /// writes down what its mount would leave behind.
    pub fn mount_record(&self, vault: &Path) -> PathBuf {
        self.state.join("mounts").join(hash_of(vault))
    }

    /// The socket of the agent that serves `vault` (which must exist).
    pub fn socket(&self, vault: &Path) -> Result<PathBuf, PathError> {
        let (device, inode) = fs::identity(vault)?;
        self.in_runtime(format!("{device:x}-{inode:x}.sock"))
    }

    /// The second name of that socket, by the vault's path without symlinks: the vault need not be
    /// there any more.
    pub fn socket_by_path(&self, vault: &Path) -> Result<PathBuf, PathError> {
        self.in_runtime(format!("at-{}.sock", hash_of(vault)))
    }

    /// Where the agent of `vault` may answer: the one that serves the folder that is there, then
    /// the one that served what was there, and says what became of it.
    pub fn sockets(&self, vault: &Path) -> Result<Vec<PathBuf>, PathError> {
        let mut sockets = vec![self.socket_by_path(vault)?];
        if fs::identity(vault).is_ok() {
            sockets.insert(0, self.socket(vault)?);
        }
        Ok(sockets)
    }

    fn in_runtime(&self, name: String) -> Result<PathBuf, PathError> {
        let path = self.runtime.join(&name);
        // SAFETY: getuid takes nothing and cannot fail.
        let resort = last_resort(unsafe { libc::getuid() });
        if self.runtime == resort {
            ours_alone(&resort)?;
        }
        if path.as_os_str().as_bytes().len() <= SOCKET_PATH_MAX {
            return Ok(path);
        }
        ours_alone(&resort)?;
        Ok(resort.join(name))
    }
}

fn hash_of(vault: &Path) -> String {
    // A slash at the end makes no other folder.
    let vault: PathBuf = vault.components().collect();
    let hash = Sha256::digest(vault.as_os_str().as_bytes());
    hash.iter().take(8).map(|it| format!("{it:02x}")).collect()
}

/// Anybody may make a folder of this name where everybody may write; who answers in it is trusted.
fn ours_alone(folder: &Path) -> Result<(), PathError> {
    // SAFETY: getuid takes nothing and cannot fail.
    let uid = unsafe { libc::getuid() };
    match fs::lstat_if_there(folder)? {
        Some(it) if !it.is_dir() || it.uid() != uid || it.mode() & 0o077 != 0 => {
            let refused = std::io::Error::other("it is not this user's alone");
            fs::at("trust", folder, Err(refused))
        }
        _ => Ok(()),
    }
}

/// Where the socket is without a runtime directory: below the state, where that can be written.
fn fallback(state: &Path, uid: u32) -> PathBuf {
    let run = state.join("run");
    if fs::can_be_made(&run) { run } else { last_resort(uid) }
}

fn last_resort(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/remd-{uid}"))
}

/// The default mount point: the sibling `<vault>.fs`.
pub fn default_mount(vault: &Path) -> PathBuf {
    let mut name = vault.as_os_str().to_owned();
    name.push(".fs");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of a home that is read-only, or that is not there at all, holds no socket.
    #[test]
    fn a_home_that_cannot_be_written_still_leaves_a_place_for_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join(".local/state/remd");
        assert_eq!(fallback(&state, 7), state.join("run"));
        fs::write_atomic(&dir.path().join(".local"), b"a file").unwrap();
        assert_eq!(fallback(&state, 7), Path::new("/tmp/remd-7"));
        // Nobody can write there, root neither.
        assert_eq!(fallback(Path::new("/proc/sys/kernel/x"), 7), Path::new("/tmp/remd-7"));
    }

    #[test]
    fn a_folder_that_others_can_enter_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("remd-0");
        assert!(ours_alone(&folder).is_ok(), "it will be made");
        fs::create_private_dir_all(&folder).unwrap();
        assert!(ours_alone(&folder).is_ok());
        fs::set_mode(&folder, 0o777).unwrap();
        assert!(ours_alone(&folder).is_err());
        let link = dir.path().join("link");
        fs::symlink(&dir.path().join("x"), &link).unwrap();
        assert!(ours_alone(&link).is_err());
    }

    #[test]
    fn every_path_to_a_vault_finds_the_same_socket_and_a_long_one_still_fits() {
        let dir = tempfile::tempdir().unwrap();
        let vault = dir.path().join("vault");
        fs::create_dir_all(&vault).unwrap();
        fs::symlink(&vault, &dir.path().join("again")).unwrap();
        let dirs = |runtime: PathBuf| Dirs {
            config: dir.path().into(),
            state: dir.path().into(),
            data: dir.path().into(),
            runtime,
            runtime_is_fallback: false,
        };
        let short = dirs(dir.path().into());
        assert_eq!(short.socket(&vault).unwrap(), short.socket(&dir.path().join("again")).unwrap());
        let long = dirs(dir.path().join("x".repeat(120)));
        for socket in long.sockets(&vault).unwrap() {
            assert!(socket.as_os_str().len() <= SOCKET_PATH_MAX);
        }
        let both = short.sockets(&vault).unwrap();
        std::fs::rename(&vault, dir.path().join("away")).unwrap();
        assert_eq!(short.sockets(&vault).unwrap(), both[1..], "by its path it is still found");
        assert_eq!(default_mount(Path::new("/home/a/memory")), Path::new("/home/a/memory.fs"));
    }
}

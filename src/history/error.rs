//! Why history could not do what it was asked.
//!
//! Pure. One enum per operation; the variants say what the caller can do.

use std::path::PathBuf;

use crate::base::clock;
use crate::base::fs::PathError;
use crate::base::trouble::Trouble;
use crate::history::busy::Operation;
use crate::history::lock::{HeldLock, LockError};
use crate::vault::CommitId;

/// Git's own data could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("Cannot {action}")]
pub struct GitError {
    pub action: &'static str,
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// `result` with what was tried in its error.
pub(super) fn git<T, E>(action: &'static str, result: Result<T, E>) -> Result<T, GitError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    result.map_err(|err| GitError { action, source: err.into() })
}

impl GitError {
    /// What the person at the keyboard can do about it: the machine's trouble first, if that is it.
    pub fn hint(&self) -> String {
        if let Some(trouble) = Trouble::behind(&*self.source) {
            return trouble.hint().to_owned();
        }
        match self.action {
            READ_INDEX => "Move it away: `mv .git/index .git/index.broken`. It is made again from \
                           HEAD; what was staged has to be staged again."
                .to_owned(),
            _ => "Run `git fsck` in the vault.".to_owned(),
        }
    }
}

/// What is tried when git's index is read.
pub(super) const READ_INDEX: &str = "read the index";

/// Why no snapshot was taken. Whatever was seen is still on disk: the same look may be taken again.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A person's operation is under way; what was seen is kept in `wip`.
    #[error("{operation}")]
    Busy { operation: Operation, wip: Option<CommitId> },
    /// Another program holds a lock of git's; what was seen is kept in `wip`.
    #[error("`{}` has been held for {}", lock.path.display(), clock::age_text(lock.age))]
    Locked { lock: HeldLock, wip: Option<CommitId> },
    /// A hook refuses the commit, or it cannot be signed; what was seen is kept in `wip`.
    #[error("{what}")]
    Held { what: String, remedy: String, wip: Option<CommitId> },
    /// Somebody moved HEAD or the index again and again while we looked.
    #[error("HEAD or the index moved while the snapshot was taken")]
    Moved,
    /// The vault's folder is gone or is another one.
    #[error("The vault at `{}` is gone or is another folder now", .0.display())]
    VaultLost(PathBuf),
    /// The agent stops; the look is taken up again at its next start.
    #[error("Stopped before everything was looked at")]
    Stopped,
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl SnapshotError {
    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::Locked { .. }
            | Self::Held { .. }
            | Self::Moved
            | Self::Stopped => true,
            Self::VaultLost(_) | Self::Git(_) => false,
            Self::Disk(err) => matches!(
                err.kind(),
                std::io::ErrorKind::StorageFull
                    | std::io::ErrorKind::QuotaExceeded
                    | std::io::ErrorKind::Interrupted
                    | std::io::ErrorKind::ResourceBusy
            ),
        }
    }

    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Busy { operation, .. } => operation.hint().to_owned(),
            Self::Locked { lock, .. } => match lock.holder {
                Some(pid) => format!("Process {pid} seems to hold it; wait for it to end."),
                None => format!(
                    "No process has it open. If no git command is running, remove it: `rm '{}'`.",
                    lock.path.display()
                ),
            },
            Self::Held { remedy, .. } => remedy.clone(),
            Self::Moved | Self::Stopped => return None,
            Self::VaultLost(_) => {
                "Mount or restore the folder; the agent goes on by itself.".to_owned()
            }
            Self::Disk(err) => match Trouble::of(&err.source) {
                Some(trouble) => trouble.hint().to_owned(),
                None => format!("Check `{}`.", err.path.display()),
            },
            Self::Git(err) => err.hint(),
        })
    }
}

impl From<LockError> for SnapshotError {
    fn from(err: LockError) -> Self {
        match err {
            LockError::Held(lock) => Self::Locked { lock, wip: None },
            LockError::Disk(err) => Self::Disk(err),
        }
    }
}

/// Why something could not be read from history.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("No such {what}: `{name}`")]
    NotFound { what: &'static str, name: String },
    /// A moment before the first commit that is here.
    #[error("`{moment}` is before the first commit that is here, of {begins}")]
    TooEarly { moment: String, begins: String, is_shallow: bool },
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl ReadError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { .. } => "`remd log` lists what there is.".to_owned(),
            Self::TooEarly { is_shallow: true, .. } => {
                "This is a shallow clone; `git fetch --unshallow` gets the rest of the history."
                    .to_owned()
            }
            Self::TooEarly { .. } => "The history begins there; name a later moment.".to_owned(),
            Self::Disk(err) => match Trouble::of(&err.source) {
                Some(trouble) => trouble.hint().to_owned(),
                None => format!("Check `{}`.", err.path.display()),
            },
            Self::Git(err) => err.hint(),
        }
    }

    /// Whether the thing asked for does not exist, as opposed to a broken repository.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::TooEarly { .. })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_hint_is_about_the_cause() {
        #[derive(Debug, thiserror::Error)]
        #[error("Cannot write it")]
        struct Wrapped(#[source] io::Error);
        let check = |action, source: Box<dyn std::error::Error + Send + Sync>, part: &str| {
            let hint = SnapshotError::Git(GitError { action, source }).hint().unwrap();
            assert!(hint.contains(part), "{hint}");
        };
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        check("write a blob", full().into(), "Free some space");
        check("write a blob", Box::new(Wrapped(full())), "Free some space");
        let read_only = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        check("write a blob", Box::new(Wrapped(read_only)), "read-only");
        check(READ_INDEX, "not a header".into(), "mv .git/index");
        check(READ_INDEX, Box::new(Wrapped(full())), "Free some space");
        check("read a tree", "odd".into(), "git fsck");
    }
}

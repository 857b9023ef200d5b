//! Why the index could not do what it was asked, and how it was found.
//!
//! Pure. The variants say what the caller can do: wait for the machine, wait for another process,
//! or build anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use tantivy::TantivyError;
use tantivy::directory::error::LockError;

use crate::base::store::StoreError;
use crate::base::trouble::Trouble;
use crate::index::directory::Met;
use crate::vault::CommitId;

/// How an index was found.
#[derive(Clone, Debug)]
pub enum Opened {
    /// It can go on. The differences from each of these commits to HEAD are to be applied.
    Ready { cursors: BTreeSet<CommitId> },
    /// A build did not end. It is gone on with ([`crate::index::Index::go_on`]): every note that
    /// HEAD has and the index has not, or otherwise, is to be put, the others are to be removed.
    Unfinished,
    /// It has to be built ([`crate::index::Index::begin_rebuild`]).
    Rebuild(Why),
}

/// Why an index has to be built.
#[derive(Clone, Debug)]
pub enum Why {
    Missing,
    Corrupt(String),
    /// Made by another version of this program.
    Version(String),
    /// The last build did not end.
    Unfinished,
    /// It can't be read now, for the machine's sake: it need not be built for that.
    Unreadable(Arc<std::io::Error>),
}

/// Why the index could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("Cannot write the stores beside the keyword index")]
    Stores(#[from] StoreError),
    #[error("Keyword index is written by another process")]
    Busy,
    #[error("Cannot lock the keyword index")]
    Lock(#[source] Arc<std::io::Error>),
    /// The machine's trouble, not the index's.
    #[error("Cannot write or read the keyword index")]
    Disk(#[source] Arc<std::io::Error>),
    #[error("Keyword index failed")]
    Keyword(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Its files are not what was written.
    #[error("Index is damaged: {0}")]
    Damaged(String),
    /// [`Opened::Rebuild`] was not followed by a build.
    #[error("Index has to be built first")]
    NotBuilt,
    /// What was built beside it belongs to the one before.
    #[error("The index was made anew meanwhile")]
    Overtaken,
}

impl IndexError {
    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Busy => true,
            _ => self.trouble().is_some(),
        }
    }

    /// The machine's trouble, if that is the reason: then what is open stays whole.
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Stores(StoreError::Io(err)) => Trouble::behind(&err.source),
            Self::Lock(err) | Self::Disk(err) => Trouble::behind(&**err),
            Self::Stores(_)
            | Self::Busy
            | Self::Keyword(_)
            | Self::Damaged(_)
            | Self::NotBuilt
            | Self::Overtaken => None,
        }
    }

    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        if let Some(trouble) = self.trouble() {
            return Some(trouble.hint().to_owned());
        }
        match self {
            Self::Stores(err) => err.hint(),
            Self::Overtaken => Some("Ask for it again, if it is still wanted.".to_owned()),
            Self::Busy => Some("It goes on by itself when the other one has ended.".to_owned()),
            Self::Lock(_) | Self::Disk(_) => {
                Some("Check that its folder is there and can be written, and its disk.".to_owned())
            }
            Self::Keyword(_) | Self::Damaged(_) | Self::NotBuilt => Some(
                "It is made anew from the notes by itself; if that fails again, stop the agent \
                 and delete that folder: it is only derived."
                    .to_owned(),
            ),
        }
    }
}

impl From<TantivyError> for IndexError {
    fn from(err: TantivyError) -> Self {
        use tantivy::directory::error::{OpenDirectoryError, OpenReadError, OpenWriteError};
        let io = match &err {
            TantivyError::LockFailure(LockError::LockBusy, _) => return Self::Busy,
            // The folder is gone, read-only or full: no other process has to do with it.
            TantivyError::LockFailure(LockError::IoError(err), _) => {
                return Self::Lock(Arc::clone(err));
            }
            TantivyError::IoError(io)
            | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError {
                io_error: io, ..
            })
            | TantivyError::OpenReadError(OpenReadError::IoError { io_error: io, .. })
            | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error: io, .. }) => {
                Some(io)
            }
            _ => None,
        };
        match io.filter(|it| Trouble::behind(&***it).is_some()) {
            Some(io) => Self::Disk(Arc::clone(io)),
            None => Self::Keyword(Box::new(err)),
        }
    }
}

impl Why {
    /// The same where the machine's trouble is the reason, which the library told as damage.
    pub(super) fn caused_by(self, met: &Met) -> Self {
        match (self, met.last()) {
            (Self::Corrupt(_), Some(cause)) => Self::Unreadable(cause),
            (why, _) => why,
        }
    }
}

impl IndexError {
    /// The same where the machine's trouble is the reason, of which the library says only that
    /// something failed, or that a thread ended.
    pub(super) fn caused_by(self, met: &Met) -> Self {
        match (self, met.last()) {
            (Self::Keyword(_), Some(cause)) => Self::Disk(cause),
            (err, _) => err,
        }
    }
}

impl From<Why> for IndexError {
    fn from(why: Why) -> Self {
        match why {
            Why::Unreadable(err) => Self::Disk(err),
            Why::Corrupt(what) => Self::Damaged(what),
            why => Self::Damaged(why.to_string()),
        }
    }
}

impl From<&StoreError> for Why {
    fn from(err: &StoreError) -> Self {
        match err {
            StoreError::Missing { .. } => Self::Missing,
            StoreError::Version { .. } => Self::Version(err.to_string()),
            StoreError::Corrupt { .. } | StoreError::Io(_) => Self::Corrupt(err.to_string()),
        }
    }
}

impl From<TantivyError> for Why {
    fn from(err: TantivyError) -> Self {
        match IndexError::from(err) {
            IndexError::Disk(err) | IndexError::Lock(err) if Trouble::behind(&*err).is_some() => {
                Self::Unreadable(err)
            }
            IndexError::Keyword(err) => Self::Corrupt(err.to_string()),
            err => Self::Corrupt(err.to_string()),
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("There is no index yet"),
            Self::Corrupt(why) => write!(f, "Index is damaged: {why}"),
            Self::Version(why) => write!(f, "Index is of another version: {why}"),
            Self::Unfinished => f.write_str("The last build of the index did not end"),
            Self::Unreadable(why) => write!(f, "Index cannot be read now: {why}"),
        }
    }
}

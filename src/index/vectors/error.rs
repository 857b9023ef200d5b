//! What can go wrong with vectors.
//!
//! Gives the reason and what a person can do. Any thread. **Invariant:** none of it is a failure of the
//! words.

use crate::base::fs;
use crate::base::trouble::Trouble;
use crate::embed::EmbedError;
use crate::index::error::IndexError;
use crate::index::rows::RowsError;
use crate::vault::VaultPath;

/// Why vectors are not made or kept.
#[derive(Debug, thiserror::Error)]
pub enum VectorsError {
    #[error("Cannot keep vectors")]
    Disk(#[source] fs::PathError),
    #[error("A file of vectors is not what was written: {0}")]
    Damaged(String),
    #[error("Cannot read the text of `{path}` for its vectors")]
    Unread { path: VaultPath, source: Box<IndexError> },
    #[error("No vectors from `{model}`: {source}")]
    Embed { model: String, source: EmbedError },
}

impl VectorsError {
    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Disk(_) => self.trouble().is_some(),
            Self::Damaged(_) | Self::Unread { .. } => true,
            Self::Embed { source, .. } => source.is_transient(),
        }
    }

    /// The machine's trouble, if that is the reason.
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Disk(err) => Trouble::behind(&err.source),
            Self::Unread { source, .. } => source.trouble(),
            Self::Damaged(_) | Self::Embed { .. } => None,
        }
    }

    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        if let Some(trouble) = self.trouble() {
            return Some(trouble.hint().to_owned());
        }
        match self {
            Self::Disk(err) => Some(format!("Check space and owner of `{}`.", err.path.display())),
            Self::Unread { source, .. } => source.hint(),
            Self::Damaged(_) => Some("They are made again by themselves.".to_owned()),
            Self::Embed { source, .. } => source.hint(),
        }
    }
}

impl From<RowsError> for VectorsError {
    fn from(err: RowsError) -> Self {
        match err {
            RowsError::Io(err) => Self::Disk(err),
            other => Self::Damaged(other.to_string()),
        }
    }
}

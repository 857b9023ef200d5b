//! Places in the past: `at/` and `history/`.
//!
//! Pure. Takes such a place and a name, gives what the name means there, as far as that can be said
//! without Git.
//!
//! **Invariant:** what lies below a moment is named by its commit, never by the moment's name: that
//! may mean another commit a second later.

use std::path::Path;
use std::sync::Arc;

use crate::mount::tree::{NameError, Step, decoded, is_probe};
use crate::vault::{BlobId, CommitId, VaultPath};

/// What the folder of a note's versions has behind the note's name.
pub const VERSIONS: &[u8] = b".versions";

/// A commit, and when that was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Moment {
    pub commit: CommitId,
    /// Seconds since the epoch.
    pub time: i64,
}

/// A place in the past.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Past {
    /// `at/`.
    Moments,
    /// What a name in `at/` means; no place of its own.
    Named(Arc<str>),
    /// A folder of the vault at a moment; the vault itself where there is no path.
    Folder(Moment, Option<VaultPath>),
    File(Moment, PastFile),
    Link(Moment, VaultPath, Arc<Path>),
    /// `history/`, and a folder below it.
    HistoryFolder(Option<VaultPath>),
    /// `history/<path>.versions/`, as that commit knows them.
    Versions(CommitId, VaultPath),
}

/// A file as it was.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PastFile {
    pub path: VaultPath,
    pub blob: BlobId,
    pub is_program: bool,
}

impl Past {
    pub fn is_folder(&self) -> bool {
        match self {
            Self::Moments | Self::Folder(..) | Self::HistoryFolder(_) | Self::Versions(..) => true,
            Self::Named(_) | Self::File(..) | Self::Link(..) => false,
        }
    }

    /// The moment that it is of.
    pub fn moment(&self) -> Option<Moment> {
        match self {
            Self::Folder(moment, _) | Self::File(moment, _) | Self::Link(moment, ..) => {
                Some(*moment)
            }
            _ => None,
        }
    }

    /// What `name` means here.
    pub fn child(&self, name: &[u8]) -> Result<Step, NameError> {
        match self {
            Self::Moments => {
                // Git looks for `HEAD` in every folder, and here a person does.
                if name != b"HEAD" && is_probe(name) {
                    return Err(NameError::Absent);
                }
                // No revision and no date is anything else.
                let name = std::str::from_utf8(name).map_err(|_| NameError::Absent)?;
                Ok(Step::Moment(decoded(name).into()))
            }
            Self::Folder(..) | Self::HistoryFolder(_) | Self::Versions(..) => Ok(Step::InListing),
            Self::Named(_) | Self::File(..) | Self::Link(..) => Err(NameError::NotFolder),
        }
    }
}

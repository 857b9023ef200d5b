//! What the mount asks of the past.
//!
//! The daemon implements [`Past`]; tests fake it. Called from the crews, [`Past::head`] from fuser's
//! threads too.
//!
//! **Invariant:** all but [`Past::moment`] and [`Past::head`] are functions of what they are given:
//! a commit never changes.

use std::time::Instant;

use crate::mount::answers::Unanswered;
use crate::vault::{BlobId, CommitId, Listing, VaultPath};

/// The history behind `at/`, `history/` and `note/<path>/`.
pub trait Past: Send + Sync + 'static {
    /// Where HEAD is now, from memory; `None` before the first commit.
    fn head(&self) -> Option<CommitId>;

    /// The commit that a name means now, and when it was made; `None` for a name that means none.
    fn moment(&self, name: &str) -> Result<Option<(CommitId, i64)>, Unanswered>;

    /// The names in a folder of a commit, or in the vault itself; `None` where there is no such
    /// folder.
    fn folder(
        &self,
        commit: CommitId,
        folder: Option<&VaultPath>,
    ) -> Result<Option<Listing>, Unanswered>;

    /// How long a file of the past is, without reading more of it than that takes.
    fn size(&self, path: &VaultPath, blob: BlobId) -> Result<Stored, Unanswered>;

    /// What a file of the past holds.
    fn bytes(&self, path: &VaultPath, blob: BlobId) -> Result<Vec<u8>, Unanswered>;

    /// All versions of a note up to a commit, the newest first; none for what was never there.
    fn versions(
        &self,
        commit: CommitId,
        path: &VaultPath,
        until: Instant,
    ) -> Result<Vec<Version>, Unanswered>;

    /// Whether anything ever lay in a folder, up to a commit.
    fn was_folder(&self, commit: CommitId, folder: &VaultPath) -> Result<bool, Unanswered>;
}

/// What is known of a file of the past.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stored {
    Size(u64),
    Bytes(Vec<u8>),
}

/// A note as a commit left it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    pub commit: CommitId,
    /// Seconds since the epoch.
    pub time: i64,
    /// `YYYY-MM-DD`, on the author's clock.
    pub day: String,
    /// Where it was then.
    pub path: VaultPath,
    pub blob: BlobId,
}

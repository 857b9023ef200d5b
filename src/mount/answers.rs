//! What the mount asks for.
//!
//! The daemon implements [`Answers`]; tests fake it. Called from fuser's threads and the crews.
//!
//! **Invariant:** [`Answers::view`], [`Answers::entry`] and [`Answers::entries`] answer from
//! memory, at once: `ls` waits for them.

use std::path::Path;
use std::time::Instant;

use crate::render::links::{Direction, Links};
use crate::render::nodes::Nodes;
use crate::render::status::Status;
use crate::search::{Query, Results};
use crate::vault::VaultPath;

mod past;
mod views;

pub use past::{Past, Stored, Version};
pub use views::{Named, Tagged, Views, Written};

/// Everything that stands behind the files of the mount.
pub trait Answers: Past + Views {
    /// A number that changes whenever any page may have changed (`status` aside). It changes
    /// *after* the new answer can be had: a page made too early would be kept too long.
    fn view(&self) -> u64;

    /// Whether a question may have to be sent to somebody outside, who may want money for it.
    fn asks_outside(&self) -> bool;

    /// Ranked hits, by `until` at the latest; what is not done by then is partial and says so.
    fn search(&self, query: &Query, means: Means, until: Instant) -> Result<Results, Unanswered>;

    /// Ranked notes of the digest, by `until` at the latest.
    fn nodes(&self, query: &Query, means: Means, until: Instant) -> Result<Nodes, Unanswered>;

    /// The notes nearest to one, by `until` at the latest; `None` for a note that the index does not
    /// know.
    fn similar(
        &self,
        path: &VaultPath,
        limit: usize,
        until: Instant,
    ) -> Result<Option<Results>, Unanswered>;

    /// What the index knows under this path.
    fn entry(&self, path: &VaultPath) -> Option<EntryKind>;

    /// The names in a folder that holds notes, at any depth, in any order.
    fn entries(&self, folder: &VaultPath) -> Vec<(Vec<u8>, EntryKind)>;

    /// All links of a note in one direction; `None` for a note that the index does not know.
    fn links(&self, path: &VaultPath, direction: Direction) -> Option<Links>;

    /// How the agent is.
    fn status(&self) -> Status;

    /// Where the notes lie.
    fn vault_root(&self) -> &Path;
}

/// By what means a page is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Means {
    /// What is at hand: the index, a model in this process, vectors of questions asked before.
    AtHand,
    /// And whoever has to be asked outside.
    Outside,
}

/// What stands under a path of the vault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    Note,
    Folder,
}

/// Why there is no answer. The text is for people.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unanswered {
    /// The question itself can't be answered (a pattern that is none).
    #[error("Cannot ask that: {0}")]
    Refused(String),
    /// The same question may be answered later.
    #[error("No answer yet: {0}")]
    NotYet(String),
    /// Something is broken here.
    #[error("No answer: {0}")]
    Failed(String),
    /// More than is held in memory for one file.
    #[error("Too large: {0}")]
    TooLarge(String),
}

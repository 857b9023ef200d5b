//! What the mount asks for its views.
//!
//! The daemon implements [`Views`]; tests fake it. Called from the crews.
//!
//! **Invariant:** answers are functions of the view that [`crate::mount::Answers::view`] numbers, but
//! for those that say that they are a part.

use std::time::Instant;

use crate::mount::answers::Unanswered;
use crate::mount::tree::{Told, ViewPage};
use crate::vault::VaultPath;

/// What stands behind `recent/`, `tag/`, `today.md` and the like.
pub trait Views: Send + Sync + 'static {
    /// A page about all notes.
    fn view_page(&self, page: ViewPage, until: Instant) -> Result<Written, Unanswered>;

    /// What history tells of a note; `None` for a note that the index does not know.
    fn told(
        &self,
        path: &VaultPath,
        told: Told,
        until: Instant,
    ) -> Result<Option<Written>, Unanswered>;

    /// The notes that were changed last, the newest first, and whether there was no time for all.
    fn recent(&self, until: Instant) -> Result<(Vec<Named>, bool), Unanswered>;

    /// What a tag has below it, or all tags; `None` for a tag that no note has.
    fn tagged(&self, tag: Option<&str>) -> Result<Option<Tagged>, Unanswered>;
}

/// A page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    pub bytes: Vec<u8>,
    /// Whether there was no time for all.
    pub is_part: bool,
}

/// A note, and what it is called.
pub type Named = (VaultPath, String);

/// What lies below a tag.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tagged {
    /// The next parts of the tags below it, sorted.
    pub parts: Vec<String>,
    /// The notes that have it, or a tag below it, the newest first.
    pub notes: Vec<Named>,
}

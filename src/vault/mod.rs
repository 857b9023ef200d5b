//! What a vault *is*: the vocabulary of the house.
//!
//! Pure. Paths, ids, roles, notes, links, chunks, changes. Values in, values out; no disk, no
//! clock, no Git. Everything that a note's bytes mean is decided here, once, for the index, the
//! mount and whoever rewrites links.

pub mod change;
pub mod chunk;
pub mod conflict;
pub mod decode;
pub mod fold;
pub mod forget;
pub mod frontmatter;
pub mod ids;
pub mod lines;
pub mod link;
pub mod listing;
pub mod note;
pub mod outline;
pub mod overlap;
pub mod path;
mod relation;
pub mod remedy;
pub mod resolve;
pub mod retarget;
pub mod role;
pub mod tag;
pub mod wording;

pub use change::{Change, ChangeSet, Entry, FileMode};
pub use chunk::Chunk;
pub use ids::{BlobId, ChunkId, CommitId};
pub use link::{Link, LinkKind};
pub use listing::{Listed, Listing};
pub use note::{NoteDoc, read_note};
pub use path::VaultPath;
pub use resolve::{Names, Resolution};
pub use role::{Layout, Role};

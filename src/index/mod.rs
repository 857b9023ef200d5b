//! What the vault says, ready to be asked.
//!
//! Takes the notes of a commit (path, blob, what they say), gives [`IndexView`]s: the keyword
//! index (tantivy), the vectors, the graph of links and the catalog of notes, all at one commit.
//! [`Index`] lives on the indexer's thread; views and [`IndexReader`] on any.
//!
//! **Invariant:** everything here is derived: deleting it costs time. Whatever the order of edits,
//! crashes and flushes, the state equals one built anew from the same notes.

mod analyze;
mod ask;
pub mod bare;
mod beside;
mod card;
mod directory;
mod draft;
mod error;
mod guard;
mod indexer;
mod keyword;
mod living;
mod meaning;
mod merge;
mod neighbours;
mod open;
mod overlay;
mod payload;
mod proof;
mod reader;
mod rebuild;
mod room;
mod rows;
mod schema;
mod sections;
mod shelf;
mod spaces;
mod state;
mod stores;
mod sums;
mod tally;
mod task;
mod tend;
mod vectors;
mod view;
mod words;

pub use ask::Ask;
pub use beside::{Beside, Scope};
pub use card::{Card, Edge};
pub use draft::Drafts;
pub use error::{IndexError, Opened, Why};
pub use guard::Damage;
pub use indexer::{Index, Update};
pub use keyword::{Candidate, Found, Share, Weights};
pub use meaning::{Near, Nearest};
pub use neighbours::GraphState;
pub use reader::IndexReader;
pub use rebuild::Rebuild;
pub use room::Room;
pub use shelf::Passage;
pub use spaces::{Models, NextSpace};
pub use state::Tie;
pub use state::leads::{Goal, Lead};
pub use task::{Made, Task};
pub use vectors::VectorsError;
pub use view::{Building, Counts, IndexView, VectorCounts};

#[cfg(test)]
mod full;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

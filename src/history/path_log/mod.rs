//! Which commits changed a path: a table beside the notes.
//!
//! A list of commits, parents before children, each with a number; and for every file and folder
//! that one of them changed the numbers of those commits. Kept by one writer ([`Keeper`]), read by
//! anyone ([`Table`]), also in another process.
//!
//! On the disk, in `path_log/`: `manifest` says what is valid; `commits` has a record a commit;
//! `segment-N` the numbers by path, sorted; `gone` the names of what was deleted; `tail-N` what came
//! since the last segment was made, a frame a commit. All are checked by sums when they are read.
//!
//! **Invariant:** with a commit the table has all of its ancestors, so it needs no cursor: what it
//! does not have is between HEAD and what it has. It only says where to look: what it names is
//! looked at in the trees, and a commit that HEAD does not reach is not shown.
//! **Invariant:** a table that is damaged, cut, of another repository or another version is none.

mod format;
mod keeper;
mod segment;
mod table;

pub(super) use format::{Commit, key};
pub use keeper::{KeepError, Keeper};
pub(super) use segment::SegmentError;
pub(super) use table::Table;

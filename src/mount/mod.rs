//! Answers as read-only files.
//!
//! Takes an [`Answers`] (the daemon; a fake in tests) and a mount point, gives a mounted folder
//! whose file names are questions. Three layers: `adapter` knows fuser, `fs` knows handles and
//! pages, `tree` knows names.
//!
//! Threads: fuser's own, which never wait for an answer, and the two crews of `crew`, which do.
//!
//! **Invariant:** a lookup hands out an inode and runs nothing; stat or open makes the page, and
//! a page once made never changes.
//! **Invariant:** nothing in this program opens the mount it serves.

mod adapter;
mod answers;
mod crew;
mod edition;
mod errno;
mod fs;
mod inode;
mod make;
mod mountpoint;
mod page;
mod past;
mod recent;
mod record;
mod session;
mod tally;
mod tree;
mod views;

pub use answers::{
    Answers, EntryKind, Means, Named, Past, Stored, Tagged, Unanswered, Version, Views, Written,
};
pub use mountpoint::{clear_left, default_mountpoint, is_at, still_mounted};
pub use session::{MountError, Mounted, Wish, check_device, mount};
pub use tally::{Counted, Tally};
pub use tree::{Told, ViewPage};

#[cfg(test)]
mod tests;

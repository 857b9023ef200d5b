//! Tells the committer where to look.
//!
//! What comes in are the kernel's events and walks of the tree; what goes out are [`Hints`]: paths
//! to look at again, folders to scan again. [`Watcher`] follows the tree with one watch a folder,
//! [`scan()`] reads it as it is, [`Settle`] says when a burst is over, [`Filter`] says what is never
//! a note's event.
//!
//! **Invariant:** hints only. Nothing downstream may assume that one is true, complete or in
//! order; what counts is the second look. The other way round it holds: every change that was on
//! disk before [`Watcher::flush`] was called is covered by the hints handed over until it returns.

pub mod filter;
pub mod hints;
pub mod scan;
pub mod settle;

mod admit;
mod ground;
mod limits;
mod poll;
mod tap;
mod tree;
mod watcher;
mod worker;

#[cfg(test)]
mod tests;

pub use filter::Filter;
pub use ground::{Remote, remote_of};
pub use hints::Hints;
pub use limits::{WatchLimit, watch_limit};
pub use scan::{Scan, Skip, scan};
pub use settle::Settle;
pub use watcher::{IgnoredDir, Sink, WatchMode, WatchStats, Watcher};

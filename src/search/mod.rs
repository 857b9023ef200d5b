//! From a question to ranked hits with a trace.
//!
//! Takes an [`IndexView`](crate::index::IndexView) and a [`Query`], gives [`Results`]. Any thread.
//!
//! **Invariant:** every text is plain text: no query panics, hangs or is taken for syntax, and an
//! answer that is only a part of the truth says so.

pub mod fuse;
pub mod judge;
pub mod query;
pub mod results;

mod filter;
mod literal;
mod near;
mod rank;
mod ranked;
mod timely;
mod times;

pub use filter::{QueryError, check, is_day};
pub use near::as_asked;
pub use query::{Query, Rules};
pub use rank::{in_part, nodes, search};
pub use results::{BranchState, Hit, Neighbour, Node, Results};

#[cfg(test)]
mod tests;

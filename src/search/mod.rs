//! From a question to ranked hits with a trace.
//!
//! Takes an [`IndexView`](crate::index::IndexView) and a [`Query`], gives [`Results`]. Any thread.
//!
//! **Invariant:** every text is plain text: no query panics, hangs or is taken for syntax, and an
//! answer that is only a part of the truth says so.

pub mod care;
pub mod contexts;
pub mod fuse;
pub mod graph;
pub mod judge;
pub mod lint;
pub mod query;
pub mod results;
pub mod tags;

mod filter;
mod heirs;
mod literal;
mod look;
mod near;
mod past;
mod rank;
mod ranked;
mod similar;
mod timely;
mod times;

pub use filter::{QueryError, check, is_day};
pub use look::Look;
pub use near::{Leave, as_asked};
pub use past::{OF_THE_PAST, Scan};
pub use query::{Query, Rules};
pub use rank::{in_part, is_to_the_letter, nodes, search, search_but};
pub use results::{
    BranchState, ENOUGH, FoundNodes, Heir, Hit, Neighbour, Node, Rerank, Results, UNASKED,
};
pub use similar::{SIMILAR, similar};

#[cfg(test)]
mod tests;

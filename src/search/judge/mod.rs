//! How good a search is, by questions whose answers are known.
//!
//! Pure. Takes a set of questions ([`questions`]) and what a search answered, gives measures
//! ([`measures`]), and the weight of vectors that does best ([`weights`]).
//!
//! **Invariant:** the figures are those that a program of the field would give for the same answers:
//! means over all questions, of which one that was not answered counts as nothing found.

pub mod measures;
pub mod questions;
pub mod weights;

pub use measures::Measures;
pub use questions::{BadLine, Question, Questions, Wrong};
pub use weights::{Crossed, Tuned, WEIGHTS, tune};

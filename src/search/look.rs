//! What can be asked of the notes beside a search.
//!
//! Pure data. **Invariant:** every door asks the same of the same.

use serde::{Deserialize, Serialize};

use crate::search::graph::Walk;
use crate::search::query::Query;
use crate::search::tags::TagsAsked;

/// A look at the notes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// Digest nodes that answer a question.
    Nodes(Query),
    /// Notes near one.
    Similar { path: String, limit: usize },
    /// From notes along their links.
    Traverse(Walk),
    /// The long-term knowledge as a graph.
    Graph,
    /// The tags.
    Tags(TagsAsked),
}

//! What hits link to and are linked from, by path.
//!
//! Pure. The documented map beside the hits: each note once, however many of its passages are
//! shown.
//!
//! **Invariant:** it holds the neighbours that stand under the hits, in their order.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::render::JsonPath;
use crate::search::{Hit, Neighbour};

/// `link_expansion`, as JSON holds it.
pub(super) type JsonExpansion<'a> = BTreeMap<std::borrow::Cow<'a, str>, JsonLinks<'a>>;

/// The notes around one.
#[derive(Serialize)]
pub(super) struct JsonLinks<'a> {
    outlinks: Vec<JsonLink<'a>>,
    inlinks: Vec<JsonLink<'a>>,
}

/// A note at the other end of a link.
#[derive(Serialize)]
struct JsonLink<'a> {
    #[serde(flatten)]
    path: JsonPath<'a>,
    meta: JsonMeta<'a>,
    anchors: &'a [String],
}

/// What the note says of itself; empty where it says nothing.
#[derive(Serialize)]
struct JsonMeta<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

/// The neighbours of all hits.
pub(super) fn expansion(hits: &[Hit]) -> JsonExpansion<'_> {
    let mut notes = JsonExpansion::new();
    for hit in hits {
        notes.entry(hit.path.lossy()).or_insert_with(|| JsonLinks {
            outlinks: hit.outlinks.iter().map(JsonLink::from).collect(),
            inlinks: hit.inlinks.iter().map(JsonLink::from).collect(),
        });
    }
    notes
}

impl<'a> From<&'a Neighbour> for JsonLink<'a> {
    fn from(neighbour: &'a Neighbour) -> Self {
        let (name, description) = (neighbour.name.as_str(), neighbour.description.as_deref());
        let meta = JsonMeta { name, description };
        Self { path: (&neighbour.path).into(), meta, anchors: &neighbour.anchors }
    }
}

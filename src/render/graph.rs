//! A graph of notes as text and JSON.
//!
//! Pure. **Invariant:** a name from the vault stands on one line.

use serde::Serialize;

use crate::render::{AsOf, SCHEMA_VERSION, counted, json_page, quoted};
use crate::search::graph::{Graph, Walk};
use crate::vault::path::escape;

/// A line for each note, then one for each link.
pub fn text(graph: &Graph, as_of: AsOf) -> Vec<u8> {
    let mut out = String::new();
    let line = |it: &str| escape(it.as_bytes()).into_owned();
    for node in &graph.nodes {
        let what = match (node.is_virtual, node.is_indexed) {
            (true, _) => "  (folder)".to_owned(),
            (_, false) => "  (not there)".to_owned(),
            _ => {
                node.name.as_deref().map_or_else(String::new, |it| format!("  name={}", quoted(it)))
            }
        };
        out.push_str(&format!("{} {}{what}", node.depth, line(&node.path)));
        if let Some(description) = &node.description {
            out.push_str(&format!("  description={}", quoted(description)));
        }
        out.push('\n');
    }
    for edge in &graph.edges {
        let anchor = edge.anchor.as_deref().map_or_else(String::new, |it| format!("#{}", line(it)));
        out.push_str(&format!("  {} → {}{anchor}\n", line(&edge.source), line(&edge.target)));
    }
    let cut = if graph.cut { ", partial: there are more notes" } else { "" };
    out.push_str(&format!(
        "-- {}, {}{}{cut}\n",
        counted(graph.nodes.len(), "note", "notes"),
        counted(graph.edges.len(), "link", "links"),
        as_of.text()
    ));
    out.into_bytes()
}

/// What a walk found, as JSON.
pub fn walk_json(walk: &Walk, graph: &Graph, as_of: AsOf) -> Vec<u8> {
    let (seeds, depth, direction) = (&graph.seeds, walk.depth, walk.direction.name());
    let nodes = graph.nodes.iter().map(|it| JsonNode {
        id: &it.id,
        path: &it.path,
        name: it.name.as_deref(),
        description: it.description.as_deref(),
        depth: Some(it.depth),
        indexed: it.is_indexed,
        r#virtual: None,
    });
    let edges = graph.edges.iter().map(|it| JsonEdge {
        source: &it.source,
        target: &it.target,
        target_anchor: it.anchor.as_deref(),
        depth: Some(it.depth),
    });
    json_page(&JsonGraph {
        schema_version: SCHEMA_VERSION,
        version: 1,
        seeds: Some(seeds),
        depth: Some(depth),
        direction: Some(direction),
        nodes: nodes.collect(),
        edges: edges.collect(),
        cut: graph.cut,
        as_of,
    })
}

/// A whole graph, as JSON.
pub fn snapshot_json(graph: &Graph, as_of: AsOf) -> Vec<u8> {
    let nodes = graph.nodes.iter().map(|it| JsonNode {
        id: &it.id,
        path: &it.path,
        name: it.name.as_deref(),
        description: it.description.as_deref(),
        depth: None,
        indexed: it.is_indexed,
        r#virtual: Some(it.is_virtual),
    });
    let edges = graph.edges.iter().map(|it| JsonEdge {
        source: &it.source,
        target: &it.target,
        target_anchor: it.anchor.as_deref(),
        depth: None,
    });
    json_page(&JsonGraph {
        schema_version: SCHEMA_VERSION,
        version: 1,
        seeds: None,
        depth: None,
        direction: None,
        nodes: nodes.collect(),
        edges: edges.collect(),
        cut: graph.cut,
        as_of,
    })
}

#[derive(Serialize)]
struct JsonGraph<'a> {
    schema_version: u32,
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    seeds: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    nodes: Vec<JsonNode<'a>>,
    edges: Vec<JsonEdge<'a>>,
    /// Whether there are more notes than one answer gives.
    cut: bool,
    #[serde(flatten)]
    as_of: AsOf,
}

#[derive(Serialize)]
struct JsonNode<'a> {
    id: &'a str,
    path: &'a str,
    name: Option<&'a str>,
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<usize>,
    indexed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#virtual: Option<bool>,
}

#[derive(Serialize)]
struct JsonEdge<'a> {
    source: &'a str,
    target: &'a str,
    target_anchor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<usize>,
}

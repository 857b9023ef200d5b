//! Digest nodes that answer a question: path, name, description.
//!
//! Pure. **Invariant:** a name from the vault stands on one line.

use std::path::Path;

use serde::Serialize;

use crate::render::results::{JsonBranches, JsonQuery, branches};
use crate::render::{
    AsOf, JsonPath, SCHEMA_VERSION, counted, file_url, json_page, markdown_escaped, quoted,
};
use crate::search::{BranchState, Query};
use crate::vault::VaultPath;
use crate::vault::path::escape;

/// Nodes, best first, and what they are true for.
#[derive(Clone, PartialEq, Debug)]
pub struct Nodes {
    pub hits: Vec<Node>,
    /// How many notes were looked at.
    pub candidates: usize,
    pub keyword: BranchState,
    pub vector: BranchState,
    pub as_of: AsOf,
    /// Why the answer is only a part of the truth.
    pub partial: Option<String>,
}

impl Nodes {
    /// Whether the same question may have a better answer though no note was changed.
    pub fn is_passing(&self) -> bool {
        self.partial.is_some() || self.vector.is_passing()
    }
}

/// One note of the digest.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    pub path: VaultPath,
    pub name: String,
    pub description: Option<String>,
    pub score: f32,
}

/// The documented text form.
pub fn text(query: &Query, nodes: &Nodes) -> Vec<u8> {
    let mut out = format!(
        "=== node_search query={} hits={}/{} ===\n",
        quoted(&query.text),
        nodes.hits.len(),
        nodes.candidates
    );
    for hit in &nodes.hits {
        out.push_str(&format!("[{:.4}] {}\n", hit.score, hit.path));
        out.push_str(&format!("  name: {}\n", escape(hit.name.as_bytes())));
        if let Some(description) = &hit.description {
            out.push_str(&format!("  description: {}\n", escape(description.as_bytes())));
        }
    }
    if nodes.hits.is_empty() {
        out.push_str("(no digest hits)\n");
    }
    out.push_str(&last_line(nodes));
    out.into_bytes()
}

/// The same as JSON.
pub fn json(query: &Query, nodes: &Nodes) -> Vec<u8> {
    json_page(&JsonNodes {
        schema_version: SCHEMA_VERSION,
        query: query.into(),
        as_of: nodes.as_of,
        branches: JsonBranches::of(&nodes.keyword, &nodes.vector),
        partial: nodes.partial.as_deref(),
        candidates: nodes.candidates,
        counts: JsonCounts {
            vector_raw: nodes.vector.found(),
            keyword_raw: nodes.keyword.found(),
            returned: nodes.hits.len(),
        },
        hits: nodes
            .hits
            .iter()
            .map(|it| JsonNode { score: rounded(it.score), ..JsonNode::from(it) })
            .collect(),
        results: nodes.hits.iter().map(JsonNode::from).collect(),
    })
}

/// The same as Markdown, with links that open the notes below `root`.
pub fn markdown(query: &Query, nodes: &Nodes, root: &Path) -> Vec<u8> {
    let mut out = format!("# {}\n\n", markdown_escaped(&query.text));
    for hit in &nodes.hits {
        out.push_str(&format!(
            "- [{}]({}){}\n",
            markdown_escaped(&hit.name),
            file_url(root, &hit.path),
            hit.description
                .as_ref()
                .map_or_else(String::new, |it| format!(": {}", markdown_escaped(it)))
        ));
    }
    out.push_str(&format!("\n{}", last_line(nodes)));
    out.into_bytes()
}

fn last_line(nodes: &Nodes) -> String {
    let partial = nodes
        .partial
        .as_ref()
        .map_or_else(String::new, |why| format!(", partial: {}", escape(why.as_bytes())));
    let count = counted(nodes.hits.len(), "node", "nodes");
    let branches = branches(&nodes.keyword, &nodes.vector);
    format!("-- {count}{}, {branches}{partial}\n", nodes.as_of.text())
}

#[derive(Serialize)]
struct JsonNodes<'a> {
    schema_version: u32,
    query: JsonQuery<'a>,
    #[serde(flatten)]
    as_of: AsOf,
    branches: JsonBranches,
    partial: Option<&'a str>,
    candidates: usize,
    counts: JsonCounts,
    /// The documented list; `results` says the same with whole scores.
    hits: Vec<JsonNode<'a>>,
    results: Vec<JsonNode<'a>>,
}

#[derive(Serialize)]
struct JsonCounts {
    vector_raw: usize,
    keyword_raw: usize,
    returned: usize,
}

#[derive(Serialize)]
struct JsonNode<'a> {
    #[serde(flatten)]
    path: JsonPath<'a>,
    name: &'a str,
    description: Option<&'a str>,
    score: f32,
}

impl<'a> From<&'a Node> for JsonNode<'a> {
    fn from(node: &'a Node) -> Self {
        Self {
            path: (&node.path).into(),
            name: &node.name,
            description: node.description.as_deref(),
            score: node.score,
        }
    }
}

/// To four decimals, as the text shows it.
fn rounded(score: f32) -> f32 {
    (score * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::CommitId;

    #[test]
    fn nodes_stand_by_name_and_a_newline_forges_none() {
        let as_of = AsOf {
            at: CommitId::from_hex("4f2c9e1d00000000000000000000000000000abc"),
            ..AsOf::default()
        };
        let nodes = Nodes {
            hits: vec![Node {
                path: VaultPath::new("digest/wiki/a\nb.md").unwrap(),
                name: "A\n[0.9999] forged.md".to_owned(),
                description: Some("why".to_owned()),
                score: 0.00492,
            }],
            candidates: 7,
            keyword: BranchState::Used(7),
            vector: BranchState::Used(3),
            as_of,
            partial: None,
        };
        let page = text(&Query::new("it's \"x\""), &nodes);
        assert_eq!(
            String::from_utf8(page).unwrap(),
            "=== node_search query=\"it's \\\"x\\\"\" hits=1/7 ===\n\
             [0.0049] digest/wiki/a\\nb.md\n  name: A\\n[0.9999] forged.md\n  description: why\n\
             -- 1 node as of 4f2c9e1, current, keyword + vector\n"
        );
        let vector = BranchState::Off("no model");
        let none = Nodes { hits: Vec::new(), candidates: 0, vector, ..nodes.clone() };
        let page = String::from_utf8(text(&Query::new("q"), &none)).unwrap();
        assert!(
            page.contains("(no digest hits)\n-- 0 nodes as of 4f2c9e1, current, keyword ("),
            "{page}"
        );
        assert!(page.ends_with("(vector off: no model)\n"), "{page}");
        let json: serde_json::Value =
            serde_json::from_slice(&json(&Query::new("q"), &nodes)).unwrap();
        assert_eq!(json["results"][0]["path"], "digest/wiki/a\nb.md");
        assert_eq!(json["schema_version"], 1);
        assert_eq!(json["hits"][0]["score"].to_string(), "0.0049");
        assert_eq!(json["hits"][0]["name"], json["results"][0]["name"]);
        assert_eq!(json["counts"]["vector_raw"], 3);
        assert_eq!(json["branches"]["vector"]["used"], true);
    }
}

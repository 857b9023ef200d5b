//! Hits as text, JSON and Markdown.
//!
//! Pure. Takes [`Results`], gives a page.
//!
//! **Invariant:** a name from the vault stands on one line, so that it cannot forge a hit, and a
//! page is complete passages: one that would pass [`MAX_BYTES`] leaves out whole hits from the
//! end and says how many.

mod expansion;

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::render::results::expansion::{JsonExpansion, expansion};
use crate::render::{
    AsOf, JsonPath, SCHEMA_VERSION, counted, file_url, json_page, markdown_escaped, quoted,
};
use crate::search::contexts::Dedup;
use crate::search::{BranchState, Heir, Hit, Neighbour, Query, Rerank, Results};

/// About how many bytes of passages a page holds; the first hit is always whole.
pub const MAX_BYTES: usize = 4 << 20;

/// The documented text form.
pub fn text(results: &Results) -> Vec<u8> {
    let mut out = String::new();
    let hits = shown(results);
    let hybrid = is_hybrid(results);
    for hit in hits {
        push_header(&mut out, hit, hybrid);
        out.push_str(&hit.text);
        if !hit.text.ends_with('\n') {
            out.push('\n');
        }
        if let Some(heir) = &hit.superseded {
            writeln_infallible(&mut out, format_args!("  superseded{}", heir_text(heir)));
        }
        if hit.uncommitted {
            out.push_str("  uncommitted: on disk, in no commit yet\n");
        }
        push_neighbours(&mut out, "outlinks", "→", &hit.outlinks, hit.outlinks_total);
        push_neighbours(&mut out, "inlinks", "←", &hit.inlinks, hit.inlinks_total);
        if !hit.trace.is_empty() {
            writeln_infallible(&mut out, format_args!("  trace ({}):", hit.trace.len()));
            for line in &hit.trace {
                writeln_infallible(&mut out, format_args!("    {}", one_line(line)));
            }
        }
    }
    if hits.is_empty() {
        out.push_str(&match (&results.partial, given_before(results)) {
            (_, Some(said)) => format!("{said}\n"),
            (Some(_), None) => "No hits yet.\n".to_owned(),
            (None, None) => "No hits.\n".to_owned(),
        });
    }
    writeln_infallible(&mut out, format_args!("{}", last_line(results)));
    out.into_bytes()
}

/// The line that ends a page: hits, commit, lag, branches.
pub fn last_line(results: &Results) -> String {
    let hits = shown(results).len();
    let mut line = format!(
        "-- {}{}, {}",
        counted(hits, "hit", "hits"),
        AsOf::from(results).text(),
        branches(&results.keyword, &results.vector)
    );
    match &results.rerank {
        Rerank::Off => {}
        Rerank::Done(model) => line.push_str(&format!(", reranked by {}", one_line(model))),
        Rerank::Failed(why) => line.push_str(&format!(", not reranked: {}", one_line(why))),
    }
    if let Some(why) = why_partial(results) {
        line.push_str(&format!(", partial: {}", one_line(&why)));
    }
    line
}

/// The same as JSON.
pub fn json(query: &Query, results: &Results) -> Vec<u8> {
    let hits = shown(results);
    json_page(&JsonResults {
        schema_version: SCHEMA_VERSION,
        query: JsonQuery::from(query),
        as_of: AsOf::from(results),
        branches: JsonBranches::of(&results.keyword, &results.vector),
        partial: why_partial(results),
        ranking: &results.ranking,
        fusion: results.fusion,
        rerank: match &results.rerank {
            Rerank::Off => None,
            Rerank::Done(model) => Some(JsonRerank { used: true, model: Some(model), why: None }),
            Rerank::Failed(why) => Some(JsonRerank { used: false, model: None, why: Some(why) }),
        },
        dedup: results.dedup.as_ref(),
        empty_result: hits.is_empty().then(|| match given_before(results) {
            Some(message) => JsonEmpty { reason: "all_returned", message },
            None => JsonEmpty { reason: "no_results", message: "No hits.".to_owned() },
        }),
        counts: JsonCounts {
            keyword: results.keyword.found(),
            vector: results.vector.found(),
            returned: hits.len(),
            hybrid: is_hybrid(results),
        },
        tag_filter: (!query.tags.is_empty())
            .then_some(JsonTagFilter { requested: &query.tags, applied: true }),
        link_expansion: expansion(hits),
        results: hits.iter().map(JsonHit::from).collect(),
    })
}

/// The same as Markdown, with links that open the notes below `root`.
pub fn markdown(query: &Query, results: &Results, root: &Path) -> Vec<u8> {
    let mut out = format!("# {}\n", markdown_escaped(&query.text));
    let hits = shown(results);
    let link = |name: &str, path| format!("[{}]({})", markdown_escaped(name), file_url(root, path));
    for (number, hit) in hits.iter().enumerate() {
        writeln_infallible(
            &mut out,
            format_args!(
                "\n## {}. {}\n\n`{}:{}-{}` · score {:.4}{}\n",
                number + 1,
                link(&hit.name, &hit.path),
                hit.path.to_string().replace('`', "'"),
                hit.start_line,
                hit.end_line,
                hit.score,
                if hit.uncommitted { " · uncommitted" } else { "" },
            ),
        );
        if let Some(heir) = &hit.superseded {
            let by = match &heir.path {
                Some(path) => format!(" by {}", link(&heir.name, path)),
                None if heir.name.is_empty() => String::new(),
                None => format!(" by {} (not there)", markdown_escaped(&heir.name)),
            };
            writeln_infallible(&mut out, format_args!("\nSuperseded{by}\n"));
        }
        // Quoted, so that the passage's own headings and fences stay inside it.
        for line in hit.text.lines() {
            writeln_infallible(&mut out, format_args!("{}", format!("> {line}").trim_end()));
        }
        for (title, neighbours) in [("Links to", &hit.outlinks), ("Linked from", &hit.inlinks)] {
            if !neighbours.is_empty() {
                let all: Vec<_> = neighbours.iter().map(|it| link(&it.name, &it.path)).collect();
                writeln_infallible(&mut out, format_args!("\n{title}: {}", all.join(", ")));
            }
        }
    }
    if hits.is_empty() {
        out.push_str("\nNo hits.\n");
    }
    writeln_infallible(&mut out, format_args!("\n{}", last_line(results)));
    out.into_bytes()
}

/// One block of neighbours in the text form; nothing where there are none.
pub(super) fn push_neighbours(
    out: &mut String,
    title: &str,
    arrow: &str,
    neighbours: &[Neighbour],
    total: usize,
) {
    if neighbours.is_empty() {
        return;
    }
    let count = if total > neighbours.len() {
        format!("{} of {total}", neighbours.len())
    } else {
        neighbours.len().to_string()
    };
    writeln_infallible(out, format_args!("  {title} ({count}):"));
    for neighbour in neighbours {
        let mut line = format!("    {arrow} {}", neighbour.path);
        if neighbour.name.is_empty() && neighbour.description.is_none() {
            line.push_str("  (no meta)");
        } else {
            line.push_str(&format!("  name={}", quoted(&neighbour.name)));
        }
        if let Some(description) = &neighbour.description {
            line.push_str(&format!("  description={}", quoted(description)));
        }
        writeln_infallible(out, format_args!("{line}"));
        for anchor in &neighbour.anchors {
            writeln_infallible(out, format_args!("        via anchor=#{}", one_line(anchor)));
        }
    }
}

/// ` by a path and a name`, as far as it is known.
fn heir_text(heir: &Heir) -> String {
    match (&heir.path, heir.name.is_empty()) {
        (Some(path), _) => format!(" by {path}  name={}", quoted(&heir.name)),
        (None, false) => format!(" by {} (not there)", quoted(&heir.name)),
        (None, true) => String::new(),
    }
}

/// What is said where all hits were given to the conversation before.
fn given_before(results: &Results) -> Option<String> {
    let skipped = results.dedup.as_ref()?.skipped_seen;
    (skipped > 0 && results.hits.is_empty())
        .then(|| format!("No new hits: {} given before.", counted(skipped, "was", "were")))
}

/// The hits that fit on a page.
fn shown(results: &Results) -> &[Hit] {
    let mut bytes = 0usize;
    let fit = results
        .hits
        .iter()
        .take_while(|hit| {
            bytes = bytes.saturating_add(hit.text.len());
            bytes <= MAX_BYTES
        })
        .count();
    &results.hits[..fit.max(1).min(results.hits.len())]
}

fn why_partial(results: &Results) -> Option<String> {
    let left_out = results.hits.len() - shown(results).len();
    let cut = (left_out > 0).then(|| {
        format!("{} left out, the page would be too long", counted(left_out, "hit", "hits"))
    });
    match (&results.partial, cut) {
        (Some(why), Some(cut)) => Some(format!("{why}; {cut}")),
        (Some(why), None) => Some(why.clone()),
        (None, cut) => cut,
    }
}

/// Whether scores are fused: a branch that returned nothing leaves the other's own scores.
fn is_hybrid(results: &Results) -> bool {
    results.keyword.found() > 0 && results.vector.found() > 0
}

/// Which branches answered, and why another did not.
pub(super) fn branches(keyword: &BranchState, vector: &BranchState) -> String {
    let with_vector = match vector {
        BranchState::Part { missing, .. } => {
            format!("vector ({} without vectors yet)", counted(*missing, "note", "notes"))
        }
        _ => "vector".to_owned(),
    };
    match (keyword, vector) {
        (BranchState::Off(keyword), BranchState::Off(vector)) => {
            format!("no branch (keyword off: {keyword}; vector off: {vector})")
        }
        (BranchState::Off(why), _) => format!("{with_vector} (keyword off: {why})"),
        (_, BranchState::Off(why)) => format!("keyword (vector off: {why})"),
        _ => format!("keyword + {with_vector}"),
    }
}

pub(super) fn push_header(out: &mut String, hit: &Hit, hybrid: bool) {
    let scores = if hybrid {
        let or_dash =
            |score: Option<f32>| score.map_or_else(|| "-".to_owned(), |it| format!("{it:.4}"));
        format!(
            "score={:.4} vector={} keyword={}",
            hit.score,
            or_dash(hit.vector),
            or_dash(hit.keyword)
        )
    } else {
        format!("score={:.4}", hit.score)
    };
    writeln_infallible(
        out,
        format_args!(
            "========== {}:{}-{} [{scores}] ==========",
            hit.path, hit.start_line, hit.end_line
        ),
    );
}

fn one_line(text: &str) -> std::borrow::Cow<'_, str> {
    crate::vault::path::escape(text.as_bytes())
}

fn writeln_infallible(out: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = writeln!(out, "{line}");
}

#[derive(Serialize)]
struct JsonResults<'a> {
    schema_version: u32,
    query: JsonQuery<'a>,
    #[serde(flatten)]
    as_of: AsOf,
    branches: JsonBranches,
    partial: Option<String>,
    ranking: &'a str,
    fusion: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rerank: Option<JsonRerank<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedup: Option<&'a Dedup>,
    #[serde(skip_serializing_if = "Option::is_none")]
    empty_result: Option<JsonEmpty>,
    counts: JsonCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag_filter: Option<JsonTagFilter<'a>>,
    link_expansion: JsonExpansion<'a>,
    results: Vec<JsonHit<'a>>,
}

/// By which tags hits were narrowed down.
#[derive(Serialize)]
struct JsonTagFilter<'a> {
    requested: &'a [String],
    applied: bool,
}

/// What was asked, as JSON holds it.
#[derive(Serialize)]
pub(super) struct JsonQuery<'a> {
    text: &'a str,
    limit: usize,
    since: Option<&'a str>,
    until: Option<&'a str>,
    r#in: &'a [String],
    path: Option<&'a str>,
    tags: &'a [String],
    min_score: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_weight: Option<f64>,
    /// The moment of the past that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a str>,
}

impl<'a> From<&'a Query> for JsonQuery<'a> {
    fn from(query: &'a Query) -> Self {
        Self {
            text: &query.text,
            limit: query.limit,
            since: query.since.as_deref(),
            until: query.until.as_deref(),
            r#in: &query.within,
            path: query.path.as_deref(),
            tags: &query.tags,
            min_score: query.min_score,
            vector_weight: query.vector_weight,
            at: query.at.as_deref(),
        }
    }
}

/// Which branches took part.
#[derive(Serialize)]
pub(super) struct JsonBranches {
    keyword: JsonBranch,
    vector: JsonBranch,
}

impl JsonBranches {
    pub(super) fn of(keyword: &BranchState, vector: &BranchState) -> Self {
        Self { keyword: keyword.into(), vector: vector.into() }
    }
}

#[derive(Serialize)]
struct JsonBranch {
    used: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    /// Notes that it does not know yet.
    #[serde(skip_serializing_if = "is_zero")]
    missing: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl From<&BranchState> for JsonBranch {
    fn from(branch: &BranchState) -> Self {
        match branch {
            BranchState::Used(_) => Self { used: true, why: None, missing: 0 },
            BranchState::Part { missing, .. } => Self { used: true, why: None, missing: *missing },
            BranchState::Off(why) => Self { used: false, why: Some(why), missing: 0 },
        }
    }
}

#[derive(Serialize)]
struct JsonCounts {
    keyword: usize,
    vector: usize,
    returned: usize,
    hybrid: bool,
}

/// Whether a server has put the hits in its order.
#[derive(Serialize)]
struct JsonRerank<'a> {
    used: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

/// Why there are no hits.
#[derive(Serialize)]
struct JsonEmpty {
    reason: &'static str,
    message: String,
}

/// What replaced a note.
#[derive(Serialize)]
struct JsonHeir<'a> {
    #[serde(flatten)]
    path: Option<JsonPath<'a>>,
    name: &'a str,
}

#[derive(Serialize)]
struct JsonHit<'a> {
    id: &'a str,
    #[serde(flatten)]
    path: JsonPath<'a>,
    start_line: u32,
    end_line: u32,
    score: f32,
    vector: Option<f32>,
    keyword: Option<f32>,
    scores: JsonScores,
    /// Of the passage itself, which has none.
    metadata: JsonNothing,
    name: &'a str,
    description: Option<&'a str>,
    headings: &'a [String],
    text: &'a str,
    uncommitted: bool,
    outlinks: Vec<JsonNeighbour<'a>>,
    outlinks_total: usize,
    inlinks: Vec<JsonNeighbour<'a>>,
    inlinks_total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<JsonHeir<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    trace: &'a [String],
}

impl<'a> From<&'a Hit> for JsonHit<'a> {
    fn from(hit: &'a Hit) -> Self {
        Self {
            id: &hit.id.0,
            path: (&hit.path).into(),
            start_line: hit.start_line,
            end_line: hit.end_line,
            score: hit.score,
            vector: hit.vector,
            keyword: hit.keyword,
            scores: JsonScores { score: hit.score, vector: hit.vector, keyword: hit.keyword },
            metadata: JsonNothing {},
            name: &hit.name,
            description: hit.description.as_deref(),
            headings: &hit.headings,
            text: &hit.text,
            uncommitted: hit.uncommitted,
            outlinks: hit.outlinks.iter().map(JsonNeighbour::from).collect(),
            outlinks_total: hit.outlinks_total,
            inlinks: hit.inlinks.iter().map(JsonNeighbour::from).collect(),
            inlinks_total: hit.inlinks_total,
            superseded_by: hit
                .superseded
                .as_ref()
                .map(|it| JsonHeir { path: it.path.as_ref().map(JsonPath::from), name: &it.name }),
            trace: &hit.trace,
        }
    }
}

/// The scores of a hit, of the branches that gave one.
#[derive(Serialize)]
struct JsonScores {
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keyword: Option<f32>,
}

#[derive(Serialize)]
struct JsonNothing {}

/// A linked note, as JSON holds it.
#[derive(Serialize)]
pub(super) struct JsonNeighbour<'a> {
    #[serde(flatten)]
    path: JsonPath<'a>,
    name: &'a str,
    description: Option<&'a str>,
    anchors: &'a [String],
    relation: Option<&'a str>,
}

impl<'a> From<&'a Neighbour> for JsonNeighbour<'a> {
    fn from(neighbour: &'a Neighbour) -> Self {
        Self {
            path: (&neighbour.path).into(),
            name: &neighbour.name,
            description: neighbour.description.as_deref(),
            anchors: &neighbour.anchors,
            relation: neighbour.relation.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests;

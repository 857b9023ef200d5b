//! Looks at the notes as answers.
//!
//! Takes a view and what is looked for, gives a page. The agent and the command line without one
//! make their pages here. Any thread.

use std::path::Path;
use std::time::Instant;

use crate::index::{Card, IndexView};
use crate::render::{self, AsOf};
use crate::search::{self, Leave, Look, Query, Results, Rules, graph, tags};
use crate::serve::{Answer, Form};
use crate::vault::VaultPath;

/// Which notes a page is about.
pub type IsAsked<'a> = &'a dyn Fn(&Card) -> bool;
/// What a page about some notes is true for.
pub type AsOfNotes<'a> = &'a dyn Fn(IsAsked<'_>) -> AsOf;

/// What an answer is true for.
pub struct Ground<'a> {
    pub view: &'a IndexView,
    pub as_of: AsOfNotes<'a>,
    /// Why the view is only a part of what is there.
    pub partial: Option<String>,
    pub rules: Rules,
    /// Whether a provider may be asked.
    pub leave: Leave<'a>,
    pub vault: &'a Path,
}

/// The page of a look.
pub fn answer(ground: &Ground<'_>, look: &Look, form: Form, until: Instant) -> Answer {
    let view = ground.view;
    match look {
        Look::Nodes(query) => match nodes(ground, query, until) {
            Ok(nodes) => page(
                match form {
                    Form::Text => render::nodes::text(query, &nodes),
                    Form::Json => render::nodes::json(query, &nodes),
                    Form::Markdown => render::nodes::markdown(query, &nodes, ground.vault),
                },
                nodes.hits.len(),
                nodes.partial.is_some(),
            ),
            Err(err) => refused(err.to_string(), err.hint()),
        },
        Look::Similar { path, limit } => {
            let known = VaultPath::new(path.as_bytes()).ok();
            let card = known.and_then(|it| view.note(&it)).or_else(|| view.meant(path));
            let Some(card) = card else {
                let hint = "Name an indexed note by its path in the vault.".to_owned();
                return refused(format!("There is no note `{path}`"), Some(hint));
            };
            let limit = (*limit).clamp(1, Query::MAX_LIMIT);
            let results = similar(ground, &card.path.clone(), limit, until);
            let results = results.unwrap_or_default();
            page(
                similar_page(&card.path, limit, &results, form, ground.vault),
                results.hits.len(),
                results.partial.is_some(),
            )
        }
        Look::Traverse(walk) => match graph::traverse(view, walk) {
            Ok(found) => {
                let as_of = (ground.as_of)(&|_| true);
                let bytes = match form {
                    Form::Json => render::graph::walk_json(walk, &found, as_of),
                    Form::Text | Form::Markdown => render::graph::text(&found, as_of),
                };
                page(bytes, found.nodes.len(), found.cut || ground.partial.is_some())
            }
            Err(err) => refused(err.to_string(), err.hint()),
        },
        Look::Graph => {
            let found = graph::snapshot(view);
            let as_of = (ground.as_of)(&|_| true);
            let bytes = match form {
                Form::Json => render::graph::snapshot_json(&found, as_of),
                Form::Text | Form::Markdown => render::graph::text(&found, as_of),
            };
            page(bytes, found.nodes.len(), ground.partial.is_some())
        }
        Look::Tags(asked) => {
            let found = tags::tags(view, *asked);
            let as_of = (ground.as_of)(&|it| it.role.is_note());
            let bytes = match form {
                Form::Json => render::tags::json(&found, as_of),
                Form::Text | Form::Markdown => render::tags::text(&found, as_of),
            };
            page(bytes, found.items.len(), ground.partial.is_some())
        }
    }
}

/// Digest nodes, with what they are true for.
pub fn nodes(
    ground: &Ground<'_>,
    query: &Query,
    until: Instant,
) -> Result<render::nodes::Nodes, search::QueryError> {
    let found = search::nodes(ground.view, query, ground.rules, until, ground.leave)?;
    let digest = ground.view.layout().digest.clone();
    Ok(render::nodes::Nodes {
        candidates: found.candidates,
        keyword: found.keyword,
        vector: found.vector,
        hits: found
            .nodes
            .into_iter()
            .map(|it| render::nodes::Node {
                path: it.path,
                name: it.name,
                description: it.description,
                score: it.score,
            })
            .collect(),
        as_of: (ground.as_of)(&|it| it.path.is_within(digest.as_bytes())),
        partial: ground.partial.clone().or(found.partial),
    })
}

/// The notes near one, with what they are true for; `None` for a note that is not indexed.
pub fn similar(
    ground: &Ground<'_>,
    path: &VaultPath,
    limit: usize,
    until: Instant,
) -> Option<Results> {
    let card = ground.view.note(path)?;
    let mut results = search::similar(ground.view, card, limit, until);
    let as_of = (ground.as_of)(&|_| false);
    results.commits_behind = as_of.commits_behind;
    results.edits_uncommitted = as_of.edits_uncommitted;
    results.kept_out = as_of.kept_out;
    results.unseen = as_of.unseen;
    results.partial = ground.partial.clone().or(results.partial);
    Some(results)
}

/// The page of the notes near one.
pub fn similar_page(
    path: &VaultPath,
    limit: usize,
    results: &Results,
    form: Form,
    vault: &Path,
) -> Vec<u8> {
    let query = Query { limit, ..Query::new(path.to_string()) };
    match form {
        Form::Text => render::results::text(results),
        Form::Json => render::results::json(&query, results),
        Form::Markdown => render::results::markdown(&query, results, vault),
    }
}

fn page(bytes: Vec<u8>, hits: usize, partial: bool) -> Answer {
    // Pages are made from text; the lossy step changes nothing.
    Answer::Page { text: String::from_utf8_lossy(&bytes).into_owned(), hits, partial }
}

fn refused(message: String, hint: Option<String>) -> Answer {
    Answer::Failed { message, hint, usage: true }
}

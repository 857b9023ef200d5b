//! Makes pages out of answers.
//!
//! Takes a [`PageKey`] and a deadline, asks the [`Answers`], has `render` write the bytes. Runs on
//! the crews' threads.
//!
//! **Invariant:** whoever gives the key decides which page it is; nothing here looks at the time,
//! the status aside.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::base::clock;
use crate::mount::answers::{Answers, Means, Unanswered};
use crate::mount::page::{Content, Page, PageError, PageKey};
use crate::mount::past::page as past_page;
use crate::mount::tree::{self, About, Asked, Form, Node};
use crate::mount::views;
use crate::render;
use crate::search::{Query, Results, SIMILAR};

/// The page of `key`, as the answers are now.
pub fn page(
    answers: &dyn Answers,
    mountpoint: &Path,
    key: &PageKey,
    until: Instant,
) -> Result<Page, PageError> {
    let bytes = |bytes, fleeting| Ok(Page::new(Content::Bytes(bytes), fleeting));
    match &key.node {
        Node::Readme => bytes(render::readme::page(answers.vault_root(), mountpoint), false),
        Node::Status(form) => {
            let status = answers.status();
            let now = clock::unix_seconds();
            bytes(
                match form {
                    Form::Json => render::status::json(&status),
                    Form::Markdown => render::status::markdown(&status, now),
                    Form::Text => render::status::text(&status, now),
                },
                true,
            )
        }
        Node::Answer(About::Nodes, asked, form) => {
            let query = asked.query(About::Nodes);
            let nodes = answers.nodes(&query, key.means, until)?;
            let (is_passing, is_unasked) = (nodes.is_passing(), nodes.vector.is_unasked());
            let page = bytes(
                match form {
                    Form::Text => render::nodes::text(&query, &nodes),
                    Form::Json => render::nodes::json(&query, &nodes),
                    Form::Markdown => render::nodes::markdown(&query, &nodes, answers.vault_root()),
                },
                is_passing,
            );
            page.map(|it| Page { is_unasked, ..it })
        }
        Node::Answer(about, asked, form) => {
            let query = asked.query(*about);
            let results = answers.search(&query, key.means, until)?;
            let (is_passing, is_unasked) = (results.is_passing(), results.vector.is_unasked());
            let page = bytes(in_form(*form, &query, &results, answers.vault_root()), is_passing);
            page.map(|it| Page { is_unasked, ..it })
        }
        Node::Ranking(asked) => {
            // A folder is listed by whoever passes by.
            let results = answers.search(&asked.query(About::Links), Means::AtHand, until)?;
            // Once the question was asked elsewhere, its answer is at hand here too.
            let fleeting = results.is_passing() || results.vector.is_unasked();
            let names = ranking(asked, &results, answers.vault_root());
            Ok(Page::new(Content::Names(names), fleeting))
        }
        Node::Similar(path, form) => {
            let results = answers.similar(path, SIMILAR, until)?.ok_or(PageError::Absent)?;
            let query = Query { limit: SIMILAR, ..Query::new(path.to_string()) };
            bytes(in_form(*form, &query, &results, answers.vault_root()), results.partial.is_some())
        }
        Node::Neighbours(path, direction) => {
            let links = answers.links(path, *direction).ok_or(PageError::Absent)?;
            bytes(render::links::text(path, *direction, &links), false)
        }
        Node::Past(past) => past_page(answers, past, key, until),
        Node::View(view) => views::page(answers, view, until),
        Node::Told(path, told) => views::told(answers, path, *told, until),
        Node::Root
        | Node::Ask(..)
        | Node::Ranked(..)
        | Node::Notes
        | Node::Similars
        | Node::SimilarFolder(_)
        | Node::Folder(_)
        | Node::Note(_) => Err(PageError::Absent),
    }
}

fn in_form(form: Form, query: &Query, results: &Results, root: &Path) -> Vec<u8> {
    match form {
        Form::Text => render::results::text(results),
        Form::Json => render::results::json(query, results),
        Form::Markdown => render::results::markdown(query, results, root),
    }
}

/// Names for the hits, best first, and where each points.
fn ranking(asked: &Asked, results: &Results, root: &Path) -> Vec<(Arc<[u8]>, Node)> {
    let of = results.hits.len();
    let links = results.hits.iter().zip(1..).map(|(hit, rank)| {
        let name: Arc<[u8]> = tree::ranked_name(rank, of, &hit.name).into();
        let target = root.join(hit.path.as_path()).into();
        (Arc::clone(&name), Node::Ranked(asked.clone(), name, target))
    });
    links.collect()
}

impl From<Unanswered> for PageError {
    fn from(err: Unanswered) -> Self {
        match err {
            Unanswered::Refused(why) => Self::Refused(why),
            Unanswered::NotYet(why) => Self::NotYet(why),
            Unanswered::Failed(why) => Self::Failed(why),
            Unanswered::TooLarge(why) => Self::TooLarge(why),
        }
    }
}

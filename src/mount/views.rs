//! Pages and folders of the views.
//!
//! Takes a view, asks the answers, gives the page. Runs on the crews' threads.
//!
//! **Invariant:** a link leads to a note in the vault, and its name says its rank.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::mount::answers::{Answers, Named, Written};
use crate::mount::page::{Content, Page, PageError};
use crate::mount::tree::{Node, Told, View, ranked_name, tag_name};
use crate::vault::VaultPath;

/// The page of a view.
pub fn page(answers: &dyn Answers, view: &View, until: Instant) -> Result<Page, PageError> {
    match view {
        View::Page(page) => Ok(written(answers.view_page(*page, until)?)),
        View::Recent => {
            let (notes, is_part) = answers.recent(until)?;
            Ok(Page::new(Content::Names(links(&notes, answers.vault_root())), is_part))
        }
        View::Tag(tag) => {
            let tagged = answers.tagged(tag.as_deref())?.ok_or(PageError::Absent)?;
            let below = |part: &str| match tag {
                Some(tag) => format!("{tag}/{part}"),
                None => part.to_owned(),
            };
            let folders = tagged.parts.iter().map(|part| {
                let node = Node::View(View::Tag(Some(below(part).into())));
                (tag_name(part).into_bytes().into(), node)
            });
            let mut names: Vec<(Arc<[u8]>, Node)> = folders.collect();
            // A tag that is called like a link takes its name.
            let folders = names.len();
            for link in links(&tagged.notes, answers.vault_root()) {
                if !names[..folders].iter().any(|it| it.0 == link.0) {
                    names.push(link);
                }
            }
            Ok(Page::new(Content::Names(names), false))
        }
        View::Link(_) => Err(PageError::Absent),
    }
}

/// What history tells of a note.
pub fn told(
    answers: &dyn Answers,
    path: &VaultPath,
    told: Told,
    until: Instant,
) -> Result<Page, PageError> {
    Ok(written(answers.told(path, told, until)?.ok_or(PageError::Absent)?))
}

fn written(Written { bytes, is_part }: Written) -> Page {
    Page::new(Content::Bytes(bytes), is_part)
}

fn links(notes: &[Named], root: &Path) -> Vec<(Arc<[u8]>, Node)> {
    let links = notes.iter().zip(1..).map(|((path, name), rank)| {
        let target: Arc<Path> = root.join(path.as_path()).into();
        (ranked_name(rank, notes.len(), name).into(), Node::View(View::Link(target)))
    });
    links.collect()
}

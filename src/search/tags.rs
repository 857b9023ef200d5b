//! Which tags there are, and how many notes have each.
//!
//! Takes a view; any thread. **Invariant:** spellings that differ in case only are one tag.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::index::{Card, IndexView};
use crate::search::care::newest_first;
use crate::search::filter::fold_tag;

/// Which part of the list is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TagsAsked {
    /// From 1.
    pub page: usize,
    pub page_size: usize,
    pub order_by: TagOrder,
    pub is_descending: bool,
}

/// By what tags are sorted; equals by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TagOrder {
    #[default]
    Tag,
    Count,
}

impl TagsAsked {
    pub const DEFAULT_SIZE: usize = 100;
    pub const MAX_SIZE: usize = 1000;
}

impl Default for TagsAsked {
    fn default() -> Self {
        let order_by = TagOrder::default();
        Self { page: 1, page_size: Self::DEFAULT_SIZE, order_by, is_descending: false }
    }
}

/// A part of the list of tags.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TagPage {
    pub total_tags: usize,
    pub total_pages: usize,
    pub page: usize,
    /// The first and last place of the items, from 1; both 0 beyond the end.
    pub range: (usize, usize),
    /// Tags, folded, with the number of their notes.
    pub items: Vec<(String, usize)>,
}

/// Tags of all notes that search reads by default.
pub fn tags(view: &IndexView, asked: TagsAsked) -> TagPage {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for card in view.notes().iter().filter(|it| it.role.is_note()) {
        let mut own: Vec<String> = card.tags.iter().map(|it| fold_tag(it)).collect();
        own.sort();
        own.dedup();
        for tag in own.into_iter().filter(|it| !it.is_empty()) {
            *counts.entry(tag).or_default() += 1;
        }
    }
    let mut all: Vec<(String, usize)> = counts.into_iter().collect();
    match (asked.order_by, asked.is_descending) {
        (TagOrder::Tag, false) => {}
        (TagOrder::Tag, true) => all.reverse(),
        // Stable: of equals the names go on from a to z.
        (TagOrder::Count, false) => all.sort_by_key(|it| it.1),
        (TagOrder::Count, true) => all.sort_by_key(|it| std::cmp::Reverse(it.1)),
    }
    let size = asked.page_size.clamp(1, TagsAsked::MAX_SIZE);
    let page = asked.page.max(1);
    let start = (page - 1).saturating_mul(size).min(all.len());
    let items: Vec<(String, usize)> = all.iter().skip(start).take(size).cloned().collect();
    let range = if items.is_empty() { (0, 0) } else { (start + 1, start + items.len()) };
    let (total_tags, total_pages) = (all.len(), all.len().div_ceil(size));
    TagPage { total_tags, total_pages, page, range, items }
}

/// What lies below a tag.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Below {
    /// The next parts of the tags below it, folded and sorted.
    pub parts: Vec<String>,
    /// The notes that have it, or a tag below it, the newest first; none where no tag is named.
    pub notes: Vec<Arc<Card>>,
}

/// What lies below a tag, or all tags; `None` for one that no note has.
pub fn below(view: &IndexView, tag: Option<&str>) -> Option<Below> {
    let wanted: Option<Vec<String>> = tag.map(parts_of);
    let wanted = wanted.unwrap_or_default();
    let mut parts: BTreeSet<String> = BTreeSet::new();
    let mut notes: Vec<Arc<Card>> = Vec::new();
    for card in view.notes().iter().filter(|it| it.role.is_note()) {
        let mut has = false;
        for own in card.tags.iter().map(|it| parts_of(it)) {
            let Some(rest) = own.strip_prefix(wanted.as_slice()) else { continue };
            has |= !own.is_empty();
            parts.extend(rest.first().cloned());
        }
        if has && tag.is_some() {
            notes.push(Arc::clone(card));
        }
    }
    newest_first(&mut notes);
    let is_there = tag.is_none() || !notes.is_empty();
    is_there.then(|| Below { parts: parts.into_iter().collect(), notes })
}

/// The parts of a tag, folded; empty ones name nothing.
fn parts_of(tag: &str) -> Vec<String> {
    fold_tag(tag).split('/').filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

//! The tags of the vault as text and JSON.
//!
//! Pure. **Invariant:** a tag stands on one line.

use serde::Serialize;

use crate::render::{AsOf, SCHEMA_VERSION, counted, json_page};
use crate::search::tags::TagPage;
use crate::vault::path::escape;

/// A line for each tag: how many notes, and its name.
pub fn text(page: &TagPage, as_of: AsOf) -> Vec<u8> {
    let mut out = String::new();
    for (tag, count) in &page.items {
        out.push_str(&format!("{count:>6}  {}\n", escape(tag.as_bytes())));
    }
    let pages = match page.total_pages {
        0 | 1 => String::new(),
        all => format!(", page {} of {all}", page.page),
    };
    let count = counted(page.total_tags, "tag", "tags");
    out.push_str(&format!("-- {count}{}{pages}\n", as_of.text()));
    out.into_bytes()
}

/// The same as JSON.
pub fn json(page: &TagPage, as_of: AsOf) -> Vec<u8> {
    json_page(&JsonTags { schema_version: SCHEMA_VERSION, page, as_of })
}

#[derive(Serialize)]
struct JsonTags<'a> {
    schema_version: u32,
    #[serde(flatten)]
    page: &'a TagPage,
    #[serde(flatten)]
    as_of: AsOf,
}

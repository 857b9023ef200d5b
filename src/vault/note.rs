//! What a note's bytes mean.
//!
//! Pure. Takes a path and the bytes of the file, gives a [`NoteDoc`]. Never fails: what cannot be
//! read as it stands is left out and named in `problems`, the rest is there.
//!
//! **Invariant:** no bytes panic or hang; time and memory are bounded by
//! [`decode::MAX_BYTES`](crate::vault::decode::MAX_BYTES).

use std::collections::HashSet;

use crate::vault::chunk::{self, Chunk};
use crate::vault::conflict;
use crate::vault::decode::decode;
use crate::vault::frontmatter::{self, Frontmatter};
use crate::vault::lines::floor_boundary;
use crate::vault::link::{self, Link};
use crate::vault::outline::Outline;
use crate::vault::path::VaultPath;
use crate::vault::role::is_date;
use crate::vault::tag;

/// The most links of one note that are kept.
const MAX_LINKS: usize = 100_000;
/// The most tags, the most aliases, the most properties.
const MAX_NAMES: usize = 1000;
/// The most bytes of a name, a description, an alias.
const MAX_FIELD: usize = 4096;

/// A note, read: what the index, the mount and the link rewriter know of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NoteDoc {
    /// Frontmatter `name`, else `title`, else the file's stem.
    pub name: String,
    pub description: Option<String>,
    pub aliases: Vec<String>,
    /// From frontmatter `tags`, `tag`, `memory_tags` and inline `#tag`, without `#`, in first-seen
    /// order; doubles that differ in case only are left out.
    pub tags: Vec<String>,
    /// `YYYY-MM-DD`, from frontmatter `date`, else `created`, else `updated`.
    pub date: Option<String>,
    /// Where the frontmatter says that another note replaced this one: the target of its
    /// `superseded_by`, empty where it only has `status: superseded`.
    pub superseded: Option<String>,
    pub chunks: Vec<Chunk>,
    /// By position, those of the frontmatter first.
    pub links: Vec<Link>,
    /// The values of frontmatter keys that have no field of their own, in the order of the file;
    /// empty where the frontmatter is the text.
    pub properties: Vec<String>,
    /// What could not be read as it stands, with its line: bad YAML, a doubled key, an encoding.
    pub problems: Vec<String>,
}

/// Reads a file that search knows. Markdown by its extension; anything else is plain text without
/// frontmatter, links and tags. A note that is nothing but frontmatter (a card of properties) has
/// its frontmatter, as it stands in the file, as its text.
pub fn read_note(path: &VaultPath, bytes: &[u8]) -> NoteDoc {
    let decoded = decode(bytes);
    let stem = String::from_utf8_lossy(path.stem()).into_owned();
    let mut note = NoteDoc { name: stem, problems: decoded.problems, ..NoteDoc::default() };
    let Some(text) = decoded.text else { return note };
    if let Some(line) = conflict::first_conflict(&text) {
        note.problems.push(format!("line {line}: a conflict is still marked (`<<<<<<<`)"));
    }
    if !is_markdown(path) {
        let outline = Outline::plain(&text);
        note.chunks = chunk::cut(path, &outline);
        return note;
    }
    let block = frontmatter::split(&text);
    let frontmatter = match &block {
        Some(block) => frontmatter::parse(&text[block.yaml.clone()], block.yaml_line),
        None => Frontmatter::default(),
    };
    if block.is_none() && frontmatter::is_unclosed(&text) {
        let problem = "line 1: frontmatter has no closing `---` within 64 KiB, read as body";
        note.problems.push(problem.to_owned());
    }
    let outline = Outline::markdown(&text, block.as_ref().map_or(0, |it| it.body));
    note.chunks = chunk::cut(path, &outline);
    let says_something = block.as_ref().is_some_and(|it| !text[it.yaml.clone()].trim().is_empty());
    if note.chunks.is_empty() && says_something {
        // All that the note says stands in its frontmatter: that is its passage.
        let whole = Outline::plain(&text);
        note.chunks = chunk::cut(path, &whole);
    } else {
        let others = frontmatter.other_scalars(NAMED_KEYS).into_iter();
        note.properties = others.take(MAX_NAMES).map(one_line).collect();
    }
    note.links = link::links_of(&outline, block.as_ref());
    let inline_tags = tag::tags(&outline, &note.links).into_iter().map(|it| it.name);
    note.tags = distinct(frontmatter_tags(&frontmatter).into_iter().chain(inline_tags));
    describe(&mut note, &frontmatter);
    if note.links.len() > MAX_LINKS {
        note.problems.push(format!("{} links: the first {MAX_LINKS} are kept", note.links.len()));
        note.links.truncate(MAX_LINKS);
    }
    note.problems.extend(frontmatter.problems);
    note
}

/// The keys that have fields of their own.
const NAMED_KEYS: &[&str] =
    &["name", "title", "description", "aliases", "alias", "tags", "tag", "memory_tags"];

/// Whether a path is read as Markdown.
pub fn is_markdown(path: &VaultPath) -> bool {
    path.extension()
        .is_some_and(|it| it.eq_ignore_ascii_case(b"md") || it.eq_ignore_ascii_case(b"markdown"))
}

/// Fills in what the frontmatter says of the note.
fn describe(note: &mut NoteDoc, frontmatter: &Frontmatter) {
    if let Some(name) = frontmatter.string("name").or_else(|| frontmatter.string("title")) {
        note.name = one_line(name);
    }
    note.description = frontmatter.string("description").map(one_line);
    let aliases = frontmatter.list("aliases", &[',']).into_iter();
    note.aliases = distinct(aliases.chain(frontmatter.list("alias", &[','])).map(one_line));
    note.superseded = superseded(frontmatter);
    note.date = ["date", "created", "updated"]
        .iter()
        .filter_map(|it| frontmatter.string(it))
        .find_map(date_in);
}

/// What replaced the note: a link's target without what is around it.
fn superseded(frontmatter: &Frontmatter) -> Option<String> {
    let by = ["superseded_by", "superseded-by", "supersededBy"];
    let by = by.iter().flat_map(|it| frontmatter.list(it, &[]));
    let target = |it: &str| {
        let it = it.trim().trim_start_matches('!').trim_start_matches('[').trim_end_matches(']');
        one_line(it.split(['#', '|']).next().unwrap_or_default())
    };
    let named = by.map(target).find(|it| !it.is_empty());
    let is_so =
        frontmatter.string("status").is_some_and(|it| it.eq_ignore_ascii_case("superseded"));
    named.or_else(|| is_so.then(String::new))
}

fn frontmatter_tags(frontmatter: &Frontmatter) -> Vec<String> {
    ["tags", "tag", "memory_tags"]
        .iter()
        .flat_map(|key| frontmatter.list(key, &[',', ' ', '\t', '\n']))
        .map(|it| one_line(it.trim_start_matches('#')))
        .collect()
}

/// The day that a date or a timestamp begins with.
fn date_in(text: &str) -> Option<String> {
    let date = text.get(..10)?;
    let ends = text[10..].chars().next().is_none_or(|it| !it.is_alphanumeric() || it == 'T');
    let number = |at: std::ops::Range<usize>| date[at].parse::<u32>().ok();
    let is_day = ends
        && is_date(date.as_bytes())
        && number(5..7).is_some_and(|it| (1..=12).contains(&it))
        && number(8..10).is_some_and(|it| (1..=31).contains(&it));
    is_day.then(|| date.to_owned())
}

/// The text on one line, cut to a length that fits a page.
fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.truncate(floor_boundary(&line, MAX_FIELD));
    line
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.filter(|it| !it.is_empty() && seen.insert(it.to_lowercase())).take(MAX_NAMES).collect()
}

#[cfg(test)]
mod tests;

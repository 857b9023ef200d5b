//! Finds the links of a note.
//!
//! Pure. Takes decoded text, gives every [`Link`] with its exact span: the one parser for the
//! index, for whoever rewrites links after a rename, and for display.
//!
//! A link is
//! - `[[target#anchor|alias]]`, with `!` in front an embed; in a table the bar is `\|`. Target,
//!   anchor and alias hold no bracket and no line end; `[[]]` is none, `[[#anchor]]` is one;
//! - `[text](target#anchor)`, `![text](…)`, `[label]: target`, where the target is no URL with a
//!   scheme or host: percent-decoded, `<…>` unwrapped. A use of a label (`[text][label]`) is not
//!   counted again;
//! - a wikilink in a value of the frontmatter, whatever its YAML type, also where the YAML does
//!   not parse.
//!
//! Nothing is a link in fenced, indented or inline code, HTML tags, scripts and preformatted
//! text, `<!-- -->`, `%% %%` and math, nor behind a backslash. `key:: …` at the start of a line and `[key:: …]`, `(key:: …)` inside
//! one give the links after the colons their relation.
//!
//! **Invariant:** a link's span is the link, no more and no less, and two spans lie apart or one in
//! the other; time grows with the text's
//! length only.

use std::ops::Range;

use percent_encoding::percent_decode_str;

use crate::vault::frontmatter::{self, Block};
use crate::vault::lines::Lines;
use crate::vault::outline::{Outline, Reference};
use crate::vault::relation;

/// The longest wikilink, in bytes.
const MAX_WIKILINK: usize = 4096;

/// How a link is written.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// `[[target#anchor|alias]]`
    Wiki,
    /// `![[target]]`
    Embed,
    /// `[text](target.md#anchor)`, `![text](image.png)` or `[label]: target.md`, to a place inside
    /// the vault
    Markdown,
    /// `[[target]]` inside a frontmatter value
    Frontmatter,
}

/// One link as it stands in the text.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Link {
    pub kind: LinkKind,
    /// What it points to, trimmed, percent-decoded for Markdown links; empty for `[[#heading]]`.
    pub target: String,
    /// After the first `#`, without it.
    pub anchor: Option<String>,
    /// What is shown instead of the target: behind the bar, or the text of a Markdown link.
    pub alias: Option<String>,
    /// The key of a typed link (`key:: [[…]]`) or of the frontmatter value it stands in.
    pub relation: Option<String>,
    /// 1-based line in the file.
    pub line: u32,
    /// The whole link in the decoded text, in bytes.
    #[serde(skip)]
    pub span: Range<usize>,
}

/// The links of a Markdown text whose body begins at byte `body_start`, by position.
pub fn links(text: &str, body_start: usize) -> Vec<Link> {
    let block = frontmatter::split(text).filter(|it| it.body <= body_start);
    links_of(&Outline::markdown(text, body_start), block.as_ref())
}

/// The links of a text that is already taken apart.
pub fn links_of(outline: &Outline<'_>, block: Option<&Block>) -> Vec<Link> {
    let Outline { text, lines, .. } = outline;
    let mut found = block.map(|it| frontmatter_links(text, it, lines)).unwrap_or_default();
    let mut body = Vec::new();
    wikilinks(text, outline.body..text.len(), |span, wikilink| {
        if !is_hidden(&outline.opaque, &span) {
            let kind = if wikilink.embed { LinkKind::Embed } else { LinkKind::Wiki };
            body.push(wikilink.link(kind, lines.line_of(span.start), span));
        }
    });
    let wiki_count = body.len();
    for reference in &outline.references {
        // `[[a]](b)` is a wikilink with something behind it.
        let before = body[..wiki_count].partition_point(|it| it.span.start <= reference.span.start);
        let inside = before > 0 && body[before - 1].span.end > reference.span.start;
        if !inside && let Some(link) = markdown_link(reference, lines) {
            body.push(link);
        }
    }
    body.sort_by_key(|it| (it.span.start, it.span.end));
    drop_crossing(&mut body);
    relation::assign(text, lines, &outline.opaque, &mut body);
    found.append(&mut body);
    found
}

/// Takes out the links that begin inside another and end outside it (`[a](b[[c)d]]`): the first is
/// the link. An image in a link, a wikilink in its text lie inside it and stay.
fn drop_crossing(links: &mut Vec<Link>) {
    let mut ends: Vec<usize> = Vec::new();
    links.retain(|link| {
        while ends.last().is_some_and(|end| *end <= link.span.start) {
            ends.pop();
        }
        let stays = ends.last().is_none_or(|end| link.span.end <= *end);
        if stays {
            ends.push(link.span.end);
        }
        stays
    });
}

/// A wikilink's parts, as they stand in the source.
struct Wikilink<'a> {
    embed: bool,
    target: &'a str,
    anchor: Option<&'a str>,
    alias: Option<&'a str>,
}

impl Wikilink<'_> {
    fn link(&self, kind: LinkKind, line: usize, span: Range<usize>) -> Link {
        let owned = |it: Option<&str>| it.filter(|it| !it.is_empty()).map(str::to_owned);
        Link {
            kind,
            target: self.target.to_owned(),
            anchor: owned(self.anchor),
            alias: owned(self.alias),
            relation: None,
            line: line as u32,
            span,
        }
    }
}

/// Calls `found` for each wikilink of `text[within]`, in code or not.
fn wikilinks<'a>(
    text: &'a str,
    within: Range<usize>,
    mut found: impl FnMut(Range<usize>, Wikilink<'a>),
) {
    let bytes = &text.as_bytes()[..within.end];
    let mut at = within.start;
    while let Some(open) = bytes[at..].windows(2).position(|it| it == b"[[").map(|it| at + it) {
        let inner = open + 2;
        let reach = bytes.len().min(inner + MAX_WIKILINK);
        let stop = bytes[inner..reach]
            .iter()
            .position(|it| matches!(it, b'[' | b']' | b'\n' | b'\r'))
            .map_or(reach, |it| inner + it);
        if !bytes[stop..].starts_with(b"]]") {
            // In `[[[x]]` the second bracket begins the link.
            at = if stop == inner { open + 1 } else { stop };
            continue;
        }
        at = stop + 2;
        if is_escaped(&bytes[within.start..open]) {
            continue;
        }
        if let Some(wikilink) = take_apart(&text[inner..stop]) {
            let before = &bytes[within.start..open];
            let embed =
                before.split_last().is_some_and(|(it, rest)| *it == b'!' && !is_escaped(rest));
            found(open - usize::from(embed)..at, Wikilink { embed, ..wikilink });
        }
    }
}

/// Whether what comes next stands behind a backslash that counts.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|it| **it == b'\\').count() % 2 == 1
}

/// The parts of what stands between the brackets.
fn take_apart(inner: &str) -> Option<Wikilink<'_>> {
    let (place, alias) = match inner.split_once('|') {
        // In a table the bar is escaped.
        Some((place, alias)) => (place.strip_suffix('\\').unwrap_or(place), Some(alias.trim())),
        None => (inner, None),
    };
    let (target, anchor) = match place.split_once('#') {
        Some((target, anchor)) => (target.trim(), Some(anchor.trim())),
        None => (place.trim(), None),
    };
    let is_link = !target.is_empty() || anchor.is_some_and(|it| !it.is_empty());
    is_link.then_some(Wikilink { embed: false, target, anchor, alias })
}

/// A Markdown link to a place inside the vault.
fn markdown_link(reference: &Reference, lines: &Lines) -> Option<Link> {
    let destination = reference.destination.trim_ascii();
    if destination.is_empty() || destination.starts_with("//") || has_scheme(destination) {
        return None;
    }
    let (target, anchor) = match destination.split_once('#') {
        Some((target, anchor)) => (target, Some(anchor)),
        None => (destination, None),
    };
    let link = Link {
        kind: LinkKind::Markdown,
        target: decoded(target),
        anchor: anchor.map(decoded).filter(|it| !it.is_empty()),
        alias: (!reference.text.is_empty()).then(|| reference.text.clone()),
        relation: None,
        line: lines.line_of(reference.span.start) as u32,
        span: reference.span.clone(),
    };
    (!link.target.is_empty() || link.anchor.is_some()).then_some(link)
}

/// Whether a destination begins with a URL scheme (`https:`, `mailto:`).
fn has_scheme(destination: &str) -> bool {
    destination.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1
            && scheme.starts_with(|it: char| it.is_ascii_alphabetic())
            && scheme.bytes().all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it))
    })
}

/// Percent-decoded where the result is text, as it stands otherwise.
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8().map_or_else(|_| part.to_owned(), |it| it.into_owned())
}

/// The wikilinks in the values of a frontmatter block; comments hold none.
fn frontmatter_links(text: &str, block: &Block, lines: &Lines) -> Vec<Link> {
    let mut found = Vec::new();
    let mut key = None;
    let first = block.yaml_line as usize;
    for line in first..(block.body_line as usize).saturating_sub(1) {
        let range = lines.range(text, line);
        let source = &text[range.clone()];
        if let Some((name, _)) = frontmatter::key_of(source) {
            key = Some(name);
        }
        let scalars = Scalars::of(source);
        wikilinks(text, range.start..range.start + scalars.end, |span, wikilink| {
            let quote = scalars.quote_at(span.start - range.start);
            let mut link = wikilink.link(LinkKind::Frontmatter, line, span);
            link.relation = key.map(str::to_owned);
            let parts = [Some(&mut link.target), link.anchor.as_mut(), link.alias.as_mut()];
            parts.into_iter().flatten().for_each(|it| unescape(it, quote));
            found.push(link);
        });
    }
    found
}

/// What a quoted YAML scalar means.
fn unescape(part: &mut String, quote: Option<u8>) {
    match quote {
        Some(b'\'') if part.contains("''") => *part = part.replace("''", "'"),
        Some(b'"') if part.contains('\\') => {
            *part = part.replace("\\\"", "\"").replace("\\\\", "\\");
        }
        _ => {}
    }
}

/// The quoted stretches of one YAML line and where its comment begins.
pub(in crate::vault) struct Scalars {
    quoted: Vec<(Range<usize>, u8)>,
    end: usize,
}

impl Scalars {
    pub fn of(line: &str) -> Self {
        let mut quoted = Vec::new();
        let mut open: Option<(usize, u8)> = None;
        let mut before = b' ';
        for (at, byte) in line.bytes().enumerate() {
            match (open, byte) {
                (Some((start, quote)), _) if byte == quote && before != b'\\' => {
                    quoted.push((start..at, quote));
                    open = None;
                }
                (Some(_), _) => {}
                (None, b'"' | b'\'') if b" \t[{,:'".contains(&before) => open = Some((at, byte)),
                (None, b'#') if b" \t".contains(&before) => return Self { quoted, end: at },
                (None, _) => {}
            }
            before = byte;
        }
        if let Some((start, quote)) = open {
            quoted.push((start..line.len(), quote));
        }
        Self { quoted, end: line.len() }
    }

    /// Where the comment begins; the line's length where there is none.
    pub fn end(&self) -> usize {
        self.end
    }

    /// The quote in which the byte at `at` stands.
    pub fn quote_at(&self, at: usize) -> Option<u8> {
        let next = self.quoted.partition_point(|it| it.0.end <= at);
        self.quoted.get(next).filter(|it| it.0.start < at).map(|it| it.1)
    }
}

/// Whether a wikilink at `span` stands in one of the sorted, disjoint `ranges` or shares a bracket
/// with it; a stretch between its own brackets (`[[a $x$ b]]`) is part of its name.
fn is_hidden(ranges: &[Range<usize>], span: &Range<usize>) -> bool {
    let after = ranges.partition_point(|it| it.end <= span.start);
    let meets = ranges[after..].iter().take_while(|it| it.start < span.end);
    meets.into_iter().any(|it| it.start < span.start + 2 || it.end + 2 > span.end)
}

/// Whether `span` meets one of the sorted, disjoint `ranges`.
pub(in crate::vault) fn overlaps(ranges: &[Range<usize>], span: &Range<usize>) -> bool {
    let after = ranges.partition_point(|it| it.end <= span.start);
    ranges.get(after).is_some_and(|it| it.start < span.end)
}

#[cfg(test)]
mod tests;

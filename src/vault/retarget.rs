//! Writes links anew with other targets.
//!
//! Pure. Takes a note's text and which of its links shall lead where, gives the new text: nothing
//! but the targets changes, so that `!`, anchor, alias, the escaped bar of a table, quotes and
//! line ends stay as they are. What to write (a path, a short name) is the caller's business.
//!
//! A target that cannot be written is refused: a wikilink has no way to hold a bracket, a bar, a
//! hash or a line end. A Markdown link holds anything, percent-encoded.
//!
//! **Invariant:** the new text, parsed again, has the same links in the same order with the same
//! parts, but for the targets asked for; otherwise there is no new text.

use std::ops::Range;

use crate::vault::frontmatter;
use crate::vault::lines::Lines;
use crate::vault::link::{Link, LinkKind, Scalars, links_of};
use crate::vault::outline::Outline;

/// Why links were not rewritten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotRetarget {
    /// The new name has something in it that ends a link.
    #[error("A link cannot hold the name `{target}`: {why}")]
    Name { target: String, why: &'static str },
    /// The text is not the one in which the link was found.
    #[error("Line {line} holds no such link")]
    Stale { line: u32 },
    /// What stands around the link would make something else of it.
    #[error("The link on line {line} would not lead to `{target}`")]
    Context { line: u32, target: String },
}

impl CannotRetarget {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Name { .. } => "Choose a name without `[`, `]`, `|`, `#` and odd spaces.",
            Self::Stale { .. } => "Read the note again.",
            Self::Context { .. } => "Change this link by hand.",
        }
    }
}

/// The text with each of `changes` leading to its new target; links that are not named stay.
pub fn retarget(text: &str, changes: &[(&Link, &str)]) -> Result<String, CannotRetarget> {
    let block = frontmatter::split(text);
    let outline = Outline::markdown(text, block.as_ref().map_or(0, |it| it.body));
    let mut wanted = links_of(&outline, block.as_ref());
    let mut splices: Vec<(Range<usize>, String)> = Vec::with_capacity(changes.len());
    for (link, target) in changes {
        let stale = || CannotRetarget::Stale { line: link.line };
        let place = |it: &Link| (it.span.start, it.span.end);
        let own = match wanted.binary_search_by_key(&place(link), place) {
            Ok(at) if wanted[at].kind == link.kind => &mut wanted[at],
            _ => return Err(stale()),
        };
        check_name(target, own.kind)?;
        splices.push(match own.kind {
            LinkKind::Markdown => {
                let at = outline.references.partition_point(|it| it.span.start < own.span.start);
                let span = outline.references.get(at).ok_or_else(stale)?.destination_span.clone();
                let length = text[span.clone()].find('#').unwrap_or(span.len());
                (span.start..span.start + length, encoded(target))
            }
            LinkKind::Wiki | LinkKind::Embed | LinkKind::Frontmatter => {
                let quote = match own.kind {
                    LinkKind::Frontmatter => quote_of(text, &outline.lines, own),
                    _ => None,
                };
                (target_span(text, own), escaped(target, quote))
            }
        });
        (*target).clone_into(&mut own.target);
    }
    splices.sort_by_key(|it| it.0.start);
    let new = spliced(text, &splices);
    verify(&new, &wanted)?;
    Ok(new)
}

/// Whether the new text says what was wanted, and its frontmatter as much as before.
fn verify(new: &str, wanted: &[Link]) -> Result<(), CannotRetarget> {
    let block = frontmatter::split(new);
    let found =
        links_of(&Outline::markdown(new, block.as_ref().map_or(0, |it| it.body)), block.as_ref());
    let context = |it: &Link| CannotRetarget::Context { line: it.line, target: it.target.clone() };
    let same = |a: &Link, b: &Link| {
        a.kind == b.kind
            && a.target == b.target
            && a.anchor == b.anchor
            && a.relation == b.relation
            && a.line == b.line
    };
    for (at, link) in wanted.iter().enumerate() {
        if !found.get(at).is_some_and(|it| same(it, link)) {
            return Err(context(link));
        }
    }
    match found.get(wanted.len()) {
        Some(more) => Err(context(more)),
        None => Ok(()),
    }
}

fn check_name(target: &str, kind: LinkKind) -> Result<(), CannotRetarget> {
    let why = match kind {
        LinkKind::Markdown => why_unwritable(target),
        _ => why_unlinkable(target),
    };
    match why {
        Some(why) => Err(CannotRetarget::Name { target: target.to_owned(), why }),
        None => Ok(()),
    }
}

/// Why no link at all can hold this name.
fn why_unwritable(target: &str) -> Option<&'static str> {
    if target.trim().is_empty() {
        Some("it is empty")
    } else if target.contains(char::is_control) {
        Some("it has a control character")
    } else {
        None
    }
}

/// Why no wikilink can hold this name.
pub fn why_unlinkable(target: &str) -> Option<&'static str> {
    if let Some(why) = why_unwritable(target) {
        Some(why)
    } else if target.trim() != target {
        Some("it begins or ends with a space")
    } else if target.contains(['[', ']']) {
        Some("it has a bracket")
    } else if target.contains('|') {
        Some("it has a bar")
    } else if target.contains('#') {
        Some("it has a hash")
    } else if target.ends_with('\\') {
        Some("it ends with a backslash")
    } else {
        None
    }
}

/// Where a wikilink's target stands, spaces around it included.
fn target_span(text: &str, link: &Link) -> Range<usize> {
    let source = &text[link.span.clone()];
    let inner = source.find("[[").map_or(0, |it| it + 2);
    let rest = &source[inner..];
    let end = rest.find(['#', '|']).unwrap_or(rest.len().saturating_sub(2));
    let end =
        if rest[end..].starts_with('|') && rest[..end].ends_with('\\') { end - 1 } else { end };
    let start = link.span.start + inner;
    start..start + end
}

/// The quote of the YAML scalar in which a frontmatter link stands.
fn quote_of(text: &str, lines: &Lines, link: &Link) -> Option<u8> {
    let line = lines.range(text, link.line as usize);
    Scalars::of(&text[line.clone()]).quote_at(link.span.start - line.start)
}

fn escaped(target: &str, quote: Option<u8>) -> String {
    match quote {
        Some(b'\'') => target.replace('\'', "''"),
        Some(_) => target.replace('\\', "\\\\").replace('"', "\\\""),
        None => target.to_owned(),
    }
}

/// A path as a Markdown destination: what would end it or mean something else is percent-encoded.
fn encoded(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for char in target.chars() {
        if char.is_ascii() && (char.is_ascii_control() || " \"#%()<>?[\\]`|:".contains(char)) {
            out.push_str(&format!("%{:02X}", u32::from(char)));
        } else {
            out.push(char);
        }
    }
    out
}

fn spliced(text: &str, splices: &[(Range<usize>, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, new) in splices {
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str(new);
        at = range.end.max(at);
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests;

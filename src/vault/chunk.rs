//! Cuts a note into chunks.
//!
//! Pure. Takes a path and its decoded text, gives the passages that search ranks and shows.
//!
//! A chunk is a section: a heading and what stands below it. A section that fits [`TARGET`] bytes
//! with all of its sub-sections is one; sections of one parent are packed together while they fit.
//! A longer one is cut before blocks, else before list items, else between lines. Never cut:
//! inside a fence, raw HTML, math or a link (while it is under 16 KiB; beyond, at lines), inside a
//! table row, between a table's head and its rule, between a heading and what it heads.
//!
//! A line over [`LONGEST_LINE`] bytes (minified code, a dump) is the one exception to whole lines:
//! it becomes pieces of at most [`TARGET`] bytes, cut at characters, at spaces where there are
//! some, not inside a link; each has that line as its range. Of pieces with equal text one is
//! kept, so that ids stay unique and a repeated pattern costs no more than once.
//!
//! **Invariant:** every line of the body that is not blank stands in exactly one chunk, in order,
//! with the line's own text (an over-long line: in its pieces).

use std::collections::HashSet;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::vault::ids::ChunkId;
use crate::vault::lines::floor_boundary;
use crate::vault::outline::{Cut, Heading, Outline};
use crate::vault::path::VaultPath;

/// How many bytes a chunk should have at most.
pub const TARGET: usize = 2000;
/// A chunk smaller than this is not worth a better place to cut.
const SMALL: usize = 500;
/// A longer line is cut inside.
pub const LONGEST_LINE: usize = 8 * 1024;

/// A passage of a note: whole lines of the file, never a re-rendering.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Chunk {
    pub id: ChunkId,
    /// 1-based, inclusive.
    pub start_line: u32,
    /// 1-based, inclusive.
    pub end_line: u32,
    /// The headings over the first line, outermost first, without their marks; those that stand
    /// in `text` itself are not among them. Each at most 200 bytes.
    pub headings: Vec<String>,
    /// The lines as they stand in the file (line ends as `\n`, no final line end); a piece of an
    /// over-long line.
    pub text: String,
}

/// Cuts Markdown whose body begins at byte `body_start` (see [`crate::vault::frontmatter`]).
pub fn chunks(path: &VaultPath, text: &str, body_start: usize) -> Vec<Chunk> {
    cut(path, &Outline::markdown(text, body_start))
}

/// Cuts any other text (logs, JSON, CSV…): whole lines packed up to [`TARGET`] bytes, rather
/// after a blank line.
pub fn plain_chunks(path: &VaultPath, text: &str) -> Vec<Chunk> {
    cut(path, &Outline::plain(text))
}

/// Cuts a text that is already taken apart.
pub fn cut(path: &VaultPath, outline: &Outline<'_>) -> Vec<Chunk> {
    let mut cutter = Cutter { outline, passages: Vec::new() };
    let count = outline.lines.count();
    if outline.body < outline.text.len() && count > 0 {
        let first = outline.lines.line_of(outline.body);
        cutter.section(Passage { first, last: count }, &outline.headings);
    }
    write(path, outline, &cutter.passages)
}

/// The id of a chunk: SHA-256 in hexadecimal of `path start_line end_line text`.
pub fn chunk_id(path: &VaultPath, start_line: u32, end_line: u32, text: &str) -> ChunkId {
    let mut hash = Sha256::new();
    hash.update(path.as_bytes());
    hash.update(format!(" {start_line} {end_line} "));
    hash.update(text);
    ChunkId(hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _written = write!(hex, "{byte:02x}");
        hex
    }))
}

/// Lines `first..=last`.
#[derive(Clone, Copy)]
struct Passage {
    first: usize,
    last: usize,
}

struct Cutter<'a> {
    outline: &'a Outline<'a>,
    passages: Vec<Passage>,
}

impl Cutter<'_> {
    /// Cuts `whole`, whose sub-sections begin at `headings`.
    fn section(&mut self, whole: Passage, headings: &[Heading]) {
        if self.size(whole) <= TARGET {
            self.passages.push(whole);
            return;
        }
        let mut own = self.passages.len();
        let mut pending = None;
        let lead_end = headings.first().map_or(whole.last, |it| it.first_line - 1);
        if lead_end >= whole.first {
            let lead = Passage { first: whole.first, last: lead_end };
            if self.size(lead) <= TARGET {
                pending = Some(lead);
            } else {
                self.blocks(lead);
                pending = self.passages.pop();
            }
        }
        let mut rest = headings;
        while let Some((heading, below)) = rest.split_first() {
            let inner = below.iter().take_while(|it| it.level > heading.level).count();
            let (inner, next) = below.split_at(inner);
            let last = next.first().map_or(whole.last, |it| it.first_line - 1);
            let part = Passage { first: heading.first_line, last };
            let both = Passage { first: pending.map_or(part.first, |it| it.first), last };
            rest = next;
            if self.size(both) <= TARGET {
                pending = Some(both);
                continue;
            }
            // A title alone goes with what it heads.
            let is_title = pending.is_some_and(|it| self.only_titles(it));
            let part = if is_title { both } else { part };
            if let Some(passage) = pending.take_if(|_| !is_title) {
                self.keep(own, passage);
            }
            pending = if self.size(part) <= TARGET {
                Some(part)
            } else {
                self.section(part, inner);
                own = self.passages.len();
                None
            };
        }
        if let Some(passage) = pending {
            self.keep(own, passage);
        }
    }

    /// Adds a passage, to the one before where that is of the same section (not before index
    /// `own`) and this one is too small to stand alone.
    fn keep(&mut self, own: usize, passage: Passage) {
        if self.size(passage) < SMALL
            && let Some(before) = self.passages[own..].last().copied()
        {
            let both = Passage { first: before.first, last: passage.last };
            if self.size(both) <= TARGET + SMALL {
                self.passages.pop();
                self.passages.push(both);
                return;
            }
        }
        self.passages.push(passage);
    }

    /// Cuts a passage without sub-sections, at the best places.
    fn blocks(&mut self, whole: Passage) {
        let mut first = whole.first;
        while first <= whole.last {
            let last = self.cut_point(first, whole.last);
            self.passages.push(Passage { first, last });
            first = last + 1;
        }
    }

    /// The last line of the passage that begins at `first`.
    fn cut_point(&self, first: usize, last: usize) -> usize {
        let outline = self.outline;
        let mut best: Option<(Cut, usize)> = None;
        if self.is_over_long(first) {
            return first;
        }
        let mut titles = outline.is_title(first);
        for line in first + 1..=last {
            if self.is_over_long(line) {
                return match best {
                    Some((_, cut_line))
                        if self.size(Passage { first, last: line - 1 }) > TARGET =>
                    {
                        cut_line - 1
                    }
                    _ => line - 1,
                };
            }
            if outline.lines.is_blank(outline.text, line) {
                continue;
            }
            let before = self.size(Passage { first, last: line - 1 });
            // Right below the title of a section is no place for a cut.
            let cut = if titles { Cut::Never } else { outline.cut(line) };
            titles &= outline.is_title(line);
            if before > TARGET {
                match best {
                    Some((_, cut_line)) => return cut_line - 1,
                    None if cut > Cut::Never => return line - 1,
                    None => {}
                }
            } else if cut > Cut::Never {
                let rank = if before < SMALL { Cut::Never } else { cut };
                if best.is_none_or(|(it, _)| rank >= it) {
                    best = Some((rank, line));
                }
            }
        }
        match best {
            Some((_, line)) if self.size(Passage { first, last }) > TARGET => line - 1,
            _ => last,
        }
    }

    fn is_over_long(&self, line: usize) -> bool {
        self.outline.lines.range(self.outline.text, line).len() > LONGEST_LINE
    }

    /// Whether a passage heads something but says nothing; a long list of titles says something.
    fn only_titles(&self, passage: Passage) -> bool {
        let outline = self.outline;
        self.size(passage) <= SMALL
            && (passage.first..=passage.last)
                .all(|it| outline.is_title(it) || outline.lines.is_blank(outline.text, it))
    }

    fn size(&self, passage: Passage) -> usize {
        let lines = &self.outline.lines;
        lines.start(passage.last + 1) - lines.start(passage.first).max(self.outline.body)
    }
}

/// Makes chunks of passages: trims blank lines, adds the headings above, cuts over-long lines.
fn write(path: &VaultPath, outline: &Outline<'_>, passages: &[Passage]) -> Vec<Chunk> {
    let mut chunks = Vec::with_capacity(passages.len());
    let mut above: Vec<&Heading> = Vec::new();
    let mut headings = outline.headings.iter().peekable();
    for passage in passages {
        let is_blank = |line: &usize| outline.lines.is_blank(outline.text, *line);
        let Some(first) = (passage.first..=passage.last).find(|it| !is_blank(it)) else {
            continue;
        };
        let last = (first..=passage.last).rev().find(|it| !is_blank(it)).unwrap_or(first);
        while let Some(heading) = headings.next_if(|it| it.first_line <= first) {
            above.retain(|it| it.level < heading.level);
            above.push(heading);
        }
        let titles: Vec<String> = above
            .iter()
            .filter(|it| it.first_line < first)
            .map(|it| it.title.clone())
            .filter(|it| !it.is_empty())
            .collect();
        let mut push = |text: String| {
            // A text is at most some megabytes, so its lines fit.
            let (start_line, end_line) = (first as u32, last as u32);
            let id = chunk_id(path, start_line, end_line, &text);
            chunks.push(Chunk { id, start_line, end_line, headings: titles.clone(), text });
        };
        let line = outline.lines.range(outline.text, first);
        if first == last && line.len() > LONGEST_LINE {
            let start = line.start.max(outline.body);
            pieces(outline, start, line.end).into_iter().for_each(|it| push(it.to_owned()));
        } else {
            let text = outline.lines.text(outline.text, first, last);
            push(text.trim_start_matches('\u{feff}').to_owned());
        }
    }
    chunks
}

/// The distinct pieces of one over-long line.
fn pieces<'a>(outline: &Outline<'a>, start: usize, end: usize) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    let mut at = start;
    while at < end {
        let piece = &outline.text[at..end];
        let length = piece_length(outline, at, piece);
        let text = &piece[..length];
        if !text.trim().is_empty() && seen.insert(text) {
            out.push(text);
        }
        at += length;
    }
    out
}

/// How much of `rest`, which begins at byte `at`, the next piece takes; never nothing.
fn piece_length(outline: &Outline<'_>, at: usize, rest: &str) -> usize {
    if rest.len() <= TARGET {
        return rest.len();
    }
    let limit = floor_boundary(rest, TARGET);
    let earliest = TARGET / 2;
    let mut length = limit;
    if let Some(space) = rest[..limit].rfind(char::is_whitespace) {
        let after = space + rest[space..].chars().next().map_or(1, char::len_utf8);
        if after > earliest {
            length = after;
        }
    }
    if let Some(open) = rest[..length].rfind("[[")
        && open > earliest
        && !rest[open..length].contains("]]")
    {
        length = open;
    }
    let before = outline.references.partition_point(|it| it.span.start < at + length);
    if let Some(link) = before.checked_sub(1).map(|it| &outline.references[it])
        && link.span.end > at + length
        && link.span.start > at + earliest
    {
        length = link.span.start - at;
    }
    length
}

#[cfg(test)]
mod tests;

//! What Markdown sees in a note's body.
//!
//! Pure. Takes decoded text and where its body begins, gives an [`Outline`]: headings, the places
//! where a passage may be cut, Markdown links, and the stretches in which nothing is a link or a
//! tag (code, raw HTML, comments, math). One pass feeds chunks, links and tags, so that they
//! cannot disagree. The only file that knows pulldown-cmark.
//!
//! **Invariant:** time and memory grow with the length of the text and nothing else; offsets are
//! those of the text as given.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::vault::lines::{Lines, floor_boundary};

/// Code, raw HTML, math or a link longer than this may be cut at any of its lines.
pub const UNCUT_MAX: usize = 16 * 1024;
/// The most containers (quotes, lists) that one line may open; the parser's cost per line grows
/// with them.
const MAX_NESTING: usize = 64;
/// A list marker behind more columns of indentation than this is text.
const MAX_INDENT: usize = 256;
/// The most bytes of a heading that a breadcrumb repeats.
const MAX_TITLE: usize = 200;
/// The most bytes of a link's text that are kept: images nest, and each holds the text of all that
/// are in it.
const MAX_LINK_TEXT: usize = 1024;

/// How good a place is for a cut before a line, from never to best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cut {
    Never,
    /// Between two lines of a paragraph, two rows of a table.
    Line,
    /// Before an item of a list, after a blank line of plain text.
    Item,
    /// Before a block.
    Block,
}

/// A heading that stands in no list or quote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heading {
    pub level: u8,
    /// 1-based; a setext heading ends on the line of its underline.
    pub first_line: usize,
    pub last_line: usize,
    /// Its text without marks.
    pub title: String,
}

/// An inline Markdown link or image, or the definition of a reference link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    pub span: Range<usize>,
    /// The destination, unescaped but not percent-decoded.
    pub destination: String,
    /// Where the destination stands, in bytes, `<` and `>` left out; empty where it was not found.
    pub destination_span: Range<usize>,
    /// The link's text as it stands in the source, or the definition's label; its beginning where
    /// it is long.
    pub text: String,
}

/// The body of a note, taken apart.
#[derive(Debug)]
pub struct Outline<'a> {
    pub text: &'a str,
    /// Where the body begins, in bytes, behind a byte-order mark.
    pub body: usize,
    pub lines: Lines,
    pub headings: Vec<Heading>,
    /// By span, which may nest.
    pub references: Vec<Reference>,
    /// Sorted and disjoint.
    pub opaque: Vec<Range<usize>>,
    /// The cut before each line, by 0-based line.
    cuts: Vec<Cut>,
    title_lines: Vec<bool>,
}

impl<'a> Outline<'a> {
    /// Reads Markdown.
    pub fn markdown(text: &'a str, body: usize) -> Self {
        let mut outline = Self::empty(text, body);
        outline.walk();
        outline.hide_comments();
        outline.references.sort_by_key(|it| it.span.start);
        outline
    }

    /// Takes the text as lines that mean nothing to us.
    pub fn plain(text: &'a str) -> Self {
        let mut outline = Self::empty(text, 0);
        for line in 2..=outline.lines.count() {
            if outline.lines.is_blank(text, line - 1) {
                outline.cuts[line - 1] = Cut::Item;
            }
        }
        outline
    }

    fn empty(text: &'a str, body: usize) -> Self {
        let lines = Lines::of(text);
        let count = lines.count();
        Self {
            text,
            body: body.max(crate::vault::frontmatter::bom_length(text)),
            headings: Vec::new(),
            references: Vec::new(),
            opaque: Vec::new(),
            cuts: vec![Cut::Line; count],
            title_lines: vec![false; count],
            lines,
        }
    }

    /// How good it is to cut before `line`.
    pub fn cut(&self, line: usize) -> Cut {
        self.cuts.get(line - 1).copied().unwrap_or(Cut::Block)
    }

    /// Whether `line` belongs to a heading.
    pub fn is_title(&self, line: usize) -> bool {
        self.title_lines.get(line - 1).is_some_and(|it| *it)
    }

    fn walk(&mut self) {
        let masked = tamed(&self.text[self.body..]);
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_MATH
            | Options::ENABLE_GFM;
        let parser = Parser::new_ext(&masked, options).into_offset_iter();
        for (label, definition) in parser.reference_definitions().iter() {
            let span = self.shift(&definition.span);
            self.references.push(Reference {
                destination_span: destination_span(self.text, span.clone(), "]:"),
                span,
                destination: definition.dest.to_string(),
                text: label[..floor_boundary(label, MAX_LINK_TEXT)].to_owned(),
            });
        }
        let mut depth = 0usize;
        let mut title: Option<String> = None;
        let mut open: Vec<OpenLink> = Vec::new();
        for (event, range) in parser {
            let range = self.shift(&range);
            if let Some(link) = open.last_mut()
                && !matches!(event, Event::End(TagEnd::Link | TagEnd::Image))
            {
                link.text_end = link.text_end.max(range.end);
            }
            if let Some(title) = &mut title {
                match &event {
                    Event::Text(text) | Event::Code(text) if title.len() < MAX_TITLE => {
                        title.push_str(&text[..floor_boundary(text, MAX_TITLE - title.len())]);
                    }
                    Event::SoftBreak | Event::HardBreak => title.push(' '),
                    _ => {}
                }
            }
            match event {
                Event::Start(tag) => {
                    self.begin(&tag, &range, depth);
                    match tag {
                        Tag::Heading { .. } if depth == 0 => title = Some(String::new()),
                        Tag::Link { link_type, dest_url, .. } => {
                            open.push(OpenLink::new(link_type, &dest_url, range.start + 1));
                        }
                        Tag::Image { link_type, dest_url, .. } => {
                            open.push(OpenLink::new(link_type, &dest_url, range.start + 2));
                        }
                        Tag::BlockQuote(_)
                        | Tag::List(_)
                        | Tag::Item
                        | Tag::FootnoteDefinition(_) => depth += 1,
                        _ => {}
                    }
                }
                Event::End(TagEnd::Heading(level)) => {
                    if let Some(title) = title.take() {
                        self.head(level as u8, title.trim().to_owned(), &range);
                    }
                }
                Event::End(TagEnd::Link | TagEnd::Image) => {
                    if let Some(link) = open.pop() {
                        if let Some(outer) = open.last_mut() {
                            outer.text_end = outer.text_end.max(range.end);
                        }
                        self.keep_link(link, range);
                    }
                }
                Event::End(
                    TagEnd::BlockQuote(_)
                    | TagEnd::List(_)
                    | TagEnd::Item
                    | TagEnd::FootnoteDefinition,
                ) => depth = depth.saturating_sub(1),
                Event::Code(_)
                | Event::InlineMath(_)
                | Event::DisplayMath(_)
                | Event::InlineHtml(_) => self.hide(range),
                _ => {}
            }
        }
        self.opaque = joined(std::mem::take(&mut self.opaque));
    }

    /// Notes where a block begins and whether it may be cut inside.
    fn begin(&mut self, tag: &Tag<'_>, range: &Range<usize>, depth: usize) {
        let line = self.lines.line_of(range.start);
        let cut = match tag {
            Tag::Item if depth == 1 => Cut::Item,
            Tag::Paragraph
            | Tag::Heading { .. }
            | Tag::BlockQuote(_)
            | Tag::CodeBlock(_)
            | Tag::HtmlBlock
            | Tag::List(_)
            | Tag::FootnoteDefinition(_)
            | Tag::Table(_)
                if depth == 0 =>
            {
                Cut::Block
            }
            _ => Cut::Line,
        };
        if let Some(slot) = self.cuts.get_mut(line - 1)
            && *slot != Cut::Never
        {
            *slot = cut.max(*slot);
        }
        match tag {
            Tag::CodeBlock(_) => self.hide(range.clone()),
            Tag::HtmlBlock => {
                self.keep_whole(range.start, range.end.saturating_sub(1));
                self.hide_html(range);
            }
            Tag::Table(_) => self.keep_whole(range.start, self.lines.start(line + 1)),
            _ => {}
        }
    }

    fn head(&mut self, level: u8, title: String, range: &Range<usize>) {
        let first_line = self.lines.line_of(range.start);
        let last_line = self.lines.line_of(range.end.saturating_sub(1).max(range.start));
        if self.headings.last().is_some_and(|it| it.last_line >= first_line) {
            return; // A stray carriage return: two headings to Markdown, one line to us.
        }
        self.keep_whole(range.start, range.end.saturating_sub(1));
        for line in first_line..=last_line {
            self.title_lines[line - 1] = true;
        }
        self.headings.push(Heading { level, first_line, last_line, title });
    }

    fn keep_link(&mut self, link: OpenLink, span: Range<usize>) {
        self.keep_whole(span.start, span.end.saturating_sub(1));
        if let Some(destination) = link.destination {
            let text = self.text.get(link.text_start..link.text_end).unwrap_or_default();
            let text = &text[..floor_boundary(text, MAX_LINK_TEXT)];
            let behind = link.text_end.clamp(span.start, span.end)..span.end.saturating_sub(1);
            self.references.push(Reference {
                destination_span: destination_span(self.text, behind, "]("),
                span,
                destination,
                text: text.trim().to_owned(),
            });
        }
    }

    fn hide(&mut self, range: Range<usize>) {
        self.keep_whole(range.start, range.end.saturating_sub(1));
        self.opaque.push(range);
    }

    /// Hides what is raw in an HTML block: all of a script or preformatted text, the comments of
    /// any other. What stands beside them is text to whoever reads the file.
    fn hide_html(&mut self, block: &Range<usize>) {
        let source = &self.text[block.clone()];
        let begins = |with: &str| {
            source.trim_start().get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with))
        };
        if ["<pre", "<script", "<style", "<textarea", "<?", "<![CDATA["].iter().any(|it| begins(it))
        {
            self.opaque.push(block.clone());
            return;
        }
        let mut at = block.start;
        while let Some(open) = self.text[at..block.end.max(at)].find("<!--").map(|it| at + it) {
            let close = self.text[open + 4..].find("-->").map(|it| open + 4 + it + 3);
            let end = close.unwrap_or(block.end);
            self.opaque.push(open..end);
            at = end;
        }
    }

    /// Forbids a cut between the lines of the first and the last byte, unless they are too far
    /// apart for one chunk.
    fn keep_whole(&mut self, first: usize, last: usize) {
        if last <= first || last - first > UNCUT_MAX {
            return;
        }
        let (first, last) = (self.lines.line_of(first), self.lines.line_of(last));
        self.cuts[first..last].fill(Cut::Never);
    }

    /// Adds Obsidian's `%%comments%%`; one that is never closed is text.
    fn hide_comments(&mut self) {
        let mut marks = self.text[self.body..].match_indices("%%").map(|it| it.0 + self.body);
        let mut comments = Vec::new();
        let mut opaque = self.opaque.iter().peekable();
        let mut open: Option<usize> = None;
        for mark in &mut marks {
            while opaque.next_if(|it| it.end <= mark).is_some() {}
            if opaque.peek().is_some_and(|it| it.start <= mark) {
                continue;
            }
            match open.take() {
                None => open = Some(mark),
                Some(start) => comments.push(start..mark + 2),
            }
        }
        if !comments.is_empty() {
            comments.append(&mut self.opaque);
            self.opaque = joined(comments);
        }
    }

    fn shift(&self, range: &Range<usize>) -> Range<usize> {
        range.start + self.body..range.end + self.body
    }
}

/// Where the destination stands in `within`, which holds it behind `opener`.
fn destination_span(text: &str, within: Range<usize>, opener: &str) -> Range<usize> {
    let Some(source) = text.get(within.clone()) else { return within.start..within.start };
    let Some(open) = source.find(opener) else { return within.start..within.start };
    let behind = &source[open + opener.len()..];
    // Markdown's whitespace is ASCII's: a no-break space is part of an address.
    let start = behind.len() - behind.trim_ascii_start().len();
    let (start, is_end): (usize, fn(char) -> bool) = match behind[start..].strip_prefix('<') {
        Some(_) => (start + 1, |it| it == '>'),
        None => (start, |it| it.is_ascii_whitespace() || it.is_ascii_control()),
    };
    let length = ends_at(&behind[start..], is_end);
    let start = within.start + open + opener.len() + start;
    start..start + length
}

/// Where the first character stands that `is_end` and that no backslash escapes.
fn ends_at(text: &str, is_end: fn(char) -> bool) -> usize {
    let mut escaped = false;
    for (at, char) in text.char_indices() {
        if !escaped && is_end(char) {
            return at;
        }
        escaped = !escaped && char == '\\';
    }
    text.len()
}

/// A link whose end has not been met.
struct OpenLink {
    /// `None` where the destination stands elsewhere (reference links) or is the text itself.
    destination: Option<String>,
    text_start: usize,
    text_end: usize,
}

impl OpenLink {
    fn new(kind: LinkType, destination: &str, text_start: usize) -> Self {
        let destination = (kind == LinkType::Inline).then(|| destination.to_owned());
        Self { destination, text_start, text_end: text_start }
    }
}

/// Ranges sorted, those that touch or overlap made one.
pub fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|it| it.start);
    let mut out: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// The text with the container marks that nest too deeply made letters of the same length.
fn tamed(text: &str) -> Cow<'_, str> {
    let mut masked: Option<Vec<u8>> = None;
    let mut at = 0;
    for line in text.split_inclusive(['\n', '\r']) {
        for mark in excess_marks(line.as_bytes()) {
            masked.get_or_insert_with(|| text.as_bytes().to_vec())[at + mark] = b'x';
        }
        at += line.len();
    }
    // Only ASCII marks were replaced, by an ASCII letter.
    masked.and_then(|it| String::from_utf8(it).ok()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Where a line's container marks stand that are too deep.
fn excess_marks(line: &[u8]) -> impl Iterator<Item = usize> {
    let prefix = line
        .iter()
        .position(|it| {
            !matches!(it, b' ' | b'\t' | b'>' | b'-' | b'+' | b'*' | b'0'..=b'9' | b'.' | b')')
        })
        .unwrap_or(line.len());
    let (mut marks, mut indent) = (0usize, 0usize);
    line[..prefix].iter().enumerate().filter_map(move |(at, byte)| match byte {
        b' ' => {
            indent += 1;
            None
        }
        b'\t' => {
            indent += 4;
            None
        }
        b'0'..=b'9' => None,
        _ => {
            marks += 1;
            (marks > MAX_NESTING || indent > MAX_INDENT).then_some(at)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;

    fn titles(text: &str) -> Vec<(u8, usize, usize, String)> {
        let outline = Outline::markdown(text, 0);
        outline
            .headings
            .into_iter()
            .map(|it| (it.level, it.first_line, it.last_line, it.title))
            .collect()
    }

    #[test]
    fn headings_are_found_where_markdown_sees_them() {
        let text = "# A `b` *c*\n\nSetext\nTwo lines\n---\n```\n# no\n```\n> # quoted\n\n    # code\n\n## D ##\n#no";
        assert_eq!(
            titles(text),
            [
                (1, 1, 1, "A b c".to_owned()),
                (2, 3, 5, "Setext Two lines".to_owned()),
                (2, 13, 13, "D".to_owned()),
            ]
        );
        assert_eq!(titles("\u{feff}# Bom\n"), [(1, 1, 1, "Bom".to_owned())]);
    }

    #[test]
    fn a_heading_of_any_length_has_a_short_title() {
        for filler in ["a", "─", "日", "👨‍👩‍👧"] {
            let title = &titles(&format!("# {}", filler.repeat(5000)))[0].3;
            assert!(title.len() <= MAX_TITLE && title.len() > MAX_TITLE - 8);
        }
    }

    #[test]
    fn a_block_is_cut_only_where_it_may_be() {
        let text = "para\ntwo\n\n```\na\n\nb\n```\n- x\n  y\n- z\n\n| a |\n|---|\n| 1 |\n| 2 |\n";
        let outline = Outline::markdown(text, 0);
        let cuts: Vec<Cut> = (1..=outline.lines.count()).map(|it| outline.cut(it)).collect();
        use Cut::{Block, Item, Line, Never};
        assert_eq!(
            cuts,
            [
                Block, Line, Line, Block, Never, Never, Never, Never, Block, Line, Item, Line,
                Block, Never, Line, Line
            ]
        );
    }

    #[test]
    fn deep_nesting_costs_no_more_than_its_length() {
        let deep = "> ".repeat(100_000) + "a\n" + &"lazy\n".repeat(100_000);
        let stairs: String = (0..1500).map(|it| format!("{}- a\n", "  ".repeat(it))).collect();
        for text in [deep, stairs + &"lazy\n".repeat(100_000)] {
            let begun = clock::now();
            let outline = Outline::markdown(&text, 0);
            assert!(outline.lines.count() > 100_000);
            assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
        }
        assert!(matches!(tamed("> - 1. a\n- b"), Cow::Borrowed(_)));
    }
}

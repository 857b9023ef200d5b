//! Which relation a link stands in.
//!
//! Pure. Takes the links of a body, fills in the key of `key:: [[…]]` (a whole line, behind list
//! and quote marks) and of `[key:: [[…]]]` and `(key:: [[…]])` inside a line, as Dataview writes
//! them.
//!
//! **Invariant:** each line is walked once, however many links and brackets it holds.

use std::ops::Range;

use crate::vault::lines::Lines;
use crate::vault::link::{Link, LinkKind};

/// The longest key, in bytes.
const MAX_KEY: usize = 64;

/// Gives the links their relations; they are sorted by position.
pub fn assign(text: &str, lines: &Lines, opaque: &[Range<usize>], links: &mut [Link]) {
    for on_line in links.chunk_by_mut(|a, b| a.line == b.line) {
        let Some(first) = on_line.first() else { continue };
        let range = lines.range(text, first.line as usize);
        if text[range.clone()].contains("::") {
            assign_line(text, range, opaque, on_line);
        }
    }
}

fn assign_line(text: &str, line: Range<usize>, opaque: &[Range<usize>], links: &mut [Link]) {
    let whole_line = line_key(&text[line.clone()]).map(|(key, at)| (key, line.start + at));
    let bytes = text.as_bytes();
    // The brackets that are open, and of those that became a field their keys.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut fields: Vec<&str> = Vec::new();
    let mut links = links.iter_mut().peekable();
    let mut opaque = opaque[opaque.partition_point(|it| it.end <= line.start)..].iter().peekable();
    let mut at = line.start;
    while at < line.end {
        while opaque.next_if(|it| it.end <= at).is_some() {}
        if let Some(hidden) = opaque.peek()
            && hidden.start <= at
        {
            at = hidden.end;
            continue;
        }
        let mut skip_to = None;
        while let Some(link) = links.next_if(|it| it.span.start <= at) {
            let of_line = whole_line.filter(|(_, colons)| *colons < at).map(|(key, _)| key);
            link.relation = fields.last().copied().or(of_line).map(str::to_owned);
            if link.kind != LinkKind::Markdown {
                skip_to = Some(link.span.end);
            }
        }
        if let Some(end) = skip_to {
            at = end;
            continue;
        }
        match bytes[at] {
            b'[' | b'(' => open.push((at, false)),
            b']' | b')' => {
                if let Some((_, true)) = open.pop() {
                    fields.pop();
                }
            }
            b':' if bytes[at..line.end].starts_with(b"::") => {
                if let Some((start, is_field)) = open.last_mut()
                    && !*is_field
                    && at - *start <= MAX_KEY
                    && let Some(key) = text.get(*start + 1..at).and_then(key_in)
                {
                    *is_field = true;
                    fields.push(key);
                }
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
}

/// The key that a line begins with and where its colons stand.
fn line_key(line: &str) -> Option<(&str, usize)> {
    let colons = line.find("::")?;
    if !line[colons + 2..].starts_with(|it: char| it.is_whitespace() || "[!(\"'".contains(it)) {
        return None;
    }
    let mut key = &line[..colons];
    while let Some(rest) = strip_mark(key) {
        key = rest;
    }
    (key.len() <= MAX_KEY).then(|| key_in(key)).flatten().map(|key| (key, colons))
}

/// The rest behind indentation and one list, quote or task mark.
fn strip_mark(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    if trimmed.len() < line.len() {
        return Some(trimmed);
    }
    if let Some(rest) = line.strip_prefix('>') {
        return Some(rest);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    ["- ", "* ", "+ ", "[ ] ", "[x] ", "[X] "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
        .or_else(|| [". ", ") "].iter().find_map(|it| line[digits..].strip_prefix(it)))
        .filter(|rest| rest.len() < line.len())
}

/// The key in what stands before the colons, without emphasis.
fn key_in(text: &str) -> Option<&str> {
    let key = text.trim().trim_matches(['*', '_', '~']).trim();
    let odd = |it: char| "[](){}<>|:`\"#".contains(it) || it.is_control();
    (!key.is_empty() && !key.contains(odd)).then_some(key)
}

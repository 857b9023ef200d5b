//! The YAML block at the head of a note.
//!
//! Pure. Takes the note's decoded text, gives where the block lies ([`split`]) and what it says
//! ([`parse`]). The only splitter in the house: index, links, mount and whoever edits a key ask
//! it, so that no reader takes for body what another takes for metadata.
//!
//! What is a block, and what is not:
//!
//! | the text begins with | outcome |
//! |---|---|
//! | `---`, keys, `---` | a block; the body begins on the next line |
//! | a byte-order mark, then `---` | the same; the mark belongs to neither |
//! | `--- ` (spaces or tabs after the dashes), on open or close | the same |
//! | CRLF line ends | the same |
//! | `---`, keys, `---` at the end of the file | a block with an empty body; the block is the text |
//! | `---`, `---` | an empty block |
//! | `---`, only comments or blank lines, `---` | a block without keys |
//! | a blank line, then `---` | none: all of it is body |
//! | ` ---` (indented) or `----` | none; nor does either close a block |
//! | `---` without a closing `---` in the first 64 KiB | none, and a problem where keys follow |
//! | `---`, text without one `key:` line, `---` | none: prose between two rules |
//! | a block, then another block | the second one is body |
//! | a block, then `---` as a rule or inside a code fence | those are body |
//!
//! A key that stands twice: the last one counts, the others keep their types, and a problem names
//! the line. YAML that does not parse: the keys that parse alone are kept with their types, the
//! others as the text of their line, and a problem names the line.
//!
//! **Invariant:** no input panics, hangs or expands beyond a fixed budget.

pub mod edit;
mod value;

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;

use serde::de::DeserializeSeed as _;

use crate::vault::lines::line_end;
use value::{Seed, Value};

/// The most bytes a block may have; more is body.
pub const MAX_BYTES: usize = 64 * 1024;
/// The most values a block may hold after aliases are expanded.
const MAX_VALUES: usize = 20_000;
/// The most bytes all of its strings may have after aliases are expanded.
const MAX_EXPANDED: usize = 1024 * 1024;
/// The deepest nesting of brackets handed to the YAML parser.
const MAX_DEPTH: usize = 100;

/// The most problems that one block names.
const MAX_PROBLEMS: usize = 20;

/// Where the block lies in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The YAML between the fences, in bytes; its first line is the line after the fence.
    pub yaml: Range<usize>,
    /// The 1-based line on which the YAML begins.
    pub yaml_line: u32,
    /// Where the body begins, in bytes.
    pub body: usize,
    /// The 1-based line on which the body begins, also where the body is empty.
    pub body_line: u32,
}

/// Finds the block; see the table above.
pub fn split(text: &str) -> Option<Block> {
    let end = line_end(text);
    let mut at = bom_length(text);
    let mut yaml_start = None;
    let mut line_number = 0u32;
    while at < text.len() {
        let window = text.as_bytes()[at..].iter().take(MAX_BYTES + 1);
        let length = window.clone().position(|it| *it == end).map_or(window.len(), |it| it + 1);
        let next = at + length;
        line_number += 1;
        let fence = is_fence(&text.as_bytes()[at..next]);
        match yaml_start {
            None if fence => yaml_start = Some(next),
            None => return None,
            Some(start) if fence => {
                let block =
                    Block { yaml: start..at, yaml_line: 2, body: next, body_line: line_number + 1 };
                return is_mapping_or_empty(&text[start..at]).then_some(block);
            }
            Some(start) if next - start > MAX_BYTES => return None,
            Some(_) => {}
        }
        at = next;
    }
    None
}

/// Whether a note begins as if it had a block, though [`split`] finds none.
pub fn is_unclosed(text: &str) -> bool {
    let head = &text.as_bytes()[bom_length(text)..];
    let end = line_end(text);
    let mut lines = head.splitn(3, |it| *it == end);
    lines.next().is_some_and(is_fence)
        && lines.next().and_then(|it| std::str::from_utf8(it).ok()).is_some_and(|it| {
            key_of(it.trim_end()).is_some_and(|(key, _)| !key.contains(char::is_whitespace))
        })
}

/// The bytes that a byte-order mark takes.
pub fn bom_length(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

fn is_fence(line: &[u8]) -> bool {
    line.trim_ascii_end() == b"---"
}

fn is_mapping_or_empty(yaml: &str) -> bool {
    let mut empty = true;
    for line in yaml.split(['\n', '\r']) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if trimmed.starts_with('{') || key_of(line.trim_end()).is_some() {
            return true;
        }
        empty = false;
    }
    empty
}

/// The key and the rest of a line that starts a top-level entry.
pub(in crate::vault) fn key_of(line: &str) -> Option<(&str, &str)> {
    let first = line.chars().next()?;
    if first.is_whitespace() || first == '#' || line.starts_with("- ") {
        return None;
    }
    let after_quoted = match first {
        '"' | '\'' => 1 + line[1..].find(first)?,
        _ => 0,
    };
    let colon = line[after_quoted..]
        .match_indices(':')
        .map(|(at, _)| after_quoted + at)
        .find(|at| matches!(line.as_bytes().get(at + 1), None | Some(b' ' | b'\t')))?;
    let key = line[..colon].trim().trim_matches(['"', '\'']);
    (!key.is_empty()).then(|| (key, line[colon + 1..].trim()))
}

/// What the block says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Frontmatter {
    entries: Vec<(String, Value)>,
    /// What could not be read as it stands, each with its line in the file.
    pub problems: Vec<String>,
}

impl Frontmatter {
    /// The value of `key` as text: a string, number, date or boolean as written.
    ///
    /// Keys are compared without ASCII case, as Obsidian does; the last one counts.
    pub fn string(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            Value::Text(text) | Value::Number(text) if !text.trim().is_empty() => Some(text.trim()),
            _ => None,
        }
    }

    /// The value of `key` as a list: its items, or one string cut at `separators`.
    pub fn list(&self, key: &str, separators: &[char]) -> Vec<&str> {
        let mut items = Vec::new();
        match self.value(key) {
            Some(Value::Text(text) | Value::Number(text)) => items.extend(text.split(separators)),
            Some(value) => value.scalars(&mut items),
            None => {}
        }
        items.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect()
    }

    /// Every scalar of the keys not in `known`, in the order of the file: what else the block says.
    pub fn other_scalars(&self, known: &[&str]) -> Vec<&str> {
        let mut items = Vec::new();
        for (key, value) in &self.entries {
            if !known.iter().any(|it| it.eq_ignore_ascii_case(key)) {
                value.scalars(&mut items);
            }
        }
        items.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect()
    }

    /// The keys in the order of the file, a doubled one twice.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    fn value(&self, key: &str) -> Option<&Value> {
        let same = |it: &&(String, Value)| it.0.eq_ignore_ascii_case(key);
        self.entries.iter().rev().find(same).map(|(_, value)| value)
    }
}

/// Reads the YAML of a block whose first line is `first_line` of the file.
pub fn parse(yaml: &str, first_line: u32) -> Frontmatter {
    if yaml.lines().all(|it| it.trim().is_empty() || it.trim_start().starts_with('#')) {
        return Frontmatter::default();
    }
    let sources = entries(yaml);
    let mut frontmatter = match read(yaml) {
        Ok(Value::Map(entries)) => Frontmatter { entries, problems: Vec::new() },
        Ok(_) => Frontmatter {
            entries: Vec::new(),
            problems: vec![format!("line {first_line}: frontmatter is not a list of keys")],
        },
        Err((line, why)) => {
            let line = first_line as usize + line.saturating_sub(1);
            Frontmatter {
                entries: sources.iter().map(recover).collect(),
                problems: vec![format!("line {line}: frontmatter is not valid YAML ({why})")],
            }
        }
    };
    restore_numbers(&mut frontmatter.entries, &sources);
    let mut seen = HashSet::new();
    for source in &sources {
        if !seen.insert(source.key) && frontmatter.problems.len() < MAX_PROBLEMS {
            let line = first_line as usize + source.line;
            frontmatter.problems.push(format!(
                "line {line}: key `{}` stands twice, the last one counts",
                source.key
            ));
        }
    }
    frontmatter
}

/// Parses with every budget set; the error is the 1-based line in `yaml` and the reason.
fn read(yaml: &str) -> Result<Value, (usize, String)> {
    if yaml.len() > MAX_BYTES {
        return Err((1, "longer than 64 KiB".into()));
    }
    if let Some(line) = too_deep(yaml) {
        return Err((line, "nested too deeply".into()));
    }
    let (values, bytes) = (Cell::new(MAX_VALUES), Cell::new(MAX_EXPANDED));
    let seed = Seed { values: &values, bytes: &bytes };
    seed.deserialize(serde_yaml::Deserializer::from_str(yaml)).map_err(|error| {
        let line = error.location().map_or(1, |it| it.line());
        let text = error.to_string();
        (line, text.split(" at line ").next().unwrap_or(&text).to_owned())
    })
}

/// The line on which brackets nest deeper than the parser should be asked to follow: its cost
/// grows with the depth times the length.
fn too_deep(yaml: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (line, text) in yaml.lines().enumerate() {
        for byte in text.bytes() {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_DEPTH {
                return Some(line + 1);
            }
        }
    }
    None
}

/// One top-level entry as it stands in the text.
struct Source<'a> {
    /// Lines before it in the block.
    line: usize,
    /// Bytes before it in the block.
    at: usize,
    key: &'a str,
    /// What follows the colon on the key's line.
    rest: &'a str,
    /// Where that begins in its text.
    rest_at: usize,
    /// All of its lines.
    text: &'a str,
}

/// Cuts a block into its top-level entries without understanding them.
fn entries(yaml: &str) -> Vec<Source<'_>> {
    let end = char::from(line_end(yaml));
    let mut found: Vec<Source<'_>> = Vec::new();
    let mut at = 0;
    for (line, source) in yaml.split_inclusive(end).enumerate() {
        let bare = source.trim_end();
        if let Some((key, rest)) = key_of(bare) {
            let rest_at = bare.len() - rest.len();
            found.push(Source { line, at, key, rest, rest_at, text: &yaml[at..] });
        }
        at += source.len();
    }
    for index in 1..found.len() {
        let length = found[index].at - found[index - 1].at;
        found[index - 1].text = &found[index - 1].text[..length];
    }
    found
}

/// Reads one entry of a block that does not parse as a whole: typed where it parses alone, as
/// the text of its lines where it does not.
fn recover(source: &Source<'_>) -> (String, Value) {
    if let Ok(Value::Map(mut entries)) = read(source.text)
        && entries.len() == 1
        && let Some(entry) = entries.pop()
    {
        return entry;
    }
    let unquoted = |text: &str| text.trim().trim_matches(['"', '\'']).trim().to_owned();
    let below = source.text.lines().skip(1).map(str::trim);
    let items: Vec<Value> = below
        .clone()
        .filter_map(|it| it.strip_prefix("- "))
        .map(|it| Value::Text(unquoted(it)))
        .collect();
    let value = if let Some(inner) = source.rest.strip_prefix('[') {
        let inner = inner.trim_end().trim_end_matches(']');
        Value::List(inner.split(',').map(|it| Value::Text(unquoted(it))).collect())
    } else if source.rest.is_empty() && !items.is_empty() {
        Value::List(items)
    } else if matches!(source.rest.as_bytes().first(), None | Some(b'|' | b'>')) {
        Value::Text(below.collect::<Vec<_>>().join(" "))
    } else {
        Value::Text(unquoted(source.rest))
    };
    (source.key.to_owned(), value)
}

/// Puts back how numbers are written: `1.10` is a version, not 1.1.
fn restore_numbers(entries: &mut [(String, Value)], sources: &[Source<'_>]) {
    if entries.len() != sources.len() {
        return;
    }
    for ((key, value), source) in entries.iter_mut().zip(sources) {
        if let Value::Number(number) = value
            && key == source.key
        {
            let bare = source.rest.split(" #").next().unwrap_or(source.rest).trim();
            if bare.bytes().next().is_some_and(|it| it.is_ascii_digit() || b"+-.".contains(&it)) {
                bare.clone_into(number);
            }
        }
    }
}

#[cfg(test)]
mod tests;

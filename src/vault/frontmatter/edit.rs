//! Sets one key of a note's frontmatter, by span.
//!
//! Pure. Takes the bytes of a note, a key and a value, gives the bytes with that key set: the
//! lines of its value change and no others, so that the byte-order mark, the line ends, the order
//! of the keys, comments and quotes stay as they are. Never a re-dump.
//!
//! What cannot be done so is refused, with the reason: a block that does not parse (a second block
//! on top would shadow it), one that is never closed, one whose keys do not stand on lines of
//! their own, a file that is not UTF-8.
//!
//! **Invariant:** the new bytes, read again, have the key with this value, every other key as
//! before and the same body; otherwise there are no new bytes.

use std::ops::Range;

use super::value::Value;
use super::{Source, bom_length, entries, is_unclosed, read, split};
use crate::vault::lines::line_end;
use crate::vault::link::Scalars;
use crate::vault::role::is_date;

/// What a key is set to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewValue {
    /// A string; written so that it reads as one (a day stays a day), quoted where it has to be.
    Text(String),
    /// Strings, on one line.
    List(Vec<String>),
}

/// Why a key was not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotEdit {
    #[error("Line {line} of the frontmatter is not valid YAML ({why})")]
    Yaml { line: usize, why: String },
    #[error("The frontmatter has no closing `---`")]
    Unclosed,
    #[error("The frontmatter is not a list of `key: value` lines")]
    Shape,
    #[error("The note is not UTF-8 text")]
    NotUtf8,
    #[error("`{key}` cannot be the key of a frontmatter line")]
    Key { key: String },
    /// An anchor on the old value, a block too long…
    #[error("Another value for `{key}` would change what else the note says")]
    Context { key: String },
}

impl CannotEdit {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Yaml { .. } => "Put quotes around the value on that line.",
            Self::Unclosed => "Add a line `---` behind the last key.",
            Self::Shape => "Write each key on a line of its own.",
            Self::NotUtf8 => "Save the note as UTF-8.",
            Self::Key { .. } => "Choose a word of letters, digits, `_` and `-`.",
            Self::Context { .. } => "Change it by hand.",
        }
    }
}

/// The note with `key` set to `value`. Where the key stands already (without ASCII case, the last
/// one counts, as for readers), its value is replaced; else it becomes the last line of the block,
/// which is made where there is none.
pub fn set(note: &[u8], key: &str, value: &NewValue) -> Result<Vec<u8>, CannotEdit> {
    let text = std::str::from_utf8(note).map_err(|_| CannotEdit::NotUtf8)?;
    let written = written(value);
    let Some(block) = split(text) else {
        if is_unclosed(text) {
            return Err(CannotEdit::Unclosed);
        }
        let end = end_of_lines(text);
        let head = format!("---{end}{}{end}---{end}", new_line(key, &written)?);
        let at = bom_length(text);
        return finish(text, at..at, &head, key, value);
    };
    let yaml = &text[block.yaml.clone()];
    let sources = checked_entries(yaml, block.yaml_line)?;
    let Some(source) = sources.iter().rev().find(|it| it.key.eq_ignore_ascii_case(key)) else {
        let line = format!("{}{}", new_line(key, &written)?, end_of_lines(text));
        return finish(text, block.yaml.end..block.yaml.end, &line, key, value);
    };
    let place = value_place(source);
    let space = if source.text[..place.start].ends_with([' ', '\t']) { "" } else { " " };
    let start = block.yaml.start + source.at;
    let place = start + place.start..start + place.end;
    finish(text, place, &format!("{space}{written}"), key, value)
}

/// The note without `key`; the same bytes where it has none.
pub fn remove(note: &[u8], key: &str) -> Result<Vec<u8>, CannotEdit> {
    let text = std::str::from_utf8(note).map_err(|_| CannotEdit::NotUtf8)?;
    let Some(block) = split(text) else {
        return if is_unclosed(text) { Err(CannotEdit::Unclosed) } else { Ok(note.to_vec()) };
    };
    let yaml = &text[block.yaml.clone()];
    let sources = checked_entries(yaml, block.yaml_line)?;
    let mut new = text.to_owned();
    for source in sources.iter().rev().filter(|it| it.key.eq_ignore_ascii_case(key)) {
        let start = block.yaml.start + source.at;
        let length = source.text[..lines_end(source)].len();
        let length = length + line_end_length(&source.text[length..]);
        new.replace_range(start..start + length, "");
    }
    let kept = others(text, key);
    if split(&new).is_none_or(|it| new[it.body..] != text[block.body..])
        || others(&new, key) != kept
    {
        return Err(CannotEdit::Context { key: key.to_owned() });
    }
    Ok(new.into_bytes())
}

/// The top-level entries of a block that parses and whose keys stand on lines of their own.
fn checked_entries(yaml: &str, first_line: u32) -> Result<Vec<Source<'_>>, CannotEdit> {
    let sources = entries(yaml);
    let is_empty = yaml.lines().all(|it| it.trim().is_empty() || it.trim().starts_with('#'));
    let parsed = match read(yaml) {
        _ if is_empty => Vec::new(),
        Ok(Value::Map(parsed)) => parsed,
        Ok(_) => return Err(CannotEdit::Shape),
        Err((line, why)) => {
            return Err(CannotEdit::Yaml {
                line: first_line as usize + line.saturating_sub(1),
                why,
            });
        }
    };
    let same = parsed.len() == sources.len()
        && parsed.iter().zip(&sources).all(|((key, _), source)| key == source.key);
    if same { Ok(sources) } else { Err(CannotEdit::Shape) }
}

/// Where the value of an entry stands in its text: from behind the colon's space to the end of its
/// last line; a comment behind a value of one line stays.
fn value_place(source: &Source<'_>) -> Range<usize> {
    let start = source.rest_at;
    let end = lines_end(source);
    let first_line = source.text[..end].find(['\n', '\r']).unwrap_or(end);
    if first_line < end {
        return start..end;
    }
    let line = &source.text[..end];
    let value = line[..Scalars::of(line).end().max(start)].trim_end().len();
    start.min(value.max(start))..value.max(start)
}

/// Where the last line of an entry ends that is no blank line and no comment at the margin: those
/// belong to whatever follows.
fn lines_end(source: &Source<'_>) -> usize {
    let end = char::from(line_end(source.text));
    let (mut at, mut last) = (0, 0);
    for (number, line) in source.text.split_inclusive(end).enumerate() {
        let bare = line.trim_end();
        if number == 0 || !(bare.is_empty() || bare.starts_with('#')) {
            last = at + bare.len();
        }
        at += line.len();
    }
    last
}

fn line_end_length(rest: &str) -> usize {
    let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let ends = ["\r\n", "\n", "\r"];
    spaces + ends.iter().find(|it| rest[spaces..].starts_with(**it)).map_or(0, |it| it.len())
}

/// How the note ends its lines.
fn end_of_lines(text: &str) -> &'static str {
    match (line_end(text), text.find('\n')) {
        (b'\r', _) => "\r",
        (_, Some(at)) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

fn new_line(key: &str, written: &str) -> Result<String, CannotEdit> {
    let plain = key.starts_with(|it: char| it.is_alphabetic() || it == '_')
        && key.chars().all(|it| it.is_alphanumeric() || it == '_' || it == '-');
    match plain && !is_keyword(key) {
        true => Ok(format!("{key}: {written}")),
        false => Err(CannotEdit::Key { key: key.to_owned() }),
    }
}

/// Puts `new` in the place of `place` and checks what has become of the note.
fn finish(
    text: &str,
    place: Range<usize>,
    new: &str,
    key: &str,
    value: &NewValue,
) -> Result<Vec<u8>, CannotEdit> {
    let edited = [&text[..place.start], new, &text[place.end..]].concat();
    let body = split(text).map_or(bom_length(text), |it| it.body);
    let kept = others(text, key);
    let is_so = split(&edited).is_some_and(|block| {
        edited[block.body..] == text[body..]
            && last(&edited, key).is_some_and(|it| says(&it, value))
            && others(&edited, key) == kept
    });
    match is_so {
        true => Ok(edited.into_bytes()),
        false => Err(CannotEdit::Context { key: key.to_owned() }),
    }
}

fn map(text: &str) -> Option<Vec<(String, Value)>> {
    let yaml = &text[split(text)?.yaml];
    match read(yaml) {
        Ok(Value::Map(entries)) => Some(entries),
        _ => None,
    }
}

/// The value that readers see; `None` also where the block does not parse.
fn last(text: &str, key: &str) -> Option<Value> {
    let mut entries = map(text)?;
    entries.retain(|it| it.0.eq_ignore_ascii_case(key));
    entries.pop().map(|it| it.1)
}

fn others(text: &str, key: &str) -> Vec<(String, Value)> {
    let mut entries = map(text).unwrap_or_default();
    entries.retain(|it| !it.0.eq_ignore_ascii_case(key));
    entries
}

fn says(found: &Value, wanted: &NewValue) -> bool {
    match (found, wanted) {
        (Value::Text(found), NewValue::Text(wanted)) => found == wanted,
        (Value::List(found), NewValue::List(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|it| matches!(it, (Value::Text(a), b) if a == b))
        }
        _ => false,
    }
}

fn written(value: &NewValue) -> String {
    match value {
        NewValue::Text(text) => scalar(text),
        NewValue::List(items) => {
            let items: Vec<String> = items.iter().map(|it| scalar(it)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// A string as YAML: plain where every reader takes it for that string, else in double quotes.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(char::is_alphabetic)
        && !text.ends_with(' ')
        && text.chars().all(|it| it.is_alphanumeric() || " _-./".contains(it))
        && !is_keyword(text);
    if plain || is_date(text.as_bytes()) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            it if it.is_control() || matches!(it, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out.push_str(&format!("\\u{:04x}", u32::from(it)));
            }
            '\u{fffe}' | '\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(char))),
            it => out.push(it),
        }
    }
    out.push('"');
    out
}

/// What some YAML reader takes for something other than a word.
fn is_keyword(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    WORDS.iter().any(|it| it.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> NewValue {
        NewValue::Text(value.to_owned())
    }

    fn check(note: &str, key: &str, value: &NewValue, expected: &str) {
        let new = set(note.as_bytes(), key, value).unwrap();
        assert_eq!(String::from_utf8(new).unwrap(), expected, "{note:?}");
    }

    /// A06: one changed line; CRLF and the byte-order mark stay.
    #[test]
    fn one_key_is_one_line() {
        check(
            "---\r\ntitle: Crlf\r\ntags: [x]\r\n---\r\nbody\r\n",
            "title",
            &text("New one"),
            "---\r\ntitle: New one\r\ntags: [x]\r\n---\r\nbody\r\n",
        );
        check(
            "---\r\ntitle: Crlf\r\n---\r\nbody\r\n",
            "summary",
            &text("s"),
            "---\r\ntitle: Crlf\r\nsummary: s\r\n---\r\nbody\r\n",
        );
        check(
            "\u{feff}---\ntitle: Bom\n---\nbody\n",
            "title",
            &text("x: y"),
            "\u{feff}---\ntitle: \"x: y\"\n---\nbody\n",
        );
        check("\u{feff}body\r\n", "a", &text("b"), "\u{feff}---\r\na: b\r\n---\r\nbody\r\n");
        check("old\rmac\r", "a", &text("b"), "---\ra: b\r---\rold\rmac\r");
        check("", "a", &text("b"), "---\na: b\n---\n");
        check("---\n---", "a", &text("b"), "---\na: b\n---");
        check("---\n# c\n---\nx", "a", &text("b"), "---\n# c\na: b\n---\nx");
        check("---\n\nProse.\n", "a", &text("b"), "---\na: b\n---\n---\n\nProse.\n");
    }

    #[test]
    fn what_stands_around_a_value_stays() {
        check(
            "---\na:   one # why\nb: 2\n---\n",
            "a",
            &text("two"),
            "---\na:   two # why\nb: 2\n---\n",
        );
        check("---\na: \"x # y\" # z\n---\n", "a", &text("b"), "---\na: b # z\n---\n");
        check(
            "---\na:\n  - x\n  - y\n\n# b is next\nb: 1\n---\n",
            "A",
            &NewValue::List(vec!["q r".into(), "5".into()]),
            "---\na: [q r, \"5\"]\n\n# b is next\nb: 1\n---\n",
        );
        check("---\na:\nb: 1\n---\n", "a", &text("x"), "---\na: x\nb: 1\n---\n");
        check("---\na: |\n  one\n  # two\nb: 1\n---\n", "a", &text("x"), "---\na: x\nb: 1\n---\n");
        check(
            "---\nb: 1.10\na: 1\na: 2\n---\n",
            "a",
            &text("x"),
            "---\nb: 1.10\na: 1\na: x\n---\n",
        );
        check("---\ndate: x\n---\n", "date", &text("2026-06-29"), "---\ndate: 2026-06-29\n---\n");
        for word in [
            "true",
            "No",
            "12",
            "",
            " a",
            "a ",
            "- a",
            "[[x]]",
            "#t",
            "a\nb",
            "\u{7f}",
            "~",
            "@x",
            "%x",
            "日本",
            "é: x",
            "\u{85}\u{2028}\u{feff}",
            "\u{1f525}",
        ] {
            let new = set(b"---\na: 1\n---\nbody", "a", &text(word)).unwrap();
            assert_eq!(
                last(std::str::from_utf8(&new).unwrap(), "a"),
                Some(Value::Text(word.to_owned()))
            );
        }
    }

    /// B02: no second block on top of one that does not parse.
    #[test]
    fn what_cannot_be_edited_by_span_is_refused() {
        let refused = |note: &[u8], key: &str| set(note, key, &text("v")).unwrap_err();
        let bad = b"---\nname: my-note\ndescription: explains: badly\n---\nbody";
        assert!(
            matches!(refused(bad, "permalink"), CannotEdit::Yaml { line: 3, .. }),
            "{:?}",
            refused(bad, "permalink")
        );
        assert!(
            refused(bad, "permalink")
                .to_string()
                .starts_with("Line 3 of the frontmatter is not valid YAML (")
        );
        assert!(matches!(remove(bad, "name"), Err(CannotEdit::Yaml { .. })));
        assert_eq!(refused(b"---\na: 1\nbody", "a"), CannotEdit::Unclosed);
        assert_eq!(refused(b"---\n{a: 1}\n---\n", "a"), CannotEdit::Shape);
        assert_eq!(refused(b"caf\xe9", "a"), CannotEdit::NotUtf8);
        assert_eq!(refused(b"\xff\xfeh\0i\0", "a"), CannotEdit::NotUtf8);
        for key in ["", "a b", "a:b", "#a", "true", "a\nb", "-a", "1"] {
            assert_eq!(refused(b"body", key), CannotEdit::Key { key: key.to_owned() });
        }
        let anchored = b"---\na: &x 1\nb: *x\n---\n";
        assert_eq!(refused(anchored, "a"), CannotEdit::Context { key: "a".to_owned() });
        let full = format!("---\na: {}\n---\n", "x".repeat(super::super::MAX_BYTES - 8));
        assert_eq!(refused(full.as_bytes(), "bb"), CannotEdit::Context { key: "bb".to_owned() });
    }

    #[test]
    fn a_key_goes_with_its_lines() {
        let gone = |note: &str, key: &str| {
            String::from_utf8(remove(note.as_bytes(), key).unwrap()).unwrap()
        };
        assert_eq!(
            gone("---\na:\n- x\n\n# of b\nb: 1\n---\nbody", "A"),
            "---\n\n# of b\nb: 1\n---\nbody"
        );
        assert_eq!(gone("---\r\na: 1\r\nb: 2\r\na: 3\r\n---\r\n", "a"), "---\r\nb: 2\r\n---\r\n");
        assert_eq!(gone("---\na: 1\n---", "a"), "---\n---");
        assert_eq!(gone("body", "a"), "body");
    }
}

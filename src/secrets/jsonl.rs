//! A log of JSON lines without what looks like a credential.
//!
//! Takes the lines of a session, gives them masked: in the texts of each line, and in the line as
//! it stands, as a name and its value are two texts. Pure.
//!
//! **Invariant:** a line that was JSON is JSON; only texts are changed, and only those with a
//! credential in them.

use std::borrow::Cow;
use std::ops::Range;

use crate::secrets::mask::{mask, token, widened};
use crate::secrets::scan::scan;

/// Masks each line.
pub fn mask_jsonl(lines: &str) -> Cow<'_, str> {
    let masked: Vec<Cow<'_, str>> = lines.split_inclusive('\n').map(mask_line).collect();
    match masked.iter().all(|it| matches!(it, Cow::Borrowed(_))) {
        true => Cow::Borrowed(lines),
        false => Cow::Owned(masked.concat()),
    }
}

fn mask_line(line: &str) -> Cow<'_, str> {
    let Some(texts) = texts(line) else { return mask(line).text };
    let in_line: Vec<(Range<usize>, &str)> = scan(b"", line.as_bytes())
        .into_iter()
        .map(|it| (widened(line, it.span.clone()), it.rule))
        .collect();
    let mut out = String::new();
    let mut at = 0;
    for span in texts {
        let inner = span.start + 1..span.end - 1;
        let hits = in_line.iter().filter(|(it, _)| it.start < inner.end && inner.start < it.end);
        let mut raw = line[span.clone()].to_owned();
        for (hit, rule) in hits {
            let hit = hit.start.max(inner.start)..hit.end.min(inner.end);
            let part = &line[hit.clone()];
            let replaced = raw.replace(part, &token(rule));
            raw = match serde_json::from_str::<String>(&replaced) {
                Ok(_) => replaced,
                // It was cut in the middle of an escape.
                Err(_) => format!("\"{}\"", token(rule)),
            };
        }
        if let Ok(text) = serde_json::from_str::<String>(&raw)
            && let Cow::Owned(masked) = mask(&text).text
        {
            raw = serde_json::Value::String(masked).to_string();
        }
        if raw != line[span.clone()] {
            out.push_str(&line[at..span.start]);
            out.push_str(&raw);
            at = span.end;
        }
    }
    match at {
        0 => Cow::Borrowed(line),
        _ => Cow::Owned(out + &line[at..]),
    }
}

/// Where the texts of a line of JSON are, quotes included; `None` where it is none.
fn texts(line: &str) -> Option<Vec<Range<usize>>> {
    serde_json::from_str::<serde::de::IgnoredAny>(line).ok()?;
    let mut texts = Vec::new();
    let mut start = None;
    let mut is_escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        match (byte, start) {
            (_, Some(_)) if is_escaped => is_escaped = false,
            (b'\\', Some(_)) => is_escaped = true,
            (b'"', Some(from)) => {
                texts.push(from..at + 1);
                start = None;
            }
            (b'"', None) => start = Some(at),
            _ => {}
        }
    }
    Some(texts)
}

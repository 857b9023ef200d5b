//! A text without what looks like a credential.
//!
//! Takes text that is to leave the machine or to be kept as a log, gives the same with each
//! credential replaced by the rule's name. Pure.
//!
//! **Invariant:** what is left of the text is as it was, byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use crate::secrets::scan::{Finding, scan};

/// A text that may go on, and what was taken out of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Masked<'a> {
    pub text: Cow<'a, str>,
    pub findings: Vec<Finding>,
}

/// Masks a piece of text. Of a private key a piece that has its begin or its end will do: it may
/// have been cut.
pub fn mask(text: &str) -> Masked<'_> {
    let findings = scan(b"", text.as_bytes());
    let mut spans: Vec<(Range<usize>, &str)> =
        findings.iter().map(|it| (widened(text, it.span.clone()), it.rule)).collect();
    spans.extend(cut_keys(text).map(|it| (it, "private-key")));
    spans.sort_by_key(|it| it.0.start);
    if spans.is_empty() {
        return Masked { text: Cow::Borrowed(text), findings };
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (span, rule) in spans {
        if span.start >= at {
            out.push_str(&text[at..span.start]);
            out.push_str(&token(rule));
        }
        at = at.max(span.end);
    }
    out.push_str(&text[at..]);
    Masked { text: Cow::Owned(out), findings }
}

/// What stands for a credential.
pub(super) fn token(rule: &str) -> String {
    format!("[masked {rule}]")
}

/// A rule counts bytes: whole characters.
pub(super) fn widened(text: &str, span: Range<usize>) -> Range<usize> {
    let (mut start, mut end) = (span.start.min(text.len()), span.end.min(text.len()));
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// The lines of a private key whose begin or end was cut off.
fn cut_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    const BEGIN: &str = "PRIVATE KEY-----";
    let before_end = text.find("-----END ").filter(|end| {
        let line = text[*end..].lines().next().unwrap_or_default();
        line.trim_end().ends_with(BEGIN) && !text[..*end].contains("-----BEGIN ")
    });
    let before_end = before_end.map(|end| {
        let start = lines_of_key(text[..end].lines().rev());
        end - start.min(end)..end
    });
    let after_begin = text.rfind("-----BEGIN ").and_then(|begin| {
        let line = text[begin..].lines().next().unwrap_or_default();
        let is_open = line.trim_end().ends_with(BEGIN) && !text[begin..].contains("-----END ");
        is_open.then(|| begin + line.len()..text.len())
    });
    let spans = [before_end, after_begin.filter(|it| it.len() > 20)];
    spans.into_iter().flatten().filter(|it| !it.is_empty()).map(|it| widened(text, it))
}

/// How many bytes of lines are base64 and nothing else.
fn lines_of_key<'a>(lines: impl Iterator<Item = &'a str>) -> usize {
    let is_key =
        |it: &&str| it.trim().bytes().all(|it| it.is_ascii_alphanumeric() || b"+/=".contains(&it));
    lines.take_while(is_key).map(|it| it.len() + 1).sum()
}

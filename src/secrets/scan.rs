//! Looks for credentials in a text.
//!
//! Takes a path and bytes, gives findings in the order of the text. Pure.
//!
//! **Invariant:** the time grows with the length of the bytes, whatever they are.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use crate::secrets::rules::{Found, GENERIC, Rule, Rules, rules};

/// So far a text is looked at for what tells binary content: as git does.
const PEEK: usize = 8_000;
/// In a film each short word of the rules is somewhere, and nearly all of them would be asked.
const MOST_BINARY: usize = 4 << 20;
/// So much of a line is looked at on each side.
const NEAR: usize = 1_000;

/// Something that looks like a credential.
#[derive(Clone, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static str,
    /// Counted from 1.
    pub line: usize,
    /// Where it is in the bytes; of a text in UTF-16, in its UTF-8.
    pub span: Range<usize>,
    /// How it may be shown: what the rule says of its beginning, and its length.
    pub masked: String,
    /// Of rule and credential. It stays in the process: a short password could be guessed by it.
    pub(super) digest: [u8; 32],
}

impl std::fmt::Debug for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {} {}", self.line, self.rule, self.masked)
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: `{}` {}", self.line, self.rule, self.masked)
    }
}

impl Finding {
    /// The same for the same credential found by the same rule. Never to be shown or kept: a short
    /// password could be guessed by it.
    pub fn identity(&self) -> [u8; 32] {
        self.digest
    }

    /// Whether both are the same credential, wherever they stand.
    pub fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// All that looks like a credential in a file of that path; of a binary one in its first
/// [`MOST_BINARY`] bytes.
pub fn scan(path: &[u8], bytes: &[u8]) -> Vec<Finding> {
    let mut text = as_utf8(bytes);
    let is_binary = matches!(text, Cow::Borrowed(_)) && peek(bytes).contains(&0);
    if is_binary {
        text = Cow::Borrowed(&bytes[..bytes.len().min(MOST_BINARY)]);
    }
    let rules = rules();
    let mut all: Vec<Finding> = Vec::new();
    for at in rules.asked(&text) {
        let rule = &rules.rules[at];
        if is_binary && rule.id == GENERIC
            || rule.path.as_ref().is_some_and(|it| !it.get().is_match(path))
        {
            continue;
        }
        ask(rules, rule, path, &text, &mut all);
    }
    one_each(&mut all);
    number(&mut all, &text);
    all
}

fn peek(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(PEEK)]
}

pub(super) fn ask(
    rules: &'static Rules,
    rule: &'static Rule,
    path: &[u8],
    text: &[u8],
    all: &mut Vec<Finding>,
) {
    for captures in rule.regex.get().captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        let named = rule.group.and_then(|it| captures.get(it));
        let first = || captures.iter().skip(1).flatten().find(|it| !it.is_empty());
        let secret = named.or_else(first).unwrap_or(whole);
        let line = line_around(text, secret.start());
        let found = Found {
            path,
            secret: secret.as_bytes(),
            whole: whole.as_bytes(),
            line: &text[line.clone()],
        };
        let is_one = (rule.entropy == 0.0 || entropy(found.secret) > rule.entropy)
            && (!rule.mixed || is_mixed(found.secret))
            && (rule.run == 0 || longest_run(found.secret) >= rule.run)
            && !rules.allow.allows(&found)
            && !rule.allow.iter().any(|it| it.allows(&found));
        if is_one {
            all.push(Finding {
                rule: &rule.id,
                line: 0,
                span: secret.range(),
                masked: masked(rule, found.secret),
                digest: digest(&rule.id, found.secret),
            });
        }
    }
}

/// Of findings that overlap the one of the more exact rule, then the longer one.
fn one_each(all: &mut Vec<Finding>) {
    let rank = |it: &Finding| (it.rule == GENERIC, std::cmp::Reverse(it.span.len()));
    all.sort_by_key(rank);
    let mut kept: BTreeMap<usize, Finding> = BTreeMap::new();
    for finding in all.drain(..) {
        let (start, end) = (finding.span.start, finding.span.end);
        let before = kept.range(..=start).next_back();
        let overlaps = before.is_some_and(|it| it.1.span.end > start || *it.0 == start)
            || kept.range(start..).next().is_some_and(|it| *it.0 < end);
        if !overlaps {
            kept.insert(start, finding);
        }
    }
    all.extend(kept.into_values());
}

/// Counts the lines, once through.
fn number(all: &mut [Finding], text: &[u8]) {
    let (mut line, mut at) = (1, 0);
    for finding in all {
        let start = finding.span.start;
        line += text[at..start].iter().filter(|it| **it == b'\n').count();
        (finding.line, at) = (line, start);
    }
}

/// The line that a place is in, of a long one what is near.
fn line_around(text: &[u8], at: usize) -> Range<usize> {
    let (first, last) = (at.saturating_sub(NEAR), (at + NEAR).min(text.len()));
    let start =
        text[first..at].iter().rposition(|it| *it == b'\n').map_or(first, |it| first + it + 1);
    let end = text[at..last].iter().position(|it| *it == b'\n').map_or(last, |it| at + it);
    start..end
}

/// Shannon's, in bits a byte.
pub(super) fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let all = bytes.len() as f64;
    let shares = counts.iter().filter(|it| **it > 0).map(|it| f64::from(*it) / all);
    -shares.map(|it| it * it.log2()).sum::<f64>()
}

/// Whether it has three of small letters, capitals, digits and signs.
fn is_mixed(bytes: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| usize::from(bytes.iter().any(is));
    let signs = has(|it| it.is_ascii_punctuation());
    has(u8::is_ascii_lowercase) + has(u8::is_ascii_uppercase) + has(u8::is_ascii_digit) + signs >= 3
}

/// The longest piece of base64.
fn longest_run(bytes: &[u8]) -> usize {
    let is_base64 = |it: &u8| it.is_ascii_alphanumeric() || b"+/=".contains(it);
    bytes.split(|it| !is_base64(it)).map(<[u8]>::len).max().unwrap_or(0)
}

/// What everybody knows of such a credential, and its length.
fn masked(rule: &Rule, secret: &[u8]) -> String {
    let begins = |word: &&String| {
        word.len() >= 3
            && secret.len() >= 2 * word.len()
            && secret[..word.len()].eq_ignore_ascii_case(word.as_bytes())
    };
    let known = rule.keywords.iter().filter(begins).max_by_key(|it| it.len());
    format!("{}… ({} characters)", known.map_or("", String::as_str), secret.len())
}

/// The line ends of another system make no other credential.
fn digest(rule: &str, secret: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new().chain_update(rule).chain_update([0]);
    for part in secret.split(|it| *it == b'\r') {
        hash.update(part);
    }
    hash.finalize().into()
}

/// A text in UTF-16 as UTF-8; anything else as it is.
fn as_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    let (units, is_little): (&[u8], bool) = match bytes {
        [0xff, 0xfe, rest @ ..] => (rest, true),
        [0xfe, 0xff, rest @ ..] => (rest, false),
        _ => match without_mark(bytes) {
            Some(is_little) => (bytes, is_little),
            None => return Cow::Borrowed(bytes),
        },
    };
    let units = units.chunks_exact(2).map(|it| match is_little {
        true => u16::from_le_bytes([it[0], it[1]]),
        false => u16::from_be_bytes([it[0], it[1]]),
    });
    let text = char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER));
    Cow::Owned(text.collect::<String>().into_bytes())
}

/// Whether text without a mark is UTF-16, and of which kind: every other byte of ASCII is zero.
fn without_mark(bytes: &[u8]) -> Option<bool> {
    let peek = &peek(bytes)[..peek(bytes).len() & !1];
    if peek.len() < 8 {
        return None;
    }
    let zeroes = |from: usize| peek.iter().skip(from).step_by(2).filter(|it| **it == 0).count();
    let (even, odd) = (zeroes(0), zeroes(1));
    let most = peek.len() / 2 * 7 / 10;
    match (even, odd) {
        (0, odd) if odd > most => Some(true),
        (even, 0) if even > most => Some(false),
        _ => None,
    }
}

//! Takes text apart into what a search can find.
//!
//! Pure. Takes text, gives pieces: words, whole identifiers with their parts, whole paths and
//! URLs with theirs, single characters and pairs of scripts that put no space between words.
//! Notes and queries are taken apart by the same rules, so that whatever stands in a note is
//! found by typing it.
//!
//! **Invariant:** every letter and digit of the text is in some piece, however long its run.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

/// What a piece is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A plain word.
    Word,
    /// A part of a longer piece: `socket` of `handleWebSocketReconnect`, `v0` of `v0.4.2`.
    Part,
    /// A word with parts, as it stands: `handleWebSocketReconnect`, `v0.4.2`, `path/to/file.rs`.
    Whole,
    /// A word with an apostrophe, as it stands: `don't`.
    Contraction,
    /// One character of a script without spaces; `alone` where its run has no other.
    Char { alone: bool },
    /// Two neighbours of a script without spaces.
    Pair,
}

/// A piece of the text: a range of [`Words::text`] and its place in the order of the finest ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    pub kind: Kind,
    pub range: Range<usize>,
    pub position: u32,
}

/// The pieces of a text, one after the other.
pub struct Words<'a> {
    text: Cow<'a, str>,
    at: usize,
    position: u32,
    after_char: bool,
    /// The pieces of the word being taken apart, last first.
    ready: Vec<Piece>,
}

/// A longer run without a space is taken apart slice by slice.
const LONGEST_RUN: usize = 2048;
/// An identifier with more parts than this is a hash or base64: only the whole is worth a piece.
const MOST_PARTS: usize = 12;
/// A term longer than this keeps its beginning and a hash of the rest.
const LONGEST_TERM: usize = 200;

impl<'a> Words<'a> {
    pub fn new(text: &'a str) -> Self {
        let text = if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(text.nfkc().collect())
        };
        Self { text, at: 0, position: 0, after_char: false, ready: Vec::new() }
    }

    /// The normalised text that the ranges are of.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The next piece; coarse ones come before their parts.
    pub fn next_piece(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.ready.pop() {
                return Some(piece);
            }
            if !self.fill() {
                return None;
            }
            self.ready.reverse();
        }
    }

    /// Takes the next run apart; `false` at the end of the text.
    fn fill(&mut self) -> bool {
        let text = std::mem::take(&mut self.text);
        let found = self.fill_from(&text);
        self.text = text;
        found
    }

    fn fill_from(&mut self, text: &str) -> bool {
        let rest = &text[self.at..];
        let Some(first) = rest.chars().next() else { return false };
        if is_unspaced(first) {
            self.take_char(text, first);
            return true;
        }
        self.after_char = false;
        if is_gap(first) {
            self.at += first.len_utf8();
            return true;
        }
        let length = rest
            .char_indices()
            .take_while(|(at, _)| *at <= LONGEST_RUN)
            .find(|(_, it)| is_gap(*it) || is_unspaced(*it))
            .map_or_else(|| slice_of(rest), |it| it.0);
        self.take_run(text, self.at..self.at + length);
        self.at += length;
        true
    }

    fn take_char(&mut self, text: &str, char: char) {
        let start = self.at;
        let end = start + char.len_utf8();
        let next = text[end..].chars().next().filter(|it| is_unspaced(*it));
        let alone = !self.after_char && next.is_none();
        if let Some(next) = next {
            self.push(Kind::Pair, start..end + next.len_utf8());
        }
        self.push(Kind::Char { alone }, start..end);
        self.position += 1;
        self.after_char = true;
        self.at = end;
    }

    /// A run without spaces: a word, or something with inner marks.
    fn take_run(&mut self, text: &str, run: Range<usize>) {
        let run = trimmed(text, run);
        let slice = &text[run.clone()];
        if !slice.chars().any(is_letter) {
            return;
        }
        if slice.chars().all(is_letter) {
            self.take_word(text, run, Kind::Word);
            return;
        }
        if let Some(stem) = contraction(slice) {
            self.push(Kind::Contraction, run.clone());
            self.take_word(text, run.start..run.start + stem, Kind::Word);
            return;
        }
        self.push(Kind::Whole, run.clone());
        for segment in split(text, run.clone(), |it| STRONG.contains(&it)) {
            let segment = trimmed(text, segment);
            let has_marks = text[segment.clone()].chars().any(|it| !is_letter(it));
            if segment != run && has_marks && text[segment.clone()].chars().any(is_letter) {
                self.push(Kind::Whole, segment.clone());
            }
            for word in split(text, segment, |it| !is_letter(it)) {
                self.take_word(text, word, Kind::Part);
            }
        }
    }

    /// A run of letters and digits: a word, or an identifier with humps.
    fn take_word(&mut self, text: &str, word: Range<usize>, kind: Kind) {
        let parts = humps(&text[word.clone()]);
        if parts.len() < 2 {
            self.push(kind, word);
            self.position += 1;
            return;
        }
        self.push(Kind::Whole, word.clone());
        for part in parts {
            self.push(Kind::Part, word.start + part.start..word.start + part.end);
            self.position += 1;
        }
    }

    fn push(&mut self, kind: Kind, range: Range<usize>) {
        self.ready.push(Piece { kind, range, position: self.position });
    }
}

/// Appends the form under which a piece is looked up: case folded, long ones shortened.
pub fn fold_into(piece: &str, out: &mut String) {
    let start = out.len();
    if piece.is_ascii() {
        out.extend(piece.chars().map(|it| it.to_ascii_lowercase()));
    } else {
        let plain = piece.chars().map(|it| match it {
            '\u{2019}' | '\u{2bc}' => '\'',
            it => it,
        });
        out.extend(caseless::Caseless::default_case_fold(plain));
    }
    if out.len() - start > LONGEST_TERM {
        let hash = fnv(&out.as_bytes()[start..]);
        let mut cut = start + LONGEST_TERM / 2;
        while !out.is_char_boundary(cut) {
            cut -= 1;
        }
        out.truncate(cut);
        out.push_str(&format!("\u{2026}{hash:016x}"));
    }
}

/// The same without accents: `café` as `cafe`, `Łódź` as `lodz`.
pub fn unaccented(folded: &str) -> Cow<'_, str> {
    if folded.is_ascii() {
        return Cow::Borrowed(folded);
    }
    let mut out = String::with_capacity(folded.len());
    for char in folded.nfd().filter(|it| !matches!(it, '\u{300}'..='\u{36f}')) {
        match char {
            'ø' => out.push('o'),
            'ł' => out.push('l'),
            'đ' | 'ð' => out.push('d'),
            'ı' => out.push('i'),
            'æ' => out.push_str("ae"),
            'œ' => out.push_str("oe"),
            'þ' => out.push_str("th"),
            it => out.push(it),
        }
    }
    // Kana and Hangul are put together again, as they stand in the text.
    Cow::Owned(out.nfc().collect())
}

/// The form under which a name is looked up as a whole: `Project-Plan.md` as `project plan`.
pub fn name_key(name: &str) -> String {
    let normal: String = name.nfkc().collect();
    let mut folded = String::new();
    for word in normal.split(|it: char| it.is_whitespace() || matches!(it, '-' | '_')) {
        if word.is_empty() {
            continue;
        }
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.extend(caseless::Caseless::default_case_fold(word.chars()));
    }
    for end in [".md", ".markdown"] {
        if let Some(stem) = folded.strip_suffix(end).filter(|it| !it.is_empty()) {
            folded.truncate(stem.len());
            break;
        }
    }
    let mut key = String::new();
    fold_into(&folded, &mut key);
    key
}

/// Marks that end a segment of a path, a URL or code; marks such as `.` and `-` do not.
const STRONG: [char; 18] =
    ['/', '\\', '?', '&', '=', ':', ',', ';', '(', ')', '[', ']', '{', '}', '<', '>', '"', '`'];

fn is_letter(char: char) -> bool {
    char.is_alphanumeric() || unicode_normalization::char::is_combining_mark(char)
}

fn is_gap(char: char) -> bool {
    char.is_whitespace()
        || char.is_control()
        || matches!(
            char,
            '|' | '\u{2013}' | '\u{2014}' | '\u{2026}' | '\u{2022}' | '\u{b7}' | '\u{ab}'
                | '\u{bb}' | '\u{201c}'..='\u{201f}' | '\u{200b}'..='\u{200f}' | '\u{feff}'
                | '\u{3000}'..='\u{3004}' | '\u{3008}'..='\u{3020}' | '\u{3030}' | '\u{30fb}'
        )
}

/// Scripts that put no space between words, and Hangul, whose particles stick to the word.
pub(super) fn is_unspaced(char: char) -> bool {
    matches!(
        char,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}'
            | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{3007}'
            | '\u{3021}'..='\u{302f}' | '\u{3031}'..='\u{3035}' | '\u{3041}'..='\u{30fa}' | '\u{30fc}'..='\u{312f}'
            | '\u{3131}'..='\u{318e}' | '\u{31a0}'..='\u{31bf}' | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}'
            | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// Where a run without a gap ends: with the text, or behind its last mark within the limit.
fn slice_of(rest: &str) -> usize {
    if rest.len() <= LONGEST_RUN {
        return rest.len();
    }
    let mut limit = LONGEST_RUN;
    while !rest.is_char_boundary(limit) {
        limit -= 1;
    }
    rest[..limit]
        .char_indices()
        .rfind(|(at, it)| *at > 0 && !is_letter(*it))
        .map_or(limit, |(at, it)| at + it.len_utf8())
}

/// Takes off what belongs to the sentence or to Markdown, not to the word. A leading `.`, `@`,
/// `#`, `-`, `/`, `$` before a letter stays (`.NET`, `@nasa`, `--flag`, `/etc`), and a trailing
/// `+`, `#`, `%` (`C++`, `C#`, `50%`).
fn trimmed(text: &str, run: Range<usize>) -> Range<usize> {
    let mut slice = &text[run.clone()];
    let mut start = run.start;
    loop {
        let mut chars = slice.chars();
        let Some(first) = chars.next() else { return start..start };
        let next = chars.next();
        let stays = is_letter(first)
            || match first {
                '.' | '@' | '#' | '/' | '$' | '\\' => next.is_some_and(is_letter),
                '-' => next.is_some_and(|it| is_letter(it) || it == '-'),
                _ => false,
            };
        if stays {
            break;
        }
        slice = &slice[first.len_utf8()..];
        start += first.len_utf8();
    }
    let end = slice.trim_end_matches(|it| !is_letter(it) && !matches!(it, '+' | '#' | '%')).len();
    start..start + end
}

/// The length of `don` in `don't`, `Ada` in `Ada's`; `None` for anything else.
fn contraction(slice: &str) -> Option<usize> {
    let (at, mark) = slice.char_indices().rfind(|it| !is_letter(it.1))?;
    let ending = &slice[at + mark.len_utf8()..];
    let stem = &slice[..at];
    (matches!(mark, '\'' | '\u{2019}' | '\u{2bc}')
        && (1..=2).contains(&ending.chars().count())
        && !stem.is_empty()
        && stem.chars().all(is_letter))
    .then_some(at)
}

fn split(
    text: &str,
    range: Range<usize>,
    at: impl Fn(char) -> bool,
) -> impl Iterator<Item = Range<usize>> {
    let base = range.start;
    let slice = &text[range];
    slice.split(at).filter(|it| !it.is_empty()).map(move |it| {
        let start = base + (it.as_ptr() as usize - slice.as_ptr() as usize);
        start..start + it.len()
    })
}

/// `handleHTTPRequest2` at its humps: handle, HTTP, Request, 2. Empty where there are none worth
/// a piece.
fn humps(word: &str) -> Vec<Range<usize>> {
    // Most words have no hump, and most of those are plain small letters.
    if word.bytes().all(|it| it.is_ascii_lowercase()) {
        return Vec::new();
    }
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let mut cuts = Vec::new();
    for at in 1..chars.len() {
        let (before, here) = (chars[at - 1].1, chars[at].1);
        let after = chars.get(at + 1).map(|it| it.1);
        let cut = (before.is_lowercase() && here.is_uppercase())
            || (before.is_uppercase()
                && here.is_uppercase()
                && after.is_some_and(char::is_lowercase))
            || before.is_numeric() != here.is_numeric();
        if cut {
            cuts.push(chars[at].0);
            if cuts.len() >= MOST_PARTS {
                return Vec::new();
            }
        }
    }
    if cuts.is_empty() || chars.len() < 2 * cuts.len() {
        return Vec::new();
    }
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([word.len()]);
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str) -> Vec<(String, Kind, u32)> {
        let mut words = Words::new(text);
        let mut found = Vec::new();
        while let Some(piece) = words.next_piece() {
            let mut folded = String::new();
            fold_into(&words.text()[piece.range.clone()], &mut folded);
            found.push((folded, piece.kind, piece.position));
        }
        found
    }

    fn check(text: &str, expected: &str) {
        let found: Vec<String> = pieces(text).into_iter().map(|it| it.0).collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn identifiers_are_found_whole_and_by_their_parts() {
        check("handleWebSocketReconnect", "handlewebsocketreconnect handle web socket reconnect");
        check("parseHTTPRequest2", "parsehttprequest2 parse http request 2");
        check("(ECONNREFUSED)", "econnrefused");
        check("snake_case kebab-case", "snake_case snake case kebab-case kebab case");
        check("v0.4.2,", "v0.4.2 v0 v 0 4 2");
        check("path/to/file.rs:42", "path/to/file.rs:42 path to file.rs file rs 42");
        check("C++, C#. (.NET)", "c++ c c# c .net net");
        check("C++/C#", "c++/c# c++ c c# c");
        check("@nasa #tag 50% a=b", "@nasa nasa #tag tag 50% 50 a=b a b");
        check("--error-on-warnings", "--error-on-warnings error on warnings");
        check("**bold**, [[Link]] `code`...", "bold link code");
        check("don't Ada\u{2019}s", "don't don ada's ada");
        check(r"e:\dir", r"e:\dir e dir");
        check(
            "https://wiki.x.org/a?b=c",
            "https://wiki.x.org/a?b=c https wiki.x.org wiki x org a b c",
        );
        check(
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        );
        check("\" >>> - * ** --- \u{1f525}", "");
    }

    #[test]
    fn parts_have_the_places_of_a_sentence() {
        let places: Vec<(String, u32)> =
            pieces("the webSocket works").into_iter().map(|it| (it.0, it.2)).collect();
        let expected = [("the", 0), ("websocket", 1), ("web", 1), ("socket", 2), ("works", 3)];
        assert_eq!(places, expected.map(|it| (it.0.to_owned(), it.1)));
    }

    #[test]
    fn scripts_without_spaces_give_characters_and_pairs() {
        check("東京都", "東京 東 京都 京 都");
        check("使用JWT令牌", "使用 使 用 jwt 令牌 令 牌");
        check("회의록을", "회의 회 의록 의 록을 록 을");
        assert_eq!(pieces("犬 x")[0].1, Kind::Char { alone: true });
        assert_eq!(pieces("ＡＢＣ１２３"), pieces("ABC123"));
        assert_eq!(pieces("cafe\u{301}"), pieces("caf\u{e9}"));
        assert_eq!(unaccented("café"), "cafe");
        assert_eq!(unaccented("が한"), "が한");
    }

    #[test]
    fn names_have_one_key() {
        for name in ["Project Plan", "project-plan", "project_plan.md", "PROJECT  PLAN.MD"] {
            assert_eq!(name_key(name), "project plan");
        }
        assert_eq!(name_key("cafe\u{301}"), name_key("caf\u{e9}"));
    }

    #[test]
    fn long_runs_are_kept_and_bounded() {
        for run in
            ["x".repeat(1 << 20), "aB1/".repeat(1 << 18), "─".repeat(4000), "日".repeat(5000)]
        {
            let found = pieces(&run);
            assert!(found.iter().all(|it| it.0.len() <= LONGEST_TERM), "{}", &run[..12]);
            assert_eq!(found, pieces(&run));
        }
        assert_eq!(pieces(&"x".repeat(5000)).len(), 3);
        assert_eq!(pieces(&"x".repeat(300)).len(), 1);
        assert_ne!(pieces(&"x".repeat(300))[0].0, pieces(&"x".repeat(301))[0].0);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_no_letter_is_lost(text in "\\PC{0,40}") {
            let mut words = Words::new(&text);
            let mut covered = vec![false; words.text().len()];
            while let Some(piece) = words.next_piece() {
                prop_assert!(words.text().get(piece.range.clone()).is_some());
                covered[piece.range].fill(true);
            }
            for (at, char) in words.text().char_indices() {
                prop_assert!(!char.is_alphanumeric() || covered[at], "{char} at {at}");
            }
        }
    }
}

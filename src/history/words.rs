//! A difference in words instead of lines.
//!
//! Pure. Takes a unified diff as [`super::Reader::diff_text`] gives it, gives its text with the words
//! that went and came marked.
//!
//! **Invariant:** what is not marked as come, and no mark, is the old text; what is not marked as
//! gone is the new one. Scripts that write no spaces are compared character by character.

use gix::diff::blob::{Algorithm, Diff, InternedInput};

/// What a piece of the text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// In both.
    Plain,
    Gone,
    Come,
    /// Names of files, modes.
    Head,
    /// Where a hunk lies.
    Place,
}

/// The pieces of a diff, in their order.
pub fn words(unified: &[u8]) -> Vec<(Ink, Vec<u8>)> {
    let mut out = Pieces::default();
    let mut block = Block::default();
    // Lines of the old and of the new file that the hunk still has.
    let mut left = (0, 0);
    for line in unified.split_inclusive(|it| *it == b'\n') {
        if left == (0, 0) || line.starts_with(b"\\") {
            block.flush(&mut out);
            match counts(line) {
                Some(counts) => {
                    left = counts;
                    out.push(Ink::Place, line);
                }
                // About the last line: there is no line end behind it.
                None if line.starts_with(b"\\") => {}
                None => out.push(Ink::Head, line),
            }
            continue;
        }
        let (kind, text) = line.split_first().map_or((b' ', line), |it| (*it.0, it.1));
        match kind {
            b'-' => {
                // What went after something came is a change of its own.
                if !block.new.is_empty() {
                    block.flush(&mut out);
                }
                block.old.extend_from_slice(text);
                left.0 -= 1;
            }
            b'+' => {
                block.new.extend_from_slice(text);
                left.1 -= 1;
            }
            _ => {
                block.flush(&mut out);
                out.push(Ink::Plain, text);
                left = (left.0 - 1, left.1 - 1);
            }
        }
    }
    block.flush(&mut out);
    out.0
}

/// The same as text: `[-gone-]{+come+}`.
pub fn bracketed(unified: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (ink, text) in words(unified) {
        let (open, close) = match ink {
            Ink::Gone => ("[-", "-]"),
            Ink::Come => ("{+", "+}"),
            Ink::Plain | Ink::Head | Ink::Place => ("", ""),
        };
        // A mark ends with its line.
        for line in text.split_inclusive(|it| *it == b'\n') {
            let (line, end) = match line.strip_suffix(b"\n") {
                Some(line) => (line, "\n"),
                None => (line, ""),
            };
            if !line.is_empty() {
                out.extend_from_slice(open.as_bytes());
                out.extend_from_slice(line);
                out.extend_from_slice(close.as_bytes());
            }
            out.extend_from_slice(end.as_bytes());
        }
    }
    out
}

/// How many lines of both files a hunk has: `@@ -1,2 +3 @@`.
fn counts(line: &[u8]) -> Option<(i64, i64)> {
    let text = std::str::from_utf8(line.strip_prefix(b"@@ -")?).ok()?;
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |it: &str| it.split_once(',').map_or(Some(1), |it| it.1.parse().ok());
    Some((count(old)?, count(new)?))
}

#[derive(Default)]
struct Pieces(Vec<(Ink, Vec<u8>)>);

impl Pieces {
    fn push(&mut self, ink: Ink, text: &[u8]) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some((last, so_far)) if *last == ink => so_far.extend_from_slice(text),
            _ => self.0.push((ink, text.to_vec())),
        }
    }
}

/// Lines that went, and what came in their place.
#[derive(Default)]
struct Block {
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Block {
    fn flush(&mut self, out: &mut Pieces) {
        let Self { old, new } = std::mem::take(self);
        let (old_words, new_words) = (tokens(&old), tokens(&new));
        let mut input = InternedInput::default();
        input.update_before(old_words.iter().copied());
        input.update_after(new_words.iter().copied());
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let mut at = 0;
        let mut pending = (Vec::new(), Vec::new());
        for hunk in diff.hunks() {
            let range = |it: &std::ops::Range<u32>| it.start as usize..it.end as usize;
            let (before, after) = (range(&hunk.before), range(&hunk.after));
            let common = &old_words[at..before.start];
            // Two changes with a space between are one.
            if !pending.0.is_empty()
                && !pending.1.is_empty()
                && common.iter().all(|it| is_blank(it))
            {
                pending.0.extend_from_slice(&common.concat());
                pending.1.extend_from_slice(&common.concat());
            } else {
                change(out, &mut pending);
                out.push(Ink::Plain, &common.concat());
            }
            pending.0.extend_from_slice(&old_words[before.clone()].concat());
            pending.1.extend_from_slice(&new_words[after].concat());
            at = before.end;
        }
        change(out, &mut pending);
        out.push(Ink::Plain, &old_words[at..].concat());
    }
}

fn change(out: &mut Pieces, pending: &mut (Vec<u8>, Vec<u8>)) {
    let (gone, come) = std::mem::take(pending);
    // Both end their line: it is one line still.
    match (gone.strip_suffix(b"\n"), come.strip_suffix(b"\n")) {
        (Some(gone), Some(come)) => {
            out.push(Ink::Gone, gone);
            out.push(Ink::Come, come);
            out.push(Ink::Plain, b"\n");
        }
        _ => {
            out.push(Ink::Gone, &gone);
            out.push(Ink::Come, &come);
        }
    }
}

/// Spaces, but no line end.
fn is_blank(token: &[u8]) -> bool {
    token.iter().all(|it| matches!(it, b' ' | b'\t'))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Space,
    /// Alone.
    Single,
}

/// Words, runs of spaces, and every other character by itself.
fn tokens(bytes: &[u8]) -> Vec<&[u8]> {
    let mut tokens = Vec::new();
    let mut run: Option<(Kind, usize)> = None;
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            let kind = kind_of(char);
            if run.is_none_or(|it| it.0 != kind || kind == Kind::Single) {
                if let Some((_, start)) = run {
                    tokens.push(&bytes[start..at]);
                }
                run = Some((kind, at));
            }
            at += char.len_utf8();
        }
        for _ in chunk.invalid() {
            if let Some((_, start)) = run.take() {
                tokens.push(&bytes[start..at]);
            }
            tokens.push(&bytes[at..=at]);
            at += 1;
        }
    }
    if let Some((_, start)) = run {
        tokens.push(&bytes[start..at]);
    }
    tokens
}

fn kind_of(char: char) -> Kind {
    match char {
        ' ' | '\t' => Kind::Space,
        it if is_unspaced(it) => Kind::Single,
        // A mark belongs to the letter before it.
        it if it.is_alphanumeric() || matches!(it, '_' | '\u{300}'..='\u{36f}' | '\u{200d}') => {
            Kind::Word
        }
        _ => Kind::Single,
    }
}

/// Of a script that sets no spaces between words.
fn is_unspaced(char: char) -> bool {
    matches!(char,
        '\u{e00}'..='\u{eff}'       // Thai, Lao
        | '\u{1000}'..='\u{109f}'   // Myanmar
        | '\u{1780}'..='\u{17ff}'   // Khmer
        | '\u{3040}'..='\u{30ff}'   // Kana
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' // Han
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unified: &str, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&bracketed(unified.as_bytes())), expected);
    }

    #[test]
    fn words_are_marked_where_they_stand() {
        check(
            "@@ -1 +1 @@\n-one two three\n+one 2 three\n",
            "@@ -1 +1 @@\none [-two-]{+2+} three\n",
        );
        check(
            "@@ -1,2 +1,3 @@\n kept\n-a b c\n+x y c\n+more\n",
            "@@ -1,2 +1,3 @@\nkept\n[-a b-]{+x y+} c\n{+more+}\n",
        );
        check("@@ -1 +1 @@\n-今天去北京\n+今天去上海\n", "@@ -1 +1 @@\n今天去[-北京-]{+上海+}\n");
        check("@@ -1 +0,0 @@\n-gone line\n", "@@ -1 +0,0 @@\n[-gone line-]\n");
        check("@@ -0,0 +1,2 @@\n+a\n+\n", "@@ -0,0 +1,2 @@\n{+a+}\n\n");
    }

    #[test]
    fn lines_that_look_like_headers_are_text() {
        check(
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-@@ -1 +1 @@\n++++ b/y\n+@@ -2 +2 @@\n",
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n[--- a-]{++++ b+}/y\n@@ -[-1-]{+2+} +[-1-]{+2+} @@\n",
        );
    }

    #[test]
    fn a_last_line_without_end_ends_with_the_text() {
        check(
            "@@ -1 +1 @@\n-a b\n\\ No newline at end of file\n+a c\n\\ No newline at end of file\n",
            "@@ -1 +1 @@\n[-a b-]\n{+a c+}\n",
        );
    }

    proptest::proptest! {
        #[test]
        fn both_texts_are_in_it(old in "[ab ,\n日本]{0,40}", new in "[ab ,\n日本]{0,40}") {
            let mut out = Pieces::default();
            Block { old: old.clone().into_bytes(), new: new.clone().into_bytes() }.flush(&mut out);
            let side = |other: Ink| -> Vec<u8> {
                out.0.iter().filter(|it| it.0 != other).flat_map(|it| it.1.clone()).collect()
            };
            proptest::prop_assert_eq!(side(Ink::Come), old.into_bytes());
            proptest::prop_assert_eq!(side(Ink::Gone), new.into_bytes());
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(0..=255u8, 0..200)) {
            assert_eq!(tokens(&bytes).concat(), bytes);
            words(&bytes);
        }
    }
}

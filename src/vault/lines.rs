//! Where the lines of a text begin.
//!
//! Pure. Takes decoded text, answers questions about line numbers, for the chunker, the link
//! finder and every message that names a line.
//!
//! A line ends at `\n` or `\r\n`, as `sed`, `grep -n` and editors count. A text that has no `\n`
//! at all but has `\r` (old Mac files) is counted by its `\r`.
//!
//! **Invariant:** line numbers are 1-based; a final line end starts no further line.

use std::ops::Range;

/// The byte that ends a line of this text.
pub fn line_end(text: &str) -> u8 {
    let bytes = text.as_bytes();
    if !bytes.contains(&b'\n') && bytes.contains(&b'\r') { b'\r' } else { b'\n' }
}

/// The table of a text's lines.
#[derive(Debug)]
pub struct Lines {
    starts: Vec<usize>,
    length: usize,
}

impl Lines {
    pub fn of(text: &str) -> Self {
        let end = line_end(text);
        let mut starts = Vec::with_capacity(text.len() / 40 + 1);
        if !text.is_empty() {
            starts.push(0);
        }
        starts.extend(
            text.bytes()
                .enumerate()
                .filter(|&(at, byte)| byte == end && at + 1 < text.len())
                .map(|(at, _)| at + 1),
        );
        Self { starts, length: text.len() }
    }

    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// The number of the line that holds the byte at `offset`; past the end, the last line.
    pub fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).max(1)
    }

    /// Where `line` begins; past the last line, the end of the text.
    pub fn start(&self, line: usize) -> usize {
        self.starts.get(line.wrapping_sub(1)).copied().unwrap_or(self.length)
    }

    /// The bytes of `line` without its line end.
    pub fn range(&self, text: &str, line: usize) -> Range<usize> {
        let start = self.start(line);
        let with_end = &text[start..self.start(line + 1)];
        let bare = with_end.strip_suffix('\n').unwrap_or(with_end);
        start..start + bare.strip_suffix('\r').unwrap_or(bare).len()
    }

    /// Whether `line` says nothing; a byte-order mark in front of it says nothing either.
    pub fn is_blank(&self, text: &str, line: usize) -> bool {
        let said = &text[self.range(text, line)];
        let said = if line == 1 { said.strip_prefix('\u{feff}').unwrap_or(said) } else { said };
        said.trim().is_empty()
    }

    /// The lines `first..=last` with `\n` between them and none at the end.
    pub fn text(&self, text: &str, first: usize, last: usize) -> String {
        let mut out = String::with_capacity(self.start(last + 1) - self.start(first));
        for line in first..=last {
            if line > first {
                out.push('\n');
            }
            out.push_str(&text[self.range(text, line)]);
        }
        out
    }
}

/// The largest char boundary of `text` that is not beyond `limit`.
pub fn floor_boundary(text: &str, limit: usize) -> usize {
    if limit >= text.len() {
        return text.len();
    }
    (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_editors_do() {
        let check = |text: &str, expected: &[&str]| {
            let lines = Lines::of(text);
            let found: Vec<&str> =
                (1..=lines.count()).map(|line| &text[lines.range(text, line)]).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("", &[]);
        check("a", &["a"]);
        check("a\n", &["a"]);
        check("a\n\nb", &["a", "", "b"]);
        check("a\r\nb\r\n", &["a", "b"]);
        check("stray \r in a line\nb", &["stray \r in a line", "b"]);
        check("old\rmac\r", &["old", "mac"]);
    }

    #[test]
    fn a_byte_belongs_to_its_line() {
        let lines = Lines::of("ab\nc\n");
        assert_eq!([0, 2, 3, 4, 99].map(|at| lines.line_of(at)), [1, 1, 2, 2, 2]);
        assert_eq!(lines.start(3), 5);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        for text in ["─", "日本", "👨‍👩‍👧", "e\u{301}é"] {
            for limit in 0..=text.len() + 1 {
                assert!(text.is_char_boundary(floor_boundary(text, limit)));
            }
        }
    }
}

//! A text taken out of a note.
//!
//! Pure. Takes a note's text and the words to forget, gives the text without the lines that hold
//! them, and those lines.
//!
//! Words are compared without case, and any run of blanks and line ends between them is one blank:
//! what is wrapped over three lines is found, and all three go. A line in the frontmatter goes only
//! if what is left still is the frontmatter that it was but for that line.
//!
//! **Invariant:** every other line stays byte by byte.

use crate::vault::fold::folded;
use crate::vault::frontmatter;
use crate::vault::lines::Lines;

/// Whether words are so few letters that they stand everywhere.
pub fn is_too_short(words: &str) -> bool {
    let letters = words.split_whitespace().flat_map(str::chars);
    // A sign of an ideographic script says as much as a syllable or more.
    letters.map(|it| if it.is_ascii() { 1 } else { 2 }).sum::<usize>() < 3
}

/// What is left of a note.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forgotten {
    pub text: String,
    /// The lines that went, from 1.
    pub lines: Vec<u32>,
}

/// As lines are compared: without case, leading list marks and runs of blanks.
pub fn bare(line: &str) -> String {
    let line = line.trim_start_matches([' ', '\t', '-', '*', '+', '>', '#']);
    let words: Vec<&str> = line.split_whitespace().collect();
    String::from_utf8_lossy(&folded(words.join(" ").as_bytes())).into_owned()
}

/// `text` without the lines that hold `words`; `None` where none does.
pub fn without(text: &str, words: &str) -> Option<Forgotten> {
    if is_too_short(words) {
        return None;
    }
    let needle = folded_words(words);
    // The whole note with one blank between words, and of which line each word is.
    let mut flat = String::new();
    let mut ends = Vec::new();
    let lines = Lines::of(text);
    for line in 1..=lines.count() {
        for word in text[lines.range(text, line)].split_whitespace() {
            if !flat.is_empty() {
                flat.push(' ');
            }
            flat.push_str(&String::from_utf8_lossy(&folded(word.as_bytes())));
            ends.push((flat.len(), line));
        }
    }
    let mut gone = vec![false; lines.count() + 1];
    let mut from = 0;
    while let Some(found) = flat[from..].find(&needle) {
        let (start, end) = (from + found, from + found + needle.len());
        let first = ends.partition_point(|it| it.0 <= start);
        let last = ends.partition_point(|it| it.0 < end).min(ends.len().saturating_sub(1));
        for at in first..=last {
            gone[ends[at].1] = true;
        }
        from = start + flat[start..].chars().next().map_or(1, char::len_utf8);
    }
    keep_frontmatter(text, &lines, &mut gone);
    let numbers: Vec<usize> = (1..=lines.count()).filter(|it| gone[*it]).collect();
    if numbers.is_empty() {
        return None;
    }
    let kept = (1..=lines.count()).filter(|it| !gone[*it]);
    let mut left: String = kept.map(|it| whole_line(text, &lines, it)).collect();
    // A byte order mark before a line that went.
    let mark = &text[..frontmatter::bom_length(text)];
    if !mark.is_empty() && !left.starts_with(mark) {
        left.insert_str(0, mark);
    }
    let numbers = numbers.into_iter().filter_map(|it| u32::try_from(it).ok()).collect();
    Some(Forgotten { text: left, lines: numbers })
}

fn folded_words(text: &str) -> String {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|it| String::from_utf8_lossy(&folded(it.as_bytes())).into_owned())
        .collect();
    words.join(" ")
}

/// With its end.
fn whole_line<'a>(text: &'a str, lines: &Lines, line: usize) -> &'a str {
    let end = if line < lines.count() { lines.start(line + 1) } else { text.len() };
    &text[lines.start(line)..end]
}

/// Lines of the frontmatter stay where it would be another one without them.
fn keep_frontmatter(text: &str, lines: &Lines, gone: &mut [bool]) {
    let Some(block) = frontmatter::split(text) else { return };
    let last = lines.line_of(block.body.saturating_sub(1));
    if !(1..=last).any(|it| gone[it]) {
        return;
    }
    let left: String =
        (1..=lines.count()).filter(|it| !gone[*it]).map(|it| whole_line(text, lines, it)).collect();
    let parsed = |text: &str| {
        let block = frontmatter::split(text)?;
        let parsed = frontmatter::parse(&text[block.yaml.clone()], 2);
        parsed.problems.is_empty().then(|| parsed.keys().count())
    };
    // Whole keys may go; a fence, or half of a value, may not.
    if parsed(&left).is_none() && parsed(text).is_some() {
        gone[1..=last].fill(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, words: &str, left: &str, lines: &[u32]) {
        let forgotten = without(text, words).unwrap();
        assert_eq!(
            (forgotten.text.as_str(), forgotten.lines.as_slice()),
            (left, lines),
            "{text:?}"
        );
    }

    #[test]
    fn the_lines_that_hold_the_words_go_and_no_other() {
        check("# T\n\n- Ann's PIN is 1234\n- tea\n", "pin is 1234", "# T\n\n- tea\n", &[3]);
        check("one\r\nSecret  word\r\ntwo", "secret word", "one\r\ntwo", &[2]);
        check("a\nbegins here and\nends there\nb\n", "here and ends", "a\nb\n", &[2, 3]);
        check("x word y\nword z\n", "word", "", &[1, 2]);
        check("日本 秘密\n他\n", "秘密", "他\n", &[1]);
    }

    #[test]
    fn what_is_not_there_or_too_short_takes_nothing() {
        for words in ["nothing", "", " ", "a", "ab"] {
            assert_eq!(without("a ab abc\n", words), None, "{words:?}");
        }
    }

    #[test]
    fn a_key_of_the_frontmatter_may_go_and_a_fence_may_not() {
        check(
            "---\nphone: 12345\ntags: [a]\n---\nbody\n",
            "12345",
            "---\ntags: [a]\n---\nbody\n",
            &[2],
        );
        let text = "---\nnote: |\n  12345\n---\nbody 12345\n";
        check(text, "12345", "---\nnote: |\n---\n", &[3, 5]);
    }

    #[test]
    fn lines_are_compared_without_marks_and_case() {
        assert_eq!(bare("  - Ann's  PIN\tis 1"), "ann's pin is 1");
        assert_eq!(bare("## Über"), "über");
    }
}

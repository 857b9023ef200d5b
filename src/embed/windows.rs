//! Cuts a long text into parts that a model reads whole.
//!
//! Pure. Takes a text, a budget and what counts against it; gives ranges of bytes, each within
//! the budget, of about the same size, cut at the end of a line where there is one, else of a
//! sentence, a word, a character.
//!
//! **Invariant:** the ranges follow each other and cover the text; only a single character may be
//! over the budget.

use std::ops::Range;

/// A part that is not cut further, and what it counts.
type Part = (Range<usize>, usize);

/// The windows of a text; one where it fits, none where it is empty.
pub fn windows(text: &str, budget: usize, count: &dyn Fn(&str) -> usize) -> Vec<Range<usize>> {
    if text.is_empty() {
        return Vec::new();
    }
    let budget = budget.max(1);
    if count(text) <= budget {
        return std::iter::once(0..text.len()).collect();
    }
    let mut parts = Vec::new();
    cut(text, 0, Cut::Lines, budget, count, &mut parts);
    let total: usize = parts.iter().map(|it| it.1).sum();
    // A last window with a few words would say little, so that all get the same share.
    let share = total.div_ceil(total.div_ceil(budget).max(1));
    let mut windows: Vec<Part> = Vec::new();
    for (range, cost) in parts {
        match windows.last_mut() {
            Some((last, filled)) if *filled < share && *filled + cost <= budget => {
                last.end = range.end;
                *filled += cost;
            }
            _ => windows.push((range, cost)),
        }
    }
    windows.into_iter().map(|it| it.0).collect()
}

/// Where a text is cut.
#[derive(Clone, Copy)]
enum Cut {
    Lines,
    Sentences,
    Words,
    Characters,
}

fn cut(
    text: &str,
    offset: usize,
    at: Cut,
    budget: usize,
    count: &dyn Fn(&str) -> usize,
    parts: &mut Vec<Part>,
) {
    let (ends, finer) = match at {
        Cut::Lines => (ends_of(text, |char, _| char == '\n'), Cut::Sentences),
        Cut::Sentences => (ends_of(text, ends_sentence), Cut::Words),
        Cut::Words => (ends_of(text, |char, _| char.is_whitespace()), Cut::Characters),
        Cut::Characters => (vec![middle(text), text.len()], Cut::Characters),
    };
    let mut from = 0;
    for end in ends {
        let part = &text[from..end];
        let cost = count(part);
        let is_one = part.chars().nth(1).is_none();
        if cost <= budget || is_one {
            parts.push((offset + from..offset + end, cost));
        } else {
            cut(part, offset + from, finer, budget, count, parts);
        }
        from = end;
    }
}

/// The lines of a text, cut at the ends of sentences, in order.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = Range<usize>> {
    let ends = ends_of(text, |char, next| char == '\n' || ends_sentence(char, next));
    let mut from = 0;
    ends.into_iter().map(move |end| std::mem::replace(&mut from, end)..end)
}

/// The places behind the characters that end a part; the last one is the text's end.
fn ends_of(text: &str, is_end: impl Fn(char, Option<char>) -> bool) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let next = chars.peek().map(|it| it.1);
        if next.is_none() || is_end(char, next) {
            ends.push(at + char.len_utf8());
        }
    }
    ends
}

fn ends_sentence(char: char, next: Option<char>) -> bool {
    match char {
        '。' | '！' | '？' | '；' => true,
        '.' | '!' | '?' | ';' => next.is_some_and(char::is_whitespace),
        _ => false,
    }
}

/// The end of a character, about half-way; the text has at least two.
fn middle(text: &str) -> usize {
    match text.floor_char_boundary(text.len() / 2) {
        0 => text.chars().next().map_or(0, char::len_utf8),
        at => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn check(text: &str, budget: usize, wanted: &[&str]) {
        let found: Vec<&str> =
            windows(text, budget, &words).into_iter().map(|it| &text[it]).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_fits_is_one_window() {
        check("a b c", 3, &["a b c"]);
        check("", 3, &[]);
    }

    #[test]
    fn windows_are_of_about_the_same_size() {
        // Seven words at most six a window: four and three, not six and one.
        check("a b c d e f g", 6, &["a b c d ", "e f g"]);
    }

    #[test]
    fn lines_stay_whole_where_they_can_then_sentences_then_words() {
        check("a b c\nd e f\ng h\n", 4, &["a b c\n", "d e f\n", "g h\n"]);
        check("a b c. d e f! g h", 4, &["a b c.", " d e f!", " g h"]);
        check("a b c d e", 2, &["a b ", "c d ", "e"]);
        let bytes = |it: &str| it.len();
        assert_eq!(windows("日本語日本語", 9, &bytes), [0..9, 9..18]);
        assert_eq!(windows("日本", 1, &bytes), [0..3, 3..6]); // a character is not cut
    }

    proptest! {
        #[test]
        fn windows_cover_the_text_and_keep_the_budget(
            text in "[ab .\n日é]{0,80}", budget in 4usize..20
        ) {
            let found = windows(&text, budget, &str::len);
            let mut at = 0;
            for range in found {
                prop_assert_eq!(range.start, at);
                prop_assert!(range.len() <= budget && !range.is_empty());
                at = range.end;
            }
            prop_assert_eq!(at, text.len());
        }
    }
}

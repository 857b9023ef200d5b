//! Whether one text says what another says.
//!
//! Pure. Takes texts as people write them, gives the places where a sentence stands and the share of
//! words that two have in common. Markdown's marks, case, punctuation and the breaks of lines count
//! for nothing.
//!
//! **Invariant:** a sentence copied out of a note, or out of what a reader shows of it, is found in
//! it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use unicode_normalization::UnicodeNormalization as _;

/// A text without what counts for nothing, and where its lines begin.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    text: String,
    /// Where in `text` a line begins, and its number from 1.
    lines: Vec<(usize, u32)>,
}

impl Folded {
    pub fn of(text: &str) -> Self {
        let mut folded = Self::default();
        for (line, number) in text.lines().zip(1u32..) {
            let mut is_apart = true;
            folded.lines.push((folded.text.len(), number));
            for char in shown(line).nfc().flat_map(char::to_lowercase) {
                match char {
                    it if it.is_alphanumeric() => {
                        folded.push(it, is_apart);
                        is_apart = false;
                    }
                    // In the middle of a word they only say how it looks.
                    '*' | '_' | '`' | '~' => {}
                    _ => is_apart = true,
                }
            }
        }
        folded
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The lines of each place where `sentence` stands, in order.
    pub fn places(&self, sentence: &Self) -> Vec<RangeInclusive<u32>> {
        if sentence.is_empty() {
            return Vec::new();
        }
        let found = self.text.match_indices(&sentence.text).filter(|(at, it)| {
            let (before, after) = (&self.text[..*at], &self.text[at + it.len()..]);
            let is_whole = |beside: Option<char>, end: Option<char>| match (beside, end) {
                (Some(beside), Some(end)) => beside == ' ' || is_wide(beside) || is_wide(end),
                _ => true,
            };
            is_whole(before.chars().next_back(), it.chars().next())
                && is_whole(after.chars().next(), it.chars().next_back())
        });
        found.map(|(at, it)| self.line_at(at)..=self.line_at(at + it.len() - 1)).collect()
    }

    fn line_at(&self, at: usize) -> u32 {
        let after = self.lines.partition_point(|it| it.0 <= at);
        // Of lines that are empty once folded the last one has what follows.
        after.checked_sub(1).and_then(|it| self.lines.get(it)).map_or(1, |it| it.1)
    }

    fn push(&mut self, char: char, is_apart: bool) {
        let last = self.text.chars().next_back();
        if let Some(last) = last
            && is_apart
            && last != ' '
            && !is_wide(last)
            && !is_wide(char)
        {
            self.text.push(' ');
        }
        self.text.push(char);
    }
}

/// The words of a text; of what is written without spaces each two characters.
pub fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for word in Folded::of(text).text.split(' ') {
        let chars: Vec<char> = word.chars().collect();
        for run in chars.chunk_by(|a, b| is_wide(*a) == is_wide(*b)) {
            match run {
                [first, ..] if is_wide(*first) && run.len() > 1 => {
                    words.extend(run.windows(2).map(|it| it.iter().collect::<String>()));
                }
                _ => {
                    words.insert(run.iter().collect());
                }
            }
        }
    }
    words.remove("");
    words
}

/// How much of `wanted` a text has, 0 to 1.
pub fn share(wanted: &BTreeSet<String>, text: &str) -> f32 {
    if wanted.is_empty() {
        return 0.0;
    }
    let has = words(text);
    let both = wanted.iter().filter(|it| has.contains(*it)).count();
    #[expect(clippy::cast_precision_loss, reason = "a share of a sentence's words")]
    let share = both as f32 / wanted.len() as f32;
    share
}

/// A line as a reader shows it: of a link its words, of an image none.
fn shown(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['[', ']']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(inside) = rest.strip_prefix("[[")
            && let Some(end) = inside.find("]]")
        {
            let link = &inside[..end];
            out.push_str(link.split_once('|').map_or(link, |it| it.1));
            rest = &inside[end + 2..];
        } else if let Some(target) = rest.strip_prefix("](")
            && let Some(end) = target.find(')')
        {
            rest = &target[end + 1..];
        } else {
            out.push(' ');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

/// Whether it is of a writing without spaces between words.
fn is_wide(char: char) -> bool {
    matches!(char,
        '\u{2e80}'..='\u{a4cf}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9d}'
        | '\u{20000}'..='\u{3ffff}' | '\u{0e00}'..='\u{0eff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_found_however_it_is_marked_and_broken() {
        let check = |text: &str, sentence: &str, expected: &[(u32, u32)]| {
            let found = Folded::of(text).places(&Folded::of(sentence));
            let found: Vec<_> = found.iter().map(|it| (*it.start(), *it.end())).collect();
            assert_eq!(found, expected, "{sentence:?} in {text:?}");
        };
        check("# A\n\nThe tide was **high** today.\n", "the tide was high today", &[(3, 3)]);
        check("- The tide\n  was high.\n", "The tide was high.", &[(1, 2)]);
        check("> It's `un`believable\n", "it's unbelievable", &[(1, 1)]);
        check("See [[digest/wiki/bicycle.md|the bicycle]] now", "see the bicycle now", &[(1, 1)]);
        check("See [the bicycle](x/y.md) now", "see the bicycle now", &[(1, 1)]);
        check("a b\nx\na b\n", "a b", &[(1, 1), (3, 3)]);
        check("concatenate", "cat", &[]);
        check("the cat sat", "cat", &[(1, 1)]);
        check("把機器推論洗成\n權威事實的做法", "推論洗成權威事實", &[(1, 2)]);
        check("Cafe\u{301} Noir", "café noir", &[(1, 1)]);
        check("anything", "...", &[]);
        check("", "x", &[]);
        check("a [b c", "b c", &[(1, 1)]);
    }

    #[test]
    fn words_are_shared_in_any_order() {
        let check = |wanted: &str, text: &str, percent: i32| {
            let share = share(&words(wanted), text) * 100.0;
            assert_eq!(share.round() as i32, percent, "{wanted:?} {text:?}");
        };
        check("the tide was high", "High was the TIDE!", 100);
        check("the tide was high", "a tide was low", 50);
        check("權威事實", "權威的事實", 67);
        check("", "x", 0);
    }
}

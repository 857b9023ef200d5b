//! Cuts a text to what a provider reads.
//!
//! Pure. Takes a text and `max_input_length`; a plain ASCII text keeps that many characters. Any
//! other is counted in half units, three for a wide character of East Asia and two for the others,
//! against 92 % of the length: such characters are more tokens each.
//!
//! **Invariant:** the same text is cut at the same place on every machine, between characters.

use unicode_width::UnicodeWidthChar as _;

/// What part of the length other texts than ASCII may fill, in percent.
const SHARE: usize = 92;

/// The beginning of the text that fits.
pub(super) fn truncate(text: &str, most: usize) -> &str {
    if text.is_ascii() {
        return &text[..text.len().min(most)];
    }
    let budget = budget(most);
    let mut spent = 0;
    for (at, char) in text.char_indices() {
        spent += cost_of(char);
        if spent > budget {
            return &text[..at];
        }
    }
    text
}

/// Half units that a text may have.
pub(super) fn budget(most: usize) -> usize {
    most.saturating_mul(2 * SHARE) / 100
}

/// Half units that a text has.
pub(super) fn cost(text: &str) -> usize {
    if text.is_ascii() { text.len() * 2 } else { text.chars().map(cost_of).sum() }
}

fn cost_of(char: char) -> usize {
    if char.width() == Some(2) { 3 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_lengths() {
        for (char, kept) in [('x', 8192), ('中', 5024), ('é', 7536)] {
            let text = char.to_string().repeat(9000);
            assert_eq!(truncate(&text, 8192).chars().count(), kept, "{char}");
        }
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        for text in ["", "abc", "中文", "日本語 and more"] {
            assert_eq!(truncate(text, 8192), text);
        }
        // 10 * 2 * 92 / 100 = 18 half units: five wide ones are 15, six of them 18, seven 21.
        assert_eq!(truncate("中文中文中文中", 10), "中文中文中文");
        assert_eq!(truncate("中文中文中文a", 10), "中文中文中文");
        assert_eq!((budget(10), cost("中文a")), (18, 8));
        assert_eq!((truncate("é", 0), truncate("a", 0)), ("", ""));
    }

    #[test]
    fn wide_is_what_unicode_calls_wide_or_full_width() {
        // python3 -c "import unicodedata as u; print(*map(u.east_asian_width, 'ＡカｶĀ한☃🚲ⅰ'))"
        //   F W H N W N W A
        let costs: Vec<usize> = "ＡカｶĀ한☃🚲ⅰ".chars().map(cost_of).collect();
        assert_eq!(costs, [3, 3, 2, 2, 3, 2, 3, 2]);
    }
}

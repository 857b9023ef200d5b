//! Finds the `#tags` in a note's text.
//!
//! Pure. Takes an [`Outline`] and the note's links, gives [`Tag`]s in the order of the text.
//!
//! A tag is `#` at the start of a line, after whitespace, an opening parenthesis or punctuation
//! beyond ASCII (`、#日記`), followed by letters, digits, `_`, `-`, `/` (nesting) and pictographs, at
//! least one of them no digit. Not in code, raw HTML, comments, math and links; `# Title` is a
//! heading, `#1` a number.
//!
//! **Invariant:** what hides links from the link finder hides tags from this one.

use std::ops::Range;

use crate::vault::link::{Link, overlaps};
use crate::vault::outline::{Outline, joined};

/// The longest tag, in bytes.
const MAX_TAG: usize = 256;

/// A tag where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tag {
    /// Without `#`.
    pub name: String,
    /// 1-based.
    pub line: u32,
}

/// The tags of a body.
pub fn tags(outline: &Outline<'_>, links: &[Link]) -> Vec<Tag> {
    let text = outline.text;
    let link_spans: Vec<Range<usize>> = joined(links.iter().map(|it| it.span.clone()).collect());
    let mut found = Vec::new();
    for (at, _) in text[outline.body..].match_indices('#') {
        let at = outline.body + at;
        let before = text[outline.body..at].chars().next_back();
        if before.is_some_and(|it| !may_precede(it)) {
            continue;
        }
        let rest = &text[at + 1..];
        let length = rest.find(|it| !is_tag_char(it)).unwrap_or(rest.len());
        let name = rest[..length].trim_end_matches('/');
        let span = at..at + 1 + length;
        if name.len() <= MAX_TAG
            && name.contains(|it: char| !it.is_numeric() && it != '/')
            && !overlaps(&outline.opaque, &span)
            && !overlaps(&link_spans, &span)
        {
            found.push(Tag { name: name.to_owned(), line: outline.lines.line_of(at) as u32 });
        }
    }
    found
}

fn may_precede(char: char) -> bool {
    char.is_whitespace() || char == '(' || !(char.is_ascii() || is_tag_char(char))
}

fn is_tag_char(char: char) -> bool {
    char.is_alphanumeric()
        || matches!(char, '_' | '-' | '/')
        || matches!(char,
            '\u{300}'..='\u{36f}' | '\u{200d}' | '\u{fe0f}' | '\u{2600}'..='\u{27bf}'
            | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, u32)> {
        let links = crate::vault::link::links(text, 0);
        let outline = Outline::markdown(text, 0);
        tags(&outline, &links).into_iter().map(|it| (it.name, it.line)).collect()
    }

    #[test]
    fn tags_are_told_from_everything_else_with_a_hash() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<String> = names(text).into_iter().map(|it| it.0).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("#a and #b/c, (#d) #e-f_g.", &["a", "b/c", "d", "e-f_g"]);
        check("# Title #in-title\n\n## No", &["in-title"]);
        check("#1 #2024 #2024/07 #1a #/ #", &["1a"]);
        check("#日記、#café #cafe\u{301} #🔥", &["日記", "café", "cafe\u{301}", "🔥"]);
        check("`#code` <!-- #comment --> %%#hidden%% $#math$ #real", &["real"]);
        check("```\n#ghost\n```\n\n    #indented\n\n~~~~\n~~~\n#ghost\n~~~~\n", &[]);
        check("https://x.org/#frag a#b [[n#h]] [x](#h) &#123; \\#no ##no", &[]);
        check("- #list\n> #quote\n| #cell | [t #in-link](x.md) |", &["list", "quote", "cell"]);
        check("#trailing/ #a/b/", &["trailing", "a/b"]);
        check(&format!("#{}", "x".repeat(300)), &[]);
    }

    #[test]
    fn a_tag_knows_its_line() {
        assert_eq!(names("a\n#b\r\n\r\n#c"), [("b".to_owned(), 2), ("c".to_owned(), 4)]);
    }
}

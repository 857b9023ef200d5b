//! What holds for the links of any note.
//!
//! Takes bytes as a note's file, panics where a property is broken. For the fuzz target and for
//! the corpus in `cargo test`.

use std::ops::Range;

use remd::vault::decode::decode;
use remd::vault::link::{Link, LinkKind, links_of};
use remd::vault::outline::Outline;
use remd::vault::resolve::{Names, Resolution};
use remd::vault::retarget::retarget;
use remd::vault::{VaultPath, frontmatter, tag};

/// How many links of one note are rewritten.
const MOST_LINKS: usize = 6;
/// Names that a note may get, odd ones too.
const TARGETS: &[&str] = &[
    "New name",
    "folder/Sub/é 日本.md",
    "A|B",
    "Sprint #4",
    "Sq]uare",
    "x ^ y",
    "it's \"it\"",
    "%41",
];

/// A span is the link; a link rewritten leads where it should, and nothing else changes.
pub fn check(data: &[u8]) {
    let decoded = decode(data);
    let Some(text) = decoded.text else { return };
    let links = links(&text);
    spans_are_the_links(&text, &links);
    tags_are_no_links(&text, &links);
    resolving_answers(&links);
    if !links.is_empty() {
        let same: Vec<(&Link, &str)> = links.iter().map(|it| (it, it.target.as_str())).collect();
        if let Ok(new) = retarget(&text, &same) {
            only_targets_change(&text, &links, &new, &same);
        }
        let step = links.len().div_ceil(MOST_LINKS);
        for (at, link) in links.iter().enumerate().step_by(step) {
            let changes = [(link, TARGETS[at % TARGETS.len()])];
            if let Ok(new) = retarget(&text, &changes) {
                only_targets_change(&text, &links, &new, &changes);
            }
        }
    }
}

fn links(text: &str) -> Vec<Link> {
    let block = frontmatter::split(text);
    links_of(&Outline::markdown(text, block.as_ref().map_or(0, |it| it.body)), block.as_ref())
}

fn spans_are_the_links(text: &str, links: &[Link]) {
    let mut before = 0;
    let mut ends: Vec<usize> = Vec::new();
    for link in links {
        let source = text.get(link.span.clone()).expect("a span is text");
        assert!(link.span.start >= before, "by position");
        before = link.span.start;
        ends.retain(|it| *it > link.span.start);
        assert!(ends.iter().all(|it| link.span.end <= *it), "apart or one in the other: {source}");
        ends.push(link.span.end);
        let end = if text.contains('\n') { '\n' } else { '\r' };
        let line = 1 + text[..link.span.start].matches(end).count() as u32;
        assert_eq!(link.line, line, "{source}");
        assert!(!link.target.is_empty() || link.anchor.is_some(), "{source}");
        match link.kind {
            LinkKind::Wiki | LinkKind::Frontmatter => {
                let source = source.trim_start_matches('!');
                assert!(source.starts_with("[[") && source.ends_with("]]"), "{source}");
            }
            LinkKind::Embed => {
                assert!(source.starts_with("![[") && source.ends_with("]]"), "{source}");
            }
            LinkKind::Markdown => assert!(source.contains(['(', ':']), "{source}"),
        }
        if link.kind != LinkKind::Markdown {
            assert!(!link.target.contains(['[', ']', '|', '#', '\n', '\r']), "{source}");
        }
    }
}

fn tags_are_no_links(text: &str, links: &[Link]) {
    let block = frontmatter::split(text);
    let outline = Outline::markdown(text, block.as_ref().map_or(0, |it| it.body));
    for tag in tag::tags(&outline, links) {
        assert!(!tag.name.is_empty() && !tag.name.contains(char::is_whitespace), "{}", tag.name);
        assert!((tag.line as usize) <= outline.lines.count());
    }
}

fn resolving_answers(links: &[Link]) {
    let here = VaultPath::new("notes/here.md").expect("a path");
    let all = ["notes/here.md", "a.md", "A.md", "notes/a.md", "caf\u{e9}.md", "cafe\u{301}.md"];
    let names: Names = all.iter().filter_map(|it| VaultPath::new(it).ok()).collect();
    for link in links.iter().take(100) {
        match names.resolve(&here, &link.target, link.kind) {
            Resolution::To(path) => assert!(names.contains(&path)),
            Resolution::Ambiguous { chosen, candidates } => {
                assert!(candidates.len() > 1 && candidates.iter().all(|it| names.contains(it)));
                assert!(chosen.is_none_or(|it| candidates.first() == Some(&it)));
            }
            Resolution::Missing => {}
            Resolution::SelfLink => assert!(link.target.trim().is_empty()),
        }
    }
}

fn only_targets_change(text: &str, before: &[Link], new: &str, changes: &[(&Link, &str)]) {
    let after = links(new);
    assert_eq!(after.len(), before.len(), "no link comes or goes");
    let (mut at, mut new_at) = (0, 0);
    for (old, now) in before.iter().zip(&after) {
        let target = changes.iter().find(|it| std::ptr::eq(it.0, old)).map(|it| it.1);
        assert_eq!(now.target, target.unwrap_or(&old.target), "parse(write(link)) is its target");
        assert_eq!((now.kind, &now.anchor, now.line), (old.kind, &old.anchor, old.line));
        // What stands between the links stays; links that nest are compared by the outer one.
        if old.span.start >= at {
            let between = |text: &str, range: Range<usize>| text[range].to_owned();
            assert_eq!(between(text, at..old.span.start), between(new, new_at..now.span.start));
            (at, new_at) = (old.span.end, now.span.end);
        }
    }
    assert_eq!(text[at..], new[new_at..]);
}

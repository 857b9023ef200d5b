//! What holds for the passages of any note.
//!
//! Takes bytes as a note's file, panics where a property is broken. For the fuzz target and for
//! the corpus in `cargo test`.

use std::collections::HashSet;

use remd::vault::chunk::{self, Chunk, LONGEST_LINE, TARGET};
use remd::vault::decode::decode;
use remd::vault::outline::{Outline, UNCUT_MAX};
use remd::vault::{VaultPath, frontmatter, note};

/// Every line of the body that is not blank stands in exactly one passage, in order.
pub fn check(data: &[u8]) {
    let path = |name: &str| VaultPath::new(name).expect("a path");
    for name in ["a.md", "a.txt"] {
        let note = note::read_note(&path(name), data);
        assert!(note.links.len() <= 100_000 && note.tags.len() <= 1000);
        assert!(note.name.len() <= 4096 && !note.name.contains(['\n', '\r']));
        let lines = |it: &Chunk| it.start_line <= it.end_line && it.start_line > 0;
        assert!(note.chunks.iter().all(lines));
    }
    let Some(text) = decode(data).text else { return };
    let body = frontmatter::split(&text).map_or(0, |it| it.body);
    covers(&Outline::markdown(&text, body), &chunk::chunks(&path("a.md"), &text, body));
    covers(&Outline::plain(&text), &chunk::plain_chunks(&path("a.txt"), &text));
}

fn covers(outline: &Outline<'_>, chunks: &[Chunk]) {
    let ids: HashSet<_> = chunks.iter().map(|it| &it.id).collect();
    assert_eq!(ids.len(), chunks.len(), "ids are unique");
    let bare = |line: usize| {
        let range = outline.lines.range(outline.text, line);
        // The first line may hold the byte-order mark, which is no text.
        let start = range.start.max(outline.body).min(range.end);
        &outline.text[start..range.end]
    };
    let first = outline.lines.line_of(outline.body.min(outline.text.len()));
    let mut next = if outline.body < outline.text.len() { first } else { usize::MAX };
    let mut at = 0;
    while next <= outline.lines.count() {
        if outline.lines.is_blank(outline.text, next) || bare(next).trim().is_empty() {
            next += 1;
            continue;
        }
        let chunk = chunks.get(at).expect("every line stands in a passage");
        assert_eq!(chunk.start_line as usize, next, "no line is left out or stands twice");
        let end = chunk.end_line as usize;
        if bare(next).len() > LONGEST_LINE
            || outline.lines.range(outline.text, next).len() > LONGEST_LINE
        {
            let line = bare(next);
            let pieces = chunks[at..].iter().take_while(|it| it.start_line as usize == next);
            let pieces: Vec<&Chunk> = pieces.collect();
            for piece in &pieces {
                assert!(line.contains(&piece.text), "a piece is a part of its line");
                assert!(piece.text.len() <= TARGET && !piece.text.is_empty());
            }
            at += pieces.len();
        } else {
            let lines: Vec<&str> = (next..=end).map(bare).collect();
            assert_eq!(chunk.text, lines.join("\n").trim_start_matches('\u{feff}'));
            assert!(
                chunk.text.len() <= UNCUT_MAX + 2 * TARGET + LONGEST_LINE,
                "{}",
                chunk.text.len()
            );
            at += 1;
        }
        for heading in &chunk.headings {
            assert!(heading.len() <= 200 && !heading.is_empty());
        }
        next = end + 1;
    }
    assert_eq!(at, chunks.len(), "no passage without a line of its own");
}

//! Where a note is cut, and that nothing of it is lost.
//!
//! Pure.

use proptest::prelude::*;

use super::*;
use crate::base::clock;
use crate::vault::frontmatter;
use crate::vault::lines::Lines;

fn path() -> VaultPath {
    VaultPath::new("a.md").unwrap()
}

fn cut_text(text: &str) -> Vec<Chunk> {
    chunks(&path(), text, frontmatter::split(text).map_or(0, |it| it.body))
}

fn ranges(chunks: &[Chunk]) -> Vec<(u32, u32)> {
    chunks.iter().map(|it| (it.start_line, it.end_line)).collect()
}

fn paragraph(word: &str, bytes: usize) -> String {
    format!("{word} ").repeat(bytes / (word.len() + 1))
}

/// The golden value of the contract, appendix A.
#[test]
fn an_id_is_the_digest_of_place_and_text() {
    let path = VaultPath::new("daily/a.md").unwrap();
    let id = "810da9475c4217b38d6f07e2c2f096361115b316212cac71fe7ac3d246b9de72";
    assert_eq!(chunk_id(&path, 1, 2, "hello").0, id);
    let found = &chunks(&path, "hello\n", 0)[0];
    assert_eq!(found.id, chunk_id(&path, 1, 1, "hello"));
}

#[test]
fn a_small_note_is_one_chunk() {
    let text = "---\nname: n\n---\n\n# A\n\nintro\n\n## B\n\n- one\n\n| h1 | h2 |\n|----|----|\n| a | b |\n\n";
    let found = cut_text(text);
    assert_eq!(ranges(&found), [(5, 15)]);
    assert_eq!(
        found[0].text,
        "# A\n\nintro\n\n## B\n\n- one\n\n| h1 | h2 |\n|----|----|\n| a | b |"
    );
    assert_eq!(found[0].headings, [] as [&str; 0]);
    for empty in ["", "\n \n", "---\nname: n\n---\n", "---\nname: n\n---", "\u{feff}"] {
        assert_eq!(cut_text(empty), [], "{empty:?}");
    }
}

#[test]
fn line_ends_and_the_mark_are_not_text() {
    let found = cut_text("\u{feff}# A\r\n\r\nb\r\n");
    assert_eq!((ranges(&found), found[0].text.as_str()), (vec![(1, 3)], "# A\n\nb"));
}

#[test]
fn sections_are_chunks_and_small_siblings_share_one() {
    let text = format!(
        "# Top\n\nlead\n\n## One\n\n{}\n\n## Two\n\n{}\n\n## Three\n\nshort\n\n## Four\n\nshort\n\n# Next\n\nx\n",
        paragraph("one", 1500),
        paragraph("two", 1500),
    );
    let found = cut_text(&text);
    assert_eq!(ranges(&found), [(1, 7), (9, 19), (21, 23)]);
    let above: Vec<&[String]> = found.iter().map(|it| it.headings.as_slice()).collect();
    assert_eq!(above, [&[][..], &["Top".to_owned()], &[]]);
}

#[test]
fn a_long_section_is_cut_between_its_blocks() {
    let blocks: Vec<String> = (0..6).map(|at| paragraph(&format!("word{at}"), 900)).collect();
    let text = format!("# Top\n\n## Sec *one*\n\n{}\n", blocks.join("\n\n"));
    let found = cut_text(&text);
    assert_eq!(ranges(&found), [(1, 7), (9, 11), (13, 15)]);
    assert_eq!(found[0].headings, [] as [&str; 0]);
    assert_eq!(found[1].headings, ["Top", "Sec one"]);
    assert_eq!(found[2].headings, ["Top", "Sec one"]);
    assert!(found.iter().all(|it| it.text.len() <= TARGET));
}

#[test]
fn no_chunk_is_a_title_alone() {
    let text = format!(
        "# A\n\n## B\n\nSetext\n===\n\n{}\n\n## C\n\n```\n{}```\n",
        paragraph("x", 2500),
        "y\n".repeat(2000)
    );
    for chunk in cut_text(&text) {
        let has_body = chunk.text.lines().any(|it| it.contains('x') || it == "y");
        assert!(has_body, "{}", chunk.text);
    }
}

#[test]
fn fences_tables_and_links_are_not_torn() {
    let fence = format!("```py\n{}```", "x = 1\n\n".repeat(500));
    let rows: String = (0..200).map(|at| format!("| key{at} | {} |\n", "v".repeat(20))).collect();
    let link = format!("[{}](target.md)", "text of a link\n".repeat(200).trim_end());
    let text = format!(
        "# A\n\n{}\n\n{fence}\n\n| k | v |\n|---|---|\n{rows}\n{link}\n",
        paragraph("p", 1000)
    );
    let found = cut_text(&text);
    let fences: Vec<&Chunk> = found.iter().filter(|it| it.text.contains("```")).collect();
    assert!(
        fences.iter().all(|it| it.text.contains("```py") && it.text.matches("```").count() == 2)
    );
    assert!(found.iter().any(|it| it.text.contains(&link)));
    let rules: Vec<&Chunk> = found.iter().filter(|it| it.text.contains("|---|")).collect();
    assert!(rules.len() == 1 && rules[0].text.contains("| k | v |\n|---|---|\n"));
    assert!(found.iter().all(|it| it.text.lines().all(|line| text.lines().any(|own| own == line))));
}

#[test]
fn a_list_is_cut_before_items() {
    let items: String =
        (0..60).map(|at| format!("- item {at} {}\n  more of it\n", "w".repeat(60))).collect();
    let found = cut_text(&items);
    assert!(found.len() > 2);
    assert!(
        found.iter().all(|it| it.text.starts_with("- item") && it.text.ends_with("more of it"))
    );
}

#[test]
fn a_fence_that_never_ends_is_cut_at_lines() {
    let text = format!("# A\n\n```\n{}", "let a = 1;\n".repeat(50_000));
    let found = cut_text(&text);
    assert!(found.iter().all(|it| it.text.len() <= TARGET + SMALL), "{}", found.len());
    assert!(found.len() > 250);
}

/// A10: one line of megabytes: unique ids, bounded, every word searchable.
#[test]
fn an_over_long_line_becomes_distinct_pieces() {
    let minified = format!(
        "---\nname: m\n---\n```js\n{}\n```\nend\n",
        "function e(a){return a}".repeat(90_000)
    );
    let found = cut_text(&minified);
    assert!(found.len() < 100, "{}", found.len());
    let words: String = (0..200_000).map(|at| format!("word{at}[[link {at}]] ")).collect();
    let found_words = cut_text(&words);
    assert_eq!(found_words.iter().map(|it| it.text.as_str()).collect::<String>(), words);
    for chunk in &found_words {
        assert!(chunk.text.len() <= TARGET && (chunk.start_line, chunk.end_line) == (1, 1));
        assert_eq!(chunk.text.matches("[[").count(), chunk.text.matches("]]").count());
    }
    for filler in ["─", "日", "👨‍👩‍👧", "é"] {
        for shift in 0..4 {
            let line = format!("{}{} needle{shift}", "a".repeat(shift), filler.repeat(4000));
            let found = cut_text(&line);
            assert!(found.iter().any(|it| it.text.ends_with(&format!("needle{shift}"))));
        }
    }
    let ids: HashSet<&ChunkId> = found.iter().chain(&found_words).map(|it| &it.id).collect();
    assert_eq!(ids.len(), found.len() + found_words.len());
    let pasted = format!("{}\n\n", paragraph("same", 1500)).repeat(50);
    let ids: HashSet<ChunkId> = cut_text(&pasted).into_iter().map(|it| it.id).collect();
    assert_eq!(ids.len(), 50);
}

#[test]
fn other_text_is_packed_by_lines() {
    let path = VaultPath::new("s.jsonl").unwrap();
    let text: String =
        (0..100).map(|at| format!("{{\"i\": {at}, \"t\": \"{}\"}}\n", "x".repeat(80))).collect();
    let found = plain_chunks(&path, &text);
    assert!(found.iter().all(|it| it.text.len() <= TARGET && it.headings.is_empty()));
    let joined: Vec<&str> = found.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(joined.join("\n") + "\n", text);
    assert_eq!(plain_chunks(&path, "# no heading\n---\na: 1\n---\n")[0].start_line, 1);
}

#[test]
fn ten_thousand_headings_are_no_matter() {
    let flat = "# A heading\n".repeat(10_000);
    let deep: String =
        (0..10_000).map(|at| format!("{} h{at}\n\ntext\n\n", "#".repeat(at % 6 + 1))).collect();
    let wide = format!("# {}\n{}", "w".repeat(1_000_000), "text\n\n".repeat(10_000));
    for text in [flat, deep, wide] {
        let begun = clock::now();
        let found = cut_text(&text);
        assert!(found.len() > 20 && found.len() < 2000, "{}", found.len());
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
        let breadcrumbs: usize = found.iter().flat_map(|it| &it.headings).map(String::len).sum();
        assert!(breadcrumbs < 2_000_000, "{breadcrumbs}");
    }
}

fn markdown() -> impl Strategy<Value = String> {
    let block = prop_oneof![
        (1..7usize, "[a-z ]{0,20}")
            .prop_map(|(level, title)| format!("{} {title}\n", "#".repeat(level))),
        "[a-zé日 ]{1,80}\n".prop_map(|it| it.repeat(3)),
        (1..60usize).prop_map(|it| "a paragraph of some lines\n".repeat(it)),
        (0..40usize).prop_map(|it| format!("```\n{}```\n", "code\n\n".repeat(it))),
        (1..40usize).prop_map(|it| "- item\n  more\n\n".repeat(it)),
        (1..40usize).prop_map(|it| format!("| a | b |\n|---|---|\n{}", "| 1 | 2 |\n".repeat(it))),
        Just("Setext\n===\n".to_owned()),
        Just("> quote\n> # not a section\nlazy\n".to_owned()),
        Just("<!-- comment\n\nwith a gap -->\n".to_owned()),
        Just("$$\nx\n$$\n".to_owned()),
        (100..12_000usize).prop_map(|it| "long word ".repeat(it / 10) + "\n"),
        Just("---\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("a\rb\n".to_owned()),
        Just("   \n\n".to_owned()),
        Just("[link\nover lines](x.md)\n".to_owned()),
    ];
    prop::collection::vec(block, 0..30).prop_map(|it| it.join("\n"))
}

fn covers(text: &str, body: usize, found: &[Chunk]) -> Result<(), TestCaseError> {
    let lines = Lines::of(text);
    let mut next = lines.line_of(body);
    let mut ids = HashSet::new();
    for chunk in found {
        prop_assert!(ids.insert(chunk.id.clone()));
        let (first, last) = (chunk.start_line as usize, chunk.end_line as usize);
        if lines.range(text, first).len() > LONGEST_LINE {
            prop_assert!(first == last && text[lines.range(text, first)].contains(&chunk.text));
            prop_assert!(first + 1 >= next);
        } else {
            prop_assert!(first >= next && last >= first);
            let own = lines.text(text, first, last);
            prop_assert_eq!(&chunk.text, own.trim_start_matches('\u{feff}'));
            prop_assert!(!lines.is_blank(text, first) && !lines.is_blank(text, last));
        }
        for skipped in next..first {
            prop_assert!(lines.is_blank(text, skipped), "line {} is in no chunk", skipped);
        }
        next = last + 1;
    }
    for skipped in next..=lines.count() {
        prop_assert!(
            body >= text.len() || lines.is_blank(text, skipped),
            "line {} is lost",
            skipped
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_line_stands_in_one_chunk(text in markdown()) {
        covers(&text, 0, &chunks(&path(), &text, 0))?;
        let whole = VaultPath::new("a.txt").unwrap();
        covers(&text, 0, &plain_chunks(&whole, &text))?;
    }

    #[test]
    fn a_body_is_covered_behind_its_frontmatter(text in markdown()) {
        let text = format!("---\nname: n\n---\n{text}");
        let body = frontmatter::split(&text).unwrap().body;
        covers(&text, body, &cut_text(&text))?;
    }

    #[test]
    fn chunks_are_about_the_size_wanted(text in markdown()) {
        // The longest block that is kept whole here is a fence of 40 lines.
        for chunk in cut_text(&text) {
            prop_assert!(chunk.text.len() <= LONGEST_LINE + TARGET + SMALL);
        }
    }

    #[test]
    fn no_text_is_too_odd(text in "[-#>`~=|$%<!\\[\\]()* \t\r\na1é日]{0,120}") {
        covers(&text, 0, &chunks(&path(), &text, 0))?;
    }
}

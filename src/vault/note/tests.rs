//! A note as a whole, and files that are barely one.
//!
//! Pure.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::base::clock;
use crate::vault::link::LinkKind;

fn read(path: &str, bytes: impl AsRef<[u8]>) -> NoteDoc {
    read_note(&VaultPath::new(path).unwrap(), bytes.as_ref())
}

#[test]
fn a_note_says_what_it_is() {
    let note = read(
        "digest/wiki/bicycle.md",
        concat!(
            "---\nname: Bicycle\ntitle: not this\ndescription: >\n  Two wheels,\n  one chain\n",
            "aliases: [bike, velo, Bike]\ntags: [\"#transport\", Health/Outdoor]\ntag: daily transport\n",
            "memory_tags:\n  - two words\ncreated: 2026-06-29T10:00:00Z\nupdated: 2026-07-01\n",
            "up: \"[[vehicle]]\"\n---\n\n# Care\n\nOil the [[chain|links]] #care #Transport\n",
        ),
    );
    assert_eq!(note.name, "Bicycle");
    assert_eq!(note.description.as_deref(), Some("Two wheels, one chain"));
    assert_eq!(note.aliases, ["bike", "velo"]);
    assert_eq!(note.tags, ["transport", "Health/Outdoor", "daily", "two words", "care"]);
    assert_eq!(note.date.as_deref(), Some("2026-06-29"));
    assert_eq!(note.chunks[0].text, "# Care\n\nOil the [[chain|links]] #care #Transport");
    assert_eq!(note.problems, [] as [&str; 0]);
    let links: Vec<(LinkKind, &str)> =
        note.links.iter().map(|it| (it.kind, it.target.as_str())).collect();
    assert_eq!(links, [(LinkKind::Frontmatter, "vehicle"), (LinkKind::Wiki, "chain")]);
    assert_eq!((note.chunks[0].start_line, note.chunks[0].end_line), (17, 19));
}

#[test]
fn a_name_comes_from_the_first_that_has_one() {
    assert_eq!(read("a/My note.md", "x").name, "My note");
    assert_eq!(read("a.md", "---\ntitle: T\n---\n").name, "T");
    assert_eq!(read("a.md", "---\nname: \"\"\ntitle: 42\n---\n").name, "42");
    assert_eq!(read("a.md", "---\nname: [x]\n---\n").name, "a");
    assert_eq!(read("a.md", "---\nname: \"two\\nlines\"\n---\n").name, "two lines");
    assert!(
        read("a.md", format!("---\nname: {}\n---\n", "é".repeat(9000))).name.len() <= MAX_FIELD
    );
}

#[test]
fn a_date_is_a_day() {
    let date = |yaml: &str| read("a.md", format!("---\n{yaml}\n---\n")).date;
    assert_eq!(date("date: 2026-06-29").as_deref(), Some("2026-06-29"));
    assert_eq!(date("date: soon\ncreated: '2026-06-29 10:00'").as_deref(), Some("2026-06-29"));
    assert_eq!(date("updated: 2026-06-29").as_deref(), Some("2026-06-29"));
    for none in
        ["date: 2026-13-01", "date: 2026-06-299", "date: 26-06-29", "date: {{date}}", "x: 1"]
    {
        assert_eq!(date(none), None, "{none}");
    }
}

/// A06: neither line ends nor a byte-order mark hide the frontmatter.
#[test]
fn crlf_and_bom_hide_nothing() {
    let note = read("crlf.md", "---\r\ntitle: Crlf\r\ntags: [x]\r\n---\r\nbody\r\n");
    assert_eq!((note.name.as_str(), note.tags.as_slice()), ("Crlf", &["x".to_owned()][..]));
    assert_eq!(note.chunks[0].text, "body");
    let note = read("bom.md", "\u{feff}---\ntitle: Bom\n---\nbody\n");
    assert_eq!((note.name.as_str(), note.chunks[0].text.as_str()), ("Bom", "body"));
    let note = read("bom.md", "\u{feff}# A\r\nbody\r\n");
    assert_eq!(note.chunks[0].text, "# A\nbody");
}

/// B02, B05, B06: whatever the frontmatter is, the body is found and nothing of it is lost.
#[test]
fn bad_frontmatter_never_hides_the_body() {
    for (text, problem) in [
        (
            "---\nname: my-note\ndescription: explains: badly\n---\nneedle",
            "line 3: frontmatter is not valid",
        ),
        ("---\na: [1\n---\nneedle", "frontmatter is not valid"),
        ("---\ntags: [a]\nx: 1\nx: 2\n---\nneedle", "line 4: key `x` stands twice"),
        ("---\nname: n\nneedle", "no closing `---`"),
        ("---\nOnly prose\n\n---\nneedle", ""),
        ("\n---\nname: n\n---\nneedle", ""),
    ] {
        let note = read("a.md", text);
        assert!(note.chunks.iter().any(|it| it.text.contains("needle")), "{text}");
        assert_eq!(note.problems.is_empty(), problem.is_empty(), "{text}: {:?}", note.problems);
        assert!(note.problems.join("; ").contains(problem), "{text}: {:?}", note.problems);
    }
    let note = read("a.md", "---\nname: my-note\ndescription: explains: badly\n---\nbody");
    assert_eq!(
        (note.name.as_str(), note.description.as_deref()),
        ("my-note", Some("explains: badly"))
    );
}

#[test]
fn other_encodings_are_read_as_far_as_they_go() {
    let note = read("a.md", b"---\nname: Caf\xe9\n---\n# Cr\xe8me\n");
    assert_eq!((note.name.as_str(), note.chunks[0].text.as_str()), ("Café", "# Crème"));
    assert_eq!(note.problems.len(), 1);
    let wide: Vec<u8> = b"\xff\xfe"
        .iter()
        .copied()
        .chain("---\nname: W\n---\nbody [[a]]".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let note = read("a.md", wide);
    assert_eq!((note.name.as_str(), note.links.len()), ("W", 1));
    assert_eq!(note.chunks[0].text, "body [[a]]");
    let binary = read("photo.md", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0");
    assert_eq!((binary.chunks.len(), binary.name.as_str(), binary.problems.len()), (0, "photo", 1));
    let odd = read_note(&VaultPath::new(b"bad\xff.md").unwrap(), b"x");
    assert_eq!(odd.name, "bad\u{fffd}");
}

#[test]
fn text_that_is_no_markdown_has_no_links() {
    let note = read("resource/log.txt", "---\nname: n\n---\n# x #tag [[a]]\n");
    assert_eq!((note.name.as_str(), note.links.len(), note.tags.len()), ("log", 0, 0));
    assert_eq!(note.chunks[0].text, "---\nname: n\n---\n# x #tag [[a]]");
}

/// Issue 3.3: sizes and shapes that stop others.
#[test]
fn hostile_notes_are_read_in_bounded_time() {
    let n = 100_000;
    let random: Vec<u8> =
        (0u32..3_000_000).map(|it| (it.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for bytes in [
        "[[a]] ".repeat(n * 2).into_bytes(),
        "# h\n".repeat(n).into_bytes(),
        vec![b'x'; 6_000_000],
        "> ".repeat(n).into_bytes(),
        ("> ".repeat(n) + "\n" + &"lazy\n".repeat(n)).into_bytes(),
        "#tag ".repeat(n).into_bytes(),
        (0..n).map(|it| format!("#t{it} ")).collect::<String>().into_bytes(),
        "|".repeat(n).into_bytes(),
        "`".repeat(n).into_bytes(),
        "<!--".repeat(n).into_bytes(),
        "<!-- a --> <!--\n".repeat(n).into_bytes(),
        "%%[[".repeat(n).into_bytes(),
        "---\n".repeat(n).into_bytes(),
        ("---\n".to_owned() + &"k: v\n".repeat(n)).into_bytes(),
        "\r".repeat(n).into_bytes(),
        "[a\n".repeat(n).into_bytes(),
        // Images nest; each would hold the text of all that are in it.
        ("![".repeat(n) + &"](a)".repeat(n)).into_bytes(),
        ("[![".repeat(n) + &"](a)](b)".repeat(n)).into_bytes(),
        ("![\n".repeat(n) + &"](a)\n".repeat(n)).into_bytes(),
        "[a](b".repeat(n).into_bytes(),
        "[a](<b".repeat(n).into_bytes(),
        "*a **b _c ~~d ".repeat(n).into_bytes(),
        "$a ${ $$ ".repeat(n).into_bytes(),
        "<a <? <![CDATA[ <http://".repeat(n).into_bytes(),
        "- ".repeat(n).into_bytes(),
        (0..1000).map(|it| "`".repeat(it) + " ").collect::<String>().into_bytes(),
        // A table of few bytes and very many cells.
        ("|a".repeat(5000) + "|\n" + &"|-".repeat(5000) + "|\n" + &"|a|\n".repeat(n)).into_bytes(),
        // One long address, named often.
        (format!("[a]: {}\n\n", "u".repeat(n)) + &"[a] ![a] ".repeat(n)).into_bytes(),
        (0..n / 10).map(|it| format!("[^{it}]: x\n\n")).collect::<String>().into_bytes(),
        ("e".to_owned() + &"\u{301}".repeat(n)).into_bytes(),
        vec![0; 5_000_000],
        random,
    ] {
        let begun = clock::now();
        let note = read("a.md", &bytes);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(60), "{:?}: {took:?}", &bytes[..10]);
        assert!(note.links.len() <= MAX_LINKS && note.tags.len() <= MAX_NAMES);
        let text: usize = note.chunks.iter().map(|it| it.text.len()).sum();
        assert!(text <= bytes.len() * 3);
    }
    let many = read("a.md", "[[a]] ".repeat(n + 1));
    assert_eq!((many.links.len(), many.problems.len()), (MAX_LINKS, 1));
}

proptest! {
    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for path in ["a.md", "a.txt"] {
            let _note = read(path, &bytes);
        }
    }

    #[test]
    fn no_bytes_behind_a_good_head_are_too_odd(
        head in prop::sample::select(vec!["---\nname: n\n---\n", "---\n", "\u{feff}", "```\n", "[[", "# "]),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let _note = read("a.md", [head.as_bytes(), &bytes].concat());
    }
}

#[test]
fn a_note_of_frontmatter_alone_has_it_as_its_text() {
    let head = "---\ncategories:\n  - \"[[Movies]]\"\ndirector: Ridley Scott\n---\n";
    for (text, last) in [
        (head.to_owned(), 5),
        (format!("{head}\n\n"), 5),
        (head.trim_end().to_owned(), 5),
        (format!("\u{feff}{head}"), 5),
        (head.replace('\n', "\r\n"), 5),
    ] {
        let note = read("card.md", &text);
        assert_eq!(note.chunks.len(), 1, "{text:?}");
        let chunk = &note.chunks[0];
        assert_eq!((chunk.start_line, chunk.end_line), (1, last), "{text:?}");
        assert_eq!(chunk.text, head.trim_end(), "{text:?}");
        assert_eq!(note.properties, [] as [&str; 0], "what is the text is not said twice");
        assert_eq!(note.links.len(), 1, "{text:?}");
    }
    // Where there is a body, it is the text, and the frontmatter is not.
    let note = read("card.md", format!("{head}body\n"));
    assert_eq!((note.chunks.len(), note.chunks[0].start_line), (1, 6));
    assert!(note.properties.iter().any(|it| it.contains("Ridley Scott")), "{note:?}");
    for nothing in ["---\n---\n", "---\n\n---\n", "", "\n\n"] {
        assert!(read("card.md", nothing).chunks.is_empty(), "{nothing:?}");
    }
}

#[test]
fn what_replaced_a_note_is_read_as_people_write_it() {
    let by = |head: &str| read("a.md", format!("---\n{head}\n---\nx\n")).superseded;
    for head in [
        "superseded_by: \"[[new]]\"",
        "superseded_by: '[[new#Part|new way]]'",
        "superseded_by: new",
        "superseded_by: [[new]]",
        "Superseded_By:\n  - '[[new]]'\n  - '[[other]]'",
        "status: active\nsuperseded-by: '![[new]]'",
    ] {
        assert_eq!(by(head).as_deref(), Some("new"), "{head}");
    }
    assert_eq!(by("status: Superseded").as_deref(), Some(""));
    for head in ["status: active", "superseded_by:", "superseded_by: []", "x: superseded"] {
        assert_eq!(by(head), None, "{head}");
    }
}

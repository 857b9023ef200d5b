//! What the block is, and what survives of a broken one.
//!
//! Pure.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::base::clock;

fn read_all(text: &str) -> Frontmatter {
    split(text).map(|it| parse(&text[it.yaml], it.yaml_line)).unwrap_or_default()
}

#[test]
fn the_table_of_outcomes_holds() {
    let check = |text: &str, expected: Option<(&str, &str, u32)>| {
        let found = split(text)
            .map(|it| (text[it.yaml].to_owned(), text[it.body..].to_owned(), it.body_line));
        let expected = expected.map(|(yaml, body, line)| (yaml.to_owned(), body.to_owned(), line));
        assert_eq!(found, expected, "{text:?}");
    };
    check("---\nname: n\n---\nbody\n", Some(("name: n\n", "body\n", 4)));
    check("---\nname: n\n---", Some(("name: n\n", "", 4)));
    check("---\nname: n\n---\n", Some(("name: n\n", "", 4)));
    check("--- \nname: n\n---\t \nbody", Some(("name: n\n", "body", 4)));
    check("---\r\nname: n\r\n---\r\nbody\r\n", Some(("name: n\r\n", "body\r\n", 4)));
    check("\u{feff}---\nname: n\n---\nbody", Some(("name: n\n", "body", 4)));
    check("\u{feff}---\r\nname: n\r\n---\r\nbody", Some(("name: n\r\n", "body", 4)));
    check("---\rname: n\r---\rbody\r", Some(("name: n\r", "body\r", 4)));
    check("---\n---\nbody", Some(("", "body", 3)));
    check("---\n---", Some(("", "", 3)));
    check("---\n# only a comment\n\n---\nbody", Some(("# only a comment\n\n", "body", 5)));
    check("\n---\nname: n\n---\nbody", None);
    check("----\nname: n\n----\nbody", None);
    check(" ---\nname: n\n---\nbody", None);
    check("---\nname: n\nbody without an end", None);
    check("---\nname: n\n----\nbody", None);
    check("---\nname: n\n ---\nbody\n---\nrest", Some(("name: n\n ---\nbody\n", "rest", 6)));
    check("---\nProse between two rules.\n\n---\nmore", None);
    check("---\n- a\n- b\n---\nmore", None);
    check("--- name: n\n---\nbody", None);
    check("", None);
    check("---", None);
    check(
        "---\na: 1\n---\n---\nb: 2\n---\nbody\n```\n---\n```\n\n---\nend",
        Some(("a: 1\n", "---\nb: 2\n---\nbody\n```\n---\n```\n\n---\nend", 4)),
    );
    let huge = format!("---\nname: n\nx: {}\n---\nbody", "y".repeat(MAX_BYTES));
    check(&huge, None);
}

#[test]
fn an_open_block_is_told_from_a_rule() {
    assert!(is_unclosed("---\nname: n\nbody"));
    assert!(is_unclosed("\u{feff}---\r\ntags: [a]\r\nbody"));
    assert!(!is_unclosed("---\n\nA note that begins with a rule.\n"));
    assert!(!is_unclosed("---\nSome prose: with a colon\n"));
    assert!(!is_unclosed("name: n\n"));
}

#[test]
fn values_are_read_as_written() {
    let read = read_all(concat!(
        "---\nname: 2026-06-20\nversion: 1.10 # a comment\nid: 12345678901234567890123\n",
        "bigger: 1234567890123456789012345678901234567890123456789\nok: yes\nreal: true\n",
        "zip: 007\nempty:\nnull_too: ~\ntags: [alpha, 'b c', 2024]\naliases: one, two words\n",
        "topics: \"a b, #c\"\nsecret: !vault hidden\nlong: >\n  folded\n  text\n",
        "nested: [[x]]\nTitle: Case\n---\n",
    ));
    assert_eq!(read.problems, [] as [&str; 0]);
    for (key, value) in [
        ("name", Some("2026-06-20")),
        ("version", Some("1.10")),
        ("id", Some("12345678901234567890123")),
        ("bigger", Some("1234567890123456789012345678901234567890123456789")),
        ("ok", Some("yes")),
        ("real", Some("true")),
        ("zip", Some("007")),
        ("empty", None),
        ("null_too", None),
        ("tags", None),
        ("secret", Some("hidden")),
        ("long", Some("folded text")),
        ("title", Some("Case")),
        ("missing", None),
    ] {
        assert_eq!(read.string(key), value, "{key}");
    }
    assert_eq!(read.list("tags", &[',', ' ']), ["alpha", "b c", "2024"]);
    assert_eq!(read.list("aliases", &[',']), ["one", "two words"]);
    assert_eq!(read.list("topics", &[',', ' ']), ["a", "b", "#c"]);
    assert_eq!(read.list("nested", &[]), ["x"]);
    assert_eq!(read.list("missing", &[]), [] as [&str; 0]);
}

/// B05: other keys keep their types, the last one counts, the line is named.
#[test]
fn a_doubled_key_harms_no_other() {
    let read = read_all("---\ntags: [alpha, beta]\nstatus: open\nstatus: closed\n---\n");
    assert_eq!(read.list("tags", &[' ']), ["alpha", "beta"]);
    assert_eq!(read.string("status"), Some("closed"));
    assert_eq!(read.problems, ["line 4: key `status` stands twice, the last one counts"]);
}

#[test]
fn broken_yaml_still_gives_its_simple_keys() {
    let check = |yaml: &str, problem: &str, strings: &[(&str, &str)], tags: &[&str]| {
        let read = read_all(&format!("---\n{yaml}\n---\nbody"));
        assert_eq!(read.problems.len(), 1, "{yaml}: {:?}", read.problems);
        assert!(read.problems[0].starts_with(problem), "{yaml}: {:?}", read.problems);
        for (key, value) in strings {
            assert_eq!(read.string(key), Some(*value), "{yaml}");
        }
        assert_eq!(read.list("tags", &[',', ' ']), tags, "{yaml}");
    };
    check(
        "name: my-note\ndescription: explains: badly\ntags: [a, b]",
        "line 3: frontmatter is not valid YAML (",
        &[("name", "my-note"), ("description", "explains: badly")],
        &["a", "b"],
    );
    check(
        "name: 'n'\nx:\n\tdeep: 1\ntags:\n  - a\n  - b c",
        "line ",
        &[("name", "n")],
        &["a", "b c"],
    );
    check("tags: [a, \"b\"\nname: n", "line ", &[("name", "n")], &["a", "b"]);
    check("name: @handle\ntags: a, b", "line 2", &[("name", "@handle")], &["a", "b"]);
    check("title: \"Never closed\nname: n", "line ", &[("title", "Never closed")], &[]);
    check("name: n\ntags: *nowhere", "line ", &[("name", "n")], &["*nowhere"]);
    check("name: `tick`\ndescription: |\n\ta\n\tb", "line ", &[("description", "a b")], &[]);
}

#[test]
fn templates_are_no_reason_to_stop() {
    let read = read_all("---\ntitle: {{title}}\ndate: {{date}} {{time}}\nname: n\n---\n");
    assert_eq!(read.string("name"), Some("n"));
}

#[test]
fn a_bomb_is_defused_at_once() {
    let laughs = (1..9).fold(String::from("a0: &a0 [lol, lol]\n"), |yaml, at| {
        let last = at - 1;
        format!("{yaml}a{at}: &a{at} [{}]\n", vec![format!("*a{last}"); 9].join(", "))
    });
    let strings = format!("a: &a {}\nb: [{}]\nname: n\n", "x".repeat(30_000), "*a, ".repeat(5_000));
    let deep = format!("name: n\nx: {}\n", "[".repeat(60_000));
    let maps = format!("name: n\nx: {}\n", "{a: ".repeat(15_000));
    let block = (0..300).fold(String::new(), |yaml, at| format!("{yaml}{}a:\n", " ".repeat(at)));
    let quotes = format!("name: n\n{}", "x: \"\n".repeat(10_000));
    let keys: String = (0..10_000).map(|at| format!("k{at}: 1\n")).collect();
    let broken_keys: String = (0..9_000).map(|_| "k: @\n").collect();
    let anchors: String = (0..8_000).map(|at| format!("- &a{at}\n")).collect();
    for yaml in [laughs, strings, deep, maps, block, quotes, keys, broken_keys, anchors] {
        let begun = clock::now();
        let read = parse(&yaml, 2);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(60), "{}: {took:?}", &yaml[..20]);
        assert!(read.entries.len() <= 10_000);
    }
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in "(---\n)?[-a:\\[\\]{}&*!|>'\"%@`#,? \t\r\nüβ]{0,80}(\n---\n)?.{0,10}") {
        if let Some(block) = split(&text) {
            let _read = parse(&text[block.yaml.clone()], block.yaml_line);
            prop_assert!(block.yaml.end <= block.body && block.body <= text.len());
            prop_assert!(text.is_char_boundary(block.body));
        }
        let _any = (is_unclosed(&text), parse(&text, 1));
    }
}

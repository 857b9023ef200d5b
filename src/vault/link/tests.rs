//! What is a link, what is none, and where exactly it stands.
//!
//! Pure.

use proptest::prelude::*;

use super::*;
use crate::base::clock;

fn all(text: &str) -> Vec<Link> {
    links(text, frontmatter::split(text).map_or(0, |it| it.body))
}

/// `kind target#anchor|alias`, what is absent left out.
fn short(link: &Link) -> String {
    let mut out = match link.kind {
        LinkKind::Wiki => "",
        LinkKind::Embed => "!",
        LinkKind::Markdown => "md ",
        LinkKind::Frontmatter => "fm ",
    }
    .to_owned();
    out.push_str(&link.target);
    if let Some(anchor) = &link.anchor {
        out.push('#');
        out.push_str(anchor);
    }
    if let Some(alias) = &link.alias {
        out.push('|');
        out.push_str(alias);
    }
    out
}

fn check(text: &str, expected: &[&str]) {
    let found: Vec<String> = all(text).iter().map(short).collect();
    assert_eq!(found, expected, "{text:?}");
}

#[test]
fn wikilinks_of_every_form() {
    check("[[note]] [[folder/note]] [[note|alias]]", &["note", "folder/note", "note|alias"]);
    check("[[n#Heading]] [[n#H1#H2]] [[n#^block]]", &["n#Heading", "n#H1#H2", "n#^block"]);
    check("[[#Heading]] ![[embed]] ![[img.png|300]]", &["#Heading", "!embed", "!img.png|300"]);
    check("[[ a b # c | d | e ]]", &["a b#c|d | e"]);
    check("[[a|]] [[a#]]", &["a", "a"]);
    check("[[]] [[|x]] [[#]] [[ ]] [a] [[a] [a]]", &[]);
    check("[[x [[y]]]] [[[z]]] [[one\ntwo]]", &["y", "z"]);
    check("\\[[no]] \\\\[[yes]] \\![[wiki]] !\\[[no]]", &["yes", "wiki"]);
    check("[[Prix 5$ and 6$]] $5 [[a]]", &["Prix 5$ and 6$", "a"]);
    check("日本[[日記 🔥#見出し|別名]]語", &["日記 🔥#見出し|別名"]);
}

/// C01: the bar of an alias is escaped in a table, and only there must be.
#[test]
fn a_table_escapes_the_bar() {
    check(
        "| a | b |\n|---|---|\n| [[Host — A (VM 111)\\|a]] | x |\n\n[[Host — A (VM 111)|a]]",
        &["Host — A (VM 111)|a", "Host — A (VM 111)|a"],
    );
    check("| ![[p.png\\|300]] | [[n#h\\|x]] |\n|---|---|", &["!p.png|300", "n#h|x"]);
}

/// C02: what is in code or a comment is no link.
#[test]
fn code_comments_and_math_hold_no_links() {
    check("use `[[` and `]]` markers [[Real]]", &["Real"]);
    check("`[[Ghost]]` [[Real]] ``[[Ghost]] ` ``", &["Real"]);
    check("```\n[[Ghost]]\n```\n~~~\n[[Ghost]]\n~~~\n[[Real]]", &["Real"]);
    check("````\n```\n[[Ghost]]\n```\n[[Ghost]]\n````\n[[Real]]", &["Real"]);
    check("text\n\n    [[Ghost]]\n\n- item\n\n      [[Ghost]]\n\n  [[Real]]", &["Real"]);
    check("> ```\n> [[Ghost]]\n> ```\n> [[Real]]", &["Real"]);
    check("<!-- [[Ghost]] --> [[Real]] a <!-- [[Ghost]]\n[[Ghost]] --> b", &["Real"]);
    check("%%[[Ghost]]%% [[Real]] %%\n\n[[Ghost]]\n\n%%", &["Real"]);
    check("$[[Ghost]]$ [[Real]] $$\n[[Ghost]]\n$$", &["Real"]);
    check("<a title=\"[[Ghost]]\">[[Real]]</a>", &["Real"]);
    check("100%% [[Real]]", &["Real"]);
    check("```\n[[Ghost]] never closed", &[]);
    check("`[x](ghost.md)` <!-- [x](ghost.md) -->", &[]);
    check("<!-- notes:auto -->\n- [[memory/a.md]] name: a\n<!-- /notes:auto -->", &["memory/a.md"]);
}

#[test]
fn markdown_links_into_the_vault() {
    check(
        "[t](a.md) [t](b%20c.md#h%20i) [t](<d e.md>)",
        &["md a.md|t", "md b c.md#h i|t", "md d e.md|t"],
    );
    check("![alt](img.png \"title\") [t](../x/y.md)", &["md img.png|alt", "md ../x/y.md|t"]);
    check("[t](/root.md) [](empty.md) [t](#h)", &["md /root.md|t", "md empty.md", "md #h|t"]);
    check(
        "[t](caf%C3%A9.md) [t](bad%FF.md) [t](a\\)b.md)",
        &["md café.md|t", "md bad%FF.md|t", "md a)b.md|t"],
    );
    check("[use][ref] [ref] [Ref][]\n\n[ref]: notes/r.md#s 'title'", &["md notes/r.md#s|ref"]);
    check("[t](https://x.org/a.md) [t](mailto:a@b.c) <https://x.org> [t](//h/x) [t]() [t]", &[]);
    check("[t](obsidian://open?x) [t](file:///etc/passwd) https://x.org/[a](b.md)", &["md b.md|a"]);
    check("[[a]](b.md) [![[img.png]]](target.md)", &["a", "md target.md|![[img.png]]", "!img.png"]);
    check("[**bold** `code`](a.md)", &["md a.md|**bold** `code`"]);
    check("[![alt](i.png)](a.md)", &["md a.md|![alt](i.png)", "md i.png|alt"]);
}

#[test]
fn values_of_the_frontmatter_hold_links() {
    let text = concat!(
        "---\n# [[Comment]]\nsource_conversation: '[[session/dialog/s.jsonl]]'\n",
        "up: [[Bare]] # [[Comment]]\nrelated:\n  - \"[[One|1]]\"\n  - '[[Two#x]]'\n",
        "apostrophe: don't \"[[Three]]\"\n---\n[[Body]]",
    );
    let found: Vec<(String, Option<String>, u32)> =
        all(text).into_iter().map(|it| (short(&it), it.relation, it.line)).collect();
    let expected = [
        ("fm session/dialog/s.jsonl", Some("source_conversation"), 3),
        ("fm Bare", Some("up"), 4),
        ("fm One|1", Some("related"), 6),
        ("fm Two#x", Some("related"), 7),
        ("fm Three", Some("apostrophe"), 8),
        ("Body", None, 10),
    ]
    .map(|(link, relation, line)| (link.to_owned(), relation.map(str::to_owned), line));
    assert_eq!(found, expected);
    check("---\nup: [[a]]: b: c\n---\n", &["fm a"]);
}

#[test]
fn typed_links_carry_their_key() {
    let check = |text: &str, expected: &[(&str, Option<&str>)]| {
        let links = all(text);
        let found: Vec<(&str, Option<&str>)> =
            links.iter().map(|it| (it.target.as_str(), it.relation.as_deref())).collect();
        assert_eq!(found, expected, "{text:?}");
    };
    check("derived_from:: [[d.md]]", &[("d.md", Some("derived_from"))]);
    check(
        "- **Part of**:: [[a]], [[b]] and [c](c.md)",
        &[("a", Some("Part of")), ("b", Some("Part of")), ("c.md", Some("Part of"))],
    );
    check("> - [ ] up::[[a]]\n1. up:: ![[b]]", &[("a", Some("up")), ("b", Some("up"))]);
    check(
        "See [[x]] [by:: [[a]]] and (of:: [[b]], [[c]]) or [[y]]",
        &[("x", None), ("a", Some("by")), ("b", Some("of")), ("c", Some("of")), ("y", None)],
    );
    check(
        "rel:: [[a]] [in:: [[b]]] [[c]]",
        &[("a", Some("rel")), ("b", Some("in")), ("c", Some("rel"))],
    );
    check("Use std::vec and [[a]]", &[("a", None)]);
    check("[[a]] key:: [[b]]", &[("a", None), ("b", None)]);
    check("`[k:: ` [[a]] (k::) [[b]]", &[("a", None), ("b", None)]);
    check(&format!("{}:: [[a]]", "k".repeat(100)), &[("a", None)]);
}

/// Found by fuzzing: to rewrite one of two that cross would have changed the other.
#[test]
fn of_two_links_that_cross_the_first_is_one() {
    check("[a](b[[c)d]] [[e]]", &["md b[[c|a", "e"]);
    check("[x [[in]] y](b.md)", &["md b.md|x [[in]] y", "in"]);
}

#[test]
fn a_link_knows_its_line() {
    let lines: Vec<u32> = all("\u{feff}---\r\nup: '[[a]]'\r\n---\r\n\r\n[[b]]\r\n[c](c.md)")
        .iter()
        .map(|it| it.line)
        .collect();
    assert_eq!(lines, [2, 5, 6]);
}

#[test]
fn hostile_notes_cost_no_more_than_their_length() {
    let n = 100_000;
    for (text, count) in [
        ("[[a|b]] ".repeat(n), n),
        ("[a](b.md) ".repeat(n), n),
        ("[[".repeat(n), 0),
        ("[[a".repeat(n) + &"]]".repeat(n), 1),
        ("[".repeat(n) + &"]".repeat(n), 0),
        ("\\".repeat(n) + "[[a]]", 1),
        ("[k:: ".repeat(n) + "[[a]]", 1),
        ("k:: ".to_owned() + &"[[a]] ".repeat(n), n),
        ("(a::".repeat(n) + &"[[a]] )".repeat(n), n),
        ("%%".repeat(n), 0),
        ("`[[a]]` ".repeat(n), 0),
        (">".repeat(n) + "[[a]]", 1),
        ("[[".to_owned() + &"x".repeat(2_000_000) + "]]", 0),
        ((0..n).map(|it| format!("[l{it}]: p{it}.md\n")).collect(), n),
        (format!("---\na: \"{}\"\n---\n", "[[x]]".repeat(10_000)), 10_000),
    ] {
        let begun = clock::now();
        let found = all(&text);
        assert_eq!(found.len(), count, "{}", &text[..20.min(text.len())]);
        assert!(begun.elapsed().as_secs() < 60, "{:?}: {:?}", &text[..20], begun.elapsed());
    }
}

/// Text in which brackets, bars, code and comments meet often.
fn odd_text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "[[",
        "]]",
        "[",
        "]",
        "(",
        ")",
        "|",
        "\\|",
        "#",
        "!",
        "`",
        "```\n",
        "~~~\n",
        "%%",
        "$",
        "$$",
        "<!--",
        "-->",
        "\n",
        "\n\n",
        "\r\n",
        "    ",
        "- ",
        "> ",
        "a",
        "note",
        "é",
        "日",
        "e\u{301}",
        "::",
        "k:: ",
        "](",
        ".md",
        "%20",
        "\\",
        "<",
        ">",
        "---\n",
        "key: ",
        "'",
        "\"",
        "\u{feff}",
        "| ",
        "[x]: y\n",
        "# ",
        "\0",
        "👨‍👩‍👧",
        "\r",
        "\t",
    ]);
    prop::collection::vec(part, 0..40).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_span_is_the_link(text in odd_text()) {
        for link in all(&text) {
            let source = text.get(link.span.clone()).expect("a span of whole characters");
            prop_assert_eq!(link.line as usize, Lines::of(&text).line_of(link.span.start));
            match link.kind {
                LinkKind::Wiki | LinkKind::Embed | LinkKind::Frontmatter => {
                    let embed = source.starts_with('!');
                    prop_assert!(source[usize::from(embed)..].starts_with("[["));
                    prop_assert!(source.ends_with("]]"));
                    // Alone, the source is the same link.
                    let again = links(source, 0);
                    if !overlaps(&Outline::markdown(source, 0).opaque, &(0..source.len())) {
                        prop_assert_eq!(again.len(), 1);
                        prop_assert_eq!(&again[0].target, &link.target);
                        prop_assert_eq!(&again[0].anchor, &link.anchor);
                        prop_assert_eq!(&again[0].alias, &link.alias);
                        prop_assert_eq!(&again[0].span, &(0..source.len()));
                    }
                }
                LinkKind::Markdown => prop_assert!(source.starts_with(['[', '!'])),
            }
        }
    }

    #[test]
    fn links_come_in_order(text in odd_text()) {
        let found = all(&text);
        prop_assert!(found.windows(2).all(|it| it[0].span.start <= it[1].span.start));
    }

    #[test]
    fn no_text_is_too_odd(text in ".{0,60}", body in 0..70usize) {
        let start = crate::vault::lines::floor_boundary(&text, body);
        let _links = links(&text, start);
    }
}

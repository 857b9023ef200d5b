//! Content that nobody expects, in what a note says of itself: its frontmatter and its links.

use std::fs;
use std::os::unix::fs::symlink;

use crate::hostile::{finds, needle, settle_and_compare};
use crate::house::House;

/// Whatever the frontmatter is: the body is found, the trouble is named with its line, and the
/// file stays as it is.
#[test]
fn no_frontmatter_hides_its_body() {
    let house = House::open();
    let bomb: String =
        std::iter::once("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned())
            .chain((1..10).map(|it| {
                let last = format!("*a{}, ", it - 1).repeat(8);
                format!("a{it}: &a{it} [{last}*a{}]\n", it - 1)
            }))
            .collect();
    let notes: Vec<(&str, String, bool)> = vec![
        ("tabs.md", "title: T\n\tindented: by a tab\n".into(), true),
        ("doubled.md", "tags: [alpha, beta]\nstatus: open\nstatus: closed\n".into(), true),
        ("bomb.md", bomb, true),
        ("self.md", "a: &a [*a]\n".into(), true),
        (
            "big.md",
            "n: 123456789012345678901234567890123456789012345678901234567890\nf: 1e999\nx: .nan\n"
                .into(),
            false,
        ),
        ("dates.md", "date: 2026-06-29\nat: 2026-06-29T12:00:00Z\nodd: 2026-99-99\n".into(), false),
        ("tags.md", "b: !!binary aGk=\nc: !ruby/object:Gem {x: 1}\n".into(), false),
        ("merge.md", "base: &b {x: 1}\nuse:\n  <<: *b\n".into(), false),
        ("documents.md", "a: 1\n...\nb: 2\n".into(), true),
        ("template.md", "date: {{date}}\ntitle: <% tp.file.title %>\n".into(), false),
        ("flow.md", format!("a: {}{}\n", "[".repeat(10_000), "]".repeat(10_000)), true),
        ("maps.md", format!("a: {}x{}\n", "{a: ".repeat(10_000), "}".repeat(10_000)), true),
        ("keys.md", "1: one\ntrue: two\nnull: three\n2.5: four\n? [a, b]\n: five\n".into(), false),
        ("nul.md", "a: b\0c\n".into(), true),
        ("colon.md", "name: my-note\ndescription: explains: badly\n".into(), true),
        ("quote.md", "title: \"never closed\nnext: x\n".into(), true),
        ("reserved.md", "a: @at\nb: `tick`\nc: %x\n".into(), true),
    ];
    for (at, (name, yaml, _)) in notes.iter().enumerate() {
        house.write(name, format!("---\n{yaml}---\n{}\n", needle(at)));
    }
    let bare = notes.len();
    let odd = [
        ("unclosed.md", format!("---\ntitle: T\n{}\n", needle(bare)), true),
        ("list.md", format!("---\n- a\n- b\n---\n{}\n", needle(bare + 1)), false),
        ("scalar.md", format!("---\njust a rule\n---\n{}\n", needle(bare + 2)), false),
        ("four.md", format!("----\ntitle: T\n----\n{}\n", needle(bare + 3)), false),
        ("late.md", format!("\n---\ntitle: T\n---\n{}\n", needle(bare + 4)), false),
        ("second.md", format!("---\na: 1\n---\n---\nb: {}\n---\n", needle(bare + 5)), false),
        ("rule.md", format!("---\na: 1\n---\n```\n---\n```\n\n---\n{}\n", needle(bare + 6)), false),
    ];
    for (name, text, _) in &odd {
        house.write(name, text);
    }
    house.write("neighbour.md", "plainneighbour\n");
    settle_and_compare(&house, &[]);
    let names = notes.iter().map(|it| (it.0, it.2)).chain(odd.iter().map(|it| (it.0, it.2)));
    let troubled = house.status()["index"]["troubled_notes"].as_u64().unwrap();
    assert_eq!(
        troubled,
        names.clone().filter(|it| it.1).count() as u64,
        "{}",
        house.status()["index"]["troubled"]
    );
    for (at, (name, _)) in names.enumerate() {
        assert!(finds(&house, &needle(at), name.as_bytes()), "{name}");
    }
    let named = house.status()["index"]["troubled"].to_string();
    assert!(named.contains("line "), "{named}");
    assert!(finds(&house, "plainneighbour", b"neighbour.md"));
    let tagged = house.run(["search", "--json", "--tag", "beta", "--", &needle(1)]).stdout;
    assert!(tagged.contains("doubled.md"), "{tagged}");
}

/// No link makes anything outside the vault be read, and none is in the way of another.
#[test]
fn no_link_leads_out() {
    let mut house = House::open();
    let secret = house.temp.path().canonicalize().unwrap().join("secret.md");
    fs::write(&secret, "zqsecretword\n").unwrap();
    let out = secret.display();
    house.write(
        "src.md",
        format!(
            "[[../secret]] [[{out}]] [a](../secret.md) [b](file://{out}) [c]({out}) ![[../secret.md]]\n\
             [d](obsidian://open?path=x) [e](%2e%2e/secret.md) [f](<../secret.md>) <file://{out}>\n\
             [[]] [[|x]] [[#h]] [[src]] [[a\nb]] [[folder/]] [[folder]] [g](folder/) [[real]] [[open\n"
        ),
    );
    house.write("sub/deep.md", "[up](../../secret.md) [[../../secret]] [r](../real.md)\n");
    house.write("folder/x.md", "x\n");
    house.write("real.md", "zqrealword [[src]]\n");
    symlink(&secret, house.at("link.md")).unwrap();
    settle_and_compare(&house, &[]);
    assert!(house.found("zqsecretword").is_empty());
    let json = house.run(["search", "--json", "zqrealword"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let inlinks = &json["results"][0]["inlinks"];
    assert_eq!(inlinks.as_array().unwrap().len(), 2, "{inlinks}");
    // Not by an index built anew either.
    house.stop();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    house.start();
    settle_and_compare(&house, &[]);
    assert!(house.found("zqsecretword").is_empty());
}

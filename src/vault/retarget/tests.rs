//! That a rename changes every link to the note, and nothing else.
//!
//! Pure.

use proptest::prelude::*;

use super::*;
use crate::vault::link::links;

fn all(text: &str) -> Vec<Link> {
    links(text, frontmatter::split(text).map_or(0, |it| it.body))
}

/// Rewrites every link to `old`; gives the text and how many there were.
fn renamed(text: &str, old: &[&str], new: &str) -> Result<(String, usize), CannotRetarget> {
    let links = all(text);
    let changes: Vec<(&Link, &str)> =
        links.iter().filter(|it| old.contains(&it.target.as_str())).map(|it| (it, new)).collect();
    retarget(text, &changes).map(|it| (it, changes.len()))
}

fn check(text: &str, old: &str, new: &str, expected: &str) {
    let (found, count) = renamed(text, &[old], new).unwrap();
    assert_eq!(found, expected);
    assert_eq!(all(&found).iter().filter(|it| it.target == new).count(), count);
}

/// C01: the cell keeps its escaped bar, prose its plain one.
#[test]
fn a_table_keeps_its_bar() {
    check(
        "| a | b |\n|---|---|\n| [[Host — A (VM 111)\\|a]] | x |\n\n[[Host — A (VM 111)|a]]\n",
        "Host — A (VM 111)",
        "Host - A (VM 111)",
        "| a | b |\n|---|---|\n| [[Host - A (VM 111)\\|a]] | x |\n\n[[Host - A (VM 111)|a]]\n",
    );
}

/// C02: what is in code is not touched.
#[test]
fn code_is_not_touched() {
    let text = "`[[Ghost]]` [[Ghost]]\n```\n[[Ghost]]\n```\n<!-- [[Ghost]] -->\n";
    check(text, "Ghost", "Real", &text.replacen("` [[Ghost]]", "` [[Real]]", 1));
}

/// C07: every form keeps its tail; text outside links stays.
#[test]
fn every_form_keeps_its_tail() {
    check(
        "Old [[Old]], [[#H]], [[Old#H|x]] [[Old#^blk]] ![[Old#H]] [[ Old ]] [[Other]] Old\r\n",
        "Old",
        "New name",
        "Old [[New name]], [[#H]], [[New name#H|x]] [[New name#^blk]] ![[New name#H]] [[New name]] [[Other]] Old\r\n",
    );
    let text =
        "\u{feff}---\nup: \"[[Old|Old]]\" # [[Old]]\n---\n[[folder/Old]] [[Old.md]] rel:: [[Old]]";
    let (found, count) = renamed(text, &["Old", "folder/Old", "Old.md"], "New").unwrap();
    assert_eq!(count, 4);
    assert_eq!(
        found,
        "\u{feff}---\nup: \"[[New|Old]]\" # [[Old]]\n---\n[[New]] [[New]] rel:: [[New]]"
    );
}

#[test]
fn markdown_links_are_encoded() {
    check(
        "[t](old.md#h \"title\")",
        "old.md",
        "a b/c (d).md",
        "[t](a%20b/c%20%28d%29.md#h \"title\")",
    );
    check(
        "[t](<old%20x.md>) ![](old%20x.md)",
        "old x.md",
        "日本.md",
        "[t](<日本.md>) ![](日本.md)",
    );
    check("[a](b)](old.md) [`](`](old.md)", "old.md", "n.md", "[a](b)](old.md) [`](`](n.md)");
    check(
        "[u][r]\n\n[r]: old.md 'title'\n",
        "old.md",
        "n#1%.md",
        "[u][r]\n\n[r]: n%231%25.md 'title'\n",
    );
    // Found by fuzzing: no end of the address, as Markdown sees it.
    check("[a](old\u{a0}x(y\u{a0})z.md)", "old\u{a0}x(y\u{a0})z.md", "n.md", "[a](n.md)");
    check("[![i](old.png)](old.md)", "old.png", "new.png", "[![i](new.png)](old.md)");
    check("> [x\n> y](old.md)", "old.md", "n.md", "> [x\n> y](n.md)");
}

/// C08: refused with a reason, or it reads back.
#[test]
fn a_name_with_link_syntax_is_refused() {
    for name in ["A|B", "Sprint #4", "Sq]uare", "[a", "trailing ", " leading", "", "a\nb", "a\\"] {
        let refused = renamed("[[Old]]", &["Old"], name).unwrap_err();
        assert!(matches!(refused, CannotRetarget::Name { .. }), "{name}");
        assert!(!refused.hint().is_empty());
    }
    check("[[Old]]", "Old", "x ^ y", "[[x ^ y]]");
    check(
        "up [x](Old)",
        "Old",
        "Sprint #4 A|B [c].md",
        "up [x](Sprint%20%234%20A%7CB%20%5Bc%5D.md)",
    );
}

#[test]
fn quotes_of_the_frontmatter_are_kept() {
    check("---\nup: '[[Old]]'\n---\n", "Old", "Bob's", "---\nup: '[[Bob''s]]'\n---\n");
    check(
        "---\nup: \"[[Old]]\"\n---\n",
        "Old",
        "say \"x\"",
        "---\nup: \"[[say \\\"x\\\"]]\"\n---\n",
    );
    let context = renamed("---\nup: [[Old]]\n---\n", &["Old"], "a # b");
    assert!(matches!(context, Err(CannotRetarget::Name { .. })));
}

#[test]
fn what_surrounds_a_link_may_forbid_a_name() {
    let text = "[[Old]] `code`";
    let refused = renamed(text, &["Old"], "one ` tick").unwrap_err();
    assert_eq!(refused, CannotRetarget::Context { line: 1, target: "one ` tick".into() });
    let links = all(text);
    let stale = retarget("[[Older]]", &[(&links[0], "New")]).unwrap_err();
    assert_eq!(stale, CannotRetarget::Stale { line: 1 });
}

proptest! {
    /// parse(write(link)) = target, for every name that is not refused.
    #[test]
    fn a_name_reads_back_or_is_refused(
        name in "[-a-zA-Z0-9 é日^&'\"`$%#|\\[\\]()<>:?*_~!.,\\\\/]{1,20}",
        text in prop::sample::select(vec![
            "[[Old]]", "a [[Old#h|x]] `c`", "| [[Old\\|x]] |\n|---|", "---\nup: '[[Old]]'\nx: y\n---\n",
            "---\nup: \"[[Old]]\"\n---\n", "[t](Old)", "[t](<Old> 'x')", "[r]: Old\n", "![a](Old#b)",
            "k:: [[Old]] [[Other]]", "> - [[Old]]\n> - [x](Old)\n",
        ]),
    ) {
        if let Ok((new, count)) = renamed(text, &["Old"], &name) {
            prop_assert!(count > 0);
            let found: Vec<Link> = all(&new);
            prop_assert_eq!(found.iter().filter(|it| it.target == name).count(), count);
            prop_assert_eq!(found.len(), all(text).len());
        }
    }
}

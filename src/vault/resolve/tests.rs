//! Where links lead, and that it does not depend on the order of events.
//!
//! Pure.

use proptest::prelude::*;

use super::*;

fn path(path: &str) -> VaultPath {
    VaultPath::new(path).unwrap()
}

fn names(paths: &[&str]) -> Names {
    paths.iter().map(|it| path(it)).collect()
}

/// `path`, `?chosen: a, b`, `missing`, `self`.
fn shown(resolution: &Resolution) -> String {
    match resolution {
        Resolution::To(path) => path.to_string(),
        Resolution::Ambiguous { chosen, candidates } => {
            let all: Vec<String> = candidates.iter().map(ToString::to_string).collect();
            let chosen = chosen.as_ref().map_or("-".to_owned(), ToString::to_string);
            format!("?{chosen}: {}", all.join(", "))
        }
        Resolution::Missing => "missing".into(),
        Resolution::SelfLink => "self".into(),
    }
}

fn check(paths: &[&str], from: &str, links: &[(&str, LinkKind, &str)]) {
    let names = names(paths);
    for (target, kind, expected) in links {
        let found = names.resolve(&path(from), target, *kind);
        assert_eq!(shown(&found), *expected, "[[{target}]] in {from}");
    }
}

const WIKI: LinkKind = LinkKind::Wiki;
const MD: LinkKind = LinkKind::Markdown;

#[test]
fn exact_paths_come_first() {
    check(
        &[
            "a.md",
            "x/a.md",
            "x/b.md",
            "x/pic.png",
            "notes/x/b.md",
            "plain",
            "plain.md",
            "v1.2.md",
            "w.markdown",
        ],
        "x/from.md",
        &[
            ("a", WIKI, "a.md"),
            ("a.md", WIKI, "a.md"),
            ("/a", WIKI, "a.md"),
            ("./a", WIKI, "x/a.md"),
            ("../a", WIKI, "a.md"),
            ("x/b", WIKI, "x/b.md"),
            ("pic.png", LinkKind::Embed, "x/pic.png"),
            ("plain", WIKI, "plain"),
            ("v1.2", WIKI, "v1.2.md"),
            ("w", WIKI, "w.markdown"),
            ("", WIKI, "self"),
            ("gone", WIKI, "missing"),
            ("x/gone/b", WIKI, "missing"),
            ("../../a", WIKI, "missing"),
            ("x/", MD, "missing"),
            ("..", MD, "missing"),
        ],
    );
}

#[test]
fn a_markdown_link_starts_in_its_folder() {
    check(
        &["b.md", "notes/b.md", "notes/sub/c.md", "digest/wiki/d.md"],
        "notes/from.md",
        &[
            ("b.md", MD, "notes/b.md"),
            ("../b.md", MD, "b.md"),
            ("/b.md", MD, "b.md"),
            ("sub/c.md", MD, "notes/sub/c.md"),
            ("./sub/../b.md", MD, "notes/b.md"),
            ("digest/wiki/d.md", MD, "digest/wiki/d.md"),
            ("c.md", MD, "notes/sub/c.md"),
            ("B.MD", MD, "notes/b.md"),
            ("b.md", WIKI, "b.md"),
        ],
    );
}

/// C03: same folder, then fewest segments, then bytes; the others are reported.
#[test]
fn of_several_the_nearest_is_taken_and_all_are_named() {
    let paths =
        ["_Inbox/README.md", "00.projects/README.md", "notes/README.md", "a/deep/README.md"];
    let all = "00.projects/README.md, _Inbox/README.md, notes/README.md, a/deep/README.md";
    check(
        &paths,
        "notes/src.md",
        &[
            (
                "README",
                WIKI,
                "?notes/README.md: notes/README.md, 00.projects/README.md, _Inbox/README.md, a/deep/README.md",
            ),
            ("notes/README", WIKI, "notes/README.md"),
            ("deep/README", WIKI, "a/deep/README.md"),
        ],
    );
    check(&paths, "other/src.md", &[("README", WIKI, &format!("?00.projects/README.md: {all}"))]);
    let many: Names = (0..100).map(|it| path(&format!("d{it:03}/README.md"))).collect();
    let Resolution::Ambiguous { chosen, candidates } =
        many.resolve(&path("d099/a.md"), "README", WIKI)
    else {
        panic!("not ambiguous");
    };
    assert_eq!(candidates.len(), MAX_CANDIDATES);
    assert_eq!(
        (chosen, candidates[1].clone()),
        (Some(path("d099/README.md")), path("d000/README.md"))
    );
}

/// C05: exact case wins, one inexact match is taken, two are not guessed.
#[test]
fn case_is_the_last_resort() {
    check(
        &["x/MyNote.md"],
        "a.md",
        &[("mynote", WIKI, "x/MyNote.md"), ("MYNOTE.MD", WIKI, "x/MyNote.md")],
    );
    check(
        &["x/MyNote.md", "x/mynote.md"],
        "a.md",
        &[
            ("mynote", WIKI, "x/mynote.md"),
            ("MyNote", WIKI, "x/MyNote.md"),
            ("MYNOTE.MD", WIKI, "?-: x/MyNote.md, x/mynote.md"),
        ],
    );
    check(&["Folder/Note.md"], "a.md", &[("folder/note", WIKI, "Folder/Note.md")]);
    check(
        &["İstanbul.md", "Straße.md"],
        "a.md",
        &[
            ("istanbul", WIKI, "missing"),
            ("STRASSE", WIKI, "Straße.md"),
            ("strasse.md", MD, "Straße.md"),
        ],
    );
    check(&["Pic.PNG"], "a.md", &[("pic.png", LinkKind::Embed, "Pic.PNG")]);
}

/// A01: of two normal forms of one name the one that is written; the twin is reported.
#[test]
fn normal_forms_are_the_same_name() {
    let (nfc, nfd) = ("café.md", "cafe\u{301}.md");
    check(&[nfd], "a.md", &[("café", WIKI, nfd), ("CAFÉ", WIKI, nfd)]);
    check(
        &[nfc, nfd],
        "a.md",
        &[
            ("café", WIKI, "?café.md: café.md, cafe\u{301}.md"),
            ("cafe\u{301}", WIKI, "?cafe\u{301}.md: cafe\u{301}.md, café.md"),
        ],
    );
    // `ệ` half composed: neither spelling, so the first by bytes.
    check(
        &["\u{1ec7}.md", "e\u{323}\u{302}.md"],
        "a.md",
        &[("\u{1eb9}\u{302}", WIKI, "?e\u{323}\u{302}.md: e\u{323}\u{302}.md, \u{1ec7}.md")],
    );
}

#[test]
fn names_that_are_no_text_are_kept_apart() {
    let odd = VaultPath::new(b"x/bad\xff.md").unwrap();
    let names: Names = [odd.clone(), path("bad.md")].into_iter().collect();
    assert!(names.contains(&odd) && names.len() == 2);
    assert_eq!(names.resolve(&odd, "bad", WIKI), Resolution::To(path("bad.md")));
    assert_eq!(names.resolve(&odd, "bad\u{fffd}", WIKI), Resolution::Missing);
}

fn any_path() -> impl Strategy<Value = VaultPath> {
    let folder = prop::sample::select(vec!["", "a/", "A/", "b/", "a/b/", "é/", "e\u{301}/"]);
    let name = prop::sample::select(vec![
        "n.md",
        "N.md",
        "n",
        "n.markdown",
        "é.md",
        "e\u{301}.md",
        "É.MD",
        "pic.png",
        "pic.png.md",
    ]);
    (folder, name).prop_map(|(folder, name)| path(&format!("{folder}{name}")))
}

fn any_target() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "n",
        "N",
        "n.md",
        "N.MD",
        "a/n",
        "A/N",
        "./n",
        "../n",
        "/n",
        "b/n.markdown",
        "é",
        "e\u{301}",
        "É.md",
        "pic.png",
        "PIC.png",
        "é/é",
        "../../n",
        "",
        "a/",
        "x",
    ])
}

proptest! {
    /// The incremental set equals one built from scratch, in content and in every answer.
    #[test]
    fn names_do_not_remember_how_they_came_about(
        steps in prop::collection::vec((any::<bool>(), any_path()), 0..60),
    ) {
        let mut names = Names::default();
        let mut model = std::collections::BTreeSet::new();
        for (insert, path) in steps {
            if insert {
                prop_assert_eq!(names.insert(path.clone()), model.insert(path));
            } else {
                prop_assert_eq!(names.remove(&path), model.remove(&path));
            }
            prop_assert_eq!(names.len(), model.len());
        }
        let rebuilt: Names = model.iter().rev().cloned().collect();
        prop_assert_eq!(&names, &rebuilt);
        prop_assert!(model.iter().all(|it| names.contains(it)));
    }

    /// A path that comes changes only links that share its key, so an index may look at those only.
    #[test]
    fn keys_name_every_link_a_path_can_change(
        paths in prop::collection::vec(any_path(), 0..12),
        come in any_path(),
        from in any_path(),
        target in any_target(),
        markdown in any::<bool>(),
    ) {
        let kind = if markdown { MD } else { WIKI };
        let mut names: Names = paths.into_iter().collect();
        let before = names.resolve(&from, target, kind);
        names.insert(come.clone());
        let after = names.resolve(&from, target, kind);
        if before != after {
            prop_assert!(keys_of_link(target).any(|it| it == key_of_path(&come)));
        }
        if let Resolution::Ambiguous { chosen: Some(chosen), candidates } = &after {
            prop_assert_eq!(chosen, &candidates[0]);
        }
        if let Some(path) = after.path() {
            prop_assert!(names.contains(path));
        }
    }

    #[test]
    fn no_target_is_too_odd(target in ".{0,30}", from in any_path()) {
        let names = names(&["n.md", "a/n.md"]);
        for kind in [WIKI, MD] {
            let _found = names.resolve(&from, &target, kind);
        }
    }
}

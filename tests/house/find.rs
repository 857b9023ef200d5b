//! Search through the binary: every string finds its note, nothing is syntax.

use std::fs;

use crate::house::{House, has_fuse};

#[test]
fn no_text_is_syntax_f01_f03() {
    let house = House::open();
    let strings = [
        "@nasa",
        "#tag",
        "why?",
        "50%",
        "a=b",
        "C++",
        ".NET",
        "usb-c",
        "--error-on-warnings",
        "don't",
        "\"",
        "test\"",
        ">>>",
        "following:",
        "https://wiki.x.org/a?b=c",
        "y+(y+25)",
        "AND",
        "OR NOT",
        "[[Link]]",
        "path/to/file.rs:42",
        "e:\\dir",
        "- *",
        "NOT *",
        "(unbalanced",
    ];
    for (at, string) in strings.iter().enumerate() {
        house.write(
            format!("s/{at:02}.md"),
            format!("Before it.\n\nThe text {string} stands here.\n"),
        );
    }
    for at in 0..40 {
        house.write(format!("other/{at}.md"), format!("Quite another matter, number {at}.\n"));
    }
    house.settle_and_check();
    for (at, string) in strings.iter().enumerate() {
        let found = house.found(string);
        let path = format!("s/{at:02}.md");
        assert!(found.iter().take(5).any(|it| *it == path), "{string:?} finds {found:?}");
    }
    for string in ["*", "-*", "+ *", "* ", "\\", "field:", "[a TO b]", "~", "^2"] {
        let said = house.run(["search", "--", string]);
        assert!(said.code <= 1, "{string:?}: {} {}", said.code, said.stderr);
    }
    for empty in ["", "   "] {
        let said = house.run(["search", "--", empty]);
        assert_eq!(said.code, 2, "{}", said.stdout);
        assert!(said.stderr.contains("empty"), "{}", said.stderr);
    }
}

#[test]
fn words_are_found_in_any_script_f04() {
    let house = House::open();
    let hash = "0123456789abcdef0123456789abcdef0123456789ab";
    let url = "https://example.org/a/rather/long/path/to/some/page.html?x=1";
    let notes = [
        ("zh.md", "把機器推論洗成權威事實的做法"),
        ("ja.md", "東京都庁の会議"),
        ("ko.md", "회의록을"),
        ("mixed.md", "使用JWT令牌"),
        ("wide.md", "ＡＢＣ１２３"),
        ("hash.md", hash),
        ("url.md", url),
        ("code.md", "fn handleWebSocketReconnect() -> ECONNREFUSED; snake_case_name v0.4.2"),
        ("accent.md", "Mot\u{f6}rhead na\u{ef}ve"),
        ("stem.md", "The deployments were running"),
    ];
    for (path, text) in notes {
        house.write(path, format!("{text}\n"));
    }
    house.settle_and_check();
    for (query, path) in [
        ("權威事實", "zh.md"),
        ("機器推論", "zh.md"),
        ("推論", "zh.md"),
        ("事實", "zh.md"),
        ("做", "zh.md"),
        ("東京都庁", "ja.md"),
        ("会議", "ja.md"),
        ("회의록", "ko.md"),
        ("회의", "ko.md"),
        ("JWT", "mixed.md"),
        ("令牌", "mixed.md"),
        ("ABC123", "wide.md"),
        (hash, "hash.md"),
        (url, "url.md"),
        ("handleWebSocketReconnect", "code.md"),
        ("socket", "code.md"),
        ("reconnect", "code.md"),
        ("ECONNREFUSED", "code.md"),
        ("snake_case_name", "code.md"),
        ("snake", "code.md"),
        ("v0.4.2", "code.md"),
        ("Moto\u{308}rhead", "accent.md"),
        ("motorhead", "accent.md"),
        ("naive", "accent.md"),
        ("deployment", "stem.md"),
        ("run", "stem.md"),
    ] {
        let found = house.found(query);
        assert_eq!(found.first().map(String::as_str), Some(path), "{query:?} finds {found:?}");
    }
}

#[test]
fn what_is_gone_is_not_found_f07() {
    let mut house = House::open();
    for (path, text) in [
        ("a.md", "alfa"),
        ("b.md", "bravo"),
        ("d.md", "delta"),
        ("e.md", "echo and more"),
        ("off.md", "oscar"),
        ("git.md", "golf"),
        ("stay.md", "stay"),
    ] {
        house.write(path, format!("{text}\n"));
    }
    house.settle_and_check();
    fs::remove_file(house.at("a.md")).unwrap();
    fs::rename(house.at("b.md"), house.at("c.md")).unwrap();
    house.write("d.md", "");
    house.write("e.md", "and more\n");
    house.settle_and_check();
    house.git(["rm", "-q", "git.md"]);
    house.git(["commit", "-qm", "by hand"]);
    house.settle_and_check();
    house.stop();
    fs::remove_file(house.at("off.md")).unwrap();
    for _ in 0..2 {
        house.start();
        house.settle_and_check();
        for needle in ["alfa", "delta", "echo", "oscar", "golf"] {
            assert_eq!(house.found(needle), Vec::<String>::new(), "{needle}");
        }
        assert_eq!(house.found("bravo"), ["c.md"]);
        if has_fuse("the mount in what_is_gone_is_not_found_f07") {
            for needle in ["alfa", "delta", "echo", "oscar", "golf"] {
                let page = house.cat(&format!("search/{needle}"));
                assert!(page.starts_with("No hits.\n"), "{page}");
                assert!(
                    fs::read_dir(house.mount.join(format!("links/{needle}")))
                        .unwrap()
                        .next()
                        .is_none()
                );
            }
            for link in fs::read_dir(house.mount.join("links/limit=50/stay bravo more")).unwrap() {
                assert!(fs::metadata(link.unwrap().path()).is_ok(), "a hit is there to be opened");
            }
        }
        house.stop();
    }
}

#[test]
fn filters_work_before_the_top_is_taken() {
    if !has_fuse("filters_work_before_the_top_is_taken") {
        return;
    }
    let house = House::open();
    for at in 0..60 {
        house.write(format!("A/{at}.md"), "bicycle bicycle bicycle commute\n");
    }
    for at in 0..3 {
        house.write(
            format!("B/{at}.md"),
            format!("---\ntags: [ride]\n---\nOne bicycle among many words, {at}.\n"),
        );
    }
    house.write("memory/2026-05-01/old.md", "bicycle\n");
    house.write("memory/2026-07-01/new.md", "bicycle\n");
    house.settle_and_check();
    let paths = |args: &[&str]| {
        let mut all = vec!["search", "--json", "-n", "5"];
        all.extend(args);
        let said = house.run(all);
        let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let mut paths: Vec<String> = json["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["path"].as_str().unwrap().to_owned())
            .collect();
        paths.sort();
        paths
    };
    let three = ["B/0.md", "B/1.md", "B/2.md"];
    assert_eq!(paths(&["--in", "B", "bicycle"]), three);
    assert_eq!(paths(&["--tag", "ride", "bicycle"]), three);
    assert_eq!(paths(&["--path", "B/*.md", "bicycle"]), three);
    assert_eq!(
        paths(&["--in", "memory", "--since", "2026-06-01", "bicycle"]),
        ["memory/2026-07-01/new.md"]
    );
    assert_eq!(
        paths(&["--in", "memory", "--until", "2026-06-01", "bicycle"]),
        ["memory/2026-05-01/old.md"]
    );
    let page = house.cat("search/in=B/limit=2/bicycle");
    assert_eq!(page.lines().filter(|it| it.starts_with("========== B/")).count(), 2, "{page}");
    assert_eq!(house.run(["search", "--since", "soon", "bicycle"]).code, 2);
}

#[test]
fn frontmatter_is_read_and_a_bad_one_is_named_b05_b06() {
    let house = House::open();
    house.write("dup.md", "---\ntags: [alpha, beta]\nstatus: open\nstatus: closed\n---\nbodydup\n");
    house.write("bad.md", "---\nname: my-note\ndescription: explains: badly\n---\nbodybad\n");
    house.write("eof.md", "---\ntitle: Endless\n---");
    house.write("spaces.md", "--- \ntitle: Spacious\n--- \nbodyspaces\n");
    house.write("empty.md", "---\n---\nbodyempty\n");
    house.write("late.md", "\n---\ntitle: Late\n---\nbodylate\n");
    house.write("four.md", "----\ntitle: Four\n----\nbodyfour\n");
    house.write("named.md", "---\nname: Kingfisher\naliases: [Halcyon]\ndescription: A blue bird.\ntags: [bird]\n---\nText.\n");
    let film = "---\ndirector: \"[[Ridley Scott]]\"\ncast: [Sigourney Weaver]\n---\nIn space.\n";
    house.write("film.md", film);
    house.write("other.md", "A kingfisher and a halcyon, a bird: kingfisher, halcyon, bird.\n");
    house.settle_and_check();
    let tagged = house.run(["search", "--json", "--tag", "beta", "bodydup"]).stdout;
    assert!(tagged.contains("dup.md"), "{tagged}");
    for (query, path) in [
        ("bodybad", "bad.md"),
        ("badly", "bad.md"),
        ("Endless", "eof.md"),
        ("Spacious", "spaces.md"),
        ("bodyempty", "empty.md"),
        ("bodylate", "late.md"),
        ("bodyfour", "four.md"),
        ("Kingfisher", "named.md"),
        ("Halcyon", "named.md"),
        ("Ridley Scott", "film.md"),
        ("weaver", "film.md"),
    ] {
        assert_eq!(house.found(query).first().map(String::as_str), Some(path), "{query}");
    }
    assert_eq!(
        house.in_head("bad.md"),
        b"---\nname: my-note\ndescription: explains: badly\n---\nbodybad\n"
    );
}

#[test]
fn links_are_found_where_they_are_links_c02_c03_c05() {
    if !has_fuse("links_are_found_where_they_are_links_c02_c03_c05") {
        return;
    }
    let house = House::open();
    house.write("Ghost.md", "ghost\n");
    house.write("Real.md", "real\n");
    house.write(
        "src.md",
        "use `[[` and `]]` markers, `[[Ghost]]` and [[Real]]\n\n```\n[[Ghost]]\n```\n\n~~~~\n~~~\n[[Ghost]]\n~~~~\n\n    [[Ghost]]\n\n<!-- [[Ghost]] -->\n%%[[Ghost]]%%\n",
    );
    for path in ["_Inbox/README.md", "00.projects/README.md", "notes/README.md"] {
        house.write(path, "readme\n");
    }
    house.write("notes/src.md", "[[README]] [[notes/README]] ![[README#Setup]]\n");
    house.write("MyNote.md", "mynote\n");
    house.write("Stra\u{df}e.md", "street\n");
    house.write("case.md", "[[mynote]] [[MYNOTE.MD]] [[STRASSE]]\n");
    house.settle_and_check();
    assert!(house.cat("note/Real.md/backlinks").contains("src.md"));
    assert!(!house.cat("note/Ghost.md/backlinks").contains("src.md"));
    assert!(
        house.cat("note/notes/README.md/backlinks").contains("notes/src.md"),
        "same folder first"
    );
    assert!(!house.cat("note/_Inbox/README.md/backlinks").contains("notes/src.md"));
    assert!(house.cat("note/MyNote.md/backlinks").contains("case.md"));
    assert!(house.cat("note/Stra\u{df}e.md/backlinks").contains("case.md"));
    assert_eq!(house.head_paths().len(), 10, "a link makes no note");
    // A second note that differs only by case: exact case wins, the inexact one is ambiguous.
    house.write("mynote.md", "other\n");
    house.settle_and_check();
    assert!(house.cat("note/mynote.md/backlinks").contains("case.md"));
    assert!(house.status()["index"]["ambiguous_links"].as_u64().unwrap() >= 1);
}

/// What a page says that was current, when no agent runs: nobody has looked at the disk since.
fn with_no_agent(page: &str) -> String {
    let told = page.replace(", current, ", ", no agent: edits since then unknown, ");
    assert_ne!(told, page);
    told
}

#[test]
fn without_an_agent_the_same_bytes_but_for_the_disk() {
    let mut house = House::open();
    house.write("a.md", "# Tides\n\nneedle one [[b]]\n");
    house.write("b.md", "needle two\n");
    house.settle_and_check();
    let with = house.run(["search", "needle"]);
    house.stop();
    let without = house.run(["search", "needle"]);
    let expected = (with.code, with_no_agent(&with.stdout));
    assert_eq!((without.code, without.stdout), expected, "{}", without.stderr);
    // Changed meanwhile and committed by hand: the difference to HEAD is read too.
    house.write("c.md", "needle three\n");
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "by hand"]);
    assert!(house.found("needle").contains(&"c.md".to_owned()));
    // No index at all: one is built.
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    assert_eq!(house.found("needle").len(), 3);
    assert_eq!(house.run(["search", "nowhere to be found"]).code, 1);
}

#[test]
fn what_was_there_before_changes_no_score() {
    let mut house = House::open();
    for at in 0..30 {
        house.write(format!("n{at}.md"), format!("needle first {at} and some words more\n"));
    }
    house.settle_and_check();
    for round in 0..3 {
        for at in 0..10 {
            house.write(format!("n{at}.md"), format!("needle second {at} round {round}\n"));
        }
        fs::remove_file(house.at(format!("n{}.md", 20 + round))).unwrap();
        house.settle_and_check();
    }
    // In memory, made durable at the stop, and from a rebuild: the same hits and scores.
    let page =
        |house: &House| house.run(["search", "-n", "50", "needle", "second", "words"]).stdout;
    let in_memory = page(&house);
    house.stop();
    assert_eq!(page(&house), with_no_agent(&in_memory));
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    house.start();
    house.settle_and_check();
    assert_eq!(page(&house), in_memory);
}

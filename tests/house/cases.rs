//! Field cases of names, frontmatter and search, whole.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use remd::vault::frontmatter::edit::{NewValue, set};

use crate::house::{House, has_fuse, wait_for};

#[test]
fn a_renamed_odd_name_is_logged_by_its_bytes_a02() {
    let house = House::open();
    let names = ["日記 🔥.md", "q\"uote.md", "back\\slash.md", "tab\tname.md", "a b/ c.md"];
    for name in names {
        house.write(name, "word\n");
    }
    house.settle_and_check();
    for name in names {
        house.git(["mv", name, &format!("{name}.new.md")]);
    }
    house.git(["commit", "-qm", "renamed by hand"]);
    house.settle_and_check();
    let log = house.run(["log", "--json", "-n", "1"]).stdout;
    let log: serde_json::Value = serde_json::from_str(&log).unwrap();
    let changed: Vec<&str> = log["commits"][0]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].as_str().unwrap())
        .collect();
    let mut found = house.found("word");
    found.sort();
    for name in names {
        let new = format!("{name}.new.md");
        assert!(changed.contains(&name) && changed.contains(&new.as_str()), "{changed:?}");
        assert!(found.contains(&new), "{found:?}");
    }
    assert_eq!(found.len(), names.len());
}

#[test]
fn a_newline_in_a_name_shifts_no_other_content_a03() {
    let house = House::open();
    house.write("line\nbreak.md", "x");
    house.write("after.md", "needle77");
    house.settle_and_check();
    assert_eq!(house.in_head("after.md"), b"needle77");
    assert_eq!(house.found("needle77"), ["after.md"]);
    assert_eq!(house.head_paths(), [&b"after.md"[..], b"line\nbreak.md"]);
    fs::rename(house.at("line\nbreak.md"), house.at("ok.md")).unwrap();
    house.settle_and_check();
    assert_eq!(house.head_paths(), [&b"after.md"[..], b"ok.md"]);
    let log = house.run(["log", "--all"]).stdout;
    assert_eq!(log.lines().count(), house.commits(), "{log}");
}

#[test]
fn one_key_is_one_line_of_the_diff_a06() {
    let house = House::open();
    house.write("crlf.md", "---\r\ntitle: Crlf\r\ntags: [x]\r\n---\r\nbody\r\n");
    house.write("bom.md", "\u{feff}---\ntitle: Bom\ntags: [x]\n---\nbody\n");
    house.settle_and_check();
    for (title, path) in [("Crlf", "crlf.md"), ("Bom", "bom.md")] {
        assert_eq!(house.found(title), [path]);
        let tagged = house.run(["search", "--json", "--tag", "x", title]).stdout;
        assert!(tagged.contains(path), "{tagged}");
        let before = fs::read(house.at(path)).unwrap();
        let after = set(&before, "title", &NewValue::Text("Quite another".into())).unwrap();
        house.write(path, &after);
        house.settle_and_check();
        let stat = house.git(["diff", "--numstat", "HEAD~1", "HEAD"]);
        assert_eq!(stat, format!("1\t1\t{path}"));
        assert_eq!(house.in_head(path), after);
    }
    assert!(house.in_head("bom.md").starts_with(b"\xef\xbb\xbf---"));
    assert!(
        house.in_head("crlf.md").ends_with(b"title: Quite another\r\ntags: [x]\r\n---\r\nbody\r\n")
    );
    assert_eq!(house.found("\"Quite another\"").len(), 2);
}

#[test]
fn bytes_of_a_note_with_bad_frontmatter_stay_b02() {
    let house = House::open();
    let bad = "---\nname: my-note\ndescription: explains: badly\n---\nzqbody\n";
    house.write("bad.md", bad);
    house.settle_and_check();
    let refused =
        set(&fs::read(house.at("bad.md")).unwrap(), "permalink", &NewValue::Text("x".into()));
    assert!(refused.unwrap_err().to_string().contains("Line 3"));
    assert_eq!(house.in_head("bad.md"), bad.as_bytes());
    assert_eq!(house.found("zqbody"), ["bad.md"]);
    let status = house.run(["status"]).stdout;
    assert!(status.contains("bad.md") && status.contains("line 3"), "{status}");
}

#[test]
fn names_of_any_width_fit_where_they_are_shown_a09() {
    if !has_fuse("names_of_any_width_fit_where_they_are_shown_a09") {
        return;
    }
    let house = House::open();
    for (at, filler) in ["─", "日", "👨‍👩‍👧", "é"].iter().enumerate() {
        for k in 0..4 {
            let title = "a".repeat(k) + &filler.repeat(300);
            house.write(
                format!("{at}-{k}.md"),
                format!("---\nname: {title}\n---\n# {title}\n\nzqwide {k}\n"),
            );
        }
        house.write(format!("{}.md", filler.repeat(240 / filler.len())), "zqwide\n");
    }
    house.settle_and_check();
    let names: Vec<_> = fs::read_dir(house.mount.join("links/limit=50/zqwide"))
        .unwrap()
        .map(|it| it.unwrap())
        .collect();
    assert_eq!(names.len(), 20);
    for entry in names {
        let name = entry.file_name().into_string().expect("a name is text");
        assert!(name.len() <= 255 && !name.contains('\u{fffd}'), "{name}");
        assert!(fs::read_to_string(entry.path()).unwrap().contains("zqwide"));
    }
    assert!(!house.cat("search/limit=50/zqwide").contains('\u{fffd}'));
    assert!(!house.run(["log"]).stdout.contains('\u{fffd}'));
}

/// The bound that the note of megabytes in one line is held to, over what the agent took before.
const MOST_MEMORY: u64 = 200 << 20;

#[test]
fn a_line_of_megabytes_is_cut_in_bounded_memory_a10() {
    let house = House::open();
    house.write("first.md", "first\n");
    house.settle_and_check();
    let peak = |house: &House| {
        let status = fs::read_to_string(format!("/proc/{}/status", house.pid())).unwrap();
        let line = status.lines().find(|it| it.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    let before = peak(&house);
    let line = "function e(a){return a}".repeat(90_000);
    house.write("min.md", format!("---\ntitle: Min\n---\n```js\n{line}\n```\n"));
    let words: String = (0..300).map(|it| format!("word{it} ")).collect();
    house.write("paste.md", format!("{words}\n\n").repeat(50));
    house.settle_and_check();
    assert!(
        peak(&house) < before + MOST_MEMORY,
        "{} MB over {}",
        (peak(&house) - before) >> 20,
        before >> 20
    );
    assert_eq!(house.found("function return"), ["min.md"]);
    assert_eq!(house.found("word7 word8"), ["paste.md"]);
    assert_eq!(house.in_head("min.md").len(), line.len() + 30);
}

#[test]
fn a_name_in_another_case_replaces_nothing_a11() {
    let house = House::open();
    // As a repository has it that was made on a system without case.
    house.git(["config", "core.ignorecase", "true"]);
    house.write("Note.md", "zqfirst\n");
    house.settle_and_check();
    house.write("note.md", "zqsecond\n");
    house.settle_and_check();
    assert_eq!(house.in_head("Note.md"), b"zqfirst\n");
    assert_eq!(house.in_head("note.md"), b"zqsecond\n");
    assert_eq!(
        (house.found("zqfirst"), house.found("zqsecond")),
        (vec!["Note.md".into()], vec!["note.md".into()])
    );
    // Renamed by case alone, over the other one's place: each content is in some commit.
    fs::remove_file(house.at("note.md")).unwrap();
    fs::rename(house.at("Note.md"), house.at("note.md")).unwrap();
    house.settle_and_check();
    assert_eq!(house.head_paths(), [b"note.md"]);
    assert_eq!(house.in_head("note.md"), b"zqfirst\n");
    assert_eq!(
        (house.found("zqfirst"), house.found("zqsecond").len()),
        (vec!["note.md".into()], 0)
    );
    fs::rename(house.at("note.md"), house.at("NOTE.md")).unwrap();
    house.settle_and_check();
    assert_eq!(house.head_paths(), [b"NOTE.md"]);
    assert_eq!(house.found("zqfirst"), ["NOTE.md"]);
}

#[test]
fn code_holds_no_tag_and_folding_knows_no_locale_c02_c05() {
    if !has_fuse("code_holds_no_tag_and_folding_knows_no_locale_c02_c05") {
        return;
    }
    let mut house = House::open();
    house.stop();
    // A locale in which `i` and `I` are letters of their own changes nothing.
    house.env("LC_ALL", "tr_TR.UTF-8").start();
    house.write("code.md", "`#ghosttag` #realtag zqtag\n\n```\n#ghosttag\n```\n\n    #ghosttag\n\n<!-- #ghosttag --> %%#ghosttag%%\n");
    house.write("\u{130}stanbul.md", "zqcity\n");
    house.write("INDIA.md", "zqcountry\n");
    house.write("src.md", "[[istanbul]] [[i\u{307}stanbul]] [[india]]\n");
    house.settle_and_check();
    let tagged = |tag: &str| house.run(["search", "--tag", tag, "zqtag"]).code;
    assert_eq!((tagged("realtag"), tagged("ghosttag")), (0, 1));
    assert!(house.cat("note/\u{130}stanbul.md/backlinks").contains("src.md"));
    assert!(house.cat("note/INDIA.md/backlinks").contains("src.md"));
    let json = house.run(["search", "--json", "zqcity"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["results"][0]["inlinks"][0]["anchors"].as_array().map_or(0, Vec::len), 0);
}

#[test]
fn any_text_is_a_question_beside_others_f01_f03() {
    if !has_fuse("any_text_is_a_question_beside_others_f01_f03") {
        return;
    }
    let house = House::open();
    let texts = [
        "- *",
        "-*",
        "+ *",
        "* ",
        "NOT *",
        "@nasa",
        "why?",
        "50%",
        "a=b",
        "C++",
        ".NET",
        "don't",
        "\"",
        "test\"",
        ">>>",
        "https://wiki.x.org/a?b=c",
        "OR NOT",
        "[[Link]]",
        "path/to/file.rs:42",
        "e:\\dir",
        "\u{202e}rtl שלום",
        "\u{1b}[31m",
        "\u{1}\u{7f}",
        ".*[a-z]+$(^",
        "the and of",
        "limit=3x",
        "field:[a TO b]",
        "(((",
        "{\"json\": 1}",
    ];
    for (at, text) in texts.iter().enumerate() {
        house.write(format!("s/{at:02}.md"), format!("Before.\n\nThe text {text} stands here.\n"));
    }
    house.write("good.md", "zqgood words\n");
    house.settle_and_check();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let good = scope.spawn(|| {
            let mut asked = 0;
            while !done.load(Ordering::SeqCst) || asked < 10 {
                assert_eq!(house.found("zqgood"), ["good.md"]);
                asked += 1;
            }
        });
        for (at, text) in texts.iter().enumerate() {
            let path = format!("s/{at:02}.md");
            let found = house.found(text);
            assert!(found.iter().take(5).any(|it| *it == path), "{text:?} finds {found:?}");
            let name: String = text
                .bytes()
                .map(|it| match it.is_ascii_alphanumeric() {
                    true => char::from(it).to_string(),
                    false => format!("%{it:02X}"),
                })
                .collect();
            let page = house.cat(&format!("search/{name}"));
            assert!(page.contains(&format!("s/{at:02}.md:")), "{text:?}: {page}");
        }
        for odd in ["- *", "-*", "+ *", "* ", "NOT *"] {
            assert!(house.cat(&format!("search/{odd}")).contains("s/"), "{odd}");
        }
        done.store(true, Ordering::SeqCst);
        good.join().unwrap();
    });
    assert!(!house.log().contains("panicked"), "{}", house.log());
}

#[test]
fn a_huge_question_is_answered_in_bounds() {
    use remd::serve::{Answer, Form, Request, client};
    let house = House::open();
    house.write("a.md", "zqword and others\n");
    house.settle_and_check();
    let run = house.vault.parent().unwrap().join("run/remd");
    let socket = fs::read_dir(&run)
        .unwrap()
        .map(|it| it.unwrap().path())
        .find(|it| it.extension().is_some_and(|it| it == "sock"))
        .unwrap_or_else(|| panic!("no socket in {}", run.display()));
    for text in [
        "zqword ".repeat(150_000),
        (0..10_000).map(|it| format!("w{it} ")).collect::<String>() + "zqword",
        "the of and ".repeat(90_000),
        ">".repeat(1 << 20),
        "\"a b\" ".repeat(200_000),
        "日".repeat(350_000),
        "\u{1b}\0\r\n".repeat(100_000),
    ] {
        let query = remd::search::Query::new(text.clone());
        let request = Request::Search { query, form: Form::Json };
        let answer = client::ask(&socket, request, std::time::Duration::from_secs(60)).unwrap();
        assert!(matches!(answer, Answer::Page { .. }), "{:.20}: {answer:?}", text);
    }
    // What is too long for the wire is refused in words, and the next client is served.
    let query = remd::search::Query::new("x".repeat(5 << 20));
    let answer = client::ask(
        &socket,
        Request::Search { query, form: Form::Json },
        std::time::Duration::from_secs(60),
    );
    assert!(!matches!(answer, Ok(Answer::Page { .. })), "{answer:?}");
    assert_eq!(house.found("zqword"), ["a.md"]);
    let said = house.run(["search", "--", &"zqword ".repeat(18_000)]);
    assert_eq!(said.code, 0, "{}", said.stderr);
}

/// Several commands, with an agent or without, while the index is built anew: one writer, and
/// nobody hears of a lock.
#[test]
fn many_readers_beside_one_writer_f09() {
    let mut house = House::open();
    for at in 0..200 {
        house.write(format!("n/{at}.md"), format!("zqcommon note number{at}\n"));
    }
    house.settle_and_check();
    let search_all = |house: &House, rounds: usize| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let said = house.run(["search", "--json", "-n", "200", "zqcommon"]);
                        assert!(matches!(said.code, 0 | 3), "{} {}", said.code, said.stderr);
                        let talk = said.stderr.to_lowercase();
                        assert!(
                            !talk.contains("lock") && !talk.contains("busy"),
                            "{}",
                            said.stderr
                        );
                        let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
                        let hits = json["results"].as_array().unwrap().len();
                        assert!(said.code == 3 || hits >= 200, "{hits} hits and nothing said");
                    }
                });
            }
        });
    };
    // No agent, no index: several commands at once would build it.
    house.stop();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    search_all(&house, 2);
    // An agent that builds it, edits that come in, commands beside.
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    house.start();
    std::thread::scope(|scope| {
        let house = &house;
        scope.spawn(move || {
            for at in 200..260 {
                house.write(format!("n/{at}.md"), format!("zqcommon zqlate note number{at}\n"));
            }
        });
        search_all(house, 8);
    });
    house.settle_and_check();
    assert_eq!(house.found("zqlate").len(), 60);
    assert_eq!(house.head_paths().len(), 260);
    let log = house.log().to_lowercase();
    assert!(!log.contains("lockbusy") && !log.contains("panicked"), "{}", house.log());
    wait_for("the agent to be well", || house.status()["verdict"] == "ok");
}

#[test]
fn a_folder_filter_finds_the_few_among_thousands_f11() {
    let house = House::open();
    for at in 0..2000 {
        house.write(format!("A/{at}.md"), "bicycle commute bicycle\n");
    }
    for at in 0..3 {
        house.write(
            format!("B/{at}.md"),
            format!(
                "---\ntags: [few]\ndate: 2026-07-0{}\n---\nOne bicycle in a longer text, {at}.\n",
                at + 1
            ),
        );
    }
    house.settle_and_check();
    for filter in [["--path", "B/*"], ["--in", "B"], ["--tag", "few"]] {
        let said =
            house.run([&["search", "--json", "-n", "5"][..], &filter, &["bicycle"]].concat());
        let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(json["results"].as_array().unwrap().len(), 3, "{filter:?}: {}", said.stdout);
    }
}

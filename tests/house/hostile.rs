//! Content that nobody expects: committed byte for byte, found as far as it can be read, named
//! where it can't, and never in the way of its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::house::{House, has_fuse};

/// A word that no other number has, that no tokenizer cuts and no stemmer shortens.
pub fn needle(number: usize) -> String {
    let letters =
        [number / 676, number / 26 % 26, number % 26].map(|it| char::from(b'a' + it as u8));
    format!("zq{}k", letters.iter().collect::<String>())
}

/// Every file and symlink below the vault, by its bytes, but for Git's and our own folders.
fn on_disk(house: &House) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![house.vault.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let name = entry.path().strip_prefix(&house.vault).unwrap().to_owned();
            if name == Path::new(".git") || name == Path::new("mem_metadata") {
                continue;
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                files.insert(
                    name.as_os_str().as_bytes().to_vec(),
                    target.as_os_str().as_bytes().to_vec(),
                );
            } else if kind.is_file() {
                files.insert(name.as_os_str().as_bytes().to_vec(), fs::read(entry.path()).unwrap());
            }
        }
    }
    files
}

/// What HEAD holds, by its bytes, read by Git in one go.
fn in_head(house: &House) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let listing = house.git_bytes(["ls-tree", "-r", "-z", "HEAD"]);
    let rows: Vec<(&[u8], &[u8])> = listing
        .split(|it| *it == 0)
        .filter(|it| !it.is_empty())
        .map(|row| {
            let tab = row.iter().position(|it| *it == b'\t').unwrap();
            (row[..tab].rsplit(|it| *it == b' ').next().unwrap(), &row[tab + 1..])
        })
        .collect();
    let mut git = Command::new("git")
        .args(["cat-file", "--batch"])
        .current_dir(&house.vault)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut asked = git.stdin.take().unwrap();
    let ids: Vec<u8> = rows.iter().flat_map(|it| [it.0, b"\n"].concat()).collect();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut asked, &ids).unwrap());
    let answer = git.wait_with_output().unwrap().stdout;
    writer.join().unwrap();
    let mut rest = &answer[..];
    let mut files = BTreeMap::new();
    for (id, path) in rows {
        let end = rest.iter().position(|it| *it == b'\n').unwrap();
        let head = String::from_utf8(rest[..end].to_vec()).unwrap();
        assert!(head.as_bytes().starts_with(id), "{head}");
        let size: usize = head.rsplit(' ').next().unwrap().parse().unwrap();
        files.insert(path.to_vec(), rest[end + 1..end + 1 + size].to_vec());
        rest = &rest[end + 2 + size..];
    }
    files
}

/// Settles; checks that HEAD is the disk byte for byte but for `held`, which `git status` and
/// `remd status` name, and that the repository is sound.
pub fn settle_and_compare(house: &House, held: &[&[u8]]) {
    house.settle();
    house.git(["fsck", "--strict"]);
    let (disk, mut head) = (on_disk(house), in_head(house));
    let held: BTreeSet<Vec<u8>> = held.iter().map(|it| it.to_vec()).collect();
    for (path, bytes) in &disk {
        let name = String::from_utf8_lossy(path);
        match head.remove(path) {
            Some(committed) => {
                assert!(!held.contains(path), "{name:?} is committed");
                assert!(committed == *bytes, "{name:?}: other bytes are committed");
            }
            None => assert!(held.contains(path), "{name:?} is not committed\n{}", house.log()),
        }
    }
    assert!(head.is_empty(), "HEAD has what the disk has not: {:?}", head.keys());
    let status = house.git_bytes(["status", "--porcelain", "-z", "-uall"]);
    let left: BTreeSet<Vec<u8>> = status
        .split(|it| *it == 0)
        .filter(|it| !it.is_empty())
        .map(|it| it[3..].to_vec())
        .collect();
    assert_eq!(left, held);
}

/// Whether one hit, and only one, is the note at `path`.
pub fn finds(house: &House, query: &str, path: &[u8]) -> bool {
    let said = house.run(["search", "--json", "-n", "20", "--", query]);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let hex: String = path.iter().map(|it| format!("{it:02x}")).collect();
    let hits = json["results"].as_array().unwrap();
    let is_it = |hit: &serde_json::Value| match hit["path_hex"].as_str() {
        Some(found) => found == hex,
        None => hit["path"].as_str().is_some_and(|it| it.as_bytes() == path),
    };
    hits.len() == 1 && is_it(&hits[0])
}

/// Names that are odd to people, shells, terminals, Git or the mount, and that Git takes.
fn odd_names() -> Vec<Vec<u8>> {
    let long = format!("{}.md", "n".repeat(252));
    let wide = format!("{}.md", "知".repeat(84));
    let deep = format!("{}leaf.md", "deep-folder/".repeat(100));
    let text = [
        "caf\u{e9}.md",
        "cafe\u{301}.md",
        "👨‍👩‍👧.md",
        "🇩🇪 🏴‍☠️.md",
        "\u{2764}\u{fe0f}.md",
        "'single' \"double\" `back`.md",
        "“curly” «angle» ‚low‘.md",
        "line\nbreak.md",
        "carriage\rreturn.md",
        "windows\r\nboth.md",
        "tab\tname.md",
        "\u{1b}[31mred\u{1b}[0m.md",
        "\u{1b}]52;c;aGk=\u{7}.md",
        "bell\u{7}\u{8}\u{7f}.md",
        "\u{9b}31m c1.md",
        "sep\u{2028}arator.md",
        "rtl\u{202e}dm.evil.md",
        "zero\u{200b}width.md",
        "-dash.md",
        "--help.md",
        "-.md",
        " leading.md",
        "trailing.md ",
        "dots.md...",
        " .md",
        "...md",
        "*.md",
        "?.md",
        "[a-z].md",
        "{a,b}.md",
        "!x.md",
        "#x.md",
        "~x.md",
        "$HOME.md",
        "$(id).md",
        "a;b&c|d.md",
        "a>b<c.md",
        "back\\slash.md",
        "trailing\\",
        "a\\..\\b.md",
        "a:b.md",
        "::",
        ":(top)x.md",
        ":!x.md",
        ":/x.md",
        "@{u}.md",
        "HEAD",
        "HEAD~1.md",
        "--",
        "CON",
        "nul.md",
        "aux",
        "COM1.md",
        "%41.md",
        "%2F.md",
        "a%.md",
        "README.md",
        "links",
        "search",
        "nodes",
        "note",
        "status.json",
        "limit=3.md",
        "in=x",
        "index.md",
        "note.md/note.md",
        "q/search/links/limit=3/x.md",
        "Case.md",
        "case.md",
        "CASE.MD",
        "Fold/a.md",
        "fold/a.md",
        ".hidden.md",
        ".gitfoo",
        "git~2",
        ".gitignore.md",
        ".gitmodules",
        "a b/ c.md",
        "x => y.md",
        "x -> y.md",
        "old → new.md",
        "\u{feff}bom.md",
        "========== forged.md:1-1 [score=9.0000] ==========.md",
        "[[link]].md",
        "a|b#c^d.md",
    ];
    let mut names: Vec<Vec<u8>> = text.iter().map(|it| it.as_bytes().to_vec()).collect();
    names.extend([long.into_bytes(), wide.into_bytes(), deep.into_bytes()]);
    names.extend(
        [
            &b"latin\xe9.md"[..],
            b"bad\xff\xfe.md",
            b"\x80.md",
            b"over\xc0\xaf.md",
            b"sur\xed\xa0\x80.md",
        ]
        .map(<[u8]>::to_vec),
    );
    names
}

#[test]
fn every_name_that_git_takes_is_committed_and_found() {
    let house = House::open();
    let names = odd_names();
    for (at, name) in names.iter().enumerate() {
        house.write(name, format!("{}\n", needle(at)));
    }
    house.write("neighbour.md", "plainneighbour\n");
    settle_and_compare(&house, &[]);
    assert!(finds(&house, "plainneighbour", b"neighbour.md"));
    for (at, name) in names.iter().enumerate() {
        let last = name.rsplit(|it| *it == b'/').next().unwrap();
        let is_note = last.to_ascii_lowercase().ends_with(b".md") && !last.starts_with(b".");
        assert_eq!(finds(&house, &needle(at), name), is_note, "{}", String::from_utf8_lossy(name));
    }
    // A name forges neither a hit nor a line, and commands no terminal, in a pipe either.
    for (at, name) in names.iter().enumerate().filter(|it| it.1.iter().any(u8::is_ascii_control)) {
        let page = house.run(["search", "--", &needle(at)]).stdout;
        assert!(!page.contains(['\u{1b}', '\u{7}', '\r', '\u{7f}']), "{page:?}");
        let headers = page.lines().filter(|it| it.starts_with("==========")).count();
        assert_eq!(headers, usize::from(name.ends_with(b".md")), "{page:?}");
    }
    for command in [&["log"][..], &["status"], &["show"]] {
        let said = house.run(command).stdout;
        assert!(
            !said.contains(['\u{1b}', '\u{7}', '\u{8}', '\u{9b}', '\u{202e}']),
            "{command:?}: {said:?}"
        );
    }
    // Each is edited, and goes, like any other.
    for (at, name) in names.iter().enumerate() {
        house.write(name, format!("again {}\n", needle(at)));
    }
    settle_and_compare(&house, &[]);
    fs::remove_file(house.at("line\nbreak.md")).unwrap();
    fs::rename(house.at("-dash.md"), house.at("\u{1b}[2J.md")).unwrap();
    settle_and_compare(&house, &[]);
}

/// What to some file system is Git's own: a tree with it would be refused by every careful Git.
#[test]
fn a_name_that_git_refuses_is_held_and_named() {
    let house = House::open();
    let held: [&[u8]; 9] = [
        b"git~1",
        b"GIT~1.",
        b".git ",
        b".git...",
        ".g\u{200c}it".as_bytes(),
        b"sub/.git::$INDEX_ALLOCATION/x.md",
        b"sub/git~1/needle.md",
        b"back\\.git",
        b"sub/.Git/x.md",
    ];
    for name in held {
        house.write(name, "held\n");
    }
    fs::create_dir_all(house.at("modules")).unwrap();
    symlink("/etc/passwd", house.at("modules/.gitmodules")).unwrap();
    symlink("/etc/passwd", house.at("GITMOD~1")).unwrap();
    house.write("neighbour.md", "plainneighbour\n");
    let links: [&[u8]; 2] = [b"modules/.gitmodules", b"GITMOD~1"];
    let all = [&held[..], &links].concat();
    settle_and_compare(&house, &all);
    assert!(finds(&house, "plainneighbour", b"neighbour.md"));
    let status = house.status();
    let kept = status["pending"]["kept_out"].as_array().unwrap();
    assert_eq!(kept.len(), all.len() - 1, "{kept:?}");
    assert!(kept.iter().all(|it| it["why"] == "a name that Git refuses"), "{kept:?}");
    let said = house.run(["status"]).stdout;
    assert!(said.contains("sub/.Git"), "{said}");
    // Under another name each comes in.
    for (at, name) in all.iter().enumerate() {
        fs::rename(house.at(name), house.at(format!("named{at}"))).unwrap();
    }
    fs::remove_dir(house.at("sub/.Git")).unwrap();
    settle_and_compare(&house, &[]);
    assert_eq!(house.status()["verdict"], "ok");
}

#[test]
fn a_place_too_deep_to_name_is_named_and_hides_nothing() {
    let house = House::open();
    house.write("neighbour.md", "plainneighbour\n");
    // Deeper than any path may be long: only step by step.
    let script = "cd \"$0\" && mkdir deep && cd deep && n=$(printf 'd%.0s' $(seq 250)) \
                  && for i in $(seq 20); do mkdir $n && cd $n || exit 1; done && echo lost > x.md";
    assert!(
        Command::new("bash").args(["-c", script]).arg(&house.vault).status().unwrap().success()
    );
    house.write("later.md", "plainlater\n");
    house.settle();
    assert!(finds(&house, "plainneighbour", b"neighbour.md"));
    assert!(finds(&house, "plainlater", b"later.md"));
    let said = house.run(["status"]).stdout;
    assert!(said.contains("not looked into") && said.contains("too long"), "{said}");
    assert!(
        Command::new("rm")
            .args(["-rf", "deep"])
            .current_dir(&house.vault)
            .status()
            .unwrap()
            .success()
    );
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
}

/// `script` gives the command a terminal of its own.
fn on_terminal(house: &House, args: &str) -> Vec<u8> {
    let command = format!("{} {args}", env!("CARGO_BIN_EXE_remd"));
    let output = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("REMD_VAULT", &house.vault)
        .env("HOME", house.vault.parent().unwrap().join("home"))
        .env("XDG_RUNTIME_DIR", house.vault.parent().unwrap().join("run"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("`script` of util-linux (Debian: bsdutils)");
    output.stdout
}

#[test]
fn a_note_commands_no_terminal() {
    let house = House::open();
    let evil = "needleterm \u{1b}]52;c;aGk=\u{7}\u{1b}[2J\u{9b}31m \u{202e}x over\rwritten\n";
    house.write("e.md", evil);
    house.settle_and_check();
    house.write("e.md", format!("{evil}\u{1b}[8m\n"));
    house.settle_and_check();
    for args in [
        "search needleterm",
        "diff HEAD~1..HEAD",
        "show",
        "log",
        "status",
        "search -- \u{1b}[2J",
        "diff \u{1b}[2J",
    ] {
        let said = on_terminal(&house, args);
        let text = String::from_utf8(said).unwrap().replace("\r\n", "\n");
        assert!(!text.is_empty(), "{args}");
        assert!(
            !text.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\r']),
            "{args}: {text:?}"
        );
    }
    let shown = String::from_utf8(on_terminal(&house, "search needleterm")).unwrap();
    assert!(shown.contains("\\033]52;c;aGk=\\007"), "{shown}");
    // A pipe gets the note as it is.
    assert!(house.run(["search", "needleterm"]).stdout.contains("\u{1b}]52;c;aGk=\u{7}"));
}

#[test]
fn every_encoding_is_committed_and_read_as_far_as_it_goes() {
    let house = House::open();
    let utf16 = |text: &str, big: bool| -> Vec<u8> {
        text.encode_utf16()
            .flat_map(|it| if big { it.to_be_bytes() } else { it.to_le_bytes() })
            .collect()
    };
    let words = |at: usize| format!("# Title\n\n{} and other words\n", needle(at));
    let mut notes: Vec<(&str, Vec<u8>)> = vec![
        ("crlf.md", words(0).replace('\n', "\r\n").into_bytes()),
        ("cr.md", words(1).replace('\n', "\r").into_bytes()),
        ("mixed.md", words(2).replacen('\n', "\r\n", 1).into_bytes()),
        ("bom.md", format!("\u{feff}{}", words(3)).into_bytes()),
        ("latin1.md", [words(4).as_bytes(), b"caf\xe9 na\xefve\n"].concat()),
        ("middle.md", [words(5).as_bytes(), "日本 é\n".as_bytes(), b"\xff\xc3\n"].concat()),
        ("overlong.md", [words(6).as_bytes(), "é日本\n".as_bytes(), b"\xc0\xaf\n"].concat()),
        ("surrogate.md", [words(7).as_bytes(), "é日本\n".as_bytes(), b"\xed\xa0\x80\n"].concat()),
        ("nul.md", [words(8).as_bytes(), b"a\0b\n"].concat()),
        ("separators.md", format!("{}x\u{2028}y\u{2029}z\u{85}\n", words(9)).into_bytes()),
        ("bidi.md", format!("{}\u{202e}abc\u{202c} \u{2067}x\u{2069}\n", words(10)).into_bytes()),
        ("zero.md", format!("{}a\u{200b}b\u{feff}c\u{200d}d\n", words(11)).into_bytes()),
        ("utf16le.md", [b"\xff\xfe".to_vec(), utf16(&words(12), false)].concat()),
        ("utf16be.md", [b"\xfe\xff".to_vec(), utf16(&words(13), true)].concat()),
        ("combining.md", format!("{}e{}\n", words(14), "\u{301}".repeat(10_000)).into_bytes()),
    ];
    let found = notes.len();
    // No mark says what these are: kept, named, not guessed.
    notes.push(("utf16-bare.md", utf16(&words(15), false)));
    notes.push(("binary.md", (0..=255).cycle().take(4096).collect()));
    for (name, bytes) in &notes {
        house.write(name, bytes);
    }
    house.write("neighbour.md", "plainneighbour\n");
    settle_and_compare(&house, &[]);
    for (at, (name, _)) in notes.iter().enumerate().take(found) {
        assert!(finds(&house, &needle(at), name.as_bytes()), "{name}");
    }
    assert!(finds(&house, "plainneighbour", b"neighbour.md"));
    let troubled = house.status()["index"]["troubled_notes"].as_u64().unwrap();
    assert_eq!(troubled, 9, "{}", house.status()["index"]["troubled"]);
}

#[test]
fn every_size_and_shape_is_committed_and_stops_nobody() {
    let house = House::open();
    let mut notes: Vec<(&str, String)> = vec![
        ("line.md", format!("{} {}\n", needle(0), "x".repeat(2_000_000))),
        ("words.md", format!("{} {}\n", needle(1), "word ".repeat(400_000))),
        ("links.md", "[[neighbour]] ".repeat(100_000) + &needle(2)),
        (
            "other-links.md",
            (0..10_000).map(|it| format!("[[t{it}]] ")).collect::<String>() + &needle(3),
        ),
        (
            "headings.md",
            (0..10_000).map(|it| format!("# h{it}\n")).collect::<String>() + &needle(4),
        ),
        (
            "table.md",
            format!(
                "| a | b |\n|---|---|\n{}\n{}\n",
                "| cell | cell |\n".repeat(100_000),
                needle(5)
            ),
        ),
        ("list.md", "- item\n".repeat(100_000) + &needle(6)),
        ("quotes.md", format!("{}{}\n", "> ".repeat(10_000), needle(7))),
        (
            "nested.md",
            (0..1000).map(|it| format!("{}- a\n", "  ".repeat(it))).collect::<String>()
                + &needle(8),
        ),
        ("open.md", format!("{}\n\n{}\n", "[".repeat(100_000), needle(9))),
        ("emphasis.md", format!("{}\n\n{}\n", "*a **b _c ".repeat(20_000), needle(10))),
        (
            "ticks.md",
            (1..1000).map(|it| format!("{} ", "`".repeat(it))).collect::<String>()
                + "\n\n"
                + &needle(11),
        ),
        ("images.md", format!("{}\n\n{}\n", "![".repeat(50_000), needle(12))),
        ("references.md", format!("{}\n\n{}\n", "[a]: b\n".repeat(10_000), needle(13))),
        ("html.md", format!("{}\n\n{}\n", "<a ".repeat(50_000), needle(14))),
        ("math.md", format!("{}\n\n{}\n", "$a ".repeat(50_000), needle(15))),
    ];
    let found = notes.len();
    notes.push(("empty.md", String::new()));
    notes.push(("blank.md", "\n \n\t\n".into()));
    notes.push(("card.md", "---\ntitle: Only a zqcardtitle\n---\n".into()));
    notes.push((
        "huge-yaml.md",
        format!(
            "---\nname: n\n{}---\n{}\n",
            "long: some words of a value that stands in many lines of it\n".repeat(170_000),
            needle(found)
        ),
    ));
    for (name, text) in &notes {
        house.write(name, text);
    }
    house.write("neighbour.md", "plainneighbour\n");
    // Over the limit without a byte on the disk.
    fs::File::create(house.at("huge.bin")).unwrap().set_len(200_000_000).unwrap();
    settle_and_compare(&house, &[b"huge.bin"]);
    let said = house.run(["status"]).stdout;
    assert!(
        said.contains("huge.bin")
            && said.contains("too large (200 MB)")
            && said.contains("commit.max_file"),
        "{said}"
    );
    for (at, (name, _)) in notes.iter().enumerate().take(found) {
        assert!(finds(&house, &needle(at), name.as_bytes()), "{name}");
    }
    assert!(finds(&house, "plainneighbour", b"neighbour.md"));
    assert!(finds(&house, "zqcardtitle", b"card.md"));
    let troubled = house.status()["index"]["troubled"].to_string();
    assert!(troubled.contains("huge-yaml.md"), "{troubled}");
    if has_fuse("backlinks in every_size_and_shape_is_committed_and_stops_nobody") {
        // 100,000 links from one note are one neighbour.
        let page = house.cat("note/neighbour.md/backlinks");
        assert_eq!(page.matches("links.md").count(), 1, "{page}");
    }
}

//! `remd blame`: each line with its commit, across renames and moves, beside `git blame`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::house::{House, Said};

/// A commit as a job makes one: its author, its trailers.
pub fn commit_as_job(house: &House, subject: &str, trailers: &[(&str, &str)]) {
    let mut message = format!("{subject}\n\n");
    for (key, value) in trailers {
        message.push_str(&format!("{key}: {value}\n"));
    }
    house.git(["add", "-A"]);
    house.git(["commit", "-q", "--author", "remd <remd@localhost>", "-m", &message]);
}

/// A vault whose commits are made by hand: no agent runs.
pub fn by_hand() -> House {
    let house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house
}

fn commit(house: &House, subject: &str) -> String {
    house.git(["add", "-A"]);
    house.git(["commit", "-q", "-m", subject]);
    house.git(["rev-parse", "HEAD"])
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout)
        .unwrap_or_else(|err| panic!("{err}: {}{}", said.stdout, said.stderr))
}

/// The commit of each line.
fn commits(page: &Value) -> Vec<String> {
    let lines = page["lines"].as_array().unwrap().iter();
    lines.map(|it| it["commit"].as_str().unwrap_or("none").to_owned()).collect()
}

const MOVED: &str = "The harbour master wrote down every tide of that year by hand.\n\
                     Nobody but the lighthouse keeper ever read the tables he made.\n";

#[test]
fn lines_are_followed_over_renames_and_from_note_to_note() {
    let house = by_hand();
    house.write("notes/old \"name\".md", format!("# Old\n\n{MOVED}"));
    let first = commit(&house, "first");
    fs::rename(house.at("notes/old \"name\".md"), house.at("notes/new\nname.md")).unwrap();
    let _renamed = commit(&house, "renamed");
    house.write("notes/new\nname.md", format!("# Old\n\n{MOVED}Added by Ada.\n"));
    let added = commit(&house, "added");
    // The text moves to another note, by a job that says so.
    house.write("notes/new\nname.md", "# Old\n\nAdded by Ada.\n");
    house.write("digest/tides.md", format!("# Tides\n\n{MOVED}"));
    commit_as_job(
        &house,
        "memory: 2 changes (digest/ 1, memory/ 1)",
        &[
            ("Remd-Cause", "job"),
            ("Remd-Job", "auto_dream"),
            ("Remd-Run", "01JABC"),
            ("Remd-Session", "session-a"),
            ("Remd-Input", "notes/new name.md"),
            ("Remd-Input", "memory/2026-06-29.md"),
        ],
    );
    let job = house.git(["rev-parse", "HEAD"]);

    let page = json(&house.run(["blame", "--json", "notes/new\nname.md"]));
    assert_eq!(commits(&page), [first.clone(), first.clone(), added.clone()]);
    assert_eq!(page["lines"][0]["original_path"], "notes/old \"name\".md");

    let page = json(&house.run(["blame", "--json", "digest/tides.md"]));
    // The blank line above came along.
    assert_eq!(commits(&page), [job.clone(), first.clone(), first.clone(), first.clone()]);
    assert_eq!(page["lines"][2]["original_line"], 3);
    let said = &page["commits"][&job];
    for (key, value) in [
        ("cause", "job"),
        ("job", "auto_dream"),
        ("run", "01JABC"),
        ("session", "session-a"),
        ("author", "remd"),
    ] {
        assert_eq!(said[key], value, "{key}");
    }
    assert_eq!(said["inputs"], serde_json::json!(["notes/new name.md", "memory/2026-06-29.md"]));
    assert_eq!(page["commits"][&first]["cause"], Value::Null, "a foreign commit");

    let text = house.run(["blame", "digest/tides.md"]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    let lines: Vec<_> = text.stdout.lines().collect();
    assert!(
        lines[0].starts_with(&job[..7]) && lines[0].ends_with("[job] remd 1) # Tides"),
        "{}",
        text.stdout
    );
    assert!(lines[2].starts_with(&first[..7]) && lines[2].contains("[-] Ada"), "{}", text.stdout);
    assert!(text.stdout.contains(
        "        job auto_dream, run 01JABC, session session-a\n        from notes/new name.md\n"
    ));
    assert!(
        text.stdout.contains("written in \"notes/old")
            || text.stdout.contains("written in notes/old"),
        "{}",
        text.stdout
    );
    assert!(lines.last().unwrap().starts_with("-- 4 lines of 2 commits as of "), "{}", text.stdout);
    // A part of it.
    let part = json(&house.run(["blame", "--json", "-L", "3,3", "digest/tides.md"]));
    assert_eq!(
        (part["lines"].as_array().unwrap().len(), &part["lines"][0]["line"]),
        (1, &Value::from(3))
    );
    assert_eq!(commits(&part), [first]);
    assert_eq!(house.run(["blame", "-L", "9,12", "digest/tides.md"]).code, 2);
    assert_eq!(house.run(["blame", "digest/none.md"]).code, 2);
}

#[test]
fn what_is_not_committed_is_told_as_that() {
    let house = by_hand();
    house.write("a.md", "one\ntwo\nthree\n");
    let first = commit(&house, "first");
    house.write("a.md", "zero\none\nTWO\nthree\n");
    house.write("new.md", "only on the disk\n");
    let page = json(&house.run(["blame", "--json", "a.md"]));
    assert_eq!(
        commits(&page),
        ["none".to_owned(), first.clone(), "none".to_owned(), first.clone()]
    );
    assert_eq!(page["lines"][0]["uncommitted"], true);
    assert_eq!(page["lines"][1]["original_line"], 1);
    let part = json(&house.run(["blame", "--json", "-L", "3,4", "a.md"]));
    assert_eq!(commits(&part), ["none".to_owned(), first.clone()]);
    let said = house.run(["blame", "a.md"]).stdout;
    assert!(
        said.starts_with("------- not committed yet") && said.contains(", 2 lines uncommitted"),
        "{said}"
    );
    let page = json(&house.run(["blame", "--json", "new.md"]));
    assert_eq!(page["lines"][0]["uncommitted"], true);
    // As a checkout of another system would write it.
    house.write("a.md", "one\r\ntwo\r\nthree\r\n");
    let page = json(&house.run(["blame", "--json", "a.md"]));
    assert_eq!(commits(&page), [first.clone(), first.clone(), first]);
    // Nothing committed at all.
    let house = by_hand();
    house.write("a.md", "one\n");
    assert_eq!(json(&house.run(["blame", "--json", "a.md"]))["lines"][0]["uncommitted"], true);
}

/// Nothing that the settings of a repository name is started, and no question of a person's settings
/// is in the way.
#[test]
fn no_setting_starts_anything_or_changes_the_answer() {
    let house = by_hand();
    house.write(".gitattributes", "*.md diff=odd filter=odd\n");
    house.write("a.md", "one\n");
    let first = commit(&house, "first");
    let ran = house.root().join("ran");
    let touch = format!("touch '{}'", ran.display());
    let command = format!("{touch}; cat");
    for (key, value) in [
        ("diff.odd.textconv", command.as_str()),
        ("filter.odd.clean", &command),
        ("filter.odd.smudge", &command),
        ("core.fsmonitor", &command),
        ("core.pager", &command),
        ("diff.external", &command),
        ("blame.coloring", "repeatedLines"),
        ("core.quotePath", "true"),
        ("color.ui", "always"),
    ] {
        house.git(["config", key, value]);
    }
    let page = json(&house.run(["blame", "--json", "a.md"]));
    assert_eq!(commits(&page), [first]);
    assert!(!ran.exists(), "something was started");
    // What git itself refuses is told in its words.
    house.git(["config", "blame.ignoreRevsFile", ".nothing-there"]);
    let said = house.run(["blame", "a.md"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains(".nothing-there"), "{}", said.stderr);
}

#[test]
fn a_note_with_a_deadline_is_told_in_part() {
    let house = by_hand();
    // So long that git cannot be done in a hundredth of a second, whatever the machine.
    let lines: Vec<String> =
        (0..20_000).map(|it| format!("line {it} of a note that is long\n")).collect();
    house.write("long.md", lines.concat());
    commit(&house, "first");
    for round in 0..3 {
        let lines: Vec<_> = lines
            .iter()
            .enumerate()
            .map(|(at, it)| if at % 7 == round { format!("{round} {it}") } else { it.clone() })
            .collect();
        house.write("long.md", lines.concat());
        commit(&house, "more");
    }
    let said = house.run(["blame", "--json", "--timeout", "1ms", "long.md"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    let page = json(&said);
    assert!(page["partial"].as_str().unwrap().contains("git had"), "{}", page["partial"]);
    assert_eq!(
        page["lines"].as_array().unwrap().len(),
        20_000,
        "every line is there, known or not"
    );
    assert_eq!(house.run(["blame", "long.md"]).code, 0);
}

/// The vault is a folder of a larger repository, and text came into it from outside.
#[test]
fn a_vault_in_a_larger_repository_is_blamed_by_its_own_paths() {
    let house = House::closed();
    let root = house.root().join("larger");
    fs::create_dir_all(root.join("vault/notes")).unwrap();
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(args)
            .current_dir(&root)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    };
    git(&["init", "-q", "-b", "main"]);
    fs::write(root.join("outside.md"), MOVED).unwrap();
    git(&["add", "-A"]);
    git(&["commit", "-qm", "outside"]);
    let outside = git(&["rev-parse", "HEAD"]);
    fs::remove_file(root.join("outside.md")).unwrap();
    fs::write(root.join("vault/notes/a.md"), format!("# A\n{MOVED}")).unwrap();
    git(&["add", "-A"]);
    git(&["commit", "-qm", "inside"]);
    let vault = root.join("vault");
    let said = house.run(["--vault", vault.to_str().unwrap(), "blame", "--json", "notes/a.md"]);
    let page = json(&said);
    assert_eq!(commits(&page)[1..], [outside.clone(), outside]);
    assert_eq!(page["lines"][1]["original_path"], Value::Null);
    assert_eq!(page["path"], "notes/a.md");
}

/// A note of a thousand versions, timed beside plain `git blame` in the same run; told, not asserted.
#[test]
fn a_thousand_versions_are_blamed_as_git_does() {
    let house = by_hand();
    let mut stream = String::new();
    let mut lines: Vec<String> =
        (0..200).map(|it| format!("line {it} as it was first written\n")).collect();
    for version in 0..1000 {
        // Half of the lines are of the first version: all of them are gone through.
        let at = (version * 37) % (lines.len() / 2);
        lines[at] = format!("line {at} as version {version} has it\n");
        let text = lines.concat();
        stream.push_str(&format!(
            "commit refs/heads/main\ncommitter Ada <ada@example.org> {} +0000\ndata 9\nversion \n\nM 644 inline notes/long.md\ndata {}\n{text}\n",
            1_700_000_000 + version * 60,
            text.len()
        ));
    }
    let path = house.root().join("stream");
    fs::write(&path, stream).unwrap();
    let import = Command::new("git")
        .args(["fast-import", "--quiet"])
        .current_dir(&house.vault)
        .stdin(fs::File::open(&path).unwrap())
        .status()
        .unwrap();
    assert!(import.success());
    house.git(["reset", "-q", "--hard"]);
    let start = std::time::Instant::now();
    let plain = house.git(["blame", "--line-porcelain", "HEAD", "--", "notes/long.md"]);
    let plain_took = start.elapsed();
    let start = std::time::Instant::now();
    let said = house.run(["blame", "--json", "notes/long.md"]);
    let took = start.elapsed();
    let wanted: Vec<_> = plain
        .lines()
        .filter(|it| {
            it.split(' ').count() >= 3
                && it.split(' ').next().unwrap().len() == 40
                && !it.starts_with('\t')
        })
        .map(|it| it[..40].to_owned())
        .collect();
    assert_eq!(wanted.len(), 200);
    assert_eq!(commits(&json(&said)), wanted);
    eprintln!(
        "1,000 versions: remd blame {} ms, git blame {} ms, ratio {:.2}",
        took.as_millis(),
        plain_took.as_millis(),
        took.as_secs_f64() / plain_took.as_secs_f64()
    );
}

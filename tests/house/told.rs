//! Errors as people read them: what, where, what to do, in our words before a library's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::house::{House, Said, wait_for};
use crate::machine::{named, on_a_full_disk, problem};
use crate::users::{USER, is_root};

/// The words stand in this order.
fn in_order(text: &str, words: &[&str]) {
    let mut rest = text;
    for word in words {
        let at = rest.find(word).unwrap_or_else(|| panic!("{word:?} is not in its place: {text}"));
        rest = &rest[at + word.len()..];
    }
}

#[test]
fn a_full_disk_is_told_in_words_and_search_needs_no_room() {
    let (mut house, disk) = on_a_full_disk();
    let git = house.at(".git");
    let words = [git.to_str().unwrap(), "the disk is full", "No space left", "Free some space"];
    in_order(&named(&house, "commit"), &words);
    let summary = house.status()["summary"].as_str().unwrap().to_owned();
    in_order(&summary, &words[..3]);
    // Without an agent, an index, or room for one.
    house.stop();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    disk.fill(&house.at(".git/filler2"));
    assert_eq!(house.found("alfa"), ["a.md"]);
    fs::remove_file(house.at(".git/filler")).unwrap();
    fs::remove_file(house.at(".git/filler2")).unwrap();
    house.start();
    house.settle_and_check();
    assert_eq!(house.in_head("a.md"), b"alfa two\n");
    house.stop();
}

/// A folder that is closed to the user who runs the agent is named, with what opens it; nothing is
/// called current meanwhile that is not.
#[test]
fn a_folder_that_is_closed_is_named_with_what_opens_it() {
    if !is_root("a_folder_that_is_closed_is_named_with_what_opens_it") {
        return;
    }
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-qb", "main"]);
    house.git(["config", "user.name", "Ada"]);
    house.git(["config", "user.email", "ada@example.org"]);
    house.write("n.md", "alfa 0\n");
    house.give_to(USER);
    house.start();
    house.settle();
    let close = |name: &str, mode| {
        fs::set_permissions(house.at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let cases = [("mem_metadata", 0o000, "index"), (".git/objects", 0o555, "commit")];
    for (at, (name, mode, id)) in cases.into_iter().enumerate() {
        close(name, mode);
        house.write("n.md", format!("alfa {at} again\n"));
        let place = house.at(name);
        let place = place.to_str().unwrap();
        let mode = format!("(mode {mode:03o})");
        let opens = format!("chmod u+rwx '{place}'");
        wait_for("the folder to be named", || named(&house, id).contains("chmod"));
        in_order(&named(&house, id), &["no permission", place, &mode, &opens]);
        let line = house.run(["status"]).stdout;
        let line = line.lines().find(|it| it.starts_with("  index")).unwrap().to_owned();
        assert_eq!(line.contains(", current"), id != "index", "{line}");
        assert!(!line.contains(" 0 B"), "{line}");
        close(name, 0o755);
        wait_for("it to be over", || problem(&house, id).is_none());
        house.settle();
    }
    house.stop();
}

/// What follows from a vault that is gone is not told as a fault of its own.
#[test]
fn a_vault_that_is_gone_is_the_one_thing_that_is_wrong() {
    let house = House::open();
    house.write("a.md", "alfa\n");
    house.settle_and_check();
    let away = house.root().join("away");
    fs::rename(&house.vault, &away).unwrap();
    wait_for("the loss to be met some times", || {
        let Some(lost) = problem(&house, "vault-lost") else { return false };
        let status = house.status();
        assert!(status["summary"].as_str().unwrap().starts_with("The vault at"), "{status:#}");
        assert_eq!(status["pending"]["edits"], 0, "no note that is gone is an edit: {status:#}");
        assert_eq!(status["pending"]["unseen"], "vault gone");
        for id in ["index", "watch", "commit"] {
            assert!(problem(&house, id).is_none(), "{id}: {status:#}");
        }
        lost["count"].as_u64().unwrap() >= 3
    });
    fs::rename(&away, &house.vault).unwrap();
    wait_for("its return", || house.status()["verdict"] == "ok");
    house.settle_and_check();
}

/// What is waited for is named also where the time runs out.
#[test]
fn who_waits_in_vain_is_told_for_what() {
    let house = House::open();
    house.write("a.md", "alfa\n");
    house.settle_and_check();
    fs::write(house.at(".git/index.lock"), "").unwrap();
    house.write("a.md", "bravo\n");
    for timeout in ["1s", "3s"] {
        wait_for("the lock to be met", || problem(&house, "git-lock").is_some());
        let said = house.run(["status", "--wait", "settled", "--timeout", timeout]);
        assert_eq!(said.code, 3, "{}", said.stderr);
        in_order(&said.stderr, &["not settled:", "index.lock"]);
    }
    fs::remove_file(house.at(".git/index.lock")).unwrap();
    house.settle_and_check();
}

/// A folder that cannot be read may hold anything: no answer is current, also where nothing in it
/// was ever committed.
#[test]
fn a_folder_that_cannot_be_read_takes_current_from_every_answer() {
    if !is_root("a_folder_that_cannot_be_read_takes_current_from_every_answer") {
        return;
    }
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-qb", "main"]);
    house.write("a.md", "needle\n");
    house.write("known/b.md", "needle\n");
    fs::create_dir(house.at("new")).unwrap();
    house.args(["--no-mount"]);
    house.give_to(USER);
    house.start();
    house.settle();
    let last = || house.run(["search", "needle"]).stdout.lines().last().unwrap().to_owned();
    assert!(last().contains(", current"), "{}", last());
    for folder in ["known", "new"] {
        let shut = |mode| {
            fs::set_permissions(house.at(folder), fs::Permissions::from_mode(mode)).unwrap();
        };
        shut(0o000);
        wait_for("the folder to be named", || problem(&house, "skipped").is_some());
        let said = named(&house, "skipped");
        in_order(&said, &[&format!("`{folder}` is not looked into"), "no permission", "chmod"]);
        assert!(!last().contains(", current"), "{folder}: {}", last());
        assert_eq!(house.found("needle").len(), 2, "what is committed is searched");
        shut(0o755);
        wait_for("it to be well", || house.status()["verdict"] == "ok");
        assert!(last().contains(", current"), "{folder}: {}", last());
    }
    house.stop();
}

#[test]
fn a_command_that_fails_says_what_where_and_what_to_do() {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-qb", "main"]);
    house.write("a.md", "alfa\n");
    let file = house.root().join("file.txt");
    let plain = house.root().join("plain");
    fs::write(&file, "").unwrap();
    fs::create_dir(&plain).unwrap();
    let check = |said: Said, code: i32, words: &[&str]| {
        assert_eq!(said.code, code, "{}{}", said.stdout, said.stderr);
        in_order(&said.stderr, words);
        let raw = ["NotFound", "os error", "Reference content"];
        assert!(!raw.iter().any(|it| said.stderr.contains(it)), "{}", said.stderr);
    };
    let on = |dir: &std::path::Path, args: &[&str]| {
        let dir = dir.to_str().unwrap();
        house.run(["-C", dir].iter().chain(args))
    };
    check(on(&file, &["status"]), 2, &["file.txt", "is not a folder", "hint:"]);
    check(on(&file, &["search", "x"]), 2, &["file.txt", "is not a folder", "hint:"]);
    let nowhere = house.root().join("nowhere");
    for args in [&["status"][..], &["search", "x"], &["log"], &["pause"]] {
        check(on(&nowhere, args), 2, &["There is nothing at", "nowhere", "hint:", "remd up"]);
    }
    for args in [&["search", "x"][..], &["log"], &["show"], &["diff"]] {
        let words = ["plain", "is not in a Git repository", "hint:", "remd init"];
        check(on(&plain, args), 2, &words);
    }
    check(house.run(["search", "-n", "0", "x"]), 2, &["limit=0", "hint:", "1 to 200"]);
    check(house.run(["up", "commit.quite=2s"]), 2, &["commit.quite", "commit.quiet", "hint:"]);
    house.start();
    house.settle_and_check();
    fs::write(house.at("remd.yaml"), "comit:\n  quiet: 1s\n").unwrap();
    check(house.run(["reload"]), 0, &["read again", "warning:", "comit.quiet", "commit.quiet"]);
    assert!(named(&house, "settings").contains("A line of the settings has no effect"));
    fs::remove_file(house.at("remd.yaml")).unwrap();
    house.stop();
    let head = fs::read(house.at(".git/HEAD")).unwrap();
    fs::write(house.at(".git/HEAD"), "garbage\n").unwrap();
    for args in [&["log"][..], &["show"], &["diff"]] {
        let words = ["/.git/HEAD", "is damaged", "hint:", "refs/heads/main"];
        check(house.run(args), 2, &words);
    }
    fs::write(house.at(".git/HEAD"), head).unwrap();
    assert_eq!(house.run(["log"]).code, 0);
}

//! Git's own files gone or damaged while the agent runs and at its start, a vault without an index
//! that cannot be written, and what only an ordinary user meets: files that cannot be read.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::house::{House, wait_for};

const USER: u32 = 65534;

fn problem(house: &House, id: &str) -> String {
    let status = house.status();
    let found = status["problems"].as_array().unwrap().iter().find(|it| it["id"] == id).cloned();
    found.map_or(String::new(), |it| format!("{} {}", it["what"], it["remedy"]))
}

fn wait_named(house: &House, id: &str, parts: &[&str]) {
    let mut said = String::new();
    wait_for(&format!("{id}: {parts:?}"), || {
        said = problem(house, id);
        parts.iter().all(|it| said.contains(it))
    });
}

#[test]
fn what_is_missing_of_git_is_named_and_its_return_is_enough() {
    let mut house = House::open();
    house.write("a.md", "alfa 0\n");
    house.settle_and_check();
    let aside = house.temp.path().join("aside");
    let named: [(&str, &[&str]); 4] = [
        (".git", &[".git` is gone", "the agent goes on by itself", "git init"]),
        (".git/HEAD", &["HEAD` is gone", "ref: refs/heads/main"]),
        (".git/objects", &["objects` is gone", "backup"]),
        (".git/refs", &["refs` is gone", "backup"]),
    ];
    for (round, (part, parts)) in named.into_iter().enumerate() {
        fs::rename(house.at(part), &aside).unwrap();
        house.write("a.md", format!("alfa {part}\n"));
        wait_named(&house, "commit", parts);
        assert!(!house.at(part).exists(), "{part}: nothing is made in its place");
        assert_eq!(house.found("alfa"), ["a.md"], "searched all the while");
        fs::rename(&aside, house.at(part)).unwrap();
        wait_for("the commit, by itself", || house.commits() == round + 2);
        house.settle_and_check();
        assert_eq!(house.status()["verdict"], "ok");
    }
    // As a power cut leaves it, at the start too; the remedy is what the hint says.
    for _ in 0..2 {
        fs::write(house.at(".git/HEAD"), "\0\0\0\0").unwrap();
        house.write("a.md", format!("alfa {}\n", house.pid()));
        wait_named(&house, "commit", &["HEAD` is damaged", "ref: refs/heads/main"]);
        house.kill();
        house.start();
        wait_named(&house, "commit", &["HEAD` is damaged"]);
        wait_for("a few tries", || house.log().matches("is damaged").count() >= 2);
        fs::write(house.at(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        house.settle_and_check();
    }
    // An index that is none.
    house.stop();
    fs::write(house.at(".git/index"), [7; 300]).unwrap();
    house.write("a.md", "alfa index\n");
    house.start();
    wait_named(&house, "commit", &["Cannot read the index", "mv .git/index"]);
    fs::rename(house.at(".git/index"), &aside).unwrap();
    wait_for("the commit, by itself", || house.in_head("a.md") == b"alfa index\n");
    house.settle_and_check();
    let complaints = house.log().lines().filter(|it| it.contains("ERROR")).count();
    assert!(complaints <= 40, "{complaints} lines\n{}", house.log());
}

#[test]
fn a_repository_on_a_disk_that_vanishes_and_returns() {
    let mut house = House::closed();
    let disk = house.temp.path().join("disk");
    fs::create_dir_all(disk.join("in")).unwrap();
    fs::create_dir(&house.vault).unwrap();
    // A folder that is bound elsewhere comes and goes as a disk does, with what is in it.
    let at = house.temp.path().join("mnt");
    fs::create_dir(&at).unwrap();
    let bind = || {
        let bound = Command::new("mount").arg("--bind").args([&disk, &at]).status().unwrap();
        assert!(bound.success(), "these tests mount file systems: run them as root");
        Unmount(at.clone())
    };
    let bound = bind();
    house.git(["init", "-qb", "main", "--separate-git-dir", at.join("git").to_str().unwrap()]);
    house.write("a.md", "alfa one\n");
    house.start();
    house.settle_and_check();
    drop(bound);
    house.write("a.md", "alfa two\n");
    wait_named(&house, "commit", &["is gone", "Mount its disk"]);
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0, "nothing is made in its place");
    let _bound = bind();
    wait_for("the commit, by itself", || house.in_head("a.md") == b"alfa two\n");
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
    assert_eq!(house.stop(), Some(0));
}

struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        // A test that failed must not leave it behind; the first failure counts.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn a_pack_with_a_flipped_bit_is_named_and_mended_without_a_restart() {
    let mut house = House::open();
    for at in 0..9 {
        house.write(format!("{at}.md"), format!("alfa {at} {}\n", "word ".repeat(at)));
    }
    house.settle_and_check();
    house.stop();
    house.git(["gc", "-q"]);
    let packs = house.at(".git/objects/pack");
    let pack = fs::read_dir(&packs).unwrap().map(|it| it.unwrap().path());
    let pack = pack.into_iter().find(|it| it.extension().is_some_and(|it| it == "pack")).unwrap();
    let good = fs::read(&pack).unwrap();
    // Where a note's bytes lie, as git itself says.
    let index = pack.with_extension("idx");
    let listed = house.git(["verify-pack", "-v", index.to_str().unwrap()]);
    let blob = house.git(["rev-parse", "HEAD:7.md"]);
    let line = listed.lines().find(|it| it.starts_with(&blob)).unwrap();
    let offset: u64 = line.split_whitespace().nth(4).unwrap().parse().unwrap();
    fs::set_permissions(&pack, fs::Permissions::from_mode(0o644)).unwrap();
    let file = fs::File::options().write(true).open(&pack).unwrap();
    let place = usize::try_from(offset).unwrap() + 8;
    file.write_all_at(&[good[place] ^ 0xff], offset + 8).unwrap();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    house.start();
    wait_named(&house, "git-objects", &["7.md", "git fsck"]);
    let found = house.found("alfa");
    assert!(found.len() == 8 && !found.contains(&"7.md".to_owned()), "{found:?}");
    file.write_all_at(&good, 0).unwrap();
    wait_for("the note to come in", || house.found("alfa").len() == 9);
    house.settle_and_check();
}

#[test]
fn where_no_index_can_be_made_the_status_says_so_and_search_answers() {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    let options = ["-t", "tmpfs", "-o", "size=32m", "none"];
    assert!(Command::new("mount").args(options).arg(&house.vault).status().unwrap().success());
    let _disk = Unmount(house.vault.clone());
    house.git(["init", "-qb", "main"]);
    house.write("a.md", "alfa one\n");
    house.start();
    house.settle_and_check();
    house.stop();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    assert!(problem(&house, "index").contains("builds it"), "{}", problem(&house, "index"));
    let vault = house.vault.clone();
    let remount = |how: &str| {
        let how = format!("remount,{how}");
        assert!(Command::new("mount").args(["-o", &how]).arg(&vault).status().unwrap().success());
    };
    remount("ro");
    let said = problem(&house, "index");
    assert!(said.contains("none can be made") && said.contains("reads the notes"), "{said}");
    assert_eq!(house.found("alfa"), ["a.md"]);
    house.start();
    wait_named(&house, "index", &["read-only", "remount,rw"]);
    assert_eq!(house.status()["verdict"], "degraded");
    remount("rw");
    wait_for("the index, by itself", || house.found("alfa") == ["a.md"]);
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
    assert_eq!(house.stop(), Some(0));
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_an_ordinary_user_may_not_read_is_named_and_never_taken_for_gone() {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-qb", "main"]);
    fs::write(house.temp.path().join("home/.gitconfig"), "[safe]\n\tdirectory = *\n").unwrap();
    for name in ["open.md", "closed.md", "folder/in.md"] {
        house.write(name, "alfa one\n");
    }
    house.give_to(USER);
    house.args(["--no-mount"]).start();
    house.settle_and_check();
    // Nobody's name: the machine's.
    let author = house.git(["log", "-1", "--format=%an <%ae>"]);
    assert!(author.starts_with("remd <remd@") && !author.ends_with("@>"), "{author}");
    assert!(problem(&house, "identity").contains("user.email"), "{}", problem(&house, "identity"));

    set_mode(&house.at("folder"), 0);
    set_mode(&house.at("closed.md"), 0);
    fs::write(house.at("closed.md"), "alfa two\n").unwrap();
    house.write("open.md", "alfa two\n");
    wait_for("the neighbour", || house.in_head("open.md") == b"alfa two\n");
    house.run(["status", "--wait", "settled", "--timeout", "2s"]);
    wait_named(&house, "kept-out", &["closed.md"]);
    wait_named(&house, "skipped", &["folder"]);
    assert_eq!(house.head_paths().len(), 3, "nothing is taken for gone");
    assert_eq!(house.found("alfa").len(), 3);
    set_mode(&house.at("closed.md"), 0o644);
    set_mode(&house.at("folder"), 0o755);
    wait_for("the note, by itself", || house.in_head("closed.md") == b"alfa two\n");
    house.settle_and_check();
    wait_for("a clear state", || house.status()["verdict"] == "ok");

    // The index's own files.
    let metadata = house.at("mem_metadata");
    house.stop();
    set_mode(&metadata, 0);
    house.start();
    wait_named(&house, "index", &["Permission denied", "(mode 000)", "chmod u+rwx"]);
    house.write("open.md", "alfa three\n");
    wait_for("the commit all the same", || house.in_head("open.md") == b"alfa three\n");
    set_mode(&metadata, 0o755);
    wait_for("the index, by itself", || house.found("three") == ["open.md"]);
    house.settle_and_check();
    assert_eq!(house.stop(), Some(0));
}

/// An edit by another name of the file brings no event; neither does one of another machine.
#[test]
fn after_a_sleep_everything_is_looked_at() {
    let mut house = House::open();
    let clock = house.temp.path().join("clock");
    house.stop();
    house.env("REMD_CLOCK", clock.to_str().unwrap()).start();
    house.write("a.md", "alfa one\n");
    house.settle_and_check();
    let other = house.temp.path().join("other");
    fs::hard_link(house.at("a.md"), &other).unwrap();
    fs::write(&other, "alfa bravo\n").unwrap();
    fs::write(&clock, "0 3600\n").unwrap();
    wait_for("the commit, by itself", || house.in_head("a.md") == b"alfa bravo\n");
    house.settle_and_check();
}

#[test]
fn a_disk_without_hard_links_takes_commits_and_keeps_locks() {
    let mut house = House::open();
    let faults = house.temp.path().join("faults");
    house.stop();
    // ENOTSUP, as FAT says it.
    fs::write(&faults, "fs.hard_link=95\n").unwrap();
    house.env("REMD_FAULTS", faults.to_str().unwrap()).start();
    for round in 0..5 {
        house.write("a.md", format!("alfa {round}\n"));
        house.settle_and_check();
    }
    assert_eq!(house.status()["verdict"], "ok");
    house.write(".git/index.lock", "");
    house.write("a.md", "alfa six\n");
    wait_for("the lock to be named", || house.run(["status"]).stdout.contains("index.lock"));
    assert!(house.at(".git/index.lock").exists(), "a foreign lock stays");
    fs::remove_file(house.at(".git/index.lock")).unwrap();
    wait_for("the commit, by itself", || house.in_head("a.md") == b"alfa six\n");
    house.settle_and_check();
}

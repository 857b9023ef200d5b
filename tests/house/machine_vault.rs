//! A vault that goes and comes back while its agent runs: moved, replaced, restored from a copy,
//! on another disk; and a process that may open too few files.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::house::{House, wait_for};
use crate::machine::Disk;

pub fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

fn notes(house: &House, count: usize) {
    for at in 0..count {
        house.write(format!("notes/{at}.md"), format!("alfa {at}\n"));
    }
    house.settle_and_check();
}

/// What the agent that is asked by the vault's path says is wrong.
fn lost(house: &House) -> String {
    let mut said = String::new();
    wait_for("the loss to be said", || {
        let status = house.status();
        assert_eq!(status["agent"]["running"], true, "{status}");
        let problems = status["problems"].as_array().unwrap();
        let found = problems.iter().find(|it| it["id"] == "vault-lost");
        said = found.map_or(String::new(), |it| format!("{} {}", it["what"], it["remedy"]));
        !said.is_empty()
    });
    said
}

#[test]
fn an_agent_whose_vault_is_gone_answers_by_its_path() {
    let mut house = House::open();
    notes(&house, 3);
    let away = house.temp.path().join("away");
    // By a symlink too, which leads to nothing then.
    let link = house.temp.path().join("link");
    std::os::unix::fs::symlink(&house.vault, &link).unwrap();
    let by_link = |args: &[&str]| {
        let mut all = vec!["--vault", link.to_str().unwrap()];
        all.extend(args);
        house.run(all)
    };
    fs::rename(&house.vault, &away).unwrap();
    let said = lost(&house);
    assert!(said.contains("is gone") && said.contains("Mount or restore"), "{said}");
    let waited = house.run(["status", "--wait", "settled", "--timeout", "5s"]);
    assert_eq!(waited.code, 4, "{}{}", waited.stdout, waited.stderr);
    assert!(waited.stderr.contains("is gone"), "{}", waited.stderr);
    let status = by_link(&["status"]);
    assert!(status.code == 3 && status.stdout.contains("is gone"), "{}", status.stdout);
    assert_eq!(house.found("alfa").len(), 3, "the last commit is searched on");

    // Another folder in its place: the agent has a word on that, but its notes are not searched.
    fs::create_dir(&house.vault).unwrap();
    wait_for("the stranger to be named", || lost(&house).contains("is not in a Git repository"));
    assert!(lost(&house).contains("Put the vault's own folder back"));
    let search = house.run(["search", "alfa"]);
    assert!(!search.stdout.contains("notes/"), "{}", search.stdout);
    assert_eq!(fs::read_dir(&house.vault).unwrap().count(), 0, "nothing is made there");
    fs::remove_dir(&house.vault).unwrap();
    fs::rename(&away, &house.vault).unwrap();
    wait_for("the vault to be itself again", || {
        house.run(["status", "--wait", "settled"]).code == 0
    });
    house.settle_and_check();

    // A killed agent leaves the name behind; nobody is taken to be there.
    fs::rename(&house.vault, &away).unwrap();
    house.kill();
    let status = house.run(["status"]);
    assert_eq!(status.code, 2, "{}", status.stdout);
    assert!(status.stderr.contains("remd up"), "{}", status.stderr);
    fs::rename(&away, &house.vault).unwrap();
    assert_eq!(house.run(["status"]).code, 5);
    house.start();
    assert_eq!(house.stop(), Some(0));
    let left: Vec<_> = fs::read_dir(house.temp.path().join("run/remd")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_vault_restored_from_a_copy_is_taken_up_without_a_restart() {
    let mut house = House::open();
    notes(&house, 30);
    let pid = house.pid();
    let backup = house.temp.path().join("backup");
    copy(&house.vault, &backup);
    // Commits that the copy lacks: it is not the vault as the agent knows it.
    house.write("notes/new.md", "bravo\n");
    house.settle_and_check();
    let broken = house.temp.path().join("broken");
    fs::rename(&house.vault, &broken).unwrap();
    copy(&backup, &house.vault);
    wait_for("the stranger to be named", || lost(&house).contains("does not hold the last commit"));
    house.write("notes/1.md", "alfa edited in a stranger\n");
    wait_for("a few looks", || house.log().matches("does not hold").count() >= 2);
    assert_eq!(house.git(["status", "--porcelain"]), " M notes/1.md", "nothing is committed in it");

    // The folder itself, as another inode, with an edit that nobody saw and one note less.
    fs::remove_dir_all(&house.vault).unwrap();
    fs::write(broken.join("notes/2.md"), "alfa charlie\n").unwrap();
    fs::remove_file(broken.join("notes/3.md")).unwrap();
    copy(&broken, &house.vault);
    wait_for("the edit to be committed", || house.in_head("notes/2.md") == b"alfa charlie\n");
    wait_for("the agent to answer", || house.is_running());
    house.settle_and_check();
    assert_eq!(house.pid(), pid);
    assert!(!house.has_ended(), "no restart");
    assert_eq!(house.found("charlie"), ["notes/2.md"]);
    assert_eq!(house.found("alfa").len(), 29);
    assert_eq!(house.status()["verdict"], "ok", "{}", house.run(["status"]).stdout);
    // Watched, locked and, where that can be, mounted as before.
    house.write("notes/2.md", "alfa delta\n");
    house.settle_and_check();
    assert_eq!(house.found("delta"), ["notes/2.md"]);
    let second = house.run(["up", "--no-mount"]);
    assert!(second.stderr.contains("Another agent"), "{}", second.stderr);
    if crate::house::has_fuse("the mount of a restored vault") {
        assert!(house.cat("search/delta").contains("notes/2.md"));
    }
    // A stop is still heard.
    assert_eq!(house.stop(), Some(0));
}

/// As a backup that brings back the repository but not the notes.
#[test]
fn a_vault_that_comes_back_on_another_disk_without_its_notes_holds_the_deletions() {
    let mut house = House::open();
    notes(&house, 30);
    let away = house.temp.path().join("away");
    fs::rename(&house.vault, &away).unwrap();
    lost(&house);
    let disk = Disk::mount(&house.vault, "size=32m");
    copy(&away.join(".git"), &house.vault);
    wait_for("the deletions to be held", || {
        house.run(["status", "--wait", "settled", "--timeout", "1s"]).code == 4
            && house.status()["pending"]["held_deletions"] == 30
    });
    assert_eq!(house.head_paths().len(), 30);
    copy(&away.join("notes"), &house.vault);
    house.settle_and_check();
    assert_eq!(house.found("alfa").len(), 30);
    assert_eq!(house.stop(), Some(0));
    drop(disk);
}

#[test]
fn too_few_file_handles_are_refused_and_a_low_soft_limit_is_raised() {
    let mut house = House::closed();
    let up = |limit: &str| {
        let run = format!("ulimit {limit}; exec \"$0\" up --no-mount \"$1\"");
        Command::new("sh")
            .args(["-c", &run, env!("CARGO_BIN_EXE_remd")])
            .arg(&house.vault)
            .env("HOME", house.temp.path().join("home"))
            .env("XDG_RUNTIME_DIR", house.temp.path().join("run"))
            .output()
            .unwrap()
    };
    for limit in ["-n 12", "-n 64", "-n 127"] {
        let refused = up(limit);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{limit}: {said}");
        assert!(said.contains("remd needs 128") && said.contains("LimitNOFILE"), "{said}");
        assert!(!house.vault.exists(), "nothing is made");
    }
    // With the least there is all works; with a soft limit that is too low it is raised.
    for limit in ["--nofile=128:128", "--nofile=20:4096"] {
        house.start_under(["prlimit", limit]);
        house.write("a.md", format!("alfa {limit}\n"));
        house.settle_and_check();
        assert_eq!(house.found("nofile"), ["a.md"]);
        assert_eq!(house.status()["verdict"], "ok");
        assert_eq!(house.stop(), Some(0));
    }
}

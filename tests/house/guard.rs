//! Nothing is lost: mass disappearances, a person's own Git work, locks, a folder in a larger
//! repository.

use std::fs;
use std::process::Command;

use crate::house::{House, is_there, wait_for};

fn with_notes(count: usize) -> House {
    let house = House::open();
    for at in 0..count {
        house.write(format!("notes/{at}.md"), format!("note {at}\n"));
    }
    house.write("other/keep.md", "keep\n");
    house.settle_and_check();
    house
}

#[test]
fn a_mass_disappearance_waits_for_a_person() {
    let mut house = with_notes(40);
    let away = house.temp.path().join("away");
    fs::rename(house.at("notes"), &away).unwrap();
    house.write("other/new.md", "new\n");
    let said = house.run(["status", "--wait", "settled"]);
    assert_eq!(said.code, 4, "{}{}", said.stdout, said.stderr);
    assert_eq!(house.head_paths().len(), 42, "nothing is deleted, other edits are committed");
    let status = house.status();
    assert_eq!(status["verdict"], "held");
    assert_eq!(status["pending"]["held_deletions"], 40);
    assert!(house.run(["status"]).stdout.contains("remd accept"));

    // A restart forgets nothing.
    house.kill();
    house.start();
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 4);
    assert_eq!(house.head_paths().len(), 42);

    // Back again: over, without a commit.
    let commits = house.commits();
    fs::rename(&away, house.at("notes")).unwrap();
    house.settle_and_check();
    assert_eq!(house.commits(), commits);
    assert_eq!(house.status()["verdict"], "ok");

    // Gone, and meant.
    fs::remove_dir_all(house.at("notes")).unwrap();
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 4);
    let would = house.run(["accept", "--dry-run"]);
    assert_eq!((would.code, would.stdout.lines().count()), (0, 40));
    assert_eq!(house.head_paths().len(), 42);
    assert_eq!(house.run(["accept"]).code, 0);
    house.settle_and_check();
    assert_eq!(house.head_paths(), [&b"other/keep.md"[..], b"other/new.md"]);
    assert!(house.run(["accept"]).stderr.contains("Nothing is held back"));
}

#[test]
fn a_moved_folder_or_a_few_deletions_are_no_disappearance() {
    let house = with_notes(40);
    fs::rename(house.at("notes"), house.at("renamed")).unwrap();
    house.settle_and_check();
    assert_eq!(house.head_paths().len(), 41);
    for at in 0..15 {
        fs::remove_file(house.at(format!("renamed/{at}.md"))).unwrap();
    }
    house.settle_and_check();
    assert_eq!(house.head_paths().len(), 26);
}

#[test]
fn an_emptied_or_lost_vault_commits_nothing() {
    let house = with_notes(30);
    let away = house.temp.path().join("away");
    fs::rename(&house.vault, &away).unwrap();
    fs::create_dir(&house.vault).unwrap();
    // Another folder under the old name: its socket is another one, so ask under the new name.
    let ask = |args: &[&str]| {
        let mut all = vec!["--vault", away.to_str().unwrap()];
        all.extend(args);
        house.run(all)
    };
    wait_for("the loss to be seen", || ask(&["status"]).stdout.contains("gone"));
    assert_eq!(ask(&["status", "--wait", "settled", "--timeout", "5s"]).code, 4);
    fs::remove_dir(&house.vault).unwrap();
    fs::rename(&away, &house.vault).unwrap();
    wait_for("the vault to be itself again", || {
        house.run(["status", "--wait", "settled"]).code == 0
    });
    house.settle_and_check();
    assert_eq!(house.head_paths().len(), 31);
}

#[test]
fn a_foreign_lock_is_shown_and_never_removed_e01() {
    let house = with_notes(3);
    for lock in [".git/index.lock", ".git/HEAD.lock", ".git/refs/heads/main.lock"] {
        let commits = house.commits();
        house.write(lock, "");
        house.write("notes/0.md", format!("edit under {lock}\n"));
        house.write("notes/new.md", format!("new under {lock}\n"));
        wait_for("the lock to be named", || {
            let said = house.run(["status"]);
            said.code == 3 && said.stdout.contains(lock)
        });
        assert!(is_there(&house.at(lock)), "a foreign lock stays");
        assert_eq!(house.commits(), commits);
        let wip = house.git(["for-each-ref", "--format=%(refname)", "refs/remd/wip/"]);
        assert!(
            !wip.is_empty() || lock != ".git/index.lock",
            "what was written is kept in a snapshot"
        );
        fs::remove_file(house.at(lock)).unwrap();
        wait_for("the commit by itself", || house.commits() > commits);
        house.settle_and_check();
        assert_eq!(house.in_head("notes/0.md"), format!("edit under {lock}\n").into_bytes());
        assert_eq!(house.git(["for-each-ref", "refs/remd/wip/"]), "", "and the snapshot goes");
        assert_eq!(house.status()["verdict"], "ok");
    }
}

#[test]
fn a_person_s_git_beside_us_loses_nothing_e01() {
    let house = with_notes(3);
    let vault = house.vault.clone();
    let done = std::sync::atomic::AtomicBool::new(false);
    let (mut tries, mut failed) = (0, 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for at in 0..300 {
                house.write(format!("many/{at}.md"), format!("edit {at}\n"));
                if at % 50 == 0 {
                    house.run(["status", "--wait", "settled"]);
                }
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            for args in [&["add", "-A"][..], &["reset", "-q"]] {
                // Refused at once where two meet; whoever asks again has it.
                wait_for("the person's turn", || {
                    let said = Command::new("git").args(args).current_dir(&vault).output().unwrap();
                    tries += 1;
                    failed += usize::from(!said.status.success());
                    said.status.success()
                });
            }
        }
        writer.join().unwrap();
    });
    house.git(["reset", "-q"]);
    house.settle_and_check();
    assert_eq!(house.head_paths().len(), 304);
    // Two that ask for one lock without a pause meet now and then, and Git says so to the person at
    // once; how often depends on the machine.
    assert!(failed * 10 <= tries, "{failed} of {tries} commands of the person failed");
}

#[test]
fn staged_work_stays_the_person_s() {
    let house = with_notes(3);
    house.write("notes/0.md", "staged\n");
    house.git(["add", "notes/0.md"]);
    house.write("notes/1.md", "edited\n");
    house.settle();
    assert_eq!(house.in_head("notes/1.md"), b"edited\n");
    let status = house.status();
    let kept = status["pending"]["kept_out"].to_string();
    // Staged before the agent looked, it waits; committed before it was staged, it is done.
    if house.in_head("notes/0.md") != b"staged\n" {
        assert!(kept.contains("notes/0.md") && kept.contains("staged"), "{kept}");
        house.git(["commit", "-qm", "by hand"]);
    }
    house.settle_and_check();
    assert_eq!(house.in_head("notes/0.md"), b"staged\n");
}

#[test]
fn a_merge_of_a_person_is_waited_for() {
    let house = with_notes(3);
    house.git(["checkout", "-qb", "side"]);
    house.write("notes/0.md", "side\n");
    house.settle_and_check();
    house.git(["checkout", "-q", "main"]);
    house.write("notes/0.md", "main\n");
    house.settle_and_check();
    let merged = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=a@b", "merge", "side"])
        .current_dir(&house.vault)
        .output()
        .unwrap();
    assert!(!merged.status.success(), "the merge was to stop");
    let head = house.git(["rev-parse", "HEAD"]);
    house.write("notes/2.md", "meanwhile\n");
    let said = house.run(["status", "--wait", "settled", "--timeout", "5s"]);
    assert_eq!(said.code, 4, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("merge"), "{}", said.stdout);
    assert_eq!(house.git(["rev-parse", "HEAD"]), head);
    house.git(["merge", "--abort"]);
    house.settle_and_check();
    assert_eq!(house.in_head("notes/2.md"), b"meanwhile\n");
    assert_eq!(house.git(["log", "--format=%B", "-1"]).matches("<<<<").count(), 0);
}

#[test]
fn a_folder_in_a_larger_repository_is_all_that_is_committed_e10() {
    let mut house = House::closed();
    let root = house.temp.path().canonicalize().unwrap();
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=a@b"])
            .args(args)
            .current_dir(&root)
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?} {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-qb", "main"]);
    fs::write(root.join(".gitignore"), "home\nrun\nagent.log\nmemory.fs\n").unwrap();
    fs::write(root.join("src.c"), "int a;\n").unwrap();
    fs::write(root.join("staged.c"), "int s;\n").unwrap();
    house.write("n.md", "one\n");
    git(&["add", "-A"]);
    git(&["commit", "-qm", "start"]);
    fs::write(root.join("src.c"), "int a = 1;\n").unwrap();
    fs::write(root.join("staged.c"), "int s = 1;\n").unwrap();
    git(&["add", "staged.c"]);
    house.start();
    house.write("n.md", "two needle\n");
    house.settle();
    assert_eq!(git(&["show", "--format=", "--name-only", "HEAD"]).trim(), "memory/n.md");
    assert_eq!(git(&["status", "--porcelain"]), " M src.c\nM  staged.c\n");
    assert_eq!(house.found("needle"), ["n.md"]);
}

#[test]
fn large_and_unreadable_files_are_kept_out_by_name() {
    let mut house = House::open();
    house.stop();
    house.args(["commit.max_file=1MB"]).start();
    house.write("big.bin", vec![7; 2_000_000]);
    house.write("small.md", "needle\n");
    house.settle();
    assert_eq!(house.head_paths(), [b"small.md"]);
    let said = house.run(["status"]).stdout;
    assert!(said.contains("big.bin") && said.contains("commit.max_file"), "{said}");
    fs::remove_file(house.at("big.bin")).unwrap();
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
}

#[test]
fn a_folder_under_another_file_system_is_not_gone_g03() {
    let mut house = with_notes(3);
    house.stop();
    // In a namespace of its own the mount hides the folder from the agent and from nobody else.
    let script = "mount -t tmpfs none \"$1/notes\" && exec \"$0\" up \"$1\" --no-mount";
    let mut agent = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_remd"))
        .arg(&house.vault)
        .env("HOME", house.temp.path().join("home"))
        .env("XDG_RUNTIME_DIR", house.temp.path().join("run"))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the agent", || house.is_running());
    house.write("other/new.md", "new\n");
    wait_for("the commit", || house.head_paths().len() == 5);
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 0);
    assert_eq!(house.head_paths().len(), 5, "the hidden notes stay");
    let status = house.run(["status"]).stdout;
    assert!(status.contains("another file system"), "{status}");
    agent.kill().unwrap();
    agent.wait().unwrap();
}

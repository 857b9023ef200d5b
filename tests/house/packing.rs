//! What the agent's commits leave loose is packed when nobody edits.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::house::{House, has_fuse, wait_for};

/// Contents whose objects lie in the folder by which loose objects are estimated, each for 256.
const SAMPLES: [&str; 4] =
    ["# Packing 98\n", "# Packing 355\n", "# Packing 522\n", "# Packing 1278\n"];

/// An agent that packs from 50 loose objects on, a moment after the last commit.
fn eager() -> House {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.git(["config", "gc.auto", "50"]);
    let faults = house.root().join("faults");
    fs::write(&faults, "packer.quiet=100\n").unwrap();
    house.env("REMD_FAULTS", faults.to_str().unwrap());
    house.args(["commit.quiet=20ms"]);
    house
}

/// So many notes, each with a commit of its own.
fn edit(house: &House, from: usize, count: usize) {
    for at in from..from + count {
        let before = house.git(["rev-list", "--count", "--all"]);
        house.write(format!("d{}/n{at}.md", at % 5), format!("# Note {at}\n\nneedle {at}\n"));
        wait_for("a commit", || house.git(["rev-list", "--count", "--all"]) != before);
    }
}

/// Loose objects and packs.
fn counts(house: &House) -> (usize, usize) {
    let said = house.git(["count-objects", "-v"]);
    let number = |name: &str| -> usize {
        let line = said.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    (number("count:"), number("packs:"))
}

/// Our folder among the objects.
fn work_folder(house: &House) -> Option<PathBuf> {
    let entries = fs::read_dir(house.vault.join(".git/objects")).unwrap();
    let mut paths = entries.filter_map(|it| it.ok()).map(|it| it.path());
    paths.find(|it| it.to_string_lossy().contains("/tmp_objdir-remd-"))
}

fn wait_until_packed(house: &House) {
    wait_for("loose objects to be packed", || {
        let (loose, packs) = counts(house);
        loose == 0 && packs > 0 && work_folder(house).is_none()
    });
}

/// Disk, HEAD and search are the same, and nothing of ours is left.
fn check(house: &House, notes: usize) {
    house.settle_and_check();
    for path in house.head_paths() {
        let path = String::from_utf8(path).unwrap();
        assert_eq!(house.in_head(&path), fs::read(house.at(&path)).unwrap(), "{path}");
    }
    assert_eq!(house.found("needle").len(), notes);
    assert!(!house.status().to_string().contains("\"packing\""), "{}", house.status());
    assert_eq!(work_folder(house), None);
}

/// A git before the real one, that does something else when objects are packed.
fn fake_git(house: &mut House, pack: &str) -> PathBuf {
    let bin = house.root().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let found = std::env::var("PATH").unwrap();
    let real = std::env::split_paths(&found).map(|it| it.join("git")).find(|it| it.exists());
    let real = real.unwrap();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' pack-objects '*)\n{pack}\n;;\nesac\nexec '{}' \"$@\"\n",
        real.display()
    );
    fs::write(bin.join("git"), script).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    house.env("PATH", &format!("{}:{found}", bin.display()));
    bin.join("git")
}

fn hold(house: &mut House, at: &str) -> PathBuf {
    let file = house.root().join("hold");
    fs::write(&file, "").unwrap();
    house.env("REMD_HOLD", &format!("{at}:{}", file.display()));
    file
}

#[test]
fn what_edits_leave_loose_is_packed_and_everything_still_reads() {
    let mut house = eager();
    house.start();
    edit(&house, 0, 60);
    house.write("last.md", SAMPLES[0]);
    house.settle();
    wait_until_packed(&house);
    check(&house, 60);
    assert_eq!(house.commits(), 61);
    // All that was open before the packs: the log, a note as it was, the page of a search.
    assert_eq!(house.run(["log", "-n", "100"]).code, 0);
    if has_fuse("what_edits_leave_loose_is_packed_and_everything_still_reads") {
        assert!(house.cat("search/needle").contains("needle"));
    }
    // And on it goes, also back to what a pack has.
    house.write("last.md", "another\n");
    house.settle();
    house.write("last.md", SAMPLES[0]);
    house.settle();
    wait_until_packed(&house);
    check(&house, 60);
    assert_eq!(house.stop(), Some(0));
    house.start();
    check(&house, 60);
}

/// An agent whose packing is held at a fault point, and what lets it go on.
fn held_at(at: &str) -> (House, PathBuf) {
    let mut house = eager();
    let hold = hold(&mut house, at);
    house.start();
    edit(&house, 0, 5);
    house.write("a.md", SAMPLES[0]);
    house.settle();
    wait_for("the packs", || match at {
        "packing.before_move" => work_folder(&house)
            .is_some_and(|it| fs::read_dir(it.join("pack")).is_ok_and(|it| it.count() >= 2)),
        _ => counts(&house).1 > 0 && work_folder(&house).is_none(),
    });
    (house, hold)
}

#[test]
fn edits_are_committed_while_objects_are_packed() {
    for at in ["packing.before_move", "packing.before_prune"] {
        let (house, hold) = held_at(at);
        let loose = counts(&house).0;
        assert!(loose > 0);
        // New content, and content that is about to be swept as a loose object.
        edit(&house, 5, 3);
        house.write("b.md", SAMPLES[0]);
        house.write("a.md", "changed\n");
        house.settle();
        house.write("a.md", SAMPLES[0]);
        house.settle();
        assert!(counts(&house).0 > loose, "{at}: nothing is swept yet");
        assert_eq!(house.commits(), 11, "5 + 1, 3 + 2 while objects were packed");
        fs::remove_file(hold).unwrap();
        wait_for("the sweep", || counts(&house).0 < loose);
        check(&house, 8);
    }
}

#[test]
fn killed_in_the_middle_nothing_is_lost_and_nothing_stays() {
    for at in ["packing.before_move", "packing.before_prune"] {
        let (mut house, hold) = held_at(at);
        house.kill();
        house.git(["fsck", "--strict"]);
        fs::remove_file(hold).unwrap();
        house.start();
        wait_until_packed(&house);
        check(&house, 5);
    }
}

/// Also a git that would take for ever is gone at once, with all it has made.
#[test]
fn a_stop_ends_a_packing_git() {
    let mut house = eager();
    let mark = house.root().join("packing");
    let script = format!(
        ": > \"$GIT_OBJECT_DIRECTORY/pack/tmp_pack_half\"\necho $$ > '{}.new'\nmv '{0}.new' '{0}'\nexec sleep 600",
        mark.display()
    );
    fake_git(&mut house, &script);
    house.start();
    house.write("a.md", SAMPLES[0]);
    house.settle();
    wait_for("git to pack", || mark.exists());
    let pid = fs::read_to_string(&mark).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    assert!(process.exists() && work_folder(&house).is_some());
    let nice = fs::read_to_string(process.join("stat")).unwrap();
    let nice = nice.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().to_owned();
    assert_eq!(nice, "19", "everybody else goes first");
    assert_eq!(house.stop(), Some(0));
    assert!(!process.exists(), "it ended with the agent");
    assert_eq!(work_folder(&house), None);
    house.git(["fsck", "--strict"]);
    // Killed, the agent takes its git along as well; the folder goes at the next start.
    fs::remove_file(&mark).unwrap();
    house.start();
    wait_for("git to pack again", || mark.exists());
    let pid = fs::read_to_string(&mark).unwrap();
    house.kill();
    wait_for("git to be gone", || {
        let status = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        status.is_err() || status.is_ok_and(|it| it.contains(") Z"))
    });
    assert!(work_folder(&house).is_some());
    house.env("PATH", &std::env::var("PATH").unwrap());
    house.start();
    wait_until_packed(&house);
    house.settle_and_check();
}

#[test]
fn a_failure_is_named_until_it_is_over_and_commits_go_on() {
    let mut house = eager();
    let git = fake_git(&mut house, "echo 'fatal: the disk is tired' >&2\nexit 128");
    house.start();
    house.write("a.md", SAMPLES[0]);
    house.settle();
    let problem = |house: &House| {
        let status = house.status();
        let all = status["problems"].as_array().unwrap().clone();
        all.into_iter().find(|it| it["id"] == "packing")
    };
    wait_for("the problem", || problem(&house).is_some());
    let said = problem(&house).unwrap();
    assert!(said["what"].as_str().unwrap().contains("the disk is tired"), "{said}");
    assert!(said["remedy"].as_str().unwrap().contains("git gc"), "{said}");
    edit(&house, 0, 2);
    house.settle();
    assert_eq!(house.found("needle").len(), 2);
    // A try may be under way; what it made goes with it.
    wait_for("its folder to go", || work_folder(&house).is_none());
    // Mended: it is tried again by itself.
    fs::remove_file(git).unwrap();
    wait_until_packed(&house);
    wait_for("the problem to be over", || problem(&house).is_none());
    check(&house, 2);
}

#[test]
fn without_git_objects_stay_loose_and_one_note_says_so() {
    let mut house = eager();
    house.start();
    house.write("a.md", SAMPLES[0]);
    house.settle();
    wait_until_packed(&house);
    house.stop();
    let bin = house.root().join("nothing");
    fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    house.env("PATH", bin.to_str().unwrap());
    house.start();
    house.write("b.md", SAMPLES[1]);
    house.settle();
    let status = house.status().to_string();
    assert!(status.contains("never packed") && !status.contains("\"packing\""), "{status}");
    assert!(counts(&house).0 > 0);
    house.stop();
    house.env("PATH", &path);
    house.start();
    wait_until_packed(&house);
    house.settle_and_check();
}

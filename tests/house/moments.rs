//! The mount's past: `at/<moment>/` and `history/`, with the tools that people have.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};

use crate::house::{House, has_fuse, wait_for};

/// A script in the mount; must succeed; gives what it says.
#[track_caller]
fn says(house: &House, script: &str) -> String {
    let output = Command::new("timeout")
        .args(["60", "bash", "-uc", script])
        .env("LC_ALL", "C.UTF-8")
        .env("V", &house.vault)
        .env("T", house.temp.path())
        .current_dir(&house.mount)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {output:?}\n{}", house.log());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn errno(house: &House, path: &str) -> Option<i32> {
    fs::metadata(house.mount.join(path)).unwrap_err().raw_os_error()
}

/// The commit that HEAD is at.
fn head(house: &House) -> String {
    house.git(["rev-parse", "HEAD"])
}

const ODD: [&str; 5] =
    ["it's \"quoted\".md", "two\nlines.md", "日記/六月 🔥.md", "-dash.md", "%41 = $x.md"];

/// A vault with odd names, a link, a program, a file of a dot, and another state after it.
fn with_two_states() -> (House, String, String) {
    let house = House::open();
    for (at, name) in ODD.iter().enumerate() {
        house.write(name, format!("needle {at}\n"));
    }
    house.write("d/e/deep.md", "deep\n");
    house.write(".gitignore", "*.tmp\n");
    house.write("run.sh", "#!/bin/sh\necho ran\n");
    fs::set_permissions(house.at("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("e/deep.md", house.at("d/link")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", house.at("d/out")).unwrap();
    house.settle_and_check();
    let first = head(&house);
    house.git(["tag", "v1/first"]);
    house.write("d/e/deep.md", "deeper and longer\n");
    house.write("new.md", "new\n");
    fs::remove_file(house.at("-dash.md")).unwrap();
    house.settle_and_check();
    let second = head(&house);
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    (house, first, second)
}

#[test]
fn two_moments_are_compared_copied_searched_and_packed() {
    if !has_fuse("two_moments_are_compared_copied_searched_and_packed") {
        return;
    }
    let (house, first, second) = with_two_states();
    // Every file of the commit, byte by byte, by git's own word.
    for commit in [&first, &second] {
        house.git(["worktree", "add", "-q", "--detach", "../tree", commit]);
        let tree = house.root().join("tree");
        // One link leads out, and is a file that says where to.
        fs::remove_file(tree.join("d/out")).unwrap();
        fs::write(tree.join("d/out"), "/etc/hostname").unwrap();
        fs::remove_file(tree.join(".git")).unwrap();
        says(&house, &format!("diff -r --no-dereference at/{commit} $T/tree"));
        says(
            &house,
            &format!(
                "cd at/{commit} && tar cf - . | (mkdir $T/unpacked && tar xf - -C $T/unpacked) && diff -r --no-dereference . $T/unpacked"
            ),
        );
        says(
            &house,
            &format!("cp -r at/{commit} $T/copied && diff -r --no-dereference $T/copied $T/tree"),
        );
        says(
            &house,
            "[ -x $T/copied/run.sh ] && [ ! -x $T/copied/d/e/deep.md ] && rm -rf $T/tree $T/copied $T/unpacked",
        );
        house.git(["worktree", "prune"]);
    }
    let (old, new) = (&first[..7], &second[..9]);
    let said = says(&house, &format!("diff -r at/{old} at/{new}; [ $? = 1 ]"));
    assert_eq!(
        said,
        format!(
            "Only in at/{old}: -dash.md\ndiff -r at/{old}/d/e/deep.md at/{new}/d/e/deep.md\n\
             1c1\n< deep\n---\n> deeper and longer\n\
             diff -r at/{old}/d/link at/{new}/d/link\n1c1\n< deep\n---\n> deeper and longer\n\
             Only in at/{new}: new.md\n"
        )
    );
    assert_eq!(says(&house, "diff -r at/HEAD~1 at/v1%2Ffirst"), "");
    assert_eq!(says(&house, "diff -r at/main at/HEAD; diff -r at/today at/HEAD"), "");
    assert_eq!(says(&house, "grep -rlZ needle at/v1%2Ffirst | tr -cd '\\0' | wc -c").trim(), "5");
    assert_eq!(
        says(&house, "find at/HEAD -type f -name '*.md' -print0 | tr -cd '\\0' | wc -c").trim(),
        "6"
    );
    assert_eq!(says(&house, "find at/HEAD -type l").trim(), "at/HEAD/d/link");
    for name in ODD {
        let there = house.mount.join("at").join(&first).join(name);
        assert!(fs::read_to_string(&there).unwrap().starts_with("needle "), "{name}");
    }
}

#[test]
fn sizes_modes_and_times_are_right_before_anything_is_read() {
    if !has_fuse("sizes_modes_and_times_are_right_before_anything_is_read") {
        return;
    }
    let (house, first, _) = with_two_states();
    let time: i64 = house.git(["show", "-s", "--format=%ct", &first]).parse().unwrap();
    let of =
        |path: &str| fs::symlink_metadata(house.mount.join("at").join(&first).join(path)).unwrap();
    for (path, size, mode) in [
        ("d/e/deep.md", 5, 0o444),
        ("run.sh", 19, 0o555),
        ("d/out", 13, 0o444),
        (".gitignore", 6, 0o444),
    ] {
        let meta = of(path);
        assert_eq!(
            (meta.len(), meta.permissions().mode() & 0o7777, meta.mtime()),
            (size, mode, time),
            "{path}"
        );
        assert!(meta.is_file());
    }
    assert!(of("d/link").is_symlink());
    assert_eq!(
        fs::read_link(house.mount.join("at").join(&first).join("d/link")).unwrap().to_str(),
        Some("e/deep.md")
    );
    // A link stays in its own moment.
    assert_eq!(house.cat(&format!("at/{first}/d/link")), "deep\n");
    assert_eq!(house.cat("at/HEAD/d/link"), "deeper and longer\n");
    // Nothing can be written, and git finds no repository.
    for script in [
        "touch at/HEAD/new.md",
        "rm at/HEAD/new.md",
        "mkdir at/HEAD/x",
        "echo x >> at/HEAD/new.md",
        "git -C at/HEAD status",
    ] {
        let output =
            Command::new("bash").args(["-c", script]).current_dir(&house.mount).output().unwrap();
        assert!(!output.status.success(), "{script}");
    }
}

#[test]
fn what_no_commit_is_meant_by_does_not_exist() {
    if !has_fuse("what_no_commit_is_meant_by_does_not_exist") {
        return;
    }
    let (house, first, _) = with_two_states();
    assert_eq!(fs::read_dir(house.mount.join("at")).unwrap().count(), 0);
    for name in [
        "none",
        "1999-01-01",
        "HEAD~9",
        "feature%2Fnone",
        "0000000",
        ".Trash",
        ".git",
        "desktop.ini",
        "HEAD:d",
        "v1",
        "refs",
        &first[..4],
    ] {
        assert_eq!(errno(&house, &format!("at/{name}")), Some(2), "{name}");
    }
    for path in ["at/HEAD/none", "at/HEAD/.git", "at/HEAD/d/none/x", "at/HEAD/.obsidian"] {
        assert_eq!(errno(&house, path), Some(2), "{path}");
    }
    assert_eq!(errno(&house, "at/HEAD/new.md/x"), Some(20));
    assert_eq!(
        fs::metadata(
            house.mount.join("at").join([0xff].map(char::from).iter().collect::<String>())
        )
        .unwrap_err()
        .raw_os_error(),
        Some(2)
    );
}

#[test]
fn a_name_means_the_newest_commit_and_what_is_open_stays_in_its_own() {
    if !has_fuse("a_name_means_the_newest_commit_and_what_is_open_stays_in_its_own") {
        return;
    }
    let (house, ..) = with_two_states();
    let mut open = File::open(house.mount.join("at/HEAD/d/e/deep.md")).unwrap();
    let number = open.metadata().unwrap().ino();
    let mut walker = Command::new("timeout")
        .args(["60", "bash", "-c", "cd at/main/d; echo ready; read -r; cat e/deep.md; ls"])
        .current_dir(&house.mount)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(walker.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    for round in 0..3 {
        house.write("d/e/deep.md", format!("round {round}\n"));
        house.write(format!("d/more{round}.md"), "more\n");
        house.settle();
        assert_eq!(house.cat("at/HEAD/d/e/deep.md"), format!("round {round}\n"), "at once");
        assert_eq!(house.cat("at/main/d/e/deep.md"), format!("round {round}\n"));
        assert!(!house.cat("at/HEAD~1/d/e/deep.md").is_empty());
    }
    assert_ne!(fs::metadata(house.mount.join("at/HEAD/d/e/deep.md")).unwrap().ino(), number);
    std::io::Write::write_all(&mut walker.stdin.take().unwrap(), b"go\n").unwrap();
    assert_eq!(std::io::read_to_string(out).unwrap(), "deeper and longer\ne\nlink\nout\n");
    assert!(walker.wait().unwrap().success());
    let mut text = String::new();
    open.seek(SeekFrom::Start(0)).unwrap();
    open.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), open.metadata().unwrap().ino()), ("deeper and longer\n", number));
    // A commit by hand, a branch, a reset: history, and shown as that.
    house.git(["branch", "-f", "kept"]);
    house.git(["reset", "-q", "--hard", "HEAD~1"]);
    house.settle();
    assert_eq!(house.cat("at/kept/d/e/deep.md"), "round 2\n");
    assert_eq!(house.cat("at/HEAD/d/e/deep.md"), "round 1\n");
}

#[test]
fn every_version_of_a_note_is_a_file_across_renames_and_after_its_end() {
    if !has_fuse("every_version_of_a_note_is_a_file_across_renames_and_after_its_end") {
        return;
    }
    let house = House::open();
    let text =
        |n: usize| format!("# Plan\n\nA line that stays.\nAnother that stays.\nVersion {n}.\n");
    house.write("memory/plan.md", text(1));
    house.settle();
    house.write("memory/plan.md", text(2));
    house.settle();
    fs::rename(house.at("memory/plan.md"), house.at("memory/it's \"the\" plan.md")).unwrap();
    house.settle();
    house.write("memory/it's \"the\" plan.md", text(3));
    house.settle_and_check();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    let folder = "history/memory/it's \"the\" plan.md.versions";
    let names = |folder: &str| -> Vec<String> {
        let listed = fs::read_dir(house.mount.join(folder)).unwrap();
        listed.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
    };
    let listed = names(folder);
    let commits: Vec<_> = house
        .git(["log", "--format=%h %ad", "--date=format:%Y-%m-%d", "--abbrev=7"])
        .lines()
        .map(|it| it.split_once(' ').map(|(id, day)| format!("{day}-{id}")).unwrap())
        .collect();
    let wanted: Vec<_> =
        commits.iter().zip((1..=4).rev()).map(|(it, n)| format!("{n}-{it}.md")).collect();
    assert_eq!(listed, wanted, "newest first, counted from the oldest");
    for (name, version) in listed.iter().zip([3, 2, 2, 1]) {
        assert_eq!(house.cat(&format!("{folder}/{name}")), text(version), "{name}");
    }
    assert_eq!(names("history/memory"), ["it's \"the\" plan.md.versions"]);
    assert_eq!(names("history"), [""; 0]);
    // Gone, and still to be named, with its versions under the names that they had.
    fs::remove_file(house.at("memory/it's \"the\" plan.md")).unwrap();
    house.write("other.md", "x\n");
    house.settle_and_check();
    assert_eq!(names(folder), wanted);
    assert_eq!(names("history/memory"), [""; 0], "a folder that is gone can be named, too");
    assert_eq!(house.cat(&format!("{folder}/{}", wanted[0])), text(3));
    assert_eq!(errno(&house, "history/memory/none.md.versions"), Some(2));
    assert_eq!(errno(&house, "history/none"), Some(2));
    assert_eq!(errno(&house, "history/.Trash-1000"), Some(2));
}

#[test]
fn a_vault_without_a_commit_has_no_past_and_a_kill_costs_none() {
    if !has_fuse("a_vault_without_a_commit_has_no_past_and_a_kill_costs_none") {
        return;
    }
    let mut house = House::open();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    for path in ["at/HEAD", "at/main", "at/today", "history/a.md.versions", "history/memory"] {
        assert_eq!(errno(&house, path), Some(2), "{path}");
    }
    assert_eq!(says(&house, "ls at history; find at history"), "at:\n\nhistory:\nat\nhistory\n");
    house.write("a.md", "one\n");
    house.settle_and_check();
    let number = fs::metadata(house.mount.join("at/HEAD/a.md")).unwrap().ino();
    house.kill();
    house.start();
    wait_for("the mount", || house.mount.join("README.md").exists());
    assert_eq!(house.cat("at/HEAD/a.md"), "one\n");
    assert_eq!(
        fs::metadata(house.mount.join("at/HEAD/a.md")).unwrap().ino(),
        number,
        "the same page"
    );
}

/// A history that is no line: what each side of a merge had is at its own commit.
#[test]
fn a_merge_has_both_sides_in_its_past() {
    if !has_fuse("a_merge_has_both_sides_in_its_past") {
        return;
    }
    let house = House::open();
    house.write("a.md", "base\n");
    house.settle();
    house.git(["checkout", "-qb", "side"]);
    house.write("side.md", "side\n");
    house.settle();
    house.git(["checkout", "-q", "main"]);
    house.settle();
    house.write("a.md", "main\n");
    house.settle();
    house.git(["merge", "-q", "--no-edit", "side"]);
    house.settle_and_check();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    assert_eq!(
        says(&house, "ls at/HEAD at/HEAD^1 at/HEAD^2 at/side~1"),
        "at/HEAD:\na.md\nside.md\n\nat/HEAD^1:\na.md\n\nat/HEAD^2:\na.md\nside.md\n\nat/side~1:\na.md\n"
    );
    assert_eq!(house.cat("at/HEAD/a.md"), "main\n");
    assert_eq!(house.cat("at/side/a.md"), "base\n");
    assert_eq!(
        says(
            &house,
            "ls -U history/side.md.versions | cut -c1-2; ls -U history/a.md.versions | cut -c1-2"
        ),
        "1-\n2-\n1-\n"
    );
}

/// The vault is a folder of a repository: its past is that folder's.
#[test]
fn a_vault_in_a_larger_repository_has_its_own_past() {
    if !has_fuse("a_vault_in_a_larger_repository_has_its_own_past") {
        return;
    }
    let mut house = House::closed();
    let root = house.root();
    fs::create_dir_all(house.at("notes")).unwrap();
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(args)
            .current_dir(&root)
            .env("HOME", root.join("home"))
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    };
    fs::write(root.join(".gitignore"), "home\nrun\nagent.log\nmemory.fs\n").unwrap();
    fs::write(root.join("outside.md"), "outside\n").unwrap();
    fs::write(house.at("notes/a.md"), "inside\n").unwrap();
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "both"]);
    house.start();
    house.settle();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    assert_eq!(says(&house, "cd at/HEAD && find . -name '*.md'"), "./notes/a.md\n");
    assert_eq!(house.cat("at/main/notes/a.md"), "inside\n");
    assert_eq!(errno(&house, "at/HEAD/outside.md"), Some(2));
    assert_eq!(says(&house, "ls history/notes/a.md.versions | wc -l").trim(), "1");
}

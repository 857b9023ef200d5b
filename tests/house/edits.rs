//! Any edit is a commit: by editors, tools, folders that come and go.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::house::{House, has_fuse, is_there, wait_for};

fn shell(house: &House, script: &str) {
    let output = Command::new("bash")
        .args(["-euc", script])
        .env("V", &house.vault)
        .env("T", house.temp.path())
        .current_dir(&house.vault)
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// The message of HEAD.
fn message(house: &House) -> String {
    house.git(["log", "-1", "--format=%B"])
}

#[test]
fn an_edit_becomes_a_commit_a_hit_and_a_file() {
    if !has_fuse("an_edit_becomes_a_commit_a_hit_and_a_file") {
        return;
    }
    let house = House::open();
    house.write("memory/2026-01-02/tides.md", "# Tides\n\nMet Ada about the tide tables.\n");
    house.settle_and_check();

    assert_eq!(message(&house), "memory: create memory/2026-01-02/tides.md\n\nRemd-Cause: edit");
    let hit = "========== memory/2026-01-02/tides.md:1-3 [score=";
    let page = house.cat("search/tide tables");
    assert!(page.starts_with(hit), "{page}");
    assert!(page.contains("Met Ada about the tide tables."), "{page}");
    let said = house.run(["search", "tide", "tables"]);
    assert_eq!((said.code, said.stdout), (0, page), "the command line prints the same bytes");
}

#[test]
fn nobody_has_to_ask_a_quiet_window_is_enough() {
    let house = House::open();
    house.write("a.md", "needle\n");
    wait_for("the commit", || house.git(["rev-list", "--all", "--count"]) == "1");
    wait_for("the hit", || house.found_committed("needle") == ["a.md"]);
}

#[test]
fn each_verb_has_its_subject() {
    let house = House::open();
    let check = |subject: &str| {
        house.settle_and_check();
        assert_eq!(house.git(["log", "-1", "--format=%s"]), subject);
    };
    house.write("notes/a.md", "one\ntwo\nthree\nfour\n");
    check("memory: create notes/a.md");
    shell(&house, "echo five >> notes/a.md");
    check("memory: update notes/a.md");
    shell(&house, "mv notes/a.md notes/b.md");
    check("memory: rename notes/a.md → notes/b.md");
    shell(&house, "chmod +x notes/b.md");
    check("memory: mode notes/b.md");
    shell(&house, ": > notes/b.md");
    check("memory: empty notes/b.md");
    shell(&house, "rm notes/b.md");
    check("memory: delete notes/b.md");
    shell(&house, "mkdir x; echo 1 > x/1.md; echo 2 > x/2.md; echo 3 > top.md");
    check("memory: 3 changes (x/ 2, ./ 1)");
    assert!(message(&house).contains("x/1.md"), "the body lists the paths");
}

#[test]
fn editors_and_tools_save_in_their_own_ways() {
    let house = House::open();
    shell(&house, "for i in 1 2 3; do echo note $i > n$i.md; done");
    house.settle_and_check();
    // Atomic rename, backup and swap files, sed, an archive, autosave bursts.
    shell(
        &house,
        "printf atomic > .n1.md.tmp && mv .n1.md.tmp n1.md
         touch .n2.md.swp 4913 && rm 4913 && mv n2.md n2.md~ && echo vim > n2.md && rm n2.md~ .n2.md.swp
         sed -i s/note/sed/ n3.md
         mkdir \"$T/z\" && echo packed > \"$T/z/p.md\" && tar -C \"$T\" -cf - z | tar -xf -
         for i in $(seq 200); do echo burst $i > burst.md; done",
    );
    house.settle_and_check();
    assert_eq!(house.in_head("n1.md"), b"atomic");
    assert_eq!(house.in_head("n2.md"), b"vim\n");
    assert_eq!(house.in_head("n3.md"), b"sed 3\n");
    assert_eq!(house.in_head("z/p.md"), b"packed\n");
    assert_eq!(house.in_head("burst.md"), b"burst 200\n");
    assert_eq!(house.head_paths().len(), 5, "{:?}", house.head_paths());
}

#[test]
fn what_git_ignores_stays_out_and_what_it_tracks_stays_in() {
    let house = House::open();
    house.write(".gitignore", "*.log\nbuild/\n!keep.log\n");
    house.write("a.log", "x");
    house.write("keep.log", "x");
    house.write("build/deep/n.md", "ignored needle\n");
    house.write("n.md", "needle\n");
    house.settle_and_check();
    assert_eq!(house.head_paths(), [&b".gitignore"[..], b"keep.log", b"n.md"]);
    assert_eq!(house.found("needle"), ["n.md"]);
}

#[test]
fn a_folder_moved_in_renamed_and_moved_out_d02_d03() {
    let house = House::open();
    let x = house.temp.path().join("x");
    fs::create_dir_all(x.join("a/b")).unwrap();
    fs::write(x.join("a/b/n1.md"), "needle one\n").unwrap();
    fs::rename(&x, house.at("x")).unwrap();
    house.settle_and_check();
    assert_eq!(house.found("needle"), ["x/a/b/n1.md"]);

    shell(&house, "echo two >> x/a/b/n1.md");
    house.settle_and_check();
    assert_eq!(house.in_head("x/a/b/n1.md"), b"needle one\ntwo\n");

    fs::rename(house.at("x"), house.at("y")).unwrap();
    fs::write(house.at("y/a/b/n1.md"), "needle three\n").unwrap();
    house.settle_and_check();
    assert_eq!(house.head_paths(), [b"y/a/b/n1.md"]);
    assert_eq!(house.found("needle"), ["y/a/b/n1.md"]);

    let away = house.temp.path().join("away");
    fs::rename(house.at("y"), &away).unwrap();
    house.settle_and_check();
    assert_eq!(house.head_paths(), Vec::<Vec<u8>>::new());
    assert_eq!(house.found("needle"), Vec::<String>::new());
    let commits = house.commits();
    fs::write(away.join("a/b/n1.md"), "outside\n").unwrap();
    house.settle_and_check();
    assert_eq!(house.commits(), commits, "an edit outside is none of ours");
}

#[test]
fn folders_made_and_filled_at_once_d04() {
    let house = House::open();
    for run in 0..4 {
        shell(
            &house,
            &format!(
                "for i in $(seq 125); do d=x/{run}-$i/deep; mkdir -p $d && echo needle{run} $i > $d/n.md; done"
            ),
        );
        house.settle_and_check();
        assert_eq!(house.head_paths().len(), 125 * (run + 1));
    }
    // And found by the watcher alone, without a look that was asked for.
    shell(&house, "for i in $(seq 100); do d=w/$i/deep; mkdir -p $d && echo $i > $d/n.md; done");
    wait_for("the watcher's own commit", || house.head_paths().len() == 600);
}

#[test]
fn a_note_seen_half_written_is_no_edit_d09() {
    let mut house = House::open();
    house.stop();
    house.args(["commit.quiet=2s", "commit.max_wait=60s", "--no-mount"]).start();
    house.write("n.md", "full\n");
    house.write("other.md", "x\n");
    house.settle();
    let before = house.commits();
    // Truncated, then written; deleted, then created: each within the quiet window.
    shell(&house, "for i in $(seq 5); do : > n.md; sleep 0.1; echo full $i > n.md; done");
    shell(&house, "rm n.md; sleep 0.2; echo full again > n.md");
    wait_for("the commit", || house.commits() > before);
    house.settle_and_check();
    let log = house.git(["log", "--format=%s", "--", "n.md"]);
    assert_eq!(log, "memory: update n.md\nmemory: 2 changes (./ 2)");
    // Truncated and never written again: committed, and named for what it is.
    shell(&house, ": > n.md");
    wait_for("the empty state", || house.git(["log", "-1", "--format=%s"]) == "memory: empty n.md");
    assert_eq!(house.git(["show", "HEAD~1:n.md"]), "full again");
}

#[test]
fn links_to_everywhere_are_committed_as_links_d10() {
    let mut house = House::open();
    house.stop();
    house.write("d/n.md", "needle\n");
    for (target, link) in [
        (".", "loop"),
        ("..", "up"),
        ("/etc", "out"),
        ("b", "a"),
        ("a", "b"),
        ("gone", "dangling.md"),
    ] {
        symlink(target, house.at(link)).unwrap();
    }
    symlink("../d", house.at("d/self")).unwrap();
    house.start();
    house.settle_and_check();
    assert_eq!(house.found("needle"), ["d/n.md"]);
    let modes = house.git(["ls-tree", "-r", "HEAD"]);
    assert_eq!(modes.matches("120000").count(), 7, "{modes}");
    assert_eq!(modes.matches("100644").count(), 1, "{modes}");
}

#[test]
fn gone_and_back_again_d14() {
    let house = House::open();
    house.write("n.md", "needle [[a]]\n");
    house.write("a.md", "first\n");
    house.write("b.md", "second\n");
    house.settle_and_check();
    let deletes =
        |house: &House| house.git(["log", "--diff-filter=D", "--format=%h", "--", "n.md"]);
    shell(
        &house,
        "for i in $(seq 100); do cp n.md \"$T/n\"; rm n.md; cp \"$T/n\" n.md; done
         mv a.md c.md; mv c.md a.md",
    );
    house.settle_and_check();
    assert_eq!(deletes(&house), "");
    assert_eq!(house.found("needle"), ["n.md"]);
    shell(&house, "mv a.md t; mv b.md a.md; mv t b.md");
    house.settle_and_check();
    assert_eq!(house.in_head("a.md"), b"second\n");
    assert_eq!(house.in_head("b.md"), b"first\n");
    shell(&house, "rm n.md");
    house.git(["checkout", "-q", "--", "n.md"]);
    house.settle_and_check();
    assert!(house.head_paths().contains(&b"n.md".to_vec()));
}

#[test]
fn a_file_becomes_a_folder_and_back() {
    let house = House::open();
    house.write("thing", "file\n");
    house.settle_and_check();
    shell(&house, "rm thing; mkdir thing; echo needle > thing/n.md");
    house.settle_and_check();
    assert_eq!(house.head_paths(), [b"thing/n.md"]);
    shell(&house, "rm -r thing; echo file > thing");
    house.settle_and_check();
    assert_eq!(house.head_paths(), [b"thing"]);
    assert!(house.found("needle").is_empty() && is_there(&house.at("thing")));
}

#[test]
fn edits_made_while_nobody_watched_are_found_at_the_start() {
    let mut house = House::open();
    house.write("kept.md", "needle kept\n");
    house.write("gone.md", "needle gone\n");
    house.settle_and_check();
    house.stop();
    fs::remove_file(house.at("gone.md")).unwrap();
    house.write("new.md", "needle new\n");
    house.start();
    house.settle_and_check();
    let mut found = house.found("needle");
    found.sort();
    assert_eq!(found, ["kept.md", "new.md"]);
}

#[test]
fn a_folder_that_is_no_longer_ignored_is_watched() {
    let house = House::open();
    house.write(".gitignore", "drafts/\n");
    house.write("drafts/a.md", "one\n");
    house.settle_and_check();
    assert_eq!(house.head_paths(), [b".gitignore"]);
    house.write(".gitignore", "nothing\n");
    wait_for("the folder to come in", || house.head_paths().len() == 2);
    house.write("drafts/a.md", "two\n");
    wait_for("an edit in it to be seen", || house.in_head("drafts/a.md") == b"two\n");
    house.settle_and_check();
}

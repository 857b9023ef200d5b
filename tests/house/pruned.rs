//! What the agent remembers of history is gone from Git: it goes on without a restart.

use std::fs;

use crate::house::{House, wait_for};

fn with_notes() -> House {
    let house = House::open();
    for name in ["n1.md", "n2.md", "n3.md"] {
        house.write(name, format!("# {name}\n\nfirst words of {name}\n"));
    }
    house.settle_and_check();
    house.write("n1.md", "# n1\n\nsecond words\n");
    house.settle_and_check();
    house
}

fn prune(house: &House) {
    house.git(["reflog", "expire", "--expire=now", "--all"]);
    house.git(["gc", "-q", "--prune=now"]);
}

/// All is committed and searchable, without a person's hand and without an error on the way out.
fn goes_on(house: &House, edited: &str, word: &str) {
    wait_for("the index to follow", || {
        let status = house.status();
        status["verdict"] == "ok" && house.found_committed(word) == [edited]
    });
    assert_eq!(house.git(["status", "--porcelain"]), "", "{}", house.log());
    house.git(["fsck", "--strict"]);
    // What comes next is followed as ever.
    house.write("next.md", "# next\n\nafterwards\n");
    wait_for("the next edit", || house.found_committed("afterwards") == ["next.md"]);
}

#[test]
fn the_index_is_built_anew_when_the_commit_it_is_at_is_pruned() {
    let house = with_notes();
    house.git(["commit", "-q", "--amend", "-m", "a"]);
    prune(&house);
    house.write("n1.md", "# n1\n\nzebra\n");
    goes_on(&house, "n1.md", "zebra");
}

#[test]
fn another_history_in_the_same_place_is_taken_up() {
    let house = with_notes();
    // An orphan branch, and all that was before it swept away.
    house.git(["checkout", "-q", "--orphan", "other"]);
    house.git(["commit", "-q", "-m", "orphan"]);
    house.git(["branch", "-q", "-D", "main"]);
    prune(&house);
    house.write("n1.md", "# n1\n\nzebra\n");
    goes_on(&house, "n1.md", "zebra");

    // A repository that begins anew.
    fs::remove_dir_all(house.at(".git")).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.write("n2.md", "# n2\n\nokapi\n");
    wait_for("the new history", || house.found_committed("okapi") == ["n2.md"]);
    goes_on(&house, "n2.md", "okapi");
    assert!(!house.head_paths().iter().any(|it| it.starts_with(b"mem_metadata/")));

    // Another clone's `.git` in its place.
    let clone = house.temp.path().join("clone");
    let from = house.vault.to_str().unwrap().to_owned();
    house.git(["clone", "-q", "--bare", &from, clone.to_str().unwrap()]);
    let old = house.temp.path().join("old.git");
    fs::rename(house.at(".git"), old).unwrap();
    fs::rename(&clone, house.at(".git")).unwrap();
    house.git(["config", "core.bare", "false"]);
    house.git(["commit", "-q", "--amend", "--allow-empty", "-m", "swapped"]);
    house.write("n3.md", "# n3\n\ntapir\n");
    goes_on(&house, "n3.md", "tapir");
}

#[test]
fn commits_go_on_when_what_head_was_on_is_pruned() {
    let house = with_notes();
    house.git(["reset", "-q", "HEAD~1"]);
    house.git(["add", "n1.md"]);
    prune(&house);
    house.write("n2.md", "# n2\n\ngnu\n");
    wait_for("the edit beside what is staged", || house.in_head("n2.md").ends_with(b"gnu\n"));
    wait_for("it is searched", || house.found_committed("gnu") == ["n2.md"]);
    let status = house.status();
    assert!(!status["problems"].to_string().contains("\"error\""), "{status}\n{}", house.log());
    // The person's own commit takes the rest.
    house.git(["commit", "-q", "-m", "by hand"]);
    goes_on(&house, "n1.md", "second");
}

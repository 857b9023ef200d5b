//! The last line of a page: `current` only where the page knows all that is on disk.

use std::fs;

use crate::house::{House, has_fuse, wait_for};

/// What stands between the number of hits and the branches, the same in every form and through
/// every door.
fn as_of(house: &House, query: &str) -> String {
    let said = |form: &[&str]| house.run([&["search", query], form].concat()).stdout;
    let last = |page: &str| page.lines().last().unwrap().to_owned();
    // What is kept out is let go of in front of the index a moment after it is named.
    let mut text = said(&[]);
    wait_for("the same answer twice", || {
        let markdown = said(&["--markdown"]);
        text = said(&[]);
        last(&text) == last(&markdown)
    });
    if has_fuse("the last line of a page under the mount") && house.is_running() {
        assert_eq!(house.cat(&format!("search/{query}")), text);
        assert_eq!(house.cat(&format!("search/{query}.json")), said(&["--json"]));
    }
    let line = last(&text);
    line.split_once(" as of ").unwrap().1[9..].split_once(", keyword").unwrap().0.to_owned()
}

fn json(house: &House, query: &str) -> serde_json::Value {
    let page = house.run(["search", "--json", query]).stdout;
    serde_json::from_str(&page).unwrap()
}

#[test]
fn what_is_kept_out_of_the_commits_is_counted_apart() {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.args(["commit.max_file=1MB"]).start();
    for at in 0..30 {
        house.write(format!("notes/{at}.md"), format!("note {at}, see [[a]]\n"));
    }
    house.write("a.md", "old\n");
    house.settle_and_check();
    assert_eq!(as_of(&house, "zebra"), "current");

    // Staged by a person before the agent looked.
    assert_eq!(house.run(["pause"]).code, 0);
    house.write("a.md", "zebra\n");
    house.git(["add", "a.md"]);
    assert_eq!(house.run(["resume"]).code, 0);
    house.settle();
    assert_eq!(house.status()["pending"]["kept_out"][0]["path"], "a.md");
    assert_eq!(as_of(&house, "zebra"), "1 kept out");
    assert_eq!(json(&house, "zebra")["edits_uncommitted"], 0);
    assert_eq!(json(&house, "zebra")["kept_out"], 1);
    if has_fuse("pages of links and nodes") {
        for page in ["note/a.md/links", "note/a.md/backlinks", "nodes/zebra"] {
            let page = house.cat(page);
            let last = page.lines().last().unwrap();
            assert!(last.contains(", 1 kept out"), "{page}");
        }
    }

    // Too large.
    house.write("big.md", "zebra\n".repeat(200_000));
    house.settle();
    assert_eq!(as_of(&house, "zebra"), "2 kept out");

    // Gone, and held back.
    fs::remove_dir_all(house.at("notes")).unwrap();
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 4);
    assert_eq!(as_of(&house, "zebra"), "30 edits uncommitted, 2 kept out");

    assert_eq!(house.run(["accept"]).code, 0);
    fs::remove_file(house.at("big.md")).unwrap();
    house.git(["commit", "-qm", "by hand"]);
    house.settle_and_check();
    assert_eq!(as_of(&house, "zebra"), "current");
    assert_eq!(house.found("zebra"), ["a.md"]);
}

#[test]
fn a_note_that_is_searched_in_part_is_counted_where_it_is_asked() {
    let mut house = House::open();
    house.write("long/a.md", format!("alfa\n{}bravo\n", "\n".repeat(4 << 20)));
    house.write("short/a.md", "alfa [[long/a]]\n");
    house.settle_and_check();
    assert_eq!(as_of(&house, "alfa"), "current, 1 note searched in part");
    assert_eq!(json(&house, "alfa")["notes_in_part"], 1);
    let within = |folder: &str| house.run(["search", "alfa", "--in", folder]).stdout;
    assert!(within("long").contains(", current, 1 note searched in part, "), "{}", within("long"));
    assert!(!within("short").contains("in part"), "{}", within("short"));
    if has_fuse("pages of links") {
        let page = |page: &str| house.cat(page);
        assert!(page("note/short/a.md/links").ends_with(", current\n"));
        assert!(page("note/long/a.md/links").ends_with(", 1 note searched in part\n"));
        assert!(page("note/short/a.md/backlinks").ends_with(", 1 note searched in part\n"));
    }
    house.stop();
    let offline = as_of(&house, "alfa");
    assert!(offline.ends_with(", 1 note searched in part"), "{offline}");
}

#[test]
fn with_no_agent_nobody_looked_at_the_disk() {
    let mut house = House::open();
    house.write("a.md", "alfa\n");
    house.settle_and_check();
    house.stop();
    house.write("b.md", "bravo\n");
    assert_eq!(as_of(&house, "bravo"), "no agent: edits since then unknown");
    assert_eq!(json(&house, "bravo")["unseen"], "no agent: edits since then unknown");
    assert_eq!(house.run(["search", "bravo"]).code, 1);
    assert_eq!(house.run(["search", "alfa"]).code, 0);
    let status = house.run(["status"]);
    assert_eq!(status.code, 5);
    let pending = "\n  pending  unknown: no agent looks at the disk\n";
    assert!(status.stdout.contains(pending), "{}", status.stdout);
    assert_eq!(house.status()["pending"]["unseen"], "no agent looks at the disk");
    house.start();
    house.settle_and_check();
    assert_eq!(as_of(&house, "bravo"), "current");
    assert_eq!(json(&house, "bravo")["unseen"], serde_json::Value::Null);
    assert!(house.run(["status"]).stdout.contains("\n  pending  nothing\n"));
}

#[test]
fn a_vault_that_is_gone_is_not_current() {
    let house = House::open();
    house.write("a.md", "alfa\n");
    house.settle_and_check();
    let away = house.root().join("away");
    fs::rename(&house.vault, &away).unwrap();
    wait_for("the loss to be told", || {
        let page = house.run(["search", "alfa"]).stdout;
        page.contains("-- 1 hit as of ") && page.contains(", vault gone, keyword")
    });
    let line = as_of(&house, "alfa");
    assert!(line.ends_with("vault gone") && !line.contains("current"), "{line}");
    assert_eq!(json(&house, "alfa")["unseen"], "vault gone");
    let status = house.run(["status"]);
    assert!(status.code == 3 && status.stdout.contains("unknown: vault gone"), "{}", status.stdout);
    fs::rename(&away, &house.vault).unwrap();
    wait_for("the vault to be taken up again", || {
        house.run(["status", "--wait", "settled"]).code == 0 && as_of(&house, "alfa") == "current"
    });
}

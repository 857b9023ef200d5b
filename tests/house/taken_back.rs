//! Taking back and bringing back, as a person does it.

use std::fs;

use crate::house::{House, wait_for};

fn slots(words: &[&str]) -> String {
    words.iter().map(|it| format!("- {it}\n\n\n")).collect()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_last_change_goes_also_one_that_no_commit_has_yet_and_comes_again() {
    let mut house = House::open();
    house.write("a.md", "one\n");
    house.settle();
    house.write("b.md", "b\n");
    house.settle();
    // Within the quiet window: undo is about it all the same.
    house.write("a.md", "one\ntwo\n");
    let said = house.run(["undo"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.stdout, "update a.md\n");
    assert!(said.stderr.contains("Took back"), "{}", said.stderr);
    assert!(said.stderr.contains("memory: update a.md"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(house.at("a.md")).unwrap(), "one\n");
    let back = house.git(["rev-parse", "HEAD"]);
    // The one before it, as in an editor.
    assert_eq!(house.run(["undo"]).code, 0);
    assert!(!house.at("b.md").exists());
    let said = house.run(["undo"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{}", said.stderr);
    assert!(said.stderr.starts_with("There is no change to take back; what the vault began with"));
    assert!(house.at("a.md").exists(), "what the vault began with stays");
    let said = house.run(["undo", back.trim(), "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = json(&said.stdout);
    assert_eq!((&said["outcome"], &said["schema_version"]), (&"done".into(), &1.into()));
    assert_eq!(said["changes"][0]["path"], "a.md");
    assert_eq!(said["commit"], house.git(["rev-parse", "HEAD"]).trim());
    assert_eq!(fs::read_to_string(house.at("a.md")).unwrap(), "one\ntwo\n");
    house.settle_and_check();
    assert_eq!(house.found("two"), ["a.md"]);
    // Nobody runs: the same, by the command itself.
    house.stop();
    house.write("c.md", "not committed\n");
    assert_eq!(house.run(["undo"]).code, 0);
    assert!(!house.at("c.md").exists());
    let deleted = house.git(["log", "-2", "--format=%s %(trailers:key=Remd-Cause,valueonly)"]);
    assert!(deleted.starts_with("memory: delete c.md undo\n"), "{deleted}");
    assert_eq!(house.git(["status", "--porcelain"]), "");
    house.start();
    house.settle_and_check();
}

#[test]
fn later_edits_on_the_same_lines_are_named_and_somebody_says_whose() {
    let house = House::open();
    house.write("memory/n.md", slots(&["one", "two", "three"]));
    house.settle();
    house.write("memory/n.md", slots(&["one", "by an agent", "three"]));
    house.settle();
    let change = house.git(["rev-parse", "HEAD"]);
    house.write("memory/n.md", slots(&["one, later", "by me", "three"]));
    house.settle();
    let (head, disk) = (house.git(["rev-parse", "HEAD"]), slots(&["one, later", "by me", "three"]));
    let said = house.run(["undo", change.trim()]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert_eq!(said.stdout, "memory/n.md:4: changed since\n    - by me\n");
    assert!(said.stderr.contains("--keep-mine"), "{}", said.stderr);
    assert_eq!(house.git(["rev-parse", "HEAD"]), head);
    assert_eq!(fs::read_to_string(house.at("memory/n.md")).unwrap(), disk);
    let overlaps = json(&house.run(["undo", change.trim(), "--json"]).stdout);
    assert_eq!(overlaps["overlaps"][0]["lines"], serde_json::json!([[4, 4]]));
    let said = house.run(["undo", change.trim(), "--keep-mine"]);
    assert_eq!(said.code, 1, "nothing else is to be done: {}", said.stderr);
    let dry = house.run(["undo", change.trim(), "--keep-theirs", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(dry.stdout.contains("-- by me\n+- two\n"), "{}", dry.stdout);
    assert_eq!(house.git(["rev-parse", "HEAD"]), head);
    assert_eq!(house.run(["undo", change.trim(), "--keep-theirs"]).code, 0);
    let expected = slots(&["one, later", "two", "three"]);
    assert_eq!(fs::read_to_string(house.at("memory/n.md")).unwrap(), expected);
    house.settle_and_check();
    for (args, code) in [
        (["undo", "--job", "01NOBODY"], 2),
        (["undo", "not-a-revision", "--dry-run"], 2),
        (["undo", "--keep-mine", "--keep-theirs"], 2),
    ] {
        let said = house.run(args);
        assert_eq!(said.code, code, "{args:?}: {}", said.stderr);
        assert!(!said.stderr.is_empty());
    }
}

#[test]
fn what_is_saved_in_the_very_moment_stays() {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    let held = house.root().join("held");
    fs::write(&held, "").unwrap();
    house.env("REMD_HOLD", &format!("swap.staged:{}", held.display()));
    house.start();
    house.write("a.md", slots(&["one", "two", "three", "four"]));
    house.settle();
    house.write("a.md", slots(&["ONE", "two", "three", "four"]));
    house.settle();
    let mut undo = house.spawn_command(["undo"]);
    let is_beside = || {
        let names = fs::read_dir(&house.vault).unwrap();
        names
            .filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().contains("swap"))
            .count()
    };
    wait_for("the old text beside", || is_beside() == 1);
    house.write("a.md", slots(&["ONE", "two", "three", "saved meanwhile"]));
    fs::remove_file(&held).unwrap();
    assert_eq!(undo.wait().unwrap().code(), Some(0));
    let expected = slots(&["one", "two", "three", "saved meanwhile"]);
    assert_eq!(fs::read_to_string(house.at("a.md")).unwrap(), expected);
    assert_eq!(is_beside(), 0);
    house.settle_and_check();
    let causes =
        house.git(["log", "-3", "--format=%(trailers:key=Remd-Cause,valueonly,separator=)"]);
    assert_eq!(causes.lines().collect::<Vec<_>>(), ["undo", "edit", "edit"]);
}

#[test]
fn a_note_a_folder_and_what_is_deleted_come_back() {
    let house = House::open();
    house.write("f/a.md", "a, old\n");
    house.write("f/b.md", "b, old\n");
    house.settle();
    house.git(["tag", "before"]);
    house.write("f/a.md", "a, new\n");
    house.write("f/new.md", "new\n");
    fs::remove_file(house.at("f/b.md")).unwrap();
    house.settle();
    fs::rename(house.at("f/a.md"), house.at("moved.md")).unwrap();
    house.settle();
    let said = house.run(["restore", "f/b.md"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "create f/b.md\n"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(house.at("f/b.md")).unwrap(), "b, old\n");
    // Under the name that it has now.
    let said = house.run(["restore", "moved.md", "--at", "before"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "update moved.md\n"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(house.at("moved.md")).unwrap(), "a, old\n");
    let said = house.run(["restore", "f", "--at", "before", "--exactly"]);
    assert_eq!(said.stdout, "create f/a.md\ndelete f/new.md\n", "{}", said.stderr);
    let cause = house.git(["log", "-1", "--format=%(trailers:key=Remd-Cause,valueonly)"]);
    assert_eq!(cause.trim(), "restore");
    assert_eq!(house.run(["restore", "f", "--at", "before"]).code, 1);
    for (args, part) in [
        (vec!["restore", "never.md"], "No such note or folder"),
        (vec!["restore", "f/a.md"], "--at"),
        (vec!["restore", "moved.md", "--at", "no such moment"], "No such"),
        (vec!["restore", "../x.md", "--at", "before"], "no path in the vault"),
        (vec!["restore", "."], "Which version"),
    ] {
        let said = house.run(&args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(part), "{args:?}: {}", said.stderr);
    }
    let head = house.git(["rev-parse", "HEAD"]);
    let said = house.run(["restore", house.vault.to_str().unwrap(), "--at", "before", "--exactly"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(house.git(["diff", "--stat", "before", "HEAD"]), "");
    assert_eq!(house.run(["undo"]).code, 0);
    assert_eq!(house.git(["diff", "--stat", head.trim(), "HEAD"]), "");
    house.settle_and_check();
}

#[test]
fn names_of_any_bytes_go_and_come_back() {
    let house = House::open();
    let names: [&[u8]; 4] =
        [b"line\nbreak.md", b"q\"uote\\.md", b"not utf-8 \xff.md", "日記 🔥.md".as_bytes()];
    house.write("start.md", "start\n");
    house.settle();
    for name in names {
        house.write(name, "text\n");
    }
    house.settle();
    let said = house.run(["undo"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let shown = "delete \"line\\nbreak.md\"\ndelete \"not utf-8 \\377.md\"\ndelete \
                 \"q\\\"uote\\\\.md\"\ndelete 日記 🔥.md\n";
    assert_eq!(said.stdout, shown, "a name forges no line and is spelt as by Git");
    assert_eq!(house.head_paths(), [b"start.md".to_vec()]);
    for name in names {
        use std::os::unix::ffi::OsStrExt as _;
        let said = house.run([std::ffi::OsStr::new("restore"), std::ffi::OsStr::from_bytes(name)]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert_eq!(fs::read(house.at(name)).unwrap(), b"text\n");
    }
    house.settle_and_check();
}

#[test]
fn where_nothing_may_be_written_that_is_said_and_nothing_is() {
    let house = House::open();
    house.write("a.md", "one\n");
    house.settle();
    house.write("a.md", "two\n");
    house.settle();
    assert_eq!(house.run(["pause"]).code, 0);
    let said = house.run(["undo"]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("remd resume"), "{}", said.stderr);
    assert_eq!(house.run(["resume"]).code, 0);
    fs::write(house.vault.join(".git/MERGE_HEAD"), house.git(["rev-parse", "HEAD"])).unwrap();
    let said = house.run(["undo", "HEAD"]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("merge"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(house.at("a.md")).unwrap(), "two\n");
    fs::remove_file(house.vault.join(".git/MERGE_HEAD")).unwrap();
    assert_eq!(house.run(["undo"]).code, 0);
    house.settle_and_check();
}

#[test]
fn what_is_forgotten_goes_from_notes_and_search_and_a_lot_of_it_is_asked_about() {
    let mut house = House::open();
    house.write("digest/ann.md", "# Ann\n\n- Ann's locker code is 4711\n- she likes tea\n");
    house.write("digest/bob.md", "# Bob\n\nBob holds the zebra record.\n");
    house.write("digest/eve.md", "# Eve\n\nEve saw the zebra record.\n");
    house.settle();
    let dry = house.run(["forget", "locker CODE is 4711", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(dry.stdout.contains("\n-- Ann's locker code is 4711\n"), "{}", dry.stdout);
    let said = house.run(["forget", "locker CODE is 4711"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "update digest/ann.md\n"), "{}", said.stderr);
    house.settle();
    assert!(house.found_committed("locker").is_empty());
    let (head, many) = (house.git(["rev-parse", "HEAD"]), ["forget", "zebra record"]);
    let said = house.run(many);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("--yes"), "{}", said.stderr);
    assert_eq!(house.git(["rev-parse", "HEAD"]), head);
    assert_eq!(house.run(["forget", "zebra record", "--yes"]).code, 0);
    assert_eq!(house.run(many).code, 1, "nothing holds it any more");
    assert_eq!(house.run(["forget", "ab"]).code, 2);
    let said = house.run(["forget", "digest/bob.md"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "delete digest/bob.md\n"), "{}", said.stderr);
    let listed = house.run(["forget", "--list"]);
    assert_eq!((listed.code, listed.stdout.lines().count()), (0, 3), "{}", listed.stdout);
    // Without an agent the same.
    house.stop();
    assert_eq!(house.run(["forget", "she likes tea"]).code, 0);
    assert_eq!(house.run(["undo"]).code, 0);
    assert_eq!(house.run(["forget", "--list"]).stdout.lines().count(), 3);
    house.start();
    house.settle_and_check();
}

#[test]
fn a_moment_with_a_name_comes_back_by_it() {
    let house = House::open();
    assert_eq!(house.run(["checkpoint"]).code, 1);
    house.write("a.md", "then\n");
    // Not committed yet: the name is of what is on disk.
    let said = house.run(["checkpoint", "then", "-m", "before the move"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    house.write("a.md", "now\n");
    house.settle();
    assert_eq!(house.git(["show", "then:a.md"]), "then");
    assert_eq!(house.run(["restore", "a.md", "--at", "then"]).code, 0);
    assert_eq!(fs::read_to_string(house.at("a.md")).unwrap(), "then\n");
    let said = house.run(["checkpoint", "then"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("already"), "{}", said.stderr);
    assert!(house.run(["checkpoint"]).stdout.starts_with("then  "));
    assert_eq!(json(&house.run(["checkpoint", "--json"]).stdout)["checkpoints"][0]["name"], "then");
    house.settle_and_check();
}

/// Whether any file below a folder has the words.
fn holds(folder: &std::path::Path, words: &[u8]) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|it| match it.file_type().unwrap().is_dir() {
        true => holds(&it.path(), words),
        false => fs::read(it.path()).is_ok_and(|it| it.windows(words.len()).any(|it| it == words)),
    })
}

#[test]
fn what_is_purged_is_nowhere_and_everything_else_goes_on() {
    let mut house = House::open();
    house.write("a.md", "an ordinary note about bicycles\n");
    house.settle();
    house.write("diary/affair.md", "# Affair\n\nzanzibar rendezvous at noon\n");
    house.settle();
    house.write("a.md", "an ordinary note about bicycles and trains\n");
    house.settle();
    assert_eq!(house.found_committed("zanzibar rendezvous"), ["diary/affair.md"]);
    let said = house.run(["purge", "diary/affair.md", "--yes"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("is running"), "{}", said.stderr);
    assert!(house.at("diary/affair.md").exists());
    house.stop();
    let dry = house.run(["purge", "diary/affair.md", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(dry.stderr.contains("Erases 1 version from 2 commits"), "{}", dry.stderr);
    let head = house.git(["rev-parse", "HEAD"]);
    let said = house.run(["purge", "diary/affair.md"]);
    assert_eq!(said.code, 4, "nobody said yes: {}", said.stderr);
    assert_eq!(house.git(["rev-parse", "HEAD"]), head);
    assert!(house.at("diary/affair.md").exists());
    let said = house.run(["purge", "diary/affair.md", "--yes", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = json(&said.stdout);
    assert_eq!((&said["outcome"], &said["left"]), (&"done".into(), &0.into()));
    assert!(!house.at("diary").exists());
    assert!(!holds(&house.vault, b"zanzibar") && !holds(&house.vault, b"affair.md"));
    assert_eq!(house.run(["purge", "diary/affair.md", "--yes"]).code, 2, "there is none");
    assert_eq!(house.run(["purge", "no such thing", "--yes"]).code, 2);
    house.start();
    house.settle_and_check();
    assert!(house.found_committed("zanzibar").is_empty());
    assert_eq!(house.found_committed("bicycles trains"), ["a.md"]);
    assert_eq!(house.commits(), 2);
    assert!(!holds(&house.root().join("home"), b"zanzibar"));
}

#[test]
fn without_an_agent_a_rehearsal_writes_nothing_and_says_what_it_has_not_seen() {
    let mut house = House::open();
    house.write("n.md", "one\n");
    house.settle();
    house.write("n.md", "two\n");
    house.settle();
    house.stop();
    house.write("new.md", "a secret recipe\n");
    let (head, disk) = (house.git(["rev-parse", "HEAD"]), house.git(["status", "--porcelain"]));
    for args in [vec!["undo", "--dry-run"], vec!["forget", "secret recipe", "--dry-run"]] {
        let said = house.run(&args);
        assert!(said.stderr.contains("they are committed first"), "{args:?}: {}", said.stderr);
        assert_eq!(house.git(["rev-parse", "HEAD"]), head);
        assert_eq!(house.git(["status", "--porcelain"]), disk);
    }
    // Done, it is about what lies on the disk.
    let said = house.run(["forget", "secret recipe"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "update new.md\n"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(house.at("new.md")).unwrap(), "");
    let said = house.run(["undo", "--help"]);
    assert!(said.stdout.contains("committed first"), "{}", said.stdout);
}

#[test]
fn what_is_in_the_way_of_a_restore_has_a_way_out_that_exists() {
    let house = House::open();
    house.write("n.md", "a file\n");
    house.write("other.md", "x\n");
    house.settle();
    fs::remove_file(house.at("n.md")).unwrap();
    house.write("n.md/in.md", "a folder\n");
    house.settle();
    let said = house.run(["restore", "n.md", "--at", "HEAD~1"]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(!said.stderr.contains("--keep-"), "{}", said.stderr);
    assert!(!said.stderr.contains("lines"), "{}", said.stderr);
    assert!(said.stderr.contains("--exactly"), "{}", said.stderr);
    let said = house.run(["restore", "n.md", "--at", "HEAD~1", "--exactly"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(fs::read_to_string(house.at("n.md")).unwrap(), "a file\n");
    let said = house.run(["restore", "n.md", "--at", "HEAD~1", "--exactly"]);
    assert_eq!((said.code, house.at("n.md/in.md").exists()), (0, true), "{}", said.stderr);
    house.settle_and_check();
}

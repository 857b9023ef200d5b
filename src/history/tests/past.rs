//! Moments and versions, against histories that git made.

use super::*;
use crate::vault::path::escape;

/// Git at a time, by both clocks of a commit.
fn git_at(vault: &Vault, date: &str, arguments: &[&str]) -> String {
    let output = git_command(&vault.root, arguments)
        .env("GIT_AUTHOR_DATE", date)
        .env("GIT_COMMITTER_DATE", date)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Commits all that is there, and gives the commit.
fn commit_at(vault: &Vault, date: &str, message: &str) -> String {
    vault.git(&["add", "-A"]);
    git_at(vault, date, &["commit", "-q", "--allow-empty", "-m", message]);
    vault.git(&["rev-parse", "HEAD"]).trim().to_owned()
}

/// Subjects beside paths, where a version came from another path that too, `-` for deleted.
fn told(versions: &[PastVersion]) -> Vec<String> {
    let line = |it: &PastVersion| {
        let from = it.from.as_ref().map(|it| format!(" < {it}")).unwrap_or_default();
        let gone = if it.entry.is_none() { " -" } else { "" };
        format!("{}: {}{from}{gone}", it.subject, escape(it.path.as_bytes()))
    };
    versions.iter().map(line).collect()
}

fn versions(reader: &Reader, path: &str) -> Vec<String> {
    told(&reader.versions(&vault_path(path), 100).unwrap())
}

#[test]
fn a_moment_is_a_ref_a_hash_a_revision_a_date_or_an_age_in_this_order() {
    let vault = Vault::by_git(&["-b", "main"]);
    vault.write("a.md", "1\n");
    let first = commit_at(&vault, "2026-06-01T10:00:00 +0000", "first");
    vault.write("a.md", "2\n");
    let second = commit_at(&vault, "2026-06-02T10:00:00 +0000", "second");
    // A branch that was merged later: its commit of June 3rd was not here on June 3rd.
    vault.git(&["checkout", "-qb", "side", &first]);
    vault.write("b.md", "b\n");
    let side = commit_at(&vault, "2026-06-03T10:00:00 +0000", "side");
    vault.git(&["checkout", "-q", "main"]);
    let merge = {
        git_at(&vault, "2026-06-05T10:00:00 +0000", &["merge", "-q", "--no-ff", "-m", "m", "side"]);
        vault.git(&["rev-parse", "HEAD"]).trim().to_owned()
    };
    vault.git(&["tag", "-a", "-m", "kept", "before the merge".replace(' ', "-").as_str(), &second]);
    vault.git(&["branch", "2026-06-05", &first]);
    vault.git(&["branch", "3d", &second]);
    let reader = Reader::open(&vault.root).unwrap();
    let check = |text: &str, expected: &str| {
        let found = reader.moment(text).map(|it| it.to_string()).map_err(|err| err.to_string());
        assert_eq!(found.as_deref(), Ok(expected), "{text}");
    };
    check("HEAD", &merge);
    check("main", &merge);
    check("before-the-merge", &second);
    check("2026-06-05", &first);
    check("3d", &second);
    check(&side[..7], &side);
    check(&side, &side);
    check("HEAD~1", &second);
    check("HEAD^2", &side);
    check("2026-06-01", &first);
    check("2026-06-04", &second);
    check("2026-06-02T09:59:59Z", &first);
    check("2026-06-02T10:00Z", &second);
    check("2026-06", &merge);
    check("2999-01-01", &merge);
    check("today", &merge);
    check("now", &merge);

    let refused = |text: &str, part: &str| {
        let err = reader.moment(text).unwrap_err();
        assert!(err.is_not_found() && err.to_string().contains(part), "{text}: {err}");
    };
    refused("2026-05-31", "`2026-05-31` is before the first commit that is here, of 2026-06-01");
    refused("nonsense", "No such revision or date: `nonsense`");
    refused(&side[..6], "No such revision or date");
    refused("", "No such");
    refused("HEAD~99", "No such");
    refused("2026-06-31", "No such");
}

#[test]
fn an_age_goes_by_the_committer_and_no_commit_has_no_moment() {
    let vault = Vault::by_git(&["-b", "main"]);
    let reader = Reader::open(&vault.root).unwrap();
    assert!(reader.moment("2h").unwrap_err().is_not_found());
    assert!(reader.moment("HEAD").unwrap_err().is_not_found());
    let ago = |seconds: i64| format!("@{} +0000", crate::base::clock::unix_seconds() - seconds);
    let old = commit_at(&vault, &ago(10 * 86_400), "old");
    let newer = commit_at(&vault, &ago(3 * 3600), "newer");
    let last = commit_at(&vault, &ago(60), "last");
    for (text, expected) in
        [("3d", &old), ("2w ago", &old), ("2h", &newer), ("180m", &newer), ("now", &last)]
    {
        let found = reader.moment(text).map(|it| it.to_string());
        match text {
            "2w ago" => assert!(found.unwrap_err().is_not_found()),
            _ => assert_eq!(&found.unwrap(), expected, "{text}"),
        }
    }
}

#[test]
fn versions_follow_renames_and_go_on_before_a_deletion() {
    let vault = Vault::by_git(&["-b", "main"]);
    let long: String = (0..20).map(|n| format!("line {n}\n")).collect();
    vault.write("old.md", &long);
    vault.write("other.md", "other\n");
    commit_at(&vault, "2026-06-01T10:00:00 +0000", "one");
    vault.write("old.md", long.replace("line 3", "line three"));
    commit_at(&vault, "2026-06-02T10:00:00 +0000", "two");
    // Moved and changed at once, beside a new note that is nothing like it.
    vault.git(&["mv", "old.md", "new.md"]);
    vault.write("new.md", long.replace("line 5", "line five"));
    vault.write("fresh.md", "nothing like it\n");
    commit_at(&vault, "2026-06-03T10:00:00 +0000", "three");
    vault.write("other.md", "more\n");
    commit_at(&vault, "2026-06-04T10:00:00 +0000", "four");
    vault.remove("new.md");
    commit_at(&vault, "2026-06-05T10:00:00 +0000", "five");
    let reader = Reader::open(&vault.root).unwrap();
    assert_eq!(
        versions(&reader, "new.md"),
        ["five: new.md -", "three: new.md < old.md", "two: old.md", "one: old.md"]
    );
    assert_eq!(versions(&reader, "old.md"), ["three: old.md -", "two: old.md", "one: old.md"]);
    assert_eq!(versions(&reader, "fresh.md"), ["three: fresh.md"]);
    assert_eq!(versions(&reader, "nowhere.md"), [""; 0]);
    let two = told(&reader.versions(&vault_path("new.md"), 2).unwrap());
    assert_eq!(two, ["five: new.md -", "three: new.md < old.md"]);
    let of_three = reader.versions_from(reader.moment("HEAD~2").unwrap(), &vault_path("new.md"), 1);
    assert_eq!(told(&of_three.unwrap()), ["three: new.md < old.md"]);

    // A name that is used again: what was there before belongs to it, too.
    vault.write("new.md", "again\n");
    commit_at(&vault, "2026-06-06T10:00:00 +0000", "six");
    assert_eq!(versions(&reader, "new.md")[..2], ["six: new.md", "five: new.md -"]);
}

#[test]
fn what_a_message_says_of_a_rename_counts_where_the_commit_bears_it_out() {
    let mut vault = Vault::new();
    vault.write("a.md", "one line\n");
    vault.write("b.md", "kept\n");
    vault.snapshot_all();
    // The same inode with other words: no likeness would find it, the message has it.
    std::fs::rename(vault.path("a.md"), vault.path("x → y.md")).unwrap();
    let file = std::fs::OpenOptions::new().write(true).truncate(true).open(vault.path("x → y.md"));
    std::io::Write::write_all(&mut file.unwrap(), b"all is new here\n").unwrap();
    vault.snapshot_all();
    let reader = vault.reader();
    assert_eq!(vault.subject(), "memory: rename a.md → x → y.md");
    assert_eq!(
        versions(&reader, "x → y.md"),
        ["memory: rename a.md → x → y.md: x → y.md < a.md", "memory: 2 changes (./ 2): a.md"]
    );
    // A message of somebody who names a note that is still there.
    vault.write("c.md", "c\n");
    commit_at(&vault, "2026-06-01T10:00:00 +0000", "memory: rename b.md → c.md");
    assert_eq!(versions(&reader, "c.md"), ["memory: rename b.md → c.md: c.md"]);
}

#[test]
fn both_sides_of_a_merge_belong_to_a_note_that_one_of_them_renamed() {
    let vault = Vault::by_git(&["-b", "main"]);
    let long: String = (0..20).map(|n| format!("line {n}\n")).collect();
    vault.write("d/old.md", &long);
    commit_at(&vault, "2026-06-01T10:00:00 +0000", "base");
    vault.git(&["checkout", "-qb", "side"]);
    vault.write("d/old.md", long.replace("line 3", "line three"));
    commit_at(&vault, "2026-06-02T10:00:00 +0000", "side edits");
    vault.git(&["checkout", "-q", "main"]);
    vault.git(&["mv", "d/old.md", "d/new.md"]);
    commit_at(&vault, "2026-06-03T10:00:00 +0000", "main renames");
    git_at(&vault, "2026-06-04T10:00:00 +0000", &["merge", "-q", "-m", "merge", "side"]);
    let reader = Reader::open(&vault.root).unwrap();
    assert_eq!(
        versions(&reader, "d/new.md"),
        [
            "merge: d/new.md < d/old.md",
            "main renames: d/new.md < d/old.md",
            "side edits: d/old.md",
            "base: d/old.md"
        ]
    );
    // A merge that took one side as it was changed nothing.
    vault.git(&["checkout", "-q", "-b", "more"]);
    vault.write("d/new.md", "short\n");
    commit_at(&vault, "2026-06-05T10:00:00 +0000", "more");
    vault.git(&["checkout", "-q", "main"]);
    git_at(&vault, "2026-06-06T10:00:00 +0000", &["merge", "-q", "--no-ff", "-m", "m2", "more"]);
    assert_eq!(
        versions(&reader, "d/new.md")[..2],
        ["more: d/new.md", "merge: d/new.md < d/old.md"]
    );
}

#[test]
fn a_shallow_clone_ends_where_it_ends() {
    let vault = Vault::by_git(&["-b", "main"]);
    for (day, text) in [("01", "one"), ("02", "two"), ("03", "three")] {
        vault.write("a.md", text);
        commit_at(&vault, &format!("2026-06-{day}T10:00:00 +0000"), text);
    }
    let clone = vault.dir.path().join("clone");
    let from = format!("file://{}", vault.root.display());
    vault.git(&["clone", "-q", "--depth", "2", &from, clone.to_str().unwrap()]);
    let reader = Reader::open(&clone).unwrap();
    assert_eq!(versions(&reader, "a.md"), ["three: a.md", "two: a.md"]);
    let err = reader.moment("2026-06-01").unwrap_err();
    assert!(err.hint().contains("git fetch --unshallow"), "{}", err.hint());
    assert_eq!(reader.moment("2026-06-02").unwrap(), reader.moment("HEAD~1").unwrap());
}

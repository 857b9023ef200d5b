//! Where files went that are gone, against histories that git made.

use std::time::Duration;

use super::*;
use crate::base::clock;

fn commit(vault: &Vault, message: &str) {
    vault.git(&["add", "-A"]);
    vault.git(&["commit", "-q", "--allow-empty", "-m", message]);
}

fn mv(vault: &Vault, old: &str, new: &str) {
    std::fs::create_dir_all(vault.path(new).parent().unwrap()).unwrap();
    std::fs::rename(vault.path(old), vault.path(new)).unwrap();
}

/// All commits that took something away, and what became of it: `path: fate`, newest first.
fn fates(vault: &Vault) -> Vec<String> {
    let reader = vault.reader();
    let head = reader.head().unwrap().unwrap().commit;
    let until = clock::now() + Duration::from_secs(60);
    let mut gone = Vec::new();
    let departed = reader.departed(head, until, &mut |at, paths| {
        gone.extend(paths.iter().map(|it| (at, it.clone())));
        false
    });
    let departed = departed.unwrap();
    assert!(departed.is_complete);
    let told = |(at, path): &(usize, VaultPath)| match departed.fate(path, *at).unwrap() {
        Fate::Became(now) => format!("{path}: {now}"),
        Fate::Deleted => format!("{path}: deleted"),
        Fate::Unclear(several) => {
            let several: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("{path}: one of {}", several.join(" "))
        }
    };
    gone.iter().map(told).collect()
}

fn names_before(vault: &Vault, path: &str) -> Vec<String> {
    let reader = vault.reader();
    let head = reader.head().unwrap().unwrap().commit;
    let until = clock::now() + Duration::from_secs(60);
    let departed = reader.departed(head, until, &mut |_, _| false).unwrap();
    let names = departed.names_before(&vault_path(path)).unwrap();
    names.iter().map(ToString::to_string).collect()
}

const LONG: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

#[test]
fn a_file_is_followed_through_all_its_names() {
    let vault = Vault::by_git(&["-b", "main"]).opened();
    vault.write("a.md", LONG);
    vault.write("gone.md", "nothing like it\n");
    vault.write("twice.md", "the same\n");
    vault.write("other.md", "stays\n");
    commit(&vault, "first");
    mv(&vault, "a.md", "b.md");
    commit(&vault, "a is b");
    mv(&vault, "b.md", "d/c.md");
    vault.write("d/c.md", format!("{LONG}and more\n"));
    commit(&vault, "b is d/c, and edited");
    std::fs::remove_file(vault.path("gone.md")).unwrap();
    commit(&vault, "gone");
    std::fs::remove_file(vault.path("twice.md")).unwrap();
    vault.write("t1.md", "the same\n");
    vault.write("t2.md", "the same\n");
    commit(&vault, "twice is two");
    mv(&vault, "d", "e");
    commit(&vault, "a folder moves");
    assert_eq!(
        fates(&vault),
        [
            "d/c.md: e/c.md",
            "twice.md: one of t1.md t2.md",
            "gone.md: deleted",
            "b.md: e/c.md",
            "a.md: e/c.md",
        ]
    );
    assert_eq!(names_before(&vault, "e/c.md"), ["d/c.md", "b.md", "a.md"]);
    assert_eq!(names_before(&vault, "other.md"), Vec::<String>::new());
}

#[test]
fn there_and_back_again_ends_where_it_is() {
    let vault = Vault::by_git(&["-b", "main"]).opened();
    vault.write("a.md", LONG);
    commit(&vault, "first");
    for (old, new) in [("a.md", "b.md"), ("b.md", "a.md"), ("a.md", "c.md")] {
        mv(&vault, old, new);
        commit(&vault, "renamed");
    }
    // Another note of the first name, that is gone as well.
    vault.write("a.md", "another note altogether\n");
    commit(&vault, "another");
    std::fs::remove_file(vault.path("a.md")).unwrap();
    commit(&vault, "and gone");
    assert_eq!(fates(&vault), ["a.md: deleted", "a.md: c.md", "b.md: c.md", "a.md: c.md"]);
}

/// What our own message says of a rename counts, also where nothing of the text is left.
#[test]
fn the_message_of_a_commit_knows_of_what_was_rewritten() {
    let mut vault = Vault::new();
    vault.write("old.md", "short\n");
    vault.write("side.md", "x\n");
    vault.snapshot_all();
    mv(&vault, "old.md", "sub/new.md");
    std::fs::write(vault.path("sub/new.md"), "quite another text, in place\n").unwrap();
    vault.snapshot_all();
    assert_eq!(
        vault.git(&["log", "-1", "--format=%s"]).trim(),
        "memory: rename old.md → sub/new.md"
    );
    assert_eq!(fates(&vault), ["old.md: sub/new.md"]);
    // A commit whose words alone say so proves nothing.
    std::fs::remove_file(vault.path("side.md")).unwrap();
    commit(&vault, "memory: rename side.md → nowhere.md");
    assert_eq!(fates(&vault)[0], "side.md: deleted");
}

#[test]
fn branches_are_looked_at_and_time_is_kept() {
    let vault = Vault::by_git(&["-b", "main"]).opened();
    vault.write("a.md", LONG);
    vault.write("z.md", "z\n");
    commit(&vault, "first");
    vault.git(&["checkout", "-qb", "side"]);
    mv(&vault, "a.md", "b.md");
    commit(&vault, "on the side");
    vault.git(&["checkout", "-q", "main"]);
    vault.write("z.md", "z\nz\n");
    commit(&vault, "on main");
    vault.git(&["merge", "-q", "--no-edit", "side"]);
    assert_eq!(fates(&vault), ["a.md: b.md"]);
    let reader = vault.reader();
    let head = reader.head().unwrap().unwrap().commit;
    let departed = reader.departed(head, clock::now(), &mut |_, _| false).unwrap();
    assert!(!departed.is_complete);
}

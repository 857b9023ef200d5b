//! Erased for good: nothing of it is left anywhere in the repository, and all else is as it was.

use super::*;

const SECRET: &str = "the launch code is 0000";

/// Whether any object of the repository has the words, reachable or not.
fn anywhere(vault: &Vault, words: &str) -> bool {
    let all = vault.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    all.lines().any(|id| {
        let output = git_command(&vault.root, &["cat-file", "-p", id]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains(words)
    })
}

fn purge(vault: &mut Vault, target: &PurgeTarget) -> Result<Purged, PurgeError> {
    let purged = vault.history().purge(target);
    vault.reopen();
    vault.assert_sound();
    purged
}

/// A history with a note that should never have been: made, renamed, edited, deleted.
fn vault() -> Vault {
    let mut vault = Vault::new();
    vault.write("keep.md", "kept, 1\n");
    vault.snapshot_all();
    vault.write("old name.md", format!("# Secret\n\n{SECRET}\nand more of it\nand more\n"));
    vault.snapshot_all();
    std::fs::create_dir(vault.path("d")).unwrap();
    std::fs::rename(vault.path("old name.md"), vault.path("d/secret.md")).unwrap();
    vault.write("keep.md", "kept, 2\n");
    vault.snapshot_all();
    vault.git(&["tag", "-am", "a tag", "v1"]);
    vault.git(&["branch", "side"]);
    vault.write("old name.md", "another note of that name\n");
    vault.snapshot_all();
    vault.remove("d/secret.md");
    vault.snapshot_all();
    vault
}

#[test]
fn a_path_goes_from_every_commit_with_its_names_and_the_rest_stays() {
    let mut vault = vault();
    let first = vault.git(&["rev-list", "--max-parents=0", "HEAD"]);
    let wip = vault.git(&["rev-parse", "HEAD~3"]);
    vault.git(&["update-ref", "refs/remd/backup/x", wip.trim()]);
    vault.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    let (dates, tree) =
        (vault.git(&["log", "--format=%an %cn", "-1"]), vault.git(&["ls-tree", "-r", "HEAD"]));
    let target = PurgeTarget::Path(vault_path("d/secret.md"));
    let plan = vault.reader().plan_purge(&target).unwrap();
    assert_eq!((plan.versions, plan.commits), (1, 3), "{plan:?}");
    let names: Vec<_> = plan.paths.iter().map(|it| it.to_string()).collect();
    assert_eq!(names, ["d/secret.md", "old name.md"]);
    assert_eq!(plan.remotes, ["refs/remotes/origin/main"]);
    assert!(plan.in_head.is_empty() && plan.elsewhere.is_empty());

    let purged = purge(&mut vault, &target).unwrap();
    assert_eq!(purged, Purged { commits: 3, versions: 1, left: 0 });
    assert!(!anywhere(&vault, SECRET));
    assert!(!anywhere(&vault, "secret.md"), "its name is in no message either");
    assert_eq!(vault.git(&["log", "-g", "--format=%h"]), "", "no reflog leads back");
    assert_eq!(vault.git(&["rev-list", "--max-parents=0", "HEAD"]), first, "untouched before it");
    assert_eq!(vault.git(&["ls-tree", "-r", "HEAD"]), tree);
    assert_eq!(vault.git(&["log", "--format=%an %cn", "-1"]), dates);
    assert_eq!(vault.committed("old name.md").unwrap(), "another note of that name\n");
    for (revision, keep) in [("v1", "kept, 2\n"), ("side", "kept, 2\n"), ("HEAD", "kept, 2\n")] {
        assert_eq!(vault.committed_at(revision, "keep.md").as_deref(), Some(keep), "{revision}");
    }
    assert_eq!(vault.git(&["cat-file", "-t", "v1"]).trim(), "tag");
    assert_eq!(vault.try_git(&["rev-parse", "--verify", "-q", "refs/remotes/origin/main"]), None);
    vault.assert_clean();
    let again = vault.reader().plan_purge(&target).unwrap();
    assert!(again.is_empty(), "{again:?}");
    // History goes on.
    vault.write("keep.md", "kept, 3\n");
    assert!(vault.snapshot_all().head.is_some());
    vault.assert_clean();
}

#[test]
fn a_folder_goes_and_what_the_vault_still_has_is_not_erased_from_under_it() {
    let mut vault = vault();
    vault.write("d/again.md", "again\n");
    vault.snapshot_all();
    let target = PurgeTarget::Path(vault_path("d"));
    let Err(PurgeError::Refused { what, .. }) = vault.history().purge(&target) else {
        panic!("done")
    };
    assert!(what.contains("d/again.md"), "{what}");
    vault.remove("d/again.md");
    vault.snapshot_all();
    purge(&mut vault, &target).unwrap();
    assert!(vault.try_git(&["log", "--all", "--format=%h", "--", "d"]).unwrap().is_empty());
    // Under its first name it is another file: that is asked for by that name.
    assert!(anywhere(&vault, SECRET));
    let names = PurgeTarget::Path(vault_path("old name.md"));
    vault.remove("old name.md");
    vault.snapshot_all();
    purge(&mut vault, &names).unwrap();
    assert!(!anywhere(&vault, SECRET));
    vault.assert_clean();
}

#[test]
fn what_one_commit_brought_in_goes_and_what_was_there_before_stands_again() {
    let mut vault = Vault::new();
    vault.write("n.md", "one\n");
    vault.snapshot_all();
    vault.write("n.md", format!("one\n{SECRET}\n"));
    vault.write("made.md", format!("{SECRET}, too\n"));
    let commit = vault.snapshot_all().head.unwrap().commit;
    vault.write("n.md", format!("one\n{SECRET}\nthree\n"));
    vault.snapshot_all();
    let target = PurgeTarget::Commit(commit);
    let plan = vault.reader().plan_purge(&target).unwrap();
    assert_eq!(plan.later.get(&vault_path("n.md")), Some(&1), "a later version has its line");
    assert_eq!(plan.in_head.len(), 1, "{plan:?}");
    assert!(matches!(vault.history().purge(&target), Err(PurgeError::Refused { .. })));
    vault.write("n.md", "one\nthree\n");
    vault.remove("made.md");
    vault.snapshot_all();
    purge(&mut vault, &target).unwrap();
    assert!(!anywhere(&vault, &format!("{SECRET}, too")));
    let versions = vault.git(&["log", "--format=%h", "--", "n.md"]);
    assert_eq!(versions.lines().count(), 3, "one that did nothing else leaves no trace");
    assert_eq!(vault.git(&["log", "--all", "--format=%h", "--", "made.md"]), "");
    assert!(anywhere(&vault, SECRET), "the later version stays, as was said");
    purge(&mut vault, &PurgeTarget::Path(vault_path("made.md"))).unwrap();
    vault.assert_clean();
}

#[test]
fn where_something_would_be_lost_nothing_is_erased() {
    let mut vault = vault();
    let target = PurgeTarget::Path(vault_path("d/secret.md"));
    let head = vault.git(&["rev-parse", "HEAD"]);
    let mut refused = |what: &str, before: &[&[&str]], after: &[&[&str]]| {
        before.iter().for_each(|it| drop(vault.git(it)));
        let Err(PurgeError::Refused { what: said, .. }) = vault.history().purge(&target) else {
            panic!("{what}: done")
        };
        assert!(said.contains(what), "{said}");
        after.iter().for_each(|it| drop(vault.git(it)));
    };
    refused("no branch", &[&["checkout", "-q", "--detach"]], &[&["checkout", "-q", "main"]]);
    let tree = vault.dir.path().join("other");
    let other = tree.to_str().unwrap().to_owned();
    let mut refused = |what: &str, before: &[&[&str]], after: &[&[&str]]| {
        before.iter().for_each(|it| drop(vault.git(it)));
        let Err(PurgeError::Refused { what: said, .. }) = vault.history().purge(&target) else {
            panic!("{what}: done")
        };
        assert!(said.contains(what), "{said}");
        after.iter().for_each(|it| drop(vault.git(it)));
    };
    refused(
        "work tree",
        &[&["worktree", "add", "-q", &other, "side"]],
        &[&["worktree", "remove", &other]],
    );
    vault.write("keep.md", "stashed\n");
    vault.git(&["stash", "-q"]);
    assert!(matches!(vault.history().purge(&target), Err(PurgeError::Refused { .. })));
    vault.git(&["stash", "drop", "-q"]);
    std::fs::write(vault.path(".git/index.lock"), "").unwrap();
    assert!(matches!(vault.history().purge(&target), Err(PurgeError::Snapshot(_))));
    std::fs::remove_file(vault.path(".git/index.lock")).unwrap();
    assert_eq!(vault.git(&["rev-parse", "HEAD"]), head);
    assert!(anywhere(&vault, SECRET));
    purge(&mut vault, &target).unwrap();
    assert!(!anywhere(&vault, SECRET));
}

/// Run by itself as a child of the test below.
#[test]
fn child_that_is_killed() {
    let Some(root) = std::env::var_os("REMD_TEST_PURGE_VAULT") else { return };
    let options = Options { host: "testhost".into(), ..Options::default() };
    let mut history = History::open(&PathBuf::from(root), &options).unwrap();
    history.purge(&PurgeTarget::Path(vault_path("d/secret.md"))).unwrap();
}

#[test]
fn killed_anywhere_the_next_one_finishes_it() {
    use std::os::unix::process::ExitStatusExt as _;
    for (point, has_moved) in [("purge.before_refs", false), ("purge.after_refs", true)] {
        let mut vault = vault();
        vault.history = None;
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "history::tests::purge::child_that_is_killed", "--test-threads=1"])
            .env("REMD_TEST_PURGE_VAULT", &vault.root)
            .env("REMD_FAULT", point)
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{point}");
        vault.reopen();
        vault.assert_clean();
        assert!(vault.history().is_purge_unfinished(), "{point}");
        assert!(anywhere(&vault, SECRET), "{point}");
        let target = PurgeTarget::Path(vault_path("d/secret.md"));
        assert_eq!(vault.reader().plan_purge(&target).unwrap().is_empty(), has_moved, "{point}");
        let finished = vault.history().finish_purge().unwrap().unwrap();
        assert_eq!(finished.left, usize::from(!has_moved), "{point}");
        if !has_moved {
            purge(&mut vault, &target).unwrap();
        }
        assert!(!vault.history().is_purge_unfinished(), "{point}");
        assert!(!anywhere(&vault, SECRET), "{point}");
        vault.reopen();
        vault.assert_clean();
    }
}

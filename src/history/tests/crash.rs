//! Killed at every fault point, and opened again.

use super::*;

/// Run by itself as a child of the tests below: edits and commits until a fault point kills it.
#[test]
fn child_that_is_killed() {
    let Some(root) = std::env::var_os("REMD_TEST_CRASH_VAULT") else { return };
    let root = PathBuf::from(root);
    let options = Options { host: "testhost".into(), ..Options::default() };
    let mut history = History::open(&root, &options).unwrap();
    std::fs::write(root.join("a.md"), "after\n").unwrap();
    std::fs::create_dir_all(root.join("new/deep")).unwrap();
    std::fs::write(root.join("new/deep/n.md"), "new\n").unwrap();
    std::fs::remove_file(root.join("b.md")).unwrap();
    let look = hints(&["a.md", "b.md", "new/deep/n.md"]);
    history.snapshot(&look, &Cause::edit()).unwrap();
}

fn crash_at(vault: &Vault, point: &str) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "history::tests::crash::child_that_is_killed", "--test-threads=1"])
        .env("REMD_TEST_CRASH_VAULT", &vault.root)
        .env("REMD_FAULT", point)
        .output()
        .unwrap()
        .status;
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{point}");
}

#[test]
fn killed_anywhere_the_next_start_needs_no_hands() {
    for (point, committed) in [
        ("committer.before_objects", false),
        ("committer.before_lock", false),
        ("committer.before_ref", false),
        ("committer.in_ref", false),
        ("committer.before_index", true),
        ("committer.after_index", true),
    ] {
        let mut vault = Vault::new();
        vault.write("a.md", "before\n");
        vault.write("b.md", "b\n");
        vault.write("staged.md", "s\n");
        vault.snapshot_all();
        vault.write("staged.md", "by a person\n");
        vault.git(&["add", "staged.md"]);
        vault.history = None;
        crash_at(&vault, point);
        vault.reopen();
        let here = |name: &str| vault.path(format!(".git/{name}")).exists();
        for name in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
            assert!(!here(name), "{point}: {name}");
        }
        assert_eq!(vault.commits(), if committed { 2 } else { 1 }, "{point}");
        let snapshot = vault.snapshot_all();
        assert_eq!(snapshot.head.is_some(), !committed, "{point}");
        assert_eq!(vault.git(&["status", "--porcelain"]), "M  staged.md\n", "{point}");
        assert_eq!(vault.committed("a.md").unwrap(), "after\n", "{point}");
        assert_eq!(vault.committed("b.md"), None, "{point}");
        assert_eq!(vault.committed("new/deep/n.md").unwrap(), "new\n", "{point}");
        vault.assert_sound();
        assert_eq!(vault.commits(), 2, "{point}");
        let left: Vec<_> = std::fs::read_dir(vault.path(".git/remd"))
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        assert_eq!(left, ["open"], "{point}");
    }
}

/// Killed between reference and index; then the person takes the lock away and works on.
#[test]
fn what_a_person_stages_after_a_kill_is_theirs_and_the_rest_is_put_right() {
    let mut vault = Vault::new();
    for name in ["a.md", "b.md", "mine.md"] {
        vault.write(name, "before\n");
    }
    vault.snapshot_all();
    vault.history = None;
    crash_at(&vault, "committer.before_index");
    std::fs::remove_file(vault.path(".git/index.lock")).unwrap();
    vault.write("a.md", "by a person\n");
    vault.write("mine.md", "by a person\n");
    vault.git(&["add", "a.md", "mine.md"]);
    let staged = vault.git(&["ls-files", "-s", "a.md", "mine.md"]);
    vault.reopen();
    vault.snapshot_all();
    assert_eq!(vault.git(&["ls-files", "-s", "a.md", "mine.md"]), staged);
    assert_eq!(vault.git(&["status", "--porcelain"]), "M  a.md\nM  mine.md\n");
    vault.assert_sound();
}

/// Killed where nothing is half done: what a person then stages back is not mistaken for it.
#[test]
fn after_a_kill_elsewhere_a_persons_reverted_index_is_left_alone() {
    for point in ["committer.before_objects", "committer.before_ref", "committer.after_index"] {
        let mut vault = Vault::new();
        vault.write("a.md", "one\n");
        vault.write("b.md", "b\n");
        vault.snapshot_all();
        vault.write("old.md", "one\n");
        vault.snapshot_all();
        vault.write("old.md", "two\n");
        vault.snapshot_all();
        vault.history = None;
        crash_at(&vault, point);
        for lock in [".git/index.lock", ".git/HEAD.lock"] {
            let _gone = std::fs::remove_file(vault.path(lock));
        }
        let head = if point.ends_with("after_index") { "HEAD~2" } else { "HEAD~1" };
        vault.git(&["checkout", "-q", head, "--", "old.md"]);
        vault.reopen();
        let snapshot = vault.snapshot_all();
        assert_eq!(snapshot.kept_out, [(vault_path("old.md"), Kept::Staged)], "{point}");
        assert_eq!(vault.git(&["status", "--porcelain"]), "M  old.md\n", "{point}");
        vault.assert_sound();
    }
}

#[test]
fn a_clean_end_leaves_a_persons_reverted_index_alone() {
    let mut vault = Vault::new();
    vault.write("a.md", "one\n");
    vault.snapshot_all();
    vault.write("a.md", "two\n");
    vault.snapshot_all();
    // The person stages the old text: just what a crash would leave, but nothing crashed.
    vault.git(&["checkout", "-q", "HEAD~1", "--", "a.md"]);
    vault.reopen();
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.kept_out, [(vault_path("a.md"), Kept::Staged)]);
    assert_eq!(vault.git(&["status", "--porcelain"]), "M  a.md\n");
}

/// A power cut or a hand takes git's index away; nothing is staged by that.
#[test]
fn a_lost_index_is_made_again() {
    for empty in [false, true] {
        let mut vault = Vault::new();
        for name in ["a.md", "b.md", "d/c.md", "gone.md"] {
            vault.write(name, format!("{name}\n"));
        }
        vault.snapshot_all();
        match empty {
            true => std::fs::write(vault.path(".git/index"), "").unwrap(),
            false => std::fs::remove_file(vault.path(".git/index")).unwrap(),
        }
        vault.write("a.md", "edited\n");
        vault.write("new.md", "new\n");
        std::fs::remove_file(vault.path("gone.md")).unwrap();
        let snapshot = vault.snapshot_all();
        assert_eq!(vault.committed("a.md").unwrap(), "edited\n");
        assert_eq!(vault.committed("new.md").unwrap(), "new\n");
        // Whether this deletion was meant nobody knows: it waits for a person, by name.
        assert_eq!(snapshot.kept_out, [(vault_path("gone.md"), Kept::Staged)]);
        assert_eq!(vault.git(&["status", "--porcelain"]), "D  gone.md\n");
        vault.git(&["restore", "--staged", "gone.md"]);
        vault.snapshot_all();
        vault.assert_clean();
    }
}

/// A clone without a checkout has HEAD and neither index nor files: nothing of it is deleted.
#[test]
fn a_clone_without_a_checkout_loses_nothing() {
    let mut vault = Vault::new();
    for n in 0..5 {
        vault.write(format!("{n}.md"), "x\n");
    }
    vault.snapshot_all();
    vault.history = None;
    std::fs::remove_file(vault.path(".git/index")).unwrap();
    for n in 0..5 {
        std::fs::remove_file(vault.path(format!("{n}.md"))).unwrap();
    }
    vault.reopen();
    vault.write("new.md", "new\n");
    vault.snapshot_all();
    assert_eq!(vault.committed("new.md").unwrap(), "new\n");
    assert_eq!(vault.committed("0.md").unwrap(), "x\n");
}

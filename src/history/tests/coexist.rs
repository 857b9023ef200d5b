//! Beside a person and other programs in one repository.

use super::*;

pub(super) fn with_notes() -> Vault {
    let mut vault = Vault::new();
    for name in ["a.md", "b.md", "c.md"] {
        vault.write(name, "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    }
    vault.snapshot_all();
    vault
}

#[test]
fn staged_work_survives_and_is_named() {
    // E18
    let mut vault = with_notes();
    vault.write("a.md", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    vault.git(&["add", "a.md"]);
    vault.write("a.md", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n");
    vault.write("b.md", "staged\n");
    vault.git(&["add", "b.md"]);
    vault.write("new.md", "staged too\n");
    vault.git(&["add", "new.md"]);
    let before = vault.git(&["diff", "--cached"]);
    vault.write("c.md", "mine\n");
    let snapshot = vault.snapshot_all();
    assert_eq!(vault.subject(), "memory: update c.md");
    assert_eq!(vault.git(&["diff", "--cached"]), before);
    let kept: Vec<_> = snapshot.kept_out.iter().map(|it| it.0.to_string()).collect();
    assert_eq!(kept, ["a.md", "b.md", "new.md"]);
    // Not in the branch, and not lost either.
    let wip = "refs/remd/wip/testhost";
    assert!(vault.git(&["show", &format!("{wip}:a.md")]).ends_with("EIGHT\n"));
    let wip_id = vault.git(&["rev-parse", wip]);
    vault.snapshot_all();
    assert_eq!(vault.git(&["rev-parse", wip]), wip_id, "nothing new, no new wip");
    // The person commits; the rest follows, and the wip goes.
    vault.git(&["commit", "-q", "-m", "by hand"]);
    vault.snapshot_all();
    assert_eq!(vault.subject(), "memory: update a.md");
    vault.assert_clean();
    assert_eq!(vault.try_git(&["rev-parse", "-q", "--verify", wip]), None);
}

#[test]
fn a_foreign_lock_is_waited_for_named_and_left_alone() {
    // E01 (a), (b)
    for name in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        let mut vault = with_notes();
        let lock = vault.path(format!(".git/{name}"));
        std::fs::write(&lock, "").unwrap();
        vault.write("a.md", "edited\n");
        let held = vault.history().snapshot(&hints(&["a.md"]), &Cause::edit());
        match held {
            Err(SnapshotError::Locked { lock: held, wip }) => {
                assert!(held.path.ends_with(name));
                assert_eq!(held.holder, None);
                assert!(wip.is_some(), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(vault.history().locks().len(), 1, "{name}");
        assert_eq!(vault.git(&["show", "refs/remd/wip/testhost:a.md"]), "edited\n");
        vault.reopen();
        assert!(lock.exists(), "{name}");
        std::fs::remove_file(&lock).unwrap();
        vault.snapshot(&["a.md"]);
        assert_eq!(vault.subject(), "memory: update a.md");
        vault.assert_clean();
        assert_eq!(vault.try_git(&["rev-parse", "-q", "--verify", "refs/remd/wip/testhost"]), None);
    }
}

#[test]
fn a_lock_on_packed_refs_is_nothing_to_us() {
    let mut vault = with_notes();
    std::fs::write(vault.path(".git/packed-refs.lock"), "").unwrap();
    vault.write("a.md", "edited\n");
    assert!(vault.snapshot(&["a.md"]).head.is_some());
}

#[test]
fn a_vault_in_a_larger_repository_commits_only_itself() {
    // E10
    let mut vault = Vault::by_git(&["-b", "main"]);
    let top = vault.root.clone();
    vault.write("src.c", "int main;\n");
    vault.write("half.c", "half\n");
    vault.write("notes/vault/old.md", "old\n");
    vault.git(&["add", "-A"]);
    vault.git(&["commit", "-q", "-m", "code"]);
    vault.write("src.c", "changed\n");
    vault.write("half.c", "staged\n");
    vault.git(&["add", "half.c"]);
    vault.root = top.join("notes/vault");
    vault.reopen();
    vault.write("new.md", "new\n");
    vault.remove("old.md");
    vault.write("mem_metadata/x", "derived\n");
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.changes.len(), 2);
    assert_eq!(
        vault.git(&["show", "--name-only", "--format=", "--no-renames", "HEAD"]),
        "notes/vault/new.md\nnotes/vault/old.md\n"
    );
    let reader = vault.reader();
    let list = reader.list(snapshot.head.unwrap().commit).unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].0, vault_path("new.md"));
    vault.root = top;
    assert_eq!(vault.git(&["status", "--porcelain"]), "M  half.c\n M src.c\n");
    vault.assert_sound();
}

#[test]
fn an_operation_of_a_person_pauses_commits_and_ends_by_itself() {
    // E03
    let starts: [(&[&str], Operation); 4] = [
        (&["rebase", "main"], Operation::Rebase),
        (&["merge", "main"], Operation::Merge),
        (&["cherry-pick", "main"], Operation::CherryPick),
        (&["revert", "--no-edit", "HEAD~1"], Operation::Revert),
    ];
    for (start, operation) in starts {
        let mut vault = with_notes();
        vault.git(&["switch", "-q", "-c", "side"]);
        for text in ["side one\n", "side two\n"] {
            vault.write("a.md", text);
            vault.git(&["commit", "-q", "-a", "-m", text.trim()]);
        }
        vault.git(&["switch", "-q", "main"]);
        vault.write("a.md", "main\n");
        vault.git(&["commit", "-q", "-a", "-m", "main"]);
        vault.git(&["switch", "-q", "side"]);
        assert_eq!(vault.try_git(start), None, "it stops");
        let commits = vault.commits();
        let unmerged = vault.git(&["ls-files", "-u"]);
        vault.write("c.md", "meanwhile\n");
        match vault.try_snapshot_all() {
            Err(SnapshotError::Busy { operation: found, wip }) => {
                assert_eq!(found, operation);
                assert!(wip.is_some());
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(vault.history().busy(), Some(operation));
        assert_eq!(vault.commits(), commits);
        assert_eq!(vault.git(&["ls-files", "-u"]), unmerged);
        assert_eq!(vault.git(&["show", "refs/remd/wip/testhost:c.md"]), "meanwhile\n");
        vault.git(&["stash", "list"]);
        vault.git(&[start[0], "--abort"]);
        assert_eq!(vault.history().busy(), None);
        vault.write("c.md", "meanwhile\n");
        vault.snapshot_all();
        assert_eq!(vault.subject(), "memory: update c.md");
        vault.assert_clean();
    }
}

#[test]
fn bisect_and_a_detached_head_pause_too() {
    let mut vault = with_notes();
    vault.write("a.md", "x\n");
    vault.snapshot_all();
    vault.git(&["bisect", "start"]);
    assert_eq!(vault.history().busy(), Some(Operation::Bisect));
    vault.git(&["bisect", "reset"]);
    vault.git(&["checkout", "-q", "--detach"]);
    assert_eq!(vault.history().busy(), Some(Operation::DetachedHead));
    vault.write("a.md", "y\n");
    let busy = vault.try_snapshot_all();
    assert!(matches!(busy, Err(SnapshotError::Busy { wip: Some(_), .. })), "{busy:?}");
    vault.git(&["switch", "-q", "main"]);
    assert!(vault.snapshot_all().head.is_some());
    vault.assert_clean();
}

#[test]
fn what_git_leaves_behind_is_no_operation() {
    // E04
    let mut vault = with_notes();
    let head = vault.git(&["rev-parse", "HEAD"]);
    for name in ["REBASE_HEAD", "ORIG_HEAD", "AUTO_MERGE"] {
        std::fs::write(vault.path(format!(".git/{name}")), &head).unwrap();
    }
    vault.write("a.md", "edited\n");
    assert!(vault.snapshot_all().head.is_some());
    vault.assert_clean();
}

#[test]
fn a_commit_message_in_an_editor_pauses() {
    let mut vault = with_notes();
    vault.write("b.md", "staged\n");
    vault.git(&["add", "b.md"]);
    let ready = vault.dir.path().join("ready");
    let editor = format!("touch {}; sleep 60 #", ready.display());
    let mut child = git_command(&vault.root, &["commit"])
        .env("GIT_EDITOR", editor)
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !ready.exists() {
        assert!(std::time::Instant::now() < limit);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(vault.history().busy(), Some(Operation::Commit));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(vault.history().busy(), None);
}

#[test]
fn nested_repositories_are_left_alone() {
    let mut vault = with_notes();
    vault.write("inner/n.md", "inner\n");
    git_command(&vault.path("inner"), &["init", "-q"]).status().unwrap();
    let snapshot = vault.snapshot(&["inner", "inner/n.md"]);
    assert_eq!(snapshot.head, None);
    assert_eq!(vault.snapshot_all().head, None);
    assert_eq!(vault.git(&["status", "--porcelain"]), "?? inner/\n");
}

#[test]
fn loops_of_git_beside_edits_lose_nothing() {
    // E01 (d)
    let mut vault = with_notes();
    let root = vault.root.clone();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let person = std::thread::spawn(move || {
        let mut failed = 0;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            for arguments in [&["add", "-A"][..], &["reset", "-q"]] {
                let run = git_command(&root, arguments).output().unwrap();
                failed += u32::from(!run.status.success());
            }
        }
        failed
    });
    for n in 0..60 {
        vault.write(format!("n/{n}.md"), format!("note {n}\n"));
        match vault.history().snapshot(&hints(&[&format!("n/{n}.md")]), &Cause::edit()) {
            Ok(_) => {}
            Err(err) => assert!(err.is_transient(), "{err:?}"),
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    person.join().unwrap();
    vault.git(&["reset", "-q"]);
    vault.snapshot_all();
    vault.assert_clean();
    assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD", "n/"]).lines().count(), 60);
}

/// A deletion that a person staged has no file and no index entry that a look could find.
#[test]
fn a_staged_deletion_is_named_by_every_look() {
    let mut vault = Vault::new();
    for name in ["a.md", "b.md", "keep.md"] {
        vault.write(name, format!("{name}\n"));
    }
    vault.snapshot_all();
    vault.git(&["rm", "-q", "a.md"]);
    vault.git(&["mv", "b.md", "c.md"]);
    let kept = ["a.md", "b.md", "c.md"].map(|it| (vault_path(it), Kept::Staged));
    for reopen in [false, false, true] {
        if reopen {
            vault.reopen();
        }
        assert_eq!(vault.snapshot_all().kept_out, kept);
    }
    vault.write("keep.md", "edited\n");
    assert_eq!(vault.snapshot(&["keep.md"]).kept_out, kept, "also by a look at a part");
    vault.git(&["commit", "-qm", "by hand"]);
    assert!(vault.snapshot_all().kept_out.is_empty());
    vault.assert_clean();
}

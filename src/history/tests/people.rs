//! What people do with Git in a vault, one after another: nothing is undone, nothing is lost.
//!
//! Every look here is the one that an event in the git directory leads to: it names no path.

use super::coexist::with_notes;
use super::*;

const WIP: &str = "refs/remd/wip/testhost";
const BACKUP: &str = "refs/remd/backup/wip/testhost";

/// A look that nothing on the disk hinted at.
fn glance(vault: &mut Vault) -> Result<Snapshot, SnapshotError> {
    vault.history().snapshot(&Look::default(), &Cause::edit())
}

fn wip(vault: &Vault, path: &str) -> Option<String> {
    vault.try_git(&["show", &format!("{WIP}:{path}")])
}

fn is_gone(vault: &Vault, name: &str) -> bool {
    vault.try_git(&["rev-parse", "-q", "--verify", name]).is_none()
}

/// Forty notes, a few commits, and a branch `small` without most of them.
fn large() -> Vault {
    let mut vault = Vault::new();
    for n in 0..40 {
        vault.write(format!("n/{n}.md"), format!("note {n}\n"));
    }
    vault.write("a.md", "one\n");
    vault.write("b.md", "one\n");
    vault.snapshot_all();
    vault.git(&["switch", "-q", "-c", "small"]);
    vault.git(&["rm", "-rq", "n"]);
    vault.write("small.md", "small\n");
    vault.git(&["add", "small.md"]);
    vault.git(&["commit", "-qm", "small"]);
    vault.git(&["switch", "-q", "main"]);
    for text in ["two\n", "three\n"] {
        vault.write("a.md", text);
        vault.snapshot_all();
    }
    vault
}

#[test]
fn a_move_of_head_is_never_undone_nor_held() {
    let cases: [&[&[&str]]; 14] = [
        &[&["switch", "-q", "small"]],
        &[&["checkout", "-q", "small"], &["checkout", "-q", "-"]],
        &[&["checkout", "-qb", "fresh", "HEAD~1"]],
        &[&["reset", "-q", "--hard", "HEAD~2"]],
        &[&["reset", "-q", "--hard", "small"]],
        &[&["merge", "-q", "--no-edit", "small"]],
        &[&["switch", "-q", "small"], &["rebase", "-q", "main"]],
        &[&["cherry-pick", "small"]],
        &[&["revert", "--no-edit", "HEAD"]],
        &[&["switch", "-q", "small"], &["merge", "-q", "--no-edit", "main"]],
        &[&["branch", "-q", "-m", "main", "trunk"]],
        &[&["rm", "-rq", "n"], &["commit", "-qm", "by hand"]],
        &[&["pack-refs", "--all"], &["gc", "-q"], &["reset", "-q", "--hard", "HEAD~1"]],
        &[&["reset", "-q", "--soft", "HEAD~1"], &["commit", "-qm", "again"]],
    ];
    for case in cases {
        let mut vault = large();
        for step in case {
            vault.git(step);
            let head = vault.git(&["rev-parse", "HEAD"]);
            let disk = vault.scan().found;
            for by_scan in [false, true, false] {
                let snapshot = match by_scan {
                    true => vault.snapshot_all(),
                    false => glance(&mut vault).unwrap(),
                };
                assert_eq!(snapshot.head, None, "{step:?}: {:?}", snapshot.changes);
                assert!(snapshot.held.is_empty(), "{step:?}");
            }
            assert_eq!(vault.git(&["rev-parse", "HEAD"]), head, "{step:?}");
            assert_eq!(vault.scan().found, disk, "{step:?}");
        }
        assert!(is_gone(&vault, WIP), "{case:?}");
        vault.assert_clean();
        vault.write("b.md", "after\n");
        assert!(vault.snapshot(&["b.md"]).head.is_some(), "{case:?}");
        vault.assert_clean();
    }
}

#[test]
fn a_stash_takes_edits_away_and_gives_them_back() {
    let mut vault = large();
    let commits = vault.commits();
    vault.write("a.md", "stashed\n");
    vault.write("new.md", "new\n");
    vault.git(&["stash", "-q", "-u"]);
    assert_eq!(vault.snapshot(&["a.md", "new.md"]).head, None);
    assert_eq!(glance(&mut vault).unwrap().head, None);
    assert_eq!(vault.commits(), commits);
    vault.git(&["stash", "pop", "-q"]);
    vault.snapshot(&["a.md", "new.md"]);
    glance(&mut vault).unwrap();
    vault.assert_clean();
    assert_eq!(vault.committed("a.md").unwrap(), "stashed\n");
    assert_eq!(vault.committed("new.md").unwrap(), "new\n");
}

#[test]
fn what_the_index_kept_out_is_found_again_without_a_hint() {
    let mut vault = large();
    vault.write("a.md", "staged\n");
    vault.write("new.md", "staged\n");
    vault.git(&["add", "a.md", "new.md"]);
    vault.git(&["rm", "-q", "b.md"]);
    let staged = ["a.md", "b.md", "new.md"].map(|it| (vault_path(it), Kept::Staged));
    assert_eq!(vault.snapshot(&["a.md"]).kept_out, staged);
    assert_eq!(glance(&mut vault).unwrap().kept_out, staged);
    vault.git(&["reset", "-q"]);
    let snapshot = glance(&mut vault).unwrap();
    assert!(snapshot.kept_out.is_empty(), "{:?}", snapshot.kept_out);
    assert_eq!(snapshot.changes.len(), 3);
    vault.assert_clean();
    assert!(is_gone(&vault, WIP));

    // One hunk of two, as `git add -p` stages it: the person commits it, the other follows.
    vault.write("a.md", "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    vault.snapshot(&["a.md"]);
    vault.write("a.md", "ONE\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    vault.git(&["add", "a.md"]);
    vault.write("a.md", "ONE\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
    assert_eq!(vault.snapshot(&["a.md"]).head, None);
    vault.git(&["commit", "-qm", "one hunk"]);
    assert!(glance(&mut vault).unwrap().head.is_some());
    assert!(vault.committed("a.md").unwrap().ends_with("NINE\n"));
    vault.assert_clean();
}

#[test]
fn a_mixed_or_soft_reset_leaves_what_the_person_chose() {
    let mut vault = large();
    // Mixed: the notes stay as they are, and are edits again.
    vault.git(&["reset", "-q", "HEAD~1"]);
    let snapshot = glance(&mut vault).unwrap();
    assert_eq!(snapshot.changes.len(), 1);
    assert_eq!(vault.committed("a.md").unwrap(), "three\n");
    vault.assert_clean();
    // Soft: what the commits held is staged now, deletions too.
    vault.remove("b.md");
    vault.snapshot_all();
    vault.git(&["reset", "-q", "--soft", "HEAD~1"]);
    let kept = [(vault_path("b.md"), Kept::Staged)];
    for _ in 0..2 {
        let snapshot = glance(&mut vault).unwrap();
        assert_eq!((snapshot.head, snapshot.kept_out), (None, kept.to_vec()));
    }
    assert_eq!(vault.git(&["status", "--porcelain"]), "D  b.md\n");
    vault.git(&["commit", "-qm", "by hand"]);
    assert!(glance(&mut vault).unwrap().kept_out.is_empty());
    vault.assert_clean();
}

#[test]
fn files_that_a_checkout_has_taken_away_are_not_held() {
    // The state within a `git switch small`: its lock is there, the files are gone, HEAD is not
    // moved yet.
    let mut vault = large();
    let lock = vault.path(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    std::fs::rename(vault.path("n"), vault.dir.path().join("away")).unwrap();
    let within = vault.try_snapshot_all();
    assert!(matches!(within, Err(SnapshotError::Locked { .. })), "{within:?}");
    assert!(vault.history().held().is_empty());
    std::fs::rename(vault.dir.path().join("away"), vault.path("n")).unwrap();
    std::fs::remove_file(lock).unwrap();
    vault.git(&["switch", "-q", "small"]);
    let snapshot = vault.snapshot_all();
    assert!(snapshot.held.is_empty() && snapshot.head.is_none());
    vault.assert_clean();
}

#[test]
fn a_bisect_of_days_keeps_every_version_once() {
    let mut vault = large();
    for n in 0..8 {
        vault.write("b.md", format!("{n}\n"));
        vault.snapshot_all();
    }
    vault.git(&["bisect", "start", "HEAD", "HEAD~8"]);
    vault.write("x.md", "first\n");
    vault.write("y.md", "y\n");
    let count = |vault: &Vault| {
        let list = vault.git(&["log", "--format=%B", WIP]);
        list.matches("Remd-Wip: waiting").count()
    };
    let busy = |result: Result<Snapshot, SnapshotError>| {
        let is_busy = matches!(
            result,
            Err(SnapshotError::Busy { operation: Operation::Bisect, wip: Some(_) })
        );
        assert!(is_busy, "{result:?}");
    };
    busy(vault.try_snapshot_all());
    let first = count(&vault);
    assert_eq!(first, 1);
    // Looks at parts, looks at everything, steps of the bisect: nothing new, no new `wip`.
    for step in ["good", "bad", "good"] {
        vault.git(&["bisect", step]);
        for _ in 0..3 {
            let part = vault.history().snapshot(&hints(&["y.md"]), &Cause::edit());
            busy(part);
            busy(vault.try_snapshot_all());
        }
    }
    assert_eq!(count(&vault), 1);
    assert_eq!(wip(&vault, "x.md").unwrap(), "first\n");
    vault.write("x.md", "second\n");
    busy(vault.history().snapshot(&hints(&["x.md"]), &Cause::edit()));
    assert_eq!(count(&vault), 2);
    assert_eq!(wip(&vault, "y.md").unwrap(), "y\n", "what another look found stays in");
    vault.git(&["bisect", "reset"]);
    vault.snapshot_all();
    vault.assert_clean();
    // HEAD has what was there last, and the version in between has a name of its own.
    assert!(is_gone(&vault, WIP));
    assert_eq!(vault.git(&["show", &format!("{BACKUP}^:x.md")]), "second\n");
    assert_eq!(vault.git(&["show", &format!("{BACKUP}^^2:x.md")]), "first\n");
}

#[test]
fn an_edit_that_an_abort_wipes_stays_in_wip_and_is_named() {
    let mut vault = conflicting();
    assert_eq!(vault.try_git(&["merge", "side"]), None);
    vault.write("c.md", "meanwhile\n");
    assert!(vault.try_snapshot_all().is_err());
    vault.git(&["reset", "-q", "--hard"]);
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.head, None, "a reset is not undone");
    assert_eq!(wip(&vault, "c.md").unwrap(), "meanwhile\n");
    let stranded = [vault_path("a.md"), vault_path("c.md")];
    assert!(vault.history().stranded().iter().eq(&stranded));
    vault.assert_clean();
    // Brought back by hand, it is committed and the snapshot can go; what nobody brings back
    // stays until HEAD moves on from it.
    vault.write("c.md", "meanwhile\n");
    vault.snapshot(&["c.md"]);
    assert_eq!(vault.history().stranded().len(), 1);
    vault.write("a.md", "settled\n");
    vault.snapshot(&["a.md"]);
    assert!(vault.history().stranded().is_empty());
    assert!(is_gone(&vault, WIP));
    assert!(vault.git(&["log", "-p", "-m", BACKUP]).contains("<<<<<<<"), "the conflict as it was");
    vault.assert_clean();
}

/// Two branches that change the first line of `a.md`; on `main`.
fn conflicting() -> Vault {
    let vault = with_notes();
    vault.git(&["switch", "-q", "-c", "side"]);
    vault.write("a.md", "side\n");
    vault.git(&["commit", "-qam", "side"]);
    vault.git(&["switch", "-q", "main"]);
    vault.write("a.md", "main\n");
    vault.git(&["commit", "-qam", "main"]);
    vault
}

#[test]
fn every_stopped_operation_pauses_and_goes_on_by_continue_or_abort() {
    // E03, with what ends it either way.
    type Words = &'static [&'static str];
    let cases: [(Words, Operation, Words, Words); 6] = [
        (&["rebase", "side"], Operation::Rebase, &["rebase", "--continue"], &["rebase", "--abort"]),
        (
            &["rebase", "--autostash", "-i", "side"],
            Operation::Rebase,
            &["rebase", "--continue"],
            &["rebase", "--abort"],
        ),
        (&["merge", "side"], Operation::Merge, &["commit", "--no-edit"], &["merge", "--abort"]),
        (
            &["cherry-pick", "side"],
            Operation::CherryPick,
            &["cherry-pick", "--continue"],
            &["cherry-pick", "--abort"],
        ),
        (
            &["revert", "--no-edit", "HEAD~1"],
            Operation::Revert,
            &["revert", "--continue"],
            &["revert", "--abort"],
        ),
        (
            &["am", "-q", "-3", "../side.patch"],
            Operation::ApplyMailbox,
            &["am", "--continue"],
            &["am", "--abort"],
        ),
    ];
    for (start, operation, go_on, abort) in cases {
        for is_aborted in [false, true] {
            let mut vault = conflicting();
            let patch = vault.git(&["format-patch", "--stdout", "-1", "side"]);
            std::fs::write(vault.dir.path().join("side.patch"), patch).unwrap();
            if operation == Operation::Revert {
                // So that the revert of what came before it conflicts.
                vault.write("a.md", "main two\n");
                vault.snapshot_all();
            }
            vault.git(&["config", "core.editor", "true"]);
            vault.git(&["config", "sequence.editor", "true"]);
            assert_eq!(vault.try_git(start), None, "{start:?} stops");
            let head = vault.git(&["rev-parse", "HEAD"]);
            let unmerged = vault.git(&["ls-files", "-u"]);
            assert!(!unmerged.is_empty(), "{start:?}");
            // A new note, so that no abort takes it away.
            vault.write("meanwhile.md", "meanwhile\n");
            for _ in 0..3 {
                match vault.try_snapshot_all() {
                    Err(SnapshotError::Busy { operation: found, wip: Some(_) }) => {
                        assert_eq!(found, operation);
                        assert!(!found.hint().is_empty());
                    }
                    other => panic!("{start:?}: {other:?}"),
                }
            }
            assert_eq!(vault.git(&["rev-parse", "HEAD"]), head);
            assert_eq!(vault.git(&["ls-files", "-u"]), unmerged);
            assert_eq!(wip(&vault, "meanwhile.md").unwrap(), "meanwhile\n");
            if is_aborted {
                vault.git(abort);
            } else {
                vault.write("a.md", "resolved\n");
                vault.git(&["add", "a.md"]);
                vault.git(go_on);
            }
            assert_eq!(vault.history().busy(), None, "{start:?}");
            vault.snapshot(&["meanwhile.md", "a.md"]);
            assert_eq!(vault.committed("meanwhile.md").unwrap(), "meanwhile\n");
            assert!(!vault.committed("a.md").unwrap().contains("<<<<"), "{start:?}");
            vault.assert_clean();
        }
    }
}

#[test]
fn a_todo_list_in_an_editor_pauses() {
    let mut vault = conflicting();
    let (ready, go) = (vault.dir.path().join("ready"), vault.dir.path().join("go"));
    let editor =
        format!("touch {}; until [ -e {} ]; do sleep 0.02; done #", ready.display(), go.display());
    vault.write("dirty.md", "dirty\n");
    let mut child = git_command(&vault.root, &["rebase", "-i", "--autostash", "HEAD~1"])
        .env("GIT_SEQUENCE_EDITOR", editor)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !ready.exists() {
        assert!(std::time::Instant::now() < limit);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let busy = vault.try_snapshot_all();
    let is_busy =
        matches!(busy, Err(SnapshotError::Busy { operation: Operation::Rebase, wip: Some(_) }));
    assert!(is_busy, "{busy:?}");
    std::fs::write(go, "").unwrap();
    assert!(child.wait().unwrap().success());
    vault.snapshot_all();
    vault.assert_clean();
    assert_eq!(vault.committed("dirty.md").unwrap(), "dirty\n");
}

#[test]
fn a_submodule_stays_what_it_is() {
    let mut vault = with_notes();
    let library = Vault::by_git(&["-b", "main"]);
    library.write("lib.md", "lib\n");
    library.git(&["add", "-A"]);
    library.git(&["commit", "-qm", "lib"]);
    let from = library.root.to_str().unwrap().to_owned();
    vault.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", &from, "sub"]);
    // Staged by the person, the link too.
    vault.snapshot_all();
    let link = vault.git(&["ls-files", "-s", "sub"]);
    assert!(link.starts_with("160000"));
    vault.git(&["commit", "-qm", "submodule"]);
    vault.snapshot_all();
    vault.assert_clean();
    let unchanged = |vault: &mut Vault| {
        vault.snapshot(&["sub", "sub/lib.md", "sub/new.md"]);
        vault.snapshot_all();
        assert_eq!(vault.git(&["ls-files", "-s", "sub"]), link);
        let tree = vault.git(&["ls-tree", "HEAD", "sub"]);
        assert!(tree.starts_with("160000"), "{tree}");
        vault.assert_sound();
    };
    // Edits and commits in it, its folder empty, gone, or a file: the link is the person's.
    vault.write("sub/new.md", "new\n");
    unchanged(&mut vault);
    git_command(&vault.path("sub"), &["add", "-A"]).status().unwrap();
    git_command(&vault.path("sub"), &["commit", "-qm", "in it"]).status().unwrap();
    unchanged(&mut vault);
    std::fs::remove_dir_all(vault.path("sub")).unwrap();
    unchanged(&mut vault);
    std::fs::create_dir(vault.path("sub")).unwrap();
    unchanged(&mut vault);
    vault.write("sub/new.md", "new\n");
    unchanged(&mut vault);
    let kept = vault.snapshot_all().kept_out;
    assert_eq!(kept, [(vault_path("sub/new.md"), Kept::Submodule)], "named");
    std::fs::remove_dir_all(vault.path("sub")).unwrap();
    vault.write("sub", "a file\n");
    unchanged(&mut vault);
    let kept = vault.snapshot_all().kept_out;
    assert_eq!(kept, [(vault_path("sub"), Kept::Submodule)], "named");
}

#[test]
fn a_work_tree_or_a_repository_inside_is_not_ours() {
    let mut vault = with_notes();
    vault.git(&["worktree", "add", "-q", "-b", "inner", "inner"]);
    let inner = vault.path("inner");
    git_command(&vault.root, &["init", "-q", "own"]).status().unwrap();
    vault.write("own/n.md", "n\n");
    vault.write("inner/n.md", "n\n");
    assert_eq!(vault.snapshot(&["own", "own/n.md", "inner", "inner/n.md"]).head, None);
    assert_eq!(vault.snapshot_all().head, None);
    // What only looks like one is a folder, as it is to git.
    std::fs::create_dir_all(vault.path("plain/.git")).unwrap();
    vault.write("plain/n.md", "n\n");
    vault.snapshot(&["plain/n.md"]);
    assert_eq!(vault.committed("plain/n.md").unwrap(), "n\n");
    // A commit in the inner work tree moves another branch and another index.
    git_command(&inner, &["add", "-A"]).status().unwrap();
    git_command(&inner, &["commit", "-qm", "inner"]).status().unwrap();
    assert_eq!(glance(&mut vault).unwrap().head, None);
    // Tracked notes that become part of a repository of their own stay, and are named.
    vault.write("d/n.md", "n\n");
    vault.snapshot_all();
    git_command(&vault.root, &["init", "-q", "d"]).status().unwrap();
    vault.write("d/n.md", "edited\n");
    let snapshot = vault.snapshot(&["d/n.md"]);
    assert_eq!(snapshot.kept_out, [(vault_path("d/n.md"), Kept::NestedRepository)]);
    assert_eq!(vault.committed("d/n.md").unwrap(), "n\n");
}

#[test]
fn housekeeping_of_git_beside_the_agent_harms_nothing() {
    let mut vault = with_notes();
    let root = vault.root.clone();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let person = std::thread::spawn(move || {
        let mut rounds = 0;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) || rounds == 0 {
            for arguments in
                [&["gc", "-q"][..], &["repack", "-adq"], &["pack-refs", "--all", "--prune"]]
            {
                let _failed = git_command(&root, arguments).output().unwrap();
            }
            rounds += 1;
        }
    });
    for n in 0..120 {
        vault.write(format!("n/{n}.md"), format!("note {n}\n"));
        vault.write("a.md", format!("{n}\n"));
        let look = hints(&[&format!("n/{n}.md"), "a.md"]);
        match vault.history().snapshot(&look, &Cause::edit()) {
            Ok(_) => {}
            Err(err) => assert!(err.is_transient(), "{err:?}"),
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    person.join().unwrap();
    vault.snapshot_all();
    vault.assert_clean();
    assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD", "n/"]).lines().count(), 120);
}

#[test]
fn a_lock_on_packed_refs_stops_no_commit_not_even_the_one_after_a_wip() {
    let mut vault = with_notes();
    vault.git(&["pack-refs", "--all"]);
    let index_lock = vault.path(".git/index.lock");
    std::fs::write(&index_lock, "").unwrap();
    std::fs::write(vault.path(".git/packed-refs.lock"), "").unwrap();
    vault.write("a.md", "edited\n");
    assert!(matches!(vault.try_snapshot_all(), Err(SnapshotError::Locked { .. })));
    std::fs::remove_file(index_lock).unwrap();
    let snapshot = vault.snapshot(&["a.md"]);
    assert!(snapshot.head.is_some());
    assert_eq!(vault.history().locks().len(), 1);
    std::fs::remove_file(vault.path(".git/packed-refs.lock")).unwrap();
    glance(&mut vault).unwrap();
    assert!(is_gone(&vault, WIP));
    vault.assert_clean();
}

/// Staged, edited again without another size in the same second: git, which counts in seconds, must
/// go on to see that, also when the index was written anew by us.
#[test]
fn an_edit_in_the_second_of_its_staging_stays_visible_to_git() {
    for round in 0..3 {
        let mut vault = with_notes();
        vault.write("a.md", format!("staged {round}\n"));
        vault.git(&["add", "a.md"]);
        vault.write("a.md", format!("edited {round}\n"));
        vault.write("b.md", format!("other {round}\n"));
        vault.snapshot(&["b.md"]);
        // In another second than that of the staging.
        let second = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let now = second();
        while second() == now {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        vault.write("b.md", format!("another {round}\n"));
        vault.snapshot(&["b.md"]);
        assert_eq!(vault.git(&["status", "--porcelain"]), "MM a.md\n");
        assert!(!vault.git(&["diff", "--cached"]).contains("edited"));
    }
}

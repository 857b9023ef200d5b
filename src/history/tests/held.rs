//! A mass disappearance waits for a person.

use super::*;

fn full(notes: usize) -> Vault {
    let mut vault = Vault::new();
    for n in 0..notes {
        vault.write(format!("n/{n:02}.md"), format!("note {n}\n"));
    }
    vault.write("other.md", "other\n");
    vault.snapshot_all();
    vault
}

fn empty_folder(vault: &Vault) {
    std::fs::rename(vault.path("n"), vault.dir.path().join("away")).unwrap();
    std::fs::create_dir(vault.path("n")).unwrap();
}

#[test]
fn deletions_wait_and_other_edits_do_not() {
    let mut vault = full(30);
    empty_folder(&vault);
    vault.write("other.md", "edited\n");
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.held.len(), 30);
    assert_eq!(vault.subject(), "memory: update other.md");
    assert!(vault.committed("n/00.md").is_some());
    // Still held, also by the next one and after a restart.
    assert_eq!(vault.snapshot(&["other.md"]).held.len(), 30);
    vault.reopen();
    assert_eq!(vault.snapshot_all().held.len(), 30);
    assert_eq!(vault.commits(), 2);
    // Back: released, nothing to commit.
    std::fs::remove_dir(vault.path("n")).unwrap();
    std::fs::rename(vault.dir.path().join("away"), vault.path("n")).unwrap();
    let snapshot = vault.snapshot(&[]);
    assert!(snapshot.held.is_empty() && snapshot.head.is_none());
    vault.assert_clean();
}

#[test]
fn accepted_deletions_go_through_once() {
    let mut vault = full(30);
    empty_folder(&vault);
    assert_eq!(vault.snapshot_all().held.len(), 30);
    assert_eq!(vault.history().accept_held(), 30);
    let snapshot = vault.snapshot(&[]);
    assert!(snapshot.held.is_empty());
    assert_eq!(vault.subject(), "memory: 30 changes (n/ 30)");
    vault.assert_clean();
    assert_eq!(vault.history().accept_held(), 0);
}

#[test]
fn a_moved_folder_is_no_disappearance() {
    let mut vault = full(40);
    std::fs::rename(vault.path("n"), vault.path("moved")).unwrap();
    let snapshot = vault.snapshot_all();
    assert!(snapshot.held.is_empty());
    assert_eq!(snapshot.renames.len(), 40);
    // Copied and deleted, as some programs move.
    for n in 0..40 {
        let text = std::fs::read(vault.path(format!("moved/{n:02}.md"))).unwrap();
        vault.write(format!("again/{n:02}.md"), text);
    }
    std::fs::remove_dir_all(vault.path("moved")).unwrap();
    let snapshot = vault.snapshot_all();
    assert!(snapshot.held.is_empty());
    assert_eq!(snapshot.renames.len(), 40);
    vault.assert_clean();
}

#[test]
fn few_deletions_pass() {
    let mut vault = full(19);
    empty_folder(&vault);
    assert!(vault.snapshot_all().held.is_empty());
    vault.assert_clean();
}

#[test]
fn a_move_of_head_is_no_disappearance() {
    let mut vault = full(30);
    vault.git(&["switch", "-q", "--orphan", "bare"]);
    vault.write("x.md", "x\n");
    let snapshot = vault.snapshot_all();
    assert!(snapshot.held.is_empty());
    assert_eq!(vault.subject(), "memory: create x.md");
    vault.git(&["switch", "-q", "main"]);
    assert!(vault.snapshot_all().head.is_none());
    vault.assert_clean();
}

#[test]
fn a_vault_that_is_gone_or_another_one_is_lost() {
    let mut vault = full(3);
    let away = vault.dir.path().join("away");
    std::fs::rename(&vault.root, &away).unwrap();
    let look = hints(&["n/00.md"]);
    let lost = vault.history().snapshot(&look, &Cause::edit());
    assert!(matches!(lost, Err(SnapshotError::VaultLost(_))), "{lost:?}");
    std::fs::create_dir(&vault.root).unwrap();
    let lost = vault.history().snapshot(&look, &Cause::edit());
    assert!(matches!(lost, Err(SnapshotError::VaultLost(_))), "{lost:?}");
    std::fs::remove_dir(&vault.root).unwrap();
    std::fs::rename(&away, &vault.root).unwrap();
    assert_eq!(vault.commits(), 1);
    assert!(vault.snapshot_all().head.is_none());
}

/// What was held is held after a restart too, however few of how many it is by then.
#[test]
fn a_restart_lets_nothing_through() {
    let away = |vault: &Vault, range: std::ops::Range<usize>, out: bool| {
        let folder = vault.dir.path().join("away");
        std::fs::create_dir_all(&folder).unwrap();
        for n in range {
            let (here, there) = (vault.path(format!("n/{n:02}.md")), folder.join(n.to_string()));
            match out {
                true => std::fs::rename(here, there).unwrap(),
                false => std::fs::rename(there, here).unwrap(),
            }
        }
    };
    let mut vault = full(40);
    away(&vault, 0..25, true);
    assert_eq!(vault.snapshot_all().held.len(), 25);

    // Most are back: the rest still waits for a person.
    away(&vault, 0..20, false);
    assert_eq!(vault.snapshot_all().held.len(), 5);
    vault.reopen();
    assert_eq!(vault.snapshot_all().held.len(), 5);

    // Many new notes: it is no longer half of all.
    for n in 0..60 {
        vault.write(format!("new/{n}.md"), format!("new {n}\n"));
    }
    assert_eq!(vault.snapshot_all().held.len(), 5);
    vault.reopen();
    assert_eq!(vault.snapshot(&[]).held.len(), 5, "and no look at everything is needed");
    assert!(vault.committed("n/24.md").is_some());

    // Let through, it is over for good.
    vault.history().accept_held();
    assert!(vault.snapshot(&[]).held.is_empty());
    vault.reopen();
    assert!(vault.snapshot_all().held.is_empty());
    assert!(vault.committed("n/24.md").is_none());
    vault.assert_clean();
}

//! What is forgotten stays so for programs, until a person takes that back.

use super::*;

fn forget(vault: &mut Vault, what: &str, words: Option<&str>) -> Applied {
    let reader = vault.reader();
    let path = words.is_none().then(|| vault_path(what));
    let plan = |head| match (&path, words) {
        (Some(path), _) => reader.plan_forget_path(head, path),
        (None, words) => reader.plan_forget_words(head, words.unwrap_or_default()),
    };
    let kind = if words.is_some() { "lines" } else { "path" };
    let cause = Cause { trailers: vec![(FORGET.into(), kind.into())], ..Cause::edit() };
    vault.history().change(&plan, &cause, &mut |_| {}).unwrap()
}

fn stones(vault: &mut Vault) -> Tombstones {
    let head = vault.history().head().unwrap().unwrap().commit;
    vault.reader().tombstones(head).unwrap()
}

#[test]
fn a_tombstone_refuses_programs_and_goes_with_its_commit() {
    let mut vault = Vault::new();
    vault.write("digest/ann.md", "# Ann\n\n- Ann's PIN is 1234\n- tea\n");
    vault.write("digest/bob.md", "# Bob\n\nBob was born in Rome.\n");
    vault.write("day.md", "- told: ann's pin is 1234\n- weather\n");
    vault.snapshot_all();
    assert!(matches!(forget(&mut vault, "", Some("PIN is 1234")), Applied::Done(..)));
    assert_eq!(vault.committed("digest/ann.md").unwrap(), "# Ann\n\n- tea\n");
    assert_eq!(vault.committed("day.md").unwrap(), "- weather\n");
    let of_words = vault.git(&["rev-parse", "HEAD"]);
    assert!(matches!(forget(&mut vault, "digest/bob.md", None), Applied::Done(..)));
    vault.assert_clean();

    let found = stones(&mut vault);
    assert_eq!(found.commits.len(), 2);
    let ann = vault_path("digest/ann.md");
    for text in ["x\n* ann's PIN  is 1234\n", "Bob was born in Rome."] {
        assert!(found.refuses(&ann, text).is_some(), "{text:?}");
    }
    assert!(found.refuses(&vault_path("digest/bob.md"), "anything").is_some());
    assert_eq!(found.refuses(&ann, "# Ann\n\n- tea\n- Ann is well\n"), None);
    assert!(!found.refuses(&ann, "Ann's PIN is 1234").unwrap().contains("1234"));

    // Words that stand nowhere leave nothing behind.
    assert!(matches!(forget(&mut vault, "", Some("PIN is 1234")), Applied::Nothing));

    let commit = CommitId::from_hex(of_words.trim()).unwrap();
    let reader = vault.reader();
    let plan = |head| reader.plan_undo(head, &[commit], None);
    let note = vec![message::reverts(commit)];
    let cause = Cause { kind: CauseKind::Undo, note, ..Cause::edit() };
    assert!(matches!(vault.history().change(&plan, &cause, &mut |_| {}), Ok(Applied::Done(..))));
    let found = stones(&mut vault);
    assert_eq!(found.commits.len(), 1);
    assert_eq!(found.refuses(&ann, "- Ann's PIN is 1234\n"), None);
}

#[test]
fn a_checkpoint_is_a_tag_that_is_never_moved() {
    let mut vault = Vault::new();
    assert!(matches!(vault.history().checkpoint("one", ""), Err(CheckpointError::Unborn)));
    vault.write("a.md", "a\n");
    vault.snapshot_all();
    let first = vault.history().checkpoint("before/the-move", "before we move").unwrap();
    vault.write("a.md", "b\n");
    let second = vault.snapshot_all().head.unwrap().commit;
    assert!(matches!(
        vault.history().checkpoint("before/the-move", ""),
        Err(CheckpointError::Taken { commit, .. }) if commit == first
    ));
    assert_eq!(vault.history().checkpoint("now-日記", "").unwrap(), second);
    let all = vault.reader().checkpoints().unwrap();
    let names: BTreeSet<_> = all.iter().map(|it| (it.name.as_str(), it.commit)).collect();
    assert_eq!(names, BTreeSet::from([("before/the-move", first), ("now-日記", second)]));
    assert_eq!(
        vault.git(&["tag", "-l", "-n", "before/*"]).trim(),
        "before/the-move before we move"
    );
    assert_eq!(vault.reader().moment("before/the-move").unwrap(), first);
    for name in ["", "a b", "-x", "a..b", "2026-06-01", "2h", "yesterday", "HEAD", "abcdef01", "a/"]
    {
        let refused = vault.history().checkpoint(name, "");
        assert!(matches!(refused, Err(CheckpointError::Name { .. })), "{name:?}");
    }
    vault.assert_clean();
}

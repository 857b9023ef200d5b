//! Taking back: what a change did is gone, what came later stays.

use super::*;

/// Commits what is on disk, and gives the commit.
fn committed(vault: &mut Vault) -> CommitId {
    vault.snapshot_all().head.expect("something to commit").commit
}

/// Takes back, and gives how it went.
fn undo(vault: &mut Vault, commits: &[CommitId], favor: Option<Favor>) -> Applied {
    let reader = vault.reader();
    let note = commits.iter().map(|it| message::reverts(*it)).collect();
    let cause = Cause { kind: CauseKind::Undo, note, ..Cause::edit() };
    let plan = |head| reader.plan_undo(head, commits, favor);
    let applied = vault.history().change(&plan, &cause, &mut |_| {}).unwrap();
    vault.assert_clean();
    applied
}

fn done(applied: Applied) -> CommitId {
    let Applied::Done(done) = applied else { panic!("not done: {applied:?}") };
    done.1.head.unwrap().commit
}

fn text(vault: &Vault, path: &str) -> Option<String> {
    let on_disk = std::fs::read_to_string(vault.path(path)).ok();
    assert_eq!(vault.committed(path), on_disk, "{path}: HEAD and the disk");
    on_disk
}

fn lines(words: &[&str]) -> String {
    words.iter().map(|it| format!("{it}\n\n\n")).collect()
}

#[test]
fn an_edit_goes_and_later_ones_stay_committed_or_not() {
    let mut vault = Vault::new();
    vault.write("a.md", lines(&["one", "two", "three", "four"]));
    vault.write("other.md", "other\n");
    committed(&mut vault);
    vault.write("a.md", lines(&["one", "TWO", "three", "four"]));
    let change = committed(&mut vault);
    vault.write("a.md", lines(&["one", "TWO", "three", "FOUR"]));
    committed(&mut vault);
    vault.write("a.md", lines(&["ONE", "TWO", "three", "FOUR"]));
    vault.write("other.md", "other, not committed\n");
    let undone = done(undo_dirty(&mut vault, change));
    assert_eq!(
        std::fs::read_to_string(vault.path("a.md")).unwrap(),
        lines(&["ONE", "two", "three", "FOUR"])
    );
    assert_eq!(vault.git(&["status", "--porcelain"]), " M other.md\n");
    let message = vault.git(&["log", "-1", "--format=%B"]);
    let said =
        format!("memory: update a.md\n\nThis reverts commit {change}.\n\nRemd-Cause: undo\n\n");
    assert_eq!(message, said);
    assert_eq!(vault.git(&["log", "-2", "--format=%s%n%(trailers:key=Remd-Cause,valueonly)"]), {
        "memory: update a.md\nundo\n\nmemory: update a.md\nedit\n\n"
    });
    committed(&mut vault);
    let again = done(undo(&mut vault, &[undone], None));
    assert_eq!(text(&vault, "a.md").unwrap(), lines(&["ONE", "TWO", "three", "FOUR"]));
    done(undo(&mut vault, &[again], None));
    assert_eq!(text(&vault, "a.md").unwrap(), lines(&["ONE", "two", "three", "FOUR"]));
}

fn undo_dirty(vault: &mut Vault, commit: CommitId) -> Applied {
    let reader = vault.reader();
    let cause =
        Cause { kind: CauseKind::Undo, note: vec![message::reverts(commit)], ..Cause::edit() };
    let plan = |head| reader.plan_undo(head, &[commit], None);
    vault.history().change(&plan, &cause, &mut |_| {}).unwrap()
}

#[test]
fn what_was_made_goes_and_what_went_comes_back() {
    let mut vault = Vault::new();
    vault.write("keep.md", "keep\n");
    vault.write("deep/er/gone.md", "gone\n");
    let run = vault.path("run.sh");
    vault.write("run.sh", "echo\n");
    committed(&mut vault);
    vault.remove("deep/er/gone.md");
    std::fs::remove_dir_all(vault.path("deep")).unwrap();
    vault.write("new/made.md", "made\n");
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("keep.md", vault.path("link")).unwrap();
    let change = committed(&mut vault);
    vault.write("later.md", "later\n");
    committed(&mut vault);
    done(undo(&mut vault, &[change], None));
    assert_eq!(text(&vault, "deep/er/gone.md").as_deref(), Some("gone\n"));
    assert_eq!(text(&vault, "new/made.md"), None);
    assert!(!vault.path("new").exists());
    assert!(!vault.path("link").is_symlink());
    assert_eq!(std::fs::metadata(&run).unwrap().permissions().mode() & 0o111, 0);
    assert_eq!(text(&vault, "later.md").as_deref(), Some("later\n"));
    let Applied::Nothing = undo(&mut vault, &[change], None) else { panic!("nothing is left") };
}

#[test]
fn more_notes_than_may_vanish_by_accident_go_when_that_is_asked_for() {
    let mut vault = Vault::new();
    vault.write("keep.md", "keep\n");
    committed(&mut vault);
    for n in 0..50 {
        vault.write(format!("run/{n}.md"), format!("note {n}\n"));
    }
    let change = committed(&mut vault);
    done(undo(&mut vault, &[change], None));
    assert_eq!(vault.scan().found.len(), 1);
    assert!(vault.history().held().is_empty());
}

#[test]
fn a_rename_goes_back_with_what_was_written_since_and_a_later_one_is_followed() {
    let mut vault = Vault::new();
    vault.write("old.md", lines(&["one", "two", "three", "four"]));
    committed(&mut vault);
    std::fs::rename(vault.path("old.md"), vault.path("new.md")).unwrap();
    vault.write("new.md", lines(&["one", "TWO", "three", "four"]));
    let change = committed(&mut vault);
    vault.write("new.md", lines(&["one", "TWO", "three", "FOUR"]));
    committed(&mut vault);
    let undone = done(undo(&mut vault, &[change], None));
    assert_eq!(text(&vault, "old.md").unwrap(), lines(&["one", "two", "three", "FOUR"]));
    assert_eq!(text(&vault, "new.md"), None);
    done(undo(&mut vault, &[undone], None));
    std::fs::create_dir(vault.path("away")).unwrap();
    std::fs::rename(vault.path("new.md"), vault.path("away/third.md")).unwrap();
    committed(&mut vault);
    // Its later name is a later edit.
    done(undo(&mut vault, &[change], None));
    let now = text(&vault, "away/third.md").unwrap();
    assert_eq!(now, lines(&["one", "two", "three", "FOUR"]));
}

#[test]
fn where_later_edits_are_in_the_way_nothing_is_written_before_somebody_says_whose() {
    let mut vault = Vault::new();
    vault.write("both.md", "one\ntwo\nthree\n");
    vault.write("clean.md", "clean\n");
    vault.write("gone.md", "gone\n");
    vault.write("back.md", "back\n");
    committed(&mut vault);
    vault.write("both.md", "one\nTWO\nthree\n");
    vault.write("clean.md", "CLEAN\n");
    vault.write("gone.md", "GONE\n");
    vault.write("made.md", "made\n");
    vault.remove("back.md");
    vault.write("picture", [0, 1, 2]);
    let change = committed(&mut vault);
    vault.write("both.md", "zero\none\nmine\nthree\n");
    vault.remove("gone.md");
    vault.write("made.md", "made, and more\n");
    vault.write("back.md", "another one of that name\n");
    vault.write("picture", [0, 1, 3]);
    let head = committed(&mut vault);
    let Applied::Overlaps(plan) = undo(&mut vault, &[change], None) else { panic!("went") };
    let kinds: Vec<_> =
        plan.overlaps.into_iter().map(|it| (it.path.to_string(), it.kind)).collect();
    let expected = [
        ("both.md", OverlapKind::Lines(vec![3..=3])),
        ("gone.md", OverlapKind::DeletedSince),
        ("made.md", OverlapKind::EditedSince),
        ("picture", OverlapKind::EditedSince),
        ("back.md", OverlapKind::Taken),
    ];
    assert_eq!(kinds, expected.map(|(path, kind)| (path.to_owned(), kind)));
    assert_eq!(vault.history().head().unwrap().unwrap().commit, head);

    let mine = done(undo(&mut vault, &[change], Some(Favor::Mine)));
    assert_eq!(text(&vault, "clean.md").as_deref(), Some("clean\n"));
    assert_eq!(text(&vault, "both.md").as_deref(), Some("zero\none\nmine\nthree\n"));
    assert_eq!(text(&vault, "made.md").as_deref(), Some("made, and more\n"));
    assert_eq!(text(&vault, "gone.md"), None);
    done(undo(&mut vault, &[mine], None));
    done(undo(&mut vault, &[change], Some(Favor::Theirs)));
    assert_eq!(text(&vault, "both.md").as_deref(), Some("zero\none\ntwo\nthree\n"));
    assert_eq!(text(&vault, "made.md"), None);
    assert_eq!(text(&vault, "gone.md").as_deref(), Some("gone\n"));
    assert_eq!(text(&vault, "back.md").as_deref(), Some("back\n"));
}

#[test]
fn a_range_and_the_runs_of_a_job_are_taken_back_as_one_commit() {
    let mut vault = Vault::new();
    vault.write("a.md", "start\n");
    let start = committed(&mut vault);
    let of_run = |vault: &mut Vault, path: &str, text: &str, trailers: &[(&str, &str)]| {
        vault.write(path, text);
        let trailers = trailers.iter().map(|it| (it.0.into(), it.1.into())).collect();
        let cause = Cause { kind: CauseKind::Job, trailers, ..Cause::edit() };
        let look = vault.scan();
        vault.history().snapshot(&look, &cause).unwrap().head.unwrap().commit
    };
    of_run(&mut vault, "a.md", "start\nby the run\n", &[("Remd-Run", "01RUN")]);
    of_run(&mut vault, "person.md", "by a person\n", &[]);
    of_run(&mut vault, "b.md", "made\n", &[("Remd-Run", "01RUN")]);
    of_run(&mut vault, "b.md", "made\ntags\n", &[("Remd-Run", "01TAG"), ("Remd-Parent", "01RUN")]);
    of_run(&mut vault, "c.md", "c\n", &[("Remd-Run", "01TAG")]);
    of_run(&mut vault, "d.md", "d\n", &[("Remd-Run", "01OTHER")]);
    let head = vault.history().head().unwrap().unwrap().commit;
    let commits = vault.reader().commits_to_undo(head, &What::Run("01RUN".into())).unwrap();
    assert_eq!(commits.len(), 4);
    let before = vault.commits();
    let undone = done(undo(&mut vault, &commits, None));
    assert_eq!(vault.commits(), before + 1);
    let names: Vec<_> = vault.scan().found.iter().map(|it| it.to_string()).collect();
    assert_eq!(names, ["a.md", "d.md", "person.md"]);
    assert_eq!(text(&vault, "a.md").as_deref(), Some("start\n"));
    done(undo(&mut vault, &[undone], None));
    assert_eq!(text(&vault, "b.md").as_deref(), Some("made\ntags\n"));
    let all = vault.reader().commits_to_undo(undone, &What::Between(start, undone)).unwrap();
    assert_eq!(all.len(), 7);
    let missing = vault.reader().commits_to_undo(head, &What::Run("01NONE".into()));
    assert!(missing.unwrap_err().is_not_found());
}

#[test]
fn the_last_change_is_the_last_that_still_stands() {
    let mut vault = Vault::new();
    vault.write("a.md", "zero\n");
    let first = committed(&mut vault);
    vault.write("a.md", "one\n");
    let one = committed(&mut vault);
    vault.write("a.md", "two\n");
    let two = committed(&mut vault);
    let last = |vault: &mut Vault| {
        let head = vault.history().head().unwrap().unwrap().commit;
        vault.reader().commits_to_undo(head, &What::Last).unwrap()
    };
    assert_eq!(last(&mut vault), [two]);
    done(undo(&mut vault, &[two], None));
    assert_eq!(last(&mut vault), [one]);
    let back = done(undo(&mut vault, &[one], None));
    assert_eq!(text(&vault, "a.md").as_deref(), Some("zero\n"));
    assert!(last(&mut vault).is_empty(), "what the vault began with stays");
    done(undo(&mut vault, &[back], None));
    assert_eq!(last(&mut vault), [one], "it stands again");
    vault.git(&["revert", "--no-edit", &one.to_string()]);
    assert!(last(&mut vault).is_empty(), "git's own revert counts");
    done(undo(&mut vault, &[first], Some(Favor::Theirs)));
    assert_eq!(text(&vault, "a.md"), None);
}

#[test]
fn a_note_or_a_folder_comes_back_as_it_was_and_newer_ones_stay() {
    let mut vault = Vault::new();
    vault.write("f/a.md", "a, old\n");
    vault.write("f/b.md", "b, old\n");
    vault.write("other.md", "old\n");
    let then = committed(&mut vault);
    vault.write("f/a.md", "a, new\n");
    vault.remove("f/b.md");
    vault.write("f/c.md", "c\n");
    vault.write("other.md", "new\n");
    committed(&mut vault);
    let mut restore = |path: Option<&str>, exactly: bool| {
        let reader = vault.reader();
        let path = path.map(vault_path);
        let plan = |head| reader.plan_restore(head, then, path.as_ref(), exactly);
        let cause = Cause { kind: CauseKind::Restore, ..Cause::edit() };
        let applied = vault.history().change(&plan, &cause, &mut |_| {}).unwrap();
        vault.assert_clean();
        let names: Vec<_> = vault.scan().found.iter().map(|it| it.to_string()).collect();
        (matches!(applied, Applied::Done(..)), names.join(" "))
    };
    assert_eq!(restore(Some("f/b.md"), false), (true, "f/a.md f/b.md f/c.md other.md".into()));
    assert_eq!(restore(Some("f"), false), (true, "f/a.md f/b.md f/c.md other.md".into()));
    assert_eq!(restore(Some("f"), true), (true, "f/a.md f/b.md other.md".into()));
    assert_eq!(restore(Some("f"), true), (false, "f/a.md f/b.md other.md".into()));
    assert_eq!(text(&vault, "f/a.md").as_deref(), Some("a, old\n"));
    assert_eq!(text(&vault, "other.md").as_deref(), Some("new\n"));
}

#[test]
fn what_git_turns_into_another_form_on_disk_is_that_after_it_too() {
    let mut vault = Vault::new();
    vault.write(".gitattributes", "*.md text eol=crlf\n*.u16 working-tree-encoding=UTF-16LE\n");
    vault.write("a.md", "one\r\n");
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    vault.write("b.u16", utf16("eins\n"));
    committed(&mut vault);
    vault.write("a.md", "two\r\n");
    vault.write("b.u16", utf16("zwei\n"));
    let change = committed(&mut vault);
    done(undo(&mut vault, &[change], None));
    assert_eq!(std::fs::read(vault.path("a.md")).unwrap(), b"one\r\n");
    assert_eq!(std::fs::read(vault.path("b.u16")).unwrap(), utf16("eins\n"));
}

#[test]
fn what_a_person_has_staged_or_is_in_the_middle_of_is_left_alone() {
    let mut vault = Vault::new();
    vault.write("a.md", "one\n");
    committed(&mut vault);
    vault.write("a.md", "two\n");
    let change = committed(&mut vault);
    vault.write("a.md", "staged\n");
    vault.git(&["add", "a.md"]);
    let plan = |vault: &mut Vault| {
        let reader = vault.reader();
        let plan = |head| reader.plan_undo(head, &[change], None);
        vault.history().change(&plan, &Cause::edit(), &mut |_| {}).map(|_| ())
    };
    let Err(ApplyError::InTheWay { path, remedy, .. }) = plan(&mut vault) else { panic!("went") };
    assert_eq!(path, vault_path("a.md"));
    assert!(remedy.contains("git restore --staged"), "{remedy}");
    assert_eq!(std::fs::read(vault.path("a.md")).unwrap(), b"staged\n");
    vault.git(&["commit", "-qm", "by hand"]);
    vault.git(&["checkout", "-q", "HEAD~1"]);
    vault.git(&["checkout", "-qB", "main"]);
    vault.write("x.md", "x\n");
    vault.git(&["add", "x.md"]);
    vault.git(&["commit", "-qm", "x"]);
    vault.git(&["checkout", "-qb", "other"]);
    vault.write("x.md", "other\n");
    vault.git(&["commit", "-qam", "other"]);
    vault.git(&["checkout", "-q", "main"]);
    vault.write("x.md", "main\n");
    vault.git(&["commit", "-qam", "main"]);
    assert!(vault.try_git(&["merge", "-q", "other"]).is_none(), "a merge that stops");
    let before = std::fs::read(vault.path("a.md")).unwrap();
    let Err(ApplyError::Snapshot(SnapshotError::Busy { .. })) = plan(&mut vault) else {
        panic!("went")
    };
    assert_eq!(std::fs::read(vault.path("a.md")).unwrap(), before);
}

/// E13, E17: what undo writes to the disk is what git would check out.
#[test]
fn the_disk_is_as_git_would_check_it_out_whatever_the_attributes_say() {
    for (attributes, settings) in super::filters::SETTINGS {
        let what = format!("{attributes:?} {settings:?}");
        let mut vault = Vault::new();
        settings.iter().for_each(|(name, value)| drop(vault.git(&["config", name, value])));
        vault.write(".gitattributes", attributes);
        vault.write("stays.md", "stays\n");
        committed(&mut vault);
        let is_let_in = |vault: &Vault, path: &str| vault.committed(path).is_some();
        for (path, content) in super::filters::CONTENTS {
            vault.write(path, content);
        }
        committed(&mut vault);
        for (path, _) in super::filters::CONTENTS.iter().filter(|it| is_let_in(&vault, it.0)) {
            vault.remove(path);
        }
        let change = committed(&mut vault);
        let reader = vault.reader();
        let plan = |head| reader.plan_undo(head, &[change], None);
        let applied = vault.history().change(&plan, &Cause::edit(), &mut |_| {});
        assert!(matches!(applied, Ok(Applied::Done(..))), "{what}: {applied:?}");
        assert_eq!(vault.git(&["status", "--porcelain", "-uno"]), "", "{what}");
        let by_us = files_in_bytes(&vault);
        let tracked = vault.git(&["ls-files"]);
        let is_ours = |it: &&str| !it.starts_with(".git") && *it != "stays.md";
        tracked.lines().filter(is_ours).for_each(|it| vault.remove(it));
        vault.git(&["checkout", "-q", "--", "."]);
        assert_eq!(by_us, files_in_bytes(&vault), "{what}");
    }
}

fn files_in_bytes(vault: &Vault) -> Vec<(String, Vec<u8>)> {
    let bytes = |it: &VaultPath| std::fs::read(vault.root.join(it.as_path())).unwrap();
    vault.scan().found.iter().map(|it| (it.to_string(), bytes(it))).collect()
}

/// Run by itself as a child of the test below.
#[test]
fn child_that_is_killed() {
    let Some(root) = std::env::var_os("REMD_TEST_UNDO_VAULT") else { return };
    let options = Options { host: "testhost".into(), ..Options::default() };
    let mut history = History::open(&PathBuf::from(root), &options).unwrap();
    let change = history.head().unwrap().unwrap().commit;
    let reader = history.reader();
    let plan = |head| reader.plan_undo(head, &[change], None);
    let cause = Cause { kind: CauseKind::Undo, ..Cause::edit() };
    history.change(&plan, &cause, &mut |_| {}).unwrap();
}

#[test]
fn killed_anywhere_it_is_done_whole_or_not_at_all() {
    use std::os::unix::process::ExitStatusExt as _;
    for (point, is_done) in [
        ("swap.staged", false),
        ("swap.first", false),
        ("swap.all", false),
        ("committer.before_ref", false),
        ("committer.before_index", true),
        ("swap.committed", true),
    ] {
        let mut vault = Vault::new();
        for (path, text) in [("a.md", "a\n"), ("gone/b.md", "b\n"), ("c.md", "c\n")] {
            vault.write(path, text);
        }
        committed(&mut vault);
        let before = files(&vault);
        vault.write("a.md", "changed\n");
        vault.remove("gone/b.md");
        vault.write("made/d.md", "d\n");
        committed(&mut vault);
        let after = files(&vault);
        vault.history = None;
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "history::tests::undo::child_that_is_killed", "--test-threads=1"])
            .env("REMD_TEST_UNDO_VAULT", &vault.root)
            .env("REMD_FAULT", point)
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{point}");
        vault.reopen();
        let expected = if is_done { &before } else { &after };
        assert_eq!(&files(&vault), expected, "{point}");
        assert!(vault.snapshot_all().head.is_none(), "{point}: nothing is left to commit");
        vault.assert_clean();
        assert_eq!(vault.commits(), if is_done { 3 } else { 2 }, "{point}");
        assert!(!vault.history().place.own("swap").exists(), "{point}");
    }
}

fn files(vault: &Vault) -> Vec<(String, String)> {
    let text = |it: &VaultPath| std::fs::read_to_string(vault.root.join(it.as_path())).unwrap();
    vault.scan().found.iter().map(|it| (it.to_string(), text(it))).collect()
}

//! Edits of files: each kind is hinted by name, and what is no edit is not.

use std::io::Write as _;

use super::*;

/// Runs `edit` on a vault with the note `a.md` and expects hints for exactly `names`.
fn check(edit: impl FnOnce(&Trial), names: &[&str]) {
    let trial = Trial::new(|root| write(&root.join("a.md"), "one\n"));
    edit(&trial);
    let hints = trial.hints();
    let expected = Hints { paths: names.iter().map(|it| path(it)).collect(), ..Hints::default() };
    assert_eq!(hints, expected);
}

#[test]
fn every_way_to_save_is_hinted_by_name() {
    check(|it| it.write("a.md", "two\n"), &["a.md"]);
    check(|it| it.write("b.md", "new\n"), &["b.md"]);
    check(|it| it.remove("a.md"), &["a.md"]);
    check(|it| it.rename("a.md", "b.md"), &["a.md", "b.md"]);
    check(|it| set_mode(&it.root.join("a.md"), 0o755), &["a.md"]);
    check(|it| std::os::unix::fs::symlink("a.md", it.root.join("l.md")).unwrap(), &["l.md"]);
    check(
        |it| {
            let file = std::fs::OpenOptions::new().append(true).open(it.root.join("a.md"));
            file.unwrap().write_all(b"more\n").unwrap();
        },
        &["a.md"],
    );
    // Names that are not UTF-8, or look like options.
    check(|it| it.write("-rf\n.md", "new\n"), &["-rf\n.md"]);
}

#[test]
fn an_atomic_save_and_a_save_by_vim_hint_the_note() {
    let save = |it: &Trial| {
        it.write(".a.md.tmp-81f3", "two\n");
        it.rename(".a.md.tmp-81f3", "a.md");
    };
    check(save, &["a.md", ".a.md.tmp-81f3"]);
    // The probe, the backup, the new file, and the backup removed.
    let vim = |it: &Trial| {
        it.write(".a.md.swp", "swap");
        it.write("4913", "");
        it.remove("4913");
        it.rename("a.md", "a.md~");
        it.write("a.md", "two\n");
        it.remove("a.md~");
        it.remove(".a.md.swp");
    };
    check(vim, &["a.md", "4913"]);
}

/// The debouncer takes the note for created within its window and says nothing at all.
#[test]
fn a_note_saved_atomically_and_removed_at_once_is_hinted() {
    let gone = |it: &Trial| {
        it.write(".new", "two\n");
        it.rename(".new", "a.md");
        it.remove("a.md");
    };
    check(gone, &["a.md", ".new"]);
}

/// As before, but with nobody to flush: the names must not wait for a batch that never comes.
#[test]
fn what_the_debouncer_folds_away_is_handed_over_all_the_same() {
    let trial = Trial::new(|root| write(&root.join("a.md"), "one\n"));
    trial.write(".new", "two\n");
    trial.rename(".new", "a.md");
    trial.remove("a.md");
    trial.wait(|it| it.paths.contains(&path("a.md")));
}

#[test]
fn edits_are_handed_over_without_a_flush() {
    let trial = Trial::new(|_| {});
    trial.write("a.md", "one\n");
    trial.wait(|it| it.paths.contains(&path("a.md")));
    trial.write("deep/er/b.md", "one\n");
    trial.wait(|it| it.covers(&path("deep/er/b.md")));
}

#[test]
fn our_own_reading_temp_files_and_derived_state_are_no_events() {
    let trial = Trial::new(|root| {
        write(&root.join("n/a.md"), "one\n");
        write(&root.join("mem_metadata/x"), "");
    });
    std::fs::read(trial.root.join("n/a.md")).unwrap();
    std::fs::read_dir(&trial.root).unwrap().count();
    std::fs::read_dir(trial.root.join("n")).unwrap().count();
    std::fs::read(trial.root.join(".git/HEAD")).unwrap();
    for name in [".a.md.swp", "n/a.md~", "n/#a.md#", ".remd-tmp-1-1", "mem_metadata/y"] {
        trial.write(name, "noise");
        trial.write(name, "noise again");
    }
    std::os::unix::fs::symlink("me@host.1:2", trial.root.join("n/.#a.md")).unwrap();
    assert!(trial.watcher().check_alive(LIMIT));
    assert_eq!(trial.hints(), Hints::default());
}

/// D14: whatever order removals and creations come in, each name is looked at again.
#[test]
fn notes_removed_and_put_back_are_hinted_every_time() {
    let trial = Trial::new(|root| {
        write(&root.join("a.md"), "a\n");
        write(&root.join("b.md"), "b\n");
    });
    let [a, b] = ["a.md", "b.md"].map(path);
    for round in 0..100 {
        let kept = std::fs::read(trial.root.join("a.md")).unwrap();
        trial.remove("a.md");
        std::fs::write(trial.root.join("a.md"), kept).unwrap();
        let hints = trial.hints();
        assert_eq!(hints.paths, [a.clone()].into(), "round {round}");

        trial.rename("a.md", "t.md");
        trial.rename("b.md", "a.md");
        trial.rename("t.md", "b.md");
        let hints = trial.hints();
        assert!(hints.covers(&a) && hints.covers(&b), "round {round}");
    }
}

#[test]
fn git_moving_is_hinted_and_its_noise_is_not() {
    let trial = Trial::new(|_| {});
    let check = |edit: &dyn Fn(), git: bool| {
        edit();
        assert_eq!(trial.hints(), Hints { git, ..Hints::default() });
    };
    check(&|| trial.write(".git/HEAD", "ref: refs/heads/side\n"), true);
    check(&|| trial.write(".git/refs/heads/main", "1\n"), true);
    check(&|| trial.write(".git/refs/heads/feature/deep", "1\n"), true);
    check(&|| trial.write(".git/refs/heads/feature/deep", "2\n"), true);
    check(&|| trial.write(".git/index.lock", ""), false);
    check(&|| trial.rename(".git/index.lock", ".git/index"), true);
    check(&|| trial.write(".git/index.lock", ""), false);
    check(&|| trial.remove(".git/index.lock"), true);
    check(&|| trial.write(".git/FETCH_HEAD", "x"), false);
    check(&|| trial.write(".git/objects/ab/cdef", "x"), false);
    check(&|| trial.write(".git/refs/remd/wip/host", "x"), false);
    // Put aside and made anew, as by a fresh clone.
    std::fs::rename(trial.root.join(".git"), trial.away.join("git")).unwrap();
    assert!(trial.wait(|it| it.git).git);
    std::fs::create_dir_all(trial.root.join(".git/refs/heads")).unwrap();
    trial.wait(|it| it.git);
    check(&|| trial.write(".git/HEAD", "ref: refs/heads/main\n"), true);
}

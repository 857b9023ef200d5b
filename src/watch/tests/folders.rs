//! Folders that come, go, move, and those that are not entered.

use super::*;

fn has(hints: &Hints, name: &str) -> bool {
    hints.covers(&path(name))
}

/// The vault's own folder, `.git`, `refs` and `heads`.
const BARE: usize = 4;

/// D02.
#[test]
fn a_populated_folder_moved_in_and_renamed_is_followed() {
    let trial = Trial::new(|_| {});
    let note = "x/a/b/n1.md";
    write(&trial.away.join(note), "one\n");
    std::fs::rename(trial.away.join("x"), trial.root.join("x")).unwrap();
    assert!(has(&trial.hints(), note));
    assert_eq!(trial.watches(), BARE + 3);

    trial.write(note, "two\n");
    assert_eq!(trial.hints().paths, [path(note)].into());

    trial.rename("x", "y");
    let hints = trial.hints();
    assert!(has(&hints, note) && has(&hints, "y/a/b/n1.md"));
    assert_eq!(trial.watches(), BARE + 3);
    trial.write("y/a/b/n1.md", "three\n");
    assert_eq!(trial.hints().paths, [path("y/a/b/n1.md")].into());

    // There and back again.
    trial.rename("y", "z");
    trial.rename("z", "y");
    assert!(has(&trial.hints(), "y/a/b/n1.md"));
    trial.write("y/a/b/n1.md", "four\n");
    assert_eq!(trial.hints().paths, [path("y/a/b/n1.md")].into());
}

/// D03.
#[test]
fn a_folder_moved_out_is_hinted_once_and_left_alone() {
    let trial = Trial::new(|root| write(&root.join("x/a/b/n1.md"), "one\n"));
    assert_eq!(trial.watches(), BARE + 3);
    std::fs::rename(trial.root.join("x"), trial.away.join("x")).unwrap();
    assert!(has(&trial.hints(), "x/a/b/n1.md"));
    assert_eq!(trial.watches(), BARE);

    write(&trial.away.join("x/a/b/n1.md"), "outside\n");
    write(&trial.away.join("x/a/b/n2.md"), "outside\n");
    std::fs::create_dir(trial.away.join("x/new")).unwrap();
    assert_eq!(trial.hints(), Hints::default());
}

/// D04: folders made and filled at once. Every file is covered by the hints of one flush, and
/// every folder has its watch.
#[test]
fn bursts_of_new_folders_with_notes_lose_none() {
    for run in 0..5 {
        let trial = Trial::new(|_| {});
        let names: Vec<String> = (0..500)
            .map(|it| format!("x/{:02}/{it}-{run}/{}n.md", it % 20, "deep/er/".repeat(it % 2)))
            .collect();
        for name in &names {
            trial.write(name, "needle\n");
        }
        let hints = trial.hints();
        let missed: Vec<_> = names.iter().filter(|it| !has(&hints, it)).collect();
        assert!(missed.is_empty(), "run {run}: {missed:?}");
        // `x`, 20 in it, 500 in those, two more below each second one.
        assert_eq!(trial.watches(), BARE + 1 + 20 + 500 + 500, "run {run}");
        for name in names.iter().step_by(37) {
            trial.write(name, "again\n");
            assert_eq!(trial.hints().paths, [path(name)].into(), "run {run}");
        }
    }
}

/// D04, with writers that do not wait for anybody: whatever was on disk when a flush began is
/// covered when it returns.
#[test]
fn a_flush_in_the_middle_of_a_burst_covers_what_was_there() {
    let trial = Trial::new(|_| {});
    let written = Latest::new(0_usize);
    let name = |it: usize| format!("x/{it}/y{}/n.md", it % 7);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for it in 0..500 {
                trial.write(&name(it), "needle\n");
                written.set(it + 1);
            }
        });
        let mut said = Hints::default();
        while !writer.is_finished() {
            let there = written.get();
            said.merge(trial.hints());
            for it in 0..there {
                assert!(has(&said, &name(it)), "{} of {there}", name(it));
            }
        }
    });
}

/// D12: a watched folder that is removed and made again is seen again.
#[test]
fn a_folder_removed_and_made_again_is_watched_again() {
    let trial = Trial::new(|root| write(&root.join("notes/sub/a.md"), "one\n"));
    for round in 0..50 {
        std::fs::remove_dir_all(trial.root.join("notes")).unwrap();
        trial.write("notes/sub/a.md", "two\n");
        assert!(has(&trial.hints(), "notes/sub/a.md"), "round {round}");
        trial.write("notes/sub/a.md", "three\n");
        assert_eq!(trial.hints().paths, [path("notes/sub/a.md")].into(), "round {round}");
    }
    assert_eq!(trial.watches(), BARE + 2);
}

/// D10: loops and ways out cost nothing and lead nowhere.
#[test]
fn symlinks_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    let trial = Trial::new(|root| {
        std::fs::create_dir(root.join("d")).unwrap();
        for (target, link) in [(".", "loop"), ("..", "up"), ("/etc", "out"), ("../d", "d/self")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), root.join("beyond")).unwrap();
    });
    assert_eq!(trial.watches(), BARE + 1);
    write(&outside.path().join("a.md"), "outside\n");
    assert_eq!(trial.hints(), Hints::default());

    // One that appears later is a path, not a folder.
    std::os::unix::fs::symlink(outside.path(), trial.root.join("later")).unwrap();
    let hints = trial.hints();
    assert_eq!((hints.paths, hints.folders), ([path("later")].into(), [].into()));
    write(&outside.path().join("b.md"), "outside\n");
    assert_eq!(trial.hints(), Hints::default());
    assert_eq!(trial.watches(), BARE + 1);
}

#[test]
fn another_repository_is_watched_at_its_top_only() {
    let trial = Trial::new(|root| write(&root.join("sub/deep/a.md"), "one\n"));
    assert_eq!(trial.watches(), BARE + 2);
    // It becomes one: HEAD comes last, as after a move from elsewhere.
    let git = trial.away.join("git");
    for folder in ["objects", "refs"] {
        std::fs::create_dir_all(git.join(folder)).unwrap();
    }
    write(&git.join("HEAD"), "ref: refs/heads/main\n");
    std::fs::rename(&git, trial.root.join("sub/.git")).unwrap();
    assert!(has(&trial.hints(), "sub/deep/a.md"));
    assert_eq!(trial.watches(), BARE + 1);
    trial.write("sub/deep/a.md", "two\n");
    trial.write("sub/.git/index", "x");
    assert_eq!(trial.hints(), Hints::default());

    // And ceases to be one.
    std::fs::rename(trial.root.join("sub/.git"), &git).unwrap();
    assert!(has(&trial.hints(), "sub/deep/a.md"));
    assert_eq!(trial.watches(), BARE + 2);
    trial.write("sub/deep/a.md", "three\n");
    assert!(has(&trial.hints(), "sub/deep/a.md"));
}

#[test]
fn ignored_folders_have_no_watch_until_the_rules_change() {
    let trial = Trial::new(|root| {
        write(&root.join(".gitignore"), "node_modules\n");
        write(&root.join("node_modules/p/readme.md"), "p\n");
    });
    assert_eq!(trial.watches(), BARE);
    trial.write("node_modules/p/readme.md", "q\n");
    assert_eq!(trial.hints(), Hints::default());

    trial.write(".gitignore", "");
    assert!(has(&trial.hints(), "node_modules/p/readme.md"));
    assert_eq!(trial.watches(), BARE + 2);
    trial.write("node_modules/p/readme.md", "r\n");
    assert!(has(&trial.hints(), "node_modules/p/readme.md"));

    trial.write(".gitignore", "node_modules\n");
    trial.hints();
    assert_eq!(trial.watches(), BARE);
}

#[test]
fn a_folder_named_like_a_temp_file_is_a_folder() {
    let trial = Trial::new(|_| {});
    for name in ["old~/a.md", "#inbox#/a.md", "film.part/a.md", "4913/a.md"] {
        trial.write(name, "one\n");
        assert!(has(&trial.hints(), name), "{name}");
        trial.write(name, "two\n");
        assert_eq!(trial.hints().paths, [path(name)].into());
    }
}

//! Many new notes at once: packs, whole for git, and found again by a second try.

use std::path::PathBuf;

use super::*;

const MANY: usize = 600;

fn text(number: usize) -> String {
    // Some the same, one empty, one too long to lie in a pack of many.
    match number {
        0 => String::new(),
        1 => "long ".repeat(400_000),
        _ => format!("# Note {}\n\n{}\n", number % 500, "words ".repeat(number % 40)),
    }
}

fn objects(vault: &Vault, extension: &str) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(vault.path(".git/objects/pack"));
    let paths = folder.into_iter().flatten().map(|it| it.unwrap().path());
    paths.filter(|it| it.extension().is_some_and(|it| it == extension)).collect()
}

fn loose(vault: &Vault) -> usize {
    let count = vault.git(&["count-objects"]);
    count.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn many_new_notes_are_one_pack_and_a_few_are_files_of_their_own() {
    let mut vault = Vault::new();
    for number in 0..MANY {
        vault.write(format!("{}/{number}.md", number % 7), text(number));
    }
    assert_eq!(vault.snapshot_all().changes.len(), MANY);
    vault.assert_clean();
    vault.assert_sound();
    assert_eq!((objects(&vault, "pack").len(), objects(&vault, "idx").len()), (1, 1));
    // The long one, the trees and the commit.
    assert!(loose(&vault) < 20, "{}", loose(&vault));
    for number in [0, 1, 2, 499, 500, 599] {
        let path = format!("{}/{number}.md", number % 7);
        assert_eq!(vault.committed(&path).unwrap(), text(number), "{path}");
    }
    let pack = objects(&vault, "pack").remove(0);
    vault.git(&["verify-pack", pack.to_str().unwrap()]);

    let before = loose(&vault);
    for number in 0..9 {
        vault.write(format!("few/{number}.md"), format!("few {number}\n"));
    }
    vault.snapshot_all();
    assert_eq!(objects(&vault, "pack").len(), 1);
    assert!(loose(&vault) >= before + 9);
    vault.assert_clean();
    vault.assert_sound();
}

#[test]
fn what_a_killed_adoption_had_written_is_not_written_again() {
    let mut vault = Vault::new();
    for number in 0..MANY {
        vault.write(format!("{number}.md"), text(number));
    }
    // All contents are written, and then the commit is refused: as far as a kill lets it come.
    let lock = vault.path(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    assert!(vault.try_snapshot_all().is_err());
    assert_eq!(objects(&vault, "pack").len(), 1);
    std::fs::remove_file(&lock).unwrap();
    vault.reopen();
    assert_eq!(vault.snapshot_all().changes.len(), MANY);
    assert_eq!(objects(&vault, "pack").len(), 1);
    vault.assert_clean();
    vault.assert_sound();
}

#[test]
fn a_look_that_is_called_off_says_how_far_it_came_and_is_taken_up_again() {
    use std::sync::{Arc, Mutex};

    let mut vault = Vault::new();
    for number in 0..MANY * 2 {
        vault.write(format!("{number}.md"), format!("# Note {number}\n"));
    }
    let steps: Arc<Mutex<Vec<(usize, usize)>>> = Arc::default();
    let heard = Arc::clone(&steps);
    let stop = crate::base::process::Stop::default();
    let caller_off = stop.clone();
    let look = vault.scan();
    let options = vault.options.clone();
    let history = vault.history();
    history.set_options(Options { stop, ..options.clone() });
    history.on_progress(move |done, all| {
        heard.lock().unwrap().push((done, all));
        caller_off.set();
    });
    let stopped = history.snapshot(&look, &Cause::edit());
    assert!(matches!(stopped, Err(SnapshotError::Stopped)), "{stopped:?}");
    let steps = steps.lock().unwrap().clone();
    assert!(matches!(steps[..], [(done, all)] if done > 500 && all == MANY * 2), "{steps:?}");
    assert_eq!((vault.commits(), objects(&vault, "pack").len()), (0, 1));

    vault.history().set_options(options);
    assert_eq!(vault.snapshot_all().changes.len(), MANY * 2);
    assert_eq!(objects(&vault, "pack").len(), 2);
    vault.assert_clean();
}

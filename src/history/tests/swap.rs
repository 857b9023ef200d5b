//! Old and new change places: whole, or not at all, and never over what somebody saves meanwhile.

use std::io::Write as _;

use gix::objs::tree::EntryKind;

use super::*;
use crate::history::place::Place;
use crate::history::swap::{Swap, SwapError, Wanted};

fn put(path: &str, text: &str) -> (String, Option<String>) {
    (path.to_owned(), Some(text.to_owned()))
}

fn take(path: &str) -> (String, Option<String>) {
    (path.to_owned(), None)
}

fn stage<'a>(place: &'a Place, all: &[(String, Option<String>)]) -> Result<Swap<'a>, SwapError> {
    let blob = |text: &Option<String>| text.as_ref().map(|_| "some".to_owned());
    let wanted: Vec<Wanted> =
        all.iter().map(|it| Wanted { path: vault_path(&it.0), blob: blob(&it.1) }).collect();
    let mut content = |path: &VaultPath| {
        let text = all.iter().find(|it| it.0.as_bytes() == path.as_bytes()).unwrap().1.as_ref();
        Ok(text.map(|it| (it.as_bytes().to_vec(), EntryKind::Blob)))
    };
    Swap::stage(place, &wanted, &mut content)
}

fn vault() -> Vault {
    let mut vault = Vault::new();
    vault.write("a.md", "a\n");
    vault.write("b.md", "b\n");
    vault.write("d/c.md", "c\n");
    vault.snapshot_all();
    vault
}

/// All files with their texts, and what lies beside them.
fn files(vault: &Vault) -> Vec<(String, String)> {
    let text = |it: &VaultPath| std::fs::read_to_string(vault.root.join(it.as_path())).unwrap();
    vault.scan().found.iter().map(|it| (it.to_string(), text(it))).collect()
}

fn expected(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect()
}

#[test]
fn all_change_places_and_folders_come_and_go() {
    let mut vault = vault();
    let place = vault.history().place.clone();
    let wanted = [put("a.md", "new a\n"), take("d/c.md"), put("e/f/g.md", "g\n"), take("b.md")];
    stage(&place, &wanted).unwrap_or_else(|_| panic!("staged")).go().unwrap().end();
    assert_eq!(files(&vault), expected(&[("a.md", "new a\n"), ("e/f/g.md", "g\n")]));
    assert!(!vault.path("d").exists(), "an empty folder goes");
    let there_and_back = [put("e/f", "a file in the place of a folder\n"), take("e/f/g.md")];
    stage(&place, &there_and_back).unwrap_or_else(|_| panic!("staged")).go().unwrap().end();
    assert_eq!(vault.scan().found.len(), 2);
    assert!(vault.path("e/f").is_file());
}

#[test]
fn one_that_was_saved_meanwhile_keeps_all_as_they_were() {
    let mut vault = vault();
    let place = vault.history().place.clone();
    let wanted = [put("a.md", "new a\n"), take("d/c.md"), put("b.md", "new b\n"), put("n.md", "n")];
    for path in ["a.md", "b.md", "d/c.md", "n.md"] {
        let swap = stage(&place, &wanted).unwrap_or_else(|_| panic!("staged"));
        vault.write(path, "saved by a person\n");
        let Err(SwapError::Changed(changed)) = swap.go() else { panic!("{path}: went") };
        assert_eq!(changed, vault_path(path));
        let mut whole = vec![("a.md", "a\n"), ("b.md", "b\n"), ("d/c.md", "c\n"), ("n.md", "")];
        for it in &mut whole {
            if it.0 == path {
                it.1 = "saved by a person\n";
            }
        }
        whole.retain(|it| !it.1.is_empty());
        assert_eq!(files(&vault), expected(&whole), "{path}");
        for (path, text) in [("a.md", "a\n"), ("b.md", "b\n"), ("d/c.md", "c\n")] {
            vault.write(path, text);
        }
        let _gone = std::fs::remove_file(vault.path("n.md"));
    }
    assert!(!place.own("swap").exists());
}

#[test]
fn who_has_the_old_file_open_and_writes_on_is_not_lost() {
    let mut vault = vault();
    let place = vault.history().place.clone();
    let mut open = std::fs::File::options().append(true).open(vault.path("a.md")).unwrap();
    let mut gone = std::fs::File::options().append(true).open(vault.path("b.md")).unwrap();
    let wanted = [put("a.md", "new a\n"), take("b.md")];
    let swap = stage(&place, &wanted).unwrap_or_else(|_| panic!("staged")).go().unwrap();
    open.write_all(b"written on\n").unwrap();
    gone.write_all(b"written on\n").unwrap();
    swap.end();
    let whole = [("a.md", "a\nwritten on\n"), ("b.md", "b\nwritten on\n"), ("d/c.md", "c\n")];
    assert_eq!(files(&vault), expected(&whole));
}

#[test]
fn nothing_is_written_through_a_symlink() {
    let mut vault = vault();
    let place = vault.history().place.clone();
    let outside = vault.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, vault.path("link")).unwrap();
    let Err(SwapError::InTheWay(..)) = stage(&place, &[put("link/x.md", "x")]) else {
        panic!("staged")
    };
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(vault.scan().found.len(), 4, "nothing is left beside");
}

//! What cannot be adopted is refused, with the reason and the way out.

use super::*;

/// Opens `root`, which must be refused; gives what is said and the hint.
fn refused(root: &Path) -> (OpenError, String) {
    let options = Options { host: "testhost".into(), ..Options::default() };
    let err = History::open(root, &options).map(|_| ()).unwrap_err();
    let read = Reader::open(root).map(|_| ()).unwrap_err();
    assert_eq!(read.to_string(), err.to_string(), "reading is refused in the same words");
    let hint = err.hint().unwrap();
    (err, hint)
}

/// The words that a refusal and its hint must hold.
fn check(root: &Path, words: &[&str], hints: &[&str]) {
    let (err, hint) = refused(root);
    let mut said = err.to_string();
    let mut cause = std::error::Error::source(&err);
    while let Some(err) = cause {
        said = format!("{said}: {err}");
        cause = err.source();
    }
    assert!(words.iter().all(|it| said.contains(it)), "{said}");
    assert!(hints.iter().all(|it| hint.contains(it)), "{hint}");
}

fn append(path: PathBuf, text: &str) {
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(path, before + text).unwrap();
}

#[test]
fn shapes_of_repository_that_cannot_be_used() {
    let plain = Vault::plain();
    check(&plain.root, &["is not in a Git repository"], &["remd init"]);
    let bare = Vault::by_git(&["--bare"]);
    check(&bare.root, &["bare repository"], &["git clone"]);
    let vault = Vault::by_git(&[]);
    check(&vault.path(".git"), &["inside a repository's own"], &["folder with the notes"]);
    check(
        &vault.path(".git/refs/heads"),
        &["inside a repository's own"],
        &["folder with the notes"],
    );
    let reftable = Vault::by_git(&["--ref-format=reftable"]);
    check(&reftable.root, &["reftable"], &["refs migrate --ref-format=files"]);
    let elsewhere = Vault::by_git(&[]);
    std::fs::create_dir(elsewhere.dir.path().join("files")).unwrap();
    elsewhere.git(&["config", "core.worktree", "../../files"]);
    check(&elsewhere.root, &["core.worktree", "/files"], &["remd up", "/files"]);
}

#[test]
fn a_subfolder_that_its_repository_ignores_is_refused_with_the_choice() {
    // E10
    let vault = Vault::by_git(&[]);
    vault.write(".gitignore", "inner/\n");
    vault.write("inner/a.md", "a\n");
    check(&vault.path("inner"), &["is ignored by"], &["git init", "ignore rules"]);
    // The choice is one: a repository of its own is opened.
    git_command(&vault.path("inner"), &["init", "-q"]).status().unwrap();
    assert!(History::open(&vault.path("inner"), &vault.options).is_ok());
}

#[test]
fn formats_that_are_not_known() {
    let set = |settings: &[(&str, &str)]| {
        let vault = Vault::by_git(&[]);
        for (key, value) in settings {
            // Not by git, which goes away from a repository that it does not know.
            let (section, name) = key.split_once('.').unwrap();
            append(vault.path(".git/config"), &format!("[{section}]\n\t{name} = {value}\n"));
        }
        vault
    };
    let version = |it| ("core.repositoryFormatVersion", it);
    let newer = set(&[version("2")]);
    check(&newer.root, &["repository format version 2"], &["git clone"]);
    for (extension, value) in [("quantum", "true"), ("compatObjectFormat", "sha256")] {
        let key = format!("extensions.{extension}");
        let unknown = set(&[version("1"), (&key, value)]);
        let word = format!("the extension `{}`", extension.to_lowercase());
        check(&unknown.root, &[&word], &["git clone"]);
    }
    let format = set(&[version("1"), ("extensions.objectFormat", "sha512")]);
    check(&format.root, &["objectformat = sha512"], &["git clone"]);
    // As git does, before version 1.
    let old = set(&[("extensions.quantum", "true")]);
    assert!(History::open(&old.root, &old.options).is_ok());
    let known = set(&[
        version("1"),
        ("extensions.preciousObjects", "true"),
        ("extensions.relativeWorktrees", "true"),
        ("extensions.partialClone", "origin"),
    ]);
    assert!(History::open(&known.root, &known.options).is_ok());
}

#[test]
fn repositories_that_are_broken() {
    let config = Vault::by_git(&[]);
    append(config.path(".git/config"), "[core\n\tbroken\n");
    check(&config.root, &["settings in", "cannot be read", "parse"], &["git config --list --file"]);
    let headless = Vault::by_git(&[]);
    std::fs::remove_file(headless.path(".git/HEAD")).unwrap();
    check(
        &headless.root,
        &["no Git repository", "no `HEAD`"],
        &["Write it again", "ref: refs/heads/main"],
    );
    let empty = Vault::plain();
    std::fs::create_dir(empty.path(".git")).unwrap();
    check(&empty.root, &["no Git repository"], &["move it away"]);
    let text = Vault::plain();
    text.write(".git", "hello\n");
    check(&text.root, &["no Git repository", "gitdir:"], &["move it away"]);
    // Above the vault git looks past such a folder, and so do we.
    let outer = Vault::by_git(&[]);
    outer.write("a/b/n.md", "n\n");
    std::fs::create_dir(outer.path("a/.git")).unwrap();
    assert!(History::open(&outer.path("a/b"), &outer.options).is_ok());
}

#[test]
fn a_linked_work_tree_whose_repository_is_gone() {
    let mut vault = Vault::new();
    vault.write("a.md", "a\n");
    vault.snapshot_all();
    let linked = vault.dir.path().join("linked");
    vault.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    vault.history = None;
    std::fs::rename(&vault.root, vault.dir.path().join("moved")).unwrap();
    check(&linked, &["points to", "/.git/worktrees/linked"], &["git worktree repair"]);
    // The hint is true.
    let moved = vault.dir.path().join("moved");
    git_command(&moved, &["worktree", "repair", "../linked"]).output().unwrap();
    assert!(History::open(&linked, &vault.options).is_ok());
}

/// Owners can be changed by root only; as anybody else the files are somebody else's already.
fn give_away(path: &Path) {
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            give_away(&entry.path());
        } else {
            std::os::unix::fs::lchown(entry.path(), Some(12_345), Some(12_345)).unwrap();
        }
    }
    std::os::unix::fs::lchown(path, Some(12_345), Some(12_345)).unwrap();
}

#[test]
fn a_repository_of_another_user_is_refused_with_both_users_named() {
    // E14; what `safe.directory` changes is seen through the binary, which has a HOME of its own.
    let mut vault = Vault::new();
    vault.write("a.md", "a\n");
    vault.write("sub/b.md", "b\n");
    vault.snapshot_all();
    vault.history = None;
    give_away(&vault.root);
    let top = format!("safe.directory '{}'", vault.root.canonicalize().unwrap().display());
    let words = ["Owner mismatch", "belongs to user 12345", "runs as user"];
    check(&vault.root, &words, &[&top, "chown"]);
    // The command names the folder that git asks for, also from below.
    check(&vault.path("sub"), &words, &[&top]);
    // Only the folder, not its `.git`, and the other way round.
    let mut vault = Vault::new();
    vault.history = None;
    std::os::unix::fs::lchown(&vault.root, Some(12_345), None).unwrap();
    check(&vault.root, &words, &["safe.directory"]);
    let mut vault = Vault::new();
    vault.history = None;
    std::os::unix::fs::lchown(vault.path(".git"), Some(12_345), None).unwrap();
    check(&vault.root, &words, &["safe.directory"]);
}

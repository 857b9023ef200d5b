//! What cannot be adopted: refused with the reason and the way out, and nothing made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::adopt::{digest, git, house, repository, write};
use crate::house::{House, Said};

/// `remd up` that must be refused, with these words in the reason and in the hint.
fn refused(house: &House, vault: &Path, words: &[&str]) -> Said {
    let home = digest(&house.root(), &["run", "home"]);
    for command in [&["up", "--no-mount"][..], &["init"], &["up", "--no-mount", "--dry-run"]] {
        let mut args: Vec<_> = command.iter().map(|it| (*it).to_owned()).collect();
        args.push(vault.to_str().unwrap().to_owned());
        let said = house.run(&args);
        assert_eq!(said.code, 2, "{args:?}: {}{}", said.stdout, said.stderr);
        for word in words.iter().chain(&["hint:"]) {
            assert!(said.stderr.contains(word), "{args:?}, wanted {word}: {}", said.stderr);
        }
    }
    assert_eq!(digest(&house.root(), &["run", "home"]), home, "a refusal makes nothing");
    house.run(["up", "--no-mount", vault.to_str().unwrap()])
}

#[test]
fn what_cannot_be_adopted_is_refused_with_the_reason_and_the_way_out() {
    let house = house();
    let root = house.root();
    let at = |name: &str| root.join(name);
    let init = |name: &str, arguments: &[&str]| {
        fs::create_dir_all(at(name)).unwrap();
        git(&house, &at(name), &[&["init", "-q"], arguments].concat());
        write(&at(name), "note.md", "note\n");
    };
    init("reftable", &["--ref-format=reftable"]);
    refused(&house, &at("reftable"), &["reftable", "git -C", "refs migrate"]);
    git(&house, &root, &["init", "-q", "--bare", "bare.git"]);
    refused(&house, &at("bare.git"), &["bare repository", "git clone"]);
    init("plain", &[]);
    refused(&house, &at("plain/.git"), &["inside a repository's own", "folder with the notes"]);
    refused(&house, &at("plain/.git/objects"), &["inside a repository's own"]);
    init("future", &[]);
    git(&house, &at("future"), &["config", "core.repositoryFormatVersion", "9"]);
    refused(&house, &at("future"), &["repository format version 9"]);
    init("broken", &[]);
    let config = at("broken/.git/config");
    fs::write(&config, fs::read_to_string(&config).unwrap() + "[half\n").unwrap();
    refused(&house, &at("broken"), &["settings in", "git config --list --file"]);
    init("parent", &[]);
    write(&at("parent"), ".gitignore", "/notes/\n");
    write(&at("parent/notes"), "note.md", "note\n");
    refused(&house, &at("parent/notes"), &["is ignored by", "git init", "ignore rules"]);
    refused(&house, &at("plain/note.md"), &["is not a folder"]);
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    refused(&house, &at("dangling"), &["leads nowhere"]);
    write(&at("lost"), ".git", "gitdir: ../gone/.git/worktrees/lost\n");
    refused(&house, &at("lost"), &["points to", "git worktree repair"]);
}

fn give_away(house: &House, path: &Path) {
    let given = Command::new("chown").args(["-R", "12345:12345"]).arg(path).status().unwrap();
    assert!(given.success(), "this test needs root: {}", house.root().display());
}

/// E14: a foreign repository runs with all of its settings, or not at all.
#[test]
fn another_user_s_repository_is_refused_or_fully_trusted() {
    let mut house = house();
    repository(&house, &house.vault, &["-b", "main"]);
    git(&house, &house.vault, &["config", "core.autocrlf", "input"]);
    give_away(&house, &house.vault);
    let said = refused(&house, &house.vault, &["wner mismatch", "12345", "safe.directory"]);
    // The command of the hint is all it takes; and so are git's other ways to say it.
    let hint = said.stderr.lines().find(|it| it.contains("hint:")).unwrap();
    let exact = hint.split('\'').nth(1).unwrap().to_owned();
    assert_eq!(Path::new(&exact), house.vault);
    let above = format!("{}/*", house.root().display());
    for (number, trusted) in [exact.as_str(), "*", above.as_str()].into_iter().enumerate() {
        let config = format!("[safe]\n\tdirectory = {trusted}\n");
        fs::write(house.root().join("home/.gitconfig"), config).unwrap();
        house.start();
        house.write(format!("crlf{number}.md"), "one\r\ntwo\r\n");
        house.settle();
        // Not a reduced trust, under which the repository's own settings are dropped.
        assert_eq!(house.in_head(&format!("crlf{number}.md")), b"one\ntwo\n", "{trusted}");
        assert_eq!(house.git(["status", "--porcelain"]), "", "{trusted}");
        house.stop();
    }
    // An empty entry takes back what was said before it, as in git.
    let config = "[safe]\n\tdirectory = *\n\tdirectory =\n";
    fs::write(house.root().join("home/.gitconfig"), config).unwrap();
    refused(&house, &house.vault, &["wner mismatch"]);
}

/// The same seen from the other side: root's repository, run by somebody else.
#[test]
fn an_ordinary_user_is_refused_root_s_repository_and_what_it_may_not_read() {
    let house = house();
    let root = house.root();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    repository(&house, &house.vault, &["-b", "main"]);
    let hidden = root.join("hidden");
    repository(&house, &hidden, &["-b", "main"]);
    fs::set_permissions(hidden.join(".git"), fs::Permissions::from_mode(0o700)).unwrap();
    // Where nobody but root gets to the build's folder, a copy will do.
    let binary = root.join("remd");
    crate::house::copy_program(&binary);
    fs::create_dir(root.join("theirs")).unwrap();
    give_away(&house, &root.join("theirs"));
    for (vault, word) in [(&house.vault, "Owner mismatch"), (&hidden, "ermission denied")] {
        let said = Command::new("setpriv")
            .args(["--reuid=12345", "--regid=12345", "--clear-groups"])
            .arg(&binary)
            .arg("up")
            .arg("--no-mount")
            .arg(vault)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", root.join("theirs"))
            .current_dir(&root)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && text.contains(word), "{word}: {text}");
        assert!(text.contains("hint:"), "{text}");
    }
}

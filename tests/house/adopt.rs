//! Vaults that people have, adopted as they are: nothing of theirs is moved or written anew.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::house::{House, wait_for};

/// A house whose agent mounts nothing, unless a test says otherwise.
pub fn house() -> House {
    let mut house = House::closed();
    house.args(["--no-mount"]);
    house
}

/// `git` anywhere, as the person of the house; must succeed.
pub fn git(house: &House, at: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", house.root().join("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(["-c", "protocol.file.allow=always"])
        .current_dir(at)
        .args(arguments)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?} in {}: {error}", at.display());
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

pub fn write(at: &Path, path: &str, text: &str) {
    let path = at.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A repository with two commits and three notes.
pub fn repository(house: &House, at: &Path, init: &[&str]) {
    fs::create_dir_all(at).unwrap();
    git(house, at, &[&["init", "-q"], init].concat());
    write(at, "old.md", "# Old\n\nThe word quagga stands here.\n");
    write(at, "deep/er/note.md", "deep\n");
    git(house, at, &["add", "-A"]);
    git(house, at, &["commit", "-q", "-m", "first"]);
    write(at, "deep/er/note.md", "deeper\n");
    git(house, at, &["commit", "-q", "-a", "-m", "second"]);
}

/// Every file below a folder but for these names: inode, mode, times and content.
pub fn digest(root: &Path, without: &[&str]) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap();
            if without.iter().any(|it| *it == name) {
                continue;
            }
            let meta = path.symlink_metadata().unwrap();
            let content = match () {
                () if meta.is_dir() => {
                    waiting.push(path.clone());
                    String::new()
                }
                () if meta.is_symlink() => format!("{:?}", fs::read_link(&path).unwrap()),
                () => format!("{} {:?}", meta.mtime_nsec(), fs::read(&path).unwrap()),
            };
            all.insert(path, format!("{} {:o} {content}", meta.ino(), meta.mode()));
        }
    }
    all
}

/// Prepares a vault in the house.
type Build = fn(&mut House);

const KINDS: &[(&str, Build)] = &[
    ("a plain folder", |house| {
        write(&house.vault, "old.md", "The word quagga stands here.\n");
        write(&house.vault, "deep/er/note.md", "deep\n");
    }),
    ("any branch", |house| repository(house, &house.vault, &["-b", "feature/größe/日本語"])),
    ("an unborn branch", |house| {
        write(&house.vault, "old.md", "The word quagga stands here.\n");
        write(&house.vault, "deep/er/note.md", "deep\n");
        git(house, &house.vault, &["init", "-q", "-b", "trunk"]);
    }),
    ("a linked work tree", |house| {
        let main = house.root().join("main");
        repository(house, &main, &["-b", "main"]);
        git(house, &main, &["worktree", "add", "-q", "-b", "side", "../memory"]);
    }),
    ("a submodule", |house| {
        let (inner, outer) = (house.root().join("inner"), house.root().join("outer"));
        repository(house, &inner, &["-b", "main"]);
        repository(house, &outer, &["-b", "main"]);
        git(house, &outer, &["submodule", "add", "-q", "../inner", "notes"]);
        git(house, &outer, &["commit", "-q", "-m", "with a submodule"]);
        house.vault = outer.join("notes");
    }),
    ("a git directory elsewhere", |house| {
        let apart = house.root().join("apart.git");
        let apart = apart.to_str().unwrap();
        repository(house, &house.vault, &["-b", "main", "--separate-git-dir", apart]);
    }),
    ("SHA-256", |house| {
        repository(house, &house.vault, &["-b", "main", "--object-format=sha256"]);
    }),
    ("a split index, packed", |house| {
        repository(house, &house.vault, &["-b", "main"]);
        git(house, &house.vault, &["config", "feature.manyFiles", "true"]);
        git(house, &house.vault, &["config", "core.splitIndex", "true"]);
        // Git itself cannot read a split index without a checksum.
        git(house, &house.vault, &["config", "index.skipHash", "false"]);
        git(house, &house.vault, &["gc", "-q"]);
        git(house, &house.vault, &["update-index", "--really-refresh"]);
    }),
    ("a subfolder", |house| {
        let top = house.root().join("top");
        repository(house, &top.join("notes"), &["-b", "main"]);
        fs::rename(top.join("notes/.git"), top.join(".git")).unwrap();
        git(house, &top, &["add", "-A"]);
        git(house, &top, &["commit", "-q", "-m", "moved"]);
        house.vault = top.join("notes");
    }),
    ("a shallow clone", |house| {
        let other = house.root().join("other");
        repository(house, &other, &["-b", "main"]);
        let url = format!("file://{}", other.display());
        git(house, &house.root(), &["clone", "-q", "--depth", "1", &url, "memory"]);
        fs::rename(other, house.root().join("unreachable")).unwrap();
    }),
    ("a partial clone", |house| {
        let other = house.root().join("other");
        repository(house, &other, &["-b", "main"]);
        git(house, &other, &["config", "uploadpack.allowFilter", "true"]);
        let url = format!("file://{}", other.display());
        git(house, &house.root(), &["clone", "-q", "--filter=blob:none", &url, "memory"]);
        fs::rename(other, house.root().join("unreachable")).unwrap();
    }),
];

/// Adopts, edits, restarts; git and search agree at every step.
fn check(name: &str, build: Build) {
    let mut house = house();
    build(&mut house);
    let ours = [".git", "mem_metadata"];
    let before = digest(&house.vault, &ours);
    let log = |house: &House| -> Vec<String> {
        let said = Command::new("git")
            .args(["log", "--format=%H"])
            .current_dir(&house.vault)
            .output()
            .unwrap();
        String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect()
    };
    let log_before = log(&house);
    house.start();
    house.settle_and_check();
    assert_eq!(digest(&house.vault, &ours), before, "{name}: nothing is touched");
    assert_eq!(house.found("quagga"), ["old.md"], "{name}");
    write(&house.vault, "new/über.md", "The word okapi stands here.\n");
    write(&house.vault, "old.md", "The word bongo stands here.\n");
    house.settle_and_check();
    assert_eq!(house.found("okapi"), ["new/über.md"], "{name}");
    assert_eq!((house.found("bongo").len(), house.found("quagga").len()), (1, 0), "{name}");
    assert!(log(&house).ends_with(&log_before), "{name}: the history before is as it was");
    assert_eq!(house.status()["verdict"], "ok", "{name}: {}", house.status());
    // Stopped, edited, started: found again, and no commit for nothing.
    assert_eq!(house.stop(), Some(0), "{name}\n{}", house.log());
    write(&house.vault, "new/über.md", "The word nyala stands here.\n");
    assert_eq!(house.status()["verdict"], "stopped", "{name}");
    house.start();
    house.settle_and_check();
    assert_eq!(house.found("nyala"), ["new/über.md"], "{name}");
    let commits = log(&house).len();
    house.stop();
    house.start();
    house.settle_and_check();
    assert_eq!(log(&house).len(), commits, "{name}");
    let said = house.run(["log", "--json", "-n", "1"]);
    assert!(said.stdout.contains(&log(&house)[0]), "{name}: {}", said.stdout);
    let short = &log(&house)[0][..9];
    assert_eq!(house.run(["show", short]).code, 0, "{name}");
}

#[test]
fn every_kind_of_vault_is_adopted_edited_and_searched() {
    std::thread::scope(|scope| {
        for part in KINDS.chunks(KINDS.len().div_ceil(4)) {
            scope.spawn(|| part.iter().for_each(|(name, build)| check(name, *build)));
        }
    });
}

#[test]
fn staged_work_on_an_unborn_branch_stays_staged() {
    let mut house = house();
    write(&house.vault, "note.md", "note\n");
    write(&house.vault, "half.md", "half\n");
    git(&house, &house.vault, &["init", "-q", "-b", "trunk"]);
    git(&house, &house.vault, &["add", "half.md"]);
    house.start();
    wait_for("the first commit", || house.status()["head"]["branch"] == "trunk");
    assert_eq!(house.head_paths(), [b"note.md"]);
    assert_eq!(house.git(["status", "--porcelain"]), "A  half.md");
    assert_eq!(house.status()["pending"]["kept_out"][0]["path"], "half.md");
    house.git(["commit", "-q", "-m", "mine"]);
    house.settle_and_check();
    assert_eq!(house.head_paths().len(), 2);
}

/// Variables of a hook's shell lead git elsewhere, and the agent nowhere.
#[test]
fn the_environment_leads_to_no_other_repository() {
    let mut house = house();
    let other = house.root().join("other");
    repository(&house, &house.vault, &["-b", "main"]);
    repository(&house, &other, &["-b", "main"]);
    let before = digest(&other, &[]);
    for (name, value) in [
        ("GIT_DIR", other.join(".git")),
        ("GIT_WORK_TREE", other.clone()),
        ("GIT_INDEX_FILE", other.join(".git/index")),
        ("GIT_OBJECT_DIRECTORY", other.join(".git/objects")),
        ("GIT_COMMON_DIR", other.join(".git")),
        ("GIT_NAMESPACE", PathBuf::from("elsewhere")),
        ("GIT_CEILING_DIRECTORIES", house.root()),
        ("GIT_PREFIX", PathBuf::from("deep/")),
    ] {
        house.env(name, value.to_str().unwrap());
    }
    house.start();
    write(&house.vault, "new.md", "The word okapi stands here.\n");
    house.settle_and_check();
    assert_eq!(house.found("okapi"), ["new.md"]);
    assert_eq!(house.run(["log", "-n", "1"]).code, 0);
    assert!(house.git(["log", "-1", "--format=%s"]).contains("new.md"));
    assert_eq!(digest(&other, &[]), before);
}

/// E10: the parent's staged and unstaged work is none of ours, also while it is being rebased.
#[test]
fn a_subfolder_leaves_its_parent_alone_even_in_a_rebase() {
    let mut house = house();
    let top = house.root().join("top");
    fs::create_dir_all(&top).unwrap();
    git(&house, &top, &["init", "-q", "-b", "main"]);
    for path in ["src.c", "half.c", "vault/note.md"] {
        write(&top, path, "one\n");
    }
    git(&house, &top, &["add", "-A"]);
    git(&house, &top, &["commit", "-q", "-m", "base"]);
    git(&house, &top, &["switch", "-q", "-c", "side"]);
    write(&top, "src.c", "side\n");
    git(&house, &top, &["commit", "-q", "-a", "-m", "side"]);
    git(&house, &top, &["switch", "-q", "main"]);
    write(&top, "src.c", "main\n");
    git(&house, &top, &["commit", "-q", "-a", "-m", "main"]);
    write(&top, "src.c", "half done\n");
    write(&top, "half.c", "staged\n");
    write(&top, "new.c", "not added\n");
    git(&house, &top, &["add", "half.c"]);
    house.vault = top.join("vault");
    house.start();
    write(&house.vault, "note.md", "The word okapi stands here.\n");
    house.settle();
    assert_eq!(git(&house, &top, &["show", "--name-only", "--format=", "HEAD"]), "vault/note.md");
    let theirs = "M  half.c\n M src.c\n?? new.c";
    assert_eq!(git(&house, &top, &["status", "--porcelain"]), theirs);
    assert_eq!(git(&house, &top, &["show", ":half.c"]), "staged");
    assert!(!top.join("vault/.git").exists() && !top.join(".gitignore").exists());

    // The parent stops in the middle of a rebase: notes wait, and come after it.
    git(&house, &top, &["stash", "-q", "-u"]);
    let rebase = Command::new("git").args(["rebase", "side"]).current_dir(&top).output().unwrap();
    assert!(!rebase.status.success() && top.join(".git/rebase-merge").exists());
    let head = git(&house, &top, &["rev-parse", "HEAD"]);
    write(&house.vault, "note.md", "The word nyala stands here.\n");
    wait_for("the agent to wait", || {
        house.status()["pending"]["waiting_for"].as_str().is_some_and(|it| it.contains("rebase"))
    });
    assert_eq!(git(&house, &top, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&house, &top, &["diff", "--name-only", "--diff-filter=U"]), "src.c");
    git(&house, &top, &["checkout", "-q", "vault/note.md"]);
    git(&house, &top, &["rebase", "--abort"]);
    write(&house.vault, "note.md", "The word bongo stands here.\n");
    house.settle();
    assert_eq!(git(&house, &top, &["show", "--name-only", "--format=", "HEAD"]), "vault/note.md");
    git(&house, &top, &["stash", "pop", "-q", "--index"]);
    assert_eq!(git(&house, &top, &["status", "--porcelain"]), theirs);
    assert_eq!(house.found("bongo"), ["note.md"]);
}

#[test]
fn init_twice_is_harmless_and_a_dry_run_makes_nothing() {
    for (name, build) in KINDS {
        let mut house = house();
        build(&mut house);
        let vault = house.vault.to_str().unwrap().to_owned();
        let before = digest(&house.root(), &["run"]);
        let said = house.run(["up", "--dry-run", &vault]);
        assert_eq!(said.code, 0, "{name}: {}", said.stderr);
        assert_eq!(digest(&house.root(), &["run"]), before, "{name}");
        let word = match *name {
            "a plain folder" => "would make the folder",
            "any branch" => "branch `feature/größe/日本語`",
            "an unborn branch" => "`trunk` has no commit yet",
            "a linked work tree" => "linked work tree",
            "SHA-256" => "SHA-256",
            "a subfolder" => "nothing outside it is committed",
            "a shallow clone" => "shallow clone",
            "a partial clone" => "partial clone",
            _ => "would use the repository",
        };
        assert!(said.stdout.contains(word), "{name}: {}", said.stdout);
        assert!(said.stdout.contains("layout default"), "{name}: {}", said.stdout);
        let first = house.run(["init", &vault]);
        assert_eq!(first.code, 0, "{name}: {}", first.stderr);
        let head = house.git(["rev-parse", "HEAD"]);
        let before = digest(&house.vault, &[]);
        let second = house.run(["init", &vault]);
        assert_eq!(second.code, 0, "{name}: {}", second.stderr);
        assert!(second.stderr.contains("already a vault"), "{name}: {}", second.stderr);
        assert_eq!(house.git(["rev-parse", "HEAD"]), head, "{name}");
        assert_eq!(digest(&house.vault, &[]), before, "{name}");
        house.git(["fsck", "--strict"]);
    }
}

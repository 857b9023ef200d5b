//! Every shape of repository that people have is adopted as it is.

use std::collections::BTreeMap;

use super::*;

/// Makes the repository in a temp folder and gives the vault's folder.
type Build = fn(&Path) -> PathBuf;

/// `git` that must succeed.
fn git(at: &Path, arguments: &[&str]) -> String {
    let output = git_command(at, arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?} in {}: {error}", at.display());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write(at: &Path, path: &str, text: &str) {
    let path = at.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A repository with two commits, as a person made it.
fn repository(at: &Path, init: &[&str]) -> PathBuf {
    std::fs::create_dir_all(at).unwrap();
    git(at, &[&["init", "-q"], init].concat());
    for (path, text) in [("old.md", "old\n"), ("deep/er/note.md", "deep\n"), ("gone.md", "gone\n")]
    {
        write(at, path, text);
    }
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "-m", "first"]);
    write(at, "old.md", "older\n");
    git(at, &["commit", "-q", "-a", "-m", "second"]);
    at.to_owned()
}

fn main_repository(dir: &Path) -> PathBuf {
    repository(&dir.join("vault"), &["-b", "main"])
}

fn configured(dir: &Path, settings: &[(&str, &str)]) -> PathBuf {
    let vault = main_repository(dir);
    for (key, value) in settings {
        git(&vault, &["config", key, value]);
    }
    // Git writes its index by the new settings.
    git(&vault, &["update-index", "--really-refresh", "--force-write-index"]);
    git(&vault, &["status"]);
    vault
}

const SHAPES: &[(&str, Build)] = &[
    ("a folder without a repository", |dir| {
        let vault = dir.join("vault");
        write(&vault, "old.md", "old\n");
        write(&vault, "gone.md", "gone\n");
        write(&vault, "deep/er/note.md", "deep\n");
        History::init(&vault, &Options::default()).unwrap();
        vault
    }),
    ("a branch with slashes and letters of every kind", |dir| {
        repository(&dir.join("vault"), &["-b", "feature/größe/日本語-🔥"])
    }),
    ("an unborn branch", |dir| {
        let vault = dir.join("vault");
        write(&vault, "old.md", "old\n");
        write(&vault, "gone.md", "gone\n");
        write(&vault, "deep/er/note.md", "deep\n");
        git(&vault, &["init", "-q", "-b", "trunk/new"]);
        vault
    }),
    ("a linked work tree", |dir| {
        let main = repository(&dir.join("main"), &["-b", "main"]);
        git(&main, &["worktree", "add", "-q", "-b", "side", "../vault"]);
        dir.join("vault")
    }),
    ("a linked work tree whose main one moved and was mended", |dir| {
        let main = repository(&dir.join("main"), &["-b", "main"]);
        git(&main, &["worktree", "add", "-q", "-b", "side", "../vault"]);
        std::fs::rename(main, dir.join("elsewhere")).unwrap();
        git(&dir.join("elsewhere"), &["worktree", "repair", "../vault"]);
        dir.join("vault")
    }),
    ("a linked work tree with settings of its own", |dir| {
        let main = repository(&dir.join("main"), &["-b", "main"]);
        git(&main, &["config", "extensions.worktreeConfig", "true"]);
        git(&main, &["worktree", "add", "-q", "-b", "side", "../vault"]);
        git(&dir.join("vault"), &["config", "--worktree", "core.autocrlf", "input"]);
        dir.join("vault")
    }),
    ("core.worktree in a folder below", |dir| {
        let top = dir.join("top");
        std::fs::create_dir_all(top.join("vault")).unwrap();
        git(&top, &["init", "-q", "-b", "main"]);
        git(&top, &["config", "core.worktree", "../vault"]);
        let vault = top.join("vault");
        for name in ["old.md", "gone.md", "deep/er/note.md"] {
            write(&vault, name, name);
        }
        git(&vault, &["add", "-A"]);
        git(&vault, &["commit", "-q", "-m", "first"]);
        vault
    }),
    ("a submodule", |dir| {
        let inner = repository(&dir.join("inner"), &["-b", "main"]);
        let outer = repository(&dir.join("outer"), &["-b", "main"]);
        let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"];
        git(&outer, &[&add[..], &[inner.to_str().unwrap(), "vault"]].concat());
        git(&outer, &["commit", "-q", "-m", "with a submodule"]);
        outer.join("vault")
    }),
    ("a git directory elsewhere", |dir| {
        let git_dir = dir.join("kept apart.git");
        repository(
            &dir.join("vault"),
            &["-b", "main", "--separate-git-dir", git_dir.to_str().unwrap()],
        )
    }),
    ("a `.git` that is a symlink", |dir| {
        let vault = main_repository(dir);
        std::fs::rename(vault.join(".git"), dir.join("real.git")).unwrap();
        std::os::unix::fs::symlink("../real.git", vault.join(".git")).unwrap();
        vault
    }),
    ("a split index", |dir| {
        configured(dir, &[("core.splitIndex", "true"), ("splitIndex.maxPercentChange", "0")])
    }),
    ("a split index of which parts change", |dir| {
        configured(dir, &[("core.splitIndex", "true"), ("splitIndex.maxPercentChange", "100")])
    }),
    ("a split index of version 4", |dir| {
        // Git itself cannot read a split index without a checksum.
        let skip_hash = ("index.skipHash", "false");
        configured(dir, &[("feature.manyFiles", "true"), skip_hash, ("core.splitIndex", "true")])
    }),
    ("an untracked cache", |dir| configured(dir, &[("core.untrackedCache", "true")])),
    ("a file system monitor", |dir| {
        let hook = dir.join("monitor");
        std::fs::write(&hook, "#!/bin/sh\nprintf 'token\\0/\\0'\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&hook, executable).unwrap();
        configured(dir, &[("core.fsmonitor", hook.to_str().unwrap())])
    }),
    ("many files' settings", |dir| configured(dir, &[("feature.manyFiles", "true")])),
    ("index version 2", |dir| with_index_version(dir, "2")),
    ("index version 3", |dir| {
        let vault = with_index_version(dir, "2");
        git(&vault, &["update-index", "--skip-worktree", "deep/er/note.md"]);
        vault
    }),
    ("index version 4", |dir| with_index_version(dir, "4")),
    ("an index without a checksum", |dir| configured(dir, &[("index.skipHash", "true")])),
    ("everything packed", |dir| {
        let vault = main_repository(dir);
        git(&vault, &["repack", "-q", "-a", "-d", "--write-midx", "--write-bitmap-index"]);
        git(&vault, &["commit-graph", "write", "--reachable", "--changed-paths"]);
        git(&vault, &["pack-refs", "--all", "--prune"]);
        git(&vault, &["prune-packed"]);
        vault
    }),
    ("objects of another repository", |dir| {
        let other = repository(&dir.join("other"), &["-b", "main"]);
        git(&other, &["gc", "-q"]);
        git(dir, &["clone", "-q", "--shared", "other", "vault"]);
        assert!(dir.join("vault/.git/objects/info/alternates").exists());
        dir.join("vault")
    }),
    ("SHA-256", |dir| repository(&dir.join("vault"), &["-b", "main", "--object-format=sha256"])),
    ("a subfolder", |dir| {
        let top = dir.join("top");
        repository(&top.join("x"), &["-b", "main"]);
        std::fs::rename(top.join("x/.git"), top.join(".git")).unwrap();
        std::fs::rename(top.join("x"), top.join("vault notes")).unwrap();
        git(&top, &["add", "-A"]);
        git(&top, &["commit", "-q", "-m", "moved"]);
        top.join("vault notes")
    }),
    ("a shallow clone", |dir| {
        let other = repository(&dir.join("other"), &["-b", "main"]);
        let url = format!("file://{}", other.display());
        git(dir, &["clone", "-q", "--depth", "1", &url, "vault"]);
        assert!(dir.join("vault/.git/shallow").exists());
        // Whoever went to the network now would fail.
        std::fs::remove_dir_all(other).unwrap();
        dir.join("vault")
    }),
    ("a partial clone without its remote", |dir| {
        let other = repository(&dir.join("other"), &["-b", "main"]);
        git(&other, &["config", "uploadpack.allowFilter", "true"]);
        let url = format!("file://{}", other.display());
        git(dir, &["clone", "-q", "--filter=blob:none", &url, "vault"]);
        std::fs::remove_dir_all(other).unwrap();
        dir.join("vault")
    }),
];

fn with_index_version(dir: &Path, version: &str) -> PathBuf {
    let vault = main_repository(dir);
    git(&vault, &["update-index", "--index-version", version]);
    vault
}

/// Every file of the person below a folder: type, mode, time and content.
fn digest(root: &Path) -> BTreeMap<PathBuf, String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut all = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if path.file_name().is_some_and(|it| it == ".git") {
                continue;
            }
            let content = match () {
                () if meta.is_dir() => {
                    waiting.push(path.clone());
                    String::new()
                }
                () if meta.is_symlink() => format!("{:?}", std::fs::read_link(&path).unwrap()),
                () => format!("{:?}", std::fs::read(&path).unwrap()),
            };
            let state = (meta.ino(), meta.mode(), meta.mtime_nsec(), content);
            all.insert(path, format!("{state:?}"));
        }
    }
    all
}

fn log(vault: &Vault) -> Vec<String> {
    let log = vault.try_git(&["log", "--format=%H %s"]).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

fn check(name: &str, build: Build) {
    let mut vault = Vault::plain();
    std::fs::remove_dir(&vault.root).unwrap();
    vault.root = build(vault.dir.path());
    let branch = vault.git(&["symbolic-ref", "HEAD"]);
    let (files, log_before) = (digest(&vault.root), log(&vault));
    vault.reopen();
    vault.snapshot_all();
    assert_eq!(digest(&vault.root), files, "{name}: nothing of the person is touched");
    let log_after = log(&vault);
    let (ours, theirs) = log_after.split_at(log_after.len() - log_before.len());
    assert_eq!(theirs, log_before, "{name}: the history before is as it was");
    assert!(ours.len() <= 1, "{name}: {ours:?}");
    assert_clean(name, &vault);

    for round in 0..3 {
        vault.write("old.md", format!("edited {round}\n"));
        vault.write(format!("new/{round}.md"), format!("new {round}\n"));
        if round == 1 {
            vault.remove("gone.md");
            std::fs::rename(vault.path("new/0.md"), vault.path("moved.md")).unwrap();
        }
        let snapshot = vault.snapshot_all();
        assert_eq!(snapshot.kept_out, [], "{name}");
        let head = snapshot.head.unwrap();
        assert_eq!(head.commit.to_string(), vault.git(&["rev-parse", "HEAD"]).trim(), "{name}");
        assert_eq!(format!("refs/heads/{}", head.branch.unwrap()), branch.trim(), "{name}");
        assert_clean(name, &vault);
        // By the settings that the person has, git writes its index its own way again.
        vault.git(&["add", "-A", "."]);
        assert_clean(name, &vault);
    }
    let prefix = vault.git(&["rev-parse", "--show-prefix"]);
    let show = |path: &str| vault.git(&["show", &format!("HEAD:{}{path}", prefix.trim_end())]);
    assert_eq!(
        (show("old.md"), show("moved.md")),
        ("edited 2\n".into(), "new 0\n".into()),
        "{name}"
    );
    assert!(!vault.git(&["ls-files"]).contains("gone.md"), "{name}");
    assert_eq!(vault.snapshot_all().head, None, "{name}: nothing changed, no commit");
    // Read back by ids and short ids.
    let reader = vault.reader();
    let head = vault.history().head().unwrap().unwrap();
    let resolved = reader.resolve(&head.commit.short());
    assert_eq!(resolved.unwrap_or_else(|err| panic!("{name}: {err:?}")), head.commit);
    let entry = reader.entry(head.commit, &vault_path("old.md")).unwrap().unwrap();
    assert_eq!(reader.read_blob(entry.blob).unwrap(), b"edited 2\n", "{name}");
    take_back(name, &mut vault);
    // Settings and rules that change meanwhile are followed, in every shape.
    vault.git(&["config", "core.autocrlf", "input"]);
    vault.write(".gitignore", "skipped.md\n");
    vault.write("skipped.md", "skipped\n");
    vault.write("crlf.md", "one\r\ntwo\r\n");
    vault.snapshot_all();
    let crlf = format!("HEAD:{}crlf.md", prefix.trim_end());
    assert_eq!(vault.git(&["show", &crlf]), "one\ntwo\n", "{name}");
    assert!(!vault.git(&["ls-files"]).contains("skipped.md"), "{name}");
    assert_clean(name, &vault);
    // What waits goes to a reference of ours, in every shape.
    vault.git(&["add", "-N", "."]);
    vault.write("old.md", "staged\n");
    vault.git(&["add", "old.md"]);
    let kept = vault.snapshot_all().kept_out;
    assert_eq!(kept, [(vault_path("old.md"), Kept::Staged)], "{name}");
    let wip = format!("refs/remd/wip/testhost:{}old.md", prefix.trim_end());
    assert_eq!(vault.git(&["show", &wip]), "staged\n", "{name}");
    vault.git(&["commit", "-q", "-m", "by hand"]);
    vault.snapshot_all();
    assert_clean(name, &vault);
    vault.reopen();
    assert_eq!(vault.snapshot_all().head, None, "{name}");
}

/// A change is taken back and comes again; nothing outside of the vault is touched.
fn take_back(name: &str, vault: &mut Vault) {
    let (before, tree) = (digest(&vault.root), vault.git(&["rev-parse", "HEAD:./"]));
    vault.write("old.md", "to be taken back\n");
    vault.write("made/and gone.md", "made\n");
    let commit = vault.snapshot_all().head.unwrap().commit;
    let reader = vault.reader();
    let cause = Cause { kind: CauseKind::Undo, ..Cause::edit() };
    let plan = |head| reader.plan_undo(head, &[commit], None);
    let applied = vault.history().change(&plan, &cause, &mut |_| {});
    let Ok(Applied::Done(done)) = applied else { panic!("{name}: {applied:?}") };
    assert_clean(name, vault);
    assert_eq!(vault.git(&["rev-parse", "HEAD:./"]), tree, "{name}: undone");
    let after = digest(&vault.root);
    assert!(before.keys().eq(after.keys()), "{name}: the same files");
    for (path, state) in &before {
        let is_meant = path.ends_with("old.md");
        assert!(is_meant || after.get(path) == Some(state), "{name}: {path:?} is touched");
    }
    let undone = done.1.head.unwrap().commit;
    let plan = |head| reader.plan_undo(head, &[undone], None);
    let again = vault.history().change(&plan, &cause, &mut |_| {});
    assert!(matches!(again, Ok(Applied::Done(..))), "{name}: {again:?}");
    assert_eq!(std::fs::read(vault.path("made/and gone.md")).unwrap(), b"made\n", "{name}");
    vault.write("old.md", "edited 2\n");
    vault.remove("made/and gone.md");
    vault.snapshot_all();
    assert_clean(name, vault);
}

fn assert_clean(name: &str, vault: &Vault) {
    assert_eq!(vault.git(&["status", "--porcelain", "."]), "", "{name}: git status");
    assert_eq!(vault.git(&["diff", "--cached", "--name-only"]), "", "{name}: the index is HEAD");
    let fsck = git_command(&vault.root, &["fsck", "--strict"]).output().unwrap();
    assert!(fsck.status.success(), "{name}: {}", String::from_utf8_lossy(&fsck.stderr));
}

/// Most of the time goes to git's own start and to the ticks of the clock, so they go side by side.
#[test]
fn every_shape_of_repository_is_adopted_as_it_is() {
    std::thread::scope(|scope| {
        for part in SHAPES.chunks(SHAPES.len().div_ceil(6)) {
            scope.spawn(|| part.iter().for_each(|(name, build)| check(name, *build)));
        }
    });
}

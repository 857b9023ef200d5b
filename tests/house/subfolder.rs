//! Vaults that are folders of a larger repository: gone and back, two of them side by side, and the
//! permissions of what is made in a repository that people share.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::adopt::{git, house, write};
use crate::house::{House, has_fuse, wait_for};
use crate::machine_vault::copy;
use crate::workspaces::Mounted;

/// A repository with so many notes in `notes/` and a file beside them.
fn larger(house: &mut House, count: usize) {
    let top = house.root().join("top");
    for at in 0..count {
        write(&top, &format!("notes/{at}.md"), &format!("alfa {at}\n"));
    }
    write(&top, "beside.txt", "beside\n");
    git(house, &top, &["init", "-q", "-b", "main"]);
    git(house, &top, &["add", "-A"]);
    git(house, &top, &["commit", "-q", "-m", "first"]);
    house.vault = top.join("notes");
}

fn is_lost(house: &House) -> bool {
    let status = house.status();
    status["problems"].as_array().unwrap().iter().any(|it| it["id"] == "vault-lost")
}

/// As a whole repository is: no restart, whatever took the folder away.
#[test]
fn a_folder_of_a_larger_repository_that_comes_back_is_taken_up() {
    let mut house = house();
    larger(&mut house, 30);
    let top = house.root().join("top");
    house.start();
    house.settle_and_check();
    let pid = house.pid();
    let edit = |house: &House, word: &str| {
        wait_for("the vault to be itself again", || house.is_running() && !is_lost(house));
        house.write("1.md", format!("{word}\n"));
        wait_for("the edit", || house.found_committed(word) == ["1.md"]);
        house.settle_and_check();
        assert_eq!(house.found("alfa").len(), 29);
        wait_for("all to be well", || house.status()["verdict"] == "ok");
    };

    // A branch without its notes, and back.
    git(&house, &top, &["checkout", "-q", "--orphan", "other"]);
    git(&house, &top, &["rm", "-rqf", "notes"]);
    git(&house, &top, &["commit", "-q", "-m", "without"]);
    wait_for("the other branch", || house.found("alfa").is_empty());
    git(&house, &top, &["checkout", "-q", "main"]);
    edit(&house, "bravo");

    // The repository as a whole moved away, and a copy of it in its place.
    let away = house.root().join("away");
    fs::rename(&top, &away).unwrap();
    wait_for("the loss to be said", || is_lost(&house));
    copy(&away, &top);
    edit(&house, "charlie");

    // The folder alone.
    fs::rename(top.join("notes"), house.root().join("aside")).unwrap();
    wait_for("the loss to be said", || is_lost(&house));
    copy(&house.root().join("aside"), &top.join("notes"));
    edit(&house, "delta");

    // Its volume unmounted, and mounted again.
    let disk = house.root().join("disk");
    let mount = || {
        let bind = ["--bind", disk.to_str().unwrap(), top.to_str().unwrap()];
        let mounted = Command::new("mount").args(bind).status().unwrap();
        assert!(mounted.success(), "this test mounts a file system: run it as root");
        Mounted(top.clone())
    };
    fs::rename(&top, &disk).unwrap();
    fs::create_dir(&top).unwrap();
    wait_for("the loss to be said", || is_lost(&house));
    let mounted = mount();
    edit(&house, "foxtrot");
    drop(mounted);
    wait_for("the loss to be said", || is_lost(&house));
    let mounted = mount();
    edit(&house, "golf");
    drop(mounted);
    fs::remove_dir(&top).unwrap();
    fs::rename(&disk, &top).unwrap();

    // One of the same name that lies elsewhere in its repository is a stranger, though that holds
    // every commit.
    fs::rename(&top, house.root().join("away2")).unwrap();
    fs::create_dir(&top).unwrap();
    copy(&house.root().join("away2/.git"), &top.join("notes.git"));
    fs::create_dir(top.join("notes")).unwrap();
    fs::rename(top.join("notes.git"), top.join("notes/.git")).unwrap();
    wait_for("the stranger to be named", || {
        is_lost(&house) && house.run(["status"]).stdout.contains("lies elsewhere in its repository")
    });
    assert_eq!(fs::read_dir(top.join("notes")).unwrap().count(), 1, "nothing is made there");
    fs::remove_dir_all(&top).unwrap();
    fs::rename(house.root().join("away2"), &top).unwrap();
    edit(&house, "echo");
    assert_eq!(house.pid(), pid);
    assert!(!house.has_ended(), "no restart");
    assert_eq!(git(&house, &top, &["show", "HEAD:beside.txt"]), "beside");
    assert_eq!(house.stop(), Some(0));
}

/// What `status` says of the loss.
fn loss(house: &House) -> String {
    wait_for("the loss to be said", || is_lost(house));
    house.run(["status"]).stdout
}

/// Whatever folder lies at the path: not one with a note less than half is the vault, and what it
/// lacks is deleted in no commit.
#[test]
fn a_stranger_in_the_place_of_a_folder_is_not_taken_for_the_vault() {
    let mut house = house();
    larger(&mut house, 5);
    let top = house.root().join("top");
    house.start();
    house.settle_and_check();
    let head = git(&house, &top, &["rev-parse", "HEAD"]);
    let away = house.root().join("away");
    let is_named = |house: &House, there: usize| {
        let said = format!("only {there} of the 5 notes of the commit");
        wait_for("the stranger to be named", || {
            let shown = house.run(["status"]).stdout;
            shown.contains(&said) && shown.contains("Put the vault's own folder back")
        });
        assert_eq!(git(house, &top, &["rev-parse", "HEAD"]), head, "nothing is committed");
    };

    // An empty one at once, so that nobody sees the gap; then one that fills.
    fs::rename(&house.vault, &away).unwrap();
    fs::create_dir(&house.vault).unwrap();
    is_named(&house, 0);
    let stranger = house.run(["status", "--wait", "settled", "--timeout", "9s"]);
    assert_eq!(stranger.code, 4, "{}{}", stranger.stdout, stranger.stderr);
    for at in 0..9 {
        write(&house.vault, &format!("{at}.md"), "of somebody else\n");
    }
    is_named(&house, 0);
    fs::copy(away.join("0.md"), house.vault.join("0.md")).unwrap();
    fs::copy(away.join("1.md"), house.vault.join("1.md")).unwrap();
    is_named(&house, 2);

    // The vault's own folder, and a copy of most of it.
    fs::remove_dir_all(&house.vault).unwrap();
    fs::rename(&away, &house.vault).unwrap();
    wait_for("the vault to be itself again", || !is_lost(&house));
    house.settle_and_check();
    fs::rename(&house.vault, &away).unwrap();
    assert!(loss(&house).contains("is gone"));
    fs::create_dir(&house.vault).unwrap();
    is_named(&house, 0);
    for at in 1..5 {
        fs::copy(away.join(format!("{at}.md")), house.vault.join(format!("{at}.md"))).unwrap();
    }
    wait_for("the copy to be taken up", || {
        git(&house, &top, &["log", "-1", "--format=%s%n%b", "--name-status"])
            .contains("D\tnotes/0.md")
    });
    assert_eq!(house.stop(), Some(0));
}

/// The same for a work tree whose repository lies elsewhere, and for a mount point without its
/// volume.
#[test]
fn an_empty_folder_that_leads_to_the_repository_is_not_taken_for_the_vault() {
    // A linked work tree, made anew without its files.
    let mut linked = house();
    let main = linked.root().join("main");
    write(&main, "0.md", "alfa 0\n");
    write(&main, "1.md", "alfa 1\n");
    git(&linked, &main, &["init", "-q", "-b", "main"]);
    git(&linked, &main, &["add", "-A"]);
    git(&linked, &main, &["commit", "-q", "-m", "first"]);
    linked.vault = linked.root().join("linked");
    git(&linked, &main, &["worktree", "add", "-q", "-b", "side", "../linked"]);
    linked.start();
    linked.settle_and_check();
    let head = git(&linked, &main, &["rev-parse", "side"]);
    let away = linked.root().join("away");
    fs::rename(&linked.vault, &away).unwrap();
    fs::create_dir(&linked.vault).unwrap();
    fs::copy(away.join(".git"), linked.vault.join(".git")).unwrap();
    let is_named = |house: &House, said: &str| {
        wait_for("the stranger to be named", || house.run(["status"]).stdout.contains(said));
    };
    is_named(&linked, "only 0 of the 2 notes");
    assert_eq!(git(&linked, &main, &["rev-parse", "side"]), head);
    linked.stop();

    // A repository that came along without its files is no better.
    let mut whole = house();
    whole.write("0.md", "alfa 0\n");
    whole.start();
    whole.settle_and_check();
    let head = whole.git(["rev-parse", "HEAD"]);
    let away = whole.root().join("away");
    fs::rename(&whole.vault, &away).unwrap();
    fs::create_dir(&whole.vault).unwrap();
    copy(&away.join(".git"), &whole.vault.join(".git"));
    is_named(&whole, "only 0 of the 1 notes");
    assert_eq!(whole.git(["rev-parse", "HEAD"]), head);
    whole.stop();

    // A volume on the folder.
    let mut volume = house();
    larger(&mut volume, 5);
    let top = volume.root().join("top");
    let disk = volume.root().join("disk");
    fs::rename(&volume.vault, &disk).unwrap();
    fs::create_dir(&volume.vault).unwrap();
    let mount = || {
        let bind = ["--bind", disk.to_str().unwrap(), volume.vault.to_str().unwrap()];
        let mounted = Command::new("mount").args(bind).status().unwrap();
        assert!(mounted.success(), "this test mounts a file system: run it as root");
        Mounted(volume.vault.clone())
    };
    let mounted = mount();
    let mut agent = second(&volume.vault);
    agent.start();
    agent.settle_and_check();
    let head = git(&agent, &top, &["rev-parse", "HEAD"]);
    drop(mounted);
    is_named(&agent, "only 0 of the 5 notes");
    assert_eq!(git(&agent, &top, &["rev-parse", "HEAD"]), head);
    let mounted = mount();
    wait_for("the vault to be itself again", || !is_lost(&agent));
    agent.write("0.md", "bravo\n");
    agent.settle_and_check();
    assert_eq!(git(&agent, &top, &["show", "HEAD:notes/0.md"]), "bravo");
    agent.stop();
    drop(mounted);
}

/// The mount is no file of the parent's, wherever it lies and whatever it is called.
#[test]
fn a_mount_in_the_parent_repository_is_kept_out_of_git() {
    if !has_fuse("a_mount_in_the_parent_repository_is_kept_out_of_git") {
        return;
    }
    for name in ["notes.fs", "deep/view [1]*"] {
        let mut house = house();
        larger(&mut house, 3);
        let top = house.root().join("top");
        house.mount = top.join(name);
        fs::create_dir_all(house.mount.parent().unwrap()).unwrap();
        let mount = house.mount.to_str().unwrap().to_owned();
        house.args(["--mount", &mount]);
        house.start();
        house.settle_and_check();
        assert!(house.cat("README.md").contains("search"), "{name}: it is mounted");
        assert_eq!(git(&house, &top, &["status", "--porcelain"]), "", "{name}");
        // A name that its pattern must not match.
        write(&top, "deep/view 1x/mine.txt", "mine\n");
        assert_eq!(
            git(&house, &top, &["status", "--porcelain", "-uall"]),
            "?? \"deep/view 1x/mine.txt\""
        );
        git(&house, &top, &["add", "-A"]);
        assert_eq!(git(&house, &top, &["status", "--porcelain"]), "A  \"deep/view 1x/mine.txt\"");
        house.stop();
    }
}

/// A second agent, on a vault of the same repository.
fn second(vault: &Path) -> House {
    let mut other = house();
    other.vault = vault.to_owned();
    other
}

/// Two agents on two folders of one repository: each commits its own, nothing is lost, and neither
/// stops the other.
#[test]
fn two_vaults_of_one_repository_live_side_by_side() {
    let mut one = house();
    larger(&mut one, 3);
    let top = one.root().join("top");
    write(&top, "second/old.md", "The word quagga stands here.\n");
    let mut two = second(&top.join("second"));
    one.start();
    one.settle();
    // The first one's agent has been at work here; the second folder is adopted all the same.
    two.start();
    two.settle();
    let message = git(&one, &top, &["log", "-1", "--format=%B", "--", "second/old.md"]);
    assert!(message.contains("Remd-Cause: adopt"), "{message}");
    two.stop();
    two.write("old.md", "The word quagga stands here again.\n");
    two.start();
    two.settle();
    let message = git(&one, &top, &["log", "-1", "--format=%B", "--", "second/old.md"]);
    assert!(message.contains("Remd-Cause: edit"), "{message}");

    const EDITS: usize = 60;
    std::thread::scope(|scope| {
        for house in [&one, &two] {
            scope.spawn(move || {
                for at in 0..EDITS {
                    house.write(format!("edit/{}.md", at % 20), format!("edit number {at}\n"));
                    if at % 10 == 9 {
                        house.settle();
                    }
                }
                house.settle();
            });
        }
    });
    for house in [&one, &two] {
        for at in EDITS - 20..EDITS {
            let path = format!("edit/{}.md", at % 20);
            let text = house.git_bytes(["cat-file", "blob", &format!("HEAD:./{path}")]);
            assert_eq!(text, format!("edit number {at}\n").as_bytes(), "{path}");
        }
        assert_eq!(house.found(&format!("\"number {}\"", EDITS - 1)), ["edit/19.md"]);
        assert_eq!(house.status()["verdict"], "ok", "{}", house.run(["status"]).stdout);
    }
    assert_eq!(git(&one, &top, &["status", "--porcelain"]), "");
    // Each commit of ours touches one of the two.
    let log = git(&one, &top, &["log", "--committer=remd", "--format=%x00", "--name-only"]);
    for commit in log.split('\0').filter(|it| !it.trim().is_empty()) {
        let folders: BTreeSet<_> = commit.trim().lines().map(|it| it.split('/').next()).collect();
        assert_eq!(folders.len(), 1, "{commit}");
    }

    // One is killed where its commit is made and the index is not yet: the other goes on, and
    // afterwards nothing looks staged.
    one.stop();
    one.env("REMD_FAULT", "committer.before_index");
    one.spawn();
    wait_for("the agent to answer", || one.is_running());
    one.write("0.md", "killed here\n");
    one.wait_for_end();
    one.env("REMD_FAULT", "");
    two.write("old.md", "The word okapi stands here.\n");
    two.settle();
    assert_eq!(two.found("okapi"), ["old.md"]);
    two.stop();
    one.start();
    one.settle();
    assert_eq!(git(&one, &top, &["status", "--porcelain"]), "");
    assert_eq!(git(&one, &top, &["show", "HEAD:notes/0.md"]), "killed here");
    assert_eq!(git(&one, &top, &["show", "HEAD:second/old.md"]), "The word okapi stands here.");
    git(&one, &top, &["fsck", "--strict"]);
    one.stop();
}

/// The permission bits of all in a git directory, by what it is: each object and each pack is as
/// good as another.
fn modes(git_dir: &Path) -> BTreeMap<String, BTreeSet<u32>> {
    let mut all = BTreeMap::<String, BTreeSet<u32>>::new();
    let mut waiting = vec![git_dir.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let inside = path.strip_prefix(git_dir).unwrap().to_str().unwrap();
            let parts: Vec<_> = inside.split('/').collect();
            let kind = match parts[..] {
                ["remd" | "hooks" | "description" | "COMMIT_EDITMSG", ..] => continue,
                ["objects", "pack", name] => format!("pack.{}", name.rsplit('.').next().unwrap()),
                ["objects", fan] if fan.len() == 2 => "fan".to_owned(),
                ["objects", fan, _] if fan.len() == 2 => "loose".to_owned(),
                _ => inside.to_owned(),
            };
            if meta.is_dir() {
                waiting.push(path.clone());
            }
            all.entry(kind).or_default().insert(meta.permissions().mode() & 0o7777);
        }
    }
    all
}

/// Git itself and we, with the same notes, setting and umask.
fn check_modes(house: &House, setting: Option<&str>, umask: &str, notes: usize) {
    let name = format!("{}-{umask}-{notes}", setting.unwrap_or("none"));
    let run = |at: &Path, program: &str, args: &[&str]| {
        let output = Command::new("sh")
            .args(["-c", &format!("umask {umask}; exec \"$@\""), "sh", program])
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", house.root().join("home"))
            .env("XDG_RUNTIME_DIR", house.root().join("run"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(at)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {program} {args:?}: {error}");
    };
    let [theirs, ours] = ["git", "remd"].map(|who| {
        let at = house.root().join(format!("{name}-{who}"));
        fs::create_dir(&at).unwrap();
        let shared = setting.map(|it| format!("--shared={it}"));
        let mut init = vec!["init", "-q", "-b", "deep/branch"];
        init.extend(shared.as_deref());
        run(&at, "git", &init);
        for note in 0..notes {
            write(&at, &format!("{note}.md"), &format!("note {note}\n"));
        }
        at
    });
    run(&theirs, "git", &["add", "-A"]);
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    run(&theirs, "git", &[&who[..], &["commit", "-q", "-m", "first"]].concat());
    run(&ours, env!("CARGO_BIN_EXE_remd"), &["init", ours.to_str().unwrap()]);
    if notes > 256 {
        run(&theirs, "git", &["repack", "-adq", "--no-write-bitmap-index"]);
    }
    let (ours, theirs) = (modes(&ours.join(".git")), modes(&theirs.join(".git")));
    let kind = if notes > 256 { "pack.pack" } else { "loose" };
    for needed in [kind, "index", "refs/heads/deep/branch", "logs/refs/heads/deep", "logs/HEAD"] {
        assert!(ours.contains_key(needed) && theirs.contains_key(needed), "{name}: {needed}");
    }
    for (what, bits) in &ours {
        if let Some(expected) = theirs.get(what) {
            assert_eq!(
                bits.iter().map(|it| format!("{it:o}")).collect::<Vec<_>>(),
                expected.iter().map(|it| format!("{it:o}")).collect::<Vec<_>>(),
                "{name}: {what}"
            );
        }
    }
}

#[test]
fn what_is_made_in_a_shared_repository_has_the_permissions_that_git_gives() {
    let house = house();
    let settings = [None, Some("group"), Some("all"), Some("0640"), Some("0600")];
    std::thread::scope(|scope| {
        for part in settings.chunks(3) {
            let house = &house;
            scope.spawn(move || {
                for setting in part {
                    for umask in ["002", "022", "077"] {
                        check_modes(house, *setting, umask, 3);
                    }
                    check_modes(house, *setting, "027", 300);
                }
            });
        }
    });
}

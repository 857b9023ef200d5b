//! Git's hooks: they tell the agent what a person does in Git, and stand in nobody's way.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::house::{House, Said, is_there, wait_for};

const EVENTS: [&str; 5] =
    ["post-commit", "post-merge", "post-checkout", "post-rewrite", "pre-push"];

/// Nothing but a hook makes this agent look within hours.
fn deaf(house: &mut House) -> &mut House {
    house.args(["--no-mount", "commit.quiet=5h", "commit.max_wait=9h"])
}

/// `git` as a person has it, with `remd` on their PATH; each start of that is written down.
fn git_in(house: &House, dir: &Path, args: &[&str]) -> Output {
    let root = house.root();
    let bin = root.join("path");
    if !is_there(&bin) {
        fs::create_dir(&bin).unwrap();
        let starts = root.join("starts");
        let program = env!("CARGO_BIN_EXE_remd");
        let text =
            format!("#!/bin/sh\necho \"$*\" >> '{}'\nexec '{program}' \"$@\"\n", starts.display());
        script(&bin.join("remd"), &text);
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    git_with(house, dir, &path, args)
}

fn git_with(house: &House, dir: &Path, path: &str, args: &[&str]) -> Output {
    Command::new("git")
        .env_clear()
        .env("PATH", path)
        .env("HOME", house.root().join("home"))
        .env("XDG_RUNTIME_DIR", house.root().join("run"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_EDITOR", "true")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn git(house: &House, args: &[&str]) {
    let output = git_in(house, &house.vault, args);
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What `remd` was started with since the last time.
fn starts(house: &House) -> Vec<String> {
    let file = house.root().join("starts");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _none = fs::remove_file(&file);
    text.lines().map(str::to_owned).collect()
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn hooks_dir(house: &House) -> PathBuf {
    house.at(".git/hooks")
}

/// The state of each hook, as `remd hook status` has it.
fn states(house: &House) -> Vec<String> {
    let said = house.run(["hook", "status", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(said.code, i32::from(json["installed"] != true), "{}", said.stderr);
    let hooks = json["hooks"].as_array().unwrap();
    assert_eq!(hooks.iter().map(|it| it["name"].as_str().unwrap()).collect::<Vec<_>>(), EVENTS);
    hooks.iter().map(|it| it["state"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the agent itself knows HEAD, which nobody asks it to look for.
fn follows(house: &House) {
    let head = house.git(["rev-parse", "HEAD"]);
    wait_for("the agent to follow HEAD", || house.status()["head"]["commit"] == head.as_str());
}

/// Nothing was committed by the agent since its first commit, and nothing waits.
fn made_nothing(house: &House, since: &str) {
    let ours = house.git(["log", "--format=%s %(trailers:key=Remd-Cause)", &format!("{since}..")]);
    assert!(!ours.contains("Remd-Cause"), "{ours}");
    let status = house.status();
    assert_eq!(status["pending"]["held_deletions"], 0, "{status}");
}

fn started(mut house: House) -> House {
    fs::create_dir_all(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.write("a.md", "one\n");
    house.write("b.md", "two\n");
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "first"]);
    deaf(&mut house).start();
    house.settle();
    house
}

#[test]
fn what_is_done_in_git_is_told_to_the_agent_at_once() {
    let house = started(House::closed());
    assert_eq!(states(&house), ["installed"; 5]);
    let first = house.git(["rev-parse", "HEAD"]);
    let check = |args: &[&str], told: &[&str]| {
        git(&house, args);
        follows(&house);
        wait_for("the hooks", || {
            let text = fs::read_to_string(house.root().join("starts")).unwrap_or_default();
            text.lines().count() >= told.len()
        });
        let events: Vec<_> = told.iter().map(|it| format!("notify {it}")).collect();
        assert_eq!(starts(&house), events, "git {args:?}");
    };
    house.write("a.md", "one by hand\n");
    check(&["commit", "-qam", "by hand"], &["post-commit"]);
    check(&["switch", "-qc", "side", "HEAD~1"], &["post-checkout"]);
    house.write("b.md", "side\n");
    check(&["commit", "-qam", "side"], &["post-commit"]);
    check(&["switch", "-q", "main"], &["post-checkout"]);
    check(&["merge", "-q", "--no-edit", "side"], &["post-merge"]);
    check(&["commit", "-q", "--amend", "-m", "merged"], &["post-commit", "post-rewrite"]);
    made_nothing(&house, &first);
    // Its own commits start nothing: it knows of them.
    house.write("c.md", "three\n");
    house.settle_and_check();
    assert_eq!(starts(&house), [""; 0]);
    assert_eq!(house.in_head("c.md"), b"three\n");
}

#[test]
fn a_branch_switch_and_a_reset_are_history_also_without_hooks() {
    let mut house = House::closed();
    fs::create_dir_all(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.write("keep.md", "stays\n");
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "first"]);
    house.git(["branch", "empty"]);
    for n in 0..30 {
        house.write(format!("n{n}.md"), format!("note {n}\n"));
    }
    house.args(["--no-mount", "--no-hooks"]).start();
    house.settle();
    assert!(EVENTS.iter().all(|it| !is_there(&hooks_dir(&house).join(it))));
    let all = house.git(["rev-parse", "HEAD"]);
    // Thirty notes vanish from the disk, and come back.
    for args in [
        ["switch", "-q", "empty"],
        ["switch", "-q", "main"],
        ["reset", "-q", "--hard"],
        ["reset", "--hard", "HEAD~1"],
        ["reset", "--hard", all.as_str()],
    ] {
        house.git(args);
        follows(&house);
        wait_for("the agent to have looked", || house.status()["verdict"] == "ok");
    }
    house.settle_and_check();
    assert_eq!(house.git(["rev-parse", "HEAD"]), all);
    assert_eq!(house.git(["for-each-ref", "refs/remd/"]), "");
    assert_eq!(house.status()["pending"]["held_deletions"], 0);
}

#[test]
fn a_hook_that_was_there_keeps_running_and_keeps_its_status() {
    let mut house = House::closed();
    fs::create_dir_all(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    let remote = house.root().join("remote.git");
    house.git(["init", "-q", "--bare", remote.to_str().unwrap()]);
    let out = house.root().join("out");
    let push = format!(
        "#!/usr/bin/env bash\nset -eu\n{{ echo \"$1\"; cat; }} > '{}'\nexit 3 # mine",
        out.display()
    );
    script(&hooks_dir(&house).join("pre-push"), &push);
    let commit = format!("echo \"$0 $#\" > '{}'; false\n", out.display());
    script(&hooks_dir(&house).join("post-commit"), &commit);
    house.write("a.md", "one\n");
    deaf(&mut house).start();
    house.settle();
    assert_eq!(states(&house), ["installed"; 5]);
    assert!(
        fs::read_to_string(hooks_dir(&house).join("pre-push")).unwrap().ends_with("exit 3 # mine")
    );

    house.write("a.md", "two\n");
    git(&house, &["commit", "-qam", "by hand"]);
    follows(&house);
    assert_eq!(fs::read_to_string(&out).unwrap(), ".git/hooks/post-commit 0\n");
    let refused = git_in(&house, &house.vault, &["push", "-q", remote.to_str().unwrap(), "main"]);
    assert!(!refused.status.success());
    let head = house.git(["rev-parse", "HEAD"]);
    let zeros = "0".repeat(40);
    let seen = format!("{}\nrefs/heads/main {head} refs/heads/main {zeros}\n", remote.display());
    assert_eq!(fs::read_to_string(&out).unwrap(), seen, "all that Git says, byte for byte");

    // Edited around meanwhile, and taken out.
    let file = hooks_dir(&house).join("pre-push");
    let edited = fs::read_to_string(&file).unwrap().replace("exit 3", "exit 4");
    fs::write(&file, &edited).unwrap();
    let said = house.run(["hook", "remove", "--dry-run"]);
    assert_eq!((said.code, said.stdout.lines().count()), (0, 5), "{}", said.stdout);
    assert_eq!(fs::read_to_string(&file).unwrap(), edited);
    assert_eq!(house.run(["hook", "remove"]).code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), push.replace("exit 3", "exit 4"));
    assert_eq!(fs::read_to_string(hooks_dir(&house).join("post-commit")).unwrap(), commit);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
    for event in ["post-merge", "post-checkout", "post-rewrite"] {
        assert!(!is_there(&hooks_dir(&house).join(event)), "{event}");
    }
    // It stays taken out.
    house.stop();
    house.start();
    assert_eq!(states(&house), ["missing"; 5]);
    assert_eq!(house.run(["hook", "install", "--json"]).code, 0);
    assert_eq!(states(&house), ["installed"; 5]);
}

#[test]
fn what_is_no_script_of_sh_or_not_ours_to_change_is_left_alone_and_said() {
    let mut house = House::closed();
    fs::create_dir_all(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.write("a.md", "one\n");
    let dir = hooks_dir(&house);
    script(&dir.join("post-commit"), "#!/usr/bin/env python3\nprint('mine')\n");
    script(&dir.join("post-merge"), "\u{7f}ELF\u{0}");
    script(&house.root().join("elsewhere"), "#!/bin/sh\n");
    symlink(house.root().join("elsewhere"), dir.join("post-checkout")).unwrap();
    fs::write(dir.join("post-rewrite"), "#!/bin/sh\n").unwrap();
    script(&dir.join("pre-push"), "#!/bin/sh\ncall_lefthook run \"pre-push\" \"$@\"\n");
    let before = all_below(&dir);
    deaf(&mut house).start();
    house.settle();
    assert_eq!(states(&house), ["left_alone"; 5]);
    assert_eq!(all_below(&dir), before);
    let said = house.run(["hook", "status"]);
    for word in ["no script of sh", "a program", "a symlink", "may not be executed", "lefthook"] {
        assert!(said.stderr.contains(word), "{word}: {}", said.stderr);
    }
    assert_eq!(house.run(["hook", "install"]).code, 1);
    assert_eq!(all_below(&dir), before);
    // Some of them: in part.
    fs::remove_file(dir.join("post-rewrite")).unwrap();
    assert_eq!(house.run(["hook", "install"]).code, 3);
    let states: Vec<_> = states(&house);
    assert_eq!((states[3].as_str(), states[0].as_str()), ("installed", "left_alone"));
    assert_eq!(house.status()["verdict"], "ok", "everything works without");
}

fn all_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|it| it.unwrap().path())
        .map(|it| (it.clone(), fs::read(&it).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn core_hooks_path_is_respected() {
    let mut house = House::closed();
    fs::create_dir_all(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.write("a.md", "one\n");
    house.write(".husky/_/post-commit", "#!/bin/sh\n. \"$(dirname \"$0\")/h\"\n");
    house.write(".githooks/post-commit", "#!/bin/sh\n");
    let outside = house.root().join("home/hooks");
    fs::create_dir_all(&outside).unwrap();
    let check = |args: &[&str], word: &str| {
        let output = git_in(&house, &house.vault, args);
        assert!(output.status.success());
        let said = house.run(["hook", "install"]);
        let is_barred = !word.is_empty();
        assert_eq!(said.code, i32::from(is_barred), "{args:?} {}", said.stderr);
        assert!(said.stderr.contains(word), "{args:?} {}", said.stderr);
        let expected = if is_barred { "left_alone" } else { "installed" };
        assert_eq!(states(&house), [expected; 5], "{args:?}");
    };
    check(&["config", "core.hooksPath", ".husky/_"], "husky's");
    check(&["config", "core.hooksPath", ".githooks"], "in the work tree");
    check(&["config", "core.hooksPath", "no/where"], "where nothing is");
    check(&["config", "core.hooksPath", ".git/hooks"], "");
    assert!(is_there(&hooks_dir(&house).join("post-commit")));
    check(&["config", "core.hooksPath", ".git/mine"], "");
    assert!(is_there(&house.at(".git/mine/post-commit")));
    check(&["config", "--unset", "core.hooksPath"], "");
    check(&["config", "--global", "core.hooksPath", "~/hooks"], "outside the repository");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(house.git(["status", "--porcelain", "-uall"]).lines().count(), 3);
    // What Git does not run any more is taken out all the same.
    assert_eq!(house.run(["hook", "remove"]).stdout.lines().count(), 5);
    assert!(!is_there(&hooks_dir(&house).join("post-commit")));
    deaf(&mut house).start();
}

#[test]
fn a_folder_a_work_tree_and_a_submodule_hear_of_their_repository() {
    let mut house = House::closed();
    let top = house.root().join("code");
    let (sub, linked) = (top.join("notes"), house.root().join("linked"));
    fs::create_dir_all(&sub).unwrap();
    let run = |dir: &Path, args: &[&str]| {
        let output = git_in(&house, dir, args);
        assert!(output.status.success(), "{args:?} {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&top, &["init", "-q", "-b", "main"]);
    fs::write(top.join("main.c"), "int main;\n").unwrap();
    fs::write(sub.join("a.md"), "one\n").unwrap();
    run(&top, &["add", "-A"]);
    run(&top, &["commit", "-qm", "first"]);
    run(&top, &["worktree", "add", "-q", linked.to_str().unwrap()]);
    let outer = house.root().join("outer");
    fs::create_dir(&outer).unwrap();
    run(&outer, &["init", "-q", "-b", "main"]);
    let allow = "protocol.file.allow=always";
    run(&outer, &["-c", allow, "submodule", "--quiet", "add", top.to_str().unwrap(), "memory"]);
    for (vault, work, file) in [
        (sub.clone(), top.clone(), "notes/a.md"),
        (linked.clone(), linked.clone(), "notes/a.md"),
        (outer.join("memory"), outer.join("memory"), "notes/a.md"),
    ] {
        house.vault = vault;
        deaf(&mut house).start();
        house.settle();
        assert_eq!(states(&house), ["installed"; 5], "{}", house.vault.display());
        fs::write(work.join(file), "by hand\n").unwrap();
        let output = git_in(&house, &work, &["commit", "-qam", "by hand"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        follows(&house);
        house.stop();
    }
}

#[test]
fn a_hook_waits_for_nobody_and_fails_nothing() {
    let house = started(House::closed());
    let quiet = |output: Output| {
        let said = Said::from(output);
        assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (0, "", ""));
    };
    // `remd` is not installed.
    let mut paths = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    paths.retain(|it| !is_there(&it.join("remd")));
    let path = std::env::join_paths(paths).unwrap().into_string().unwrap();
    house.write("a.md", "without\n");
    quiet(git_with(&house, &house.vault, &path, &["commit", "-qam", "without"]));
    // The agent is stopped in its tracks: nobody wakes it before the commit is done.
    let agent = house.pid().to_string();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &agent]).status().unwrap().success());
    };
    signal("-STOP");
    for n in 0..3 {
        house.write("a.md", format!("hung {n}\n"));
        quiet(git_in(&house, &house.vault, &["commit", "-qam", "hung"]));
    }
    wait_for("the hooks to have run", || {
        fs::read_to_string(house.root().join("starts")).unwrap_or_default().lines().count() == 3
    });
    quiet(notify(&house, &["post-commit"]));
    signal("-CONT");
    follows(&house);
    // Whatever it is told, and wherever.
    for args in [&[][..], &["post-nonsense"], &["--nonsense", "-x"], &["post-commit", "\u{1b}[2J"]]
    {
        quiet(notify(&house, args));
    }
    for entry in fs::read_dir(house.root().join("run/remd")).unwrap() {
        // Nobody listens here any more, and it is no socket.
        let path = entry.unwrap().path();
        fs::rename(&path, path.with_extension("away")).unwrap();
        fs::write(&path, "no socket").unwrap();
    }
    quiet(notify(&house, &["post-commit"]));
}

fn notify(house: &House, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_remd"))
        .env_clear()
        .env("HOME", house.root().join("home"))
        .env("XDG_RUNTIME_DIR", house.root().join("run"))
        .arg("notify")
        .args(args)
        .current_dir(&house.vault)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn what_is_for_this_machine_alone_is_not_pushed() {
    let house = started(House::closed());
    let remote = house.root().join("remote.git");
    let remote = remote.to_str().unwrap();
    house.git(["init", "-q", "--bare", remote]);
    house.git(["update-ref", "refs/remd/wip/here", "HEAD"]);
    let push = |args: &[&str]| {
        let all: Vec<&str> = ["push", "-q"].into_iter().chain(args.iter().copied()).collect();
        Said::from(git_in(&house, &house.vault, &all))
    };
    assert_eq!(push(&[remote, "main"]).code, 0);
    for args in [&["--mirror", remote][..], &[remote, "refs/remd/*:refs/remd/*"]] {
        let said = push(args);
        assert_ne!(said.code, 0);
        assert!(said.stderr.contains("`refs/remd/wip/here` would be pushed"), "{}", said.stderr);
        assert!(said.stderr.contains("hint: ") && said.stderr.contains("--no-verify"));
    }
    let refs = || house.git(["ls-remote", remote]);
    assert!(!refs().contains("refs/remd/"));
    assert_eq!(push(&["--no-verify", "--mirror", remote]).code, 0);
    assert!(refs().contains("refs/remd/wip/here"));
    assert_eq!(push(&[remote, ":refs/remd/wip/here"]).code, 0, "taken away again");
    assert!(!refs().contains("refs/remd/"));
}

#[test]
fn who_wants_no_hooks_gets_none() {
    let house = House::closed();
    let absent = |house: &House| EVENTS.iter().all(|it| !is_there(&hooks_dir(house).join(it)));
    assert_eq!(house.run(["init", "--no-hooks"]).code, 0);
    assert!(absent(&house));
    let config = house.root().join("home/.config/remd/config.yaml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "hooks: false\n").unwrap();
    assert_eq!(house.run(["init"]).code, 0);
    assert!(absent(&house));
    // A vault cannot ask for them.
    fs::write(house.at("remd.yaml"), "hooks: true\n").unwrap();
    assert_eq!(house.run(["init"]).code, 0);
    assert!(absent(&house));
    fs::remove_file(&config).unwrap();
    assert_eq!(house.run(["init"]).code, 0);
    assert_eq!(states(&house), ["installed"; 5]);
}

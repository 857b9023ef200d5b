//! People work in Git beside the agent: it waits, says so, and goes on by itself.
//!
//! No test here asks for a settled state to make the agent look: what a person's command leads to
//! must be found by itself.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::house::{House, is_there, wait_for};

fn with_notes() -> House {
    let house = House::open();
    for name in ["a.md", "b.md", "c.md"] {
        house.write(name, "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    }
    house.settle_and_check();
    house
}

fn git_command(house: &House, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(args)
        .env("HOME", house.temp.path().join("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(&house.vault)
        .stdin(Stdio::null());
    command
}

fn try_git(house: &House, args: &[&str]) -> Output {
    git_command(house, args).output().unwrap()
}

/// A git command that waits in its editor until [`Editor::close`].
struct Editor {
    child: Child,
    go: std::path::PathBuf,
}

impl Editor {
    fn open(house: &House, args: &[&str]) -> Self {
        let (ready, go) = (house.temp.path().join("ready"), house.temp.path().join("go"));
        let _old = (fs::remove_file(&ready), fs::remove_file(&go));
        let (ready_at, go_at) = (ready.display(), go.display());
        let wait = format!("touch {ready_at}; until [ -e {go_at} ]; do sleep 0.02; done");
        let script = format!("f() {{ {wait}; echo message >> \"$1\"; }}; f");
        let child = git_command(house, args)
            .env("GIT_EDITOR", &script)
            .env("GIT_SEQUENCE_EDITOR", format!("{wait} #"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the editor", || is_there(&ready));
        Self { child, go }
    }

    fn close(mut self) -> bool {
        fs::write(&self.go, "").unwrap();
        self.child.wait().unwrap().success()
    }
}

/// The agent says in words what it waits for, and nothing is committed.
fn waits_for(house: &House, word: &str) {
    wait_for(word, || {
        let said = house.run(["status"]);
        said.code == 3 && said.stdout.contains(word) && said.stdout.contains("hint: ")
    });
}

fn is_well(house: &House) {
    wait_for("all to be well", || {
        let status = house.status();
        let well = status["verdict"] == "ok" && status["pending"]["edits"] == 0;
        well && house.git(["status", "--porcelain"]).is_empty()
    });
    house.git(["fsck", "--strict"]);
}

fn wips(house: &House) -> String {
    house.git(["for-each-ref", "--format=%(refname)", "refs/remd/wip/"])
}

fn in_wip(house: &House, path: &str) -> String {
    let name = wips(house);
    assert!(!name.is_empty(), "no wip\n{}", house.log());
    house.git(["show", &format!("{name}:{path}")])
}

#[test]
fn every_lock_is_named_with_its_age_and_what_waited_is_committed_e01() {
    let house = with_notes();
    let locks = [".git/index.lock", ".git/HEAD.lock", ".git/refs/heads/main.lock"];
    for (round, lock) in locks.iter().enumerate() {
        let head = house.git(["rev-parse", "HEAD"]);
        house.write(lock, "");
        for name in ["a.md", "b.md", "new.md"] {
            house.write(name, format!("under {lock} {round}\n"));
        }
        waits_for(&house, lock);
        let status = house.status();
        let problem = &status["problems"][0];
        assert_eq!((&problem["id"], &problem["level"]), (&"git-lock".into(), &"error".into()));
        assert!(problem["what"].as_str().unwrap().contains("has been held for"), "{problem}");
        assert!(status["pending"]["edits"].as_u64().unwrap() >= 3, "{status}");
        assert_eq!(in_wip(&house, "new.md"), format!("under {lock} {round}"));
        assert_eq!(house.git(["rev-parse", "HEAD"]), head);
        fs::remove_file(house.at(lock)).unwrap();
        is_well(&house);
        for name in ["a.md", "b.md", "new.md"] {
            assert_eq!(house.in_head(name), format!("under {lock} {round}\n").into_bytes());
        }
        assert_eq!(wips(&house), "");
    }
    // One that stops nothing of ours is named all the same, once it is old.
    let lock = ".git/packed-refs.lock";
    house.write(lock, "");
    house.write("a.md", "under the last\n");
    wait_for("the commit", || house.in_head("a.md") == b"under the last\n");
    waits_for(&house, lock);
    assert!(is_there(&house.at(lock)));
    fs::remove_file(house.at(lock)).unwrap();
    is_well(&house);
}

#[test]
fn an_operation_that_stops_is_waited_for_and_goes_on_by_itself_e03() {
    let house = with_notes();
    house.git(["switch", "-qc", "side"]);
    house.write("a.md", "side\n");
    house.git(["commit", "-qam", "side"]);
    house.git(["switch", "-q", "main"]);
    house.write("a.md", "main\n");
    house.git(["commit", "-qam", "main"]);
    is_well(&house);
    let main = house.git(["rev-parse", "HEAD"]);
    let starts = [
        (vec!["merge", "side"], "merge"),
        (vec!["rebase", "side"], "rebase"),
        (vec!["cherry-pick", "side"], "cherry-pick"),
        (vec!["revert", "--no-edit", &main], "revert"),
    ];
    for (at, (start, word)) in starts.into_iter().enumerate() {
        if word == "revert" {
            house.write("a.md", "main again\n");
            is_well(&house);
        }
        assert!(!try_git(&house, &start).status.success(), "{start:?} was to stop");
        let head = house.git(["rev-parse", "HEAD"]);
        let unmerged = house.git(["ls-files", "-u"]);
        let name = format!("meanwhile{at}.md");
        house.write(&name, "needle meanwhile\n");
        waits_for(&house, &format!("a {word} is in progress"));
        wait_for("the snapshot", || {
            let wip = wips(&house);
            let kept = format!("{wip}:{name}");
            !wip.is_empty() && try_git(&house, &["cat-file", "-e", &kept]).status.success()
        });
        assert_eq!(house.run(["status", "--wait", "settled", "--timeout", "20s"]).code, 4);
        assert_eq!(house.git(["rev-parse", "HEAD"]), head);
        assert_eq!(house.git(["ls-files", "-u"]), unmerged);
        house.git([word, "--abort"]);
        is_well(&house);
        assert_eq!(house.in_head(&name), b"needle meanwhile\n");
        assert_eq!(
            house.in_head("a.md"),
            if word == "revert" { "main again\n" } else { "main\n" }.as_bytes()
        );
    }
    // What a person commits with its markers is their commit, and named.
    assert!(!try_git(&house, &["merge", "side"]).status.success());
    house.git(["commit", "-qam", "with markers"]);
    wait_for("the note to be named", || {
        let status = house.status();
        let troubled = status["index"]["troubled"].to_string();
        status["verdict"] == "ok" && troubled.contains("a.md") && troubled.contains("conflict")
    });
}

#[test]
fn what_git_leaves_behind_stops_nothing_e04() {
    let house = with_notes();
    let head = house.git(["rev-parse", "HEAD"]);
    for name in ["REBASE_HEAD", "ORIG_HEAD", "AUTO_MERGE", "MERGE_MSG", "COMMIT_EDITMSG"] {
        house.write(format!(".git/{name}"), format!("{head}\n"));
    }
    house.write("a.md", "edited\n");
    wait_for("the commit", || house.in_head("a.md") == b"edited\n");
    is_well(&house);
}

#[test]
fn staged_hunks_stay_staged_whatever_happens_e18() {
    let house = with_notes();
    // The lock is held while this is staged, so that the agent cannot be first.
    let lock = house.at(".git/index.lock");
    let stage = |path: &str, text: &str| {
        house.write(path, text);
        let index = house.temp.path().join("index");
        let stage = git_command(&house, &["add", path]).env("GIT_INDEX_FILE", &index).output();
        assert!(stage.unwrap().status.success());
    };
    fs::write(&lock, "").unwrap();
    fs::copy(house.at(".git/index"), house.temp.path().join("index")).unwrap();
    stage("a.md", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    stage("b.md", "staged\n");
    house.write("a.md", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n");
    fs::copy(house.temp.path().join("index"), &lock).unwrap();
    fs::rename(&lock, house.at(".git/index")).unwrap();
    let staged = house.git(["diff", "--cached"]);
    assert!(staged.contains("+ONE") && staged.contains("+staged") && !staged.contains("EIGHT"));
    house.write("c.md", "mine\n");
    // The index follows the reference by a moment.
    let follows = |text: &[u8]| {
        wait_for("the commit of the rest", || house.in_head("c.md") == text);
        wait_for("the index to follow", || house.git(["diff", "--cached"]) == staged);
    };
    follows(b"mine\n");
    waits_for(&house, "staged by a person");
    assert_eq!(house.git(["diff", "--cached"]), staged);
    // A commit of ours that fails changes nothing of it either.
    house.write(".git/refs/heads/main.lock", "");
    house.write("c.md", "mine too\n");
    waits_for(&house, "main.lock");
    assert_eq!(house.git(["diff", "--cached"]), staged);
    fs::remove_file(house.at(".git/refs/heads/main.lock")).unwrap();
    follows(b"mine too\n");
    house.git(["commit", "-qm", "by hand"]);
    is_well(&house);
    let by_hand = house.git(["log", "--format=%H", "--grep=by hand"]);
    assert_eq!(house.git(["show", "--format=", &by_hand]), staged, "{}", house.git(["log", "-p"]));
    assert!(house.in_head("a.md").ends_with(b"EIGHT\n"));
    // Unstaged instead of committed: an edit like any other.
    fs::write(&lock, "").unwrap();
    fs::copy(house.at(".git/index"), house.temp.path().join("index")).unwrap();
    stage("b.md", "staged again\n");
    fs::copy(house.temp.path().join("index"), &lock).unwrap();
    fs::rename(&lock, house.at(".git/index")).unwrap();
    waits_for(&house, "staged by a person");
    house.git(["reset", "-q"]);
    is_well(&house);
    assert_eq!(house.in_head("b.md"), b"staged again\n");
}

#[test]
fn a_commit_in_its_editor_succeeds() {
    for args in [&["commit"][..], &["commit", "-a"], &["commit", "--amend"], &["commit", "a.md"]] {
        let house = with_notes();
        let lock = house.at(".git/index.lock");
        fs::write(&lock, "").unwrap();
        house.write("a.md", "by hand\n");
        let index = house.temp.path().join("index");
        fs::copy(house.at(".git/index"), &index).unwrap();
        let staged = git_command(&house, &["add", "a.md"]).env("GIT_INDEX_FILE", &index).output();
        assert!(staged.unwrap().status.success());
        fs::copy(&index, &lock).unwrap();
        fs::rename(&lock, house.at(".git/index")).unwrap();
        let editor = Editor::open(&house, args);
        house.write("b.md", "meanwhile\n");
        waits_for(&house, "a commit message is being written");
        wait_for("the snapshot", || !wips(&house).is_empty());
        assert!(editor.close(), "{args:?} failed because of us\n{}", house.log());
        is_well(&house);
        assert_eq!(house.in_head("a.md"), b"by hand\n", "{args:?}");
        assert_eq!(house.in_head("b.md"), b"meanwhile\n", "{args:?}");
        assert!(house.git(["log", "--format=%B"]).contains("message"), "{args:?}");
    }
}

#[test]
fn a_commit_in_its_hook_or_in_its_choice_of_hunks_succeeds() {
    let house = with_notes();
    let go = house.temp.path().join("go");
    let hook = house.at(".git/hooks/pre-commit");
    let ready = house.temp.path().join("ready");
    // Ours pass; the person's waits.
    let wait = "[ -n \"$REMD_COMMIT\" ] && exit 0; touch R; until [ -e G ]; do sleep 0.02; done";
    let wait = wait.replace('R', "\u{1}").replace('G', &go.to_string_lossy());
    let wait = wait.replace("$\u{1}EMD", "$REMD").replace('\u{1}', &ready.to_string_lossy());
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n{wait}\n")).unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut commit =
        git_command(&house, &["commit", "-q", "--allow-empty", "-m", "by hand"]).spawn().unwrap();
    wait_for("the hook", || is_there(&ready));
    house.write("b.md", "meanwhile\n");
    waits_for(&house, "a commit message is being written");
    fs::write(&go, "").unwrap();
    assert!(commit.wait().unwrap().success(), "{}", house.log());
    is_well(&house);
    assert_eq!(house.in_head("b.md"), b"meanwhile\n");

    // `git commit -p` holds the index while the person chooses: no process has the lock open.
    fs::remove_file(hook).unwrap();
    let lock = house.at(".git/index.lock");
    fs::write(&lock, "").unwrap();
    house.write("a.md", "chosen\n");
    fs::remove_file(&lock).unwrap();
    let mut choice = git_command(&house, &["commit", "-q", "-p", "-m", "chosen"]);
    let mut choice = choice.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the lock", || is_there(&lock) || choice.try_wait().unwrap().is_some());
    if choice.try_wait().unwrap().is_none() {
        house.write("c.md", "meanwhile\n");
        waits_for(&house, "index.lock");
        let status = house.status();
        let problem =
            status["problems"].as_array().unwrap().iter().find(|it| it["id"] == "git-lock");
        assert_eq!(problem.unwrap()["level"], "warning", "{status}");
        let remedy = problem.unwrap()["remedy"].as_str().unwrap();
        assert!(remedy.contains(&choice.id().to_string()), "{remedy}");
    }
    std::io::Write::write_all(&mut choice.stdin.take().unwrap(), b"y\n").unwrap();
    choice.wait().unwrap();
    is_well(&house);
    assert_eq!(house.in_head("a.md"), b"chosen\n");
}

#[test]
fn a_rebase_in_its_editor_succeeds() {
    let house = with_notes();
    for text in ["two\n", "three\n"] {
        house.write("a.md", text);
        is_well(&house);
    }
    let editor = Editor::open(&house, &["rebase", "-i", "HEAD~2"]);
    house.write("new.md", "meanwhile\n");
    waits_for(&house, "a rebase is in progress");
    assert!(editor.close(), "{}", house.log());
    is_well(&house);
    assert_eq!(house.in_head("new.md"), b"meanwhile\n");
}

#[test]
fn moves_of_head_are_followed_and_never_undone() {
    let house = with_notes();
    for at in 0..30 {
        house.write(format!("n/{at}.md"), "needle many\n");
    }
    is_well(&house);
    let old = house.git(["rev-parse", "HEAD~1"]);
    let steps: [(&[&str], usize); 7] = [
        (&["switch", "-qc", "old", &old], 0),
        (&["switch", "-q", "main"], 30),
        (&["reset", "-q", "--hard", &old], 0),
        (&["reset", "-q", "--hard", "ORIG_HEAD"], 30),
        (&["checkout", "-q", "--detach", &old], 0),
        (&["switch", "-q", "main"], 30),
        (&["commit", "-q", "--amend", "-m", "amended"], 30),
    ];
    for (step, count) in steps {
        assert!(try_git(&house, step).status.success(), "{step:?}");
        let head = house.git(["rev-parse", "HEAD"]);
        wait_for("search to follow", || house.found_committed("needle").len() == count);
        wait_for("the agent to be there", || house.status()["head"]["commit"] == head.as_str());
        if step[1] != "-q" || step[2] != "--detach" {
            is_well(&house);
        }
        assert_eq!(house.git(["rev-parse", "HEAD"]), head, "{step:?}\n{}", house.log());
        assert_eq!(house.git(["status", "--porcelain"]), "", "{step:?}");
    }
    // On no branch: edits wait in a snapshot, and are committed on the branch they come back to.
    house.git(["switch", "-q", "--detach"]);
    house.write("a.md", "on no branch\n");
    waits_for(&house, "HEAD is detached");
    wait_for("the snapshot", || !wips(&house).is_empty());
    assert_eq!(in_wip(&house, "a.md"), "on no branch");
    house.git(["switch", "-q", "main"]);
    is_well(&house);
    assert_eq!(house.in_head("a.md"), b"on no branch\n");
    assert_eq!(wips(&house), "");
}

#[test]
fn repositories_within_the_vault_are_named_and_left_alone() {
    let house = with_notes();
    house.git(["worktree", "add", "-q", "-b", "inner", "inner"]);
    house.write("inner/n.md", "needle inner\n");
    house.write("mine.md", "needle mine\n");
    wait_for("the commit", || house.git(["ls-files", "mine.md"]) == "mine.md");
    wait_for("the name", || {
        let said = house.run(["status"]).stdout;
        said.contains("`inner`") && said.contains("is a repository of its own")
    });
    assert_eq!(house.git(["ls-files", "inner"]), "");
    wait_for("the hit", || house.found_committed("needle") == ["mine.md"]);
    house.git(["worktree", "remove", "--force", "inner"]);
    wait_for("the name to go", || !house.run(["status"]).stdout.contains("`inner`"));
    is_well(&house);
}

/// What one loop of a person's commands came to.
#[derive(Debug, Default)]
struct Tally {
    commands: usize,
    failed: usize,
    /// The first few failures, as git told them.
    said: BTreeSet<String>,
}

impl Tally {
    /// Runs the command; one that fails is counted and must succeed when it is repeated.
    fn run(&mut self, house: &House, args: &[&str]) {
        self.commands += 1;
        let first = try_git(house, args);
        if first.status.success() {
            return;
        }
        self.failed += 1;
        let said = String::from_utf8_lossy(&first.stderr).into_owned();
        self.said.insert(format!("{args:?}: {said}"));
        let repeated = (0..20).any(|_| {
            std::thread::park_timeout(std::time::Duration::from_millis(50));
            try_git(house, args).status.success()
        });
        assert!(repeated, "{args:?} fails again and again: {said}\n{}", house.log());
    }
}

/// A person's loop beside `edits` new notes; then every note must be in HEAD as it was written.
fn beside(edits: usize, person: impl Fn(&House, &mut Tally, usize)) {
    let house = with_notes();
    let done = AtomicBool::new(false);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in 0..edits {
                house.write(format!("many/{at}.md"), format!("edit {at}\n"));
                house.write(format!("again/{}.md", at % 10), format!("edit {at}\n"));
                std::thread::park_timeout(std::time::Duration::from_millis(20));
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut round = 0;
        while !done.load(Ordering::SeqCst) {
            person(&house, &mut tally, round);
            round += 1;
        }
    });
    is_well(&house);
    let reverted = (0..edits)
        .map(|at| (format!("many/{at}.md"), at))
        .chain(
            (0..10.min(edits))
                .map(|at| (format!("again/{at}.md"), (edits - 1 - at) / 10 * 10 + at)),
        )
        .filter(|(path, at)| house.in_head(path) != format!("edit {at}\n").into_bytes());
    assert_eq!(reverted.count(), 0, "notes were reverted\n{}", house.log());
    eprintln!("{} of {} commands failed {:?}", tally.failed, tally.commands, tally.said);
    // Under one in a hundred; a short run may have bad luck once or twice.
    assert!(tally.failed * 100 <= tally.commands.max(200), "{tally:?}");
}

/// How many edits: `REMD_COEXIST_EDITS=500` is the long run.
fn edits() -> usize {
    let value = std::env::var("REMD_COEXIST_EDITS").ok();
    value.map_or(100, |it| it.parse().expect("REMD_COEXIST_EDITS is a number"))
}

#[test]
fn add_and_reset_beside_edits_e01() {
    beside(edits(), |house, tally, _| {
        tally.run(house, &["add", "-A"]);
        tally.run(house, &["reset", "-q"]);
    });
}

#[test]
fn commits_by_hand_beside_edits() {
    beside(edits(), |house, tally, round| {
        house.write("person.md", format!("{round}\n"));
        tally.run(house, &["add", "person.md"]);
        if !try_git(house, &["diff", "--cached", "--quiet"]).status.success() {
            let editor = "core.editor=f() { sleep 0.1; echo by hand > \"$1\"; }; f";
            match round % 2 {
                0 => tally.run(house, &["commit", "-q", "--allow-empty", "-m", "by hand"]),
                _ => tally.run(house, &["-c", editor, "commit", "-q", "--allow-empty"]),
            }
        }
    });
}

#[test]
fn branch_switches_and_stashes_beside_edits() {
    beside(edits(), |house, tally, round| {
        // A branch from here, and back by a merge that brings everything along.
        let name = format!("side{round}");
        tally.run(house, &["switch", "-q", "-c", &name]);
        tally.run(house, &["switch", "-q", "-C", "main"]);
        tally.run(house, &["branch", "-q", "-D", &name]);
        house.write("person.md", format!("{round}\n"));
        if try_git(house, &["stash", "push", "-q", "--", "person.md"]).status.success()
            && !house.git(["stash", "list"]).is_empty()
        {
            tally.run(house, &["stash", "pop", "-q"]);
        }
    });
}

//! What waits is counted by path: what no commit has, once each, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::house::{House, wait_for};

/// A vault with four commits of one note, and its agent.
fn with_history() -> House {
    let house = House::open();
    for round in 1..=4 {
        house.write("a.md", format!("round {round}\n"));
        house.write(format!("{round}.md"), "one\n");
        house.settle_and_check();
    }
    house
}

fn hook(house: &House, body: &str) {
    let path = house.at(".git/hooks/pre-commit");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What waits by the status, once everything was looked at.
fn pending(house: &House) -> Value {
    let pending = &house.status()["pending"];
    json!([pending["edits"], pending["paths"], pending["unseen"]])
}

fn waits(house: &House, paths: &[&str]) {
    let expected = match paths {
        [] => json!([0, null, null]),
        _ => json!([paths.len(), paths, null]),
    };
    let mut last = Value::Null;
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while std::time::Instant::now() < limit {
        last = pending(house);
        if last == expected {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    panic!("{last} instead of {expected}\n{}", house.log());
}

#[test]
fn a_start_during_an_operation_knows_what_waits() {
    let mut house = with_history();
    house.stop();
    house.git(["bisect", "start", "HEAD", "HEAD~3"]);
    house.write("new.md", "by a person\n");
    house.start();
    waits(&house, &["new.md"]);
    assert!(house.status()["pending"]["waiting_for"].as_str().unwrap().contains("bisect"));
    let wip = house.git(["for-each-ref", "--format=%(refname)", "refs/remd/wip/"]);
    assert_eq!(house.git(["show", &format!("{wip}:new.md")]), "by a person");
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 4);
    waits(&house, &["new.md"]);
    house.git(["bisect", "reset"]);
    wait_for("the edit", || house.git(["ls-tree", "--name-only", "HEAD"]).contains("new.md"));
    house.settle_and_check();
    waits(&house, &[]);
}

#[test]
fn a_start_after_a_kill_before_a_refusing_hook_knows_what_waits() {
    let mut house = with_history();
    hook(&house, "echo 'not today' >&2; exit 1");
    house.write("a.md", "refused\n");
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 4);
    waits(&house, &["a.md"]);
    house.kill();
    house.start();
    waits(&house, &["a.md"]);
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 4);
    assert_eq!(pending(&house), json!([1, ["a.md"], null]));
    // Written back as it was: nothing waits.
    house.write("a.md", "round 4\n");
    waits(&house, &[]);
    hook(&house, "exit 0");
    house.settle_and_check();
}

#[test]
fn what_a_rebase_wrote_is_no_edit() {
    let house = with_history();
    let edit_all = "sed -i s/^pick/edit/";
    house.git(["-c", &format!("sequence.editor={edit_all}"), "rebase", "-q", "-i", "HEAD~3"]);
    house.write("a.md", "by a person\n");
    waits(&house, &["a.md"]);
    house.git(["checkout", "-q", "--", "a.md"]);
    waits(&house, &[]);
    house.git(["rebase", "--continue"]);
    house.write("1.md", "by a person\n");
    waits(&house, &["1.md"]);
    house.git(["rebase", "--abort"]);
    wait_for("the edit", || house.in_head("1.md") == b"by a person\n" || is_clean(&house));
    house.settle_and_check();
    waits(&house, &[]);
}

fn is_clean(house: &House) -> bool {
    house.git(["status", "--porcelain"]).is_empty()
}

#[test]
fn settled_takes_along_what_the_hook_wrote() {
    let house = with_history();
    hook(
        &house,
        "for it in $(git diff --cached --name-only --diff-filter=AM); do \
         sed -i 's/ *$//' \"$it\" && git add \"$it\"; done",
    );
    for name in ["a.md", "1.md", "2.md", "3.md"] {
        house.write(name, "trailing   \n");
    }
    let said = house.run(["status", "--wait", "settled", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let status = house.status();
    assert_eq!((&status["pending"]["edits"], &status["verdict"]), (&json!(0), &json!("ok")));
    assert_eq!(house.in_head("a.md"), b"trailing\n");
    assert!(is_clean(&house));
}

/// Typing on while the hook is at work makes the hook none that changes files.
#[test]
fn settled_takes_along_what_was_typed_while_the_hook_ran() {
    let house = with_history();
    let (begun, go) = (house.root().join("begun"), house.root().join("go"));
    hook(
        &house,
        &format!(
            "echo >>'{0}'; n=$(wc -l <'{0}'); until [ $(wc -l <'{1}') -ge $n ]; do sleep 0.02; done",
            begun.display(),
            go.display()
        ),
    );
    fs::write(&go, "").unwrap();
    house.write("a.md", "before it ran\n");
    for round in 1..=2 {
        let lines = || fs::read_to_string(&begun).map_or(0, |it| it.lines().count());
        wait_for("the hook", || lines() >= round);
        house.write("a.md", format!("while it ran {round}\n"));
        fs::write(&go, "\n".repeat(round)).unwrap();
    }
    fs::write(&go, "\n".repeat(100)).unwrap();
    let said = house.run(["status", "--wait", "settled", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(house.in_head("a.md"), b"while it ran 2\n");
    assert!(is_clean(&house), "{}", said.stdout);
    assert_eq!(house.status()["pending"]["kept_out"], json!([]));
}

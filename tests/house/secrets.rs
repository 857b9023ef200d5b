//! What looks like a credential stays out of history, and nowhere is it shown.

use std::fs;
use std::path::Path;

use crate::house::{House, Said, wait_for};

/// A credential that is none; in no piece that a scanner of others' would take for a leak.
fn token(seed: char) -> String {
    let body = "7RtZ2mW9xKc4VbN8sLd3JfHg6PyTq1EuXoA";
    format!("gh{}_{seed}{body}", 'p')
}

/// `status --wait settled`, which must say that a person has to decide, at once.
fn must_decide(house: &House) -> Said {
    let said = house.run(["status", "--wait", "settled", "--timeout", "180s", "--json"]);
    assert_eq!(said.code, 4, "{}\n{}", said.stdout, said.stderr);
    said
}

/// Every file below that has the text.
fn having(folder: &Path, text: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            having(&path, text, found);
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(text.len()).any(|it| it == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
}

/// What every object has that a branch reaches.
fn on_branches(house: &House) -> String {
    house.git(["log", "-p", "-m", "--text", "--branches"])
}

#[test]
fn a_file_with_a_credential_is_held_named_and_shown_nowhere() {
    let mut house = House::open();
    house.stop();
    house.env("REMD_LOG", "debug");
    house.start();
    house.write("a.md", "clean and fine\n");
    house.settle_and_check();
    let secret = token('q');
    house.write("a.md", format!("clean and fine\nthe key is {secret}\n"));
    house.write("b.md", "a heron on the roof\n");
    let said = must_decide(&house);
    let status: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(status["verdict"], "held");
    let leak = &status["leaks"][0];
    assert_eq!(
        (&leak["path"], &leak["line"], &leak["rule"]),
        (&"a.md".into(), &2.into(), &"github-pat".into())
    );
    assert_eq!((&leak["held"], &leak["masked"]), (&true.into(), &"ghp_… (40 characters)".into()));
    assert!(said.stderr.contains("line 2: `github-pat`"), "{}", said.stderr);
    let text = house.run(["status"]);
    assert_eq!(text.code, 4);
    assert!(text.stdout.contains("remd secrets allow a.md:2"), "{}", text.stdout);
    assert!(text.stdout.contains("secrets") && text.stdout.contains("hold ("), "{}", text.stdout);
    assert_eq!(house.in_head("a.md"), b"clean and fine\n");
    assert_eq!(house.in_head("b.md"), b"a heron on the roof\n");
    assert_eq!(house.found("heron"), ["b.md"]);
    // It is on the person's own disk, and found there.
    wait_for("the draft", || house.found("key") == ["a.md"]);

    // By anything but the note itself and a search for it.
    let all = [
        said.stdout,
        said.stderr,
        text.stdout,
        house.run(["status", "-v"]).stderr,
        house.run(["log", "--json"]).stdout,
        house.run(["show", "HEAD"]).stdout,
        on_branches(&house),
        house.log(),
    ];
    for said in &all {
        assert!(!said.contains(&secret[6..]), "{said}");
    }
    house.stop();
    let mut found = Vec::new();
    having(&house.root(), &secret[6..], &mut found);
    assert_eq!(found, [house.at("a.md").display().to_string()], "nothing is written of it");

    // Taken out again: it ends by itself.
    house.start();
    must_decide(&house);
    house.write("a.md", "clean and fine\nthe key is in the safe\n");
    house.settle_and_check();
    assert_eq!(house.in_head("a.md"), b"clean and fine\nthe key is in the safe\n");
    assert_eq!(house.status()["leaks"], serde_json::Value::Null);
    assert!(!on_branches(&house).contains(&secret));
}

#[test]
fn a_reload_takes_another_policy_to_what_is_held() {
    let mut house = House::closed();
    let settings = house.root().join("home/.config/remd/config.yaml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    house.start();
    let secret = token('q');
    house.write("a.md", format!("{secret}\n"));
    must_decide(&house);
    fs::write(&settings, "secrets:\n  policy: warn\n").unwrap();
    assert_eq!(house.run(["reload"]).code, 0);
    wait_for("the commit", || has_in_head(&house, "a.md"));
    let status = house.status();
    assert!(status["secrets"].as_str().unwrap().starts_with("warn"), "{status}");
    // The vault may be stricter than its user, and never the other way round.
    house.write("remd.yaml", "secrets:\n  policy: hold\n");
    house.settle();
    assert_eq!(house.run(["reload"]).code, 0);
    house.write("b.md", format!("{secret}\n"));
    must_decide(&house);
    house.write("remd.yaml", "secrets:\n  policy: off\n");
    let said = house.run(["reload"]);
    assert!(said.stderr.contains("only make it stricter"), "{}{}", said.stdout, said.stderr);
    wait_for("the commit", || has_in_head(&house, "b.md"));
    assert!(house.status()["secrets"].as_str().unwrap().starts_with("warn"));
}

fn has_in_head(house: &House, path: &str) -> bool {
    house.head_paths().iter().any(|it| it == path.as_bytes())
}

#[test]
fn a_kill_at_any_point_leaves_it_held() {
    for fault in [
        "committer.before_objects",
        "committer.before_ref",
        "committer.before_index",
        "committer.after_index",
    ] {
        let mut house = House::open();
        house.write("a.md", "clean\n");
        house.settle_and_check();
        house.stop();
        let secret = token('q');
        let text = format!("clean\n{secret}\n");
        house.write("a.md", &text);
        house.write("b.md", "beside it\n");
        house.env("REMD_FAULT", fault);
        house.spawn();
        assert_eq!(house.wait_for_end(), None, "{fault} was not reached\n{}", house.log());
        house.env("REMD_FAULT", "");
        house.start();
        must_decide(&house);
        assert_eq!(house.in_head("a.md"), b"clean\n", "{fault}");
        assert_eq!(house.in_head("b.md"), b"beside it\n", "{fault}");
        assert_eq!(fs::read_to_string(house.at("a.md")).unwrap(), text, "{fault}");
        let refs = house.git(["for-each-ref", "--format=%(refname)", "refs/remd/wip"]);
        assert_eq!(house.git(["show", &format!("{refs}:a.md")]), text.trim_end(), "{fault}");
        assert!(!on_branches(&house).contains(&secret), "{fault}");
    }
}

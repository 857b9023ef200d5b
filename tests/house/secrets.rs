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
        house.run(["secrets", "list"]).stdout,
        house.run(["secrets", "list", "--json"]).stdout,
        house.run(["secrets", "scan"]).stdout,
        house.run(["secrets", "scan", "--json"]).stdout,
        house.run(["secrets", "scan", "-v", "-v"]).stderr,
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
    wait_for("the committed one to be named", || {
        let leak = &house.status()["leaks"][0];
        leak["path"] == "a.md" && leak["held"] == false
    });
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

#[test]
fn what_is_allowed_is_committed_at_once_and_the_vault_cannot_allow_it() {
    let mut house = House::open();
    let (one, other) = (token('q'), token('z'));
    house.write("a.md", format!("first {one}\nsecond {other}\n"));
    must_decide(&house);
    let dry = house.run(["secrets", "allow", "a.md:1", "--dry-run"]);
    assert_eq!((dry.code, dry.stdout.lines().count()), (0, 1), "{}", dry.stderr);
    must_decide(&house);
    assert_eq!(house.run(["secrets", "allow", "a.md:7"]).code, 1, "nothing is in that line");
    assert_eq!(house.run(["secrets", "allow", "--fingerprint", "beef"]).code, 2);
    let said = house.run(["secrets", "allow", "a.md:1"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        !said.stdout.contains(&one) && said.stdout.contains("a.md:1: github-pat"),
        "{}",
        said.stdout
    );
    must_decide(&house);
    let list = house.run(["secrets", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(list["findings"].as_array().unwrap().len(), 1);
    let fingerprint = list["findings"][0]["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(house.run(["secrets", "allow", "--fingerprint", &fingerprint]).code, 0);
    house.settle_and_check();
    assert!(has_in_head(&house, "a.md"));
    let list = house.run(["secrets", "list"]);
    assert_eq!(list.stdout.matches("allowed").count(), 2, "{}", list.stdout);
    assert_eq!(house.run(["secrets", "scan"]).code, 0, "all of it is allowed");

    // It stays so over restarts, wherever it stands, and nothing of it lies in the vault.
    house.stop();
    house.start();
    house.write("b.md", format!("once more {one}\n"));
    house.settle_and_check();
    let data = house.root().join("home/.local/share/remd/secrets");
    let files: Vec<_> = fs::read_dir(&data).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "the key and the list of this vault");
    let mut found = Vec::new();
    having(&data, &one, &mut found);
    assert!(found.is_empty(), "{found:?}");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(data.join("key")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);

    // A list that cannot be read allows nothing, and that is said.
    let list = files.iter().find(|it| it.extension().is_some_and(|it| it == "json")).unwrap();
    fs::write(list, "{").unwrap();
    house.write("c.md", format!("again {one}\n"));
    must_decide(&house);
    let problems = house.status()["problems"].to_string();
    assert!(problems.contains("secrets-allowed"), "{problems}");
    fs::remove_file(list).unwrap();
}

#[test]
fn an_adopted_repository_keeps_what_it_has_and_is_told_so() {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    let (old, new) = (token('q'), token('z'));
    house.write("old.md", format!("of old: {old}\n"));
    house.write("gone.md", format!("to go: {old}\n"));
    for at in 0..300 {
        house.write(format!("plain/{at}.md"), format!("nothing in it, {at}\n"));
    }
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "before"]);
    house.write("new.md", format!("{new}\n"));
    house.start();
    must_decide(&house);
    assert!(has_in_head(&house, "old.md") && !has_in_head(&house, "new.md"));
    let committed = |house: &House| {
        let status = house.status();
        let leaks = status["leaks"].as_array().cloned().unwrap_or_default();
        let paths = leaks.iter().filter(|it| it["held"] == false);
        paths.map(|it| it["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    wait_for("what HEAD has to be named", || committed(&house) == ["gone.md", "old.md"]);
    assert!(house.status()["problems"].to_string().contains("secrets-committed"));
    let past = house.run(["secrets", "scan", "--history", "--json"]);
    assert_eq!(past.code, 1, "{}", past.stderr);
    assert!(!past.stdout.contains(&old[6..]) && past.stdout.contains("gone.md"));
    // By a person's own commit as well; and it ends when HEAD has it no more, or it is allowed.
    fs::remove_file(house.at("gone.md")).unwrap();
    house.git(["add", "new.md"]);
    house.git(["commit", "-qm", "I know"]);
    wait_for("the person's commit to be named", || committed(&house) == ["new.md", "old.md"]);
    house.settle();
    assert_eq!(house.run(["secrets", "allow", "old.md"]).code, 0);
    assert_eq!(house.run(["secrets", "allow", "new.md:1"]).code, 0);
    wait_for("nothing to be named", || committed(&house).is_empty());
    let problems = house.status()["problems"].to_string();
    assert!(!problems.contains("secrets"), "{problems}");
    // After a restart nothing is read again, and the same is known.
    house.stop();
    house.start();
    house.settle_and_check();
    assert!(committed(&house).is_empty());
    assert!(house.at(".git/remd/looked-at").exists());
}

#[test]
fn a_look_needs_no_agent_and_counts_only_what_is_not_ignored() {
    let house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    let secret = token('q');
    house.write(".gitignore", "private/\n*.key\n");
    house.write("a.md", "nothing\n");
    assert_eq!(house.run(["secrets", "scan"]).code, 0);
    house.write("private/b.md", format!("{secret}\n"));
    house.write("c.key", format!("{secret}\n"));
    assert_eq!(house.run(["secrets", "scan"]).code, 0);
    house.write("d/e.md", format!("\n{secret}\n"));
    let said = house.run(["secrets", "scan"]);
    assert_eq!(said.code, 1);
    assert!(
        said.stdout.starts_with("d/e.md:2: github-pat ghp_… (40 characters)"),
        "{}",
        said.stdout
    );
    assert_eq!(house.run(["secrets", "scan", "a.md"]).code, 0);
    assert_eq!(house.run(["secrets", "scan", "d"]).code, 1);
    assert_eq!(house.run(["secrets", "scan", "--history"]).code, 0, "it was never committed");
    assert_eq!(house.run(["secrets", "allow", "d/e.md:2"]).code, 0);
    assert_eq!(house.run(["secrets", "scan"]).code, 0);
    // `remd init` holds as an agent does.
    house.write("f.md", format!("{}\n", token('z')));
    let said = house.run(["init", house.vault.to_str().unwrap()]);
    assert_eq!(said.code, 0);
    assert!(said.stderr.contains("`f.md` is held off the branch"), "{}", said.stderr);
    assert!(has_in_head(&house, "d/e.md") && !has_in_head(&house, "f.md"));
}

#[test]
fn a_push_of_what_looks_like_a_credential_is_refused_and_says_how_it_is_not() {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    let (old, new) = (token('q'), token('z'));
    house.write("old.md", format!("of old: {old}\n"));
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "before"]);
    house.write("old.md", "taken out\n");
    house.start();
    house.settle_and_check();
    let remote = house.root().join("remote.git");
    house.git(["init", "-q", "--bare", remote.to_str().unwrap()]);
    house.git(["remote", "add", "origin", remote.to_str().unwrap()]);
    let push = |house: &House, args: &[&str]| {
        let bin = Path::new(env!("CARGO_BIN_EXE_remd")).parent().unwrap();
        let path = std::env::join_paths(
            [bin.to_owned()]
                .into_iter()
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let output = std::process::Command::new("git")
            .env_clear()
            .env("PATH", path.unwrap())
            .env("HOME", house.root().join("home"))
            .env("XDG_RUNTIME_DIR", house.root().join("run"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(&house.vault)
            .arg("push")
            .args(args)
            .output()
            .unwrap();
        Said::from(output)
    };
    // The first push takes the past along.
    let said = push(&house, &["origin", "main"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(
        said.stderr.contains("`old.md` in ") && said.stderr.contains("--no-verify"),
        "{}",
        said.stderr
    );
    assert!(!said.stderr.contains(&old[6..]));
    let past = house.run(["secrets", "scan", "--history", "--json"]);
    let past: serde_json::Value = serde_json::from_str(&past.stdout).unwrap();
    let fingerprint = past["findings"][0]["fingerprint"].as_str().unwrap();
    let said = house.run(["secrets", "allow", "--fingerprint", fingerprint]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = push(&house, &["origin", "main"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    // A person's own commit is theirs, and is asked about when it is to leave the machine.
    house.write("new.md", format!("{new}\n"));
    house.git(["add", "new.md"]);
    house.git(["commit", "-qm", "I know"]);
    house.settle();
    let said = push(&house, &["origin", "main"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("`new.md`") && !said.stderr.contains("old.md"), "{}", said.stderr);
    assert_eq!(push(&house, &["--no-verify", "origin", "main"]).code, 0);
    house.write("plain.md", "nothing\n");
    house.settle();
    assert_eq!(push(&house, &["origin", "main"]).code, 0, "the remote has the rest");
    // Told and let through by the policy `warn`.
    let settings = house.root().join("home/.config/remd/config.yaml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, "secrets:\n  policy: warn\n").unwrap();
    assert_eq!(house.run(["reload"]).code, 0);
    house.write("third.md", format!("{}\n", token('x')));
    house.settle();
    let said = push(&house, &["origin", "main"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("is pushed: `third.md`"), "{}", said.stderr);
}

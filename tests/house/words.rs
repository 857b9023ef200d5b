//! What `remd status` and errors say: what is waited for, for whom, and what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::house::{House, is_there, wait_for};

/// A script in the house, and the file that lets it end; it says by another that it began.
struct Script {
    path: PathBuf,
    go: PathBuf,
    begun: PathBuf,
}

impl Script {
    /// `after` is done when `go` is there; its content is `$(cat "$go")`.
    fn new(house: &House, at: &Path, after: &str) -> Self {
        let (go, begun) = (house.root().join("go"), house.root().join("begun"));
        let text = format!(
            "#!/bin/sh\ngo='{}'\ntouch '{}'\nuntil [ -s \"$go\" ]; do sleep 0.05; done\n{after}\n",
            go.display(),
            begun.display()
        );
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
        Self { path: at.to_owned(), go, begun }
    }

    fn has_begun(&self) -> bool {
        is_there(&self.begun)
    }

    fn end(&self, how: &str) {
        fs::write(&self.go, how).unwrap();
    }

    fn again(&self) {
        fs::remove_file(&self.go).unwrap();
        fs::remove_file(&self.begun).unwrap();
    }
}

/// Asks until something has been at work for so many seconds; every answer has the verdict and
/// the words.
fn is_steady(house: &House, seconds: i64, verdict: &str, words: &[&str]) {
    let mut asked = 0;
    wait_for("it to have been at work for a while", || {
        let status = house.status();
        assert_eq!(status["verdict"], verdict, "{status:#}");
        let summary = status["summary"].as_str().unwrap();
        for word in words {
            assert!(summary.contains(word), "{word}: {summary}");
        }
        asked += 1;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let at_work = &status["pending"]["at_work"][0];
        let since = at_work["since"].as_i64().unwrap_or_else(|| panic!("{status:#}"));
        i64::try_from(now.as_secs()).unwrap() - since >= seconds
    });
    assert!(asked > 3);
}

fn filtered(required: bool) -> (House, Script) {
    let house = House::open();
    let at = house.root().join("clean.sh");
    let script = Script::new(&house, &at, "grep -q ok \"$go\" && cat");
    house.git(["config", "filter.slow.clean", &script.path.to_string_lossy()]);
    house.git(["config", "filter.slow.required", if required { "true" } else { "false" }]);
    house.write(".gitattributes", "*.slow filter=slow\n");
    house.write("other.md", "zero\n");
    house.settle_and_check();
    (house, script)
}

/// While a person's filter is at work the verdict says so, with file, filter and since when, and
/// says nothing else until it is done; looks at everything, other edits and commits included.
#[test]
fn a_filter_at_work_is_one_steady_verdict_until_it_is_done() {
    let (house, script) = filtered(false);
    house.write("n.slow", "one\n");
    wait_for("the filter", || script.has_begun());
    // As soon as it is held, and for some of the committer's looks at it.
    let named = |it: &Value| it["summary"].as_str().unwrap().contains("`slow`");
    wait_for("the filter to be named", || named(&house.status()));
    is_steady(&house, 2, "working", &["edits wait", "the filter `slow`", "`n.slow`", " for "]);
    house.write("other.md", "one\n");
    wait_for("another edit", || house.in_head("other.md") == b"one\n");
    is_steady(&house, 6, "working", &["edits wait", "the filter `slow`", "`n.slow`", " for "]);
    let settle = ["status", "--wait", "settled", "--timeout", "3s"];
    let said = house.run(settle);
    assert_eq!(said.code, 3, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.starts_with("working: edits wait: the filter `slow`"), "{}", said.stdout);
    assert!(said.stderr.contains("`n.slow`") && said.stderr.contains("`slow`"), "{}", said.stderr);
    script.end("ok");
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
    assert_eq!(house.status()["pending"]["at_work"], Value::Null);
    assert_eq!(house.in_head("n.slow"), b"one\n");
}

/// One that failed is trouble, also while it is tried again.
#[test]
fn a_filter_that_failed_is_trouble_until_it_works() {
    let (house, script) = filtered(true);
    house.write("n.slow", "one\n");
    wait_for("the filter", || script.has_begun());
    script.end("bad");
    wait_for("the failure", || house.status()["verdict"] == "degraded");
    script.again();
    house.write("n.slow", "two\n");
    wait_for("another try", || script.has_begun());
    is_steady(&house, 4, "degraded", &["`n.slow` is kept out", "the filter `slow` failed"]);
    script.end("ok");
    wait_for("it to be well", || house.status()["verdict"] == "ok");
    house.settle_and_check();
    assert_eq!(house.in_head("n.slow"), b"two\n");
}

/// A hook or a signature that a commit waits for is named like a filter; `post-commit`, which no
/// edit waits for, is listed.
#[test]
fn a_hook_or_a_signature_that_takes_its_time_is_named() {
    let mut house = House::open();
    house.write("n.md", "zero\n");
    house.settle_and_check();
    for name in ["pre-commit", "commit-msg"] {
        let at = house.at(format!(".git/hooks/{name}"));
        let script = Script::new(&house, &at, "exit 0");
        house.write("n.md", format!("{name}\n"));
        wait_for("the hook", || script.has_begun());
        let words = ["edits wait", &format!("the hook `{name}` is at work for ")];
        is_steady(&house, 2, "working", &words);
        let said = house.run(["status", "--wait", "settled", "--timeout", "1s"]);
        assert_eq!(said.code, 3, "{}{}", said.stdout, said.stderr);
        assert!(said.stdout.starts_with("working: edits wait: the hook"), "{}", said.stdout);
        assert!(said.stderr.contains(&format!("the hook `{name}` is at work")), "{}", said.stderr);
        script.end("ok");
        house.settle_and_check();
        assert_eq!(house.status()["verdict"], "ok");
        fs::remove_file(&at).unwrap();
        script.again();
    }
    let at = house.root().join("sign.sh");
    let script = Script::new(&house, &at, "echo '[GNUPG:] SIG_CREATED D' >&2; echo signature");
    house.git(["config", "gpg.program", &at.to_string_lossy()]);
    house.git(["config", "user.signingKey", "ada"]);
    house.git(["config", "commit.gpgSign", "true"]);
    house.write("n.md", "signed\n");
    wait_for("the signature", || script.has_begun());
    is_steady(&house, 2, "working", &["edits wait", "the signature by", "sign.sh"]);
    script.end("ok");
    house.settle();
    house.git(["config", "commit.gpgSign", "false"]);
    script.again();
    let at = house.at(".git/hooks/post-commit");
    let script = Script::new(&house, &at, "exit 0");
    house.write("n.md", "after\n");
    wait_for("the hook", || script.has_begun());
    house.settle();
    let status = house.status();
    assert_eq!(status["verdict"], "ok", "{status:#}");
    let at_work = &status["pending"]["at_work"][0];
    assert_eq!(at_work["what"], "the hook `post-commit`", "{status:#}");
    assert!(house.run(["status"]).stdout.contains("  at work  the hook `post-commit` is at work"));
    script.end("ok");
    wait_for("its end", || house.status()["pending"]["at_work"] == Value::Null);
    assert_eq!(house.stop(), Some(0));
}

//! What `remd status` and errors say: what is waited for, for whom, and what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::house::{House, has_fuse, is_there, wait_for};

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

fn signal(house: &House, signal: i32) {
    // SAFETY: kill(2) takes two integers.
    assert_eq!(unsafe { libc::kill(i32::try_from(house.pid()).unwrap(), signal) }, 0);
}

/// An agent that is stopped is no reason to wait: search and status answer by themselves and say
/// so, what only the agent can do says why not.
#[test]
fn a_stopped_agent_is_known_soon_and_named() {
    let house = House::open();
    house.write("n.md", "needle\n");
    house.settle();
    signal(&house, libc::SIGSTOP);
    let go_on = format!("kill -CONT {}", house.pid());
    let start = Instant::now();
    let said = house.run(["search", "needle"]);
    assert!(said.code == 0 && said.stdout.contains("n.md:1"), "{}{}", said.stdout, said.stderr);
    let last = said.stdout.lines().last().unwrap();
    assert!(last.contains("agent does not answer") && !last.contains("current"), "{last}");
    assert!(said.stderr.contains("is stopped") && said.stderr.contains(&go_on), "{}", said.stderr);
    let said = house.run(["status"]);
    assert_eq!(said.code, 5, "{}", said.stdout);
    assert!(said.stdout.starts_with("unreachable: the agent (process "), "{}", said.stdout);
    assert!(said.stdout.contains("is stopped") && said.stdout.contains(&go_on), "{}", said.stdout);
    let mount = match has_fuse("the mount line of a_stopped_agent_is_known_soon_and_named") {
        true => format!("  mount    mounted at {}: does not answer\n", house.mount.display()),
        false => "  mount    unknown\n".to_owned(),
    };
    let agent = format!("  agent    stopped (process {})\n", house.pid());
    for line in [agent.as_str(), mount.as_str(), "  watch    unknown\n"] {
        assert!(said.stdout.contains(line), "{line}: {}", said.stdout);
    }
    for command in [&["status", "--wait", "settled"][..], &["pause"], &["reload"], &["accept"]] {
        let said = house.run(command);
        assert_eq!(said.code, 5, "{command:?}: {}", said.stderr);
        assert!(said.stderr.contains("is stopped") && said.stderr.contains(&go_on), "{command:?}");
    }
    // Half of what a single search once took.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let second = house.run(["up", house.vault.to_str().unwrap(), "--no-mount"]);
    assert!(second.stderr.contains(&format!("process {}", house.pid())), "{}", second.stderr);
    signal(&house, libc::SIGCONT);
    wait_for("the agent to answer", || house.run(["status"]).code == 0);
    assert!(house.run(["search", "needle"]).stdout.contains(", current"));
}

/// Programs that connect, ask and never read what they are told keep nobody else out.
#[test]
fn clients_that_never_read_keep_nobody_out() {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    let house = House::open();
    for at in 0..150 {
        house.write(format!("n{at}.md"), format!("needle {}\n", "long words ".repeat(180)));
    }
    house.settle();
    let socket = fs::read_dir(house.root().join("run/remd"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .find(|it| UnixStream::connect(it).is_ok())
        .expect("the agent's socket");
    let sockets = || {
        let open = fs::read_dir(format!("/proc/{}/fd", house.pid())).unwrap();
        let names = open.filter_map(|it| fs::read_link(it.unwrap().path()).ok());
        names.filter(|it| it.to_string_lossy().starts_with("socket:")).count()
    };
    let search = r#"{"version":1,"request":{"do":"search","form":"json","query":{"text":"needle","limit":200,"since":null,"until":null,"within":[],"path":null,"tags":[],"min_score":null,"explain":true}}}"#;
    let status = r#"{"version":1,"request":{"do":"status"}}"#;
    let before = sockets();
    let clients: Vec<UnixStream> = (0..300)
        .map(|at| {
            let mut client = UnixStream::connect(&socket).unwrap();
            // Some say nothing at all; some are let go before they have said it.
            match at % 25 {
                0..8 => {}
                8 => drop(client.write_all(format!("{search}\n").as_bytes())),
                _ => drop(client.write_all(format!("{status}\n").as_bytes())),
            }
            client
        })
        .collect();
    for _ in 0..5 {
        let status = house.status();
        assert_eq!(status["agent"]["running"], true, "{status:#}");
        let page = house.run(["search", "needle"]).stdout;
        assert!(page.lines().last().unwrap().contains(", current"), "{page}");
        house.settle();
    }
    // Two file handles each.
    assert!(sockets() <= before + 2 * 64 + 8, "{} of {before}", sockets());
    drop(clients);
    wait_for("all to be let go", || sockets() <= before + 1);
}

/// The mount of an agent that runs is not taken from it; what is said then is about that.
#[test]
fn unmount_says_how_the_mount_of_a_running_agent_ends() {
    let mut house = House::open();
    let said = house.run(["unmount"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("its mount is its own"), "{}", said.stderr);
    let kill = format!("`kill {}`", house.pid());
    assert!(said.stderr.contains(&kill) && !said.stderr.contains("another"), "{}", said.stderr);
    house.stop();
    let said = house.run(["unmount"]);
    assert!(said.code == 0 && said.stderr.contains("Nothing was left behind"), "{}", said.stderr);
}

/// DESIGN §9: the fallback identity has its note, whenever it comes and goes.
#[test]
fn an_identity_that_goes_at_run_time_is_noted() {
    let house = House::open();
    let is_noted = || house.status()["problems"].to_string().contains("\"identity\"");
    assert!(is_noted(), "the fixture has none");
    house.git(["config", "user.name", "Ada"]);
    house.git(["config", "user.email", "ada@example.org"]);
    wait_for("the note to go", || !is_noted());
    house.write("n.md", "hers\n");
    house.settle_and_check();
    assert_eq!(house.git(["log", "-1", "--format=%an"]), "Ada");
    house.git(["config", "--unset", "user.name"]);
    house.git(["config", "--unset", "user.email"]);
    wait_for("the note", is_noted);
    house.write("n.md", "whose\n");
    house.settle_and_check();
    assert_eq!(house.git(["log", "-1", "--format=%an"]), "remd");
}

/// The hint is about the file that it names; where others are kept out for other reasons it says
/// so, and each note's problem says truly how much of it is searched.
#[test]
fn a_hint_is_about_what_it_names() {
    let mut house = House::open();
    let problem = |house: &House, id: &str| {
        let status = house.status();
        let all = status["problems"].as_array().unwrap().clone();
        all.into_iter().find(|it| it["id"] == id).map_or(String::new(), |it| {
            format!("{} {}", it["what"].as_str().unwrap(), it["remedy"].as_str().unwrap())
        })
    };
    house.write("z.md", "zero\n");
    house.write("long.md", "needle words and words ".repeat(250_000));
    house.settle_and_check();
    let notes = problem(&house, "notes");
    assert!(notes.contains("`long.md`") && notes.contains("is not searched"), "{notes}");
    assert!(!notes.contains("The rest of it is searched"), "{notes}");
    // A staged note beside a large file: one hint, for one of them.
    house.stop();
    house.args(["commit.max_file=1kB"]);
    house.start();
    house.write("big.bin", vec![0; 5000]);
    house.write("z.md", "staged\n");
    house.git(["add", "z.md"]);
    house.write("z.md", "edited\n");
    wait_for("both to be named", || problem(&house, "kept-out").contains("2 files"));
    let kept = problem(&house, "kept-out");
    assert!(kept.contains("`big.bin`: too large (5 kB)"), "{kept}");
    assert!(kept.contains("For `big.bin`: Raise `commit.max_file`"), "{kept}");
    assert!(kept.contains("Others have other reasons"), "{kept}");
    house.git(["commit", "-qm", "by hand"]);
    wait_for("the large one alone", || problem(&house, "kept-out").starts_with("`big.bin` is"));
    assert!(!problem(&house, "kept-out").contains("Others"), "{}", problem(&house, "kept-out"));
}

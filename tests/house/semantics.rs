//! `src/mount/semantics.md` says what the mount is, and this runs every example of it.
//!
//! A fence is one of: `markdown PATH` (a note of the vault), `console` (a session), `console
//! as-root`, or `text not-run: REASON`. Anything else fails, so that no example is left out.

use std::fs;
use std::process::{Command, Stdio};

use crate::house::{House, has_fuse, wait_for};

const DOCUMENT: &str = include_str!("../../src/mount/semantics.md");

/// What a fence holds.
#[derive(Debug)]
enum Block<'a> {
    Note { path: &'a str, text: String },
    Session { line: usize, as_root: bool, steps: Vec<Step> },
    NotRun { reason: &'a str },
}

/// A command and what it says.
#[derive(Debug, Default)]
struct Step {
    command: String,
    says: Vec<String>,
}

fn blocks(document: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let body: Vec<_> =
            lines.by_ref().map(|it| it.1).take_while(|it| !it.starts_with("```")).collect();
        blocks.push(match info.split_once(' ').unwrap_or((info, "")) {
            ("markdown", path) if !path.is_empty() => {
                Block::Note { path, text: body.iter().map(|it| format!("{it}\n")).collect() }
            }
            ("console", "") => Block::Session { line: at + 1, as_root: false, steps: steps(&body) },
            ("console", "as-root") => {
                Block::Session { line: at + 1, as_root: true, steps: steps(&body) }
            }
            ("text", why) if why.len() > "not-run: ".len() && why.starts_with("not-run: ") => {
                Block::NotRun { reason: &why["not-run: ".len()..] }
            }
            _ => panic!("line {}: a block that is neither run nor marked: {line}", at + 1),
        });
    }
    blocks
}

fn steps(body: &[&str]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in body {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), says: Vec::new() });
            continue;
        }
        let step = steps.last_mut().unwrap_or_else(|| panic!("no command before {line:?}"));
        match line.strip_prefix('>') {
            Some(more) if step.says.is_empty() => {
                step.command.push('\n');
                step.command.push_str(more.strip_prefix(' ').unwrap_or(more));
            }
            _ => step.says.push((*line).to_owned()),
        }
    }
    assert!(!steps.is_empty(), "an empty session");
    steps
}

/// Whether `text` is what `wanted` says, where `…` is any text.
fn fits(text: &str, wanted: &str) -> bool {
    let mut parts = wanted.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Runs a session in one shell; gives what each command said, its exit status last if it failed.
fn run(house: &House, steps: &[Step]) -> Vec<Vec<String>> {
    let mut script = String::from("exec 2>&1\ncd \"$M\"\n");
    for step in steps {
        // The mark starts a line of its own, whether or not the output ended in one.
        script.push_str(&format!("{}\nprintf '\\n\\036%s\\n' \"$?\"\n", step.command));
    }
    let root = house.vault.parent().unwrap();
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_remd")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths([bin.to_owned()].into_iter().chain(std::env::split_paths(&path)))
            .unwrap();
    let output = Command::new("timeout")
        .args(["-k", "1", "120", "bash", "-c", &script])
        .env_clear()
        .envs([("LC_ALL", "C.UTF-8"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .env("PATH", path)
        .env("HOME", root.join("home"))
        .env("XDG_RUNTIME_DIR", root.join("run"))
        .env("REMD_VAULT", &house.vault)
        .envs([("M", house.mount.clone()), ("V", house.vault.clone()), ("T", root.join("scratch"))])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rest = text.as_str();
    let mut said = Vec::new();
    while let Some((output, after)) = rest.split_once("\n\u{1e}") {
        let (status, after) = after.split_once('\n').unwrap_or((after, ""));
        let mut lines: Vec<_> = output.lines().map(str::to_owned).collect();
        if status != "0" {
            lines.push(format!("[exit {status}]"));
        }
        said.push(lines);
        rest = after;
    }
    assert_eq!(said.len(), steps.len(), "the session broke off: {text}");
    said
}

#[test]
fn every_example_of_the_semantics_holds() {
    if !has_fuse("every_example_of_the_semantics_holds") {
        return;
    }
    let blocks = blocks(DOCUMENT);
    // Counted apart, in the plainest way, so that the reader above can skip none.
    let fences = DOCUMENT.lines().filter(|it| it.starts_with("```")).count();
    assert_eq!(fences, blocks.len() * 2);
    let mut house = House::open();
    house.git(["config", "user.name", "Ada"]);
    house.git(["config", "user.email", "ada@example.org"]);
    for block in &blocks {
        if let Block::Note { path, text } = block {
            house.write(path, text);
        }
    }
    fs::create_dir(house.vault.parent().unwrap().join("scratch")).unwrap();
    house.settle_and_check();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    // SAFETY: geteuid(2) takes nothing and can't fail.
    let root = unsafe { libc::geteuid() } == 0;
    let (mut ran, mut commands, mut failures) = (0, 0, String::new());
    for block in &blocks {
        let Block::Session { line, as_root, steps } = block else {
            if let Block::NotRun { reason } = block {
                assert!(reason.len() > 10, "a reason, not {reason:?}");
            }
            continue;
        };
        if *as_root && !root {
            let left_out = format!("semantics.md:{line} needs root and did not run\n");
            std::io::Write::write_all(&mut std::io::stderr(), left_out.as_bytes()).unwrap();
            continue;
        }
        if !house.is_running() {
            house.wait_for_end();
            house.start();
            wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
        }
        ran += 1;
        for (step, said) in steps.iter().zip(run(&house, steps)) {
            commands += 1;
            let fit = said.len() == step.says.len()
                && said.iter().zip(&step.says).all(|(said, wanted)| fits(said, wanted));
            if !fit {
                failures.push_str(&format!(
                    "semantics.md:{line}: $ {}\n--- it says\n{}\n--- documented\n{}\n\n",
                    step.command,
                    said.join("\n"),
                    step.says.join("\n")
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(ran >= 12 && commands >= 50, "{ran} sessions, {commands} commands");
    house.wait_for_end();
}

#[test]
fn the_wildcard_is_any_text_of_one_line() {
    for (text, wanted, fit) in [
        ("abc", "abc", true),
        ("abc", "a…", true),
        ("abc", "…c", true),
        ("abc", "a…b…c", true),
        ("abc", "…", true),
        ("", "…", true),
        ("aba", "a…ba…a", false),
        ("abc", "ab", false),
        ("abc", "b…", false),
        ("abc", "a…x", false),
        ("a", "a…a", false),
    ] {
        assert_eq!(fits(text, wanted), fit, "{text:?} {wanted:?}");
    }
    let sessions = blocks("```console\n$ a\n> b\nc\n> d\n\n$ e\n```\n");
    let [Block::Session { steps, .. }] = sessions.as_slice() else { panic!("{sessions:?}") };
    assert_eq!((steps[0].command.as_str(), steps[1].says.len()), ("a\nb", 0));
    assert_eq!(steps[0].says, ["c", "> d", ""]);
}

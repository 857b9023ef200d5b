//! Git's settings are respected: line endings, filters, modes, signatures, hooks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::house::{House, wait_for};

/// A vault whose settings are made before the agent sees it.
fn with_settings(settings: &[[&str; 2]]) -> House {
    let house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    for [name, value] in settings {
        house.git(["config", name, value]);
    }
    house
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn hook(house: &House, name: &str, body: &str) {
    script(&house.at(format!(".git/hooks/{name}")), &format!("#!/bin/sh\n{body}\n"));
}

fn has_in_head(house: &House, path: &str) -> bool {
    house.head_paths().iter().any(|it| it == path.as_bytes())
}

fn problem(house: &House, id: &str) -> Option<serde_json::Value> {
    let status = house.status();
    status["problems"].as_array()?.iter().find(|it| it["id"] == id).cloned()
}

/// The children of the agent, with their states.
fn children(house: &House) -> Vec<(String, char)> {
    let parent = house.pid().to_string();
    let stat = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        (fields.next()? == parent).then(|| (entry.file_name().to_string_lossy().into(), state))
    };
    fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(stat).collect()
}

#[test]
fn line_endings_and_modes_make_no_commits_of_their_own() {
    // E13
    for [name, value] in [["core.autocrlf", "true"], ["core.eol", "lf"]] {
        let mut house = with_settings(&[[name, value]]);
        if name == "core.eol" {
            house.write(".gitattributes", "* text=auto eol=lf\n");
        }
        house.write("crlf.md", "# One\r\n\r\nalpha\r\n\r\n# Two\r\n\r\nomega\r\n");
        house.write("lf.md", "beta\n");
        house.start();
        house.settle_and_check();
        assert!(!house.in_head("crlf.md").contains(&b'\r'));
        let commits = house.commits();
        for round in 0..3 {
            house.stop();
            for path in ["crlf.md", "lf.md"] {
                let file = fs::File::options().append(true).open(house.at(path)).unwrap();
                file.set_modified(std::time::SystemTime::now()).unwrap();
            }
            house.start();
            house.settle_and_check();
            assert_eq!(house.commits(), commits, "{name}, restart {round}");
        }
        // Pages and differences are in the lines of the file on disk.
        let found = house.run(["search", "omega"]).stdout;
        assert!(found.contains("crlf.md:1-7"), "{found}");
        assert_eq!(house.run(["diff"]).stdout, "");
        // The other ending is the same content.
        house.write("crlf.md", "# One\n\nalpha\n\n# Two\n\nomega\n");
        house.settle_and_check();
        assert_eq!(house.commits(), commits);

        fs::set_permissions(house.at("lf.md"), PermissionsExt::from_mode(0o755)).unwrap();
        house.settle_and_check();
        assert_eq!(house.git(["log", "-1", "--format=%s"]), "memory: mode lf.md");
        house.git(["config", "core.fileMode", "false"]);
        fs::set_permissions(house.at("lf.md"), PermissionsExt::from_mode(0o644)).unwrap();
        house.settle_and_check();
        assert_eq!(house.commits(), commits + 1);
    }
}

#[test]
fn large_files_are_lfs_pointers_or_held_and_found_by_what_they_are() {
    // E17
    let version = Command::new("git-lfs").arg("version").output();
    assert!(version.is_ok(), "the tests need Git LFS: apt-get install git-lfs");
    let mut house = with_settings(&[]);
    house.git(["lfs", "install", "--local"]);
    house.write(
        ".gitattributes",
        "*.pdf filter=lfs diff=lfs merge=lfs -text\n*.big.md filter=lfs\n",
    );
    house.start();
    house.write("scan.pdf", vec![5; 50_000_000]);
    house.write("essay.big.md", "quixotic windmills\n".repeat(1000));
    house.settle_and_check();
    let pointer = String::from_utf8(house.in_head("scan.pdf")).unwrap();
    assert!(pointer.starts_with("version https://git-lfs.github.com/spec/v1\noid sha256:"));
    assert!(pointer.ends_with("\nsize 50000000\n"));
    assert!(house.in_head("essay.big.md").starts_with(b"version https://git-lfs"));
    house.write("quote.md", format!("So a pointer looks:\n\n{pointer}"));
    house.settle_and_check();
    assert_eq!(house.found("windmills"), ["essay.big.md"], "the note, not its pointer");
    assert_eq!(house.found("spec oid sha256"), ["quote.md"], "a quoted pointer is a note's text");

    // A machine without Git LFS.
    house.stop();
    let bin = house.temp.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for tool in ["sh", "git"] {
        symlink(Path::new("/usr/bin").join(tool), bin.join(tool)).unwrap();
    }
    let path = bin.to_str().unwrap().to_owned();
    house.env("PATH", &path).args(["--no-mount"]);
    house.start();
    house.write("more.pdf", vec![6; 50_000_000]);
    house.write("note.md", "on it goes\n");
    wait_for("the note", || has_in_head(&house, "note.md"));
    wait_for("the file to be named", || {
        problem(&house, "kept-out").is_some_and(|it| {
            let text = format!("{} {}", it["what"], it["remedy"]);
            text.contains("more.pdf") && text.contains("git lfs install")
        })
    });
    assert!(!has_in_head(&house, "more.pdf"));
    let objects = house.git(["cat-file", "--batch-all-objects", "--batch-check=%(objectsize)"]);
    assert!(objects.lines().all(|it| it.parse::<u64>().unwrap() < 1_000_000), "{objects}");

    // And with it again.
    house.stop();
    house.env("PATH", "");
    house.start();
    wait_for("the pointer", || has_in_head(&house, "more.pdf"));
    assert!(house.in_head("more.pdf").ends_with(b"\nsize 50000000\n"));
    house.settle_and_check();
    assert_eq!(problem(&house, "kept-out"), None);
}

#[test]
fn encrypted_notes_stay_encrypted_in_git_and_are_found_by_their_words() {
    let version = Command::new("git-crypt").arg("--version").output();
    assert!(version.is_ok(), "the tests need git-crypt: apt-get install git-crypt");
    let mut house = with_settings(&[]);
    let init = Command::new("git-crypt").arg("init").current_dir(&house.vault).output().unwrap();
    assert!(init.status.success(), "{init:?}");
    house.write(".gitattributes", "secret/** filter=git-crypt diff=git-crypt\n");
    house.write("secret/diary.md", "# Diary\n\nthe heron came back\n");
    house.start();
    house.settle_and_check();
    assert!(house.in_head("secret/diary.md").starts_with(b"\0GITCRYPT\0"));
    assert_eq!(house.found("heron"), ["secret/diary.md"]);
    // A restart, and an index made anew, find it as well.
    house.stop();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    house.start();
    house.settle_and_check();
    assert_eq!(house.found("heron"), ["secret/diary.md"]);
    assert_eq!(house.commits(), 1);
}

#[test]
fn a_filter_that_hangs_stops_nobody_and_no_stop() {
    let mut house = with_settings(&[
        ["filter.slow.clean", "sleep 600"],
        ["filter.slow.required", "true"],
        ["filter.loud.clean", "yes | head -c 5000000 >&2; exit 9"],
        ["filter.loud.required", "true"],
    ]);
    house.write(".gitattributes", "*.slow filter=slow\n*.loud filter=loud\n");
    house.start();
    house.settle();
    house.write("a.slow", "a\n");
    house.write("b.loud", "b\n");
    house.write("c.md", "neighbour\n");
    wait_for("the neighbour", || has_in_head(&house, "c.md"));
    wait_for("the loud one to be named", || {
        let kept = house.status()["pending"]["kept_out"].to_string();
        kept.contains("b.loud") && kept.contains("exit status: 9") && kept.len() < 2_000
    });
    wait_for("the slow one to be named", || {
        house.status()["pending"]["kept_out"].to_string().contains("a.slow")
    });
    for n in 0..3 {
        let path = format!("more-{n}.md");
        house.write(&path, "more\n");
        wait_for(&path, || has_in_head(&house, &path));
    }
    assert!(children(&house).iter().all(|it| it.1 != 'Z'), "{:?}", children(&house));
    let started = Instant::now();
    assert_eq!(house.stop(), Some(0), "{}", house.log());
    assert!(started.elapsed() < Duration::from_secs(10));
    // Mended while nobody ran.
    house.git(["config", "filter.slow.clean", "cat"]);
    house.git(["config", "filter.loud.clean", "tr a-z A-Z"]);
    house.start();
    wait_for("both", || has_in_head(&house, "a.slow") && has_in_head(&house, "b.loud"));
    assert_eq!(house.in_head("b.loud"), b"B\n");
    house.settle_and_check();
}

#[test]
fn a_file_that_git_refuses_is_named_and_goes_when_its_rule_is_mended() {
    let house = House::open();
    house.write(".gitattributes", "*.txt working-tree-encoding=UTF-16\n");
    house.write("a.txt", "plain\n");
    house.write("b.md", "neighbour\n");
    house.settle();
    assert!(has_in_head(&house, "b.md") && !has_in_head(&house, "a.txt"));
    let named = problem(&house, "kept-out").unwrap().to_string();
    assert!(named.contains("a.txt") && named.contains("byte order mark"), "{named}");
    house.write(".gitattributes", "");
    wait_for("the file", || has_in_head(&house, "a.txt"));
    // A filter that is not set up, and then is: no restart, no touch.
    house.write(".gitattributes", "*.txt filter=git-crypt\n");
    house.write("c.txt", "guarded\n");
    house.settle();
    let named = problem(&house, "kept-out").unwrap().to_string();
    assert!(named.contains("c.txt") && named.contains("git-crypt unlock"), "{named}");
    house.git(["config", "filter.git-crypt.clean", "tr a-z A-Z"]);
    wait_for("the filtered file", || has_in_head(&house, "c.txt"));
    assert_eq!(house.in_head("c.txt"), b"GUARDED\n");
    house.settle();
    assert_eq!(problem(&house, "kept-out"), None);
}

#[test]
fn commits_are_signed_or_wait_and_say_so() {
    let mut house = with_settings(&[["commit.gpgSign", "true"], ["gpg.format", "ssh"]]);
    let key = house.temp.path().join("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .output()
        .expect("the tests need ssh-keygen: apt-get install openssh-client");
    assert!(made.status.success(), "{made:?}");
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    let signers = house.temp.path().join("signers");
    fs::write(&signers, format!("ada@example.org {public}")).unwrap();
    house.git(["config", "gpg.ssh.allowedSignersFile", signers.to_str().unwrap()]);
    let away = house.temp.path().join("away");
    fs::rename(&key, &away).unwrap();
    house.git(["config", "user.signingKey", key.to_str().unwrap()]);
    house.write("a.md", "kept meanwhile\n");
    house.start();
    wait_for("the status", || problem(&house, "commit-held").is_some());
    let problem_is = problem(&house, "commit-held").unwrap();
    assert!(problem_is["what"].as_str().unwrap().contains("to be signed"), "{problem_is}");
    assert!(problem_is["remedy"].as_str().unwrap().contains("ssh-add"), "{problem_is}");
    let said = house.run(["status", "--wait", "settled", "--timeout", "30s"]);
    assert_eq!(said.code, 4, "{}", said.stdout);
    let refs = house.git(["for-each-ref", "--format=%(refname)"]);
    assert!(refs.contains("refs/remd/wip/") && !refs.contains("refs/heads/"), "{refs}");
    // The key is back: it goes by itself.
    fs::rename(&away, &key).unwrap();
    wait_for("the commit", || house.git(["for-each-ref", "refs/heads/"]).contains("main"));
    house.git(["verify-commit", "HEAD"]);
    house.settle_and_check();
    assert_eq!(problem(&house, "commit-held"), None);
    house.write("a.md", "signed as well\n");
    house.settle_and_check();
    house.git(["verify-commit", "HEAD"]);
}

#[test]
fn a_hook_that_refuses_is_named_until_it_is_content() {
    let mut house = with_settings(&[]);
    hook(&house, "pre-commit", "[ -e ../forbidden ] && { echo 'not today' >&2; exit 1; }; exit 0");
    hook(&house, "post-commit", "[ ! -e ../broken ] || { echo 'no network' >&2; exit 7; }");
    let forbidden = house.temp.path().join("forbidden");
    let broken = house.temp.path().join("broken");
    fs::write(&forbidden, "").unwrap();
    fs::write(&broken, "").unwrap();
    house.start();
    house.write("a.md", "one\n");
    wait_for("the refusal", || problem(&house, "commit-held").is_some());
    let held = problem(&house, "commit-held").unwrap();
    assert_eq!(held["what"], "The hook `pre-commit` refuses the commit: not today");
    assert!(held["remedy"].as_str().unwrap().contains("REMD_COMMIT"));
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 4);
    assert!(house.run(["status"]).stdout.contains("not today"));
    fs::remove_file(&forbidden).unwrap();
    wait_for("the commit", || house.git(["for-each-ref", "refs/heads/"]).contains("main"));
    wait_for("all to be well", || problem(&house, "commit-held").is_none());
    // What runs afterwards stops nothing and is noted.
    wait_for("the note", || problem(&house, "post-commit").is_some());
    let note = problem(&house, "post-commit").unwrap();
    assert!(note["what"].as_str().unwrap().contains("no network"), "{note}");
    assert_eq!(note["level"], "note");
    fs::remove_file(&broken).unwrap();
    house.write("a.md", "two\n");
    house.settle_and_check();
    wait_for("the note to go", || problem(&house, "post-commit").is_none());
}

/// A file that cannot be read for a moment is read again without an edit.
#[test]
fn settings_that_can_be_read_again_are_no_problem_any_more() {
    let mut house = House::closed();
    let faults = house.temp.path().join("faults");
    fs::write(&faults, "").unwrap();
    house.env("REMD_FAULTS", faults.to_str().unwrap());
    house.write("n.md", "alfa\n");
    house.git(["init", "-qb", "main"]);
    house.start();
    house.settle();
    fs::write(&faults, "settings.read=24\n").unwrap();
    house.write("remd.yaml", "commit:\n  quiet: 70ms\n");
    let error = || problem(&house, "settings-error");
    wait_for("the error", || error().is_some());
    assert!(error().unwrap()["what"].to_string().contains("remd.yaml"));
    fs::write(&faults, "").unwrap();
    wait_for("its end", || error().is_none() && problem(&house, "settings-changed").is_some());
}

/// An edit of either settings file is noticed without a reload: what it would do, and what is wrong
/// with it until it is mended or gone.
#[test]
fn an_edit_of_the_settings_is_noticed_and_taken_by_a_reload() {
    let house = House::open();
    house.write("n.md", "alfa\n");
    house.settle_and_check();
    let user = house.temp.path().join("home/.config/remd/config.yaml");
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    let has = |id: &str| {
        let problems = house.status()["problems"].clone();
        problems.as_array().unwrap().iter().any(|it| it["id"] == id)
    };
    for file in [house.at("remd.yaml"), user] {
        fs::write(&file, "commit:\n  quiet: soon\n").unwrap();
        assert!(has("settings-error") && !has("settings-changed"), "{}", file.display());
        fs::write(&file, "commit:\n  quiet: 70ms\n").unwrap();
        assert!(!has("settings-error") && has("settings-changed"), "{}", file.display());
        assert!(house.run(["status"]).stdout.contains("`remd reload` takes the new ones"));
        assert_eq!(house.run(["reload"]).code, 0);
        assert!(!has("settings-error") && !has("settings-changed"), "{}", file.display());
        fs::write(&file, "comit:\n  quiet: 70ms\n").unwrap();
        assert!(has("settings") && has("settings-changed"), "{}", file.display());
        fs::remove_file(&file).unwrap();
        assert!(!has("settings") && has("settings-changed"), "{}", file.display());
        assert_eq!(house.run(["reload"]).code, 0);
        assert!(!has("settings-changed"));
    }
}

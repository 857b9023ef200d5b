//! Issue 5: the past as the command line tells it: `remd log`, `show` and `diff`.

use std::path::PathBuf;
use std::process::Command;

use crate::house::{House, has_fuse, wait_for};

/// A vault with commits and no agent: reading the past needs none.
fn at_rest() -> House {
    let house = House::closed();
    std::fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house
}

/// Commits what is there, as somebody and at a time of one's own; gives the commit.
pub fn commit_at(house: &House, date: &str, author: &str, message: &str) -> String {
    house.git(["add", "-A"]);
    let output = Command::new("git")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", house.root().join("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", date)
        .env("GIT_COMMITTER_DATE", date)
        .args(["-c", &format!("user.name={author}"), "-c", "user.email=a@example.org"])
        .args(["commit", "-q", "--allow-empty", "-m", message])
        .current_dir(&house.vault)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    house.git(["rev-parse", "HEAD"])
}

/// The commits' subjects, newest first.
fn subjects<const N: usize>(house: &House, args: [&str; N]) -> Vec<String> {
    let mut all = vec!["log", "--json"];
    all.extend(args);
    let said = house.run(all);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).expect(&said.stderr);
    let commits = json["commits"].as_array().unwrap();
    assert_eq!(said.code, i32::from(commits.is_empty()), "{}", said.stderr);
    commits.iter().map(|it| it["subject"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn autosaves_of_a_session_are_one_line_and_each_with_all() {
    let house = at_rest();
    let saved = |minute: u32, text: &str| {
        house.write("memory/a.md", text);
        let message = "memory: update memory/a.md\n\nRemd-Cause: edit";
        commit_at(&house, &format!("2026-06-01T10:{minute:02}:00 +0200"), "Ada", message)
    };
    let first = saved(0, "one\n");
    saved(5, "one\ntwo\n");
    let third = saved(20, "one\ntwo\nthree\n");
    house.write("digest/wiki/b.md", "learnt\n");
    let message = "memory: create digest/wiki/b.md\n\nRemd-Cause: job\nRemd-Job: auto_dream\n\
                   Remd-Run: 01JRUN\nRemd-Session: s-1";
    let job = commit_at(&house, "2026-06-01T10:30:00 +0200", "remd", message);
    let said = house.run(["log"]);
    let short = |commit: &str| commit[..7].to_owned();
    assert_eq!(
        said.stdout,
        format!(
            "{} 2026-06-01 10:30 [job auto_dream] remd, run 01JRUN, session s-1: memory: create \
             digest/wiki/b.md (+1 -0)\n{}..{} 2026-06-01 10:00–10:20 [edit] Ada: 3 commits to 1 path \
             (memory/a.md) (+3 -0)\n",
            short(&job),
            short(&first),
            short(&third)
        )
    );
    assert_eq!(house.run(["log", "--all"]).stdout.lines().count(), 4);
    assert_eq!(subjects(&house, []).len(), 4);
    assert_eq!(house.run(["log", "-n", "1"]).stdout.lines().count(), 1);
    assert_eq!(subjects(&house, ["-n", "2"]).len(), 2);
    assert_eq!(subjects(&house, ["digest"]), ["memory: create digest/wiki/b.md"]);
}

#[test]
fn a_log_is_narrowed_by_cause_job_agent_session_time_and_text() {
    let house = at_rest();
    let commit = |day: u32, text: &str, message: &str| {
        house.write("n.md", text);
        commit_at(&house, &format!("2026-06-{day:02}T12:00:00"), "Ada", message);
    };
    commit(1, "We chose MySQL.\nkept\n", "first\n\nRemd-Cause: adopt");
    commit(2, "We chose Postgres.\nkept\n", "second\n\nRemd-Cause: edit");
    commit(
        3,
        "We chose Postgres.\nkept\nmore\n",
        "third\n\nRemd-Cause: api\nRemd-Agent: codex\nRemd-Session: s-9",
    );
    commit(
        4,
        "We chose Postgres.\nkept\nmore\nthan\n",
        "fourth\n\nRemd-Cause: job\nRemd-Job: auto_dream\nRemd-Run: 01J7",
    );
    commit(5, "by hand\n", "fifth by hand");
    assert_eq!(subjects(&house, ["--cause", "edit,adopt"]), ["second", "first"]);
    assert_eq!(subjects(&house, ["--cause", "none"]), ["fifth by hand"]);
    assert_eq!(subjects(&house, ["--job", "auto_dream"]), ["fourth"]);
    assert_eq!(subjects(&house, ["--job", "01J7"]), ["fourth"]);
    assert_eq!(subjects(&house, ["--agent", "codex"]), ["third"]);
    assert_eq!(subjects(&house, ["--session", "s-9"]), ["third"]);
    assert_eq!(
        subjects(&house, ["--since", "2026-06-03", "--until", "2026-06-04"]),
        ["fourth", "third"]
    );
    assert_eq!(subjects(&house, ["--until", "2026-06-01"]), ["first"]);
    // What came or went, not what stands beside it.
    assert_eq!(subjects(&house, ["--grep", "mysql"]), ["second", "first"]);
    assert_eq!(subjects(&house, ["--grep", "KEPT"]), ["fifth by hand", "first"]);
    assert_eq!(subjects(&house, ["--grep", "nowhere"]), [""; 0]);
    assert_eq!(subjects(&house, ["--cause", "edit", "--grep", "postgres", "n.md"]), ["second"]);

    let none = house.run(["log", "--job", "nobody"]);
    assert_eq!((none.code, none.stdout.as_str()), (1, ""));
    assert!(none.stderr.contains("No commit is of this kind"), "{}", none.stderr);
    let partial = house.run(["log", "--grep", "mysql", "--timeout", "0s"]);
    assert_eq!(partial.code, 3, "{}", partial.stderr);
    assert!(partial.stderr.contains("not everything was looked at"), "{}", partial.stderr);
    let json = house.run(["log", "--json", "--grep", "mysql", "--timeout", "0s"]);
    assert_eq!(json.code, 3);
    assert!(json.stdout.contains("\"partial\": true"), "{}", json.stdout);
    for odd in [["--since", "someday"], ["--cause", "whim"], ["--timeout", "soon"]] {
        let said = house.run(["log"].iter().chain(&odd));
        assert_eq!(said.code, 2, "{odd:?}: {}", said.stderr);
    }
    assert!(house.run(["log", "--since", "someday"]).stderr.contains("hint: "));
}

#[test]
fn a_note_is_followed_through_its_names_whatever_they_hold_a02_a03() {
    let house = at_rest();
    let odd = [
        "日記 🔥.md",
        "q\"uote.md",
        "back\\slash.md",
        "tab\tname.md",
        "a b/ c.md",
        "line\nbreak.md",
    ];
    for (at, name) in odd.iter().enumerate() {
        house.write(name, format!("needle{at}\nsecond\nthird\n"));
    }
    commit_at(&house, "2026-06-01T10:00:00", "Ada", "one");
    for (at, name) in odd.iter().enumerate() {
        house.write(name, format!("needle{at}\nsecond\nedited\n"));
    }
    commit_at(&house, "2026-06-02T10:00:00", "Ada", "two");
    for (at, name) in odd.iter().enumerate() {
        house.git(["mv", name, &format!("plain{at}.md")]);
    }
    commit_at(&house, "2026-06-03T10:00:00", "Ada", "three");
    for (at, name) in odd.iter().enumerate() {
        let new = format!("plain{at}.md");
        let said = house.run(["log", "--json", &new]);
        let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let told: Vec<_> = json["commits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                (
                    it["subject"].as_str().unwrap(),
                    it["path"].as_str().unwrap(),
                    it["renamed_from"].as_str(),
                )
            })
            .collect();
        assert_eq!(told, [("three", &*new, Some(*name)), ("two", name, None), ("one", name, None)]);
        // The lines that changed, not all of them twice.
        assert_eq!(json["commits"][0]["changes"][0]["added"], 0);
        assert_eq!(json["commits"][1]["changes"][0]["added"], 1);
        let text = house.run(["log", &new]).stdout;
        assert_eq!(text.lines().count(), 3, "{text}");
        // The old name, which is gone, has its own end.
        assert_eq!(subjects(&house, [name]), ["three", "two", "one"]);
    }
    let shown = house.run(["show", "2026-06-02"]).stdout;
    let heads: Vec<_> = shown.lines().filter(|it| it.starts_with("diff --git ")).collect();
    assert_eq!(heads.len(), odd.len(), "{shown}");
    assert!(heads.contains(&"diff --git \"a/line\\nbreak.md\" \"b/line\\nbreak.md\""), "{shown}");
    assert!(!shown.lines().any(|it| it.starts_with("break.md")), "{shown}");
    for marks in ["--word-diff", "--patch"] {
        let diff = house.run(["diff", "2026-06-01..2026-06-02", "line\nbreak.md", marks]);
        assert_eq!(diff.code, 0, "{}", diff.stderr);
        assert!(!diff.stdout.lines().any(|it| it.starts_with("break.md")), "{}", diff.stdout);
    }
}

#[test]
fn a_moment_names_a_commit_for_show_and_diff() {
    let house = at_rest();
    house.write("a.md", "one two three\n今天去北京\n");
    let first = commit_at(&house, "2026-06-01T10:00:00", "Ada", "one");
    house.write("a.md", "one 2 three\n今天去上海\n");
    let second = commit_at(&house, "2026-06-02T10:00:00", "Ada", "two");
    house.git(["tag", "kept", &first]);
    for moment in ["kept", "2026-06-01", "HEAD~1", &first[..7], "2026-06-01T23:00"] {
        let said = house.run(["show", moment]);
        assert!(said.stdout.starts_with(&first[..7]), "{moment}: {}{}", said.stdout, said.stderr);
    }
    for moment in ["HEAD", "today", "1m", "2026-06"] {
        assert!(house.run(["show", moment]).stdout.starts_with(&second[..7]), "{moment}");
    }
    for (moment, part) in [
        ("2026-05-31", "before the first commit that is here, of 2026-06-01 10:00"),
        ("nonsense", "No such revision or date"),
    ] {
        let said = house.run(["show", moment]);
        assert_eq!(said.code, 2);
        assert!(said.stderr.contains(part) && said.stderr.contains("hint: "), "{}", said.stderr);
    }
    let plain = house.run(["diff", "2026-06-01..HEAD"]).stdout;
    let patch = house.root().join("patch");
    std::fs::write(&patch, &plain).unwrap();
    house.git(["checkout", "-q", &first]);
    house.git(["apply", "--check", patch.to_str().unwrap()]);
    house.git(["checkout", "-q", "main"]);
    let words = house.run(["diff", "--word-diff", "2026-06-01..HEAD"]).stdout;
    assert!(words.contains("\none [-two-]{+2+} three\n今天去[-北京-]{+上海+}\n"), "{words}");
    assert_eq!(house.run(["diff", "HEAD..HEAD"]).code, 1);
    let shown = house.run(["show", "--word-diff"]).stdout;
    assert!(shown.contains("[-two-]{+2+}"), "{shown}");
}

#[test]
fn a_shallow_clone_says_where_its_history_ends_e20() {
    let house = at_rest();
    for day in 1..=3 {
        house.write("a.md", format!("{day}\n"));
        commit_at(&house, &format!("2026-06-0{day}T10:00:00"), "Ada", &format!("day {day}"));
    }
    let clone = |name: &str, args: &[&str]| -> PathBuf {
        let to = house.root().join(name);
        let from = format!("file://{}", house.vault.display());
        house.git(["config", "uploadpack.allowFilter", "true"]);
        let cloned =
            Command::new("git").args(["clone", "-q"]).args(args).arg(from).arg(&to).status();
        assert!(cloned.unwrap().success());
        to
    };
    let shallow = clone("shallow", &["--depth", "2"]);
    for args in [&["log"][..], &["log", "a.md"], &["log", "--grep", "2"]] {
        let said = house.run(["-C", shallow.to_str().unwrap()].iter().chain(args));
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert_eq!(said.stdout.lines().count(), 2, "{}", said.stdout);
        assert!(said.stderr.contains("`git fetch --unshallow`"), "{}", said.stderr);
    }
    let one = house.run(["-C", shallow.to_str().unwrap(), "log", "-n", "1"]);
    assert_eq!(one.stderr, "", "what was asked for is all there");
    assert_eq!(house.run(["-C", shallow.to_str().unwrap(), "show", "HEAD~1"]).code, 0);

    // Old texts were left with the remote, which is not reached: what they say is not invented.
    let partial = clone("partial", &["--filter=blob:none"]);
    std::fs::rename(&house.vault, house.root().join("away")).unwrap();
    let said = house.run(["-C", partial.to_str().unwrap(), "log", "a.md"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.stdout.lines().count(), 3, "{}", said.stdout);
    assert!(said.stdout.lines().all(|it| it.ends_with("(+? -?)")), "{}", said.stdout);
    let shown = house.run(["-C", partial.to_str().unwrap(), "show", "HEAD~1"]);
    assert!(
        shown.stdout.contains("is not in this partial clone"),
        "{}{}",
        shown.stdout,
        shown.stderr
    );
}

#[test]
fn a_merge_shows_what_no_side_had() {
    let house = at_rest();
    house.write("a.md", "a\n");
    commit_at(&house, "2026-06-01T10:00:00", "Ada", "base");
    house.git(["checkout", "-qb", "side"]);
    house.write("b.md", "b\n");
    commit_at(&house, "2026-06-02T10:00:00", "Bob", "side");
    house.git(["checkout", "-q", "main"]);
    house.write("a.md", "a2\n");
    commit_at(&house, "2026-06-03T10:00:00", "Ada", "main");
    house.git(["merge", "-q", "--no-ff", "-m", "merged", "side"]);
    let log = house.run(["log"]).stdout;
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 4, "{log}");
    assert!(lines[0].ends_with("merged (merge)"), "{log}");
    let shown = house.run(["show"]).stdout;
    assert!(shown.contains("\nmerge of ") && shown.contains("+++ b/b.md"), "{shown}");
    assert_eq!(subjects(&house, ["b.md"]), ["side"]);
}

#[test]
fn the_agent_keeps_a_table_of_paths_and_makes_it_anew_when_it_is_taken_away() {
    let house = House::open();
    house.write("a.md", "one\n");
    house.settle();
    house.write("b.md", "other\n");
    house.settle();
    let table = house.at("mem_metadata/path_log");
    let size = || -> u64 {
        let files = std::fs::read_dir(&table).into_iter().flatten().flatten();
        files.filter_map(|it| Some(it.metadata().ok()?.len())).sum()
    };
    let grown_over = |least: u64| wait_for("the table of paths", || size() > least);
    grown_over(300);
    let log = house.run(["log", "a.md"]).stdout;
    assert_eq!(log.lines().count(), 1, "{log}");
    std::fs::remove_dir_all(&table).unwrap();
    assert_eq!(house.run(["log", "a.md"]).stdout, log);
    house.write("a.md", "two\n");
    house.settle();
    grown_over(400);
    // Another history altogether: what was before is neither shown nor in the way.
    house.git(["reset", "-q", "--hard", "HEAD~1"]);
    house.settle();
    assert_eq!(house.run(["log", "a.md"]).stdout, log);
    house.write("a.md", "three\n");
    house.settle();
    let log = house.run(["log", "--all", "a.md"]).stdout;
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(house.status()["problems"].to_string().find("path-log").is_none());
}

#[test]
fn a_search_at_a_moment_answers_from_the_vault_as_it_was() {
    let mut house = at_rest();
    house.write("memory/2026-06-01/db.md", "# Stores\n\nWe chose MySQL.\n");
    house.write("mysql.md", "# Notes\n\nabout it\n");
    house.write("other.md", "nothing here\n");
    let first = commit_at(&house, "2026-06-01T10:00:00", "Ada", "one");
    house.write("memory/2026-06-01/db.md", "# Stores\n\nWe chose Postgres.\n");
    std::fs::remove_file(house.at("mysql.md")).unwrap();
    commit_at(&house, "2026-06-03T10:00:00", "Ada", "two");
    let page = format!(
        "========== mysql.md:1-3 [score=0.8000] ==========\n# Notes\n\nabout it\n\
         ========== memory/2026-06-01/db.md:1-3 [score=0.7500] ==========\n# Stores\n\nWe chose \
         MySQL.\n-- 2 hits as of {}, literal search of the vault as it was then, keyword (vector \
         off: the past has no vectors)\n",
        &first[..7]
    );
    let said = house.run(["search", "--at", "2026-06-02", "mysql"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, page.as_str()), "{}", said.stderr);
    let one = house.run(["search", "--at", "HEAD~1", "--in", "memory", "--json", "mysql"]);
    let json: serde_json::Value = serde_json::from_str(&one.stdout).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 1, "{}", one.stdout);
    assert_eq!(
        (&json["results"][0]["path"], &json["query"]["at"]),
        (&"memory/2026-06-01/db.md".into(), &"HEAD~1".into())
    );
    assert_eq!(house.run(["search", "--at", "2026-06-02", "postgres"]).code, 1);
    assert_eq!(house.run(["search", "--at", "2026-06-03", "postgres"]).code, 0);
    let early = house.run(["search", "--at", "2026-05-01", "mysql"]);
    assert_eq!(early.code, 2);
    assert!(
        early.stderr.contains("before the first commit") && early.stderr.contains("hint: "),
        "{}",
        early.stderr
    );

    let faults = house.root().join("faults");
    std::fs::write(&faults, "past.limit=0\n").unwrap();
    house.env("REMD_FAULTS", faults.to_str().unwrap());
    let partial = house.run(["search", "--at", "2026-06-02", "mysql"]);
    assert_eq!(partial.code, 3, "{}", partial.stdout);
    assert!(
        partial.stdout.contains("partial: 0 of 3 notes were looked at in time"),
        "{}",
        partial.stdout
    );
    house.env("REMD_FAULTS", "");

    if !has_fuse("a_search_at_a_moment_answers_from_the_vault_as_it_was") {
        return;
    }
    house.start();
    house.settle();
    assert_eq!(house.cat("search/at=2026-06-02/mysql"), page);
    assert_eq!(house.cat(&format!("search/limit=5/at={}/mysql", &first[..8])), page);
    assert!(house.cat("search/at=2026-06-02/in=memory/mysql").contains("-- 1 hit as of "));
    assert!(house.cat("search/mysql").contains("as of "), "the present is searched as ever");
    for bad in ["search/at=2026-05-01/mysql", "search/at=nonsense/mysql", "nodes/at=HEAD/mysql"] {
        let err = std::fs::read(house.mount.join(bad)).unwrap_err();
        assert_eq!(err.raw_os_error(), Some(22), "{bad}: {err}");
    }
    assert_eq!(house.run(["search", "--at", "2026-06-02", "mysql"]).stdout, page);
}

#[test]
fn what_is_gone_is_found_with_the_command_that_brings_it_back() {
    let house = at_rest();
    for (name, text) in [
        ("plain.md", "# Plain\n\nthe needle was here\n"),
        ("odd 'q'\nname.md", "needle twice\n"),
        ("moved.md", "the needle moves on\n"),
        ("changed.md", "the needle\none\ntwo\nthree\n"),
        ("kept.md", "needle stays\n"),
    ] {
        house.write(name, text);
    }
    commit_at(&house, "2026-06-01T10:00:00", "Ada", "one");
    house.git(["mv", "moved.md", "elsewhere.md"]);
    // Changed on its way, in a commit that says nothing of it.
    house.git(["mv", "changed.md", "new name.md"]);
    house.write("new name.md", "the needle\none\ntwo\n3\n");
    house.git(["rm", "-q", "odd 'q'\nname.md"]);
    commit_at(&house, "2026-06-02T10:00:00", "Bob", "two\n\nRemd-Cause: edit");
    house.git(["rm", "-q", "plain.md"]);
    commit_at(&house, "2026-06-03T10:00:00", "Ada", "three");
    let said = house.run(["search", "--deleted", "needle"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let heads: Vec<_> = said.stdout.lines().filter(|it| it.starts_with("=====")).collect();
    assert_eq!(
        heads,
        [
            "========== plain.md:1-3 [score=0.7500] ==========",
            "========== odd 'q'\\nname.md:1-1 [score=0.7500] =========="
        ],
        "the newest deletion first, what lives on not at all: {}",
        said.stdout
    );
    assert!(said.stdout.contains("  deleted: 2026-06-02 10:00 [edit] Bob in "), "{}", said.stdout);
    assert!(said.stdout.contains("-- 2 deleted notes as of "), "{}", said.stdout);
    assert_eq!(house.run(["search", "--deleted", "nowhere"]).code, 1);
    // Without words all that is gone.
    let all = house.run(["search", "--deleted"]).stdout;
    assert_eq!(all.matches("\nrestore: ").count(), 2, "{all}");

    // The lines as a shell takes them.
    let program = env!("CARGO_BIN_EXE_remd");
    for line in said.stdout.lines().filter_map(|it| it.strip_prefix("restore: remd ")) {
        let output = Command::new("bash")
            .args(["-c", &format!("'{program}' {line}")])
            .env("HOME", house.root().join("home"))
            .env("XDG_RUNTIME_DIR", house.root().join("run"))
            .env("REMD_VAULT", &house.vault)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(house.root())
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(house.in_head("plain.md"), b"# Plain\n\nthe needle was here\n");
    assert_eq!(house.in_head("odd 'q'\nname.md"), b"needle twice\n");
    assert_eq!(house.run(["search", "--deleted", "needle"]).code, 1, "nothing is gone any more");
    let json = house.run(["search", "--deleted", "--json", "needle"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["schema_version"], &json["results"]), (&1.into(), &serde_json::json!([])));
}

//! What the reader gives back.

use super::*;
use crate::vault::FileMode;

#[test]
fn differences_logs_and_revisions() {
    let mut vault = Vault::new();
    vault.write("a.md", "one\ntwo\n");
    vault.write("d/b.md", "b\n");
    let first = vault.snapshot_all().head.unwrap();
    vault.write("a.md", "one\n2\nthree\n");
    vault.remove("d/b.md");
    vault.write("new \"q\".md", "no newline");
    let cause = Cause {
        kind: CauseKind::Api,
        author: Some(("claude-code".into(), "agent@<host>".into())),
        trailers: vec![("Remd-Agent".into(), "claude-code".into())],
        note: Vec::new(),
    };
    let look = vault.scan();
    let snapshot = vault.history().snapshot(&look, &cause).unwrap();
    let second = snapshot.head.unwrap();
    let reader = vault.reader();

    assert_eq!(reader.diff(Some(first.commit), second.commit).unwrap(), snapshot.changes);
    let all = reader.diff(None, first.commit).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(reader.resolve("HEAD~1").unwrap(), first.commit);
    assert_eq!(reader.resolve(&second.commit.short()).unwrap(), second.commit);
    assert!(reader.resolve("nonsense").unwrap_err().is_not_found());
    assert_eq!(reader.count_between(Some(first.commit), second.commit, 10).unwrap(), 1);
    assert_eq!(reader.count_between(None, second.commit, 10).unwrap(), 2);
    assert!(reader.is_ancestor(first.commit, second.commit).unwrap());
    assert!(!reader.is_ancestor(second.commit, first.commit).unwrap());
    assert!(reader.exists(first.commit));
    assert_eq!(reader.parent(second.commit).unwrap(), Some(first.commit));

    let log = reader.log(&LogFilter { path: None, limit: 10 }).unwrap();
    assert_eq!(log.len(), 2);
    assert_eq!((log[0].author.as_str(), log[0].mail.as_str()), ("claude-code", "agent@host"));
    assert_eq!(log[0].cause, Some(CauseKind::Api));
    let lines: Vec<_> = log[0].changes.iter().map(|it| (it.path.to_string(), it.lines)).collect();
    assert_eq!(
        lines,
        [
            ("a.md".to_owned(), Some((2, 1))),
            ("d/b.md".to_owned(), Some((0, 1))),
            ("new \"q\".md".to_owned(), Some((1, 0))),
        ]
    );
    let only = |path: &str| {
        let filter = LogFilter { path: Some(vault_path(path)), limit: 10 };
        reader.log(&filter).unwrap().into_iter().map(|it| it.commit).collect::<Vec<_>>()
    };
    assert_eq!(only("d"), [second.commit, first.commit]);
    assert_eq!(only("new \"q\".md"), [second.commit]);
    assert!(only("nowhere.md").is_empty());
}

#[test]
fn a_difference_as_text_is_what_git_applies() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut vault = Vault::new();
    let numbers: String = (1..40).map(|n| format!("line {n}\n")).collect();
    vault.write("a.md", &numbers);
    vault.write("tab\tname.md", "x\n");
    vault.write("run.sh", "x\n");
    vault.write("gone.md", "1\n2");
    vault.write("bin", "\0\u{1}");
    let first = vault.snapshot_all().head.unwrap();
    vault.write("a.md", numbers.replace("line 3\n", "line three\n").replace("line 30\n", ""));
    vault.write("tab\tname.md", "y");
    vault.write("fresh.md", "fresh\n");
    vault.remove("gone.md");
    std::fs::set_permissions(vault.path("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let reader = vault.reader();
    let from = Side::Commit(first.commit);
    let unsaved = reader.diff_text(from, Side::Disk, Some(&vault_path("a.md"))).unwrap();
    let second = vault.snapshot_all().head.unwrap();
    let to = Side::Commit(second.commit);
    assert_eq!(reader.diff_text(from, to, Some(&vault_path("a.md"))).unwrap(), unsaved);

    let patch = reader.diff_text(from, to, None).unwrap();
    let file = vault.dir.path().join("patch");
    std::fs::write(&file, &patch).unwrap();
    vault.git(&["checkout", "-q", "--detach", &first.commit.to_string()]);
    vault.git(&["apply", "--index", file.to_str().unwrap()]);
    assert_eq!(vault.git(&["diff", "--cached", &second.commit.to_string()]), "");
    // And against the bytes of git itself, without its `index` lines.
    let range = format!("{}..{}", first.commit, second.commit);
    let by_git = vault.git(&["diff", "--no-renames", "--histogram", &range]);
    let by_git: String =
        by_git.lines().filter(|it| !it.starts_with("index ")).map(|it| format!("{it}\n")).collect();
    let hunkless = |text: &str| -> String {
        // Git names the section after the second `@@`; we do not.
        text.lines()
            .map(|it| match it.starts_with("@@") {
                true => format!("{}@@\n", it.rsplit_once("@@").unwrap().0),
                false => format!("{it}\n"),
            })
            .collect()
    };
    assert_eq!(hunkless(&String::from_utf8(patch).unwrap()), hunkless(&by_git));
}

#[test]
fn handles_go_to_the_threads_that_need_them() {
    fn check<T: Send>() {}
    fn check_shared<T: Send + Sync + Clone>() {}
    check::<History>();
    check::<Ignores>();
    check_shared::<Reader>();
}

#[test]
fn reading_goes_on_from_other_threads_while_commits_are_made() {
    let mut vault = Vault::new();
    vault.write("a.md", "0\n");
    vault.snapshot_all();
    let reader = vault.reader();
    let seen = std::thread::spawn(move || {
        let mut last = 0;
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while last < 20 && std::time::Instant::now() < limit {
            let head = reader.head().unwrap().unwrap();
            let entry = reader.entry(head.commit, &vault_path("a.md")).unwrap().unwrap();
            assert_eq!(entry.mode, FileMode::File);
            let text = String::from_utf8(reader.read_blob(entry.blob).unwrap()).unwrap();
            last = text.trim().parse().unwrap();
        }
        last
    });
    for n in 1..=20 {
        vault.write("a.md", format!("{n}\n"));
        vault.snapshot(&["a.md"]);
    }
    assert_eq!(seen.join().unwrap(), 20);
}

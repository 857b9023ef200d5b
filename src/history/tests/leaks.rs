//! What looks like a credential: held off the branch, that file alone, and nothing of it lost.

use super::*;
use crate::secrets::{Allowance, Allowed, KEY_BYTES, Key, Policy};

/// Nothing that a scanner of others' would take for a leak stands here in one piece.
pub fn token(seed: char) -> String {
    let body: String = "q7RtZ2mW9xKc4VbN8sLd3JfHg6PyTq1EuXoA"
        .chars()
        .map(|it| if it == 'q' { seed } else { it })
        .collect();
    format!("gh{}_{body}", 'p')
}

/// The paths that are held, with the lines.
fn held(snapshot: &Snapshot) -> Vec<(String, Vec<usize>)> {
    let secret = |why: &Kept| match why {
        Kept::Secret { findings } => Some(findings.iter().map(|it| it.line).collect()),
        _ => None,
    };
    let all = snapshot.kept_out.iter();
    all.filter_map(|(path, why)| Some((path.to_string(), secret(why)?))).collect()
}

fn in_wip(vault: &Vault, path: &str) -> Option<String> {
    vault.try_git(&["show", &format!("refs/remd/wip/testhost:{path}")])
}

/// No object that the branch reaches has it.
fn is_on_branch(vault: &Vault, text: &str) -> bool {
    let listed = git_command(
        &vault.root,
        &["log", "-p", "--exclude=refs/remd/*", "--all", "--text", "HEAD"],
    )
    .output()
    .unwrap();
    String::from_utf8_lossy(&listed.stdout).contains(text)
}

fn allow(vault: &mut Vault, text: &str) {
    let mut options = vault.options.clone();
    let mut allowance = Allowance::new(Key::new([1; KEY_BYTES]));
    for finding in crate::secrets::scan(b"a.md", text.as_bytes()) {
        let allowed = Allowed { rule: finding.rule.into(), path: "a.md".into(), at: 0 };
        allowance.allow(allowance.fingerprint(&finding), allowed);
    }
    options.secrets.allowance = allowance;
    vault.history().set_options(options);
}

#[test]
fn that_file_alone_is_held_and_the_rest_commits() {
    let mut vault = Vault::new();
    vault.write("a.md", "clean\n");
    vault.snapshot_all();
    let secret = token('q');
    vault.write("a.md", format!("clean\nand {secret}\n"));
    vault.write("b.md", "other\n");
    vault.write("new.md", format!("{secret}\n"));
    let snapshot = vault.snapshot_all();
    assert_eq!(held(&snapshot), [("a.md".into(), vec![2]), ("new.md".into(), vec![1])]);
    assert_eq!(vault.committed("a.md").unwrap(), "clean\n");
    assert_eq!(vault.committed("b.md").unwrap(), "other\n");
    assert_eq!(vault.committed("new.md"), None);
    assert_eq!(in_wip(&vault, "a.md").unwrap(), format!("clean\nand {secret}\n"));
    assert!(in_wip(&vault, "new.md").is_some());
    assert!(!is_on_branch(&vault, &secret));
    let shown = format!("{snapshot:?} {:?}", snapshot.kept_out);
    let said: Vec<_> =
        snapshot.kept_out.iter().map(|(path, why)| format!("{why} {}", why.hint(path))).collect();
    assert!(!shown.contains(&secret[6..]) && !said.join(" ").contains(&secret[6..]), "{said:?}");
    assert!(
        said[0].contains("line 2: `github-pat`") && said[0].contains("remd secrets allow a.md:2"),
        "{said:?}"
    );

    // A look at something else says the same of it, and a later version is kept, too.
    vault.write("a.md", format!("clean\nand {secret}\nmore\n"));
    vault.write("b.md", "other 2\n");
    let snapshot = vault.snapshot(&["b.md"]);
    assert_eq!(held(&snapshot).len(), 2);
    assert_eq!(in_wip(&vault, "a.md").unwrap(), format!("clean\nand {secret}\nmore\n"));
    assert!(vault.history().stranded().is_empty());
    let chain =
        git_command(&vault.root, &["log", "-m", "-p", "refs/remd/wip/testhost"]).output().unwrap();
    assert!(String::from_utf8_lossy(&chain.stdout).contains("+more"));

    // After a restart as well.
    vault.reopen();
    assert_eq!(held(&vault.snapshot_all()).len(), 2);

    // Clean again: it ends by itself.
    vault.write("a.md", "clean\nand gone\n");
    vault.remove("new.md");
    let snapshot = vault.snapshot_all();
    assert_eq!(held(&snapshot), []);
    assert_eq!(vault.committed("a.md").unwrap(), "clean\nand gone\n");
    assert!(!is_on_branch(&vault, &secret));
}

#[test]
fn what_head_has_already_holds_nothing() {
    let mut vault = Vault::new();
    let (old, new) = (token('q'), token('z'));
    vault.write("a.md", format!("# Old\n{old}\n"));
    vault.git(&["add", "a.md"]);
    vault.git(&["commit", "-qm", "by hand"]);
    vault.write("a.md", format!("# Old\n\nanother line\n{old}\n"));
    assert_eq!(held(&vault.snapshot_all()), []);
    assert!(vault.committed("a.md").unwrap().starts_with("# Old\n\n"));

    // Renamed by the person: the same finding in another file of the same content.
    std::fs::rename(vault.path("a.md"), vault.path("b.md")).unwrap();
    let snapshot = vault.snapshot_all();
    assert_eq!((held(&snapshot), snapshot.renames.len()), (vec![], 1));

    // One that is new, beside the old one.
    vault.write("b.md", format!("# Old\n{old}\n{new}\n"));
    assert_eq!(held(&vault.snapshot_all()), [("b.md".into(), vec![3])]);
    assert!(!is_on_branch(&vault, &new));
    // A person's own commit is theirs.
    vault.git(&["commit", "-qam", "I know"]);
    let snapshot = vault.snapshot_all();
    assert_eq!((held(&snapshot), snapshot.head.is_none()), (vec![], true));
    assert!(is_on_branch(&vault, &new));
}

#[test]
fn a_rename_with_a_new_credential_leaves_the_old_note_in_head() {
    let mut vault = Vault::new();
    let secret = token('q');
    let text = "a long enough note to be known again\n".repeat(20);
    vault.write("old.md", &text);
    vault.snapshot_all();
    std::fs::rename(vault.path("old.md"), vault.path("new.md")).unwrap();
    vault.write("new.md", format!("{text}{secret}\n"));
    for _ in 0..2 {
        let snapshot = vault.snapshot_all();
        assert_eq!(held(&snapshot), [("new.md".into(), vec![21])]);
        assert!(vault.committed("old.md").is_some(), "HEAD keeps the last clean version");
    }
    // A look at the new name alone.
    vault.write("new.md", format!("{text}{secret}\n\n"));
    assert_eq!(held(&vault.snapshot(&["new.md"])).len(), 1);
    assert!(vault.committed("old.md").is_some());
    vault.write("new.md", &text);
    let snapshot = vault.snapshot(&["new.md"]);
    assert_eq!((held(&snapshot), snapshot.renames.len()), (vec![], 1));
    assert_eq!(vault.committed("old.md"), None);
    assert_eq!(vault.committed("new.md").unwrap(), text);
}

#[test]
fn from_outside_in_many_files_in_other_encodings_and_in_binary() {
    let mut vault = Vault::new();
    let secret = token('q');
    let outside = vault.dir.path().join("outside.md");
    std::fs::write(&outside, format!("{secret}\n")).unwrap();
    std::fs::rename(&outside, vault.path("in.md")).unwrap();
    for at in 0..300 {
        vault.write(format!("many/{at}.md"), format!("note {at}\n"));
    }
    vault.write("many/17b.md", format!("x\r\n\r\n{secret}\r\n"));
    let utf16: Vec<u8> =
        format!("one\r\n{secret}\r\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
    vault.write("utf16.txt", [&[0xff, 0xfe], utf16.as_slice()].concat());
    vault.write("data.db", [b"\0\x01\x02", secret.as_bytes(), b"\0"].concat());
    let big = "the same line of words again and again, with a key = value\n".repeat(80_000);
    vault.write("big.txt", format!("{big}{secret}\n"));
    let snapshot = vault.snapshot_all();
    let mut paths: Vec<_> = held(&snapshot);
    paths.sort();
    let wanted =
        [("big.txt", 80_001), ("data.db", 1), ("in.md", 1), ("many/17b.md", 3), ("utf16.txt", 2)];
    assert_eq!(paths, wanted.map(|(path, line)| (path.to_owned(), vec![line])));
    assert!(vault.committed("many/299.md").is_some());
    assert!(!is_on_branch(&vault, &secret));
}

#[test]
fn what_is_allowed_is_committed_at_once_and_nothing_else_is() {
    let mut vault = Vault::new();
    let (one, other) = (token('q'), token('z'));
    vault.write("a.md", format!("{one}\n{other}\n"));
    assert_eq!(held(&vault.snapshot_all()), [("a.md".into(), vec![1, 2])]);
    allow(&mut vault, &one);
    assert_eq!(held(&vault.snapshot(&[])), [("a.md".into(), vec![2])], "one of two");
    assert_eq!(vault.committed("a.md"), None);
    allow(&mut vault, &format!("{one} {other}"));
    assert_eq!(held(&vault.snapshot(&[])), []);
    assert!(vault.committed("a.md").is_some());
    assert_eq!(in_wip(&vault, "a.md"), None, "HEAD has it");
}

#[test]
fn the_policy_holds_or_lets_through_without_a_touch() {
    let mut vault = Vault::new();
    let secret = token('q');
    vault.write("a.md", format!("{secret}\n"));
    assert_eq!(held(&vault.snapshot_all()).len(), 1);
    let with = |policy| Options {
        secrets: Secrets { policy, ..Secrets::default() },
        host: "testhost".into(),
        ..Options::default()
    };
    vault.history().set_options(with(Policy::Warn));
    let snapshot = vault.snapshot(&[]);
    assert_eq!((held(&snapshot), snapshot.head.is_some()), (vec![], true));
    vault.history().set_options(with(Policy::Hold));
    vault.write("b.md", format!("{secret}\n"));
    assert_eq!(held(&vault.snapshot(&["b.md"])), [("b.md".into(), vec![1])]);
    vault.history().set_options(with(Policy::Off));
    assert!(vault.snapshot(&[]).head.is_some());
}

#[test]
fn what_is_staged_is_the_person_s_and_a_lock_keeps_it_in_wip() {
    let mut vault = Vault::new();
    vault.write("a.md", "one\n");
    vault.snapshot_all();
    let secret = token('q');
    vault.write("a.md", format!("{secret}\n"));
    vault.git(&["add", "a.md"]);
    let snapshot = vault.snapshot_all();
    assert_eq!(held(&snapshot), []);
    assert!(snapshot.kept_out.iter().any(|it| it.1 == Kept::Staged));
    vault.git(&["restore", "--staged", "a.md"]);
    assert_eq!(held(&vault.snapshot_all()).len(), 1, "no longer theirs");
    assert!(!is_on_branch(&vault, &secret));
}

fn named(exposure: &Exposure) -> Vec<(String, usize)> {
    exposure.found.iter().map(|it| (it.path.to_string(), it.finding.line)).collect()
}

#[test]
fn the_past_is_looked_at_once_and_what_is_clean_is_remembered() {
    let mut vault = Vault::new();
    let (one, other) = (token('q'), token('z'));
    vault.write("a.md", "clean\n");
    vault.snapshot_all();
    let commit = |vault: &Vault, path: &str, text: &str| {
        vault.write(path, text);
        vault.git(&["add", "-A"]);
        vault.git(&["commit", "-qm", "by hand"]);
        vault.git(&["rev-parse", "HEAD"]).trim().to_owned()
    };
    let first = commit(&vault, "a.md", &format!("clean\n{one}\n"));
    commit(&vault, "a.md", &format!("clean\nmore\n{one}\n"));
    let gone = commit(&vault, "a.md", "clean again\n");
    vault.git(&["checkout", "-q", "-b", "side"]);
    let side = commit(&vault, "b.md", &format!("{other}\n"));
    vault.git(&["checkout", "-q", "main"]);
    // What only our own references have is never pushed, and is no part of it.
    vault.write("held.md", format!("{other}\n"));
    assert_eq!(held(&vault.snapshot_all()).len(), 1);

    let reader = vault.reader();
    let mut all = Vec::new();
    let mut tell = |done, of| {
        all.push((done, of));
        true
    };
    let exposure = reader.exposure(&Span::All, &mut Clean::default(), &mut tell).unwrap();
    assert_eq!(
        named(&exposure),
        [("a.md".into(), 2), ("b.md".into(), 1)],
        "once, by its first commit"
    );
    assert_eq!(exposure.found[0].commit.to_string(), first);
    assert_eq!(exposure.found[1].commit.to_string(), side);
    assert_eq!(exposure.commits, all.len());
    assert_eq!(exposure.unread, []);
    assert!(!format!("{exposure:?}").contains(&one[6..]));

    let id = |hex: &str| reader.resolve(hex).unwrap();
    let span = Span::Push { new: vec![id(&side)], known: vec![id(&gone)], remote: "origin".into() };
    let mut clean = reader.clean().unwrap();
    let pushed = reader.exposure(&span, &mut clean, &mut |_, _| true).unwrap();
    assert_eq!((named(&pushed), pushed.commits), (vec![("b.md".into(), 1)], 1));
    let old = Span::Push { new: vec![id(&gone)], known: vec![], remote: "origin".into() };
    let before = reader.exposure(&old, &mut clean, &mut |_, _| true).unwrap();
    assert_eq!(named(&before), [("a.md".into(), 2)]);
    reader.keep_clean(&clean).unwrap();
    let mut clean = reader.clean().unwrap();
    let again = reader.exposure(&old, &mut clean, &mut |_, _| true).unwrap();
    assert_eq!(named(&again), named(&before));
    assert!(again.contents < before.contents, "only what has something is read again");
    // What the remote is known to have is not looked at.
    vault.git(&["update-ref", "refs/remotes/origin/main", &gone]);
    let seen = reader.exposure(&old, &mut Clean::default(), &mut |_, _| true).unwrap();
    assert_eq!((named(&seen), seen.commits), (vec![], 0));
    // Stopped in the middle: what was seen so far.
    let none = reader.exposure(&Span::All, &mut Clean::default(), &mut |_, _| false).unwrap();
    assert_eq!((none.commits, none.found.len()), (0, 0));
}

//! Odd names, links that go round, line endings and filters.

use super::*;

#[test]
fn twins_in_both_normal_forms_stay_two_notes() {
    // A01
    let mut vault = Vault::new();
    let (composed, decomposed) = ("caf\u{e9}.md", "cafe\u{301}.md");
    vault.write(composed, "one");
    vault.write(decomposed, "two");
    vault.snapshot_all();
    let names = vault.git(&["ls-tree", "-r", "-z", "--name-only", "HEAD"]);
    assert_eq!(names, format!("{decomposed}\0{composed}\0"));
    vault.remove(decomposed);
    vault.snapshot(&[decomposed]);
    assert_eq!(vault.git(&["ls-tree", "-r", "-z", "--name-only", "HEAD"]), format!("{composed}\0"));
    vault.assert_clean();
}

#[test]
fn names_that_need_quoting_are_bytes() {
    // A02, A03 and names that are not UTF-8
    let mut vault = Vault::new();
    let names: [&[u8]; 10] = [
        "日記 🔥.md".as_bytes(),
        b"q\"uote.md",
        b"back\\slash.md",
        b"tab\tname.md",
        b"a b/ c.md",
        b"line\nbreak.md",
        b"-rf.md",
        b"[glob]*?.md",
        b"bad\xff\xfe.md",
        &[b'n'; 255],
    ];
    for (n, name) in names.iter().enumerate() {
        vault.write(name, format!("word{n}\n"));
    }
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.changes.len(), names.len());
    vault.assert_clean();
    let reader = vault.reader();
    let listed = reader.list(snapshot.head.unwrap().commit).unwrap();
    let mut expected: Vec<_> = names.iter().map(vault_path).collect();
    expected.sort();
    assert_eq!(listed.into_iter().map(|it| it.0).collect::<Vec<_>>(), expected);

    for name in &names[..9] {
        vault.write(name, "edited\n");
    }
    assert_eq!(vault.snapshot_all().changes.len(), 9);
    vault.assert_clean();
    // By git's own hand, then by ours.
    vault.git(&["mv", "q\"uote.md", "moved.md"]);
    std::fs::rename(vault.path("line\nbreak.md"), vault.path("ok.md")).unwrap();
    let snapshot = vault.snapshot_all();
    assert_eq!(vault.subject(), "memory: rename \"line\\nbreak.md\" → ok.md");
    let staged: Vec<_> = snapshot.kept_out.iter().map(|it| it.1.clone()).collect();
    assert_eq!(staged, [Kept::Staged, Kept::Staged], "both sides of a `git mv` are a person's");
    vault.git(&["commit", "-q", "-m", "by hand"]);
    assert_eq!(vault.snapshot_all().head, None);
    vault.assert_clean();
}

#[test]
fn links_that_go_round_are_links() {
    // D10
    let mut vault = Vault::new();
    vault.write("n.md", "note\n");
    std::fs::create_dir(vault.path("d")).unwrap();
    for (target, link) in [
        (".", "loop"),
        ("..", "up"),
        ("/etc", "out"),
        ("b", "a"),
        ("a", "b"),
        ("gone", "dangling.md"),
        ("../d", "d/self"),
    ] {
        std::os::unix::fs::symlink(target, vault.path(link)).unwrap();
    }
    vault.snapshot_all();
    let tree = vault.git(&["ls-tree", "-r", "HEAD"]);
    assert_eq!(tree.lines().filter(|it| it.starts_with("120000")).count(), 7);
    assert_eq!(tree.lines().count(), 8);
    vault.assert_clean();
    // A hint through a link leads nowhere.
    assert_eq!(vault.snapshot(&["loop/n.md", "out/passwd", "d/self/self/x.md"]).head, None);
    assert_eq!(vault.snapshot_all().head, None);
}

#[test]
fn line_endings_follow_gits_settings() {
    // E13
    for (settings, attributes) in [
        (&[("core.autocrlf", "true")][..], ""),
        (&[("core.autocrlf", "input")], ""),
        (&[], "* text=auto eol=lf\n"),
        (&[], "*.md text eol=crlf\n"),
    ] {
        let mut vault = Vault::new();
        for (key, value) in settings {
            vault.git(&["config", key, value]);
        }
        if !attributes.is_empty() {
            vault.write(".gitattributes", attributes);
        }
        vault.write("n.md", "one\r\ntwo\r\n");
        vault.write("lf.md", "one\ntwo\n");
        vault.snapshot_all();
        assert_eq!(vault.committed("n.md").unwrap(), "one\ntwo\n", "{settings:?} {attributes:?}");
        vault.assert_clean();
        for _ in 0..3 {
            vault.reopen();
            let file = std::fs::File::options().append(true).open(vault.path("n.md")).unwrap();
            file.set_modified(std::time::SystemTime::now()).unwrap();
            assert_eq!(vault.snapshot_all().head, None);
        }
        vault.assert_clean();
        assert_eq!(vault.commits(), 1);
    }
}

#[test]
fn bytes_are_kept_as_they_are_without_settings() {
    let mut vault = Vault::new();
    let contents: [&[u8]; 6] = [
        b"crlf\r\nlf\n",
        b"\xef\xbb\xbfbom\n",
        b"latin \xe9\n",
        b"\xff\xfeu\0t\0f\0",
        b"nul \0 inside\n",
        b"no newline",
    ];
    for (n, content) in contents.iter().enumerate() {
        vault.write(format!("{n}.md"), content);
    }
    let head = vault.snapshot_all().head.unwrap();
    let reader = vault.reader();
    for (n, content) in contents.iter().enumerate() {
        let entry = reader.entry(head.commit, &vault_path(format!("{n}.md"))).unwrap().unwrap();
        assert_eq!(reader.read_blob(entry.blob).unwrap(), *content);
    }
    vault.assert_clean();
}

#[test]
fn clean_filters_run_and_a_failing_one_keeps_its_file_out() {
    // E17 with filters that stand for LFS
    let mut vault = Vault::new();
    vault.options.max_file = 1_000;
    vault.reopen();
    vault.git(&["config", "filter.short.clean", "sha1sum | cut -c1-40"]);
    vault.git(&["config", "filter.short.required", "true"]);
    vault.git(&["config", "filter.broken.clean", "exit 3"]);
    vault.git(&["config", "filter.broken.required", "true"]);
    vault.write(".gitattributes", "*.pdf filter=short -text\n*.zip filter=broken\n");
    vault.write("paper.pdf", vec![b'p'; 5_000]);
    vault.write("bundle.zip", "zip");
    vault.write("n.md", "text\n");
    let snapshot = vault.snapshot_all();
    assert_eq!(vault.committed("paper.pdf").unwrap().trim().len(), 40);
    assert_eq!(snapshot.kept_out.len(), 1);
    assert!(
        matches!(&snapshot.kept_out[0], (path, Kept::Filter { .. }) if path.as_bytes() == b"bundle.zip")
    );
    assert!(vault.committed("n.md").is_some());
    assert_eq!(vault.snapshot_all().head, None);
    assert_eq!(vault.git(&["status", "--porcelain"]), "?? bundle.zip\n");
}

/// What lay in a folder is gone when a link that leads into itself takes the folder's place: the
/// path is one that nothing can be at, not one that keeps changing.
#[test]
fn a_folder_becomes_a_link_in_a_circle() {
    let mut vault = Vault::new();
    vault.write("d/a.md", "one");
    vault.write("d/deep/b.md", "two");
    vault.snapshot_all();
    std::fs::remove_dir_all(vault.path("d")).unwrap();
    std::os::unix::fs::symlink("d/a.md", vault.path("d")).unwrap();
    let snapshot = vault.snapshot(&["d", "d/a.md", "d/deep/b.md"]);
    assert!(snapshot.again.is_empty() && snapshot.kept_out.is_empty(), "{snapshot:?}");
    assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "d\n");
    vault.assert_clean();
}

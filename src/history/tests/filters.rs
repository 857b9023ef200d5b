//! Attributes and filters: a commit of ours beside what `git add` and `git commit` make.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::*;

/// Contents that line endings, encodings and `$Id$` could meet.
pub(super) const CONTENTS: [(&str, &[u8]); 12] = [
    ("lf.md", b"one\ntwo\n"),
    ("crlf.md", b"one\r\ntwo\r\n"),
    ("mixed.md", b"one\r\ntwo\nthree\r\n"),
    ("cr.md", b"one\rtwo\r"),
    ("open.md", b"one\r\ntwo"),
    ("empty.md", b""),
    ("nul.bin", b"\0\r\n\x01\r\n"),
    ("ident.md", b"$Id$ and $Id: 1234 $\r\n$Id: not\nclosed $\n"),
    ("utf8.md", "naïve 日本\r\n".as_bytes()),
    ("latin.txt", b"caf\xe9\r\n"),
    ("control.md", b"\x01\x02\x03\x04\x05\x06\r\n"),
    ("wide.u16", b"\xff\xfea\0\r\0\n\0"),
];

/// Settings of git: names and values.
pub(super) type Pairs = &'static [(&'static str, &'static str)];

/// What `.gitattributes` says, and git's settings.
pub(super) const SETTINGS: [(&str, Pairs); 18] = [
    ("", &[]),
    ("", &[("core.autocrlf", "true")]),
    ("", &[("core.autocrlf", "input")]),
    ("", &[("core.eol", "crlf")]),
    ("", &[("core.safecrlf", "warn"), ("core.autocrlf", "true")]),
    ("* text=auto\n", &[]),
    ("* text=auto eol=lf\n", &[]),
    ("* text=auto eol=crlf\n", &[]),
    ("* text=auto\n*.md eol=crlf\n", &[("core.autocrlf", "input")]),
    ("*.md text\n", &[("core.eol", "crlf")]),
    ("*.md eol=lf\n", &[]),
    ("*.md -text\n", &[("core.autocrlf", "true")]),
    ("*.md crlf=input\n", &[]),
    ("*.md binary\n", &[("core.autocrlf", "true")]),
    ("*.md ident\n", &[("core.autocrlf", "true")]),
    ("*.txt working-tree-encoding=ISO-8859-1\n", &[]),
    ("*.u16 working-tree-encoding=UTF-16 eol=crlf\n", &[]),
    ("*.md filter=up ident\n", &[("filter.up.clean", "tr a-z A-Z")]),
];

#[test]
fn a_commit_holds_what_git_add_would_have_made() {
    // E13
    for (attributes, settings) in SETTINGS {
        let what = format!("{attributes:?} {settings:?}");
        let (mut ours, theirs) = (Vault::new(), Vault::by_git(&["-b", "main"]));
        let by_both = |ours: &mut Vault, write: &dyn Fn(&Vault)| {
            write(ours);
            ours.snapshot_all();
            write(&theirs);
            theirs.git(&["add", "-A"]);
            theirs.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
            let tree = |vault: &Vault| vault.git(&["ls-tree", "-r", "HEAD"]);
            assert_eq!(tree(ours), tree(&theirs), "{what}");
        };
        // As it came, before anybody set anything: what is in the index has its say later.
        by_both(&mut ours, &|vault| CONTENTS.iter().for_each(|it| vault.write(it.0, it.1)));
        by_both(&mut ours, &|vault| {
            for (name, value) in settings {
                vault.git(&["config", name, value]);
            }
            if !attributes.is_empty() {
                vault.write(".gitattributes", attributes);
            }
            for (name, content) in CONTENTS.iter().filter(|it| !it.1.is_empty()) {
                let more: &[u8] = if name.ends_with("u16") { b"b\0\r\0\n\0" } else { b"more\r\n" };
                vault.write(name, [*content, more].concat());
                vault.write(format!("new/{name}"), content);
            }
        });
        ours.assert_clean();
        // A touch and a restart are no edits.
        let commits = ours.commits();
        for _ in 0..3 {
            ours.reopen();
            for (name, _) in CONTENTS {
                let now = std::time::SystemTime::now();
                std::fs::File::open(ours.path(name)).unwrap().set_modified(now).unwrap();
            }
            assert!(ours.snapshot_all().head.is_none(), "{what}");
            assert_eq!(ours.commits(), commits, "{what}");
        }
        ours.assert_clean();
    }
}

/// Git leaves out a line of so many bytes, and what an earlier line or another file says holds.
#[test]
fn a_line_of_attributes_that_is_too_long_for_git_is_too_long_for_us() {
    let line = |pattern: &str, rest: &str, length: usize| {
        format!("{pattern}{}{rest}\n", " ".repeat(length - pattern.len() - rest.len()))
    };
    let (mut ours, theirs) = (Vault::new(), Vault::by_git(&["-b", "main"]));
    for vault in [&ours, &theirs] {
        vault.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
        let top = [
            "*.both text eol=lf\n".to_owned(),
            line("*.fits", "text eol=lf", 2047),
            line("*.long", "text eol=lf", 2048),
            line("*.both", "-text filter=up", 3000),
            line("*.deep", "filter=up", 3000),
        ];
        vault.write(".gitattributes", top.concat());
        vault.write("sub/.gitattributes", "*.deep text eol=lf\n");
        vault.write("sub/sub/.gitattributes", line("*.deep", "-text", 2048));
        std::fs::create_dir_all(vault.path(".git/info")).unwrap();
        let info = line("*.info", "text eol=lf", 5000);
        std::fs::write(vault.path(".git/info/attributes"), info).unwrap();
        for folder in ["", "sub/", "sub/sub/"] {
            for name in ["a.fits", "a.long", "a.both", "a.deep", "a.info"] {
                vault.write(format!("{folder}{name}"), b"one\r\ntwo\r\n");
            }
        }
    }
    ours.snapshot_all();
    theirs.git(&["add", "-A"]);
    theirs.git(&["commit", "-q", "-m", "x"]);
    let tree = |vault: &Vault| vault.git(&["ls-tree", "-r", "HEAD"]);
    assert_eq!(tree(&ours), tree(&theirs));
    let stored = |path: &str| ours.git(&["cat-file", "blob", &format!("HEAD:{path}")]);
    assert_eq!(stored("a.fits"), "one\ntwo\n");
    assert_eq!(stored("a.long"), "one\r\ntwo\r\n");
    assert_eq!(stored("a.both"), "one\ntwo\n");
    assert_eq!(stored("sub/sub/a.deep"), "one\ntwo\n");
    // `git fsck` names such a file for ever: it is the person's.
    assert_eq!(ours.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_difference_with_the_disk_is_in_stored_form() {
    let mut vault = Vault::new();
    vault.git(&["config", "core.autocrlf", "true"]);
    vault.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    vault.git(&["config", "filter.no.clean", "false"]);
    vault.git(&["config", "filter.no.required", "true"]);
    vault.write(".gitattributes", "*.txt filter=up\n*.bad filter=no\n");
    vault.write("a.md", "one\r\ntwo\r\n");
    vault.write("a.txt", "one\n");
    vault.write("x.bad", "one\n");
    let head = vault.snapshot_all().head.unwrap().commit;
    let diff = |vault: &Vault| {
        let text = vault.reader().diff_text(Side::Commit(head), Side::Disk, None).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(diff(&vault), "");
    vault.write("a.md", "one\r\ntwo\r\nthree\r\n");
    vault.write("a.txt", "one\ntwo\n");
    let text = diff(&vault);
    assert!(text.contains("@@ -1,2 +1,3 @@\n one\n two\n+three\n"), "{text}");
    assert!(text.contains("\n ONE\n+TWO\n"), "{text}");
}

#[test]
fn what_git_add_refuses_is_held_alone_and_goes_when_it_is_mended() {
    let cases: [(&str, Pairs, &[u8]); 5] = [
        ("*.x working-tree-encoding=UTF-16\n", &[], b"a\0b\0"),
        ("*.x working-tree-encoding=UTF-16LE\n", &[], b"\xff\xfea\0"),
        ("*.x working-tree-encoding=no-such\n", &[], b"a"),
        ("*.x working-tree-encoding\n", &[], b"a"),
        ("*.x text eol=crlf\n", &[("core.safecrlf", "true")], b"a\nb\r\n"),
    ];
    for (attributes, settings, content) in cases {
        let mut vault = Vault::new();
        for (name, value) in settings {
            vault.git(&["config", name, value]);
        }
        vault.write(".gitattributes", attributes);
        vault.write("a.x", content);
        vault.write("b.md", "neighbour\n");
        assert_eq!(vault.try_git(&["add", "a.x"]), None, "{attributes}: git refuses it");
        let snapshot = vault.snapshot_all();
        assert!(snapshot.head.is_some(), "{attributes}");
        let kept = only_kept(&snapshot);
        assert!(matches!(kept, Kept::Filter { .. }), "{attributes}: {kept:?}");
        assert_eq!(vault.committed("a.x"), None);
        vault.write(".gitattributes", "");
        let snapshot = vault.snapshot_all();
        assert_eq!(snapshot.kept_out, []);
        assert!(vault.committed("a.x").is_some());
        vault.assert_clean();
    }
}

/// A filter in Git's protocol: what it does is the word after its name.
const PROCESS: &str = r#"#!/usr/bin/perl
use strict; binmode STDIN; binmode STDOUT; $| = 1;
my $way = $ARGV[0];
open(my $log, ">>", "$ENV{PWD}/.git/starts"); print $log "$$\n"; close $log;
sub get { my ($h, $b); read(STDIN, $h, 4) == 4 or exit 0; my $n = hex $h; return undef if $n < 4;
  read(STDIN, $b, $n - 4); return $b; }
sub list { my @l; while (defined(my $p = get())) { chomp $p; push @l, $p; } return @l; }
sub put { print STDOUT sprintf("%04x", length($_[0]) + 4), $_[0]; }
sub flush { print STDOUT "0000"; }
if ($way eq "garbage") { print "hello, I am no filter\n" x 9; sleep 600; }
list(); put("git-filter-server\n"); put("version=2\n"); flush();
list(); put("capability=clean\n"); put("capability=smudge\n"); flush();
while (1) {
  my ($command, $path) = list();
  my $all = ""; while (defined(my $p = get())) { $all .= $p; }
  if ($way eq "hang") { sleep 600; }
  if ($way eq "crash") { print STDERR "out of cheese\n" x 100000; exit 3; }
  if ($way eq "error") { put("status=error\n"); flush(); next; }
  put("status=success\n"); flush();
  $all =~ tr/a-zA-Z/n-za-mN-ZA-M/;
  while (length $all) { put(substr($all, 0, 65516, "")); }
  flush();
  if ($way eq "regret") { put("status=error\n"); } flush();
}
"#;

fn with_process(way: &str) -> Vault {
    let mut vault = Vault::plain();
    vault.options.limits =
        Limits { child: Duration::from_secs(2), patience: Duration::from_millis(100) };
    History::init(&vault.root, &vault.options).unwrap();
    let mut vault = vault.opened();
    let script = vault.dir.path().join("filter it's.pl");
    std::fs::write(&script, PROCESS).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let command = format!("perl \"{}\" {way}", script.display());
    vault.git(&["config", "filter.rot.process", &command]);
    vault.git(&["config", "filter.rot.required", "true"]);
    vault.write(".gitattributes", "*.rot filter=rot\n");
    vault.snapshot_all();
    vault
}

/// Looks again and again until `is_over`.
pub(super) fn look_until(
    vault: &mut Vault,
    what: &str,
    is_over: impl Fn(&Vault, &Snapshot) -> bool,
) -> Snapshot {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let snapshot = vault.snapshot_all();
        if is_over(vault, &snapshot) {
            return snapshot;
        }
        assert!(Instant::now() < limit, "waited too long for {what}: {snapshot:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn only_kept(snapshot: &Snapshot) -> &Kept {
    assert_eq!(snapshot.kept_out.len(), 1, "{snapshot:?}");
    &snapshot.kept_out[0].1
}

#[test]
fn a_long_running_filter_serves_many_files_and_ends() {
    let mut vault = with_process("ok");
    let big = "Big ".repeat(100_000);
    vault.write("big.rot", &big);
    for name in ["a.rot", "b c.rot", "d'e.rot", "é.rot"] {
        vault.write(name, "Hello\n");
    }
    look_until(&mut vault, "the filter", |_, it| it.kept_out.is_empty());
    assert_eq!(vault.committed("d'e.rot").as_deref(), Some("Uryyb\n"));
    assert_eq!(vault.committed("big.rot").unwrap(), "Ovt ".repeat(100_000));
    let starts = std::fs::read_to_string(vault.path(".git/starts")).unwrap();
    assert_eq!(starts.lines().count(), 1, "one process for all files");
    vault.history = None;
    wait_for_end_of(starts.trim());
    vault.assert_clean();
}

#[test]
fn a_filter_that_fails_holds_its_own_file_only_and_heals() {
    for way in ["hang", "garbage", "crash", "error", "regret"] {
        let mut vault = with_process(way);
        vault.write("a.rot", "Hello\n");
        vault.write("b.md", "neighbour\n");
        let started = Instant::now();
        let snapshot = vault.snapshot_all();
        assert!(started.elapsed() < Duration::from_secs(30), "{way}");
        assert_eq!(vault.committed("b.md").as_deref(), Some("neighbour\n"), "{way}");
        assert!(snapshot.later.contains_key(&vault_path("a.rot")), "{way}: {snapshot:?}");
        let failed = look_until(
            &mut vault,
            way,
            |_, it| matches!(it.kept_out.first(), Some((_, Kept::Filter { why, .. })) if why.contains("failed")),
        );
        let why = only_kept(&failed).to_string();
        let part = match way {
            "hang" | "garbage" if why.contains("protocol") => "protocol",
            "hang" | "garbage" => "did not answer within 2 s",
            "crash" => "out of cheese",
            _ => "`error`",
        };
        assert!(why.contains(part) && why.len() < 600, "{way}: {why}");
        assert_eq!(vault.committed("a.rot"), None, "{way}");
        // Mended in git's settings: no restart.
        let command = vault.git(&["config", "filter.rot.process"]).replace(way, "ok");
        vault.git(&["config", "filter.rot.process", command.trim()]);
        look_until(&mut vault, "the mended filter", |it, _| it.committed("a.rot").is_some());
        assert_eq!(vault.committed("a.rot").as_deref(), Some("Uryyb\n"), "{way}");
        vault.assert_clean();
    }
}

#[test]
fn a_single_filter_has_a_deadline_and_an_optional_one_gives_way() {
    let mut vault = with_process("ok");
    vault.git(&["config", "--remove-section", "filter.rot"]);
    let calls = vault.dir.path().join("calls");
    let command = format!("echo call >>'{}'; exec sleep 600", calls.display());
    vault.git(&["config", "filter.rot.clean", &command]);
    vault.git(&["config", "filter.rot.required", "true"]);
    vault.write("a.rot", "hello\n");
    vault.write("b.md", "neighbour\n");
    vault.snapshot_all();
    assert!(vault.committed("b.md").is_some());
    look_until(
        &mut vault,
        "the deadline",
        |_, it| matches!(it.kept_out.first(), Some((_, why)) if why.to_string().contains("did not end")),
    );
    // A filter that did not end rests: it was called once for the one deadline.
    assert_eq!(std::fs::read_to_string(&calls).unwrap(), "call\n");
    // Not required, and it fails: the bytes as they are, like git.
    for (command, stored) in [("no-such-program", "one\n"), ("echo half; exit 1", "two\n")] {
        vault.git(&["config", "filter.rot.clean", command]);
        vault.git(&["config", "filter.rot.required", "false"]);
        vault.write("a.rot", stored);
        look_until(&mut vault, command, |it, _| it.committed("a.rot").as_deref() == Some(stored));
        vault.assert_clean();
    }
    // The path is one word, whatever it holds.
    vault.git(&["config", "filter.rot.clean", "printf '<%%s>' %f"]);
    let odd = "$(touch boo)'; touch boo #.rot";
    vault.write(odd, "x");
    look_until(&mut vault, "the odd name", |it, _| it.committed(odd).is_some());
    assert_eq!(vault.committed(odd).unwrap(), format!("<{odd}>"));
    assert!(!vault.path("boo").exists());
}

#[test]
fn a_history_that_closes_kills_the_filter_at_work() {
    let mut vault = with_process("hang");
    vault.options.limits.child = Duration::from_secs(600);
    vault.reopen();
    vault.write("a.rot", "Hello\n");
    vault.snapshot_all();
    let pids = std::fs::read_to_string(vault.path(".git/starts")).unwrap();
    let started = Instant::now();
    vault.history = None;
    assert!(started.elapsed() < Duration::from_secs(10));
    pids.lines().for_each(wait_for_end_of);
}

/// A process of a killed group is gone, or waits for its new parent to reap it.
pub(super) fn wait_for_end_of(pid: &str) {
    let limit = Instant::now() + Duration::from_secs(20);
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|it| !it.1.starts_with(['Z', 'X']))
    };
    while lives() {
        assert!(Instant::now() < limit, "{pid} lives on");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn lfs_files_are_stored_as_pointers_or_held() {
    // E17
    let version = Command::new("git").args(["lfs", "version"]).output().unwrap();
    assert!(version.status.success(), "the tests need Git LFS: apt-get install git-lfs");
    let mut vault = Vault::new();
    vault.options.max_file = 1_000_000;
    vault.reopen();
    for key in ["clean", "smudge", "process"] {
        vault.git(&["config", &format!("filter.lfs.{key}"), ""]);
    }
    vault.write(".gitattributes", "*.pdf filter=lfs diff=lfs merge=lfs -text\n");
    let big = vec![7; 3_000_000];
    // Nothing is set up yet: not the raw bytes.
    vault.write("big.pdf", &big);
    let snapshot = vault.snapshot_all();
    let kept = only_kept(&snapshot);
    assert!(
        kept.to_string().contains("`lfs`")
            && kept.hint(&vault_path("big.pdf")).contains("git lfs install"),
        "{kept}"
    );
    vault.git(&["lfs", "install", "--local", "--skip-repo", "--force"]);
    look_until(&mut vault, "git-lfs", |it, _| it.committed("big.pdf").is_some());
    let pointer = vault.committed("big.pdf").unwrap();
    assert!(pointer.starts_with("version https://git-lfs") && pointer.ends_with("size 3000000\n"));
    vault.assert_clean();
    // A checkout that left the pointer, and a note that quotes one.
    vault.write("left.pdf", &pointer);
    vault.write("quote.md", format!("A pointer:\n\n{pointer}"));
    look_until(&mut vault, "git-lfs", |it, _| it.committed("left.pdf").is_some());
    assert_eq!(vault.committed("left.pdf").as_ref(), Some(&pointer));
    assert!(vault.committed("quote.md").unwrap().starts_with("A pointer:"));
    vault.assert_clean();
    // Gone again: held, named, and the neighbours go on.
    let process = vault.git(&["config", "filter.lfs.process"]);
    vault.git(&["config", "filter.lfs.process", "no-such-git-lfs filter-process"]);
    vault.write("more.pdf", &big);
    vault.write("note.md", "on it goes\n");
    let snapshot = look_until(&mut vault, "the failure", |_, it| {
        it.kept_out.first().is_some_and(|it| it.1.to_string().contains("failed"))
    });
    assert!(only_kept(&snapshot).hint(&snapshot.kept_out[0].0).contains("git-lfs"));
    assert_eq!(vault.committed("note.md").as_deref(), Some("on it goes\n"));
    assert_eq!(vault.committed("more.pdf"), None);
    vault.git(&["config", "filter.lfs.process", process.trim()]);
    look_until(&mut vault, "git-lfs again", |it, _| it.committed("more.pdf").is_some());
    assert_eq!(vault.committed("more.pdf"), Some(pointer));
    vault.assert_clean();
}

#[test]
fn what_git_crypt_guards_is_never_stored_plain() {
    let version = Command::new("git-crypt").arg("--version").output();
    assert!(version.is_ok(), "the tests need git-crypt: apt-get install git-crypt");
    let mut vault = Vault::new();
    vault.write(".gitattributes", "secret/** filter=git-crypt diff=git-crypt\n");
    vault.write("secret/diary.md", "dear diary\n");
    vault.write("open.md", "for all\n");
    let snapshot = vault.snapshot_all();
    assert!(only_kept(&snapshot).hint(&snapshot.kept_out[0].0).contains("git-crypt unlock"));
    assert_eq!(vault.committed("secret/diary.md"), None, "locked: nothing is given away");
    let init = Command::new("git-crypt").arg("init").current_dir(&vault.root).output().unwrap();
    assert!(init.status.success(), "{init:?}");
    look_until(&mut vault, "git-crypt", |_, it| it.kept_out.is_empty());
    let stored = git_command(&vault.root, &["cat-file", "blob", "HEAD:secret/diary.md"]).output();
    assert!(stored.unwrap().stdout.starts_with(b"\0GITCRYPT\0"));
    assert_eq!(vault.committed("open.md").as_deref(), Some("for all\n"));
    vault.assert_clean();
    let blobs = vault.git(&["cat-file", "--batch-check", "--batch-all-objects"]);
    for id in blobs.lines().filter_map(|it| it.split_once(" blob ").map(|it| it.0)) {
        let blob = git_command(&vault.root, &["cat-file", "blob", id]).output().unwrap().stdout;
        assert!(!blob.starts_with(b"dear"), "plain text among the objects");
    }
}

#[test]
fn a_stored_form_is_read_as_its_note_or_named() {
    let mut vault = Vault::new();
    let id = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{id}\nsize 6\n");
    vault.write(".gitattributes", "big/** filter=lfs\nsecret/** filter=git-crypt\n");
    vault.write("big/a.md", &pointer);
    vault.write("plain.md", &pointer);
    vault.write("secret/b.md", b"\0GITCRYPT\0 as a locked checkout has it");
    let head = vault.snapshot_all().head.unwrap().commit;
    let read = |vault: &Vault, path: &str| {
        let entry = vault.reader().entry(head, &vault_path(path)).unwrap().unwrap();
        vault.reader().read_note(&vault_path(path), entry.blob).unwrap()
    };
    assert!(read(&vault, "big/a.md").unwrap_err().contains("git lfs pull"));
    assert_eq!(read(&vault, "plain.md"), Ok(pointer.into_bytes()), "no filter: a note's own text");
    assert!(read(&vault, "secret/b.md").unwrap_err().contains("git-crypt unlock"));
    let object = format!(".git/lfs/objects/4d/7a/{id}");
    vault.write(&object, "short");
    assert!(read(&vault, "big/a.md").is_err());
    vault.write(&object, "essay\n");
    assert_eq!(read(&vault, "big/a.md"), Ok(b"essay\n".to_vec()));
    // It decrypts to something, by the user's own settings; and by ones that fail.
    vault.git(&["config", "filter.git-crypt.clean", "cat"]);
    vault.git(&["config", "filter.git-crypt.smudge", "echo heron"]);
    vault.reopen();
    assert_eq!(read(&vault, "secret/b.md"), Ok(b"heron\n".to_vec()));
    vault.git(&["config", "filter.git-crypt.smudge", "echo no key >&2; exit 1"]);
    vault.reopen();
    assert!(read(&vault, "secret/b.md").unwrap_err().contains("no key"));
}

#[test]
fn modes_and_links_are_as_the_settings_say() {
    let mut vault = Vault::new();
    vault.write("run.sh", "#!/bin/sh\n");
    vault.write("note.md", "text\n");
    vault.snapshot_all();
    let chmod = |vault: &Vault, mode| {
        std::fs::set_permissions(vault.path("run.sh"), PermissionsExt::from_mode(mode)).unwrap();
    };
    let mode = |vault: &Vault, path| vault.git(&["ls-tree", "HEAD", path])[..6].to_owned();
    chmod(&vault, 0o755);
    vault.snapshot(&["run.sh"]);
    assert_eq!(
        (vault.subject(), mode(&vault, "run.sh")),
        ("memory: mode run.sh".into(), "100755".into())
    );
    vault.git(&["config", "core.fileMode", "false"]);
    let commits = vault.commits();
    for bits in [0o644, 0o755, 0o644] {
        chmod(&vault, bits);
        vault.reopen();
        assert!(vault.snapshot_all().head.is_none());
    }
    assert_eq!(vault.commits(), commits);
    vault.write("run.sh", "#!/bin/sh\necho\n");
    vault.write("new.sh", "#!/bin/sh\n");
    std::fs::set_permissions(vault.path("new.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    vault.snapshot_all();
    assert_eq!(mode(&vault, "run.sh"), "100755", "the bit that git knows stays");
    assert_eq!(mode(&vault, "new.sh"), "100644");
    vault.assert_clean();
    let head = vault.history().head().unwrap().unwrap().commit;
    let diff = vault.reader().diff_text(Side::Commit(head), Side::Disk, None).unwrap();
    assert_eq!(String::from_utf8_lossy(&diff), "");
    vault.git(&["config", "core.fileMode", "true"]);

    // A file becomes a link and a link a file.
    vault.remove("note.md");
    std::os::unix::fs::symlink("run.sh", vault.path("note.md")).unwrap();
    vault.snapshot_all();
    assert_eq!(mode(&vault, "note.md"), "120000");
    vault.remove("note.md");
    vault.write("note.md", "text\n");
    vault.snapshot_all();
    assert_eq!(mode(&vault, "note.md"), "100644");
    vault.assert_clean();

    // Where links cannot be had, git checks them out as files, and they stay links in HEAD.
    vault.remove("note.md");
    std::os::unix::fs::symlink("run.sh", vault.path("note.md")).unwrap();
    vault.snapshot_all();
    vault.git(&["config", "core.symlinks", "false"]);
    vault.remove("note.md");
    vault.git(&["checkout", "-q", "--", "note.md"]);
    assert!(!vault.path("note.md").is_symlink());
    let commits = vault.commits();
    vault.reopen();
    assert!(vault.snapshot_all().head.is_none());
    vault.write("note.md", "new.sh");
    vault.snapshot_all();
    assert_eq!((vault.commits(), mode(&vault, "note.md")), (commits + 1, "120000".to_owned()));
    vault.assert_clean();
}

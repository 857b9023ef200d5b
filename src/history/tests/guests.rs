//! Programs of the user that have a say in a commit: signatures and hooks.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::filters::look_until;
use super::*;

/// Children that are stopped soon, so that a test need not wait as long as a person.
fn impatient() -> Vault {
    let mut vault = Vault::plain();
    vault.options.limits =
        Limits { child: Duration::from_secs(2), patience: Duration::from_millis(500) };
    History::init(&vault.root, &vault.options).unwrap();
    vault.opened()
}

fn script(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn hook(vault: &Vault, name: &str, body: &str) {
    script(&vault.path(format!(".git/hooks/{name}")), &format!("#!/bin/sh\n{body}\n"));
}

fn refusal(vault: &mut Vault) -> (String, String) {
    match vault.try_snapshot_all() {
        Err(err @ SnapshotError::Held { .. }) => (err.to_string(), err.hint().unwrap()),
        other => panic!("not held: {other:?}"),
    }
}

const WIP: &str = "refs/remd/wip/testhost";

fn ssh_key(vault: &Vault, name: &str, passphrase: &str) -> PathBuf {
    let key = vault.dir.path().join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-C", "ada", "-N", passphrase, "-f"])
        .arg(&key)
        .output()
        .expect("the tests need ssh-keygen: apt-get install openssh-client");
    assert!(made.status.success(), "{made:?}");
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let signers = vault.dir.path().join("signers");
    std::fs::write(&signers, format!("ada@example.org {public}")).unwrap();
    vault.git(&["config", "gpg.ssh.allowedSignersFile", signers.to_str().unwrap()]);
    key
}

#[test]
fn commits_are_signed_with_the_users_ssh_key() {
    let mut vault = impatient();
    let key = ssh_key(&vault, "key", "");
    vault.git(&["config", "commit.gpgSign", "true"]);
    vault.git(&["config", "gpg.format", "ssh"]);
    vault.write("a.md", "one\n");
    // No key is named: nothing goes unsigned, nothing is lost.
    let (what, remedy) = refusal(&mut vault);
    assert!(what.contains("signed") && remedy.contains("user.signingKey"), "{what} {remedy}");
    assert_eq!(vault.commits(), 0);
    assert_eq!(vault.git(&["show", &format!("{WIP}:a.md")]), "one\n");
    vault.git(&["config", "user.signingKey", key.to_str().unwrap()]);
    vault.snapshot_all();
    vault.git(&["verify-commit", "HEAD"]);
    assert_eq!(vault.subject(), "memory: create a.md");
    assert_eq!(vault.try_git(&["rev-parse", "-q", "--verify", WIP]), None);
    vault.assert_clean();
    assert!(!vault.path(".git/remd/sign").exists());

    // Another program in its place, called as git calls it.
    let other = vault.dir.path().join("my signer");
    let log = vault.dir.path().join("log");
    script(
        &other,
        &format!("#!/bin/sh\necho \"$*\" >'{}'\nexec ssh-keygen \"$@\"\n", log.display()),
    );
    vault.git(&["config", "gpg.ssh.program", other.to_str().unwrap()]);
    vault.write("a.md", "two\n");
    vault.snapshot_all();
    vault.git(&["config", "--unset", "gpg.ssh.program"]);
    vault.git(&["verify-commit", "HEAD"]);
    assert!(std::fs::read_to_string(log).unwrap().starts_with("-Y sign -n git -f "));

    // A key with a passphrase that no agent has: nobody is asked, and it goes on by itself.
    let locked = ssh_key(&vault, "locked", "secret");
    vault.git(&["config", "user.signingKey", locked.to_str().unwrap()]);
    vault.write("a.md", "three\n");
    let started = Instant::now();
    let (what, _) = refusal(&mut vault);
    assert!(what.contains("ssh-keygen"), "{what}");
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(vault.git(&["show", &format!("{WIP}:a.md")]), "three\n");
    let unlock = ["-q", "-p", "-P", "secret", "-N", "", "-f", locked.to_str().unwrap()];
    assert!(Command::new("ssh-keygen").args(unlock).output().unwrap().status.success());
    wait_for_commit(&mut vault, "three\n");
    vault.git(&["verify-commit", "HEAD"]);
    vault.assert_clean();
}

/// Looks again and again, changing nothing, until `a.md` is committed.
fn wait_for_commit(vault: &mut Vault, text: &str) {
    let limit = Instant::now() + Duration::from_secs(60);
    while vault.committed("a.md").as_deref() != Some(text) {
        match vault.try_snapshot_all() {
            Ok(_) | Err(SnapshotError::Held { .. }) => {}
            Err(err) => panic!("{err}"),
        }
        assert!(Instant::now() < limit, "waited too long for {text:?}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

#[test]
fn a_key_that_only_an_agent_has_signs_by_its_public_half() {
    let mut vault = impatient();
    let key = ssh_key(&vault, "key", "");
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    vault.git(&["config", "commit.gpgSign", "true"]);
    vault.git(&["config", "gpg.format", "ssh"]);
    // What an agent would do is done by a program that knows the key.
    let agent = vault.dir.path().join("agent");
    let text = format!(
        "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = -U ] && seen=1; shift; done\n\
         [ \"$seen\" ] && exec ssh-keygen -Y sign -n git -f '{}' \"$1\"\n",
        key.display()
    );
    script(&agent, &text);
    vault.git(&["config", "gpg.ssh.program", agent.to_str().unwrap()]);
    vault.git(&["config", "user.signingKey", &format!("key::{}", public.trim())]);
    vault.write("a.md", "one\n");
    vault.snapshot_all();
    vault.git(&["config", "--unset", "user.signingKey"]);
    vault.git(&["config", "gpg.ssh.defaultKeyCommand", &format!("echo 'key::{}'", public.trim())]);
    vault.write("a.md", "two\n");
    vault.snapshot_all();
    vault.git(&["config", "--unset", "gpg.ssh.program"]);
    vault.git(&["verify-commit", "HEAD"]);
    vault.git(&["verify-commit", "HEAD~1"]);
}

#[test]
fn commits_are_signed_with_the_users_gpg_key() {
    let mut vault = impatient();
    vault.options.limits.child = Duration::from_secs(30);
    vault.reopen();
    let home = vault.dir.path().join("gnupg");
    std::fs::create_dir(&home).unwrap();
    std::fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).unwrap();
    let gpg = |args: &[&str]| {
        let mut command = Command::new("gpg");
        command.env("GNUPGHOME", &home).args(["--batch", "--quiet"]).args(args);
        let output = command.output().expect("the tests need gpg: apt-get install gnupg");
        assert!(
            output.status.success(),
            "gpg {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let identity = "Ada <ada@example.org>";
    gpg(&["--passphrase", "", "--quick-generate-key", identity, "ed25519", "sign", "never"]);
    // The key ring of the test, for us and for git: the real gpg behind it.
    let program = vault.dir.path().join("gpg");
    script(&program, &format!("#!/bin/sh\nGNUPGHOME='{}' exec gpg \"$@\"\n", home.display()));
    vault.git(&["config", "gpg.program", program.to_str().unwrap()]);
    vault.git(&["config", "commit.gpgSign", "true"]);
    vault.write("a.md", "one\n");
    vault.snapshot_all();
    vault.git(&["verify-commit", "HEAD"]);
    // A key by name, and one that is not there.
    vault.git(&["config", "user.signingKey", "ada@example.org"]);
    vault.write("a.md", "two\n");
    vault.snapshot_all();
    vault.git(&["verify-commit", "HEAD"]);
    vault.git(&["config", "user.signingKey", "nobody@example.org"]);
    vault.write("a.md", "three\n");
    let (what, remedy) = refusal(&mut vault);
    assert!(what.contains("did not sign") && remedy.contains("user.signingKey"), "{what} {remedy}");
    // A passphrase that the agent does not have.
    gpg(&[
        "--passphrase",
        "secret",
        "--quick-generate-key",
        "Eve <eve@example.org>",
        "ed25519",
        "sign",
        "never",
    ]);
    let mut kill = Command::new("gpgconf");
    assert!(kill.env("GNUPGHOME", &home).args(["--kill", "gpg-agent"]).status().unwrap().success());
    vault.git(&["config", "user.signingKey", "eve@example.org"]);
    let (what, _) = refusal(&mut vault);
    assert!(what.contains("did not sign"), "{what}");
    assert_eq!(vault.git(&["show", &format!("{WIP}:a.md")]), "three\n");
    // One that hangs.
    vault.options.limits.child = Duration::from_secs(1);
    vault.reopen();
    let calls = vault.dir.path().join("calls");
    script(&program, &format!("#!/bin/sh\necho call >>'{}'\nexec sleep 600\n", calls.display()));
    let (what, _) = refusal(&mut vault);
    assert!(what.contains("did not end within 1 s"), "{what}");
    assert_eq!(std::fs::read_to_string(&calls).unwrap(), "call\n", "not asked again at once");
    vault.git(&["config", "commit.gpgSign", "false"]);
    vault.snapshot_all();
    assert_eq!(vault.committed("a.md").as_deref(), Some("three\n"));
    vault.assert_clean();
    let mut kill = Command::new("gpgconf");
    assert!(kill.env("GNUPGHOME", &home).args(["--kill", "gpg-agent"]).status().unwrap().success());
}

#[test]
fn hooks_see_what_is_about_to_be_committed_and_nothing_else() {
    let mut vault = impatient();
    vault.write("sub/a.md", "one\n");
    vault.write("theirs.md", "one\n");
    vault.snapshot_all();
    vault.write("theirs.md", "staged by a person\n");
    vault.git(&["add", "theirs.md"]);
    let index = std::fs::read(vault.path(".git/index")).unwrap();
    hook(
        &vault,
        "pre-commit",
        "exec >seen.log\npwd -P\necho \"$GIT_EDITOR $REMD_COMMIT $GIT_AUTHOR_NAME\"\n\
         git diff --cached --name-only\ncd sub && git show :sub/a.md\n\
         [ \"$GIT_INDEX_FILE\" != \"$GIT_DIR/index\" ] && git write-tree",
    );
    hook(&vault, "commit-msg", "cat \"$1\" >message.log");
    hook(&vault, "post-commit", "git log -1 --format=%H >after.log");
    script(&vault.path(".git/hooks/prepare-commit-msg"), "not run: no program\n");
    std::fs::set_permissions(
        vault.path(".git/hooks/prepare-commit-msg"),
        PermissionsExt::from_mode(0o644),
    )
    .unwrap();
    vault.write(".git/info/exclude", "*.log\n");
    vault.write("sub/a.md", "two\n");
    let head = vault.snapshot(&["sub/a.md"]).head.unwrap();
    let seen = std::fs::read_to_string(vault.path("seen.log")).unwrap();
    let top = vault.root.canonicalize().unwrap();
    let tree = vault.git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(seen, format!("{}\n: 1 Ada\nsub/a.md\ntwo\n{tree}", top.display()));
    let message = std::fs::read_to_string(vault.path("message.log")).unwrap();
    assert_eq!(message, "memory: update sub/a.md\n\nRemd-Cause: edit\n");
    assert_eq!(vault.git(&["status", "--porcelain"]), "M  theirs.md\n");
    assert_ne!(index, std::fs::read(vault.path(".git/index")).unwrap(), "brought up to HEAD");
    let after = vault.path("after.log");
    let limit = Instant::now() + Duration::from_secs(60);
    while vault.history().is_hook_running() {
        if let Some(result) = vault.history().hook_result() {
            assert_eq!(result, None);
        }
        assert!(Instant::now() < limit);
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert_eq!(std::fs::read_to_string(after).unwrap().trim(), head.commit.to_string());
    assert!(!vault.path(".git/remd/hook").exists());
    vault.assert_sound();
}

#[test]
fn a_hook_that_refuses_holds_the_commit_until_it_is_content() {
    let mut vault = impatient();
    hook(
        &vault,
        "pre-commit",
        "echo x >>runs.log\ngit grep --cached -q TODO && { echo 'no TODO, please' >&2; exit 1; }\nexit 0",
    );
    vault.write(".git/info/exclude", "*.log\n");
    let runs = |vault: &Vault| {
        std::fs::read_to_string(vault.path("runs.log")).map_or(0, |it| it.lines().count())
    };
    vault.write("a.md", "TODO\n");
    let (what, remedy) = refusal(&mut vault);
    assert_eq!(what, "The hook `pre-commit` refuses the commit: no TODO, please");
    assert!(remedy.contains("REMD_COMMIT"), "{remedy}");
    assert_eq!(vault.git(&["show", &format!("{WIP}:a.md")]), "TODO\n");
    for _ in 0..5 {
        refusal(&mut vault);
    }
    assert_eq!(runs(&vault), 1, "it is not asked about the same again and again");
    vault.write("a.md", "done\n");
    vault.snapshot_all();
    assert_eq!(vault.committed("a.md").as_deref(), Some("done\n"));
    vault.assert_clean();

    // It hangs: stopped, with all that it started.
    hook(&vault, "pre-commit", "sleep 600 & echo $! >child.log; sleep 600");
    vault.write("a.md", "more\n");
    let (what, _) = refusal(&mut vault);
    assert!(what.contains("did not end within 2 s"), "{what}");
    super::filters::wait_for_end_of(
        std::fs::read_to_string(vault.path("child.log")).unwrap().trim(),
    );
    // Mended: it goes by itself.
    hook(&vault, "pre-commit", "exit 0");
    wait_for_commit(&mut vault, "more\n");

    // No program at all, and one that floods.
    script(&vault.path(".git/hooks/pre-commit"), "#!/no/such/interpreter\n");
    vault.write("a.md", "again\n");
    assert!(refusal(&mut vault).0.contains("does not start"));
    hook(&vault, "pre-commit", "yes secret | head -c 3000000 >&2; exit 1");
    vault.history().try_again();
    vault.write("a.md", "and again\n");
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let (what, _) = refusal(&mut vault);
        if what.contains("refuses") {
            assert!(what.len() < 400, "{what}");
            break;
        }
        assert!(Instant::now() < limit, "{what}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
    std::fs::remove_file(vault.path(".git/hooks/pre-commit")).unwrap();
    wait_for_commit(&mut vault, "and again\n");
    vault.assert_clean();
}

#[test]
fn a_hook_may_change_the_message_and_the_trailers_stay() {
    let mut vault = impatient();
    // A folder of hooks that the user's settings name.
    vault.git(&["config", "core.hooksPath", "../my hooks"]);
    let hooks = vault.dir.path().join("my hooks");
    script(
        &hooks.join("prepare-commit-msg"),
        "#!/bin/sh\n[ \"$2\" = message ] && echo 'ABC-1 mine' >\"$1\"\n",
    );
    script(
        &hooks.join("commit-msg"),
        "#!/bin/sh\nprintf '\\nSigned-off-by: Ada <ada@example.org>\\n' >>\"$1\"\n",
    );
    vault.write("a.md", "one\n");
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.head.unwrap().subject, "ABC-1 mine");
    assert_eq!(
        vault.git(&["log", "-1", "--format=%B"]),
        "ABC-1 mine\n\nSigned-off-by: Ada <ada@example.org>\nRemd-Cause: edit\n\n"
    );
    assert_eq!(vault.git(&["reflog", "-1", "--format=%gs"]), "commit (initial): ABC-1 mine\n");
    script(&hooks.join("commit-msg"), "#!/bin/sh\n: >\"$1\"\n");
    vault.write("a.md", "two\n");
    assert!(refusal(&mut vault).0.contains("without a message"));
}

#[test]
fn what_a_hook_changes_is_committed_and_never_in_a_loop() {
    let mut vault = impatient();
    // A formatter that stages its work: one commit, as by git.
    hook(
        &vault,
        "pre-commit",
        "for it in $(git diff --cached --name-only --diff-filter=AM); do \
         sed -i 's/ *$//' \"$it\" && git add \"$it\"; done\n\
         date +%N >version.txt; git add version.txt",
    );
    vault.write("a.md", "trailing   \n");
    vault.snapshot_all();
    assert_eq!((vault.commits(), vault.committed("a.md").as_deref()), (1, Some("trailing\n")));
    assert!(vault.committed("version.txt").is_some());
    assert!(vault.snapshot_all().head.is_none(), "nothing is left over");
    vault.assert_clean();
    // One that does not: its work is an edit of its own, and not one every second.
    hook(&vault, "pre-commit", "date +%N >>version.txt");
    vault.write("a.md", "more\n");
    for _ in 0..8 {
        vault.snapshot_all();
    }
    assert!(vault.commits() <= 5, "{} commits", vault.commits());
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.kept_out, [(vault_path("version.txt"), Kept::Hook)]);
    assert!(snapshot.later.contains_key(&vault_path("version.txt")));
    // Who changes it meanwhile is no hook: it is an edit like any other.
    vault.write("version.txt", "mine\n");
    vault.snapshot_all();
    assert_eq!(vault.committed("version.txt").as_deref(), Some("mine\n"));
    vault.write("a.md", "neighbour\n");
    vault.snapshot_all();
    assert_eq!(vault.committed("a.md").as_deref(), Some("neighbour\n"));
    // What it stages and does not write is not taken: the disk is what counts.
    hook(
        &vault,
        "pre-commit",
        "echo ghost >ghost.tmp; \
         id=$(git hash-object -w ghost.tmp); rm ghost.tmp; \
         git update-index --add --cacheinfo 100644,$id,ghost.md",
    );
    vault.write("a.md", "last\n");
    vault.snapshot_all();
    assert_eq!(vault.committed("ghost.md"), None);
    assert_eq!(vault.committed("a.md").as_deref(), Some("last\n"));
    vault.assert_sound();
}

/// Whoever types on while the hook runs is not the hook, however often that happens.
#[test]
fn an_edit_while_a_hook_runs_is_the_next_commits() {
    let mut vault = impatient();
    hook(&vault, "pre-commit", "[ ! -e ../typing ] || echo more >>a.md");
    vault.write("a.md", "0\n");
    vault.snapshot_all();
    let typing = vault.dir.path().join("typing");
    std::fs::write(&typing, "").unwrap();
    for round in 1..=6 {
        vault.write("a.md", format!("{round}\n"));
        let snapshot = vault.snapshot_all();
        assert_eq!(snapshot.kept_out, [], "round {round}");
        assert_eq!(vault.committed("a.md"), Some(format!("{round}\n")));
    }
    std::fs::remove_file(&typing).unwrap();
    let snapshot = vault.snapshot_all();
    assert_eq!((snapshot.kept_out, snapshot.later.len()), (vec![], 0));
    assert_eq!(vault.committed("a.md").as_deref(), Some("6\nmore\n"));
    vault.assert_clean();
}

#[test]
fn a_hook_in_a_sparse_checkout_sees_nothing_missing() {
    let mut vault = impatient();
    vault.write("here/a.md", "one\n");
    vault.write("there/b.md", "one\n");
    vault.snapshot_all();
    vault.git(&["sparse-checkout", "set", "here"]);
    assert!(!vault.path("there/b.md").exists());
    // As some hooks do: what is not staged is put away first.
    hook(&vault, "pre-commit", "git diff --name-only >../seen; git checkout -q -- .");
    vault.write("here/a.md", "two\n");
    vault.snapshot_all();
    assert_eq!(vault.committed("here/a.md").as_deref(), Some("two\n"));
    assert_eq!(std::fs::read_to_string(vault.dir.path().join("seen")).unwrap(), "");
    assert!(!vault.path("there/b.md").exists());
    vault.assert_clean();
}

#[test]
fn a_post_commit_hook_that_fails_is_only_noted() {
    let mut vault = impatient();
    for (body, part) in [("echo oops >&2; exit 3", "oops"), ("sleep 600", "did not end within 2 s")]
    {
        hook(&vault, "post-commit", body);
        vault.write("a.md", body);
        assert!(vault.snapshot_all().head.is_some());
        let mut why = None;
        look_until(&mut vault, "the hook", |_, _| true);
        let limit = Instant::now() + Duration::from_secs(60);
        while why.is_none() {
            why = vault.history().hook_result().flatten();
            assert!(Instant::now() < limit);
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert!(why.as_ref().unwrap().contains(part), "{why:?}");
        vault.assert_clean();
    }
    assert_eq!(vault.commits(), 2);
}

#[test]
fn a_history_that_closes_lets_post_commit_end() {
    let mut vault = impatient();
    hook(&vault, "post-commit", "sleep 0.3; echo done >../done");
    vault.write("a.md", "one\n");
    vault.snapshot_all();
    vault.history = None;
    assert_eq!(std::fs::read_to_string(vault.dir.path().join("done")).unwrap(), "done\n");
    // Not for ever.
    vault.options.limits.child = Duration::from_secs(600);
    vault.reopen();
    hook(&vault, "post-commit", "echo $$ >../pid; sleep 600");
    vault.write("a.md", "two\n");
    vault.snapshot_all();
    let started = Instant::now();
    vault.history = None;
    assert!(started.elapsed() < Duration::from_secs(20));
    let pid = std::fs::read_to_string(vault.dir.path().join("pid")).unwrap();
    super::filters::wait_for_end_of(pid.trim());
}

#[test]
fn a_failing_commit_leaves_the_persons_index_as_it_is() {
    // E18
    let mut vault = impatient();
    vault.write("a.md", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    vault.write("b.md", "one\n");
    vault.write("c.md", "one\n");
    vault.snapshot_all();
    vault.write("a.md", "ONE\n2\n3\n4\n5\n6\n7\n8\n9\n");
    vault.write("b.md", "two\n");
    vault.git(&["add", "a.md", "b.md"]);
    vault.write("a.md", "ONE\n2\n3\n4\n5\n6\n7\n8\nNINE\n");
    vault.write("c.md", "two\n");
    let staged = vault.git(&["diff", "--cached"]);
    hook(&vault, "pre-commit", "git rm -q --cached b.md; git reset -q; exit 1");
    refusal(&mut vault);
    assert_eq!(vault.git(&["diff", "--cached"]), staged);
    for (path, text) in [("a.md", "NINE\n"), ("b.md", "two\n"), ("c.md", "two\n")] {
        assert!(vault.git(&["show", &format!("{WIP}:{path}")]).ends_with(text), "{path}");
    }
    hook(&vault, "pre-commit", "exit 0");
    wait_for(&mut vault, |it| it.committed("c.md").as_deref() == Some("two\n"));
    assert_eq!(vault.git(&["diff", "--cached"]), staged);
    assert_eq!(vault.git(&["show", "--format=", "--name-only", "HEAD"]), "c.md\n");
    vault.assert_sound();
}

fn wait_for(vault: &mut Vault, is_over: impl Fn(&Vault) -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !is_over(vault) {
        match vault.try_snapshot_all() {
            Ok(_) | Err(SnapshotError::Held { .. }) => {}
            Err(err) => panic!("{err}"),
        }
        assert!(Instant::now() < limit, "waited too long");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

//! Every kind of edit is a commit, and git agrees.

use super::*;
use crate::vault::FileMode;

#[test]
fn create_edit_append_rename_delete() {
    let mut vault = Vault::new();
    vault.write("a.md", "one\n");
    let snapshot = vault.snapshot(&["a.md"]);
    assert_eq!(vault.subject(), "memory: create a.md");
    assert_eq!(snapshot.changes.len(), 1);
    let head = snapshot.head.unwrap();
    assert_eq!(
        (head.branch.as_deref(), head.subject.as_str()),
        (Some("main"), "memory: create a.md")
    );
    assert_eq!(vault.git(&["rev-parse", "HEAD"]).trim(), head.commit.to_string());
    assert_eq!(vault.history().head().unwrap(), Some(head));
    vault.assert_clean();

    vault.write("a.md", "two\n");
    vault.snapshot(&["a.md"]);
    assert_eq!(vault.subject(), "memory: update a.md");
    vault.write("a.md", "two\nthree\n");
    vault.snapshot(&["a.md"]);
    assert_eq!(vault.committed("a.md").unwrap(), "two\nthree\n");
    vault.assert_clean();

    std::fs::rename(vault.path("a.md"), vault.path("b.md")).unwrap();
    let snapshot = vault.snapshot(&["a.md", "b.md"]);
    assert_eq!(vault.subject(), "memory: rename a.md → b.md");
    assert_eq!(snapshot.renames, [(vault_path("a.md"), vault_path("b.md"))]);
    vault.assert_clean();

    vault.remove("b.md");
    vault.snapshot(&["b.md"]);
    assert_eq!(vault.subject(), "memory: delete b.md");
    assert_eq!(vault.commits(), 5);
    vault.assert_clean();
    let trailers = vault.git(&["log", "-1", "--format=%(trailers:key=Remd-Cause,valueonly)"]);
    assert_eq!(trailers.trim(), "edit");
    let people = vault.git(&["log", "-1", "--format=%an <%ae> %cn <%ce>"]);
    assert_eq!(people.trim(), "Ada <ada@example.org> remd <remd@testhost>");
}

#[test]
fn nothing_changed_is_no_commit_and_no_write() {
    let mut vault = Vault::new();
    vault.write("a.md", "one\n");
    vault.snapshot_all();
    let index = std::fs::metadata(vault.path(".git/index")).unwrap().modified().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    for _ in 0..3 {
        assert_eq!(vault.snapshot_all().head, None);
    }
    // Written once more at most: a stat too young to be trusted.
    let later = std::fs::metadata(vault.path(".git/index")).unwrap().modified().unwrap();
    for _ in 0..3 {
        assert_eq!(vault.snapshot_all().head, None);
    }
    let last = std::fs::metadata(vault.path(".git/index")).unwrap().modified().unwrap();
    assert_eq!(later, last, "{index:?}");
    assert_eq!(vault.commits(), 1);
}

#[test]
fn a_touched_file_is_no_commit_and_read_once() {
    let mut vault = Vault::new();
    vault.write("a.md", "one\n");
    vault.snapshot_all();
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    let file = std::fs::File::options().write(true).open(vault.path("a.md")).unwrap();
    file.set_modified(past).unwrap();
    assert_eq!(vault.snapshot(&["a.md"]).head, None);
    vault.assert_clean();
    assert_eq!(vault.commits(), 1);
}

#[test]
fn a_folder_moved_in_and_out_and_within() {
    let mut vault = Vault::new();
    for n in 0..5 {
        vault.write(format!("x/a/{n}.md"), format!("note {n}\n"));
    }
    vault.write("keep.md", "stays\n");
    vault.snapshot_all();
    assert_eq!(vault.subject(), "memory: 6 changes (x/a/ 5, ./ 1)");

    std::fs::rename(vault.path("x"), vault.path("y")).unwrap();
    // The watcher names the folder that went and what it finds in the new one.
    let mut look = hints(&["x"]);
    look.found = (0..5).map(|n| vault_path(format!("y/a/{n}.md"))).collect();
    look.complete_below = vec![Some(vault_path("y"))];
    let snapshot = vault.history().snapshot(&look, &Cause::edit()).unwrap();
    assert_eq!(snapshot.renames.len(), 5);
    assert_eq!(vault.subject(), "memory: 5 changes (y/a/ 5)");
    assert!(vault.git(&["log", "-1", "--format=%b"]).contains("rename x/a/0.md → y/a/0.md"));
    vault.assert_clean();

    std::fs::rename(vault.path("y"), vault.dir.path().join("away")).unwrap();
    vault.snapshot(&["y"]);
    assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "keep.md\n");
    vault.assert_clean();
}

#[test]
fn an_edited_note_that_moved_is_one_rename_by_its_inode() {
    let mut vault = Vault::new();
    vault.write("a.md", "one\n");
    vault.snapshot_all();
    std::fs::rename(vault.path("a.md"), vault.path("b.md")).unwrap();
    std::fs::OpenOptions::new().append(true).open(vault.path("b.md")).unwrap();
    let file = std::fs::File::options().append(true).open(vault.path("b.md")).unwrap();
    std::io::Write::write_all(&mut &file, b"something else entirely\n").unwrap();
    vault.snapshot_all();
    assert_eq!(vault.subject(), "memory: rename a.md → b.md");
    // A swap through a third name is two updates, no rename.
    vault.write("c.md", "see\n");
    vault.snapshot_all();
    for (from, to) in [("b.md", "t"), ("c.md", "b.md"), ("t", "c.md")] {
        std::fs::rename(vault.path(from), vault.path(to)).unwrap();
    }
    let snapshot = vault.snapshot_all();
    assert_eq!((snapshot.changes.len(), snapshot.renames.len()), (2, 0));
    vault.assert_clean();
}

#[test]
fn modes_links_and_emptied_notes() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut vault = Vault::new();
    vault.write("run.sh", "#!/bin/sh\n");
    vault.write("n.md", "text\n");
    vault.snapshot_all();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(vault.path("run.sh"), executable).unwrap();
    vault.snapshot(&["run.sh"]);
    assert_eq!(vault.subject(), "memory: mode run.sh");
    std::os::unix::fs::symlink("n.md", vault.path("link")).unwrap();
    let snapshot = vault.snapshot(&["link"]);
    let change = snapshot.changes.get(&vault_path("link")).unwrap();
    assert_eq!(change.new.unwrap().mode, FileMode::Symlink);
    vault.write("n.md", "");
    let snapshot = vault.snapshot(&["n.md"]);
    assert_eq!(snapshot.emptied, [vault_path("n.md")]);
    assert_eq!(vault.subject(), "memory: empty n.md");
    vault.assert_clean();
    assert!(vault.git(&["ls-tree", "HEAD", "link", "run.sh"]).starts_with("120000"));

    // Settings that say the file system has no modes.
    vault.git(&["config", "core.filemode", "false"]);
    std::fs::set_permissions(vault.path("run.sh"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(vault.snapshot(&["run.sh"]).head, None);
    vault.write("run.sh", "#!/bin/sh\nexit\n");
    vault.snapshot(&["run.sh"]);
    assert!(vault.git(&["ls-tree", "HEAD", "run.sh"]).starts_with("100755"));
    vault.assert_clean();
}

#[test]
fn a_file_becomes_a_folder_and_back() {
    let mut vault = Vault::new();
    vault.write("a", "file\n");
    vault.write("z.md", "z\n");
    vault.snapshot_all();
    vault.remove("a");
    vault.write("a/b/c.md", "deep\n");
    vault.snapshot(&["a/b/c.md"]);
    assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "a/b/c.md\nz.md\n");
    vault.assert_clean();
    std::fs::remove_dir_all(vault.path("a")).unwrap();
    vault.write("a", "file again\n");
    vault.snapshot(&["a"]);
    assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "a\nz.md\n");
    vault.assert_clean();
    // A symlink in the place of a folder: what was below is gone.
    vault.write("d/n.md", "n\n");
    vault.snapshot_all();
    std::fs::remove_dir_all(vault.path("d")).unwrap();
    std::fs::create_dir(vault.dir.path().join("else")).unwrap();
    std::fs::write(vault.dir.path().join("else/n.md"), "outside\n").unwrap();
    std::os::unix::fs::symlink("../else", vault.path("d")).unwrap();
    vault.snapshot(&["d"]);
    assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "a\nd\nz.md\n");
    vault.assert_clean();
}

#[test]
fn deleted_and_made_again_is_what_the_disk_says() {
    // D14: the truth is the disk at commit time, not the list of events.
    let mut vault = Vault::new();
    vault.write("n.md", "same\n");
    vault.write("a.md", "a\n");
    vault.snapshot_all();
    for round in 0..50 {
        vault.remove("n.md");
        if round % 2 == 0 {
            vault.write("n.md", "same\n");
        } else {
            vault.git(&["checkout", "-q", "--", "n.md"]);
        }
        std::fs::rename(vault.path("a.md"), vault.path("b.md")).unwrap();
        std::fs::rename(vault.path("b.md"), vault.path("a.md")).unwrap();
        assert_eq!(vault.snapshot(&["n.md", "a.md", "b.md"]).head, None);
    }
    assert_eq!(vault.commits(), 1);
    vault.assert_clean();
}

#[test]
fn a_content_that_changes_while_it_is_read_is_never_committed() {
    // D09 (c): a writer that goes on and on, in place, without a change of size.
    let mut vault = Vault::new();
    vault.write("n.md", vec![b'0'; 400_000]);
    vault.write("calm.md", "calm\n");
    vault.snapshot_all();
    let path = vault.path("n.md");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let writer = std::thread::spawn(move || {
        use std::io::{Seek as _, Write as _};
        let mut file = std::fs::File::options().write(true).open(path).unwrap();
        let mut letter = b'a';
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            letter = if letter == b'z' { b'a' } else { letter + 1 };
            file.rewind().unwrap();
            for _ in 0..100 {
                file.write_all(&[letter; 4_000]).unwrap();
            }
        }
    });
    for n in 0..10 {
        vault.write("calm.md", format!("calm {n}\n"));
        let look = hints(&["n.md", "calm.md"]);
        vault.history().snapshot(&look, &Cause::edit()).unwrap();
        assert_eq!(vault.committed("calm.md").unwrap(), format!("calm {n}\n"));
        // Of one letter, or what the disk has while the writer rests: its next letter up to some
        // block. A read that the writer overtook has the newer letter at the end.
        let text = vault.committed("n.md").unwrap().into_bytes();
        let (first, last) = (text[0], text[text.len() - 1]);
        let newer = text.iter().take_while(|it| **it == first).count();
        let follows = first == last + 1 || (first, last) == (b'a', b'z') || last == b'0';
        let is_whole = first == last || follows && newer % 4_000 == 0;
        assert!(is_whole && text[newer..].iter().all(|it| *it == last), "torn in round {n}");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    vault.snapshot_all();
    vault.assert_clean();
}

#[test]
fn half_a_save_is_put_off_while_it_is_young() {
    // D09 (a), (b), where a look cannot wait for quiet.
    let mut vault = Vault::new();
    for name in ["emptied.md", "gone.md", "old.md", "written.md", "d/below.md"] {
        vault.write(name, format!("text of {name}\n"));
    }
    vault.write("empty.md", "");
    vault.snapshot_all();
    vault.write("emptied.md", "");
    vault.remove("gone.md");
    vault.remove("empty.md");
    std::fs::rename(vault.path("old.md"), vault.path("new.md")).unwrap();
    vault.write("written.md", "more\n");
    std::fs::remove_dir_all(vault.path("d")).unwrap();
    let look = |vault: &mut Vault, moment: u64| {
        let settling = Some(std::time::Duration::from_secs(moment));
        let look = Look { settling, ..vault.scan() };
        vault.history().snapshot(&look, &Cause::edit()).unwrap().put_off
    };
    // The other name of something, what had no text, and a folder's end are no saves.
    let both = [vault_path("emptied.md"), vault_path("gone.md")].into();
    assert_eq!(look(&mut vault, 3_600), both);
    let listed = "emptied.md\ngone.md\nnew.md\nwritten.md\n";
    assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]), listed);
    assert_eq!(vault.committed("emptied.md").unwrap(), "text of emptied.md\n");
    assert_eq!(vault.committed("written.md").unwrap(), "more\n");
    // What is gone is believed in the end; what is there says itself how long it is empty.
    for _ in 1..5 {
        assert_eq!(look(&mut vault, 3_600), both);
    }
    assert_eq!(look(&mut vault, 3_600), [vault_path("emptied.md")].into());
    assert!(vault.committed("gone.md").is_none());
    assert_eq!(look(&mut vault, 0), [].into());
    assert_eq!(vault.committed("emptied.md").unwrap(), "");
    vault.assert_clean();
}

/// The second look of a turn is only at what kept changing in the first one.
#[test]
fn what_is_gone_is_believed_in_the_end_however_many_looks_are_made_elsewhere() {
    let mut vault = Vault::new();
    for name in ["busy.md", "gone.md"] {
        vault.write(name, format!("text of {name}\n"));
    }
    vault.snapshot_all();
    let settling = Some(std::time::Duration::from_secs(3_600));
    let turn = |vault: &mut Vault, n: usize| {
        vault.write("busy.md", format!("{n}\n"));
        let both = Look { settling, ..vault.scan() };
        let put_off = vault.history().snapshot(&both, &Cause::edit()).unwrap().put_off;
        vault.write("busy.md", format!("{n} again\n"));
        let other = Look { settling, paths: [vault_path("busy.md")].into(), ..Look::default() };
        assert!(vault.history().snapshot(&other, &Cause::edit()).unwrap().put_off.is_empty());
        !put_off.is_empty()
    };
    vault.remove("gone.md");
    assert!((0..5).all(|it| turn(&mut vault, it)));
    // It was there again, so it counts anew.
    vault.write("gone.md", "back\n");
    assert!(!turn(&mut vault, 5));
    vault.remove("gone.md");
    assert!((6..11).all(|it| turn(&mut vault, it)));
    assert!(!turn(&mut vault, 11));
    assert!(vault.committed("gone.md").is_none());
    vault.assert_clean();
}

#[test]
fn times_in_the_future_and_in_the_past_are_no_commit_and_no_loop() {
    let mut vault = Vault::new();
    let day = std::time::Duration::from_secs(86_400);
    let now = std::time::SystemTime::now();
    for (name, time) in [("future.md", now + day), ("past.md", now - 9_000 * day)] {
        vault.write(name, "text\n");
        let file = std::fs::File::options().write(true).open(vault.path(name)).unwrap();
        file.set_modified(time).unwrap();
    }
    vault.snapshot_all();
    vault.write("n.md", "n\n");
    vault.snapshot_all();
    vault.snapshot_all();
    let before = std::fs::metadata(vault.path(".git/index")).unwrap().modified().unwrap();
    let look = vault.scan();
    let history = vault.history.as_mut().unwrap();
    for _ in 0..3 {
        assert_eq!(history.snapshot(&look, &Cause::edit()).unwrap().head, None);
    }
    assert_eq!(std::fs::metadata(vault.path(".git/index")).unwrap().modified().unwrap(), before);
    assert_eq!(vault.commits(), 2);
    vault.assert_clean();
}

#[test]
fn ignored_and_too_large_files_stay_out_and_tracked_ones_stay_in() {
    let mut vault = Vault::new();
    vault.options.max_file = 1_000;
    vault.reopen();
    vault.write(".gitignore", "*.log\nbuild/\n!keep.log\n");
    vault.write("x.log", "x");
    vault.write("keep.log", "k");
    vault.write("build/deep/y.md", "y");
    vault.write("mem_metadata/file", "derived");
    vault.write(".remd-tmp-1-2", "temp");
    vault.write("big.bin", vec![b'x'; 1_001]);
    vault.write("fits.bin", vec![b'x'; 1_000]);
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.kept_out, [(vault_path("big.bin"), Kept::TooLarge { bytes: 1_001 })]);
    assert_eq!(
        vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]),
        ".gitignore\nfits.bin\nkeep.log\n"
    );
    let mut ignores = vault.history().ignores().unwrap();
    for (path, is_dir, ignored) in [
        ("x.log", false, true),
        ("keep.log", false, false),
        ("build", true, true),
        ("build/deep/y.md", false, true),
        ("mem_metadata", true, true),
        ("n.md", false, false),
    ] {
        assert_eq!(ignores.is_ignored(&vault_path(path), is_dir), ignored, "{path}");
    }
    // Tracked: size and rules do not matter any more.
    vault.write("fits.bin", vec![b'y'; 2_000]);
    vault.write(".gitignore", "*.bin\n*.log\n");
    let snapshot = vault.snapshot(&["fits.bin", ".gitignore"]);
    assert_eq!(snapshot.changes.len(), 2);
    ignores.reload().unwrap();
    assert!(ignores.is_ignored(&vault_path("keep.log"), false));
}

#[test]
fn a_special_or_unreadable_file_does_not_stop_its_neighbours() {
    let mut vault = Vault::new();
    vault.write("a.md", "a\n");
    let fifo = std::ffi::CString::new(vault.path("pipe").as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a valid C string for the whole call.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let _socket = std::os::unix::net::UnixListener::bind(vault.path("socket")).unwrap();
    std::os::unix::fs::symlink("/etc/shadow", vault.path("out")).unwrap();
    let snapshot = vault.snapshot_all();
    assert!(snapshot.kept_out.is_empty(), "{:?}", snapshot.kept_out);
    assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "a.md\nout\n");
    assert_eq!(vault.committed("out").unwrap(), "/etc/shadow");
}

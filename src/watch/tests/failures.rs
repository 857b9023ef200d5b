//! What ends a way of noticing, and how the next one takes over.

use std::io::Write as _;

use super::*;
use crate::base::process;
use crate::watch::{Skip, WatchMode, scan};

/// The kernel's queue runs over while nobody empties it: everything is scanned, every folder gets
/// its watch, and the flush is not left waiting for a marker that was lost.
#[test]
fn lost_events_become_a_scan() {
    let trial = Trial::new(|_| {});
    let queue: usize = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let held = trial.watcher().inbox().hold();
    // Each opening is an event (the same one twice in a row would be one). notify's thread has taken
    // some into its own buffer, and waits for the inbox; twice the queue overflows it surely.
    let files = ["a.md", "b.md"].map(|it| trial.root.join(it));
    files.iter().for_each(|it| write(it, "one\n"));
    for it in 0..2 * queue {
        std::fs::read(&files[it % 2]).unwrap();
    }
    trial.write("unseen/deep/b.md", "one\n");
    drop(held);
    let hints = trial.wait(|it| it.rescan);
    assert!(hints.covers(&path("unseen/deep/b.md")));
    trial.hints();
    trial.write("unseen/deep/b.md", "two\n");
    assert_eq!(trial.hints().paths, [path("unseen/deep/b.md")].into());
}

/// D12: a library thread that died is noticed, replaced, and the gap scanned.
#[test]
fn a_dead_thread_is_noticed_and_replaced() {
    let trial = Trial::new(|_| {});
    assert!(trial.watcher().check_alive(LIMIT));
    *trial.watcher().inbox().panic_at.lock().unwrap() = Some(path("poison.md"));
    trial.write("poison.md", "x");
    assert!(!trial.watcher().check_alive(Duration::from_secs(2)));
    trial.wait(|it| it.rescan);
    *trial.watcher().inbox().panic_at.lock().unwrap_or_else(|it| it.into_inner()) = None;
    assert!(trial.watcher().check_alive(LIMIT));
    assert_eq!(trial.watcher().stats().mode, WatchMode::Inotify);
    trial.write("a.md", "one\n");
    assert_eq!(trial.hints().paths, [path("a.md")].into());
}

/// The same with nobody asking: the heartbeat finds out.
#[test]
fn a_dead_thread_is_replaced_without_being_asked() {
    let trial = Trial::new(|_| {});
    *trial.watcher().inbox().panic_at.lock().unwrap() = Some(path("poison.md"));
    trial.write("poison.md", "x");
    let start = clock::now();
    trial.wait(|it| it.rescan);
    assert!(clock::now() - start < Duration::from_secs(10));
}

#[test]
fn a_vault_that_is_moved_away_is_lost_until_it_is_back() {
    let trial = Trial::new(|root| write(&root.join("a.md"), "one\n"));
    let elsewhere = trial.away.join("vault");
    std::fs::rename(&trial.root, &elsewhere).unwrap();
    let hints = trial.wait(|it| it.lost);
    assert!(hints.paths.is_empty() && !hints.rescan);
    assert!(matches!(trial.watcher().stats().mode, WatchMode::Off { .. }));
    assert!(!trial.watcher().stats().alive);

    // Another folder of that name is not the vault.
    std::fs::create_dir(&trial.root).unwrap();
    assert!(trial.watcher().flush(LIMIT));
    assert!(matches!(trial.watcher().stats().mode, WatchMode::Off { .. }));
    std::fs::remove_dir(&trial.root).unwrap();

    std::fs::rename(&elsewhere, &trial.root).unwrap();
    trial.wait(|it| it.rescan);
    trial.write("a.md", "two\n");
    assert_eq!(trial.hints().paths, [path("a.md")].into());
}

#[test]
fn a_vault_whose_parent_is_moved_is_lost() {
    let trial = Trial::new(|_| {});
    let (base, elsewhere) = (trial.root.parent().unwrap(), tempfile::tempdir_in("/tmp").unwrap());
    std::fs::rename(base, elsewhere.path().join("moved")).unwrap();
    trial.wait(|it| it.lost);
    std::fs::rename(elsewhere.path().join("moved"), base).unwrap();
    trial.wait(|it| it.rescan);
}

#[test]
fn a_vault_that_is_not_there_is_an_error_with_its_path() {
    let said = Latest::new(Hints::default());
    let gone = tempfile::tempdir().unwrap().path().join("gone");
    let filter = Filter::default();
    let sink = Box::new(move |hints, _| said.update(|it| it.merge(hints)));
    let err = Watcher::start(&gone, &[], filter, Box::new(|_| false), sink).unwrap_err();
    assert!(err.is_absent() && err.to_string().contains("gone"));
}

/// D06: no watches to be had. The test runs itself in a user namespace with a limit of its own.
#[test]
fn d06_where_watches_run_out_the_vault_is_polled() {
    let set = "echo 64 > /proc/sys/user/max_inotify_watches";
    in_a_namespace("where_watches_run_out", set, || {
        let trial = Trial::new(|root| {
            for it in 0..200 {
                write(&root.join(format!("d{it:03}/n.md")), "one\n");
            }
        });
        polled_with(&trial, "user.max_inotify_watches", "inotify watch limit reached");
        assert_eq!(trial.watcher().stats().limit.unwrap().watches, 64);

        // The limit is raised: the next start watches.
        std::fs::write("/proc/sys/user/max_inotify_watches", "1000").unwrap();
        let said = Latest::new(Hints::default());
        let again = watch(&trial.root, &said);
        assert_eq!(again.stats().mode, WatchMode::Inotify);
        // It is lowered again, and the tree grows beyond it: what was watched is polled.
        std::fs::write("/proc/sys/user/max_inotify_watches", "210").unwrap();
        for it in 0..50 {
            write(&trial.root.join(format!("late{it}/n.md")), "one\n");
        }
        assert!(again.flush(LIMIT));
        assert!(said.get().covers(&path("late49/n.md")));
        assert!(matches!(again.stats().mode, WatchMode::Polling { .. }));
    });
}

#[test]
fn d06_where_instances_run_out_the_vault_is_polled() {
    let set = "echo 0 > /proc/sys/user/max_inotify_instances";
    in_a_namespace("where_instances_run_out", set, || {
        let trial = Trial::new(|root| write(&root.join("d199/n.md"), "one\n"));
        polled_with(&trial, "fs.inotify.max_user_instances", "limit of inotify instances");
    });
}

/// An edit in the last folder, a new one and a removal are found; the remedy is named.
fn polled_with(trial: &Trial, remedy_names: &str, why_says: &str) {
    let WatchMode::Polling { why, remedy } = trial.watcher().stats().mode else {
        panic!("{:?}", trial.watcher().stats());
    };
    assert!(why.contains(why_says) && remedy.contains(remedy_names), "{why}; {remedy}");
    assert!(trial.watcher().stats().alive && trial.watcher().check_alive(LIMIT));
    trial.write("d199/n.md", "two\n");
    trial.write("d300/new.md", "one\n");
    // By itself,
    let hints = trial.wait(|it| it.covers(&path("d199/n.md")) && it.covers(&path("d300/new.md")));
    assert_eq!(hints.paths, [path("d199/n.md"), path("d300/new.md")].into());
    // and at once when asked.
    trial.remove("d300/new.md");
    trial.write(".git/HEAD", "ref: refs/heads/side\n");
    let hints = trial.hints();
    assert_eq!(hints.paths, [path("d300/new.md")].into());
    assert!(hints.git);
}

/// G03: another file system below the vault is neither entered nor watched.
#[test]
fn g03_another_file_system_is_not_entered() {
    in_a_namespace("another_file_system", "true", || {
        let trial = Trial::new(|root| {
            let point = root.join("search").to_string_lossy().into_owned();
            std::fs::create_dir(&point).unwrap();
            let mount = ["-t", "tmpfs", "none", &point];
            assert!(process::run("mount", &mount, LIMIT).unwrap().status.success());
            write(&root.join("search/page.md"), "not ours\n");
            write(&root.join("a.md"), "one\n");
        });
        assert_eq!(trial.watches(), 4);
        trial.write("search/page.md", "still not ours\n");
        assert_eq!(trial.hints(), Hints::default());
        let all = scan(&trial.root, None, &Filter::default(), &mut |_| false).unwrap();
        assert_eq!(all.found, [path("a.md")]);
        assert_eq!(all.skipped, [(path("search"), Skip::OtherDevice)]);
        assert!(!all.covers(&path("search/gone.md")));
    });
}

/// Runs `test` in this test binary, started again in user and mount namespaces of its own after
/// the shell command `set`. Where the system allows none, says so past the test harness.
fn in_a_namespace(name: &str, set: &str, test: impl FnOnce()) {
    const INSIDE: &str = "REMD_TEST_NAMESPACE";
    if std::env::var(INSIDE).is_ok_and(|it| it == name) {
        return test();
    }
    let allowed = process::run("unshare", &["-U", "-r", "-m", "true"], LIMIT);
    if !allowed.is_ok_and(|it| it.status.success()) {
        let line = format!("NOT RUN: {name} (no user namespaces here)\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    let this = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    let test_name = std::thread::current().name().unwrap().to_owned();
    let script = format!("{set} && exec env {INSIDE}={name} \"$0\" --exact \"$1\" --nocapture");
    let args = ["-U", "-r", "-m", "sh", "-c", &script, &this, &test_name];
    let output = process::run("unshare", &args, LIMIT * 3).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

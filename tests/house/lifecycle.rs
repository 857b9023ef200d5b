//! The agent as a process: killed and started again, two at once, stopped in the middle of
//! anything, held up and let go on.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::house::{House, has_fuse, is_there, wait_for};

/// A number from the environment, for longer runs.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |it| it.parse().unwrap())
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: kill(2) takes two integers.
    assert_eq!(unsafe { libc::kill(i32::try_from(pid).unwrap(), signal) }, 0);
}

/// `remd up` beside the house's own, by `program` and its arguments in front.
fn another(house: &House, before: &[&str], vault: &Path) -> Child {
    let mut words: Vec<_> = before.iter().map(|it| (*it).to_owned()).collect();
    words.push(env!("CARGO_BIN_EXE_remd").to_owned());
    Command::new(&words[0])
        .args(&words[1..])
        .args(["up", "--no-mount"])
        .arg(vault)
        .env("HOME", house.temp.path().join("home"))
        .env("XDG_RUNTIME_DIR", house.temp.path().join("run"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Each file below `.git` and of the runtime folder: its inode, size and time of change.
fn traces(house: &House) -> Vec<(PathBuf, u64, u64, i64, i64)> {
    let mut folders = vec![house.at(".git"), house.temp.path().join("run")];
    let mut traces = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                folders.push(path);
            } else {
                traces.push((path, meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec()));
            }
        }
    }
    traces.sort();
    traces
}

/// What a stop must not leave.
fn assert_nothing_left(house: &House) {
    let mut left = Vec::new();
    let mut folders = vec![house.vault.clone(), house.temp.path().join("run")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // The index keeps its own lock files; the kernel knows whether they are locked.
            if path.is_dir() && !path.is_symlink() {
                if !path.ends_with("mem_metadata") {
                    folders.push(path);
                }
            } else if name.ends_with(".lock")
                || name.ends_with(".sock")
                || name.starts_with(".remd-tmp")
                || name.starts_with("lock-")
                || name.starts_with("tmp_")
            {
                left.push(path);
            }
        }
    }
    assert_eq!(left, Vec::<PathBuf>::new(), "left behind\n{}", house.log());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*house.mount.to_string_lossy()), "a mount is left");
    assert!(!is_there(&house.mount), "the folder made for the mount goes with it");
}

/// Stops by `signals`, one after the other; it ends in time and with code 0.
fn stop_by(house: &mut House, signals: &[i32], what: &str) {
    let start = Instant::now();
    signals.iter().for_each(|it| signal(house.pid(), *it));
    assert_eq!(house.wait_for_end(), Some(0), "{what}\n{}", house.log());
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{what}: {took:?}\n{}", house.log());
    assert_nothing_left(house);
}

fn many(house: &House, count: usize, word: &str) {
    for number in 0..count {
        house.write(
            format!("many/{}/{number}.md", number % 40),
            format!("# Note {number}\n\n{word} [[{}]]\n\n{}\n", number / 2, "text ".repeat(5)),
        );
    }
}

/// J01, the agent's part: after a hard kill with a mount, a socket and edits under way the next
/// start catches everything that happened meanwhile, also at its own beginning.
#[test]
fn a_hard_kill_and_edits_while_it_is_dead_j01() {
    if !has_fuse("a_hard_kill_and_edits_while_it_is_dead_j01") {
        return;
    }
    let mut house = House::open();
    house.write("kept.md", "alfa kept\n");
    house.write("gone.md", "alfa gone\n");
    house.settle_and_check();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    for round in 0..3 {
        // Somebody stands in the mount, and an edit is not committed yet.
        let mut guest = Command::new("tail")
            .args(["-f", "/dev/null"])
            .current_dir(&house.mount)
            .spawn()
            .unwrap();
        house.write("late.md", format!("alfa late {round}\n"));
        house.kill();
        assert!(fs::read_dir(house.temp.path().join("run/remd")).unwrap().next().is_some());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(mounts.contains(&*house.mount.to_string_lossy()), "the dead mount is there");
        house.write("kept.md", format!("alfa kept {round}\n"));
        house.write(format!("dead/{round}/new.md"), format!("alfa dead {round}\n"));
        let _was_there = fs::remove_file(house.at("gone.md"));
        // Another process goes on writing from before the start until after it.
        let script = "i=0; while [ ! -e ../enough ]; do i=$((i+1)); mkdir -p start/$i; \
                      echo alfa $i > start/$i/n.md; echo $i > ../count; sleep 0.01; done";
        let mut writer =
            Command::new("sh").args(["-c", script]).current_dir(&house.vault).spawn().unwrap();
        wait_for("the other process to write", || is_there(&house.at("start/3/n.md")));
        house.start();
        fs::write(house.temp.path().join("enough"), "").unwrap();
        assert!(writer.wait().unwrap().success());
        fs::remove_file(house.temp.path().join("enough")).unwrap();
        house.settle_and_check();
        assert_eq!(house.in_head("late.md"), format!("alfa late {round}\n").into_bytes());
        assert_eq!(house.in_head("kept.md"), format!("alfa kept {round}\n").into_bytes());
        let count = fs::read_to_string(house.temp.path().join("count")).unwrap();
        let count: usize = count.trim().parse().unwrap();
        let paths = house.head_paths();
        assert_eq!(paths.iter().filter(|it| it.starts_with(b"start/")).count(), count);
        assert_eq!(paths.iter().filter(|it| it.starts_with(b"dead/")).count(), round + 1);
        assert!(!paths.contains(&b"gone.md".to_vec()));
        wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
        assert!(house.cat("search/kept").contains(&format!("alfa kept {round}")));
        guest.kill().unwrap();
        guest.wait().unwrap();
        fs::remove_dir_all(house.at("start")).unwrap();
    }
    stop_by(&mut house, &[libc::SIGTERM], "after the kills");
}

/// J03: two, three and more at once, again and again: one serves, the others end with a code of
/// their own and leave no trace.
#[test]
fn of_those_who_start_at_once_one_serves_j03() {
    let mut house = House::open();
    house.write("n.md", "alfa\n");
    house.settle_and_check();
    house.stop();
    for round in 0..number("REMD_START_ROUNDS", 12) {
        let mut agents: Vec<_> =
            (0..2 + round % 3).map(|_| another(&house, &["env"], &house.vault)).collect();
        let is_over = |it: &mut Child| it.try_wait().unwrap().is_some();
        wait_for("the losers to leave", || {
            agents.iter_mut().filter_map(|it| is_over(it).then_some(())).count() + 1 >= agents.len()
        });
        house.write("n.md", format!("alfa {round}\n"));
        wait_for("the winner to answer", || house.is_running());
        let winner = house.status()["agent"]["pid"].as_u64();
        house.settle_and_check();
        assert_eq!(house.commits(), round + 2, "no double commit");
        let mut served = 0;
        for mut agent in agents {
            if is_over(&mut agent) {
                let said = crate::house::Said::from(agent.wait_with_output().unwrap());
                assert_eq!(said.code, 2, "{}", said.stderr);
                assert!(said.stderr.contains("Another agent"), "{}", said.stderr);
            } else {
                assert_eq!(winner, Some(u64::from(agent.id())));
                served += 1;
                signal(agent.id(), libc::SIGTERM);
                assert_eq!(agent.wait().unwrap().code(), Some(0));
            }
        }
        assert_eq!(served, 1, "round {round}");
        assert_nothing_left(&house);
    }
}

/// J03: by whatever way the second one comes to the vault, it finds the first one's lock.
#[test]
fn a_second_one_by_any_way_to_the_vault_touches_nothing_j03() {
    let house = House::open();
    house.write("n.md", "alfa\n");
    house.settle_and_check();
    let again = house.temp.path().join("again");
    std::os::unix::fs::symlink(&house.vault, &again).unwrap();
    let bound = house.temp.path().join("bound");
    fs::create_dir(&bound).unwrap();
    let before = traces(&house);
    let refused = |agent: Child, what: &str| {
        let said = crate::house::Said::from(agent.wait_with_output().unwrap());
        assert_eq!(said.code, 2, "{what}: {}", said.stderr);
        assert!(said.stderr.contains("Another agent"), "{what}: {}", said.stderr);
        assert!(said.stderr.contains("hint:"), "{what}: {}", said.stderr);
    };
    refused(another(&house, &["env"], &house.vault), "by hand");
    refused(another(&house, &["env"], &again), "by a symlink");
    // With a mount namespace of its own, as in a container; then by a bind mount in it.
    let apart = ["unshare", "-m"];
    refused(another(&house, &apart, &house.vault), "from another namespace");
    let (vault, bound_text) = (house.vault.to_string_lossy(), bound.to_string_lossy());
    let script = "mount --bind \"$1\" \"$2\"; shift 2; exec \"$@\"";
    let bind = ["unshare", "-m", "sh", "-ec", script, "sh", &vault, &bound_text];
    refused(another(&house, &bind, &bound), "by a bind mount");
    assert_eq!(traces(&house), before, "a loser left traces");
    house.write("n.md", "alfa two\n");
    house.settle_and_check();
    assert_eq!(house.status()["agent"]["pid"], house.pid());
    assert_eq!(house.commits(), 2);
}

/// J03: the next one starts while the last one ends: neither takes the other's socket or mount.
#[test]
fn a_start_while_the_last_one_ends_j03() {
    let mut house = House::open();
    for round in 0..8 {
        house.write("n.md", format!("alfa {round}\n"));
        let mut old = house.stop_and_go_on();
        // Who comes too early is told; who comes in time waits for the lock.
        wait_for("a start that is let in", || {
            house.spawn();
            let mut is_up = false;
            wait_for("an end or an answer", || {
                is_up = house.status()["agent"]["pid"] == house.pid();
                is_up || house.has_ended()
            });
            if !is_up {
                assert_eq!(house.wait_for_end(), Some(2), "{}", house.log());
            }
            is_up
        });
        assert_eq!(old.wait().unwrap().code(), Some(0), "{}", house.log());
        house.settle_and_check();
        assert_eq!(house.in_head("n.md"), format!("alfa {round}\n").into_bytes());
        assert_eq!(house.status()["agent"]["pid"], house.pid(), "its socket is its own");
    }
    stop_by(&mut house, &[libc::SIGTERM], "the last one");
}

/// A script that starts an agent and waits for it need not know how long a start takes.
#[test]
fn who_waits_for_an_agent_that_starts_is_answered_by_it() {
    let mut house = House::open();
    house.stop();
    let hold = house.temp.path().join("hold");
    fs::write(&hold, "").unwrap();
    house.env("REMD_HOLD", &format!("boot.listen:{}", hold.display()));
    house.write("n.md", "alfa\n");
    house.spawn();
    wait_for("a start that does not listen yet", || {
        house.status()["agent"]["pid"] == house.pid() && !house.is_running()
    });
    let waits = house.spawn_command(["status", "--wait", "settled"]);
    let reloads = house.spawn_command(["reload"]);
    // Both have asked, and found nobody.
    wait_for("what was asked", || [&waits, &reloads].iter().all(|it| sleeps(it.id())));
    fs::remove_file(&hold).unwrap();
    for mut child in [reloads, waits] {
        assert!(child.wait().unwrap().success(), "{}", house.log());
    }
    house.settle_and_check();
}

/// What it is at may take longer than a service manager waits; it is begun again where it was left.
#[test]
fn a_stop_does_not_wait_for_an_index_that_takes_long() {
    let mut house = House::open();
    house.write("n.md", "alfa\n");
    house.settle_and_check();
    house.stop();
    let hold = house.temp.path().join("hold");
    fs::write(&hold, "").unwrap();
    house.env("REMD_HOLD", &format!("indexer.note:{}", hold.display()));
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    let builds = |house: &House| house.log().matches("building the index").count();
    let before = builds(&house);
    house.start();
    wait_for("an index in the making", || builds(&house) > before);
    assert_eq!(house.stop(), Some(0), "{}", house.log());
    assert!(house.log().contains("the next start goes on with it"), "{}", house.log());
    fs::remove_file(&hold).unwrap();
    house.start();
    house.settle_and_check();
    assert_eq!(house.found("alfa"), ["n.md"]);
}

/// Whether the process waits for a moment of time.
fn sleeps(pid: u32) -> bool {
    let at = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let number = at.split(' ').next().and_then(|it| it.parse().ok());
    number.is_some_and(|it: i64| it == libc::SYS_clock_nanosleep || it == libc::SYS_nanosleep)
}

/// J06: bad settings end the start with the very code that keeps the unit from trying again; an
/// agent that runs keeps its last good ones.
#[test]
fn bad_settings_end_a_start_with_the_unit_s_code_j06() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/remd@.service");
    let unit = fs::read_to_string(unit).unwrap();
    let codes: Vec<&str> =
        unit.lines().filter_map(|it| it.strip_prefix("RestartPreventExitStatus=")).collect();
    let [code] = codes[..] else { panic!("{codes:?}") };
    let code: i32 = code.parse().unwrap();
    assert!(unit.lines().any(|it| it == "Restart=on-failure"));

    let mut house = House::open();
    house.write("n.md", "alfa\n");
    house.settle_and_check();
    // While it runs: each bad one is named, and the last good ones stay.
    let user = house.temp.path().join("home/.config/remd/config.yaml");
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    let bad = ["commit:\n  quiet: soon\n", "commit: [\n", "digest_dir: ../out\n"];
    house.write("remd.yaml", "commit:\n  quiet: 300ms\n");
    assert_eq!(house.run(["reload"]).code, 0);
    let listed = || house.run(["config", "list"]).stdout;
    assert!(listed().contains("commit.quiet = 300ms"));
    for text in bad {
        for file in [house.at("remd.yaml"), user.clone()] {
            let good = fs::read(&file).unwrap_or_default();
            fs::write(&file, text).unwrap();
            let said = house.run(["reload"]);
            assert_eq!(said.code, 2, "{text}: {}", said.stderr);
            assert!(house.is_running());
            let problems = house.status()["problems"].to_string();
            assert!(problems.contains("settings-error"), "{text}: {problems}");
            house.write("n.md", format!("alfa {}{text}", file.display()));
            house.settle();
            // Mended, it is over by itself.
            fs::write(&file, good).unwrap();
            assert!(!house.status()["problems"].to_string().contains("settings-error"));
        }
    }
    house.settle_and_check();
    assert_eq!(house.stop(), Some(0));

    // At a start: the code, the place, and nothing made or left.
    let good = fs::read(house.at("remd.yaml")).unwrap();
    let before = traces(&house);
    for text in bad {
        for file in [house.at("remd.yaml"), user.clone()] {
            let kept = fs::read(&file).unwrap_or_default();
            fs::write(&file, text).unwrap();
            house.spawn();
            assert_eq!(house.wait_for_end(), Some(code), "{text}\n{}", house.log());
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            assert!(house.log().contains(&name), "{}", house.log());
            fs::write(&file, kept).unwrap();
        }
    }
    house.args(["commit.quiet=soon"]).spawn();
    assert_eq!(house.wait_for_end(), Some(code), "{}", house.log());
    assert_eq!(traces(&house), before);
    // What passes by itself has another code, so that the service is started again.
    house.args(["--no-create"]);
    let away = house.temp.path().join("away");
    fs::rename(&house.vault, &away).unwrap();
    house.spawn();
    let ended = house.wait_for_end();
    assert!(ended.is_some_and(|it| it != 0 && it != code), "{ended:?}");
    fs::rename(&away, &house.vault).unwrap();
    assert_eq!(fs::read(house.at("remd.yaml")).unwrap(), good);
    house.start();
    house.settle_and_check();
}

/// J07: stopped at any moment of a start, from its first millisecond on.
#[test]
fn stopped_while_it_starts_j07() {
    let mut house = House::closed();
    many(&house, 300, "alfa");
    for round in 0..10_u32 {
        let which = [libc::SIGTERM, libc::SIGINT][round as usize % 2];
        house.spawn();
        wait_for("it to listen to signals", || catches(house.pid(), which));
        let until = Instant::now() + Duration::from_millis(5) * (round * round);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            std::thread::park_timeout(left);
        }
        stop_by(&mut house, &[which], &format!("round {round}"));
    }
    // A terminal that goes away, or a reload that comes too early, ends no start.
    house.spawn();
    wait_for("it to listen to signals", || catches(house.pid(), libc::SIGHUP));
    signal(house.pid(), libc::SIGHUP);
    wait_for("the agent", || house.is_running());
    wait_for("the reload", || house.log().contains("settings read again"));
    house.settle_and_check();
    assert_eq!(house.status()["index"]["notes"], 300);
    stop_by(&mut house, &[libc::SIGTERM, libc::SIGTERM, libc::SIGINT], "at rest");
}

/// Whether the process has a handler for the signal.
fn catches(pid: u32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|it| it.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or(0);
    caught >> (signal - 1) & 1 == 1
}

/// What was told to the allocator has reached it: there is somebody who gives memory back while
/// nothing happens.
#[cfg(target_env = "gnu")]
#[test]
fn memory_is_given_back_at_rest() {
    let house = House::open();
    let tasks = format!("/proc/{}/task", house.pid());
    wait_for("the allocator's own thread", || {
        let threads = fs::read_dir(&tasks).unwrap().flatten();
        let mut names = threads.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
        names.any(|it| it.trim() == "jemalloc_bg_thd")
    });
}

/// J07: SIGTERM while 3,000 notes are indexed for the first time, while a big commit is made, and
/// twice; the next start finishes.
#[test]
fn stopped_while_it_works_j07() {
    let mut house = House::closed();
    many(&house, 3_000, "alfa");
    house.spawn();
    wait_for("the first indexing", || {
        let status = house.run(["status", "--json"]).stdout;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        status["index"]["progress"].as_f64().is_some_and(|it| it > 0.0 && it < 1.0)
    });
    stop_by(&mut house, &[libc::SIGTERM], "first indexing");
    house.start();
    // Every note again, stopped in the middle of that.
    house.settle();
    assert_eq!(house.status()["index"]["notes"], 3_000);
    assert_eq!(house.run(["pause"]).code, 0);
    many(&house, 1_500, "bravo");
    assert_eq!(house.run(["resume"]).code, 0);
    wait_for("the big commit", || {
        let committing = house.status()["pending"]["committing"].clone();
        committing["done"].as_u64().is_some_and(|it| it > 0)
    });
    stop_by(&mut house, &[libc::SIGTERM, libc::SIGTERM], "big commit");
    house.start();
    house.settle_and_check();
    assert_eq!(house.status()["index"]["notes"], 3_000);
    for number in [0, 7, 1_499] {
        let text = house.in_head(&format!("many/{}/{number}.md", number % 40));
        assert!(String::from_utf8(text).unwrap().contains("bravo"));
    }
    stop_by(&mut house, &[libc::SIGINT], "at rest");
}

/// J07: readers sit in the mount, one of them in a search that does not end.
#[test]
fn stopped_with_readers_in_the_mount_j07() {
    if !has_fuse("stopped_with_readers_in_the_mount_j07") {
        return;
    }
    let mut house = House::open();
    house.stop();
    let hold = house.temp.path().join("hold");
    house.env("REMD_HOLD", &format!("desk.search:{}", hold.display())).start();
    house.write("n.md", "alfa\n");
    house.settle_and_check();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    house.cat("search/alfa");
    let open = fs::File::open(house.mount.join("search/alfa")).unwrap();
    let mut guest =
        Command::new("tail").args(["-f", "/dev/null"]).current_dir(&house.mount).spawn().unwrap();
    fs::write(&hold, "").unwrap();
    let mut reader = Command::new("cat")
        .arg(house.mount.join("search/bravo"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the search to hang", || house.status()["mount"]["questions"].as_u64().unwrap() >= 2);
    house.write("n.md", "alfa at the end\n");
    let start = Instant::now();
    assert_eq!(house.stop(), Some(0), "{}", house.log());
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(!reader.wait().unwrap().success(), "who waited is told");
    drop(open);
    guest.kill().unwrap();
    guest.wait().unwrap();
    fs::remove_file(&hold).unwrap();
    assert_eq!(house.in_head("n.md"), b"alfa at the end\n", "the last edit came in");
    house.start();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    house.settle_and_check();
    stop_by(&mut house, &[libc::SIGTERM], "with nobody there");
}

/// SIGHUP is a reload, as `remd up --help` says, and no stop: an agent whose terminal goes away
/// goes on.
#[test]
fn a_hangup_reads_the_settings_again_j07() {
    let mut house = House::open();
    house.write("n.md", "alfa\n");
    house.settle_and_check();
    for _ in 0..3 {
        let before = house.log().matches("settings read again").count();
        signal(house.pid(), libc::SIGHUP);
        wait_for("the reload", || house.log().matches("settings read again").count() > before);
    }
    house.write("n.md", "alfa two\n");
    house.settle_and_check();
    let help = house.run(["up", "--help"]).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("SIGHUP reads the settings again"), "{help}");
    stop_by(&mut house, &[libc::SIGHUP, libc::SIGTERM], "a hangup, and a stop at once");
}

/// An agent that was stopped for a while: commands say that it does not answer, and what happened
/// meanwhile is caught when it goes on.
#[test]
fn an_agent_that_stood_still_catches_up() {
    let house = House::open();
    house.write("a.md", "alfa\n");
    house.write("gone.md", "alfa\n");
    house.settle_and_check();
    signal(house.pid(), libc::SIGSTOP);
    for number in 0..300 {
        house.write(format!("d{}/{number}.md", number % 7), format!("bravo {number}\n"));
    }
    fs::remove_file(house.at("gone.md")).unwrap();
    fs::rename(house.at("a.md"), house.at("b.md")).unwrap();
    fs::rename(house.at("d0"), house.at("e")).unwrap();
    fs::write(house.at("e/0.md"), "charlie\n").unwrap();
    signal(house.pid(), libc::SIGCONT);
    // By its own events alone.
    wait_for("the commit", || house.head_paths().len() == 301);
    wait_for("the index", || house.found_committed("charlie") == ["e/0.md"]);
    house.settle_and_check();
    assert_eq!(house.in_head("b.md"), b"alfa\n");
    assert!(house.head_paths().iter().all(|it| !it.starts_with(b"d0/")));
    assert_eq!(house.status()["index"]["notes"], 301);
}

/// Thousands of files at once, by several programs, beside an agent that watches:
/// `REMD_MANY_FILES=60000` for many more.
#[test]
fn thousands_of_files_at_once() {
    let count = number("REMD_MANY_FILES", 5_000);
    let house = House::open();
    house.write("first.md", "alfa\n");
    house.settle_and_check();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let house = &house;
                scope.spawn(move || {
                    for number in (writer..count).step_by(4) {
                        let name = format!("w{writer}/{}/{number}.md", number % 90);
                        house.write(name, format!("bravo {number}\n"));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            writers.into_iter().for_each(|it| it.join().unwrap());
            is_done.store(true, Ordering::Relaxed);
        });
        // Search answers all the while.
        while !is_done.load(Ordering::Relaxed) {
            assert_eq!(house.found("alfa"), ["first.md"]);
        }
    });
    wait_for("all to be committed", || {
        let said = house.run(["status", "--wait", "settled", "--timeout", "30s"]);
        said.code == 0
    });
    house.settle_and_check();
    assert_eq!(house.head_paths().len(), count + 1);
    assert_eq!(house.status()["index"]["notes"], count + 1);
    assert_eq!(house.status()["verdict"], "ok");
    let complaints = house.log().lines().filter(|it| it.contains("WARN")).count();
    assert!(complaints < 5, "{}", house.log());
}

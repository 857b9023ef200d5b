//! An agent whose log, threads, clients or socket fail under it: it works on, and says so.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::Command;

use crate::house::{House, is_there, wait_for};

fn with_a_note() -> House {
    let house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.write("a.md", "alfa\n");
    house
}

fn problem(house: &House, id: &str) -> Option<serde_json::Value> {
    let status = house.status();
    status["problems"].as_array().unwrap().iter().find(|it| it["id"] == id).cloned()
}

fn signal(house: &House, name: &str) {
    let pid = house.pid().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

#[test]
fn a_full_log_costs_no_commit() {
    let mut house = with_a_note();
    house.start_logging_to(fs::File::options().write(true).open("/dev/full").unwrap());
    house.settle_and_check();
    house.write("b.md", "bravo\n");
    house.settle_and_check();
    assert_eq!(house.head_paths(), [&b"a.md"[..], b"b.md"]);
    assert_eq!(house.found("bravo"), ["b.md"]);
    let lost = problem(&house, "log").expect("status says that the log is lost");
    assert!(lost["count"].as_u64().unwrap() > 0, "{lost}");
    assert_eq!(house.stop(), Some(0));
}

#[test]
fn a_log_file_at_its_size_limit_costs_no_commit() {
    const LIMIT: u64 = 4 << 20;
    let mut house = with_a_note();
    let path = house.root().join("long.log");
    fs::File::create(&path).unwrap().set_len(LIMIT).unwrap();
    let log = fs::File::options().append(true).open(&path).unwrap();
    house.start_under_logging_to(["prlimit", &format!("--fsize={LIMIT}")], log);
    house.write("b.md", "bravo\n");
    house.settle_and_check();
    assert_eq!(house.head_paths(), [&b"a.md"[..], b"b.md"]);
    assert!(problem(&house, "log").is_some());
    assert_eq!(house.stop(), Some(0));
}

#[test]
fn a_log_reader_that_dies_costs_no_commit() {
    let mut house = with_a_note();
    let (reader, writer) = std::io::pipe().unwrap();
    house.start_logging_to(writer);
    house.settle_and_check();
    assert!(problem(&house, "log").is_none());
    drop(reader);
    house.write("b.md", "bravo\n");
    house.settle_and_check();
    assert_eq!(house.head_paths(), [&b"a.md"[..], b"b.md"]);
    assert_eq!(house.found("bravo"), ["b.md"]);
    assert!(problem(&house, "log").is_some());
    assert!(problem(&house, "commit-fault").is_none() && problem(&house, "index").is_none());
    assert_eq!(house.stop(), Some(0));
}

#[test]
fn a_log_reader_that_hangs_costs_lines_and_is_told_so() {
    let mut house = with_a_note();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: fcntl(2) takes a descriptor and two integers.
    let room = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    assert_eq!(room, 4096);
    writer.write_all(&[b'x'; 4096]).unwrap();
    house.start_logging_to(writer);
    house.settle_and_check();
    assert_eq!(house.head_paths(), [b"a.md"]);
    assert!(problem(&house, "log").is_some());
    // It reads again: the next line says what is missing.
    let drain = std::thread::spawn(move || {
        let mut log = String::new();
        reader.read_to_string(&mut log).unwrap();
        log
    });
    wait_for("the log to be well", || {
        house.write("b.md", format!("{:?}\n", std::time::Instant::now()));
        house.settle();
        problem(&house, "log").is_none()
    });
    assert_eq!(house.stop(), Some(0));
    let log = drain.join().unwrap();
    assert!(log.contains("lines of the log were lost here"), "{log}");
}

/// A panic is a fault; that the thread ends with it would be a second one.
#[test]
fn a_thread_that_met_a_fault_takes_its_work_up_again() {
    let mut house = with_a_note();
    let faults = house.root().join("faults");
    house.env("REMD_FAULTS", faults.to_str().unwrap()).start();
    house.settle_and_check();
    for (point, id, word) in
        [("committer.serve", "commit-fault", "bravo"), ("indexer.follow", "index", "charlie")]
    {
        fs::write(&faults, format!("{point}=panic\n")).unwrap();
        let name = format!("{id}.md");
        house.write(&name, format!("{word}\n"));
        wait_for("the fault to be named", || {
            problem(&house, id).is_some_and(|it| it["what"].as_str().unwrap().contains("fault"))
        });
        fs::remove_file(&faults).unwrap();
        // Nobody edits, nobody asks.
        wait_for("the edit to be searched", || house.found_committed(word).contains(&name));
        wait_for("the fault to be over", || problem(&house, id).is_none());
        house.settle_and_check();
    }
}

#[test]
fn a_command_that_gave_up_takes_no_effect_later() {
    let mut house = with_a_note();
    for at in 0..40 {
        house.write(format!("notes/{at}.md"), format!("note {at}\n"));
    }
    house.start();
    house.settle_and_check();
    fs::remove_dir_all(house.at("notes")).unwrap();
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 4);

    signal(&house, "-STOP");
    let pause = house.run(["pause"]);
    assert_eq!(pause.code, 5, "{}", pause.stderr);
    assert!(pause.stderr.contains("is stopped"), "{}", pause.stderr);
    // Another one is ended by its person.
    let mut accept = house.spawn_command(["accept"]);
    wait_for("accept to be asked", || has_socket(accept.id()));
    accept.kill().unwrap();
    accept.wait().unwrap();
    signal(&house, "-CONT");

    wait_for("both to be refused", || house.log().matches("not carried out").count() >= 2);
    let status = house.status();
    assert_eq!(status["agent"]["paused"], false);
    assert_eq!(status["pending"]["held_deletions"], 40);
    house.write("b.md", "bravo\n");
    assert_eq!(house.run(["status", "--wait", "settled"]).code, 4);
    assert_eq!(house.head_paths().len(), 42, "nothing is deleted, the edit is committed");
    // Whoever waits is served.
    assert_eq!(house.run(["accept"]).code, 0);
    assert_eq!(house.run(["pause"]).code, 0);
    assert_eq!(house.status()["agent"]["paused"], true);
}

/// Whether the process waits for an answer: it reads from a socket after it has sent its line.
fn has_socket(pid: u32) -> bool {
    // x86-64 and aarch64 have other numbers for it; the name of what it sleeps in is the same.
    let sleeps_in = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    sleeps_in.contains("unix_stream")
}

#[test]
fn a_socket_that_somebody_removed_comes_back() {
    let mut house = with_a_note();
    house.start();
    house.settle_and_check();
    let folder = house.root().join("run/remd");
    let names = || fs::read_dir(&folder).map_or(0, Iterator::count);
    let before = names();
    assert_eq!(before, 2, "the socket and its second name");
    fs::remove_dir_all(&folder).unwrap();
    wait_for("the agent to answer", || house.is_running());
    wait_for("the second name", || names() == before);
    house.write("b.md", "bravo\n");
    house.settle_and_check();
    assert_eq!(house.head_paths(), [&b"a.md"[..], b"b.md"]);
    assert_eq!(house.stop(), Some(0));
    assert_eq!(names(), 0, "it goes with the agent");
}

#[test]
fn an_agent_that_cannot_be_reached_is_not_said_to_be_gone() {
    let mut house = with_a_note();
    house.start();
    house.settle_and_check();
    let pid = house.pid().to_string();
    let other = house.root().join("other");
    fs::create_dir(&other).unwrap();
    house.env("XDG_RUNTIME_DIR", other.to_str().unwrap());
    let said = house.run(["status"]);
    assert_eq!(said.code, 5, "{}", said.stdout);
    let place = format!("can't be reached at `{}", other.join("remd").display());
    assert!(said.stdout.contains(&place), "{}", said.stdout);
    assert!(said.stdout.contains("XDG_RUNTIME_DIR"), "{}", said.stdout);
    assert!(!said.stdout.contains("no agent is running"), "{}", said.stdout);
    let said = house.run(["pause"]);
    assert_eq!(said.code, 5);
    assert!(said.stderr.contains(&place) && said.stderr.contains("hint:"), "{}", said.stderr);
    assert!(!said.stderr.contains("No agent is running"), "{}", said.stderr);
    // The kernel names who holds a lock, but on a few file systems.
    if said.stderr.contains("(process ") {
        assert!(said.stderr.contains(&format!("(process {pid})")), "{}", said.stderr);
    }
    house.env("XDG_RUNTIME_DIR", "");
    assert!(house.is_running());
    assert_eq!(house.stop(), Some(0));
    assert!(house.run(["status"]).stdout.contains("no agent is running"));
    assert!(is_there(&house.vault));
}

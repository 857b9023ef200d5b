//! The agent as a service: it says how it is, one runs at a time, it starts and stops as systemd
//! wants.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::house::{House, LIMIT, has_fuse, is_there, wait_for};

#[test]
fn a_new_vault_explains_itself() {
    if !has_fuse("a_new_vault_explains_itself") {
        return;
    }
    let mut house = House::closed();
    house.start();
    house.settle_and_check();
    let log = house.log();
    let said: Vec<&str> =
        log.lines().skip_while(|it| !it.starts_with("remd watches")).take(5).collect();
    assert_eq!(said.len(), 5, "{log}");
    let found = house.found("how does search work");
    assert!(!found.is_empty(), "the template is the manual");
    let page = house.cat("search/how does search work");
    assert!(page.starts_with("========== "), "{page}");
    let status = house.run(["status"]);
    assert_eq!(status.code, 0, "{}", status.stdout);
    assert!(status.stdout.starts_with("ok: "), "the verdict comes first: {}", status.stdout);
    assert_eq!(
        house.git(["log", "-1", "--format=%(trailers:key=Remd-Cause,valueonly)"]).trim(),
        "adopt"
    );
    // Nothing in the template is odd.
    let problems = house.status()["problems"].clone();
    let odd: Vec<_> =
        problems.as_array().unwrap().iter().filter(|it| it["level"] != "note").collect();
    assert!(odd.is_empty(), "{problems}");
    assert_eq!(house.status()["index"]["ambiguous_links"], 0);
    // Twice is harmless.
    assert_eq!(house.stop(), Some(0));
    let commits = house.commits();
    assert_eq!(house.run(["init", house.vault.to_str().unwrap()]).code, 0);
    house.start();
    house.settle_and_check();
    assert_eq!(house.commits(), commits);
}

#[test]
fn a_service_makes_no_vault_on_an_empty_mount_point() {
    let house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    let said = house.run(["up".as_ref(), "--no-create".as_ref(), house.vault.as_os_str()]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(said.stderr.contains("There is no vault"), "{}", said.stderr);
    assert_eq!(fs::read_dir(&house.vault).unwrap().count(), 0);
}

#[test]
fn a_folder_is_adopted_as_it_is() {
    let mut house = House::closed();
    house.write("Notes/Old.md", "needle\n");
    house.write(".obsidian/app.json", "{}");
    // What the agent looks away from, git looks away from too.
    for beside in [".Old.md.swp", "Old.md~", "#Old.md#", ".DS_Store", ".stfolder/x", "film.part"] {
        house.write(format!("Notes/{beside}"), "beside");
    }
    house.start();
    house.settle_and_check();
    assert_eq!(house.head_paths(), [&b".obsidian/app.json"[..], b"Notes/Old.md"]);
    assert_eq!(house.found("needle"), ["Notes/Old.md"]);
    assert!(!is_there(&house.at(".gitignore")) && !is_there(&house.at("remd.yaml")));
}

#[test]
fn the_second_agent_says_who_runs_j03() {
    let house = House::open();
    house.write("n.md", "needle\n");
    house.settle_and_check();
    let again = house.temp.path().join("again");
    std::os::unix::fs::symlink(&house.vault, &again).unwrap();
    for path in [house.vault.clone(), again] {
        let second = house.run(["up".as_ref(), path.as_os_str(), "--no-mount".as_ref()]);
        assert_eq!(second.code, 2, "{}", second.stderr);
        let pid = house.pid().to_string();
        assert!(
            second.stderr.contains("Another agent") && second.stderr.contains(&pid),
            "{}",
            second.stderr
        );
    }
    // The loser touched nothing: the first still answers and works.
    house.write("m.md", "needle\n");
    house.settle_and_check();
    assert_eq!(house.found("needle").len(), 2);
}

#[test]
fn of_many_that_start_at_once_one_runs_j03() {
    let mut house = House::open();
    house.stop();
    let mut children: Vec<_> = (0..6)
        .map(|_| {
            Command::new(env!("CARGO_BIN_EXE_remd"))
                .args(["up", "--no-mount"])
                .arg(&house.vault)
                .env("HOME", house.temp.path().join("home"))
                .env("XDG_RUNTIME_DIR", house.temp.path().join("run"))
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    wait_for("the losers to leave", || {
        children.iter_mut().filter_map(|it| it.try_wait().unwrap()).count() == 5
    });
    house.write("n.md", "needle\n");
    wait_for("the winner to answer", || house.is_running());
    house.settle_and_check();
    assert_eq!(house.commits(), 1);
    for child in &mut children {
        if child.try_wait().unwrap().is_none() {
            assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
            assert_eq!(child.wait().unwrap().code(), Some(0));
        }
    }
    assert!(fs::read_dir(house.temp.path().join("run/remd")).unwrap().next().is_none());
}

#[test]
fn systemd_is_told() {
    let mut house = House::open();
    house.stop();
    let socket = house.temp.path().join("notify");
    let notify = UnixDatagram::bind(&socket).unwrap();
    notify.set_read_timeout(Some(LIMIT)).unwrap();
    house.env("NOTIFY_SOCKET", socket.to_str().unwrap());
    house.spawn();
    let heard = || {
        let mut buffer = [0; 1024];
        let length = notify.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert!(heard().contains("READY=1"));
    // Ready means locked, watching and listening.
    assert!(house.is_running());
    assert!(
        Command::new("kill").args(["-HUP", &house.pid().to_string()]).status().unwrap().success()
    );
    wait_for("the reload", || house.log().contains("settings read again"));
    assert!(Command::new("kill").arg(house.pid().to_string()).status().unwrap().success());
    let mut last = heard();
    while !last.contains("STOPPING=1") {
        last = heard();
    }
    assert_eq!(house.wait_for_end(), Some(0));
}

#[test]
fn the_unit_is_sound() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let unit = fs::read_to_string(root.join("systemd/remd@.service")).unwrap();
    assert!(unit.contains("Type=notify") && unit.contains("Restart=on-failure"));
    assert!(!unit.contains("NoNewPrivileges=y"), "it stops fusermount3");
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        panic!("systemd-analyze is needed for this test: sudo apt install systemd");
    }
    let temp = tempfile::tempdir().unwrap();
    let exe = env!("CARGO_BIN_EXE_remd");
    let unit: String = unit.replace("%h/.cargo/bin/remd", exe);
    assert!(unit.contains(exe), "the unit runs what `cargo install` made");
    let path = temp.path().join("remd@tmp-vault.service");
    fs::write(&path, unit).unwrap();
    let output = Command::new("systemd-analyze")
        .args(["verify", "--user"])
        .arg(&path)
        .env("XDG_RUNTIME_DIR", temp.path())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn pause_resume_and_reload() {
    let house = House::open();
    house.write("a.md", "one\n");
    house.settle_and_check();
    assert_eq!(house.run(["pause"]).code, 0);
    house.write("a.md", "two\n");
    wait_for("the edit to be seen", || house.status()["pending"]["edits"].as_u64() > Some(0));
    assert_eq!(house.run(["status", "--wait", "settled", "--timeout", "2s"]).code, 4);
    assert_eq!(house.in_head("a.md"), b"one\n");
    assert_eq!(house.run(["resume"]).code, 0);
    wait_for("the commit", || house.in_head("a.md") == b"two\n");
    // Bad settings: the last good ones go on, and the file, line and remedy are named.
    house.write("remd.yaml", "commit:\n  quiet: soon\n");
    let said = house.run(["reload"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("remd.yaml:2"), "{}", said.stderr);
    assert!(house.run(["status"]).stdout.contains("remd.yaml:2"));
    house.write("remd.yaml", "commit:\n  quiet: 500ms\n");
    assert_eq!(house.run(["reload"]).code, 0);
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
    assert!(house.run(["config", "list"]).stdout.contains("commit.quiet = 500ms  # vault file"));
}

#[test]
fn the_past_is_read_with_its_cause() {
    let house = House::open();
    house.write("a.md", "one\n");
    house.settle();
    house.write("a.md", "one\ntwo\n");
    house.write("b/c.md", "other\n");
    house.settle_and_check();
    let log = house.run(["log"]);
    assert_eq!(log.stdout.lines().count(), 2, "{}", log.stdout);
    assert!(log.stdout.contains("[edit]") && log.stdout.contains("(+2 -0)"), "{}", log.stdout);
    assert_eq!(house.run(["log", "b/c.md"]).stdout.lines().count(), 1);
    assert_eq!(house.run(["log", "b"]).stdout.lines().count(), 1);
    assert_eq!(house.run(["log", "nothing.md"]).code, 1);
    let show = house.run(["show"]).stdout;
    assert!(show.contains("+two") && show.contains("Remd-Cause: edit"), "{show}");
    assert!(house.run(["diff", "HEAD~1"]).stdout.contains("+two"));
    assert!(house.run(["diff", "HEAD~1..HEAD", "b"]).stdout.contains("+other"));
    assert_eq!(house.run(["show", "nonsense"]).code, 2);
    let json: serde_json::Value =
        serde_json::from_str(&house.run(["log", "--json", "-n", "1"]).stdout).unwrap();
    assert_eq!(json["commits"][0]["cause"], "edit");
}

#[test]
fn without_an_agent_it_says_so() {
    let mut house = House::open();
    house.write("a.md", "needle\n");
    house.settle_and_check();
    house.stop();
    let said = house.run(["status"]);
    assert!(said.stdout.starts_with("stopped: "), "{}", said.stdout);
    assert_eq!(house.status()["agent"]["running"], false);
    for args in [&["pause"][..], &["accept"], &["status", "--wait", "settled"]] {
        let said = house.run(args);
        assert_eq!(said.code, 5, "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains("remd up"), "{}", said.stderr);
    }
    let nowhere = house.run(["--vault", "/nonexistent", "status"]);
    assert_eq!(nowhere.code, 2);
    assert!(nowhere.stderr.contains("hint:"), "{}", nowhere.stderr);
}

#[test]
fn a_read_only_vault_is_searched_all_the_same() {
    let mut house = House::open();
    house.write("a.md", "needle one\n");
    house.settle_and_check();
    house.stop();
    let search = || {
        let script = "mount --bind \"$V\" \"$V\" && mount -o remount,ro,bind \"$V\" && \
                      \"$REMD\" --vault \"$V\" search needle; echo \"exit $?\"";
        let output = Command::new("unshare")
            .args(["-Urm", "sh", "-c", script])
            .env("REMD", env!("CARGO_BIN_EXE_remd"))
            .env("V", &house.vault)
            .env("HOME", house.temp.path().join("home"))
            .env("XDG_RUNTIME_DIR", house.temp.path().join("run"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    // With the index that is there, which cannot be locked, and with none.
    for _ in 0..2 {
        let said = search();
        assert!(said.contains("a.md:1-1") && said.ends_with("exit 0\n"), "{said}");
        fs::remove_dir_all(house.at("mem_metadata")).unwrap();
        fs::create_dir(house.at("mem_metadata")).unwrap();
    }
}

#[test]
fn stopping_in_the_middle_of_work_is_clean() {
    let mut house = House::closed();
    for at in 0..1500 {
        house.write(format!("many/{at}.md"), format!("note {at} needle\n"));
    }
    house.spawn();
    wait_for("the agent to begin", || house.run(["status"]).stdout.contains("process"));
    assert_eq!(house.stop(), Some(0));
    let locks = fs::read_dir(house.at(".git"))
        .unwrap()
        .filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().ends_with(".lock"));
    assert_eq!(locks.count(), 0);
    assert!(!is_there(&house.mount), "the folder made for the mount goes with it");
    house.start();
    house.settle_and_check();
    assert_eq!(house.status()["index"]["notes"], 1500);
}

#[test]
fn status_answers_at_once() {
    let house = House::open();
    house.write("a.md", "needle\n");
    house.settle_and_check();
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let started = std::time::Instant::now();
        house.run(["status"]);
        best = best.min(started.elapsed());
    }
    // A liveness limit, not a measure: benches/ measure.
    assert!(best < Duration::from_secs(2), "{best:?}");
}

#[test]
fn an_empty_vault_has_no_hits_and_no_trouble() {
    let house = House::open();
    house.settle();
    let said = house.run(["search", "anything"]);
    assert_eq!(said.code, 1, "{}{}", said.stdout, said.stderr);
    assert_eq!(house.status()["verdict"], "ok");
}

//! The mount of an ordinary user, and who else looks at it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::house::{House, has_fuse, is_there, wait_for};

pub const USER: u32 = 65534;
const STRANGER: u32 = 65533;
const EACCES: i32 = 13;

/// These tests become somebody else, which only root may.
fn can_be_others(test: &str) -> bool {
    has_fuse(test) && is_root(test)
}

/// Only root becomes somebody else and mounts what it likes.
pub fn is_root(test: &str) -> bool {
    // SAFETY: geteuid(2) takes nothing and can't fail.
    if unsafe { libc::geteuid() } == 0 {
        return true;
    }
    let line = format!("left out, it needs root: {test}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    false
}

fn as_user(user: u32, line: &str, mount: &Path) -> Command {
    let user = user.to_string();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"])
        .args(["timeout", "-k", "1", "60", "bash", "-c", line])
        .env("M", mount)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A house whose agent and notes are an ordinary user's; the mount goes through `fusermount3`.
fn of_a_user() -> House {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.git(["config", "user.name", "Ada"]);
    house.git(["config", "user.email", "ada@example.org"]);
    house.write("n.md", "needle\n");
    // As everywhere but in some containers.
    let open = Command::new("chmod").args(["666", "/dev/fuse"]).status().unwrap();
    assert!(open.success(), "an ordinary user must be able to open /dev/fuse");
    house.give_to(USER);
    house.start();
    house.settle();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    house
}

fn mount_line(house: &House) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = format!(" {} ", house.mount.display());
    table.lines().find(|it| it.contains(&place)).map(str::to_owned)
}

/// Somebody who stands in the mount.
fn stands_in(house: &House) -> Child {
    let child = as_user(USER, "cd \"$M\" && exec sleep 600", &house.mount).spawn().unwrap();
    wait_for("somebody to stand in it", || {
        // `timeout` runs the shell as its child.
        let tasks = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()));
        tasks
            .unwrap_or_default()
            .split_whitespace()
            .any(|it| fs::read_link(format!("/proc/{it}/cwd")).is_ok_and(|it| it == house.mount))
    });
    child
}

#[test]
fn a_user_s_mount_is_theirs_alone() {
    if !can_be_others("a_user_s_mount_is_theirs_alone") {
        return;
    }
    let mut house = of_a_user();
    let line = mount_line(&house).unwrap();
    assert!(line.contains(" - fuse.remd remd ") && line.contains("user_id=65534"), "{line}");
    let page = as_user(USER, "cat \"$M/search/needle\"; stat -c %u \"$M\"", &house.mount);
    let page = said(&{ page }.output().unwrap());
    assert!(page.contains("n.md") && page.ends_with("65534\n"), "{page}");
    // Root and a stranger hear the same.
    let denied = |path: &Path| fs::metadata(path).map(|_| ()).unwrap_err().raw_os_error();
    assert_eq!(denied(&house.mount), Some(EACCES));
    assert_eq!(denied(&house.mount.join("README.md")), Some(EACCES));
    assert_eq!(fs::read_dir(&house.mount).map(|_| ()).unwrap_err().raw_os_error(), Some(EACCES));
    let stranger = as_user(STRANGER, "ls \"$M\"; cat \"$M/search/x\"", &house.mount);
    let stranger = said(&{ stranger }.output().unwrap());
    assert_eq!(stranger.matches("Permission denied").count(), 2, "{stranger}");
    // What root runs at night ends, warns at most, and has the notes.
    let root = house.vault.parent().unwrap().to_owned();
    let scratch = tempfile::tempdir().unwrap();
    for (line, wanted) in [
        (
            "updatedb -l no -U . --prunefs '' --prunepaths '' -o $T/db; plocate -d $T/db n.md",
            "/n.md",
        ),
        ("tar -cf $T/all.tar .; tar -tf $T/all.tar", "./memory/n.md"),
        ("tar --one-file-system -cf $T/one.tar .; tar -tf $T/one.tar", "./memory/n.md"),
        ("rsync -a ./ $T/copy/; rsync -ax ./ $T/copied/; ls $T/copied/memory", "n.md"),
        ("du -s . ; find . -name n.md", "./memory/n.md"),
    ] {
        let output = Command::new("timeout")
            .args(["-k", "1", "60", "bash", "-c", line])
            .env("T", scratch.path())
            .current_dir(&root)
            .output()
            .unwrap();
        assert_ne!(output.status.code(), Some(124), "{line} hung");
        assert!(said(&output).contains(wanted), "{line}: {}", said(&output));
    }
    assert_eq!(house.status()["mount"]["questions"], 1, "only its owner asked");
    // Stopped while somebody stands in it: detached by the helper.
    let mut inside = stands_in(&house);
    let start = Instant::now();
    assert_eq!(house.stop(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(mount_line(&house), None);
    assert!(!is_there(&house.mount));
    inside.kill().unwrap();
    inside.wait().unwrap();
    // Killed: cleared by the helper at the next start.
    house.start();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    house.kill();
    assert!(mount_line(&house).is_some());
    house.start();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    let page = as_user(USER, "cat \"$M/search/needle\"", &house.mount);
    assert!(said(&{ page }.output().unwrap()).contains("n.md"));
    assert_eq!(house.stop(), Some(0));
    assert!(!is_there(&house.mount));
}

/// Field case G01: another user's mount, living or dead, is not ours to touch, not even root's.
#[test]
fn another_user_s_mount_is_left_alone_g01() {
    if !can_be_others("another_user_s_mount_is_left_alone_g01") {
        return;
    }
    let mut theirs = of_a_user();
    let mut ours = House::closed();
    ours.write("m.md", "needle\n");
    let place = theirs.mount.to_str().unwrap().to_owned();
    ours.args(["--mount", &place]);
    ours.start();
    ours.settle();
    for alive in [true, false] {
        wait_for("the place to be named", || ours.status()["mount"]["state"] == "failed");
        let status = ours.run(["status"]).stdout;
        assert!(status.contains("Something else is mounted at"), "{status}");
        assert_eq!(ours.found("needle"), ["m.md"], "everything else works");
        if alive {
            let page = as_user(USER, "cat \"$M/search/needle\"", &theirs.mount);
            assert!(said(&{ page }.output().unwrap()).contains("n.md"));
            theirs.kill();
        }
        ours.stop();
        assert!(mount_line(&theirs).is_some(), "theirs stays");
        if alive {
            ours.start();
        }
    }
    // Its owner clears it, by starting again.
    theirs.start();
    wait_for("the mount", || theirs.status()["mount"]["state"] == "mounted");
    theirs.stop();
}

//! Where the mount stands: kills, stops while it is in use, places that are taken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::house::{House, has_fuse, is_there, wait_for};

const ENOTCONN: Option<i32> = Some(107);

/// A child that goes with the test, and mounts below a folder that a failed test left.
struct Sweep<'a> {
    children: Vec<Child>,
    root: &'a Path,
}

impl<'a> Sweep<'a> {
    fn new(root: &'a Path) -> Self {
        Self { children: Vec::new(), root }
    }

    /// A process that stands in a folder, as a shell does.
    fn stand_in(&mut self, folder: &Path) {
        let child = Command::new("sleep").arg("600").current_dir(folder).spawn().unwrap();
        self.children.push(child);
    }

    fn send_home(&mut self) {
        for mut child in self.children.drain(..) {
            // Fails where it is gone already.
            let _killed = child.kill();
            let _waited = child.wait();
        }
    }
}

impl Drop for Sweep<'_> {
    fn drop(&mut self) {
        self.send_home();
        for place in mounts_below(self.root).iter().rev() {
            let _unmounted = Command::new("umount").arg("-l").arg(place).output();
        }
    }
}

fn mounts_below(root: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let paths = table.lines().filter_map(|it| it.split(' ').nth(4)).map(PathBuf::from);
    paths.filter(|it| it.starts_with(root)).collect()
}

fn with_note() -> House {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.write("n.md", "needle\n");
    house.mount = house.mount.with_file_name("answers");
    let place = house.mount.to_str().unwrap().to_owned();
    house.args(["--mount", &place]);
    house
}

fn root_of(house: &House) -> PathBuf {
    house.vault.parent().unwrap().to_owned()
}

fn wait_mounted(house: &House) {
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
}

/// The kernel answers for a while what it was told of a folder, whoever is gone: that is no sign of
/// life. (G01)
#[test]
fn a_dead_mount_that_somebody_has_just_looked_at_is_cleared_g01() {
    if !has_fuse("a dead mount that somebody looked at") {
        return;
    }
    let mut house = with_note();
    let place = house.mount.clone();
    let root = root_of(&house);
    let _sweep = Sweep::new(&root);
    for round in 0..4 {
        house.start();
        wait_mounted(&house);
        let look = ["stat", "find"][round % 2];
        let said = Command::new(look).arg(&place).output().unwrap();
        assert!(said.status.success(), "{look}: {}", String::from_utf8_lossy(&said.stderr));
        house.kill();
        if round >= 2 {
            let said = house.run(["unmount"]);
            assert_eq!(said.code, 0, "{look}: {}{}", said.stdout, said.stderr);
            assert!(mounts_below(&root).is_empty(), "{look}");
        }
    }
    house.start();
    wait_mounted(&house);
    house.settle();
    assert!(house.cat("search/needle").contains("n.md"));
    assert_eq!(mounts_below(&root).len(), 1);
    house.stop();
}

fn records(house: &House) -> usize {
    let folder = root_of(house).join("home/.local/state/remd/mounts");
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Field case G01: ten kills, with somebody in it and with a second path to it.
#[test]
fn ten_kills_and_the_mount_comes_back_by_itself_g01() {
    if !has_fuse("ten_kills_and_the_mount_comes_back_by_itself_g01") {
        return;
    }
    let mut house = with_note();
    let root = root_of(&house);
    let mut sweep = Sweep::new(&root);
    let bound = root.join("bound");
    fs::create_dir(&bound).unwrap();
    house.start();
    house.settle();
    let run = |program: &str, args: &[&Path]| {
        assert!(Command::new(program).args(args).status().unwrap().success(), "{program} {args:?}");
    };
    for round in 0..10 {
        wait_mounted(&house);
        assert!(house.cat("search/needle").contains("n.md"), "{round}");
        match round % 3 {
            0 => sweep.stand_in(&house.mount),
            1 => run("mount", &["--bind".as_ref(), &house.mount, &bound]),
            _ => {}
        }
        house.kill();
        let dead = fs::metadata(&house.mount).unwrap_err();
        assert_eq!(dead.raw_os_error(), ENOTCONN, "{round}: {dead}");
        let told = &house.status()["mount"];
        assert!(
            told["state"] == "failed" && told["path"] == house.mount.to_str().unwrap(),
            "{told}"
        );
        house.start();
        wait_mounted(&house);
        let dead_elsewhere = fs::metadata(&bound).map_err(|it| it.raw_os_error());
        assert_eq!(dead_elsewhere.is_err(), round % 3 == 1, "a person's bind mount is left alone");
        if round % 3 == 1 {
            run("umount", &["-l".as_ref(), &bound]);
        }
        sweep.send_home();
    }
    assert_eq!(mounts_below(&root), [house.mount.clone()], "one mount, not ten");
    assert_eq!(house.status()["verdict"], "ok");
    assert_eq!(house.stop(), Some(0));
    assert_eq!(mounts_below(&root), [] as [PathBuf; 0]);
    assert!(!is_there(&house.mount), "the folder that the first run made goes with the last");
    assert_eq!(records(&house), 0);
}

#[test]
fn what_a_killed_run_left_is_put_away_wherever_the_next_one_mounts() {
    if !has_fuse("what_a_killed_run_left_is_put_away_wherever_the_next_one_mounts") {
        return;
    }
    let mut house = with_note();
    let root = root_of(&house);
    let _sweep = Sweep::new(&root);
    let first = house.mount.clone();
    house.start();
    wait_mounted(&house);
    house.kill();
    assert!(is_there(&first) || fs::metadata(&first).is_err());
    // Elsewhere, in a folder of the person's.
    let second = root.join("mine");
    fs::create_dir(&second).unwrap();
    house.mount = second.clone();
    house.args(["--mount", second.to_str().unwrap()]);
    house.start();
    wait_mounted(&house);
    assert!(!is_there(&first));
    assert_eq!(mounts_below(&root), std::slice::from_ref(&second));
    // Nowhere.
    house.kill();
    house.args(["--no-mount"]);
    house.start();
    assert_eq!(mounts_below(&root), [] as [PathBuf; 0]);
    assert!(second.is_dir(), "it was there before");
    house.stop();
    // A folder that a person made where ours was is theirs.
    house.args(["--mount", first.to_str().unwrap()]);
    house.start();
    wait_mounted(&house);
    house.kill();
    assert!(Command::new("umount").arg("-l").arg(&first).status().unwrap().success());
    fs::rename(&first, root.join("moved")).unwrap();
    fs::create_dir(&first).unwrap();
    house.start();
    wait_mounted(&house);
    house.stop();
    assert!(first.is_dir(), "theirs stays, empty as it is");
}

/// The unit's last line clears the mount in use, wherever that is, also when the vault is gone.
#[test]
fn the_service_clears_the_mount_in_use() {
    if !has_fuse("the_service_clears_the_mount_in_use") {
        return;
    }
    let unit =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/remd@.service"))
            .unwrap();
    let line = unit.lines().find_map(|it| it.strip_prefix("ExecStopPost=-:")).unwrap();
    let mut house = with_note();
    let root = root_of(&house);
    let _sweep = Sweep::new(&root);
    let post = |house: &House| {
        let line = line
            .replace("%h/.cargo/bin/remd", env!("CARGO_BIN_EXE_remd"))
            .replace("%f", house.vault.to_str().unwrap());
        let words: Vec<_> = line.split(' ').map(|it| it.trim_matches('"')).collect();
        Command::new(words[0])
            .args(&words[1..])
            .env("HOME", root.join("home"))
            .env("XDG_RUNTIME_DIR", root.join("run"))
            .output()
            .unwrap()
    };
    house.start();
    wait_mounted(&house);
    // Beside a running agent it does nothing, and says why.
    let refused = post(&house);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("its mount is its own"),
        "{refused:?}"
    );
    assert!(house.cat("README.md").contains("search/"));
    for vault_is_there in [true, false] {
        house.kill();
        if !vault_is_there {
            fs::rename(&house.vault, root.join("unplugged")).unwrap();
        }
        let done = post(&house);
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        assert!(!is_there(&house.mount));
        assert_eq!((mounts_below(&root).len(), records(&house)), (0, 0));
        if vault_is_there {
            house.start();
            wait_mounted(&house);
        }
    }
    // After a clean end there is nothing to do.
    let said = post(&house);
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
    let said = house.run(["unmount"]);
    assert_eq!((said.code, said.stderr.trim()), (0, "Nothing was left behind."));
}

/// The place is taken by something of a person's: named, left as it is, and mounted again once it
/// is free.
#[test]
fn a_place_that_is_taken_is_named_and_waited_for() {
    if !has_fuse("a_place_that_is_taken_is_named_and_waited_for") {
        return;
    }
    let mut house = with_note();
    let root = root_of(&house);
    let _sweep = Sweep::new(&root);
    house.start();
    wait_mounted(&house);
    let place = house.mount.clone();
    // It may be mounted again at any moment: until the place is taken.
    let take = |attempt: &dyn Fn() -> std::io::Result<()>| {
        wait_for("the place to be taken", || {
            let _unmounted = Command::new("umount").arg("-q").arg(&place).output();
            attempt().is_ok()
        });
    };
    let named = |what: &str| {
        wait_for(what, || house.run(["status"]).stdout.contains(what));
        let status = house.status();
        assert_eq!(status["mount"]["state"], "failed");
        assert_eq!(status["verdict"], "degraded");
        let said = house.run(["status"]).stdout;
        assert!(said.contains("hint: Move what is there away"), "{said}");
    };
    // A file in place of the folder.
    take(&|| {
        let _removed = fs::remove_dir(&place);
        fs::write(&place, "mine")
    });
    named("is not a folder");
    assert_eq!(fs::read(&place).unwrap(), b"mine");
    fs::remove_file(&place).unwrap();
    wait_mounted(&house);
    // A folder with something in it.
    take(&|| {
        fs::create_dir_all(&place)?;
        fs::write(place.join("mine"), "mine")
    });
    named("is not empty");
    assert_eq!(fs::read(place.join("mine")).unwrap(), b"mine");
    fs::remove_file(place.join("mine")).unwrap();
    wait_mounted(&house);
    assert!(house.cat("search/needle").contains("n.md"));
    assert_eq!(house.status()["verdict"], "ok");
    assert_eq!(house.stop(), Some(0));
    assert_eq!(mounts_below(&root).len(), 0);
}

/// Somebody stands in it, holds a page open and reads one: stopping is prompt all the same, and
/// what they hold stays right or ends with a clear error.
#[test]
fn stopping_while_it_is_in_use_is_prompt() {
    if !has_fuse("stopping_while_it_is_in_use_is_prompt") {
        return;
    }
    let mut house = with_note();
    let root = root_of(&house);
    let mut sweep = Sweep::new(&root);
    for at in 0..150 {
        house.write(format!("big/{at}.md"), format!("needle {at} {}\n", "word ".repeat(380)));
    }
    house.start();
    house.settle();
    wait_mounted(&house);
    let whole = house.cat("search/limit=200/needle");
    assert!(whole.len() > 200_000, "{}", whole.len());
    sweep.stand_in(&house.mount);
    let open = fs::File::open(house.mount.join("search/limit=200/needle")).unwrap();
    // In a process of its own, slowly: half a page, then the rest after the stop.
    let mut reader = Command::new("bash")
        .args(["-c", "exec 3< search/limit=200/needle; head -c 1000 <&3; echo; read -r; cat <&3"])
        .current_dir(&house.mount)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = std::io::BufReader::new(reader.stdout.take().unwrap());
    let mut first = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut first).unwrap();
    // And one in a loop, which meets the stop wherever it is.
    let looping = Command::new("bash")
        .args(["-c", "while cat search/limit=200/needle | tail -n1 | grep '^-- '; do :; done"])
        .current_dir(&house.mount)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sweep.children.push(looping);
    let start = Instant::now();
    assert_eq!(house.stop(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(mounts_below(&root).len(), 0);
    assert!(!is_there(&house.mount), "the folder goes, though somebody stood in the mount on it");
    // What was read is of the page; what could not be read any more is an error, not other bytes.
    std::io::Write::write_all(&mut reader.stdin.take().unwrap(), b"go\n").unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stdout, &mut rest).unwrap();
    let said = reader.wait_with_output().unwrap();
    let read = format!("{first}{}", String::from_utf8_lossy(&rest)).into_bytes();
    let (page, clean) = (whole.as_bytes(), String::from_utf8_lossy(&said.stderr).into_owned());
    assert!(page.starts_with(&read[..900]), "{first}");
    assert!(
        said.status.success() || clean.contains("connect") || clean.contains("abort"),
        "{clean}"
    );
    let mut held = Vec::new();
    match std::io::Read::read_to_end(&mut &open, &mut held) {
        Ok(_) => assert_eq!(held, page),
        Err(err) => assert!(matches!(err.raw_os_error(), Some(103 | 107)), "{err}"),
    }
    assert!(page.starts_with(&held));
    // The next run is not disturbed by who still stands in the old one.
    house.start();
    wait_mounted(&house);
    assert!(house.cat("search/needle").contains("n.md"));
}

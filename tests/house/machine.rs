//! A hostile machine: full and read-only disks, derived files that somebody touches, damaged Git
//! data, clocks that jump, a watcher that dies. Each time: a clear state, no loop, no flood of
//! logs, nothing lost, and back again without a restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::house::{House, wait_for};

/// A file system of its own in a folder, unmounted when dropped.
pub struct Disk(PathBuf);

impl Disk {
    pub fn mount(at: &Path, options: &str) -> Self {
        fs::create_dir_all(at).unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(at)
            .status()
            .unwrap();
        assert!(done.success(), "these tests mount file systems: run them as root");
        Self(at.to_owned())
    }

    fn remount(&self, how: &str) -> bool {
        let options = format!("remount,{how}");
        let done = Command::new("mount").args(["-o", &options]).arg(&self.0).output().unwrap();
        done.status.success()
    }

    /// Writes until nothing more goes in.
    pub fn fill(&self, file: &Path) {
        let mut file = fs::File::create(file).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        while std::io::Write::write_all(&mut file, &[0]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A test that failed must not leave it behind; the first failure counts.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

pub fn problem(house: &House, id: &str) -> Option<serde_json::Value> {
    let status = house.status();
    status["problems"].as_array().unwrap().iter().find(|it| it["id"] == id).cloned()
}

/// The problem with its hint, once it is there.
pub fn named(house: &House, id: &str) -> String {
    let mut said = String::new();
    wait_for(id, || {
        let found = problem(house, id);
        said = found.map_or(String::new(), |it| format!("{} {}", it["what"], it["remedy"]));
        !said.is_empty()
    });
    said
}

/// Lines of the log that are no news of commits.
fn complaints(house: &House) -> usize {
    let log = house.log();
    log.lines().filter(|it| it.contains("ERROR") || it.contains("WARN")).count()
}

/// An agent whose disk is full: `a.md` said `alfa one` before, and `alfa two` is on the disk, but
/// Git's data does not fit until `.git/filler` goes.
pub fn on_a_full_disk() -> (House, Disk) {
    let mut house = House::closed();
    let disk = Disk::mount(&house.vault, "size=8m");
    house.git(["init", "-qb", "main"]);
    house.write("a.md", "alfa one\n");
    house.start();
    house.settle_and_check();
    house.run(["pause"]);
    house.write("a.md", "alfa two\n");
    disk.fill(&house.at(".git/filler"));
    house.run(["resume"]);
    (house, disk)
}

#[test]
fn a_full_disk_is_named_and_the_edit_comes_when_there_is_room() {
    let (mut house, _disk) = on_a_full_disk();
    let said = named(&house, "commit");
    assert!(said.contains("No space left") && said.contains("Free some space"), "{said}");
    let settled = house.run(["status", "--wait", "settled", "--timeout", "3s"]);
    assert_eq!(settled.code, 3, "{}{}", settled.stdout, settled.stderr);
    assert_eq!(house.in_head("a.md"), b"alfa one\n");
    assert_eq!(house.found("alfa"), ["a.md"], "search answers all the while");
    assert!(house.status()["pending"]["edits"].as_u64() > Some(0));
    assert!(complaints(&house) <= 12, "{}", house.log());
    fs::remove_file(house.at(".git/filler")).unwrap();
    wait_for("the commit, by itself", || house.in_head("a.md") == b"alfa two\n");
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
    let left: Vec<_> = fs::read_dir(house.at(".git/objects"))
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .filter(|it| it.to_string_lossy().starts_with(".tmp"))
        .collect();
    assert!(left.is_empty(), "half files stay behind: {left:?}");
    house.stop();
}

#[test]
fn a_disk_that_is_made_read_only_is_waited_for_and_a_start_on_it_searches() {
    let mut house = House::closed();
    let disk = Disk::mount(&house.vault, "size=32m");
    house.git(["init", "-qb", "main"]);
    house.write("a.md", "alfa one\n");
    house.start();
    house.settle_and_check();
    house.run(["pause"]);
    house.write("a.md", "alfa two\n");
    // An agent at rest has no file open for writing.
    wait_for("the disk to be free for it", || disk.remount("ro"));
    house.run(["resume"]);
    let said = named(&house, "commit");
    assert!(said.contains("Read-only") && said.contains("remount,rw"), "{said}");
    assert_eq!(house.found("alfa"), ["a.md"]);
    assert!(disk.remount("rw"));
    wait_for("the commit, by itself", || house.in_head("a.md") == b"alfa two\n");
    house.settle_and_check();
    assert_eq!(house.stop(), Some(0));

    assert!(disk.remount("ro"));
    // The index that is there is read where no lock can be made: by `status`, and by an agent.
    assert_eq!(house.status()["index"]["notes"], 1);
    assert_eq!(house.found("alfa"), ["a.md"]);
    house.start();
    wait_for("the index", || house.found("alfa") == ["a.md"]);
    assert!(disk.remount("rw"));
    house.write("b.md", "alfa three\n");
    house.settle_and_check();
    assert_eq!(house.found("alfa").len(), 2);
    house.stop();
}

#[test]
fn a_full_disk_under_the_index_loses_no_hit_and_is_over_by_itself() {
    let mut house = House::open();
    let faults = house.temp.path().join("faults");
    house.stop();
    house.env("REMD_FAULTS", faults.to_str().unwrap()).start();
    house.write("a.md", "alfa\n");
    house.settle_and_check();
    // No space, then no quota, in the middle of a store's batch.
    for errno in [libc_enospc(), libc_edquot()] {
        fs::write(&faults, format!("store.append={errno}\n")).unwrap();
        house.write(format!("{errno}.md"), "alfa bravo\n");
        house.settle();
        let said = named(&house, "index");
        assert!(said.contains("Free some space"), "{said}");
        assert!(house.found("alfa").contains(&format!("{errno}.md")), "searched from memory");
        fs::remove_file(&faults).unwrap();
        wait_for("the trouble to be over", || problem(&house, "index").is_none());
    }
    house.kill();
    house.start();
    house.settle_and_check();
    assert_eq!(house.found("alfa").len(), 3);
}

fn libc_enospc() -> i32 {
    28
}

fn libc_edquot() -> i32 {
    122
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

#[test]
fn index_files_touched_while_the_agent_runs_never_give_a_lie() {
    let house = House::open();
    house.write("a.md", "alfa one [[b]]\n");
    house.write("b.md", "alfa two\n");
    house.settle_and_check();
    let metadata = house.at("mem_metadata");
    let count = files_below(&metadata).len();
    assert!(count > 8, "{count} files");
    for round in 0..count + 4 {
        let files: Vec<_> = files_below(&metadata)
            .into_iter()
            .filter(|it| it.extension().is_none_or(|it| it != "lock"))
            .collect();
        let file = &files[round % files.len()];
        let length = usize::try_from(fs::metadata(file).unwrap().len()).unwrap();
        match round % 4 {
            0 => fs::write(file, vec![0; length]).unwrap(),
            1 => fs::remove_file(file).unwrap(),
            2 => fs::File::options().write(true).open(file).unwrap().set_len(0).unwrap(),
            _ => {
                fs::remove_file(file).unwrap();
                fs::create_dir(file).unwrap();
            }
        }
        // At once: everything, or a page that says that it is not.
        let said = house.run(["search", "alfa"]);
        let whole = said.stdout.contains("a.md:") && said.stdout.contains("b.md:");
        assert!(whole || said.code == 3, "{} {round}: {}", file.display(), said.stdout);
        // An edit later all is well.
        house.write("c.md", format!("charlie {round}\n"));
        house.settle();
        wait_for("the index to be whole again", || {
            house.found("alfa").len() == 2 && house.found("charlie") == ["c.md"]
        });
    }
    fs::remove_dir_all(&metadata).unwrap();
    assert_eq!(house.found("alfa").len(), 2, "what is mapped is searched on");
    wait_for("the folder to come back", || metadata.join("keyword_index/meta.json").is_file());
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok", "{}", house.run(["status"]).stdout);
}

#[test]
fn damaged_git_data_is_named_tried_rarely_and_mended_without_a_restart() {
    let mut house = House::open();
    house.write("a.md", "alfa one\n");
    house.settle_and_check();
    house.stop();
    let main = house.at(".git/refs/heads/main");
    let good = fs::read(&main).unwrap();
    // As a power cut leaves it; found at the start, where nothing was ever well.
    fs::write(&main, "").unwrap();
    house.write("b.md", "alfa two\n");
    house.start();
    let said = named(&house, "commit");
    assert!(said.contains("refs/heads/main") && said.contains("git fsck"), "{said}");
    wait_for("a few tries", || problem(&house, "commit").unwrap()["count"].as_u64() >= Some(3));
    // 0.5 s, 1 s, 2 s …: whoever loops has thousands.
    assert!(problem(&house, "commit").unwrap()["count"].as_u64() <= Some(8));
    assert!(complaints(&house) <= 12, "{}", house.log());
    fs::write(&main, good).unwrap();
    wait_for("the commit, by itself", || house.commits() == 2);
    house.settle_and_check();
    assert_eq!(house.found("alfa").len(), 2);
    assert_eq!(house.status()["verdict"], "ok");
}

#[test]
fn a_note_whose_object_is_damaged_keeps_no_neighbour_out() {
    let mut house = House::open();
    for name in ["a", "b", "c"] {
        house.write(format!("{name}.md"), format!("alfa {name}\n"));
    }
    house.settle_and_check();
    house.stop();
    let id = house.git(["rev-parse", "HEAD:b.md"]);
    let object = house.at(".git/objects").join(&id[..2]).join(&id[2..]);
    let good = fs::read(&object).unwrap();
    fs::remove_file(&object).unwrap();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    house.start();
    house.settle();
    let said = named(&house, "git-objects");
    assert!(said.contains("b.md") && said.contains("git fsck"), "{said}");
    let mut found = house.found("alfa");
    found.sort();
    assert_eq!(found, ["a.md", "c.md"]);
    fs::write(&object, good).unwrap();
    wait_for("the note to come in", || house.found("alfa").len() == 3);
    wait_for("the end of it", || problem(&house, "git-objects").is_none());
    house.settle_and_check();
}

#[test]
fn a_vault_that_is_moved_away_is_never_made_again_in_its_place() {
    let house = House::open();
    house.write("a.md", "alfa one\n");
    house.settle_and_check();
    let away = house.temp.path().join("away");
    fs::rename(&house.vault, &away).unwrap();
    wait_for("the agent to see it", || house.log().contains("is gone or is another folder now"));
    fs::write(away.join("a.md"), "alfa two\n").unwrap();
    // The index is looked at every few seconds too: it makes nothing there either.
    wait_for("a few tries", || house.log().matches("is gone or is another").count() >= 3);
    assert!(!house.vault.exists(), "nothing is made where the vault was");
    fs::rename(&away, &house.vault).unwrap();
    wait_for("the commit, by itself", || house.in_head("a.md") == b"alfa two\n");
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
}

#[test]
fn file_handles_that_run_out_and_come_back() {
    let mut house = House::open();
    house.write("a.md", "alfa one\n");
    house.settle_and_check();
    let limit = |count: &str| {
        let pid = house.pid().to_string();
        let set = format!("--nofile={count}:");
        assert!(Command::new("prlimit").args(["--pid", &pid, &set]).status().unwrap().success());
    };
    limit("8");
    house.write("a.md", "alfa two\n");
    wait_for("the complaint", || house.log().contains("Too many open files"));
    limit("4096");
    wait_for("the commit, by itself", || house.in_head("a.md") == b"alfa two\n");
    house.settle_and_check();
    assert_eq!(house.found("alfa"), ["a.md"]);
    assert_eq!(house.stop(), Some(0));
}

/// D12: a thread of the watcher that dies is red within seconds, replaced, and nothing is missed.
#[test]
fn a_watcher_that_dies_is_shown_and_replaced_d12() {
    let mut house = House::open();
    let faults = house.temp.path().join("faults");
    house.stop();
    house.env("REMD_FAULTS", faults.to_str().unwrap()).start();
    house.write("a.md", "alfa one\n");
    house.settle_and_check();
    fs::write(&faults, "watcher.event=panic\n").unwrap();
    house.write("a.md", "alfa two\n");
    let start = std::time::Instant::now();
    let said = named(&house, "watch");
    assert!(said.contains("thread"), "{said}");
    assert!(start.elapsed().as_secs() < 20, "red within seconds: {:?}", start.elapsed());
    assert_eq!(house.status()["verdict"], "degraded");
    fs::remove_file(&faults).unwrap();
    wait_for("the commit, by itself", || house.in_head("a.md") == b"alfa two\n");
    house.write("a.md", "alfa three\n");
    wait_for("the next one", || house.in_head("a.md") == b"alfa three\n");
    house.settle_and_check();
}

#[test]
fn clocks_that_jump_and_a_machine_that_sleeps() {
    let mut house = House::open();
    let clock = house.temp.path().join("clock");
    house.stop();
    house.env("REMD_CLOCK", clock.to_str().unwrap()).start();
    let now = || house.git(["log", "-1", "--format=%ct"]).parse::<i64>().unwrap();
    house.write("n.md", "alfa 0\n");
    house.settle_and_check();
    let mut last = now();
    // An hour and three days ahead, back by two hours, then a clock that was never set.
    for (round, jump) in [3_600, 3 * 86_400, -7_200, -60 * 365 * 86_400, 0].iter().enumerate() {
        fs::write(&clock, format!("{jump} 0\n")).unwrap();
        // By the quiet window alone: no deadline is counted in wall time.
        house.write("n.md", format!("alfa jump {round}\n"));
        wait_for("the commit", || {
            house.in_head("n.md") == format!("alfa jump {round}\n").into_bytes()
        });
        house.settle();
        let date = now();
        assert!(date >= last, "{jump}: {date} lies before its parent's {last}");
        last = date;
        let status = house.run(["status"]);
        assert_eq!(status.code, 0, "{}", status.stdout);
        let signs = status.stdout.as_bytes().windows(3);
        let mut negative = signs.filter(|it| it.starts_with(b" -") && it[2].is_ascii_digit());
        assert!(negative.next().is_none(), "no negative age: {}", status.stdout);
    }
    let subjects = house.run(["log", "--all"]);
    assert_eq!(subjects.stdout.lines().count(), 6, "{}", subjects.stdout);
    house.settle_and_check();
}

#[test]
fn a_service_that_ends_with_the_session_says_so_j01() {
    let mut house = House::open();
    assert!(problem(&house, "linger").is_none(), "not a service");
    house.stop();
    let nobody = "no-user-of-this-name";
    house.env("MANAGERPID", "1").env("INVOCATION_ID", "1").env("USER", nobody).start();
    let said = named(&house, "linger");
    assert!(said.contains("loginctl enable-linger no-user-of-this-name"), "{said}");
    assert_eq!(house.status()["verdict"], "ok", "a note, no failure");
}

//! Readers that are stopped, frozen or killed, an agent that is stopped, and crowds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::house::{House, has_fuse, wait_for};

/// What a request gets at most, by `semantics.md`; the rest is for a busy machine.
pub const GONE_BY: Duration = Duration::from_secs(30);

fn with_notes() -> House {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    for at in 0..20 {
        house.write(format!("n{at}.md"), format!("# Note {at}\n\nneedle {at}\n"));
    }
    // Searches from the mount wait while this file is there.
    let hold = hold(&house);
    house.env("REMD_HOLD", &format!("desk.search:{}", hold.display()));
    house.start();
    house.settle_and_check();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    house
}

fn hold(house: &House) -> PathBuf {
    house.vault.parent().unwrap().join("hold")
}

pub fn reader(house: &House, page: &str) -> Child {
    Command::new("cat")
        .arg(house.mount.join(page))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// How many hits the command line has.
fn hits(house: &House, query: &str) -> usize {
    let said = house.run(["search", "--json", "--", query]);
    let page: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    page["results"].as_array().unwrap().len()
}

pub fn signal(pid: u32, signal: i32) {
    // SAFETY: kill(2) takes two integers.
    assert_eq!(unsafe { libc::kill(i32::try_from(pid).unwrap(), signal) }, 0);
}

pub fn ends(children: &mut [Child], limit: Duration, what: &str) {
    let end = Instant::now() + limit;
    for child in children {
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "{what}: {} is still there", child.id());
            std::thread::yield_now();
        }
    }
}

/// A number from `/proc/PID/status`.
fn of_the_agent(house: &House, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", house.pid())).unwrap();
    let line = status.lines().find(|it| it.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A cgroup of our own that can be frozen, where there is one.
pub struct Freezer {
    folder: PathBuf,
    v2: bool,
}

impl Freezer {
    pub fn make() -> Option<Self> {
        let name = format!("remd-test-{}", std::process::id());
        let places = [
            ("/sys/fs/cgroup", true),
            ("/sys/fs/cgroup/unified", true),
            ("/sys/fs/cgroup/freezer", false),
        ];
        for (root, v2) in places {
            let folder = Path::new(root).join(&name);
            let file = if v2 { "cgroup.freeze" } else { "freezer.state" };
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            if folder.join(file).exists() {
                return Some(Self { folder, v2 });
            }
            let _removed = fs::remove_dir(&folder);
        }
        let line = "no cgroup can be made here: freezing one was not tried\n";
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        None
    }

    pub fn add(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    pub fn set(&self, frozen: bool) {
        let (file, value) = match (self.v2, frozen) {
            (true, true) => ("cgroup.freeze", "1"),
            (true, false) => ("cgroup.freeze", "0"),
            (false, true) => ("freezer.state", "FROZEN"),
            (false, false) => ("freezer.state", "THAWED"),
        };
        fs::write(self.folder.join(file), value).unwrap();
    }

    pub fn is_frozen(&self) -> bool {
        let (file, line) =
            if self.v2 { ("cgroup.events", "frozen 1") } else { ("freezer.state", "FROZEN") };
        fs::read_to_string(self.folder.join(file)).unwrap().lines().any(|it| it == line)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.set(false);
        let end = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < end {
            std::thread::yield_now();
        }
    }
}

/// Field cases G06 and G07, without a remote model: every search hangs.
#[test]
fn readers_that_hang_are_stopped_frozen_and_killed_g06() {
    if !has_fuse("readers_that_hang_are_stopped_frozen_and_killed_g06") {
        return;
    }
    let mut house = with_notes();
    house.cat("search/known");
    let threads = of_the_agent(&house, "Threads");
    fs::write(hold(&house), "").unwrap();
    let page = |at: usize| format!("search/slow {at}");
    let mut waiting: Vec<_> = (0..5).map(|at| reader(&house, &page(at))).collect();
    let mut stopped: Vec<_> = (5..10).map(|at| reader(&house, &page(at))).collect();
    let mut frozen: Vec<_> = (10..15).map(|at| reader(&house, &page(at))).collect();
    let mut killed: Vec<_> = (15..20).map(|at| reader(&house, &page(at))).collect();
    wait_for("the searches to hang", || {
        house.status()["mount"]["questions"].as_u64().unwrap() >= 9
    });
    let start = Instant::now();
    stopped.iter().for_each(|it| signal(it.id(), libc::SIGSTOP));
    let freezer = Freezer::make();
    if let Some(freezer) = &freezer {
        frozen.iter().for_each(|it| freezer.add(it.id()));
        freezer.set(true);
    }
    killed.iter().for_each(|it| signal(it.id(), libc::SIGKILL));
    // What asks nothing new waits for none of them.
    for _ in 0..5 {
        assert_eq!(fs::read_dir(&house.mount).unwrap().count(), 16);
        fs::metadata(house.mount.join("search/known")).unwrap();
        assert!(house.cat("search/known").contains("-- "));
        assert!(house.cat("status.md").contains("mounted"));
        assert_eq!(fs::read_dir(house.mount.join("note/n1.md")).unwrap().count(), 4);
    }
    let others = start.elapsed();
    ends(&mut killed, GONE_BY, "killed");
    // They hang no longer than a request may, and are told.
    ends(&mut waiting, GONE_BY, "waiting");
    assert!(waiting.iter_mut().all(|it| !it.wait().unwrap().success()), "there was no answer");
    assert!(others < start.elapsed(), "the others came first: {others:?}");
    assert!(house.status()["mount"]["late"].as_u64().unwrap() >= 5);
    if let Some(freezer) = &freezer {
        wait_for("the cgroup to freeze", || freezer.is_frozen());
        assert!(start.elapsed() < Duration::from_secs(20) + GONE_BY);
    }
    assert!(of_the_agent(&house, "Threads") <= threads + 10, "8 for questions, 2 for the rest");
    // The agent ends in time though every search still hangs and readers sleep in the mount.
    let start = Instant::now();
    assert_eq!(house.stop(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    // Who wakes up finds an error, and ends.
    drop(freezer);
    stopped.iter().for_each(|it| signal(it.id(), libc::SIGCONT));
    ends(&mut frozen, GONE_BY, "thawed");
    ends(&mut stopped, GONE_BY, "continued");
    fs::remove_file(hold(&house)).unwrap();
    house.start();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
    assert!(house.cat("search/slow 1").contains("-- "));
}

/// The agent itself is stopped: readers can be killed, and go on when it does.
#[test]
fn a_stopped_agent_lets_its_readers_be_killed() {
    if !has_fuse("a_stopped_agent_lets_its_readers_be_killed") {
        return;
    }
    let mut house = with_notes();
    // Known to the kernel: whoever is first to look up a name holds up all who look up the same.
    house.cat("search/known");
    // Every thread of it: the last one to stop may still take a request.
    let is_stopped = |pid: u32| {
        fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(|it| {
            let stat = fs::read_to_string(it.unwrap().path().join("stat")).unwrap_or_default();
            stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('T')
        })
    };
    signal(house.pid(), libc::SIGSTOP);
    wait_for("the agent to be stopped", || is_stopped(house.pid()));
    let mut killed: Vec<_> = (0..5).map(|at| reader(&house, &format!("search/{at}"))).collect();
    let mut patient = reader(&house, "search/patient");
    killed.iter().for_each(|it| signal(it.id(), libc::SIGKILL));
    ends(&mut killed, GONE_BY, "killed under a stopped agent");
    signal(house.pid(), libc::SIGCONT);
    ends(std::slice::from_mut(&mut patient), GONE_BY, "patient");
    assert!(patient.wait().unwrap().success(), "it went on and had its answer");
    assert!(house.cat("search/needle").contains("needle"));
    // Stopped, and then killed: whoever waits is told.
    signal(house.pid(), libc::SIGSTOP);
    wait_for("the agent to be stopped", || is_stopped(house.pid()));
    let mut left = [reader(&house, "search/left")];
    house.kill();
    ends(&mut left, GONE_BY, "left behind");
    assert!(!left[0].wait().unwrap().success());
    house.start();
    wait_for("the mount", || house.status()["mount"]["state"] == "mounted");
}

/// How long the crowd of G07 stays: a few edits, or `REMD_TEST_MINUTES` of them.
fn minutes() -> Option<Duration> {
    let minutes: u64 = std::env::var("REMD_TEST_MINUTES").ok()?.parse().unwrap();
    Some(Duration::from_secs(minutes * 60))
}

/// Field case G07: fifty walkers and readers while notes change.
#[test]
fn fifty_at_once_while_notes_change_g07() {
    if !has_fuse("fifty_at_once_while_notes_change_g07") {
        return;
    }
    let house = with_notes();
    let stop = house.vault.parent().unwrap().join("stop");
    let line = "cd \"$M\" || exit 1; n=0; while [ ! -e \"$STOP\" ] || [ $n = 0 ]; do n=$((n + 1)); \
         find . > /dev/null || exit 2; cat \"search/needle $1\" | tail -n1 | grep -q '^-- ' || exit 3; \
         ls -l search note/ > /dev/null || exit 4; ls links/limit=3/needle > /dev/null || exit 6; \
         stat \"search/limit=$1/needle\" status.md > /dev/null || exit 5; done";
    let mut crowd: Vec<_> = (1..=50)
        .map(|at| {
            Command::new("bash")
                .args(["-c", line, "bash", &at.to_string()])
                .envs([("M", &house.mount), ("STOP", &stop)])
                .spawn()
                .unwrap()
        })
        .collect();
    let (start, mut edits, mut most) = (Instant::now(), 0, 0);
    while edits < 15 || minutes().is_some_and(|it| start.elapsed() < it) {
        edits += 1;
        house.write(format!("n{}.md", edits % 20), format!("# Edit {edits}\n\nneedle {edits}\n"));
        house.settle();
        most = most.max(of_the_agent(&house, "Threads"));
        // Nobody leaves early.
        let gone: Vec<_> = crowd.iter_mut().filter_map(|it| it.try_wait().unwrap()).collect();
        assert!(gone.is_empty(), "{gone:?}");
    }
    fs::write(&stop, "").unwrap();
    ends(&mut crowd, Duration::from_secs(120), "the crowd");
    assert!(crowd.iter_mut().all(|it| it.wait().unwrap().success()));
    assert!(most < 64, "{most} threads");
    // Debug builds included; what is kept is bounded, what is open is closed.
    assert!(of_the_agent(&house, "VmRSS") < 600_000, "kB");
    wait_for("everything to be closed", || house.status()["mount"]["open"] == 0);
    let mount = house.status()["mount"].clone();
    assert!(mount["cached_bytes"].as_u64().unwrap() <= 16 << 20, "{mount}");
    house.settle_and_check();
}

/// Field case G09: the answer grows and shrinks under readers.
#[test]
fn an_answer_that_grows_and_shrinks_is_never_a_mix_g09() {
    if !has_fuse("an_answer_that_grows_and_shrinks_is_never_a_mix_g09") {
        return;
    }
    let house = with_notes();
    let done = AtomicBool::new(false);
    let text = |letter: char, words: usize| {
        format!(
            "tide {}\n",
            letter.to_string().repeat(8)
                + &format!(" {}", letter.to_string().repeat(8)).repeat(words)
        )
    };
    let check = |page: &str| {
        assert!(!page.contains('\0'), "a hole");
        assert!(page.lines().last().unwrap().starts_with("-- "), "cut short: {page}");
        let body = page.lines().find(|it| it.starts_with("tide ")).expect("the passage");
        let mut letters: Vec<_> = body["tide ".len()..].chars().filter(|it| *it != ' ').collect();
        letters.dedup();
        assert_eq!(letters.len(), 1, "a mix: {body}");
        letters[0]
    };
    house.write("tide.md", text('a', 10));
    house.settle();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::SeqCst) || reads < 20 {
                check(&house.cat("search/tide"));
                reads += 1;
            }
        });
        for (at, words) in [150, 3, 90, 0, 200, 1].into_iter().enumerate() {
            let letter = char::from(b'b' + u8::try_from(at).unwrap());
            let held = fs::File::open(house.mount.join("search/tide")).unwrap();
            let mut first = [0; 16];
            std::os::unix::fs::FileExt::read_exact_at(&held, &mut first, 0).unwrap();
            let size = held.metadata().unwrap().len();
            house.write("tide.md", text(letter, words));
            house.settle();
            // Opened afterwards it is the new one, at once: the name holds for 0 s.
            assert_eq!(check(&house.cat("search/tide")), letter);
            let old = std::io::read_to_string(&held).unwrap();
            assert_eq!((old.len() as u64, old.as_bytes()[..16] == first), (size, true));
            assert_ne!(check(&old), letter, "A reads on in its own page");
            // The links are as many as the hits, whoever counts.
            let links = fs::read_dir(house.mount.join("links/tide needle")).unwrap().count();
            assert_eq!(links, hits(&house, "tide needle"));
        }
        done.store(true, Ordering::SeqCst);
        reader.join().unwrap();
    });
}

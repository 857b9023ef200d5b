//! What the watcher must not miss, and what must not be taken for an edit: folders that move,
//! bursts, limits, saves seen half-way, links, settings that come and go.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::hostile::needle;
use crate::house::{House, wait_for};

fn shell(house: &House, script: &str) -> Child {
    Command::new("bash")
        .args(["-euc", script])
        .env("T", house.temp.path())
        .current_dir(&house.vault)
        .spawn()
        .unwrap()
}

fn run(house: &House, script: &str) {
    assert!(shell(house, script).wait().unwrap().success(), "{script}");
}

/// The time at which a file was read last, set far back, so that any read moves it (`relatime`).
struct Unread(std::path::PathBuf, i64);

impl Unread {
    fn mark(path: &Path) -> Self {
        let file = fs::File::open(path).unwrap();
        let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.set_times(fs::FileTimes::new().set_accessed(long_ago)).unwrap();
        Self(path.to_owned(), 1_000_000_000)
    }

    fn is_still(&self) -> bool {
        fs::metadata(&self.0).unwrap().atime() == self.1
    }

    /// Unread so far; and reading it now does show, so the file system keeps these times.
    fn check(&self) {
        assert!(self.is_still(), "{} was read", self.0.display());
        fs::read(&self.0).unwrap();
        assert!(!self.is_still(), "these tests need a file system that keeps times of access");
    }
}

/// What each commit of a path has: size of its blob, `None` where it is gone. Oldest first.
fn versions(house: &House, path: &str) -> Vec<Option<usize>> {
    let commits = house.git(["log", "--reverse", "--format=%H", "--", path]);
    let size = |commit: &str| {
        let listed = house.git(["ls-tree", "-l", commit, "--", path]);
        listed.split_whitespace().nth(3).map(|it| it.parse().unwrap())
    };
    commits.lines().map(size).collect()
}

fn restart<const N: usize>(house: &mut House, args: [&str; N]) {
    house.stop();
    house.args(args).start();
}

/// D02: three states of a folder, each by the watcher alone: right paths, indexed once, nothing
/// stale.
#[test]
fn three_states_of_a_folder_that_moves_d02() {
    let house = House::open();
    let x = house.temp.path().join("x");
    fs::create_dir_all(x.join("a/b")).unwrap();
    fs::write(x.join("a/b/n1.md"), "alfa\n").unwrap();
    house.write("first.md", "to [[n1]]\n");
    house.settle_and_check();
    fs::rename(&x, house.at("x")).unwrap();
    let first: BTreeSet<&[u8]> = [&b"first.md"[..], b"x/a/b/n1.md"].into();
    let last: BTreeSet<&[u8]> = [&b"first.md"[..], b"y/a/b/n1.md"].into();
    let holds = |paths: &BTreeSet<&[u8]>, path: &str, text: &[u8]| {
        house.head_paths().iter().map(Vec::as_slice).collect::<BTreeSet<_>>() == *paths
            && house.in_head(path) == text
    };
    wait_for("the first state", || holds(&first, "x/a/b/n1.md", b"alfa\n"));
    wait_for("its hit", || house.found_committed("alfa") == ["x/a/b/n1.md"]);
    run(&house, "echo bravo >> x/a/b/n1.md");
    wait_for("the second state", || holds(&first, "x/a/b/n1.md", b"alfa\nbravo\n"));
    wait_for("its hit", || house.found_committed("bravo") == ["x/a/b/n1.md"]);
    run(&house, "mv x y; echo charlie > y/a/b/n1.md");
    wait_for("the third state", || holds(&last, "y/a/b/n1.md", b"charlie\n"));
    wait_for("its hit", || house.found_committed("charlie") == ["y/a/b/n1.md"]);
    house.settle_and_check();
    for stale in ["alfa", "bravo"] {
        assert_eq!(house.found(stale), Vec::<String>::new());
    }
    let below_x = house.run(["search", "--json", "--in", "x", "charlie"]);
    assert!(!below_x.stdout.contains("n1.md"), "{}", below_x.stdout);
    assert_eq!(house.status()["index"]["notes"], 2);
    assert_eq!(house.status()["index"]["links"], 1);
    // The new folder is watched, the old name is not.
    run(&house, "echo delta > y/a/b/n1.md");
    wait_for("the next edit", || holds(&last, "y/a/b/n1.md", b"delta\n"));
}

/// D03: what was moved out is gone, and whatever happens to it there is none of ours: no event, no
/// commit, no read.
#[test]
fn a_folder_moved_out_is_not_looked_at_again_d03() {
    let house = House::open();
    for number in 0..5 {
        house.write(format!("x/a/b/n{number}.md"), "alfa\n");
    }
    house.write("stays.md", "bravo\n");
    house.settle_and_check();
    let watches = house.status()["watch"]["watches"].as_u64().unwrap();
    let away = house.temp.path().join("away");
    fs::rename(house.at("x"), &away).unwrap();
    wait_for("the deletion", || house.head_paths() == [b"stays.md"]);
    wait_for("the hits to go", || house.found("alfa").is_empty());
    house.settle_and_check();
    assert_eq!(house.status()["watch"]["watches"], watches - 3, "x, x/a, x/a/b");
    let commits = house.commits();
    let edit = |text: &str| {
        for number in 0..5 {
            fs::write(away.join(format!("a/b/n{number}.md")), text).unwrap();
        }
        fs::create_dir_all(away.join("a/new")).unwrap();
        fs::write(away.join("a/new/n.md"), text).unwrap();
    };
    edit("outside\n");
    let unread: Vec<_> = (0..5)
        .map(|it| Unread::mark(&away.join(format!("a/b/n{it}.md"))))
        .chain([Unread::mark(&away.join("a/new/n.md"))])
        .collect();
    // Neither an event nor the full look that a person asks for leads there.
    assert_eq!(house.status()["pending"]["edits"], 0);
    house.write("stays.md", "bravo two\n");
    wait_for("an edit inside", || house.in_head("stays.md") == b"bravo two\n");
    house.settle_and_check();
    assert_eq!(house.commits(), commits + 1);
    assert_eq!(house.found("outside"), Vec::<String>::new());
    unread.iter().for_each(Unread::check);
    assert_eq!(house.status()["watch"]["watches"], watches - 3);
}

/// D04: 500 nested folders, made and filled without a pause, all there within one settle;
/// `REMD_D04_RUNS=20` for as many runs as the case has.
#[test]
fn five_hundred_nested_folders_at_once_d04() {
    let runs: usize = std::env::var("REMD_D04_RUNS").map_or(2, |it| it.parse().unwrap());
    let house = House::open();
    for round in 1..=runs {
        for number in round * 500..(round + 1) * 500 {
            let folder = format!("x/{round}-{:03x}/{number:04x}", number * 37 % 250);
            house.write(format!("{folder}/n.md"), format!("alfa {}\n", needle(number)));
        }
        house.settle_and_check();
        assert_eq!(house.head_paths().len(), 500 * round);
        assert_eq!(house.status()["index"]["notes"], 500 * round);
        for number in (round * 500..(round + 1) * 500).step_by(41) {
            let found = house.found(&needle(number));
            let path = format!("x/{round}-{:03x}/{number:04x}/n.md", number * 37 % 250);
            assert_eq!(found, [path], "{number}");
        }
    }
}

/// D06: no watches, no instances: named, polled, and the edit in the last folder is committed.
#[test]
fn limits_of_inotify_are_named_and_polled_d06() {
    let mut house = House::open();
    house.stop();
    for number in 0..200 {
        house.write(format!("d{number:03}/n.md"), "alfa\n");
    }
    let probe = Command::new("unshare").args(["-Ur", "true"]).status();
    assert!(probe.is_ok_and(|it| it.success()), "user namespaces are needed for this test");
    for (round, (watches, instances, named)) in [
        ("64", "1", ["inotify watch limit", "max_inotify_watches"]),
        ("64", "128", ["inotify watch limit", "max_inotify_watches"]),
        ("8192", "0", ["inotify instances", "max_user_instances"]),
    ]
    .into_iter()
    .enumerate()
    {
        let script = "echo $1 > /proc/sys/user/max_inotify_watches
                      echo $2 > /proc/sys/user/max_inotify_instances
                      exec \"$0\" up \"$3\" --no-mount";
        let mut agent = Command::new("unshare")
            .args(["-Ur", "sh", "-ec", script, env!("CARGO_BIN_EXE_remd"), watches, instances])
            .arg(&house.vault)
            .env("HOME", house.temp.path().join("home"))
            .env("XDG_RUNTIME_DIR", house.temp.path().join("run"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the agent", || house.is_running());
        wait_for("the limit to be named", || {
            let said = house.run(["status"]);
            said.code == 3 && named.iter().all(|it| said.stdout.contains(it))
        });
        let status = house.status();
        assert_eq!(status["verdict"], "degraded");
        assert_eq!(status["watch"]["mode"], "polling");
        assert_eq!(status["watch"]["watches"], 0, "all or nothing");
        // By polling alone: nobody asks for a look.
        let text = format!("edited in the last folder {round}\n");
        house.write("d199/n.md", &text);
        house.write(format!("late{round}/deep/n.md"), "alfa\n");
        wait_for("the commit", || {
            !house.status()["head"].is_null()
                && house.head_paths().contains(&format!("late{round}/deep/n.md").into_bytes())
                && house.in_head("d199/n.md") == text.as_bytes()
        });
        // SAFETY: kill(2) takes two integers.
        unsafe { libc::kill(i32::try_from(agent.id()).unwrap(), libc::SIGTERM) };
        assert_eq!(agent.wait().unwrap().code(), Some(0));
    }
    // Where the limit is gone, so is the trouble.
    house.args(["--no-mount"]).start();
    house.settle_and_check();
    assert_eq!(house.status()["watch"]["mode"], "inotify");
    assert_eq!(house.status()["verdict"], "ok");
}

/// D09 (a), (b): a save in two steps is no edit to nothing, also where the burst goes on until it
/// is committed without a pause.
#[test]
fn a_save_in_two_steps_never_commits_nothing_d09() {
    let mut house = House::open();
    restart(&mut house, ["commit.quiet=3s", "commit.max_wait=3s", "--no-mount"]);
    house.write("n.md", "alfa [[other]]\n");
    house.write("gone.md", "bravo [[other]]\n");
    house.write("other.md", "charlie\n");
    house.settle_and_check();
    let mut writer = shell(
        &house,
        "for i in {1..15}; do : > n.md; rm gone.md; sleep 0.3
         echo \"alfa $i [[other]]\" > n.md; echo \"bravo $i [[other]]\" > gone.md; done",
    );
    let mut looks = 0;
    while writer.try_wait().unwrap().is_none() {
        let said = house.run(["search", "--json", "charlie"]).stdout;
        let page: serde_json::Value = serde_json::from_str(&said).unwrap();
        let inlinks = page["results"][0]["inlinks"].to_string();
        assert!(inlinks.contains("n.md") && inlinks.contains("gone.md"), "dropped: {said}");
        looks += 1;
    }
    assert!(writer.wait().unwrap().success() && looks > 10, "{looks}");
    // By the quiet window alone.
    wait_for("the last state", || {
        house.in_head("n.md") == b"alfa 15 [[other]]\n"
            && house.in_head("gone.md") == b"bravo 15 [[other]]\n"
    });
    for path in ["n.md", "gone.md"] {
        let versions = versions(&house, path);
        assert!(versions.iter().all(|it| it.is_some_and(|it| it > 10)), "{path}: {versions:?}");
    }
    house.settle_and_check();
    restart(&mut house, ["commit.quiet=300ms", "commit.max_wait=300ms", "--no-mount"]);
    // What is really emptied and deleted, beside a writer that does not pause, is committed.
    let mut writer = shell(
        &house,
        ": > n.md; rm gone.md; i=0
         until [ -e \"$T/enough\" ]; do i=$((i+1)); echo $i > busy.md; echo > new.$i.md; sleep 0.1; done",
    );
    wait_for("both", || {
        house.in_head("n.md").is_empty() && !house.head_paths().contains(&b"gone.md".to_vec())
    });
    fs::write(house.temp.path().join("enough"), "").unwrap();
    assert!(writer.wait().unwrap().success());
    house.settle_and_check();
}

/// D09 (c), (d): a slow writer is committed once, at its end; an emptied note is committed for what
/// it is.
#[test]
fn a_slow_writer_and_one_that_died_d09() {
    let mut house = House::open();
    restart(&mut house, ["commit.quiet=2s", "commit.max_wait=60s", "--no-mount"]);
    house.write("n.md", "alfa\n");
    house.settle_and_check();
    let before = house.commits();
    run(&house, "exec 3> n.md; for i in {1..10}; do echo \"bravo chunk $i\" >&3; sleep 0.15; done");
    let whole: String = (1..=10).map(|it| format!("bravo chunk {it}\n")).collect();
    wait_for("the commit", || house.commits() > before);
    assert_eq!(house.in_head("n.md"), whole.as_bytes(), "the final content at once");
    wait_for("the hit", || house.found_committed("chunk 10") == ["n.md"]);
    house.settle_and_check();
    assert_eq!(house.commits(), before + 1);

    run(&house, ": > n.md");
    wait_for("the empty state", || house.commits() == before + 2);
    assert_eq!(house.git(["log", "-1", "--format=%s"]), "memory: empty n.md");
    assert!(house.run(["log", "--all"]).stdout.lines().next().unwrap().contains("empty n.md"));
    assert_eq!(house.in_head("n.md"), b"");
    assert_eq!(house.git_bytes(["show", "HEAD~1:n.md"]), whole.as_bytes());
    house.settle_and_check();
    assert_eq!(house.found("chunk"), Vec::<String>::new());
}

/// D10: every link of the case, there at the start and made while it runs: nothing is walked twice,
/// nothing outside is read, each is committed as a link.
#[test]
fn links_lead_nowhere_d10() {
    let mut house = House::open();
    house.stop();
    // What `up` leads to: a note beside the vault; and a folder of ours in the place of /etc.
    let beside = house.temp.path().canonicalize().unwrap();
    fs::create_dir(beside.join("etc")).unwrap();
    for outside in ["outside.md", "etc/hosts.md"] {
        fs::write(beside.join(outside), "alfa outside\n").unwrap();
    }
    let unread = ["outside.md", "etc/hosts.md"].map(|it| Unread::mark(&beside.join(it)));
    let make = |house: &House, folder: &str| {
        house.write(format!("{folder}d/n.md"), "alfa inside\n");
        let etc = beside.join("etc").to_string_lossy().into_owned();
        let note = beside.join("outside.md").to_string_lossy().into_owned();
        for (target, link) in [
            (".", "loop"),
            ("..", "up"),
            ("/etc", "out"),
            (&etc, "etc"),
            (&note, "outside.md"),
            ("b", "a"),
            ("a", "b"),
            ("gone", "dangling.md"),
            ("../d", "d/self"),
        ] {
            symlink(target, house.at(format!("{folder}{link}"))).unwrap();
        }
    };
    make(&house, "");
    house.args(["--no-mount"]).start();
    house.settle_and_check();
    fs::create_dir(house.at("later")).unwrap();
    make(&house, "later/");
    wait_for("the watcher's own commit", || house.head_paths().len() == 20);
    house.settle_and_check();
    let listed = house.git(["ls-tree", "-r", "HEAD"]);
    assert_eq!(listed.matches("120000").count(), 18, "{listed}");
    assert_eq!(listed.matches("100644").count(), 2, "{listed}");
    assert_eq!(house.in_head("loop"), b".");
    assert_eq!(house.in_head("out"), b"/etc");
    assert_eq!(house.in_head("later/d/self"), b"../d");
    let mut found = house.found("alfa");
    found.sort();
    assert_eq!(found, ["d/n.md", "later/d/n.md"]);
    assert_eq!(house.found("outside"), Vec::<String>::new());
    assert_eq!(house.status()["index"]["notes"], 2, "each note once, no link is one");
    assert_eq!(house.status()["verdict"], "ok");
    unread.iter().for_each(Unread::check);
}

/// D12: pause and resume, reload, a watched folder deleted and made again, a folder of the settings
/// that is not there yet: every edit afterwards is seen by the watcher itself.
#[test]
fn every_edit_is_seen_after_whatever_happened_d12() {
    let mut house = House::open();
    house.stop();
    house.write(
        "remd.yaml",
        "daily_dir: notes\ndigest_dir: not/there/yet\nresource_dir: memory.md\n",
    );
    house.write("notes/sub/a.md", "alfa\n");
    house.args(["--no-mount"]).start();
    house.settle_and_check();
    let mut serial = 0;
    let mut seen = |what: &str, path: &str| {
        serial += 1;
        let text = format!("alfa {serial}\n");
        house.write(path, &text);
        wait_for(what, || {
            house.head_paths().contains(&path.as_bytes().to_vec())
                && house.in_head(path) == text.as_bytes()
        });
    };
    seen("an edit", "notes/sub/a.md");
    seen("a folder of the settings that comes late", "not/there/yet/b.md");
    seen("another one, as a file", "memory.md");
    seen("an edit of it", "memory.md");
    for _ in 0..3 {
        assert_eq!(house.run(["pause"]).code, 0);
        assert_eq!(house.run(["resume"]).code, 0);
        seen("an edit after a pause", "notes/sub/a.md");
    }
    for _ in 0..3 {
        assert_eq!(house.run(["reload"]).code, 0);
        seen("an edit after a reload", "not/there/yet/b.md");
    }
    for _ in 0..3 {
        fs::remove_dir_all(house.at("notes")).unwrap();
        seen("an edit in a folder made again at once", "notes/sub/a.md");
        fs::remove_dir_all(house.at("not")).unwrap();
        wait_for("the deletion", || !house.head_paths().contains(&b"not/there/yet/b.md".to_vec()));
        seen("an edit in a folder made again later", "not/there/yet/b.md");
        seen("one more in it", "not/there/yet/b.md");
    }
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
    assert_eq!(house.status()["watch"]["mode"], "inotify");
}

/// D14: 500 times gone and back with 0 to 50 ms between, renames there and back, a checkout after a
/// delete, a swap: what counts is the disk, and no delete is ever committed.
#[test]
fn gone_and_back_five_hundred_times_d14() {
    let mut house = House::open();
    restart(&mut house, ["commit.quiet=20s", "commit.max_wait=60s", "--no-mount"]);
    for number in 0..10 {
        house.write(format!("n{number}.md"), format!("alfa {number} [[a]]\n"));
    }
    house.write("a.md", "bravo\n");
    house.write("b.md", "charlie\n");
    house.settle_and_check();
    let before = house.commits();
    let pause = |round: usize| {
        let until = std::time::Instant::now() + Duration::from_millis(round as u64 * 7 % 51);
        while let Some(left) = until.checked_duration_since(std::time::Instant::now()) {
            std::thread::park_timeout(left);
        }
    };
    std::thread::scope(|scope| {
        for number in 0..10 {
            let house = &house;
            scope.spawn(move || {
                let path = house.at(format!("n{number}.md"));
                let kept = house.temp.path().join(format!("kept{number}"));
                for round in 0..50 {
                    fs::copy(&path, &kept).unwrap();
                    fs::remove_file(&path).unwrap();
                    pause(round + number);
                    fs::copy(&kept, &path).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for round in 0..50 {
                fs::rename(house.at("a.md"), house.at("c.md")).unwrap();
                pause(round);
                fs::rename(house.at("c.md"), house.at("a.md")).unwrap();
            }
        });
    });
    house.settle_and_check();
    let deletes = house.git(["log", "--diff-filter=DR", "--format=%h"]);
    assert_eq!(deletes, "", "{}", house.git(["log", "--stat"]));
    assert_eq!(house.commits(), before, "nothing has changed");
    run(&house, "for i in {1..20}; do rm n1.md; git checkout -q -- n1.md; done");
    run(&house, "for i in {1..21}; do mv a.md t; mv b.md a.md; mv t b.md; done");
    house.settle_and_check();
    assert_eq!(house.in_head("a.md"), b"charlie\n");
    assert_eq!(house.in_head("b.md"), b"bravo\n");
    assert_eq!(house.git(["log", "--diff-filter=D", "--format=%h"]), "");
    assert_eq!(house.head_paths().len(), 12);
    let mut found = house.found("alfa");
    found.sort();
    assert_eq!(found.len(), 10);
    assert_eq!(house.status()["index"]["links"], 10, "with their links");
    assert_eq!(house.status()["index"]["notes"], 12);
}

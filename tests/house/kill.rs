//! Killed with -9 again and again, at fault points and at random under load.
//!
//! A round: edits, deletions and renames arrive, the agent dies at a random moment or at a fault
//! point, a new one starts and settles; then disk, HEAD and search are the same, and no lock, temp
//! file or mount is left. A normal run does a few dozen rounds (about 40 s);
//! `REMD_KILL_ROUNDS=3000 cargo test --test house kill -- --nocapture` does thousands and counts
//! them on stderr. `REMD_KILL_SEED` repeats a run's choices.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::crash::TESTED;
use crate::house::House;

/// Rounds of a normal run.
const ROUNDS: usize = 24;
/// How many notes there are at most: a search lists a hundred hits.
const NOTES: u64 = 60;

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |it| it.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Xorshift: choices that a seed repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What the person does, and what the disk holds by it.
struct Writer {
    dice: Dice,
    serial: u64,
    /// By path: the words that tell the version.
    notes: BTreeMap<String, String>,
}

impl Writer {
    fn name(&mut self) -> String {
        let at = self.dice.roll(NOTES);
        format!("d{}/n{at}.md", at % 7)
    }

    fn any(&mut self) -> Option<String> {
        let at = usize::try_from(self.dice.roll(NOTES)).unwrap();
        let count = self.notes.len();
        (count > 0).then(|| self.notes.keys().nth(at % count).unwrap().clone())
    }

    fn edit(&mut self, house: &House) {
        match self.dice.roll(10) {
            0..5 => {
                self.serial += 1;
                let (name, word) = (self.name(), word(self.serial));
                let text = format!("needle {word}\n");
                if self.dice.roll(2) == 0 {
                    house.write(&name, text);
                } else {
                    // As an editor saves: beside, then over it.
                    let beside = house.temp.path().join("beside");
                    fs::write(&beside, text).unwrap();
                    fs::create_dir_all(house.at(&name).parent().unwrap()).unwrap();
                    fs::rename(beside, house.at(&name)).unwrap();
                }
                self.notes.insert(name, word);
            }
            5..7 => {
                let Some(name) = self.any() else { return };
                fs::remove_file(house.at(&name)).unwrap();
                self.notes.remove(&name);
            }
            7..9 => {
                let (Some(from), to) = (self.any(), self.name()) else { return };
                fs::create_dir_all(house.at(&to).parent().unwrap()).unwrap();
                fs::rename(house.at(&from), house.at(&to)).unwrap();
                let word = self.notes.remove(&from).unwrap();
                self.notes.insert(to, word);
            }
            _ => {
                use std::os::unix::fs::PermissionsExt as _;
                let Some(name) = self.any() else { return };
                let mode = if self.dice.roll(2) == 0 { 0o755 } else { 0o644 };
                fs::set_permissions(house.at(&name), fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

/// A word that no other number has a part or a stem in common with.
fn word(serial: u64) -> String {
    let letter = |at: u32| char::from(b"bcdfghjklmnpqrtv"[(serial >> (4 * at) & 15) as usize]);
    std::iter::once('z').chain((0..5).map(letter)).collect()
}

/// Lets some time pass that nothing waits for: the kill is to come at any moment.
fn idle(micros: u64) {
    let until = Instant::now() + Duration::from_micros(micros);
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

fn leftovers(house: &House) -> Vec<PathBuf> {
    let mut folders = vec![house.vault.clone()];
    let mut left = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                // Of the objects only the top, where they are written before they get their names.
                let is_object_folder = folder.ends_with(".git/objects");
                if !path.ends_with("mem_metadata") && !is_object_folder {
                    folders.push(path);
                }
            } else if name.ends_with(".lock") || name.starts_with("lock-") || is_temp(&path, &name)
            {
                left.push(path);
            }
        }
    }
    left
}

fn is_temp(path: &Path, name: &str) -> bool {
    name.contains("tmp") || name.starts_with(".remd") || path.ends_with("remd/unfinished")
}

/// Disk, HEAD and search are one; `is_thorough` reads every byte again.
fn check(house: &House, writer: &mut Writer, is_thorough: bool, what: &str) {
    house.settle();
    assert_eq!(house.git(["status", "--porcelain"]), "", "{what}\n{}", house.log());
    let head: BTreeSet<_> =
        house.head_paths().into_iter().map(|it| String::from_utf8(it).unwrap()).collect();
    assert!(head.iter().eq(writer.notes.keys()), "{what}: {head:?}\n{}", house.log());
    let found: BTreeSet<_> = house.found("needle").into_iter().collect();
    assert_eq!(found, head, "{what}: search\n{}", house.log());
    if let Some(name) = writer.any() {
        let word = &writer.notes[&name];
        assert_eq!(house.found(word), [name.as_str()], "{what}: {word}");
    }
    assert_eq!(leftovers(house), Vec::<PathBuf>::new(), "{what}");
    if is_thorough {
        house.git(["fsck", "--strict"]);
        for (name, word) in &writer.notes {
            let text = format!("needle {word}\n").into_bytes();
            assert_eq!(house.in_head(name), text, "{what}: {name}");
            assert_eq!(fs::read(house.at(name)).unwrap(), text, "{what}: {name}");
        }
        assert_eq!(house.git(["for-each-ref", "refs/remd/wip/"]), "", "{what}");
    }
}

#[test]
fn killed_at_any_point_and_moment_under_load() {
    let rounds = usize::try_from(number("REMD_KILL_ROUNDS", ROUNDS as u64)).unwrap();
    let seed = number("REMD_KILL_SEED", 0x9e37_79b9_7f4a_7c15);
    let mut writer = Writer { dice: Dice(seed.max(1)), serial: 0, notes: BTreeMap::new() };
    let mut house = House::open();
    house.stop();
    let mut reached = BTreeMap::<String, usize>::new();
    let mut is_running = false;
    for round in 0..rounds {
        // Every fault point in turn, and between two of them two kills at random.
        let point = (round % 3 == 0).then(|| TESTED[round / 3 % TESTED.len()]);
        if is_running && (point.is_some() || round % 20 == 19) {
            house.kill();
            is_running = false;
        }
        if !is_running {
            match round % 20 == 19 {
                true => house.args(["commit.quiet=20ms"]),
                false => house.args(["commit.quiet=20ms", "--no-mount"]),
            };
            let nth = writer.dice.roll(3) + 1;
            house.env("REMD_FAULT", &point.map_or(String::new(), |it| format!("{it}:{nth}")));
            house.spawn();
        }
        let edits = writer.dice.roll(40) + 1;
        for _ in 0..edits {
            writer.edit(&house);
            let pause = writer.dice.roll(6_000);
            idle(pause);
        }
        if let Some(point) = point {
            // It is reached by these edits, or it is not: a second says so.
            let until = Instant::now() + Duration::from_secs(2);
            while !house.has_ended() && Instant::now() < until {
                idle(5_000);
            }
            let ended = if house.has_ended() { point } else { "a point that was not reached" };
            *reached.entry(ended.to_owned()).or_default() += 1;
        } else {
            let pause = writer.dice.roll(400_000);
            idle(pause);
            *reached.entry("a random moment".to_owned()).or_default() += 1;
        }
        house.kill();
        house.env("REMD_FAULT", "");
        house.start();
        is_running = true;
        let what = format!("round {round} of seed {seed:#x}, {point:?}");
        check(&house, &mut writer, round % 10 == 9 || round + 1 == rounds, &what);
        if round % 100 == 99 {
            eprintln!("{} rounds, {} commits, killed at {reached:?}", round + 1, house.commits());
        }
    }
    house.stop();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*house.mount.to_string_lossy()), "a mount is left");
    assert!(reached.len() > 4, "hardly anything was reached: {reached:?}");
}

/// E01 (c): killed in the middle of a commit of a thousand files.
#[test]
fn killed_while_a_thousand_files_are_committed_e01() {
    let rounds = number("REMD_KILL_ROUNDS", 4).min(20);
    let mut dice = Dice(number("REMD_KILL_SEED", 0x2545_f491_4f6c_dd1d).max(1));
    let mut house = House::open();
    house.stop();
    house.args(["commit.quiet=20ms", "--no-mount"]);
    for round in 0..rounds {
        for at in 0..1000 {
            house.write(format!("n{}/{at}.md", at % 20), format!("{round} {at}\n"));
        }
        house.spawn();
        // Anywhere from the start over the objects and the index to the end.
        let wanted = usize::try_from(dice.roll(256)).unwrap();
        let objects = house.at(".git/objects");
        let before = fs::read_dir(&objects).map_or(0, Iterator::count);
        let until = Instant::now() + Duration::from_millis(300 + dice.roll(3_000));
        while fs::read_dir(&objects).map_or(0, Iterator::count) < before.max(wanted)
            || round > 0 && Instant::now() < until
        {
            idle(500);
            if Instant::now() > until + Duration::from_secs(20) {
                break;
            }
        }
        house.kill();
        house.git(["fsck", "--strict"]);
    }
    house.start();
    house.settle_and_check();
    assert_eq!(house.head_paths().len(), 1000);
    for at in [0, 499, 999] {
        let text = format!("{} {at}\n", rounds - 1).into_bytes();
        assert_eq!(house.in_head(&format!("n{}/{at}.md", at % 20)), text);
    }
    assert_eq!(leftovers(&house), Vec::<PathBuf>::new());
}

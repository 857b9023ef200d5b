//! The table of paths: what it says is what a walk through the history says.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

const NEVER: &dyn Fn() -> bool = &|| false;
const NAMES: [&str; 6] = ["a.md", "b.md", "d/a.md", "d/c.md", "d/e/f.md", "x \"q\"\n.md"];

fn dir(vault: &Vault, name: &str) -> PathBuf {
    vault.root.join("mem_metadata").join(name)
}

fn with_table(vault: &Vault, name: &str) -> Reader {
    Reader::open(&vault.root).unwrap().with_path_log(&dir(vault, name))
}

/// Brings a table up to HEAD.
fn keep(vault: &Vault, name: &str) {
    let reader = Reader::open(&vault.root).unwrap();
    let head = reader.head().unwrap().unwrap().commit;
    assert!(Keeper::new(&reader, &dir(vault, name)).catch_up(head, NEVER).unwrap());
}

type Told = Vec<(String, String, Option<String>, bool)>;

/// What a reader says of a path, which must go back in time.
fn told(reader: &Reader, path: &str) -> Told {
    let versions = reader.versions(&vault_path(path), 1000).unwrap();
    assert!(versions.is_sorted_by_key(|it| std::cmp::Reverse(it.time)), "{path}: {versions:?}");
    sorted(versions)
}

/// What it says in whatever order: what a table has not yet comes before all that it has.
fn told_behind(reader: &Reader, path: &str) -> Told {
    sorted(reader.versions(&vault_path(path), 1000).unwrap())
}

fn sorted(versions: Vec<PastVersion>) -> Told {
    let mut told: Told = versions
        .into_iter()
        .map(|it| {
            let from = it.from.map(|it| it.to_string());
            (it.commit.to_string(), it.path.to_string(), from, it.entry.is_some())
        })
        .collect();
    told.sort();
    told
}

fn deleted(reader: &Reader) -> Vec<(String, String, String)> {
    let deletions = reader.deleted(&|_| true, NEVER).unwrap();
    assert!(!deletions.is_partial);
    let mut told: Vec<_> = deletions
        .found
        .into_iter()
        .map(|it| (it.path.to_string(), it.commit.to_string(), it.before.to_string()))
        .collect();
    told.sort();
    told
}

/// All that can be asked is the same with each of the tables as without one.
fn check(vault: &Vault, tables: &[&str], told_of: fn(&Reader, &str) -> Told) {
    let plain = Reader::open(&vault.root).unwrap();
    for name in tables {
        let reader = with_table(vault, name);
        for path in NAMES.into_iter().chain(["d", "d/e", "nowhere"]) {
            assert_eq!(told_of(&reader, path), told(&plain, path), "{name}: {path}");
        }
        assert_eq!(deleted(&reader), deleted(&plain), "{name}");
    }
}

#[derive(Clone, Debug)]
enum Deed {
    Write(usize, u8),
    Remove(usize),
    Rename(usize, usize),
    /// Off to a new branch from so many commits back.
    Branch(usize),
    /// Another branch comes in.
    Merge(usize),
    /// History is taken back, with a branch that still names it or without.
    Reset(usize),
    Keep,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0..NAMES.len(), 0..6u8).prop_map(|(name, text)| Deed::Write(name, text)),
        2 => (0..NAMES.len()).prop_map(Deed::Remove),
        3 => (0..NAMES.len(), 0..NAMES.len()).prop_map(|(from, to)| Deed::Rename(from, to)),
        1 => (0..4usize).prop_map(Deed::Branch),
        2 => (0..4usize).prop_map(Deed::Merge),
        1 => (1..4usize).prop_map(Deed::Reset),
        3 => Just(Deed::Keep),
    ]
}

/// Texts of which some are much like others.
fn text(kind: u8) -> String {
    (0..12).map(|line| format!("{line} {}\n", if line < kind * 2 { kind } else { 0 })).collect()
}

struct Play {
    vault: Vault,
    day: u32,
    branches: Vec<String>,
}

impl Play {
    fn new() -> Self {
        let vault = Vault::by_git(&["-b", "main"]);
        vault.git(&["config", "core.quotePath", "false"]);
        std::fs::write(vault.root.join(".git/info/exclude"), "mem_metadata/\n").unwrap();
        let mut play = Self { vault, day: 0, branches: vec!["main".to_owned()] };
        play.vault.write("a.md", text(1));
        play.commit();
        play
    }

    fn git(&mut self, arguments: &[&str]) -> bool {
        self.day += 1;
        let date = format!("@{} +0000", 1_780_000_000 + i64::from(self.day) * 3600);
        let mut command = git_command(&self.vault.root, arguments);
        command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        command.output().unwrap().status.success()
    }

    fn commit(&mut self) {
        self.vault.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "m"]);
    }

    fn back(&self, count: usize) -> String {
        let all = self.vault.git(&["rev-list", "--first-parent", "HEAD"]);
        let all: Vec<_> = all.lines().collect();
        all[count.min(all.len() - 1)].to_owned()
    }

    fn go(&mut self, deed: &Deed) {
        match deed {
            Deed::Write(name, kind) => {
                // A folder may be where the note shall be, or the other way round.
                let path = self.vault.path(NAMES[*name]);
                if std::fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
                    std::fs::write(path, text(*kind)).unwrap();
                }
                self.commit();
            }
            Deed::Remove(name) => {
                if self.vault.path(NAMES[*name]).exists() {
                    self.vault.remove(NAMES[*name]);
                }
                self.commit();
            }
            Deed::Rename(from, to) => {
                let (from, to) = (self.vault.path(NAMES[*from]), self.vault.path(NAMES[*to]));
                if from.is_file() && !to.exists() {
                    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                    std::fs::rename(from, to).unwrap();
                }
                self.commit();
            }
            Deed::Branch(count) => {
                let name = format!("b{}", self.branches.len());
                let from = self.back(*count);
                self.vault.git(&["checkout", "-q", "-b", &name, &from]);
                self.branches.push(name);
            }
            Deed::Merge(which) => {
                let name = self.branches[which % self.branches.len()].clone();
                if !self.git(&["merge", "-q", "--no-ff", "-X", "ours", "-m", "merge", &name])
                    && self.vault.root.join(".git/MERGE_HEAD").exists()
                {
                    self.commit();
                }
            }
            Deed::Reset(count) => {
                let to = self.back(*count);
                self.vault.git(&["reset", "-q", "--hard", &to]);
            }
            Deed::Keep => keep(&self.vault, "kept"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse().ok()).unwrap_or(10),
        max_shrink_iters: 60,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_table_says_what_a_walk_says_whatever_happens_to_the_history(
        deeds in prop::collection::vec(deed(), 4..28),
    ) {
        let mut play = Play::new();
        for deed in &deeds {
            play.go(deed);
        }
        // As it was kept so far, behind HEAD.
        check(&play.vault, &["kept"], told_behind);
        keep(&play.vault, "kept");
        keep(&play.vault, "made anew");
        check(&play.vault, &["kept", "made anew"], told);
    }
}

/// Many small commits, so that tails become segments and segments become one.
fn long_history(count: usize) -> Vault {
    use std::io::Write as _;
    let vault = Vault::by_git(&["-b", "main"]);
    let mut stream = Vec::new();
    for n in 0..count {
        let name = format!("d{}/n{}.md", n % 7, n % 21);
        let text = format!("text {n}\n");
        let time = 1_780_000_000 + n * 60;
        write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@b> {time} +0000\ndata 1\nm\nM 100644 inline \
             {name}\ndata {}\n{text}\n",
            text.len()
        )
        .unwrap();
        if n % 50 == 49 || n + 5 > count {
            writeln!(stream, "D {name}").unwrap();
        }
    }
    let mut child = git_command(&vault.root, &["fast-import", "--quiet"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&stream).unwrap();
    assert!(child.wait().unwrap().success());
    vault
}

#[test]
fn a_table_grows_by_segments_and_is_the_same_as_one_made_at_once() {
    let vault = long_history(1500);
    let reader = Reader::open(&vault.root).unwrap();
    let mut keeper = Keeper::new(&reader, &dir(&vault, "kept"));
    for back in (0..1500).rev().step_by(60) {
        let head = reader.resolve(&format!("HEAD~{back}")).unwrap();
        assert!(keeper.catch_up(head, NEVER).unwrap());
    }
    let head = reader.head().unwrap().unwrap().commit;
    assert!(keeper.catch_up(head, NEVER).unwrap());
    // Stopped before the end, it goes on there.
    let mut anew = Keeper::new(&reader, &dir(&vault, "anew"));
    let asked = std::cell::Cell::new(0);
    let is_over = || asked.replace(asked.get() + 1) > 1500 + 700;
    assert!(!anew.catch_up(head, &is_over).unwrap());
    anew.rest();
    assert!(anew.catch_up(head, NEVER).unwrap());
    for path in ["d0/n0.md", "d3/n10.md", "d1", "d0/n7.md", "nowhere.md"] {
        let plain = told(&reader, path);
        assert_eq!(plain.is_empty(), path == "nowhere.md");
        assert_eq!(told(&with_table(&vault, "kept"), path), plain, "{path}");
        assert_eq!(told(&with_table(&vault, "anew"), path), plain, "{path}");
    }
    assert_eq!(deleted(&with_table(&vault, "kept")), deleted(&reader));
    // The first commit is of 2026-05-28T20:26:40Z, one a minute.
    for moment in ["2026-05-28T20:30:00Z", "2026-05-29T00:00Z", "2026-05-29T21:00Z", "2026-05-01"] {
        let of = |reader: &Reader| reader.moment(moment).map_err(|err| err.to_string());
        assert_eq!(of(&with_table(&vault, "kept")), of(&reader), "{moment}");
    }
    let files = std::fs::read_dir(dir(&vault, "kept")).unwrap().count();
    assert!(files < 10, "{files} files");
}

#[test]
fn a_table_that_is_damaged_cut_or_of_another_history_is_none_and_is_made_anew() {
    let vault = long_history(530);
    let plain = Reader::open(&vault.root).unwrap();
    keep(&vault, "kept");
    let folder = dir(&vault, "kept");
    let paths = ["d0/n0.md", "d0/n7.md"];
    let expected: Vec<_> = paths.map(|it| told(&plain, it)).into();
    let expected_gone = deleted(&plain);
    assert!(!expected_gone.is_empty());
    let same = |what: &str| {
        let reader = with_table(&vault, "kept");
        assert_eq!(paths.map(|it| told(&reader, it)).to_vec(), expected, "{what}");
        assert_eq!(deleted(&reader), expected_gone, "{what}");
    };
    same("whole");
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(names.len() >= 4, "{names:?}");
    for path in &names {
        let bytes = std::fs::read(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for (how, damaged) in [
            ("cut", bytes[..bytes.len() * 2 / 3 / 4096 * 4096].to_vec()),
            ("another byte", {
                let mut damaged = bytes.clone();
                let middle = damaged.len() / 2;
                damaged[middle] ^= 0x40;
                damaged
            }),
        ] {
            std::fs::write(path, damaged).unwrap();
            same(&format!("{name} {how}"));
            keep(&vault, "kept");
            same(&format!("{name} {how}, and kept again"));
        }
        // Segments have other numbers when they are made anew.
        if path.exists() {
            std::fs::remove_file(path).unwrap();
        }
        same(&format!("{name} gone"));
        std::fs::remove_dir_all(&folder).unwrap();
        keep(&vault, "kept");
    }
    std::fs::write(folder.join("manifest"), "").unwrap();
    same("no manifest");
}

#[test]
fn a_shallow_clone_that_gets_its_history_gets_another_table() {
    let vault = long_history(60);
    let clone = vault.dir.path().join("clone");
    let from = format!("file://{}", vault.root.display());
    vault.git(&["clone", "-q", "--depth", "10", &from, clone.to_str().unwrap()]);
    let clone = Vault { root: clone, ..Vault::plain() };
    keep(&clone, "kept");
    let count = |reader: &Reader| told(reader, "d1").len();
    let short = count(&Reader::open(&clone.root).unwrap());
    assert_eq!(count(&with_table(&clone, "kept")), short);
    clone.git(&["fetch", "-q", "--unshallow"]);
    let whole = count(&Reader::open(&clone.root).unwrap());
    assert!(whole > short, "{whole}");
    assert_eq!(count(&with_table(&clone, "kept")), whole, "the old table holds no longer");
    keep(&clone, "kept");
    assert_eq!(count(&with_table(&clone, "kept")), whole);
}

//! Git's index, put together from the bytes of the one before, beside the library's own way: decode
//! it, change it, encode it.
//!
//! **Invariant:** Git reads the same from both, whatever the index was written by.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::{Flags, Mode, Stage, Stat, stat::Time};
use gix::index::write::{Extensions, Options as WriteOptions};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::history::git_index::{GitIndex, Patch};
use crate::history::index_image::Image;
use crate::history::index_sum::STEP;
use crate::history::lock::OwnLock;
use crate::history::place::lock_of;

/// Names whose order in git is not that of their folders.
const NAMES: [&str; 12] = [
    "a.md",
    "d-a.md",
    "d.md",
    "d/a.md",
    "d/b/c.md",
    "d/b/d/e.md",
    "d0.md",
    "e/a.md",
    "e/é.md",
    "m.md",
    "q\"\n.md",
    "z",
];
/// After every index that a test writes: its entries never prove anything.
const AHEAD: u32 = 4_000_000_000;

/// What an index was made by before we came.
const KINDS: [&str; 8] =
    ["plain", "extended", "version 4", "split", "SHA-256", "cached", "threads", "conflict"];

struct Fixture {
    vault: Vault,
    blobs: Vec<ObjectId>,
}

impl Fixture {
    fn new(kind: &str) -> Self {
        let format = if kind == "SHA-256" { "sha256" } else { "sha1" };
        let vault = Vault::by_git(&["-b", "main", &format!("--object-format={format}")]).opened();
        let blobs = ["", "one\n", "two\n"].map(|text| {
            let id = feed(&vault, &["hash-object", "-w", "--stdin"], text);
            ObjectId::from_hex(id.trim().as_bytes()).unwrap()
        });
        let this = Self { vault, blobs: blobs.to_vec() };
        let vault = &this.vault;
        let mut lines = String::new();
        for at in 0..40 {
            lines += &format!("100644 {} 0\tfolder{}/note{at}.md\n", this.blobs[at % 3], at % 4);
        }
        for name in NAMES.iter().step_by(2).filter(|it| !it.contains('\n')) {
            lines += &format!("100755 {} 0\t{name}\n", this.blobs[1]);
        }
        feed(vault, &["update-index", "--index-info"], &lines);
        match kind {
            "extended" => {
                vault.write("new.md", "new\n");
                vault.git(&["add", "-N", "new.md"]);
                vault.git(&["update-index", "--skip-worktree", "d.md", "folder1/note1.md"]);
                vault.git(&["update-index", "--assume-unchanged", "folder2/note2.md"]);
            }
            "version 4" => drop(vault.git(&["update-index", "--index-version", "4"])),
            "split" => {
                vault.git(&["update-index", "--split-index"]);
                vault.git(&["update-index", "--force-remove", "folder3/note3.md"]);
            }
            "cached" => {
                vault.git(&["write-tree"]);
                vault.git(&["update-index", "--force-untracked-cache"]);
                vault.git(&["status", "--porcelain"]);
            }
            "threads" => {
                vault.git(&["config", "index.threads", "2"]);
                vault.git(&["update-index", "--force-write-index"]);
            }
            "conflict" => {
                for name in ["m.md", "resolved.md"] {
                    let mut lines =
                        format!("0 {} 0\t{name}\n", ObjectId::null(gix::hash::Kind::Sha1));
                    for stage in 1..4 {
                        lines += &format!("100644 {} {stage}\t{name}\n", this.blobs[stage - 1]);
                    }
                    feed(vault, &["update-index", "--index-info"], &lines);
                }
                let info = format!("100644,{},resolved.md", this.blobs[0]);
                vault.git(&["update-index", "--cacheinfo", &info]);
            }
            _ => {}
        }
        this
    }

    fn load(&self) -> GitIndex {
        let history = self.vault.history.as_ref().unwrap();
        GitIndex::load(&history.repo, &history.place).unwrap()
    }

    fn write(&self, index: &mut GitIndex, patches: &[Patch]) {
        let history = self.vault.history.as_ref().unwrap();
        let place = &history.place;
        let lock = lock_of(&place.index());
        let lock =
            OwnLock::take(&place.private(), place.shared, &lock, Duration::from_secs(9)).unwrap();
        index.patch(place, patches).unwrap();
        index.write(&history.repo, place, lock).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.vault.root.join(".git/index")
    }

    fn patches(&self, steps: &[Step]) -> Vec<Patch> {
        let patch = |it: &Step| Patch {
            path: it.path(),
            new: it.version.map(|version| {
                let mode = if version > 2 { Mode::FILE_EXECUTABLE } else { Mode::FILE };
                (self.blobs[usize::from(version) % 3], mode, stat(it.is_ahead, version))
            }),
        };
        steps.iter().map(patch).collect()
    }

    /// All that git says of an index.
    fn told(&self, index: &Path) -> [String; 2] {
        let told = |arguments: &[&str]| {
            let mut git = git_command(&self.vault.root, arguments);
            let output = git.env("GIT_INDEX_FILE", index).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() || error.contains("unmerged"),
                "{arguments:?}: {error}"
            );
            String::from_utf8(output.stdout).unwrap()
        };
        [told(&["ls-files", "-z", "-v", "--stage", "--debug"]), told(&["write-tree"])]
    }
}

/// One entry that comes, changes or goes.
#[derive(Clone, Debug)]
struct Step {
    name: u8,
    version: Option<u8>,
    is_ahead: bool,
}

impl Step {
    fn path(&self) -> BString {
        match NAMES.get(usize::from(self.name)) {
            Some(name) => (*name).into(),
            None => {
                let at = usize::from(self.name) - NAMES.len();
                format!("folder{}/note{at}.md", at % 4).into()
            }
        }
    }
}

fn batches() -> impl Strategy<Value = Vec<(Vec<Step>, bool)>> {
    let version = prop_oneof![3 => (0..6u8).prop_map(Some), 1 => Just(None)];
    let step = (0..56u8, version, prop::bool::weighted(0.2))
        .prop_map(|(name, version, is_ahead)| Step { name, version, is_ahead });
    prop::collection::vec((prop::collection::vec(step, 0..9), any::<bool>()), 1..4)
}

fn stat(is_ahead: bool, version: u8) -> Stat {
    let secs = if is_ahead { AHEAD } else { 1000 };
    let time = Time { secs, nsecs: 7 };
    Stat { mtime: time, ctime: time, ino: version.into(), size: 10, ..Stat::default() }
}

fn feed(vault: &Vault, arguments: &[&str], text: &str) -> String {
    let mut git = git_command(&vault.root, arguments);
    let mut git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = git.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The library's way: all is decoded, changed, sorted and encoded.
fn decoded_and_encoded(before: &Path, patches: &[Patch], hash: gix::hash::Kind) -> Vec<u8> {
    let options = gix::index::decode::Options::default();
    let mut file = gix::index::File::at_or_default(before, hash, true, options).unwrap();
    for entry in file.entries_mut().iter_mut().filter(|it| it.stat.ctime.secs == AHEAD) {
        entry.stat.size = 0;
    }
    for patch in patches {
        let path = patch.path.as_bstr();
        file.remove_entries(|_, it, _| it == path);
        if let Some((id, mode, stat)) = patch.new {
            file.dangerously_push_entry(stat, id, Flags::empty(), mode, path);
            file.sort_entries();
        }
        let mut tree = file.tree_mut();
        let mut steps = path.split_str("/").peekable();
        while let (Some(at), Some(step)) = (tree, steps.next()) {
            at.num_entries = None;
            if steps.peek().is_none() {
                at.children.retain(|it| it.name.as_slice() != step);
                break;
            }
            tree = at.children.iter_mut().find(|it| it.name.as_slice() == step);
        }
    }
    let mut bytes = Vec::new();
    let extensions = Extensions::Given { tree_cache: true, end_of_index_entry: false };
    let state: &gix::index::State = &file;
    state.write_to(&mut bytes, WriteOptions { extensions, skip_hash: false }).unwrap();
    let mut hasher = gix::hash::hasher(hash);
    hasher.update(&bytes);
    bytes.extend_from_slice(hasher.try_finalize().unwrap().as_slice());
    bytes
}

#[test]
fn git_reads_what_the_library_would_have_written() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse().ok()).unwrap_or(4);
    for kind in KINDS {
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let run = TestRunner::new(config).run(&batches(), |batches| {
            let fixture = Fixture::new(kind);
            let other = fixture.vault.root.join(".git/other");
            let hash = fixture.blobs[0].kind();
            let mut index = fixture.load();
            for (steps, is_read_again) in batches {
                if is_read_again {
                    index = fixture.load();
                }
                let patches = fixture.patches(&steps);
                let bytes = decoded_and_encoded(&fixture.path(), &patches, hash);
                std::fs::write(&other, bytes).unwrap();
                fixture.write(&mut index, &patches);
                assert_eq!(fixture.told(&fixture.path()), fixture.told(&other), "{kind}");
                // The checksum too, which only this asks for.
                fixture.vault.git(&["fsck"]);
                assert_eq!(index.differences(&fixture.load()), [""; 0], "{kind}");
            }
            Ok(())
        });
        run.unwrap_or_else(|err| panic!("{kind}: {err}"));
    }
}

#[test]
fn who_is_young_is_known_without_asking_everybody() {
    let fixture = Fixture::new("plain");
    let mut index = fixture.load();
    let step = |name, version, is_ahead| Step { name, version, is_ahead };
    for steps in [
        vec![step(0, Some(1), true), step(1, Some(1), false), step(40, Some(2), true)],
        vec![step(3, Some(1), true), step(40, None, false)],
        vec![step(0, Some(2), false)],
        vec![],
    ] {
        fixture.write(&mut index, &fixture.patches(&steps));
        assert_eq!(index.young(), fixture.load().young(), "{steps:?}");
    }
    assert_eq!(index.young(), ["d/a.md"]);
}

#[test]
fn names_as_long_as_they_can_be() {
    let fixture = Fixture::new("plain");
    let mut index = fixture.load();
    let before = index.entries().count();
    // At 4,095 bytes the length is no longer in the entry.
    let names: Vec<BString> = (4085..4105)
        .map(|len| BString::from("x/".repeat(len / 2) + &"y".repeat(len % 2 + 1)))
        .collect();
    let new = Some((fixture.blobs[1], Mode::FILE, Stat::default()));
    for name in &names {
        fixture.write(&mut index, &[Patch { path: name.clone(), new }]);
        // As many, and again read from the file.
        index = fixture.load();
        assert!(index.entry(name.as_bstr()).is_some_and(|it| it.id == fixture.blobs[1]));
    }
    assert_eq!(index.entries().count(), before + names.len());
    let listed = fixture.vault.git(&["ls-files", "x"]);
    assert!(names.iter().all(|it| listed.lines().any(|line| line.as_bytes() == it.as_slice())));
}

#[test]
fn a_damaged_file_is_none() {
    for kind in ["plain", "extended", "cached", "SHA-256"] {
        let fixture = Fixture::new(kind);
        let hash = fixture.blobs[0].kind();
        let mut bytes = std::fs::read(fixture.path()).unwrap();
        bytes.truncate(bytes.len() - hash.len_in_bytes());
        assert!(Image::of(bytes.clone(), hash).is_some(), "{kind}");
        let entries_end = Image::of(bytes.clone(), hash).unwrap().file(true).0.len();
        for end in 0..entries_end {
            assert!(Image::of(bytes[..end].to_vec(), hash).is_none(), "{kind} {end}");
        }
        // Whatever a byte becomes: an image that can be asked, or none.
        for at in 0..bytes.len() {
            let mut odd = bytes.clone();
            odd[at] ^= [0x01, 0x40, 0x80, 0xff][at % 4];
            if let Some(image) = Image::of(odd, hash) {
                assert!(image.entries().all(|it| image.entry(it.path).is_some() || it.stage() > 0));
            }
        }
    }
}

/// An index of so many entries whose last one changes: the bytes that were hashed for it, and how
/// many entries of the file are others then.
fn work_of_an_edit(count: usize) -> (u64, usize) {
    let hash = gix::hash::Kind::Sha1;
    let mut image = Image::empty(hash);
    let id = ObjectId::empty_blob(hash);
    let patch = |at: usize, ino| Patch {
        path: format!("notes/{at:09}.md").into(),
        new: Some((id, Mode::FILE, Stat { ino, ..Stat::default() })),
    };
    let all: Vec<_> = (0..count).map(|at| patch(at, 1)).collect();
    image.patch(&all).unwrap();
    let before = image.file(false).0.to_vec();
    let work = image.hashed();
    image.patch(&[patch(count - 1, 2)]).unwrap();
    let after = image.file(false).0.to_vec();
    let changed = before.chunks(88).zip(after.chunks(88)).filter(|it| it.0 != it.1).count();
    (image.hashed() - work, changed)
}

#[test]
fn an_edit_costs_as_much_in_a_large_index() {
    for count in [1000, 50_000] {
        let (hashed, changed) = work_of_an_edit(count);
        assert!(hashed <= STEP as u64 && changed == 1, "{count}: {hashed} bytes, {changed}");
    }
}

/// As the library asks for it.
#[test]
fn an_entry_is_found_at_each_stage() {
    let fixture = Fixture::new("conflict");
    let index = fixture.load();
    let options = gix::index::decode::Options::default();
    let hash = gix::hash::Kind::Sha1;
    let file = gix::index::File::at(fixture.path(), hash, true, options).unwrap();
    let names = NAMES.iter().map(|it| BStr::new(*it)).chain([BStr::new(""), BStr::new("folder1/")]);
    for name in names {
        let (ours, theirs) =
            (index.entry(name), file.entry_by_path_and_stage(name, Stage::Unconflicted));
        assert_eq!(ours.map(|it| (it.id, it.stat)), theirs.map(|it| (it.id, it.stat)), "{name}");
        let below: Vec<_> = index.below(name).collect();
        let theirs = file.prefixed_entries(name).unwrap_or_default();
        assert_eq!(below, theirs.iter().map(|it| it.path(&file)).collect::<Vec<_>>(), "{name}");
    }
    assert!(index.is_unmerged("m.md".into()) && !index.is_unmerged("a.md".into()));
}

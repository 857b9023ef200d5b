//! The tree against a model of it: random walks, opens, reads, listings and forgets, while notes
//! come and go and answers change. In this process, without the kernel (`kernel` goes through it).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use super::fake::Fake;
use super::reference::{Is, Place, meaning};
use crate::mount::answers::Answers;
use crate::mount::errno;
use crate::mount::fs::{Attr, Entry, FsError, Item, Kind, Reply, VaultFs};
use crate::mount::inode::ROOT;
use crate::mount::page::Limits;
use crate::mount::tally::Tally;
use crate::vault::VaultPath;

/// Small, so that pages fall out all the time.
const CACHE: usize = 20_000;

#[derive(Clone, Debug)]
enum Op {
    /// A name in a folder known from an earlier lookup.
    Lookup(Index, Vec<u8>),
    /// A name that an open folder lists.
    LookupListed(Index, Index),
    Stat(Index),
    Open(Index),
    Read(Index, u64, u32),
    OpenFolder(Index),
    List(Index),
    Close(Index),
    Forget(Index),
    /// Every answer is another one from now on.
    Say(usize),
    Partial(bool),
    Note(usize, bool),
    /// A commit: the same files, and every name in `at/` means another one.
    Commit,
}

const NOTES: &[&[u8]] = &[b"a.md", b"d/b.md", b"d/e/c.md", b"d/bad\xff.md", "d/é.md".as_bytes()];

pub fn name() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<Vec<u8>> = [
        "search",
        "nodes",
        "links",
        "note",
        "similar",
        "a.md.json",
        "b.md.md",
        "README.md",
        "status.md",
        "status.json",
        "q",
        "%71",
        "why not.md",
        "x.json",
        "a=b",
        "50%",
        "日記",
        "nothing",
        "panic",
        "broken",
        "refused",
        "later",
        "limit=3",
        "limit=1",
        "in=digest",
        "tag=x",
        "min_score=0.5",
        "limit=0",
        "since=soon",
        "tag=",
        ".git",
        "HEAD",
        "#a#",
        "autorun.INF",
        "lost+found",
        "a.md",
        "d",
        "b.md",
        "e",
        "c.md",
        "é.md",
        "backlinks",
        "01-a.md.md",
        "at",
        "history",
        "HEAD",
        "main",
        "feature%2Fx",
        "first",
        "in",
        "out",
        "run.sh",
        ".hidden",
        "gone",
        "old.md.versions",
        "a.md.versions",
        "b.md.versions",
        "none.md.versions",
        "2-2026-06-02-0000000.md",
        "recent",
        "tag",
        "x",
        "y",
        "01-top.md",
        "01-a.md.md",
        "02-d-b.md.md",
        "today.md",
        "orphans.md",
        "blame",
    ]
    .iter()
    .map(|it| it.as_bytes().to_vec())
    .chain([b"bad\xff.md".to_vec(), b"x".repeat(1024), b"x".repeat(1025)])
    .collect();
    let byte = any::<u8>().prop_filter("no name has it", |it| !matches!(it, 0 | b'/'));
    prop_oneof![
        8 => prop::sample::select(known),
        1 => prop::collection::vec(byte, 1..40)
            .prop_filter("the kernel keeps these", |it| it != b"." && it != b".."),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let at = any::<Index>;
    prop_oneof![
        10 => (at(), name()).prop_map(|(at, name)| Op::Lookup(at, name)),
        4 => (at(), at()).prop_map(|(at, item)| Op::LookupListed(at, item)),
        4 => at().prop_map(Op::Stat),
        5 => at().prop_map(Op::Open),
        5 => (at(), 0u64..9000, prop_oneof![Just(u32::MAX), 0u32..5000])
            .prop_map(|(at, offset, size)| Op::Read(at, offset, size)),
        5 => at().prop_map(Op::OpenFolder),
        3 => at().prop_map(Op::List),
        3 => at().prop_map(Op::Close),
        4 => at().prop_map(Op::Forget),
        2 => (0usize..3000).prop_map(Op::Say),
        1 => any::<bool>().prop_map(Op::Partial),
        2 => (0..NOTES.len(), any::<bool>()).prop_map(|(at, there)| Op::Note(at, there)),
        1 => Just(Op::Commit),
    ]
}

/// An inode that the kernel would know.
struct Known {
    number: u64,
    place: Place,
    lookups: u64,
}

/// What was open when, and what it gave first.
enum Held {
    Page { inode: u64, bytes: Vec<u8> },
    Folder { place: Place, moves: usize, items: Arc<[Item]> },
}

struct World {
    fake: Arc<Fake>,
    fs: VaultFs,
    tally: Tally,
    known: Vec<Known>,
    held: BTreeMap<u64, Held>,
    /// Whose number it is, over all views, forgotten or not.
    owners: HashMap<u64, Place>,
    /// The number of a place in one state of the answers.
    numbers: HashMap<(Place, u64), u64>,
    /// What an inode has said of its size since it was last forgotten.
    sizes: HashMap<u64, u64>,
    /// How often answers or notes have changed.
    moves: usize,
    ever_partial: bool,
    met: BTreeSet<&'static str>,
}

/// Waits for an answer, with a limit.
fn answer<T: Send + 'static>(ask: impl FnOnce(Reply<T>)) -> Result<T, FsError> {
    let (done, wait) = mpsc::channel();
    ask(Box::new(move |it| done.send(it).unwrap()));
    wait.recv_timeout(Duration::from_secs(20)).expect("an answer by the deadline")
}

impl World {
    fn new() -> Self {
        let fake = Arc::new(Fake::new("/nowhere/vault".into()));
        fake.notes.lock().unwrap().clear();
        let tally = Tally::default();
        let limits = Limits { cache_bytes: CACHE, ..Limits::default() };
        let answers = Arc::clone(&fake) as Arc<dyn Answers>;
        let fs = VaultFs::new(answers, "/nowhere/vault.fs".into(), limits, tally.clone()).unwrap();
        let mut world = Self {
            fake,
            fs,
            tally,
            known: vec![Known { number: ROOT, place: Place::Root, lookups: 1 }],
            held: BTreeMap::new(),
            owners: HashMap::from([(ROOT, Place::Root)]),
            numbers: HashMap::new(),
            sizes: HashMap::new(),
            moves: 0,
            ever_partial: false,
            met: BTreeSet::new(),
        };
        world.set_note(0, true);
        world.set_note(1, true);
        // Deep enough that few walks would come there by themselves.
        for name in ["at", "main", "d"] {
            let known = world.known.last().map(|it| (it.number, it.place.clone())).unwrap();
            let found = answer(|reply| world.fs.lookup(known.0, name.as_bytes(), reply));
            world.check_lookup(&known.1, name.as_bytes(), found);
        }
        world
    }

    fn view(&self) -> u64 {
        self.fake.view.load(Ordering::SeqCst)
    }

    fn set_note(&mut self, at: usize, there: bool) {
        let path = VaultPath::new(NOTES[at]).unwrap();
        let mut notes = self.fake.notes.lock().unwrap();
        if there {
            notes.insert(path, String::from_utf8_lossy(NOTES[at]).into_owned());
        } else {
            notes.remove(&path);
        }
        drop(notes);
        self.fake.view.fetch_add(1, Ordering::SeqCst);
        self.moves += 1;
    }

    fn notes(&self) -> Vec<Vec<u8>> {
        self.fake.notes.lock().unwrap().keys().map(|it| it.as_bytes().to_vec()).collect()
    }

    fn run(&mut self, op: Op) {
        let asked = self.fake.asked();
        match op {
            Op::Lookup(at, name) => {
                let parent = &self.known[at.index(self.known.len())];
                let (number, place) = (parent.number, parent.place.clone());
                let found = answer(|reply| self.fs.lookup(number, &name, reply));
                if !matches!(place, Place::Ranking(..)) {
                    assert_eq!(self.fake.asked(), asked, "a lookup of {name:?} asked something");
                }
                self.check_lookup(&place, &name, found);
            }
            Op::LookupListed(at, item) => self.look_up_listed(at, item),
            Op::Stat(at) => self.stat(at),
            Op::Open(at) => self.open(at),
            Op::Read(at, offset, size) => self.read(at, offset, size),
            Op::OpenFolder(at) => self.open_folder(at),
            Op::List(at) => {
                let Some(handle) = self.pick(at) else { return };
                let listed = self.fs.readdir(handle);
                match &self.held[&handle] {
                    Held::Folder { items, .. } => assert_eq!(listed.unwrap(), *items),
                    Held::Page { .. } => assert_eq!(listed.unwrap_err(), FsError::NotFolder),
                }
            }
            Op::Close(at) => {
                let Some(handle) = self.pick(at) else { return };
                self.fs.release(handle);
                self.held.remove(&handle);
                assert_eq!(self.fs.readdir(handle).unwrap_err(), FsError::NotOpen);
                assert!(matches!(self.fs.read(handle, 0, 1), Err(FsError::NotOpen)));
            }
            Op::Forget(at) => self.forget(at),
            Op::Say(length) => {
                self.fake.say(&"word ".repeat(length / 5));
                self.moves += 1;
            }
            Op::Partial(partial) => {
                *self.fake.partial.lock().unwrap() = partial.then(|| "40 %".to_owned());
                self.ever_partial |= partial;
                self.moves += 1;
            }
            Op::Note(at, there) => self.set_note(at, there),
            Op::Commit => {
                *self.fake.head.lock().unwrap() += 1;
                self.moves += 1;
            }
        }
        let counted = self.tally.read();
        // Folders of the past have room of their own.
        assert!(counted.cached_bytes <= CACHE + 16_384, "{counted:?}");
        assert_eq!(counted.open, self.held.len());
    }

    fn pick(&self, at: Index) -> Option<u64> {
        let handles: Vec<_> = self.held.keys().copied().collect();
        (!handles.is_empty()).then(|| handles[at.index(handles.len())])
    }

    /// What a lookup gave is what the model says, and numbers are stable and nobody else's.
    fn check_lookup(&mut self, parent: &Place, name: &[u8], found: Result<Entry, FsError>) {
        let wanted = meaning(parent, name, &self.notes());
        let (entry, place) = match (found, wanted) {
            (Ok(entry), Ok(place)) => (entry, place),
            (Err(err), Err(wanted)) => {
                self.met.insert(match wanted {
                    libc::ENOENT => "no such name",
                    libc::EILSEQ => "no text",
                    libc::ENAMETOOLONG => "too long",
                    libc::ENOTDIR => "below a page",
                    libc::EINVAL => "a bad option",
                    _ => "a page refused",
                });
                return assert_eq!(errno::of(&err), wanted, "{name:?}");
            }
            // Whether there is such a link is for the answer to say.
            (Err(_), Ok(Place::Ranked(..))) => return,
            (found, wanted) => panic!("{name:?} in {parent:?}: {found:?}, the model: {wanted:?}"),
        };
        self.enter(entry, place);
    }

    fn enter(&mut self, entry: Entry, place: Place) {
        let number = entry.attr.inode;
        assert!(number > ROOT && number < 1 << 53);
        let kind = match place.is() {
            Is::Folder => Kind::Folder,
            Is::File if place.is_program() => Kind::Program,
            Is::File => Kind::File,
            Is::Link => Kind::Link,
        };
        assert_eq!(entry.attr.kind, kind, "{place:?}");
        self.met.insert(match kind {
            Kind::Folder => "a folder",
            Kind::File => "a page",
            Kind::Link => "a link",
            Kind::Program => "a program",
        });
        if !self.owners.contains_key(&number) && self.owners.values().any(|it| *it == place) {
            self.met.insert("another page under the name");
        }
        let owner = self.owners.entry(number).or_insert_with(|| place.clone());
        assert_eq!(*owner, place, "one number, two places");
        if !self.ever_partial && !place.is_fleeting() && !place.is_of_the_past() {
            let view = if place.is_of_a_view() { self.view() } else { 0 };
            let first = *self.numbers.entry((place.clone(), view)).or_insert(number);
            // A link in a ranking belongs to the ranking's page, which may be of an older view.
            assert!(first == number || place.is() == Is::Link, "{place:?} has two numbers");
        }
        match self.known.iter_mut().find(|it| it.number == number) {
            Some(known) => known.lookups += 1,
            None => self.known.push(Known { number, place, lookups: 1 }),
        }
    }

    fn look_up_listed(&mut self, at: Index, item: Index) {
        let Some(handle) = self.pick(at) else { return };
        let Held::Folder { place, moves, items } = &self.held[&handle] else { return };
        let Some(folder) = self.known.iter().find(|it| it.place == *place) else { return };
        let item = items[item.index(items.len())].clone();
        if item.name == b"." || item.name == b".." || *moves != self.moves {
            return;
        }
        let is_of_a_page = matches!(place, Place::Ranking(..)) || place.is_of_the_past();
        let (place, ranking) = (place.clone(), is_of_a_page);
        let number = folder.number;
        let found = answer(|reply| self.fs.lookup(number, &item.name, reply));
        if ranking {
            // The folder may be known by an older inode than the one that was listed.
            return self.check_lookup(&place, &item.name, found);
        }
        let entry = found.expect("what is listed is there");
        self.met.insert("a listed name");
        assert_eq!(entry.attr.kind, item.kind);
        let place = meaning(&place, &item.name, &self.notes()).expect("what is listed is there");
        if !self.ever_partial && !place.is_fleeting() {
            assert_eq!(entry.attr.inode, item.inode, "`d_ino` is what `stat` says");
        }
        self.enter(entry, place);
    }

    /// Attributes, or an error that the place may give.
    fn stat(&mut self, at: Index) {
        let known = &self.known[at.index(self.known.len())];
        let (number, place) = (known.number, known.place.clone());
        match answer(|reply| self.fs.getattr(number, reply)) {
            Ok(attr) => {
                assert_eq!(attr.inode, number);
                self.same_size(&place, &attr);
            }
            Err(err) => self.check_refusal(number, &place, &err),
        }
    }

    fn same_size(&mut self, place: &Place, attr: &Attr) {
        if place.is() == Is::File {
            let said = *self.sizes.entry(attr.inode).or_insert(attr.size);
            assert_eq!(said, attr.size, "an inode said two sizes: {place:?}");
        }
    }

    fn open(&mut self, at: Index) {
        let known = &self.known[at.index(self.known.len())];
        let (number, place) = (known.number, known.place.clone());
        let handle = match answer(|reply| self.fs.open(number, reply)) {
            Ok(opened) => opened.handle,
            // The kernel follows links by itself and opens none.
            Err(_) if place.is() == Is::Link => return,
            Err(FsError::IsFolder) => return assert_eq!(place.is(), Is::Folder),
            Err(err) => return self.check_refusal(number, &place, &err),
        };
        assert_eq!(place.is(), Is::File, "{place:?}");
        let bytes = self.fs.read(handle, 0, u32::MAX).unwrap().bytes().to_vec();
        let size = u64::try_from(bytes.len()).unwrap();
        let attr = answer(|reply| self.fs.getattr(number, reply)).unwrap();
        assert_eq!(attr.size, size, "`fstat` of an open file is exact");
        self.same_size(&place, &attr);
        self.met.insert("a page open");
        self.held.insert(handle, Held::Page { inode: number, bytes });
    }

    fn read(&mut self, at: Index, offset: u64, size: u32) {
        let Some(handle) = self.pick(at) else { return };
        let read = self.fs.read(handle, offset, size);
        match &self.held[&handle] {
            Held::Page { bytes, .. } => {
                let start = usize::try_from(offset).unwrap().min(bytes.len());
                let end = (start + usize::try_from(size).unwrap()).min(bytes.len());
                assert_eq!(read.unwrap().bytes(), &bytes[start..end], "the page is pinned");
                self.met.insert("a page read");
            }
            Held::Folder { .. } => assert!(matches!(read, Err(FsError::IsFolder))),
        }
    }

    fn open_folder(&mut self, at: Index) {
        let asked = self.fake.asked();
        let known = &self.known[at.index(self.known.len())];
        let (number, place) = (known.number, known.place.clone());
        let handle = match answer(|reply| self.fs.opendir(number, reply)) {
            Ok(handle) => handle,
            Err(FsError::NotFolder) => return assert_ne!(place.is(), Is::Folder),
            Err(err) => return self.check_refusal(number, &place, &err),
        };
        assert_eq!(place.is(), Is::Folder);
        if !matches!(place, Place::Ranking(..)) {
            assert_eq!(self.fake.asked(), asked, "listing {place:?} asked something");
        }
        let items = self.fs.readdir(handle).unwrap();
        let mut names: Vec<_> = items.iter().map(|it| it.name.clone()).collect();
        assert_eq!(&names[..2], [b".".to_vec(), b"..".to_vec()]);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), items.len(), "a name twice in {place:?}");
        if let Some(wanted) = place.lists(&self.notes()) {
            assert_eq!(names[2..], wanted, "{place:?}");
        }
        self.met.insert("a listing");
        self.held.insert(handle, Held::Folder { place, moves: self.moves, items });
    }

    fn forget(&mut self, at: Index) {
        let at = at.index(self.known.len());
        if self.known[at].number == ROOT {
            return;
        }
        let known = self.known.swap_remove(at);
        // In two steps, as the kernel may.
        self.fs.forget(known.number, known.lookups - 1);
        self.fs.forget(known.number, 1);
        self.sizes.remove(&known.number);
        let gone = answer(|reply| self.fs.getattr(known.number, reply));
        assert_eq!(gone.unwrap_err(), FsError::Stale, "forgotten is forgotten");
        // What is open of it stays whole.
        for (handle, held) in &self.held {
            if let Held::Page { inode, bytes } = held
                && *inode == known.number
            {
                assert_eq!(self.fs.read(*handle, 0, u32::MAX).unwrap().bytes(), bytes);
                self.met.insert("forgotten while open");
            }
        }
    }

    /// Why the page of a known inode may be refused.
    fn check_refusal(&mut self, number: u64, place: &Place, err: &FsError) {
        if *err == FsError::Stale {
            // Its page fell out, and the answer is another one now; never where it had said nothing.
            assert!(self.moves > 2 && self.sizes.contains_key(&number), "{place:?} is stale");
            return;
        }
        assert_eq!(Some(errno::of(err)), place.refusal(&self.notes()), "{place:?}: {err}");
        self.met.insert("a page refused");
    }
}

/// What a run must have met at least once, so that the walks above go everywhere.
const MET: &[&str] = &[
    "a folder",
    "a page",
    "a link",
    "a program",
    "no such name",
    "a bad option",
    "no text",
    "too long",
    "below a page",
    "a page open",
    "a page read",
    "a listing",
    "a listed name",
    "a page refused",
    "forgotten while open",
    "another page under the name",
];

#[test]
fn whatever_is_done_the_tree_is_as_the_model_says() {
    let met = RefCell::new(BTreeSet::new());
    let mut runner = TestRunner::new(Config { cases: 250, ..Config::default() });
    let ran = runner.run(&prop::collection::vec(op(), 1..150), |ops| {
        let mut world = World::new();
        for op in ops {
            world.run(op);
        }
        for handle in world.held.keys() {
            world.fs.release(*handle);
        }
        prop_assert_eq!(world.tally.read().open, 0);
        met.borrow_mut().extend(world.met);
        Ok(())
    });
    if let Err(err) = ran {
        panic!("{err}");
    }
    let missed: Vec<_> = MET.iter().filter(|it| !met.borrow().contains(**it)).collect();
    assert!(missed.is_empty(), "no walk met {missed:?}");
}

/// An inode whose page fell out says what it said, and gives no other bytes under its number.
#[test]
fn an_inode_never_gives_the_bytes_of_another_page() {
    let world = World::new();
    let fs = &world.fs;
    let find = |parent, name: &str| {
        answer(|reply| fs.lookup(parent, name.as_bytes(), reply)).unwrap().attr.inode
    };
    let search = find(ROOT, "search");
    let old = find(search, "q");
    let held = answer(|reply| fs.open(old, reply)).unwrap().handle;
    let bytes = fs.read(held, 0, u32::MAX).unwrap().bytes().to_vec();
    world.fake.say(&"longer ".repeat(500));
    for number in 0..50 {
        let other = find(search, &format!("other {number}"));
        fs.release(answer(|reply| fs.open(other, reply)).unwrap().handle);
    }
    assert_eq!(answer(|reply| fs.open(old, reply)).unwrap_err(), FsError::Stale);
    let attr = answer(|reply| fs.getattr(old, reply)).unwrap();
    assert_eq!(attr.size, bytes.len() as u64);
    assert_eq!(fs.read(held, 0, u32::MAX).unwrap().bytes(), bytes, "who has it open reads on");
    let new = find(search, "q");
    assert_ne!(new, old);
    let opened = answer(|reply| fs.open(new, reply)).unwrap().handle;
    assert!(fs.read(opened, 0, u32::MAX).unwrap().bytes().len() > bytes.len());
}

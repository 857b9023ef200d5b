//! Faked answers and a mount over them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::mount::answers::{Answers, EntryKind, Means, Unanswered};
use crate::mount::mountpoint;
use crate::mount::page::Limits;
use crate::mount::session::{MountError, Mounted, Wish, check_device, mount_within};
use crate::mount::tally::Tally;
use crate::render::AsOf;
use crate::render::links::{Direction, Links};
use crate::render::nodes::{Node, Nodes};
use crate::render::status::Status;
use crate::search::{BranchState, ENOUGH, Hit, Neighbour, Query, Results, UNASKED};
use crate::vault::{ChunkId, CommitId, VaultPath};

/// Answers that a test can change, hold up and count.
pub struct Fake {
    root: PathBuf,
    pub view: AtomicU64,
    /// How many times what stands behind a page was asked.
    pub asked: AtomicUsize,
    /// Whether questions go to a provider, and which it was sent.
    pub outside: AtomicBool,
    pub sent: Mutex<Vec<String>>,
    /// What every passage says once the provider was asked.
    pub outside_text: Mutex<String>,
    /// What every passage says; its length is the page's length, more or less.
    pub text: Mutex<String>,
    pub partial: Mutex<Option<String>>,
    pub notes: Mutex<BTreeMap<VaultPath, String>>,
    /// Searches for `slow …` wait while this is true.
    held: Mutex<bool>,
    let_go: Condvar,
    pub took: Duration,
    /// How far HEAD has moved.
    pub head: Mutex<usize>,
    /// How many folders and files of the past were read.
    pub folders_read: AtomicUsize,
    pub blobs_read: AtomicUsize,
}

impl Fake {
    pub fn new(root: PathBuf) -> Self {
        let notes = [&b"memory/a.md"[..], b"memory/2026/b.md", b"top.md", b"memory/bad\xff.md"];
        let notes =
            notes.map(|it| (VaultPath::new(it).unwrap(), String::from_utf8_lossy(it).into()));
        Self {
            root,
            view: AtomicU64::new(1),
            asked: AtomicUsize::new(0),
            outside: AtomicBool::new(false),
            sent: Mutex::default(),
            outside_text: Mutex::default(),
            text: Mutex::new("# Passage\n\nneedle".to_owned()),
            partial: Mutex::new(None),
            notes: Mutex::new(BTreeMap::from(notes)),
            held: Mutex::new(false),
            let_go: Condvar::new(),
            took: Duration::ZERO,
            head: Mutex::default(),
            folders_read: AtomicUsize::default(),
            blobs_read: AtomicUsize::default(),
        }
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// From now on every passage says `text`.
    pub fn say(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap());
        self.view.fetch_add(1, Ordering::SeqCst);
    }

    /// Holds up searches for `slow …`, or lets them go.
    pub fn hold(&self, held: bool) {
        *self.held.lock().unwrap() = held;
        self.let_go.notify_all();
    }

    /// The branch of vectors: sent once, and known from then on.
    fn vector(&self, query: &Query, means: Means) -> BranchState {
        if !self.asks_outside() {
            return BranchState::Off("no model");
        }
        let mut sent = self.sent.lock().unwrap();
        match (sent.contains(&query.text), means) {
            (true, _) => BranchState::Used(1),
            (false, Means::AtHand) => BranchState::Off(UNASKED),
            (false, Means::Outside) if query.text == "silent" => BranchState::Off(ENOUGH),
            (false, Means::Outside) => {
                sent.push(query.text.clone());
                BranchState::Used(1)
            }
        }
    }

    fn as_of(&self) -> AsOf {
        AsOf { at: CommitId::from_bytes(&[0x4f; 20]), ..AsOf::default() }
    }
}

impl Answers for Fake {
    fn view(&self) -> u64 {
        self.view.load(Ordering::SeqCst)
    }

    fn asks_outside(&self) -> bool {
        self.outside.load(Ordering::SeqCst)
    }

    fn search(&self, query: &Query, means: Means, _until: Instant) -> Result<Results, Unanswered> {
        let vector = self.vector(query, means);
        self.asked.fetch_add(1, Ordering::SeqCst);
        if query.text.starts_with("slow") {
            let held = self.held.lock().unwrap();
            drop(self.let_go.wait_while(held, |it| *it).unwrap());
        }
        if self.took > Duration::ZERO {
            let start = Instant::now();
            while start.elapsed() < self.took {
                std::hint::spin_loop();
            }
        }
        match query.text.as_str() {
            "panic" => panic!("on purpose"),
            "broken" => return Err(Unanswered::Failed("the index is gone".to_owned())),
            "refused" => return Err(Unanswered::Refused("no pattern".to_owned())),
            "later" => return Err(Unanswered::NotYet("warming up".to_owned())),
            _ => {}
        }
        let hits = if query.text == "nothing" {
            Vec::new()
        } else {
            let notes = self.notes.lock().unwrap();
            let mut text = self.text.lock().unwrap().clone();
            if vector.found() > 0 {
                text.clone_from(&self.outside_text.lock().unwrap());
            }
            notes.iter().take(query.limit).map(|(path, name)| hit(path, name, &text)).collect()
        };
        Ok(Results {
            hits,
            at: self.as_of().at,
            commits_behind: 0,
            edits_uncommitted: 0,
            kept_out: 0,
            unseen: None,
            notes_in_part: 0,
            keyword: BranchState::Used(3),
            vector,
            partial: self.partial.lock().unwrap().clone(),
            ranking: "bm25".to_owned(),
            fusion: None,
            dedup: None,
            rerank: crate::search::Rerank::Off,
        })
    }

    fn nodes(&self, query: &Query, means: Means, _until: Instant) -> Result<Nodes, Unanswered> {
        let vector = self.vector(query, means);
        self.asked.fetch_add(1, Ordering::SeqCst);
        let node = Node {
            path: VaultPath::new("digest/wiki/bicycle.md").unwrap(),
            name: query.text.clone(),
            description: None,
            score: 1.0,
        };
        Ok(Nodes {
            hits: vec![node],
            candidates: 1,
            keyword: BranchState::Used(1),
            vector,
            as_of: self.as_of(),
            partial: None,
        })
    }

    fn similar(
        &self,
        path: &VaultPath,
        limit: usize,
        until: Instant,
    ) -> Result<Option<Results>, Unanswered> {
        let is_known = self.notes.lock().unwrap().contains_key(path);
        let query = Query { limit, ..Query::new(path.to_string()) };
        is_known.then(|| self.search(&query, Means::AtHand, until)).transpose()
    }

    fn entry(&self, path: &VaultPath) -> Option<EntryKind> {
        let notes = self.notes.lock().unwrap();
        if notes.contains_key(path) {
            return Some(EntryKind::Note);
        }
        notes.keys().any(|it| it.is_within(path.as_bytes())).then_some(EntryKind::Folder)
    }

    fn entries(&self, folder: &VaultPath) -> Vec<(Vec<u8>, EntryKind)> {
        let notes = self.notes.lock().unwrap();
        let mut entries = BTreeMap::new();
        for path in notes.keys().filter(|it| it.is_within(folder.as_bytes()) && *it != folder) {
            let rest = &path.as_bytes()[folder.as_bytes().len() + 1..];
            let mut parts = rest.splitn(2, |it| *it == b'/');
            let name = parts.next().unwrap().to_vec();
            let kind = if parts.next().is_some() { EntryKind::Folder } else { EntryKind::Note };
            entries.insert(name, kind);
        }
        entries.into_iter().collect()
    }

    fn links(&self, path: &VaultPath, direction: Direction) -> Option<Links> {
        let notes = self.notes.lock().unwrap();
        let name = notes.get(path)?;
        let neighbour = Neighbour {
            path: path.clone(),
            name: format!("{direction:?} {name}"),
            description: None,
            anchors: Vec::new(),
            relation: None,
        };
        Some(Links { neighbours: vec![neighbour], as_of: self.as_of() })
    }

    fn status(&self) -> Status {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        Status { verdict: "ok".to_owned(), summary: format!("asked {asked}"), ..Status::default() }
    }

    fn vault_root(&self) -> &Path {
        &self.root
    }
}

fn hit(path: &VaultPath, name: &str, text: &str) -> Hit {
    Hit {
        id: ChunkId(name.to_owned()),
        path: path.clone(),
        start_line: 1,
        end_line: 3,
        score: 1.5,
        vector: None,
        keyword: Some(1.5),
        name: name.to_owned(),
        description: None,
        headings: Vec::new(),
        text: text.to_owned(),
        uncommitted: false,
        outlinks: Vec::new(),
        outlinks_total: 0,
        inlinks: Vec::new(),
        inlinks_total: 0,
        superseded: None,
        trace: Vec::new(),
    }
}

/// A vault, its mount and the answers behind it. Unmounts when dropped, also in a failed test.
pub struct House {
    pub dir: tempfile::TempDir,
    pub fake: Arc<Fake>,
    pub mounted: Option<Mounted>,
    pub mount: PathBuf,
    pub tally: Tally,
}

impl House {
    /// `None` where there is no FUSE and that is known; a failed test where it is not known.
    pub fn open() -> Option<Self> {
        Self::open_within(Limits::default())
    }

    pub fn open_within(limits: Limits) -> Option<Self> {
        if let Err(err) = check_device() {
            require_or_tell(&err);
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let vault = root.join("vault");
        std::fs::create_dir(&vault).unwrap();
        std::fs::create_dir(vault.join("memory")).unwrap();
        std::fs::write(vault.join("top.md"), "top\n").unwrap();
        std::fs::write(vault.join("memory/a.md"), "a\n").unwrap();
        let mount = mountpoint::default_mountpoint(&vault);
        let fake = Arc::new(Fake::new(vault));
        let tally = Tally::default();
        let record = record_of(fake.vault_root());
        let wish = Wish { place: &mount, record: &record, tally: &tally };
        let mounted = mount_within(Arc::clone(&fake) as Arc<dyn Answers>, wish, limits).unwrap();
        Some(Self { dir, fake, mounted: Some(mounted), mount, tally })
    }

    pub fn vault(&self) -> &Path {
        self.fake.vault_root()
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.mount.join(below)
    }

    pub fn read(&self, below: &str) -> String {
        let read = std::fs::read_to_string(self.path(below));
        read.unwrap_or_else(|err| panic!("{below}: {err}"))
    }

    /// The errno of a failed look or read.
    pub fn errno(&self, below: impl AsRef<Path>) -> i32 {
        match std::fs::read(self.mount.join(&below)) {
            Err(err) => err.raw_os_error().unwrap(),
            Ok(_) => panic!("{} can be read", below.as_ref().display()),
        }
    }

    /// Runs a shell line in the mount, with a deadline.
    pub fn sh(&self, line: &str) -> Output {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "60", "bash", "-c", line]).current_dir(&self.mount);
        command.env("LC_ALL", "C").env("OUT", self.dir.path());
        command.output().unwrap()
    }

    /// The same, and it must succeed.
    #[track_caller]
    pub fn says(&self, line: &str) -> String {
        let output = self.sh(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.fake.hold(false);
        self.mounted.take();
        if mountpoint::device_at(&self.mount).is_some() {
            let detached = mountpoint::detach(&self.mount);
            eprintln!("a test left its mount behind: {detached:?}");
        }
    }
}

/// Mounts for a test, its record beside the vault.
pub fn mount(answers: Arc<dyn Answers>, place: &Path) -> Result<Mounted, MountError> {
    let record = record_of(answers.vault_root());
    let wish = Wish { place, record: &record, tally: &Tally::default() };
    mount_within(answers, wish, Limits::default())
}

/// Where a test's vault has its record.
pub fn record_of(vault: &Path) -> PathBuf {
    vault.with_extension("record")
}

/// Fails with the remedy, or tells once, straight to stderr, that the mount tests do not run.
pub fn require_or_tell(err: &MountError) {
    use std::io::Write as _;
    use std::sync::Once;

    static TOLD: Once = Once::new();
    let hint = err.hint().unwrap_or_default();
    assert!(
        std::env::var_os("REMD_TEST_NO_FUSE").is_some_and(|it| it == "1"),
        "mount tests cannot run here: {err}\nhint: {hint}\nhint: `REMD_TEST_NO_FUSE=1` leaves \
         them out"
    );
    // Not through `eprintln!`, which the test harness swallows.
    TOLD.call_once(|| {
        let line = format!("MOUNT TESTS DID NOT RUN: {err}. {hint}\n");
        let _written = std::io::stderr().write_all(line.as_bytes());
    });
}

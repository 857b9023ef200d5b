//! Small vaults for tests.
//!
//! Takes paths and texts, gives updates, indexes in temporary folders, and what a view says in a
//! form that can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sha2::Digest as _;
use tempfile::TempDir;

use crate::base::clock;
use crate::embed::{Answer, EmbedError, Embedder, Identity, Normalisation, Purpose, Slot, Vector};
use crate::index::{Ask, Index, IndexView, Opened, Update};
use crate::vault::note::read_note;
use crate::vault::role::role_of;
use crate::vault::{BlobId, CommitId, Layout, VaultPath};

pub(crate) fn path(text: impl AsRef<[u8]>) -> VaultPath {
    VaultPath::new(text).unwrap()
}

pub(crate) fn commit(number: u8) -> CommitId {
    CommitId::from_bytes(&[number; 20]).unwrap()
}

pub(crate) fn blob(bytes: &[u8]) -> BlobId {
    BlobId::from_bytes(&sha2::Sha256::digest(bytes)).unwrap()
}

pub(crate) fn put(at: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> Update {
    let (path, text) = (path(at), text.as_ref());
    let role = role_of(&path, &Layout::default());
    Update::Put { blob: blob(text), role, doc: read_note(&path, text), path }
}

pub(crate) fn remove(at: impl AsRef<[u8]>) -> Update {
    Update::Remove(path(at))
}

/// A model for tests: each word has a direction of its own, of its hash, `bike` that of `bicycle`,
/// and `silent` none.
pub(crate) struct WordModel {
    identity: Identity,
    /// Whether it gives no answer now.
    pub(crate) is_away: AtomicBool,
    /// Whether it takes no text, and says so.
    pub(crate) refuses: AtomicBool,
    /// Of texts with this word it gives none in time, nor of those behind them.
    pub(crate) too_much: Mutex<Option<&'static str>>,
    /// Of how many texts it was asked for vectors.
    pub(crate) asked: AtomicUsize,
}

impl WordModel {
    /// One that costs nothing to ask.
    pub(crate) fn instant(name: &str) -> Arc<Self> {
        Self::of("static", name)
    }

    /// One behind a wire.
    pub(crate) fn remote(name: &str) -> Arc<Self> {
        Self::of("openai", name)
    }

    /// One on board whose vectors take more than the words.
    pub(crate) fn wide(name: &str) -> Arc<Self> {
        let mut model = Self::of("static", name);
        if let Some(own) = Arc::get_mut(&mut model) {
            own.identity.dimension = 2048;
        }
        model
    }

    fn of(backend: &str, name: &str) -> Arc<Self> {
        let identity = Identity {
            backend: backend.into(),
            model: name.into(),
            dimension: 16,
            source: "test".into(),
            normalisation: Normalisation::L2,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        };
        Arc::new(Self {
            identity,
            is_away: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            too_much: Mutex::new(None),
            asked: AtomicUsize::new(0),
        })
    }

    pub(crate) fn vector(&self, text: &str) -> Option<Vector> {
        let mut sum = vec![0.0; self.identity.dimension];
        let words = text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
        for word in words.map(str::to_lowercase).filter(|it| it != "silent") {
            let word = if word == "bike" { "bicycle" } else { &word };
            let hash = sha2::Sha256::digest(format!("{} {word}", self.identity.model));
            for (sum, byte) in sum.iter_mut().zip(hash.into_iter().cycle()) {
                *sum += f32::from(byte) - 127.5;
            }
        }
        Vector::new(sum).ok()
    }
}

impl Embedder for WordModel {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn window(&self) -> usize {
        100
    }

    fn count(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn embed(&self, texts: &[&str], _purpose: Purpose, _deadline: Instant) -> Answer {
        if self.is_away.load(Ordering::SeqCst) {
            let stopped = Some(EmbedError::Transport("connection refused".to_owned()));
            return Answer { slots: vec![Slot::Missing; texts.len()], stopped };
        }
        self.asked.fetch_add(texts.len(), Ordering::SeqCst);
        if self.refuses.load(Ordering::SeqCst) {
            let slots = vec![Slot::Refused("vector is zero".to_owned()); texts.len()];
            return Answer { slots, stopped: None };
        }
        let slot = |text: &&str| self.vector(text).map_or(Slot::Silent, Slot::whole);
        let mut slots: Vec<Slot> = texts.iter().map(slot).collect();
        let too_much = *self.too_much.lock().unwrap();
        let at = too_much.and_then(|word| texts.iter().position(|it| it.contains(word)));
        slots[at.unwrap_or(texts.len())..].fill(Slot::Missing);
        Answer { slots, stopped: at.map(|_| EmbedError::Timeout(Duration::ZERO)) }
    }
}

/// An index in `dir` with what `model` makes of the notes, built from `updates` if it has to be.
pub(crate) fn open_with_model(
    dir: &Path,
    model: Arc<dyn Embedder>,
    updates: Vec<Update>,
    at: CommitId,
) -> Index {
    let (mut index, opened) = Index::open_with_model(dir, &Layout::default(), model).unwrap();
    match opened {
        Opened::Ready { .. } => index.apply(updates, at).unwrap(),
        Opened::Rebuild(_) => rebuild(&mut index, updates, at),
        Opened::Unfinished => panic!("a build was left off"),
    }
    index
}

/// Makes all vectors that are missing.
pub(crate) fn make_vectors(index: &mut Index) {
    let deadline = clock::now() + Duration::from_secs(60);
    while index.owes_vectors() {
        assert!(clock::now() < deadline, "vectors come to an end");
        index.tend_vectors(clock::now()).unwrap();
    }
}

/// An index in `dir`, built from `notes` if it has to be.
pub(crate) fn open(dir: &Path, updates: Vec<Update>, at: CommitId) -> Index {
    let (mut index, opened) = Index::open(dir, &Layout::default()).unwrap();
    match opened {
        Opened::Ready { .. } => index.apply(updates, at).unwrap(),
        Opened::Rebuild(_) => rebuild(&mut index, updates, at),
        Opened::Unfinished => panic!("a build was left off"),
    }
    index
}

pub(crate) fn rebuild(index: &mut Index, updates: Vec<Update>, at: CommitId) {
    let mut rebuild = index.begin_rebuild(updates.len()).unwrap();
    for update in updates {
        if let Update::Put { path, blob, role, doc } = update {
            rebuild.add(&path, blob, role, &doc).unwrap();
        }
    }
    rebuild.finish(at).unwrap();
}

pub(crate) fn built<P: AsRef<[u8]>, T: AsRef<[u8]>>(
    notes: impl IntoIterator<Item = (P, T)>,
) -> (TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let updates = notes.into_iter().map(|(path, text)| put(path, text)).collect();
    let index = open(dir.path(), updates, commit(1));
    (dir, index)
}

pub(crate) fn hits(view: &IndexView, text: &str) -> BTreeSet<(String, u32)> {
    let deadline = clock::now() + Duration::from_secs(60);
    let found = view.find(&Ask::new(text), &|_| true, 200, deadline).unwrap();
    assert!(!found.cut);
    let line = |it: &crate::index::Candidate| it.card.chunks.get(it.chunk).map_or(0, |it| it.0);
    found.candidates.iter().map(|it| (it.card.path.to_string(), line(it))).collect()
}

/// All that a view knows of its notes.
pub(crate) fn facts(view: &Arc<IndexView>) -> BTreeMap<String, String> {
    view.notes()
        .iter()
        .map(|card| {
            let ties = |ties: &[crate::index::Tie]| -> Vec<String> {
                let tie = |it: &crate::index::Tie| {
                    format!("{} {:?} {:?}", it.card.path, it.anchors, it.relation)
                };
                ties.iter().map(tie).collect()
            };
            let fact = format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {:?} out {:?} in {:?}",
                card.blob,
                card.role,
                card.name,
                card.description,
                card.tags,
                card.date,
                card.chunks,
                ties(&view.outlinks(&card.path)),
                ties(&view.inlinks(&card.path)),
            );
            (card.path.to_string(), fact)
        })
        .collect()
}

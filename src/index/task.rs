//! Vectors to be made away from the index's thread.
//!
//! Takes the passages of notes that lack vectors, gives rows. Blocking, as long as a provider
//! takes; any thread.
//!
//! **Invariant:** a note's rows are all there or none; what came before a failure counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::clock;
use crate::embed::{EmbedError, Embedder, Identity, Purpose, Slot, windows};
use crate::index::rows::Row;

/// Notes to make vectors of.
pub struct Task {
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) space: Space,
    /// The passages of each.
    pub(super) notes: Vec<(u64, Vec<String>)>,
    /// Whether the model failed on each of them while it answered others.
    pub(super) is_again: bool,
}

/// What a task is for: a folder of vectors, and the index that it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Space {
    pub(super) folder: PathBuf,
    pub(super) generation: String,
    /// Of which opening: notes that are put after another one may have the numbers of these.
    pub(super) opening: u64,
}

impl Space {
    /// Another number for each opening in this process.
    pub(super) fn opening() -> u64 {
        static OPENINGS: AtomicU64 = AtomicU64::new(0);
        OPENINGS.fetch_add(1, Ordering::SeqCst)
    }
}

/// What came of a task.
pub struct Made {
    pub(super) space: Space,
    pub(super) notes: BTreeMap<u64, Vec<Row>>,
    /// Notes of which the model does not take a text, and why: they have the vectors of the rest.
    pub(super) refused: BTreeMap<u64, String>,
    /// The notes that were asked for.
    pub(super) asked: Vec<u64>,
    pub(super) blame: Blame,
}

/// Whose fault it is that some notes have no vectors yet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum Blame {
    #[default]
    Unknown,
    /// The model does not answer anybody: it has nothing to do with the notes.
    Model,
    /// The model answers others: why it does not answer for these.
    Notes(String),
    /// There is none, and the model did not answer before.
    Recovered,
}

impl Made {
    /// What is lacking is lacking because the model answers nobody.
    pub fn blame_model(&mut self) {
        self.blame = Blame::Model;
    }

    /// What is lacking is lacking although the model answers others.
    pub fn blame_notes(&mut self, why: String) {
        self.blame = Blame::Notes(why);
    }

    /// The model answers again.
    pub fn is_recovery(&mut self) {
        self.blame = Blame::Recovered;
    }
}

/// How long a provider may take for the texts of one step.
pub(super) const STEP_LIMIT: Duration = Duration::from_secs(60);
/// So many texts are one step.
const STEP: usize = 64;
/// Of a longer passage the beginning counts: one line of megabytes is no prose.
const LONGEST_PASSAGE: usize = 16 << 10;

impl Task {
    /// How many notes it is about.
    pub fn notes(&self) -> usize {
        self.notes.len()
    }

    /// Who is asked.
    pub fn embedder(&self) -> Arc<dyn Embedder> {
        Arc::clone(&self.embedder)
    }

    /// Whether the model failed on each of them while it answered others.
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// Makes them, and says why where not all were made.
    pub fn run(self, is_stopped: &dyn Fn() -> bool) -> (Made, Option<EmbedError>) {
        let passages = self
            .notes
            .iter()
            .flat_map(|(id, texts)| (0..).zip(texts).map(|(chunk, text)| (*id, chunk, &**text)));
        let (mut rows, failed) = make_rows(&*self.embedder, passages, is_stopped);
        let made = self.notes.iter().map(|it| it.0).filter(|it| !rows.lacking.contains(it));
        let notes = made.map(|id| (id, rows.made.remove(&id).unwrap_or_default())).collect();
        let asked = self.notes.iter().map(|it| it.0).collect();
        let (refused, blame) = (rows.refused, Blame::Unknown);
        (Made { space: self.space, notes, refused, asked, blame }, failed)
    }
}

/// Rows by note.
#[derive(Default)]
pub(super) struct MadeRows {
    pub(super) made: BTreeMap<u64, Vec<Row>>,
    /// Notes of whose texts some have no answer yet.
    pub(super) lacking: BTreeSet<u64>,
    /// Notes of whose texts some will have none, and why.
    pub(super) refused: BTreeMap<u64, String>,
}

/// The vectors of passages (note, chunk, text), window by window; and why some did not come.
pub(super) fn make_rows<'a>(
    embedder: &dyn Embedder,
    passages: impl Iterator<Item = (u64, u32, &'a str)>,
    is_stopped: &dyn Fn() -> bool,
) -> (MadeRows, Option<EmbedError>) {
    let mut places: Vec<(u64, u32, u32)> = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    for (id, chunk, text) in passages {
        let text = &text[..text.floor_char_boundary(LONGEST_PASSAGE)];
        let parts = windows(text, embedder.window(), &|it| embedder.count(it));
        for (window, range) in (0u32..).zip(parts) {
            places.push((id, chunk, window));
            texts.push(&text[range]);
        }
    }
    let mut rows = MadeRows::default();
    let mut failed = None;
    for (places, texts) in places.chunks(STEP).zip(texts.chunks(STEP)) {
        if failed.is_some() || is_stopped() {
            rows.lacking.extend(places.iter().map(|it| it.0));
            continue;
        }
        let answer = embedder.embed(texts, Purpose::Passage, clock::now() + STEP_LIMIT);
        failed = answer.stopped;
        for ((id, chunk, window), slot) in places.iter().copied().zip(answer.slots) {
            match slot {
                Slot::Vector { vector, .. } => match embedder.identity().check(&vector) {
                    Ok(()) => rows.made.entry(id).or_default().push(Row { chunk, window, vector }),
                    // One of another size lies in no space of ours.
                    Err(err) => drop(rows.refused.entry(id).or_insert_with(|| err.to_string())),
                },
                Slot::Refused(why) => drop(rows.refused.entry(id).or_insert(why)),
                Slot::Silent => {}
                Slot::Missing => {
                    rows.lacking.insert(id);
                    // A model that says nothing more has used up its time.
                    failed.get_or_insert(EmbedError::Timeout(STEP_LIMIT));
                }
            }
        }
    }
    (rows, failed)
}

/// Whether a model's vectors cost so little that they are made while somebody waits.
pub(super) fn is_instant(identity: &Identity) -> bool {
    identity.backend == "static"
}

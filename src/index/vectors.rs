//! Keeps the vectors of the living notes.
//!
//! Takes notes as they come, gives blocks of their vectors: in memory at once, in files with the
//! next flush. Which living note has none yet (a crash, another model, a damaged file, an index
//! from before) is asked of the blocks themselves, never remembered: whoever lacks vectors gets
//! them in steps, while everything is searched. Blocking; the indexer's thread.
//!
//! **Invariant:** a note's number names one version of it in one generation of the index, so that
//! its vectors are right or not there; vectors of another space or generation never count.

mod at_rest;
mod drawn;
mod error;
mod mute;
mod tried;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::base::clock;
use crate::base::fs;
use crate::base::trouble::told;
use crate::embed::{EmbedError, Embedder, Identity};
use crate::index::card::Card;
use crate::index::error::IndexError;
use crate::index::meaning::Meaning;
use crate::index::merge::worth_merging;
use crate::index::neighbours::Neighbours;
use crate::index::rows::{Heading, Row, Rows, RowsError};
use crate::index::state::State;
use crate::index::task::{Blame, Made, STEP_LIMIT, Space, Task, is_instant, make_rows};
use crate::index::vectors::tried::Tried;
use crate::vault::{Chunk, NoteDoc};

pub(super) use at_rest::AtRest;
pub use error::VectorsError;

/// The vectors of one space, and who makes them.
#[derive(Clone)]
pub(super) struct Vectors {
    embedder: Arc<dyn Embedder>,
    /// Whether a vector costs so little that it is made while a note is put.
    is_instant: bool,
    heading: Heading,
    /// Of all spaces.
    root: PathBuf,
    folder: PathBuf,
    /// In files, oldest first.
    disk: Vec<Arc<Rows>>,
    /// In memory only.
    tail: Vec<Arc<Rows>>,
    /// Living notes without vectors.
    missing: BTreeSet<u64>,
    /// Those of them that were asked for in vain.
    tried: Tried,
    /// Whether one note at a time is asked for: of several one was too much.
    one_by_one: bool,
    /// Whether notes died since the files were last looked at for dead ones.
    has_dead: bool,
    next_file: u64,
    opening: u64,
    neighbours: Arc<Neighbours>,
}

/// The passages of a note; `None` where it is gone.
pub(super) type Passages = Result<Option<Vec<String>>, IndexError>;

/// Changes when another text is made of the same passage, or it is cut in another way.
const TEXT: u32 = 1;
/// Vectors of a longer note are made in the background.
const MOST_CHUNKS_AT_ONCE: usize = 64;
/// Passages of so many bytes, or of so many notes, go into one task.
const TASK_BYTES: usize = 64 << 10;
const TASK_NOTES: usize = 64;
/// So many blocks of about one size wait in memory side by side before they are made one.
const RUN: usize = 8;
/// Vectors in memory become a file when they are this large, whoever is at work.
const LARGEST_TAIL: usize = if cfg!(test) { 4 << 10 } else { 4 << 20 };
/// So many files lie side by side before some are made one, rest or no rest.
const MOST_FILES: usize = 24;
const ROOT: &str = "vector_index";
const ENDING: &str = "rows";

impl Vectors {
    /// None yet, for the index of this generation in the folder of derived state.
    pub(super) fn new(dir: &Path, embedder: Arc<dyn Embedder>, generation: &str) -> Self {
        let identity = embedder.identity().clone();
        let root = Self::root(dir);
        Self {
            is_instant: is_instant(&identity),
            folder: root.join(format!("{}-{TEXT}", identity.space())),
            root,
            heading: Heading { identity, text: TEXT, generation: generation.to_owned() },
            embedder,
            disk: Vec::new(),
            tail: Vec::new(),
            missing: BTreeSet::new(),
            tried: Tried::default(),
            one_by_one: false,
            has_dead: false,
            next_file: 1,
            opening: Space::opening(),
            neighbours: Arc::new(Neighbours::new(usize::MAX)),
        }
    }

    /// None yet, of another model, for the same index.
    pub(super) fn of_another(&self, dir: &Path, embedder: Arc<dyn Embedder>) -> Self {
        let mut another = Self::new(dir, embedder, &self.heading.generation);
        another.neighbours = Arc::new(Neighbours::new(self.neighbours.above()));
        another
    }

    /// Goes on with this embedder, if it is one of this space.
    pub(super) fn takes(&mut self, embedder: &Arc<dyn Embedder>) -> bool {
        let is_ours = *embedder.identity() == self.heading.identity;
        if is_ours {
            self.embedder = Arc::clone(embedder);
            // Whoever changed its settings mended what was wrong with them.
            self.tried = Tried::default();
        }
        is_ours
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.heading.identity
    }

    /// Whether a vector costs so little that nobody has to be waited for.
    pub(super) fn is_instant(&self) -> bool {
        self.is_instant
    }

    /// Whether somebody else is asked for vectors.
    pub(super) fn is_remote(&self) -> bool {
        !matches!(self.heading.identity.backend.as_str(), "static" | "transformer")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.disk.is_empty() && self.tail.is_empty()
    }

    /// Whether files of this space lie on the disk.
    pub(super) fn has_files(&self) -> bool {
        !files(&self.folder).is_empty()
    }

    /// Takes up what is on the disk, as the one who writes it: what can't be believed goes, and what
    /// it had is made again.
    pub(super) fn read(&mut self) {
        for (path, err) in self.take_up() {
            if let RowsError::Damaged { .. } = err {
                tracing::warn!(%err, "its vectors are made again");
            }
            // What can't be read now may be whole.
            if !matches!(err, RowsError::Io(_))
                && let Err(err) = fs::remove_file(&path)
            {
                tracing::warn!(err = told(&err), "a file of vectors that is no use stays");
            }
        }
    }

    /// The same beside whoever writes it: nothing is changed.
    pub(super) fn read_only(&mut self) {
        for (path, err) in self.take_up() {
            tracing::debug!(path = %path.display(), %err, "vectors left out");
        }
    }

    /// Gives the files that count for nothing.
    fn take_up(&mut self) -> Vec<(PathBuf, RowsError)> {
        self.disk.clear();
        let mut useless = Vec::new();
        for (number, path) in files(&self.folder) {
            self.next_file = self.next_file.max(number + 1);
            match Rows::open(&path, &self.heading) {
                Ok(rows) => self.disk.push(Arc::new(rows)),
                Err(err) => useless.push((path, err)),
            }
        }
        self.has_dead = true;
        useless
    }

    /// Forgets everything, for an index that is built anew.
    pub(super) fn forget(&mut self) {
        self.disk.clear();
        self.tail.clear();
        self.missing.clear();
        self.neighbours = Arc::new(Neighbours::new(self.neighbours.above()));
    }

    /// Gives up what is in memory only: it is made again.
    pub(super) fn let_go(&mut self, state: &State) {
        for rows in self.tail.drain(..) {
            let ids = (0..rows.groups()).map(|it| rows.id(it));
            self.missing.extend(ids.filter(|it| state.card_of(*it).is_some()));
        }
    }

    /// Looks which living notes have none: asked after reading.
    pub(super) fn look_for_missing(&mut self, state: &State) {
        let blocks = self.disk.iter().chain(&self.tail);
        let known: HashSet<u64> =
            blocks.flat_map(|it| (0..it.groups()).map(|group| it.id(group))).collect();
        self.missing = state.cards().map(|it| it.id).filter(|it| !known.contains(it)).collect();
    }

    /// What a view sees.
    pub(super) fn meaning(&self) -> Meaning {
        Meaning {
            embedder: Arc::clone(&self.embedder),
            blocks: self.disk.iter().chain(&self.tail).cloned().collect(),
            missing: self.missing.len(),
            neighbours: self.neighbours.known(),
        }
    }

    /// Takes notes that were put; their vectors are made at once, where that costs nothing.
    pub(super) fn put<'a>(&mut self, notes: impl IntoIterator<Item = (&'a Card, &'a NoteDoc)>) {
        let mut made = BTreeMap::new();
        for (card, doc) in notes {
            if let Some(rows) = rows_at_once(&*self.embedder, doc) {
                made.insert(card.id, rows);
            } else {
                self.missing.insert(card.id);
            }
        }
        self.show(made);
    }

    /// Takes a note that was put, whose vectors are made later.
    pub(super) fn owe(&mut self, card: &Card) {
        self.missing.insert(card.id);
    }

    /// Takes a note's end.
    pub(super) fn remove(&mut self, card: &Card) {
        self.missing.remove(&card.id);
        self.tried.forget(card.id);
        self.has_dead = true;
    }

    /// Living notes that have no vectors yet.
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Whether some vectors are in memory only.
    pub(super) fn is_unwritten(&self) -> bool {
        !self.tail.is_empty()
    }

    /// Makes vectors of notes that lack them until `until`, at least of one; `texts` gives the
    /// passages of a note. A provider's failure ends the step; the next one tries again.
    pub(super) fn make(
        &mut self,
        state: &State,
        texts: &mut dyn FnMut(&Card) -> Passages,
        until: Instant,
    ) -> Result<(), VectorsError> {
        let mut made = BTreeMap::new();
        let mut failed = Ok(());
        while let Some(id) = self.missing.first().copied() {
            let read = state.card_of(id).map(|card| (card, texts(card)));
            let passages = match read {
                Some((_, Ok(Some(passages)))) => passages,
                Some((card, Err(source))) => {
                    let (path, source) = (card.path.clone(), Box::new(source));
                    failed = Err(VectorsError::Unread { path, source });
                    break;
                }
                // Gone.
                None | Some((_, Ok(None))) => {
                    self.missing.remove(&id);
                    continue;
                }
            };
            match self.rows_of(passages.iter().map(String::as_str)) {
                Ok(rows) => {
                    made.insert(id, rows);
                    self.missing.remove(&id);
                }
                Err(err) => {
                    failed = Err(err);
                    break;
                }
            }
            if clock::now() >= until {
                break;
            }
        }
        self.show(made);
        failed
    }

    /// Notes that lack vectors, as many as one task takes. One whose text cannot be read, or that
    /// was asked for in vain before, keeps no other from its turn.
    pub(super) fn task(
        &mut self,
        state: &State,
        texts: &mut dyn FnMut(&Card) -> Passages,
    ) -> Result<Option<Task>, VectorsError> {
        let (mut notes, mut bytes, mut unread) = (Vec::new(), 0, None);
        // Those that were asked for in vain come last.
        let first = self.missing.iter().filter(|it| !self.tried.has(**it));
        let again = self.tried.due(&self.missing);
        let is_first = first.clone().next().is_some();
        let most = if self.one_by_one { 1 } else { TASK_NOTES };
        let ids = first.chain(again.iter().filter(|_| !is_first));
        for card in ids.filter_map(|it| state.card_of(*it)) {
            match texts(card) {
                Ok(passages) => {
                    let passages = passages.unwrap_or_default();
                    bytes += passages.iter().map(String::len).sum::<usize>();
                    notes.push((card.id, passages));
                }
                Err(source) => {
                    let (path, source) = (card.path.clone(), Box::new(source));
                    unread.get_or_insert(VectorsError::Unread { path, source });
                }
            }
            if bytes >= TASK_BYTES || notes.len() >= most {
                break;
            }
        }
        let is_again = notes.iter().all(|it| self.tried.is_put_off(it.0));
        self.tried.ask(notes.iter().map(|it| it.0));
        let (embedder, space) = (Arc::clone(&self.embedder), self.space());
        match (notes.is_empty(), unread) {
            (true, Some(err)) => Err(err),
            (true, None) => Ok(None),
            (false, _) => Ok(Some(Task { embedder, space, notes, is_again })),
        }
    }

    /// Whether a task was for these.
    pub(super) fn is_of(&self, space: &Space) -> bool {
        self.space() == *space
    }

    fn space(&self) -> Space {
        let (folder, generation) = (self.folder.clone(), self.heading.generation.clone());
        Space { folder, generation, opening: self.opening }
    }

    /// Takes what a task made; notes that are gone, or have theirs, count no more.
    pub(super) fn take(&mut self, made: Made, state: &State) {
        let Made { mut notes, asked, blame, .. } = made;
        let lacking: Vec<u64> =
            asked.iter().filter(|it| !notes.contains_key(it)).copied().collect();
        self.one_by_one = !lacking.is_empty() && blame != Blame::Model;
        notes.retain(|id, _| self.missing.remove(id) && state.card_of(*id).is_some());
        asked.iter().filter(|it| !lacking.contains(it)).for_each(|it| self.tried.forget(*it));
        self.tried.blame(&lacking, asked.len() == 1, &blame);
        self.show(notes);
    }

    /// Puts what is in memory into a file.
    pub(super) fn write(&mut self, state: &State) -> Result<(), VectorsError> {
        if self.tail.is_empty() {
            return Ok(());
        }
        let lives = |id| state.card_of(id).is_some();
        if let Some(rows) = Rows::merged(&self.heading, &self.tail, &lives) {
            let written = self.write_block(&rows)?;
            self.disk.push(Arc::new(written));
        }
        self.tail.clear();
        if self.disk.len() > MOST_FILES {
            self.merge(state)?;
        }
        Ok(())
    }

    /// Writes what is in memory if it is large.
    pub(super) fn write_if_large(&mut self, state: &State) -> Result<(), VectorsError> {
        match self.tail.iter().map(|it| it.size()).sum::<usize>() > LARGEST_TAIL {
            true => self.write(state),
            false => Ok(()),
        }
    }

    /// Makes small files one, and leaves the dead out where they are the more.
    pub(super) fn tidy_up(&mut self, state: &State) -> Result<(), VectorsError> {
        self.write(state)?;
        self.merge(state)?;
        self.neighbours.look(self.plan(state).when_idle());
        Ok(())
    }

    /// Whether each file is what it was when it was mapped.
    pub(super) fn is_mapped_whole(&self) -> bool {
        self.disk.iter().all(|it| it.is_whole())
    }

    /// The files in use.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.disk.iter().filter_map(|it| it.path())
    }

    /// Whether this is a file of vectors.
    pub(super) fn is_block(path: &Path) -> bool {
        path.extension().is_some_and(|it| it == ENDING)
    }

    /// The highest number of a note in any block.
    pub(super) fn highest(&self) -> u64 {
        self.disk.iter().chain(&self.tail).map(|it| it.highest()).max().unwrap_or(0)
    }

    /// The highest number of a note in the files of other spaces, of this generation.
    pub(super) fn highest_elsewhere(dir: &Path, generation: &str, own: Option<&Self>) -> u64 {
        let spaces = fs::read_dir(&dir.join(ROOT)).unwrap_or_default();
        spaces
            .iter()
            .map(|it| it.path())
            .filter(|it| own.is_none_or(|own| own.folder != *it))
            .flat_map(|it| files(&it))
            .map(|(_, path)| Rows::highest_in(&path, generation))
            .max()
            .unwrap_or(0)
    }

    /// Where the vectors of all spaces lie.
    pub(super) fn root(dir: &Path) -> PathBuf {
        dir.join(ROOT)
    }

    /// The folders of all spaces.
    pub(super) fn folders(dir: &Path) -> Vec<PathBuf> {
        let spaces = fs::read_dir(&dir.join(ROOT)).unwrap_or_default();
        spaces.iter().map(std::fs::DirEntry::path).collect()
    }

    /// Who makes them.
    pub(super) fn embedder(&self) -> Arc<dyn Embedder> {
        Arc::clone(&self.embedder)
    }

    /// The number of the next file.
    pub(super) fn next_file(&self) -> u64 {
        self.next_file
    }

    /// Gives no file a lower number.
    pub(super) fn begin_files_at(&mut self, number: u64) {
        self.next_file = self.next_file.max(number);
    }

    /// Goes on with the index of this generation.
    pub(super) fn set_generation(&mut self, generation: &str) {
        if self.heading.generation != generation {
            self.heading.generation = generation.to_owned();
            self.neighbours = Arc::new(Neighbours::new(self.neighbours.above()));
        }
    }

    fn merge(&mut self, state: &State) -> Result<(), VectorsError> {
        let sizes: Vec<(usize, u64)> =
            self.disk.iter().enumerate().map(|(at, it)| (at, it.rows() as u64 + 1)).collect();
        let mut chosen: BTreeSet<usize> = worth_merging(&sizes).into_iter().collect();
        if std::mem::take(&mut self.has_dead) {
            let is_dead = |rows: &Rows, group| state.card_of(rows.id(group)).is_none();
            let all = self.disk.iter().enumerate();
            chosen.extend(all.filter_map(|(at, rows)| {
                let dead = (0..rows.groups()).filter(|it| is_dead(rows, *it)).count();
                (dead * 2 > rows.groups()).then_some(at)
            }));
        }
        if chosen.is_empty() {
            return Ok(());
        }
        let merged: Vec<Arc<Rows>> = chosen.iter().map(|at| Arc::clone(&self.disk[*at])).collect();
        let lives = |id| state.card_of(id).is_some();
        let new = match Rows::merged(&self.heading, &merged, &lives) {
            Some(rows) => Some(Arc::new(self.write_block(&rows)?)),
            None => None,
        };
        let mut at = 0;
        self.disk.retain(|_| {
            at += 1;
            !chosen.contains(&(at - 1))
        });
        self.disk.extend(new);
        // Views that hold them read on; after a crash between, both are there and say the same.
        for path in merged.iter().filter_map(|it| it.path()) {
            fs::remove_file(path).map_err(VectorsError::Disk)?;
        }
        Ok(())
    }

    fn write_block(&mut self, rows: &Rows) -> Result<Rows, VectorsError> {
        for folder in [&self.root, &self.folder] {
            // Not `mem_metadata` itself: where the vault was moved away nothing is made.
            fs::create_dir(folder).map_err(VectorsError::Disk)?;
        }
        let path = self.folder.join(format!("{:08}.{ENDING}", self.next_file));
        self.next_file += 1;
        Ok(rows.write(&path, &self.heading)?)
    }

    pub(super) fn remove_other_spaces(&self) -> Result<(), VectorsError> {
        for entry in fs::read_dir(&self.root).unwrap_or_default() {
            if entry.path() != self.folder {
                tracing::info!(space = %entry.file_name().display(), "vectors of another model go");
                fs::remove_derived(&entry.path()).map_err(VectorsError::Disk)?;
            }
        }
        Ok(())
    }

    /// Adds a block in memory.
    fn show(&mut self, made: BTreeMap<u64, Vec<Row>>) {
        if made.is_empty() {
            return;
        }
        self.tail.push(Arc::new(Rows::build(&self.heading, &made)));
        let class = |it: &Arc<Rows>| it.groups().max(1).ilog(RUN);
        while let Some(newest) = self.tail.last() {
            let size = class(newest);
            let alike = self.tail.iter().rev().take_while(|it| class(it) <= size).count();
            if alike < RUN {
                break;
            }
            let run = self.tail.split_off(self.tail.len() - alike);
            self.tail.extend(Rows::merged(&self.heading, &run, &|_| true).map(Arc::new));
        }
    }

    /// The vectors of a note's passages: all of them, or why some did not come.
    fn rows_of<'a>(
        &self,
        passages: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Row>, VectorsError> {
        let passages = (0..).zip(passages).map(|(chunk, text)| (0, chunk, text));
        let (mut rows, failed) = make_rows(&*self.embedder, passages, &|| false);
        if rows.lacking.is_empty() {
            return Ok(rows.made.remove(&0).unwrap_or_default());
        }
        let model = self.heading.identity.model.clone();
        let source = failed.unwrap_or(EmbedError::Timeout(STEP_LIMIT));
        Err(VectorsError::Embed { model, source })
    }
}

/// The vectors of a note, where they cost so little that they are made while somebody waits.
pub(super) fn rows_at_once(embedder: &dyn Embedder, doc: &NoteDoc) -> Option<Vec<Row>> {
    if !is_instant(embedder.identity()) || doc.chunks.len() > MOST_CHUNKS_AT_ONCE {
        return None;
    }
    let passages = (0..).zip(&doc.chunks).map(|(chunk, it)| (0, chunk, passage_text(it)));
    let (mut rows, _) = make_rows(embedder, passages, &|| false);
    rows.lacking.is_empty().then(|| rows.made.remove(&0).unwrap_or_default())
}

/// What is embedded of a passage.
pub(super) fn passage_text(chunk: &Chunk) -> &str {
    &chunk.text
}

/// The files of a space with their numbers, oldest first.
fn files(folder: &Path) -> Vec<(u64, PathBuf)> {
    let mut files: Vec<(u64, PathBuf)> = fs::read_dir(folder)
        .unwrap_or_default()
        .iter()
        .filter_map(|entry| {
            let path = entry.path();
            let number = path.file_stem()?.to_str()?.parse().ok()?;
            (path.extension()? == ENDING).then_some((number, path))
        })
        .collect();
    files.sort();
    files
}

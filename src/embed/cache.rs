//! Keeps vectors that a provider was paid for, by content and model.
//!
//! Takes keys and vectors, gives them back after a restart. One file for each space under
//! `embedding_store/`; the least lately used go when there are too many. Blocking; one owner.
//!
//! **Invariant:** deleting the file costs money and time, never truth; a vector of another space,
//! or one that is none, does not come back.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use lru::LruCache;
use serde::{Deserialize, Serialize};

use crate::base::fs;
use crate::base::store::{Batch, Heading, Store, StoreError};
use crate::embed::identity::{ContentKey, Identity};
use crate::embed::vector::Vector;

/// Changes when a line changes its meaning.
const VERSION: u32 = 1;
const FORMAT: &str = "embedding_store";
const FOLDER: &str = "embedding_store";
/// A file this small is not written anew.
const LEAST_COMPACTED: u64 = 1000;
/// A batch is handed on when it has this many bytes.
const BATCH: usize = 4 << 20;

/// The vectors of one space.
#[derive(Debug)]
pub struct Cache {
    store: Store,
    dimension: usize,
    entries: LruCache<ContentKey, Entry>,
    /// Not on the disk yet.
    fresh: Vec<ContentKey>,
}

/// What is kept of a text.
#[derive(Clone, PartialEq, Debug)]
struct Entry {
    halves: Box<[u16]>,
    cut: bool,
}

/// How a cache was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CacheState {
    /// As it was left.
    Whole,
    /// There was none.
    New,
    /// It was damaged, and how; what could be read is kept.
    Mended(String),
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    #[serde(rename = "_embedding_f16_b64")]
    vector: String,
}

impl Cache {
    /// Opens the cache of a space under the vault's metadata folder, with room for `most`.
    pub fn open(
        metadata: &Path,
        identity: &Identity,
        most: NonZeroUsize,
    ) -> Result<(Self, CacheState), StoreError> {
        let path = Self::path(metadata, identity);
        // Not `metadata` itself: where the vault was moved away nothing is made in its place.
        fs::create_dir(&metadata.join(FOLDER))?;
        // The file says whose vectors it has, in full.
        let generation = serde_json::to_string(identity).unwrap_or_default();
        let heading = Heading { format: FORMAT.to_owned(), version: VERSION, generation };
        let mut entries = LruCache::new(most);
        let dimension = identity.dimension;
        let (store, state) = match Store::open(&path, FORMAT, VERSION) {
            Ok(store) if store.generation() == heading.generation => {
                match replay(&store, dimension, &mut entries) {
                    Ok(0) => (store, CacheState::Whole),
                    Ok(odd) => (store, CacheState::Mended(format!("{odd} lines are no vectors"))),
                    Err(err) if err.needs_rebuild() => {
                        (Store::create(&path, &heading)?, CacheState::Mended(err.to_string()))
                    }
                    Err(err) => return Err(err),
                }
            }
            Ok(_) => {
                let why = "it is of another space".to_owned();
                (Store::create(&path, &heading)?, CacheState::Mended(why))
            }
            Err(StoreError::Missing { .. }) => (Store::create(&path, &heading)?, CacheState::New),
            Err(err) if err.needs_rebuild() => {
                (Store::create(&path, &heading)?, CacheState::Mended(err.to_string()))
            }
            Err(err) => return Err(err),
        };
        let mut cache = Self { store, dimension, entries, fresh: Vec::new() };
        if let CacheState::Mended(_) = state {
            cache.compact()?;
        }
        Ok((cache, state))
    }

    /// Where the cache of a space lies.
    pub fn path(metadata: &Path, identity: &Identity) -> PathBuf {
        metadata.join(FOLDER).join(format!("default_v{VERSION}_{}.jsonl.zst", identity.space()))
    }

    /// The vector of a text, and whether only its beginning was read.
    pub fn get(&mut self, key: &ContentKey) -> Option<(Vector, bool)> {
        let entry = self.entries.get(key)?;
        // What is kept was checked when it came in.
        Some((Vector::from_halves(&entry.halves).ok()?, entry.cut))
    }

    /// Keeps a vector, in memory until [`Self::flush`]; one of another size is not kept.
    pub fn put(&mut self, key: ContentKey, vector: &Vector, cut: bool) {
        if vector.dimension() != self.dimension {
            return;
        }
        let entry = Entry { halves: vector.to_halves(), cut };
        if self.entries.put(key, entry.clone()) != Some(entry) {
            self.fresh.push(key);
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many a crash would lose.
    pub fn unsaved(&self) -> usize {
        self.fresh.len()
    }

    /// Forces what came since the last time to the disk; what fails is tried again by the next.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        for key in &self.fresh {
            // One that was used least may have gone since.
            if let Some(line) = self.entries.peek(key).and_then(|it| line(key, it)) {
                batch.push(&line);
            }
        }
        let at = self.entries.len().to_string();
        match self.store.append(batch, Some(&at)) {
            // Deleted, or cut by another program: what is in memory makes it whole again.
            Err(err) if err.needs_rebuild() => return self.create_anew(),
            appended => appended?,
        }
        self.fresh.clear();
        let living = self.entries.len() as u64;
        if self.store.records() > LEAST_COMPACTED && self.store.records() > living * 2 {
            self.compact()?;
        }
        Ok(())
    }

    /// Writes the living anew, the longest unused first.
    fn compact(&mut self) -> Result<(), StoreError> {
        let mut rewrite = self.store.rewrite()?;
        let mut batch = Batch::default();
        for line in self.entries.iter().rev().filter_map(|(key, entry)| line(key, entry)) {
            batch.push(&line);
            if batch.weight() > BATCH {
                rewrite.append(std::mem::take(&mut batch))?;
            }
        }
        rewrite.append(batch)?;
        self.store = rewrite.finish(Some(&self.entries.len().to_string()))?;
        self.fresh.clear();
        Ok(())
    }

    fn create_anew(&mut self) -> Result<(), StoreError> {
        let heading = Heading {
            format: FORMAT.to_owned(),
            version: VERSION,
            generation: self.store.generation().to_owned(),
        };
        if let Some(folder) = self.store.path().parent() {
            fs::create_dir(folder)?;
        }
        self.store = Store::create(self.store.path(), &heading)?;
        self.compact()
    }
}

/// Reads the lines, oldest first; gives how many were no vectors of this space.
fn replay(
    store: &Store,
    dimension: usize,
    entries: &mut LruCache<ContentKey, Entry>,
) -> Result<usize, StoreError> {
    let mut odd = 0;
    store.replay(|_, line| {
        match read(line, dimension) {
            Some((key, entry)) => drop(entries.put(key, entry)),
            None => odd += 1,
        }
        Ok(())
    })?;
    Ok(odd)
}

fn read(line: &[u8], dimension: usize) -> Option<(ContentKey, Entry)> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let vector = Vector::from_f16_base64(&line.vector, dimension).ok()?;
    let entry = Entry { halves: vector.to_halves(), cut: line.cut };
    Some((ContentKey::from_hex(&line.key)?, entry))
}

fn line(key: &ContentKey, entry: &Entry) -> Option<Line> {
    let vector = Vector::from_halves(&entry.halves).ok()?.to_f16_base64();
    Some(Line { key: key.to_hex(), cut: entry.cut, vector })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::identity::Normalisation;

    fn identity(model: &str) -> Identity {
        Identity {
            backend: "openai".into(),
            model: model.into(),
            dimension: 2,
            source: "http://h".into(),
            normalisation: Normalisation::L2,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        }
    }

    fn open(dir: &Path, most: usize) -> (Cache, CacheState) {
        Cache::open(dir, &identity("m"), NonZeroUsize::new(most).unwrap()).unwrap()
    }

    fn vector(at: usize) -> Vector {
        Vector::new(vec![1.0, at as f32]).unwrap()
    }

    fn filled(dir: &Path, most: usize, count: usize) -> Cache {
        let (mut cache, _) = open(dir, most);
        for at in 0..count {
            cache.put(ContentKey::of(&at.to_string()), &vector(at), at == 1);
        }
        cache.flush().unwrap();
        cache
    }

    fn has(cache: &mut Cache, range: std::ops::Range<usize>) -> usize {
        range
            .filter(|at| {
                let found = cache.get(&ContentKey::of(&at.to_string()));
                found.is_some_and(|(found, cut)| {
                    assert!(found.cosine(&vector(*at)) > 0.9999 && cut == (*at == 1));
                    true
                })
            })
            .count()
    }

    #[test]
    fn what_was_paid_for_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(open(dir.path(), 9).1, CacheState::New);
        drop(filled(dir.path(), 9, 5));
        let (mut cache, state) = open(dir.path(), 9);
        assert_eq!((has(&mut cache, 0..9), state), (5, CacheState::Whole));
        assert_eq!(cache.get(&ContentKey::of("another text")), None);
    }

    #[test]
    fn spaces_do_not_mix() {
        let dir = tempfile::tempdir().unwrap();
        drop(filled(dir.path(), 9, 5));
        let most = NonZeroUsize::MIN;
        let (cache, state) = Cache::open(dir.path(), &identity("n"), most).unwrap();
        assert!(cache.is_empty() && state == CacheState::New);
        // Not even where a file has another space's name.
        let [of_m, of_n] = ["m", "n"].map(|it| Cache::path(dir.path(), &identity(it)));
        std::fs::copy(of_m, of_n).unwrap();
        let (cache, state) = Cache::open(dir.path(), &identity("n"), most).unwrap();
        assert!(cache.is_empty() && matches!(state, CacheState::Mended(_)));
        assert_eq!(open(dir.path(), 9).0.len(), 5);
    }

    #[test]
    fn the_least_lately_used_go_and_the_file_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let (mut cache, _) = open(dir.path(), 50);
        for at in 0..3000 {
            cache.put(ContentKey::of(&at.to_string()), &vector(at), at == 1);
            assert_eq!(has(&mut cache, 0..1), 1); // used all the time
            if at % 10 == 0 {
                cache.flush().unwrap();
            }
        }
        cache.flush().unwrap();
        assert!(cache.store.records() <= LEAST_COMPACTED + 100, "{}", cache.store.records());
        assert_eq!((cache.len(), has(&mut cache, 2951..3000)), (50, 49));
        drop(cache);
        let (mut cache, state) = open(dir.path(), 50);
        assert_eq!((cache.len(), has(&mut cache, 2951..3000), state), (50, 49, CacheState::Whole));
    }

    #[test]
    fn a_damaged_file_keeps_what_can_be_read_and_works_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut cache = filled(dir.path(), 99, 5);
        let path = cache.store.path().to_owned();
        let kept = std::fs::metadata(&path).unwrap().len();
        (5..9).for_each(|at| cache.put(ContentKey::of(&at.to_string()), &vector(at), false));
        cache.flush().unwrap();
        cache.put(ContentKey::of("9"), &vector(9), false);
        cache.flush().unwrap();
        drop(cache);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[usize::try_from(kept).unwrap() + 30] ^= 0xff;
        std::fs::write(&path, &bytes).unwrap();
        let (mut cache, state) = open(dir.path(), 99);
        assert!(matches!(state, CacheState::Mended(_)));
        assert_eq!((cache.len(), has(&mut cache, 0..5)), (5, 5));
        let (_, state) = open(dir.path(), 99);
        assert_eq!(state, CacheState::Whole);

        for rubbish in [&b"rubbish"[..], b""] {
            std::fs::write(&path, rubbish).unwrap();
            let (cache, state) = open(dir.path(), 99);
            assert!(cache.is_empty() && matches!(state, CacheState::Mended(_)));
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let most = NonZeroUsize::MIN;
        assert!(Cache::open(dir.path(), &identity("m"), most).is_err());
    }

    #[test]
    fn lines_that_are_no_vectors_of_the_space_do_not_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut cache = filled(dir.path(), 99, 2);
        let key = ContentKey::of("x").to_hex();
        let mut batch = Batch::default();
        for odd in [
            format!(r#"{{"key":"{key}","_embedding_f16_b64":"AAAAAA=="}}"#), // zero
            format!(r#"{{"key":"{key}","_embedding_f16_b64":"ADwAfg=="}}"#), // no number
            format!(r#"{{"key":"{key}","_embedding_f16_b64":"ADw="}}"#),     // one part
            r#"{"key":"x","_embedding_f16_b64":"ADwAPA=="}"#.to_owned(),
            "[]".to_owned(),
        ] {
            batch.push_line(odd.as_bytes());
        }
        cache.store.append(batch, Some("x")).unwrap();
        let (mut cache, state) = open(dir.path(), 99);
        assert_eq!(state, CacheState::Mended("5 lines are no vectors".into()));
        assert_eq!((cache.len(), has(&mut cache, 0..2)), (2, 2));
        assert_eq!(open(dir.path(), 99).1, CacheState::Whole);
    }

    #[test]
    fn a_file_that_goes_while_in_use_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut cache = filled(dir.path(), 99, 3);
        std::fs::remove_dir_all(dir.path().join(FOLDER)).unwrap();
        cache.put(ContentKey::of("3"), &vector(3), false);
        cache.flush().unwrap();
        let (mut cache, state) = open(dir.path(), 99);
        assert_eq!((has(&mut cache, 0..9), state), (4, CacheState::Whole));
    }

    #[test]
    fn nothing_is_made_where_the_vault_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        assert!(Cache::open(&gone, &identity("m"), NonZeroUsize::MIN).is_err());
        assert!(!gone.exists());
    }
}

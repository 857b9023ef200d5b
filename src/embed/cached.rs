//! An embedder that does not ask twice.
//!
//! Takes an embedder and a [`Cache`]; asks only for texts that the cache does not have, each once.
//! Any thread, several at once: nobody holds the cache while a provider is asked.
//!
//! **Invariant:** what it gives is what the embedder gave for the same text; a cache that can't be
//! written costs a second question, not an answer, and is said in [`Cached::problem`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::base::clock;
use crate::base::fs::{self, PathError};
use crate::base::store::StoreError;
use crate::embed::cache::Cache;
use crate::embed::identity::{ContentKey, Identity, Purpose};
use crate::embed::{Answer, EmbedError, Embedder, Slot};

/// An embedder and its cache.
pub struct Cached {
    inner: Arc<dyn Embedder>,
    cache: Mutex<Cache>,
    problem: Mutex<Option<String>>,
    /// Whether the file belongs to another one now.
    is_closed: AtomicBool,
    /// The folder that it is kept in, and which one that was.
    home: Option<(PathBuf, (u64, u64))>,
    /// Questions that are being asked.
    asking: Mutex<HashSet<ContentKey>>,
    asked: Condvar,
}

/// Somebody asks these; others wait for the answer.
struct Turn<'a> {
    cached: &'a Cached,
    keys: Vec<ContentKey>,
}

/// As many new vectors of a model in this process are written to the disk at once; a provider's
/// are written batch by batch.
const UNSAVED: usize = 64;

impl Cached {
    pub fn new(inner: Arc<dyn Embedder>, cache: Cache) -> Self {
        Self {
            inner,
            cache: Mutex::new(cache),
            problem: Mutex::new(None),
            is_closed: AtomicBool::new(false),
            home: None,
            asking: Mutex::default(),
            asked: Condvar::new(),
        }
    }

    /// Writes only while this folder is the one that it is now: another vault may come to lie at
    /// its path.
    pub fn kept_below(mut self, home: &Path) -> Result<Self, PathError> {
        self.home = Some((home.to_owned(), fs::identity(home)?));
        Ok(self)
    }

    fn is_away(&self) -> bool {
        let home = self.home.as_ref();
        home.is_some_and(|(path, known)| fs::identity(path).map_or(true, |it| it != *known))
    }

    /// Forces what is new to the disk, and writes no more: whoever still asks goes on in memory.
    pub fn close(&self) -> Result<(), StoreError> {
        let flushed = self.flush();
        // Nobody is between its look and its writing.
        let _cache = self.cache();
        self.is_closed.store(true, Ordering::SeqCst);
        flushed
    }

    /// Forces what is new to the disk.
    pub fn flush(&self) -> Result<(), StoreError> {
        let flushed = {
            let mut cache = self.cache();
            match self.is_closed.load(Ordering::SeqCst) {
                true => Ok(()),
                // It stays in memory until the folder is back.
                false if self.is_away() => Ok(()),
                false => cache.flush(),
            }
        };
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) =
            flushed.as_ref().err().map(ToString::to_string);
        flushed
    }

    /// Why the cache can't be written, as long as it can't.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many vectors it has.
    pub fn len(&self) -> usize {
        self.cache().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until nobody asks any of these; whoever comes next waits for us. `None` where somebody
    /// still asks at the deadline.
    fn take_turn(&self, keys: &[ContentKey], deadline: Instant) -> Option<Turn<'_>> {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        while keys.iter().any(|it| asking.contains(it)) {
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.asked.wait_timeout(asking, left);
            asking = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let keys = keys.iter().copied().filter(|it| asking.insert(*it)).collect();
        Some(Turn { cached: self, keys })
    }

    /// Embeds; `leave` is asked before the inner one is.
    fn embed_if(
        &self,
        texts: &[&str],
        purpose: Purpose,
        deadline: Instant,
        leave: &dyn Fn() -> Result<(), &'static str>,
    ) -> Result<Answer, &'static str> {
        let keys: Vec<ContentKey> =
            texts.iter().map(|it| ContentKey::of(&self.prepare(it, purpose).0)).collect();
        // A question that somebody else is asking right now is not asked beside.
        let begun = clock::now();
        let _turn = match purpose {
            Purpose::Passage => None,
            Purpose::Query => match self.take_turn(&keys, deadline) {
                None => {
                    let stopped = Some(EmbedError::Timeout(begun.elapsed()));
                    return Ok(Answer { slots: vec![Slot::Missing; texts.len()], stopped });
                }
                turn => turn,
            },
        };
        let mut slots = vec![Slot::Missing; texts.len()];
        let mut lacking: Vec<&str> = Vec::new();
        let mut places: HashMap<ContentKey, usize> = HashMap::new();
        {
            let mut cache = self.cache();
            for ((slot, key), text) in slots.iter_mut().zip(&keys).zip(texts) {
                match cache.get(key) {
                    Some((vector, cut)) => *slot = Slot::Vector { vector, cut },
                    None if places.contains_key(key) => {}
                    None => {
                        places.insert(*key, lacking.len());
                        lacking.push(text);
                    }
                }
            }
        }
        if lacking.is_empty() {
            return Ok(Answer { slots, stopped: None });
        }
        leave()?;
        let mut answer = Answer { slots: Vec::with_capacity(lacking.len()), stopped: None };
        let prepared: HashMap<usize, ContentKey> = places.iter().map(|it| (*it.1, *it.0)).collect();
        // What was paid for is on the disk before the next is.
        let is_paid = self.inner.is_remote();
        let step = if is_paid { self.inner.batch_size().max(1) } else { lacking.len() };
        for texts in lacking.chunks(step) {
            let part = self.inner.embed(texts, purpose, deadline);
            let unsaved = {
                let mut cache = self.cache();
                for (at, slot) in (answer.slots.len()..).zip(&part.slots) {
                    if let (Slot::Vector { vector, cut }, Some(key)) = (slot, prepared.get(&at)) {
                        cache.put(*key, vector, *cut);
                    }
                }
                cache.unsaved()
            };
            answer.slots.extend(part.slots);
            if unsaved >= if is_paid { 1 } else { UNSAVED }
                && let Err(err) = self.flush()
            {
                tracing::debug!(error = &err as &dyn std::error::Error, "embeddings can't be kept");
            }
            if part.stopped.is_some() {
                answer.stopped = part.stopped;
                break;
            }
        }
        for (slot, key) in slots.iter_mut().zip(&keys) {
            if let Some(found) = places.get(key).and_then(|it| answer.slots.get(*it)) {
                *slot = found.clone();
            }
        }
        Ok(Answer { slots, stopped: answer.stopped })
    }

    // Whatever a panic interrupted, each entry is whole.
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut asking = self.cached.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.retain(|it| !self.keys.contains(it));
        drop(asking);
        self.cached.asked.notify_all();
    }
}

impl Embedder for Cached {
    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    fn window(&self) -> usize {
        self.inner.window()
    }

    fn count(&self, text: &str) -> usize {
        self.inner.count(text)
    }

    fn prepare<'a>(&self, text: &'a str, purpose: Purpose) -> (Cow<'a, str>, bool) {
        self.inner.prepare(text, purpose)
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn known(&self, text: &str, purpose: Purpose) -> Option<Slot> {
        let key = ContentKey::of(&self.prepare(text, purpose).0);
        self.cache().get(&key).map(|(vector, cut)| Slot::Vector { vector, cut })
    }

    fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
        let answer = self.embed_if(texts, purpose, deadline, &|| Ok(()));
        // Nobody has said no.
        answer.unwrap_or_else(|_| Answer { slots: vec![Slot::Missing; texts.len()], stopped: None })
    }

    fn embed_by_leave(
        &self,
        question: &str,
        deadline: Instant,
        leave: &dyn Fn() -> Result<(), &'static str>,
    ) -> Result<Answer, &'static str> {
        let leave = || if self.is_remote() { leave() } else { Ok(()) };
        self.embed_if(&[question], Purpose::Query, deadline, &leave)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;
    use crate::embed::{Normalisation, Vector};

    /// Gives each text a vector by its length, and nothing any more after so many texts.
    struct Counting {
        identity: Identity,
        asked: AtomicUsize,
        most: usize,
    }

    impl Embedder for Counting {
        fn identity(&self) -> &Identity {
            &self.identity
        }

        fn window(&self) -> usize {
            usize::MAX
        }

        fn count(&self, text: &str) -> usize {
            text.len()
        }

        fn embed(&self, texts: &[&str], _purpose: Purpose, _deadline: Instant) -> Answer {
            let slot = |text: &&str| {
                if self.asked.fetch_add(1, Ordering::Relaxed) >= self.most {
                    return Slot::Missing;
                }
                match text.len() {
                    0 => Slot::Silent,
                    length => Slot::whole(Vector::new(vec![1.0, length as f32]).unwrap()),
                }
            };
            let slots: Vec<Slot> = texts.iter().map(slot).collect();
            let stopped =
                slots.contains(&Slot::Missing).then_some(EmbedError::Timeout(Duration::ZERO));
            Answer { slots, stopped }
        }
    }

    fn cached(dir: &std::path::Path, most: usize) -> (Cached, Arc<Counting>) {
        let identity = Identity {
            backend: "test".into(),
            model: "m".into(),
            dimension: 2,
            source: String::new(),
            normalisation: Normalisation::L2,
            query_prefix: "ask: ".into(),
            passage_prefix: String::new(),
        };
        let room = NonZeroUsize::new(1000).unwrap();
        let (cache, _) = Cache::open(dir, &identity, room).unwrap();
        let counting = Arc::new(Counting { identity, asked: AtomicUsize::new(0), most });
        (Cached::new(counting.clone(), cache), counting)
    }

    #[test]
    fn a_text_is_asked_for_once_whatever_its_note_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let (embedder, counting) = cached(dir.path(), usize::MAX);
        let ask = |embedder: &Cached, texts: &[&str], purpose| {
            embedder.embed(texts, purpose, clock::now()).slots
        };
        let first = ask(&embedder, &["a", "bb", "a"], Purpose::Passage);
        assert_eq!(counting.asked.load(Ordering::Relaxed), 2);
        assert_eq!(first[0], first[2]);
        assert_ne!(first[0], first[1]);
        let again = ask(&embedder, &["bb", "ccc", "a"], Purpose::Passage);
        assert_eq!(counting.asked.load(Ordering::Relaxed), 3);
        for (again, first) in [(&again[0], &first[1]), (&again[2], &first[0])] {
            let near = again.vector().unwrap().cosine(first.vector().unwrap());
            assert!(near > 0.9999);
        }
        // A question has another prefix, so that it is another text.
        ask(&embedder, &["a"], Purpose::Query);
        assert_eq!(counting.asked.load(Ordering::Relaxed), 4);
        embedder.flush().unwrap();
        drop(embedder);

        let (embedder, counting) = cached(dir.path(), usize::MAX);
        ask(&embedder, &["a", "bb", "ccc"], Purpose::Passage);
        assert_eq!((counting.asked.load(Ordering::Relaxed), embedder.len()), (0, 4));
    }

    /// One who wants money for each text, two of which go in a request.
    struct Paid(Arc<Counting>);

    impl Embedder for Paid {
        fn identity(&self) -> &Identity {
            self.0.identity()
        }

        fn is_remote(&self) -> bool {
            true
        }

        fn batch_size(&self) -> usize {
            2
        }

        fn window(&self) -> usize {
            self.0.window()
        }

        fn count(&self, text: &str) -> usize {
            self.0.count(text)
        }

        fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
            assert!(texts.len() <= 2);
            self.0.embed(texts, purpose, deadline)
        }
    }

    #[test]
    fn a_batch_that_was_paid_for_outlives_a_kill_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let paid = |most| {
            let (_, counting) = cached(dir.path(), most);
            let room = NonZeroUsize::new(9).unwrap();
            let (cache, _) = Cache::open(dir.path(), &counting.identity, room).unwrap();
            let paid: Arc<dyn Embedder> = Arc::new(Paid(Arc::clone(&counting)));
            (Cached::new(paid, cache), counting)
        };
        let texts = ["a", "bb", "ccc", "dddd", "eeeee"];
        let ask = |it: &Cached| it.embed(&texts, Purpose::Passage, clock::now());
        let (embedder, counting) = paid(4);
        let answer = ask(&embedder);
        assert_eq!((answer.slots[4].clone(), answer.stopped.is_some()), (Slot::Missing, true));
        assert!(answer.slots[..4].iter().all(|it| it.vector().is_some()));
        assert_eq!(counting.asked.load(Ordering::Relaxed), 5);
        // As a kill: a drop writes nothing.
        drop(embedder);
        let (embedder, counting) = paid(usize::MAX);
        assert!(ask(&embedder).slots.iter().all(|it| it.vector().is_some()));
        assert_eq!(counting.asked.load(Ordering::Relaxed), 1, "what had no answer");
    }

    /// Gives an answer when it is let go, or none by its deadline.
    struct Slow(Counting, Mutex<bool>, Condvar);

    impl Embedder for Slow {
        fn identity(&self) -> &Identity {
            self.0.identity()
        }

        fn is_remote(&self) -> bool {
            true
        }

        fn window(&self) -> usize {
            self.0.window()
        }

        fn count(&self, text: &str) -> usize {
            self.0.count(text)
        }

        fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
            let left = deadline.saturating_duration_since(clock::now());
            let held = self.1.lock().unwrap();
            let (held, _) = self.2.wait_timeout_while(held, left, |it| *it).unwrap();
            match *held {
                false => self.0.embed(texts, purpose, deadline),
                true => {
                    self.0.asked.fetch_add(texts.len(), Ordering::Relaxed);
                    let stopped = Some(EmbedError::Timeout(left));
                    Answer { slots: vec![Slot::Missing; texts.len()], stopped }
                }
            }
        }
    }

    #[test]
    fn a_question_asked_by_many_at_once_is_sent_once_and_nobody_waits_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let (_, counting) = cached(dir.path(), usize::MAX);
        let identity = counting.identity.clone();
        let (cache, _) = Cache::open(dir.path(), &identity, NonZeroUsize::new(9).unwrap()).unwrap();
        let own = Counting { identity, asked: AtomicUsize::new(0), most: usize::MAX };
        let slow = Arc::new(Slow(own, Mutex::new(true), Condvar::new()));
        let embedder = Cached::new(Arc::clone(&slow) as Arc<dyn Embedder>, cache);
        let asked = || slow.0.asked.load(Ordering::Relaxed);
        let within = |limit| clock::now() + limit;
        let left = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let many: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let leave = || {
                            left.fetch_add(1, Ordering::Relaxed);
                            Ok(())
                        };
                        let until = within(Duration::from_secs(60));
                        embedder.embed_by_leave("q", until, &leave).unwrap()
                    })
                })
                .collect();
            // Another question, and one who is in a hurry, wait for none of them.
            let soon = within(Duration::from_millis(20));
            assert!(embedder.embed(&["other"], Purpose::Query, soon).stopped.is_some());
            assert_eq!(embedder.known("q", Purpose::Query), None);
            let soon = within(Duration::from_millis(20));
            assert!(embedder.embed(&["q"], Purpose::Query, soon).stopped.is_some());
            let before = asked();
            *slow.1.lock().unwrap() = false;
            slow.2.notify_all();
            let answers: Vec<_> = many.into_iter().map(|it| it.join().unwrap()).collect();
            assert!(answers.iter().all(|it| it.slots[0].vector().is_some()), "{answers:?}");
            assert_eq!(asked(), before + 1, "sent once");
        });
        assert_eq!(left.load(Ordering::Relaxed), 1, "and leave was asked once");
        let until = || within(Duration::from_secs(60));
        let no = || Err("no");
        assert_eq!(embedder.embed_by_leave("never asked", until(), &no), Err("no"));
        assert!(embedder.embed_by_leave("q", until(), &no).is_ok(), "known");
        assert!(embedder.known("q", Purpose::Query).is_some());
        assert_eq!(embedder.known("q", Purpose::Passage), None, "another text");
    }

    #[test]
    fn what_came_before_a_failure_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (embedder, counting) = cached(dir.path(), 2);
        let answer = embedder.embed(&["a", "", "ccc"], Purpose::Passage, clock::now());
        assert!(answer.slots[0].vector().is_some() && answer.slots[1] == Slot::Silent);
        assert_eq!(answer.slots[2], Slot::Missing);
        assert!(answer.stopped.is_some());
        let answer = embedder.embed(&["a"], Purpose::Passage, clock::now());
        assert_eq!((answer.stopped, counting.asked.load(Ordering::Relaxed)), (None, 3));
    }

    #[test]
    fn a_cache_that_can_t_be_written_is_a_problem_and_no_lack_of_answers() {
        let dir = tempfile::tempdir().unwrap();
        let (embedder, _) = cached(dir.path(), usize::MAX);
        let texts: Vec<String> = (1..100).map(|it| "x".repeat(it)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        std::fs::remove_dir_all(dir.path()).unwrap();
        let answer = embedder.embed(&texts, Purpose::Passage, clock::now());
        assert!(answer.slots.iter().all(|it| it.vector().is_some()));
        assert!(embedder.problem().is_some());
        std::fs::create_dir(dir.path()).unwrap();
        embedder.flush().unwrap();
        assert_eq!(embedder.problem(), None);
        let (embedder, counting) = cached(dir.path(), usize::MAX);
        embedder.embed(&texts, Purpose::Passage, clock::now());
        assert_eq!(counting.asked.load(Ordering::Relaxed), 0);
    }
}

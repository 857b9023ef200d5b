//! What conversations were given already.
//!
//! A client that asks again and again for one conversation names it; a passage that was given to it
//! within a day is not given again. In memory: an agent that starts anew has given nothing.
//! Any thread; the lock is held for moments.
//!
//! **Invariant:** bounded, whatever is asked: so many conversations, so many passages each, those
//! asked last are kept.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::search::results::Hit;
use crate::vault::ChunkId;

/// For how long a passage counts as given.
pub const TTL: Duration = Duration::from_secs(24 * 60 * 60);
const MOST_CONTEXTS: usize = 1000;
const MOST_PASSAGES: usize = 10_000;
/// The longest name of a conversation, in bytes.
pub const MAX_NAME: usize = 1024;

/// The conversations of an agent.
#[derive(Debug, Default)]
pub struct Contexts(Mutex<HashMap<String, Context>>);

#[derive(Debug)]
struct Context {
    given: HashMap<ChunkId, Instant>,
    asked: Instant,
}

/// How the passages given before counted in one answer.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Dedup {
    pub tool_context_id: String,
    /// Passages given before this answer.
    pub seen_before: usize,
    /// Hits left out for it.
    pub skipped_seen: usize,
    /// Passages given, this answer's included.
    pub seen_after: usize,
    /// Passages that counted no more, as it was too long ago.
    pub expired: usize,
    pub ttl_seconds: u64,
}

impl Contexts {
    /// What `name` was given until `now`, and how many passages count no more.
    pub fn given(&self, name: &str, now: Instant) -> (HashSet<ChunkId>, usize) {
        let mut contexts = self.lock();
        let Some(context) = contexts.get_mut(name) else { return (HashSet::new(), 0) };
        let before = context.given.len();
        context.given.retain(|_, at| now.saturating_duration_since(*at) < TTL);
        let expired = before - context.given.len();
        (context.given.keys().cloned().collect(), expired)
    }

    /// Keeps in mind what `name` is given now; says how many passages that makes.
    pub fn give(&self, name: &str, hits: &[Hit], now: Instant) -> usize {
        let mut contexts = self.lock();
        if !contexts.contains_key(name) && contexts.len() >= MOST_CONTEXTS {
            let oldest = contexts.iter().min_by_key(|it| it.1.asked).map(|it| it.0.clone());
            if let Some(oldest) = oldest {
                contexts.remove(&oldest);
            }
        }
        let new = || Context { given: HashMap::new(), asked: now };
        let context = contexts.entry(name.to_owned()).or_insert_with(new);
        context.asked = now;
        context.given.extend(hits.iter().map(|it| (it.id.clone(), now)));
        while context.given.len() > MOST_PASSAGES {
            let oldest = context.given.iter().min_by_key(|it| it.1).map(|it| it.0.clone());
            let Some(oldest) = oldest else { break };
            context.given.remove(&oldest);
        }
        context.given.len()
    }

    /// Keeps the hits in mind, and says how the earlier ones counted.
    pub fn finish(
        &self,
        name: &str,
        given: (usize, usize),
        skipped_seen: usize,
        hits: &[Hit],
        now: Instant,
    ) -> Dedup {
        let (seen_before, expired) = given;
        Dedup {
            tool_context_id: name.to_owned(),
            seen_before,
            skipped_seen,
            seen_after: self.give(name, hits, now),
            expired,
            ttl_seconds: TTL.as_secs(),
        }
    }

    // A panic between leaves one passage too many or too few.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Context>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What the mount has done, counted.
//!
//! Pure but for atomic numbers; any thread. Counts go on over a remount, since whoever mounts again
//! passes the same tally.
//!
//! **Invariant:** `questions` grows when a search is started and at no other time: that listing and
//! probing cost nothing can be read off it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The counters; cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    questions: AtomicU64,
    sent: AtomicU64,
    withheld: AtomicU64,
    pages: AtomicU64,
    late: AtomicU64,
    refused: AtomicU64,
    open: AtomicUsize,
    cached: AtomicUsize,
}

/// The numbers at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Searches started.
    pub questions: u64,
    /// Questions for which somebody outside was asked.
    pub sent: u64,
    /// Questions for which nobody outside was asked any more, as that was done often enough.
    pub withheld: u64,
    /// Other pages made: status, links of a note, README.
    pub pages: u64,
    /// Requests that were told at their deadline that there is no answer yet.
    pub late: u64,
    /// Requests turned away because too many waited already.
    pub refused: u64,
    /// Files and folders open now.
    pub open: usize,
    /// Bytes of pages kept for the next reader.
    pub cached_bytes: usize,
}

impl Tally {
    pub fn read(&self) -> Counted {
        let counts = &self.counts;
        Counted {
            questions: counts.questions.load(Ordering::Relaxed),
            sent: counts.sent.load(Ordering::Relaxed),
            withheld: counts.withheld.load(Ordering::Relaxed),
            pages: counts.pages.load(Ordering::Relaxed),
            late: counts.late.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
            open: counts.open.load(Ordering::Relaxed),
            cached_bytes: counts.cached.load(Ordering::Relaxed),
        }
    }

    pub(super) fn question(&self) {
        self.counts.questions.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody outside is asked a question.
    pub fn sent(&self) {
        self.counts.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Nobody is, as that was done often enough.
    pub fn withheld(&self) {
        self.counts.withheld.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn page(&self) {
        self.counts.pages.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn late(&self) {
        self.counts.late.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many handles are open now.
    pub(super) fn open(&self, handles: usize) {
        self.counts.open.store(handles, Ordering::Relaxed);
    }

    /// How many bytes of pages are kept now.
    pub(super) fn cached(&self, bytes: usize) {
        self.counts.cached.store(bytes, Ordering::Relaxed);
    }
}

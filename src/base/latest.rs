//! A mailbox that keeps only the newest value.
//!
//! Writers never block, readers never miss the last word: what lies between is skipped. Any
//! thread.
//!
//! **Invariant:** a value carries its whole truth; a reader that slept through ten of them needs
//! only the eleventh.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A shared cell with a version; cloning shares it.
#[derive(Debug)]
pub struct Latest<T> {
    inner: Arc<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    cell: Mutex<(u64, T)>,
    changed: Condvar,
    /// How often it was rung; changed under the lock of the cell.
    rings: AtomicU64,
}

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T: Clone> Latest<T> {
    pub fn new(value: T) -> Self {
        Self {
            inner: Arc::new(Inner {
                cell: Mutex::new((0, value)),
                changed: Condvar::new(),
                rings: AtomicU64::new(0),
            }),
        }
    }

    /// Replaces the value and wakes everybody.
    pub fn set(&self, value: T) {
        self.update(|it| *it = value);
    }

    /// Changes the value in place and wakes everybody.
    pub fn update(&self, change: impl FnOnce(&mut T)) {
        let mut cell = self.lock();
        change(&mut cell.1);
        cell.0 += 1;
        drop(cell);
        self.inner.changed.notify_all();
    }

    /// The newest value.
    pub fn get(&self) -> T {
        self.lock().1.clone()
    }

    /// The newest value and its version, to wait from.
    pub fn get_versioned(&self) -> (u64, T) {
        self.lock().clone()
    }

    /// Waits until the version is newer than `seen`; `None` when `limit` runs out first.
    pub fn wait_newer(&self, seen: u64, limit: Duration) -> Option<(u64, T)> {
        let cell = self.lock();
        let (cell, timeout) = self
            .inner
            .changed
            .wait_timeout_while(cell, limit, |it| it.0 <= seen)
            .unwrap_or_else(PoisonError::into_inner);
        (!timeout.timed_out() || cell.0 > seen).then(|| cell.clone())
    }

    /// Wakes who waits by [`Self::wait_newer_or_rung`]: there is something to do, and no news.
    pub fn ring(&self) {
        let cell = self.lock();
        self.inner.rings.fetch_add(1, Ordering::SeqCst);
        drop(cell);
        self.inner.changed.notify_all();
    }

    /// The same as [`Self::wait_newer`], and ends early when it is rung; `rung` is how often it was
    /// so far. Says whether `limit` ran out.
    pub fn wait_newer_or_rung(
        &self,
        seen: u64,
        rung: &mut u64,
        limit: Duration,
    ) -> (Option<(u64, T)>, bool) {
        let rings = || self.inner.rings.load(Ordering::SeqCst);
        let (cell, timeout) = self
            .inner
            .changed
            .wait_timeout_while(self.lock(), limit, |it| it.0 <= seen && rings() == *rung)
            .unwrap_or_else(PoisonError::into_inner);
        *rung = rings();
        ((cell.0 > seen).then(|| cell.clone()), timeout.timed_out())
    }

    // A panic elsewhere leaves a whole value behind: `set` replaces, it never half-writes.
    fn lock(&self) -> MutexGuard<'_, (u64, T)> {
        self.inner.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_slept_gets_the_last_word() {
        let latest = Latest::new(0);
        let (seen, _) = latest.get_versioned();
        for value in 1..=10 {
            latest.set(value);
        }
        assert_eq!(latest.wait_newer(seen, Duration::ZERO).map(|it| it.1), Some(10));
        let (seen, _) = latest.get_versioned();
        assert_eq!(latest.wait_newer(seen, Duration::ZERO), None);
    }

    #[test]
    fn a_ring_wakes_and_is_no_news() {
        let latest = Latest::new(0);
        let (seen, mut rung) = (latest.get_versioned().0, 0);
        latest.ring();
        assert_eq!(latest.wait_newer(seen, Duration::ZERO), None);
        let day = Duration::from_secs(86_400);
        assert_eq!(latest.wait_newer_or_rung(seen, &mut rung, day), (None, false));
        assert_eq!(latest.wait_newer_or_rung(seen, &mut rung, Duration::ZERO), (None, true));
        latest.set(1);
        let (newer, _) = latest.wait_newer_or_rung(seen, &mut rung, day);
        assert_eq!(newer.map(|it| it.1), Some(1));
    }
}

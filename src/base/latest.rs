//! A mailbox that keeps only the newest value.
//!
//! Writers never block, readers never miss the last word: what lies between is skipped. Any
//! thread.
//!
//! **Invariant:** a value carries its whole truth; a reader that slept through ten of them needs
//! only the eleventh.

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
}

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T: Clone> Latest<T> {
    pub fn new(value: T) -> Self {
        Self { inner: Arc::new(Inner { cell: Mutex::new((0, value)), changed: Condvar::new() }) }
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
}

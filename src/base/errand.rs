//! What is at work for us right now, for whoever asks what is waited for.
//!
//! Takes an [`Errand`] when something begins that may take long, gives the list of those that have
//! not ended. Any thread.
//!
//! **Invariant:** an errand is listed exactly as long as its [`AtWork`] is held, also where its
//! thread ends by a fault.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::clock;

/// Something that is done for us: a filter, a hook, a signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errand {
    /// For people: ``the hook `pre-commit` ``.
    pub what: String,
    /// The file that it is about, where it is about one.
    pub about: Option<String>,
    /// When it began, in Unix seconds.
    pub since: i64,
    /// Whether something of ours goes on only when it has ended.
    pub is_waited_for: bool,
}

/// The list; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Errands {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// In the order in which they began.
    open: BTreeMap<u64, Errand>,
}

/// Held while an errand is under way.
#[derive(Debug)]
pub struct AtWork {
    errands: Errands,
    number: u64,
}

impl Errands {
    /// Something begins that is waited for.
    pub fn begin(&self, what: String, about: Option<String>) -> AtWork {
        self.add(Errand { what, about, since: clock::unix_seconds(), is_waited_for: true })
    }

    /// Something begins that nobody waits for.
    pub fn begin_beside(&self, what: String) -> AtWork {
        self.add(Errand { what, about: None, since: clock::unix_seconds(), is_waited_for: false })
    }

    fn add(&self, errand: Errand) -> AtWork {
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        inner.open.insert(number, errand);
        AtWork { errands: self.clone(), number }
    }

    /// What is under way, the oldest first.
    pub fn list(&self) -> Vec<Errand> {
        self.lock().open.values().cloned().collect()
    }

    // Each change is one insertion or removal: a panic leaves the list whole.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.errands.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_listed_as_long_as_it_is_under_way() {
        let errands = Errands::default();
        let first = errands.begin("a filter".to_owned(), Some("n.md".to_owned()));
        let second = errands.begin_beside("a hook".to_owned());
        let named = || errands.list().into_iter().map(|it| it.what).collect::<Vec<_>>();
        assert_eq!(named(), ["a filter", "a hook"]);
        drop(first);
        assert_eq!(named(), ["a hook"]);
        let fault = std::thread::spawn({
            let errands = errands.clone();
            move || {
                let _at_work = errands.begin("a fault".to_owned(), None);
                assert!(errands.list().is_empty(), "on purpose");
            }
        });
        assert!(fault.join().is_err());
        assert_eq!(named(), ["a hook"]);
        drop(second);
        assert!(errands.list().is_empty());
    }
}

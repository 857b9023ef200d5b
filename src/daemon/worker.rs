//! A thread beside the committer that sleeps on the ledger.
//!
//! Takes a name and the work, gives what ends it. [`next`] is how such a thread waits for a turn.
//!
//! **Invariant:** a stop is never slept through: it makes a newer ledger, and whoever reads the
//! ledger asks for a stop after that.

use std::thread::JoinHandle;

use crate::base::process::Stop;
use crate::daemon::house::{House, Ledger};

/// The thread.
pub struct Worker {
    house: House,
    stop: Stop,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts `work`, which ends when what it is given says so.
    pub fn start(
        house: &House,
        name: &str,
        work: impl FnOnce(Stop) + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = house.children.below();
        let own = stop.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(own))?;
        Ok(Self { house: house.clone(), stop, thread })
    }

    /// Ends what is under way, children too, and waits for the thread.
    pub fn stop(self) {
        self.stop.set();
        self.house.ledger.update(|_| {});
        super::ending::join(self.thread);
    }
}

/// The ledger as it is with its version, for a turn; `None` when it is the end.
pub fn next(house: &House, stop: &Stop) -> Option<(u64, Ledger)> {
    let turn = house.ledger.get_versioned();
    (!stop.is_set()).then_some(turn)
}

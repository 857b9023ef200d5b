//! How threads end.
//!
//! Takes their handles when the agent stops.
//!
//! **Invariant:** stopping ends, whatever a thread is at.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::base::clock;

/// How long stopping may take before the process ends anyway.
const STOP_LIMIT: Duration = Duration::from_secs(9);
/// How long the index may take to become durable.
const INDEX_GRACE: Duration = Duration::from_secs(4);
/// The pause between two looks whether a thread has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits for a thread.
pub(super) fn join(thread: JoinHandle<()>) {
    let name = thread.thread().name().unwrap_or("thread").to_owned();
    if thread.join().is_err() {
        tracing::error!(thread = name, "ended by a fault in itself");
    }
}

/// Waits for the index a little and leaves it where it is then: whatever it is at begins again
/// where a kill would leave it, and making large segments one takes a while. The process must end
/// after this.
pub(super) fn leave(indexer: JoinHandle<()>) {
    let until = clock::now() + INDEX_GRACE;
    while !indexer.is_finished() {
        if clock::now() >= until {
            tracing::info!("the index is at work for longer; the next start goes on with it");
            return;
        }
        std::thread::park_timeout(PAUSE);
    }
    join(indexer);
}

/// Ends the process if stopping takes too long: systemd would, less kindly.
///
/// It ends with what it gives.
pub(super) fn spawn_deadline() -> Sender<()> {
    let (until, stopped) = channel();
    std::thread::spawn(move || {
        if stopped.recv_timeout(STOP_LIMIT) == Err(RecvTimeoutError::Timeout) {
            tracing::error!(
                "stopping took too long; what is left is found again at the next start"
            );
            std::process::exit(1);
        }
    });
    until
}

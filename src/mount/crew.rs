//! A bounded crew of threads for work that may take a while.
//!
//! Takes jobs, runs each on a thread of its own crew, in order. Threads start when there is work
//! and nobody is free, up to a fixed number, and then stay. A job that panics is the job's loss,
//! not the crew's.
//!
//! **Invariant:** the queue and the number of threads are bounded, so that a thousand slow
//! questions cost memory for some and a refusal for the rest.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Work for a crew.
pub type Job = Box<dyn FnOnce() + Send>;

/// Threads and their queue. Dropping it lets each thread end after the job it has in hand.
pub struct Crew {
    shared: Arc<Shared>,
    name: &'static str,
    most: usize,
    queue: usize,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    hands: usize,
    free: usize,
    closed: bool,
}

/// The queue is full, or the crew is going home.
#[derive(Debug)]
pub struct Busy;

impl Crew {
    pub fn new(name: &'static str, most: usize, queue: usize) -> Self {
        let shared = Shared { state: Mutex::new(State::default()), work: Condvar::new() };
        Self { shared: Arc::new(shared), name, most, queue }
    }

    /// Puts a job into the queue.
    pub fn send(&self, job: Job) -> Result<(), Busy> {
        let mut state = self.shared.lock();
        if state.closed || state.jobs.len() >= self.queue {
            return Err(Busy);
        }
        if state.free <= state.jobs.len() && state.hands < self.most {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new()
                .name(format!("{}-{}", self.name, state.hands))
                .spawn(move || shared.run());
            match started {
                Ok(_detached) => state.hands += 1,
                Err(err) if state.hands == 0 => {
                    tracing::warn!(crew = self.name, %err, "no thread to be had");
                    return Err(Busy);
                }
                // The others do it, later.
                Err(err) => tracing::debug!(crew = self.name, %err, "no further thread"),
            }
        }
        state.jobs.push_back(job);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        drop(left);
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!("a job of the mount panicked");
                }
                state = self.lock();
                continue;
            }
            if state.closed {
                return;
            }
            state.free += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.free -= 1;
        }
    }

    // Nothing panics while it holds the lock; a poisoned one still guards a whole state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_job_that_panics_takes_nobody_along() {
        let crew = Crew::new("test", 1, 8);
        crew.send(Box::new(|| panic!("on purpose"))).unwrap();
        let (done, wait) = mpsc::channel();
        crew.send(Box::new(move || done.send(()).unwrap())).unwrap();
        wait.recv_timeout(LIMIT).unwrap();
    }

    #[test]
    fn threads_and_queue_are_bounded() {
        let crew = Crew::new("test", 2, 3);
        let (started, has_started) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..2 {
            let (started, gate) = (started.clone(), Arc::clone(&gate));
            crew.send(Box::new(move || {
                started.send(()).unwrap();
                let _released = gate.lock().unwrap().recv();
            }))
            .unwrap();
        }
        for _ in 0..2 {
            has_started.recv_timeout(LIMIT).unwrap();
        }
        for _ in 0..3 {
            crew.send(Box::new(|| {})).unwrap();
        }
        assert!(crew.send(Box::new(|| {})).is_err(), "the queue is full");
        assert_eq!(crew.shared.lock().hands, 2);
        drop(release);
    }
}

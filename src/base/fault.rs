//! Named points at which a test may kill the process.
//!
//! `REMD_FAULT=committer.before_ref` kills the process (SIGKILL, nothing unwinds, nothing is
//! flushed) the first time it reaches `fault::point("committer.before_ref")`;
//! `REMD_FAULT=committer.before_ref:3` the third time. Compiled in debug builds only and inert
//! without the variable. Any thread.
//!
//! `REMD_HOLD=desk.search:PATH` makes `fault::hold("desk.search")` wait while there is a file at
//! `PATH`: how a test makes something slow, and fast again.
//!
//! **Invariant:** a point has no effect on what the program does, except to end it or to hold it up.

/// Ends the process here if `REMD_FAULT` names this point.
#[cfg(debug_assertions)]
pub fn point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let wanted = WANTED.get_or_init(|| {
        let value = std::env::var("REMD_FAULT").ok()?;
        let (name, nth) = match value.split_once(':') {
            Some((name, nth)) => (name.to_owned(), nth.parse().unwrap_or(1)),
            None => (value, 1),
        };
        Some((name, nth))
    });
    if let Some((wanted, nth)) = wanted
        && wanted == name
        && SEEN.fetch_add(1, Ordering::SeqCst) + 1 == *nth
    {
        // SAFETY: kill(2) takes two integers and touches no memory of ours.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        loop {
            std::hint::spin_loop();
        }
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn point(_name: &str) {}

/// Waits here while the file that `REMD_HOLD` names for this point is there.
#[cfg(debug_assertions)]
pub fn hold(name: &str) {
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::time::Duration;

    static WANTED: OnceLock<Option<(String, PathBuf)>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let value = std::env::var("REMD_HOLD").ok()?;
        let (name, path) = value.split_once(':')?;
        Some((name.to_owned(), PathBuf::from(path)))
    });
    if let Some((wanted, path)) = wanted
        && wanted == name
    {
        while crate::base::fs::stat(path).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn hold(_name: &str) {}

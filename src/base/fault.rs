//! Named points at which a test may kill the process, or let a call of the system fail.
//!
//! `REMD_FAULT=committer.before_ref` kills the process (SIGKILL, nothing unwinds, nothing is
//! flushed) the first time it reaches `fault::point("committer.before_ref")`;
//! `REMD_FAULT=committer.before_ref:3` the third time. `REMD_FAULTS` names a file of lines like
//! `store.append=28` (an errno), `watcher.event=panic` or `packer.quiet=50` (milliseconds), read at
//! every such point: what a machine does to a process while it runs comes and goes with the lines. Compiled in debug builds only
//! and inert without the variables. Any thread.
//!
//! `REMD_HOLD=desk.search:PATH` makes `fault::hold("desk.search")` wait while there is a file at
//! `PATH`: how a test makes something slow, and fast again.
//!
//! **Invariant:** a point has no effect on what the program does, except to end it, to hold it up
//! or hurry it, or to fail as the system would.

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

/// How long is waited here, where a test wants another time than a person: in milliseconds.
#[cfg(debug_assertions)]
pub fn pause(name: &str, otherwise: std::time::Duration) -> std::time::Duration {
    let wanted = wanted(name).and_then(|it| it.parse().ok());
    wanted.map_or(otherwise, std::time::Duration::from_millis)
}

/// What a person waits in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn pause(_name: &str, otherwise: std::time::Duration) -> std::time::Duration {
    otherwise
}

/// The error that a test wants the system to give here.
#[cfg(debug_assertions)]
pub fn error(name: &str) -> std::io::Result<()> {
    match wanted(name).and_then(|it| it.parse().ok()) {
        Some(errno) => Err(std::io::Error::from_raw_os_error(errno)),
        None => Ok(()),
    }
}

/// No error in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn error(_name: &str) -> std::io::Result<()> {
    Ok(())
}

/// Panics if a test wants the thread to end here.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "a test asks for it")]
pub fn thread_end(name: &str) {
    if wanted(name).is_some_and(|it| it == "panic") {
        panic!("a test ends this thread at {name}");
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn thread_end(_name: &str) {}

/// What the file that `REMD_FAULTS` names says of a point.
#[cfg(debug_assertions)]
fn wanted(name: &str) -> Option<String> {
    use std::path::PathBuf;
    use std::sync::OnceLock;

    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os("REMD_FAULTS").map(PathBuf::from)).as_ref()?;
    let lines = String::from_utf8(super::fs::read(file).ok()?).ok()?;
    let found = lines.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
    found.map(str::to_owned)
}

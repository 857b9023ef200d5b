//! Where the lines of the log go: the standard error of the process.
//!
//! Takes whole lines, writes them or drops them. Any thread.
//!
//! **Invariant:** a full disk, a reader that is gone and one that reads no more cost lines, never
//! the thread that has something to say. What was lost is counted, and told when it works again.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use crate::base::clock;

/// How long a reader that does not keep up is waited for, before its lines are dropped.
const PATIENCE_MS: libc::c_int = 1000;

/// What a pipe that says it has room takes without waiting.
const CHUNK: usize = 4096;

/// What could not be written, while it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    pub lines: u64,
    /// Unix seconds of the first one.
    pub since: i64,
}

#[derive(Debug)]
struct State {
    lost: Option<Lost>,
    /// Whether the last line that was begun has no end.
    torn: bool,
}

static STATE: Mutex<State> = Mutex::new(State { lost: None, torn: false });

/// The lines that were lost since the last one that was written.
pub fn lost() -> Option<Lost> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner).lost
}

/// The standard error, for the log. Each write is one or more whole lines.
#[derive(Clone, Copy, Debug)]
pub struct Sink;

impl Write for Sink {
    /// Never fails: there is nobody to tell.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        put(&mut STATE.lock().unwrap_or_else(PoisonError::into_inner), libc::STDERR_FILENO, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn put(state: &mut State, fd: libc::c_int, line: &[u8]) {
    // Who did not keep up is waited for once, not at every line.
    let patience = if state.lost.is_some() { 0 } else { PATIENCE_MS };
    let mut whole = Vec::new();
    if state.torn {
        whole.push(b'\n');
    }
    if let Some(lost) = state.lost {
        let told =
            format!("({} lines of the log were lost here: no room, no reader)\n", lost.lines);
        whole.extend_from_slice(told.as_bytes());
    }
    whole.extend_from_slice(line);
    let mut written = 0;
    while written < whole.len() {
        let end = whole.len().min(written + CHUNK);
        match write_soon(fd, &whole[written..end], patience) {
            Ok(count) if count > 0 => written += count,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => {
                state.torn |= written > 0;
                let since = clock::unix_seconds();
                state.lost.get_or_insert(Lost { lines: 0, since }).lines += 1;
                return;
            }
        }
    }
    (state.lost, state.torn) = (None, false);
}

/// Writes what can be written without waiting longer than that.
fn write_soon(fd: libc::c_int, bytes: &[u8], patience_ms: libc::c_int) -> io::Result<usize> {
    let mut asked = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll(2) gets one valid record and its count.
    match unsafe { libc::poll(&raw mut asked, 1, patience_ms) } {
        -1 => return Err(io::Error::last_os_error()),
        0 => return Err(io::ErrorKind::TimedOut.into()),
        _ => {}
    }
    // SAFETY: write(2) reads as many bytes as the slice has.
    let count = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// A limit on the size of files makes a write fail from now on, and ends nobody.
pub fn outlive_size_limit() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // By a handler: being ignored would be inherited by children.
    let handler = nothing as extern "C" fn(libc::c_int);
    // SAFETY: the handler does nothing, which is safe in any thread at any time.
    unsafe {
        libc::signal(libc::SIGXFSZ, handler as libc::sighandler_t);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn what_cannot_be_written_is_dropped_and_told_when_it_can() {
        let (mut reader, writer) = io::pipe().unwrap();
        // SAFETY: fcntl(2) takes a descriptor and two integers.
        let room = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
        assert_eq!(room, 4096);
        let mut state = State { lost: None, torn: false };
        let mut say = |text: &str| {
            put(&mut state, writer.as_raw_fd(), text.as_bytes());
            state.lost.map_or(0, |it| it.lines)
        };
        let full = format!("{}\n", "x".repeat(4095));
        assert_eq!(say(&full), 0);
        assert_eq!(say("one\n"), 1);
        assert_eq!(say("two\n"), 2);
        let mut read = vec![0; 4096];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(read, full.as_bytes());
        assert_eq!(say("three\n"), 0);
        drop(reader);
        assert_eq!(say("four\n"), 1);
    }

    #[test]
    fn a_line_that_was_cut_off_gets_its_end() {
        let (mut reader, writer) = io::pipe().unwrap();
        // SAFETY: fcntl(2) takes a descriptor and two integers.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
        let mut state = State { lost: None, torn: false };
        put(&mut state, writer.as_raw_fd(), "y".repeat(5000).as_bytes());
        assert!(state.torn);
        let mut read = vec![0; 4096];
        reader.read_exact(&mut read).unwrap();
        put(&mut state, writer.as_raw_fd(), b"next\n");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "\n(1 lines of the log were lost here: no room, no reader)\nnext\n");
    }
}

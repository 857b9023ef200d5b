//! Child processes with a deadline.
//!
//! Takes a program, arguments and a limit, gives its output. Blocking, any thread but tokio's.
//!
//! **Invariant:** no child outlives its deadline, none inherits our standard input, and none
//! speaks to us in a language other than `C`.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::base::clock;

/// What a child left behind.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Why a child gave no output.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("Cannot start `{program}`")]
    Start { program: String, source: io::Error },
    #[error("`{program}` did not end within {} s and was stopped", limit.as_secs())]
    Deadline { program: String, limit: Duration },
}

/// Runs a program to its end, or kills its whole process group at the deadline.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn run<S: AsRef<OsStr>>(
    program: &str,
    args: &[S],
    limit: Duration,
) -> Result<Output, ProcessError> {
    let start = |source| ProcessError::Start { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(start)?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let status = wait(&mut child, limit).map_err(start)?;
    let Some(status) = status else {
        return Err(ProcessError::Deadline { program: program.to_owned(), limit });
    };
    Ok(Output {
        status,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    })
}

/// Tells the allocator to keep little that is not in use. Before any other thread starts.
///
/// Left to itself glibc stops giving large blocks a mapping of their own once it has seen one
/// freed, and keeps a heap for each thread: a first index then takes twice the memory it uses.
pub fn keep_little_memory() {
    // SAFETY: mallopt(3) takes two integers; no other thread is in the allocator yet.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_ARENA_MAX, 4);
    }
}

/// Variables by which git is told of another repository than the one that is looked at; they are
/// set in hooks, and in shells that came from one.
const GIT_REDIRECTS: [&str; 16] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_QUARANTINE_PATH",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_CONFIG",
    "GIT_CEILING_DIRECTORIES",
];

/// Forgets what the environment says of another repository, for us and for every child.
///
/// # Safety
///
/// Only while the process has one thread.
pub unsafe fn forget_git_redirects() {
    for name in GIT_REDIRECTS {
        // SAFETY: nobody else reads the environment, as the caller says.
        unsafe { std::env::remove_var(name) };
    }
}

/// Gives memory that is free again back to the system; the allocator keeps it otherwise.
pub fn give_memory_back() {
    // SAFETY: malloc_trim(3) takes one integer and may be called at any time from any thread.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Reads a pipe to its end on its own thread, so that a chatty child never blocks.
fn drain(pipe: Option<impl io::Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // A pipe that breaks ends the output; what came before it counts.
            let _read = pipe.take(16 << 20).read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Waits for the child with a growing pause; `None` when it had to be killed.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = clock::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if clock::now() >= deadline {
            let group = libc::pid_t::try_from(child.id()).unwrap_or(libc::pid_t::MAX);
            // SAFETY: kill(2) takes two integers; the group is the child's own (process_group(0)).
            unsafe {
                libc::kill(-group, libc::SIGKILL);
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_hangs_is_stopped_at_its_deadline() {
        let hung = run("sleep", &["600"], Duration::from_millis(50));
        assert!(matches!(hung, Err(ProcessError::Deadline { .. })));
        let output = run("printf", &["ok"], Duration::from_secs(10)).unwrap();
        assert_eq!(output.stdout, b"ok");
    }
}

//! The other end of the socket.
//!
//! Takes a socket and a request, gives the answer or says that nobody is there. Blocking.
//!
//! **Invariant:** nothing waits longer than its limit, also for an agent that hangs.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::serve::protocol::{Answer, Envelope, Request, VERSION};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No socket, a dead one, or one whose agent ended before it answered.
    #[error("No agent is running for this vault")]
    NobodyThere,
    #[error("The agent did not answer within {} s", .0.as_secs())]
    Deadline(Duration),
    #[error("Cannot talk to the agent")]
    Talk(#[source] io::Error),
    #[error("The agent's answer makes no sense (another version of remd?)")]
    Answer(#[source] serde_json::Error),
}

/// Asks the agent behind the first of `sockets` where one is.
pub fn ask_any(
    sockets: &[PathBuf],
    request: &Request,
    limit: Duration,
) -> Result<Answer, AskError> {
    for socket in sockets {
        match ask(socket, request.clone(), limit) {
            Err(AskError::NobodyThere) => {}
            other => return other,
        }
    }
    Err(AskError::NobodyThere)
}

/// Asks the agent behind `socket`.
pub fn ask(socket: &Path, request: Request, limit: Duration) -> Result<Answer, AskError> {
    let talk = |err: io::Error| match err.kind() {
        // It was on its way out.
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => AskError::NobodyThere,
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AskError::Deadline(limit),
        _ => AskError::Talk(err),
    };
    let mut stream = UnixStream::connect(socket).map_err(|err| match err.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NobodyThere,
        _ => AskError::Talk(err),
    })?;
    stream.set_read_timeout(Some(limit)).map_err(talk)?;
    stream.set_write_timeout(Some(limit)).map_err(talk)?;
    let mut line = serde_json::to_vec(&Envelope { version: VERSION, request })
        .map_err(|err| AskError::Talk(io::Error::other(err)))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(talk)?;
    let mut answer = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut answer).map_err(talk)?;
    if answer.is_empty() {
        return Err(AskError::NobodyThere);
    }
    serde_json::from_slice(&answer).map_err(AskError::Answer)
}

//! The other end of the socket.
//!
//! Takes a socket and a request, gives the answer or says that nobody is there. Blocking.
//!
//! **Invariant:** nothing waits longer than its limit, also for an agent that hangs; one that is
//! stopped is known within [`FIRST_SIGN`].

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::serve::protocol::{Answer, Envelope, Request, VERSION};

/// How long an agent may take to say that it is there; it does so before it begins to work.
pub const FIRST_SIGN: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No socket, a dead one, or one whose agent ended before it answered.
    #[error("No agent is running for this vault")]
    NobodyThere,
    /// There is an agent, and it does nothing.
    #[error("The agent gave no sign within {} s", FIRST_SIGN.as_secs())]
    Silent,
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

/// Tells the agent behind `socket` something, and waits for no answer.
pub fn tell(socket: &Path, request: Request, limit: Duration) -> Result<(), AskError> {
    let late = |err: io::Error| match err.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AskError::Deadline(limit),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => AskError::NobodyThere,
        _ => AskError::Talk(err),
    };
    // No time at all is no limit to the system.
    let limit = limit.max(Duration::from_millis(1));
    let mut stream = connect(socket, limit)?;
    stream.set_write_timeout(Some(limit)).map_err(late)?;
    stream.write_all(&in_a_line(request)?).map_err(late)
}

fn in_a_line(request: Request) -> Result<Vec<u8>, AskError> {
    let mut line = serde_json::to_vec(&Envelope { version: VERSION, request })
        .map_err(|err| AskError::Talk(io::Error::other(err)))?;
    line.push(b'\n');
    Ok(line)
}

/// Asks the agent behind `socket`.
pub fn ask(socket: &Path, request: Request, limit: Duration) -> Result<Answer, AskError> {
    let talk = |err: io::Error, late: AskError| match err.kind() {
        // It was on its way out.
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => AskError::NobodyThere,
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late,
        _ => AskError::Talk(err),
    };
    let silent = |err| talk(err, AskError::Silent);
    let mut stream = connect(socket, FIRST_SIGN)?;
    stream.set_read_timeout(Some(FIRST_SIGN)).map_err(silent)?;
    stream.set_write_timeout(Some(FIRST_SIGN)).map_err(silent)?;
    stream.write_all(&in_a_line(request)?).map_err(silent)?;
    let mut reader = BufReader::new(stream);
    reader.fill_buf().map_err(silent)?;
    let late = |err| talk(err, AskError::Deadline(limit));
    reader.get_ref().set_read_timeout(Some(limit)).map_err(late)?;
    let mut answer = Vec::new();
    reader.read_until(b'\n', &mut answer).map_err(late)?;
    if answer.trim_ascii().is_empty() {
        return Err(AskError::NobodyThere);
    }
    serde_json::from_slice(&answer).map_err(AskError::Answer)
}

/// The system waits for ever where too many wait for a stopped agent; we don't.
fn connect(socket: &Path, limit: Duration) -> Result<UnixStream, AskError> {
    let (send, receive) = channel();
    let path = socket.to_owned();
    // Left alone where it hangs: it ends with this command, or with that agent.
    std::thread::spawn(move || {
        let _late = send.send(UnixStream::connect(path));
    });
    let connected = receive.recv_timeout(limit).map_err(|_| AskError::Silent)?;
    connected.map_err(|err| match err.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NobodyThere,
        _ => AskError::Talk(err),
    })
}

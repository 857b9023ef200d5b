//! The agent's Unix socket.
//!
//! Takes a path and a [`Handler`], answers one JSON line for each JSON line. Runs on the tokio
//! runtime; a request's work runs on its blocking pool.
//!
//! **Invariant:** a slow, broken or endless client costs one task, never the agent: lines are
//! bounded, idle connections end, and at most [`MAX_CLIENTS`] are served at once.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use crate::base::fs::{self, PathError};
use crate::serve::protocol::{Answer, Envelope, MAX_REQUEST, Request, VERSION};

/// Answers requests; implemented by the daemon.
pub trait Handler: Send + Sync + 'static {
    /// Blocking; called on a thread of its own.
    fn answer(&self, request: Request, caller: &Caller) -> Answer;

    /// Told when the socket was removed and cannot be made again, and when it is there again.
    fn is_reachable(&self, _trouble: Option<&PathError>) {}
}

/// Who asked.
#[derive(Debug)]
pub struct Caller {
    connection: OwnedFd,
}

impl Caller {
    /// Whether nobody waits for the answer any more: the other end gave up, or was killed. An end
    /// that has only said all it has to say is still there.
    pub fn is_gone(&self) -> bool {
        let mut asked = libc::pollfd { fd: self.connection.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: poll(2) gets one valid record and its count, and does not wait.
        let told = unsafe { libc::poll(&raw mut asked, 1, 0) };
        told > 0 && asked.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
    }
}

/// How often is looked whether the socket is still there.
const LOOK: Duration = Duration::from_secs(2);

/// How many clients are served at once; further ones wait their turn.
pub const MAX_CLIENTS: usize = 64;

/// A client that says nothing for this long is let go.
const IDLE: Duration = Duration::from_secs(60);

/// The bound socket; removes its file when dropped, if it is still its own.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    identity: (u64, u64),
    /// A symlink to it.
    also: Option<PathBuf>,
    listener: UnixListener,
}

impl Socket {
    /// Binds, taking the place of a dead agent's socket.
    ///
    /// Only the holder of the vault's lock may call this: with the lock held, whoever left a
    /// socket there is gone.
    pub fn bind(path: &Path) -> Result<Self, PathError> {
        fs::remove_file(path)?;
        let (listener, identity) = listen(path)?;
        Ok(Self { path: path.to_owned(), identity, also: None, listener })
    }

    /// Gives it a second name, which is taken over from whoever had it.
    pub fn also_at(mut self, name: &Path) -> Result<Self, PathError> {
        fs::remove_file(name)?;
        give_name(&self.path, name)?;
        self.also = Some(name.to_owned());
        Ok(self)
    }

    /// Listens anew where somebody removed the socket: a clean-up, the end of a session.
    ///
    /// What stands in its place is somebody else's, and left alone.
    fn come_back(&mut self, handler: &Arc<dyn Handler>) {
        let is_gone = |path: &Path| matches!(fs::lstat_if_there(path), Ok(None));
        let mut trouble = None;
        if is_gone(&self.path) {
            match listen(&self.path) {
                Ok((listener, identity)) => {
                    (self.listener, self.identity) = (listener, identity);
                    tracing::warn!("the socket was removed by somebody; it is there again");
                }
                Err(err) => trouble = Some(err),
            }
        }
        if let Some(also) = &self.also
            && trouble.is_none()
            && is_gone(also)
        {
            trouble = give_name(&self.path, also).err();
        }
        handler.is_reachable(trouble.as_ref());
    }

    /// Serves until the task is dropped.
    pub async fn serve(mut self, handler: Arc<dyn Handler>) {
        let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
        let mut failures: u32 = 0;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let Ok(permit) = Arc::clone(&clients).acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = look.tick() => {
                    self.come_back(&handler);
                    continue;
                }
            };
            match accepted {
                Ok((stream, _)) => {
                    failures = 0;
                    let handler = Arc::clone(&handler);
                    tokio::spawn(async move {
                        if let Err(err) = converse(stream, handler).await {
                            tracing::debug!(error = %err, "client went away");
                        }
                        drop(permit);
                    });
                }
                Err(err) => {
                    // Out of file handles, most likely: it passes.
                    failures = failures.saturating_add(1);
                    if failures.is_power_of_two() {
                        tracing::warn!(error = %err, failures, "cannot accept a client");
                    }
                    let pause = Duration::from_millis(100) * failures.min(20);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}

/// Binds where nothing is.
fn listen(path: &Path) -> Result<(UnixListener, (u64, u64)), PathError> {
    if let Some(folder) = path.parent() {
        fs::create_private_dir_all(folder)?;
    }
    let listener = fs::at("bind the socket", path, UnixListener::bind(path))?;
    fs::set_mode(path, 0o600)?;
    Ok((listener, fs::identity(path)?))
}

fn give_name(socket: &Path, name: &Path) -> Result<(), PathError> {
    if let Some(folder) = name.parent() {
        fs::create_private_dir_all(folder)?;
    }
    fs::symlink(socket, name)
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(also) = &self.also
            && fs::read_link(also).is_ok_and(|it| it == self.path)
            && let Err(err) = fs::remove_file(also)
        {
            tracing::warn!(error = %err, "the socket's second name stays behind");
        }
        if fs::identity(&self.path).is_ok_and(|it| it == self.identity)
            && let Err(err) = fs::remove_file(&self.path)
        {
            tracing::warn!(error = %err, "socket file stays behind");
        }
    }
}

async fn converse(stream: UnixStream, handler: Arc<dyn Handler>) -> io::Result<()> {
    let caller = Arc::new(Caller { connection: stream.as_fd().try_clone_to_owned()? });
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = u64::try_from(MAX_REQUEST).unwrap_or(u64::MAX);
        let mut bounded = (&mut read).take(limit);
        let next = bounded.read_until(b'\n', &mut line);
        let Ok(next) = tokio::time::timeout(IDLE, next).await else { return Ok(()) };
        if next? == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        let answer = if whole { answer(&line, &handler, &caller).await } else { too_long() };
        let mut bytes = serde_json::to_vec(&answer).map_err(io::Error::other)?;
        bytes.push(b'\n');
        write.write_all(&bytes).await?;
        if !whole {
            return Ok(());
        }
    }
}

async fn answer(line: &[u8], handler: &Arc<dyn Handler>, caller: &Arc<Caller>) -> Answer {
    let request = match serde_json::from_slice::<Envelope>(line) {
        Ok(envelope) if envelope.version == VERSION => envelope.request,
        Ok(envelope) => {
            return failed(
                format!("Client speaks version {}, the agent {VERSION}", envelope.version),
                Some("Restart the agent, so that both are of the same remd."),
            );
        }
        Err(err) => return failed(format!("Request not understood: {err}"), None),
    };
    let (handler, caller) = (Arc::clone(handler), Arc::clone(caller));
    let work = move || {
        // An agent that was stopped, or a queue, may come to it long after the client gave up and
        // said so to its person.
        if request.changes() && caller.is_gone() {
            tracing::info!(?request, "not carried out: nobody waits for it any more");
            return failed("Nobody waits for the answer any more".to_owned(), None);
        }
        handler.answer(request, &caller)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(err) => {
            tracing::error!(error = %err, "request handler panicked");
            failed("The agent met a fault in itself; its log says more".to_owned(), None)
        }
    }
}

fn failed(message: String, hint: Option<&str>) -> Answer {
    Answer::Failed { message, hint: hint.map(str::to_owned), usage: false }
}

fn too_long() -> Answer {
    Answer::Failed {
        message: format!("Request is longer than {MAX_REQUEST} bytes, or not a whole line"),
        hint: None,
        usage: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::client;

    struct Fake;

    impl Handler for Fake {
        fn answer(&self, request: Request, _caller: &Caller) -> Answer {
            match request {
                Request::Pause => panic!("on purpose"),
                _ => Answer::Done { said: "done".into(), paths: Vec::new() },
            }
        }
    }

    fn with_socket(check: impl FnOnce(&Path)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/agent.sock");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let server = std::thread::spawn({
            let path = path.clone();
            move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let socket = Socket::bind(&path).unwrap();
                    ready.send(()).unwrap();
                    tokio::select! {
                        () = socket.serve(Arc::new(Fake)) => {}
                        _ = stopped => {}
                    }
                });
            }
        });
        is_ready.recv_timeout(Duration::from_secs(20)).unwrap();
        check(&path);
        stop.send(()).unwrap();
        server.join().unwrap();
        assert!(!path.exists(), "the socket goes with its agent");
    }

    #[test]
    fn a_request_gets_its_answer_and_a_fault_ends_no_other() {
        with_socket(|path| {
            let limit = Duration::from_secs(20);
            let fault = client::ask(path, Request::Pause, limit).unwrap();
            assert!(matches!(fault, Answer::Failed { .. }), "{fault:?}");
            let done = client::ask(path, Request::Accept { dry_run: true }, limit).unwrap();
            assert!(matches!(done, Answer::Done { .. }), "{done:?}");
        });
    }

    #[test]
    fn a_caller_is_gone_when_its_end_is_closed_and_not_before() {
        use std::net::Shutdown;
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let caller = Caller { connection: here.into() };
        assert!(!caller.is_gone());
        there.shutdown(Shutdown::Write).unwrap();
        assert!(!caller.is_gone(), "it still reads the answer");
        drop(there);
        assert!(caller.is_gone());
    }

    #[test]
    fn nonsense_and_other_versions_get_an_answer_too() {
        use std::io::{BufRead as _, Write as _};
        with_socket(|path| {
            let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
            let mut lines = io::BufReader::new(stream.try_clone().unwrap()).lines();
            for (request, wanted) in [
                ("nonsense", "not understood"),
                (r#"{"version":999,"request":{"do":"status"}}"#, "version 999"),
                (r#"{"version":1,"request":{"do":"frobnicate"}}"#, "not understood"),
            ] {
                stream.write_all(format!("{request}\n").as_bytes()).unwrap();
                let answer = lines.next().unwrap().unwrap();
                assert!(answer.contains(wanted), "{answer}");
            }
        });
    }
}

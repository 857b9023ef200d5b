//! The agent's Unix socket.
//!
//! Takes a path and a [`Handler`], answers one JSON line for each JSON line. Runs on the tokio
//! runtime; a request's work runs on its blocking pool.
//!
//! **Invariant:** a slow, broken or endless client costs one task, never the agent: lines are
//! bounded, idle connections end, an answer is taken in time or dropped, and at most
//! [`Limits::clients`] are held at once. When all places are taken, whoever has kept us waiting
//! longest leaves for whoever comes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::MissedTickBehavior;

use crate::base::clock;
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

/// What a client may take of us.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many are held at once.
    pub clients: usize,
    /// One that says nothing for so long is let go.
    pub idle: Duration,
    /// One that has not taken its answer after so long is let go.
    pub taking: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (idle, taking) = (Duration::from_secs(60), Duration::from_secs(10));
        Self { clients: 64, idle, taking }
    }
}

/// Who is held, and who keeps us waiting.
#[derive(Debug, Default)]
struct Clients {
    next: u64,
    held: BTreeMap<u64, Client>,
    /// Told when one begins to keep us waiting.
    one_waits: Arc<Notify>,
}

#[derive(Debug)]
struct Client {
    /// Since when it has kept us waiting; `None` while we work for it.
    waits_since: Option<Instant>,
    leave: Arc<Notify>,
}

/// A client's place, given up when dropped.
struct Seat {
    clients: Arc<Mutex<Clients>>,
    number: u64,
    leave: Arc<Notify>,
}

impl Seat {
    fn take(clients: &Arc<Mutex<Clients>>) -> Self {
        let leave = Arc::new(Notify::new());
        let mut inner = lock(clients);
        let number = inner.next;
        inner.next += 1;
        let waits_since = Some(clock::now());
        inner.held.insert(number, Client { waits_since, leave: Arc::clone(&leave) });
        Self { clients: Arc::clone(clients), number, leave }
    }

    fn set_waiting(&self, waits: bool) {
        let mut clients = lock(&self.clients);
        if let Some(client) = clients.held.get_mut(&self.number) {
            client.waits_since = waits.then(clock::now);
        }
        if waits {
            clients.one_waits.notify_one();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.clients).held.remove(&self.number);
    }
}

/// Lets go of whoever has kept us waiting longest.
fn make_room(clients: &Mutex<Clients>) {
    let mut inner = lock(clients);
    let waiting = inner.held.iter_mut().filter(|it| it.1.waits_since.is_some());
    if let Some((_, client)) = waiting.min_by_key(|it| it.1.waits_since) {
        // Not a second time, while it is on its way out.
        client.waits_since = None;
        client.leave.notify_one();
    }
}

// Each change is one assignment: a panic leaves the list whole.
fn lock(clients: &Mutex<Clients>) -> MutexGuard<'_, Clients> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bound socket; removes its file when dropped, if it is still its own.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    identity: (u64, u64),
    /// A symlink to it.
    also: Option<PathBuf>,
    listener: UnixListener,
    limits: Limits,
}

impl Socket {
    /// Binds, taking the place of a dead agent's socket.
    ///
    /// Only the holder of the vault's lock may call this: with the lock held, whoever left a
    /// socket there is gone.
    pub fn bind(path: &Path) -> Result<Self, PathError> {
        fs::remove_file(path)?;
        let (listener, identity) = listen(path)?;
        Ok(Self {
            path: path.to_owned(),
            identity,
            also: None,
            listener,
            limits: Limits::default(),
        })
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
        let places = Arc::new(Semaphore::new(self.limits.clients));
        let clients = Arc::<Mutex<Clients>>::default();
        let one_waits = Arc::clone(&lock(&clients).one_waits);
        let mut failures: u32 = 0;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
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
                    let permit = loop {
                        if let Ok(permit) = Arc::clone(&places).try_acquire_owned() {
                            break permit;
                        }
                        make_room(&clients);
                        // Where all are worked for, the next to end makes room.
                        let next = Arc::clone(&places).acquire_owned();
                        tokio::select! {
                            permit = next => match permit {
                                Ok(permit) => break permit,
                                Err(_) => return,
                            },
                            () = one_waits.notified() => {}
                            _ = look.tick() => self.come_back(&handler),
                        }
                    };
                    let (handler, limits) = (Arc::clone(&handler), self.limits);
                    let seat = Seat::take(&clients);
                    tokio::spawn(async move {
                        let leave = Arc::clone(&seat.leave);
                        tokio::select! {
                            ended = converse(stream, handler, &seat, limits) => {
                                if let Err(err) = ended {
                                    tracing::debug!(error = %err, "client went away");
                                }
                            }
                            () = leave.notified() => {
                                tracing::debug!("a client that kept us waiting is let go");
                            }
                        }
                        drop((seat, permit));
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

async fn converse(
    stream: UnixStream,
    handler: Arc<dyn Handler>,
    seat: &Seat,
    limits: Limits,
) -> io::Result<()> {
    let caller = Arc::new(Caller { connection: stream.as_fd().try_clone_to_owned()? });
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = u64::try_from(MAX_REQUEST).unwrap_or(u64::MAX);
        let mut bounded = (&mut read).take(limit);
        let next = bounded.read_until(b'\n', &mut line);
        let Ok(next) = tokio::time::timeout(limits.idle, next).await else { return Ok(()) };
        if next? == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        // Says that somebody is here, before it is known how long the answer takes: a reader of
        // JSON skips it.
        if let Err(err) = give(&mut write, b" ", limits).await
            && err.kind() == io::ErrorKind::TimedOut
        {
            return Err(err);
        }
        // One that is gone is met again below, where it is said what is not done for it.
        seat.set_waiting(false);
        let answer = match whole {
            true => answer(&line, &handler, &caller).await,
            false => in_bytes(&too_long()),
        }?;
        seat.set_waiting(true);
        give(&mut write, &answer, limits).await?;
        if !whole {
            return Ok(());
        }
    }
}

/// Writes what is taken in time.
async fn give(write: &mut OwnedWriteHalf, bytes: &[u8], limits: Limits) -> io::Result<()> {
    match tokio::time::timeout(limits.taking, write.write_all(bytes)).await {
        Ok(written) => written,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not take its answer")),
    }
}

/// The answer as a line.
fn in_bytes(answer: &Answer) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(answer).map_err(io::Error::other)?;
    bytes.push(b'\n');
    Ok(bytes)
}

async fn answer(
    line: &[u8],
    handler: &Arc<dyn Handler>,
    caller: &Arc<Caller>,
) -> io::Result<Vec<u8>> {
    let request = match serde_json::from_slice::<Envelope>(line) {
        Ok(envelope) if envelope.version == VERSION => envelope.request,
        Ok(envelope) => {
            return in_bytes(&failed(
                format!("Client speaks version {}, the agent {VERSION}", envelope.version),
                Some("Restart the agent, so that both are of the same remd."),
            ));
        }
        Err(err) => return in_bytes(&failed(format!("Request not understood: {err}"), None)),
    };
    let (handler, caller) = (Arc::clone(handler), Arc::clone(caller));
    let work = move || {
        // An agent that was stopped, or a queue, may come to it long after the client gave up and
        // said so to its person.
        if request.changes() && caller.is_gone() {
            tracing::info!(?request, "not carried out: nobody waits for it any more");
            return in_bytes(&failed("Nobody waits for the answer any more".to_owned(), None));
        }
        // A large one takes its time to be written down: not on the thread of all the others.
        in_bytes(&handler.answer(request, &caller))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(err) => {
            tracing::error!(error = %err, "request handler panicked");
            let what = "The agent met a fault in itself; its log says more".to_owned();
            in_bytes(&failed(what, None))
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
                // More than a socket holds.
                Request::Accept { dry_run: false } => {
                    Answer::Done { said: "x".repeat(1 << 20), paths: Vec::new() }
                }
                _ => Answer::Done { said: "done".into(), paths: Vec::new() },
            }
        }
    }

    fn with_socket(check: impl FnOnce(&Path)) {
        with_limits(Limits::default(), check);
    }

    fn with_limits(limits: Limits, check: impl FnOnce(&Path)) {
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
                    let mut socket = Socket::bind(&path).unwrap();
                    socket.limits = limits;
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

    fn unread(path: &Path, request: &str) -> std::os::unix::net::UnixStream {
        use std::io::Write as _;
        let mut client = std::os::unix::net::UnixStream::connect(path).unwrap();
        let line = format!("{{\"version\":1,\"request\":{request}}}\n");
        // Who is let go meanwhile hears so.
        let _written = client.write_all(line.as_bytes());
        client
    }

    const LARGE: &str = r#"{"do":"accept","dry_run":false}"#;
    const SMALL: &str = r#"{"do":"accept","dry_run":true}"#;

    #[test]
    fn who_never_reads_keeps_nobody_else_out() {
        let far = Duration::from_secs(3600);
        with_limits(Limits { clients: 4, idle: far, taking: far }, |path| {
            let clients: Vec<_> = (0..24)
                .map(|at| match at % 3 {
                    0 => std::os::unix::net::UnixStream::connect(path).unwrap(),
                    1 => unread(path, LARGE),
                    _ => unread(path, SMALL),
                })
                .collect();
            for _ in 0..8 {
                let request = Request::Accept { dry_run: true };
                let answer = client::ask(path, request, Duration::from_secs(20)).unwrap();
                assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
            }
            drop(clients);
        });
    }

    #[test]
    fn an_answer_that_is_not_taken_in_time_is_dropped() {
        use std::io::Read as _;
        let limits = Limits { taking: Duration::from_millis(50), ..Limits::default() };
        with_limits(limits, |path| {
            let mut client = unread(path, LARGE);
            // The first bytes are there: then the answer is on its way, and stops where the socket
            // is full.
            let mut first = [0; 2];
            client.read_exact(&mut first).unwrap();
            let gone = Caller { connection: client.try_clone().unwrap().into() };
            while !gone.is_gone() {
                std::thread::yield_now();
            }
            let mut rest = Vec::new();
            let _cut = client.read_to_end(&mut rest);
            assert!(rest.len() < 1 << 20, "{} bytes", rest.len());
        });
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

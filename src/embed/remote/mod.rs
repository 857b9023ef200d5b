//! A provider of vectors behind HTTP.
//!
//! Takes texts and a deadline; sends them in batches, one after the other, waits where the server
//! asks for it, cuts what it finds too long; gives a slot for each text. Blocking: it has a
//! runtime of its own and is not for the threads of another; any other thread, several at once.
//!
//! **Invariant:** a call ends at its deadline. While a server has asked for a pause nothing is
//! sent to it, by anybody; where it asks for none, ours counts, which doubles: who asks alone sends
//! at most four requests in the first five seconds of a limit (at 0, 1, 3 and 7 s, less a quarter).
//! One text that it does not take costs no other its vector. No redirect
//! is followed: the key goes to the address that the user wrote and nowhere else.

mod answer;
mod config;
pub(super) mod fetch;
mod outgoing;
mod request;
pub mod rerank;
mod retry;
mod secret;
mod truncate;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::base::clock;
use crate::embed::error::EmbedError;
use crate::embed::identity::{Identity, Purpose};
use crate::embed::vector::{Vector, VectorError};
use crate::embed::{Answer, Embedder, Slot};

use answer::{Fault, Reply};
use request::Credential;

pub use config::{Backend, Config, ConfigError, Setup};
pub use outgoing::sent_masked;
pub use secret::Secret;

/// A provider.
#[derive(Debug)]
pub struct Remote {
    config: Config,
    identity: Identity,
    client: reqwest::Client,
    runtime: Option<tokio::runtime::Runtime>,
    /// Until when nothing is sent, as the server asked.
    limited: Mutex<Option<Instant>>,
    /// How often in a row it said that we are too fast, whoever asked.
    turned_away: AtomicU32,
    /// The most half units that a text may have, as far as refusals have taught.
    learned: AtomicUsize,
    /// Passages wait for each other; questions wait for nobody.
    passages: Semaphore,
    unit: Duration,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("HTTP can't be set up: {0}")]
    Client(String),
    #[error("A runtime for the network can't be made")]
    Runtime(#[source] std::io::Error),
}

impl RemoteError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Client(_) => Some(
                "`https://` needs the machine's certificates (package `ca-certificates`)."
                    .to_owned(),
            ),
            Self::Runtime(_) => None,
        }
    }
}

/// The longest pause that is waited out within a call.
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// The longest that one request may take.
const MOST_REQUEST: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(10);
/// An answer with more bytes than this for each text is none.
const MOST_BYTES: usize = 4 << 20;
/// What a text that is too long is cut to at least, in half units.
const LEAST: usize = 256;
/// How often a text that is too long is cut and sent again.
const CUTS: u32 = 2;

type Vectors = Vec<Result<Vector, VectorError>>;

impl Remote {
    pub fn new(config: Config) -> Result<Self, RemoteError> {
        Self::with_unit(config, Duration::from_secs(1))
    }

    /// `unit` is the first pause of a backoff.
    fn with_unit(config: Config, unit: Duration) -> Result<Self, RemoteError> {
        // The rules are read here, not within somebody's deadline.
        let _read = outgoing::masked("");
        let client = client(&config.base_url).map_err(|err| RemoteError::Client(chain(&err)))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(RemoteError::Runtime)?;
        Ok(Self {
            identity: config.identity(),
            learned: AtomicUsize::new(truncate::budget(config.max_input_length)),
            config,
            client,
            runtime: Some(runtime),
            limited: Mutex::new(None),
            turned_away: AtomicU32::new(0),
            passages: Semaphore::new(1),
            unit,
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    async fn run(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
        let started = clock::now();
        let mut slots = vec![Slot::Missing; texts.len()];
        let mut waiting = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            if text.trim().is_empty() {
                slots[at] = Slot::Silent;
            } else {
                outgoing::count(text);
                waiting.push((at, self.prepare(text, purpose)));
            }
        }
        // Nothing is sent that nobody waits for any more.
        if clock::now() >= deadline {
            let stopped = Some(EmbedError::Timeout(started.elapsed()));
            return Answer { slots, stopped };
        }
        let turn = async {
            match purpose {
                Purpose::Passage => self.passages.acquire().await.ok(),
                Purpose::Query => None,
            }
        };
        let Ok(_turn) = tokio::time::timeout_at(deadline.into(), turn).await else {
            let stopped = Some(EmbedError::Timeout(started.elapsed()));
            return Answer { slots, stopped };
        };
        let mut stopped = None;
        for batch in waiting.chunks(self.config.max_batch_size) {
            let batch: Vec<(usize, &str, bool)> =
                batch.iter().map(|(at, (text, cut))| (*at, &**text, *cut)).collect();
            if let Err(err) = self.batch(&batch, &mut slots, started, deadline).await {
                stopped = Some(err);
                break;
            }
        }
        Answer { slots, stopped }
    }

    /// A batch, and one by one where it is too much at once.
    async fn batch(
        &self,
        batch: &[(usize, &str, bool)],
        slots: &mut [Slot],
        started: Instant,
        deadline: Instant,
    ) -> Result<(), EmbedError> {
        let texts: Vec<&str> = batch.iter().map(|it| it.1).collect();
        match self.ask(&texts, started, deadline).await? {
            Ok(vectors) => {
                for (vector, (at, _, cut)) in vectors.into_iter().zip(batch) {
                    slots[*at] = slot(vector, *cut);
                }
            }
            Err(_) if batch.len() > 1 => {
                for &(at, text, cut) in batch {
                    slots[at] = match self.ask(&[text], started, deadline).await? {
                        Ok(mut vectors) => slot(only(&mut vectors)?, cut),
                        Err(why) => self.shorter(text, why, started, deadline).await?,
                    };
                }
            }
            Err(why) => {
                let (at, text, _) = batch[0];
                slots[at] = self.shorter(text, why, started, deadline).await?;
            }
        }
        Ok(())
    }

    /// A text that is too long: its first half, then its first quarter. What is learned from it
    /// makes the windows of later texts smaller.
    async fn shorter(
        &self,
        text: &str,
        mut why: String,
        started: Instant,
        deadline: Instant,
    ) -> Result<Slot, EmbedError> {
        let mut room = truncate::cost(text).min(truncate::budget(self.config.max_input_length));
        for _ in 0..CUTS {
            room /= 2;
            if room < LEAST {
                break;
            }
            self.learned.fetch_min(room, Ordering::Relaxed);
            // What `truncate` wants is a length, of which it gives 92 % to any but ASCII.
            let part = match text.is_ascii() {
                true => truncate::truncate(text, room / 2),
                false => truncate::truncate(text, (room * 100).div_ceil(2 * 92)),
            };
            match self.ask(&[part], started, deadline).await? {
                Ok(mut vectors) => return Ok(slot(only(&mut vectors)?, true)),
                Err(said) => why = said,
            }
        }
        Ok(Slot::Refused(why))
    }

    /// Sends texts until there is an answer; `Ok(Err)` says that they are too long.
    async fn ask(
        &self,
        texts: &[&str],
        started: Instant,
        deadline: Instant,
    ) -> Result<Result<Vectors, String>, EmbedError> {
        let mut tried = 0;
        loop {
            self.wait_turn(deadline).await?;
            let fault = match self.exchange(texts, deadline).await {
                Ok(vectors) => {
                    self.turned_away.store(0, Ordering::Relaxed);
                    return Ok(Ok(vectors));
                }
                Err(Fault::TooLong(why)) => return Ok(Err(why)),
                Err(Fault::End(err)) => return Err(err),
                Err(Fault::Timeout) if clock::now() >= deadline => {
                    return Err(EmbedError::Timeout(started.elapsed()));
                }
                Err(fault) => fault,
            };
            let is_last = tried >= retry::RETRIES;
            let turned = self.turned_away.load(Ordering::Relaxed);
            let pause = jittered(retry::backoff(tried.max(turned), self.unit));
            tried += 1;
            match fault {
                Fault::Wait(asked) => {
                    let more = turned.saturating_add(1).min(retry::MOST_DOUBLED);
                    self.turned_away.fetch_max(more, Ordering::Relaxed);
                    // A server that wants no pause, or one that is over, gets ours.
                    self.limit(asked.map_or(pause, |it| it.max(pause)));
                    if is_last {
                        return Err(self.limited().unwrap_or_else(rate_limited_now));
                    }
                }
                fault => {
                    let gone = clock::now() + pause >= deadline;
                    if is_last || gone {
                        return Err(match fault {
                            Fault::Transport(why) => EmbedError::Transport(why),
                            _ => EmbedError::Timeout(started.elapsed()),
                        });
                    }
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Waits until the server wants to be asked again, where that is soon enough.
    async fn wait_turn(&self, deadline: Instant) -> Result<(), EmbedError> {
        loop {
            let Some(until) = *self.limited.lock().unwrap_or_else(PoisonError::into_inner) else {
                return Ok(());
            };
            let now = clock::now();
            if until <= now {
                return Ok(());
            }
            if until >= deadline || until - now > MOST_PAUSE {
                return Err(self.limited().unwrap_or_else(rate_limited_now));
            }
            tokio::time::sleep_until(until.into()).await;
        }
    }

    fn limit(&self, pause: Duration) {
        let until = clock::now() + pause.min(retry::MOST);
        let mut limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        *limited = Some(limited.map_or(until, |it| it.max(until)));
    }

    /// What the server's pause looks like to a person; `None` when it is over.
    fn limited(&self) -> Option<EmbedError> {
        let limited = *self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        let left = limited?.checked_duration_since(clock::now())?;
        let seconds = i64::try_from(left.as_secs() + 1).unwrap_or(i64::MAX);
        Some(EmbedError::RateLimited { until: clock::unix_seconds().saturating_add(seconds) })
    }

    /// One request and its answer.
    async fn exchange(&self, texts: &[&str], deadline: Instant) -> Result<Vectors, Fault> {
        let limit = deadline.min(clock::now() + MOST_REQUEST);
        match tokio::time::timeout_at(limit.into(), self.exchange_unlimited(texts)).await {
            Ok(result) => result,
            Err(_) => Err(Fault::Timeout),
        }
    }

    async fn exchange_unlimited(&self, texts: &[&str]) -> Result<Vectors, Fault> {
        let transport = |err: reqwest::Error| {
            Fault::Transport(self.config.api_key.scrub(&chain(&err.without_url())))
        };
        let key = self.config.api_key.reveal();
        let mut post = self
            .client
            .post(request::url(&self.config))
            .header("content-type", "application/json")
            .body(request::body(&self.config, texts).to_string());
        post = match request::credential(self.config.backend) {
            Credential::Bearer => post.bearer_auth(key),
            Credential::GoogleKey => post.header("x-goog-api-key", key),
            Credential::None if key.is_empty() => post,
            // A server of Ollama behind a gate.
            Credential::None => post.bearer_auth(key),
        };
        let mut response = post.send().await.map_err(transport)?;
        let status = response.status().as_u16();
        let header = response.headers().get("retry-after");
        let retry_after = header.and_then(|it| it.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(transport)? {
            if body.len() + part.len() > MOST_BYTES * texts.len() {
                return Err(Fault::End(EmbedError::Answer("it does not end".to_owned())));
            }
            body.extend_from_slice(&part);
        }
        let reply = Reply { status, retry_after: retry_after.as_deref(), body: &body };
        answer::read(&self.config, &reply, texts.len(), clock::unix_seconds())
    }
}

impl Embedder for Remote {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    /// In half units; less after the server has refused a text as too long.
    fn window(&self) -> usize {
        self.learned.load(Ordering::Relaxed)
    }

    fn count(&self, text: &str) -> usize {
        truncate::cost(text)
    }

    fn prepare<'a>(&self, text: &'a str, purpose: Purpose) -> (Cow<'a, str>, bool) {
        let most = self.config.max_input_length;
        // Before it is cut: half a credential is not known for one.
        match (self.identity.prefix(purpose), outgoing::masked(text)) {
            ("", Cow::Borrowed(text)) => {
                let part = truncate::truncate(text, most);
                (Cow::Borrowed(part), part.len() < text.len())
            }
            (prefix, text) => {
                let whole = format!("{prefix}{text}");
                let part = truncate::truncate(&whole, most);
                (Cow::Owned(part.to_owned()), part.len() < whole.len())
            }
        }
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn batch_size(&self) -> usize {
        self.config.max_batch_size
    }

    fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
        match &self.runtime {
            Some(runtime) => runtime.block_on(self.run(texts, purpose, deadline)),
            // Only while it is being dropped.
            None => Answer { slots: vec![Slot::Missing; texts.len()], stopped: None },
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A runtime may not be waited for on another one's thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn client(base_url: &str) -> Result<reqwest::Client, reqwest::Error> {
    client_with(base_url, reqwest::redirect::Policy::none())
}

fn client_with(
    base_url: &str,
    redirects: reqwest::redirect::Policy,
) -> Result<reqwest::Client, reqwest::Error> {
    // The first one counts; a second is refused and is the same.
    let _first = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("remd/", env!("CARGO_PKG_VERSION")))
        .redirect(redirects)
        .connect_timeout(CONNECT)
        .pool_max_idle_per_host(1)
        .pool_idle_timeout(Duration::from_secs(20));
    if base_url.starts_with("http://") {
        // A machine without certificates can reach a server without TLS.
        builder = builder.tls_certs_only([]);
    }
    let host = reqwest::Url::parse(base_url).ok().and_then(|it| it.host_str().map(str::to_owned));
    if host.is_some_and(|it| matches!(it.as_str(), "localhost" | "127.0.0.1" | "[::1]")) {
        builder = builder.no_proxy();
    }
    builder.build()
}

fn slot(vector: Result<Vector, VectorError>, cut: bool) -> Slot {
    match vector {
        Ok(vector) => Slot::Vector { vector, cut },
        Err(why) => Slot::Refused(why.to_string()),
    }
}

/// The vector of a single text.
fn only(vectors: &mut Vectors) -> Result<Result<Vector, VectorError>, EmbedError> {
    vectors.pop().ok_or_else(|| EmbedError::Answer("it has no embedding".to_owned()))
}

fn rate_limited_now() -> EmbedError {
    EmbedError::RateLimited { until: clock::unix_seconds() }
}

/// A pause between three quarters and five quarters of this one, so that those who were turned
/// away together do not come back together.
fn jittered(pause: Duration) -> Duration {
    let nanos =
        clock::wall().duration_since(std::time::UNIX_EPOCH).map_or(0, |it| it.subsec_nanos());
    pause.mul_f64(0.75 + f64::from(nanos % 1000) / 2000.0)
}

/// An error with its causes, in one line.
fn chain(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        let said = err.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = err.source();
    }
    text
}

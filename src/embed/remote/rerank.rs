//! A server that puts passages in the order in which they answer a question.
//!
//! Takes the user's settings, then a question and texts; one request, `POST {base_url}/rerank`;
//! gives the places of the texts, best first. Blocking: it has a runtime of its own and is not for
//! the threads of another; any other thread, several at once.
//!
//! **Invariant:** a call ends at its deadline; an answer that is no permutation of what was sent is
//! none. No redirect is followed: the key goes to the address that the user wrote.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::config::check_url;
use super::{RemoteError, Secret, chain, client, outgoing};

/// What of a text the server is sent, in characters.
const MOST_CHARS: usize = 1500;
/// An answer with more bytes is none.
const MOST_BYTES: usize = 4 << 20;
/// The most texts that are sent at once.
const MOST_TEXTS: usize = 200;

/// Which server, and how it is asked.
#[derive(Clone, PartialEq, Debug)]
pub struct RerankConfig {
    pub base_url: String,
    pub api_key: Secret,
    pub model_name: String,
    /// So many times the hits that are asked for are sent.
    pub candidate_multiplier: usize,
    pub timeout: Duration,
}

/// What the settings say.
#[derive(Clone, PartialEq, Debug)]
pub enum RerankSetup {
    Off,
    /// What is missing.
    Incomplete(String),
    Ready(RerankConfig),
}

impl RerankSetup {
    /// From the values of the settings, by their last names. A bad value counts as missing.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Self {
        let get = |key: &str| get(key).unwrap_or_default().trim().to_owned();
        let lacks = |key: &str, wanted: &str| {
            Self::Incomplete(format!("`reranker_config.{key}` is not {wanted}"))
        };
        match get("enabled").to_lowercase().as_str() {
            "" | "false" => return Self::Off,
            "true" => {}
            _ => return lacks("enabled", "`true` or `false`"),
        }
        let (base_url, model_name) = (get("base_url"), get("model_name"));
        let base_url = base_url.trim_end_matches('/').to_owned();
        if base_url.is_empty() || model_name.is_empty() {
            let key = if base_url.is_empty() { "base_url" } else { "model_name" };
            return Self::Incomplete(format!("`reranker_config.{key}` is missing"));
        }
        if let Err(err) = check_url(&base_url) {
            return lacks("base_url", err.wanted);
        }
        let api_key = Secret::new(&get("api_key"));
        if api_key.reveal().bytes().any(|it| !(0x21..0x7f).contains(&it)) {
            return lacks("api_key", "one word of plain characters");
        }
        let text = |key: &str, default: &str| match get(key) {
            empty if empty.is_empty() => default.to_owned(),
            text => text,
        };
        let multiplier = text("candidate_multiplier", "3").parse::<usize>().ok();
        let Some(candidate_multiplier) = multiplier.filter(|it| (1..=20).contains(it)) else {
            return lacks("candidate_multiplier", "a whole number from 1 to 20");
        };
        let seconds = text("timeout", "10").parse::<f64>().ok();
        let Some(seconds) = seconds.filter(|it| *it > 0.0 && *it <= 60.0) else {
            return lacks("timeout", "seconds above 0, at most 60");
        };
        let timeout = Duration::from_secs_f64(seconds);
        let config = RerankConfig { base_url, api_key, model_name, candidate_multiplier, timeout };
        Self::Ready(config)
    }
}

/// Why there is no order.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RerankError {
    #[error("no answer within {:.1} s", .0.as_secs_f32())]
    Timeout(Duration),
    #[error("it cannot be reached: {0}")]
    Transport(String),
    #[error("it answered {status}: {said}")]
    Status { status: u16, said: String },
    #[error("its answer is no order of what was sent")]
    Answer,
}

impl RerankError {
    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Transport(_) => true,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            Self::Answer => false,
        }
    }
}

/// A server that reranks.
#[derive(Debug)]
pub struct Reranker {
    config: RerankConfig,
    client: reqwest::Client,
    runtime: Option<tokio::runtime::Runtime>,
}

#[derive(Deserialize)]
struct Reply {
    #[serde(alias = "data")]
    results: Vec<Place>,
}

#[derive(Deserialize)]
struct Place {
    index: usize,
}

impl Reranker {
    pub fn new(config: RerankConfig) -> Result<Self, RemoteError> {
        let client = client(&config.base_url).map_err(|err| RemoteError::Client(chain(&err)))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(RemoteError::Runtime)?;
        Ok(Self { config, client, runtime: Some(runtime) })
    }

    pub fn config(&self) -> &RerankConfig {
        &self.config
    }

    /// The places of the texts, best first.
    pub fn order(
        &self,
        query: &str,
        texts: &[&str],
        deadline: Instant,
    ) -> Result<Vec<usize>, RerankError> {
        let Some(runtime) = &self.runtime else { return Err(RerankError::Answer) };
        if texts.len() > MOST_TEXTS {
            return Err(RerankError::Answer);
        }
        let started = crate::base::clock::now();
        let until = deadline.min(started + self.config.timeout);
        let asked = async {
            tokio::time::timeout_at(until.into(), self.exchange(query, texts))
                .await
                .unwrap_or_else(|_| Err(RerankError::Timeout(started.elapsed())))
        };
        runtime.block_on(asked)
    }

    async fn exchange(&self, query: &str, texts: &[&str]) -> Result<Vec<usize>, RerankError> {
        let key = &self.config.api_key;
        let transport =
            |err: reqwest::Error| RerankError::Transport(key.scrub(&chain(&err.without_url())));
        texts.iter().for_each(|it| outgoing::count(it));
        let masked: Vec<Cow<'_, str>> = texts.iter().map(|it| outgoing::masked(it)).collect();
        let documents: Vec<&str> = masked.iter().map(|it| beginning(it)).collect();
        let query = outgoing::masked(query);
        let body = json!({
            "model": self.config.model_name,
            "query": beginning(&query),
            "documents": documents,
        });
        let mut post = self
            .client
            .post(format!("{}/rerank", self.config.base_url))
            .header("content-type", "application/json")
            .body(body.to_string());
        if !key.is_empty() {
            post = post.bearer_auth(key.reveal());
        }
        let mut response = post.send().await.map_err(transport)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(transport)? {
            if body.len() + part.len() > MOST_BYTES {
                return Err(RerankError::Answer);
            }
            body.extend_from_slice(&part);
        }
        if status != 200 {
            let said = key.scrub(&String::from_utf8_lossy(&body));
            return Err(RerankError::Status { status, said });
        }
        let reply: Reply = serde_json::from_slice(&body).map_err(|_| RerankError::Answer)?;
        permutation(reply.results.iter().map(|it| it.index), texts.len()).ok_or(RerankError::Answer)
    }
}

impl Drop for Reranker {
    fn drop(&mut self) {
        // A runtime may not be waited for on another one's thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn beginning(text: &str) -> &str {
    text.char_indices().nth(MOST_CHARS).map_or(text, |it| &text[..it.0])
}

/// The places, where each of so many is there once.
fn permutation(places: impl Iterator<Item = usize>, count: usize) -> Option<Vec<usize>> {
    let mut seen = vec![false; count];
    let mut order = Vec::with_capacity(count);
    for place in places {
        if std::mem::replace(seen.get_mut(place)?, true) {
            return None;
        }
        order.push(place);
    }
    (order.len() == count).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Act, Server};
    use super::*;
    use crate::base::clock;

    fn reranker(url: &str, timeout: &str) -> Reranker {
        let setup = RerankSetup::read(|key| {
            let value = match key {
                "enabled" => "true",
                "base_url" => url,
                "model_name" => "m",
                "api_key" => "sk-1234",
                "timeout" => timeout,
                _ => return None,
            };
            Some(value.to_owned())
        });
        let RerankSetup::Ready(config) = setup else { panic!("not ready") };
        Reranker::new(config).unwrap()
    }

    fn ask(url: &str, timeout: &str) -> Result<Vec<usize>, RerankError> {
        let until = clock::now() + Duration::from_secs(60);
        reranker(url, timeout).order("why", &["a", "b", "c"], until)
    }

    fn says(status: u16, body: &'static str) -> Server {
        Server::start(move |_, _| Act::Say(status, Vec::new(), body.to_owned()))
    }

    #[test]
    fn texts_come_back_in_the_server_s_order() {
        let body =
            r#"{"results": [{"index": 2, "relevance_score": 0.9}, {"index": 0}, {"index": 1}]}"#;
        let server = says(200, body);
        assert_eq!(ask(&server.url(), ""), Ok(vec![2, 0, 1]));
        let requests = server.requests();
        assert_eq!(requests[0].path, "/rerank");
        assert_eq!(requests[0].headers["authorization"], "Bearer sk-1234");
        let sent = json!({"model": "m", "query": "why", "documents": ["a", "b", "c"]});
        assert_eq!(requests[0].body, sent);
        let token = format!("gh{}_q7RtZ2mW9xKc4VbN8sLd3JfHg6PyTq1EuXoA", 'p');
        let reranker = reranker(&server.url(), "");
        let until = clock::now() + Duration::from_secs(20);
        let texts = ["a", &format!("the key is {token}."), "c"];
        assert!(reranker.order(&format!("what is {token}"), &texts, until).is_ok());
        let sent = server.requests()[1].body.clone();
        assert_eq!(sent["query"], "what is [masked github-pat]");
        assert_eq!(sent["documents"][1], "the key is [masked github-pat].");
        assert_eq!(beginning(&"é".repeat(2000)).chars().count(), MOST_CHARS);
    }

    #[test]
    fn what_is_no_order_is_refused_and_no_error_shows_the_key() {
        for body in [
            r#"{"results": [{"index": 0}, {"index": 1}]}"#,
            r#"{"results": [{"index": 0}, {"index": 1}, {"index": 1}]}"#,
            r#"{"results": [{"index": 0}, {"index": 1}, {"index": 3}]}"#,
            r#"{"results": [{"index": -1}, {"index": 1}, {"index": 2}]}"#,
            "[]",
            "not json",
        ] {
            assert_eq!(ask(&says(200, body).url(), ""), Err(RerankError::Answer), "{body}");
        }
        let said = ask(&says(401, "bad key sk-1234").url(), "").unwrap_err();
        assert_eq!(said.to_string(), "it answered 401: bad key ***");
        assert!(!said.is_transient());
        let server = Server::start(|_, _| Act::Hang);
        assert!(matches!(ask(&server.url(), "0.2"), Err(RerankError::Timeout(_))));
        let server = Server::start(|_, _| Act::Drop);
        assert!(ask(&server.url(), "").unwrap_err().is_transient());
    }

    #[test]
    fn half_a_setup_is_named() {
        let read = |pairs: &[(&str, &str)]| {
            RerankSetup::read(|key| pairs.iter().find(|it| it.0 == key).map(|it| it.1.to_owned()))
        };
        assert_eq!(read(&[]), RerankSetup::Off);
        assert_eq!(read(&[("enabled", "false"), ("base_url", "x")]), RerankSetup::Off);
        let bad = |pairs: &[(&str, &str)]| match read(pairs) {
            RerankSetup::Incomplete(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(bad(&[("enabled", "true")]), "`reranker_config.base_url` is missing");
        assert!(bad(&[("enabled", "perhaps")]).contains("enabled"));
        let whole = [("enabled", "true"), ("base_url", "http://h/"), ("model_name", "m")];
        let RerankSetup::Ready(config) = read(&whole) else { panic!("not ready") };
        assert_eq!((config.base_url.as_str(), config.candidate_multiplier), ("http://h", 3));
        for (key, value) in
            [("timeout", "0"), ("candidate_multiplier", "0"), ("base_url", "ftp://h")]
        {
            // The first of a name is the one that is read.
            let pairs: Vec<_> = [(key, value)].into_iter().chain(whole).collect();
            assert!(bad(&pairs).contains(key), "{key}");
        }
    }
}

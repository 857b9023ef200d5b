//! What each provider says.
//!
//! Pure. Takes a status, a `Retry-After` header and a body; gives a vector for each text, or what
//! is to be done about there being none.
//!
//! **Invariant:** as many vectors as texts, each at its text's place, each of the configured size:
//! an answer that can't be matched to its texts is none.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::embed::error::EmbedError;
use crate::embed::remote::config::{Backend, Config};
use crate::embed::remote::retry;
use crate::embed::vector::{Vector, VectorError};

/// Why there are no vectors, by what to do.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Fault {
    /// Cut it, or send the texts one by one.
    TooLong(String),
    /// Wait, for as long as the server says or for as long as we think.
    Wait(Option<Duration>),
    /// Try again soon.
    Transport(String),
    /// The deadline came.
    Timeout,
    /// Nothing that the same call could do.
    End(EmbedError),
}

/// What came back.
pub(super) struct Reply<'a> {
    pub status: u16,
    pub retry_after: Option<&'a str>,
    pub body: &'a [u8],
}

#[derive(Deserialize)]
struct Numbers(Vec<Option<f64>>);

/// Reads an answer to `texts` texts; `now` is in seconds since the Unix epoch.
pub(super) fn read(
    config: &Config,
    reply: &Reply<'_>,
    texts: usize,
    now: i64,
) -> Result<Vec<Result<Vector, VectorError>>, Fault> {
    if !(200..300).contains(&reply.status) {
        return Err(fault(config, reply, now));
    }
    let wrong = |what: &str| Fault::End(EmbedError::Answer(what.to_owned()));
    let mut body: Value =
        serde_json::from_slice(reply.body).map_err(|_| match has_no_number(reply.body) {
            true => wrong("it has a number that is none (`NaN` or `Infinity`)"),
            false => wrong("it is not JSON"),
        })?;
    let list = match config.backend {
        Backend::OpenAi => body.get_mut("data"),
        Backend::DashScope | Backend::DashScopeMultimodal => body.pointer_mut("/output/embeddings"),
        Backend::Gemini | Backend::Ollama => body.get_mut("embeddings"),
    };
    let Some(Value::Array(list)) = list.map(Value::take) else {
        return Err(match message(&body) {
            Some(text) => wrong(&config.api_key.scrub(&text)),
            None => wrong("it has no list of embeddings"),
        });
    };
    if list.len() != texts {
        return Err(wrong(&format!("{} embeddings for {texts} texts", list.len())));
    }
    let mut slots: Vec<Option<Vec<Option<f64>>>> = vec![None; texts];
    for (at, mut item) in list.into_iter().enumerate() {
        let place = item
            .get("index")
            .or_else(|| item.get("text_index"))
            .map_or(Some(at), |it| it.as_u64().and_then(|it| usize::try_from(it).ok()));
        let numbers = match config.backend {
            Backend::Ollama => Some(item),
            Backend::Gemini => item.get_mut("values").map(Value::take),
            _ => item.get_mut("embedding").map(Value::take),
        };
        let numbers = numbers.and_then(|it| serde_json::from_value::<Numbers>(it).ok());
        let numbers = numbers.ok_or_else(|| wrong("an embedding is not a list of numbers"))?;
        match place.and_then(|it| slots.get_mut(it)) {
            Some(slot @ None) => *slot = Some(numbers.0),
            _ => return Err(wrong("embeddings have odd indices")),
        }
    }
    slots.into_iter().map(|it| vector(config, &it.unwrap_or_default())).collect()
}

/// Whether some place of a number has what some programs write for none, and JSON does not know.
fn has_no_number(body: &[u8]) -> bool {
    let is_before = |it: u8| it.is_ascii_whitespace() || b"[,:-".contains(&it);
    let (mut is_text, mut at) = (false, 0);
    while let Some(byte) = body.get(at) {
        match byte {
            b'\\' if is_text => at += 1,
            b'"' => is_text = !is_text,
            b'N' | b'I' if !is_text => {
                let is = |it: &str| body[at..].starts_with(it.as_bytes());
                let is_none = is("NaN") || is("Infinity");
                let is_place = at.checked_sub(1).is_none_or(|it| is_before(body[it]));
                if is_none && is_place {
                    return true;
                }
            }
            _ => {}
        }
        at += 1;
    }
    false
}

fn vector(config: &Config, numbers: &[Option<f64>]) -> Result<Result<Vector, VectorError>, Fault> {
    if numbers.len() != config.dimensions {
        let (actual, configured) = (numbers.len(), config.dimensions);
        return Err(Fault::End(EmbedError::Dimension { actual, configured }));
    }
    // `null` is how JSON has what is no number.
    Ok(Vector::new(numbers.iter().map(|it| it.map_or(f32::NAN, |it| it as f32)).collect()))
}

/// Parts of what servers say of a text that is too long, in small letters.
const TOO_LONG: &[&str] = &[
    "context length",
    "context_length",
    "maximum context",
    "too long",
    "too many tokens",
    "input length",
    "maximum input",
    "exceeds the maximum",
    "token limit",
    "payload size exceeds",
];

fn fault(config: &Config, reply: &Reply<'_>, now: i64) -> Fault {
    let body: Value = serde_json::from_slice(reply.body).unwrap_or(Value::Null);
    let status = reply.status;
    let said = message(&body).unwrap_or_else(|| String::from_utf8_lossy(reply.body).into_owned());
    let message = config.api_key.scrub(&said);
    let codes = codes(&body);
    let is_too_long = || {
        let text = format!("{codes} {}", message.to_lowercase());
        TOO_LONG.iter().any(|it| text.contains(it))
    };
    match status {
        _ if codes.contains("insufficient_quota") => Fault::End(EmbedError::Quota(message)),
        402 => Fault::End(EmbedError::Quota(message)),
        429 | 503 => Fault::Wait(retry::asked(reply.retry_after, &body, now)),
        _ if codes.contains("rate_limit_exceeded") => {
            Fault::Wait(retry::asked(reply.retry_after, &body, now))
        }
        413 => Fault::TooLong(message),
        // Older servers of Ollama say it with 500.
        400 | 422 | 500 if is_too_long() => Fault::TooLong(message),
        401 | 403 => Fault::End(EmbedError::Denied { status, message }),
        500.. => Fault::End(EmbedError::Server { status, message }),
        _ => Fault::End(EmbedError::Refused { status, message }),
    }
}

/// What an error says, wherever it says it.
fn message(body: &Value) -> Option<String> {
    let text = |pointer: &str| body.pointer(pointer)?.as_str();
    let found = ["/error/message", "/error", "/message", "/detail", "/0/error/message"];
    found.into_iter().find_map(text).map(str::to_owned)
}

/// What an error is called, wherever it is, in small letters.
fn codes(body: &Value) -> String {
    let text = |pointer: &&str| body.pointer(pointer)?.as_str();
    let found = ["/error/code", "/error/type", "/error/status", "/code"];
    found.iter().filter_map(text).collect::<Vec<_>>().join(" ").to_lowercase()
}

//! A file over HTTP.
//!
//! Takes an address, gives its bytes. Blocking: it has a runtime of its own; any thread that is
//! none of another runtime.
//!
//! **Invariant:** it ends at its deadline, and sooner where nothing comes any more; nothing secret
//! is sent, so that a redirect is followed, but never from `https` to `http`.

use std::time::{Duration, Instant};

use reqwest::redirect::{Attempt, Policy};

use crate::base::{address, clock};
use crate::embed::remote::{RemoteError, chain, client_with};

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Client(#[from] RemoteError),
    #[error("`{0}` is no address of a file")]
    Address(String),
    #[error("`{url}` answers with {status}")]
    Status { url: String, status: u16 },
    #[error("`{url}` can't be had: {why}")]
    Transport { url: String, why: String },
    #[error("`{url}` is larger than {most} bytes")]
    TooLarge { url: String, most: u64 },
    #[error("`{url}` did not come within {:.0} s", .limit.as_secs_f64())]
    Deadline { url: String, limit: Duration },
}

/// Nothing for so long is the end.
const STALLED: Duration = Duration::from_secs(30);
/// So many redirects are followed.
const MOST_REDIRECTS: usize = 10;

/// Fetches a file of at most so many bytes; `progress` is told how many have come, of how many.
pub fn fetch(
    url: &str,
    most: u64,
    limit: Duration,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<Vec<u8>, FetchError> {
    let parsed = reqwest::Url::parse(url).ok();
    let parsed = parsed.filter(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    let is_open = |it: &reqwest::Url| it.username().is_empty() && it.password().is_none();
    let Some(parsed) = parsed.filter(is_open) else {
        // Its text may hold a password.
        return Err(FetchError::Address(shown(url)));
    };
    let client =
        client_with(url, Policy::custom(follow)).map_err(|err| RemoteError::Client(chain(&err)))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RemoteError::Runtime)?;
    let deadline = clock::now() + limit;
    let fetched = runtime.block_on(async {
        let whole = get(&client, parsed, most, progress);
        tokio::time::timeout_at(deadline.into(), whole).await
    });
    fetched.unwrap_or_else(|_| Err(FetchError::Deadline { url: shown(url), limit }))
}

async fn get(
    client: &reqwest::Client,
    url: reqwest::Url,
    most: u64,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<Vec<u8>, FetchError> {
    let name = shown(url.as_str());
    let failed = |why: String| FetchError::Transport { url: name.clone(), why };
    let stalled = || failed(format!("nothing came for {} s", STALLED.as_secs()));
    let sent = |err: reqwest::Error| failed(chain(&err.without_url()));
    let answer = tokio::time::timeout(STALLED, client.get(url).send()).await;
    let mut response = answer.map_err(|_| stalled())?.map_err(sent)?;
    let status = response.status();
    if !status.is_success() {
        return Err(FetchError::Status { url: name.clone(), status: status.as_u16() });
    }
    let all = response.content_length();
    let mut bytes = Vec::new();
    loop {
        let too_large = all.is_some_and(|it| it > most) || bytes.len() as u64 > most;
        if too_large {
            return Err(FetchError::TooLarge { url: name.clone(), most });
        }
        let part = tokio::time::timeout(STALLED, response.chunk()).await;
        match part.map_err(|_| stalled())?.map_err(sent)? {
            Some(part) => bytes.extend_from_slice(&part),
            None => return Ok(bytes),
        }
        progress(bytes.len() as u64, all);
    }
}

fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let was_safe = attempt.previous().iter().any(|it| it.scheme() == "https");
    if was_safe && attempt.url().scheme() != "https" {
        return attempt.error("it leads from `https` to another protocol");
    }
    match attempt.previous().len() > MOST_REDIRECTS {
        true => attempt.error("it leads from one address to the next"),
        false => attempt.follow(),
    }
}

/// An address without what may be secret in it.
pub fn shown(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut it) => {
            // Where there is no host there is no user either.
            let _user = it.set_username("").and_then(|()| it.set_password(None));
            it.set_query(None);
            it.set_fragment(None);
            it.to_string()
        }
        Err(_) => address::masked(url).chars().take(80).filter(|it| !it.is_control()).collect(),
    }
}

/// For whoever waits: when it has to be over.
pub fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(clock::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::remote::testing::{Act, Server};

    const LONG: Duration = Duration::from_secs(60);

    fn fetched(url: &str, most: u64, limit: Duration) -> Result<Vec<u8>, String> {
        fetch(url, most, limit, &|_, _| {}).map_err(|err| err.to_string())
    }

    #[test]
    fn a_file_comes_whole_or_not_at_all() {
        let server = Server::start(|request, _| match request.path.as_str() {
            "/whole" => Act::Give(vec![7; 100_000]),
            "/moved" => Act::Say(302, vec![("location", "/whole".to_owned())], String::new()),
            "/round" => Act::Say(302, vec![("location", "/round".to_owned())], String::new()),
            "/cut" => Act::Say(200, vec![("transfer-encoding", "chunked".into())], "f\r\nx".into()),
            "/hangs" => Act::Hang,
            _ => Act::Say(404, Vec::new(), String::new()),
        });
        let at = |path: &str| format!("{}{path}", server.url());
        for path in ["/whole", "/moved"] {
            assert_eq!(fetched(&at(path), 100_000, LONG).unwrap(), vec![7; 100_000]);
        }
        let refused = |path: &str, most, limit| fetched(&at(path), most, limit).unwrap_err();
        assert!(refused("/whole", 99_999, LONG).ends_with("is larger than 99999 bytes"));
        assert!(refused("/none", 9, LONG).ends_with("answers with 404"));
        assert!(refused("/round", 9, LONG).contains("can't be had"));
        assert!(refused("/hangs", 9, Duration::from_millis(50)).contains("did not come within"));
        let secret = "http://me:secret@127.0.0.1:1/x?token=secret";
        let said = fetched(secret, 9, LONG).unwrap_err();
        assert_eq!(said, "`http://127.0.0.1:1/x` is no address of a file");
        for odd in ["ftp://h/x", "x", "file:///etc/passwd", "http://"] {
            assert!(fetched(odd, 9, LONG).is_err(), "{odd}");
        }
    }
}

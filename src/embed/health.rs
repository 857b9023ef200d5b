//! Whether a provider answers, and with what it was said to.
//!
//! Takes an embedder, asks it for the vector of `ping`, gives a line for the log. Blocking, any
//! thread that its embedder is for.
//!
//! **Invariant:** the line is of the documented form and holds no key.

use std::path::Path;
use std::time::Duration;

use crate::base::clock;
use crate::embed::error::EmbedError;
use crate::embed::identity::Purpose;
use crate::embed::{Embedder, Slot};

/// What came of a check.
#[derive(Clone, PartialEq, Debug)]
pub enum Health {
    Ok,
    Failed(EmbedError),
}

/// Asks for one vector, for at most `limit`.
pub fn check_health(embedder: &dyn Embedder, limit: Duration) -> Health {
    let answer = embedder.embed(&["ping"], Purpose::Query, clock::now() + limit);
    match (answer.stopped, answer.slots.into_iter().next()) {
        // The time that was given, not the one that it took.
        (Some(EmbedError::Timeout(_)), _) => Health::Failed(EmbedError::Timeout(limit)),
        (Some(err), _) => Health::Failed(err),
        (None, Some(Slot::Vector { .. })) => Health::Ok,
        (None, Some(Slot::Refused(why))) => Health::Failed(EmbedError::Answer(why)),
        (None, _) => Health::Failed(EmbedError::Answer("it has no vector for `ping`".to_owned())),
    }
}

impl Health {
    /// `[EMBEDDING HEALTH CHECK] name=default workspace_dir=… -> OK`.
    pub fn line(&self, vault: &Path) -> String {
        let verdict = match self {
            Self::Ok => "OK".to_owned(),
            Self::Failed(EmbedError::Timeout(limit)) => {
                format!("FAIL timeout({:?}s)", limit.as_secs_f64())
            }
            Self::Failed(err) => format!("FAIL {}: {err}", err.kind()),
        };
        // A path may hold a line break; a line may not.
        let vault: String = vault
            .display()
            .to_string()
            .chars()
            .map(|it| if it.is_control() { '?' } else { it })
            .collect();
        format!("[EMBEDDING HEALTH CHECK] name=default workspace_dir={vault} -> {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_documented_ones() {
        let check = |health: Health, wanted: &str| {
            assert_eq!(
                health.line(Path::new("/home/me/v")),
                format!(
                    "[EMBEDDING HEALTH CHECK] name=default workspace_dir=/home/me/v -> {wanted}"
                )
            );
        };
        let failed = Health::Failed;
        check(Health::Ok, "OK");
        check(failed(EmbedError::Timeout(Duration::from_secs(15))), "FAIL timeout(15.0s)");
        check(failed(EmbedError::Timeout(Duration::from_millis(500))), "FAIL timeout(0.5s)");
        check(
            failed(EmbedError::Dimension { actual: 3, configured: 1024 }),
            "FAIL RuntimeError: embedding dimension mismatch: 3 != 1024",
        );
        check(
            failed(EmbedError::Denied { status: 401, message: "bad key".into() }),
            "FAIL AuthenticationError: access denied (401): bad key",
        );
        assert!(!Health::Ok.line(Path::new("/a\nb")).contains('\n'));
    }
}

//! Why texts have no vectors yet.
//!
//! Pure. Variants by what can be done about it.
//!
//! **Invariant:** no message carries a key, a line break or more than a few lines' worth of what a
//! server said.

use std::time::Duration;

use crate::base::clock;

/// Why a call ended before all texts had their vectors.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum EmbedError {
    /// The deadline came first.
    #[error("no answer within {:.1} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The provider asked for a pause; nothing is sent until it is over.
    #[error("rate limited until {}", clock::local_text(*until))]
    RateLimited {
        /// Seconds since the Unix epoch.
        until: i64,
    },
    /// The account has nothing left.
    #[error("quota is used up: {0}")]
    Quota(String),
    /// The key is wrong, or may not do this.
    #[error("access denied ({status}): {message}")]
    Denied { status: u16, message: String },
    /// The server does not take what it was sent.
    #[error("request refused ({status}): {message}")]
    Refused { status: u16, message: String },
    /// The server failed.
    #[error("server failed ({status}): {message}")]
    Server { status: u16, message: String },
    /// The server can't be reached.
    #[error("{0}")]
    Transport(String),
    /// What came back is not what was asked for.
    #[error("answer can't be read: {0}")]
    Answer(String),
    #[error("embedding dimension mismatch: {actual} != {configured}")]
    Dimension { actual: usize, configured: usize },
    /// A model on this machine is not what it should be.
    #[error("model can't be used: {0}")]
    Unusable(String),
    /// A model on this machine is being read.
    #[error("model is not read yet")]
    Busy,
}

impl EmbedError {
    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Timeout(_)
            | Self::RateLimited { .. }
            | Self::Server { .. }
            | Self::Transport(_)
            | Self::Answer(_)
            | Self::Busy => true,
            Self::Quota(_)
            | Self::Denied { .. }
            | Self::Refused { .. }
            | Self::Dimension { .. }
            | Self::Unusable(_) => false,
        }
    }

    /// Whether it may lie in what was asked, so that another question might be answered.
    pub fn may_be_the_text(&self) -> bool {
        match self {
            Self::Timeout(_)
            | Self::Refused { .. }
            | Self::Server { .. }
            | Self::Transport(_)
            | Self::Answer(_) => true,
            Self::RateLimited { .. }
            | Self::Quota(_)
            | Self::Denied { .. }
            | Self::Dimension { .. }
            | Self::Unusable(_)
            | Self::Busy => false,
        }
    }

    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Timeout(_) | Self::Transport(_) => {
                "Check that the provider runs and that `embedding_model_config.base_url` is right."
            }
            Self::RateLimited { .. } | Self::Server { .. } | Self::Busy => return None,
            Self::Unusable(_) => {
                "`remd model get NAME` fetches it again; `remd model use auto` does without it."
            }
            Self::Quota(_) => "Add to the account, or choose another model.",
            Self::Denied { .. } => "Check `embedding_model_config.api_key`.",
            Self::Refused { .. } | Self::Answer(_) => {
                "Check `embedding_model_config`: `backend`, `base_url` and `model_name`."
            }
            Self::Dimension { actual: 0, .. } => {
                "It gives vectors without a number: look whether `embedding_model_config.model_name` \
                 is a model that embeds."
            }
            Self::Dimension { actual, .. } => {
                return Some(format!(
                    "Set `embedding_model_config.dimensions` to {actual}, or choose a model that \
                     has as many as it says."
                ));
            }
        };
        Some(hint.to_owned())
    }

    /// The kind in one word, for lines that a program reads.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "TimeoutError",
            Self::RateLimited { .. } => "RateLimitError",
            Self::Quota(_) => "QuotaError",
            Self::Denied { .. } => "AuthenticationError",
            Self::Refused { .. } => "BadRequestError",
            Self::Server { .. } => "ServerError",
            Self::Transport(_) => "ConnectionError",
            Self::Answer(_) => "ValueError",
            Self::Dimension { .. } | Self::Unusable(_) | Self::Busy => "RuntimeError",
        }
    }
}

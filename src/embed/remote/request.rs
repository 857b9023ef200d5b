//! What each provider is sent.
//!
//! Pure. Takes a configuration and texts, gives the address and the body.
//!
//! **Invariant:** the address is the user's `base_url` with the provider's own path; nothing of a
//! note gets into it.

use serde_json::{Value, json};

use crate::embed::remote::config::{Backend, Config};

/// How the key is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Credential {
    Bearer,
    GoogleKey,
    None,
}

/// The path of a model's name is one segment.
const SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(super) fn url(config: &Config) -> String {
    let base = &config.base_url;
    match config.backend {
        Backend::OpenAi => format!("{base}/embeddings"),
        Backend::DashScope => {
            format!("{base}/services/embeddings/text-embedding/text-embedding")
        }
        Backend::DashScopeMultimodal => {
            format!("{base}/services/embeddings/multimodal-embedding/multimodal-embedding")
        }
        Backend::Gemini => {
            let name = gemini_name(config);
            let name = percent_encoding::utf8_percent_encode(name, SEGMENT);
            format!("{base}/models/{name}:batchEmbedContents")
        }
        Backend::Ollama => format!("{base}/api/embed"),
    }
}

pub(super) fn credential(backend: Backend) -> Credential {
    match backend {
        Backend::OpenAi | Backend::DashScope | Backend::DashScopeMultimodal => Credential::Bearer,
        Backend::Gemini => Credential::GoogleKey,
        Backend::Ollama => Credential::None,
    }
}

/// `use_dimensions` sends the dimension to OpenAI only; DashScope and Gemini are always told,
/// since their models have several.
pub(super) fn body(config: &Config, texts: &[&str]) -> Value {
    let model = &config.model_name;
    match config.backend {
        Backend::OpenAi => {
            let mut body = json!({"model": model, "input": texts, "encoding_format": "float"});
            if config.use_dimensions {
                body["dimensions"] = config.dimensions.into();
            }
            body
        }
        Backend::DashScope => json!({
            "model": model,
            "input": {"texts": texts},
            "parameters": {"dimension": config.dimensions},
        }),
        Backend::DashScopeMultimodal => {
            let contents: Vec<Value> = texts.iter().map(|it| json!({"text": it})).collect();
            json!({
                "model": model,
                "input": {"contents": contents},
                "parameters": {"dimension": config.dimensions},
            })
        }
        Backend::Gemini => {
            let model = format!("models/{}", gemini_name(config));
            let requests: Vec<Value> = texts
                .iter()
                .map(|it| {
                    json!({
                        "model": model,
                        "content": {"parts": [{"text": it}]},
                        "outputDimensionality": config.dimensions,
                    })
                })
                .collect();
            json!({"requests": requests})
        }
        // What is too long is an error, not cut in silence.
        Backend::Ollama => json!({"model": model, "input": texts, "truncate": false}),
    }
}

fn gemini_name(config: &Config) -> &str {
    config.model_name.strip_prefix("models/").unwrap_or(&config.model_name)
}

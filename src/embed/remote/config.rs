//! Which provider, by `embedding_model_config`.
//!
//! Pure. Takes the texts of the settings, gives a checked [`Config`], or that the model on board
//! is meant, or what a half-filled configuration lacks.
//!
//! **Invariant:** a configuration that was begun is never passed over in silence.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::embed::identity::{Identity, Normalisation};
use crate::embed::remote::secret::Secret;

/// A kind of provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    OpenAi,
    DashScope,
    DashScopeMultimodal,
    Gemini,
    Ollama,
}

/// A provider to ask.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    pub backend: Backend,
    pub api_key: Secret,
    /// Without a slash at its end.
    pub base_url: String,
    pub model_name: String,
    pub dimensions: usize,
    /// Whether `dimensions` is sent along.
    pub use_dimensions: bool,
    pub max_input_length: usize,
    pub max_batch_size: usize,
    /// How many texts the cache keeps; `None` for no cache.
    pub cache: Option<NonZeroUsize>,
    pub health_check_timeout: Duration,
}

/// What the settings come to.
#[derive(Clone, PartialEq, Debug)]
pub enum Setup {
    /// No provider is named: the model on board.
    OnBoard,
    /// One was begun, and what is missing.
    Incomplete(String),
    Ready(Box<Config>),
}

/// A value that can't be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`embedding_model_config.{key}` is not {wanted}")]
pub struct ConfigError {
    pub key: &'static str,
    pub wanted: &'static str,
}

impl Backend {
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::DashScope, Self::DashScopeMultimodal, Self::Gemini, Self::Ollama];

    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::DashScope => "dashscope",
            Self::DashScopeMultimodal => "dashscope_multimodal",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    fn needs_key(self) -> bool {
        self != Self::Ollama
    }

    fn default_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::DashScope | Self::DashScopeMultimodal => "https://dashscope.aliyuncs.com/api/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::Ollama => "http://localhost:11434",
        }
    }
}

impl Setup {
    /// Reads the settings; `text` gives the value of a key below `embedding_model_config`, `None`
    /// where it is not set.
    pub fn read(text: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let get = |key: &str| text(key).unwrap_or_default().trim().to_owned();
        let count = |key: &'static str, default: usize, most: usize| match get(key).as_str() {
            "" => Ok(default),
            text => text
                .parse()
                .ok()
                .filter(|it| (1..=most).contains(it))
                .ok_or(ConfigError { key, wanted: "a whole number above 0 that makes sense" }),
        };
        let flag = |key: &'static str, default: bool| match get(key).to_lowercase().as_str() {
            "" => Ok(default),
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(ConfigError { key, wanted: "`true` or `false`" }),
        };
        let dimensions = count("dimensions", 1024, 1 << 16)?;
        let max_input_length = count("max_input_length", 8192, 1 << 24)?;
        let max_batch_size = count("max_batch_size", 10, 1 << 12)?;
        let max_cache_size = count("max_cache_size", 10_000, 1 << 24)?;
        let use_dimensions = flag("use_dimensions", false)?;
        let enable_cache = flag("enable_cache", true)?;
        let health_check_timeout = match get("health_check_timeout").as_str() {
            "" => Duration::from_secs(15),
            text => text
                .parse()
                .ok()
                .filter(|it| *it > 0.0 && *it <= 300.0)
                .map(Duration::from_secs_f64)
                .ok_or(ConfigError {
                    key: "health_check_timeout",
                    wanted: "seconds above 0, at most 300",
                })?,
        };

        let (name, model_name) = (get("backend").to_lowercase(), get("model_name"));
        let (api_key, base_url) = (Secret::new(&get("api_key")), get("base_url"));
        // `openai` is what it is without a word: a configuration that was not begun has it, too.
        let is_usual = matches!(name.as_str(), "" | "openai");
        if is_usual && model_name.is_empty() && api_key.is_empty() && base_url.is_empty() {
            return Ok(Self::OnBoard);
        }
        let name = if name.is_empty() { "openai" } else { &name };
        let Some(backend) = Backend::named(name) else {
            let known = Backend::ALL.map(|it| format!("`{}`", it.name())).join(", ");
            return Ok(Self::Incomplete(format!("`{name}` is no backend; there are {known}")));
        };
        let lacks = |key: &str| {
            Ok(Self::Incomplete(format!("`{name}` needs `embedding_model_config.{key}`")))
        };
        if model_name.is_empty() {
            return lacks("model_name");
        }
        if backend.needs_key() && api_key.is_empty() {
            return lacks("api_key");
        }
        if api_key.reveal().bytes().any(|it| !(0x21..0x7f).contains(&it)) {
            return Err(ConfigError { key: "api_key", wanted: "one word of plain characters" });
        }
        let base_url = match base_url.as_str() {
            "" => backend.default_url().to_owned(),
            // As Ollama's own setting may be written.
            host if backend == Backend::Ollama && !host.contains("://") => format!("http://{host}"),
            url => url.to_owned(),
        };
        let base_url = base_url.trim_end_matches('/').to_owned();
        check_url(&base_url)?;
        Ok(Self::Ready(Box::new(Config {
            backend,
            api_key,
            base_url,
            model_name,
            dimensions,
            use_dimensions,
            max_input_length,
            max_batch_size,
            cache: NonZeroUsize::new(max_cache_size).filter(|_| enable_cache),
            health_check_timeout,
        })))
    }
}

impl Config {
    /// The space of this provider's vectors.
    pub fn identity(&self) -> Identity {
        Identity {
            backend: self.backend.name().to_owned(),
            model: self.model_name.clone(),
            dimension: self.dimensions,
            source: self.base_url.clone(),
            normalisation: Normalisation::L2,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        }
    }
}

/// A key in the address would stand in logs and in the identity.
pub(super) fn check_url(url: &str) -> Result<(), ConfigError> {
    let wanted = "`http://` or `https://`, a host and a path, without a key or a question mark";
    let error = ConfigError { key: "base_url", wanted };
    let parsed = reqwest::Url::parse(url).map_err(|_| error.clone())?;
    let is_plain = matches!(parsed.scheme(), "http" | "https")
        && parsed.has_host()
        && parsed.username().is_empty()
        && parsed.password().is_none()
        && parsed.query().is_none()
        && parsed.fragment().is_none();
    if is_plain { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<Setup, ConfigError> {
        Setup::read(|key| settings.iter().find(|it| it.0 == key).map(|it| it.1.to_owned()))
    }

    fn ready(settings: &[(&str, &str)]) -> Config {
        match read(settings) {
            Ok(Setup::Ready(config)) => *config,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_documented_defaults() {
        let config = ready(&[("model_name", "m"), ("api_key", "k")]);
        assert_eq!(
            config,
            Config {
                backend: Backend::OpenAi,
                api_key: Secret::new("k"),
                base_url: "https://api.openai.com/v1".into(),
                model_name: "m".into(),
                dimensions: 1024,
                use_dimensions: false,
                max_input_length: 8192,
                max_batch_size: 10,
                cache: NonZeroUsize::new(10_000),
                health_check_timeout: Duration::from_secs(15),
            }
        );
        let config = ready(&[("model_name", "m"), ("api_key", "k"), ("enable_cache", "false")]);
        assert_eq!(config.cache, None);
    }

    #[test]
    fn nothing_set_is_the_model_on_board_and_half_set_says_what_is_missing() {
        assert_eq!(read(&[("backend", "openai"), ("dimensions", "8")]), Ok(Setup::OnBoard));
        assert_eq!(read(&[("model_name", "  "), ("api_key", "")]), Ok(Setup::OnBoard));
        for backend in ["ollama", "Ollama ", "dashscope", "gemini"] {
            let Ok(Setup::Incomplete(why)) = read(&[("backend", backend)]) else {
                panic!("{backend}");
            };
            let name = backend.trim().to_lowercase();
            assert_eq!(why, format!("`{name}` needs `embedding_model_config.model_name`"));
        }
        let alone = read(&[("backend", "opnai")]);
        assert!(matches!(alone, Ok(Setup::Incomplete(_))), "{alone:?}");
        for backend in ["openai", "dashscope", "dashscope_multimodal", "gemini"] {
            for (key, missing) in [("model_name", "api_key"), ("api_key", "model_name")] {
                let Ok(Setup::Incomplete(why)) = read(&[("backend", backend), (key, "x")]) else {
                    panic!("{backend} {key}");
                };
                let wanted = format!("`{backend}` needs `embedding_model_config.{missing}`");
                assert_eq!(why, wanted);
            }
            let config = ready(&[("backend", backend), ("model_name", "m"), ("api_key", "k")]);
            assert!(config.base_url.starts_with("https://"));
        }
        assert_eq!(
            read(&[("backend", "ollama"), ("base_url", "h")]),
            Ok(Setup::Incomplete("`ollama` needs `embedding_model_config.model_name`".into()))
        );
        let Ok(Setup::Incomplete(why)) = read(&[("backend", "opnai"), ("model_name", "m")]) else {
            panic!();
        };
        assert!(why.starts_with("`opnai` is no backend; there are `openai`, "));
    }

    #[test]
    fn ollama_needs_a_model_only_and_takes_a_bare_host() {
        let url = |base: &str| {
            ready(&[("backend", "Ollama"), ("model_name", "m"), ("base_url", base)]).base_url
        };
        assert_eq!(url(""), "http://localhost:11434");
        assert_eq!(url("box:11434/"), "http://box:11434");
        assert_eq!(url("https://box//"), "https://box");
    }

    #[test]
    fn values_that_can_t_be_are_named_without_their_text() {
        let check = |key, value| {
            let settings = [("model_name", "m"), ("api_key", "k"), (key, value)];
            let mut settings = settings.to_vec();
            settings.reverse();
            let err = read(&settings).unwrap_err();
            assert_eq!(err.key, key);
            for secret in ["two words", "sk-", "u:p", "k@", "key=1", "99999"] {
                assert!(!err.to_string().contains(secret), "{err}");
            }
        };
        for key in ["dimensions", "max_cache_size", "max_input_length", "max_batch_size"] {
            for value in ["0", "-1", "1.5", "many", "99999999999999999999"] {
                check(key, value);
            }
        }
        for value in ["0", "-2", "300.1", "NaN", "inf", "soon"] {
            check("health_check_timeout", value);
        }
        check("use_dimensions", "perhaps");
        check("enable_cache", "2");
        check("api_key", "two words");
        check("api_key", "sk-é");
        for url in ["ftp://h", "h/v1", "http://", "http://u:p@h", "http://k@h", "http://h?key=1"] {
            check("base_url", url);
        }
    }

    #[test]
    fn a_key_is_not_part_of_the_identity_and_an_endpoint_is() {
        let base = [("model_name", "m"), ("base_url", "http://h/v1/")];
        let identity = |key| ready(&[base[0], base[1], ("api_key", key)]).identity();
        assert_eq!(identity("one"), identity("two"));
        assert_eq!(identity("one").source, "http://h/v1");
    }
}

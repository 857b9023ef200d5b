//! The option folders of a question: `limit=10/in=digest/`.
//!
//! Pure. Takes a key and a decoded value, gives the options with it or says that the value can't
//! be read.
//!
//! **Invariant:** equal options are equal values, whatever their order and repetition, so that
//! they share one page.

use crate::mount::tree::{About, NameError};
use crate::search::{self, Query};
use crate::vault::VaultPath;

/// Only these are folders; any other name with `=` is a question.
const KEYS: &[&str] = &["limit", "since", "until", "in", "min_score", "path", "tag", "at"];

/// How many nodes a question about nodes gets that does not say.
const DEFAULT_NODES: usize = 20;

/// How many bytes of options one path may hold.
const MAX_BYTES: usize = 4096;

/// What narrows a question down.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    limit: Option<usize>,
    since: Option<String>,
    until: Option<String>,
    /// Sorted, each once.
    within: Vec<String>,
    path: Option<String>,
    /// Sorted, each once, case-folded.
    tags: Vec<String>,
    /// The bits of a finite number.
    min_score: Option<u32>,
    /// A moment of the past.
    at: Option<String>,
}

/// Whether `key=…` is an option.
pub fn is_key(key: &str) -> bool {
    KEYS.contains(&key)
}

impl Options {
    /// These options and one more; a single-valued one replaces what was there.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, NameError> {
        let mut options = self.clone();
        match key {
            "limit" => options.limit = Some(limit(value)?),
            "since" => options.since = Some(date(value)?),
            "until" => options.until = Some(date(value)?),
            "in" => insert(&mut options.within, folder(value)?),
            "path" => options.path = Some(text(value)?),
            "tag" => insert(&mut options.tags, tag(value)?),
            "min_score" => options.min_score = Some(score(value)?.to_bits()),
            "at" => options.at = Some(text(value)?),
            _ => return Err(NameError::BadOption),
        }
        let bytes: usize = options.within.iter().chain(&options.tags).map(String::len).sum();
        if bytes > MAX_BYTES { Err(NameError::TooLong) } else { Ok(options) }
    }

    /// The question for the search room.
    pub fn query(&self, text: &str, about: About) -> Query {
        let mut query = Query::new(text);
        if about == About::Nodes {
            query.limit = DEFAULT_NODES;
        }
        if let Some(limit) = self.limit {
            query.limit = limit;
        }
        query.since.clone_from(&self.since);
        query.until.clone_from(&self.until);
        query.within.clone_from(&self.within);
        query.path.clone_from(&self.path);
        query.at.clone_from(&self.at);
        query.tags.clone_from(&self.tags);
        query.min_score = self.min_score.map(f32::from_bits);
        query
    }
}

fn insert(values: &mut Vec<String>, value: String) {
    if let Err(at) = values.binary_search(&value) {
        values.insert(at, value);
    }
}

fn limit(value: &str) -> Result<usize, NameError> {
    let digits = !value.is_empty() && value.bytes().all(|it| it.is_ascii_digit());
    let limit = value.parse().ok().filter(|it| digits && (1..=Query::MAX_LIMIT).contains(it));
    limit.ok_or(NameError::BadOption)
}

fn date(value: &str) -> Result<String, NameError> {
    if search::is_day(value) { Ok(value.to_owned()) } else { Err(NameError::BadOption) }
}

fn folder(value: &str) -> Result<String, NameError> {
    let value = value.trim_end_matches('/');
    VaultPath::new(value).map(|_| value.to_owned()).map_err(|_| NameError::BadOption)
}

fn text(value: &str) -> Result<String, NameError> {
    if value.is_empty() { Err(NameError::BadOption) } else { Ok(value.to_owned()) }
}

fn tag(value: &str) -> Result<String, NameError> {
    let value = value.strip_prefix('#').unwrap_or(value).trim();
    text(&caseless::default_case_fold_str(value))
}

fn score(value: &str) -> Result<f32, NameError> {
    // No `inf`, no `NaN`, no `1e9`: a number as people write it.
    let plain = value.bytes().all(|it| it.is_ascii_digit() || matches!(it, b'.' | b'-'));
    let score = value.parse::<f32>().ok().filter(|it| plain && it.is_finite());
    // -0 and 0 are one score and must be one page.
    score.map(|it| it + 0.0).ok_or(NameError::BadOption)
}

//! Which notes a query may find at all.
//!
//! Pure. Takes the options of a [`Query`], checks them, and then says of each note whether it
//! passes. Asked inside the search, note by note, so that a filter narrows what is ranked and
//! never what was ranked already.

use globset::{GlobBuilder, GlobMatcher};

use crate::index::Card;
use crate::search::contexts::MAX_NAME;
use crate::search::query::Query;
use crate::vault::role::is_date;
use crate::vault::{Role, VaultPath};

/// Why a query can't be asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QueryError {
    #[error("query cannot be empty")]
    Empty,
    #[error("`limit={0}` is not from 1 to {most}", most = Query::MAX_LIMIT)]
    Limit(usize),
    #[error("`in={0}` is no folder in the vault")]
    Folder(String),
    #[error("`{option}={value}` is no date")]
    Date { option: &'static str, value: String },
    #[error("`path={value}` is no pattern: {why}")]
    Pattern { value: String, why: String },
    #[error("`tag=` names no tag")]
    Tag,
    #[error("`min_score` is no number")]
    MinScore,
    #[error("`at={value}`: {why}")]
    Moment { value: String, why: String, hint: String },
    #[error("the conversation has no name, or one over {MAX_NAME} bytes")]
    Context,
}

impl QueryError {
    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        false
    }

    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Empty => "Say what to look for.".to_owned(),
            Self::Limit(_) => format!("Leave it out, or ask for 1 to {} notes.", Query::MAX_LIMIT),
            Self::Folder(_) => "Write it relative to the vault, as `in=digest/wiki`.".to_owned(),
            Self::Date { option, .. } => format!("Write it as `{option}=2026-06-01`."),
            Self::Pattern { .. } => "Give a path or a pattern such as `digest/**/*.md`.".to_owned(),
            Self::Tag => "Write it as `tag=name`, without `#`.".to_owned(),
            Self::Moment { hint, .. } => hint.clone(),
            Self::Context => "Any word that is the same for one conversation does.".to_owned(),
            Self::MinScore => "Write it as `min_score=0.5`.".to_owned(),
        })
    }
}

/// Whether the query can be asked. For whoever hands it on: what is wrong is the same everywhere,
/// and not every wire can carry it (JSON knows no infinite number).
pub fn check(query: &Query) -> Result<(), QueryError> {
    asked(query)?;
    Filter::new(query).map(|_| ())
}

/// The words of the query.
pub(super) fn asked(query: &Query) -> Result<&str, QueryError> {
    match query.text.trim() {
        "" => Err(QueryError::Empty),
        text => Ok(text),
    }
}

/// Whether the text is `YYYY-MM-DD`, a day of the calendar.
pub fn is_day(text: &str) -> bool {
    let part = |range: std::ops::Range<usize>| text[range].parse::<u32>().unwrap_or(0);
    if !is_date(text.as_bytes()) {
        return false;
    }
    let (year, month, day) = (part(0..4), part(5..7), part(8..10));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// The checked options.
pub(super) struct Filter {
    within: Vec<Vec<u8>>,
    path: Option<Pattern>,
    tags: Vec<String>,
    since: Option<String>,
    until: Option<String>,
    /// Of the digest only.
    digest: Option<Vec<u8>>,
}

struct Pattern {
    exact: Vec<u8>,
    glob: GlobMatcher,
    /// A pattern without a slash is also tried on the file's name.
    on_name: bool,
}

impl Filter {
    pub(super) fn new(query: &Query) -> Result<Self, QueryError> {
        if !(1..=Query::MAX_LIMIT).contains(&query.limit) {
            return Err(QueryError::Limit(query.limit));
        }
        if query.min_score.is_some_and(|it| !it.is_finite()) {
            return Err(QueryError::MinScore);
        }
        if query.context.as_ref().is_some_and(|it| it.is_empty() || it.len() > MAX_NAME) {
            return Err(QueryError::Context);
        }
        let tags: Vec<String> = query.tags.iter().map(|it| fold_tag(it)).collect();
        if tags.iter().any(String::is_empty) {
            return Err(QueryError::Tag);
        }
        Ok(Self {
            within: query.within.iter().map(|it| folder(it)).collect::<Result<_, _>>()?,
            path: query.path.as_deref().map(Pattern::new).transpose()?,
            tags,
            since: date("since", query.since.as_deref())?,
            until: date("until", query.until.as_deref())?,
            digest: None,
        })
    }

    /// The same, of the digest only.
    pub(super) fn in_digest(mut self, digest: &str) -> Self {
        self.digest = Some(digest.as_bytes().to_vec());
        self
    }

    /// Whether a note lies where the query looks; its tags may stand in a part that is not read.
    pub(super) fn is_asked(&self, card: &Card) -> bool {
        let path = &card.path;
        let inside = |folder: &Vec<u8>| folder.is_empty() || path.is_within(folder);
        let is_open = match card.role {
            Role::Note | Role::DayPage => self.within.is_empty() || self.within.iter().any(inside),
            Role::OnRequest => self.within.iter().any(inside),
            Role::Other => false,
        };
        is_open
            && self.digest.as_ref().is_none_or(inside)
            && self.in_time(card)
            && self.path.as_ref().is_none_or(|it| it.takes(card))
    }

    pub(super) fn takes(&self, card: &Card) -> bool {
        self.is_asked(card)
            && (self.tags.is_empty() || card.tags.iter().any(|it| self.takes_tag(it)))
    }

    /// A note without a date passes.
    fn in_time(&self, card: &Card) -> bool {
        let Some(date) = card.date.as_deref() else { return true };
        self.since.as_deref().is_none_or(|it| date >= it)
            && self.until.as_deref().is_none_or(|it| date <= it)
    }

    /// `project` takes `project/remd` too, as in Obsidian.
    fn takes_tag(&self, tag: &str) -> bool {
        let tag = fold_tag(tag);
        self.tags.iter().any(|wanted| {
            tag.strip_prefix(wanted.as_str()).is_some_and(|it| it.is_empty() || it.starts_with('/'))
        })
    }
}

impl Pattern {
    fn new(value: &str) -> Result<Self, QueryError> {
        let value = value.trim_start_matches("./").trim_start_matches('/');
        let wrong = |why: String| QueryError::Pattern { value: value.to_owned(), why };
        if value.is_empty() {
            return Err(wrong("it is empty".to_owned()));
        }
        let glob = GlobBuilder::new(value)
            .literal_separator(true)
            .build()
            .map_err(|err| wrong(err.kind().to_string()))?;
        Ok(Self {
            exact: value.as_bytes().to_vec(),
            glob: glob.compile_matcher(),
            on_name: !value.contains('/'),
        })
    }

    fn takes(&self, card: &Card) -> bool {
        use std::os::unix::ffi::OsStrExt as _;
        let path = card.path.as_bytes();
        let name = std::ffi::OsStr::from_bytes(card.path.file_name());
        path == self.exact
            || self.glob.is_match(card.path.as_path())
            || (self.on_name && self.glob.is_match(name))
    }
}

/// A folder as a prefix; `.` is all of the vault.
fn folder(value: &str) -> Result<Vec<u8>, QueryError> {
    if matches!(value, "." | "./" | "/") {
        return Ok(Vec::new());
    }
    let trimmed = value.trim_start_matches("./").trim_matches('/');
    VaultPath::new(trimmed)
        .map(|it| it.as_bytes().to_vec())
        .map_err(|_| QueryError::Folder(value.to_owned()))
}

/// A tag as it is compared: without `#`, in one case, blanks as underscores.
pub(super) fn fold_tag(tag: &str) -> String {
    let words: Vec<&str> = tag.trim().trim_start_matches('#').split_whitespace().collect();
    caseless::default_case_fold_str(&words.join("_"))
}

fn date(option: &'static str, value: Option<&str>) -> Result<Option<String>, QueryError> {
    match value {
        Some(value) if !is_day(value) => Err(QueryError::Date { option, value: value.to_owned() }),
        value => Ok(value.map(str::to_owned)),
    }
}

//! A question, as asked.
//!
//! Pure. **Invariant:** no character of the text is syntax, except that double quotes make a
//! phrase.

/// What is asked, and of which part of the vault.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Query {
    /// The words, as typed.
    pub text: String,
    /// How many notes at most; at least 1.
    pub limit: usize,
    /// `YYYY-MM-DD`: only notes of that date or later. A note without a date passes.
    pub since: Option<String>,
    /// `YYYY-MM-DD`: only notes of that date or earlier. A note without a date passes.
    pub until: Option<String>,
    /// Folder prefixes (any of them); naming one also opens folders that search skips by default.
    pub within: Vec<String>,
    /// An exact path or a glob.
    pub path: Option<String>,
    /// Tags (any of them), without `#`, case-folded.
    pub tags: Vec<String>,
    /// Hits with a lower score are left out.
    pub min_score: Option<f32>,
    /// Whether each hit carries how its score came about.
    pub explain: bool,
}

impl Query {
    /// How many hits a query gets that does not say.
    pub const DEFAULT_LIMIT: usize = 5;
    /// The most hits one query may ask for.
    pub const MAX_LIMIT: usize = 200;

    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            limit: Self::DEFAULT_LIMIT,
            since: None,
            until: None,
            within: Vec::new(),
            path: None,
            tags: Vec::new(),
            min_score: None,
            explain: false,
        }
    }
}

//! A question, as asked.
//!
//! Pure. **Invariant:** no character of the text is syntax, except that double quotes make a
//! phrase.

use crate::base::calendar::Day;

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
    /// Hits with a lower score are left out. In score fusion, the default, it is compared with the
    /// fused score (a note that has the words has 1 at most, what has none at most the weight of
    /// vectors), also where a branch is missing; in rank fusion with that (at most 1/61), or with
    /// the one branch's own.
    pub min_score: Option<f32>,
    /// The share of vectors, 0 to 1: asks for the documented rank fusion. 0 is words alone, 1
    /// vectors alone.
    #[serde(default)]
    pub vector_weight: Option<f64>,
    /// Names the conversation that asks: what it was given within a day is not given again.
    #[serde(default)]
    pub context: Option<String>,
    /// A moment: the vault as it was then is searched.
    #[serde(default)]
    pub at: Option<String>,
    /// Whether each hit carries how its score came about.
    pub explain: bool,
}

/// What the settings say of ranking.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rules {
    /// Rank fusion with this share of vectors, instead of the default.
    pub by_rank: Option<f64>,
    /// Another weight of the cosine than the model's own.
    pub by_score: Option<f64>,
    /// Today, where notes of a time that the question names are preferred.
    pub dates_from: Option<Day>,
    /// Today, and after how many days a note is half as recent, where recent ones are preferred.
    pub recent_from: Option<(Day, u32)>,
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
            vector_weight: None,
            context: None,
            at: None,
            explain: false,
        }
    }
}

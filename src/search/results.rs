//! The answer to a question.
//!
//! Pure data. **Invariant:** hits are sorted by the score shown, ties by path and line, where no server has
//! put them in its own order.

use crate::search::contexts::Dedup;
use crate::vault::{ChunkId, CommitId, VaultPath};

/// Ranked hits and what they are true for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    pub hits: Vec<Hit>,
    /// The commit that the answer is true for; `None` before the first one is indexed.
    pub at: Option<CommitId>,
    /// Commits that the index has not reached.
    pub commits_behind: usize,
    /// Edits on disk that are not committed yet.
    pub edits_uncommitted: usize,
    /// Paths that are kept out of the commits for a reason.
    pub kept_out: usize,
    /// Why there may be edits on disk that nobody has seen.
    pub unseen: Option<&'static str>,
    /// Notes that the query is about and of which only the beginning is searched.
    pub notes_in_part: usize,
    pub keyword: BranchState,
    pub vector: BranchState,
    /// Why the answer is only a part of the truth: an index being built (how far), a deadline.
    pub partial: Option<String>,
    /// How scores were made, for `--explain`.
    pub ranking: String,
    /// The rule that made one score of two: `score` or `rrf`; `None` where one branch answered.
    pub fusion: Option<&'static str>,
    /// What a conversation was given before, where the query names one.
    pub dedup: Option<Dedup>,
    /// Whether a server has put the hits in its order.
    pub rerank: Rerank,
}

/// Whether a server has put hits in its order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Rerank {
    #[default]
    Off,
    /// By which model.
    Done(String),
    /// It was to, and did not: why.
    Failed(String),
}

/// Why the vector branch is off where the next question may find it there.
pub(super) const NO_ANSWER: &str = "the model gave no answer";
/// Why it is off where only the size of a page is asked for.
pub const UNASKED: &str = "the model is asked when the page is opened";
/// Why it is off where somebody opened pages in a loop.
pub const ENOUGH: &str = "the mount has asked the provider enough for this minute";

impl Results {
    /// Whether the same question may have a better answer though no note was changed.
    pub fn is_passing(&self) -> bool {
        self.partial.is_some() || self.vector.is_passing()
    }
}

/// Whether a branch of the search took part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BranchState {
    /// It took part and returned so many candidates.
    Used(usize),
    /// It took part and returned so many candidates, while as many notes are not in it yet.
    Part { found: usize, missing: usize },
    /// It did not, and why.
    Off(&'static str),
}

impl Default for BranchState {
    fn default() -> Self {
        Self::Off("no model")
    }
}

impl BranchState {
    /// Whether it is off for a reason that passes though no note is changed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Off(NO_ANSWER | ENOUGH))
    }

    /// Whether it is off because nobody was to be asked.
    pub fn is_unasked(&self) -> bool {
        *self == Self::Off(UNASKED)
    }

    /// How many candidates it returned.
    pub fn found(&self) -> usize {
        match self {
            Self::Used(found) | Self::Part { found, .. } => *found,
            Self::Off(_) => 0,
        }
    }
}

/// One note by its best chunk.
#[derive(Clone, PartialEq, Debug)]
pub struct Hit {
    pub id: ChunkId,
    pub path: VaultPath,
    pub start_line: u32,
    pub end_line: u32,
    /// The fused score, or the one branch's own: what hits are sorted by.
    pub score: f32,
    /// The cosine of the note's best passage, where the vector branch knows the note.
    pub vector: Option<f32>,
    /// The BM25 score, where the keyword branch returned the note.
    pub keyword: Option<f32>,
    pub name: String,
    pub description: Option<String>,
    /// Headings above the chunk, outermost first.
    pub headings: Vec<String>,
    /// The chunk's lines as they stand in the file.
    pub text: String,
    /// Whether the text is on disk but not committed yet.
    pub uncommitted: bool,
    /// At most 10, indexed notes only, first-seen order.
    pub outlinks: Vec<Neighbour>,
    /// How many there are in all.
    pub outlinks_total: usize,
    /// At most 10, indexed notes only, by source path.
    pub inlinks: Vec<Neighbour>,
    pub inlinks_total: usize,
    /// What replaced the note; `None` for one that holds.
    pub superseded: Option<Heir>,
    /// How the score came about, a line each; empty unless asked for.
    pub trace: Vec<String>,
}

/// A note that a hit links to or is linked from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbour {
    pub path: VaultPath,
    pub name: String,
    pub description: Option<String>,
    /// Distinct anchors of the links, without `#`.
    pub anchors: Vec<String>,
    /// The relation of a typed link.
    pub relation: Option<String>,
}

/// What replaced a note.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heir {
    /// Where it is; `None` where no indexed note is meant.
    pub path: Option<VaultPath>,
    /// Its name, or how it is written; empty where only that the note is superseded is said.
    pub name: String,
}

/// Digest nodes, and what was looked at.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FoundNodes {
    pub nodes: Vec<Node>,
    /// How many notes were looked at.
    pub candidates: usize,
    pub keyword: BranchState,
    pub vector: BranchState,
    /// Why it is only a part of the truth.
    pub partial: Option<String>,
}

/// A digest node that answers a query.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    pub path: VaultPath,
    pub name: String,
    pub description: Option<String>,
    pub score: f32,
}

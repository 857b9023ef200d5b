//! What is under way around a commit.
//!
//! Pure. **Invariant:** whoever waits can say for what, and since when.

use serde::{Deserialize, Serialize};

use crate::render::counted;
use crate::render::status::{age, grouped, one_line};

/// Something of the user's own that is done around a commit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AtWork {
    /// ``the hook `pre-commit` ``.
    pub what: String,
    /// The file that waits for it, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How many other files wait for the same.
    #[serde(default)]
    pub more: usize,
    pub since: i64,
    /// Whether edits wait for it: those of `post-commit` do not.
    pub is_waited_for: bool,
}

impl AtWork {
    /// ``the filter `x` is at work on `n.md` for 12 s``.
    pub fn text(&self, now: i64) -> String {
        let mut text = format!("{} is at work", self.what);
        if let Some(path) = &self.path {
            text.push_str(&format!(" on `{}`", one_line(path)));
        }
        if self.more > 0 {
            text.push_str(&format!(" (and {})", counted(self.more, "other file", "other files")));
        }
        format!("{text} for {}", age(self.since, now))
    }
}

/// A commit of very many files under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Committing {
    pub done: usize,
    pub all: usize,
    /// Whether it is the first one, of what was there before the agent.
    pub adopting: bool,
}

impl Committing {
    /// `adopting 42,000 of 100,000 files`.
    pub fn text(&self) -> String {
        let what = if self.adopting { "adopting" } else { "committing" };
        format!("{what} {} of {} files", grouped(self.done), grouped(self.all))
    }
}

//! What a page is true for, in words.
//!
//! Pure. **Invariant:** no wall time: the same index gives the same line.

use serde::Serialize;

use crate::render::counted;
use crate::search::Results;
use crate::vault::CommitId;

/// The commit an answer is true for, and what it does not know yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct AsOf {
    /// `None` before the first commit is indexed.
    pub at: Option<CommitId>,
    /// Commits that the index has not reached.
    pub commits_behind: usize,
    /// Edits on disk that are not committed yet.
    pub edits_uncommitted: usize,
    /// Paths that are kept out of the commits for a reason.
    pub kept_out: usize,
    /// Why there may be edits on disk that nobody has seen.
    pub unseen: Option<&'static str>,
    /// Notes of which only the beginning is searched.
    pub notes_in_part: usize,
}

impl From<&Results> for AsOf {
    fn from(results: &Results) -> Self {
        Self {
            at: results.at,
            commits_behind: results.commits_behind,
            edits_uncommitted: results.edits_uncommitted,
            kept_out: results.kept_out,
            unseen: results.unseen,
            notes_in_part: results.notes_in_part,
        }
    }
}

impl AsOf {
    /// ` as of 4f2c9e1, current`, to stand behind a count.
    pub fn text(&self) -> String {
        let mut text = match self.at {
            Some(commit) => format!(" as of {}", commit.short()),
            None => ", nothing indexed yet".to_owned(),
        };
        if self.commits_behind > 0 {
            text.push_str(&format!(
                ", {} behind",
                counted(self.commits_behind, "commit", "commits")
            ));
        }
        if self.edits_uncommitted > 0 {
            text.push_str(&format!(
                ", {} uncommitted",
                counted(self.edits_uncommitted, "edit", "edits")
            ));
        }
        if self.kept_out > 0 {
            text.push_str(&format!(", {} kept out", self.kept_out));
        }
        if let Some(why) = self.unseen {
            text.push_str(&format!(", {why}"));
        }
        if self.is_current() {
            text.push_str(", current");
        }
        if self.notes_in_part > 0 {
            text.push_str(&format!(
                ", {} searched in part",
                counted(self.notes_in_part, "note", "notes")
            ));
        }
        text
    }

    /// Whether all that is on disk is known to be answered from.
    fn is_current(&self) -> bool {
        self.at.is_some()
            && self.commits_behind == 0
            && self.edits_uncommitted == 0
            && self.kept_out == 0
            && self.unseen.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_current_or_what_is_missing() {
        let at = CommitId::from_hex("4f2c9e1d00000000000000000000000000000abc");
        let check = |at, commits_behind, edits_uncommitted, text: &str| {
            let as_of = AsOf { at, commits_behind, edits_uncommitted, ..AsOf::default() };
            assert_eq!(as_of.text(), text);
        };
        check(at, 0, 0, " as of 4f2c9e1, current");
        check(at, 1, 0, " as of 4f2c9e1, 1 commit behind");
        check(at, 0, 2, " as of 4f2c9e1, 2 edits uncommitted");
        check(at, 3, 1, " as of 4f2c9e1, 3 commits behind, 1 edit uncommitted");
        check(None, 0, 0, ", nothing indexed yet");
        check(None, 2, 0, ", nothing indexed yet, 2 commits behind");
        let kept = AsOf { at, kept_out: 2, ..AsOf::default() };
        assert_eq!(kept.text(), " as of 4f2c9e1, 2 kept out");
        let both = AsOf { edits_uncommitted: 1, ..kept };
        assert_eq!(both.text(), " as of 4f2c9e1, 1 edit uncommitted, 2 kept out");
    }

    #[test]
    fn what_nobody_sees_is_not_current_and_a_part_is_named() {
        let at = CommitId::from_hex("4f2c9e1d00000000000000000000000000000abc");
        let check = |edits_uncommitted, unseen, notes_in_part, text: &str| {
            let kept_out = 0;
            let commits_behind = 0;
            let as_of =
                AsOf { at, commits_behind, edits_uncommitted, kept_out, unseen, notes_in_part };
            assert_eq!(as_of.text(), text);
        };
        check(0, Some("vault gone"), 0, " as of 4f2c9e1, vault gone");
        check(1, Some("vault gone"), 0, " as of 4f2c9e1, 1 edit uncommitted, vault gone");
        check(0, None, 1, " as of 4f2c9e1, current, 1 note searched in part");
        check(2, None, 3, " as of 4f2c9e1, 2 edits uncommitted, 3 notes searched in part");
        check(0, Some("vault gone"), 2, " as of 4f2c9e1, vault gone, 2 notes searched in part");
    }
}

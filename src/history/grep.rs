//! Whether a change has a text in it.
//!
//! Takes the two sides of a change, says whether a line that came or went has the text. Any thread.
//!
//! **Invariant:** a line that only stands beside a change does not count; case does not matter.

use std::collections::HashMap;

use crate::history::error::{ReadError, git};
use crate::history::{reader, text};
use crate::vault::change::{Change, Entry, FileMode};
use crate::vault::fold::folded;

/// Nothing larger is looked through.
const LARGEST: u64 = 16 << 20;

/// What is looked for, literally.
#[derive(Clone, Debug)]
pub struct Needle(Vec<u8>);

impl Needle {
    pub fn new(text: &str) -> Self {
        Self(folded(text.as_bytes()).into_owned())
    }

    fn is_in(&self, line: &[u8]) -> bool {
        let line = folded(line);
        self.0.is_empty() || line.windows(self.0.len()).any(|it| it == self.0)
    }

    /// Whether a line of it came or went.
    pub(super) fn is_changed(
        &self,
        repo: &gix::Repository,
        change: Change,
    ) -> Result<bool, ReadError> {
        let (old, new) = (side(repo, change.old)?, side(repo, change.new)?);
        if text::is_binary(&old) || text::is_binary(&new) {
            return Ok(false);
        }
        // Lines that have it, and how often each came or went.
        let mut lines = HashMap::<&[u8], i64>::new();
        for (bytes, step) in [(&old, -1), (&new, 1)] {
            for line in bytes.split(|it| *it == b'\n').filter(|it| self.is_in(it)) {
                *lines.entry(line).or_default() += step;
            }
        }
        Ok(lines.into_values().any(|it| it != 0))
    }
}

/// The text of one side; empty where there is none, it is too large or not here.
fn side(repo: &gix::Repository, entry: Option<Entry>) -> Result<Vec<u8>, ReadError> {
    let Some(entry) = entry.filter(|it| it.mode != FileMode::Gitlink) else {
        return Ok(Vec::new());
    };
    let Some((id, _)) = reader::version(entry) else { return Ok(Vec::new()) };
    match git("read a blob", repo.try_find_header(id))? {
        Some(header) if header.size() <= LARGEST => reader::read_blob(repo, entry.blob),
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_matter_in_any_script() {
        let check = |needle: &str, line: &str, expected: bool| {
            assert_eq!(Needle::new(needle).is_in(line.as_bytes()), expected, "{needle} {line}");
        };
        check("mysql", "We left MySQL.", true);
        check("STRASSE", "die Straße", true);
        check("日記", "今日の日記", true);
        check("a b", "a  b", false);
        check("", "", true);
    }
}

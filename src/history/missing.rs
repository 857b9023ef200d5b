//! What of a repository's own files is gone or makes no sense.
//!
//! Takes where they lie, says what is missing and how it comes back. Asked when something failed;
//! changes nothing. Any thread.
//!
//! **Invariant:** no remedy writes over or takes away what is there.

use std::path::Path;

use crate::base::fs;
use crate::history::place::Place;
use crate::history::{History, Reader};

/// For people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    pub what: String,
    pub remedy: String,
}

impl History {
    /// What is missing in the repository; `branch` is what HEAD named last.
    pub fn missing(&self, branch: Option<&str>) -> Option<Missing> {
        find(&self.place, branch)
    }
}

impl Reader {
    /// The same for who only reads.
    pub fn missing(&self, branch: Option<&str>) -> Option<Missing> {
        find(&self.place, branch)
    }
}

fn find(place: &Place, branch: Option<&str>) -> Option<Missing> {
    let gone = |path: &Path| matches!(fs::lstat_if_there(path), Ok(None));
    for git_dir in [&place.git_dir, &place.common_dir] {
        if gone(git_dir) {
            return Some(Missing {
                what: format!("The repository `{}` is gone", git_dir.display()),
                remedy: "Mount its disk, or put it back from where it was moved or from a backup; \
                         the agent goes on by itself. Do not run `git init`: the history would begin \
                         anew."
                    .to_owned(),
            });
        }
    }
    let head = place.git_dir.join("HEAD");
    let is_there = match fs::read_if_there(&head) {
        Ok(None) => Some("is gone"),
        Ok(Some(text)) if !is_head(&text) => Some("is damaged"),
        _ => None,
    };
    if let Some(how) = is_there {
        return Some(Missing {
            what: format!("`{}` {how}", head.display()),
            remedy: remedy_of_head(&head, branch),
        });
    }
    let parts = ["objects", "refs"].map(|it| place.common_dir.join(it));
    parts.into_iter().find(|it| gone(it)).map(|part| Missing {
        what: format!("`{}` is gone", part.display()),
        remedy: "Put it back from a backup, or from another clone of this repository; the agent \
                 goes on by itself."
            .to_owned(),
    })
}

/// How a `HEAD` is written again.
pub(super) fn remedy_of_head(head: &Path, branch: Option<&str>) -> String {
    let (named, note) = match branch {
        Some(branch) => (branch, ""),
        None => ("main", " (with your branch's name)"),
    };
    format!("Write it again{note}: `echo 'ref: refs/heads/{named}' > '{}'`.", head.display())
}

/// A branch, or a commit's id.
fn is_head(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    text.strip_prefix(b"ref:").is_some_and(|it| it.trim_ascii().starts_with(b"refs/"))
        || matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_first_by_what_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let git_dir = dir.path().join(".git");
        let place = Place {
            root: dir.path().into(),
            workdir: dir.path().into(),
            dot_git: git_dir.clone(),
            git_dir: git_dir.clone(),
            common_dir: git_dir.clone(),
            prefix: Default::default(),
            shared: Default::default(),
        };
        let check = |what: Option<&str>, remedy: &str| match (find(&place, Some("side")), what) {
            (None, None) => {}
            (Some(found), Some(what)) => {
                assert!(found.what.contains(what) && found.remedy.contains(remedy), "{found:?}");
            }
            other => panic!("{other:?}"),
        };
        check(Some(".git` is gone"), "git init");
        fs::create_dir_all(&git_dir).unwrap();
        check(Some("HEAD` is gone"), "ref: refs/heads/side");
        for damaged in ["", "garbage\n", "ref: nonsense\n", "0123\n", "\0\0\0"] {
            std::fs::write(git_dir.join("HEAD"), damaged).unwrap();
            check(Some("HEAD` is damaged"), "ref: refs/heads/side");
        }
        for sound in ["ref: refs/heads/side\n", "1111111111111111111111111111111111111111\n"] {
            std::fs::write(git_dir.join("HEAD"), sound).unwrap();
            check(Some("objects` is gone"), "backup");
        }
        fs::create_dir_all(&git_dir.join("objects")).unwrap();
        check(Some("refs` is gone"), "backup");
        fs::create_dir_all(&git_dir.join("refs")).unwrap();
        check(None, "");
    }
}

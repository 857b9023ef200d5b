//! Who signs a commit, and when.
//!
//! Takes the author asked for, or git's user, or nobody; gives commit objects. Committer thread.
//!
//! **Invariant:** nothing that a name holds can end a header line early.

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};

use crate::base::clock;
use crate::history::Options;
use crate::history::error::GitError;
use crate::history::objects;

/// Who signs a commit, and when.
pub(super) struct Signed {
    author: (BString, BString),
    committer: (BString, BString),
    pub time: gix::date::Time,
}

impl Signed {
    /// `author` as given, else the vault's Git user, else `remd`.
    pub fn new(
        repo: &gix::Repository,
        options: &Options,
        author: Option<&(String, String)>,
    ) -> Self {
        let remd = (BString::from("remd"), format!("remd@{}", options.host).into());
        let before = repo.head_commit().ok().and_then(|it| it.time().ok()).map(|it| it.seconds);
        let seconds = not_before(before, clock::unix_seconds());
        let user = || {
            let user = repo.author()?.ok()?;
            Some((user.name.to_owned(), user.email.to_owned()))
        };
        let given = author.map(|(name, mail)| (name.as_str().into(), mail.as_str().into()));
        let (name, mail) = given.or_else(user).unwrap_or_else(|| remd.clone());
        Self {
            author: (in_header(name, "remd"), in_header(mail, "")),
            committer: (remd.0, in_header(remd.1, "")),
            time: gix::date::Time { seconds, offset: clock::local_offset(seconds) },
        }
    }

    /// Writes a commit object, without a signature: for what is never shared.
    pub fn commit(
        &self,
        repo: &gix::Repository,
        tree: ObjectId,
        parents: Vec<ObjectId>,
        message: String,
    ) -> Result<ObjectId, GitError> {
        let commit = self.object(tree, parents, message);
        objects::write_object(repo, &commit)
    }

    /// Name and mail of the author.
    pub fn author(&self) -> (String, String) {
        (self.author.0.to_string(), self.author.1.to_string())
    }

    /// Whose key signs, where the settings name none: git's user, as `Name <mail>`.
    pub fn user(&self, repo: &gix::Repository) -> String {
        let user = repo.committer().and_then(Result::ok);
        match user {
            Some(user) => format!("{} <{}>", user.name, user.email),
            None => format!("{} <{}>", self.committer.0, self.committer.1),
        }
    }

    /// A commit object, not written yet.
    pub fn object(
        &self,
        tree: ObjectId,
        parents: Vec<ObjectId>,
        message: String,
    ) -> gix::objs::Commit {
        let signature = |(name, email): &(BString, BString)| gix::actor::Signature {
            name: name.clone(),
            email: email.clone(),
            time: self.time,
        };
        gix::objs::Commit {
            tree,
            parents: parents.into(),
            author: signature(&self.author),
            committer: signature(&self.committer),
            encoding: None,
            message: message.into(),
            extra_headers: Vec::new(),
        }
    }

    /// Who writes, and when.
    pub fn committer(&self) -> gix::actor::Signature {
        let (name, email) = self.committer.clone();
        gix::actor::Signature { name, email, time: self.time }
    }

    /// `name <mail> seconds offset`, as a reflog has it.
    pub fn for_log(&self) -> Vec<u8> {
        let (name, mail) = &self.committer;
        let minutes = self.time.offset / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        let when = format!("> {} {sign}{hours:02}{minutes:02}", self.time.seconds);
        [name.as_slice(), b" <", mail.as_slice(), when.as_bytes()].concat()
    }
}

/// No clock says less, unless it was not set yet: 2025-01-01.
const EARLIEST: i64 = 1_735_689_600;
/// A parent that is further ahead was made by a clock that was wrong: it is not followed.
const MOST_AHEAD: i64 = 7 * 86_400;

/// A commit is not dated before its parent where the clock went back or is not set yet: what asks
/// for a date walks from HEAD to the first commit that is old enough.
fn not_before(parent: Option<i64>, now: i64) -> i64 {
    match parent {
        Some(parent) if parent > now && (now < EARLIEST || parent - now <= MOST_AHEAD) => parent,
        _ => now,
    }
}

/// What may stand in a commit's header: one line, no angle brackets.
fn in_header(text: BString, fallback: &str) -> BString {
    let kept: Vec<u8> =
        text.iter().copied().filter(|it| !matches!(it, b'<' | b'>' | b'\n' | b'\r' | 0)).collect();
    match kept.trim() {
        [] => fallback.into(),
        kept => String::from_utf8_lossy(kept).into_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_commit_is_dated_before_its_parent_but_for_a_clock_that_was_wrong() {
        let now = 1_800_000_000;
        let hour = 3600;
        for (parent, now, date) in [
            (None, now, now),
            (Some(now - hour), now, now),
            (Some(now + 2 * hour), now, now + 2 * hour),
            (Some(now + 3 * 24 * hour), now, now + 3 * 24 * hour),
            (Some(now + 365 * 24 * hour), now, now),
            // Started without a clock: 1970.
            (Some(now), 60, now),
            (None, 60, 60),
        ] {
            assert_eq!(not_before(parent, now), date, "{parent:?} {now}");
        }
    }
}

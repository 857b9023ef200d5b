//! What is about to be pushed and stays on this machine.
//!
//! Takes what Git tells a `pre-push` hook, gives a refusal in words, or none: references for this
//! machine alone, and commits with what looks like a credential. Blocking, the command's thread.
//!
//! **Invariant:** what cannot be judged is let through: a push never fails for a fault of ours.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::base::trouble::told;
use crate::base::{clock, fs};
use crate::config::Dirs;
use crate::daemon::{allowing, settings};
use crate::history::{Exposed, Reader, Span};
use crate::secrets::Policy;
use crate::vault::CommitId;

/// How long a push may be kept waiting.
const LIMIT: Duration = Duration::from_secs(120);
/// After this long it is said for what.
const SILENT: Duration = Duration::from_secs(3);

/// One reference that is pushed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Push {
    pub local: String,
    /// In hexadecimal; all zeros where the remote's is deleted.
    pub local_id: String,
    pub remote: String,
    /// In hexadecimal; all zeros where the remote has none yet.
    pub remote_id: String,
}

impl Push {
    /// Whether it takes the reference away from the remote.
    pub fn deletes(&self) -> bool {
        self.local_id.bytes().all(|it| it == b'0')
    }
}

/// Reads Git's list: a line a reference.
pub fn read(list: &[u8]) -> Vec<Push> {
    let text = String::from_utf8_lossy(list);
    let push = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut next = || words.next().filter(|it| !it.is_empty());
        let (local, local_id) = (next()?, next()?);
        Some(Push { local, local_id, remote: next()?, remote_id: next()? })
    };
    text.lines().filter_map(push).collect()
}

/// Why this may not be pushed to the remote that is called `to`.
pub fn refuse(pushes: &[Push], to: &str) -> Option<String> {
    private(pushes, to)
}

/// Why the commits may not be pushed: they have what looks like a credential, are new to the
/// remote, and nobody allowed it. `talk` is told what takes long, and what could not be judged.
pub fn refuse_leaks(
    pushes: &[Push],
    to: &str,
    vaults: &[PathBuf],
    dirs: &Dirs,
    talk: &mut dyn FnMut(&str),
) -> Option<String> {
    let until = clock::now() + LIMIT;
    let mut leaks = Vec::new();
    for vault in vaults {
        match leaks_of(pushes, to, vault, dirs, until, talk) {
            Ok(found) => leaks.extend(found),
            Err(err) => {
                talk(&format!("remd: not looked at for credentials: {}", told(err.as_ref())))
            }
        }
    }
    let (first, more) = (leaks.first()?, leaks.len() - 1);
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    Some(format!(
        "remd: a commit that would be pushed has what looks like a credential: {first}{more}\n\
         hint: If others may have seen it, change it where it is used. `remd secrets scan --history` \
         names all; if it is none: `remd secrets allow --fingerprint F`. `git push --no-verify` \
         pushes it all the same."
    ))
}

/// The findings of one vault, in words; under another policy than `hold` none stops a push.
fn leaks_of(
    pushes: &[Push],
    to: &str,
    vault: &Path,
    dirs: &Dirs,
    until: Instant,
    talk: &mut dyn FnMut(&str),
) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
    let vault = &fs::canonicalize(vault)?;
    let policy = settings::load(vault, dirs, &[])?.settings.secrets;
    if policy == Policy::Off {
        return Ok(Vec::new());
    }
    let reader = Reader::open(vault)?;
    let allowance = allowing::load(dirs, vault)?;
    let id = |hex: &str| CommitId::from_hex(hex).filter(|it| reader.exists(*it));
    let new: Vec<CommitId> =
        pushes.iter().filter(|it| !it.deletes()).filter_map(|it| id(&it.local_id)).collect();
    let known = pushes.iter().filter_map(|it| id(&it.remote_id)).collect();
    let mut clean = reader.clean()?;
    let said_at = clock::now() + SILENT;
    let (mut is_said, mut is_cut) = (false, false);
    let exposure = reader.exposure(
        &Span::Push { new, known, remote: to.to_owned() },
        &mut clean,
        &mut |done, all| {
            let now = clock::now();
            if now > said_at && !std::mem::replace(&mut is_said, true) {
                talk(&format!("remd: looking for credentials in {all} commits; later pushes are fast"));
            }
            is_cut = now > until;
            if is_cut {
                talk(&format!(
                    "remd: {done} of {all} commits were looked at for credentials in {} s; the rest \
                     goes on as it is (`remd secrets scan --history` looks at all)",
                    LIMIT.as_secs()
                ));
            }
            !is_cut
        },
    )?;
    if let Err(err) = reader.keep_clean(&clean) {
        tracing::debug!(err = %told(&err), "the next push looks at all of it again");
    }
    let open = exposure.found.into_iter().filter(|it| !allowance.allows(&it.finding));
    let lines: Vec<String> = open
        .map(|Exposed { commit, path, finding }| {
            format!("`{path}` in {}, {finding}", commit.short())
        })
        .collect();
    if policy == Policy::Warn {
        for line in &lines {
            talk(&format!("remd: what looks like a credential is pushed: {line}"));
        }
        return Ok(Vec::new());
    }
    Ok(lines)
}

/// What waits or was kept aside is for this machine alone: it has what a person took back, or what
/// was held for a secret.
fn private(pushes: &[Push], to: &str) -> Option<String> {
    let is_private = |it: &&Push| {
        !it.deletes() && [&it.local, &it.remote].iter().any(|it| it.starts_with("refs/remd/"))
    };
    let names: Vec<&str> = pushes.iter().filter(is_private).map(|it| it.local.as_str()).collect();
    let (first, more) = (names.first()?, names.len() - 1);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let to = if to.is_empty() { String::new() } else { format!(" to `{to}`") };
    Some(format!(
        "remd: `{first}`{more} would be pushed{to}: it keeps on this machine what no branch has, \
         also what was held back.\n\
         hint: Push branches and tags: `git push --all`, `git push --tags`; \
         `git push --no-verify` pushes it all the same."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_this_machine_alone_is_not_pushed() {
        let (id, none) = ("1".repeat(40), "0".repeat(40));
        let check = |local: &str, id: &str, remote: &str, refused: bool| {
            let list = format!(
                "refs/heads/main {id} refs/heads/main {none}\n{local} {id} {remote} {none}\n"
            );
            let pushes = read(list.as_bytes());
            assert_eq!(pushes.len(), 2);
            let said = refuse(&pushes, "origin");
            assert_eq!(said.is_some(), refused, "{local} {remote} {said:?}");
            if let Some(said) = said {
                assert!(said.contains("to `origin`") && said.contains("--no-verify"), "{said}");
            }
        };
        check("refs/heads/a", &id, "refs/heads/a", false);
        check("refs/remd/wip/host", &id, "refs/remd/wip/host", true);
        check("refs/remd/backup/wip/host", &id, "refs/heads/x", true);
        check("HEAD", &id, "refs/remd/wip/host", true);
        check("(delete)", &none, "refs/remd/wip/host", false);
        check("refs/tags/refs/remd/x", &id, "refs/tags/refs/remd/x", false);
    }

    #[test]
    fn a_list_that_makes_no_sense_refuses_nothing() {
        for list in ["", "\n\n", "x\n", "a b c\n", "\u{0}\n"] {
            assert_eq!(refuse(&read(list.as_bytes()), ""), None);
        }
    }
}

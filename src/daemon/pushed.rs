//! What is about to be pushed and stays on this machine.
//!
//! Takes what Git tells a `pre-push` hook, gives a refusal in words, or none. Blocking, the
//! command's thread.
//!
//! **Invariant:** what cannot be judged is let through: a push never fails for a fault of ours.

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

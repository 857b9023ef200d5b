//! Whether the folder at the vault's path is the vault again: mounted anew, or restored.
//!
//! Takes the house, whose own folder is not at its path any more; gives what is there instead.
//! Changes nothing in it. Blocking, on the committer's thread.
//!
//! **Invariant:** only a folder that lies in its repository where the vault did, holds the last
//! commit in what its HEAD has and most of HEAD's notes on disk, has no other agent and holds still
//! is the vault; any other stays a stranger.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use crate::base::trouble::told;
use crate::base::{clock, fs, lock};
use crate::daemon::house::House;
use crate::history::{self, Reader};
use crate::watch::{self, Filter};

/// What is at the vault's path.
#[derive(PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing, or the vault's own folder.
    Nothing,
    /// Another folder, and why it is not taken for the vault.
    Stranger(String),
    /// It may be the vault, once it holds still: a restore takes its time.
    Restless,
    Vault,
}

/// Looks at it now and then.
#[derive(Debug, Default)]
pub struct Lookout {
    /// A number over all that was there, and since when it is the same.
    seen: Option<(u64, Instant)>,
}

/// So long nothing in it may change.
const QUIET: Duration = Duration::from_secs(2);

impl Lookout {
    pub fn look(&mut self, house: &House, filter: &Filter) -> Found {
        let found = match stranger(house) {
            None => Found::Nothing,
            Some(Err(why)) => Found::Stranger(why),
            Some(Ok(())) => match print(house, filter) {
                None => Found::Restless,
                Some(print) => {
                    return match self.settle(print, clock::now()) {
                        Found::Vault => lack(house).map_or(Found::Vault, Found::Stranger),
                        found => found,
                    };
                }
            },
        };
        self.seen = None;
        found
    }

    fn settle(&mut self, print: u64, now: Instant) -> Found {
        match self.seen {
            Some((seen, since)) if seen == print => match now - since >= QUIET {
                true => Found::Vault,
                false => Found::Restless,
            },
            _ => {
                self.seen = Some((print, now));
                Found::Restless
            }
        }
    }
}

/// Why what is there is not the vault; `None` where nothing else is there.
fn stranger(house: &House) -> Option<Result<(), String>> {
    match fs::identity(&house.vault) {
        Ok(identity) if identity != house.identity => {}
        _ => return None,
    }
    Some((|| {
        let Some(last) = house.ledger.get().head else {
            return Err("nothing was committed by which it could be known".to_owned());
        };
        let reader = Reader::open(&house.vault).map_err(|err| told(&err))?;
        if !reader.is_at_the_place_of(&house.reader) {
            return Err("it lies elsewhere in its repository".to_owned());
        }
        let head = reader.head().map_err(|err| told(&err))?;
        let holds = head.is_some_and(|head| {
            reader.exists(last.commit)
                && reader.is_ancestor(last.commit, head.commit).unwrap_or(false)
        });
        if !holds {
            return Err(format!(
                "its history does not hold the last commit {}",
                last.commit.short()
            ));
        }
        match lock::try_lock_dir(&house.vault) {
            Ok(Some(_free)) => Ok(()),
            Ok(None) => Err("another agent runs on it".to_owned()),
            Err(err) => Err(told(&err)),
        }
    })())
}

/// What of its notes HEAD has and the disk has not; `None` where most are there.
///
/// The history alone proves nothing where the repository lies elsewhere: any folder at that place
/// has it, a mount point without its volume too. There the notes must be those of HEAD; beside a
/// repository that came along it is enough that they are there, whatever was edited since, or so
/// many missing that their deletion waits for a person.
fn lack(house: &House) -> Option<String> {
    let look = || {
        let reader = Reader::open(&house.vault).map_err(|err| told(&err))?;
        let Some(head) = reader.head().map_err(|err| told(&err))? else { return Ok(None) };
        let came_along = fs::lstat(&house.vault.join(".git")).is_ok_and(|it| it.is_dir());
        let options = super::options(&house.settings.get());
        let likeness = reader.likeness(head.commit, options.is_note, !came_along);
        let likeness = likeness.map_err(|err| told(&err))?;
        if came_along && options.hold_deletions.holds(likeness.all - likeness.there, likeness.all) {
            return Ok(None);
        }
        // What a sparse checkout leaves out is no loss.
        let is_sparse = history::shape(&house.vault).is_ok_and(|it| it.is_sparse);
        let is_enough = likeness.is_enough() || is_sparse && likeness.there > 0;
        Ok::<_, String>((!is_enough).then(|| {
            format!(
                "only {} of the {} notes of the commit {} are in it",
                likeness.there,
                likeness.all,
                head.commit.short()
            )
        }))
    };
    look().unwrap_or_else(Some)
}

/// One number over everything in it, by names, sizes and times; `None` where it cannot be read.
fn print(house: &House, filter: &Filter) -> Option<u64> {
    let scan = watch::scan(&house.vault, None, filter, &mut |_| false).ok()?;
    let mut hasher = DefaultHasher::new();
    fs::identity(&house.vault).ok()?.hash(&mut hasher);
    for path in &scan.found {
        let meta = fs::lstat(&house.vault.join(path.as_path())).ok()?;
        path.as_bytes().hash(&mut hasher);
        (meta.len(), meta.mtime(), meta.mtime_nsec()).hash(&mut hasher);
    }
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_still_changes_is_not_taken_up() {
        let mut lookout = Lookout::default();
        let start = clock::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(lookout.settle(1, at(0)), Found::Restless);
        assert_eq!(lookout.settle(1, at(1)), Found::Restless);
        assert_eq!(lookout.settle(2, at(3)), Found::Restless, "it changed");
        assert_eq!(lookout.settle(2, at(4)), Found::Restless);
        assert_eq!(lookout.settle(2, at(5)), Found::Vault);
    }
}

//! What may be half of a save: a file that was emptied or taken away a moment ago.
//!
//! Takes what a look found in the middle of a burst, gives the paths to look at once more. Many
//! programs save in two steps, and between them there is nothing. Committer thread only.
//!
//! **Invariant:** put off, never left out: the caller looks again, and a path that is not there is
//! put off a few times at most, since only its folder tells how long it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::base::fs;
use crate::history::look::Touched;
use crate::history::place::Place;
use crate::history::seen::Seen;
use crate::vault::VaultPath;

/// How often one that is gone is put off: others may come and go in its folder for ever.
const TIMES: u32 = 5;

/// How often which path has been put off so far.
#[derive(Debug, Default)]
pub(super) struct HalfSaved {
    gone: BTreeMap<VaultPath, u32>,
}

impl HalfSaved {
    /// The paths in `changes` that became nothing less than `moment` ago; `kept` are those that
    /// are only the old name of something.
    pub fn find(
        &mut self,
        changes: &BTreeMap<VaultPath, Touched>,
        kept: &[(VaultPath, VaultPath)],
        place: &Place,
        moment: Duration,
    ) -> BTreeSet<VaultPath> {
        let mut found = BTreeSet::new();
        // A look elsewhere says nothing of the others, so they keep their count.
        self.gone.retain(|path, _| is_gone(place, path));
        for (path, touched) in changes.iter().filter(|it| it.1.has_lost_all()) {
            let is_young = match &touched.seen {
                Some(seen) => seen.age().is_some_and(|it| it < moment),
                None => {
                    let times = self.gone.remove(path).unwrap_or(0);
                    let is_young = times < TIMES
                        && !kept.iter().any(|it| it.0 == *path)
                        && was_taken_lately(place, path, moment);
                    if is_young {
                        self.gone.insert(path.clone(), times + 1);
                    }
                    is_young
                }
            };
            if is_young {
                found.insert(path.clone());
            }
        }
        found
    }

    /// A look that puts nothing off has been made.
    pub fn forget(&mut self) {
        self.gone.clear();
    }
}

/// Whether nothing is there any more and its folder has changed lately. A folder that is gone too
/// was no save.
fn was_taken_lately(place: &Place, path: &VaultPath, moment: Duration) -> bool {
    let folder = path.parent().map_or_else(|| place.root.clone(), |it| place.disk(&it));
    is_gone(place, path)
        && fs::lstat(&folder)
            .is_ok_and(|it| it.is_dir() && Seen::new(&it).age().is_some_and(|age| age < moment))
}

fn is_gone(place: &Place, path: &VaultPath) -> bool {
    fs::lstat_if_there(&place.disk(path)).is_ok_and(|it| it.is_none())
}

//! Every path that a look is about.
//!
//! Takes a look and git's index, gives the paths: what was found, what hints name, what git has
//! where a list is complete. Committer thread only.
//!
//! **Invariant:** a file of the index that lies where a complete list would have it is looked at,
//! on the disk or not.

use std::collections::BTreeSet;

use gix::bstr::ByteSlice as _;

use crate::base::fs;
use crate::history::git_index::GitIndex;
use crate::history::{History, Look, spelling};
use crate::vault::VaultPath;

/// All of them, each once and in order; `beside` are those that were not found.
pub(super) fn candidates<'a>(
    look: &'a Look,
    beside: &'a BTreeSet<VaultPath>,
) -> Vec<&'a VaultPath> {
    // Two runs, each in order: sorted in one pass.
    let mut all: Vec<&VaultPath> = look.found.iter().chain(beside).collect();
    all.sort();
    all.dedup();
    let is_hidden =
        |path: &VaultPath| look.hidden_below.iter().any(|folder| path.is_within(folder.as_bytes()));
    all.retain(|path| !is_hidden(path));
    all
}

impl History {
    /// The paths that the look is about beside those that were found.
    pub(super) fn beside_found(&self, look: &Look, index: &GitIndex) -> BTreeSet<VaultPath> {
        let mut all = BTreeSet::new();
        let known = self.held.iter().chain(&self.let_through).chain(self.unsettled.paths());
        for path in look.paths.iter().chain(known) {
            all.insert(path.clone());
            // A folder in the place of a file.
            let mut above = path.parent();
            while let Some(folder) = above {
                if index.entry(self.place.rela(&folder).as_bstr()).is_some() {
                    all.insert(folder.clone());
                }
                above = folder.parent();
            }
            // A folder that went, or that a file took the place of.
            let mut below = self.place.rela(path);
            below.push(b'/');
            let tracked = index.below(below.as_bstr()).filter_map(|it| self.place.vault_path(it));
            let mut tracked = tracked.peekable();
            if tracked.peek().is_some() && !self.is_folder(path) {
                all.extend(tracked);
            }
        }
        for folder in &look.complete_below {
            let prefix = match folder {
                Some(folder) => {
                    let mut prefix = self.place.rela(folder);
                    prefix.push(b'/');
                    prefix
                }
                None => self.place.prefix_slash(),
            };
            // In the same order as what was found, so that each is asked once.
            let mut found = look.found.iter().peekable();
            let below_vault = self.place.prefix_slash().len();
            for rela in index.below(prefix.as_bstr()) {
                let path = &rela[below_vault..];
                while found.next_if(|it| it.as_bytes() < path).is_some() {}
                if found.peek().is_none_or(|it| it.as_bytes() != path) {
                    all.extend(self.place.vault_path(rela));
                }
            }
        }
        if spelling::is_blind(&self.place) {
            spelling::add_others(&mut all, &look.found, index, &self.place);
        }
        all
    }

    fn is_folder(&self, path: &VaultPath) -> bool {
        fs::lstat_if_there(&self.place.disk(path)).is_ok_and(|it| it.is_some_and(|it| it.is_dir()))
    }
}

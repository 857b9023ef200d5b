//! What is tracked and yet never committed by us.
//!
//! Takes paths and index entries, says which lie in the folders that remd makes itself and which a
//! person told git to look away from. Pure.
//!
//! **Invariant:** neither kind is committed, and neither is passed over in silence.

use std::collections::BTreeMap;

use gix::index::entry::{Flags, Mode};

use crate::history::index_image::Entry;
use crate::history::kept::Kept;
use crate::history::leaks::Known;
use crate::history::look::Version;
use crate::history::seen::Seen;
use crate::vault::VaultPath;

/// The folder of `excluded` that `path` is or lies in.
pub(super) fn derived_folder(excluded: &[String], path: &VaultPath) -> Option<VaultPath> {
    let folder = excluded.iter().find(|it| path.is_within(it.as_bytes()))?;
    VaultPath::new(folder).ok()
}

/// Why git does not look at the file of an entry. Outside a sparse checkout git never takes
/// `skip-worktree` away again.
pub(super) fn mark(entry: &Entry<'_>, is_sparse_checkout: bool) -> Option<Kept> {
    if entry.mode == Mode::COMMIT {
        None
    } else if entry.flags.contains(Flags::ASSUME_VALID) {
        Some(Kept::AssumeUnchanged)
    } else if entry.flags.contains(Flags::SKIP_WORKTREE) && !is_sparse_checkout {
        Some(Kept::SkipWorktree)
    } else {
        None
    }
}

/// What such files were found to hold: their entries keep an old stat, and every look asks.
#[derive(Debug, Default)]
pub(super) struct Contents {
    marked: BTreeMap<VaultPath, (Seen, Version)>,
    /// The same of what looks like it holds a credential.
    pub leaks: Known,
}

impl Contents {
    /// The content, if the file still is the one that was read.
    pub fn of(&self, path: &VaultPath, seen: &Seen) -> Option<Version> {
        self.marked.get(path).filter(|it| it.0.is_same(seen)).map(|it| it.1)
    }

    pub fn remember(&mut self, path: VaultPath, seen: Seen, version: Version) {
        self.marked.insert(path, (seen, version));
    }

    /// Other settings may turn the same file into another content.
    pub fn forget(&mut self) {
        self.marked.clear();
        self.leaks.forget();
    }
}

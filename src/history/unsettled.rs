//! What to look at although nothing on the disk hints at it.
//!
//! A person's Git moves HEAD and the index without touching a note: a commit, `git add`, a
//! `reset`. Takes both as they were at the last look and as they are now, gives the paths whose
//! state that changed; these and whatever the index keeps out of the branch are part of every look
//! until they are settled. Committer thread only.
//!
//! **Invariant:** a path whose entry or blob in HEAD was moved by somebody else is looked at before
//! the next snapshot says that all is committed.

use std::collections::BTreeSet;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use crate::history::error::{GitError, SnapshotError};
use crate::history::git_index::{GitIndex, kind_of};
use crate::history::look::Findings;
use crate::history::objects::TreeView;
use crate::history::reader;
use crate::history::refs::HeadState;
use crate::history::{History, Kept};
use crate::vault::VaultPath;

/// The paths that every look is about, and what they were found by.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    paths: BTreeSet<VaultPath>,
    /// The commit that HEAD was on at the last look; `None` before the first one.
    head: Option<Option<ObjectId>>,
    /// How often somebody else moved it.
    moves: u64,
}

impl Unsettled {
    pub fn paths(&self) -> &BTreeSet<VaultPath> {
        &self.paths
    }

    /// Changes whenever HEAD was moved by somebody else.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Our own commit: what it moved was just looked at.
    pub fn moved_by_us(&mut self, commit: ObjectId) {
        self.head = Some(Some(commit));
    }

    /// Nothing is known of where HEAD was: all that it has now is looked at.
    pub fn forget_head(&mut self) {
        self.head = Some(None);
    }

    /// A look is over: only what the index keeps out has to be looked at again.
    pub fn settle(&mut self, kept: impl Iterator<Item = VaultPath>) {
        self.paths = kept.collect();
    }
}

/// What the findings keep out for a reason that a move of the index or of HEAD can end.
pub(super) fn kept_by_index(findings: &Findings) -> impl Iterator<Item = &VaultPath> {
    findings.kept.iter().filter(|it| it.1.is_by_index()).map(|it| it.0)
}

impl History {
    /// The index as it is now; what others moved since the last look becomes unsettled.
    pub(super) fn take_index(&mut self, head: &HeadState) -> Result<GitIndex, SnapshotError> {
        let old = self.index.take();
        let index = match old {
            Some(index) if index.is_current(&self.place)? => index,
            old => match GitIndex::load(&self.repo, &self.place) {
                Ok(index) => {
                    match &old {
                        Some(old) => self.note_entries(&index, old),
                        None => self.note_staged(&index, head)?,
                    }
                    index
                }
                Err(err) => {
                    self.index = old;
                    return Err(err);
                }
            },
        };
        if let Err(err) = self.follow_head(head) {
            self.index = Some(index);
            return Err(err.into());
        }
        Ok(index)
    }

    fn note_entries(&mut self, index: &GitIndex, old: &GitIndex) {
        for rela in index.differences(old) {
            self.unsettled.paths.extend(self.place.vault_path(rela));
        }
    }

    /// Whatever the index has otherwise than HEAD: staged by a person, if only by taking it out.
    fn note_staged(&mut self, index: &GitIndex, head: &HeadState) -> Result<(), GitError> {
        let tree = self.tree_of(head)?;
        let mut same = 0;
        for (rela, version) in
            reader::versions_below(&self.repo, tree, self.place.prefix.as_bstr())?
        {
            let entry = index.entry(rela.as_bstr());
            match entry.and_then(|it| Some((it.id, kind_of(it.mode)?))) == Some(version) {
                true => same += 1,
                false => self.unsettled.paths.extend(self.place.vault_path(rela.as_bstr())),
            }
        }
        let prefix = self.place.prefix_slash();
        if index.below(prefix.as_bstr()).count() != same {
            let mut view = TreeView::new(&self.repo, tree);
            for rela in index.below(prefix.as_bstr()) {
                if view.file(rela)?.is_none() {
                    self.unsettled.paths.extend(self.place.vault_path(rela));
                }
            }
        }
        Ok(())
    }

    fn follow_head(&mut self, head: &HeadState) -> Result<(), GitError> {
        let was = self.unsettled.head;
        if was == Some(head.commit) {
            return Ok(());
        }
        if let Some(was) = was {
            let old = HeadState { branch: None, commit: was };
            let new = self.tree_of(head)?;
            let since = self.tree_of(&old).and_then(|it| reader::tree_changes(&self.repo, it, new));
            // A commit that was pruned, itself or only its trees, says nothing any more: then all
            // of HEAD is looked at.
            let changes = match since {
                Ok(changes) => changes,
                Err(_) => reader::tree_changes(&self.repo, None, new)?,
            };
            for (rela, ..) in changes {
                self.unsettled.paths.extend(self.place.vault_path(rela.as_bstr()));
            }
        }
        self.unsettled.head = Some(head.commit);
        self.unsettled.moves += 1;
        Ok(())
    }
}

impl Kept {
    /// Whether a move of the index or of HEAD alone may let it in again.
    pub fn is_by_index(&self) -> bool {
        use Kept::{AssumeUnchanged, Derived, NestedRepository, SkipWorktree, Staged};
        matches!(self, Staged | Self::Unmerged | NestedRepository | Self::Submodule)
            || matches!(self, Derived | SkipWorktree | AssumeUnchanged)
            || matches!(self, Self::Secret { .. } | Self::WaitsFor { .. })
    }
}

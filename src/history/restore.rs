//! What has to become of the vault so that a part of it is as it was.
//!
//! Takes a path and a commit, gives a plan. Reads objects, writes nothing. Any thread.

use gix::bstr::ByteSlice as _;

use crate::history::error::ReadError;
use crate::history::log::LogFilter;
use crate::history::objects::TreeView;
use crate::history::reader::{self, Reader};
use crate::history::undo::{Overlap, OverlapKind, Plan};
use crate::vault::change::{Entry, FileMode};
use crate::vault::{CommitId, VaultPath};

/// Versions of a note that are looked through for one that was there.
const VERSIONS: usize = 10_000;

impl Reader {
    /// From which commit `path` is to be brought back, and under which name it was there then, if it
    /// had another.
    ///
    /// Without `at`: what is gone at `head`, as it was last.
    pub fn restore_source(
        &self,
        head: CommitId,
        path: &VaultPath,
        at: Option<CommitId>,
    ) -> Result<(CommitId, Option<VaultPath>), ReadError> {
        if let Some(at) = at {
            if self.has(at, path)? {
                return Ok((at, None));
            }
            for version in self.versions_from(head, path, VERSIONS)? {
                if version.entry.is_some() && self.is_ancestor(version.commit, at)? {
                    // Its newest version of then says what it was called.
                    return match self.has(at, &version.path)? {
                        true => Ok((at, Some(version.path))),
                        false => Err(not_then(path, at)),
                    };
                }
            }
            return Err(not_then(path, at));
        }
        if self.has(head, path)? {
            return Err(ReadError::NotFound {
                what: "deleted note or folder (it is there; `--at` says which version is meant)",
                name: path.to_string(),
            });
        }
        let last = LogFilter { path: Some(path.clone()), limit: 1 };
        let gone = self.log_from(head, &last)?.into_iter().next();
        let parent = match gone {
            Some(gone) => self.parent(gone.commit)?,
            None => None,
        };
        match parent {
            Some(parent) if self.has(parent, path)? => Ok((parent, None)),
            _ => Err(ReadError::NotFound { what: "note or folder", name: path.to_string() }),
        }
    }

    /// How to bring `path` (a file, or all below a folder; the whole vault) back as it was in
    /// `commit`.
    ///
    /// Files that came later stay, unless `exactly` asks for the very state.
    pub fn plan_restore(
        &self,
        head: CommitId,
        commit: CommitId,
        path: Option<&VaultPath>,
        exactly: bool,
    ) -> Result<Plan, ReadError> {
        let mut plan = Plan::default();
        for (at, change) in self.diff(Some(head), commit)?.iter() {
            let is_wanted = path.is_none_or(|it| at.is_within(it.as_bytes()));
            if is_wanted && (change.new.is_some() || exactly) && is_ours(change.old, change.new) {
                plan.changes.push(at.clone(), change.old, change.new);
            }
        }
        self.keep_out_of_the_way(head, plan)
    }

    /// The same for a file that was called `from` then.
    pub fn plan_restore_as(
        &self,
        head: CommitId,
        commit: CommitId,
        from: &VaultPath,
        path: &VaultPath,
    ) -> Result<Plan, ReadError> {
        let (old, new) = (self.entry(head, path)?, self.entry(commit, from)?);
        let mut plan = Plan::default();
        if new.is_some() && is_ours(old, new) {
            plan.changes.push(path.clone(), old, new);
        }
        self.keep_out_of_the_way(head, plan)
    }

    /// Whether a commit has a file or a folder at `path`.
    fn has(&self, commit: CommitId, path: &VaultPath) -> Result<bool, ReadError> {
        let repo = self.repo.to_thread_local();
        let tree = reader::tree_of(&repo, commit)?;
        let found = TreeView::new(&repo, Some(tree)).get(self.place.rela(path).as_bstr())?;
        Ok(found.is_some())
    }

    /// A file in the place of a folder, or the other way round, is for a person to move.
    fn keep_out_of_the_way(&self, head: CommitId, mut plan: Plan) -> Result<Plan, ReadError> {
        let made: Vec<VaultPath> = plan
            .changes
            .iter()
            .filter(|it| it.1.old.is_none() && it.1.new.is_some())
            .map(|it| it.0.clone())
            .collect();
        let repo = self.repo.to_thread_local();
        let root = reader::tree_of(&repo, head)?;
        // Each folder is read once, whatever is restored into it.
        let mut view = TreeView::new(&repo, Some(root));
        for path in made {
            let goes = |it: &VaultPath| plan.changes.get(it).is_some_and(|it| it.new.is_none());
            let mut is_taken = false;
            for above in std::iter::successors(path.parent(), VaultPath::parent) {
                let there = view.file(self.place.rela(&above).as_bstr())?;
                is_taken |= there.is_some() && !goes(&above);
            }
            let rela = self.place.rela(&path);
            if view.get(rela.as_bstr())?.is_some_and(|it| it.0.is_tree()) {
                let below = reader::files_below(&repo, Some(root), rela.as_bstr())?;
                let below = below.iter().map(|it| self.place.vault_path(it.as_bstr()));
                is_taken |= below.into_iter().any(|it| it.is_none_or(|it| !goes(&it)));
            }
            if is_taken {
                plan.overlaps.push(Overlap { path, kind: OverlapKind::Taken });
            }
        }
        Ok(plan)
    }
}

fn not_then(path: &VaultPath, at: CommitId) -> ReadError {
    ReadError::NotFound { what: "note or folder then", name: format!("{path} ({})", at.short()) }
}

/// A submodule is never put anywhere by us.
fn is_ours(old: Option<Entry>, new: Option<Entry>) -> bool {
    [old, new].iter().flatten().all(|it| it.mode != FileMode::Gitlink)
}

//! Keeps what must wait on a reference of its own.
//!
//! Takes versions of files that cannot be committed now, gives a commit at
//! `refs/remd/wip/<host>`. Its parents are HEAD and the `wip` before it. Committer thread only.
//!
//! **Invariant:** a `wip` goes only when HEAD's tree holds its content.

use std::collections::BTreeMap;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};

use crate::history::error::{GitError, SnapshotError, git};
use crate::history::look::Version;
use crate::history::message::{CauseKind, Deed, Verb, compose};
use crate::history::objects::{TreeView, edit_tree};
use crate::history::refs::{self, HeadState, Move, delete_ref, move_ref};
use crate::history::signed::Signed;
use crate::history::{History, commit_id};
use crate::vault::{CommitId, VaultPath};

/// The reference of one machine.
fn name(host: &str) -> BString {
    let safe = host.bytes().map(|it| match it {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => it,
        _ => b'-',
    });
    let mut name = BString::from("refs/remd/wip/");
    name.extend(safe);
    name
}

/// The `wip` commit, if there is one.
pub(super) fn tip(repo: &gix::Repository, host: &str) -> Result<Option<ObjectId>, GitError> {
    let found = git("read a reference", repo.try_find_reference(name(host).as_bstr()))?;
    Ok(found.and_then(|it| it.target().try_id().map(ToOwned::to_owned)))
}

impl History {
    /// Keeps `versions`, unless HEAD or the last `wip` has them.
    pub(super) fn keep_wip(
        &mut self,
        head: &HeadState,
        versions: &BTreeMap<VaultPath, Version>,
        mut written: Vec<ObjectId>,
    ) -> Result<Option<CommitId>, SnapshotError> {
        if versions.is_empty() {
            return Ok(None);
        }
        let head_tree = self.tree_of(head)?;
        let base = head_tree.unwrap_or_else(|| ObjectId::empty_tree(self.repo.object_hash()));
        let edits: Vec<_> = versions
            .iter()
            .map(|(path, (id, kind))| (self.place.rela(path), Some((*id, *kind))))
            .collect();
        let tree = edit_tree(&self.repo, base, &edits, &mut written)?;
        if Some(tree) == head_tree {
            return Ok(None);
        }
        let last = tip(&self.repo, &self.options.host)?;
        if let Some(last) = last
            && git("read a commit", self.repo.find_commit(last))?.tree_id().ok().as_deref()
                == Some(&*tree)
        {
            self.has_wip = true;
            return Ok(commit_id(&last));
        }
        let deeds: Vec<_> =
            versions.keys().map(|path| Deed { verb: Verb::Update, path: path.clone() }).collect();
        let message = compose(&deeds, CauseKind::Edit, &[("Remd-Wip".into(), "waiting".into())]);
        let signed = Signed::new(&self.repo, &self.options, None);
        let parents: Vec<_> = head.commit.into_iter().chain(last).collect();
        let commit = signed.commit(&self.repo, tree, parents, message)?;
        written.push(commit);
        let draft = refs::draft(&self.place, commit)?;
        self.objects.sync(&written, &[draft.path()])?;
        let name = name(&self.options.host);
        let step = Move {
            name: name.as_bstr(),
            expected: last,
            new: commit,
            signature: &signed.for_log(),
            reason: "wip",
        };
        move_ref(&self.repo, &self.place, &step, draft)?;
        self.has_wip = true;
        Ok(commit_id(&commit))
    }

    /// Removes the `wip` whose content HEAD holds now.
    pub(super) fn drop_wip(&mut self, head: &HeadState) -> Result<(), SnapshotError> {
        if !self.has_wip {
            return Ok(());
        }
        let Some(last) = tip(&self.repo, &self.options.host)? else {
            self.has_wip = false;
            return Ok(());
        };
        let commit = git("read a commit", self.repo.find_commit(last))?;
        let tree = git("read a commit", commit.tree_id())?.detach();
        // Its first parent is the HEAD of then, or the `wip` before it on an unborn branch: either
        // way the difference is what had to wait.
        let base = match commit.parent_ids().next() {
            Some(parent) => {
                let parent = git("read a commit", self.repo.find_commit(parent))?;
                Some(git("read a commit", parent.tree_id())?.detach())
            }
            None => None,
        };
        let mut now = TreeView::new(&self.repo, self.tree_of(head)?);
        let changes = crate::history::reader::tree_changes(&self.repo, base, Some(tree))?;
        for (rela, _, new) in changes {
            if new.is_some() && now.file(rela.as_bstr())? != new.map(|(id, kind)| (kind, id)) {
                return Ok(());
            }
        }
        delete_ref(&self.repo, name(&self.options.host).as_bstr(), last)?;
        self.has_wip = false;
        Ok(())
    }

    pub(super) fn tree_of(&self, head: &HeadState) -> Result<Option<ObjectId>, GitError> {
        let Some(commit) = head.commit else { return Ok(None) };
        let commit = git("read a commit", self.repo.find_commit(commit))?;
        Ok(Some(git("read a commit", commit.tree_id())?.detach()))
    }
}

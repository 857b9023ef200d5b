//! Keeps what must wait on a reference of its own.
//!
//! Takes versions of files that cannot be committed now, gives a commit at
//! `refs/remd/wip/<host>`. Its parents are HEAD and the `wip` before it; it differs from HEAD in
//! what waits and in nothing else. Committer thread only.
//!
//! **Invariant:** a version leaves `wip` when HEAD has it, or when HEAD has a newer one of its
//! path; a reference that goes while a version of its chain is in no commit leaves the chain to
//! `refs/remd/backup/wip/<host>`.
//! **Invariant:** the same content is kept once: no second `wip` for it, wherever HEAD went.

use std::collections::{BTreeMap, BTreeSet};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};

use crate::history::error::{GitError, SnapshotError, git};
use crate::history::look::Version;
use crate::history::message::{CauseKind, Deed, Verb, compose, parse};
use crate::history::objects::{TreeView, edit_tree};
use crate::history::refs::{self, HeadState, Move, delete_ref, move_ref};
use crate::history::signed::Signed;
use crate::history::{History, commit_id, reader};
use crate::vault::{CommitId, VaultPath};

/// The trailer that tells a `wip` from any other commit.
const TRAILER: &str = "Remd-Wip";
/// How many commits are searched for a version that HEAD's tree has not.
const SEARCHED: usize = 2_000;

/// What one `wip` keeps, by the path in git.
type Versions = BTreeMap<BString, Version>;

/// One `wip` commit, read.
struct Wip {
    /// HEAD's tree of then.
    base: Option<ObjectId>,
    tree: ObjectId,
    /// What it keeps.
    versions: Versions,
    /// The `wip` before it.
    before: Option<ObjectId>,
}

/// The part of a reference's name that stands for one machine.
fn name(folder: &str, host: &str) -> BString {
    let safe = host.bytes().map(|it| match it {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => it,
        _ => b'-',
    });
    let mut name = BString::from(folder);
    name.extend(safe);
    name
}

fn wip_name(host: &str) -> BString {
    name("refs/remd/wip/", host)
}

fn backup_name(host: &str) -> BString {
    name("refs/remd/backup/wip/", host)
}

/// The `wip` commit, if there is one.
pub(super) fn tip(repo: &gix::Repository, host: &str) -> Result<Option<ObjectId>, GitError> {
    tip_of(repo, &wip_name(host))
}

fn tip_of(repo: &gix::Repository, name: &BString) -> Result<Option<ObjectId>, GitError> {
    let found = git("read a reference", repo.try_find_reference(name.as_bstr()))?;
    Ok(found.and_then(|it| it.target().try_id().map(ToOwned::to_owned)))
}

/// Whether a commit is a `wip`.
fn is_wip(commit: &gix::Commit<'_>) -> Result<bool, GitError> {
    let text = git("read a commit", commit.message_raw())?;
    Ok(parse(text).trailer(TRAILER).is_some())
}

fn read_wip(repo: &gix::Repository, id: ObjectId) -> Result<Wip, GitError> {
    let commit = git("read a commit", repo.find_commit(id))?;
    let tree = git("read a commit", commit.tree_id())?.detach();
    let (mut base, mut before) = (None, None);
    for parent in commit.parent_ids() {
        let parent = git("read a commit", repo.find_commit(parent))?;
        if is_wip(&parent)? {
            before = Some(parent.id);
        } else if base.is_none() {
            base = Some(git("read a commit", parent.tree_id())?.detach());
        }
    }
    let changes = reader::tree_changes(repo, base, Some(tree))?;
    let versions = changes.into_iter().filter_map(|(rela, _, new)| Some((rela, new?))).collect();
    Ok(Wip { base, tree, versions, before })
}

impl History {
    /// The reference that keeps what must wait.
    pub fn wip_name(&self) -> String {
        wip_name(&self.options.host).to_string()
    }

    /// Keeps `versions` and what the last `wip` still keeps; with nothing to keep it goes.
    ///
    /// Gives the `wip`, where there is one now.
    pub(super) fn keep_wip(
        &mut self,
        head: &HeadState,
        versions: &BTreeMap<VaultPath, Version>,
        written: Vec<ObjectId>,
    ) -> Result<Option<CommitId>, SnapshotError> {
        self.stranded.clear();
        if versions.is_empty() && !self.has_wip {
            return Ok(None);
        }
        let last = tip(&self.repo, &self.options.host)?;
        let kept = match last {
            Some(last) => Some(read_wip(&self.repo, last)?),
            None => None,
        };
        let mut now = TreeView::new(&self.repo, self.tree_of(head)?);
        let mut wanted = Versions::new();
        for (path, version) in versions {
            let rela = self.place.rela(path);
            if now.file(rela.as_bstr())? != Some((version.1, version.0)) {
                wanted.insert(rela, *version);
            }
        }
        let mut older = Versions::new();
        if let Some(kept) = &kept {
            let mut then = TreeView::new(&self.repo, kept.base);
            for (rela, version) in &kept.versions {
                let in_head = now.file(rela.as_bstr())?;
                let is_held = in_head == Some((version.1, version.0));
                let is_newer = in_head != then.file(rela.as_bstr())?;
                if !is_held && !is_newer && !is_in_the_way(&wanted, rela) {
                    older.insert(rela.clone(), *version);
                }
            }
            if let (false, Some(last)) = (older.is_empty(), last) {
                self.search_for(&mut older, last)?;
            }
        }
        self.stranded = older.keys().filter_map(|it| self.place.vault_path(it.as_bstr())).collect();
        wanted.extend(older);

        let Some(last) = last else {
            self.has_wip = false;
            return match wanted.is_empty() {
                true => Ok(None),
                false => self.write_wip(head, &wanted, None, written).map(Some),
            };
        };
        self.has_wip = true;
        if wanted.is_empty() {
            self.retire(head, last)?;
            return Ok(None);
        }
        if kept.is_some_and(|it| it.versions == wanted) {
            return Ok(commit_id(&last));
        }
        self.write_wip(head, &wanted, Some(last), written).map(Some)
    }

    /// Takes out what some commit of a branch, a tag or a stash has: it is not lost.
    ///
    /// Once for each `wip`, and again only when somebody else moved HEAD.
    fn search_for(&mut self, versions: &mut Versions, last: ObjectId) -> Result<(), GitError> {
        let moved = self.unsettled.moves();
        if self.searched == Some((last, moved)) {
            return Ok(());
        }
        let before = versions.len();
        leave_unknown(&self.repo, versions)?;
        // What was found is about to leave the `wip`, which is another one then.
        self.searched = (versions.len() == before).then_some((last, moved));
        Ok(())
    }

    fn write_wip(
        &mut self,
        head: &HeadState,
        wanted: &Versions,
        last: Option<ObjectId>,
        mut written: Vec<ObjectId>,
    ) -> Result<CommitId, SnapshotError> {
        let base = self.tree_of(head)?.unwrap_or_else(|| self.repo.empty_tree().id);
        let edits: Vec<_> = wanted.iter().map(|(rela, it)| (rela.clone(), Some(*it))).collect();
        let tree = edit_tree(&self.repo, base, &edits, &mut written)?;
        let deeds: Vec<_> = wanted
            .keys()
            .filter_map(|it| self.place.vault_path(it.as_bstr()))
            .map(|path| Deed { verb: Verb::Update, path })
            .collect();
        let message = compose(&deeds, CauseKind::Edit, &[(TRAILER.into(), "waiting".into())], &[]);
        let parents: Vec<_> = head.commit.into_iter().chain(last).collect();
        let wip = self.write_kept(tree, parents, message, written, &wip_name, last)?;
        self.has_wip = true;
        Ok(wip)
    }

    /// Writes a commit and moves one of our own references to it.
    fn write_kept(
        &mut self,
        tree: ObjectId,
        parents: Vec<ObjectId>,
        message: String,
        mut written: Vec<ObjectId>,
        name: &dyn Fn(&str) -> BString,
        expected: Option<ObjectId>,
    ) -> Result<CommitId, SnapshotError> {
        let signed = Signed::new(&self.repo, &self.options, None);
        let commit = signed.commit(&self.repo, tree, parents, message)?;
        written.push(commit);
        let draft = refs::draft(&self.place, commit)?;
        self.objects.sync(&written, &[draft.path()])?;
        let name = name(&self.options.host);
        let step = Move {
            name: name.as_bstr(),
            expected,
            new: commit,
            signature: &signed.for_log(),
            reason: "wip",
        };
        move_ref(&self.repo, &self.place, &step, draft)?;
        commit_id(&commit).ok_or(SnapshotError::Moved)
    }

    /// Removes the `wip`; a chain with something in it that no commit has is named elsewhere first.
    fn retire(&mut self, head: &HeadState, last: ObjectId) -> Result<(), SnapshotError> {
        let mut now = TreeView::new(&self.repo, self.tree_of(head)?);
        let mut unknown = BTreeSet::new();
        let mut at = Some(last);
        while let Some(id) = at {
            let wip = read_wip(&self.repo, id)?;
            for (rela, version) in wip.versions {
                if now.file(rela.as_bstr())? != Some((version.1, version.0)) {
                    unknown.insert((rela, version));
                }
            }
            at = wip.before;
        }
        leave_unknown_of(&self.repo, &mut unknown)?;
        if !unknown.is_empty() {
            let host = self.options.host.clone();
            let before = tip_of(&self.repo, &backup_name(&host))?;
            let deeds: Vec<_> = unknown
                .iter()
                .filter_map(|it| self.place.vault_path(it.0.as_bstr()))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .map(|path| Deed { verb: Verb::Update, path })
                .collect();
            let message = compose(
                &deeds,
                CauseKind::Edit,
                &[("Remd-Backup".into(), "overtaken".into())],
                &[],
            );
            let tree = read_wip(&self.repo, last)?.tree;
            let parents: Vec<_> = [last].into_iter().chain(before).collect();
            self.write_kept(tree, parents, message, Vec::new(), &backup_name, before)?;
        }
        match delete_ref(&self.repo, wip_name(&self.options.host).as_bstr(), last) {
            Ok(()) => self.has_wip = false,
            // All of it is in commits: somebody's lock on `packed-refs` makes it stay for now.
            Err(err) => tracing::warn!(%err, "the snapshot of what waited stays for now"),
        }
        Ok(())
    }

    pub(super) fn tree_of(&self, head: &HeadState) -> Result<Option<ObjectId>, GitError> {
        let Some(commit) = head.commit else { return Ok(None) };
        let commit = git("read a commit", self.repo.find_commit(commit))?;
        Ok(Some(git("read a commit", commit.tree_id())?.detach()))
    }
}

/// Whether `wanted` has another version of `rela`, or a file where that has a folder.
fn is_in_the_way(wanted: &Versions, rela: &BString) -> bool {
    let above = rela.find_iter(b"/").any(|slash| wanted.contains_key(rela[..slash].as_bstr()));
    let below = [rela.as_slice(), b"/"].concat();
    let first = wanted.range(BString::from(below.as_slice())..).next();
    above || wanted.contains_key(rela) || first.is_some_and(|it| it.0.starts_with(&below))
}

fn leave_unknown(repo: &gix::Repository, versions: &mut Versions) -> Result<(), GitError> {
    let mut unknown = std::mem::take(versions).into_iter().collect();
    leave_unknown_of(repo, &mut unknown)?;
    versions.extend(unknown);
    Ok(())
}

/// Takes out what one of the newest commits of any reference but our own has at its path.
fn leave_unknown_of(
    repo: &gix::Repository,
    unknown: &mut BTreeSet<(BString, Version)>,
) -> Result<(), GitError> {
    if unknown.is_empty() {
        return Ok(());
    }
    let mut tips: Vec<ObjectId> = repo.head_id().map(gix::Id::detach).into_iter().collect();
    let all = git("read the references", repo.references())?;
    for reference in git("read the references", all.all())?.filter_map(Result::ok) {
        if !reference.name().as_bstr().starts_with(b"refs/remd/") {
            tips.extend(reference.into_fully_peeled_id().ok().map(gix::Id::detach));
        }
    }
    // A tag may name a blob or a tree.
    tips.retain(|it| repo.find_header(*it).is_ok_and(|it| it.kind() == gix::object::Kind::Commit));
    let order = gix::revision::walk::Sorting::ByCommitTime(Default::default());
    let walk = git("walk the commits", repo.rev_walk(tips).sorting(order).all())?;
    for step in walk.take(SEARCHED) {
        // A shallow or broken history ends the search; what was not found stays kept.
        let Ok(step) = step else { return Ok(()) };
        let commit = git("read a commit", repo.find_commit(step.id))?;
        let tree = git("read a commit", commit.tree_id())?.detach();
        let mut view = TreeView::new(repo, Some(tree));
        let mut left = BTreeSet::new();
        for (rela, version) in std::mem::take(unknown) {
            if view.file(rela.as_bstr())? != Some((version.1, version.0)) {
                left.insert((rela, version));
            }
        }
        *unknown = left;
        if unknown.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}

//! Makes the commit object of a batch, with the user's hooks and signature.
//!
//! Takes what is to be committed, gives a durable commit that nothing refers to yet. Holds no
//! lock: a hook or a signing program may take its time. Committer thread only.
//!
//! **Invariant:** what hooks refuse, or what cannot be signed, is not committed another way.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};

use crate::base::{clock, fs};
use crate::history::error::{GitError, SnapshotError, git};
use crate::history::gate::Refusal;
use crate::history::git_index::{GitIndex, NewIndex, kind_of};
use crate::history::hooks::Hooks;
use crate::history::index_image::Entry;
use crate::history::lock::Draft;
use crate::history::look::{Looker, Version};
use crate::history::message::compose;
use crate::history::objects::{self, TreeEdit, TreeView, edit_tree};
use crate::history::refs::{self, HeadState};
use crate::history::rename::renames;
use crate::history::seen::{Seen, is_unchanged};
use crate::history::sign::{self, Signer, Terms};
use crate::history::signed::Signed;
use crate::history::snapshot::{Batch, deeds};
use crate::history::{Cause, History, Kept, Snapshot};
use crate::vault::VaultPath;

/// A file that hooks change each time they run waits so long for the next commit, and longer
/// each time.
const FIRST_CALM: Duration = Duration::from_secs(10);
const LONGEST_CALM: Duration = Duration::from_secs(600);

/// So often a person may have typed in every run of a hook, and never between two.
const BY_CHANCE: u32 = 2;

/// Who else has a say in a commit.
pub(super) struct Guests {
    pub hooks: Hooks,
    pub is_signed: bool,
}

impl Guests {
    /// Whether making a commit starts a program.
    pub fn are_there(&self) -> bool {
        self.is_signed || self.hooks.have_a_say()
    }
}

/// A commit object, and the reference that will name it.
pub(super) struct Made {
    pub commit: ObjectId,
    pub draft: Draft,
    pub subject: String,
}

/// A file that changed while a hook ran, and was not staged by it: it, or a person.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restless {
    until: Instant,
    pause: Duration,
    /// In how many runs on end it changed, and between them it did not.
    runs: u32,
    /// As the hook left it: whoever changes it from here on is not the hook.
    left: Option<Seen>,
}

impl Restless {
    /// Somebody asks: it may come in once before its pause is over.
    pub(super) fn hurry(&mut self) {
        self.until = clock::now();
    }

    /// Whether nobody but hooks has changed it since.
    fn is_as_left(&self, seen: Option<&Seen>) -> bool {
        match (&self.left, seen) {
            (Some(left), Some(seen)) => left.is_same(seen),
            (None, None) => true,
            _ => false,
        }
    }
}

impl History {
    /// Who else has a say: their files are looked for, nothing is read or started.
    pub(super) fn guests(&self, signed: &Signed) -> Guests {
        let (repo, limit) = (&self.repo, self.options.limits.child);
        let hooks = Hooks::find(repo, &self.place, signed.author(), limit, &self.options.stop);
        Guests { hooks, is_signed: sign::is_wanted(repo) }
    }

    /// Makes the commit; `None` when the hooks left nothing to commit.
    pub(super) fn make(
        &mut self,
        batch: &mut Batch,
        head: &HeadState,
        cause: &Cause,
        signed: &Signed,
        guests: &Guests,
    ) -> Result<Option<Made>, SnapshotError> {
        let tree = self.write_tree(batch, head)?;
        if guests.are_there() {
            self.gate.check(tree, clock::now()).map_err(held)?;
        }
        match self.make_with(batch, head, cause, signed, guests, tree) {
            Err(MakeError::Refused(refusal)) => {
                tracing::debug!(what = refusal.what, "a commit is refused");
                self.gate.close(refusal.clone(), tree, clock::now());
                Err(held(refusal))
            }
            Err(MakeError::Other(err)) => Err(err),
            Ok(made) => {
                self.gate.open();
                Ok(made)
            }
        }
    }

    fn make_with(
        &mut self,
        batch: &mut Batch,
        head: &HeadState,
        cause: &Cause,
        signed: &Signed,
        guests: &Guests,
        mut tree: ObjectId,
    ) -> Result<Option<Made>, MakeError> {
        let hooks = &guests.hooks;
        let mut message = compose(&deeds(batch), cause.kind, &cause.trailers, &cause.note);
        if hooks.have_a_say() {
            let folder = hooks.folder().map_err(SnapshotError::from)?;
            let index = folder.join("index");
            let mut ours = self.private_index(tree, batch)?;
            ours.write_at(&self.repo, &index)?;
            let answer = hooks.ask_pre_commit(&index);
            if hooks.pre_commit.is_some() && answer.is_ok() {
                let theirs = GitIndex::load_at(&self.repo, &index)?;
                if self.follow_hook(batch, head, &ours, &theirs)? {
                    if batch.changes.is_empty() {
                        return Ok(None);
                    }
                    tree = self.write_tree(batch, head)?;
                    message = compose(&deeds(batch), cause.kind, &cause.trailers, &cause.note);
                }
            }
            let asked =
                answer.and_then(|()| hooks.ask_about_message(&folder, Some(&index), message));
            if let Err(err) = fs::remove_derived(&folder) {
                tracing::warn!(%err, "what a hook worked on stays behind");
            }
            message = asked.map_err(MakeError::Refused)?;
        }
        let subject = message.lines().next().unwrap_or_default().to_owned();
        let parents = head.commit.into_iter().collect();
        let mut object = signed.object(tree, parents, message);
        if guests.is_signed {
            let limit = self.options.limits.child;
            let terms = Terms { place: &self.place, limit, stop: &self.options.stop };
            let user = signed.user(&self.repo);
            let mut bytes = Vec::new();
            let written = gix::objs::WriteTo::write_to(&object, &mut bytes);
            git("write a commit", written)?;
            let signature = Signer::new(&self.repo, &user, &terms)
                .and_then(|signer| signer.sign(&bytes, &terms))
                .map_err(MakeError::Refused)?;
            object.extra_headers.push(("gpgsig".into(), signature));
        }
        let commit = objects::write_object(&self.repo, &object)?;
        batch.written.push(commit);
        let draft = refs::draft(&self.place, commit).map_err(SnapshotError::from)?;
        self.objects.sync(&batch.written, &[draft.path()]).map_err(SnapshotError::from)?;
        Ok(Some(Made { commit, draft, subject }))
    }

    fn write_tree(&self, batch: &mut Batch, head: &HeadState) -> Result<ObjectId, GitError> {
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        let base = self.tree_of(head)?.unwrap_or(empty);
        let edits: Vec<TreeEdit> =
            batch.changes.iter().map(|(path, it)| (self.place.rela(path), it.new)).collect();
        edit_tree(&self.repo, base, &edits, &mut batch.written)
    }

    /// An index that holds exactly what is about to be committed, with what is known of the files.
    fn private_index(&self, tree: ObjectId, batch: &Batch) -> Result<GitIndex, SnapshotError> {
        let mut draft = NewIndex::from_tree(&self.repo, &tree, |_| true)?;
        draft.take_stats(self.index.as_ref(), |rela| {
            let path = self.place.vault_path(rela)?;
            Some(batch.changes.get(&path)?.seen.as_ref()?.stat())
        });
        draft.finish()
    }

    /// Takes what `pre-commit` changed and staged, as git would; what it changed and did not stage
    /// is another edit. Says whether the batch is another one now.
    fn follow_hook(
        &mut self,
        batch: &mut Batch,
        head: &HeadState,
        ours: &GitIndex,
        theirs: &GitIndex,
    ) -> Result<bool, SnapshotError> {
        let before = versions_of(ours);
        let after = versions_of(theirs);
        let staged: BTreeMap<VaultPath, Option<Version>> = before
            .keys()
            .chain(after.keys())
            .filter(|it| before.get(*it) != after.get(*it))
            .filter_map(|it| Some((self.place.vault_path(it.as_bstr())?, after.get(it).copied())))
            .collect();
        let moved: Vec<VaultPath> = batch
            .changes
            .iter()
            .filter(|(path, it)| !is_unchanged(&self.place, path, it.seen.as_ref()))
            .map(|it| it.0.clone())
            .collect();
        let now = clock::now();
        for path in batch.changes.keys() {
            if !moved.contains(path) {
                self.restless.remove(path);
            }
        }
        let mut is_other = false;
        if !staged.is_empty() {
            let Some(index) = self.index.take() else { return Err(SnapshotError::Moved) };
            let tree = TreeView::new(&self.repo, self.tree_of(head)?);
            let (options, drivers, marked) = (&self.options, &mut self.drivers, &mut self.marked);
            let looker =
                Looker::new(&self.repo, &self.place, &index, tree, options, drivers, marked);
            let findings = looker.and_then(|mut looker| {
                staged.keys().try_for_each(|path| looker.look(path))?;
                looker.finish()
            });
            self.index = Some(index);
            let findings = findings?;
            batch.written.extend(findings.written);
            let mut head_tree = TreeView::new(&self.repo, self.tree_of(head)?);
            for (path, wanted) in staged {
                let in_head = head_tree.file(self.place.rela(&path).as_bstr())?;
                let in_head = in_head.map(|(kind, id)| (id, kind));
                match findings.changes.get(&path) {
                    // Only what the disk has too: anything else would be undone by the next look.
                    Some(touched)
                        if touched.new == wanted && !findings.leaks.contains_key(&path) =>
                    {
                        batch.changes.insert(path, touched.clone());
                        is_other = true;
                    }
                    None if wanted == in_head => is_other |= batch.changes.remove(&path).is_some(),
                    _ => tracing::debug!(%path, "staged by a hook, and not on the disk"),
                }
            }
            batch.renames = renames(&batch.changes);
        }
        for path in moved {
            let Some(touched) = batch.changes.get(&path) else { continue };
            if is_unchanged(&self.place, &path, touched.seen.as_ref()) {
                continue;
            }
            // As it was looked at, it is what the person wrote; what the hook made of it follows.
            batch.before_hook.insert(path.clone());
            // An edit between two runs is a person's, and so may those during the runs have been.
            let known = self.restless.get(&path).filter(|it| it.is_as_left(touched.seen.as_ref()));
            let runs = known.map_or(1, |it| it.runs.saturating_add(1));
            let pause = match known {
                Some(it) if runs > BY_CHANCE => (it.pause * 2).clamp(FIRST_CALM, LONGEST_CALM),
                _ => Duration::ZERO,
            };
            let left = fs::lstat(&self.place.disk(&path)).ok().map(|it| Seen::new(&it));
            self.restless.insert(path, Restless { until: now + pause, pause, runs, left });
        }
        Ok(is_other)
    }

    /// Leaves out what hooks change each time they run, until its pause is over.
    pub(super) fn calm(
        &mut self,
        batch: &mut Batch,
        snapshot: &mut Snapshot,
    ) -> BTreeMap<VaultPath, Version> {
        let now = clock::now();
        let mut aside = BTreeMap::new();
        for (path, restless) in &self.restless {
            if restless.until > now
                && batch.changes.get(path).is_some_and(|it| restless.is_as_left(it.seen.as_ref()))
                && let Some(touched) = batch.changes.remove(path)
            {
                aside.extend(touched.new.map(|it| (path.clone(), it)));
                snapshot.later.insert(path.clone(), restless.until - now);
                snapshot.kept_out.push((path.clone(), Kept::Hook));
            }
        }
        if !aside.is_empty() {
            batch.renames = renames(&batch.changes);
        }
        aside
    }
}

/// What stopped a commit from being made.
enum MakeError {
    Refused(Refusal),
    Other(SnapshotError),
}

impl<E: Into<SnapshotError>> From<E> for MakeError {
    fn from(err: E) -> Self {
        Self::Other(err.into())
    }
}

fn held(refusal: Refusal) -> SnapshotError {
    SnapshotError::Held { what: refusal.what, remedy: refusal.remedy, wip: None }
}

fn versions_of(index: &GitIndex) -> BTreeMap<BString, Version> {
    let version = |it: Entry<'_>| Some((it.path.to_owned(), (it.id, kind_of(it.mode)?)));
    index.entries().filter_map(version).collect()
}

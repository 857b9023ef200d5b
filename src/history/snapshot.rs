//! Turns a dirty vault into one commit.
//!
//! Takes paths that *may* have changed, gives back the new [`Head`], or none when the disk already
//! matches the last commit. Hints are never trusted: each path is looked at again here.
//!
//! Blocking. Runs on the committer thread only.
//!
//! **Invariant:** objects, then `index.lock`, then the ref, then the index. A crash in between
//! leaves an ordinary uncommitted edit, or a commit whose index entries are put right at open.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};
use gix::objs::tree::EntryKind;

use crate::base::{clock, fault, fs};
use crate::history::busy::Operation;
use crate::history::candidates::candidates;
use crate::history::error::SnapshotError;
use crate::history::git_index::{GitIndex, LOCK_WAIT, Patch};
use crate::history::held::deletions_to_hold;
use crate::history::held_list;
use crate::history::kept::Kept;
use crate::history::lock::{LockError, OwnLock, wait_until_free};
use crate::history::look::{Findings, Looker, Touched, Version};
use crate::history::made::Made;
use crate::history::message::{Deed, Verb};
use crate::history::objects::TreeView;
use crate::history::open::clear_locks;
use crate::history::place::lock_of;
use crate::history::refs::{HeadState, Move, move_branch, read_head};
use crate::history::rename::renames;
use crate::history::seen::{Seen, is_unchanged};
use crate::history::signed::Signed;
use crate::history::unsettled::kept_by_index;
use crate::history::{Cause, Head, History, Look, Snapshot, commit_id, reader, repair};
use crate::vault::change::{Entry, FileMode};
use crate::vault::{BlobId, VaultPath};

/// Times that HEAD or the index may move under us before the caller hears of it.
const ROUNDS: usize = 5;
/// Before git's data is read once more.
const PAUSE: Duration = Duration::from_millis(20);

/// Paths between two looks at whether to stop.
const STEP: usize = 64;
/// A look that writes more contents than this says how far it is.
const MUCH: usize = 500;

/// What one round wants to commit.
pub(super) struct Batch {
    /// When the caller asked.
    started: Instant,
    pub changes: BTreeMap<VaultPath, Touched>,
    pub renames: Vec<(VaultPath, VaultPath)>,
    refresh: BTreeMap<VaultPath, (Version, Seen)>,
    /// Objects that are not known to be durable yet.
    pub written: Vec<ObjectId>,
    /// Committed as they were looked at, before a hook changed them.
    pub before_hook: BTreeSet<VaultPath>,
}

impl History {
    /// Looks, and commits what changed.
    pub fn snapshot(&mut self, look: &Look, cause: &Cause) -> Result<Snapshot, SnapshotError> {
        let started = clock::now();
        self.found = None;
        self.check_vault()?;
        self.follow_settings()?;
        self.follow_private()?;
        for round in 1..=ROUNDS {
            match self.snapshot_once(look, cause, started, round) {
                Err(SnapshotError::Moved) => {}
                // A `git repack` swaps packs under us, a `git gc` sweeps empty folders: what is
                // really broken still is after a moment. It may be what we remember that is.
                Err(SnapshotError::Git(err)) if round < ROUNDS => {
                    tracing::debug!(%err, round, "tried again");
                    std::thread::sleep(PAUSE);
                    if round == ROUNDS - 1 {
                        self.forget(&err)?;
                    }
                }
                result => {
                    if result.is_ok() {
                        self.forgot_for = None;
                    }
                    return result.map_err(|err| self.with_owner(err));
                }
            }
        }
        Err(SnapshotError::Moved)
    }

    fn snapshot_once(
        &mut self,
        look: &Look,
        cause: &Cause,
        started: Instant,
        round: usize,
    ) -> Result<Snapshot, SnapshotError> {
        let head = read_head(&self.repo)?;
        let operation = self.operation(&head);
        if operation.is_some_and(|it| it != Operation::Commit) {
            // A step of a rebase or bisect: half of the files are those of another commit.
            wait_until_free(&lock_of(&self.place.index()), LOCK_WAIT);
        }
        let locked = self.mend_index(&head, operation)?;
        let index = self.take_index(&head)?;
        let findings = self.look_at(look, &index, &head);
        self.index = Some(index);
        let findings = findings?;

        if operation.is_some() && round < ROUNDS {
            self.check_still(&head)?;
        }
        if operation.is_some() || locked.is_some() {
            let versions = waiting(&findings);
            let found = all_found(&findings);
            let wip = self.keep_wip(&head, &versions, findings.written)?;
            self.found = Some(found);
            return Err(match (operation, locked) {
                (Some(operation), _) => SnapshotError::Busy { operation, wip },
                (None, Some(lock)) => SnapshotError::Locked { lock, wip },
                (None, None) => SnapshotError::Moved,
            });
        }
        let unsettled: Vec<_> = kept_by_index(&findings).cloned().collect();
        let found = all_found(&findings);

        let mut snapshot = Snapshot {
            kept_out: findings.kept.into_iter().collect(),
            again: findings.again,
            later: findings.later,
            ..Snapshot::default()
        };
        let mut batch = Batch {
            started,
            renames: renames(&findings.changes),
            changes: findings.changes,
            refresh: findings.refresh,
            written: findings.written,
            before_hook: BTreeSet::new(),
        };
        if let Some(moment) = look.settling {
            let half = self.half_saved.find(&batch.changes, &batch.renames, &self.place, moment);
            batch.changes.retain(|path, _| !half.contains(path));
            snapshot.put_off = half;
        } else {
            self.half_saved.forget();
        }
        let mut aside = findings.aside;
        aside.extend(self.calm(&mut batch, &mut snapshot));
        let leaking = self.hold_leaks(&mut batch, findings.leaks, &mut snapshot)?;
        aside.extend(leaking.versions);
        let tangled = self.untangle(&mut batch, &head)?;
        snapshot.kept_out.extend(tangled.iter().map(|path| (path.clone(), Kept::Staged)));

        let committed = self
            .hold_back(&mut batch, &head)
            .and_then(|()| self.check_expected(&mut batch, &mut snapshot))
            .and_then(|()| self.commit(&mut batch, &head, cause, &mut snapshot));
        match committed {
            Ok(()) => {}
            Err(SnapshotError::Locked { lock, .. }) => {
                aside.extend(versions_of(&batch.changes));
                let wip = self.keep_wip(&head, &aside, batch.written)?;
                self.found = Some(found);
                return Err(SnapshotError::Locked { lock, wip });
            }
            Err(SnapshotError::Held { what, remedy, .. }) => {
                aside.extend(versions_of(&batch.changes));
                let wip = self.keep_wip(&head, &aside, batch.written)?;
                self.found = Some(found);
                return Err(SnapshotError::Held { what, remedy, wip });
            }
            Err(err) => return Err(err),
        }
        snapshot.held = self.held.clone();
        let unsettled = unsettled.into_iter().chain(tangled).chain(leaking.paths);
        self.unsettled.settle(unsettled);
        let head = read_head(&self.repo)?;
        self.keep_wip(&head, &aside, batch.written)?;
        Ok(snapshot)
    }

    /// The vault's folder must be the one that was opened.
    pub(super) fn check_vault(&self) -> Result<(), SnapshotError> {
        match fs::identity(&self.place.root) {
            Ok(identity) if identity == self.identity => Ok(()),
            Ok(_) => Err(SnapshotError::VaultLost(self.place.root.clone())),
            Err(err) if err.is_absent() => Err(SnapshotError::VaultLost(self.place.root.clone())),
            Err(err) => Err(err.into()),
        }
    }

    fn look_at(
        &mut self,
        look: &Look,
        index: &GitIndex,
        head: &HeadState,
    ) -> Result<Findings, SnapshotError> {
        let tree = TreeView::new(&self.repo, self.tree_of(head)?);
        let beside = self.beside_found(look, index);
        let candidates = candidates(look, &beside);
        let (options, drivers, marked) = (&self.options, &mut self.drivers, &mut self.marked);
        let mut looker =
            Looker::new(&self.repo, &self.place, index, tree, options, drivers, marked)?;
        let all = candidates.len();
        for (done, path) in candidates.iter().enumerate() {
            if done % STEP == STEP - 1 {
                if self.options.stop.is_set() {
                    // What was written is found again by the next try.
                    looker.finish()?;
                    return Err(SnapshotError::Stopped);
                }
                if looker.written() > MUCH {
                    (self.on_progress)(done, all);
                }
            }
            looker.look(path)?;
        }
        Ok(looker.finish()?)
    }

    /// Takes out what would tear a file and a folder of one name, or the two halves of a rename,
    /// apart.
    fn untangle(
        &self,
        batch: &mut Batch,
        head: &HeadState,
    ) -> Result<BTreeSet<VaultPath>, SnapshotError> {
        let mut tree = TreeView::new(&self.repo, self.tree_of(head)?);
        let mut tangled = BTreeSet::new();
        for (path, touched) in &batch.changes {
            if touched.old.is_some() || touched.new.is_none() {
                continue;
            }
            let mut above = path.parent();
            while let Some(folder) = above {
                let is_going = batch.changes.get(&folder).is_some_and(|it| it.new.is_none());
                if !is_going && tree.file(self.place.rela(&folder).as_bstr())?.is_some() {
                    tangled.insert(path.clone());
                }
                above = folder.parent();
            }
            let rela = self.place.rela(path);
            if tree.get(rela.as_bstr())?.is_some() {
                // A folder in HEAD: all that is in it must go in this batch.
                let root = self.tree_of(head)?;
                for below in reader::files_below(&self.repo, root, rela.as_bstr())? {
                    let gone = self.place.vault_path(below.as_bstr()).is_some_and(|it| {
                        batch.changes.get(&it).is_some_and(|it| it.new.is_none())
                    });
                    if !gone {
                        tangled.insert(path.clone());
                        break;
                    }
                }
            }
        }
        batch.changes.retain(|path, _| !tangled.contains(path));
        batch.renames.retain(|(old, new)| {
            batch.changes.contains_key(old) && batch.changes.contains_key(new)
        });
        Ok(tangled)
    }

    /// Holds a mass disappearance back; the other changes go on.
    fn hold_back(&mut self, batch: &mut Batch, head: &HeadState) -> Result<(), SnapshotError> {
        let moved: BTreeSet<_> = batch.renames.iter().map(|it| &it.0).collect();
        let replaced = |path: &VaultPath| {
            let below = batch
                .changes
                .range(path.clone()..)
                .take_while(|it| it.0.as_bytes().starts_with(path.as_bytes()));
            let by_folder = below
                .filter(|it| it.1.new.is_some())
                .any(|it| it.0 != path && it.0.is_within(path.as_bytes()));
            let by_file = std::iter::successors(path.parent(), VaultPath::parent)
                .any(|it| batch.changes.get(&it).is_some_and(|it| it.new.is_some()));
            by_folder || by_file
        };
        let gone: BTreeSet<_> = batch
            .changes
            .iter()
            .filter(|(path, it)| it.new.is_none() && !moved.contains(path) && !replaced(path))
            .map(|it| it.0.clone())
            .collect();
        let is_note = self.options.is_note;
        let notes_in_head = || {
            let prefix = self.place.prefix_slash();
            let index = self.index.as_ref();
            let notes = index.map(|it| {
                let paths = it.below(prefix.as_bstr()).filter_map(|it| self.place.vault_path(it));
                paths.filter(is_note).count()
            });
            notes.unwrap_or(0)
        };
        let held = deletions_to_hold(
            &gone,
            &self.held,
            &self.let_through,
            self.options.hold_deletions,
            is_note,
            notes_in_head,
        );
        if !held.is_subset(&self.held) {
            // A checkout takes the files away before it says so: under its lock nothing is held.
            let _lock = self.lock_index(LOCK_WAIT)?;
            self.check_still(head)?;
        }
        batch.changes.retain(|path, _| !held.contains(path));
        if held != self.held {
            held_list::save(&self.place, &held)?;
            self.held = held;
        }
        Ok(())
    }

    /// Where a certain change is wanted, it is that one whole and nothing else, or none.
    fn check_expected(
        &self,
        batch: &mut Batch,
        snapshot: &mut Snapshot,
    ) -> Result<(), SnapshotError> {
        let Some(expected) = &self.expected else { return Ok(()) };
        if let Some((path, why)) = snapshot.kept_out.iter().find(|it| expected.contains_key(&it.0))
        {
            let (what, remedy) = (format!("`{path}`: {why}"), why.hint(path).into_owned());
            return Err(SnapshotError::Held { what, remedy, wip: None });
        }
        let others: Vec<_> =
            batch.changes.keys().filter(|it| !expected.contains_key(*it)).cloned().collect();
        if !others.is_empty() {
            leave_out(batch, others, &mut snapshot.again);
        }
        let is_whole = batch.changes.len() == expected.len()
            && batch.changes.iter().all(|(path, it)| expected.get(path) == Some(&it.new));
        if is_whole { Ok(()) } else { Err(SnapshotError::Moved) }
    }

    /// Commits the batch, moves the branch and brings the index along.
    fn commit(
        &mut self,
        batch: &mut Batch,
        head: &HeadState,
        cause: &Cause,
        snapshot: &mut Snapshot,
    ) -> Result<(), SnapshotError> {
        if batch.changes.is_empty() {
            return self.refresh_index(batch);
        }
        let Some(branch) = head.branch.clone() else {
            return Err(SnapshotError::Moved);
        };
        fault::point("committer.before_objects");
        let signed = Signed::new(&self.repo, &self.options, cause.author.as_ref());
        let guests = self.guests(&signed);
        let (made, lock) = loop {
            let Some(mut made) = self.make(batch, head, cause, &signed, &guests)? else {
                return Ok(());
            };
            fault::point("committer.before_lock");
            let lock = self.lock_index(LOCK_WAIT)?;
            // Under the lock: whatever moved since it was read waits for the next snapshot.
            let moved: Vec<_> = batch
                .changes
                .iter()
                .filter(|it| !batch.before_hook.contains(it.0))
                .filter(|(path, it)| !is_unchanged(&self.place, path, it.seen.as_ref()))
                .map(|it| it.0.clone())
                .collect();
            self.check_still(head)?;
            if self.operation(head).is_some() {
                return Err(SnapshotError::Moved);
            }
            if moved.is_empty() {
                break (made, lock);
            }
            if self.expected.is_some() {
                return Err(SnapshotError::Moved);
            }
            leave_out(batch, moved, &mut snapshot.again);
            snapshot.again.extend(self.untangle(batch, head)?);
            if batch.changes.is_empty() {
                return Ok(());
            }
            if guests.are_there() {
                // Nobody's programs run under git's lock.
                drop(lock);
                continue;
            }
            match self.make(batch, head, cause, &signed, &guests)? {
                Some(again) => made = again,
                None => return Ok(()),
            }
            break (made, lock);
        };
        let Made { commit, draft, subject } = made;

        if !batch.written.iter().all(|it| self.objects.is_loose(it)) {
            return Err(SnapshotError::Moved);
        }
        fault::point("committer.before_ref");
        repair::begin(&self.place, commit)?;
        let step = Move {
            name: branch.as_bstr(),
            expected: head.commit,
            new: commit,
            signature: &signed.for_log(),
            reason: &match head.commit {
                Some(_) => format!("commit: {subject}"),
                None => format!("commit (initial): {subject}"),
            },
        };
        let moved = move_branch(&self.repo, &self.place, &step, draft);
        if moved.is_err() && read_head(&self.repo)?.commit != Some(commit) {
            return moved;
        }
        snapshot.durable_after = Some(batch.started.elapsed());
        self.unsettled.moved_by_us(commit);
        self.note(batch, commit, &branch, subject, &signed, snapshot);
        self.let_through.clear();
        if let Some(head) = &snapshot.head {
            (self.on_durable)(head);
        }
        fault::point("committer.before_index");
        match self.write_index(batch, lock) {
            Ok(()) => repair::end(&self.place),
            Err(err) => {
                // The commit stands; the next snapshot or open brings the index along.
                tracing::warn!(%err, "index stays behind the commit");
                self.is_unfinished = true;
            }
        }
        fault::point("committer.after_index");
        self.after.run(&guests.hooks);
        moved
    }

    /// Neither HEAD nor the index may have moved since they were read.
    fn check_still(&self, head: &HeadState) -> Result<(), SnapshotError> {
        let index_moved = match &self.index {
            Some(index) => !index.is_current(&self.place)?,
            None => true,
        };
        match index_moved || read_head(&self.repo)? != *head {
            true => Err(SnapshotError::Moved),
            false => Ok(()),
        }
    }

    fn lock_index(&self, wait: Duration) -> Result<OwnLock, SnapshotError> {
        let path = lock_of(&self.place.index());
        let take = |wait| OwnLock::take(&self.place.private(), self.place.shared, &path, wait);
        match take(wait) {
            // Another vault's agent in this repository may have been killed.
            Err(LockError::Held(_)) if clear_locks(&self.place)? => Ok(take(Duration::ZERO)?),
            taken => Ok(taken?),
        }
    }

    /// Writes newer stats for files whose content is as committed; not worth waiting for.
    fn refresh_index(&mut self, batch: &Batch) -> Result<(), SnapshotError> {
        if batch.refresh.is_empty() {
            return Ok(());
        }
        match self.lock_index(Duration::ZERO) {
            Ok(lock) => match &self.index {
                Some(index) if index.is_current(&self.place)? => self.write_index(batch, lock),
                _ => Ok(()),
            },
            Err(SnapshotError::Locked { .. }) => Ok(()),
            Err(err) => Err(err),
        }
    }

    fn write_index(&mut self, batch: &Batch, lock: OwnLock) -> Result<(), SnapshotError> {
        let patch = |path: &VaultPath, version: Option<Version>, seen: Option<&Seen>| Patch {
            path: self.place.rela(path),
            new: version.zip(seen).map(|((id, kind), seen)| (id, kind.into(), seen.stat())),
        };
        let changed = batch.changes.iter().map(|(path, it)| patch(path, it.new, it.seen.as_ref()));
        let refreshed = batch
            .refresh
            .iter()
            .map(|(path, (version, seen))| patch(path, Some(*version), Some(seen)));
        let patches: Vec<_> = changed.chain(refreshed).collect();
        let Some(index) = &mut self.index else {
            return Err(SnapshotError::Moved);
        };
        let patched = index.patch(&self.place, &patches).map_err(SnapshotError::from);
        let written = patched.and_then(|()| index.write(&self.repo, &self.place, lock));
        if written.is_err() {
            self.index = None;
        }
        written
    }

    /// Tells the caller what was committed.
    fn note(
        &self,
        batch: &Batch,
        commit: ObjectId,
        branch: &BString,
        subject: String,
        signed: &Signed,
        snapshot: &mut Snapshot,
    ) {
        for (path, it) in &batch.changes {
            snapshot.changes.push(path.clone(), it.old.and_then(entry), it.new.and_then(entry));
            if is_emptied(it) {
                snapshot.emptied.push(path.clone());
            }
        }
        snapshot.renames = batch.renames.clone();
        snapshot.head = commit_id(&commit).map(|commit| Head {
            commit,
            branch: Some(reader::short_branch(branch.as_bstr())),
            subject,
            time: signed.time.seconds,
        });
    }
}

/// Leaves out what moved, and the other half of a rename that it was part of.
fn leave_out(batch: &mut Batch, moved: Vec<VaultPath>, again: &mut BTreeSet<VaultPath>) {
    let mut out: BTreeSet<_> = moved.into_iter().collect();
    for (old, new) in &batch.renames {
        if out.contains(old) || out.contains(new) {
            out.extend([old.clone(), new.clone()]);
        }
    }
    batch.changes.retain(|path, _| !out.contains(path));
    batch.renames.retain(|it| !out.contains(&it.0));
    batch.refresh.retain(|path, _| !out.contains(path));
    again.extend(out);
}

/// What the message says of the batch; the old side of a rename is part of the new one.
pub(super) fn deeds(batch: &Batch) -> Vec<Deed> {
    let by_new: BTreeMap<_, _> = batch.renames.iter().map(|(old, new)| (new, old)).collect();
    let moved: BTreeSet<_> = batch.renames.iter().map(|it| &it.0).collect();
    batch
        .changes
        .iter()
        .filter(|it| !moved.contains(it.0))
        .map(|(path, it)| {
            let verb = match (&it.old, &it.new) {
                (None, Some(_)) => match by_new.get(path) {
                    Some(old) => Verb::Rename((*old).clone()),
                    None => Verb::Create,
                },
                (_, None) => Verb::Delete,
                (Some(old), Some(new)) if old.0 == new.0 => Verb::Mode,
                _ if is_emptied(it) => Verb::Empty,
                _ => Verb::Update,
            };
            Deed { verb, path: path.clone() }
        })
        .collect()
}

fn is_emptied(touched: &Touched) -> bool {
    touched.has_lost_all() && touched.new.is_some()
}

fn versions_of(changes: &BTreeMap<VaultPath, Touched>) -> BTreeMap<VaultPath, Version> {
    changes.iter().filter_map(|(path, it)| Some((path.clone(), it.new?))).collect()
}

/// All that is on disk and not in HEAD.
fn waiting(findings: &Findings) -> BTreeMap<VaultPath, Version> {
    let mut versions = versions_of(&findings.changes);
    versions.extend(findings.aside.iter().map(|(path, it)| (path.clone(), *it)));
    versions
}

/// All paths that are not as in HEAD, or that nobody can tell.
fn all_found(findings: &Findings) -> BTreeSet<VaultPath> {
    let changed = findings.changes.keys().chain(findings.aside.keys());
    changed.chain(findings.kept.keys()).chain(&findings.again).cloned().collect()
}

/// As the vault's vocabulary has it.
pub(super) fn entry((id, kind): Version) -> Option<Entry> {
    let mode = match kind {
        EntryKind::Blob => FileMode::File,
        EntryKind::BlobExecutable => FileMode::Executable,
        EntryKind::Link => FileMode::Symlink,
        EntryKind::Commit => FileMode::Gitlink,
        EntryKind::Tree => return None,
    };
    Some(Entry { blob: BlobId::from_bytes(id.as_bytes())?, mode })
}

//! Looks at a path again: what it is on disk, in the index and in HEAD.
//!
//! Takes vault paths that may have changed, gives what really did, with the content already
//! written as blobs. Symlinks are never followed, neither in the last step nor on the way.
//! Committer thread only.
//!
//! **Invariant:** a content that changed while it was read is never committed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice as _};
use gix::index::entry::{Flags, Mode, Stat, stat};
use gix::objs::tree::EntryKind;

use crate::base::fs;
use crate::base::trouble::told;
use crate::history::Options;
use crate::history::bulk::Bulk;
use crate::history::drivers::Drivers;
use crate::history::error::{GitError, git};
use crate::history::filters::{Cleaning, Filtered, Filters};
use crate::history::git_index::{GitIndex, kind_of};
use crate::history::index_image::Entry;
use crate::history::kept::Kept;
use crate::history::marked::{self, derived_folder};
use crate::history::module;
use crate::history::objects::{TreeView, may_stand_in_a_tree};
use crate::history::on_disk::{Disk, Ways};
use crate::history::place::Place;
use crate::history::seen::{Seen, is_swapped};
use crate::secrets::{self, Finding, Policy};
use crate::vault::VaultPath;

/// Reads of one file before it is left for the next snapshot.
const READS: usize = 3;
/// A tick that is waited for; where times are coarser, git is made to look again instead.
const SHORT_TICK: Duration = Duration::from_millis(20);
/// How soon a filter that is at work is asked again.
const AT_WORK: Duration = Duration::from_millis(500);
/// What lets a file in that git would refuse as well.
const REFUSED: &str = "Mend the file, or its line in `.gitattributes`; `git add` refuses it too.";

/// When such a file is looked at again, if nothing hints at it before.
const REFUSED_AGAIN: Duration = Duration::from_secs(60);

/// A version of a file: content and kind.
pub(super) type Version = (ObjectId, EntryKind);

/// A path whose disk differs from HEAD.
#[derive(Clone, Debug)]
pub(super) struct Touched {
    pub old: Option<Version>,
    /// `None` when it is gone.
    pub new: Option<Version>,
    /// What the disk said; `None` when it is gone.
    pub seen: Option<Seen>,
    /// Device, inode and last status change by the index, to recognise a rename.
    pub was: Option<Stat>,
}

impl Touched {
    /// Whether it had content and has none now, or is gone.
    pub fn has_lost_all(&self) -> bool {
        self.old.is_some_and(|it| !it.0.is_empty_blob())
            && self.new.is_none_or(|it| it.0.is_empty_blob())
    }
}

/// All that one look found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub changes: BTreeMap<VaultPath, Touched>,
    /// Content as in HEAD, but the index has an old stat.
    pub refresh: BTreeMap<VaultPath, (Version, Seen)>,
    pub kept: BTreeMap<VaultPath, Kept>,
    /// Content that stays out of the branch but must not be lost.
    pub aside: BTreeMap<VaultPath, Version>,
    /// Changed while it was read.
    pub again: BTreeSet<VaultPath>,
    /// Blobs written.
    pub written: Vec<ObjectId>,
    /// To be looked at again without a hint, and how long from now.
    pub later: BTreeMap<VaultPath, Duration>,
    /// What looks like a credential in what changed.
    pub leaks: BTreeMap<VaultPath, Vec<Finding>>,
}

/// What reading a file gave.
enum Content {
    Blob(ObjectId, Seen),
    Again,
    TooLarge(u64),
    Unreadable(String),
    Filtering(String),
    Filter { why: String, remedy: &'static str, again: Option<Duration> },
}

/// Everything a look needs, for one snapshot.
pub(super) struct Looker<'a> {
    repo: &'a gix::Repository,
    pub place: &'a Place,
    pub index: &'a GitIndex,
    pub head: TreeView<'a>,
    options: &'a Options,
    settings: Settings,
    filters: Filters<'a>,
    drivers: &'a mut Drivers,
    marked: &'a mut marked::Contents,
    /// Contents are only compared, and none is written.
    is_comparing: bool,
    ignores: gix::AttributeStack<'a>,
    ways: Ways<'a>,
    bulk: Bulk<'a>,
    /// New contents taken so far.
    contents: usize,
    /// What looks like a credential in the content that was read last.
    leaks: Vec<Finding>,
    findings: Findings,
}

/// Git's settings that a look follows.
#[derive(Clone, Copy)]
struct Settings {
    stat: stat::Options,
    executable_bit: bool,
    symlinks: bool,
    is_sparse_checkout: bool,
}

impl<'a> Looker<'a> {
    pub fn new(
        repo: &'a gix::Repository,
        place: &'a Place,
        index: &'a GitIndex,
        head: TreeView<'a>,
        options: &'a Options,
        drivers: &'a mut Drivers,
        marked: &'a mut marked::Contents,
    ) -> Result<Self, GitError> {
        use gix::worktree::stack::state::ignore;
        let capabilities = git("read Git's settings", repo.filesystem_options())?;
        let stat = git("read Git's settings", repo.stat_options())?;
        let is_sparse_checkout = repo.config_snapshot().boolean("core.sparseCheckout");
        // Attribute files that a sparse checkout left out are read from the index.
        let source = match index.is_skipping() {
            true => index.rules(),
            false => gix::index::State::new(repo.object_hash()),
        };
        let source = &source;
        let filters = Filters::new(repo, source)?;
        let ignores =
            repo.excludes(source, None, ignore::Source::WorktreeThenIdMappingIfNotSkipped);
        Ok(Self {
            repo,
            place,
            index,
            head,
            options,
            settings: Settings {
                // Finer than git compares, which costs a read and never an edit.
                stat: stat::Options { use_nsec: true, ..stat },
                executable_bit: capabilities.executable_bit,
                symlinks: capabilities.symlink,
                is_sparse_checkout: is_sparse_checkout.unwrap_or(false),
            },
            filters,
            drivers,
            marked,
            is_comparing: false,
            ignores: git("read the ignore rules", ignores)?,
            ways: Ways::new(place, index),
            bulk: Bulk::new(repo),
            contents: 0,
            leaks: Vec::new(),
            findings: Findings::default(),
        })
    }

    /// How many contents were new to git so far.
    pub fn written(&self) -> usize {
        self.contents
    }

    /// What the looks found, with every content written.
    pub fn finish(mut self) -> Result<Findings, GitError> {
        let alone = self.bulk.finish()?;
        self.findings.written.extend(alone);
        Ok(self.findings)
    }

    /// Looks at one path and notes what is found.
    pub fn look(&mut self, path: &VaultPath) -> Result<(), GitError> {
        if let Some(folder) = derived_folder(&self.options.excluded, path) {
            return self.look_at_derived(folder);
        }
        let rela = self.place.rela(path);
        let rela = rela.as_bstr();
        let in_head = self.head.file(rela)?.map(|(kind, id)| (id, kind));
        let entry = self.index.entry(rela).filter(|it| !it.flags.contains(Flags::INTENT_TO_ADD));
        let staged = entry.and_then(|it| Some((it.id, kind_of(it.mode)?)));
        let mark = entry.and_then(|it| marked::mark(&it, self.settings.is_sparse_checkout));
        if let Some(mark) = mark {
            let why = match self.is_as_staged(path, rela)? {
                Some(false) => mark,
                Some(true) if staged != in_head => Kept::Staged,
                _ => return Ok(()),
            };
            self.findings.kept.insert(path.clone(), why);
            return Ok(());
        }
        let is_tracked = entry.is_some() || in_head.is_some();
        let disk = self.ways.disk(path);
        if let Disk::File(seen) | Disk::Link(seen) = &disk
            && let Some(entry) = entry
            && staged == in_head
            && self.is_clean(&entry, seen)
        {
            return Ok(());
        }
        if self.index.is_unmerged(rela) {
            return self.keep(path, rela, disk, Kept::Unmerged);
        }
        let is_gitlink = entry.is_some_and(|it| it.mode == Mode::COMMIT);
        match disk {
            Disk::Folder | Disk::Gone if is_gitlink => {
                let is_left_out = entry.is_some_and(|it| it.flags.contains(Flags::SKIP_WORKTREE));
                if !is_left_out {
                    let changed = module::change(&self.place.disk(path), staged, in_head);
                    self.findings.kept.extend(changed.map(|it| (path.clone(), it)));
                    self.findings.later.insert(path.clone(), module::LOOK);
                }
            }
            Disk::Submodule if !is_tracked && self.is_ignored(rela) => {}
            Disk::Submodule => {
                if fs::lstat_if_there(&self.place.disk(path)).is_ok_and(|it| it.is_some()) {
                    self.findings.kept.insert(path.clone(), Kept::Submodule);
                }
            }
            Disk::File(_) | Disk::Link(_) | Disk::Special if is_gitlink => {
                self.findings.kept.insert(path.clone(), Kept::Submodule);
            }
            Disk::Gone if entry.is_some_and(|it| it.flags.contains(Flags::SKIP_WORKTREE)) => {}
            Disk::Gone if is_tracked && self.ways.is_taken_by_a_twin(path) => {
                self.findings.kept.insert(path.clone(), Kept::Twin);
            }
            Disk::Gone | Disk::Folder if !is_tracked => {}
            Disk::Gone | Disk::Folder if staged != in_head => {
                self.findings.kept.insert(path.clone(), Kept::Staged);
            }
            Disk::Gone | Disk::Folder => {
                let was = entry.map(|it| it.stat);
                let gone = Touched { old: in_head, new: None, seen: None, was };
                self.findings.changes.insert(path.clone(), gone);
            }
            Disk::Special | Disk::Nested if !is_tracked => {}
            Disk::Special => {
                self.findings.kept.insert(path.clone(), Kept::Special);
            }
            Disk::Nested => {
                self.findings.kept.insert(path.clone(), Kept::NestedRepository);
            }
            Disk::Unreadable(why) => {
                if is_tracked || !self.is_ignored(rela) {
                    self.findings.kept.insert(path.clone(), Kept::Unreadable { why });
                }
            }
            Disk::File(_) | Disk::Link(_) if !is_tracked && self.is_ignored(rela) => {}
            Disk::File(_) | Disk::Link(_)
                if !is_tracked && !may_stand_in_a_tree(rela, matches!(disk, Disk::Link(_))) =>
            {
                self.findings.kept.insert(path.clone(), Kept::Name);
            }
            Disk::File(_) | Disk::Link(_) if staged != in_head => {
                return self.keep(path, rela, disk, Kept::Staged);
            }
            Disk::File(_) | Disk::Link(_) => {
                let was = entry.map(|it| it.stat);
                if let Some((new, seen)) = self.read_once(path, rela, disk, is_tracked)? {
                    if Some(new) == in_head {
                        if was != Some(seen.stat()) {
                            self.findings.refresh.insert(path.clone(), (new, seen));
                        }
                    } else {
                        let seen = Some(seen);
                        let touched = Touched { old: in_head, new: Some(new), seen, was };
                        self.findings.changes.insert(path.clone(), touched);
                        if !self.leaks.is_empty() {
                            let leaks = std::mem::take(&mut self.leaks);
                            self.findings.leaks.insert(path.clone(), leaks);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Names a folder that is never committed and that git tracks all the same.
    fn look_at_derived(&mut self, folder: VaultPath) -> Result<(), GitError> {
        if self.findings.kept.contains_key(&folder) {
            return Ok(());
        }
        let rela = self.place.rela(&folder);
        let below = [rela.as_slice(), b"/"].concat();
        if self.index.entry(rela.as_bstr()).is_some()
            || self.index.below(below.as_bstr()).next().is_some()
            || self.head.get(rela.as_bstr())?.is_some()
        {
            self.findings.kept.insert(folder, Kept::Derived);
        }
        Ok(())
    }

    /// Whether the disk has what the index has, without a trace of its content in git; `None`
    /// where the findings say why that cannot be told.
    fn is_as_staged(&mut self, path: &VaultPath, rela: &BStr) -> Result<Option<bool>, GitError> {
        let index = self.index;
        let Some(entry) = index.entry(rela) else { return Ok(Some(false)) };
        let staged = kind_of(entry.mode).map(|it| (entry.id, it));
        let disk = self.ways.disk(path);
        let version = match &disk {
            Disk::File(seen) | Disk::Link(seen) if self.is_clean(&entry, seen) => staged,
            Disk::File(seen) | Disk::Link(seen) => match self.marked.of(path, seen) {
                Some(known) => Some(known),
                None => {
                    self.is_comparing = true;
                    let read = self.read(path, rela, disk, true);
                    self.is_comparing = false;
                    let Some((version, seen)) = read? else { return Ok(None) };
                    self.marked.remember(path.clone(), seen, version);
                    Some(version)
                }
            },
            Disk::Unreadable(why) => {
                let why = Kept::Unreadable { why: why.clone() };
                self.findings.kept.insert(path.clone(), why);
                return Ok(None);
            }
            _ => None,
        };
        Ok(Some(version.is_some() && version == staged))
    }

    /// Notes why a path stays out, and keeps its content for `wip`.
    fn keep(
        &mut self,
        path: &VaultPath,
        rela: &BStr,
        disk: Disk,
        why: Kept,
    ) -> Result<(), GitError> {
        let staged = match &disk {
            Disk::File(seen) | Disk::Link(seen) => self.staged_as(rela, seen),
            _ => None,
        };
        if let Some(version) = staged {
            self.findings.aside.insert(path.clone(), version);
        } else if matches!(disk, Disk::File(_) | Disk::Link(_))
            && let Some((version, _)) = self.read(path, rela, disk, true)?
        {
            self.findings.aside.insert(path.clone(), version);
        }
        self.findings.kept.insert(path.clone(), why);
        Ok(())
    }

    /// The version in the index, where the stat proves that the disk has the same.
    fn staged_as(&self, rela: &BStr, seen: &Seen) -> Option<Version> {
        let entry = self.index.entry(rela)?;
        let version = (entry.id, kind_of(entry.mode)?);
        self.is_clean(&entry, seen).then_some(version)
    }

    /// The same as [`Self::read`]; what looks like it holds a credential is read once, as every
    /// look asks for it.
    fn read_once(
        &mut self,
        path: &VaultPath,
        rela: &BStr,
        disk: Disk,
        is_tracked: bool,
    ) -> Result<Option<(Version, Seen)>, GitError> {
        self.leaks.clear();
        if self.options.secrets.policy == Policy::Hold
            && let Disk::File(seen) = &disk
            && let Some((version, leaks)) = self.marked.leaks.of(path, seen)
            && self.repo.has_object(version.0)
        {
            self.leaks = leaks.to_vec();
            return Ok(Some((version, *seen)));
        }
        let read = self.read(path, rela, disk, is_tracked)?;
        if let (Some((version, seen)), false) = (&read, self.leaks.is_empty()) {
            let leaks = self.leaks.clone();
            self.marked.leaks.remember(path.clone(), *seen, *version, leaks);
        }
        Ok(read)
    }

    /// The version on disk, written as a blob; `None` where the findings say why not.
    fn read(
        &mut self,
        path: &VaultPath,
        rela: &BStr,
        disk: Disk,
        is_tracked: bool,
    ) -> Result<Option<(Version, Seen)>, GitError> {
        let on_disk = self.place.disk(path);
        let content = match disk {
            Disk::Link(seen) => self.read_link(&on_disk, rela, seen)?,
            Disk::File(seen) => self.read_file(&on_disk, rela, seen, is_tracked)?,
            _ => return Ok(None),
        };
        let kept = match content {
            Content::Blob(id, seen) => {
                return Ok(Some(((id, self.kind(rela, &seen)), seen)));
            }
            Content::Again => {
                self.findings.again.insert(path.clone());
                return Ok(None);
            }
            Content::TooLarge(bytes) => Kept::TooLarge { bytes },
            Content::Unreadable(why) => Kept::Unreadable { why },
            Content::Filtering(name) => {
                self.findings.later.insert(path.clone(), AT_WORK);
                Kept::Filtering { name }
            }
            Content::Filter { why, remedy, again } => {
                self.findings.later.extend(again.map(|it| (path.clone(), it)));
                Kept::Filter { why, remedy }
            }
        };
        self.findings.kept.insert(path.clone(), kept);
        Ok(None)
    }

    fn read_link(&mut self, path: &Path, rela: &BStr, seen: Seen) -> Result<Content, GitError> {
        let Ok(target) = fs::read_link(path) else {
            return Ok(Content::Again);
        };
        let after = fs::lstat(path).map(|it| Seen::new(&it));
        if !after.is_ok_and(|it| it.is_same(&seen)) {
            return Ok(Content::Again);
        }
        self.write_blob(rela, target.into_os_string().into_vec()).map(|id| Content::Blob(id, seen))
    }

    fn read_file(
        &mut self,
        path: &Path,
        rela: &BStr,
        mut seen: Seen,
        is_tracked: bool,
    ) -> Result<Content, GitError> {
        let rules = self.filters.rules(rela)?;
        let limit = if is_tracked { u64::MAX } else { self.options.max_file };
        for _ in 0..READS {
            if let Some(left) = seen.tick_left().filter(|it| *it <= SHORT_TICK) {
                // A writer could still change it without leaving another time.
                std::thread::sleep(left);
                match self.see_again(path) {
                    Some(now) if now.is_same(&seen) => seen = now,
                    Some(now) => {
                        seen = now;
                        continue;
                    }
                    None => return Ok(Content::Again),
                }
            }
            let file = match fs::open_regular(path) {
                Ok(file) => Arc::new(file),
                Err(err) if is_swapped(&err) => return Ok(Content::Again),
                Err(err) => return Ok(Content::Unreadable(told(&err.source))),
            };
            let before = file.metadata().map(|it| Seen::new(&it));
            if !before.is_ok_and(|it| it.is_same(&seen)) {
                match self.see_again(path) {
                    Some(now) => seen = now,
                    None => return Ok(Content::Again),
                }
                continue;
            }
            let job = Cleaning { rela, file: &file, seen: &seen, size: seen.size, limit };
            let mut indexed = || {
                let entry = self.index.entry(rela)?;
                Some(self.repo.find_blob(entry.id).ok()?.detach().data)
            };
            let bytes = match self.filters.to_git(&rules, job, self.drivers, &mut indexed) {
                Filtered::Bytes(bytes) => bytes,
                Filtered::TooLarge(bytes) => return Ok(Content::TooLarge(bytes)),
                Filtered::Unreadable(err) => return Ok(Content::Unreadable(told(&err))),
                Filtered::Refused(why) => {
                    let again = Some(REFUSED_AGAIN);
                    return Ok(Content::Filter { why, remedy: REFUSED, again });
                }
                Filtered::AtWork(name) => return Ok(Content::Filtering(name.to_string())),
                Filtered::Wait { why, remedy, again } => {
                    return Ok(Content::Filter { why, remedy, again: Some(again) });
                }
            };
            let after = file.metadata().map(|it| Seen::new(&it));
            match self.see_again(path) {
                Some(now) if now.is_same(&seen) && after.is_ok_and(|it| it.is_same(&seen)) => {
                    return self.write_blob(rela, bytes).map(|id| Content::Blob(id, seen));
                }
                Some(now) => seen = now,
                None => return Ok(Content::Again),
            }
        }
        Ok(Content::Again)
    }

    fn see_again(&self, path: &Path) -> Option<Seen> {
        fs::lstat(path).ok().filter(Metadata::is_file).map(|it| Seen::new(&it))
    }

    /// Writes what is not in HEAD or the index at its path.
    fn write_blob(&mut self, rela: &BStr, bytes: Vec<u8>) -> Result<ObjectId, GitError> {
        let kind = gix::objs::Kind::Blob;
        let hash = gix::objs::compute_hash(self.repo.object_hash(), kind, &bytes);
        let id = git("write a blob", hash)?;
        if self.is_comparing {
            return Ok(id);
        }
        let in_head = self.head.file(rela)?.is_some_and(|it| it.1 == id);
        if !in_head && self.index.entry(rela).is_none_or(|it| it.id != id) {
            if self.options.secrets.policy == Policy::Hold {
                self.leaks = secrets::scan(rela, &bytes);
            }
            self.bulk.write(bytes)?;
            self.contents += 1;
        }
        Ok(id)
    }

    /// How git stores what was seen, by what this file system can say.
    fn kind(&self, rela: &BStr, seen: &Seen) -> EntryKind {
        let known = self.index.entry(rela).and_then(|it| kind_of(it.mode));
        if seen.is_link() {
            return EntryKind::Link;
        }
        match known {
            Some(EntryKind::Link) if !self.settings.symlinks => EntryKind::Link,
            Some(EntryKind::BlobExecutable) if !self.settings.executable_bit => {
                EntryKind::BlobExecutable
            }
            _ if self.settings.executable_bit && seen.is_executable() => EntryKind::BlobExecutable,
            _ => EntryKind::Blob,
        }
    }

    /// Whether the stat alone proves that the file is what the index says.
    fn is_clean(&self, entry: &Entry<'_>, seen: &Seen) -> bool {
        let kind = kind_of(entry.mode);
        let is_smudged = entry.stat.size == 0 && !entry.id.is_empty_blob();
        !is_smudged
            && kind == Some(self.kind(entry.path, seen))
            && entry.stat.matches(&seen.comparable(), self.settings.stat)
            && !self.index.is_racy(&entry.stat)
    }

    fn is_ignored(&mut self, rela: &BStr) -> bool {
        let as_path = gix::path::from_bstr(rela).unwrap_or_else(|_| Path::new("").into());
        self.ignores.at_path(as_path, Some(Mode::FILE)).is_ok_and(|it| it.is_excluded())
    }
}

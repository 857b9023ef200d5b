//! Opens a vault's repository, or makes one.
//!
//! Takes the vault's folder, gives a [`History`] or says why not. What a crash left behind is
//! put right here. Committer thread, before anything else.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gix::bstr::ByteSlice as _;

use crate::base::fs::{self, PathError};
use crate::base::trouble::Trouble;
use crate::history::drivers::Drivers;
use crate::history::error::{GitError, SnapshotError, git};
use crate::history::find::{self, OpenError, find};
use crate::history::gate::Gate;
use crate::history::hooks::After;
use crate::history::objects::Objects;
use crate::history::place::{Place, lock_of};
use crate::history::shared::Shared;
use crate::history::{History, Options, Reader, apply, held_list, lock, repair, wip};

/// The git directory of the repository that holds `root`; `None` where there is none.
pub fn git_dir_of(root: &Path) -> Result<Option<PathBuf>, OpenError> {
    match find(root) {
        Ok((_, place)) => Ok(Some(place.git_dir)),
        Err(OpenError::NotARepository(_)) => Ok(None),
        Err(err) => Err(err),
    }
}

impl Reader {
    /// Opens a vault's history to read it, beside whoever writes it.
    pub fn open(root: &Path) -> Result<Self, OpenError> {
        let (repo, place) = find(root)?;
        Ok(Self::new(repo.into_sync(), place))
    }
}

/// Removes the locks of agents that are dead; says whether there were any.
pub(super) fn clear_locks(place: &Place) -> Result<bool, PathError> {
    let known = [lock_of(&place.index()), lock_of(&place.git_dir.join("HEAD"))];
    let refs = place.common_dir.join("refs");
    let cleared = lock::clear_leftovers(&place.private(), &known, &refs)?;
    for path in &cleared {
        tracing::info!(path = %path.display(), "removed a lock of ours whose owner is dead");
    }
    Ok(!cleared.is_empty())
}

/// The states of the files that git's settings come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SettingsStamp(Vec<Option<(SystemTime, u64)>>);

impl History {
    /// Makes a repository with the branch `main` in `root`; one that is there stays as it is.
    pub fn init(root: &Path, options: &Options) -> Result<(), OpenError> {
        fs::create_dir_all(root)?;
        if fs::lstat_if_there(&root.join(".git"))?.is_none() {
            let made = gix::ThreadSafeRepository::init(
                root,
                gix::create::Kind::WithWorktree,
                gix::create::Options {
                    destination_must_be_empty: Some(false),
                    ..gix::create::Options::default()
                },
            );
            git("make a repository", made)?;
            fs::write_atomic(&root.join(".git/HEAD"), b"ref: refs/heads/main\n")?;
        }
        let (_, place) = find(root)?;
        Ok(exclude(&place, options, None)?)
    }

    /// Opens the repository that holds the vault `root`, and puts right what a crash left.
    pub fn open(root: &Path, options: &Options) -> Result<Self, OpenError> {
        let (repo, place) = find(root)?;
        let excludes = SettingsStamp::of_excludes(&place);
        exclude(&place, options, None)?;
        clear_locks(&place)?;
        // What was half changed is whole again before anybody looks at it.
        apply::after_crash(&repo, &place)?;
        let repaired = repair::after_crash(&repo, &place);
        match repaired {
            Ok(0) => {}
            Ok(paths) => tracing::info!(paths, "finished a commit that a crash had cut short"),
            Err(err) => tracing::warn!(%err, "could not look after a crash"),
        }
        let objects = Objects::new(&repo);
        let drivers = Drivers::new(&place, options.limits, &options.stop);
        let identity = fs::identity(&place.root)?;
        let settings = SettingsStamp::take(&repo, &place);
        let has_wip = wip::tip(&repo, &options.host)?.is_some();
        let held = held_list::load(&place)?;
        Ok(Self {
            options: options.clone(),
            place,
            repo,
            objects,
            drivers,
            index: None,
            settings,
            excludes: Some(excludes),
            mount_point: None,
            marked: Default::default(),
            identity,
            held,
            let_through: Default::default(),
            unsettled: Default::default(),
            has_wip,
            stranded: Default::default(),
            searched: None,
            forgot_for: None,
            is_unfinished: false,
            on_durable: Box::new(|_| {}),
            on_progress: Box::new(|_, _| {}),
            gate: Gate::default(),
            after: After::new(&options.stop),
            restless: Default::default(),
            found: None,
            half_saved: Default::default(),
            expected: None,
        })
    }

    /// Keeps a mount point out of git too, where it lies in the work tree and beside the vault: from
    /// the next look on.
    pub fn keep_out(&mut self, mount_point: &Path) {
        // As the work tree is named, without symlinks; the last folder may not be there yet.
        let whole = mount_point
            .parent()
            .zip(mount_point.file_name())
            .and_then(|(above, name)| fs::canonicalize(above).ok().map(|above| above.join(name)));
        let whole = whole.unwrap_or_else(|| mount_point.to_owned());
        // In the vault nothing is mounted, and there may be notes.
        if !whole.starts_with(&self.place.root) {
            self.mount_point = Some(whole);
            self.excludes = None;
        }
    }

    /// Reads git's settings again where their files changed, and puts our lines back where they
    /// went from `info/exclude`: somebody wrote it anew, or made `.git` anew.
    pub(super) fn follow_settings(&mut self) -> Result<(), SnapshotError> {
        // Taken first: what is written after it is looked at by the next one.
        let excludes = SettingsStamp::of_excludes(&self.place);
        // Never made in a repository that is gone: what is made would stand in its place.
        if self.excludes.as_ref() != Some(&excludes) && self.missing(None).is_none() {
            exclude(&self.place, &self.options, self.mount_point.as_deref())?;
            self.excludes = Some(excludes);
        }
        let now = SettingsStamp::take(&self.repo, &self.place);
        if now != self.settings {
            self.repo = find::reopen(&self.place)?;
            self.place.shared = Shared::of(&self.repo)?;
            self.settings = now;
            self.drivers.forget_failures();
            self.marked.forget();
            self.gate.open();
        }
        Ok(())
    }

    /// Drops all that is remembered of a repository that has lost what `err` names: a person may
    /// prune what it was about, or put another `.git` in its place. Once for each cause.
    pub(super) fn forget(&mut self, err: &GitError) -> Result<(), GitError> {
        let mut cause = format!("{err}: {}", err.source);
        let mut at = err.source.source();
        while let Some(err) = at {
            cause.push_str(&format!(": {err}"));
            at = err.source();
        }
        let cause = Some(cause);
        if Trouble::behind(&*err.source).is_some() || self.forgot_for == cause {
            return Ok(());
        }
        tracing::info!(cause, "the repository is opened anew: it has lost what was remembered");
        self.forgot_for = cause;
        self.repo = find::reopen(&self.place)?;
        self.objects = Objects::new(&self.repo);
        self.index = None;
        self.unsettled.forget_head();
        self.has_wip = true;
        self.searched = None;
        Ok(())
    }

    /// Our own folder in the git directory, which one that took the place of another has not.
    pub(super) fn follow_private(&self) -> Result<(), SnapshotError> {
        if fs::lstat_if_there(&self.place.private())?.is_none()
            && self.missing(None).is_none()
            && let Err(err) = repair::after_crash(&self.repo, &self.place)
        {
            // Whatever has to be written there says it again.
            tracing::warn!(%err, "could not prepare the git directory");
        }
        Ok(())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        // What lies in another folder of this name is not ours to put right.
        if !self.is_unfinished && self.check_vault().is_ok() {
            repair::close(&self.place);
        }
    }
}

impl SettingsStamp {
    fn take(repo: &gix::Repository, place: &Place) -> Self {
        use gix::config::Source;
        let mut paths =
            vec![place.common_dir.join("config"), place.git_dir.join("config.worktree")];
        for source in [Source::User, Source::Git, Source::System] {
            paths.extend(repo.config_path(source).ok());
        }
        Self::of(paths)
    }

    fn of_excludes(place: &Place) -> Self {
        Self::of(vec![excludes_of(place)])
    }

    fn of(paths: Vec<PathBuf>) -> Self {
        let stamp = |path: PathBuf| {
            let meta = fs::stat(&path).ok()?;
            Some((meta.modified().ok()?, meta.len()))
        };
        Self(paths.into_iter().map(stamp).collect())
    }
}

/// A path as a pattern that means nothing but it.
fn literal(path: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(path.len());
    for byte in path {
        if b"\\*?[".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}

fn excludes_of(place: &Place) -> PathBuf {
    place.common_dir.join("info/exclude")
}

/// Keeps what is ours out of git, without a file in the vault.
fn exclude(place: &Place, options: &Options, mount: Option<&Path>) -> Result<(), PathError> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = excludes_of(place);
    let mut text = fs::read_if_there(&path)?.unwrap_or_default();
    let prefix = literal(&place.prefix_slash());
    let mount = mount.and_then(|it| it.strip_prefix(&place.workdir).ok());
    let mount = mount.map(|it| literal(it.as_os_str().as_bytes())).filter(|it| !it.is_empty());
    let lines = options
        .excluded
        .iter()
        .map(|folder| [b"/", prefix.as_slice(), &literal(folder.as_bytes()), b"/"].concat())
        .chain(mount.map(|it| [b"/", it.as_slice(), b"/"].concat()))
        .chain(options.ignored.iter().map(|pattern| {
            // Only in the vault, where that is a part of the repository.
            match prefix.as_slice() {
                b"" => pattern.clone().into_bytes(),
                prefix => [b"/", prefix, b"**/", pattern.as_bytes()].concat(),
            }
        }));
    let mut changed = false;
    for line in lines {
        if !text.lines().any(|it| it == line) {
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(&line);
            text.push(b'\n');
            changed = true;
        }
    }
    if changed {
        place.shared.create_dir_all(&place.common_dir.join("info"))?;
        fs::write_atomic(&path, &text)?;
        place.shared.adjust(&path)?;
    }
    Ok(())
}

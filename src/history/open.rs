//! Opens a vault's repository, or makes one.
//!
//! Takes the vault's folder, gives a [`History`] or says why not. What a crash left behind is
//! put right here. Committer thread, before anything else.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gix::bstr::{BString, ByteSlice as _};

use crate::base::fs::{self, PathError};
use crate::history::error::{GitError, OpenError, git};
use crate::history::objects::Objects;
use crate::history::place::{Place, lock_of};
use crate::history::{History, Options, Reader, held_list, lock, repair, wip};

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
        exclude(&place, options)
    }

    /// Opens the repository that holds the vault `root`, and puts right what a crash left.
    pub fn open(root: &Path, options: &Options) -> Result<Self, OpenError> {
        let (repo, place) = find(root)?;
        exclude(&place, options)?;
        let known = [lock_of(&place.index()), lock_of(&place.git_dir.join("HEAD"))];
        for path in lock::clear_leftovers(&place.private(), &known, &place.common_dir.join("refs"))?
        {
            tracing::info!(path = %path.display(), "removed a lock of ours whose owner is dead");
        }
        let repaired = repair::after_crash(&repo, &place);
        match repaired {
            Ok(0) => {}
            Ok(paths) => tracing::info!(paths, "finished a commit that a crash had cut short"),
            Err(err) => tracing::warn!(%err, "could not look after a crash"),
        }
        let objects = Objects::new(&repo);
        let identity = fs::identity(&place.root)?;
        let settings = SettingsStamp::take(&repo, &place);
        let has_wip = wip::tip(&repo, &options.host)?.is_some();
        let held = held_list::load(&place)?;
        Ok(Self {
            options: options.clone(),
            place,
            repo,
            objects,
            index: None,
            settings,
            identity,
            held,
            let_through: Default::default(),
            staged_gone: Default::default(),
            has_wip,
            is_unfinished: false,
        })
    }

    /// Reads git's settings again where their files changed.
    pub(super) fn follow_settings(&mut self) -> Result<(), GitError> {
        let now = SettingsStamp::take(&self.repo, &self.place);
        if now != self.settings {
            git("read Git's settings", self.repo.reload().map(|_| ()))?;
            self.settings = now;
        }
        Ok(())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        repair::close(&self.place);
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
        let stamp = |path: PathBuf| {
            let meta = fs::stat(&path).ok()?;
            Some((meta.modified().ok()?, meta.len()))
        };
        Self(paths.into_iter().map(stamp).collect())
    }
}

/// The repository that holds `root`, and where `root` lies in it.
fn find(root: &Path) -> Result<(gix::Repository, Place), OpenError> {
    let root = fs::canonicalize(root)?;
    if let Some(git_dir) = dot_git_above(&root) {
        if fs::lstat_if_there(&git_dir.join("reftable"))?.is_some() {
            return Err(OpenError::Reftable(root));
        }
        let config = fs::read_if_there(&git_dir.join("config"))?.unwrap_or_default();
        let config = config.to_ascii_lowercase();
        if config.contains_str("objectformat") && config.contains_str("sha256") {
            return Err(OpenError::Sha256(root));
        }
    }
    let (path, _) = match gix::discover::upwards(&root) {
        Ok(found) => found,
        Err(_) => return Err(OpenError::NotARepository(root)),
    };
    let (git_dir, work_dir) = path.into_repository_and_work_tree_directories();
    let opened = gix::ThreadSafeRepository::open(work_dir.as_deref().unwrap_or(&git_dir));
    let mut repo = git("open the repository", opened)?.to_thread_local();
    if repo.git_dir_trust() != gix::sec::Trust::Full {
        return Err(OpenError::ForeignOwner(root));
    }
    let Some(workdir) = repo.workdir() else {
        return Err(OpenError::Bare(root));
    };
    let workdir = fs::canonicalize(workdir)?;
    let git_dir = fs::canonicalize(repo.git_dir())?;
    let common_dir = fs::canonicalize(repo.common_dir())?;
    let Ok(prefix) = root.strip_prefix(&workdir) else {
        // The folder lies inside a `.git`.
        return Err(OpenError::Bare(root));
    };
    let prefix: BString = prefix.as_os_str().as_encoded_bytes().into();
    repo.object_cache_size_if_unset(4 << 20);
    let place = Place { root, workdir, git_dir, common_dir, prefix };
    if !place.prefix.is_empty() && is_prefix_ignored(&repo, &place)? {
        return Err(OpenError::Ignored { vault: place.root, repository: place.workdir });
    }
    Ok((repo, place))
}

/// The nearest `.git` folder at or above `path`, where it is a folder.
fn dot_git_above(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .map(|it| it.join(".git"))
        .find(|it| fs::stat(it).is_ok_and(|meta| meta.is_dir()))
}

fn is_prefix_ignored(repo: &gix::Repository, place: &Place) -> Result<bool, GitError> {
    use gix::index::entry::Mode;
    use gix::worktree::stack::state::ignore::Source;
    let index = git("read the index", repo.index_or_empty())?;
    if !index.prefixed_entries(place.prefix_slash().as_bstr()).unwrap_or_default().is_empty() {
        return Ok(false);
    }
    let rules = repo.excludes(&index, None, Source::WorktreeThenIdMappingIfNotSkipped);
    let mut rules = git("read the ignore rules", rules)?;
    let path = gix::path::from_bstr(place.prefix.as_bstr());
    let path = git("read the ignore rules", path)?;
    let found = rules.at_path(path, Some(Mode::DIR)).map(|it| it.is_excluded());
    git("read the ignore rules", found)
}

/// Keeps what is ours out of git, without a file in the vault.
fn exclude(place: &Place, options: &Options) -> Result<(), OpenError> {
    let path = place.common_dir.join("info/exclude");
    let mut text = fs::read_if_there(&path)?.unwrap_or_default();
    let lines = options
        .excluded
        .iter()
        .map(|folder| [b"/", place.prefix_slash().as_slice(), folder.as_bytes(), b"/"].concat())
        .chain(options.ignored.iter().map(|pattern| {
            // Only in the vault, where that is a part of the repository.
            match place.prefix_slash().as_slice() {
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
        let written: Result<(), PathError> = fs::create_dir_all(&place.common_dir.join("info"))
            .and_then(|()| fs::write_atomic(&path, &text));
        written?;
    }
    Ok(())
}

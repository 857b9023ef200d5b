//! Finds the repository that holds a vault, or says why it cannot be used.
//!
//! Takes the vault's folder, gives the opened repository and where the vault lies in it. Looks
//! upward as git does, never by the environment. Any thread.
//!
//! **Invariant:** what is opened is opened with full trust, its settings all read, or not at all;
//! and what git itself would refuse to read is refused here with the reason.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gix::bstr::{BString, ByteSlice as _};

use crate::base::fs::{self, PathError};
use crate::base::trouble::Trouble;
use crate::history::error::{GitError, git};
use crate::history::missing;
use crate::history::place::Place;
use crate::history::shared::Shared;

/// Why a vault's repository was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{}` is not in a Git repository", .0.display())]
    NotARepository(PathBuf),
    #[error("`{}` is a bare repository, which has no files", .0.display())]
    Bare(PathBuf),
    #[error("`{}` lies inside a repository's own `{}`", vault.display(), git_dir.display())]
    InsideGitDir { vault: PathBuf, git_dir: PathBuf },
    #[error("`{}` keeps its references in the reftable format, which remd cannot read", .0.display())]
    Reftable(PathBuf),
    #[error("The repository at `{}` uses {what}, which remd does not know", at.display())]
    Unsupported { at: PathBuf, what: String },
    #[error(
        "Owner mismatch: `{}` belongs to user {owner}, remd runs as user {}", path.display(), current_user()
    )]
    ForeignOwner { path: PathBuf, owner: u32, top: PathBuf },
    #[error("`{}` is ignored by the repository at `{}`", vault.display(), repository.display())]
    Ignored { vault: PathBuf, repository: PathBuf },
    #[error("`{}` points to `{}`, which is no repository", file.display(), to.display())]
    Dangling { file: PathBuf, to: PathBuf },
    #[error("`{}` is there but is no Git repository: {why}", path.display())]
    Broken { path: PathBuf, why: &'static str },
    #[error("The Git settings in `{}` cannot be read", path.display())]
    Settings { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "The repository of `{}` has its files at `{}` (`core.worktree`)", vault.display(), worktree.display()
    )]
    Elsewhere { vault: PathBuf, worktree: PathBuf },
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl OpenError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotARepository(path) => format!("Run `remd init {}`.", path.display()),
            Self::Bare(_) => {
                "Give the folder with the notes, not its repository: `git clone` it somewhere."
                    .to_owned()
            }
            Self::InsideGitDir { git_dir, .. } => match git_dir.parent() {
                Some(top) => format!("Give the folder with the notes, as `{}`.", top.display()),
                None => "Give the folder with the notes.".to_owned(),
            },
            Self::Reftable(path) => {
                format!("Run `git -C '{}' refs migrate --ref-format=files`.", path.display())
            }
            Self::Unsupported { .. } => {
                "Give remd a fresh `git clone` of it, or a newer remd.".to_owned()
            }
            Self::ForeignOwner { path, top, .. } => format!(
                "If you trust it: `git config --global --add safe.directory '{}'`; if it is yours: \
                 `sudo chown -R \"$USER\" '{}'`.",
                top.display(),
                path.display()
            ),
            Self::Ignored { vault, repository } => format!(
                "Give it a repository of its own: `git init '{}'`; or take it out of the ignore \
                 rules of `{}` (`git check-ignore -v` names the rule).",
                vault.display(),
                repository.display()
            ),
            Self::Dangling { file, .. } => format!(
                "Bring the repository back; if it moved, run `git worktree repair '{}'` in its \
                 new place, or correct the path in the file.",
                file.parent().unwrap_or(file).display()
            ),
            Self::Broken { path, why: NO_HEAD } => {
                missing::remedy_of_head(&path.join("HEAD"), None)
            }
            Self::Broken { path, .. } => format!(
                "Repair it, or move it away (`mv '{0}' '{0}.broken'`) and run again.",
                path.display()
            ),
            Self::Settings { path, .. } => {
                format!("`git config --list --file '{}'` names the line; mend it.", path.display())
            }
            Self::Elsewhere { worktree, .. } => {
                format!("Give that folder: `remd up '{}'`.", worktree.display())
            }
            Self::Disk(err) => match Trouble::of(&err.source) {
                Some(trouble) => trouble.hint().to_owned(),
                None => format!("Check `{}`.", err.path.display()),
            },
            Self::Git(err) => err.hint(),
        })
    }
}

/// The repository that holds `root`, and where `root` lies in it.
pub(super) fn find(root: &Path) -> Result<(gix::Repository, Place), OpenError> {
    let root = fs::canonicalize(root)?;
    let dot_git = dot_git_of(&root)?;
    let git_dir = resolve(&dot_git)?;
    let common_dir = common_dir_of(&git_dir)?;
    check_format(&root, &common_dir)?;
    let repo = open(&root, &dot_git, &git_dir)?;
    let Some(workdir) = repo.workdir() else {
        return Err(OpenError::Bare(root));
    };
    let workdir = fs::canonicalize(workdir)?;
    let git_dir = fs::canonicalize(repo.git_dir())?;
    let common_dir = fs::canonicalize(repo.common_dir())?;
    let Ok(prefix) = root.strip_prefix(&workdir) else {
        return Err(OpenError::Elsewhere { vault: root, worktree: workdir });
    };
    let prefix: BString = prefix.as_os_str().as_encoded_bytes().into();
    let shared = Shared::of(&repo)?;
    let place = Place { root, dot_git, workdir, git_dir, common_dir, prefix, shared };
    if !place.prefix.is_empty() && is_prefix_ignored(&repo, &place)? {
        return Err(OpenError::Ignored { vault: place.root, repository: place.workdir });
    }
    Ok((repo, place))
}

/// Opens it again, with the settings as they are now.
///
/// Not by the git directory: one that lies elsewhere does not know its work tree.
pub(super) fn reopen(place: &Place) -> Result<gix::Repository, GitError> {
    open_trusted(&place.dot_git)
}

/// The `.git` at or above `root`: as git looks for it, up to the end of the file system.
fn dot_git_of(root: &Path) -> Result<PathBuf, OpenError> {
    let device = fs::identity(root)?.0;
    for at in root.ancestors() {
        if fs::identity(at)?.0 != device {
            break;
        }
        let dot_git = at.join(".git");
        if let Some(meta) = fs::lstat_if_there(&dot_git)? {
            let is_file = fs::stat(&dot_git).unwrap_or(meta).is_file();
            match what_is_missing(&dot_git)? {
                _ if is_file => return Ok(dot_git),
                None => return Ok(dot_git),
                // Above the vault git looks past it; in the vault it was meant.
                Some(why) if at == root => return Err(OpenError::Broken { path: dot_git, why }),
                Some(_) => {}
            }
        }
        if at.file_name().is_some_and(|it| it == ".git") || what_is_missing(at)?.is_none() {
            return Err(match at == root && at.file_name().is_some_and(|it| it != ".git") {
                true => OpenError::Bare(root.to_owned()),
                false => OpenError::InsideGitDir { vault: root.to_owned(), git_dir: at.to_owned() },
            });
        }
    }
    Err(OpenError::NotARepository(root.to_owned()))
}

const NO_HEAD: &str = "it has no `HEAD`";

/// What a folder lacks to be a git directory; `None` where it is one.
fn what_is_missing(git_dir: &Path) -> Result<Option<&'static str>, PathError> {
    let has = |name: &str| fs::lstat_if_there(&git_dir.join(name)).map(|it| it.is_some());
    // Without these two a `HEAD` would not help.
    Ok(if !has("commondir")? && !has("objects")? {
        Some("it has no `objects`")
    } else if !has("commondir")? && !has("refs")? {
        Some("it has no `refs`")
    } else if !has("HEAD")? {
        Some(NO_HEAD)
    } else {
        None
    })
}

/// Where a `.git` leads: itself, or what the file names.
fn resolve(dot_git: &Path) -> Result<PathBuf, OpenError> {
    if fs::stat(dot_git)?.is_dir() {
        return Ok(dot_git.to_owned());
    }
    let text = fs::read(dot_git)?;
    let Some(to) = text.strip_prefix(b"gitdir:") else {
        let why = "the file does not begin with `gitdir:`";
        return Err(OpenError::Broken { path: dot_git.to_owned(), why });
    };
    let to = dot_git.parent().unwrap_or(dot_git).join(to_path(to));
    match what_is_missing(&to)? {
        None => Ok(to),
        Some(_) => Err(OpenError::Dangling { file: dot_git.to_owned(), to }),
    }
}

/// The directory that holds what all work trees share.
fn common_dir_of(git_dir: &Path) -> Result<PathBuf, OpenError> {
    let file = git_dir.join("commondir");
    let Some(text) = fs::read_if_there(&file)? else { return Ok(git_dir.to_owned()) };
    let to = git_dir.join(to_path(&text));
    match what_is_missing(&to)? {
        None => Ok(to),
        Some(_) => Err(OpenError::Dangling { file, to }),
    }
}

/// A path as git's own files hold it: to the end of the line.
fn to_path(text: &[u8]) -> &std::ffi::OsStr {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::OsStr::from_bytes(text.trim())
}

/// What remd can live with of the extensions that a repository may have.
const EXTENSIONS: [&str; 8] = [
    "noop",
    "noop-v1",
    "objectformat",
    "partialclone",
    "preciousobjects",
    "refstorage",
    "relativeworktrees",
    "worktreeconfig",
];

/// Refuses what remd, or git itself, could only half understand.
fn check_format(root: &Path, common_dir: &Path) -> Result<(), OpenError> {
    let path = common_dir.join("config");
    let Some(text) = fs::read_if_there(&path)? else { return Ok(()) };
    let meta = gix::config::file::Metadata::from(gix::config::Source::Local);
    let file = gix::config::File::from_bytes_no_includes(&text, meta, Default::default())
        .map_err(|source| OpenError::Settings { path: path.clone(), source: source.into() })?;
    let unsupported = |what: String| OpenError::Unsupported { at: root.to_owned(), what };
    let version = file.string("core.repositoryformatversion").unwrap_or_else(|| "0".into());
    if !matches!(version.as_slice(), b"0" | b"1") {
        return Err(unsupported(format!("repository format version {version}")));
    }
    for section in file.sections_by_name("extensions").into_iter().flatten() {
        for (name, value) in section.body() {
            let name = name.to_ascii_lowercase();
            match (name.as_str(), value.as_slice()) {
                ("refstorage", b"files") | ("objectformat", b"sha1" | b"sha256") => {}
                ("refstorage", b"reftable") => return Err(OpenError::Reftable(root.to_owned())),
                ("refstorage" | "objectformat", _) => {
                    return Err(unsupported(format!("`extensions.{name} = {value}`")));
                }
                // Before version 1 git itself looks past what it does not know.
                (known, _) if version == "0" || EXTENSIONS.contains(&known) => {}
                _ => return Err(unsupported(format!("the extension `{name}`"))),
            }
        }
    }
    match fs::lstat_if_there(&common_dir.join("reftable"))? {
        Some(_) => Err(OpenError::Reftable(root.to_owned())),
        None => Ok(()),
    }
}

/// Opens it with full trust: its files are this user's, or the user's settings say that they trust
/// them (`safe.directory`).
fn open(root: &Path, dot_git: &Path, git_dir: &Path) -> Result<gix::Repository, OpenError> {
    let top = dot_git.parent().unwrap_or(dot_git);
    let foreign = [dot_git, git_dir, top].into_iter().find(|it| !is_ours(it));
    let opened = gix::ThreadSafeRepository::open(dot_git);
    let Some(foreign) = foreign else {
        let repo = git("open the repository", opened)?.to_thread_local();
        return match repo.git_dir_trust() {
            gix::sec::Trust::Full => Ok(with_cache(repo)),
            // Its `core.worktree` is somebody else's.
            _ => Err(foreign_owner(repo.workdir().unwrap_or(root))),
        };
    };
    let Ok(repo) = opened else { return Err(foreign_owner(foreign)) };
    let repo = repo.to_thread_local();
    if repo.git_dir_trust() != gix::sec::Trust::Full {
        return Err(foreign_owner_at(foreign, repo.workdir().unwrap_or(top)));
    }
    // Once more: what was opened before its trust was known has dropped the settings that lie
    // outside the work tree.
    Ok(open_trusted(dot_git)?)
}

fn open_trusted(dot_git: &Path) -> Result<gix::Repository, GitError> {
    let options = gix::open::Options::default().with(gix::sec::Trust::Full);
    let opened = gix::ThreadSafeRepository::open_opts(dot_git, options);
    Ok(with_cache(git("open the repository", opened)?.to_thread_local()))
}

fn with_cache(mut repo: gix::Repository) -> gix::Repository {
    repo.object_cache_size_if_unset(4 << 20);
    repo
}

fn is_ours(path: &Path) -> bool {
    gix::sec::identity::is_path_owned_by_current_user(path).unwrap_or(false)
}

fn foreign_owner(path: &Path) -> OpenError {
    foreign_owner_at(path, path)
}

fn foreign_owner_at(path: &Path, top: &Path) -> OpenError {
    let owner = fs::lstat(path).map_or(0, |it| it.uid());
    OpenError::ForeignOwner { path: path.to_owned(), owner, top: top.to_owned() }
}

fn current_user() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
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

//! Makes a vault, or takes a folder as it is.
//!
//! Takes a path; leaves a Git repository there, with the template's notes only where nothing was.
//! Blocking, before any thread runs.
//!
//! **Invariant:** what is there is never moved, rewritten or deleted; killed half-way, the next
//! call finishes what the first one began.

use std::path::{Path, PathBuf};

use crate::base::fs::{self, PathError};
use crate::config::Settings;
use crate::daemon::{ground, settings, template};
use crate::history::{self, History, OpenError, Options};
use crate::vault::Layout;

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    FromTemplate,
    /// A folder with files, or a repository, that no agent has run on.
    Adopted,
    Already,
}

/// Why there is no vault.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("`{}` is not a folder", .0.display())]
    NotAFolder(PathBuf),
    #[error("`{}` is a symlink that leads nowhere", .0.display())]
    LeadsNowhere(PathBuf),
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error(transparent)]
    Git(#[from] OpenError),
}

impl CreateError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotAFolder(_) => Some("Name a folder: `remd up ~/memory`.".to_owned()),
            Self::LeadsNowhere(_) => {
                Some("Mount the disk that it leads to, or correct the symlink.".to_owned())
            }
            Self::Disk(err) if err.kind() == std::io::ErrorKind::PermissionDenied => {
                Some("Choose a folder that you may write to.".to_owned())
            }
            Self::Disk(_) => None,
            Self::Git(err) => err.hint(),
        }
    }
}

/// Stands in the Git folder while the template is being laid down.
const PENDING: &str = "remd/template-pending";

enum State {
    /// Nothing there, or an empty folder.
    Empty,
    /// Files, but no repository.
    Folder,
    Repository {
        git_dir: PathBuf,
    },
}

/// Makes the vault at `root` by the settings, or finds that it is there.
pub fn create(root: &Path, settings: &Settings) -> Result<Made, CreateError> {
    let options = super::options(settings);
    let made = make(root, settings, &options)?;
    settings::settle_layout(root, settings.layout_name)?;
    Ok(made)
}

fn make(root: &Path, settings: &Settings, options: &Options) -> Result<Made, CreateError> {
    match state(root)? {
        State::Empty => {
            fs::create_dir_all(root)?;
            History::init(root, options)?;
            let git_dir = root.join(".git");
            let pending = git_dir.join(PENDING);
            if let Some(folder) = pending.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write_atomic(&pending, b"")?;
            lay_template(root, settings)?;
            fs::remove_file(&pending)?;
            Ok(Made::FromTemplate)
        }
        State::Folder => {
            History::init(root, options)?;
            keep_foreign_stores(root, &settings.layout)?;
            Ok(Made::Adopted)
        }
        State::Repository { git_dir } => {
            let pending = git_dir.join(PENDING);
            if fs::lstat_if_there(&pending)?.is_some() {
                lay_template(root, settings)?;
                fs::remove_file(&pending)?;
                return Ok(Made::FromTemplate);
            }
            // Another vault in the same repository says nothing of this one.
            if settings::is_settled(root)? {
                return Ok(Made::Already);
            }
            keep_foreign_stores(root, &settings.layout)?;
            Ok(Made::Adopted)
        }
    }
}

/// Whether there is nothing at `root` yet: no folder, or an empty one.
pub fn is_empty(root: &Path) -> Result<bool, CreateError> {
    Ok(matches!(state(root)?, State::Empty))
}

/// What [`create`] would do, for people: a line each.
pub fn plan(root: &Path, settings: &Settings) -> Result<Vec<String>, CreateError> {
    let at = root.display();
    let mut lines = match state(root)? {
        State::Empty => vec![format!(
            "would make a vault at `{at}`: a Git repository with {} files from the template",
            template::FILES.len()
        )],
        State::Folder => {
            vec![format!("would make the folder `{at}` a Git repository and commit it as it is")]
        }
        State::Repository { .. } => {
            let mut lines = vec![format!("would use the repository at `{at}` as it is")];
            lines.extend(history::shape(root)?.lines());
            lines
        }
    };
    lines.push(layout_line(settings));
    lines
        .extend(ground::of(root).into_iter().map(|it| format!("note: {}: {}", it.what, it.remedy)));
    Ok(lines)
}

/// Which layout is in use, for people.
pub fn layout_line(settings: &Settings) -> String {
    let layout = &settings.layout;
    format!(
        "layout {}: `{}/` for days, `{}/` for conversations, `{}/` for what is derived",
        settings.layout_name, layout.daily, layout.session, layout.metadata
    )
}

fn state(root: &Path) -> Result<State, CreateError> {
    let Ok(meta) = fs::stat(root) else {
        // A dangling symlink is a mistake, not a place for a vault.
        return match fs::lstat_if_there(root)? {
            None => Ok(State::Empty),
            Some(meta) if meta.is_symlink() => Err(CreateError::LeadsNowhere(root.to_owned())),
            Some(_) => Err(CreateError::NotAFolder(root.to_owned())),
        };
    };
    if !meta.is_dir() {
        return Err(CreateError::NotAFolder(root.to_owned()));
    }
    if let Some(git_dir) = history::git_dir_of(root)? {
        return Ok(State::Repository { git_dir });
    }
    Ok(if fs::read_dir(root)?.is_empty() { State::Empty } else { State::Folder })
}

/// Where the stores of the program that kept this vault before stay as they were.
const BEFORE: &str = "before-remd";

/// Keeps what another program derived (ReMe names its stores as we do), for the day it is wanted
/// again: second names of the files, so that nothing is moved and nothing copied.
fn keep_foreign_stores(root: &Path, layout: &Layout) -> Result<(), CreateError> {
    let metadata = root.join(&layout.metadata);
    let kept = metadata.join(BEFORE);
    // Ours has an index beside its stores.
    if fs::lstat_if_there(&metadata.join("keyword_index/meta.json"))?.is_some()
        || fs::lstat_if_there(&kept)?.is_some()
    {
        return Ok(());
    }
    if fs::lstat_if_there(&metadata)?.is_none() {
        return Ok(());
    }
    for folder in fs::read_dir(&metadata)? {
        if !folder.file_type().is_ok_and(|it| it.is_dir()) {
            continue;
        }
        let kept = kept.join(folder.file_name());
        for entry in fs::read_dir(&folder.path())? {
            if entry.file_type().is_ok_and(|it| it.is_file()) {
                fs::create_dir_all(&kept)?;
                fs::hard_link(&entry.path(), &kept.join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

/// Writes every file of the template that is not there.
fn lay_template(root: &Path, settings: &Settings) -> Result<(), CreateError> {
    for (path, text) in template::FILES {
        let content = template::content(path, text, &settings.layout, settings.layout_name);
        let path = root.join(path);
        if fs::lstat_if_there(&path)?.is_some() {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write_atomic(&path, content.as_bytes())?;
    }
    // For the first note of a day; Git knows no empty folder.
    fs::create_dir_all(&root.join(&settings.layout.daily))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_vault_gets_the_template_and_twice_is_harmless() {
        let dir = tempfile::tempdir().unwrap();
        let vault = dir.path().join("deep/memory");
        assert_eq!(create(&vault, &Settings::default()).unwrap(), Made::FromTemplate);
        for (path, content) in template::FILES {
            assert_eq!(fs::read(&vault.join(path)).unwrap(), content.as_bytes(), "{path}");
        }
        fs::write_atomic(&vault.join(template::FILES[0].0), b"mine").unwrap();
        create(&vault, &Settings::default()).unwrap();
        assert_eq!(fs::read(&vault.join(template::FILES[0].0)).unwrap(), b"mine");
    }

    #[test]
    fn killed_half_way_the_next_call_finishes() {
        let dir = tempfile::tempdir().unwrap();
        let vault = dir.path().join("memory");
        fs::create_dir_all(&vault).unwrap();
        History::init(&vault, &Options::default()).unwrap();
        let git_dir = vault.join(".git");
        fs::create_dir_all(&git_dir.join("remd")).unwrap();
        fs::write_atomic(&git_dir.join(PENDING), b"").unwrap();
        assert_eq!(create(&vault, &Settings::default()).unwrap(), Made::FromTemplate);
        assert!(template::FILES.iter().all(|(path, _)| vault.join(path).exists()));
        assert_eq!(create(&vault, &Settings::default()).unwrap(), Made::Already);
    }

    #[test]
    fn a_folder_with_files_is_taken_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write_atomic(&dir.path().join("note.md"), b"mine\n").unwrap();
        assert_eq!(create(dir.path(), &Settings::default()).unwrap(), Made::Adopted);
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().iter().map(|it| it.file_name()).collect();
        names.sort();
        assert_eq!(names, [".git", "note.md"], "nothing but the repository is added");
        let file = dir.path().join("note.md");
        assert!(matches!(create(&file, &Settings::default()), Err(CreateError::NotAFolder(_))));
    }
}

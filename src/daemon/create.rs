//! Makes a vault, or takes a folder as it is.
//!
//! Takes a path; leaves a Git repository there, with the template's notes only where nothing was.
//! Blocking, before any thread runs.
//!
//! **Invariant:** what is there is never moved, rewritten or deleted; killed half-way, the next
//! call finishes what the first one began.

use std::path::{Path, PathBuf};

use crate::base::fs::{self, PathError};
use crate::daemon::template;
use crate::history::{self, History, OpenError, Options};

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
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error(transparent)]
    Git(#[from] OpenError),
}

impl CreateError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotAFolder(_) => Some("Name a folder: `remd up ~/memory`.".to_owned()),
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

/// Makes the vault at `root`, or finds that it is there.
pub fn create(root: &Path, options: &Options) -> Result<Made, CreateError> {
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
            lay_template(root)?;
            fs::remove_file(&pending)?;
            Ok(Made::FromTemplate)
        }
        State::Folder => {
            History::init(root, options)?;
            Ok(Made::Adopted)
        }
        State::Repository { git_dir } => {
            let pending = git_dir.join(PENDING);
            if fs::lstat_if_there(&pending)?.is_some() {
                lay_template(root)?;
                fs::remove_file(&pending)?;
                return Ok(Made::FromTemplate);
            }
            let known = fs::lstat_if_there(&git_dir.join("remd"))?.is_some();
            Ok(if known { Made::Already } else { Made::Adopted })
        }
    }
}

/// Whether there is nothing at `root` yet: no folder, or an empty one.
pub fn is_empty(root: &Path) -> Result<bool, CreateError> {
    Ok(matches!(state(root)?, State::Empty))
}

/// What [`create`] would do, for people.
pub fn plan(root: &Path) -> Result<String, CreateError> {
    let at = root.display();
    Ok(match state(root)? {
        State::Empty => format!(
            "would make a vault at `{at}`: a Git repository with {} files from the template",
            template::FILES.len()
        ),
        State::Folder => {
            format!("would make the folder `{at}` a Git repository and commit it as it is")
        }
        State::Repository { .. } => format!("would use the repository at `{at}` as it is"),
    })
}

fn state(root: &Path) -> Result<State, CreateError> {
    let Ok(meta) = fs::stat(root) else {
        // A dangling symlink is a mistake, not a place for a vault.
        return match fs::lstat_if_there(root)? {
            None => Ok(State::Empty),
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

/// Writes every file of the template that is not there.
fn lay_template(root: &Path) -> Result<(), CreateError> {
    for (path, content) in template::FILES {
        let path = root.join(path);
        if fs::lstat_if_there(&path)?.is_some() {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write_atomic(&path, content.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_vault_gets_the_template_and_twice_is_harmless() {
        let dir = tempfile::tempdir().unwrap();
        let vault = dir.path().join("deep/memory");
        assert_eq!(create(&vault, &Options::default()).unwrap(), Made::FromTemplate);
        for (path, content) in template::FILES {
            assert_eq!(fs::read(&vault.join(path)).unwrap(), content.as_bytes(), "{path}");
        }
        fs::write_atomic(&vault.join(template::FILES[0].0), b"mine").unwrap();
        create(&vault, &Options::default()).unwrap();
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
        assert_eq!(create(&vault, &Options::default()).unwrap(), Made::FromTemplate);
        assert!(template::FILES.iter().all(|(path, _)| vault.join(path).exists()));
        assert_eq!(create(&vault, &Options::default()).unwrap(), Made::Already);
    }

    #[test]
    fn a_folder_with_files_is_taken_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write_atomic(&dir.path().join("note.md"), b"mine\n").unwrap();
        assert_eq!(create(dir.path(), &Options::default()).unwrap(), Made::Adopted);
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().iter().map(|it| it.file_name()).collect();
        names.sort();
        assert_eq!(names, [".git", "note.md"], "nothing but the repository is added");
        let file = dir.path().join("note.md");
        assert!(matches!(create(&file, &Options::default()), Err(CreateError::NotAFolder(_))));
    }
}

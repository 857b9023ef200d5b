//! Finds the vault a command is about.
//!
//! Takes the arguments, the environment, the current folder and the user's settings; gives an
//! absolute path. **Invariant:** a command never guesses: where nothing names a vault, it says so.

use std::path::{Component, Path, PathBuf};

use crate::base::fs;
use crate::cli::report::CliError;
use crate::config::{self, Dirs};
use crate::history::vaults_at;

/// The vault by `--vault` or `REMD_VAULT` (both in `named`), the current folder upward, or the
/// user's default. It must exist.
pub fn vault(named: Option<&Path>, dirs: &Dirs) -> Result<PathBuf, CliError> {
    let found = match named {
        Some(dir) => dir.to_owned(),
        None => match upward()? {
            Some(dir) => dir,
            None => default_vault(dirs)?.ok_or_else(nothing_named)?,
        },
    };
    there(&found)
}

/// The same for a command that an agent may answer whose vault was moved away: where nothing is,
/// the path that it had. See [`require`].
pub fn served(named: Option<&Path>, dirs: &Dirs) -> Result<PathBuf, CliError> {
    match (vault(named, dirs), named) {
        (Err(_), Some(dir)) if fs::stat(dir).is_err() => Ok(as_far_as_it_goes(dir)?),
        (found, _) => found,
    }
}

/// Says that no vault is at `dir`, where that is so.
pub fn require(dir: &Path) -> Result<(), CliError> {
    there(dir).map(drop)
}

fn there(dir: &Path) -> Result<PathBuf, CliError> {
    let found = fs::canonicalize(dir).map_err(|err| match err.is_absent() {
        true => CliError::new(format!("There is nothing at `{}`", dir.display())).hint(format!(
            "Mount its disk, look for a slip in the name, or make a vault there: `remd up {}`.",
            dir.display()
        )),
        false => CliError::from_error(&err),
    })?;
    match fs::stat(&found)?.is_dir() {
        true => Ok(found),
        false => Err(CliError::new(format!("`{}` is not a folder", found.display()))
            .hint("A vault is a folder of notes; name that.")),
    }
}

/// The path with every symlink resolved that is there.
fn as_far_as_it_goes(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    // As many as the kernel follows.
    for _ in 0..40 {
        let mut done = PathBuf::new();
        let mut parts = path.components();
        let link = loop {
            match parts.next() {
                None => return Ok(done),
                Some(Component::ParentDir) => {
                    done.pop();
                }
                Some(part) => match fs::read_link(&done.join(part)) {
                    Ok(to) => break done.join(to),
                    Err(_) => done.push(part),
                },
            }
        };
        path = link.join(parts.as_path());
    }
    Ok(path)
}

/// The same for a command that may make the vault: it need not exist.
pub fn vault_to_make(
    dir: Option<&Path>,
    named: Option<&Path>,
    dirs: &Dirs,
) -> Result<PathBuf, CliError> {
    let found = match dir.or(named) {
        Some(dir) => dir.to_owned(),
        None => match upward()? {
            Some(dir) => dir,
            None => default_vault(dirs)?.ok_or_else(nothing_named)?,
        },
    };
    let found = expand_home(&found);
    if let Ok(whole) = fs::canonicalize(&found) {
        return Ok(whole);
    }
    // Not there yet: its parent may be reached through symlinks all the same.
    let absolute = std::path::absolute(&found)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => {
            Ok(fs::canonicalize(parent).map_or(absolute.clone(), |it| it.join(name)))
        }
        _ => Ok(absolute),
    }
}

fn nothing_named() -> CliError {
    CliError::new("No vault is named, and the current folder is in none").hint(
        "Name one: `remd up ~/memory`, `--vault DIR`, `REMD_VAULT`, or `vault:` in config.yaml.",
    )
}

/// The nearest folder upward that an agent has run on.
fn upward() -> Result<Option<PathBuf>, CliError> {
    let here = std::env::current_dir()?;
    let found = here.ancestors().find(|it| is_vault(it)).map(Path::to_owned);
    // One that is only adopted yet has nothing of ours in it: its repository knows.
    Ok(found.or_else(|| {
        let known = vaults_at(&here).unwrap_or_default();
        known.into_iter().filter(|it| here.starts_with(it)).max_by_key(|it| it.as_os_str().len())
    }))
}

/// Whether a folder is a vault: it has its settings file, or derived state of ours.
fn is_vault(dir: &Path) -> bool {
    [config::load::VAULT_FILE, "mem_metadata/keyword_index", "metadata/keyword_index"]
        .iter()
        .any(|it| fs::lstat(&dir.join(it)).is_ok())
}

fn default_vault(dirs: &Dirs) -> Result<Option<PathBuf>, CliError> {
    // Only the user's file counts here: there is no vault yet whose file could be read.
    let loaded = config::load(Path::new("/nonexistent"), &dirs.user_settings(), None, &[])?;
    Ok(loaded.settings.default_vault.map(|it| expand_home(Path::new(&it))))
}

/// `~/x` as the shell would read it, for values that no shell has seen.
pub fn expand_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_followed_as_far_as_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(&root.join("disk")).unwrap();
        fs::symlink(Path::new("disk"), &root.join("link")).unwrap();
        fs::symlink(Path::new("link/gone"), &root.join("memory")).unwrap();
        fs::symlink(&root.join("loop"), &root.join("loop")).unwrap();
        let check = |path: &str, to: &str| {
            assert_eq!(as_far_as_it_goes(&root.join(path)).unwrap(), root.join(to), "{path}");
        };
        check("disk", "disk");
        check("memory", "disk/gone");
        check("memory/x", "disk/gone/x");
        check("link/../memory", "disk/gone");
        check("loop", "loop");
    }
}

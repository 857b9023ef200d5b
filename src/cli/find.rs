//! Finds the vault a command is about.
//!
//! Takes the arguments, the environment, the current folder and the user's settings; gives an
//! absolute path. **Invariant:** a command never guesses: where nothing names a vault, it says so.

use std::path::{Path, PathBuf};

use crate::base::fs;
use crate::cli::report::CliError;
use crate::config::{self, Dirs};

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
    fs::canonicalize(&found).map_err(|err| {
        CliError::from_error(&err)
            .hint(format!("Make a vault there with `remd up {}`.", found.display()))
    })
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
    Ok(here.ancestors().find(|it| is_vault(it)).map(Path::to_owned))
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

//! The settings of one vault, with the layout that it was adopted by.
//!
//! Takes the vault and the user's folders, gives what `config::load` reads. Blocking, any thread.

use std::path::Path;

use crate::config::load::LoadError;
use crate::config::{self, Dirs, Loaded};
use crate::history::{self, OpenError};

/// The name under which the git directory remembers the layout.
const LAYOUT: &str = "layout";

/// Reads the settings that hold for `vault`.
pub fn load(vault: &Path, dirs: &Dirs, overrides: &[String]) -> Result<Loaded, LoadError> {
    // A repository that cannot be opened remembers nothing; whoever opens it next says why.
    let remembered = history::remembered(vault, LAYOUT).ok().flatten();
    config::load(vault, &dirs.user_settings(), remembered.as_deref(), overrides)
}

/// Whether an agent has been at work on this vault.
pub fn is_settled(vault: &Path) -> Result<bool, OpenError> {
    Ok(history::remembered(vault, LAYOUT)?.is_some())
}

/// Settles the layout of a vault, once: folders that come later do not change it.
pub fn settle_layout(vault: &Path, name: &str) -> Result<(), OpenError> {
    match history::remembered(vault, LAYOUT)? {
        Some(_) => Ok(()),
        None => history::remember(vault, LAYOUT, name),
    }
}

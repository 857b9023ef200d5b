//! Git's hooks, put into a vault's repository when it is made or its agent starts.
//!
//! Takes the vault and its settings; what cannot be written is a note in `status`, as everything
//! works without hooks. Blocking, before any thread runs.

use std::path::Path;

use crate::base::trouble::told;
use crate::config::Settings;
use crate::daemon::problems::{Level, Problems};
use crate::history::{self, OpenError};

/// Puts them there where they are wanted: nobody said no, by the settings or by taking them out.
pub fn settle(vault: &Path, settings: &Settings) -> Result<(), OpenError> {
    if settings.hooks && !history::own_hooks(vault)?.is_off {
        history::install_hooks(vault)?;
    }
    Ok(())
}

/// The same, with what went wrong in `status`.
pub fn settle_and_report(vault: &Path, settings: &Settings, problems: &Problems) {
    match settle(vault, settings) {
        Ok(()) => problems.clear("hooks"),
        Err(err) => problems.report(
            "hooks",
            Level::Note,
            &format!("Git's hooks are not in place: {}", told(&err)),
            "Nothing is lost without them: what you do in Git is seen a second later. `remd hook \
             install` tries again, `hooks: false` in the user's settings leaves them out.",
        ),
    }
}

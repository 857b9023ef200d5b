//! Arguments of `remd lint`.
//!
//! Pure.

use std::ffi::OsString;

use clap::Args;

#[derive(Debug, Args)]
pub struct LintArgs {
    /// Notes and folders; by default all notes, and resources, sessions and conflict copies only
    /// where they are named
    pub paths: Vec<OsString>,
    /// Only these checks
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = [
        "broken-link", "ambiguous-link", "bad-frontmatter", "duplicate-key", "conflict-markers",
        "bad-text", "duplicate-note", "name-trouble", "orphan",
    ])]
    pub only: Vec<String>,
    /// Have broken links lead to what they led to: what was renamed or moved is followed through the
    /// history, and what only one note is called is meant; one commit, `remd undo` takes it back
    #[arg(long)]
    pub fix: bool,
    /// Show what --fix would change, and change nothing
    #[arg(long, requires = "fix")]
    pub dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

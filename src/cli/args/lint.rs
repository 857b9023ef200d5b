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
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

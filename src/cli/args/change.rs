//! Arguments of the commands that take back and bring back.

use std::ffi::OsString;

use clap::Args;

#[derive(Debug, Args)]
pub struct UndoArgs {
    /// A commit, or `A..B` for all that B has and A has not; by default the last change that still
    /// stands
    #[arg(value_name = "REV", conflicts_with = "job")]
    pub rev: Option<String>,
    /// All that this run of a job did
    #[arg(long, value_name = "RUN")]
    pub job: Option<String>,
    /// Where later edits are on the same lines, they stay
    #[arg(long, conflicts_with = "keep_theirs")]
    pub keep_mine: bool,
    /// Where later edits are on the same lines, the old text comes back over them
    #[arg(long)]
    pub keep_theirs: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// A note or folder; `.` in the vault's own folder is all of it
    pub path: OsString,
    /// Which version: a commit, tag, date (`2026-06-01`), time or age (`2h`, `3d`, `yesterday`);
    /// what is deleted comes back as it was last
    #[arg(long, value_name = "MOMENT")]
    pub at: Option<String>,
    /// Also delete what came to the folder later
    #[arg(long)]
    pub exactly: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// A note or folder, else words: every line of a note that holds them goes
    #[arg(value_name = "TEXT|PATH", required_unless_present = "list")]
    pub what: Option<OsString>,
    /// Take it for words, also where there is a note of that name
    #[arg(long)]
    pub text: bool,
    /// What is forgotten so far, with the commits to take back
    #[arg(long, conflicts_with_all = ["what", "text", "yes", "dry_run"])]
    pub list: bool,
    /// Do it, also where many lines or notes go
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would go, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CheckpointArgs {
    /// The name; without one all that there are
    pub name: Option<String>,
    /// A sentence for the tag
    #[arg(long, short, value_name = "TEXT", default_value = "")]
    pub message: String,
    /// Say what would be named, and name nothing
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// A note or folder (also one that is gone), with all its versions and former names; else a
    /// commit: what it brought in
    #[arg(value_name = "PATH|REV")]
    pub what: OsString,
    /// Take it for a commit, also where there is a note of that name
    #[arg(long)]
    pub commit: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Say what would be erased, and erase nothing
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

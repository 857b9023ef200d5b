//! Arguments of the commands about what looks like a credential.

use std::ffi::OsString;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// What is held, what HEAD has, and what was allowed
    List(SecretsListArgs),
    /// Say that a finding is no credential: it is committed, wherever it stands in this vault
    ///
    /// What is allowed is kept among your own files, as a hash that only this machine can make.
    Allow(SecretsAllowArgs),
    /// Look for credentials in the notes as they lie on the disk, or in all that was ever committed
    ///
    /// Exit status: 0 nothing found, 1 something that is not allowed, 3 not all could be looked at.
    /// Nothing is changed or remembered, and what was found is never shown.
    Scan(SecretsScanArgs),
}

#[derive(Debug, Args)]
pub struct SecretsListArgs {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SecretsAllowArgs {
    /// A file, or a line of it
    #[arg(value_name = "PATH[:LINE]", required_unless_present = "fingerprint")]
    pub at: Option<OsString>,
    /// The finding that `remd secrets list` or `scan` shows with this fingerprint
    #[arg(long, value_name = "F", conflicts_with = "at")]
    pub fingerprint: Option<String>,
    /// Show what would be allowed, and allow nothing
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SecretsScanArgs {
    /// Only these files and folders
    pub paths: Vec<OsString>,
    /// Every content of every commit that a branch, a tag or a remote has, each once
    #[arg(long)]
    pub history: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

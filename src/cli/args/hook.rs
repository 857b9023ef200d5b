//! Arguments of `remd hook` and `remd notify`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum HookCommand {
    /// Put them into the repository, beside what is there
    Install(HookArgs),
    /// Take them out again, and leave what is not ours as it is
    Remove(HookArgs),
    /// Which are there, and why some are not; exit status 1 where one is missing
    Status(HookArgs),
}

#[derive(Debug, Args)]
pub struct HookArgs {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct NotifyArgs {
    /// What Git did, by the name of its hook, and the arguments of that
    // Nothing here may be an error: a hook would show it.
    #[arg(value_name = "EVENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub event: Vec<OsString>,
}

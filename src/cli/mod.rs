//! The command line: arguments in, data on stdout, talk on stderr, an exit code out.
//!
//! One file a group of commands. **Invariant:** `report` is the only printer.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;

use crate::base::{mapped, process};
use crate::cli::args::{Cli, Command, ConfigCommand, ModelCommand};
use crate::cli::report::{CliError, Exit};
use crate::config::Dirs;
use crate::serve::Request;

pub mod args;
mod blame;
mod change;
pub mod eval;
pub mod find;
mod forget;
mod hook;
mod lint;
pub mod log;
mod look;
pub mod models;
mod notify;
pub mod past;
mod purge;
pub mod reindex;
pub mod report;
pub mod search;
pub mod secrets;
pub mod settings;
pub mod status;
pub mod up;
mod why;

/// Runs the program.
pub fn main() -> ExitCode {
    let git_dir = std::env::var_os("GIT_DIR");
    // SAFETY: this is the first thing done; no other thread has begun.
    unsafe { process::forget_git_redirects() };
    let cli = Cli::parse();
    let exit = match run(&cli, git_dir.as_deref()) {
        Ok(exit) => exit,
        Err(err) => {
            report::error(&err);
            err.exit
        }
    };
    ExitCode::from(exit as u8)
}

fn run(cli: &Cli, git_dir: Option<&OsStr>) -> Result<Exit, CliError> {
    let dirs = Dirs::from_env();
    // Before anything that may fail.
    if let Command::Notify(args) = &cli.command {
        return Ok(notify::notify(args, cli.vault.as_deref(), git_dir, &dirs));
    }
    mapped::guard()?;
    log::install(cli.verbose, matches!(cli.command, Command::Up(_)));
    // Set to nothing is not set, as everywhere in a shell.
    let by_env = std::env::var_os("REMD_VAULT").filter(|it| !it.is_empty()).map(PathBuf::from);
    let named = cli.vault.as_deref().or(by_env.as_deref());
    let vault = || find::vault(named, &dirs);
    let served = || find::served(named, &dirs);
    match &cli.command {
        Command::Up(args) => up::up(args, named, &dirs, cli.quiet),
        Command::Init(args) => up::init(args, named, &dirs),
        Command::Status(args) => status::status(&served()?, &dirs, args),
        Command::Search(args) => search::search(&served()?, &dirs, args),
        Command::Eval(args) => eval::eval(&served()?, &dirs, args),
        Command::Similar(args) => look::similar(&served()?, &dirs, args),
        Command::Nodes(args) => look::nodes(&served()?, &dirs, args),
        Command::Traverse(args) => look::traverse(&served()?, &dirs, args),
        Command::Graph(args) => look::graph(&served()?, &dirs, args),
        Command::Tags(args) => look::tags(&served()?, &dirs, args),
        Command::Lint(args) => lint::lint(&vault()?, &dirs, args),
        Command::Log(args) => past::log(&vault()?, &dirs, args),
        Command::Show(args) => past::show(&vault()?, &dirs, args),
        Command::Diff(args) => past::diff(&vault()?, &dirs, args),
        Command::Undo(args) => change::undo(&vault()?, &dirs, args),
        Command::Restore(args) => change::restore(&vault()?, &dirs, args),
        Command::Blame(args) => blame::blame(&vault()?, args),
        Command::Forget(args) => forget::forget(&vault()?, &dirs, args),
        Command::Purge(args) => purge::purge(&vault()?, &dirs, args),
        Command::Checkpoint(args) => forget::checkpoint(&vault()?, &dirs, args),
        Command::Why(args) => why::why(&vault()?, &dirs, args),
        Command::Accept(args) => status::accept(&served()?, &dirs, args),
        Command::Pause => status::simple(&served()?, &dirs, Request::Pause, status::PROMPT),
        Command::Resume => status::simple(&served()?, &dirs, Request::Resume, status::PROMPT),
        Command::Reload => status::simple(&served()?, &dirs, Request::Reload, status::PROMPT),
        Command::Secrets(command) => secrets::secrets(&served()?, &dirs, command),
        Command::Reindex(args) => reindex::reindex(&served()?, &dirs, args),
        Command::Hook(command) => hook::hook(&vault()?, command),
        // Answered above.
        Command::Notify(_) => Ok(Exit::Done),
        Command::Unmount => up::unmount(named, &dirs, cli.quiet),
        Command::Config(ConfigCommand::List { json }) => {
            settings::list(vault().ok().as_deref(), &dirs, *json)
        }
        Command::Model(command) => {
            let vault = vault().ok();
            match command {
                ModelCommand::List { json } => models::list(vault.as_deref(), &dirs, *json),
                ModelCommand::Get(args) => models::get(args, vault.as_deref(), &dirs),
                ModelCommand::Use(args) => models::choose(args, vault.as_deref(), &dirs),
            }
        }
    }
}

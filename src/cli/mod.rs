//! The command line: arguments in, data on stdout, talk on stderr, an exit code out.
//!
//! One file a group of commands. **Invariant:** `report` is the only printer.

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
pub mod log;
mod look;
pub mod models;
pub mod past;
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
    // SAFETY: this is the first thing done; no other thread has begun.
    unsafe { process::forget_git_redirects() };
    let cli = Cli::parse();
    let exit = match run(&cli) {
        Ok(exit) => exit,
        Err(err) => {
            report::error(&err);
            err.exit
        }
    };
    ExitCode::from(exit as u8)
}

fn run(cli: &Cli) -> Result<Exit, CliError> {
    let dirs = Dirs::from_env();
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
        Command::Log(args) => past::log(&vault()?, &dirs, args),
        Command::Show(args) => past::show(&vault()?, args),
        Command::Diff(args) => past::diff(&vault()?, args),
        Command::Undo(args) => change::undo(&vault()?, &dirs, args),
        Command::Restore(args) => change::restore(&vault()?, &dirs, args),
        Command::Blame(args) => blame::blame(&vault()?, args),
        Command::Forget(args) => forget::forget(&vault()?, &dirs, args),
        Command::Checkpoint(args) => forget::checkpoint(&vault()?, &dirs, args),
        Command::Why(args) => why::why(&vault()?, &dirs, args),
        Command::Accept(args) => status::accept(&served()?, &dirs, args),
        Command::Pause => status::simple(&served()?, &dirs, Request::Pause, status::PROMPT),
        Command::Resume => status::simple(&served()?, &dirs, Request::Resume, status::PROMPT),
        Command::Reload => status::simple(&served()?, &dirs, Request::Reload, status::PROMPT),
        Command::Secrets(command) => secrets::secrets(&served()?, &dirs, command),
        Command::Reindex(args) => reindex::reindex(&served()?, &dirs, args),
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

//! Parses, runs, and turns the outcome into an exit code.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod memory;

fn main() -> ExitCode {
    remd::cli::main()
}

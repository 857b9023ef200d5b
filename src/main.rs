//! Parses, runs, and turns the outcome into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    remd::cli::main()
}

//! How fast the whole is, each figure beside what one would have without it, in the same run.
//!
//! `cargo bench --bench speed [-- NOTES… [edits=COUNT]]`, 1000 and 10000 notes unless said
//! otherwise; with `edits=10000` the agent's memory is followed over so many commits. Makes its own
//! vaults in the folder for temporary files; needs git, and `/dev/fuse` for the mount.
//!
//! Machines differ and are shared: ratios within one table are what counts, `min` is what the
//! machine can do at best.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench talks to its caller and stops at the first fault"
)]

mod agent;
mod keyword;
/// What the agent is measured with.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "../../src/memory.rs"]
mod memory;
mod snapshots;
mod table;
mod vault;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let (mut sizes, mut edits) = (Vec::<usize>::new(), 0);
    for arg in &args {
        match arg.strip_prefix("edits=") {
            Some(count) => edits = count.parse()?,
            None => sizes.push(arg.parse()?),
        }
    }
    if sizes.is_empty() {
        sizes = vec![1000, 10_000];
    }
    let mut small = None;
    for size in sizes {
        let temp = tempfile::Builder::new().prefix("remd-speed-").tempdir()?;
        let root = temp.path().canonicalize()?;
        let vault = vault::make(&root.join("memory"), size)?;
        println!(
            "\n== {size} notes, {:.1} MB, load {}",
            vault.bytes as f64 / 1e6,
            std::fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default()
        );
        table::head();
        // The agent's vault is a folder without history; the others' become repositories.
        vault::copy(&vault.root, &root.join("agent"))?;
        vault::copy(&vault.root, &root.join("git"))?;
        let mut history = snapshots::adopt(&vault, &root)?;
        keyword::build(&vault, &root)?;
        keyword::ask(&vault, &root)?;
        let edits_here = snapshots::edit(&vault, &root, &mut history, small.as_ref())?;
        small.get_or_insert(edits_here);
        drop(history);
        agent::run(&vault, &root, edits)?;
    }
    Ok(())
}

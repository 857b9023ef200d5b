//! The agent: wiring, threads, problems, status; and the answers that need no agent.
//!
//! Owns every thread. `boot` is the order of starting; stopping is its reverse.

mod allowance;
pub mod allowing;
pub mod alone;
mod auditor;
pub mod boot;
pub mod builder;
pub mod cause;
pub mod changes;
pub mod changing;
pub mod chronicler;
pub mod committer;
pub mod create;
pub mod desk;
mod drafts;
mod embedding;
pub mod encoder;
mod ending;
pub mod evaluation;
pub mod ground;
pub mod health;
pub mod hooking;
pub mod house;
pub mod in_past;
pub mod index_told;
pub mod indexer;
pub mod intake;
pub mod keeper;
pub mod leak_scan;
pub mod linting;
mod looks;
pub mod mending;
pub mod models;
pub mod offline;
pub mod packer;
pub mod pages;
pub mod problems;
pub mod pushed;
mod recent;
pub mod refused;
pub mod reindex;
pub mod reindex_vectors;
pub mod reindexing;
mod relinking;
mod reranking;
pub mod returned;
pub mod settings;
pub mod template;
pub mod unread;
pub mod unseen;
mod worker;

use crate::config::Settings;
use crate::daemon::problems::{Level, Problems};
use crate::history::{HoldPolicy, Look, Options, Secrets};
use crate::vault::VaultPath;
use crate::watch::{Scan, Skip, filter};

/// What Obsidian writes at every click, and its bin; as lines of a `.gitignore`.
const OBSIDIAN: [&str; 2] = ["**/.obsidian/workspace*.json", ".trash/"];

/// What history has to know of the settings.
pub fn options(settings: &Settings) -> Options {
    Options {
        max_file: settings.max_file,
        hold_deletions: HoldPolicy { count: settings.hold_count, share: settings.hold_share },
        secrets: Secrets { policy: settings.secrets, ..Secrets::default() },
        host: host(),
        excluded: vec![settings.layout.metadata.clone(), settings.layout.agent.clone()],
        ignored: filter::ignore_lines().chain(OBSIDIAN.map(str::to_owned)).collect(),
        ..Options::default()
    }
}

/// Adds what a scan of a folder (`None`: the whole vault) saw to a look.
fn add_scan(look: &mut Look, folder: Option<&VaultPath>, scan: Scan) {
    match look.found.is_empty() {
        // Sorted at once, which is faster than one by one.
        true => look.found = scan.found.into_iter().collect(),
        false => look.found.extend(scan.found),
    }
    look.complete_below.push(folder.cloned());
    look.hidden_below
        .extend(scan.skipped.into_iter().filter(|it| it.1 == Skip::OtherDevice).map(|it| it.0));
}

/// This machine's name; `localhost` where it has none that can stand in a reference's name.
fn host() -> String {
    let name = crate::base::fs::read(std::path::Path::new("/proc/sys/kernel/hostname"));
    let name = name.ok().and_then(|it| String::from_utf8(it).ok()).unwrap_or_default();
    let name: String =
        name.trim().chars().filter(|it| it.is_ascii_alphanumeric() || *it == '-').collect();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// Shows what was odd in the settings files.
fn report_settings(problems: &Problems, warnings: &[String]) {
    match warnings {
        [] => problems.clear("settings"),
        [first, rest @ ..] => problems.report(
            "settings",
            Level::Warning,
            &match rest.len() {
                0 => format!("A line of the settings has no effect: {first}"),
                more => format!("{} lines of the settings have no effect: {first}", more + 1),
            },
            "`remd config list` shows all settings and warnings; a mended file is noticed by itself.",
        ),
    }
}

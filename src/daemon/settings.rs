//! The settings of one vault, with the layout that it was adopted by.
//!
//! Takes the vault and the user's folders, gives what `config::load` reads; tells what an edit of
//! the files means to a running agent. Blocking, any thread.
//!
//! **Invariant:** new settings hold when somebody asks for it ([`reload`]), never by an edit alone:
//! an edit is looked at by itself, and what it would do or what is wrong with it is shown.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::trouble::told;
use crate::base::{clock, fault, fs};
use crate::config::load::{LoadError, VAULT_FILE};
use crate::config::{self, Dirs, Loaded, Settings};
use crate::daemon::house::House;
use crate::daemon::models;
use crate::daemon::problems::Level;
use crate::history::{self, OpenError};
use crate::search::Rules;
use crate::search::fuse::RRF_VECTOR_WEIGHT;

/// The name under which the git directory remembers the layout.
const LAYOUT: &str = "layout";

/// Reads the settings that hold for `vault`.
pub fn load(vault: &Path, dirs: &Dirs, overrides: &[String]) -> Result<Loaded, LoadError> {
    // A repository that cannot be opened remembers nothing; whoever opens it next says why.
    let remembered = history::remembered(vault, LAYOUT).ok().flatten();
    config::load(vault, &dirs.user_settings(), remembered.as_deref(), overrides)
}

/// How a search ranks, today.
pub fn rules(settings: &Settings) -> Rules {
    let today = clock::today();
    let rank_weight = settings.vector_weight.unwrap_or(RRF_VECTOR_WEIGHT);
    Rules {
        by_rank: settings.fuse_by_rank.then_some(rank_weight),
        by_score: settings.vector_weight.filter(|_| !settings.fuse_by_rank),
        dates_from: settings.prefer_dates.then_some(today),
        recent_from: settings.recency.map(|it| (today, it)),
    }
}

/// Whether an agent has been at work on this vault.
pub fn is_settled(vault: &Path) -> Result<bool, OpenError> {
    Ok(history::remembered(vault, LAYOUT)?.is_some())
}

/// Settles the layout of a vault, once: folders that come later do not change it.
pub fn settle_layout(vault: &Path, name: &str) -> Result<(), OpenError> {
    match history::remembered(vault, LAYOUT)? {
        Some(_) => Ok(()),
        None => history::remember(vault, LAYOUT, name),
    }
}

/// Knows how the settings files were when they were last looked at.
#[derive(Debug)]
pub struct Checker {
    /// `key=value` of the command line.
    overrides: Vec<String>,
    seen: Mutex<Option<[Stamp; 2]>>,
}

/// What changes with every edit of a file: its inode, size, and the time of its last change.
/// `None` where it is not there.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Checker {
    pub fn new(overrides: Vec<String>) -> Self {
        Self { overrides, seen: Mutex::default() }
    }

    // A panic between leaves a look too many.
    fn lock(&self) -> MutexGuard<'_, Option<[Stamp; 2]>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamps(house: &House) -> [Stamp; 2] {
    [house.vault.join(VAULT_FILE), house.dirs.user_settings()].map(|it| {
        let meta = fs::stat(&it).ok()?;
        Some((meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec()))
    })
}

/// What a reload did.
pub struct Reloaded {
    /// Whether folders are called otherwise, which holds from the next start on.
    pub layout_moved: bool,
    pub warnings: Vec<String>,
}

/// Reads the settings again; keeps the last good ones where that fails.
pub fn reload(house: &House) -> Result<Reloaded, LoadError> {
    let loaded = read(house, &mut house.checker.lock())?;
    let layout_moved = loaded.settings.layout != house.settings.get().layout;
    house.settings.set(loaded.settings);
    house.problems.clear(CHANGED);
    Ok(Reloaded { layout_moved, warnings: loaded.warnings })
}

/// Looks whether somebody edited a settings file, and shows what that means: two `stat`s where
/// nobody did.
pub fn look(house: &House) {
    let mut seen = house.checker.lock();
    // The file of a vault that is gone is not deleted.
    if *seen == Some(stamps(house)) || !house.is_vault_there() {
        return;
    }
    match read(house, &mut seen) {
        Ok(loaded) if !loaded.settings.are_as(&house.settings.get()) => house.problems.report(
            CHANGED,
            Level::Note,
            "The settings were changed, and the agent goes by the old ones",
            "`remd reload` takes the new ones.",
        ),
        Ok(_) | Err(_) => house.problems.clear(CHANGED),
    }
}

/// Reads the files, and shows what is wrong with them, if something is.
fn read(house: &House, seen: &mut Option<[Stamp; 2]>) -> Result<Loaded, LoadError> {
    let now = stamps(house);
    let read = fs::at("read", &house.vault.join(VAULT_FILE), fault::error("settings.read"))
        .map_err(LoadError::from)
        .and_then(|()| load(&house.vault, &house.dirs, &house.checker.overrides));
    // What cannot be read may be readable later without an edit.
    *seen = Some(now).filter(|_| !matches!(read, Err(LoadError::Read(_))));
    tell_open_key(house);
    match &read {
        Ok(loaded) => {
            house.problems.clear("settings-error");
            super::report_settings(&house.problems, &loaded.warnings);
        }
        Err(err) => house.problems.report(
            "settings-error",
            Level::Error,
            &told(err),
            "The last good settings go on; mend the file, which is noticed by itself.",
        ),
    }
    read
}

fn tell_open_key(house: &House) {
    match models::is_key_open(&house.dirs) {
        true => house.problems.report(
            OPEN_KEY,
            Level::Note,
            "Others on this machine can read the key in your settings file",
            &format!("chmod 600 '{}'", house.dirs.user_settings().display()),
        ),
        false => house.problems.clear(OPEN_KEY),
    }
}

/// The problem that says that a key is not kept from others.
const OPEN_KEY: &str = "settings-mode";
/// The problem that says that a reload would change something.
const CHANGED: &str = "settings-changed";

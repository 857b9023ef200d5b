//! Our own hooks in a person's repository.
//!
//! Takes a vault; says which of our hooks are in its repository, puts them there, takes them away.
//! Whatever is there keeps running: a script of sh gets our block, anything else is left alone and
//! said. Any thread.
//!
//! **Invariant:** nothing but the repository's own folder of hooks is written to: never the work
//! tree, never a folder that other repositories use, never through a symlink.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;

use crate::base::fs::{self, PathError};
use crate::history::find::{OpenError, find};
use crate::history::hook_text::{self, HOOKS, Part, Rest};
use crate::history::hooks::folder_of;
use crate::history::place::Place;

/// A hook of more bytes is nobody's script.
const LONGEST: u64 = 1 << 20;
/// Our folder in the git directory keeps under this name where in the work tree a vault lies.
const WHERE: &str = "vault";
/// … and under this one that a person wants no hooks.
const OFF: &str = "no-hooks";

/// How one of our hooks is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HookState {
    /// It is there.
    Installed,
    /// It is there, from another version of remd.
    Outdated,
    Missing,
    /// Something else is there, and why our block cannot be in it.
    LeftAlone(String),
}

/// One of our hooks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnHook {
    pub name: &'static str,
    pub path: PathBuf,
    pub state: HookState,
}

/// All of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnHooks {
    /// Where Git looks for hooks.
    pub folder: PathBuf,
    /// Whether a person has taken them away.
    pub is_off: bool,
    pub hooks: Vec<OwnHook>,
}

impl OwnHooks {
    /// Whether all are there and of this version.
    pub fn are_installed(&self) -> bool {
        self.hooks.iter().all(|it| it.state == HookState::Installed)
    }

    /// Why some are not, each reason once.
    pub fn left_alone(&self) -> Vec<&str> {
        let mut reasons: Vec<&str> = Vec::new();
        for hook in &self.hooks {
            if let HookState::LeftAlone(why) = &hook.state
                && !reasons.contains(&why.as_str())
            {
                reasons.push(why);
            }
        }
        reasons
    }
}

/// Our hooks in the repository that holds `root`.
pub fn own_hooks(root: &Path) -> Result<OwnHooks, OpenError> {
    let (repo, place) = find(root)?;
    let folder = folder_of(&repo, &place);
    let barred = barred(&folder, &place, repo.config_snapshot().string("core.hooksPath").is_some());
    let mut hooks = Vec::new();
    for (name, script) in HOOKS {
        let path = folder.join(name);
        let state = match &barred {
            Some(why) => HookState::LeftAlone(why.clone()),
            None => state(&path, script)?,
        };
        hooks.push(OwnHook { name, path, state });
    }
    let is_off = fs::lstat_if_there(&place.own(OFF))?.is_some();
    Ok(OwnHooks { folder, is_off, hooks })
}

/// Puts our hooks there, as far as they can be; gives how they are then.
pub fn install_hooks(root: &Path) -> Result<OwnHooks, OpenError> {
    let (_, place) = find(root)?;
    let prefix = place.prefix.as_bytes();
    if fs::read_if_there(&place.own(WHERE))?.is_none_or(|it| it != prefix) {
        place.keep(&place.own(WHERE), prefix)?;
    }
    fs::remove_file(&place.own(OFF))?;
    let found = own_hooks(root)?;
    for (hook, (_, script)) in found.hooks.iter().zip(HOOKS) {
        match hook.state {
            HookState::Missing => write_new(&place, &hook.path, script)?,
            HookState::Outdated => {
                let text = fs::read(&hook.path)?;
                if let Ok(text) = hook_text::with_block(&text, script) {
                    fs::write_atomic(&hook.path, &text)?;
                }
            }
            HookState::Installed | HookState::LeftAlone(_) => {}
        }
    }
    own_hooks(root)
}

/// Takes away what is ours, and keeps in mind that it is not wanted; says where it was.
pub fn remove_hooks(root: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let (_, place) = find(root)?;
    place.keep(&place.own(OFF), b"")?;
    let mut removed = Vec::new();
    for path in removable(root)? {
        match hook_text::without_block(&fs::read(&path)?) {
            Rest::Nothing => fs::remove_file(&path)?,
            Rest::Text(text) => fs::write_atomic(&path, &text)?,
        }
        removed.push(path);
    }
    Ok(removed)
}

/// The hooks that have a block of ours that can be taken out, also those that Git does not run any
/// more since it was told of another folder.
pub fn removable(root: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let (repo, place) = find(root)?;
    let mut folders = vec![folder_of(&repo, &place), place.common_dir.join("hooks")];
    folders.dedup();
    folders.retain(|it| barred(it, &place, true).is_none());
    let mut paths = Vec::new();
    for path in folders.iter().flat_map(|it| HOOKS.iter().map(move |(name, _)| it.join(name))) {
        let is_file = fs::lstat_if_there(&path)?
            .is_some_and(|it| it.is_file() && it.nlink() == 1 && it.len() <= LONGEST);
        let has_block = || fs::read(&path).map(|it| hook_text::part(&it, ""));
        if is_file && matches!(has_block()?, Part::Block { .. }) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// The vaults of the repository whose work tree holds `here`, as far as they have asked for hooks.
pub fn vaults_at(here: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let (_, place) = find(here)?;
    let mut vaults = Vec::new();
    for entry in fs::read_dir(&place.private())? {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|it| it.strip_prefix(WHERE)) else { continue };
        if !rest.is_empty() && !rest.starts_with('-') {
            continue;
        }
        let prefix = fs::read_regular(&entry.path(), 4096)?;
        let Ok(prefix) = prefix.to_path() else { continue };
        let is_below = prefix.components().all(|it| matches!(it, std::path::Component::Normal(_)));
        if is_below {
            vaults.push(place.workdir.join(prefix));
        }
    }
    Ok(vaults)
}

/// Whether the hook at `path` is ours from its first line to its last.
pub(super) fn is_ours_alone(path: &Path, size: u64, name: &str) -> bool {
    let Some((_, script)) = HOOKS.iter().find(|it| it.0 == name) else { return false };
    let is_as_long = u64::try_from(script.len()).is_ok_and(|it| it == size);
    is_as_long && fs::read(path).is_ok_and(|it| it == script.as_bytes())
}

fn write_new(place: &Place, path: &Path, script: &str) -> Result<(), PathError> {
    if let Some(text) = fs::read_if_there(path)? {
        // It can take our block, or it would not be missing.
        let Ok(text) = hook_text::with_block(&text, script) else { return Ok(()) };
        return fs::write_atomic(path, &text);
    }
    if let Some(folder) = path.parent() {
        place.shared.create_dir_all(folder)?;
    }
    fs::write_atomic(path, script.as_bytes())?;
    // Whoever may read it may run it, as in git's own templates.
    let mode = fs::stat(path)?.mode() & 0o777;
    fs::set_mode(path, mode | (mode & 0o444) >> 2)?;
    place.shared.adjust(path)
}

/// Why nothing may be written in the folder of hooks.
fn barred(folder: &Path, place: &Place, is_set: bool) -> Option<String> {
    let shown = folder.display();
    let is_own = |path: &Path| path.starts_with(&place.common_dir);
    let Ok(whole) = fs::canonicalize(folder) else {
        return match is_set && !is_own(folder) {
            true => Some(format!("`core.hooksPath` leads to `{shown}`, where nothing is")),
            false => None,
        };
    };
    if is_own(&whole) {
        return None;
    }
    let whose = match whole.starts_with(&place.workdir) {
        true if shown.to_string().contains("/.husky") => "husky's, in the work tree",
        true => "in the work tree, among what is committed",
        false => "outside the repository, where other repositories may use it",
    };
    Some(match is_set {
        true => format!("`core.hooksPath` leads to `{shown}`: {whose}"),
        false => format!("`{shown}` is a link to a folder {whose}"),
    })
}

fn state(path: &Path, script: &str) -> Result<HookState, PathError> {
    let left = |why: &str| Ok(HookState::LeftAlone(format!("`{}`: {why}", path.display())));
    let Some(meta) = fs::lstat_if_there(path)? else { return Ok(HookState::Missing) };
    if meta.is_symlink() {
        return left("it is a symlink");
    }
    if !meta.is_file() || meta.len() > LONGEST {
        return left("it is no script");
    }
    if meta.nlink() > 1 {
        return left("it has a second name elsewhere");
    }
    if meta.mode() & 0o111 == 0 {
        return left("it may not be executed, so Git does not run it");
    }
    let text = fs::read(path)?;
    match hook_text::part(&text, script) {
        Part::Block { is_current: true } => Ok(HookState::Installed),
        Part::Block { is_current: false } => Ok(HookState::Outdated),
        Part::None | Part::Broken => match hook_text::with_block(&text, script) {
            Ok(_) => Ok(HookState::Missing),
            Err(why) => left(&why.to_string()),
        },
    }
}

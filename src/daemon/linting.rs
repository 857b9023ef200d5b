//! Looks over a vault for what a person may want to mend.
//!
//! Takes a view of the index, the files of its commit and, where a link leads nowhere, the names on
//! the disk; gives what was found. Any thread.
//!
//! **Invariant:** no note is opened: what it says stands in the index.

use std::collections::{BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::base::trouble::told;
use crate::base::{clock, fs};
use crate::config::{Dirs, Settings};
use crate::daemon::boot::BootError;
use crate::daemon::changing::NotChanged;
use crate::daemon::mending::{self, Decided};
use crate::daemon::{alone, offline};
use crate::history::{ReadError, Reader};
use crate::index::IndexView;
use crate::render::changed::Outcome;
use crate::render::lint::Linted;
use crate::search::lint::{self, Beside, Check, Part, Seen, Survey};
use crate::serve::protocol::{Fix, LintAsked, Wish};
use crate::vault::VaultPath;
use crate::vault::resolve::{NameKey, key_of_file};

/// How long the names on the disk may be looked through.
const DISK_LIMIT: Duration = Duration::from_secs(3);

/// The part of the vault that is asked for; nothing where a path makes no sense.
pub fn part(asked: &LintAsked) -> Option<Part> {
    let paths: Option<Vec<VaultPath>> =
        asked.paths.iter().map(|it| VaultPath::from_hex(it)).collect();
    Some(Part { paths: paths?, only: asked.only.iter().copied().collect::<BTreeSet<Check>>() })
}

/// All links of the view and where they lead.
pub fn survey(vault: &Path, reader: &Reader, view: &IndexView) -> Result<Survey, ReadError> {
    let files = match view.at() {
        Some(at) => reader.list(at)?,
        None => Vec::new(),
    };
    let beside = Beside::new(view, files.iter().map(|it| &it.0));
    let until = clock::now() + DISK_LIMIT;
    Ok(lint::survey(view, beside, |keys| on_disk(vault, view, keys, until)))
}

/// What is to be mended in a part of the vault.
pub fn linted(view: &IndexView, survey: &Survey, part: &Part) -> Linted {
    let asked = view.notes().iter().filter(|it| part.has(it));
    let (mut notes, mut links) = (0, 0);
    for card in asked {
        notes += 1;
        links += card.links.len();
    }
    let findings = lint::findings(view, survey, part);
    Linted {
        commit: view.at(),
        notes,
        links,
        findings: findings.into_iter().map(Into::into).collect(),
        partial: view.at().is_none().then(|| "the index is not built yet".to_owned()),
        ..Linted::default()
    }
}

/// The same where no agent runs: by the last index and what was committed since.
pub fn without_agent(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    asked: &LintAsked,
    progress: &dyn Fn(usize, usize),
) -> Result<Linted, NotChanged> {
    let part = part(asked).unwrap_or_default();
    match asked.fix {
        Fix::Nothing => Ok(surveyed(vault, dirs, settings, &part, progress)?.0),
        Fix::Rehearse => {
            let (linted, decided) = decided(vault, dirs, settings, &part, progress)?;
            let Decided { mends, left, cut } = decided;
            let mut changed = alone::rehearse(vault, &Wish::Mend { mends })?;
            changed.mended.get_or_insert_default().add(left, cut);
            Ok(Linted { fix: Some(changed), ..linted })
        }
        Fix::Mend => {
            // What is on disk is committed before it is looked at.
            let mends = |_: &Reader| -> Result<(Linted, Wish, _), NotChanged> {
                let (linted, decided) = decided(vault, dirs, settings, &part, progress)?;
                let Decided { mends, left, cut } = decided;
                Ok((linted, Wish::Mend { mends }, (left, cut)))
            };
            let (linted, mut changed, (left, cut)) =
                alone::change_what(vault, dirs, settings, mends)
                    .map_err(|err| not_begun(&err))??;
            let linted = match changed.outcome {
                Outcome::Done => surveyed(vault, dirs, settings, &part, progress)?.0,
                _ => linted,
            };
            changed.mended.get_or_insert_default().add(left, cut);
            Ok(Linted { fix: Some(changed), ..linted })
        }
    }
}

fn not_begun(err: &BootError) -> NotChanged {
    NotChanged { hint: err.hint(), ..NotChanged::new(told(err), "") }
}

fn decided(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    part: &Part,
    progress: &dyn Fn(usize, usize),
) -> Result<(Linted, Decided), NotChanged> {
    let (linted, reader, survey) = surveyed(vault, dirs, settings, part, progress)?;
    if let Some(why) = &linted.partial {
        let message = format!("Nothing is changed, as not all is known: {why}");
        return Err(NotChanged::new(message, "`remd status` says more; then ask again."));
    }
    let decided = match linted.commit {
        Some(at) => {
            mending::decide(&reader, at, &survey, part).map_err(|err| NotChanged::read(&err))?
        }
        None => Decided::default(),
    };
    Ok((linted, decided))
}

fn surveyed(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    part: &Part,
    progress: &dyn Fn(usize, usize),
) -> Result<(Linted, Reader, Survey), NotChanged> {
    let ready = offline::ready(vault, dirs, settings, progress)
        .map_err(|err| NotChanged::new(err.message, &err.hint))?;
    let reader = Reader::open(vault).map_err(|err| {
        NotChanged::new(told(&err), &err.hint().unwrap_or_else(|| "`remd status`.".to_owned()))
    })?;
    let survey = survey(vault, &reader, &ready.view).map_err(|err| NotChanged::read(&err))?;
    let mut linted = linted(&ready.view, &survey, part);
    linted.partial = ready.partial.or(linted.partial);
    Ok((linted, reader, survey))
}

/// The names on the disk: Git ignores some that links lead to. Folders that
/// are hidden or ours are left out, and links to folders are not followed.
fn on_disk(vault: &Path, view: &IndexView, keys: &HashSet<NameKey>, until: Instant) -> Seen {
    let layout = view.layout();
    let ours = [layout.metadata.as_bytes(), layout.agent.as_bytes()];
    let mut seen = Seen::default();
    let mut folders = vec![vault.to_owned()];
    while let Some(folder) = folders.pop() {
        if clock::now() >= until {
            tracing::debug!("not all names on the disk were looked at");
            break;
        }
        // One that cannot be read hides at most a file that a link leads to.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let name = entry.file_name();
            let kind = entry.file_type();
            let is_folder = kind.as_ref().is_ok_and(|it| it.is_dir());
            let is_wanted = is_folder || keys.contains(&key_of_file(name.as_bytes()));
            if !is_wanted || name.as_bytes().starts_with(b".") {
                continue;
            }
            let whole = entry.path();
            let Some(path) =
                whole.strip_prefix(vault).ok().and_then(|it| VaultPath::from_os(it).ok())
            else {
                continue;
            };
            match kind {
                Ok(kind) if kind.is_dir() => {
                    if !ours.contains(&path.as_bytes()) {
                        folders.push(whole);
                        seen.folders.push(path);
                    }
                }
                Ok(_) => seen.files.push(path),
                Err(_) => {}
            }
        }
    }
    seen
}

//! Writes history once, without an agent.
//!
//! Takes the vault's lock for as long as that takes, commits what is on disk, and does what else is
//! asked for. Blocking, the command's thread.
//!
//! **Invariant:** where an agent runs, nothing is done here: it is the only writer.

use std::path::Path;

use crate::base::lock::DirLock;
use crate::config::{Dirs, Settings};
use crate::daemon::allowing;
use crate::daemon::boot::{BootError, MountWish, filter, take_lock};
use crate::daemon::changing::{self, Meant, NotChanged};
use crate::history::{Cause, CauseKind, History, Kept, Look, Options, Reader, Snapshot};
use crate::render::changed::Changed;
use crate::serve::protocol::Wish;
use crate::watch;

/// Commits what is there once: for `remd init`.
///
/// Gives the subject of the commit, if there was anything to commit.
pub fn commit_once(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    adopting: bool,
    progress: impl Fn(usize, usize) + Send + 'static,
) -> Result<Option<String>, BootError> {
    let lock = match take_lock(vault, dirs) {
        // It commits by itself.
        Err(BootError::AnotherAgent { .. }) => return Ok(None),
        taken => taken?,
    };
    let kind = if adopting { CauseKind::Adopt } else { CauseKind::Edit };
    let (_, snapshot) = committed(vault, dirs, &lock, settings, kind, progress)?;
    for (path, why) in snapshot.kept_out.iter().filter(|it| matches!(it.1, Kept::Secret { .. })) {
        tracing::warn!("`{path}` is held off the branch: {why}. {}", why.hint(path));
    }
    Ok(snapshot.head.map(|it| it.subject))
}

/// Commits all that is on disk, and gives the history.
fn committed(
    vault: &Path,
    dirs: &Dirs,
    _lock: &DirLock,
    settings: &Settings,
    kind: CauseKind,
    progress: impl Fn(usize, usize) + Send + 'static,
) -> Result<(History, Snapshot), BootError> {
    let secrets = allowing::secrets(dirs, vault, settings);
    let options = Options { secrets, ..super::options(settings) };
    let mut history = History::open(vault, &options)?;
    history.on_progress(progress);
    let filter = filter(settings, &MountWish::Off, vault);
    let mut ignores = history.ignores()?;
    let scan = watch::scan(vault, None, &filter, &mut |path| ignores.is_ignored(path, true))?;
    let mut look = Look::default();
    super::add_scan(&mut look, None, scan);
    let snapshot = history.snapshot(&look, &Cause { kind, ..Cause::edit() })?;
    Ok((history, snapshot))
}

/// Carries a wish out after committing what is on disk, or says what would be done on top of the
/// last commit.
pub fn change(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    wish: &Wish,
    dry_run: bool,
) -> Result<Result<Changed, NotChanged>, BootError> {
    if dry_run {
        return Ok(rehearsed(vault, wish));
    }
    let lock = take_lock(vault, dirs)?;
    let (mut history, _) = committed(vault, dirs, &lock, settings, CauseKind::Edit, |_, _| {})?;
    Ok(changing::change(&mut history, wish, &mut |_| {}).map(|it| it.0))
}

fn rehearsed(vault: &Path, wish: &Wish) -> Result<Changed, NotChanged> {
    let no = |message: String, hint: String| NotChanged::new(message, &hint);
    let reader =
        Reader::open(vault).map_err(|err| no(err.to_string(), err.hint().unwrap_or_default()))?;
    let head = reader.head().map_err(|err| no(err.to_string(), err.hint()))?;
    let head =
        head.ok_or_else(|| NotChanged::new("There is no commit yet", "Write a note first."))?;
    Meant::find(&reader, head.commit, wish)?.rehearse(&reader, head.commit)
}

//! Writes history once, without an agent.
//!
//! Takes the vault's lock for as long as that takes, commits what is on disk, and does what else is
//! asked for. Blocking, the command's thread.
//!
//! **Invariant:** where an agent runs, nothing is done here: it is the only writer.

use std::path::Path;

use crate::base::fs;
use crate::base::lock::DirLock;
use crate::config::{Dirs, Settings};
use crate::daemon::allowing;
use crate::daemon::boot::{BootError, MountWish, filter, take_lock};
use crate::daemon::changing::{self, NotChanged};
use crate::history::{
    ApplyError, Cause, CauseKind, History, Kept, Look, Options, PurgeError, PurgePlan, PurgeTarget,
    Purged, Reader, Snapshot, SnapshotError,
};
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

/// Carries a wish out after committing what is on disk.
pub fn change(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    wish: &Wish,
) -> Result<Result<Changed, NotChanged>, BootError> {
    let changed = change_what(vault, dirs, settings, |_| Ok(((), wish.clone(), ())))?;
    Ok(changed.map(|it| it.1))
}

/// Says what would be done, after committing what is on disk.
pub fn rehearse_committed(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    wish: &Wish,
) -> Result<Result<Changed, NotChanged>, BootError> {
    let lock = take_lock(vault, dirs)?;
    let (history, _) = committed(vault, dirs, &lock, settings, CauseKind::Edit, |_, _| {})?;
    Ok(changing::rehearse(&history.reader(), wish))
}

/// The same where only what is on disk, once it is committed, says what is wished.
pub fn change_what<T, U>(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    wish: impl FnOnce(&Reader) -> Result<(T, Wish, U), NotChanged>,
) -> Result<Result<(T, Changed, U), NotChanged>, BootError> {
    let lock = take_lock(vault, dirs)?;
    let (mut history, _) = committed(vault, dirs, &lock, settings, CauseKind::Edit, |_, _| {})?;
    Ok(wish(&history.reader()).and_then(|(before, wish, after)| {
        let (changed, _) = changing::change(&mut history, &wish, &mut |_| {})?;
        Ok((before, changed, after))
    }))
}

/// Says what would be done on top of the last commit; writes nothing at all.
pub fn rehearse(vault: &Path, wish: &Wish) -> Result<Changed, NotChanged> {
    let reader = Reader::open(vault)
        .map_err(|err| NotChanged::new(err.to_string(), &err.hint().unwrap_or_default()))?;
    let mut changed = changing::rehearse(&reader, wish)?;
    changed.notes.push(
        "No agent runs, and edits that no commit has are not looked at here: they are committed \
         first, and then they are the last change."
            .to_owned(),
    );
    Ok(changed)
}

/// Why nothing was erased.
#[derive(Debug, thiserror::Error)]
pub enum NotPurged {
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error(transparent)]
    Purge(#[from] PurgeError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("Nothing is erased")]
    No,
}

/// Erases from history, if `ask` says yes to what that is about; what the vault still has of a path
/// is deleted first. What is derived goes too, and is made anew by the next start.
pub fn purge(
    vault: &Path,
    dirs: &Dirs,
    settings: &Settings,
    target: &PurgeTarget,
    ask: &mut dyn FnMut(&PurgePlan) -> bool,
) -> Result<(PurgePlan, Purged), NotPurged> {
    let lock = take_lock(vault, dirs)?;
    let (mut history, _) = committed(vault, dirs, &lock, settings, CauseKind::Edit, |_, _| {})?;
    let finished = history.finish_purge()?;
    let reader = history.reader();
    let plan = reader.plan_purge(target).map_err(PurgeError::from)?;
    if plan.is_empty() {
        return Ok((plan, finished.unwrap_or_default()));
    }
    if !ask(&plan) {
        return Err(NotPurged::No);
    }
    if let PurgeTarget::Path(path) = target
        && !plan.in_head.is_empty()
    {
        history.change(&|head| reader.plan_forget_path(head, path), &Cause::edit(), &mut |_| {})?;
    }
    let purged = history.purge(target)?;
    let derived = fs::remove_derived(&vault.join(&settings.layout.metadata));
    derived.map_err(|err| PurgeError::from(SnapshotError::from(err)))?;
    Ok((plan, purged))
}

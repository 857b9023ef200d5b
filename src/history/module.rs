//! Submodules that are not as HEAD has them.
//!
//! Takes what HEAD and the index record of one and its folder, says whether `git status` names it.
//! Reads the submodule's HEAD; changes nothing. Committer thread only.
//!
//! **Invariant:** the record of a submodule is the person's: it is named, never committed.

use std::path::Path;
use std::time::Duration;

use gix::ObjectId;

use crate::base::fs;
use crate::history::kept::Kept;
use crate::history::look::Version;

/// A commit in a submodule raises no event here: it is looked at again after this.
pub(super) const LOOK: Duration = Duration::from_secs(30);

/// How the submodule at `folder` differs from HEAD; `None` where it does not, and where its folder
/// is there without a repository, which git calls clean.
pub(super) fn change(
    folder: &Path,
    staged: Option<Version>,
    in_head: Option<Version>,
) -> Option<Kept> {
    match fs::lstat_if_there(folder) {
        Ok(None) => return Some(Kept::ModuleGone),
        Ok(Some(_)) => {}
        Err(err) => {
            tracing::debug!(%err, "a submodule cannot be looked at");
            return None;
        }
    }
    let is_moved = head(folder).is_some_and(|head| staged.is_some_and(|it| it.0 != head));
    (is_moved || staged != in_head).then_some(Kept::ModuleMoved)
}

/// The commit that the repository in `folder` is at.
fn head(folder: &Path) -> Option<ObjectId> {
    if !fs::is_repository(folder) {
        return None;
    }
    let opened = gix::open_opts(folder, gix::open::Options::isolated());
    let repo = opened.inspect_err(|err| tracing::debug!(%err, "a submodule cannot be opened"));
    Some(repo.ok()?.head_id().ok()?.detach())
}

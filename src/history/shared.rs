//! Who may read and write what we make in the git directory: `core.sharedRepository`.
//!
//! Takes git's setting, gives files and folders the permission bits that git would have given them.
//! What the umask leaves is the least; the setting opens it to a group or to all, or says the bits.
//! Any thread.
//!
//! **Invariant:** a file that nobody may write stays one, and without the setting no bit changes.

use std::path::Path;

use gix::config::tree::Core;

use crate::base::fs::{self, PathError};
use crate::history::error::{GitError, git};

/// What git's setting says, as git itself encodes it; 0 leaves all to the umask.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Shared(i32);

impl Shared {
    pub fn of(repo: &gix::Repository) -> Result<Self, GitError> {
        let settings = repo.config_snapshot();
        let sections = settings.plumbing().sections_by_name("core").into_iter().flatten();
        // A name without a value is a yes.
        let values = sections.filter_map(|it| it.value_implicit("sharedRepository"));
        let Some(value) = values.last() else { return Ok(Self::default()) };
        let read = Core::SHARED_REPOSITORY.try_into_shared_repository(value);
        git("read `core.sharedRepository`", read).map(Self)
    }

    /// Whether there is more to do than the umask does.
    pub fn is_set(self) -> bool {
        self.0 != 0
    }

    /// Gives what we have just made at `path` its bits.
    pub fn adjust(self, path: &Path) -> Result<(), PathError> {
        if !self.is_set() {
            return Ok(());
        }
        let now = fs::stat(path)?.permissions();
        let wanted = gix::fs::adjust_shared_repository_permissions(now.clone(), self.0);
        if now == wanted {
            return Ok(());
        }
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_mode(path, wanted.mode() & 0o7777)
    }

    /// Makes a folder and those above it that are not there.
    pub fn create_dir_all(self, path: &Path) -> Result<(), PathError> {
        if fs::stat(path).is_ok_and(|it| it.is_dir()) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.create_dir_all(parent)?;
        }
        fs::create_dir(path)?;
        self.adjust(path)
    }
}

//! Which paths git ignores.
//!
//! Takes vault paths, gives yes or no, by `.gitignore` on the way, `.git/info/exclude` and the
//! user's own rules. For one thread at a time; each asker has its own.

use gix::bstr::ByteSlice as _;
use gix::index::entry::Mode;

use crate::history::error::{GitError, git};
use crate::history::place::Place;
use crate::vault::VaultPath;

/// The ignore rules as they were when this was made or last reloaded.
pub struct Ignores {
    repo: gix::Repository,
    place: Place,
    stack: gix::worktree::Stack,
}

impl Ignores {
    pub(super) fn new(repo: gix::Repository, place: Place) -> Result<Self, GitError> {
        let stack = stack(&repo)?;
        Ok(Self { repo, place, stack })
    }

    /// Reads the rules again: call it when an ignore file changed.
    pub fn reload(&mut self) -> Result<(), GitError> {
        self.stack = stack(&self.repo)?;
        Ok(())
    }

    /// Whether git ignores `path`. A tracked path may be ignored too: ask history, not this.
    pub fn is_ignored(&mut self, path: &VaultPath, is_dir: bool) -> bool {
        let rela = self.place.rela(path);
        let mode = if is_dir { Mode::DIR } else { Mode::FILE };
        let Ok(as_path) = gix::path::from_bstr(rela.as_bstr()) else { return false };
        self.stack
            .at_path(as_path.as_ref(), Some(mode), &self.repo.objects)
            .is_ok_and(|it| it.is_excluded())
    }
}

fn stack(repo: &gix::Repository) -> Result<gix::worktree::Stack, GitError> {
    use gix::worktree::stack::state::ignore::Source;
    let empty = gix::index::State::new(repo.object_hash());
    let stack = repo.excludes(&empty, None, Source::WorktreeThenIdMappingIfNotSkipped);
    git("read the ignore rules", stack.map(gix::AttributeStack::detach))
}

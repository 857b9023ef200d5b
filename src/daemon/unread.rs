//! The notes whose text Git did not give.
//!
//! Takes the index, looks again at those whose object was damaged, with growing pauses, and at those
//! that a partial clone had left out, when somebody fetched. The indexer's thread.
//!
//! **Invariant:** what still cannot be read stays named.

use std::time::SystemTime;

use crate::base::fs;
use crate::daemon::cause::Backoff;
use crate::daemon::changes::{left_out, not_in_git, update, update_or_name};
use crate::daemon::index_told::FollowError;
use crate::daemon::indexer::Indexer;
use crate::daemon::problems::Level;
use crate::index::{Card, Index, Update};
use crate::vault::Layout;

/// What to do where Git's own data is damaged.
pub(super) const DAMAGED_HISTORY: &str = "Run `git fsck` in the vault; bring what is missing from another \
    clone (`git fetch`) or a backup. The index goes on by itself then.";

impl Indexer {
    /// Looks again at the notes that Git did not give; says whether one of them came in.
    pub(super) fn read_again(
        &self,
        index: &mut Index,
        reread: &mut Backoff,
        layout: &Layout,
    ) -> Result<bool, FollowError> {
        let git_dir = &self.house.git_dir;
        let view = index.view();
        let damaged: Vec<&Card> = not_in_git(&view).collect();
        let (Some(first), Some(head)) = (damaged.first(), view.at()) else {
            reread.over();
            self.house.problems.clear("git-objects");
            return Ok(false);
        };
        if reread.is_waiting() && !reread.is_due(git_dir) {
            return Ok(false);
        }
        let what = match damaged.len() {
            1 => format!("`{}` {}", first.path, first.problems.join("; ")),
            count => format!("{count} notes, as `{}`, {}", first.path, first.problems.join("; ")),
        };
        self.house.problems.report("git-objects", Level::Error, &what, DAMAGED_HISTORY);
        let mut updates = Vec::new();
        for card in damaged {
            let entry = self.house.reader.entry(head, &card.path);
            // What still cannot be read stays named.
            if let Ok(found) =
                entry.and_then(|it| update(&self.house.reader, card.path.clone(), it, layout))
            {
                updates.push(found);
            }
        }
        reread.failed(git_dir);
        let came_in = !updates.is_empty();
        index.stage(updates, head)?;
        if came_in {
            self.publish(index.view(), None);
        }
        Ok(came_in)
    }

    /// Looks again at what a partial clone had left out, when somebody fetched; says whether one of
    /// them came in.
    pub(super) fn read_what_came(
        &self,
        index: &mut Index,
        packs: &mut Option<SystemTime>,
        layout: &Layout,
    ) -> Result<bool, FollowError> {
        let folder = fs::stat(&self.house.git_dir.join("objects/pack"));
        let now = folder.ok().and_then(|it| it.modified().ok());
        if now == *packs {
            return Ok(false);
        }
        *packs = now;
        let view = index.view();
        let Some(head) = view.at() else { return Ok(false) };
        let mut updates = Vec::new();
        for card in left_out(&view) {
            let reader = &self.house.reader;
            if let Some(entry) = reader.entry(head, &card.path)?
                && !reader.is_left_out(entry.blob)
            {
                updates.push(update_or_name(reader, card.path.clone(), Some(entry), layout)?);
            }
        }
        self.take_what_came(index, updates)
    }

    /// Takes notes that the index had by their names, at the commit that it is at; says whether there
    /// were any.
    pub(super) fn take_what_came(
        &self,
        index: &mut Index,
        updates: Vec<Update>,
    ) -> Result<bool, FollowError> {
        let came_in = !updates.is_empty();
        if let Some(head) = index.view().at().filter(|_| came_in) {
            index.stage(updates, head)?;
            self.publish(index.view(), None);
        }
        Ok(came_in)
    }
}

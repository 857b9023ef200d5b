//! What the mount asks for its views.
//!
//! Reads the index's view and the repository. Called from the mount's threads.
//!
//! **Invariant:** a page is a function of the view: what it tells of history is as of the commit that
//! the view is of.

use std::time::Instant;

use crate::base::clock;
use crate::base::trouble::told;
use crate::daemon::desk::Desk;
use crate::history::{BlameError, LogEntry, LogFilter, ReadError};
use crate::index::{Card, IndexView};
use crate::mount::{Named, Tagged, Told, Unanswered, ViewPage, Views, Written};
use crate::render;
use crate::render::AsOf;
use crate::render::views::Today;
use crate::search::{care, tags};
use crate::vault::{CommitId, Role, VaultPath};

/// Links in `recent/`.
const RECENT: usize = 50;
/// Commits in `log.md`.
const LOGGED: usize = 200;
/// Commits of a day that `today.md` tells.
const OF_TODAY: usize = 500;

impl Views for Desk {
    fn view_page(&self, page: ViewPage, until: Instant) -> Result<Written, Unanswered> {
        self.look_at_edits();
        let view = self.ready()?;
        let as_of = self.as_of(&view, |_| true);
        let vault = &self.house.vault;
        Ok(match page {
            ViewPage::Orphans => {
                let found = care::orphans(&view, until);
                let bytes = render::views::orphans(&found, vault, &as_of);
                Written { bytes, is_part: found.is_part }
            }
            ViewPage::BrokenLinks => {
                let files = match view.at() {
                    Some(at) => self.house.reader.list(at).map_err(|err| failed(&err))?,
                    None => Vec::new(),
                };
                let files = files.into_iter().map(|it| it.0);
                let found = care::broken_links(&view, files, until);
                let bytes = render::views::broken_links(&found, vault, &as_of);
                Written { bytes, is_part: found.is_part }
            }
            ViewPage::Today => self.today(&view, &as_of, until)?,
            ViewPage::Log => {
                let filter = LogFilter { path: None, limit: LOGGED + 1 };
                let mut entries = self.log(view.at(), &filter)?;
                let is_all = entries.len() <= LOGGED;
                entries.truncate(LOGGED);
                let bytes = render::views::log(entries, is_all, &as_of);
                Written { bytes, is_part: false }
            }
        })
    }

    fn told(
        &self,
        path: &VaultPath,
        told: Told,
        until: Instant,
    ) -> Result<Option<Written>, Unanswered> {
        let view = self.ready()?;
        if view.note(path).is_none() {
            return Ok(None);
        }
        let as_of = self.as_of(&view, |it| it.path == *path);
        let reader = &self.house.reader;
        Ok(Some(match told {
            Told::History => {
                let versions = match view.at() {
                    Some(at) => reader.versions_from(at, path, usize::MAX),
                    None => Ok(Vec::new()),
                };
                let versions = versions.map_err(|err| failed(&err))?;
                let bytes = render::views::history(path, &versions, &as_of);
                Written { bytes, is_part: false }
            }
            Told::Blame => {
                let blame = match view.at().map(|at| reader.blame(at, path, None, until)) {
                    // No commit has the note yet, or none has it in lines.
                    None | Some(Err(BlameError::NoNote { .. })) => Default::default(),
                    Some(Ok(blame)) => blame,
                    Some(Err(err @ BlameError::Stored { .. })) => {
                        let bytes = format!("{err}.\n-- 0 lines{}\n", as_of.text()).into_bytes();
                        return Ok(Some(Written { bytes, is_part: false }));
                    }
                    Some(Err(err)) => {
                        return Err(Unanswered::Failed(crate::base::trouble::told(&err)));
                    }
                };
                let bytes = render::blame::text(path, &as_of.text(), &blame);
                Written { bytes, is_part: blame.partial.is_some() }
            }
        }))
    }

    fn recent(&self, until: Instant) -> Result<(Vec<Named>, bool), Unanswered> {
        self.look_at_edits();
        let view = self.ready()?;
        let is_note = |it: &Card| it.role.is_note();
        // What no commit has yet was changed last.
        let drafts = view.notes().iter().filter(|it| it.is_uncommitted() && is_note(it));
        let mut notes: Vec<VaultPath> = drafts.map(|it| it.path.clone()).take(RECENT).collect();
        let mut is_part = false;
        if let Some(at) = view.at() {
            let takes =
                |it: &VaultPath| view.note(it).is_some_and(|it| is_note(it)) && !notes.contains(it);
            let most = RECENT - notes.len();
            let found = self.house.reader.changed_last(at, most, &takes, until);
            let (paths, cut) = found.map_err(|err| failed(&err))?;
            is_part = cut;
            notes.extend(paths);
        }
        let named = notes.into_iter().filter_map(|it| Some(named(view.note(&it)?)));
        Ok((named.collect(), is_part))
    }

    fn tagged(&self, tag: Option<&str>) -> Result<Option<Tagged>, Unanswered> {
        self.look_at_edits();
        let view = self.ready()?;
        Ok(tags::below(&view, tag).map(|it| Tagged {
            parts: it.parts,
            notes: it.notes.iter().map(|it| named(it)).collect(),
        }))
    }
}

impl Desk {
    fn ready(&self) -> Result<std::sync::Arc<IndexView>, Unanswered> {
        self.index_view().ok_or_else(|| Unanswered::NotYet("the index is being opened".to_owned()))
    }

    fn log(&self, at: Option<CommitId>, filter: &LogFilter) -> Result<Vec<LogEntry>, Unanswered> {
        match at {
            Some(at) => self.house.reader.log_from(at, filter).map_err(|err| failed(&err)),
            None => Ok(Vec::new()),
        }
    }

    fn today(&self, view: &IndexView, as_of: &AsOf, until: Instant) -> Result<Written, Unanswered> {
        let layout = &self.house.settings.get().layout;
        let day = clock::today().to_string();
        let pages =
            [format!("{}/{day}.md", layout.daily), format!("{}/{day}/index.md", layout.daily)];
        let pages = pages.iter().filter_map(|it| VaultPath::new(it).ok());
        let page = pages.into_iter().find_map(|it| view.note(&it)).map(|it| named(it));
        let of_day = view
            .notes()
            .iter()
            .filter(|it| it.role == Role::Note && it.date.as_deref() == Some(day.as_str()));
        let notes = of_day.map(|it| {
            (it.path.clone(), it.name.to_string(), it.description.as_deref().map(str::to_owned))
        });
        let mut today =
            Today { day: day.clone(), page, notes: notes.collect(), ..Today::default() };
        if let Some(at) = view.at() {
            let mut walk = self.house.reader.walk(Some(at), None).map_err(|err| failed(&err))?;
            while let Some(mut entry) = walk.step().map_err(|err| failed(&err))? {
                if !entry.when().starts_with(&day) {
                    break;
                }
                if clock::now() >= until || today.changes.len() >= OF_TODAY {
                    today.is_part = true;
                    break;
                }
                walk.fill(&mut entry).map_err(|err| failed(&err))?;
                today.changes.push(entry);
            }
        }
        let bytes = render::views::today(&today, &self.house.vault, as_of);
        Ok(Written { bytes, is_part: today.is_part })
    }
}

fn named(card: &Card) -> Named {
    (card.path.clone(), card.name.to_string())
}

fn failed(err: &ReadError) -> Unanswered {
    Unanswered::Failed(told(err))
}

//! Pages of the past.
//!
//! Takes a place in the past, asks Git by way of the [`Past`] answers, gives the page. Runs on the
//! crews' threads.
//!
//! **Invariant:** a page of the past is a function of its commit; only which commit a name means is
//! asked anew each time.

use std::time::Instant;

use crate::mount::answers::{Answers, Means, Stored, Version};
use crate::mount::page::{Content, Page, PageError, PageKey};
use crate::mount::tree::{Moment, Node, Past, PastFile};
use crate::vault::{CommitId, Listing};

/// The page of a place in the past.
pub fn page(
    answers: &dyn Answers,
    past: &Past,
    key: &PageKey,
    until: Instant,
) -> Result<Page, PageError> {
    match past {
        Past::Named(name) => {
            let (commit, time) = answers.moment(name)?.ok_or(PageError::Absent)?;
            Ok(Page::new(Content::Moment(Moment { commit, time }), true))
        }
        Past::Folder(moment, folder) => {
            let listing = answers.folder(moment.commit, folder.as_ref())?;
            let listing = listing.ok_or(PageError::Absent)?;
            Ok(Page::new(Content::Tree(moment.commit, listing), false))
        }
        Past::File(moment, file) => file_page(answers, *moment, file, key.means),
        Past::HistoryFolder(folder) => {
            let head = answers.head().ok_or(PageError::Absent)?;
            let listing = match (answers.folder(head, folder.as_ref())?, folder) {
                (Some(listing), _) => listing,
                // What was deleted can be named, and is not listed.
                (None, Some(folder)) if answers.was_folder(head, folder)? => Listing::default(),
                (None, _) => return Err(PageError::Absent),
            };
            Ok(Page::new(Content::Tree(head, listing), false))
        }
        Past::Versions(head, path) => {
            let versions = answers.versions(*head, path, until)?;
            if versions.is_empty() {
                return Err(PageError::Absent);
            }
            Ok(Page::new(Content::Names(names(&versions)), false))
        }
        Past::Moments | Past::Link(..) => Err(PageError::Absent),
    }
}

/// A file as it was; only its size, where no more is asked and that is known without reading it.
fn file_page(
    answers: &dyn Answers,
    moment: Moment,
    file: &PastFile,
    means: Means,
) -> Result<Page, PageError> {
    let PastFile { path, blob, .. } = file;
    let stored = match means {
        Means::AtHand => answers.size(path, *blob)?,
        Means::Outside => Stored::Bytes(answers.bytes(path, *blob)?),
    };
    Ok(match stored {
        Stored::Size(size) => {
            let page = Page::of_blob(Content::Size(size), *blob, moment.time);
            Page { is_unasked: true, ..page }
        }
        Stored::Bytes(bytes) => Page::of_blob(Content::Bytes(bytes), *blob, moment.time),
    })
}

/// `12-2026-06-29-4f2c9e1.md`: counted from the oldest, so that a version keeps its name. The newest
/// comes first.
fn names(versions: &[Version]) -> Vec<(std::sync::Arc<[u8]>, Node)> {
    let numbered = versions.iter().zip((1..=versions.len()).rev());
    let names = numbered.map(|(version, number)| {
        let Version { commit, time, day, path, blob } = version;
        let mut name = format!("{number}-{day}-{}", commit.short()).into_bytes();
        if let Some(extension) = path.extension() {
            name.push(b'.');
            name.extend_from_slice(extension);
        }
        let file = PastFile { path: path.clone(), blob: *blob, is_program: false };
        let moment = Moment { commit: *commit, time: *time };
        (name.into(), Node::Past(Past::File(moment, file)))
    });
    names.collect()
}

/// Where the page of a folder in `history/` is found, which is another one after each commit.
pub fn history_view(head: CommitId) -> u64 {
    let start = head.as_bytes().first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(start)
}

//! Results as answers.
//!
//! Pure. Both doors of the agent, and the command line without one, make their pages here.

use std::path::Path;

use crate::daemon::house::Progress;
use crate::render;
use crate::search::{BranchState, Query, Results};
use crate::serve::{Answer, Form};
use crate::vault::CommitId;

/// A page of results in the form asked for.
pub fn answer(query: &Query, results: &Results, form: Form, vault: &Path) -> Answer {
    let bytes = match form {
        Form::Text => render::results::text(results),
        Form::Json => render::results::json(query, results),
        Form::Markdown => render::results::markdown(query, results, vault),
    };
    Answer::Page {
        // Pages are made from text; the lossy step changes nothing.
        text: String::from_utf8_lossy(&bytes).into_owned(),
        hits: results.hits.len(),
        partial: results.partial.is_some(),
    }
}

/// The answer while there is nothing to search yet.
pub fn not_ready(progress: Option<Progress>) -> Results {
    Results {
        hits: Vec::new(),
        at: None,
        commits_behind: 0,
        edits_uncommitted: 0,
        kept_out: 0,
        unseen: None,
        notes_in_part: 0,
        keyword: BranchState::Off("the index is being opened"),
        vector: BranchState::Off("the index is being opened"),
        partial: Some(match progress {
            Some(progress) => progress_text(progress),
            None => "the index is being opened".to_owned(),
        }),
        ranking: String::new(),
        fusion: None,
        dedup: None,
        rerank: crate::search::Rerank::Off,
    }
}

/// The answer where somebody touched the index's files: whatever they say now is not believed.
pub fn damaged(at: Option<CommitId>) -> Results {
    Results {
        at,
        keyword: BranchState::Off("the index was damaged"),
        vector: BranchState::Off("the index was damaged"),
        partial: Some(
            "another program changed the index's files; it is looked at, and made again where \
             it must be"
                .to_owned(),
        ),
        ..not_ready(None)
    }
}

/// How far a build is, for people.
pub fn progress_text(progress: Progress) -> String {
    format!("the index is being built: {} of {} notes", progress.done, progress.all)
}

//! What a vault's notes have that a person may want to mend.
//!
//! Takes a view and what lies beside its notes, gives findings. Any thread; no file is opened.
//!
//! **Invariant:** the findings are those of the notes alone, sorted, and the same however the view
//! came about.

mod links;
mod names;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use links::{Beside, Loose, LooseKind, Seen, Survey, survey};
pub use names::unlinkable;

use crate::index::{Card, IndexView};
use crate::vault::remedy::{self, Kind};
use crate::vault::{Role, VaultPath};

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    BrokenLink,
    AmbiguousLink,
    BadFrontmatter,
    DuplicateKey,
    ConflictMarkers,
    BadText,
    DuplicateNote,
    NameTrouble,
    Orphan,
}

impl Check {
    pub const ALL: [Self; 9] = [
        Self::BrokenLink,
        Self::AmbiguousLink,
        Self::BadFrontmatter,
        Self::DuplicateKey,
        Self::ConflictMarkers,
        Self::BadText,
        Self::DuplicateNote,
        Self::NameTrouble,
        Self::Orphan,
    ];

    /// As people write it.
    pub fn id(self) -> &'static str {
        match self {
            Self::BrokenLink => "broken-link",
            Self::AmbiguousLink => "ambiguous-link",
            Self::BadFrontmatter => "bad-frontmatter",
            Self::DuplicateKey => "duplicate-key",
            Self::ConflictMarkers => "conflict-markers",
            Self::BadText => "bad-text",
            Self::DuplicateNote => "duplicate-note",
            Self::NameTrouble => "name-trouble",
            Self::Orphan => "orphan",
        }
    }

    /// The check that is called so.
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.id() == id)
    }
}

/// Which notes are looked at, and what for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// Notes and folders; all notes where there are none, and of those on request (resources,
    /// sessions, conflict copies) only what is named.
    pub paths: Vec<VaultPath>,
    /// All checks where there are none.
    pub only: BTreeSet<Check>,
}

impl Part {
    /// Whether it is about this check.
    pub fn checks(&self, check: Check) -> bool {
        self.only.is_empty() || self.only.contains(&check)
    }

    /// Whether it is about this note.
    pub fn has(&self, card: &Card) -> bool {
        match self.paths.is_empty() {
            true => card.role.is_note(),
            false => self.names(&card.path),
        }
    }

    fn names(&self, path: &VaultPath) -> bool {
        self.paths.iter().any(|it| path.is_within(it.as_bytes()))
    }
}

/// Something to mend.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    pub path: VaultPath,
    pub line: Option<u32>,
    pub check: Check,
    /// One sentence without its end; names in it are as they are, and may hold anything.
    pub what: String,
    /// What to do about it.
    pub advice: String,
    /// The target of a link.
    pub target: Option<String>,
    /// The notes that it may be about, best first.
    pub candidates: Vec<VaultPath>,
}

/// All findings in a part of the vault, by path and line.
pub fn findings(view: &IndexView, surveyed: &Survey, part: &Part) -> Vec<Finding> {
    let mut found = Vec::new();
    for loose in surveyed.loose.iter().filter(|it| part.has(&it.card)) {
        let finding = loose.finding(view);
        if part.checks(finding.check) {
            found.push(finding);
        }
    }
    for card in view.troubled().iter().filter(|it| part.has(it)) {
        found.extend(problems(card).filter(|it| part.checks(it.check)));
    }
    if part.checks(Check::Orphan) {
        let lonely = surveyed.lonely.iter().filter(|it| part.has(it));
        found.extend(lonely.map(|it| orphan(it)));
    }
    if part.checks(Check::DuplicateNote) {
        found.extend(names::duplicates(view, part));
    }
    if part.checks(Check::NameTrouble) {
        found.extend(names::troubles(view, &surveyed.beside, part));
    }
    found.sort();
    found.dedup();
    found
}

fn problems(card: &Card) -> impl Iterator<Item = Finding> {
    card.problems.iter().filter_map(|problem| {
        let check = match remedy::kind_of(problem) {
            Kind::Conflict => Check::ConflictMarkers,
            Kind::DoubledKey => Check::DuplicateKey,
            Kind::Frontmatter => Check::BadFrontmatter,
            Kind::Text => Check::BadText,
            // Nothing is wrong with the note.
            Kind::Unread => return None,
        };
        let (line, what) = remedy::place_of(problem);
        Some(Finding {
            path: card.path.clone(),
            line,
            check,
            what: what.to_owned(),
            advice: remedy::of(problem).to_owned(),
            target: None,
            candidates: Vec::new(),
        })
    })
}

fn orphan(card: &Card) -> Finding {
    Finding {
        path: card.path.clone(),
        line: None,
        check: Check::Orphan,
        what: "no other note links to it".to_owned(),
        advice: "Link to it from where somebody would look for it.".to_owned(),
        target: None,
        candidates: Vec::new(),
    }
}

/// Whether a note is found by its day, not by links.
fn is_of_a_day(card: &Card) -> bool {
    card.role == Role::DayPage || crate::vault::role::date_of(&card.path).is_some()
}

#[cfg(test)]
mod tests;

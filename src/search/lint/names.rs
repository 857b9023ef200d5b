//! Names that make trouble, and notes that are there twice.
//!
//! Pure. Takes a view's cards and the names beside them.
//!
//! **Invariant:** each of several is named, and names the first of the others.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use super::{Beside, Check, Finding, Part, is_of_a_day};
use crate::index::{Card, IndexView};
use crate::vault::fold::{folded, normal};
use crate::vault::retarget::why_unlinkable;
use crate::vault::{BlobId, VaultPath};

/// Why no wikilink can hold this name.
pub fn unlinkable(path: &VaultPath) -> Option<&'static str> {
    match std::str::from_utf8(path.as_bytes()) {
        Err(_) => Some("it is not UTF-8"),
        Ok(_) => {
            let stem = std::str::from_utf8(path.stem()).unwrap_or_default();
            why_unlinkable(stem)
        }
    }
}

/// Names that cannot be linked, and those that some disks and programs take for one.
pub(super) fn troubles(view: &IndexView, beside: &Beside, part: &Part) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut twins: HashMap<Vec<u8>, Vec<&VaultPath>> = HashMap::new();
    let notes = view.notes().iter().map(|it| (&it.path, Some(it)));
    for (path, card) in notes.chain(beside.files().iter().map(|it| (it, None))) {
        twins.entry(folded(path.as_bytes()).into_owned()).or_default().push(path);
        let Some(card) = card.filter(|it| part.has(it)) else { continue };
        if let Some(why) = unlinkable(&card.path) {
            found.push(Finding {
                advice: "Give it a name without `[`, `]`, `|`, `#` and odd spaces.".to_owned(),
                ..trouble(path, format!("no wikilink can hold its name: {why}"))
            });
        }
    }
    for several in twins.values().filter(|it| it.len() > 1) {
        for path in several.iter().copied() {
            let is_asked = match view.note(path) {
                Some(card) => part.has(card),
                None => part.paths.is_empty() || part.names(path),
            };
            if !is_asked {
                continue;
            }
            let others: Vec<&VaultPath> =
                several.iter().copied().filter(|it| *it != path).collect();
            let Some(other) = others.iter().min() else { continue };
            let how = match normal(path.as_bytes()) == normal(other.as_bytes()) {
                true => "in its normal form (the accents of its letters)",
                false => "in case",
            };
            found.push(Finding {
                advice: "Rename one of them: a disk that tells them not apart keeps only one."
                    .to_owned(),
                candidates: others.iter().map(|it| (*it).clone()).collect(),
                ..trouble(path, format!("its name differs from `{other}` only {how}"))
            });
        }
    }
    found
}

fn trouble(path: &VaultPath, what: String) -> Finding {
    Finding {
        path: path.clone(),
        line: None,
        check: Check::NameTrouble,
        what,
        advice: String::new(),
        target: None,
        candidates: Vec::new(),
    }
}

/// Notes with the same text or the same title.
pub(super) fn duplicates(view: &IndexView, part: &Part) -> Vec<Finding> {
    let mut by_text: HashMap<BlobId, Vec<&Arc<Card>>> = HashMap::new();
    let mut by_title: BTreeMap<String, Vec<&Arc<Card>>> = BTreeMap::new();
    let is_counted = |it: &&Arc<Card>| it.role.is_note() || part.has(it);
    for card in view.notes().iter().filter(is_counted) {
        if !card.chunks.is_empty() {
            by_text.entry(card.blob).or_default().push(card);
        }
        // Every day may have its plan.
        if !is_of_a_day(card) {
            by_title.entry(card.name.to_lowercase()).or_default().push(card);
        }
    }
    let mut found = Vec::new();
    for several in by_text.values().filter(|it| it.len() > 1) {
        for card in several.iter().filter(|it| part.has(it)) {
            let others = others_of(card, several);
            let what = format!("it has the same text as {}", named(&others));
            let advice = "Keep one of them, and link to it.";
            found.push(duplicate(card, what, advice, others));
        }
    }
    for several in by_title.values().filter(|it| it.len() > 1) {
        // A file's name may be there in every folder; a title is given by somebody.
        for card in several.iter().filter(|it| is_titled(it) && part.has(it)) {
            let others = others_of(card, several);
            let what = format!("it has the same title (`{}`) as {}", card.name, named(&others));
            let advice = "Make one note of them, or give one another title.";
            found.push(duplicate(card, what, advice, others));
        }
    }
    found
}

/// Whether its frontmatter gives it a name that is not that of its file.
fn is_titled(card: &Card) -> bool {
    card.name.as_bytes() != card.path.stem()
}

fn others_of(card: &Card, several: &[&Arc<Card>]) -> Vec<VaultPath> {
    several.iter().filter(|it| it.path != card.path).map(|it| it.path.clone()).collect()
}

fn named(others: &[VaultPath]) -> String {
    match others {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [first, rest @ ..] => format!("`{first}` and {} more", rest.len()),
    }
}

fn duplicate(card: &Card, what: String, advice: &str, candidates: Vec<VaultPath>) -> Finding {
    Finding {
        path: card.path.clone(),
        line: None,
        check: Check::DuplicateNote,
        what,
        advice: advice.to_owned(),
        target: None,
        candidates,
    }
}

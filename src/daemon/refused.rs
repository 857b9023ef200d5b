//! The notes of which a model does not take a text.
//!
//! Takes which they are and why, and names them as a problem; they lie in a file of derived state, so
//! that a restart knows them. The indexer's thread; a command that has no agent beside it.
//!
//! **Invariant:** a note that is whole but for a text that nobody can make a vector of is named until
//! it is another note or is gone, whatever is restarted meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::fs;
use crate::base::trouble::told;
use crate::daemon::problems::{Level, Problems};
use crate::index::{Card, IndexView};
use crate::vault::{BlobId, VaultPath};

/// A note, the version of it, and why its text has no vector.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefusedNote {
    #[serde(with = "by_bytes")]
    pub path: VaultPath,
    pub blob: BlobId,
    pub why: String,
}

/// Those of the space in use.
pub(super) struct Refused {
    file: PathBuf,
    space: String,
    notes: BTreeMap<VaultPath, RefusedNote>,
}

/// What is kept: of the space of this name.
#[derive(Serialize, Deserialize)]
struct Kept {
    space: String,
    notes: Vec<RefusedNote>,
}

const FILE: &str = "embedding.refused";
const PROBLEM: &str = "embedding-refused";
const MOST_BYTES: u64 = 64 << 20;

impl RefusedNote {
    pub fn of(card: &Card, why: &str) -> Self {
        Self { path: card.path.clone(), blob: card.blob, why: why.to_owned() }
    }
}

impl Refused {
    /// Those of a space that were kept.
    pub(super) fn open(metadata: &Path, space: String) -> Self {
        let file = metadata.join(FILE);
        let kept = match fs::read_regular(&file, MOST_BYTES) {
            Ok(bytes) => serde_json::from_slice::<Kept>(&bytes).map_err(|err| err.to_string()),
            Err(err) if err.is_absent() => Err("there is none".to_owned()),
            Err(err) => Err(told(&err)),
        };
        let notes = match kept {
            Ok(kept) if kept.space == space => kept.notes,
            Ok(_) => Vec::new(),
            Err(why) => {
                tracing::debug!(why, "no names of refused notes");
                Vec::new()
            }
        };
        let notes = notes.into_iter().map(|it| (it.path.clone(), it)).collect();
        Self { file, space, notes }
    }

    /// Goes over to another space.
    pub(super) fn change(&mut self, space: String, problems: &Problems) {
        if space != self.space {
            self.space = space;
            self.notes.clear();
        }
        self.tell(problems);
    }

    /// What came of notes: those with a reason are refused.
    pub(super) fn take<'a>(
        &mut self,
        made: impl Iterator<Item = (&'a Card, Option<&'a str>)>,
        problems: &Problems,
    ) {
        let before = self.notes.clone();
        for (card, why) in made {
            match why {
                Some(why) => drop(self.notes.insert(card.path.clone(), RefusedNote::of(card, why))),
                None => drop(self.notes.remove(&card.path)),
            }
        }
        if self.notes != before {
            self.keep();
        }
        self.tell(problems);
    }

    /// All that are refused, as an index built anew has found.
    pub(super) fn replace(&mut self, notes: Vec<RefusedNote>, problems: &Problems) {
        self.notes = notes.into_iter().map(|it| (it.path.clone(), it)).collect();
        self.keep();
        self.tell(problems);
    }

    /// Forgets those that are gone, or other notes by now.
    pub(super) fn forget_gone(&mut self, view: &IndexView, problems: &Problems) {
        let before = self.notes.len();
        self.notes.retain(|path, it| view.note(path).is_some_and(|card| card.blob == it.blob));
        if self.notes.len() < before {
            self.keep();
        }
        if before > 0 {
            self.tell(problems);
        }
    }

    /// One of them.
    pub(super) fn first(&self) -> Option<&RefusedNote> {
        self.notes.values().next()
    }

    fn keep(&self) {
        let kept =
            Kept { space: self.space.clone(), notes: self.notes.values().cloned().collect() };
        let done = match self.notes.is_empty() {
            true => fs::remove_file(&self.file).or_else(|err| match err.is_absent() {
                true => Ok(()),
                false => Err(err),
            }),
            false => fs::write_atomic(&self.file, &serde_json::to_vec(&kept).unwrap_or_default()),
        };
        if let Err(err) = done {
            tracing::warn!(err = told(&err), "the names of refused notes are kept in memory only");
        }
    }

    pub(super) fn tell(&self, problems: &Problems) {
        let Some(RefusedNote { path, why, .. }) = self.notes.values().next() else {
            problems.clear(PROBLEM);
            return;
        };
        let more = and_more(self.notes.len());
        let what = format!("The model does not take a text of `{path}`{more}: {why}");
        let remedy = "Words find it all the same; an edit of the note asks again.";
        if !problems.list().iter().any(|it| it.id == PROBLEM && it.what == what) {
            problems.report(PROBLEM, Level::Note, &what, remedy);
        }
    }
}

/// Writes down what a command without an agent has found, for the next agent.
pub(super) fn keep(metadata: &Path, space: String, notes: Vec<RefusedNote>) {
    let mut refused = Refused { file: metadata.join(FILE), space, notes: BTreeMap::new() };
    refused.notes = notes.into_iter().map(|it| (it.path.clone(), it)).collect();
    refused.keep();
}

/// How many there are beside the one that is named.
pub(super) fn and_more(all: usize) -> String {
    match all.saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// A path is bytes, and not every one is text.
mod by_bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::vault::VaultPath;

    pub(super) fn serialize<S: Serializer>(path: &VaultPath, to: S) -> Result<S::Ok, S::Error> {
        path.as_bytes().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<VaultPath, D::Error> {
        VaultPath::new(Vec::<u8>::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

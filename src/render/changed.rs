//! How a change of the vault went, as text and JSON.
//!
//! Pure. **Invariant:** a path stands on one line.

use serde::{Deserialize, Serialize};

use crate::render::lint::Mended;
use crate::render::{SCHEMA_VERSION, counted, json_page};
use crate::vault::path::{c_quoted, escape};
use crate::vault::{CommitId, VaultPath};

/// Paths that a text lists before it only counts.
const LISTED: usize = 50;

/// What became of a wish to change the vault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Changed {
    pub outcome: Outcome,
    /// What was asked for: the commits that are taken back, or from which something comes back.
    pub of: Vec<Named>,
    /// The new commit.
    pub commit: Option<CommitId>,
    pub changes: Vec<ChangedPath>,
    pub overlaps: Vec<Overlapping>,
    /// What is changed, as a unified diff: of a dry run.
    pub diff: Option<String>,
    /// More that a person should know.
    pub notes: Vec<String>,
    /// Link by link, where it is about links.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mended: Option<Mended>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done,
    /// A dry run: it would be done.
    Would,
    /// Everything is so already.
    Nothing,
    /// A person must decide first.
    Overlaps,
}

/// A commit with its subject.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Named {
    pub commit: CommitId,
    pub subject: String,
    /// On its author's clock.
    pub when: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangedPath {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path_hex: Option<String>,
    /// `create`, `update` or `delete`.
    pub verb: String,
}

/// A later edit in the way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Overlapping {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path_hex: Option<String>,
    /// First and last, from 1, of the note as it is now.
    pub lines: Vec<(u32, u32)>,
    /// Those lines as they are now.
    pub text: Vec<String>,
    pub why: String,
}

impl ChangedPath {
    pub fn new(path: &VaultPath, verb: &str) -> Self {
        let (path_hex, verb) = (path.hex_if_lossy(), verb.to_owned());
        Self { path: path.lossy().into_owned(), path_hex, verb }
    }
}

impl Changed {
    /// As a person reads it: to stdout.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if let Some(diff) = &self.diff {
            out.push_str(diff);
            return out;
        }
        for it in &self.overlaps {
            let path = shown(&it.path, it.path_hex.as_deref());
            if it.lines.is_empty() {
                out.push_str(&format!("{path}: {}\n", it.why));
            }
            for (at, (first, last)) in it.lines.iter().enumerate() {
                let lines = match first == last {
                    true => first.to_string(),
                    false => format!("{first}-{last}"),
                };
                out.push_str(&format!("{path}:{lines}: {}\n", it.why));
                for line in it.text.get(at).into_iter().flat_map(|it| it.lines()) {
                    out.push_str(&format!("    {line}\n"));
                }
            }
        }
        if self.outcome == Outcome::Done {
            for it in self.changes.iter().take(LISTED) {
                let path = shown(&it.path, it.path_hex.as_deref());
                out.push_str(&format!("{} {path}\n", it.verb));
            }
            if self.changes.len() > LISTED {
                out.push_str(&format!("… and {} more\n", self.changes.len() - LISTED));
            }
        }
        out
    }

    /// What is said beside it: to stderr.
    pub fn said(&self, verb: Verb) -> String {
        let files = counted(self.changes.len(), "file", "files");
        let mut said = match (self.outcome, self.commit) {
            (Outcome::Done, Some(commit)) if verb == Verb::Checkpoint => {
                return format!("It names commit {}.", commit.short());
            }
            (Outcome::Done, commit) => {
                let commit = commit.map(|it| format!(", as commit {}", it.short()));
                format!("{} ({files}){}.", verb.done(&self.of), commit.unwrap_or_default())
            }
            (Outcome::Would, _) => format!("Would change {files}; nothing is written."),
            (Outcome::Nothing, _) => verb.nothing(&self.of),
            (Outcome::Overlaps, _) if self.overlaps.iter().all(|it| !it.lines.is_empty()) => {
                "Later edits are on the same lines, or right beside them; nothing is written."
                    .to_owned()
            }
            (Outcome::Overlaps, _) => {
                "Later changes are in the way; nothing is written.".to_owned()
            }
        };
        for note in &self.notes {
            said.push('\n');
            said.push_str(note);
        }
        match (self.outcome, self.commit) {
            (Outcome::Overlaps, _) if verb == Verb::Restore => said.push_str(
                "\nhint: `--exactly` takes away what is there now (history keeps it); or move it, and \
                 ask again.",
            ),
            (Outcome::Overlaps, _) => said.push_str(
                "\nhint: `--keep-mine` keeps the later edits there, `--keep-theirs` brings the old \
                 text back over them; either way the rest is done, and everything stays in the \
                 history.",
            ),
            (Outcome::Done, Some(commit)) => {
                said.push_str(&format!("\nhint: `remd undo {}` takes this back.", commit.short()));
            }
            _ => {}
        }
        said
    }

    /// One JSON object.
    pub fn json(&self) -> Vec<u8> {
        json_page(&Json { schema_version: SCHEMA_VERSION, changed: self })
    }
}

/// A path as Git prints it, as everywhere in the history.
fn shown(path: &str, hex: Option<&str>) -> String {
    let whole = hex.map_or_else(|| VaultPath::new(path).ok(), VaultPath::from_hex);
    whole.map_or_else(|| escape(path.as_bytes()).into_owned(), |it| c_quoted(&it).into_owned())
}

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Undo,
    Restore,
    Forget,
    Checkpoint,
}

impl Verb {
    fn done(self, of: &[Named]) -> String {
        match (self, of) {
            (Self::Undo, [one]) => {
                let subject = escape(one.subject.as_bytes());
                format!("Took back {} of {}: {subject}", one.commit.short(), one.when)
            }
            (Self::Undo, many) => format!("Took back {}", counted(many.len(), "change", "changes")),
            (Self::Restore, [one, ..]) => {
                format!("Brought back as of {} ({})", one.when, one.commit.short())
            }
            (Self::Restore, []) => "Brought back".to_owned(),
            (Self::Forget, _) => "Forgotten".to_owned(),
            (Self::Checkpoint, _) => "Named".to_owned(),
        }
    }

    fn nothing(self, of: &[Named]) -> String {
        match (self, of) {
            (Self::Undo, []) => {
                "There is no change to take back; what the vault began with goes only \
                                 by the name of its commit."
                    .to_owned()
            }
            (Self::Undo, _) => "Nothing is left of that to take back.".to_owned(),
            (Self::Restore, [one, ..]) => {
                format!("It is as it was on {} ({}).", one.when, one.commit.short())
            }
            (Self::Restore, []) => "Nothing is to be brought back.".to_owned(),
            (Self::Forget | Self::Checkpoint, _) => "No note holds that.".to_owned(),
        }
    }
}

#[derive(Serialize)]
struct Json<'a> {
    schema_version: u32,
    #[serde(flatten)]
    changed: &'a Changed,
}

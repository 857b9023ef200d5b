//! What a lint found, and what of it was mended, as text and JSON.
//!
//! Pure. **Invariant:** a finding is one line, whatever names and links are in it.

use serde::{Deserialize, Serialize};

use crate::render::changed::{Changed, Outcome};
use crate::render::{SCHEMA_VERSION, counted, json_page};
use crate::search::lint::{Check, Finding};
use crate::vault::path::escape;
use crate::vault::{CommitId, VaultPath};

/// The outcome of a lint.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Linted {
    /// The commit that it is true for.
    pub commit: Option<CommitId>,
    /// How many notes and links were looked at.
    pub notes: usize,
    pub links: usize,
    pub findings: Vec<LintLine>,
    /// Why there may be more to find.
    pub partial: Option<String>,
    /// Why nobody has looked at the disk since that commit.
    pub unseen: Option<String>,
    /// What was mended, or would be.
    pub fix: Option<Changed>,
}

/// A finding with its place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LintLine {
    pub check: Check,
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path_hex: Option<String>,
    /// From 1; none for a whole note.
    pub line: Option<u32>,
    pub what: String,
    pub advice: String,
    /// The target of a link.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<String>,
    /// The notes that it may be about, best first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub candidates: Vec<String>,
}

/// What became of links that led nowhere.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mended {
    pub links: Vec<MendedLink>,
    /// Those that stay as they are because a person must say what is meant.
    pub left: Vec<LeftLink>,
    /// Why not all of history was looked through.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cut: Option<String>,
}

/// A link with its new target.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct MendedLink {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path_hex: Option<String>,
    pub line: u32,
    pub old: String,
    pub new: String,
    /// How that is known: `renamed`, `moved` (the note that it stands in was), `name`.
    pub by: String,
}

/// A link that leads nowhere and was let alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct LeftLink {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path_hex: Option<String>,
    pub line: u32,
    pub target: String,
    pub why: String,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub candidates: Vec<String>,
}

impl From<Finding> for LintLine {
    fn from(finding: Finding) -> Self {
        let Finding { path, line, check, what, advice, target, candidates } = finding;
        Self {
            check,
            path: path.lossy().into_owned(),
            path_hex: path.hex_if_lossy(),
            line,
            what,
            advice,
            target,
            candidates: candidates.iter().map(|it| it.lossy().into_owned()).collect(),
        }
    }
}

impl MendedLink {
    pub fn new(path: &VaultPath, line: u32, old: &str, new: &str, by: &str) -> Self {
        Self {
            path: path.lossy().into_owned(),
            path_hex: path.hex_if_lossy(),
            line,
            old: old.to_owned(),
            new: new.to_owned(),
            by: by.to_owned(),
        }
    }
}

impl LeftLink {
    pub fn new(path: &VaultPath, line: u32, target: &str, why: impl Into<String>) -> Self {
        Self {
            path: path.lossy().into_owned(),
            path_hex: path.hex_if_lossy(),
            line,
            target: target.to_owned(),
            why: why.into(),
            candidates: Vec::new(),
        }
    }

    /// The same with the notes that may be meant.
    pub fn of<'a>(self, candidates: impl IntoIterator<Item = &'a VaultPath>) -> Self {
        let candidates = candidates.into_iter().map(|it| it.lossy().into_owned()).collect();
        Self { candidates, ..self }
    }
}

impl Linted {
    /// As a person reads it: to stdout.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if let Some(fix) = &self.fix {
            if let Some(diff) = &fix.diff {
                // As a patch.
                return diff.clone();
            }
            if fix.outcome == Outcome::Done {
                out.extend(fix.mended.iter().map(Mended::text));
            }
        }
        for it in &self.findings {
            out.push_str(&escape(it.path.as_bytes()));
            if let Some(line) = it.line {
                out.push_str(&format!(":{line}"));
            }
            let (id, what) = (it.check.id(), escape(it.what.as_bytes()));
            let advice = escape(it.advice.as_bytes());
            out.push_str(&format!(": {id}: {what}. {advice}\n"));
        }
        out
    }

    /// What is said beside it: to stderr.
    pub fn said(&self) -> String {
        let (notes, links) =
            (counted(self.notes, "note", "notes"), counted(self.links, "link", "links"));
        let mut said = self.fix.as_ref().map(fixed).unwrap_or_default();
        if self.fix.as_ref().is_some_and(|it| it.outcome == Outcome::Would) {
            return said;
        }
        let found = match self.findings.len() {
            0 => "Nothing to mend".to_owned(),
            some => counted(some, "finding", "findings"),
        };
        let at = self.commit.map(|it| format!(", as of {}", it.short())).unwrap_or_default();
        let unseen = self.unseen.as_deref().map(|it| format!(" ({it})")).unwrap_or_default();
        said.push_str(&format!("{found} in {notes} with {links}{at}{unseen}."));
        if let Some(partial) = &self.partial {
            said.push_str(&format!("\nnote: {partial}"));
        }
        if self.fix.is_none() && self.findings.iter().any(|it| it.check == Check::BrokenLink) {
            said.push_str(
                "\nhint: `remd lint --fix` looks in the history where what a link led to went, and \
                 retargets it (`--dry-run` shows that first).",
            );
        }
        said
    }

    /// One JSON object.
    pub fn json(&self) -> Vec<u8> {
        json_page(&Json { schema_version: SCHEMA_VERSION, linted: self })
    }
}

impl Mended {
    /// More links that are left as they are, and why not all of history was looked through.
    pub fn add(&mut self, left: Vec<LeftLink>, cut: Option<String>) {
        self.left.extend(left);
        self.left.sort();
        self.left.dedup();
        self.cut = cut.or(self.cut.take());
    }

    /// The links that were changed and those that were not, one a line.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let quoted = |it: &str| escape(it.as_bytes()).into_owned();
        for MendedLink { path, line, old, new, .. } in &self.links {
            let (path, old, new) = (quoted(path), quoted(old), quoted(new));
            out.push_str(&format!("{path}:{line}: {old} → {new}\n"));
        }
        out
    }

    /// Why some stay as they are.
    pub fn said(&self) -> Vec<String> {
        let quoted = |it: &str| escape(it.as_bytes()).into_owned();
        let left = self.left.iter().map(|it| {
            let (path, target, why) = (quoted(&it.path), quoted(&it.target), quoted(&it.why));
            let names: Vec<String> =
                it.candidates.iter().map(|it| format!("`{}`", quoted(it))).collect();
            let names = match names.is_empty() {
                true => String::new(),
                false => format!(": {}", names.join(", ")),
            };
            format!("{path}:{}: `{target}` is left as it is: {why}{names}", it.line)
        });
        left.chain(self.cut.clone()).collect()
    }
}

/// What became of links.
fn fixed(fix: &Changed) -> String {
    let mended = fix.mended.as_ref();
    let links = counted(mended.map_or(0, |it| it.links.len()), "link", "links");
    let notes = counted(fix.changes.len(), "note", "notes");
    let mut said = match (fix.outcome, fix.commit) {
        (Outcome::Done, Some(commit)) => {
            let commit = commit.short();
            format!(
                "Retargeted {links} in {notes}, as commit {commit}.\n\
                 hint: `remd undo {commit}` takes this back.\n"
            )
        }
        (Outcome::Done, None) => format!("Retargeted {links} in {notes}.\n"),
        (Outcome::Would, _) => {
            format!("Would retarget {links} in {notes}; nothing is written.\n")
        }
        _ => "No link is known to lead elsewhere; nothing is written.\n".to_owned(),
    };
    for line in mended.into_iter().flat_map(Mended::said) {
        said.push_str(&format!("note: {line}\n"));
    }
    said
}

#[derive(Serialize)]
struct Json<'a> {
    schema_version: u32,
    #[serde(flatten)]
    linted: &'a Linted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_whatever_is_in_it() {
        let finding = Finding {
            path: VaultPath::new(b"a\nb\xff.md").unwrap(),
            line: Some(3),
            check: Check::BrokenLink,
            what: "[[x\u{1b}[31m\ny]] leads nowhere".to_owned(),
            advice: "Is `c\nd.md` meant?".to_owned(),
            target: Some("x".to_owned()),
            candidates: vec![VaultPath::new("c\nd.md").unwrap()],
        };
        let linted =
            Linted { notes: 1, links: 1, findings: vec![finding.into()], ..Linted::default() };
        let text = linted.text();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(text.contains(":3: broken-link: "), "{text:?}");
        let json: serde_json::Value = serde_json::from_slice(&linted.json()).unwrap();
        assert_eq!(json["schema_version"], 1);
        assert_eq!(json["findings"][0]["check"], "broken-link");
        assert_eq!(json["findings"][0]["path_hex"], "610a62ff2e6d64");
    }
}

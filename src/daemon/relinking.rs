//! Writes links anew that are known to lead elsewhere.
//!
//! Takes what was decided of links and a commit; gives the plan that has them lead there at that
//! commit, link by link. Reads objects, writes nothing. Any thread.
//!
//! **Invariant:** a link is changed only where it leads nowhere at that commit and what it shall
//! lead to is there; nothing but its target changes, and frontmatter that cannot be read stays as it
//! is to the byte.

use std::collections::BTreeMap;

use crate::history::{Plan, ReadError, Reader};
use crate::render::lint::{LeftLink, Mended, MendedLink};
use crate::search::lint::unlinkable;
use crate::serve::protocol::Mend;
use crate::vault::change::FileMode;
use crate::vault::frontmatter;
use crate::vault::link::links;
use crate::vault::note::is_markdown;
use crate::vault::remedy::{self, Kind};
use crate::vault::retarget::{CannotRetarget, retarget};
use crate::vault::wording::{Old, wording};
use crate::vault::{CommitId, Entry, Link, LinkKind, Names, Resolution, VaultPath};

/// How to have links lead where they shall at `head`, and which ones that changes.
pub fn plan(reader: &Reader, head: CommitId, mends: &[Mend]) -> Result<(Plan, Mended), ReadError> {
    let (mut plan, mut mended) = (Plan::default(), Mended::default());
    let files: BTreeMap<VaultPath, Entry> = reader.list(head)?.into_iter().collect();
    let names: Names = files.keys().cloned().collect();
    let mut by_note: BTreeMap<VaultPath, Vec<Wanted>> = BTreeMap::new();
    for mend in mends {
        let (note, to) = (VaultPath::from_hex(&mend.note), VaultPath::from_hex(&mend.to));
        // Renamed or gone meanwhile: the next lint sees it.
        let (Some(note), Some(to)) = (note, to.filter(|it| files.contains_key(it))) else {
            continue;
        };
        let led_to = mend.led_to.as_deref().and_then(VaultPath::from_hex);
        by_note.entry(note).or_default().push(Wanted { mend, led_to, to });
    }
    for (path, wanted) in by_note {
        let Some(entry) = files.get(&path).copied().filter(|_| is_markdown(&path)) else {
            continue;
        };
        if !matches!(entry.mode, FileMode::File | FileMode::Executable) {
            continue;
        }
        let bytes = reader.read_blob(entry.blob)?;
        let Ok(text) = String::from_utf8(bytes) else {
            let lines = wanted.iter().map(|it| {
                LeftLink::new(&path, 1, &it.mend.target, "its note is not plain text in UTF-8")
            });
            mended.left.extend(lines);
            continue;
        };
        let note = Note { names: &names, path: &path, text: &text };
        if let Some(new) = note.relinked(&wanted, &mut mended) {
            let blob = reader.blob_of(new.as_bytes())?;
            plan.changes.push(path.clone(), Some(entry), Some(Entry { blob, ..entry }));
            plan.fresh.insert(blob, new.into_bytes());
        }
    }
    mended.links.sort();
    mended.left.sort();
    Ok((plan, mended))
}

struct Wanted<'a> {
    mend: &'a Mend,
    led_to: Option<VaultPath>,
    to: VaultPath,
}

struct Note<'a> {
    names: &'a Names,
    path: &'a VaultPath,
    text: &'a str,
}

impl Note<'_> {
    /// The text with new targets; nothing where none changes.
    fn relinked(&self, wanted: &[Wanted<'_>], mended: &mut Mended) -> Option<String> {
        let block = frontmatter::split(self.text);
        let is_readable = block.as_ref().is_none_or(|it| {
            let parsed = frontmatter::parse(&self.text[it.yaml.clone()], it.yaml_line);
            parsed.problems.iter().all(|it| remedy::kind_of(it) != Kind::Frontmatter)
        });
        let found = links(self.text, block.map_or(0, |it| it.body));
        let mut changes: Vec<(&Link, String, &str)> = Vec::new();
        for link in &found {
            let is_it = |it: &&Wanted| it.mend.kind == link.kind && it.mend.target == link.target;
            let Some(wanted) = wanted.iter().find(is_it) else { continue };
            let leads = self.names.resolve(self.path, &link.target, link.kind);
            if leads != Resolution::Missing {
                continue;
            }
            let left = |why: String| {
                LeftLink::new(self.path, link.line, &link.target, why).of([&wanted.to])
            };
            if link.kind == LinkKind::Frontmatter && !is_readable {
                mended.left.push(left("its frontmatter cannot be read".to_owned()));
                continue;
            }
            let old = Old { kind: link.kind, target: &link.target, led_to: wanted.led_to.as_ref() };
            match wording(self.names, self.path, old, &wanted.to) {
                Some(target) => changes.push((link, target, &wanted.mend.by)),
                None => mended.left.push(left(unwritable(&wanted.to, link.kind))),
            }
        }
        // One that cannot be written keeps none of the others from it.
        let refused = |change: &(&Link, String, &str)| {
            retarget(self.text, &[(change.0, change.1.as_str())]).err()
        };
        let whole = |changes: &[(&Link, String, &str)]| {
            let changes: Vec<(&Link, &str)> =
                changes.iter().map(|it| (it.0, it.1.as_str())).collect();
            retarget(self.text, &changes)
        };
        let mut new = whole(&changes);
        if new.is_err() {
            changes.retain(|it| match refused(it) {
                None => true,
                Some(why) => {
                    mended.left.push(self.refusal(it, &why));
                    false
                }
            });
            new = whole(&changes);
        }
        let new = match new {
            Ok(new) => new,
            Err(why) => {
                mended.left.extend(changes.iter().map(|it| self.refusal(it, &why)));
                return None;
            }
        };
        let links = changes.iter().map(|(link, target, by)| {
            MendedLink::new(self.path, link.line, &link.target, target, by)
        });
        mended.links.extend(links);
        (!changes.is_empty()).then_some(new)
    }

    fn refusal(&self, (link, _, _): &(&Link, String, &str), why: &CannotRetarget) -> LeftLink {
        LeftLink::new(self.path, link.line, &link.target, why.to_string())
    }
}

fn unwritable(to: &VaultPath, kind: LinkKind) -> String {
    match unlinkable(to).filter(|_| kind != LinkKind::Markdown) {
        Some(why) => format!("no link can hold the name of `{to}`: {why}"),
        None => format!("no target means `{to}` alone"),
    }
}

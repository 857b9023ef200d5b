//! Links that lead nowhere or could lead to more than one note, and notes that none leads to.
//!
//! Takes a view and the vault's other files, gives a [`Survey`]. Any thread; it looks at every link
//! once, on as many threads as there are.
//!
//! **Invariant:** a link leads where index, mount and rename say that it does; one that leads to a
//! file that is no note (a picture, a template, a folder) is not broken.

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use super::{Check, Finding};
use crate::index::{Card, Edge, IndexView};
use crate::vault::resolve::{NameKey, keys_of_link};
use crate::vault::{LinkKind, Names, Resolution, Role, VaultPath};

/// What a vault has beside the notes of an index: pictures, templates, folders.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    files: Names,
    folders: HashSet<Vec<u8>>,
}

impl Beside {
    /// Of all files of the vault, in any order; the notes of the view are passed over.
    pub fn new<'a>(view: &IndexView, files: impl Iterator<Item = &'a VaultPath>) -> Self {
        let mut beside = Self::default();
        let mut last = None;
        let notes = view.notes().iter().map(|it| (&it.path, true));
        for (path, is_note) in files.map(|it| (it, false)).chain(notes) {
            let parent = path.parent();
            // Neighbours come together.
            if last != parent {
                let mut folder = parent.clone();
                while let Some(it) = folder {
                    if !beside.folders.insert(it.as_bytes().to_vec()) {
                        break;
                    }
                    folder = it.parent();
                }
                last = parent;
            }
            if !is_note && view.note(path).is_none() {
                beside.files.insert(path.clone());
            }
        }
        beside
    }

    fn add(&mut self, view: &IndexView, seen: Seen) {
        self.folders.extend(seen.folders.iter().map(|it| it.as_bytes().to_vec()));
        for path in seen.files.into_iter().filter(|it| view.note(it).is_none()) {
            self.files.insert(path);
        }
    }

    pub fn files(&self) -> &Names {
        &self.files
    }

    /// Whether a link that leads to no note leads to something else here.
    pub fn has(&self, from: &VaultPath, target: &str, kind: LinkKind) -> bool {
        if self.files.resolve(from, target, kind).path().is_some() {
            return true;
        }
        kind == LinkKind::Markdown
            && places(from, target).is_some_and(|it| it.iter().any(|it| self.is_folder(it)))
    }

    fn is_folder(&self, path: &[u8]) -> bool {
        // The vault itself.
        path.is_empty() || self.folders.contains(path)
    }
}

/// What lies on the disk, whether Git has it or not.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub files: Vec<VaultPath>,
    pub folders: Vec<VaultPath>,
}

/// Where a Markdown link to a folder may lead: from the note's folder, or from the root.
fn places(from: &VaultPath, target: &str) -> Option<Vec<Vec<u8>>> {
    let target = target.trim();
    let walked = |base: Vec<&[u8]>| {
        let mut at: Vec<Vec<u8>> = base.into_iter().map(<[u8]>::to_vec).collect();
        for segment in target.split('/') {
            match segment {
                "" | "." => {}
                ".." => {
                    at.pop()?;
                }
                it => at.push(it.as_bytes().to_vec()),
            }
        }
        Some(at.join(&b'/'))
    };
    let mut folder: Vec<&[u8]> = from.components().collect();
    folder.pop();
    let relative = if target.starts_with('/') { None } else { walked(folder) };
    let found: Vec<Vec<u8>> = relative.into_iter().chain(walked(Vec::new())).collect();
    (!found.is_empty()).then_some(found)
}

/// A link that does not lead to one place.
#[derive(Clone, Debug)]
pub struct Loose {
    pub card: Arc<Card>,
    /// Which of the card's links.
    pub at: usize,
    pub kind: LooseKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LooseKind {
    /// It leads nowhere.
    Broken,
    /// It could lead to each of `candidates`; whoever follows it gets to `chosen`.
    Ambiguous { chosen: Option<VaultPath>, candidates: Vec<VaultPath> },
}

/// What all links together say.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// By path and place in the note.
    pub loose: Vec<Loose>,
    /// The notes that no other note links to, by path; pages of days aside.
    pub lonely: Vec<Arc<Card>>,
    pub beside: Beside,
    /// How many links were looked at.
    pub links: usize,
}

/// Looks at every link of the view. `more` says what the disk has, and is asked once if a link leads
/// nowhere else; files whose names have none of the keys that it is given need not be told.
pub fn survey(
    view: &IndexView,
    mut beside: Beside,
    more: impl FnOnce(&HashSet<NameKey>) -> Seen,
) -> Survey {
    let notes = view.notes();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
    let size = notes.len().div_ceil(threads).max(1000);
    let parts: Vec<Share> = thread::scope(|scope| {
        let parts: Vec<_> =
            notes.chunks(size).map(|it| scope.spawn(|| Share::of(view, it, &beside))).collect();
        parts.into_iter().map(|it| it.join().unwrap_or_else(|fault| resume_unwind(fault))).collect()
    });
    let (mut loose, mut touched, mut links) = (Vec::new(), HashSet::new(), 0);
    for part in parts {
        loose.extend(part.loose);
        touched.extend(part.touched);
        links += part.links;
    }
    let mut broken = loose.iter().filter(|it| it.kind == LooseKind::Broken).peekable();
    // One to a folder has no key.
    if broken.peek().is_some() {
        let keys = broken.flat_map(|it| keys_of_link(&it.edge().target)).collect();
        beside.add(view, more(&keys));
        loose.retain(|it| it.kind != LooseKind::Broken || !it.leads_beside(&beside));
    }
    let is_lonely = |it: &&Arc<Card>| it.role == Role::Note && !touched.contains(&it.path);
    let lonely = notes.iter().filter(is_lonely).cloned().collect();
    Survey { loose, lonely, beside, links }
}

/// What the links of some of the notes say.
struct Share {
    loose: Vec<Loose>,
    touched: HashSet<VaultPath>,
    links: usize,
}

impl Share {
    fn of(view: &IndexView, notes: &[Arc<Card>], beside: &Beside) -> Self {
        let mut part = Self { loose: Vec::new(), touched: HashSet::new(), links: 0 };
        for card in notes {
            part.links += card.links.len();
            for (at, edge) in card.links.iter().enumerate() {
                let found = view.resolve(card, edge);
                if let Some(to) = found.path().filter(|it| **it != card.path) {
                    part.touched.insert(to.clone());
                }
                let kind = match found {
                    Resolution::To(_) | Resolution::SelfLink => continue,
                    Resolution::Ambiguous { chosen, candidates } => {
                        LooseKind::Ambiguous { chosen, candidates }
                    }
                    Resolution::Missing => LooseKind::Broken,
                };
                let loose = Loose { card: Arc::clone(card), at, kind };
                if loose.kind != LooseKind::Broken || !loose.leads_beside(beside) {
                    part.loose.push(loose);
                }
            }
        }
        part
    }
}

impl Loose {
    /// The link.
    pub fn edge(&self) -> &Edge {
        &self.card.links[self.at]
    }

    fn leads_beside(&self, beside: &Beside) -> bool {
        let Edge { target, kind, .. } = self.edge();
        beside.has(&self.card.path, target, *kind)
    }

    /// The link as it is written, but for what is shown instead of its target.
    pub fn text(&self) -> String {
        let Edge { target, anchor, kind, .. } = self.edge();
        let anchor = anchor.as_deref().map(|it| format!("#{it}")).unwrap_or_default();
        match kind {
            LinkKind::Wiki | LinkKind::Frontmatter => format!("[[{target}{anchor}]]"),
            LinkKind::Embed => format!("![[{target}{anchor}]]"),
            LinkKind::Markdown => format!("({target}{anchor})"),
        }
    }

    pub(super) fn finding(&self, view: &IndexView) -> Finding {
        let (text, edge) = (self.text(), self.edge());
        let shown = |paths: &[VaultPath]| {
            let names: Vec<String> = paths.iter().map(|it| format!("`{it}`")).collect();
            names.join(", ")
        };
        let (check, what, advice, candidates) = match &self.kind {
            LooseKind::Broken => {
                let alike = view.alike(&edge.target);
                let alike: Vec<VaultPath> = alike.into_iter().take(MOST_NAMED).cloned().collect();
                let advice = match alike.as_slice() {
                    [] => "Write that note, or mend the link.".to_owned(),
                    [one] => format!("Is `{one}` meant?"),
                    several => format!("Is one of {} meant?", shown(several)),
                };
                (Check::BrokenLink, format!("{text} leads nowhere"), advice, alike)
            }
            LooseKind::Ambiguous { chosen, candidates } => {
                let others: Vec<VaultPath> =
                    candidates.iter().filter(|it| Some(*it) != chosen.as_ref()).cloned().collect();
                let what = match chosen {
                    Some(chosen) => {
                        format!("{text} leads to `{chosen}`, and could mean {}", shown(&others))
                    }
                    None => format!("{text} leads nowhere, and could mean {}", shown(&others)),
                };
                let advice = match chosen {
                    Some(_) => "Write more of the path that is meant.",
                    None => "Write the name as it is, or more of its path.",
                };
                (Check::AmbiguousLink, what, advice.to_owned(), candidates.clone())
            }
        };
        Finding {
            path: self.card.path.clone(),
            line: Some(edge.line),
            check,
            what,
            advice,
            target: Some(edge.target.to_string()),
            candidates,
        }
    }
}

/// Notes that a broken link is said to mean, at most.
const MOST_NAMED: usize = 5;

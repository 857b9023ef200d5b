//! What about the notes wants looking after: notes that nothing leads to, links that lead nowhere.
//!
//! Takes a view and the files of the vault, until a deadline. Any thread.
//!
//! **Invariant:** a link is broken only where no file of the vault is meant by it, indexed or not.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use crate::base::clock;
use crate::index::{Card, Goal, IndexView};
use crate::search::lint::Beside;
use crate::vault::fold::folded;
use crate::vault::{LinkKind, Names, Resolution, Role, VaultPath};

/// Names that are compared with a target letter by letter, each time.
const COMPARED: usize = 200_000;
/// Notes between two looks at the clock.
const STRIDE: usize = 256;

/// Notes that no other note links to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Orphans {
    /// The newest first, by their day; those without one last.
    pub notes: Vec<Arc<Card>>,
    /// Whether there was no time to look at all.
    pub is_part: bool,
}

/// A link that leads nowhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    pub from: Arc<Card>,
    pub line: u32,
    pub target: String,
    pub kind: LinkKind,
    /// A note that may be meant.
    pub suggestion: Option<VaultPath>,
}

/// All of them, by the notes they stand in.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BrokenLinks {
    pub links: Vec<Broken>,
    pub is_part: bool,
}

/// The notes that no other note links to; pages of days aside, which list a day by themselves.
pub fn orphans(view: &IndexView, until: Instant) -> Orphans {
    let mut linked: HashSet<VaultPath> = HashSet::new();
    let mut is_part = false;
    for (at, card) in view.notes().iter().enumerate() {
        if at % STRIDE == 0 && clock::now() >= until {
            is_part = true;
            break;
        }
        for lead in view.leads(card) {
            if let Goal::Note(target) = lead.to {
                linked.insert(target.path.clone());
            }
        }
    }
    let takes = |it: &&Arc<Card>| it.role == Role::Note && !linked.contains(&it.path);
    let mut notes: Vec<Arc<Card>> = match is_part {
        // Half of the links make orphans of what is none.
        true => Vec::new(),
        false => view.notes().iter().filter(takes).cloned().collect(),
    };
    newest_first(&mut notes);
    Orphans { notes, is_part }
}

/// Sorts by day, the newest first and those without one last; of one day by path.
pub fn newest_first(notes: &mut [Arc<Card>]) {
    notes.sort_by(|a, b| b.date.cmp(&a.date).then_with(|| a.path.cmp(&b.path)));
}

/// The links of notes that lead to no file; `files` are those of the vault, notes or not.
pub fn broken_links(
    view: &IndexView,
    files: impl Iterator<Item = VaultPath>,
    until: Instant,
) -> BrokenLinks {
    let files: Vec<VaultPath> = files.collect();
    let beside = Beside::new(view, files.iter());
    let mut names = Names::default();
    for path in files.into_iter().chain(view.notes().iter().map(|it| it.path.clone())) {
        names.insert(path);
    }
    let mut found = BrokenLinks::default();
    let mut known: BTreeMap<String, Option<VaultPath>> = BTreeMap::new();
    let mut left = COMPARED;
    let stems = Stems::of(view);
    for (at, card) in view.notes().iter().filter(|it| it.role.is_note()).enumerate() {
        if at % STRIDE == 0 && clock::now() >= until {
            found.is_part = true;
            break;
        }
        for edge in &card.links {
            let target = edge.target.trim();
            if view.resolve(card, edge) != Resolution::Missing
                || beside.has(&card.path, target, edge.kind)
            {
                continue;
            }
            let suggestion = match known.get(target) {
                Some(suggestion) => suggestion.clone(),
                None => {
                    let suggestion = meant(&names, &card.path, target)
                        .or_else(|| stems.nearest(target, &mut left));
                    known.insert(target.to_owned(), suggestion.clone());
                    suggestion
                }
            };
            found.links.push(Broken {
                from: Arc::clone(card),
                line: edge.line,
                target: target.to_owned(),
                kind: edge.kind,
                suggestion,
            });
        }
    }
    found
}

/// The note of that name in another folder.
fn meant(names: &Names, from: &VaultPath, target: &str) -> Option<VaultPath> {
    let name = target.trim_end_matches('/').rsplit('/').next().filter(|it| !it.is_empty())?;
    names.resolve(from, name, LinkKind::Wiki).path().cloned()
}

/// The names of the notes, by their length: a name with few other letters is of about the same one.
struct Stems(BTreeMap<usize, Vec<(Vec<char>, VaultPath)>>);

impl Stems {
    fn of(view: &IndexView) -> Self {
        let mut stems: BTreeMap<usize, Vec<(Vec<char>, VaultPath)>> = BTreeMap::new();
        for card in view.notes().iter().filter(|it| it.role.is_note()) {
            let stem = chars(card.path.stem());
            stems.entry(stem.len()).or_default().push((stem, card.path.clone()));
        }
        Self(stems)
    }

    /// The note whose name differs least, by no more than a quarter of its letters; none where two
    /// differ alike.
    fn nearest(&self, target: &str, left: &mut usize) -> Option<VaultPath> {
        let name = target.rsplit('/').next().unwrap_or(target);
        let name = name.strip_suffix(".md").unwrap_or(name);
        let wanted = chars(name.as_bytes());
        let most = wanted.len() / 4;
        if most == 0 {
            return None;
        }
        let mut best: Option<(usize, Option<&VaultPath>)> = None;
        for (stem, path) in
            self.0.range(wanted.len() - most..=wanted.len() + most).flat_map(|it| it.1)
        {
            *left = left.checked_sub(1)?;
            let Some(far) = distance(&wanted, stem, most) else { continue };
            match &mut best {
                Some((known, path)) if *known == far => *path = None,
                Some((known, _)) if *known < far => {}
                _ => best = Some((far, Some(path))),
            }
        }
        best.and_then(|it| it.1.cloned())
    }
}

fn chars(name: &[u8]) -> Vec<char> {
    String::from_utf8_lossy(&folded(name)).chars().collect()
}

/// How many letters are to be changed, put in, left out or exchanged with the next one; `None` for
/// more than `most`.
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, char) in a.iter().enumerate() {
        let mut next = vec![at + 1];
        for (column, other) in b.iter().enumerate() {
            let changed = row[column] + usize::from(char != other);
            let mut least = changed.min(row[column + 1] + 1).min(next[column] + 1);
            if at > 0 && column > 0 && *char == b[column - 1] && a[at - 1] == *other {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        if next.iter().min().is_none_or(|it| *it > most) {
            return None;
        }
        (before, row) = (row, next);
    }
    row.last().copied().filter(|it| *it <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted_up_to_a_limit() {
        let check = |a: &str, b: &str, most, expected| {
            let chars = |it: &str| it.chars().collect::<Vec<_>>();
            assert_eq!(distance(&chars(a), &chars(b), most), expected, "{a} {b}");
        };
        check("bicycle", "bicycle", 1, Some(0));
        check("bicycle", "bycicle", 2, Some(2));
        check("bicycle", "bicycel", 1, Some(1));
        check("ab", "ba", 1, Some(1));
        check("bicycle", "bicycles", 1, Some(1));
        check("bicycle", "tricycle", 1, None);
        check("", "ab", 2, Some(2));
        check("日記", "日誌", 1, Some(1));
    }
}

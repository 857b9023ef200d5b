//! Finds out where links should lead that lead nowhere.
//!
//! Takes the links that a survey found broken, and history; gives for each of which that is known
//! the file that it shall lead to, and of the others why they are left alone. Any thread; the
//! history is looked through once, with a deadline.
//!
//! **Invariant:** nothing is guessed. A link follows what it led to through its renames, or the note
//! that it stands in to where that was moved; where history never had what it says, it is taken for
//! the only file whose name it says.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::history::{Departed, Fate, ReadError, Reader};
use crate::render::lint::LeftLink;
use crate::search::lint::{LooseKind, Part, Survey};
use crate::serve::protocol::Mend;
use crate::vault::resolve::{NameKey, key_of_path, keys_of_link};
use crate::vault::role::date_of;
use crate::vault::{BlobId, CommitId, Entry, LinkKind, Names, Resolution, VaultPath};

/// How long the history may be looked through.
const HISTORY_LIMIT: Duration = Duration::from_secs(20);
/// Notes that are named as what a link may mean, at most.
const MOST_NAMED: usize = 20;

/// What is known of the broken links.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decided {
    pub mends: Vec<Mend>,
    pub left: Vec<LeftLink>,
    /// Why not all of history was looked through.
    pub cut: Option<String>,
}

/// A link that leads nowhere; what stands in several places of a note is one.
struct Open {
    note: VaultPath,
    /// The first of its places.
    line: u32,
    kind: LinkKind,
    target: String,
    /// Files with its name that are gone, by the number of the commit that took them.
    met: Vec<(usize, VaultPath)>,
    /// What it led to last.
    led_to: Option<LedTo>,
}

enum LedTo {
    One(usize, VaultPath),
    Several(Vec<VaultPath>),
}

/// Where the broken links of a part of the vault shall lead, as far as that is known at `head`.
pub fn decide(
    reader: &Reader,
    head: CommitId,
    survey: &Survey,
    part: &Part,
) -> Result<Decided, ReadError> {
    decide_until(reader, head, survey, part, clock::now() + HISTORY_LIMIT)
}

fn decide_until(
    reader: &Reader,
    head: CommitId,
    survey: &Survey,
    part: &Part,
    until: Instant,
) -> Result<Decided, ReadError> {
    let mut open = opened(survey, part);
    if open.is_empty() {
        return Ok(Decided::default());
    }
    let files: BTreeMap<VaultPath, Entry> = reader.list(head)?.into_iter().collect();
    let names: Names = files.keys().cloned().collect();
    let departed = look_back(reader, head, until, &mut open)?;
    let judge =
        Judge { files: &files, names: &names, departed: &departed, by_blob: by_blob(&files) };
    let mut decided = Decided::default();
    for link in &open {
        match judge.of(link)? {
            Verdict::To { path, led_to, by } => decided.mends.push(Mend {
                note: link.note.to_hex(),
                kind: link.kind,
                target: link.target.clone(),
                led_to: led_to.map(|it| it.to_hex()),
                to: path.to_hex(),
                by: by.to_owned(),
            }),
            Verdict::Leave(why, candidates) => {
                let left = LeftLink::new(&link.note, link.line, &link.target, why);
                decided.left.push(left.of(candidates.iter().take(MOST_NAMED)));
            }
            Verdict::Unknown => {}
        }
    }
    decided.left.sort();
    if !departed.is_complete {
        decided.cut = Some(
            "There was no time to look through all of the history: some links may be known there. \
             Ask for a part of the vault (`remd lint --fix PATH`)."
                .to_owned(),
        );
    }
    Ok(decided)
}

fn opened(survey: &Survey, part: &Part) -> Vec<Open> {
    let mut open: Vec<Open> = Vec::new();
    let mut known: HashMap<(VaultPath, LinkKind, Box<str>), usize> = HashMap::new();
    let broken = survey.loose.iter().filter(|it| it.kind == LooseKind::Broken);
    for loose in broken.filter(|it| part.has(&it.card)) {
        let edge = loose.edge();
        let key = (loose.card.path.clone(), edge.kind, edge.target.clone());
        known.entry(key).or_insert_with(|| {
            open.push(Open {
                note: loose.card.path.clone(),
                line: edge.line,
                kind: edge.kind,
                target: edge.target.to_string(),
                met: Vec::new(),
                led_to: None,
            });
            open.len() - 1
        });
    }
    open
}

/// Goes back until it is known of each link what it led to last, or history ends.
fn look_back(
    reader: &Reader,
    head: CommitId,
    until: Instant,
    open: &mut [Open],
) -> Result<Departed, ReadError> {
    let mut by_key: HashMap<NameKey, Vec<usize>> = HashMap::new();
    for (at, link) in open.iter().enumerate() {
        for key in keys_of_link(&link.target) {
            by_key.entry(key).or_default().push(at);
        }
    }
    let mut unanswered = open.len();
    reader.departed(head, until, &mut |number, gone| {
        let mut met: BTreeMap<usize, Vec<VaultPath>> = BTreeMap::new();
        for path in gone {
            for at in by_key.get(&key_of_path(path)).into_iter().flatten() {
                met.entry(*at).or_default().push(path.clone());
            }
        }
        for (at, paths) in met {
            let link = &mut open[at];
            if link.led_to.is_some() {
                continue;
            }
            link.led_to = led_to(&link.note, link, number, &paths);
            unanswered -= usize::from(link.led_to.is_some());
            link.met.extend(paths.into_iter().map(|it| (number, it)));
        }
        unanswered == 0
    })
}

/// Which of the files that a commit took away the link led to before.
///
/// Whatever else its name fits was gone by then, or it would lead there now.
fn led_to(note: &VaultPath, link: &Open, number: usize, gone: &[VaultPath]) -> Option<LedTo> {
    let names: Names = gone.iter().cloned().collect();
    match names.resolve(note, &link.target, link.kind) {
        Resolution::To(path) => Some(LedTo::One(number, path)),
        Resolution::Ambiguous { candidates, .. } => Some(LedTo::Several(candidates)),
        Resolution::Missing | Resolution::SelfLink => None,
    }
}

fn by_blob(files: &BTreeMap<VaultPath, Entry>) -> HashMap<BlobId, Vec<&VaultPath>> {
    let mut by_blob: HashMap<BlobId, Vec<&VaultPath>> = HashMap::new();
    for (path, entry) in files {
        by_blob.entry(entry.blob).or_default().push(path);
    }
    by_blob
}

struct Judge<'a> {
    files: &'a BTreeMap<VaultPath, Entry>,
    names: &'a Names,
    departed: &'a Departed,
    by_blob: HashMap<BlobId, Vec<&'a VaultPath>>,
}

enum Verdict {
    To {
        path: VaultPath,
        led_to: Option<VaultPath>,
        by: &'static str,
    },
    Leave(String, Vec<VaultPath>),
    /// Nobody ever had what it says.
    Unknown,
}

impl Judge<'_> {
    fn of(&self, link: &Open) -> Result<Verdict, ReadError> {
        if let Some(led_to) = &link.led_to {
            return self.followed(link, led_to);
        }
        // A path from the note's folder is another one where the note was before.
        if link.kind == LinkKind::Markdown {
            for old in self.departed.names_before(&link.note)? {
                if let Resolution::To(path) = self.names.resolve(&old, &link.target, link.kind) {
                    return Ok(Verdict::To { led_to: Some(path.clone()), path, by: "moved" });
                }
                for (number, gone) in &link.met {
                    if let Some(led_to) = led_to(&old, link, *number, std::slice::from_ref(gone)) {
                        return self.followed(link, &led_to);
                    }
                }
            }
        }
        let alike = self.alike(link);
        Ok(match alike.as_slice() {
            [] => Verdict::Unknown,
            _ if !self.departed.is_complete => {
                Verdict::Leave("history may know more of it".to_owned(), alike)
            }
            [one] => Verdict::To { path: one.clone(), led_to: None, by: "name" },
            _ => Verdict::Leave("more than one has that name".to_owned(), alike),
        })
    }

    fn followed(&self, link: &Open, led_to: &LedTo) -> Result<Verdict, ReadError> {
        let (number, gone) = match led_to {
            LedTo::One(number, gone) => (*number, gone),
            LedTo::Several(several) => {
                let mut now = Vec::new();
                for path in several {
                    for (number, _) in link.met.iter().filter(|it| it.1 == *path) {
                        if let Fate::Became(it) = self.departed.fate(path, *number)? {
                            now.push(it);
                        }
                    }
                }
                return Ok(Verdict::Leave("it could mean more than one note".to_owned(), now));
            }
        };
        let to = |path: VaultPath| Verdict::To { path, led_to: Some(gone.clone()), by: "renamed" };
        Ok(match self.departed.fate(gone, number)? {
            Fate::Became(now) if self.files.contains_key(&now) => to(now),
            Fate::Unclear(several) => {
                let why = format!("`{gone}` may have become more than one");
                Verdict::Leave(why, several)
            }
            Fate::Became(_) | Fate::Deleted => {
                // Taken away in one commit and brought in another.
                let blob = self.departed.content(gone, number)?;
                let same = blob.and_then(|it| self.by_blob.get(&it)).map(Vec::as_slice);
                match same.unwrap_or_default() {
                    [one] => to((*one).clone()),
                    _ => {
                        let when = self.departed.commit(number).map(|it| it.short());
                        let when = when.unwrap_or_default();
                        let why = format!(
                            "`{gone}` was deleted (`remd restore '{gone}'` brings it back, `remd \
                             show {when}` says who did)"
                        );
                        Verdict::Leave(why, self.alike(link))
                    }
                }
            }
        })
    }

    /// The files with the name that the link says, in whatever folder. What is of one day is not
    /// what is of another.
    fn alike(&self, link: &Open) -> Vec<VaultPath> {
        let wanted = VaultPath::new(link.target.trim_start_matches('/')).ok();
        let day = wanted.as_ref().and_then(date_of);
        let mut alike = self.names.alike(&link.target);
        alike.retain(|it| day.is_none_or(|day| date_of(it) == Some(day)));
        alike.into_iter().cloned().collect()
    }
}

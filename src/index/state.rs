//! Every indexed note by its card, and who links to whom.
//!
//! Pure. Takes cards, gives a state that is cheap to clone: a view keeps the one it was made
//! with.
//!
//! **Invariant:** a path has at most one living card, and the counts are those of the living.

pub mod leads;

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ScopedJoinHandle};

use crate::base::cow::CowMap;
use crate::index::card::{Card, Edge};
use crate::vault::resolve::{NameKey, Names, Resolution, key_of_path, keys_of_link};
use crate::vault::{Layout, VaultPath};

/// The living notes.
#[derive(Clone)]
pub(super) struct State {
    pub(super) layout: Arc<Layout>,
    by_id: CowMap<u64, Arc<Card>>,
    by_path: CowMap<VaultPath, Arc<Card>>,
    names: Names,
    /// The notes that have a link with this key.
    sources: CowMap<NameKey, Arc<Vec<u64>>>,
    /// The notes of which something could not be read as it stands.
    troubled: CowMap<VaultPath, Arc<Card>>,
    chunks: usize,
    links: usize,
    /// How many links could mean more than one note, once somebody asked: a look at every link.
    /// Shared with the views of the same state; followed from change to change.
    ambiguous: Arc<OnceLock<usize>>,
}

/// The most anchors that stand for the links between two notes.
pub const MOST_ANCHORS: usize = 100;

/// A linked note, with what the links say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tie {
    pub card: Arc<Card>,
    /// Distinct anchors, without `#`, in the order of the links; the first [`MOST_ANCHORS`].
    pub anchors: Vec<Box<str>>,
    /// The first relation of a typed link.
    pub relation: Option<Box<str>>,
}

impl State {
    pub(super) fn new(layout: &Layout) -> Self {
        Self {
            layout: Arc::new(layout.clone()),
            by_id: CowMap::new(),
            by_path: CowMap::new(),
            names: Names::default(),
            sources: CowMap::new(),
            troubled: CowMap::new(),
            chunks: 0,
            links: 0,
            ambiguous: Arc::default(),
        }
    }

    /// The state of these notes, each at a path of its own: what putting one after the other gives,
    /// sooner.
    pub(super) fn of(layout: &Layout, cards: &[Arc<Card>]) -> Self {
        thread::scope(|scope| {
            let names = scope.spawn(|| cards.iter().map(|it| it.path.clone()).collect());
            let sources = scope.spawn(|| sources_of(cards));
            let by_path = scope.spawn(|| cards.iter().map(placed).collect());
            Self {
                by_id: cards.iter().map(|it| (it.id, Arc::clone(it))).collect(),
                troubled: cards.iter().filter(|it| !it.problems.is_empty()).map(placed).collect(),
                chunks: cards.iter().map(|it| it.chunks.len()).sum(),
                links: cards.iter().map(|it| it.links.len()).sum(),
                by_path: joined(by_path),
                names: joined(names),
                sources: joined(sources),
                ..Self::new(layout)
            }
        })
    }

    /// Puts a card in the place of the one its path had.
    pub(super) fn put(&mut self, card: Arc<Card>) -> Option<Arc<Card>> {
        let old = self.by_path.get(&card.path).cloned();
        let (path, id) = (card.path.clone(), card.id);
        let before = self.ambiguous_around(&path, old.as_deref(), old.is_none());
        match &old {
            Some(old) => self.forget(old),
            None => {
                self.names.insert(path.clone());
            }
        }
        self.chunks += card.chunks.len();
        self.links += card.links.len();
        for key in link_keys(&card) {
            let mut ids = self.sources.remove(&key).unwrap_or_default();
            Arc::make_mut(&mut ids).push(id);
            self.sources.insert(key, ids);
        }
        if !card.problems.is_empty() {
            self.troubled.insert(path.clone(), Arc::clone(&card));
        }
        self.by_id.insert(id, Arc::clone(&card));
        self.by_path.insert(path.clone(), Arc::clone(&card));
        self.follow_ambiguous(before, |state| {
            state.ambiguous_around(&path, Some(&card), old.is_none())
        });
        old
    }

    /// Removes the card of a path.
    pub(super) fn remove(&mut self, path: &VaultPath) -> Option<Arc<Card>> {
        let card = self.by_path.get(path).cloned()?;
        let before = self.ambiguous_around(path, Some(&card), true);
        let old = self.by_path.remove(path)?;
        self.forget(&old);
        self.names.remove(path);
        self.follow_ambiguous(before, |state| state.ambiguous_around(path, None, true));
        Some(old)
    }

    fn forget(&mut self, old: &Card) {
        self.chunks -= old.chunks.len();
        self.links -= old.links.len();
        self.by_id.remove(&old.id);
        self.troubled.remove(&old.path);
        for key in link_keys(old) {
            let Some(mut ids) = self.sources.remove(&key) else { continue };
            Arc::make_mut(&mut ids).retain(|it| *it != old.id);
            if !ids.is_empty() {
                self.sources.insert(key, ids);
            }
        }
    }

    pub(super) fn card(&self, path: &VaultPath) -> Option<&Arc<Card>> {
        self.by_path.get(path)
    }

    pub(super) fn card_of(&self, id: u64) -> Option<&Arc<Card>> {
        self.by_id.get(&id)
    }

    pub(super) fn cards(&self) -> impl Iterator<Item = &Arc<Card>> {
        self.by_path.iter().map(|it| it.1)
    }

    pub(super) fn notes(&self) -> usize {
        self.by_path.len()
    }

    pub(super) fn chunks(&self) -> usize {
        self.chunks
    }

    pub(super) fn links(&self) -> usize {
        self.links
    }

    /// The indexed notes that `path` links to, in the order of its links.
    pub(super) fn outlinks(&self, path: &VaultPath) -> Vec<Tie> {
        let mut ties: Vec<Tie> = Vec::new();
        let mut places: HashMap<&VaultPath, usize> = HashMap::new();
        let Some(card) = self.card(path) else { return ties };
        for edge in &card.links {
            let Some(target) = self.target(card, edge) else { continue };
            if target.path == *path {
                continue;
            }
            let at = *places.entry(&target.path).or_insert_with(|| {
                let card = Arc::clone(target);
                ties.push(Tie { card, anchors: Vec::new(), relation: None });
                ties.len() - 1
            });
            ties[at].add(edge);
        }
        ties
    }

    /// The notes that link to `path`, by their paths.
    pub(super) fn inlinks(&self, path: &VaultPath) -> Vec<Tie> {
        let mut ties: Vec<Tie> = Vec::new();
        let key = key_of_path(path);
        for id in self.sources.get(&key).map(|it| it.as_slice()).unwrap_or_default() {
            let Some(source) = self.card_of(*id).filter(|it| it.path != *path) else { continue };
            let mut tie: Option<Tie> = None;
            for edge in &source.links {
                let may_lead_here = keys_of_link(&edge.target).any(|it| it == key);
                if may_lead_here && self.target(source, edge).is_some_and(|it| it.path == *path) {
                    tie.get_or_insert_with(|| Tie {
                        card: Arc::clone(source),
                        anchors: Vec::new(),
                        relation: None,
                    })
                    .add(edge);
                }
            }
            ties.extend(tie);
        }
        ties.sort_by(|a, b| a.card.path.cmp(&b.card.path));
        ties
    }

    /// The notes of which something could not be read as it stands.
    pub(super) fn troubled(&self) -> impl Iterator<Item = &Arc<Card>> {
        self.troubled.iter().map(|it| it.1)
    }

    /// How many links could mean more than one note. A look at every link, the first time.
    pub(super) fn ambiguous(&self) -> usize {
        *self.ambiguous.get_or_init(|| self.count_ambiguous())
    }

    fn count_ambiguous(&self) -> usize {
        self.cards().map(|card| self.ambiguous_links(card, |_| true)).sum()
    }

    fn ambiguous_links(&self, card: &Card, which: impl Fn(&Edge) -> bool) -> usize {
        let is_ambiguous = |it: &&Edge| {
            let found = self.names.resolve(&card.path, &it.target, it.kind);
            matches!(found, Resolution::Ambiguous { .. })
        };
        card.links.iter().filter(|it| which(it)).filter(is_ambiguous).count()
    }

    /// The ambiguous links that a change of the note at `path` may touch: its own, and where the
    /// path itself comes or goes (`all`) those that may lead to it. `None` while nobody asks.
    fn ambiguous_around(&self, path: &VaultPath, card: Option<&Card>, all: bool) -> Option<usize> {
        self.ambiguous.get()?;
        let mut count = card.map_or(0, |it| self.ambiguous_links(it, |_| true));
        if all {
            let key = key_of_path(path);
            for id in self.sources.get(&key).map(|it| it.as_slice()).unwrap_or_default() {
                let Some(source) = self.card_of(*id).filter(|it| it.path != *path) else {
                    continue;
                };
                let may_lead_here = |it: &Edge| keys_of_link(&it.target).any(|it| it == key);
                count += self.ambiguous_links(source, may_lead_here);
            }
        }
        Some(count)
    }

    fn follow_ambiguous(&mut self, before: Option<usize>, after: impl Fn(&Self) -> Option<usize>) {
        let followed = self.ambiguous.get().zip(before).zip(after(self));
        // Views of the state before keep theirs.
        self.ambiguous = match followed {
            Some(((all, before), after)) => {
                Arc::new(OnceLock::from((all + after).saturating_sub(before)))
            }
            None => Arc::default(),
        };
    }

    /// Where a link of a note leads among the indexed notes.
    pub(super) fn resolve(&self, from: &Card, edge: &Edge) -> Resolution {
        self.names.resolve(&from.path, &edge.target, edge.kind)
    }

    /// The indexed notes whose name is the link's but for case, normal form and folder.
    pub(super) fn alike(&self, target: &str) -> Vec<&VaultPath> {
        self.names.alike(target)
    }

    fn target(&self, from: &Card, edge: &Edge) -> Option<&Arc<Card>> {
        self.card(self.resolve(from, edge).path()?)
    }
}

impl Tie {
    fn add(&mut self, edge: &Edge) {
        if self.anchors.len() < MOST_ANCHORS
            && let Some(anchor) = edge.anchor.as_ref().filter(|it| !self.anchors.contains(it))
        {
            self.anchors.push(anchor.clone());
        }
        if self.relation.is_none() {
            self.relation.clone_from(&edge.relation);
        }
    }
}

fn placed(card: &Arc<Card>) -> (VaultPath, Arc<Card>) {
    (card.path.clone(), Arc::clone(card))
}

/// For each key, the notes that have a link with it.
fn sources_of(cards: &[Arc<Card>]) -> CowMap<NameKey, Arc<Vec<u64>>> {
    let mut keyed: Vec<(NameKey, u64)> =
        cards.iter().flat_map(|card| link_keys(card).into_iter().map(|it| (it, card.id))).collect();
    keyed.sort_unstable();
    let ids = |it: &[(NameKey, u64)]| Arc::new(it.iter().map(|it| it.1).collect());
    keyed.chunk_by(|a, b| a.0 == b.0).map(|it| (it[0].0, ids(it))).collect()
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|fault| resume_unwind(fault))
}

fn link_keys(card: &Card) -> Vec<NameKey> {
    let mut keys: Vec<NameKey> =
        card.links.iter().flat_map(|it| keys_of_link(&it.target)).collect();
    keys.sort();
    keys.dedup();
    keys
}

//! The vault as a graph: from notes along their links, and the long-term knowledge as a whole.
//!
//! Takes a view; any thread. **Invariant:** what is given is sorted and the same for the same
//! view; a walk ends, and says so where it ends early.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::index::{Card, Goal, IndexView, Lead};
use crate::vault::{Role, VaultPath};

/// The most notes that one walk gives.
pub const MOST_NODES: usize = 10_000;

/// Which links a walk follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From a note to what it links to.
    Forward,
    /// From a note to what links to it.
    Backward,
    #[default]
    Both,
}

impl Direction {
    /// The names and what each means.
    const NAMES: [(&str, Self); 5] = [
        ("forward", Self::Forward),
        ("backward", Self::Backward),
        ("both", Self::Both),
        ("out", Self::Forward),
        ("in", Self::Backward),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Both => "both",
        }
    }
}

impl std::str::FromStr for Direction {
    type Err = WalkError;

    fn from_str(name: &str) -> Result<Self, WalkError> {
        let found = Self::NAMES.iter().find(|it| it.0.eq_ignore_ascii_case(name.trim()));
        found.map(|it| it.1).ok_or_else(|| WalkError::Direction(name.to_owned()))
    }
}

/// Where a walk begins and how far it goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Walk {
    /// Paths, or names as in a link.
    pub seeds: Vec<String>,
    /// How many links far; 0 is the seeds alone.
    pub depth: usize,
    pub direction: Direction,
}

/// Why there is no walk.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WalkError {
    #[error("path is required")]
    NoSeed,
    #[error("direction `{0}` is none of forward, backward, both, out, in")]
    Direction(String),
}

impl WalkError {
    /// Whether the same call may succeed later with nothing changed by hand.
    pub fn is_transient(&self) -> bool {
        false
    }

    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoSeed => "Name a note by its path in the vault.".to_owned(),
            Self::Direction(_) => "Leave it out for both.".to_owned(),
        })
    }
}

/// Notes and the links between them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Graph {
    /// Where the walk began; empty for a whole graph.
    pub seeds: Vec<String>,
    /// By depth and path.
    pub nodes: Vec<GraphNode>,
    /// By depth, source, target and anchor.
    pub edges: Vec<GraphEdge>,
    /// Whether there is more than [`MOST_NODES`].
    pub cut: bool,
}

/// A note of a graph, or the place of one that is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphNode {
    pub id: String,
    pub path: String,
    pub name: Option<String>,
    pub description: Option<String>,
    /// How many links from the nearest seed.
    pub depth: usize,
    pub is_indexed: bool,
    /// Whether it stands for a folder.
    pub is_virtual: bool,
}

/// A link of a graph, in its own direction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GraphEdge {
    /// How many steps from the nearest seed it was met.
    pub depth: usize,
    pub source: String,
    pub target: String,
    pub anchor: Option<String>,
}

/// Follows links from the seeds, nearest first.
pub fn traverse(view: &IndexView, walk: &Walk) -> Result<Graph, WalkError> {
    let mut walker = Walker::default();
    for seed in &walk.seeds {
        let seed = seed.trim().replace('\\', "/");
        let seed = seed.trim_start_matches("./").trim_matches('/');
        if !seed.is_empty() {
            let goal = seed_of(view, seed);
            let id = walker.meet(&goal, 0);
            walker.graph.seeds.extend(id);
        }
    }
    if walker.graph.seeds.is_empty() {
        return Err(WalkError::NoSeed);
    }
    let (is_forward, is_backward) =
        (walk.direction != Direction::Backward, walk.direction != Direction::Forward);
    for depth in 1..=walk.depth {
        let front = std::mem::take(&mut walker.front);
        if front.is_empty() {
            break;
        }
        for goal in front {
            if let (Goal::Note(card), true) = (&goal, is_forward) {
                view.leads(card).iter().for_each(|it| walker.follow(it, depth));
            }
            if is_backward {
                view.leads_to(&goal).iter().for_each(|it| walker.follow(it, depth));
            }
        }
    }
    Ok(walker.finish())
}

fn seed_of(view: &IndexView, seed: &str) -> Goal {
    let by_path = VaultPath::new(seed.as_bytes()).ok().and_then(|it| view.note(&it));
    let name = seed.trim_start_matches("[[").trim_end_matches("]]");
    match by_path.or_else(|| view.meant(name)) {
        Some(card) => Goal::Note(card.clone()),
        None => Goal::Wish(name.into()),
    }
}

#[derive(Default)]
struct Walker {
    graph: Graph,
    known: HashMap<String, usize>,
    edges: BTreeMap<(String, String, Option<String>), usize>,
    front: Vec<Goal>,
}

impl Walker {
    /// Takes a place along; gives its id where it is new.
    fn meet(&mut self, goal: &Goal, depth: usize) -> Option<String> {
        let node = node_of(goal, depth);
        if self.known.contains_key(&node.id) {
            return None;
        }
        if self.graph.nodes.len() >= MOST_NODES {
            self.graph.cut = true;
            return None;
        }
        let id = node.id.clone();
        self.known.insert(id.clone(), depth);
        self.graph.nodes.push(node);
        self.front.push(goal.clone());
        Some(id)
    }

    fn follow(&mut self, lead: &Lead, depth: usize) {
        let source = Goal::Note(lead.from.clone());
        self.meet(&source, depth);
        self.meet(&lead.to, depth);
        let (source, target) = (id_of(&source), id_of(&lead.to));
        // An edge has both of its ends, or is left out with them.
        if self.known.contains_key(&source) && self.known.contains_key(&target) {
            let anchor = lead.anchor.as_deref().map(str::to_owned);
            self.edges.entry((source, target, anchor)).or_insert(depth);
        }
    }

    fn finish(mut self) -> Graph {
        self.graph.nodes.sort_by(|a, b| (a.depth, &a.path).cmp(&(b.depth, &b.path)));
        let edges = self.edges.into_iter();
        self.graph.edges = edges
            .map(|((source, target, anchor), depth)| GraphEdge { depth, source, target, anchor })
            .collect();
        self.graph.edges.sort();
        self.graph
    }
}

fn id_of(goal: &Goal) -> String {
    match goal {
        Goal::Note(card) => card.path.lossy().into_owned(),
        Goal::Wish(target) => target.to_string(),
    }
}

fn node_of(goal: &Goal, depth: usize) -> GraphNode {
    let id = id_of(goal);
    let card = match goal {
        Goal::Note(card) => Some(card),
        Goal::Wish(_) => None,
    };
    GraphNode {
        path: id.clone(),
        id,
        name: card.map(|it| it.name.to_string()),
        description: card.and_then(|it| it.description.as_deref()).map(str::to_owned),
        depth,
        is_indexed: card.is_some(),
        is_virtual: false,
    }
}

/// The parts of the long-term knowledge.
const BUCKETS: [&str; 3] = ["wiki", "personal", "procedure"];

/// The long-term knowledge, its parts as nodes of their own, and the notes of days that it links to.
pub fn snapshot(view: &IndexView) -> Graph {
    let layout = view.layout();
    let mut graph = Graph::default();
    let in_digest = |card: &Card| card.path.is_within(layout.digest.as_bytes());
    let in_daily = |card: &Card| card.path.is_within(layout.daily.as_bytes());
    let mut notes: BTreeMap<VaultPath, Goal> = BTreeMap::new();
    let mut edges: Vec<GraphEdge> = Vec::new();
    let mut link = |source: String, target: String, anchor: Option<&str>| {
        edges.push(GraphEdge { depth: 0, source, target, anchor: anchor.map(str::to_owned) });
    };
    let digest = view.notes().iter().filter(|it| it.role == Role::Note && in_digest(it));
    for card in digest {
        notes.insert(card.path.clone(), Goal::Note(card.clone()));
        let own = card.path.lossy().into_owned();
        for bucket in BUCKETS {
            if card.path.is_within(format!("{}/{bucket}", layout.digest).as_bytes()) {
                link(format!("virtual:{bucket}"), own.clone(), None);
            }
        }
        for lead in view.leads(card) {
            let Goal::Note(target) = &lead.to else { continue };
            if in_digest(target) || in_daily(target) {
                notes.insert(target.path.clone(), lead.to.clone());
                link(own.clone(), id_of(&lead.to), lead.anchor.as_deref());
            }
        }
    }
    graph.nodes.extend(BUCKETS.iter().map(|bucket| GraphNode {
        id: format!("virtual:{bucket}"),
        path: format!("{}/{bucket}", layout.digest),
        name: Some((*bucket).to_owned()),
        description: None,
        depth: 0,
        is_indexed: false,
        is_virtual: true,
    }));
    graph.nodes.extend(notes.values().map(|it| node_of(it, 0)));
    edges.sort();
    edges.dedup();
    graph.edges = edges;
    graph
}

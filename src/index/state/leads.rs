//! Every link with what it leads to, whether there is such a note or not.
//!
//! Pure. **Invariant:** a link is found from both of its ends, or from neither.

use std::sync::Arc;

use crate::index::card::Card;
use crate::index::state::State;
use crate::vault::resolve::{key_of_path, keys_of_link};
use crate::vault::{LinkKind, VaultPath};

/// What a link leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Goal {
    Note(Arc<Card>),
    /// No indexed note: the target as it is written.
    Wish(Box<str>),
}

/// A link from one place to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lead {
    pub from: Arc<Card>,
    pub to: Goal,
    /// Without `#`.
    pub anchor: Option<Box<str>>,
}

impl State {
    /// The links of a note in their order, those to itself aside.
    pub(in crate::index) fn leads(&self, card: &Arc<Card>) -> Vec<Lead> {
        let leads = card.links.iter().filter_map(|edge| {
            let to = match self.target(card, edge) {
                Some(target) if target.path == card.path => return None,
                Some(target) => Goal::Note(Arc::clone(target)),
                None if edge.target.trim().is_empty() => return None,
                None => Goal::Wish(edge.target.trim().into()),
            };
            Some(Lead { from: Arc::clone(card), to, anchor: edge.anchor.clone() })
        });
        leads.collect()
    }

    /// The links that lead to a place, by the notes they stand in.
    pub(in crate::index) fn leads_to(&self, goal: &Goal) -> Vec<Lead> {
        let path = match goal {
            Goal::Note(card) => card.path.clone(),
            Goal::Wish(target) => match VaultPath::new(target.as_bytes()) {
                Ok(path) => path,
                Err(_) => return Vec::new(),
            },
        };
        let key = key_of_path(&path);
        let ids = self.sources.get(&key).map(|it| it.as_slice()).unwrap_or_default();
        let mut sources: Vec<&Arc<Card>> = ids.iter().filter_map(|it| self.card_of(*it)).collect();
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        let mut leads = Vec::new();
        for source in sources.into_iter().filter(|it| it.path != path) {
            for edge in &source.links {
                if !keys_of_link(&edge.target).any(|it| it == key) {
                    continue;
                }
                let leads_here = match (goal, self.target(source, edge)) {
                    (Goal::Note(card), Some(target)) => target.path == card.path,
                    (Goal::Wish(wish), None) => edge.target.trim() == &**wish,
                    _ => false,
                };
                if leads_here {
                    let (from, to) = (Arc::clone(source), goal.clone());
                    leads.push(Lead { from, to, anchor: edge.anchor.clone() });
                }
            }
        }
        leads
    }

    /// The note that a person calls so.
    pub(in crate::index) fn meant_anywhere(&self, name: &str) -> Option<&Arc<Card>> {
        let root = VaultPath::new("index.md").ok()?;
        self.meant(&root, name)
    }

    /// The note that a link with this target would lead to from the note `from`.
    pub(in crate::index) fn meant(&self, from: &VaultPath, target: &str) -> Option<&Arc<Card>> {
        self.card(self.names.resolve(from, target, LinkKind::Wiki).path()?)
    }
}

//! Which edition of a page that does not keep a name gives now.
//!
//! Pure: the time comes in. A page is fleeting where the same question may have another answer a
//! moment later without the index having moved: the status, and partial answers. Each lookup of
//! such a name gives a new page, except that a stat and the open that follows it see one page:
//! tools like `cp` compare the two and give up when they differ.
//!
//! **Invariant:** an edition once replaced never comes back.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::mount::tree::Node;

/// How long after a stat an open still gets the same page.
const PAIR: Duration = Duration::from_millis(500);

/// How long a page that is stat'ed again and again stays.
const STAY: Duration = Duration::from_secs(2);

/// How many names are remembered.
const NAMES: NonZeroUsize = NonZeroUsize::new(256).unwrap();

pub struct Editions {
    names: LruCache<Node, Edition>,
    /// Higher than any number given, so that a forgotten name starts afresh.
    next: u32,
}

#[derive(Clone, Copy)]
struct Edition {
    number: u32,
    /// When its page was made, if it was and is fleeting.
    made: Option<Instant>,
    /// When it was last asked for its size.
    stated: Option<Instant>,
}

impl Editions {
    pub fn new() -> Self {
        Self { names: LruCache::new(NAMES), next: 1 }
    }

    /// The edition that a lookup of `node` gives at `now`, and the one it replaces.
    pub fn lookup(&mut self, node: &Node, now: Instant) -> (u32, Option<u32>) {
        let Some(edition) = self.names.get_mut(node) else {
            if !matches!(node, Node::Status(_)) {
                return (0, None);
            }
            let number = self.fresh();
            self.names.put(node.clone(), Edition { number, made: None, stated: None });
            return (number, None);
        };
        let Some(made) = edition.made else { return (edition.number, None) };
        let paired = edition.stated.is_some_and(|it| now.duration_since(it) < PAIR);
        if paired && now.duration_since(made) < STAY {
            return (edition.number, None);
        }
        let old = edition.number;
        let number = self.fresh();
        self.names.put(node.clone(), Edition { number, made: None, stated: None });
        (number, Some(old))
    }

    /// The edition that was given last.
    pub fn current(&self, node: &Node) -> u32 {
        self.names.peek(node).map_or(0, |it| it.number)
    }

    /// The page of that edition was made, and is fleeting.
    pub fn made(&mut self, node: &Node, number: u32, now: Instant) {
        let fresh = Edition { number, made: Some(now), stated: None };
        match self.names.get_mut(node) {
            Some(edition) if edition.number == number => {
                edition.made.get_or_insert(now);
            }
            // A newer one is on its way already.
            Some(_) => {}
            None => {
                self.names.put(node.clone(), fresh);
            }
        }
    }

    /// Somebody asked for the size of that edition.
    pub fn stated(&mut self, node: &Node, number: u32, now: Instant) {
        if let Some(edition) = self.names.get_mut(node)
            && edition.number == number
        {
            edition.stated = Some(now);
        }
    }

    /// That edition was opened: the pair is complete, and the next look is a new one.
    pub fn opened(&mut self, node: &Node, number: u32) {
        if let Some(edition) = self.names.get_mut(node)
            && edition.number == number
        {
            edition.stated = None;
        }
    }

    fn fresh(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.checked_add(1).unwrap_or(1);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::tree::Form;

    #[test]
    fn a_stat_and_its_open_see_one_page_and_the_next_look_another() {
        let mut editions = Editions::new();
        let node = Node::Status(Form::Json);
        let start = crate::base::clock::now();
        let at = |millis| start + Duration::from_millis(millis);
        let (first, _) = editions.lookup(&node, at(0));
        // Looked up, not made: still the same.
        assert_eq!(editions.lookup(&node, at(500)), (first, None));
        editions.made(&node, first, at(510));
        editions.stated(&node, first, at(510));
        assert_eq!(editions.lookup(&node, at(560)), (first, None), "the open after the stat");
        editions.opened(&node, first);
        let (second, old) = editions.lookup(&node, at(561));
        assert!(second != first && old == Some(first));
        // Opened without a stat: the next lookup is a new page at once.
        editions.made(&node, second, at(701));
        let (third, _) = editions.lookup(&node, at(702));
        assert_ne!(third, second);
        // Stat'ed all the time: it still moves on.
        editions.made(&node, third, at(703));
        let moved = (0..60).any(|step| {
            let now = at(703 + step * 50);
            editions.stated(&node, third, now);
            editions.lookup(&node, now).0 != third
        });
        assert!(moved);
    }

    #[test]
    fn a_whole_answer_keeps_its_page_and_a_partial_one_does_not() {
        let mut editions = Editions::new();
        let now = crate::base::clock::now();
        let node = Node::Readme;
        assert_eq!(editions.lookup(&node, now), (0, None));
        editions.made(&node, 0, now);
        let (next, old) = editions.lookup(&node, now);
        assert_eq!(old, Some(0));
        // This one is whole: nobody calls `made`, and it stays.
        assert_eq!(editions.lookup(&node, now + STAY * 2), (next, None));
    }
}

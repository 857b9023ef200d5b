//! When a commit that a program of the user refused is tried again.
//!
//! Pure. Takes the refusals and a `now`, says whether the way is open.
//!
//! **Invariant:** a refusal is never asked for again in a loop: the same tree waits longer each
//! time, and a program that hung is not called before its pause is over, whatever the tree.

use std::time::{Duration, Instant};

use gix::ObjectId;

/// The first pause after a refusal; it doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_secs(2);
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// Why a commit could not be made: what a hook or a signing program says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub what: String,
    pub remedy: String,
    /// Whether another content, or nothing but time, may change its mind.
    pub is_about_content: bool,
}

/// Closed after a refusal, until something changes or its pause is over.
#[derive(Debug, Default)]
pub(super) struct Gate {
    closed: Option<Closed>,
}

#[derive(Debug)]
struct Closed {
    refusal: Refusal,
    tree: ObjectId,
    pause: Duration,
    until: Instant,
}

impl Gate {
    /// The refusal that still holds for this tree, and for how long.
    pub fn check(&self, tree: ObjectId, now: Instant) -> Result<(), Refusal> {
        match &self.closed {
            Some(it) if it.until > now && (!it.refusal.is_about_content || it.tree == tree) => {
                Err(it.refusal.clone())
            }
            _ => Ok(()),
        }
    }

    /// Notes a refusal.
    pub fn close(&mut self, refusal: Refusal, tree: ObjectId, now: Instant) {
        let last = self.closed.as_ref().map(|it| it.pause);
        let pause = last.map_or(MIN_PAUSE, |it| (it * 2).min(MAX_PAUSE));
        self.closed = Some(Closed { refusal, tree, pause, until: now + pause });
    }

    /// Somebody asks: the rest of a long pause is let off.
    pub fn hurry(&mut self, now: Instant) {
        if let Some(closed) = &mut self.closed
            && closed.until.checked_sub(closed.pause).is_some_and(|it| it + MIN_PAUSE <= now)
        {
            closed.until = now;
        }
    }

    /// All is well, or other settings may make it so.
    pub fn open(&mut self) {
        self.closed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tree_waits_longer_each_time_and_another_one_only_if_that_may_help() {
        let (now, second) = (crate::base::clock::now(), Duration::from_secs(1));
        let tree = |byte: u8| ObjectId::from_bytes_or_panic(&[byte; 20]);
        let refusal = |is_about_content| Refusal {
            what: "no".into(),
            remedy: "yes".into(),
            is_about_content,
        };
        let mut gate = Gate::default();
        assert!(gate.check(tree(1), now).is_ok());
        gate.close(refusal(true), tree(1), now);
        assert!(gate.check(tree(1), now + second).is_err());
        assert!(gate.check(tree(2), now + second).is_ok());
        assert!(gate.check(tree(1), now + second * 3).is_ok());
        gate.close(refusal(false), tree(1), now);
        assert!(gate.check(tree(2), now + second * 3).is_err());
        assert!(gate.check(tree(2), now + second * 5).is_ok());
        gate.hurry(now + second);
        assert!(gate.check(tree(2), now + second).is_err());
        gate.hurry(now + second * 3);
        assert!(gate.check(tree(2), now + second * 3).is_ok());
        (0..20).for_each(|_| gate.close(refusal(true), tree(1), now));
        assert!(gate.check(tree(1), now + MAX_PAUSE).is_ok());
        gate.open();
        assert!(gate.check(tree(1), now).is_ok());
    }
}

//! The graph of neighbours beside the vectors of a space.
//!
//! Takes what the settings say, has the graph seen to on its own thread. Any thread.
//!
//! **Invariant:** a graph is of one space, and of the files that its vectors lie in.

use std::sync::Arc;

use super::Vectors;
use crate::index::neighbours::{Neighbours, Plan};
use crate::index::state::State;

impl Vectors {
    /// Above how many vectors a graph may name who is near.
    pub(in crate::index) fn draws_above(&self) -> usize {
        self.neighbours.above()
    }

    /// Lets a graph name who is near where there are more vectors than these.
    pub(in crate::index) fn draw_above(&mut self, rows: usize, state: &State) {
        if self.neighbours.above() != rows {
            self.neighbours = Arc::new(Neighbours::new(rows));
        }
        self.neighbours.look(self.plan(state));
    }

    /// Has a graph built that is wanted, now that there is time.
    pub(in crate::index) fn draw_if_due(&self, state: &State) {
        if self.neighbours.known().is_due() {
            self.neighbours.look(self.plan(state).when_idle());
        }
    }

    pub(super) fn plan(&self, state: &State) -> Plan {
        Plan::of(&self.folder, &self.heading, &self.disk, state, self.missing.len())
    }
}

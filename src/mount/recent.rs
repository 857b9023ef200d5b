//! The questions asked last.
//!
//! Pure. **Invariant:** at most 20, each once, the newest last.

use std::collections::VecDeque;

use crate::mount::tree::Node;

const MOST: usize = 20;

#[derive(Default)]
pub struct Recent {
    names: VecDeque<(Node, String)>,
}

impl Recent {
    /// The question was read; `name` asks it again.
    pub fn push(&mut self, node: &Node, name: &str) {
        if self.names.back().is_some_and(|it| it.1 == name) {
            return;
        }
        self.names.retain(|it| it.1 != name);
        if self.names.len() == MOST {
            self.names.pop_front();
        }
        self.names.push_back((node.clone(), name.to_owned()));
    }

    pub fn names(&self) -> Vec<(Node, String)> {
        self.names.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_twenty_each_once() {
        let mut recent = Recent::default();
        for number in 0..25 {
            recent.push(&Node::Readme, &number.to_string());
        }
        recent.push(&Node::Readme, "10");
        let names: Vec<_> = recent.names().into_iter().map(|it| it.1).collect();
        assert_eq!(names.len(), 20);
        assert_eq!(names.first().map(String::as_str), Some("5"));
        assert_eq!(names.last().map(String::as_str), Some("10"));
    }
}

//! What a note links to, and what links to it.
//!
//! Pure. **Invariant:** a name from the vault stands on one line.

use crate::render::results::push_neighbours;
use crate::render::{AsOf, counted};
use crate::search::Neighbour;
use crate::vault::VaultPath;

/// Which way the links go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// From the note.
    Out,
    /// To the note.
    In,
}

/// All neighbours of a note in one direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Links {
    pub neighbours: Vec<Neighbour>,
    pub as_of: AsOf,
}

/// The page `note/<path>/links` or `note/<path>/backlinks`.
pub fn text(path: &VaultPath, direction: Direction, links: &Links) -> Vec<u8> {
    let (title, arrow, one, many) = match direction {
        Direction::Out => ("outlinks", "→", "link", "links"),
        Direction::In => ("inlinks", "←", "backlink", "backlinks"),
    };
    let count = links.neighbours.len();
    let mut out = format!("{path}\n");
    push_neighbours(&mut out, title, arrow, &links.neighbours, count);
    if count == 0 {
        out.push_str(&format!("No {many}.\n"));
    }
    out.push_str(&format!("-- {}{}\n", counted(count, one, many), links.as_of.text()));
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::CommitId;

    #[test]
    fn both_directions_and_none() {
        let at = CommitId::from_hex("4f2c9e1d00000000000000000000000000000abc");
        let as_of = AsOf { at, ..AsOf::default() };
        let bicycle = Neighbour {
            path: VaultPath::new("digest/wiki/bicycle.md").unwrap(),
            name: "Bicycle".to_owned(),
            description: Some("Two wheels".to_owned()),
            anchors: vec!["Chain".to_owned()],
            relation: None,
        };
        let path = VaultPath::new("a.md").unwrap();
        let check = |direction, neighbours, expected: &str| {
            let page = text(&path, direction, &Links { neighbours, as_of });
            assert_eq!(String::from_utf8(page).unwrap(), expected);
        };
        check(
            Direction::Out,
            vec![bicycle],
            "a.md\n  outlinks (1):\n    → digest/wiki/bicycle.md  name=\"Bicycle\"  \
             description=\"Two wheels\"\n        via anchor=#Chain\n\
             -- 1 link as of 4f2c9e1, current\n",
        );
        check(
            Direction::In,
            vec![],
            "a.md\nNo backlinks.\n-- 0 backlinks as of 4f2c9e1, current\n",
        );
    }
}

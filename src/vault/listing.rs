//! The names in one folder of a tree.
//!
//! Pure. Takes names with what they are, gives them back by name: compactly, as a folder may have a
//! hundred thousand.
//!
//! **Invariant:** sorted by name, each once; only names that a vault path can have.

use std::collections::BTreeMap;
use std::path::Path;

use crate::vault::change::{Entry, FileMode};
use crate::vault::ids::BlobId;
use crate::vault::path::VaultPath;

/// What a name in a folder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listed<'a> {
    Folder,
    File(Entry),
    /// A symlink, with what it points to.
    Link(BlobId, &'a [u8]),
}

/// One folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    names: Vec<u8>,
    rows: Vec<Row>,
    /// Where the links point, by their places.
    targets: BTreeMap<usize, Box<[u8]>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    /// Where its name ends among the names.
    end: usize,
    /// `None` for a folder.
    entry: Option<Entry>,
}

/// What a folder is made from: a name, the entry of a file, and where a link points.
pub type Found = (Vec<u8>, Option<Entry>, Option<Box<[u8]>>);

impl Listing {
    /// Takes them in any order; what no vault path can be called is left out.
    pub fn new(mut found: Vec<Found>) -> Self {
        found.retain(|it| !it.0.contains(&b'/') && VaultPath::new(&it.0).is_ok());
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found.dedup_by(|a, b| a.0 == b.0);
        let mut listing = Self {
            names: Vec::with_capacity(found.iter().map(|it| it.0.len()).sum()),
            rows: Vec::with_capacity(found.len()),
            targets: BTreeMap::new(),
        };
        for (name, entry, target) in found {
            listing.names.extend_from_slice(&name);
            if let Some(target) = target {
                listing.targets.insert(listing.rows.len(), target);
            }
            listing.rows.push(Row { end: listing.names.len(), entry });
        }
        listing
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What is called so.
    pub fn get(&self, name: &[u8]) -> Option<Listed<'_>> {
        let mut low = 0;
        let mut high = self.rows.len();
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name(middle).cmp(name) {
                std::cmp::Ordering::Equal => return self.listed(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Listed<'_>)> {
        (0..self.rows.len()).filter_map(|at| Some((self.name(at), self.listed(at)?)))
    }

    /// About what it takes of memory.
    pub fn weight(&self) -> usize {
        let targets: usize = self.targets.values().map(|it| 64 + it.len()).sum();
        self.names.len() + self.rows.len() * size_of::<Row>() + targets
    }

    fn name(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).and_then(|it| self.rows.get(it)).map_or(0, |it| it.end);
        let end = self.rows.get(at).map_or(start, |it| it.end);
        &self.names[start..end]
    }

    fn listed(&self, at: usize) -> Option<Listed<'_>> {
        Some(match self.rows.get(at)?.entry {
            None => Listed::Folder,
            Some(Entry { blob, mode: FileMode::Symlink }) => {
                Listed::Link(blob, self.targets.get(&at).map(|it| &**it).unwrap_or_default())
            }
            // A submodule that nobody checked out is an empty folder.
            Some(Entry { mode: FileMode::Gitlink, .. }) => Listed::Folder,
            Some(entry) => Listed::File(entry),
        })
    }
}

/// Whether a symlink at `link` cannot lead out of the tree that it is in, whatever other links it
/// goes through: `..` stands only at its beginning, where it goes up from the link's own folder, and
/// no further than that lies below the top.
pub fn stays_inside(link: &VaultPath, target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) {
        return false;
    }
    let mut parts = target.split(|it| *it == b'/').filter(|it| !matches!(*it, b"" | b"."));
    let mut depth = link.components().count() - 1;
    let mut named = parts.by_ref().skip_while(|it| {
        let is_up = *it == b"..";
        if is_up && depth > 0 {
            depth -= 1;
            return true;
        }
        false
    });
    named.all(|it| it != b"..")
}

/// A target as a path of the operating system.
pub fn target_path(target: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(byte: u8, mode: FileMode) -> Option<Entry> {
        Some(Entry { blob: BlobId::from_bytes(&[byte; 20]).unwrap(), mode })
    }

    #[test]
    fn every_name_is_found_and_nothing_else() {
        let mut found: Vec<Found> = (0..1000)
            .rev()
            .map(|it| (format!("n{it}.md").into_bytes(), entry(1, FileMode::File), None))
            .collect();
        found.push((b"folder".to_vec(), None, None));
        found.push((b"module".to_vec(), entry(2, FileMode::Gitlink), None));
        found.push((b"link".to_vec(), entry(3, FileMode::Symlink), Some((*b"n1.md").into())));
        found.push((b".git".to_vec(), None, None));
        found.push((b"a/b".to_vec(), entry(1, FileMode::File), None));
        found.push((b"n1.md".to_vec(), entry(1, FileMode::File), None));
        let listing = Listing::new(found);
        assert_eq!(listing.len(), 1003);
        let names: Vec<_> = listing.iter().map(|it| it.0.to_vec()).collect();
        assert!(names.is_sorted() && names.len() == 1003);
        for (name, listed) in listing.iter() {
            assert_eq!(listing.get(name), Some(listed));
        }
        assert_eq!(listing.get(b"folder"), Some(Listed::Folder));
        assert_eq!(listing.get(b"module"), Some(Listed::Folder));
        assert!(matches!(listing.get(b"link"), Some(Listed::Link(_, b"n1.md"))));
        for absent in [&b""[..], b"n", b"n1000.md", b"zzz", b".git", b"a/b"] {
            assert_eq!(listing.get(absent), None);
        }
        assert_eq!(Listing::default().get(b"x"), None);
    }

    #[test]
    fn a_link_that_may_lead_out_is_told() {
        let check = |link: &str, target: &str, is_inside: bool| {
            let link = VaultPath::new(link).unwrap();
            assert_eq!(stays_inside(&link, target.as_bytes()), is_inside, "{link} → {target}");
        };
        check("l", "a.md", true);
        check("l", "d/a.md", true);
        check("l", "./d/./a.md", true);
        check("d/l", "../a.md", true);
        check("d/e/l", "../../a.md", true);
        check("d/l", "..", true);
        check("l", ".", true);
        check("l", "..", false);
        check("l", "../a.md", false);
        check("d/l", "../../a.md", false);
        check("l", "/etc/passwd", false);
        check("l", "", false);
        check("l", "d/../../x", false);
        // Where `d` is a link to the top, this one would climb from there.
        check("a/b/l", "d/../x", false);
        check("a/b/l", "../d/../x", false);
    }
}

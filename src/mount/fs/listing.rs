//! What a folder lists, and what its listing says of a name.
//!
//! Takes a folder's inode, gives its items as a lookup right now would find them. Called from
//! fuser's threads and the crews.
//!
//! **Invariant:** listing starts no search; what is listed is there when it is looked up, unless the
//! answers have moved on.

use std::path::Path;
use std::sync::Arc;

use crate::mount::answers::{EntryKind, Means};
use crate::mount::fs::Inner;
use crate::mount::fs::said::{FsError, Item, Kind};
use crate::mount::inode::{Inode, Way, number_of};
use crate::mount::page::{Content, Page, PageKey};
use crate::mount::tree::{self, About, Form, NameError, Node, Step};
use crate::vault::VaultPath;

impl Inner {
    /// What a folder lists; `None` for what is no folder.
    pub(super) fn items(&self, folder: &Inode) -> Option<Vec<Item>> {
        let node = &folder.key.node;
        let view = self.answers.view();
        let item = |name: Vec<u8>, kind, node: Node| {
            // What a lookup right now would give, the status aside, which is new each time.
            let view = if node.is_of_a_view() { view } else { 0 };
            let way = Way::to(&node, folder.number, &name);
            let key = PageKey { node, view, edition: 0, means: Means::Outside };
            let inode = number_of(&key, way);
            Item { name, kind, inode }
        };
        let entry = |folder: &VaultPath, name: Vec<u8>, kind| {
            let path = folder.join(&name).ok()?;
            let node = match kind {
                EntryKind::Note => Node::Note(path),
                EntryKind::Folder => Node::Folder(path),
            };
            Some(item(name, Kind::Folder, node))
        };
        Some(match node {
            Node::Root | Node::Note(_) => {
                let names: &[&str] = match node {
                    Node::Root => tree::ROOT,
                    _ => &["backlinks", "links"],
                };
                let node_of = |name: &str| match tree::child(node, name.as_bytes()) {
                    Ok(Step::Node(node)) => Some(node),
                    _ => None,
                };
                let items = names.iter().filter_map(|name| {
                    let node = node_of(name)?;
                    let kind = if node.is_folder() { Kind::Folder } else { Kind::File };
                    Some(item(name.as_bytes().to_vec(), kind, node))
                });
                items.collect()
            }
            Node::Ask(About::Passages, options)
                if **options == tree::options::Options::default() =>
            {
                self.recent_items()
            }
            Node::Ask(..) | Node::Notes | Node::Similars => Vec::new(),
            Node::SimilarFolder(folder) => {
                let entries = self.answers.entries(folder).into_iter();
                let similar = entries.filter_map(|(name, kind)| {
                    let path = folder.join(&name).ok()?;
                    Some(match kind {
                        EntryKind::Note => item(name, Kind::File, Node::Similar(path, Form::Text)),
                        EntryKind::Folder => item(name, Kind::Folder, Node::SimilarFolder(path)),
                    })
                });
                similar.collect()
            }
            Node::Folder(folder) => {
                let entries = self.answers.entries(folder).into_iter();
                entries.filter_map(|(name, kind)| entry(folder, name, kind)).collect()
            }
            _ => return None,
        })
    }

    /// What stands below `similar/` under the path of a note, of a folder, or of a note and a form.
    pub(super) fn similar_node(&self, path: &VaultPath) -> Option<Node> {
        tree::similar_forms(path).into_iter().find_map(|(path, form)| {
            match self.answers.entry(&path)? {
                EntryKind::Note => Some(Node::Similar(path, form)),
                EntryKind::Folder if form == Form::Text => Some(Node::SimilarFolder(path)),
                EntryKind::Folder => None,
            }
        })
    }

    /// Recent questions whose answer is at hand: walking them starts no search.
    fn recent_items(&self) -> Vec<Item> {
        let view = self.answers.view();
        let recent = self.recent().names();
        let items = recent.into_iter().filter_map(|(node, name)| {
            let edition = self.editions().current(&node);
            let key = PageKey { node, view, edition, means: Means::Outside };
            self.pages.peek(&key).filter(|it| !it.fleeting)?;
            Some(Item {
                name: name.into_bytes(),
                kind: Kind::File,
                inode: number_of(&key, Way::default()),
            })
        });
        items.collect()
    }
}

pub(super) fn target_of(page: &Page, name: &[u8]) -> Result<Arc<Path>, FsError> {
    let Content::Ranking(links) = &page.content else { return Err(FsError::Stale) };
    let found = links.iter().find(|it| *it.0 == *name);
    found.map(|it| Arc::clone(&it.1)).ok_or(FsError::Name(NameError::Absent))
}

pub(super) fn ranked_items(folder: &Inode, page: &Page) -> Arc<[Item]> {
    let own = |name: &[u8], kind, inode| Item { name: name.to_vec(), kind, inode };
    let mut items =
        vec![own(b".", Kind::Folder, folder.number), own(b"..", Kind::Folder, folder.number)];
    if let (Content::Ranking(links), Node::Ranking(asked)) = (&page.content, &folder.key.node) {
        items.extend(links.iter().map(|(name, target)| {
            let node = Node::Ranked(asked.clone(), Arc::clone(name), Arc::clone(target));
            own(
                name,
                Kind::Link,
                number_of(&PageKey { node, ..folder.key.clone() }, Way::default()),
            )
        }));
    }
    items.into()
}

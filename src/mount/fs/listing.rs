//! What a folder lists, and what its listing says of a name.
//!
//! Takes a folder's inode, gives its items as a lookup right now would find them. Called from
//! fuser's threads and the crews.
//!
//! **Invariant:** listing starts no search; what is listed is there when it is looked up, unless the
//! answers have moved on.

use std::sync::Arc;

use crate::mount::answers::{EntryKind, Means};
use crate::mount::fs::Inner;
use crate::mount::fs::said::{Item, Kind};
use crate::mount::inode::{Inode, Way, number_of};
use crate::mount::page::{Content, Page, PageKey};
use crate::mount::past::history_view;
use crate::mount::tree::{self, About, Form, Moment, Node, Past, PastFile, Step, VERSIONS, View};
use crate::vault::fold::folded;
use crate::vault::listing::{stays_inside, target_path};
use crate::vault::{Entry, FileMode, Listed, VaultPath};

impl Inner {
    /// Where the page of a folder is found that is made of a page; `None` for any other folder.
    pub(super) fn listing_key(&self, folder: &Inode) -> Option<PageKey> {
        match &folder.key.node {
            Node::Ranking(_) | Node::Past(Past::Folder(..) | Past::Versions(..)) => {
                Some(folder.key.clone())
            }
            // Of the notes as they are now, whenever the folder was found.
            Node::View(view) if view.is_folder() => {
                Some(PageKey { view: self.answers.view(), ..folder.key.clone() })
            }
            Node::Past(Past::HistoryFolder(_)) => {
                // Without a commit the page says that there is none.
                let view = self.answers.head().map_or(0, history_view);
                Some(PageKey { view, ..folder.key.clone() })
            }
            _ => None,
        }
    }

    /// The key of what the page of a folder lists.
    pub(super) fn key_in(folder: &PageKey, node: Node) -> PageKey {
        let (view, edition) = match node.is_of_a_view() {
            true => (folder.view, folder.edition),
            false => (0, 0),
        };
        PageKey { node, view, edition, means: Means::Outside }
    }

    /// The items of a folder that is made of a page.
    pub(super) fn items_of(&self, folder: &Inode, page: &Page) -> Arc<[Item]> {
        let mut items = vec![own(b".", folder), own(b"..", folder)];
        items.extend(all_named(&folder.key.node, page).into_iter().map(|(name, node)| {
            let (kind, way) = (kind_of(&node), Way::to(&node, folder.number, &name));
            let inode = number_of(&Self::key_in(&folder.key, node), way);
            Item { name, kind, inode }
        }));
        items.into()
    }

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
                    _ => &["backlinks", "blame", "history", "links"],
                };
                let node_of = |name: &str| match tree::child(node, name.as_bytes()) {
                    Ok(Step::Node(node)) => Some(node),
                    _ => None,
                };
                let items = names.iter().filter_map(|name| {
                    let node = node_of(name)?;
                    Some(item(name.as_bytes().to_vec(), kind_of(&node), node))
                });
                items.collect()
            }
            Node::Ask(About::Passages, options)
                if **options == tree::options::Options::default() =>
            {
                self.recent_items()
            }
            Node::Ask(..)
            | Node::Notes
            | Node::Similars
            | Node::Past(Past::Moments | Past::HistoryFolder(None)) => Vec::new(),
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

/// A folder's own two names.
pub(super) fn own(name: &[u8], folder: &Inode) -> Item {
    Item { name: name.to_vec(), kind: Kind::Folder, inode: folder.number }
}

/// What the page of a folder calls so.
pub(super) fn named(folder: &Node, page: &Page, name: &[u8]) -> Option<Node> {
    match &page.content {
        Content::Names(names) => {
            let exact = names.iter().find(|it| *it.0 == *name);
            let found = match (exact, folder) {
                (None, Node::View(View::Tag(_))) => {
                    let wanted = folded(name);
                    names.iter().find(|it| it.1.is_folder() && folded(&it.0) == wanted)
                }
                (exact, _) => exact,
            };
            found.map(|it| it.1.clone())
        }
        Content::Tree(_, listing) => match folder {
            Node::Past(Past::Folder(moment, folder)) => {
                past_node(*moment, folder.as_ref(), name, listing.get(name)?)
            }
            _ => None,
        },
        Content::Bytes(_) | Content::Size(_) | Content::Moment(_) => None,
    }
}

/// All that the page of a folder lists.
pub(super) fn all_named(folder: &Node, page: &Page) -> Vec<(Vec<u8>, Node)> {
    match (&page.content, folder) {
        (Content::Names(names), _) => {
            names.iter().map(|it| (it.0.to_vec(), it.1.clone())).collect()
        }
        (Content::Tree(_, listing), Node::Past(Past::Folder(moment, folder))) => {
            let nodes = listing.iter().filter_map(|(name, listed)| {
                Some((name.to_vec(), past_node(*moment, folder.as_ref(), name, listed)?))
            });
            nodes.collect()
        }
        (Content::Tree(head, listing), Node::Past(Past::HistoryFolder(folder))) => {
            let nodes = listing.iter().filter_map(|(name, listed)| {
                let path = folder.as_ref()?.join(name).ok()?;
                Some(match listed {
                    Listed::Folder => (name.to_vec(), Node::Past(Past::HistoryFolder(Some(path)))),
                    Listed::File(_) | Listed::Link(..) => {
                        ([name, VERSIONS].concat(), Node::Past(Past::Versions(*head, path)))
                    }
                })
            });
            nodes.collect()
        }
        _ => Vec::new(),
    }
}

/// What stands in a folder of the past. A link that might lead out of its tree is a file with what it
/// says, as Git makes one where there can be no links.
fn past_node(
    moment: Moment,
    folder: Option<&VaultPath>,
    name: &[u8],
    listed: Listed<'_>,
) -> Option<Node> {
    let path = match folder {
        Some(folder) => folder.join(name).ok()?,
        None => VaultPath::new(name).ok()?,
    };
    Some(Node::Past(match listed {
        Listed::Folder => Past::Folder(moment, Some(path)),
        Listed::Link(_, target) if stays_inside(&path, target) => {
            Past::Link(moment, path, target_path(target).into())
        }
        Listed::Link(blob, _) => Past::File(moment, PastFile { path, blob, is_program: false }),
        Listed::File(Entry { blob, mode }) => {
            let is_program = mode == FileMode::Executable;
            Past::File(moment, PastFile { path, blob, is_program })
        }
    }))
}

/// How a place shows.
pub(super) fn kind_of(node: &Node) -> Kind {
    match node {
        node if node.is_folder() => Kind::Folder,
        Node::Ranked(..) | Node::Past(Past::Link(..)) | Node::View(View::Link(_)) => Kind::Link,
        Node::Past(Past::File(_, file)) if file.is_program => Kind::Program,
        _ => Kind::File,
    }
}

//! Names that only a page, or Git, can tell the meaning of.
//!
//! Takes a folder's inode and a name, calls back with the entry: at once where the page of the folder
//! is at hand, from another thread where it is not. Called from fuser's threads.
//!
//! **Invariant:** a name in `at/` is asked for anew each time, and what it led to before stays what it
//! was; a name below a moment never changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::mount::answers::Means;
use crate::mount::fs::listing::named;
use crate::mount::fs::said::{Entry, FsError, Reply};
use crate::mount::fs::{Inner, LONG};
use crate::mount::inode::{Inode, Way};
use crate::mount::page::{Content, Made, Page, PageError, PageKey};
use crate::mount::past::history_view;
use crate::mount::tree::{NameError, Node, Past, VERSIONS, is_probe};
use crate::vault::{CommitId, Listed, VaultPath};

impl Inner {
    /// A name in a folder that is made of a page.
    pub(super) fn look_up_in(
        self: &Arc<Self>,
        folder: Arc<Inode>,
        name: &[u8],
        reply: Reply<Entry>,
    ) {
        let Some(key) = self.listing_key(&folder) else { return reply(Err(FsError::NotFolder)) };
        let (inner, name) = (Arc::clone(self), name.to_vec());
        let then = Box::new(move |made: Made| {
            let page = match made {
                Ok(page) => page,
                Err(err) => return reply(Err(err.into())),
            };
            if let Node::Past(Past::HistoryFolder(path)) = &folder.key.node {
                return inner.look_up_in_history(path.as_ref(), &page, &name, reply);
            }
            inner.note_ranking(&folder.key, &page);
            let found = || {
                let node = named(&folder.key.node, &page, &name).ok_or(NameError::Absent)?;
                let way = Way::to(&node, folder.number, &name);
                let entry = inner.enter(Self::key_in(&folder.key, node), way);
                Ok(match &folder.key.node {
                    // What a commit has under a name it has for good.
                    Node::Past(_) => Entry { ttl: LONG, ..entry },
                    _ => entry,
                })
            };
            reply(found());
        });
        self.pages.get(&key, then);
    }

    /// A name in `at/`.
    pub(super) fn look_up_moment(
        self: &Arc<Self>,
        folder: Arc<Inode>,
        name: &[u8],
        moment: Arc<str>,
        reply: Reply<Entry>,
    ) {
        // Of its own: whoever asks later gets no answer that was begun before.
        let view = self.next_moment.fetch_add(1, Ordering::Relaxed);
        let node = Node::Past(Past::Named(moment));
        let key = PageKey { node, view, edition: 0, means: Means::Outside };
        let (inner, name) = (Arc::clone(self), name.to_vec());
        let then = Box::new(move |made: Made| {
            reply(made.map_err(FsError::from).and_then(|page| {
                let Content::Moment(moment) = page.content else { return Err(FsError::Stale) };
                let node = Node::Past(Past::Folder(moment, None));
                let way = Way::to(&node, folder.number, &name);
                Ok(inner.enter(plain(node), way))
            }));
        });
        self.pages.get(&key, then);
    }

    /// A note's versions, or a folder of `history/`: what HEAD has is known from the listing, for what
    /// is gone Git is asked.
    fn look_up_in_history(
        self: &Arc<Self>,
        folder: Option<&VaultPath>,
        page: &Page,
        name: &[u8],
        reply: Reply<Entry>,
    ) {
        let absent = || FsError::from(NameError::Absent);
        let Content::Tree(head, listing) = &page.content else { return reply(Err(absent())) };
        let path = |name: &[u8]| match folder {
            Some(folder) => folder.join(name).ok(),
            None => VaultPath::new(name).ok(),
        };
        let note = name.strip_suffix(VERSIONS).filter(|it| !it.is_empty());
        let versions = note.and_then(path).map(|it| Past::Versions(*head, it));
        let below = path(name).map(|it| Past::HistoryFolder(Some(it)));
        match note.and_then(|it| listing.get(it)) {
            None | Some(Listed::Folder) => {}
            Some(_) => return reply(self.enter_past(versions)),
        }
        if listing.get(name) == Some(Listed::Folder) {
            return reply(self.enter_past(below));
        }
        // What programs look for on their own is asked of nobody.
        if is_probe(name) {
            return reply(Err(absent()));
        }
        let gone = versions.into_iter().chain(below).collect();
        self.look_up_gone(*head, gone, reply);
    }

    /// The first of these places that Git knows anything of.
    fn look_up_gone(
        self: &Arc<Self>,
        head: CommitId,
        mut gone: VecDeque<Past>,
        reply: Reply<Entry>,
    ) {
        let Some(first) = gone.pop_front() else { return reply(Err(NameError::Absent.into())) };
        let view = match &first {
            Past::HistoryFolder(_) => history_view(head),
            _ => 0,
        };
        let key = PageKey { view, ..plain(Node::Past(first.clone())) };
        let inner = Arc::clone(self);
        let then = Box::new(move |made: Made| match made {
            Ok(_) => reply(inner.enter_past(Some(first))),
            Err(PageError::Absent) => inner.look_up_gone(head, gone, reply),
            Err(err) => reply(Err(err.into())),
        });
        self.pages.get(&key, then);
    }

    fn enter_past(&self, past: Option<Past>) -> Result<Entry, FsError> {
        let past = past.ok_or(NameError::Absent)?;
        Ok(self.enter(plain(Node::Past(past)), Way::default()))
    }
}

fn plain(node: Node) -> PageKey {
    PageKey { node, view: 0, edition: 0, means: Means::Outside }
}

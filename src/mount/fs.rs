//! The filesystem, without fuser.
//!
//! Takes inode numbers, names and handles, gives attributes, bytes and listings. What may need a
//! page takes a callback, which is called at once where the page is at hand and from another
//! thread where it is not. Called from fuser's threads, none of which ever waits here.
//!
//! **Invariant:** a lookup runs nothing (a link in `links/<query>/` excepted). The page is made by
//! stat or open, and is the inode's from then on: `fstat` of an open file is exact, two reads of it
//! never differ. Nobody outside is asked before an open; until then a stat shows what is at hand.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::base::clock;
use crate::mount::answers::{Answers, EntryKind, Means};
use crate::mount::edition::Editions;
use crate::mount::fs::listing::{kind_of, own};
use crate::mount::inode::{Facts, Inode, Inodes, Way};
use crate::mount::make;
use crate::mount::page::{Limits, Page, PageKey, Pages, since_epoch};
use crate::mount::recent::Recent;
use crate::mount::tally::Tally;
use crate::mount::tree::{self, About, NameError, Node, Past, Step, View};

mod listing;
mod lookup;
mod said;

pub use said::{Attr, Entry, FsError, Item, Kind, Opened, Reply, Slice};

/// How long the kernel may believe what cannot change.
const LONG: Duration = Duration::from_secs(3600);

/// How many inodes are known at most.
const INODES: usize = 65_536;

#[derive(Clone)]
pub struct VaultFs {
    inner: Arc<Inner>,
}

struct Inner {
    answers: Arc<dyn Answers>,
    pages: Pages,
    inodes: Inodes,
    editions: Mutex<Editions>,
    recent: Mutex<Recent>,
    open: Mutex<HashMap<u64, Handle>>,
    next_handle: AtomicU64,
    /// Tells two questions for one moment apart.
    next_moment: AtomicU64,
    tally: Tally,
    mounted: SystemTime,
}

#[derive(Clone)]
enum Handle {
    File { inode: Arc<Inode>, page: Arc<Page> },
    Folder(Arc<[Item]>),
}

impl VaultFs {
    pub fn new(
        answers: Arc<dyn Answers>,
        mountpoint: PathBuf,
        limits: Limits,
        tally: Tally,
    ) -> std::io::Result<Self> {
        let asked = Arc::clone(&answers);
        let maker = move |key: &PageKey, until| make::page(&*asked, &mountpoint, key, until);
        Ok(Self {
            inner: Arc::new(Inner {
                answers,
                pages: Pages::new(limits, tally.clone(), Box::new(maker))?,
                inodes: Inodes::new(INODES),
                editions: Mutex::new(Editions::new()),
                recent: Mutex::new(Recent::default()),
                open: Mutex::new(HashMap::new()),
                next_handle: AtomicU64::new(1),
                next_moment: AtomicU64::new(1),
                tally,
                mounted: clock::wall(),
            }),
        })
    }

    /// What `name` is in the folder `parent`.
    pub fn lookup(&self, parent: u64, name: &[u8], reply: Reply<Entry>) {
        let Some(folder) = self.inner.inodes.get(parent) else { return reply(Err(FsError::Stale)) };
        let node = match tree::child(&folder.key.node, name) {
            Err(err) => return reply(Err(err.into())),
            Ok(Step::Node(node)) => node,
            Ok(Step::InVault(path)) => match self.inner.answers.entry(&path) {
                Some(EntryKind::Note) => Node::Note(path),
                Some(EntryKind::Folder) => Node::Folder(path),
                None => return reply(Err(NameError::Absent.into())),
            },
            Ok(Step::InSimilar(path)) => match self.inner.similar_node(&path) {
                Some(node) => node,
                None => return reply(Err(NameError::Absent.into())),
            },
            Ok(Step::InListing) => return self.inner.look_up_in(folder, name, reply),
            Ok(Step::Moment(moment)) => {
                return self.inner.look_up_moment(folder, name, moment, reply);
            }
        };
        let way = Way::to(&node, folder.number, name);
        let key = self.inner.key_of(node);
        reply(Ok(self.inner.enter(key, way)));
    }

    pub fn forget(&self, inode: u64, lookups: u64) {
        self.inner.inodes.forget(inode, lookups);
    }

    /// What stands behind an inode; makes its page where there is none yet.
    pub fn getattr(&self, inode: u64, reply: Reply<Attr>) {
        let Some(inode) = self.inner.inodes.get(inode) else { return reply(Err(FsError::Stale)) };
        if let Some(attr) = self.inner.attr_at_hand(&inode) {
            self.inner.note_stat(&inode);
            return reply(Ok(attr));
        }
        let inner = Arc::clone(&self.inner);
        let then = Box::new(move |made: Paged| {
            reply(made.map(|(inode, _, facts)| {
                inner.note_stat(&inode);
                file_attr(&inode, facts)
            }));
        });
        match self.inner.means_of_a_look(&inode.key.node) {
            Means::AtHand => self.inner.page_at_hand(inode, then),
            Means::Outside => self.inner.page_of(inode, then),
        }
    }

    /// Opens a page; makes it where there is none yet, by all means.
    pub fn open(&self, inode: u64, reply: Reply<Opened>) {
        let Some(inode) = self.inner.inodes.get(inode) else { return reply(Err(FsError::Stale)) };
        if inode.key.node.is_folder() {
            return reply(Err(FsError::IsFolder));
        }
        let inner = Arc::clone(&self.inner);
        self.inner.page_of(
            inode,
            Box::new(move |made| {
                reply(made.map(|(inode, page, facts)| {
                    inode.opened();
                    if facts.fleeting {
                        let key = &inode.key;
                        inner.editions().opened(&key.node, key.edition);
                    }
                    let is_other = inode.has_shown_other();
                    Opened { handle: inner.keep_open(Handle::File { inode, page }), is_other }
                }));
            }),
        );
    }

    /// A piece of an open page.
    pub fn read(&self, handle: u64, offset: u64, size: u32) -> Result<Slice, FsError> {
        let (inode, page) = match self.inner.open().get(&handle) {
            Some(Handle::File { inode, page }) => (Arc::clone(inode), Arc::clone(page)),
            Some(Handle::Folder(_)) => return Err(FsError::IsFolder),
            None => return Err(FsError::NotOpen),
        };
        if offset == 0 {
            self.inner.note_read(&inode);
        }
        let length = page.bytes().len();
        let start = usize::try_from(offset).unwrap_or(length).min(length);
        let end = start.saturating_add(usize::try_from(size).unwrap_or(length)).min(length);
        Ok(Slice { page, range: start..end })
    }

    /// Opens a folder: its listing is made here and stays as it is until closed.
    pub fn opendir(&self, inode: u64, reply: Reply<u64>) {
        let Some(inode) = self.inner.inodes.get(inode) else { return reply(Err(FsError::Stale)) };
        if let Some(key) = self.inner.listing_key(&inode).filter(|_| !inode.key.node.is_top()) {
            let inner = Arc::clone(&self.inner);
            return self.inner.pages.get(
                &key,
                Box::new(move |made| {
                    reply(made.map_err(FsError::from).map(|page| {
                        inner.note_ranking(&inode.key, &page);
                        inner.keep_open(Handle::Folder(inner.items_of(&inode, &page)))
                    }));
                }),
            );
        }
        reply(match self.inner.items(&inode) {
            None => Err(FsError::NotFolder),
            Some(mut items) => {
                items.sort_by(|a, b| a.name.cmp(&b.name));
                items.splice(0..0, [own(b".", &inode), own(b"..", &inode)]);
                Ok(self.inner.keep_open(Handle::Folder(items.into())))
            }
        });
    }

    /// The listing of an open folder.
    pub fn readdir(&self, handle: u64) -> Result<Arc<[Item]>, FsError> {
        match self.inner.open().get(&handle) {
            Some(Handle::Folder(items)) => Ok(Arc::clone(items)),
            Some(Handle::File { .. }) => Err(FsError::NotFolder),
            None => Err(FsError::NotOpen),
        }
    }

    /// Closes a file or a folder.
    pub fn release(&self, handle: u64) {
        let closed = {
            let mut open = self.inner.open();
            let closed = open.remove(&handle);
            self.inner.tally.open(open.len());
            closed
        };
        // A page may be large; it is freed here, outside the lock.
        if let Some(Handle::File { inode, .. }) = closed {
            inode.closed();
        }
    }

    /// Where a link points.
    pub fn readlink(&self, inode: u64) -> Result<Arc<Path>, FsError> {
        let inode = self.inner.inodes.get(inode).ok_or(FsError::Stale)?;
        match &inode.key.node {
            Node::Ranked(_, _, target)
            | Node::Past(Past::Link(_, _, target))
            | Node::View(View::Link(target)) => Ok(Arc::clone(target)),
            _ => Err(FsError::NotLink),
        }
    }
}

type Paged = Result<(Arc<Inode>, Arc<Page>, Facts), FsError>;

impl Inner {
    /// The key under which `node` is a page now.
    fn key_of(&self, node: Node) -> PageKey {
        let view = if node.is_of_a_view() { self.answers.view() } else { 0 };
        let (edition, old) = self.editions().lookup(&node, clock::now());
        let key = PageKey { node, view, edition, means: Means::Outside };
        if let Some(edition) = old {
            let old = PageKey { edition, ..key.clone() };
            self.pages.let_go(&old.at_hand());
            self.pages.let_go(&old);
        }
        key
    }

    fn enter(&self, key: PageKey, way: Way) -> Entry {
        let at_hand = self.pages.peek(&key);
        let inode = self.inodes.lookup(key, way);
        if let Some(page) = at_hand {
            // Where it has told of another page, open will say so.
            let _told = inode.tell(&page);
        }
        let attr = self.attr_at_hand(&inode).unwrap_or_else(|| Attr {
            inode: inode.number,
            kind: kind_of(&inode.key.node),
            size: 0,
            time: self.mounted,
            ttl: Duration::ZERO,
        });
        let fixed = matches!(
            inode.key.node,
            Node::Root
                | Node::Readme
                | Node::Ask(..)
                | Node::Notes
                | Node::Similars
                | Node::Past(Past::Moments | Past::HistoryFolder(None))
        );
        Entry { attr, ttl: if fixed { LONG } else { Duration::ZERO } }
    }

    /// The attributes, where no page needs to be made for them.
    fn attr_at_hand(&self, inode: &Inode) -> Option<Attr> {
        let node = &inode.key.node;
        let size = match node {
            node if node.is_folder() => 0,
            Node::Ranked(_, _, target)
            | Node::Past(Past::Link(_, _, target))
            | Node::View(View::Link(target)) => {
                u64::try_from(target.as_os_str().len()).unwrap_or(0)
            }
            _ => return inode.facts().map(|facts| file_attr(inode, facts)),
        };
        let time = match node {
            Node::Past(past) => past.moment().map(|it| since_epoch(it.time)),
            _ => None,
        };
        let (kind, time) = (kind_of(node), time.unwrap_or(self.mounted));
        Some(Attr { inode: inode.number, kind, size, time, ttl: LONG })
    }

    /// The page that an inode is, made if need be.
    fn page_of(self: &Arc<Self>, inode: Arc<Inode>, then: Box<dyn FnOnce(Paged) + Send>) {
        let inner = Arc::clone(self);
        let key = inode.key.clone();
        self.pages.get(
            &key,
            Box::new(move |made| {
                then(made.map_err(FsError::from).and_then(|page| {
                    if page.fleeting {
                        let key = &inode.key;
                        inner.editions().made(&key.node, key.edition, clock::now());
                    }
                    let facts = inode.tell(&page).map_err(|_| FsError::Stale)?;
                    Ok((inode, page, facts))
                }));
            }),
        );
    }

    /// The same by what is at hand, for whoever only wants its size.
    fn page_at_hand(self: &Arc<Self>, inode: Arc<Inode>, then: Box<dyn FnOnce(Paged) + Send>) {
        let inner = Arc::clone(self);
        self.pages.get(
            &inode.key.at_hand(),
            Box::new(move |made| {
                then(made.map_err(FsError::from).and_then(|page| {
                    if page.fleeting {
                        let key = &inode.key;
                        inner.editions().made(&key.node, key.edition, clock::now());
                    }
                    let facts = match page.is_unasked {
                        true => inode.show(&page),
                        false => inode.tell(&page).map_err(|_| FsError::Stale)?,
                    };
                    Ok((inode, page, facts))
                }));
            }),
        );
    }

    /// What a look at a file's attributes may cost.
    fn means_of_a_look(&self, node: &Node) -> Means {
        match node {
            Node::Answer(..) if self.answers.asks_outside() => Means::AtHand,
            // A size is known without the bytes.
            Node::Past(Past::File(..)) => Means::AtHand,
            _ => Means::Outside,
        }
    }

    /// A page was read: if it answers a plain question, the question is listed.
    fn note_read(&self, inode: &Inode) {
        if let Node::Answer(About::Passages, asked, form) = &inode.key.node
            && *asked.options == tree::options::Options::default()
            && let Some(name) = tree::query_name(&asked.text, *form)
            && name.len() <= tree::MAX_NAME
        {
            self.recent().push(&inode.key.node, &name);
        }
    }

    /// A path was looked at (not an open file): the open that may follow gets the same page.
    fn note_stat(&self, inode: &Inode) {
        if !inode.is_open() && inode.facts().is_some_and(|it| it.fleeting) {
            self.editions().stated(&inode.key.node, inode.key.edition, clock::now());
        }
    }

    /// A partial ranking is looked at again later, but not between two of its links.
    fn note_ranking(&self, key: &PageKey, page: &Page) {
        if page.fleeting {
            let now = clock::now();
            let mut editions = self.editions();
            editions.made(&key.node, key.edition, now);
            editions.stated(&key.node, key.edition, now);
        }
    }

    fn keep_open(&self, handle: Handle) -> u64 {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open();
        open.insert(number, handle);
        self.tally.open(open.len());
        number
    }

    // Lock order: none is taken while another is held. Each guards values that are whole at any
    // moment, so a panic elsewhere leaves nothing half done.
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Handle>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn editions(&self) -> MutexGuard<'_, Editions> {
        self.editions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_attr(inode: &Inode, facts: Facts) -> Attr {
    Attr {
        inode: inode.number,
        kind: kind_of(&inode.key.node),
        size: facts.size,
        time: facts.time,
        // A fleeting page is asked for each time, so that a stat of it is seen; and what an open may
        // change is not believed for longer than told.
        ttl: if facts.fleeting || inode.is_provisional() { Duration::ZERO } else { LONG },
    }
}

//! Inodes: the identity of a page.
//!
//! Pure but for its lock; any thread. Takes a [`PageKey`] and the [`Way`] to it, gives an [`Inode`]
//! whose number is a hash of both: forgotten and looked up again, the same page has the same number,
//! which tools that compare a stat with a later open rely on.
//!
//! Files may have many names; a folder may have only one, else the kernel takes `limit=3/limit=3`
//! for a loop and moves a folder whenever it is reached another way. So folders that several paths
//! lead to are an inode for each.
//!
//! **Invariant:** what an inode says about its page never changes once it has said it; what it
//! showed of a page at hand changes at most once, when its own is made.
//! **Invariant:** the table is bounded; what falls out and is still asked for is stale, which makes
//! the kernel look the name up again. Inodes in use (an open file) do not fall out.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use lru::LruCache;

use crate::mount::answers::Means;
use crate::mount::page::{Page, PageKey};
use crate::mount::tree::{Node, Past, View};

/// The number of the root, by protocol.
pub const ROOT: u64 = 1;

/// Numbers stay below 2^53, so that programs that hold them as floating point do not mix them up.
const MASK: u64 = (1 << 53) - 1;

/// By which path a folder was reached; 0 for what has only one, and for files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Way(u64);

impl Way {
    /// The way to `node` as `name` in the folder `parent`.
    pub fn to(node: &Node, parent: u64, name: &[u8]) -> Self {
        let has_many = matches!(
            node,
            Node::Ask(..)
                | Node::Ranking(_)
                | Node::Past(Past::Folder(..))
                | Node::View(View::Tag(Some(_)))
        );
        if !has_many {
            return Self::default();
        }
        let mut hasher = DefaultHasher::new();
        (parent, name).hash(&mut hasher);
        Self(hasher.finish())
    }
}

pub struct Inode {
    pub number: u64,
    pub key: PageKey,
    way: Way,
    facts: OnceLock<Facts>,
    /// What it said of a page at hand, before its own was made.
    shown: OnceLock<Facts>,
    /// How many handles hold it open.
    open: AtomicUsize,
}

/// What a made page tells the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    pub size: u64,
    pub time: SystemTime,
    pub fleeting: bool,
    digest: u64,
}

impl Facts {
    fn of(page: &Page) -> Self {
        let (size, time, digest) = (page.size(), page.made, page.digest);
        Self { size, time, fleeting: page.fleeting, digest }
    }
}

/// The inode has told of another page than the one there is now.
#[derive(Debug, PartialEq, Eq)]
pub struct Stale;

pub struct Inodes {
    root: Arc<Inode>,
    table: Mutex<LruCache<u64, Slot>>,
    most: usize,
}

struct Slot {
    inode: Arc<Inode>,
    lookups: u64,
}

impl Inode {
    pub fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// What it says of its page, if it has said something.
    pub fn facts(&self) -> Option<Facts> {
        self.facts.get().or_else(|| self.shown.get()).copied()
    }

    /// Whether what it says may be another thing once the page is opened.
    pub fn is_provisional(&self) -> bool {
        self.facts.get().is_none()
    }

    /// Whether it said something else of its page before that was made.
    pub fn has_shown_other(&self) -> bool {
        let (facts, shown) = (self.facts.get(), self.shown.get());
        facts.zip(shown).is_some_and(|(facts, shown)| facts.digest != shown.digest)
    }

    /// Says what `page` is, which stands for its own until that is made.
    pub fn show(&self, page: &Page) -> Facts {
        let shown = self.shown.get_or_init(|| Facts::of(page));
        *self.facts.get().unwrap_or(shown)
    }

    /// Says what `page` is, or that it said something else before.
    pub fn tell(&self, page: &Page) -> Result<Facts, Stale> {
        let facts = *self.facts.get_or_init(|| Facts::of(page));
        if facts.size == page.size() && facts.digest == page.digest {
            Ok(facts)
        } else {
            Err(Stale)
        }
    }
}

impl Inodes {
    pub fn new(most: usize) -> Self {
        let key = PageKey { node: Node::Root, view: 0, edition: 0, means: Means::Outside };
        Self {
            root: Arc::new(Inode {
                number: ROOT,
                key,
                way: Way::default(),
                facts: OnceLock::new(),
                shown: OnceLock::new(),
                open: AtomicUsize::new(0),
            }),
            table: Mutex::new(LruCache::unbounded()),
            most: most.max(16),
        }
    }

    /// The inode of that page by that way, counted as handed out once more.
    pub fn lookup(&self, key: PageKey, way: Way) -> Arc<Inode> {
        let mut table = self.lock();
        let mut number = number_of(&key, way);
        while table.peek(&number).is_some_and(|it| it.inode.key != key || it.inode.way != way) {
            number = next(number);
        }
        if let Some(slot) = table.get_mut(&number) {
            slot.lookups = slot.lookups.saturating_add(1);
            return Arc::clone(&slot.inode);
        }
        let (facts, shown) = (OnceLock::new(), OnceLock::new());
        let inode = Inode { number, key, way, facts, shown, open: AtomicUsize::new(0) };
        let inode = Arc::new(inode);
        table.put(number, Slot { inode: Arc::clone(&inode), lookups: 1 });
        self.make_room(&mut table);
        inode
    }

    /// The inode of that number, while it is known.
    pub fn get(&self, number: u64) -> Option<Arc<Inode>> {
        if number == ROOT {
            return Some(Arc::clone(&self.root));
        }
        self.lock().get(&number).map(|it| Arc::clone(&it.inode))
    }

    /// The kernel gives back `lookups` of them.
    pub fn forget(&self, number: u64, lookups: u64) {
        let mut table = self.lock();
        if let Some(slot) = table.peek_mut(&number) {
            slot.lookups = slot.lookups.saturating_sub(lookups);
            if slot.lookups == 0 {
                table.pop(&number);
            }
        }
    }

    /// How many are known.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn make_room(&self, table: &mut LruCache<u64, Slot>) {
        let mut tries = 64;
        while table.len() > self.most && tries > 0 {
            let Some((number, slot)) = table.pop_lru() else { return };
            tries -= 1;
            if Arc::strong_count(&slot.inode) > 1 {
                // In use: it goes to the other end.
                table.put(number, slot);
            }
        }
    }

    // A slot is whole at any moment; a panic elsewhere can't have left half of one.
    fn lock(&self) -> MutexGuard<'_, LruCache<u64, Slot>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number that a page gets unless another one has it, which is as good as never.
pub fn number_of(key: &PageKey, way: Way) -> u64 {
    if key.node == Node::Root {
        return ROOT;
    }
    let mut hasher = DefaultHasher::new();
    (key, way).hash(&mut hasher);
    (hasher.finish() & MASK).max(ROOT + 1)
}

fn next(number: u64) -> u64 {
    ((number + 1) & MASK).max(ROOT + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::page::Content;
    use crate::mount::tree::Form;

    fn key(view: u64) -> PageKey {
        PageKey { node: Node::Status(Form::Json), view, edition: 0, means: Means::Outside }
    }

    fn page(bytes: &[u8]) -> Page {
        Page::new(Content::Bytes(bytes.to_vec()), false)
    }

    #[test]
    fn a_page_keeps_its_number_and_another_view_has_another() {
        let inodes = Inodes::new(100);
        let (one, two) =
            (inodes.lookup(key(1), Way::default()), inodes.lookup(key(2), Way::default()));
        assert_ne!(one.number, two.number);
        let number = one.number;
        inodes.lookup(key(1), Way::default());
        inodes.forget(number, 1);
        assert!(inodes.get(number).is_some(), "one lookup is left");
        inodes.forget(number, 1);
        assert!(inodes.get(number).is_none());
        assert_eq!(inodes.lookup(key(1), Way::default()).number, number);
        inodes.forget(ROOT, 5);
        assert!(inodes.get(ROOT).is_some());
    }

    #[test]
    fn what_an_inode_said_it_keeps_saying() {
        let inode = Inodes::new(100).lookup(key(1), Way::default());
        let facts = inode.tell(&page(b"one")).unwrap();
        assert_eq!((facts.size, inode.facts()), (3, Some(facts)));
        assert_eq!(inode.tell(&page(b"one")), Ok(facts));
        assert_eq!(inode.tell(&page(b"two")), Err(Stale));
        assert_eq!(inode.tell(&page(b"longer")), Err(Stale));
    }

    #[test]
    fn what_was_shown_of_a_page_at_hand_gives_way_to_the_page() {
        let inode = Inodes::new(100).lookup(key(1), Way::default());
        assert_eq!((inode.show(&page(b"at hand")).size, inode.is_provisional()), (7, true));
        assert_eq!(inode.show(&page(b"another at hand")).size, 7, "shown once");
        assert_eq!(inode.tell(&page(b"its own")).unwrap().size, 7);
        assert!(
            inode.has_shown_other() && !inode.is_provisional(),
            "of the same size, and another"
        );
        let facts = inode.facts();
        assert_eq!(Some(inode.show(&page(b"late"))), facts, "what is told stays");
        let same = Inodes::new(100).lookup(key(1), Way::default());
        same.show(&page(b"its own"));
        same.tell(&page(b"its own")).unwrap();
        assert!(!same.has_shown_other());
    }

    #[test]
    fn the_table_is_bounded_and_keeps_what_is_in_use() {
        let inodes = Inodes::new(32);
        let open = inodes.lookup(key(0), Way::default());
        for view in 1..10_000 {
            inodes.lookup(key(view), Way::default());
        }
        assert!(inodes.len() <= 32, "{}", inodes.len());
        assert!(inodes.get(open.number).is_some());
        assert!(inodes.get(number_of(&key(1), Way::default())).is_none());
    }

    #[test]
    fn a_folder_is_one_inode_for_each_way_to_it_and_a_file_for_all() {
        let folder = Node::Ask(crate::mount::tree::About::Passages, Arc::default());
        let file = Node::Readme;
        assert_ne!(Way::to(&folder, 2, b"limit=3"), Way::to(&folder, 3, b"limit=3"));
        assert_ne!(Way::to(&folder, 2, b"limit=3"), Way::to(&folder, 2, b"limit=03"));
        assert_eq!(Way::to(&folder, 2, b"limit=3"), Way::to(&folder, 2, b"limit=3"));
        assert_eq!(Way::to(&file, 2, b"a"), Way::to(&file, 3, b"b"));
    }
}

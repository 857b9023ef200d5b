//! Pages: made once, shared, kept while there is room.
//!
//! Takes a [`PageKey`] and somebody who waits, gives the page from the cache at once, or has it
//! made by a crew and answers when it is there or the deadline has passed. Whoever asks for a
//! page that is being made waits for that one.
//!
//! Any thread; the lock is never held while a page is made or somebody is answered.
//!
//! **Invariant:** a page never changes; an open file holds its own, whatever the cache drops.
//! **Invariant:** everybody who waits is answered once, by the deadline at the latest.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::base::clock;
use crate::mount::answers::Means;
use crate::mount::crew::Crew;
use crate::mount::tally::Tally;
use crate::mount::tree::{About, Moment, Node, Past};
use crate::vault::{BlobId, CommitId, Listing};
use cache::Cache;

mod cache;

/// What makes two pages one page.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PageKey {
    pub node: Node,
    /// The state of the index; 0 for what does not depend on it.
    pub view: u64,
    /// Which of several pages under one view; see `edition`.
    pub edition: u32,
    /// What it may cost. An inode is the page by all means; its size alone is told by less.
    pub means: Means,
}

impl PageKey {
    /// The same page by what is at hand.
    pub fn at_hand(&self) -> Self {
        Self { means: Means::AtHand, ..self.clone() }
    }
}

/// A made page.
#[derive(Debug)]
pub struct Page {
    pub content: Content,
    pub made: SystemTime,
    /// Whether the next look may find another one.
    pub fleeting: bool,
    /// Whether somebody outside would have been asked, and was not: by all means it may be another.
    pub is_unasked: bool,
    pub digest: u64,
}

#[derive(Debug)]
pub enum Content {
    Bytes(Vec<u8>),
    /// How many bytes it would be, where no more was asked.
    Size(u64),
    /// What a folder lists, in this order.
    Names(Vec<(Arc<[u8]>, Node)>),
    /// A folder of the vault at a commit.
    Tree(CommitId, Listing),
    /// Which moment a name means.
    Moment(Moment),
}

/// Why there is no page.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    #[error("There is no such note")]
    Absent,
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    NotYet(String),
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("The answer took too long")]
    Deadline,
    #[error("Too many questions wait already")]
    Busy,
}

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What an answer gets.
    pub answer: Duration,
    /// What a request gets, the wait for a free thread included.
    pub request: Duration,
    /// Pages kept for the next reader.
    pub cache_bytes: usize,
    /// Folders of the past kept for the next look at a name in them.
    pub listing_bytes: usize,
    /// Threads for questions.
    pub askers: usize,
    /// Questions that wait for a thread.
    pub queue: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(3),
            request: Duration::from_secs(5),
            cache_bytes: 16 << 20,
            listing_bytes: 32 << 20,
            askers: 8,
            queue: 1024,
        }
    }
}

pub type Made = Result<Arc<Page>, PageError>;
/// Whoever waits for a page.
pub type Done = Box<dyn FnOnce(Made) + Send>;
/// Makes the page of a key by a deadline.
pub type Maker = dyn Fn(&PageKey, Instant) -> Result<Page, PageError> + Send + Sync;

pub struct Pages {
    shared: Arc<Shared>,
    /// For questions, which may take their time.
    askers: Crew,
    /// For what is at hand (status, links, README), so that it never waits behind a question.
    tellers: Crew,
    /// For the past, which is read from the disk.
    readers: Crew,
}

struct Shared {
    maker: Box<Maker>,
    limits: Limits,
    tally: Tally,
    state: Mutex<State>,
    clock: Condvar,
}

struct State {
    pages: Cache,
    folders: Cache,
    flights: HashMap<PageKey, Vec<Waiter>>,
    /// When the clock thread wakes next; `None` while it sleeps for good.
    wakes: Option<Instant>,
    closed: bool,
}

struct Waiter {
    deadline: Instant,
    done: Done,
}

impl Page {
    pub fn new(content: Content, fleeting: bool) -> Self {
        let mut hasher = DefaultHasher::new();
        if let Content::Bytes(bytes) = &content {
            hasher.write(bytes);
        }
        let (made, digest) = (clock::wall(), hasher.finish());
        Self { content, made, fleeting, is_unasked: false, digest }
    }

    /// A file of the past, or its size: one and the same page while that is the same.
    pub fn of_blob(content: Content, blob: BlobId, time: i64) -> Self {
        let mut page = Self { content, ..Self::new(Content::Size(0), false) };
        let mut hasher = DefaultHasher::new();
        (blob, page.size()).hash(&mut hasher);
        (page.made, page.digest) = (since_epoch(time), hasher.finish());
        page
    }

    /// The bytes that a reader gets; none of a folder.
    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    pub fn size(&self) -> u64 {
        match self.content {
            Content::Size(size) => size,
            _ => u64::try_from(self.bytes().len()).unwrap_or(u64::MAX),
        }
    }

    /// Whether it is worth keeping: a size is kept by its inode, a name may mean another moment the
    /// next time, and a folder that lists a part may list all.
    fn is_kept(&self, node: &Node) -> bool {
        match self.content {
            Content::Size(_) | Content::Moment(_) => false,
            _ => !(self.fleeting && matches!(node, Node::View(it) if it.is_folder())),
        }
    }

    /// About what it costs to keep.
    fn weight(&self) -> usize {
        let own = match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Names(names) => names.iter().map(|it| 256 + 2 * it.0.len()).sum(),
            Content::Tree(_, listing) => listing.weight(),
            Content::Size(_) | Content::Moment(_) => 0,
        };
        512 + own
    }
}

/// A time of Git's as one of the system's.
pub fn since_epoch(seconds: i64) -> SystemTime {
    let length = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(length),
        false => SystemTime::UNIX_EPOCH.checked_add(length),
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

impl Pages {
    pub fn new(limits: Limits, tally: Tally, maker: Box<Maker>) -> std::io::Result<Self> {
        let state = State {
            pages: Cache::new(limits.cache_bytes, 0),
            // A walk looks at a name in a folder and in what it compares that with.
            folders: Cache::new(limits.listing_bytes, 2),
            flights: HashMap::new(),
            wakes: None,
            closed: false,
        };
        let state = Mutex::new(state);
        let shared = Arc::new(Shared { maker, limits, tally, state, clock: Condvar::new() });
        let clock = Arc::clone(&shared);
        std::thread::Builder::new().name("mount-clock".to_owned()).spawn(move || clock.watch())?;
        Ok(Self {
            shared,
            askers: Crew::new("mount-ask", limits.askers, limits.queue),
            tellers: Crew::new("mount-tell", 2, limits.queue),
            readers: Crew::new("mount-past", 4, limits.queue),
        })
    }

    /// Gives `done` the page: at once where it is at hand, else when it is made.
    pub fn get(&self, key: &PageKey, done: Done) {
        let mut state = self.shared.lock();
        if let Some(page) = state.cache(&key.node).get(key) {
            drop(state);
            return done(Ok(page));
        }
        let deadline = clock::now() + self.shared.limits.request;
        let waiter = Waiter { deadline, done };
        if let Some(waiters) = state.flights.get_mut(key) {
            waiters.push(waiter);
            return self.shared.wind(state, deadline);
        }
        state.flights.insert(key.clone(), vec![waiter]);
        self.shared.wind(state, deadline);
        let (shared, own) = (Arc::clone(&self.shared), key.clone());
        let job = Box::new(move || shared.make(&own));
        let crew = match &key.node {
            node if is_question(node) => &self.askers,
            Node::Past(_) | Node::View(_) | Node::Told(..) => &self.readers,
            _ => &self.tellers,
        };
        if crew.send(job).is_err() {
            self.shared.tally.refused();
            self.shared.answer(key, &Err(PageError::Busy));
        }
    }

    /// The page, if it is at hand; counts as no use of it.
    pub fn peek(&self, key: &PageKey) -> Option<Arc<Page>> {
        self.shared.lock().cache(&key.node).peek(key)
    }

    /// Keeps the page no longer; who has it open still does.
    pub fn let_go(&self, key: &PageKey) {
        let mut state = self.shared.lock();
        state.cache(&key.node).drop(key);
        self.shared.tally.cached(state.bytes());
    }
}

impl State {
    /// Where pages of such a place are kept.
    fn cache(&mut self, node: &Node) -> &mut Cache {
        match node {
            Node::Past(Past::Folder(..) | Past::HistoryFolder(_)) => &mut self.folders,
            _ => &mut self.pages,
        }
    }

    fn bytes(&self) -> usize {
        self.pages.bytes() + self.folders.bytes()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.clock.notify_all();
    }
}

impl Shared {
    /// Makes the page of `key` and answers everybody who waits for it.
    fn make(&self, key: &PageKey) {
        {
            let mut state = self.lock();
            match state.flights.get(key) {
                // All gave up while it stood in the queue.
                Some(waiters) if waiters.is_empty() => {
                    state.flights.remove(key);
                    return;
                }
                Some(_) => {}
                None => return,
            }
        }
        if is_question(&key.node) {
            self.tally.question();
        } else {
            self.tally.page();
        }
        let until = clock::now() + self.limits.answer;
        let made = match catch_unwind(AssertUnwindSafe(|| (self.maker)(key, until))) {
            Ok(made) => made.map(Arc::new),
            Err(_) => Err(PageError::Failed("making the page panicked".to_owned())),
        };
        if let Ok(page) = &made {
            // Where nobody had to be asked, it is the page by all means.
            let means = if page.is_unasked { key.means } else { Means::Outside };
            if page.is_kept(&key.node) {
                let mut state = self.lock();
                state.cache(&key.node).keep(PageKey { means, ..key.clone() }, Arc::clone(page));
                self.tally.cached(state.bytes());
            }
        }
        self.answer(key, &made);
    }

    fn answer(&self, key: &PageKey, made: &Made) {
        let waiters = self.lock().flights.remove(key).unwrap_or_default();
        for waiter in waiters {
            (waiter.done)(made.clone());
        }
    }

    /// Sees to it that the clock thread wakes by `deadline`.
    fn wind(&self, mut state: MutexGuard<'_, State>, deadline: Instant) {
        if state.wakes.is_none_or(|it| it > deadline) {
            state.wakes = Some(deadline);
            drop(state);
            self.clock.notify_one();
        }
    }

    /// The clock thread: tells those whose deadline has passed.
    fn watch(&self) {
        let mut state = self.lock();
        while !state.closed {
            let now = clock::now();
            let mut late = Vec::new();
            for waiters in state.flights.values_mut() {
                late.extend(waiters.extract_if(.., |it| it.deadline <= now));
            }
            if !late.is_empty() {
                drop(state);
                for waiter in late {
                    self.tally.late();
                    (waiter.done)(Err(PageError::Deadline));
                }
                state = self.lock();
                continue;
            }
            let next = state.flights.values().flatten().map(|it| it.deadline).min();
            state.wakes = next;
            state = match next {
                None => self.clock.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let wait = next.saturating_duration_since(now);
                    let waited = self.clock.wait_timeout(state, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    // Each change under the lock is whole, so a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_question(node: &Node) -> bool {
    matches!(
        node,
        Node::Answer(About::Passages | About::Nodes | About::Links, ..)
            | Node::Ranking(_)
            | Node::Ranked(..)
            | Node::Similar(..)
    )
}

#[cfg(test)]
mod tests;

//! Pages kept for the next reader.
//!
//! Pure. **Invariant:** no more bytes than it is allowed, the last few pages aside: a folder that is
//! larger than all the room must not be read again for each name in it.

use std::sync::Arc;

use lru::LruCache;

use crate::mount::page::{Page, PageKey};

pub struct Cache {
    pages: LruCache<PageKey, Arc<Page>>,
    bytes: usize,
    most: usize,
    /// So many stay in any case.
    least: usize,
}

impl Cache {
    pub fn new(most: usize, least: usize) -> Self {
        Self { pages: LruCache::unbounded(), bytes: 0, most, least }
    }

    pub fn get(&mut self, key: &PageKey) -> Option<Arc<Page>> {
        self.pages.get(key).map(Arc::clone)
    }

    /// The same, and it counts as no use of it.
    pub fn peek(&self, key: &PageKey) -> Option<Arc<Page>> {
        self.pages.peek(key).map(Arc::clone)
    }

    pub fn keep(&mut self, key: PageKey, page: Arc<Page>) {
        self.bytes += page.weight();
        if let Some(old) = self.pages.put(key, page) {
            self.bytes = self.bytes.saturating_sub(old.weight());
        }
        while self.bytes > self.most
            && self.pages.len() > self.least
            && let Some((_, old)) = self.pages.pop_lru()
        {
            self.bytes = self.bytes.saturating_sub(old.weight());
        }
    }

    pub fn drop(&mut self, key: &PageKey) {
        if let Some(page) = self.pages.pop(key) {
            self.bytes = self.bytes.saturating_sub(page.weight());
        }
    }

    /// How many are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

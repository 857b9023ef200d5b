//! What the filesystem is told and says: attributes, entries, listings, errors.
//!
//! Pure. **Invariant:** nothing here knows fuser or errno.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::mount::page::{Page, PageError};
use crate::mount::tree::NameError;

/// Why a request fails.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FsError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error("This inode is of another state of the index")]
    Stale,
    #[error("This is a folder")]
    IsFolder,
    #[error("This is no folder")]
    NotFolder,
    #[error("This is no link")]
    NotLink,
    #[error("This handle is not open")]
    NotOpen,
    #[error("Nothing can be written here")]
    ReadOnly,
}

/// Whoever waits for the answer to a request.
pub type Reply<T> = Box<dyn FnOnce(Result<T, FsError>) + Send>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Folder,
    File,
    /// A file with the bit of a program.
    Program,
    Link,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    pub inode: u64,
    pub kind: Kind,
    pub size: u64,
    pub time: SystemTime,
    /// How long it holds.
    pub ttl: Duration,
}

/// A page opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    pub handle: u64,
    /// Whether the kernel was told of another page than this one.
    pub is_other: bool,
}

/// A name found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub attr: Attr,
    /// How long the name means this inode.
    pub ttl: Duration,
}

/// One line of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    pub name: Vec<u8>,
    pub kind: Kind,
    pub inode: u64,
}

/// A piece of an open page.
pub struct Slice {
    pub(super) page: Arc<Page>,
    pub(super) range: std::ops::Range<usize>,
}

impl Slice {
    pub fn bytes(&self) -> &[u8] {
        &self.page.bytes()[self.range.clone()]
    }
}

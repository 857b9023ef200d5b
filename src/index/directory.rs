//! Where tantivy's files lie: a folder, which may be on a disk that cannot be written.
//!
//! Takes a folder, gives tantivy a directory. Reading takes a lock file in it, so that no writer
//! removes a file that is being opened; where none can be made nobody can write either, and the
//! lock is not needed. Any thread.
//!
//! **Invariant:** everything else is the library's own directory.

use std::path::Path;
use std::sync::Arc;

use tantivy::directory::error::{
    DeleteError, LockError, OpenDirectoryError, OpenReadError, OpenWriteError,
};
use tantivy::directory::{
    Directory, DirectoryLock, FileHandle, Lock, META_LOCK, MmapDirectory, WatchCallback,
    WatchHandle, WritePtr,
};

use crate::base::trouble::Trouble;

/// A folder with an index.
#[derive(Clone, Debug)]
pub(super) struct Folder(MmapDirectory);

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, OpenDirectoryError> {
        MmapDirectory::open(path).map(Self)
    }
}

impl Directory for Folder {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.0.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.0.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.0.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        self.0.open_write(path)
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.0.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> std::io::Result<()> {
        self.0.atomic_write(path, data)
    }

    fn sync_directory(&self) -> std::io::Result<()> {
        self.0.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        let taken = self.0.acquire_lock(lock);
        if lock.filepath == META_LOCK.filepath
            && let Err(LockError::IoError(err)) = &taken
            && matches!(Trouble::of(err), Some(Trouble::ReadOnly | Trouble::NotAllowed))
        {
            return Ok(DirectoryLock::from(Box::new(())));
        }
        taken
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.0.watch(callback)
    }
}

//! Where tantivy's files lie: a folder, which may be on a disk that cannot be written.
//!
//! Takes a folder, gives tantivy a directory. Reading takes a lock file in it, so that no writer
//! removes a file that is being opened; where none can be made nobody can write either, and the
//! lock is not needed. What the system refused is remembered ([`Met`]): the library tells some of
//! it as words only, and of a thread that ended for it no more than that it ended. Any thread.
//!
//! **Invariant:** everything else is the library's own directory.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::directory::error::{
    DeleteError, LockError, OpenDirectoryError, OpenReadError, OpenWriteError,
};
use tantivy::directory::{
    AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, META_LOCK, MmapDirectory,
    TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};

use crate::base::trouble::{Trouble, met};

/// A folder with an index.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    inner: MmapDirectory,
    met: Met,
}

/// The machine's trouble that was met in a folder since the last time that all went well; cloning
/// shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct Met(Arc<Mutex<Option<Arc<io::Error>>>>);

impl Met {
    /// The last one.
    pub(super) fn last(&self) -> Option<Arc<io::Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All goes well: what fails later has another reason.
    pub(super) fn over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Remembers what is behind an error, if that is the machine's trouble.
    fn noted<T, E: std::error::Error + 'static>(&self, done: Result<T, E>) -> Result<T, E> {
        if let Err(err) = &done
            && let Some(found) = met(err)
        {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(found));
        }
        done
    }
}

/// A file that is written, with an eye on what the system says.
struct Watched {
    inner: Box<dyn TerminatingWrite + Send + Sync>,
    met: Met,
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.met.noted(self.inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.met.noted(self.inner.flush())
    }
}

impl TerminatingWrite for Watched {
    fn terminate_ref(&mut self, token: AntiCallToken) -> io::Result<()> {
        self.met.noted(self.inner.terminate_ref(token))
    }
}

impl Folder {
    pub(super) fn open(path: &Path, met: &Met) -> Result<Self, OpenDirectoryError> {
        let inner = met.noted(MmapDirectory::open(path))?;
        Ok(Self { inner, met: met.clone() })
    }
}

impl Directory for Folder {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.met.noted(self.inner.get_file_handle(path))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.inner.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.met.noted(self.inner.exists(path))
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let opened = self.met.noted(self.inner.open_write(path))?;
        // Nothing is in its buffer yet.
        let inner = opened
            .into_inner()
            .map_err(|err| OpenWriteError::wrap_io_error(err.into(), path.to_owned()))?;
        Ok(WritePtr::new(Box::new(Watched { inner, met: self.met.clone() })))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.met.noted(self.inner.atomic_read(path))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> std::io::Result<()> {
        self.met.noted(self.inner.atomic_write(path, data))
    }

    fn sync_directory(&self) -> std::io::Result<()> {
        self.met.noted(self.inner.sync_directory())
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        let taken = self.inner.acquire_lock(lock);
        if lock.filepath == META_LOCK.filepath
            && let Err(LockError::IoError(err)) = &taken
            && matches!(Trouble::of(err), Some(Trouble::ReadOnly | Trouble::NotAllowed))
        {
            return Ok(DirectoryLock::from(Box::new(())));
        }
        self.met.noted(taken)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.inner.watch(callback)
    }
}

//! Looks whether all that was opened is what was written.
//!
//! Takes an opened index, reads every byte of what nobody has read yet, a file at a time, so that
//! it is searched meanwhile and the owner's thread comes to its other work. Blocking; the
//! indexer's thread.
//!
//! **Invariant:** while a proof is owed a mark lies beside the index. Who finds it, after a process
//! that ended before its proof did, asks for the whole proof before anything is believed: what
//! kills a reader does so once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tantivy::index::SegmentComponent;

use crate::base::fault;
use crate::base::fs;
use crate::base::store::StoreError;
use crate::index::error::Why;
use crate::index::stores::Stores;

/// What has still to be looked at.
#[derive(Debug)]
pub(super) struct Proof {
    /// Files of the keyword index, the next one last.
    files: Vec<PathBuf>,
    stores: bool,
    bytes: u64,
    mark: PathBuf,
    is_over: Arc<AtomicBool>,
}

/// Whether all is looked at before an index is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    Before,
    /// Where it is large, and the last one who did so came to its end: while it is searched.
    Meanwhile,
}

/// An index smaller than this is looked at before all the same: it takes no time. None is small
/// in the tests of this room.
const SMALL: u64 = if cfg!(test) { 1 } else { 16 << 20 };

impl Proof {
    /// All that `keyword` and the stores beside it read.
    pub(super) fn of(dir: &Path, keyword: &tantivy::Index) -> Result<Self, Why> {
        let metas = keyword.load_metas().map_err(Why::from)?;
        let managed = keyword.directory().list_managed_files();
        let mut files: Vec<PathBuf> = managed
            .into_iter()
            .filter(|file| {
                metas.segments.iter().any(|segment| {
                    let name = file.as_os_str().as_encoded_bytes();
                    match file.extension().and_then(|it| it.to_str()) {
                        // Older ones may wait to be removed.
                        Some("del") => *file == segment.relative_path(SegmentComponent::Delete),
                        Some("temp") => false,
                        _ => name.starts_with(segment.id().uuid_string().as_bytes()),
                    }
                })
            })
            .collect();
        files.sort();
        let folder = super::open::keyword_dir(dir);
        let size = |file: &PathBuf| fs::stat(&folder.join(file)).map_or(0, |it| it.len());
        let bytes = files.iter().map(size).sum();
        Ok(Self { files, stores: true, bytes, mark: mark(dir), is_over: Arc::default() })
    }

    /// Whether the index may be searched before this has come to its end; leaves the mark then.
    pub(super) fn may_wait(&self, when: When) -> bool {
        let is_small = self.bytes < SMALL && fault::error("index.prove_late").is_ok();
        if when == When::Before || is_small || fs::stat(&self.mark).is_ok() {
            return false;
        }
        // Where no mark can be left, the next one would not be warned.
        fs::create_new(&self.mark).is_ok()
    }

    /// Becomes true when all was what was written: what was answered meanwhile was right.
    pub(super) fn is_over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_over)
    }

    /// Looks at the next part; says whether that was all.
    pub(super) fn step(&mut self, stores: &Stores, keyword: &tantivy::Index) -> Result<bool, Why> {
        if self.stores {
            stores.verify().map_err(|err| match (err.needs_rebuild(), err) {
                (false, StoreError::Io(err)) => Why::Unreadable(Arc::new(err.source)),
                (_, err) => Why::from(&err),
            })?;
            self.stores = false;
        } else if let Some(file) = self.files.last() {
            let is_whole = keyword.directory().validate_checksum(file);
            if !is_whole.map_err(tantivy::TantivyError::from).map_err(Why::from)? {
                return Err(Why::Corrupt(format!("{}", file.display())));
            }
            self.files.pop();
        }
        let is_all = !self.stores && self.files.is_empty();
        if is_all {
            // The worst that comes of a mark that stays is a proof before the next use.
            let _stays = fs::remove_file(&self.mark);
            self.is_over.store(true, Ordering::SeqCst);
        }
        Ok(is_all)
    }

    /// What was owed is of no use any more.
    pub(super) fn forget(dir: &Path) {
        let _stays = fs::remove_file(&mark(dir));
    }

    /// Looks at all that is left.
    pub(super) fn finish(&mut self, stores: &Stores, keyword: &tantivy::Index) -> Result<(), Why> {
        while !self.step(stores, keyword)? {}
        Ok(())
    }
}

fn mark(dir: &Path) -> PathBuf {
    dir.join("unproven")
}

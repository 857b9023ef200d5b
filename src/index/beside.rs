//! Builds the index anew beside the one in use, and puts the new in its place.
//!
//! Takes an index that is whole, gives a place beside it ([`Beside`]) in which another is built from
//! the same notes, on a thread of its own while the old one is searched and follows what comes. What
//! of it is put in place ([`Index::take_over`]) depends on what was asked for. Blocking.
//!
//! **Invariant:** a note's version has the same number in both, so that each part of the one fits the
//! rest of the other; each part changes place in one step, and says itself of which commit it is, so
//! that a kill between two of them is a case like any other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::store::StoreError;
use crate::base::{fault, fs};
use crate::embed::Embedder;
use crate::index::error::{IndexError, Opened};
use crate::index::indexer::Index;
use crate::index::open::keyword_dir;
use crate::index::room::Room;
use crate::index::spaces::Spaces;
use crate::index::stores::Stores;
use crate::index::vectors::Vectors;
use crate::index::view::IndexView;
use crate::vault::{BlobId, CommitId, Layout, Role, VaultPath};

/// What of an index is made anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    All,
    /// What words are found by.
    Bm25,
    /// The vectors.
    Embedding,
    /// The catalog of notes with their tags, and the graph of links.
    Tag,
}

impl Scope {
    pub const NAMES: [&'static str; 4] = ["all", "bm25", "embedding", "tag"];

    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Bm25 => "bm25",
            Self::Embedding => "embedding",
            Self::Tag => "tag",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Self::All, Self::Bm25, Self::Embedding, Self::Tag].into_iter().find(|it| it.name() == name)
    }

    /// Whether the vectors are among it.
    pub fn has_vectors(self) -> bool {
        matches!(self, Self::All | Self::Embedding)
    }

    /// Its folders, of the index in `dir`.
    fn folders(self, dir: &Path) -> Vec<PathBuf> {
        let (stores, words) = (Stores::folders(dir), keyword_dir(dir));
        match self {
            Self::All => stores.into_iter().chain([words, Vectors::root(dir)]).collect(),
            Self::Bm25 => vec![words],
            Self::Embedding => vec![Vectors::root(dir)],
            Self::Tag => stores.into(),
        }
    }
}

/// A place beside an index, for one that is built anew.
pub struct Beside {
    dir: PathBuf,
    layout: Layout,
    scope: Scope,
    room: Room,
    at: CommitId,
    model: Option<Arc<dyn Embedder>>,
    twin: Twin,
}

/// What one built beside another has in common with it.
#[derive(Clone)]
pub(super) struct Twin {
    old: Arc<IndexView>,
    pub(super) generation: String,
    /// The number of the first file of vectors: a view of the old one must not find another file at
    /// the place of its own.
    pub(super) first_file: u64,
}

impl Twin {
    /// The number of a note's version, where the old one knows it.
    pub(super) fn number_of(&self, path: &VaultPath, blob: BlobId, role: Role) -> Option<u64> {
        let card = self.old.note(path)?;
        (card.blob == blob && card.role == role).then_some(card.id)
    }
}

const FOLDER: &str = "reindex";
/// The file that names the index that it was built beside.
const TWIN: &str = "twin";
/// So many numbers are left to the index in use while another is built.
const ROOM_FOR_NUMBERS: u64 = 1 << 40;
/// And so many files of vectors.
const ROOM_FOR_FILES: u64 = 1_000_000;

impl Index {
    /// A place beside this one; `None` while it is not whole, or not looked at as a whole.
    pub fn beside(&self, scope: Scope) -> Option<Beside> {
        let disk = self.disk.as_ref()?;
        let at = self.at.filter(|_| self.is_proven() && !self.is_unfinished)?;
        let vectors = self.vectors.as_ref();
        Some(Beside {
            dir: self.dir.join(FOLDER),
            layout: self.layout.clone(),
            scope,
            room: self.room.clone(),
            at,
            model: vectors.filter(|_| scope.has_vectors()).map(Spaces::embedder),
            twin: Twin {
                old: self.view(),
                generation: disk.generation.clone(),
                first_file: vectors.map_or(0, Spaces::next_file) + ROOM_FOR_FILES,
            },
        })
    }

    /// Puts what was built beside this one in its place, and ends: the index is to be opened anew,
    /// and brought to HEAD from whatever commit each part is of.
    pub fn take_over(mut self, scope: Scope) -> Result<(), IndexError> {
        self.flush()?;
        if let Some(disk) = &mut self.disk {
            // Its own thread may still be merging what is there.
            disk.close_writer()?;
        }
        let beside = self.dir.join(FOLDER);
        let of = fs::read(&beside.join(TWIN)).map_err(StoreError::from)?;
        if self.disk.as_ref().is_none_or(|it| it.generation.as_bytes() != of) {
            return Err(IndexError::Overtaken);
        }
        for (new, old) in scope.folders(&beside).iter().zip(scope.folders(&self.dir)) {
            for folder in [new, &old] {
                // Without a model there are no vectors in either.
                fs::create_dir(folder).map_err(StoreError::from)?;
            }
            fs::exchange(new, &old).map_err(StoreError::from)?;
            fault::point("reindex.exchanged");
        }
        fs::sync_dir(&self.dir).map_err(StoreError::from)?;
        Self::clear_beside(&self.dir)
    }

    /// Removes what a build beside the index in this folder left.
    pub fn clear_beside(metadata_dir: &Path) -> Result<(), IndexError> {
        let folder = metadata_dir.join(FOLDER);
        Ok(fs::remove_derived(&folder).map_err(StoreError::from)?)
    }
}

impl Beside {
    /// The commit that it is built from.
    pub fn at(&self) -> CommitId {
        self.at
    }

    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// An empty index in the place; what was there goes.
    pub fn open(&self) -> Result<Index, IndexError> {
        fs::remove_derived(&self.dir).map_err(StoreError::from)?;
        fs::create_dir(&self.dir).map_err(StoreError::from)?;
        let (mut index, opened) = match &self.model {
            Some(model) => Index::open_with_model(&self.dir, &self.layout, Arc::clone(model))?,
            None => Index::open(&self.dir, &self.layout)?,
        };
        fs::write_atomic(&self.dir.join(TWIN), self.twin.generation.as_bytes())
            .map_err(StoreError::from)?;
        debug_assert!(matches!(opened, Opened::Rebuild(_)), "it was removed");
        index.knows(self.room.clone());
        // Versions that the old one does not know are counted far above those that it will.
        index.next_id = self.twin.old.highest_number() + ROOM_FOR_NUMBERS;
        index.twin = Some(self.twin.clone());
        Ok(index)
    }
}

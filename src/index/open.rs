//! Opens the index in a vault's folder for derived state.
//!
//! Takes the folder, gives the [`Index`] with what could be read of it, and how it was found.
//! Blocking; the index's owner.
//!
//! **Invariant:** what was read belongs together: stores and keyword index are of one generation,
//! and what is damaged is never taken for whole.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crate::base::fs;
use crate::base::lock::{DirLock, try_lock_dir};
use crate::base::store::StoreError;
use crate::embed::Embedder;
use crate::index::analyze::tokenizers;
use crate::index::directory::{Folder, Met};
use crate::index::error::{IndexError, Opened, Why};
use crate::index::guard::Guard;
use crate::index::indexer::{Disk, Index};
use crate::index::overlay::Overlay;
use crate::index::payload::payload;
use crate::index::proof::{Proof, When};
use crate::index::room::Room;
use crate::index::schema::Fields;
use crate::index::shelf::Shelf;
use crate::index::spaces::{Models, Spaces};
use crate::index::state::State;
use crate::index::stores::Stores;
use crate::index::tally::Graves;
use crate::index::vectors::Vectors;
use crate::index::view::IndexView;
use crate::vault::Layout;

impl Index {
    /// Opens the index in the vault's folder for derived state, to be searched by words alone, and
    /// looks at all that is in it.
    pub fn open(metadata_dir: &Path, layout: &Layout) -> Result<(Self, Opened), IndexError> {
        Self::open_and(When::Before, metadata_dir, layout, None)
    }

    /// The same, to be searched by what this model makes of the notes, too.
    pub fn open_with_model(
        metadata_dir: &Path,
        layout: &Layout,
        model: Arc<dyn Embedder>,
    ) -> Result<(Self, Opened), IndexError> {
        Self::open_with_models(metadata_dir, layout, Models::only(model))
    }

    /// The same, and what is searched until the model has seen all notes.
    pub fn open_with_models(
        metadata_dir: &Path,
        layout: &Layout,
        models: Models,
    ) -> Result<(Self, Opened), IndexError> {
        Self::open_and(When::Before, metadata_dir, layout, Some(models))
    }

    /// Opens it to be searched soon: where it is large, whether all in it is what was written has
    /// to be looked at afterwards ([`Self::prove`]). Nothing is written to it before.
    pub fn open_soon(
        metadata_dir: &Path,
        layout: &Layout,
        models: Models,
    ) -> Result<(Self, Opened), IndexError> {
        Self::open_and(When::Meanwhile, metadata_dir, layout, Some(models))
    }

    fn open_and(
        when: When,
        metadata_dir: &Path,
        layout: &Layout,
        models: Option<Models>,
    ) -> Result<(Self, Opened), IndexError> {
        let fields = Arc::new(Fields::new());
        let mut index = Self {
            _lock: lock(metadata_dir)?,
            dir: metadata_dir.to_owned(),
            layout: layout.clone(),
            disk: None,
            state: State::new(layout),
            next_id: 1,
            at: None,
            overlay: Overlay::default(),
            // Until it is known which generation the index is of there are none.
            vectors: models.map(|it| Spaces::new(metadata_dir, it)),
            is_untidy: false,
            cautious: false,
            proof: None,
            is_unfinished: false,
            twin: None,
            room: Room::default(),
            met: Met::default(),
            view: IndexView::assemble(
                State::new(layout),
                Vec::new(),
                None,
                Arc::clone(&fields),
                None,
                None,
                Some(metadata_dir),
            ),
            fields,
        };
        let opened = index.open_disk(when)?;
        index.publish(None);
        Ok((index, opened))
    }

    fn open_disk(&mut self, when: When) -> Result<Opened, IndexError> {
        // Before anything is read, so that what changes meanwhile is seen.
        let guard = Arc::new(Guard::of(&self.dir));
        let met = self.met.clone();
        let rebuild = |why: Why| match why.caused_by(&met) {
            Why::Unreadable(err) => Err(IndexError::Disk(err)),
            why => Ok(Opened::Rebuild(why)),
        };
        let keyword = match open_keyword(&self.dir, &self.fields, &met) {
            Ok(keyword) => keyword,
            Err(why) => return rebuild(why),
        };
        let payload = match payload(&keyword) {
            Ok(payload) => payload,
            Err(why) => return rebuild(why),
        };
        let stores = match payload.stores {
            Some(lengths) => Stores::open_cut(&self.dir, lengths),
            None => Stores::open(&self.dir),
        };
        let stores = match stores {
            Ok(stores) => stores,
            Err(err) if err.needs_rebuild() => return Ok(Opened::Rebuild(Why::from(&err))),
            Err(err) => return Err(err.into()),
        };
        let is_unfinished = payload.stores.is_some();
        let found = match is_unfinished {
            true => payload.generation_of(&stores).map(|it| (BTreeSet::new(), it)),
            false => payload.cursors(&stores),
        };
        let (cursors, generation) = match found {
            Ok(found) => found,
            Err(why) => return rebuild(why),
        };
        let mut proof = match Proof::of(&self.dir, &keyword) {
            Ok(proof) => proof,
            Err(why) => return rebuild(why),
        };
        let proof = match proof.may_wait(when) {
            true => Some(proof),
            false => match proof.finish(&stores, &keyword) {
                Ok(()) => None,
                Err(why) => return rebuild(why),
            },
        };
        // Beside each other: all take long where there are many notes. Of vectors only what was
        // read to the last byte counts.
        let vectors = &mut self.vectors;
        let (read, shelf, elsewhere) = thread::scope(|scope| {
            let vectors = scope.spawn(|| {
                let elsewhere = Vectors::highest_elsewhere(
                    &self.dir,
                    &generation,
                    vectors.as_ref().map(Spaces::shown),
                );
                if let Some(vectors) = vectors {
                    vectors.set_generation(&generation);
                    vectors.read();
                }
                elsewhere
            });
            let shelf = scope.spawn(|| Shelf::of(&keyword, &self.fields, None));
            let read = stores.read(&self.layout);
            let vectors = vectors.join().unwrap_or_else(|fault| resume_unwind(fault));
            (read, shelf.join(), vectors)
        });
        let shelf = match shelf {
            Ok(Ok(shelf)) => Arc::new(shelf),
            Ok(Err(err)) => return rebuild(Why::from(err)),
            // What is damaged makes tantivy panic here and there.
            Err(_) => return rebuild(Why::Corrupt("unreadable segments".to_owned())),
        };
        let (state, highest) = match read {
            Ok(read) => read,
            Err(err) if err.needs_rebuild() => return Ok(Opened::Rebuild(Why::from(&err))),
            Err(err) => return Err(err.into()),
        };
        let mut highest = highest.max(shelf.highest_note()).max(elsewhere);
        if let Some(vectors) = &mut self.vectors {
            vectors.look_for_missing(&state);
            // A crash can leave vectors of a note that nothing else knows: its number is taken.
            highest = highest.max(vectors.highest());
        }
        self.next_id = highest + 1;
        self.state = state;
        self.cautious = cursors.len() > 1;
        self.at = cursors.iter().next().copied().filter(|_| cursors.len() == 1);
        let at = self.at;
        let graves = (!self.cautious).then(|| Arc::new(Graves::none(&shelf)));
        let writer = None;
        self.disk = Some(Disk { stores, keyword, writer, shelf, graves, generation, at, guard });
        self.proof = proof;
        // Opening may have cut a torn tail off.
        self.renew_guard();
        self.is_unfinished = is_unfinished;
        Ok(match is_unfinished {
            true => Opened::Unfinished,
            false => Opened::Ready { cursors },
        })
    }
}

/// Keeps a second writer away, in this process or another.
fn lock(dir: &Path) -> Result<Option<DirLock>, IndexError> {
    if fs::create_dir(dir).is_err() && fs::stat(dir).is_err() {
        return Ok(None);
    }
    match try_lock_dir(dir).map_err(StoreError::from)? {
        Some(lock) => Ok(Some(lock)),
        None => Err(IndexError::Busy),
    }
}

/// Where tantivy's files lie.
pub(super) fn keyword_dir(dir: &Path) -> PathBuf {
    dir.join("keyword_index")
}

/// Opens what is there; another schema counts as another version.
pub(super) fn open_keyword(dir: &Path, fields: &Fields, met: &Met) -> Result<tantivy::Index, Why> {
    let dir = keyword_dir(dir);
    if !matches!(fs::lstat_if_there(&dir.join("meta.json")), Ok(Some(_))) {
        return Err(Why::Missing);
    }
    // A damaged file makes tantivy panic here and there.
    let opened = std::panic::catch_unwind(|| tantivy::Index::open(Folder::open(&dir, met)?));
    let mut index = match opened {
        Ok(Ok(index)) => index,
        Ok(Err(err)) => return Err(Why::from(err).caused_by(met)),
        Err(_) => return Err(Why::Corrupt("unreadable metadata".to_owned()).caused_by(met)),
    };
    if index.schema() != fields.schema {
        return Err(Why::Version("another schema".to_owned()));
    }
    index.set_tokenizers(tokenizers());
    Ok(index)
}

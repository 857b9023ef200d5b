//! A model that was fetched, in a folder of its own.
//!
//! Takes the folder, gives an embedder whose files are read, and compared with the sums that were
//! written down beside them, when they are first needed. Blocking; any thread, several at once.
//!
//! **Invariant:** what is not what was fetched is never used; a question with little time never
//! waits for the reading.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::base::fs::{self, PathError};
use crate::base::trouble::told;
use crate::embed::error::EmbedError;
use crate::embed::identity::{Identity, Normalisation, Purpose, hex};
use crate::embed::transformer::Transformer;
use crate::embed::{Answer, Embedder, Slot};

/// The files of a model, and the only ones that are fetched.
pub const MODEL_FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];
/// What is known of them.
const MANIFEST: &str = "model.json";
/// A file with more bytes is none of ours.
pub const MOST_MODEL_BYTES: u64 = 2 << 30;
const VERSION: u32 = 1;

/// What a folder says of its model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    pub name: String,
    pub dimension: usize,
    /// The sum of the files' sums: another file is another space.
    pub digest: String,
    pub files: BTreeMap<String, FileSum>,
    /// Where they came from, for people.
    pub from: String,
}

/// By what a file is known again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileSum {
    pub bytes: u64,
    pub sha256: String,
}

/// Why a model of this name can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("there is no model `{0}`")]
    Absent(String),
    #[error("Model `{name}` can't be read")]
    Disk { name: String, source: PathError },
    #[error("what is known of model `{name}` can't be read: {why}")]
    Manifest { name: String, why: String },
}

/// A model in the process.
#[derive(Debug)]
pub struct LocalModel {
    folder: PathBuf,
    manifest: Manifest,
    identity: Identity,
    model: Mutex<Option<Arc<Transformer>>>,
}

/// The window of a model that is not read yet: that of all of its kind.
const USUAL_WINDOW: usize = 254;

impl Manifest {
    /// Of files that were read; `from` is for people.
    pub fn of(name: &str, files: &[(&str, &[u8]); 3], from: &str) -> Result<Self, String> {
        let sums: BTreeMap<String, FileSum> = files
            .iter()
            .map(|(name, bytes)| {
                let sha256 = hex(&Sha256::digest(bytes));
                ((*name).to_owned(), FileSum { bytes: bytes.len() as u64, sha256 })
            })
            .collect();
        let all: Vec<String> =
            sums.iter().map(|(name, it)| format!("{}  {name}\n", it.sha256)).collect();
        let digest = hex(&Sha256::digest(all.concat()));
        // What cannot be used is not kept.
        let bytes =
            |wanted: &str| files.iter().find(|it| it.0 == wanted).map_or(&[][..], |it| it.1);
        let [config, vocabulary, weights] = MODEL_FILES.map(bytes);
        let model = Transformer::read(name, &digest, config, vocabulary, weights)
            .map_err(|err| told(&err))?;
        let dimension = model.identity().dimension;
        let (name, from) = (name.to_owned(), from.to_owned());
        Ok(Self { version: VERSION, name, dimension, digest, files: sums, from })
    }

    /// Reads what is known of the model in a folder.
    pub fn read(models: &Path, name: &str) -> Result<Self, LocalError> {
        if !is_name(name) {
            return Err(LocalError::Absent(name.to_owned()));
        }
        let bytes = match fs::read_regular(&models.join(name).join(MANIFEST), 1 << 20) {
            Ok(bytes) => bytes,
            Err(err) if err.is_absent() => return Err(LocalError::Absent(name.to_owned())),
            Err(source) => return Err(LocalError::Disk { name: name.to_owned(), source }),
        };
        let odd = |why: String| LocalError::Manifest { name: name.to_owned(), why };
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|err| odd(err.to_string()))?;
        let is_sum = |it: &str| it.len() == 64 && it.bytes().all(|it| it.is_ascii_hexdigit());
        let is_ours = manifest.version == VERSION && is_sum(&manifest.digest);
        match is_ours && manifest.name == name && manifest.dimension > 0 {
            true => Ok(manifest),
            false => Err(odd("it is of another version".to_owned())),
        }
    }

    /// Writes it down beside the files.
    pub fn write(&self, folder: &Path) -> Result<(), PathError> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        fs::write_atomic(&folder.join(MANIFEST), &text)
    }

    /// Where its files lie, below the folder of its name.
    pub fn folder(&self, home: &Path) -> PathBuf {
        home.join(self.digest.get(..12).unwrap_or(&self.digest))
    }

    pub fn bytes(&self) -> u64 {
        self.files.values().map(|it| it.bytes).sum()
    }
}

/// Whether this can be the name of a model, and of its folder.
pub fn is_name(name: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    (1..=100).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_plain)
}

/// The models that were fetched, by name.
pub fn fetched(models: &Path) -> Vec<Result<Manifest, (String, LocalError)>> {
    let folders = fs::read_dir(models).unwrap_or_default();
    let mut names: Vec<String> =
        folders.iter().filter_map(|it| it.file_name().into_string().ok()).collect();
    names.retain(|it| is_name(it));
    names.sort();
    names.into_iter().map(|it| Manifest::read(models, &it).map_err(|err| (it, err))).collect()
}

impl LocalModel {
    /// The model of this name; its weights are read later.
    pub fn open(models: &Path, name: &str) -> Result<Self, LocalError> {
        let manifest = Manifest::read(models, name)?;
        let identity = Identity {
            backend: "transformer".to_owned(),
            model: manifest.name.clone(),
            dimension: manifest.dimension,
            source: manifest.digest.clone(),
            normalisation: Normalisation::L2,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        };
        let folder = manifest.folder(&models.join(name));
        Ok(Self { folder, manifest, identity, model: Mutex::new(None) })
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads it now, if it was not read yet.
    pub fn load(&self) -> Result<(), EmbedError> {
        self.model().map(drop)
    }

    fn model(&self) -> Result<Arc<Transformer>, EmbedError> {
        let mut slot = self.slot();
        if let Some(model) = &*slot {
            return Ok(Arc::clone(model));
        }
        let model = Arc::new(self.read().map_err(EmbedError::Unusable)?);
        tracing::info!(model = self.manifest.name, "read");
        Ok(Arc::clone(slot.insert(model)))
    }

    fn read(&self) -> Result<Transformer, String> {
        let mut files = Vec::with_capacity(MODEL_FILES.len());
        for name in MODEL_FILES {
            let wanted = self.manifest.files.get(name).ok_or_else(|| format!("no `{name}`"))?;
            let path = self.folder.join(name);
            let bytes = fs::read_regular(&path, MOST_MODEL_BYTES).map_err(|err| told(&err))?;
            if hex(&Sha256::digest(&bytes)) != wanted.sha256 {
                return Err(format!("`{}` is not what was fetched", path.display()));
            }
            files.push(bytes);
        }
        let (name, digest) = (&self.manifest.name, &self.manifest.digest);
        Transformer::read(name, digest, &files[0], &files[1], &files[2])
            .map_err(|err| told(&err))
            .and_then(|it| match *it.identity() == self.identity {
                true => Ok(it),
                false => Err("it is not what its manifest says".to_owned()),
            })
    }

    // A panic leaves it unread.
    fn slot(&self) -> MutexGuard<'_, Option<Arc<Transformer>>> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It, if it was read.
    fn known(&self) -> Option<Arc<Transformer>> {
        match self.model.try_lock() {
            Ok(slot) => slot.clone(),
            Err(TryLockError::Poisoned(slot)) => slot.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Embedder for LocalModel {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn window(&self) -> usize {
        self.known().map_or(USUAL_WINDOW, |it| it.window())
    }

    fn count(&self, text: &str) -> usize {
        self.model().map_or_else(|_| text.len(), |it| it.count(text))
    }

    fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
        let missing = |err| Answer { slots: vec![Slot::Missing; texts.len()], stopped: Some(err) };
        let model = match purpose {
            Purpose::Query => self.known().ok_or(EmbedError::Busy),
            Purpose::Passage => self.model(),
        };
        match model {
            Ok(model) => model.embed(texts, purpose, deadline),
            Err(err) => missing(err),
        }
    }
}

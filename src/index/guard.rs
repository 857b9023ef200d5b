//! Notices when somebody else touches the index's files.
//!
//! Takes the folder of derived state as it was left, says whether it still is: words and vectors
//! apart, as these are made again while words are searched. Blocking (one `stat` a file), any thread.
//!
//! **Invariant:** a file that a view reads was written once and is never changed by us: if it is
//! another one now, what the view says is not to be trusted.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::base::fs;
use crate::base::mapped;
use crate::index::open::keyword_dir;
use crate::index::shelf::Shelf;
use crate::index::spaces::Spaces;
use crate::index::stores::Stores;
use crate::index::vectors::Vectors;

/// The files as they were left.
#[derive(Debug, Default)]
pub(super) struct Guard {
    files: Prints,
    vectors: Prints,
    lost_pages: u64,
}

/// By which files are known again.
pub(super) type Prints = BTreeMap<PathBuf, Print>;
pub(super) type Print = (u64, u64, i64, i64);

/// What somebody did to the index's files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// A file is gone. What is mapped of it can still be read.
    Gone(PathBuf),
    /// A file was written over, cut or replaced.
    Changed(PathBuf),
}

impl Guard {
    /// The files as they are now.
    pub(super) fn of(dir: &Path) -> Self {
        let kept = Stores::folders(dir).into_iter().chain([keyword_dir(dir)]);
        let (files, vectors) = (prints_in(kept), Self::prints_of_vectors(dir));
        Self { files, vectors, lost_pages: mapped::lost_pages() }
    }

    /// The files of vectors as they are now: taken before they are read.
    pub(super) fn prints_of_vectors(dir: &Path) -> Prints {
        let mut prints = prints_in(Vectors::folders(dir).into_iter());
        // The graph beside them comes and goes by itself, and no answer is true for its sake.
        prints.retain(|path, _| Vectors::is_block(path));
        prints
    }

    /// The same with other files of vectors.
    pub(super) fn with_vectors(&self, vectors: Prints) -> Self {
        Self { files: self.files.clone(), vectors, lost_pages: self.lost_pages }
    }

    /// The files as they are now, after we wrote; what is written once is held to what it was.
    /// Of the segments only those of `shelf`, as tantivy's own thread may be writing others, and of
    /// the vectors those in use.
    pub(super) fn renewed(&self, dir: &Path, shelf: &Shelf, vectors: Option<&Spaces>) -> Self {
        let mut now = Self::of(dir);
        now.lost_pages = self.lost_pages;
        let read: Vec<String> =
            shelf.readers().iter().map(|it| it.segment_id().uuid_string()).collect();
        now.files.retain(|path, _| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            !is_segment(path) || read.iter().any(|id| name.starts_with(id.as_bytes()))
        });
        let in_use: Vec<&Path> = vectors.iter().flat_map(|it| it.paths()).collect();
        now.vectors.retain(|path, _| in_use.contains(&path.as_path()));
        let segments = self.files.iter().filter(|it| is_segment(it.0));
        for (path, print) in segments {
            if let Some(known) = now.files.get_mut(path) {
                *known = *print;
            }
        }
        for (path, print) in self.vectors.iter().filter(|it| in_use.contains(&it.0.as_path())) {
            now.vectors.insert(path.clone(), *print);
        }
        // What is always there and is not was taken away while we wrote.
        let others = self.files.iter().filter(|it| is_lasting(it.0));
        for (path, print) in others {
            now.files.entry(path.clone()).or_insert(*print);
        }
        now
    }

    /// Whether all is as it was left: asked while nobody writes.
    pub(super) fn check(&self) -> Result<(), Damage> {
        check_all(&self.files)?;
        self.check_pages()
    }

    /// Whether what is read by queries is as it was left: asked at any time. Files that are gone
    /// were merged away, or can still be read.
    pub(super) fn check_segments(&self) -> Result<(), Damage> {
        check_changed(self.files.iter().filter(|it| is_segment(it.0)))?;
        self.check_pages()
    }

    /// The same, and whether what is always there still is: asked while we write.
    pub(super) fn check_written(&self) -> Result<(), Damage> {
        match self.files.keys().find(|it| is_lasting(it) && print_of(it).is_none()) {
            Some(gone) => Err(Damage::Gone(gone.clone())),
            None => self.check_segments(),
        }
    }

    /// Whether the vectors are as they were left: asked while nobody writes.
    pub(super) fn check_vectors(&self) -> Result<(), Damage> {
        check_all(&self.vectors)
    }

    /// Whether the vectors that a view reads are as they were left: asked at any time.
    pub(super) fn check_mapped_vectors(&self) -> Result<(), Damage> {
        check_changed(self.vectors.iter())
    }

    /// Whether all that is always there is gone.
    pub(super) fn is_taken_away(&self) -> bool {
        let mut lasting = self.files.keys().filter(|it| is_lasting(it)).peekable();
        lasting.peek().is_some()
            && lasting.all(|it| fs::lstat_if_there(it).is_ok_and(|it| it.is_none()))
    }

    fn check_pages(&self) -> Result<(), Damage> {
        match mapped::lost_pages() == self.lost_pages {
            true => Ok(()),
            false => Err(Damage::Changed(PathBuf::from("a file in memory"))),
        }
    }
}

fn prints_in(folders: impl Iterator<Item = PathBuf>) -> Prints {
    let entries = folders.flat_map(|it| fs::read_dir(&it).unwrap_or_default());
    let paths = entries.map(|it| it.path()).filter(|it| !is_lock(it));
    paths.filter_map(|it| Some((print_of(&it)?, it))).map(|(print, path)| (path, print)).collect()
}

fn check_all(prints: &Prints) -> Result<(), Damage> {
    for (path, print) in prints {
        match print_of(path) {
            None => return Err(Damage::Gone(path.clone())),
            Some(now) if now != *print => return Err(Damage::Changed(path.clone())),
            Some(_) => {}
        }
    }
    Ok(())
}

fn check_changed<'a>(
    mut prints: impl Iterator<Item = (&'a PathBuf, &'a Print)>,
) -> Result<(), Damage> {
    let changed = prints.find(|(path, print)| print_of(path).is_some_and(|now| now != **print));
    changed.map_or(Ok(()), |it| Err(Damage::Changed(it.0.clone())))
}

/// Tantivy's own locks come and go.
fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "lock")
}

/// Whether this file is written once: all of tantivy's but its lists.
fn is_segment(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name != b"meta.json" && !name.starts_with(b".") && !name.ends_with(b".zst")
}

/// Whether this file is there from the first write to the last: tantivy's list and the stores.
fn is_lasting(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name == b"meta.json" || name.ends_with(b".zst") && !name.starts_with(b".")
}

pub(super) fn print_of(path: &Path) -> Option<Print> {
    let meta = fs::lstat(path).ok()?;
    // A folder in its place has another inode.
    Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone(path) => write!(f, "`{}` is gone", path.display()),
            Self::Changed(path) => write!(f, "another program changed `{}`", path.display()),
        }
    }
}

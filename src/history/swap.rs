//! Puts new contents in the place of old ones in the vault: all of them, or none.
//!
//! Takes paths with what shall be there, writes it beside, and lets both change places; a note of
//! it in the git directory takes a swap back that a crash has cut short. What somebody saves
//! meanwhile stays: it is newer. Committer thread only.
//!
//! **Invariant:** between [`Swap::stage`] and [`Swap::end`] no byte of the vault is lost: what was
//! there lies beside, under a name that nobody takes for a note.
//! **Invariant:** a file that is not what was seen is put back where it was.

use std::fs::Metadata;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use gix::objs::tree::EntryKind;
use serde::{Deserialize, Serialize};

use crate::base::fs::{self, PathError, TEMP_PREFIX};
use crate::base::{clock, fault};
use crate::history::apply::ApplyError;
use crate::history::place::Place;
use crate::vault::VaultPath;

/// Holds the note of a swap under way.
const NOTE: &str = "swap";

/// What shall be at a path.
pub(super) struct Wanted {
    pub path: VaultPath,
    /// The blob, by which a restart knows that it was committed; nothing where nothing shall be.
    pub blob: Option<String>,
}

/// Gives the bytes on disk (of a link, where it leads) and the kind of what is wanted at a path.
pub(super) type Content<'a> =
    dyn FnMut(&VaultPath) -> Result<Option<(Vec<u8>, EntryKind)>, ApplyError> + 'a;

/// From so many files on one flush of the file system is cheaper than one for each.
const BULK: usize = 8;

/// Why nothing was swapped.
#[derive(Debug)]
pub(super) enum SwapError {
    /// Somebody changed it meanwhile.
    Changed(VaultPath),
    /// Something is in the way that is not to be touched.
    InTheWay(VaultPath, String),
    Disk(PathError),
    /// What is wanted cannot be had.
    Unread(Box<ApplyError>),
}

impl From<PathError> for SwapError {
    fn from(err: PathError) -> Self {
        Self::Disk(err)
    }
}

/// Files that change places with those beside them.
pub(super) struct Swap<'a> {
    place: &'a Place,
    note: Note,
    /// Folders that were made for it, the outermost first.
    made: Vec<PathBuf>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Note {
    moves: Vec<Move>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Move {
    /// The path in the vault, in hexadecimal: any bytes stand in JSON.
    path: String,
    /// The name beside: what is to come, and then what was there.
    beside: String,
    new: Option<Print>,
    old: Option<Print>,
    blob: Option<String>,
    #[serde(skip)]
    is_done: bool,
}

/// What tells one state of one file from all others, also under another name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Print {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
}

impl Print {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            mode: meta.mode(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }

    fn at(path: &Path) -> Result<Option<Self>, PathError> {
        Ok(fs::lstat_if_there(path)?.map(|it| Self::of(&it)))
    }
}

impl<'a> Swap<'a> {
    /// Writes all that is wanted beside the vault's files, and the note.
    pub fn stage(
        place: &'a Place,
        wanted: &[Wanted],
        content: &mut Content<'_>,
    ) -> Result<Self, SwapError> {
        let mut swap = Self { place, note: Note::default(), made: Vec::new() };
        let staged = swap.write(wanted, content).and_then(|()| swap.keep_note());
        match staged {
            Ok(()) => Ok(swap),
            Err(err) => {
                swap.back();
                Err(err)
            }
        }
    }

    fn write(&mut self, wanted: &[Wanted], content: &mut Content<'_>) -> Result<(), SwapError> {
        let mark = clock::wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mark = format!("{:x}-{}", mark.as_nanos(), std::process::id());
        // What takes a name away comes first: it may be that of a folder for another one.
        let (gone, put): (Vec<_>, Vec<_>) = wanted.iter().partition(|it| it.blob.is_none());
        for (at, it) in gone.into_iter().chain(put).enumerate() {
            let on_disk = self.place.disk(&it.path);
            self.check_way(&it.path)?;
            let there = fs::lstat_if_there(&on_disk)?;
            let old = there.as_ref().filter(|it| !it.is_dir());
            let beside = format!("{TEMP_PREFIX}swap-{mark}-{at}");
            self.note.moves.push(Move {
                path: it.path.to_hex(),
                beside: beside.clone(),
                new: None,
                old: old.map(Print::of),
                blob: it.blob.clone(),
                is_done: false,
            });
            let new = content(&it.path).map_err(|err| SwapError::Unread(Box::new(err)))?;
            if let Some((bytes, kind)) = new {
                let is_alone = wanted.len() < BULK;
                let new = write_beside(&self.beside(&beside), &bytes, kind, old, is_alone)?;
                if let Some(last) = self.note.moves.last_mut() {
                    last.new = Some(new);
                }
            }
        }
        match wanted.len() < BULK {
            true => Ok(fs::sync_dir(&self.place.root)?),
            false => Ok(fs::sync_filesystem(&self.place.root)?),
        }
    }

    /// No step of the way may lead elsewhere.
    fn check_way(&self, path: &VaultPath) -> Result<(), SwapError> {
        let mut above = path.parent();
        while let Some(folder) = above {
            match fs::lstat_if_there(&self.place.disk(&folder)) {
                Ok(Some(meta)) if meta.is_symlink() => {
                    let why = format!("`{folder}` is a symlink");
                    return Err(SwapError::InTheWay(path.clone(), why));
                }
                Ok(Some(meta)) if meta.dev() != fs::identity(&self.place.root)?.0 => {
                    let why = format!("`{folder}` is another file system");
                    return Err(SwapError::InTheWay(path.clone(), why));
                }
                // What is a file there now may be one of those that go.
                _ => {}
            }
            above = folder.parent();
        }
        Ok(())
    }

    fn keep_note(&self) -> Result<(), SwapError> {
        let bytes = serde_json::to_vec(&self.note).unwrap_or_default();
        Ok(self.place.keep(&self.place.own(NOTE), &bytes)?)
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.place.root.join(name)
    }

    /// Lets old and new change places; at the first that is not as it was seen all go back.
    pub fn go(mut self) -> Result<Self, SwapError> {
        fault::point("swap.staged");
        fault::hold("swap.staged");
        for at in 0..self.note.moves.len() {
            if let Err(err) = self.step(at) {
                self.back();
                return Err(err);
            }
            if at == 0 {
                fault::point("swap.first");
            }
        }
        if let Err(err) = self.sync() {
            self.back();
            return Err(err.into());
        }
        fault::point("swap.all");
        Ok(self)
    }

    fn step(&mut self, at: usize) -> Result<(), SwapError> {
        let it = &self.note.moves[at];
        let Some(path) = VaultPath::from_hex(&it.path) else { return Ok(()) };
        let (on_disk, beside) = (self.place.disk(&path), self.beside(&it.beside));
        let changed = || SwapError::Changed(path.clone());
        match (&it.old, &it.new) {
            (None, None) => {}
            (None, Some(_)) => {
                self.make_way(&path)?;
                match fs::rename_new(&beside, &on_disk) {
                    Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => {
                        return Err(changed());
                    }
                    done => done?,
                }
            }
            (Some(old), None) => {
                if Print::at(&on_disk)? != Some(*old) {
                    return Err(changed());
                }
                fs::rename_new(&on_disk, &beside)?;
            }
            (Some(old), Some(_)) => {
                if Print::at(&on_disk)? != Some(*old) {
                    return Err(changed());
                }
                fs::exchange(&beside, &on_disk)?;
            }
        }
        self.note.moves[at].is_done = true;
        let it = &self.note.moves[at];
        // Saved between the look and the step: it is found beside now, and goes back with the rest.
        match &it.old {
            Some(old) if Print::at(&beside)? != Some(*old) => Err(changed()),
            _ => Ok(()),
        }
    }

    /// Makes the folders for `path`; an empty one in its own place goes.
    fn make_way(&mut self, path: &VaultPath) -> Result<(), SwapError> {
        let on_disk = self.place.disk(path);
        if fs::lstat_if_there(&on_disk)?.is_some_and(|it| it.is_dir()) {
            // Refused where it is not empty.
            fs::remove_dir(&on_disk).map_err(|_| {
                SwapError::InTheWay(path.clone(), "a folder with files is in its place".to_owned())
            })?;
        }
        let mut missing = Vec::new();
        let mut above = path.parent();
        while let Some(folder) = above {
            let on_disk = self.place.disk(&folder);
            if fs::lstat_if_there(&on_disk).is_ok_and(|it| it.is_some()) {
                break;
            }
            missing.push(on_disk);
            above = folder.parent();
        }
        for folder in missing.into_iter().rev() {
            fs::create_dir(&folder)?;
            self.made.push(folder);
        }
        Ok(())
    }

    /// The names are on the disk before a commit says that they are.
    fn sync(&self) -> Result<(), PathError> {
        let folders: std::collections::BTreeSet<PathBuf> = self
            .note
            .moves
            .iter()
            .filter_map(|it| VaultPath::from_hex(&it.path))
            .flat_map(|it| std::iter::successors(it.parent(), VaultPath::parent))
            .map(|it| self.place.disk(&it))
            .collect();
        for folder in folders {
            if fs::lstat_if_there(&folder)?.is_some_and(|it| it.is_dir()) {
                fs::sync_dir(&folder)?;
            }
        }
        fs::sync_dir(&self.place.root)
    }

    /// Puts all back as it was, but for what was saved since.
    pub fn back(self) {
        let Self { place, note, made } = self;
        if let Err(err) = take_back(place, &note) {
            // The note stays: the next start tries it again.
            tracing::warn!(%err, "a change that was begun is not taken back yet");
            return;
        }
        for folder in made.iter().rev() {
            // Somebody may have put a file there meanwhile.
            let _kept = fs::remove_dir(folder);
        }
    }

    /// It is committed: what was there before goes, but for what was saved into it since.
    pub fn end(self) {
        fault::point("swap.committed");
        if let Err(err) = put_away(self.place, &self.note) {
            tracing::warn!(%err, "what a change replaced is not put away yet");
        }
    }
}

/// Writes a file or a link; one that takes the place of `old` has its permissions.
fn write_beside(
    path: &Path,
    bytes: &[u8],
    kind: EntryKind,
    old: Option<&Metadata>,
    is_synced: bool,
) -> Result<Print, PathError> {
    if kind == EntryKind::Link {
        fs::symlink(Path::new(std::ffi::OsStr::from_bytes(bytes)), path)?;
    } else {
        let mut file = fs::create_new(path)?;
        fs::at("write", path, file.write_all(bytes))?;
        let fresh = fs::at("look at", path, file.metadata())?.permissions().mode();
        let base = old.filter(|it| it.is_file()).map_or(fresh, |it| it.permissions().mode());
        // Who may read it may run it, as git has it.
        let runs = (base & 0o444) >> 2;
        let mode = match kind {
            EntryKind::BlobExecutable => base | runs,
            _ => base & !0o111,
        };
        fs::set_mode(path, mode & 0o7777)?;
        if is_synced {
            fs::at("sync", path, file.sync_all())?;
        }
    }
    Print::at(path)?.ok_or_else(|| PathError {
        action: "look at",
        path: path.to_owned(),
        source: std::io::ErrorKind::NotFound.into(),
    })
}

/// Puts every file back that still is what the swap put there.
fn take_back(place: &Place, note: &Note) -> Result<(), PathError> {
    for it in note.moves.iter().rev() {
        let Some(path) = VaultPath::from_hex(&it.path) else { continue };
        let (on_disk, beside) = (place.disk(&path), place.root.join(&it.beside));
        // Where two names cannot change places in one step there is a third one for a moment.
        let mut aside = beside.clone().into_os_string();
        aside.push(".aside");
        let aside = PathBuf::from(aside);
        let there = unless_no_folder(Print::at(&on_disk))?;
        if there.is_none() && Print::at(&aside)?.is_some() {
            fs::rename_new(&aside, &on_disk)?;
            fs::remove_file(&beside)?;
            continue;
        }
        let besides = Print::at(&beside)?;
        match (&it.old, &it.new) {
            // It went in, and is as it was put there.
            (None, Some(new)) if there == Some(*new) => {
                fs::remove_file(&on_disk)?;
            }
            (Some(_), Some(new)) if there == Some(*new) && besides.is_some() => {
                fs::exchange(&beside, &on_disk)?;
            }
            (Some(_), None) if there.is_none() && besides.is_some() => {
                if let Some(folder) = on_disk.parent() {
                    fs::create_dir_all(folder)?;
                }
                match fs::rename_new(&beside, &on_disk) {
                    // What somebody has put there is newer; the old one is in the last commit.
                    Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => {}
                    done => done?,
                }
            }
            // Nothing happened yet, or somebody saved it since.
            _ => {}
        }
        // What is left beside is what did not go in, or what the last commit has.
        fs::remove_file(&beside)?;
    }
    fs::sync_dir(&place.root)?;
    fs::remove_file(&place.own(NOTE))
}

/// Removes what was there before, and the folders that are empty now.
fn put_away(place: &Place, note: &Note) -> Result<(), PathError> {
    for it in &note.moves {
        let Some(path) = VaultPath::from_hex(&it.path) else { continue };
        let (on_disk, beside) = (place.disk(&path), place.root.join(&it.beside));
        let besides = Print::at(&beside)?;
        if let (Some(old), Some(besides)) = (&it.old, besides)
            && besides != *old
            && besides.inode == old.inode
        {
            // Somebody had it open and wrote on: that is newer than what was put in its place.
            tracing::info!(%path, "was saved while it was changed; the save stays");
            match unless_no_folder(Print::at(&on_disk))? {
                there if there == it.new && it.new.is_some() => fs::exchange(&beside, &on_disk)?,
                None => {
                    if let Some(folder) = on_disk.parent() {
                        fs::create_dir_all(folder)?;
                    }
                    fs::rename_new(&beside, &on_disk)?;
                }
                Some(_) => {}
            }
        }
        fs::remove_file(&beside)?;
        if it.new.is_none() {
            let mut above = path.parent();
            while let Some(folder) = above {
                if fs::remove_dir(&place.disk(&folder)).is_err() {
                    break;
                }
                above = folder.parent();
            }
        }
    }
    fs::remove_file(&place.own(NOTE))
}

fn unless_no_folder(print: Result<Option<Print>, PathError>) -> Result<Option<Print>, PathError> {
    match print {
        Err(err) if err.kind() == std::io::ErrorKind::NotADirectory => Ok(None),
        print => print,
    }
}

/// Finishes or takes back what a crash has cut short.
pub(super) fn after_crash(
    place: &Place,
    is_in_head: impl Fn(&VaultPath, Option<&str>) -> bool,
) -> Result<(), PathError> {
    let Some(bytes) = fs::read_if_there(&place.own(NOTE))? else { return Ok(()) };
    let Ok(note) = serde_json::from_slice::<Note>(&bytes) else {
        tracing::warn!("the note of a change that was begun cannot be read; it is left alone");
        return Ok(());
    };
    let is_committed = note.moves.iter().all(|it| {
        VaultPath::from_hex(&it.path).is_some_and(|path| is_in_head(&path, it.blob.as_deref()))
    });
    tracing::info!(is_committed, "a change that a crash has cut short is put in order");
    match is_committed {
        true => put_away(place, &note),
        false => take_back(place, &note),
    }
}

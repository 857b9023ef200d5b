//! Which folders have a watch.
//!
//! Takes a folder that may have come, gone or changed, looks at it, and brings the watches below
//! it in line. Runs on the worker's thread (and on the caller's of `Watcher::start`). Blocking.
//!
//! **Invariant:** a folder is watched before it is listed, so what appears in it is either in the
//! list or an event; nothing falls between.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::base::fs;
use crate::vault::VaultPath;
use crate::watch::admit::{Door, House};
use crate::watch::tap::{Engine, WatchFailed};

/// The watched folders, by their paths on the disk.
#[derive(Debug, Default)]
pub(super) struct Tree {
    watched: BTreeSet<PathBuf>,
}

/// What was found at a folder's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// A folder of the vault, now or before: its content may differ.
    Folder,
    /// Nothing that was ever entered.
    Other,
}

impl Tree {
    pub fn len(&self) -> usize {
        self.watched.len()
    }

    /// Looks at `folder` (`None`: the root) and all that is below, and watches what is to be
    /// watched there, no more and no less.
    pub fn cover(
        &mut self,
        engine: &mut Engine,
        house: &House,
        folder: Option<&VaultPath>,
        is_ignored: &mut dyn FnMut(&VaultPath) -> bool,
    ) -> Result<Seen, WatchFailed> {
        let top = on_disk(house, folder);
        let known = self.watched.contains(&top);
        let mut fresh = BTreeSet::new();
        let mut entered = false;
        let mut waiting = vec![folder.cloned()];
        while let Some(name) = waiting.pop() {
            let is_top = name.as_ref() == folder;
            let path = on_disk(house, name.as_ref());
            let door = match &name {
                None => Door::Open,
                Some(name) if is_top => match house.door_through(name, is_ignored) {
                    (at, door) if at == *name => door,
                    // Something above it is closed: nothing below is ours to watch.
                    _ => Door::Absent,
                },
                Some(name) => house.door(name, is_ignored),
            };
            if !matches!(door, Door::Open | Door::Repository) {
                continue;
            }
            entered |= is_top;
            match engine.watch(&path) {
                Ok(()) => fresh.insert(path.clone()),
                Err(WatchFailed::Nothing) => continue,
                Err(err) => {
                    self.watched.append(&mut fresh);
                    return Err(err);
                }
            };
            // Of another repository only the top is watched: it may cease to be one.
            if let Door::Open = door {
                waiting.extend(folders_in(&path).filter_map(|it| house.name_of(&it)).map(Some));
            }
        }
        self.replace(engine, &top, fresh);
        Ok(if known || entered { Seen::Folder } else { Seen::Other })
    }

    /// Watches a git directory and the folders of its refs.
    pub fn cover_git(&mut self, engine: &mut Engine, dir: &Path) -> Result<(), WatchFailed> {
        let mut fresh = BTreeSet::new();
        let mut waiting = vec![dir.to_owned()];
        while let Some(path) = waiting.pop() {
            match engine.watch(&path) {
                Ok(()) => {}
                Err(WatchFailed::Nothing) => continue,
                Err(err) => {
                    self.watched.append(&mut fresh);
                    return Err(err);
                }
            }
            match path == dir {
                true => waiting.extend(folders_in(&path).filter(|it| it.ends_with("refs"))),
                false => waiting.extend(folders_in(&path)),
            }
            fresh.insert(path);
        }
        self.replace(engine, dir, fresh);
        Ok(())
    }

    /// The watched folders from `top` down are now `fresh`.
    fn replace(&mut self, engine: &mut Engine, top: &Path, mut fresh: BTreeSet<PathBuf>) {
        // Paths sort by component, so a subtree is one run of the set.
        let stale: Vec<PathBuf> = self
            .watched
            .range::<Path, _>((Bound::Included(top), Bound::Unbounded))
            .take_while(|it| it.starts_with(top))
            .filter(|it| !fresh.contains(*it) && !is_git(top, it))
            .cloned()
            .collect();
        for path in stale {
            engine.unwatch(&path);
            self.watched.remove(&path);
        }
        self.watched.append(&mut fresh);
    }
}

/// Whether `path` lies in a git directory below `top`: those have watches of their own.
fn is_git(top: &Path, path: &Path) -> bool {
    path.strip_prefix(top).is_ok_and(|it| it.components().any(|it| it.as_os_str() == ".git"))
}

fn on_disk(house: &House, name: Option<&VaultPath>) -> PathBuf {
    name.map_or_else(|| house.root.clone(), |it| house.root.join(it.as_path()))
}

/// The real folders in a folder; none where it cannot be read (the scan names it).
fn folders_in(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(path).unwrap_or_default();
    entries.into_iter().filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).map(|it| it.path())
}

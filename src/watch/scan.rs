//! What the disk holds, read once.
//!
//! Takes the vault's folder or one below it, gives every file and symlink in it, by walkdir.
//! Blocking, any thread. Symlinks are listed, never followed; other repositories, other file
//! systems, ignored and derived folders are not entered.
//!
//! **Invariant:** what is not found is gone only where [`Scan::covers`] says so: a folder that
//! cannot be read, or is not entered, proves nothing about its content.

use std::fmt;
use std::path::Path;

use walkdir::WalkDir;

use crate::base::fs::PathError;
use crate::base::trouble::told;
use crate::vault::VaultPath;
use crate::watch::admit::{Door, House};
use crate::watch::filter::Filter;

/// What a scan saw.
#[derive(Debug, Default)]
pub struct Scan {
    /// Regular files and symlinks.
    pub found: Vec<VaultPath>,
    /// Folders entered.
    pub folders: usize,
    /// What was not looked at, for people to know.
    pub skipped: Vec<(VaultPath, Skip)>,
    /// What has a name that no path in the vault may have (`.GIT`), as people read it.
    pub nameless: Vec<String>,
    /// Folders that Git ignores.
    pub ignored: Vec<VaultPath>,
    /// Whether everything that could be read was: `false` where a folder failed.
    pub complete: bool,
    /// The part that was scanned; `None` is the whole vault.
    under: Option<VaultPath>,
    /// A failure without a place: nothing at all may be taken for gone.
    adrift: bool,
    filter: Filter,
}

/// Why something was not looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Skip {
    /// The system says no.
    Unreadable(String),
    /// Another repository begins here.
    Repository,
    /// Another file system is mounted here.
    OtherDevice,
    /// A socket, a pipe, a device.
    Special,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::Repository => f.write_str("is a repository of its own"),
            Self::OtherDevice => f.write_str("is on another file system"),
            Self::Special => f.write_str("is neither a file nor a symlink"),
        }
    }
}

impl Scan {
    /// Whether `path` would have been found if it were there.
    pub fn covers(&self, path: &VaultPath) -> bool {
        !self.adrift
            && self.under.as_ref().is_none_or(|it| path.is_within(it.as_bytes()))
            && !self.filter.drops_file(path)
            && !self.ignored.iter().any(|it| path.is_within(it.as_bytes()))
            && !self.skipped.iter().any(|(it, why)| {
                // Where a pipe stands there is no note, neither at its name nor below.
                *why != Skip::Special && path.is_within(it.as_bytes())
            })
    }
}

/// Reads the vault at `root`, or the part of it at `under` (a folder, a file, or nothing).
///
/// Fails only where `root` itself is not to be had; everything else is in the [`Scan`].
pub fn scan(
    root: &Path,
    under: Option<&VaultPath>,
    filter: &Filter,
    is_ignored_dir: &mut dyn FnMut(&VaultPath) -> bool,
) -> Result<Scan, PathError> {
    let house = House::at(root, filter.clone())?;
    let mut scan =
        Scan { complete: true, under: under.cloned(), filter: filter.clone(), ..Scan::default() };
    walk(&house, under, is_ignored_dir, &mut |step| match step {
        Step::Folder => scan.folders += 1,
        Step::File(name, _) => scan.found.push(name),
        Step::Ignored(name) => scan.ignored.push(name),
        Step::Nameless(name) => scan.nameless.push(name),
        Step::Skipped(name, why) => {
            scan.complete &= !matches!(why, Skip::Unreadable(_));
            match name {
                Some(name) => scan.skipped.push((name, why)),
                None => scan.adrift = true,
            }
        }
    });
    Ok(scan)
}

/// One thing a walk came by.
pub(super) enum Step<'a> {
    Folder,
    /// A regular file or symlink; the entry gives its metadata.
    File(VaultPath, &'a walkdir::DirEntry),
    Ignored(VaultPath),
    /// No path of the vault, yet no `.git` either.
    Nameless(String),
    /// `None` where the failure has no place below the root.
    Skipped(Option<VaultPath>, Skip),
}

/// Walks the vault or a part of it and tells `step` what is there.
pub(super) fn walk(
    house: &House,
    under: Option<&VaultPath>,
    is_ignored: &mut dyn FnMut(&VaultPath) -> bool,
    step: &mut dyn FnMut(Step<'_>),
) {
    let mut start = house.root.clone();
    if let Some(under) = under {
        // The parents first: below a symlink or a closed folder there is nothing of ours.
        if let Some(parent) = under.parent() {
            let (at, door) = house.door_through(&parent, is_ignored);
            if !enter(at, door, step) {
                return;
            }
        }
        start.push(under.as_path());
    }
    let mut entries = WalkDir::new(&start).follow_links(false).into_iter();
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(err) => {
                let name = err.path().and_then(|it| house.name_of(it));
                match err.io_error() {
                    // Removed while we walked, or nothing at `under`: it is gone, as it seems.
                    Some(io) if io.kind() == std::io::ErrorKind::NotFound && name.is_some() => {}
                    _ => step(Step::Skipped(name, Skip::Unreadable(reason(&err)))),
                }
                continue;
            }
        };
        let kind = entry.file_type();
        if entry.path() == house.root {
            step(Step::Folder);
        } else if kind.is_dir() {
            let open = match house.name_of(entry.path()) {
                Some(name) => {
                    let door = house.door(&name, is_ignored);
                    enter(name, door, step)
                }
                None => {
                    nameless(house, entry.path(), step);
                    false
                }
            };
            match open {
                true => step(Step::Folder),
                false => entries.skip_current_dir(),
            }
        } else if let Some(name) = house.name_of(entry.path()) {
            if house.filter.drops_file(&name) {
                continue;
            }
            match kind.is_file() || kind.is_symlink() {
                true => step(Step::File(name, &entry)),
                false => step(Step::Skipped(Some(name), Skip::Special)),
            }
        } else {
            nameless(house, entry.path(), step);
        }
    }
}

/// Names what can have no name in the vault; a `.git` is nobody's note.
fn nameless(house: &House, path: &Path, step: &mut dyn FnMut(Step<'_>)) {
    use std::os::unix::ffi::OsStrExt as _;
    if path.file_name().is_some_and(|it| it != ".git") {
        let name = path.strip_prefix(&house.root).unwrap_or(path).as_os_str().as_bytes();
        step(Step::Nameless(crate::vault::path::escape(name).into_owned()));
    }
}

/// Whether the walk goes through `door`; tells `step` why not.
fn enter(name: VaultPath, door: Door, step: &mut dyn FnMut(Step<'_>)) -> bool {
    match door {
        Door::Open => return true,
        Door::Filtered | Door::Absent => {}
        Door::Ignored => step(Step::Ignored(name)),
        Door::Repository => step(Step::Skipped(Some(name), Skip::Repository)),
        Door::OtherDevice => step(Step::Skipped(Some(name), Skip::OtherDevice)),
        Door::Unreadable(err) => {
            step(Step::Skipped(Some(name), Skip::Unreadable(told(&err.source))));
        }
    }
    false
}

fn reason(err: &walkdir::Error) -> String {
    err.io_error().map_or_else(|| err.to_string(), |it| told(it))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn path(text: &str) -> VaultPath {
        VaultPath::new(text).unwrap()
    }

    fn write(root: &Path, name: &str) {
        let file = root.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, name).unwrap();
    }

    fn repository(at: &Path) {
        for folder in ["objects", "refs"] {
            std::fs::create_dir_all(at.join(".git").join(folder)).unwrap();
        }
        std::fs::write(at.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    fn names(scan: &Scan) -> BTreeSet<String> {
        scan.found.iter().map(ToString::to_string).collect()
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|it| (*it).to_owned()).collect()
    }

    /// D10: loops and ways out are listed as what they are, and not walked.
    #[test]
    fn symlinks_are_listed_and_never_followed() {
        let vault = tempfile::tempdir().unwrap();
        let root = vault.path();
        write(root, "a.md");
        write(root, "d/b.md");
        for (target, link) in [
            (".", "loop"),
            ("..", "up"),
            ("/etc", "out"),
            ("two", "one"),
            ("one", "two"),
            ("gone", "dangling.md"),
            ("../d", "d/self"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let all = scan(root, None, &Filter::default(), &mut |_| false).unwrap();
        let links = ["loop", "up", "out", "one", "two", "dangling.md", "d/self"];
        assert_eq!(names(&all), set(&[&links[..], &["a.md", "d/b.md"]].concat()));
        assert_eq!((all.found.len(), all.folders, all.complete), (9, 2, true));
        assert!(all.skipped.is_empty());

        // Below a link there is nothing of ours, and that counts as gone.
        let below =
            scan(root, Some(&path("out/hosts")), &Filter::default(), &mut |_| false).unwrap();
        assert!(below.found.is_empty() && below.complete && below.covers(&path("out/hosts")));
        let through =
            scan(root, Some(&path("loop/d")), &Filter::default(), &mut |_| false).unwrap();
        assert!(through.found.is_empty());
    }

    #[test]
    fn closed_folders_are_named_and_their_content_is_not_taken_for_gone() {
        let vault = tempfile::tempdir().unwrap();
        let root = vault.path();
        repository(root);
        for name in ["a.md", "mem_metadata/x.md", "node_modules/p/readme.md", "sub/in/x.md"] {
            write(root, name);
        }
        repository(&root.join("sub/in"));
        // Neither of these is a repository to Git.
        write(root, "empty/x.md");
        std::fs::create_dir(root.join("empty/.git")).unwrap();
        write(root, "odd/x.md");
        write(root, "odd/.git");
        write(root, "tree/x.md");
        std::fs::write(root.join("tree/.git"), "gitdir: /elsewhere\n").unwrap();
        write(root, "a.md~");
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();

        let filter = Filter::new([path("mem_metadata")]);
        let mut ignored = |it: &VaultPath| it.file_name() == b"node_modules";
        let all = scan(root, None, &filter, &mut ignored).unwrap();
        assert_eq!(names(&all), set(&["a.md", "empty/x.md", "odd/x.md"]));
        let mut skipped: Vec<_> =
            all.skipped.iter().map(|(it, why)| (it.to_string(), why)).collect();
        skipped.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(
            skipped,
            [
                ("socket".to_owned(), &Skip::Special),
                ("sub/in".to_owned(), &Skip::Repository),
                ("tree".to_owned(), &Skip::Repository),
            ]
        );
        assert_eq!(all.ignored, [path("node_modules")]);
        for (name, covered) in [
            ("gone.md", true),
            ("sub/gone.md", true),
            ("socket", true),
            ("sub/in/x.md", false),
            ("node_modules/p/readme.md", false),
            ("mem_metadata/x.md", false),
            ("tree/x.md", false),
            ("a.md~", false),
        ] {
            assert_eq!(all.covers(&path(name)), covered, "{name}");
        }

        let part = scan(root, Some(&path("sub")), &filter, &mut |_| false).unwrap();
        assert!(part.covers(&path("sub/gone.md")) && !part.covers(&path("a.md")));
        let inside = scan(root, Some(&path("sub/in/x.md")), &filter, &mut |_| false).unwrap();
        assert_eq!(inside.skipped, [(path("sub/in"), Skip::Repository)]);
        assert!(!inside.covers(&path("sub/in/x.md")));
    }

    #[test]
    fn a_part_may_be_a_file_or_nothing() {
        let vault = tempfile::tempdir().unwrap();
        write(vault.path(), "a/b/c.md");
        let check = |under: &str, found: &[&str]| {
            let part =
                scan(vault.path(), Some(&path(under)), &Filter::default(), &mut |_| false).unwrap();
            assert_eq!(names(&part), set(found), "{under}");
            assert!(part.complete && part.covers(&path(under)));
        };
        check("a", &["a/b/c.md"]);
        check("a/b/c.md", &["a/b/c.md"]);
        check("a/gone", &[]);
        check("gone/deep/x.md", &[]);
        check("a/b/c.md/x", &[]);
        assert!(
            scan(&vault.path().join("none"), None, &Filter::default(), &mut |_| false).is_err()
        );
    }

    /// Runs as root too: there the folder is readable and simply found.
    #[test]
    fn a_folder_that_cannot_be_read_proves_nothing() {
        let vault = tempfile::tempdir().unwrap();
        let root = vault.path();
        for name in ["shut/x.md", "open/y.md"] {
            write(root, name);
        }
        let shut = root.join("shut");
        std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o0)).unwrap();
        let all = scan(root, None, &Filter::default(), &mut |_| false).unwrap();
        let readable = std::fs::read_dir(&shut).is_ok();
        std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(names(&all).contains("open/y.md"));
        assert_eq!(all.complete, readable);
        assert_eq!(all.covers(&path("shut/gone.md")), readable);
        if !readable {
            assert!(matches!(&all.skipped[..], [(it, Skip::Unreadable(_))] if *it == path("shut")));
        }
    }
}

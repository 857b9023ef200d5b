//! What this user may not use, and what lets them.
//!
//! Takes places where a call was refused, gives a remedy that names the first file or folder at
//! fault and what is wrong with it: its owner or its mode. Blocking, any thread.
//!
//! **Invariant:** it only looks, and at a bounded number of files.

use std::collections::VecDeque;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::base::fs;

/// So many files and folders are looked at, and no more.
const MOST: usize = 10_000;
/// So far below a place: a loose object, a reference, a segment of an index.
const DEPTH: usize = 2;

/// What lets this user use all of `places` again; `None` where nothing there is closed to them.
pub fn remedy(places: &[&Path]) -> Option<String> {
    places.iter().find_map(|place| above(place).or_else(|| within(place)))
}

/// The first folder on the way that lets nobody through.
fn above(place: &Path) -> Option<String> {
    let mut folders: Vec<&Path> = place.ancestors().skip(1).collect();
    folders.reverse();
    let folder = folders.into_iter().find(|it| fs::stat(it).is_ok() && !may(it, libc::X_OK))?;
    told(folder, "u+rwx")
}

/// The first folder that can't be read and written, or file that can't be read.
fn within(place: &Path) -> Option<String> {
    let mut left = VecDeque::from([(place.to_owned(), 0)]);
    let mut seen = 0;
    while let Some((path, depth)) = left.pop_front() {
        seen += 1;
        let Ok(meta) = fs::lstat(&path) else { continue };
        let (needed, mode) = match meta.file_type() {
            it if it.is_dir() => (libc::R_OK | libc::W_OK | libc::X_OK, "u+rwx"),
            // Git's objects are read-only by intent.
            it if it.is_file() => (libc::R_OK, "u+rw"),
            _ => continue,
        };
        if !may(&path, needed) {
            return told(&path, mode);
        }
        if meta.is_dir() && depth <= DEPTH {
            let names = fs::read_dir(&path).unwrap_or_default();
            let room = MOST.saturating_sub(seen + left.len());
            left.extend(names.into_iter().take(room).map(|it| (it.path(), depth + 1)));
        }
    }
    None
}

fn told(path: &Path, mode: &str) -> Option<String> {
    let meta = fs::stat(path).ok()?;
    let name = path.display();
    let bits = meta.mode() & 0o7777;
    let wanted = if meta.is_dir() { 0o700 } else { 0o400 };
    Some(if meta.uid() != us() {
        format!(
            "`{name}` belongs to another user (uid {}, mode {bits:03o}): have it given to you, \
             `sudo chown -R \"$(id -un)\" '{name}'`.",
            meta.uid()
        )
    } else if bits & wanted != wanted {
        format!("`{name}` is closed to you, its owner (mode {bits:03o}): `chmod {mode} '{name}'`.")
    } else {
        format!(
            "`{name}` is closed to you although you own it (mode {bits:03o}): look at its access \
             list (`getfacl '{name}'`), and at SELinux or AppArmor."
        )
    })
}

fn us() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether this process may use a path so.
fn may(path: &Path, how: libc::c_int) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return true };
    // SAFETY: faccessat(2) reads a NUL-terminated path, which lives for the whole call.
    unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), how, libc::AT_EACCESS) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does `work` as an ordinary user: root may use everything.
    fn as_ordinary<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: only this thread's own user changes, and it ends with `work`.
                let done = unsafe { libc::syscall(libc::SYS_setresuid, -1, USER, -1) };
                assert!(done == 0 || us() != 0, "still root");
                work()
            });
            thread.join().unwrap()
        })
    }

    const USER: libc::uid_t = 65_534;

    #[test]
    fn the_place_at_fault_is_named_with_its_owner_or_mode() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("vault");
        fs::create_dir_all(&place.join(".git/objects/0a")).unwrap();
        fs::write_atomic(&place.join(".git/objects/0a/object"), b"x").unwrap();
        fs::set_mode(&place.join(".git/objects/0a/object"), 0o444).unwrap();
        let all = ["", ".git", ".git/objects", ".git/objects/0a", ".git/objects/0a/object"];
        if us() == 0 {
            std::os::unix::fs::chown(dir.path(), Some(USER), None).unwrap();
            for name in all {
                std::os::unix::fs::chown(place.join(name), Some(USER), None).unwrap();
            }
        }
        let git = place.join(".git");
        let said = || as_ordinary(|| remedy(&[&place, &git]));
        assert_eq!(said(), None, "read-only objects are as Git makes them");
        for (name, mode, usual, words) in [
            ("", 0o000, 0o755, "chmod u+rwx"),
            (".git", 0o500, 0o755, "chmod u+rwx"),
            (".git/objects", 0o555, 0o755, "chmod u+rwx"),
            (".git/objects/0a", 0o555, 0o755, "chmod u+rwx"),
            (".git/objects/0a/object", 0o000, 0o444, "chmod u+rw "),
        ] {
            let path = place.join(name);
            fs::set_mode(&path, mode).unwrap();
            let remedy = said().unwrap();
            let shown = if name.is_empty() { &place } else { &path };
            let place = format!("`{}` is closed to you", shown.display().to_string().trim_end());
            assert!(remedy.trim_end_matches('/').starts_with(&place), "{remedy}");
            assert!(remedy.contains(&format!("(mode {mode:03o})")), "{remedy}");
            assert!(remedy.contains(words), "{remedy}");
            fs::set_mode(&path, usual).unwrap();
        }
        assert_eq!(said(), None);
        if us() == 0 {
            std::os::unix::fs::chown(&git, Some(0), None).unwrap();
            let remedy = said().unwrap();
            assert!(remedy.contains("uid 0") && remedy.contains("sudo chown -R"), "{remedy}");
        }
    }
}

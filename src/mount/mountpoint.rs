//! Where the mount may be, and what stands there already.
//!
//! Takes the vault and the wished place, gives the place with every symlink resolved and a folder
//! ready to be mounted on. Blocking; runs before and after the mount serves, never while.
//!
//! **Invariant:** only a dead mount of our own is ever detached; a live or foreign one, and a
//! folder that holds anything, is left as it is.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::base::fs::{self, PathError};
use crate::base::process;
use crate::mount::errno;
use crate::mount::record::{Folder, Left, Record};
use crate::mount::session::MountError;

/// The source that our mounts name in `/proc/self/mountinfo`, by which we know them again.
pub const SOURCE: &str = "remd";

/// How long a mount may take to say that it lives.
const PROBE: Duration = Duration::from_secs(2);

/// How long the helper may take.
const HELPER: Duration = Duration::from_secs(10);

/// Programs that mount and unmount for ordinary users, newest first.
const HELPERS: &[&str] = &["fusermount3", "fusermount"];

/// The sibling folder `<vault>.fs`.
pub fn default_mountpoint(vault: &Path) -> PathBuf {
    let mut name = vault.as_os_str().as_bytes().to_vec();
    while name.len() > 1 && name.ends_with(b"/") {
        name.pop();
    }
    name.extend_from_slice(b".fs");
    PathBuf::from(OsString::from_vec(name))
}

/// A place ready to be mounted on.
#[derive(Debug)]
pub struct Place {
    /// Where, and whether the folder is ours to remove.
    pub left: Left,
    /// Why what a kill would leave behind could not be written down.
    pub unrecorded: Option<PathError>,
}

/// Resolves, clears and checks the place; puts away what an earlier run left, here or elsewhere.
pub fn prepare(vault: &Path, wished: &Path, record: &Record) -> Result<Place, MountError> {
    let vault = fs::canonicalize(vault).map_err(MountError::Place)?;
    let path = resolve(wished)?;
    apart(&vault, &path)?;
    let earlier = record.read();
    if let Some(left) = earlier.as_ref().filter(|it| it.path != path)
        && let Err(err) = put_away(left)
    {
        // It holds up nothing here, and whoever looks there is told by the error they get.
        tracing::warn!(%err, "what an earlier run left stays");
    }
    clear(&path)?;
    let there = fs::lstat_if_there(&path).map_err(MountError::Place)?.is_some();
    let earlier = earlier.filter(|it| it.path == path);
    let made = match &earlier {
        Some(left) if there => left.is_made_here().map_err(MountError::Place)?,
        _ => !there,
    };
    let mut unrecorded = None;
    if !there {
        unrecorded = record.write(&Left { path: path.clone(), folder: Folder::Making }).err();
        fs::create_dir_all(&path).map_err(MountError::Place)?;
    }
    let checked = apart_by_identity(&vault, &path).and_then(|()| empty(&path));
    if let Err(err) = checked {
        if !there {
            // The error that counts is the first one.
            let _removed = fs::remove_dir(&path).and_then(|()| record.erase());
        }
        return Err(err);
    }
    let folder = if made {
        Folder::Made(fs::lstat(&path).map_err(MountError::Place)?.ino())
    } else {
        Folder::Kept
    };
    let left = Left { path, folder };
    Ok(Place { unrecorded: record.write(&left).err().or(unrecorded), left })
}

/// Puts away what a killed run left: its dead mount, and the folder if it was made for it. Gives
/// where that was, if anything was.
pub fn clear_left(record: &Path) -> Result<Option<PathBuf>, MountError> {
    let record = Record::at(record);
    let Some(left) = record.read() else { return Ok(None) };
    put_away(&left)?;
    record.erase().map_err(MountError::Place)?;
    Ok(Some(left.path))
}

/// Where the agent of this record has its mount, if the kernel has it; the mount is not touched.
pub fn still_mounted(record: &Path) -> Option<PathBuf> {
    let left = Record::at(record).read()?;
    device_at(&left.path).map(|_| left.path)
}

fn put_away(left: &Left) -> Result<(), MountError> {
    clear(&left.path)?;
    left.remove_folder().map_err(MountError::Place)
}

/// The device of the topmost mount at `path`, if it is one of ours: how we know it again.
pub fn device_at(path: &Path) -> Option<String> {
    let top = mounts_at(path).ok()?.pop()?;
    top.is_ours(user()).then_some(top.device)
}

/// Whether our mount with this device is the topmost at `path`.
pub fn is_at(path: &Path, device: &str) -> bool {
    device_at(path).as_deref() == Some(device)
}

/// Takes the mount at `path` out of the tree, also while somebody uses it.
pub fn detach(path: &Path) -> Result<(), MountError> {
    let failed = |source| MountError::Unmount { path: path.to_owned(), source };
    let c_path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| failed(io::Error::from(io::ErrorKind::InvalidInput)))?;
    // SAFETY: umount2(2) reads a NUL-terminated path, which lives for the whole call.
    let result =
        unsafe { libc::umount2(c_path.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
    if result == 0 {
        return Ok(());
    }
    let err = io::Error::last_os_error();
    if !errno::is_for_root(&err) {
        return Err(failed(err));
    }
    let mut last = err;
    for helper in HELPERS {
        let args = [OsStr::new("-u"), OsStr::new("-z"), OsStr::new("--"), path.as_os_str()];
        match process::run(helper, &args, HELPER) {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(failed(io::Error::other(said)));
            }
            Err(err) => last = io::Error::other(err),
        }
    }
    Err(failed(last))
}

/// Whether an ordinary user's mounts can be made at all.
pub fn has_helper() -> bool {
    std::env::var_os("FUSERMOUNT_PATH").is_some()
        || HELPERS.iter().any(|it| process::run(it, &["-V"], HELPER).is_ok())
}

/// The effective user.
pub fn user() -> u32 {
    // SAFETY: geteuid(2) takes nothing and can't fail.
    unsafe { libc::geteuid() }
}

/// The path with every symlink resolved; its last parts need not exist.
fn resolve(wished: &Path) -> Result<PathBuf, MountError> {
    let absolute = std::path::absolute(wished).map_err(|source| {
        MountError::Place(PathError { action: "resolve", path: wished.to_owned(), source })
    })?;
    let mut missing = Vec::new();
    let mut known = absolute.as_path();
    loop {
        match fs::canonicalize(known) {
            Ok(mut path) => {
                path.extend(missing.iter().rev());
                return Ok(path);
            }
            // A dead mount is there, but can't be looked at; its folder can.
            Err(err) if err.is_absent() || errno::is_dead(&err.source) => {}
            Err(err) => return Err(MountError::Place(err)),
        }
        let (Some(parent), Some(Component::Normal(name))) =
            (known.parent(), known.components().next_back())
        else {
            return Err(MountError::Place(PathError {
                action: "resolve",
                path: absolute.clone(),
                source: io::Error::from(io::ErrorKind::InvalidInput),
            }));
        };
        // A symlink that leads nowhere yet would be followed by the mount, unseen by us.
        if let Ok(Some(meta)) = fs::lstat_if_there(known)
            && meta.is_symlink()
        {
            let target = fs::read_link(known).map_err(MountError::Place)?;
            let mut path = resolve(&parent.join(target))?;
            path.extend(missing.iter().rev());
            return Ok(path);
        }
        missing.push(name.to_owned());
        known = parent;
    }
}

fn apart(vault: &Path, path: &Path) -> Result<(), MountError> {
    if path.starts_with(vault) {
        return Err(MountError::InsideVault { path: path.to_owned(), vault: vault.to_owned() });
    }
    if vault.starts_with(path) {
        return Err(MountError::VaultInside { path: path.to_owned(), vault: vault.to_owned() });
    }
    Ok(())
}

/// The same where a bind mount gives one folder two paths.
fn apart_by_identity(vault: &Path, path: &Path) -> Result<(), MountError> {
    let identity = |path: &Path| fs::identity(path).map_err(MountError::Place);
    let (vault_id, path_id) = (identity(vault)?, identity(path)?);
    for ancestor in path.ancestors() {
        if identity(ancestor)? == vault_id {
            return Err(MountError::InsideVault { path: path.to_owned(), vault: vault.to_owned() });
        }
    }
    for ancestor in vault.ancestors() {
        if identity(ancestor)? == path_id {
            return Err(MountError::VaultInside { path: path.to_owned(), vault: vault.to_owned() });
        }
    }
    Ok(())
}

fn empty(path: &Path) -> Result<(), MountError> {
    if !fs::stat(path).map_err(MountError::Place)?.is_dir() {
        return Err(MountError::NotFolder { path: path.to_owned() });
    }
    if !fs::read_dir(path).map_err(MountError::Place)?.is_empty() {
        return Err(MountError::NotEmpty { path: path.to_owned() });
    }
    Ok(())
}

/// Detaches dead mounts of ours; an error where anything else is mounted.
fn clear(path: &Path) -> Result<(), MountError> {
    // Several may lie on top of each other after several crashes.
    for _ in 0..16 {
        let Some(top) = mounts_at(path)?.pop() else { return Ok(()) };
        if !top.is_ours(user()) {
            let what = format!("{} ({})", top.source, top.kind);
            return Err(MountError::Foreign { path: path.to_owned(), what });
        }
        if !is_dead_mount(path) {
            return Err(MountError::Serving { path: path.to_owned() });
        }
        tracing::info!(path = %path.display(), "a dead mount of an earlier run is cleared");
        detach(path)?;
    }
    Err(MountError::Serving { path: path.to_owned() })
}

/// Whether the server behind a mount is gone. Asked on a thread of its own, since a server that
/// hangs would hang us too; no answer counts as alive.
fn is_dead_mount(path: &Path) -> bool {
    let (said, says) = mpsc::channel();
    let own = path.to_owned();
    let asked = std::thread::Builder::new().name("mount-probe".to_owned()).spawn(move || {
        // Not its attributes: the kernel gives those from memory for a while.
        let dead = fs::read_dir(&own).is_err_and(|err| errno::is_dead(&err.source));
        // Nobody listens after the deadline.
        let _sent = said.send(dead);
    });
    asked.is_ok() && says.recv_timeout(PROBE).unwrap_or(false)
}

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct MountLine {
    device: String,
    path: PathBuf,
    kind: String,
    source: String,
    user: Option<u32>,
}

impl MountLine {
    fn is_ours(&self, user: u32) -> bool {
        let fuse = self.kind == "fuse" || self.kind == "fuse.remd";
        fuse && self.source == SOURCE && self.user == Some(user)
    }
}

/// What is mounted at `path`, the topmost last.
fn mounts_at(path: &Path) -> Result<Vec<MountLine>, MountError> {
    let table = fs::read(Path::new("/proc/self/mountinfo")).map_err(MountError::Place)?;
    Ok(mount_lines(&table).filter(|it| it.path == path).collect())
}

fn mount_lines(table: &[u8]) -> impl Iterator<Item = MountLine> + '_ {
    table.split(|it| *it == b'\n').filter_map(|line| {
        let fields: Vec<_> = line.split(|it| *it == b' ').collect();
        let dash = fields.iter().position(|it| *it == b"-")?;
        let text = |at: usize| Some(String::from_utf8_lossy(fields.get(at)?).into_owned());
        let options = text(dash + 3)?;
        Some(MountLine {
            device: text(2)?,
            path: PathBuf::from(OsString::from_vec(unescaped(fields.get(4)?))),
            kind: text(dash + 1)?,
            source: text(dash + 2)?,
            user: options.split(',').find_map(|it| it.strip_prefix("user_id=")?.parse().ok()),
        })
    })
}

/// `\040` and the like as bytes.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let digits = field.get(at + 1..at + 4).filter(|_| field[at] == b'\\');
        let byte = digits
            .and_then(|it| std::str::from_utf8(it).ok())
            .and_then(|it| u8::from_str_radix(it, 8).ok());
        out.push(byte.unwrap_or(field[at]));
        at += if byte.is_some() { 4 } else { 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_sibling_folder() {
        let check = |vault: &str, place: &str| {
            assert_eq!(default_mountpoint(Path::new(vault)), Path::new(place));
        };
        check("/home/ada/memory", "/home/ada/memory.fs");
        check("/home/ada/memory/", "/home/ada/memory.fs");
    }

    #[test]
    fn our_mounts_are_told_from_others() {
        let table = b"22 27 0:21 / /proc rw,nosuid shared:5 - proc proc rw
99 27 0:55 / /home/ada/my\\040mem.fs ro,nosuid shared:9 master:1 - fuse.remd remd ro,user_id=1000,group_id=1000
100 27 0:56 / /root/m.fs ro - fuse remd ro,user_id=0,group_id=0
101 27 0:57 / /mnt/x ro - fuse.sshfs remd rw,user_id=1000,group_id=1000
garbage";
        let lines: Vec<_> = mount_lines(table).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[1].path, Path::new("/home/ada/my mem.fs"));
        let ours: Vec<_> = lines.iter().map(|it| it.is_ours(1000)).collect();
        assert_eq!(ours, [false, true, false, false]);
        assert!(lines[2].is_ours(0));
    }

    #[test]
    fn escapes_of_the_table_are_bytes() {
        assert_eq!(unescaped(b"a\\040b\\134c\\012\\"), b"a b\\c\n\\");
        assert_eq!(unescaped(b"\\9\\777"), b"\\9\\777");
    }
}

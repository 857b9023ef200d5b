//! What a vault stands on, where that changes how it must be watched.
//!
//! Takes the kernel's list of mounts, says whether a folder is on another machine's disk: there
//! inotify tells of this machine's writes only. Any thread; one read of `/proc`.
//!
//! **Invariant:** a file system that is not on the list is taken for a local one.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::base::fs;

/// A file system whose writers may be elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remote {
    /// As the kernel calls it: `nfs4`, `cifs`, `fuse.sshfs`.
    pub kind: String,
    /// What is mounted: `server:/path`.
    pub source: String,
}

/// Types whose name says all. Also folders that a virtual machine shares with its host: the host's
/// writes raise no event in the guest.
const REMOTE: &[&str] = &[
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "gfs2",
    "glusterfs",
    "gpfs",
    "kafs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "prl_fs",
    "smb3",
    "smbfs",
    "vboxsf",
    "virtiofs",
];

/// The same for programs behind FUSE, by their subtype.
const REMOTE_FUSE: &[&str] = &[
    "ceph-fuse",
    "curlftpfs",
    "davfs",
    "davfs2",
    "gcsfuse",
    "glusterfs",
    "goofys",
    "google-drive-ocamlfuse",
    "gvfsd-fuse",
    "juicefs",
    "kio-fuse",
    "mountpoint-s3",
    "nfs",
    "onedriver",
    "pcloud",
    "rclone",
    "s3fs",
    "s3ql",
    "seadrive",
    "smbnetfs",
    "sshfs",
    "vmhgfs-fuse",
    "webdav",
];

/// The remote file system that `folder` lies on; `None` for a local one, and where the kernel does
/// not say.
pub fn remote_of(folder: &Path) -> Option<Remote> {
    let mounts = fs::read(Path::new("/proc/self/mountinfo")).ok()?;
    remote_in(&mounts, folder)
}

/// The same by the text of `/proc/self/mountinfo`.
fn remote_in(mounts: &[u8], folder: &Path) -> Option<Remote> {
    // Of several at one place the last one hides the others.
    let mount = mounts
        .split(|it| *it == b'\n')
        .filter_map(Mount::read)
        .filter(|it| folder.starts_with(Path::new(std::ffi::OsStr::from_bytes(&it.at))))
        .max_by_key(|it| it.at.len())?;
    is_remote(&mount.kind, &mount.source)
        .then_some(Remote { kind: mount.kind, source: mount.source })
}

fn is_remote(kind: &str, source: &str) -> bool {
    match kind.split_once('.') {
        Some(("fuse" | "fuseblk", program)) => REMOTE_FUSE.contains(&program) || is_url(source),
        // davfs2 names no subtype of its own.
        None if kind == "fuse" => is_url(source),
        _ => REMOTE.contains(&kind),
    }
}

fn is_url(source: &str) -> bool {
    ["http://", "https://", "dav://", "davs://"].iter().any(|it| source.starts_with(it))
}

/// One line of the list.
struct Mount {
    at: Vec<u8>,
    kind: String,
    source: String,
}

impl Mount {
    /// `36 35 98:0 /root /at options optional… - type source super-options`
    fn read(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|it| *it == b' ');
        let at = unescaped(words.nth(4)?);
        let mut words = words.skip_while(|it| *it != b"-").skip(1);
        let text = |word: &[u8]| String::from_utf8_lossy(&unescaped(word)).into_owned();
        Some(Self { at, kind: text(words.next()?), source: text(words.next()?) })
    }
}

/// The kernel writes space, tab, newline and backslash as `\` and three octal digits.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|it| std::str::from_utf8(it).ok());
        match octal.and_then(|it| u8::from_str_radix(it, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 21 0:45 / /home/a/nfs rw shared:2 - nfs4 server:/export rw,vers=4.2
41 21 0:46 / /home/a/my\\040notes rw - cifs //nas/share rw
42 21 0:47 / /home/a/ssh rw - fuse.sshfs a@host:/notes rw
43 21 0:48 / /home/a/dav rw - fuse https://cloud.example/dav rw
44 21 0:49 / /home/a/ntfs rw - fuseblk /dev/sdb1 rw
45 21 0:50 / /home/a/crypt rw - fuse.gocryptfs /home/a/.crypt rw
46 21 0:51 / /mnt/c rw - 9p drvfs rw
47 21 0:52 / /home/a/bucket rw - fuse.rclone remote:notes rw
48 40 254:2 / /home/a/nfs/local rw - ext4 /dev/sdc1 rw
49 21 0:53 / /home/a/over rw - nfs server:/old rw
50 49 254:3 / /home/a/over rw - xfs /dev/sdd1 rw
51 21 0:54 / /home/a/host rw - virtiofs share rw
";

    #[test]
    fn another_machine_s_disk_is_known_by_its_mount() {
        let check = |folder: &str, expected: Option<&str>| {
            let found = remote_in(MOUNTS, Path::new(folder));
            assert_eq!(found.as_ref().map(|it| it.kind.as_str()), expected, "{folder}");
        };
        check("/home/a/notes", None);
        check("/home/a/nfs/notes", Some("nfs4"));
        check("/home/a/nfsnotes", None);
        check("/home/a/my notes/deep", Some("cifs"));
        check("/home/a/ssh", Some("fuse.sshfs"));
        check("/home/a/dav/x", Some("fuse"));
        check("/home/a/ntfs", None);
        check("/home/a/crypt", None);
        check("/mnt/c/Users", Some("9p"));
        check("/home/a/bucket", Some("fuse.rclone"));
        check("/home/a/nfs/local/notes", None);
        check("/home/a/over/notes", None);
        check("/home/a/host", Some("virtiofs"));
        let found = remote_in(MOUNTS, Path::new("/home/a/my notes")).unwrap();
        assert_eq!(found.source, "//nas/share");
        assert!(remote_in(b"nonsense\n\n1 2 3\n", Path::new("/")).is_none());
    }
}

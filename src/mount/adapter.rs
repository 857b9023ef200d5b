//! fuser's callbacks, each one call into [`VaultFs`] and one reply.
//!
//! Only this file and `session` know fuser. Runs on fuser's threads; a reply may be sent from any.
//!
//! **Invariant:** nothing is decided here, except that whatever would write is refused.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType,
    Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenAccMode, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyBmap,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLock, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use crate::mount::errno;
use crate::mount::fs::{Attr, FsError, Kind, Opened, VaultFs};
use crate::mount::page::PageError;
use crate::mount::tree::MAX_NAME;

/// The filesystem as fuser wants it.
pub struct Adapter {
    pub fs: VaultFs,
    /// Who owns what is shown: the user who mounted it.
    pub owner: Owner,
}

#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub user: u32,
    pub group: u32,
}

fn failed(err: &FsError) -> Errno {
    match err {
        FsError::Page(PageError::Failed(why)) => tracing::warn!(why, "a page could not be made"),
        err => tracing::debug!(%err, "a request was refused"),
    }
    Errno::from_i32(errno::of(err))
}

/// What writes hear. The mount is read-only, so the kernel refuses them by itself; a remount by
/// root would let them through to here.
fn read_only() -> Errno {
    failed(&FsError::ReadOnly)
}

/// An answer the kernel remembers: it does not ask again, and does what is right for a filesystem
/// without the thing.
fn unasked() -> Errno {
    Errno::from_i32(errno::UNASKED)
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Folder => FileType::Directory,
        Kind::File | Kind::Program => FileType::RegularFile,
        Kind::Link => FileType::Symlink,
    }
}

fn file_attr(attr: &Attr, owner: Owner) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.inode),
        size: attr.size,
        blocks: attr.size.div_ceil(512),
        atime: attr.time,
        mtime: attr.time,
        ctime: attr.time,
        crtime: attr.time,
        kind: file_type(attr.kind),
        perm: match attr.kind {
            Kind::Folder | Kind::Program => 0o555,
            Kind::File => 0o444,
            Kind::Link => 0o777,
        },
        nlink: 1,
        uid: owner.user,
        gid: owner.group,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Without it one slow lookup in a folder holds up every other one there. Kernels that
        // lack it are none the worse.
        let _lacking = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        // So that a page under direct I/O can be mapped as any other; before Linux 6.6 only
        // privately.
        let _lacking = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let owner = self.owner;
        self.fs.lookup(
            parent.0,
            name.as_bytes(),
            Box::new(move |found| match found {
                Ok(entry) => reply.entry_with_ttls(
                    &entry.attr.ttl,
                    &entry.ttl,
                    &file_attr(&entry.attr, owner),
                    Generation(0),
                ),
                Err(err) => reply.error(failed(&err)),
            }),
        );
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.fs.forget(ino.0, nlookup);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let owner = self.owner;
        self.fs.getattr(
            ino.0,
            Box::new(move |attr| match attr {
                Ok(attr) => reply.attr(&attr.ttl, &file_attr(&attr, owner)),
                Err(err) => reply.error(failed(&err)),
            }),
        );
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        match self.fs.readlink(ino.0) {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(err) => reply.error(failed(&err)),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(read_only());
        }
        self.fs.open(
            ino.0,
            Box::new(move |opened| match opened {
                Ok(Opened { handle, is_other }) => {
                    let flags = match is_other {
                        // The length that the kernel knows is not this page's: its own counts.
                        true => FopenFlags::FOPEN_DIRECT_IO,
                        // The inode is the page, so what the kernel has of it stays right.
                        false => FopenFlags::FOPEN_KEEP_CACHE,
                    };
                    reply.opened(FileHandle(handle), flags);
                }
                Err(err) => reply.error(failed(&err)),
            }),
        );
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.fs.read(fh.0, offset, size) {
            Ok(slice) => reply.data(slice.bytes()),
            Err(err) => reply.error(failed(&err)),
        }
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.fs.release(fh.0);
        reply.ok();
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.fs.opendir(
            ino.0,
            Box::new(move |opened| match opened {
                Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
                Err(err) => reply.error(failed(&err)),
            }),
        );
    }

    fn readdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.fs.readdir(fh.0) {
            Ok(items) => {
                let skip = usize::try_from(offset).unwrap_or(usize::MAX);
                for (at, item) in items.iter().enumerate().skip(skip) {
                    let next = u64::try_from(at + 1).unwrap_or(u64::MAX);
                    let name = OsStr::from_bytes(&item.name);
                    if reply.add(INodeNo(item.inode), next, file_type(item.kind), name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(err) => reply.error(failed(&err)),
        }
    }

    fn releasedir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.fs.release(fh.0);
        reply.ok();
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let longest = u32::try_from(MAX_NAME).unwrap_or(255);
        reply.statfs(0, 0, 0, 0, 0, 4096, longest, 4096);
    }

    fn access(&self, _req: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.error(unasked());
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(unasked());
    }

    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.error(unasked());
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.error(unasked());
    }

    fn getxattr(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: ReplyXattr,
    ) {
        reply.error(unasked());
    }

    fn listxattr(&self, _req: &Request, _ino: INodeNo, _size: u32, reply: ReplyXattr) {
        reply.error(unasked());
    }

    fn lseek(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: i64,
        _whence: i32,
        reply: ReplyLseek,
    ) {
        reply.error(unasked());
    }

    fn poll(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _ph: PollNotifier,
        _events: PollEvents,
        _flags: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(unasked());
    }

    fn bmap(&self, _req: &Request, _ino: INodeNo, _blocksize: u32, _idx: u64, reply: ReplyBmap) {
        reply.error(unasked());
    }

    fn getlk(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        _start: u64,
        _end: u64,
        _typ: i32,
        _pid: u32,
        reply: ReplyLock,
    ) {
        reply.error(unasked());
    }

    fn setlk(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        _start: u64,
        _end: u64,
        _typ: i32,
        _pid: u32,
        _sleep: bool,
        reply: ReplyEmpty,
    ) {
        reply.error(unasked());
    }

    fn readdirplus(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        reply.error(unasked());
    }

    fn ioctl(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::from_i32(errno::NO_TERMINAL));
    }

    fn setattr(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.error(read_only());
    }

    fn mknod(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        reply.error(read_only());
    }

    fn mkdir(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        reply.error(read_only());
    }

    fn unlink(&self, _req: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(read_only());
    }

    fn rmdir(&self, _req: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(read_only());
    }

    fn symlink(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _link_name: &OsStr,
        _target: &Path,
        reply: ReplyEntry,
    ) {
        reply.error(read_only());
    }

    fn rename(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _newparent: INodeNo,
        _newname: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(read_only());
    }

    fn link(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _newparent: INodeNo,
        _newname: &OsStr,
        reply: ReplyEntry,
    ) {
        reply.error(read_only());
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.error(read_only());
    }

    fn setxattr(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _name: &OsStr,
        _value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(read_only());
    }

    fn removexattr(&self, _req: &Request, _ino: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(read_only());
    }

    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(read_only());
    }

    fn fallocate(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(read_only());
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        _ino_in: INodeNo,
        _fh_in: FileHandle,
        _offset_in: u64,
        _ino_out: INodeNo,
        _fh_out: FileHandle,
        _offset_out: u64,
        _len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // Copying into the mount is a write; the kernel copies out of it by reading.
        reply.error(read_only());
    }
}

//! The one place that knows errno.
//!
//! Pure. **Invariant:** a person's mistake is never `EIO`.

use std::io;

use crate::mount::fs::FsError;
use crate::mount::page::PageError;
use crate::mount::tree::NameError;

/// There is no such request here.
pub const UNASKED: i32 = libc::ENOSYS;

/// What `ioctl` says of a file that is no device.
pub const NO_TERMINAL: i32 = libc::ENOTTY;

/// Whether the server behind a mount is gone.
pub fn is_dead(err: &io::Error) -> bool {
    matches!(err.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED))
}

/// Whether only root may do that.
pub fn is_for_root(err: &io::Error) -> bool {
    err.raw_os_error() == Some(libc::EPERM)
}

/// Whether a device file stands for nothing: its module is not there.
pub fn is_no_device(err: &io::Error) -> bool {
    matches!(err.raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
}

/// What a program sees of `err`.
pub fn of(err: &FsError) -> i32 {
    match err {
        FsError::Name(NameError::Absent) | FsError::Page(PageError::Absent) => libc::ENOENT,
        FsError::Name(NameError::BadOption) | FsError::Page(PageError::Refused(_)) => libc::EINVAL,
        FsError::Name(NameError::TooLong) => libc::ENAMETOOLONG,
        FsError::Name(NameError::NotText) => libc::EILSEQ,
        FsError::Name(NameError::NotFolder) | FsError::NotFolder => libc::ENOTDIR,
        FsError::Page(PageError::NotYet(_) | PageError::Busy) => libc::EAGAIN,
        FsError::Page(PageError::Deadline) => libc::ETIMEDOUT,
        FsError::Page(PageError::Failed(_)) => libc::EIO,
        FsError::Page(PageError::TooLarge(_)) => libc::EFBIG,
        // The kernel looks the name up again and finds the page of now.
        FsError::Stale => libc::ESTALE,
        FsError::IsFolder => libc::EISDIR,
        FsError::NotLink => libc::EINVAL,
        FsError::NotOpen => libc::EBADF,
        FsError::ReadOnly => libc::EROFS,
    }
}

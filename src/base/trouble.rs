//! What an error of the system means for a person.
//!
//! Pure. Takes an error with its causes, gives the [`Trouble`] that the machine is in, if that is
//! the reason, and what ends it.
//!
//! **Invariant:** a trouble is the machine's: the same call works once it is over, and nothing that
//! lies on the disk is at fault.

use std::error::Error;
use std::io::{self, ErrorKind};

/// A state of the machine in which files can't be written or read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// No room, or the user's share is used up.
    Full,
    ReadOnly,
    NotAllowed,
    /// Out of file handles.
    Handles,
    Memory,
    /// The device itself fails, or is gone.
    Device,
}

impl Trouble {
    /// The trouble behind one error of the system.
    pub fn of(err: &io::Error) -> Option<Self> {
        match err.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => return Some(Self::Handles),
            // Not ENODEV: a folder in the place of a file that is mapped gives that.
            Some(libc::EIO | libc::ENXIO | libc::ESTALE) => {
                return Some(Self::Device);
            }
            _ => {}
        }
        Some(match err.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full,
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            ErrorKind::PermissionDenied => Self::NotAllowed,
            ErrorKind::OutOfMemory => Self::Memory,
            _ => return None,
        })
    }

    /// The trouble behind an error or any of its causes.
    pub fn behind(err: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(err);
        while let Some(err) = cause {
            if let Some(found) = err.downcast_ref::<io::Error>().and_then(Self::of) {
                return Some(found);
            }
            cause = err.source();
        }
        None
    }

    /// What ends it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Full => "Free some space on the disk.",
            Self::ReadOnly => {
                "The disk is mounted read-only: mount it writable (`mount -o remount,rw`)."
            }
            Self::NotAllowed => {
                "Check who owns the vault and its `.git`: they must belong to the user who runs remd."
            }
            Self::Handles => {
                "Too many files are open: close programs, or raise the limit (`ulimit -n`, \
                 `LimitNOFILE=` in the unit)."
            }
            Self::Memory => "The machine is out of memory: close programs.",
            Self::Device => "The disk fails or was unplugged: check `dmesg`.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_found_behind_what_others_wrap_around_it() {
        #[derive(Debug, thiserror::Error)]
        #[error("Cannot write it")]
        struct Wrapped(#[source] io::Error);
        let os = io::Error::from_raw_os_error;
        for (errno, trouble) in [
            (libc::ENOSPC, Some(Trouble::Full)),
            (libc::EDQUOT, Some(Trouble::Full)),
            (libc::EROFS, Some(Trouble::ReadOnly)),
            (libc::EACCES, Some(Trouble::NotAllowed)),
            (libc::EMFILE, Some(Trouble::Handles)),
            (libc::EIO, Some(Trouble::Device)),
            (libc::ENOENT, None),
            (libc::EEXIST, None),
        ] {
            assert_eq!(Trouble::of(&os(errno)), trouble, "{errno}");
            let inner = Wrapped(io::Error::other(Wrapped(os(errno))));
            assert_eq!(Trouble::behind(&inner), trouble, "{errno}");
        }
    }
}

//! What an error of the system means for a person.
//!
//! Pure. Takes an error with its causes, gives the [`Trouble`] that the machine is in, if that is
//! the reason, and what ends it; and all of it in one line ([`told`]).
//!
//! **Invariant:** a trouble is the machine's: the same call works once it is over, and nothing that
//! lies on the disk is at fault.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;

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
            // Who adds a path to it may keep no more than the words.
            _ if err.raw_os_error().is_none() => return code_in(&err.to_string()),
            _ => return None,
        })
    }

    /// The trouble behind an error or any of its causes.
    pub fn behind(err: &(dyn Error + 'static)) -> Option<Self> {
        found(err).map(|it| it.1)
    }

    /// What it is, in words that no library has to explain.
    pub fn text(self) -> &'static str {
        match self {
            Self::Full => "the disk is full",
            Self::ReadOnly => "the disk is read-only",
            Self::NotAllowed => "no permission",
            Self::Handles => "too many files are open",
            Self::Memory => "the machine is out of memory",
            Self::Device => "the disk fails",
        }
    }

    /// What ends it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Full => "Free some space on the disk.",
            Self::ReadOnly => {
                "The disk is mounted read-only: mount it writable (`mount -o remount,rw`)."
            }
            Self::NotAllowed => {
                "Check owner and mode of the vault and its `.git`: the user who runs remd must own \
                 them, and may read and write them."
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

/// The error of the system behind an error or any of its causes, if it tells of a trouble.
pub fn met(err: &(dyn Error + 'static)) -> Option<io::Error> {
    let (err, _) = found(err)?;
    Some(match err.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(err.kind(), err.to_string()),
    })
}

fn found<'a>(err: &'a (dyn Error + 'static)) -> Option<(&'a io::Error, Trouble)> {
    let mut cause = Some(err);
    while let Some(err) = cause {
        // A shared one is not found by what it shares.
        let shared = err.downcast_ref::<Arc<io::Error>>().map(|it| &**it);
        let io = err.downcast_ref::<io::Error>().or(shared);
        if let Some(io) = io
            && let Some(trouble) = Trouble::of(io)
        {
            return Some((io, trouble));
        }
        // What an error of the system was made of is not among its causes.
        let inside = io.and_then(io::Error::get_ref).map(|it| it as &(dyn Error + 'static));
        cause = inside.or_else(|| err.source());
    }
    None
}

/// The trouble by the number that the standard library writes into the words of an error.
fn code_in(text: &str) -> Option<Trouble> {
    let (_, rest) = text.split_once("(os error ")?;
    let (code, _) = rest.split_once(')')?;
    Trouble::of(&io::Error::from_raw_os_error(code.parse().ok()?))
}

/// An error and its causes in one line: what failed, the trouble that the machine is in, and at
/// the end the words of whoever met it.
pub fn told(err: &(dyn Error + 'static)) -> String {
    let mut parts = vec![err.to_string()];
    let mut source = err.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Many say again what is behind them.
        match parts.last_mut() {
            Some(last) if last.contains(&text) => {}
            _ => parts.push(text),
        }
        source = cause.source();
    }
    if let Some(trouble) = Trouble::behind(err) {
        parts.insert(parts.len() - 1, trouble.text().to_owned());
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_in_our_words_first_and_nothing_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("Cannot write `x`")]
        struct Ours(#[source] Box<dyn Error + Send + Sync>);
        #[derive(Debug, thiserror::Error)]
        #[error("an error: {0}")]
        struct Repeats(#[source] io::Error);
        #[derive(Debug, thiserror::Error)]
        #[error("Cannot share it")]
        struct Shares(#[source] Arc<io::Error>);
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        let raw = "No space left on device (os error 28)";
        for (err, words) in [
            (&full() as &(dyn Error + 'static), format!("the disk is full: {raw}")),
            (&Ours(full().into()), format!("Cannot write `x`: the disk is full: {raw}")),
            (
                &Ours(Repeats(full()).into()),
                format!("Cannot write `x`: the disk is full: an error: {raw}"),
            ),
            (&Shares(full().into()), format!("Cannot share it: the disk is full: {raw}")),
            (&Ours("odd bytes".into()), "Cannot write `x`: odd bytes".to_owned()),
        ] {
            assert_eq!(told(err), words);
        }
    }

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
            // Inside one with no error of its own, and as words.
            let said = format!("{} at path \"x\"", os(errno));
            for other in [io::Error::other(os(errno)), io::Error::other(said)] {
                assert_eq!(Trouble::behind(&other), trouble, "{errno}");
                assert_eq!(met(&other).and_then(|it| Trouble::of(&it)), trouble, "{errno}");
            }
        }
    }
}

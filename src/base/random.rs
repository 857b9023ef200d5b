//! Bytes that nobody can guess.
//!
//! Takes a place to put them, fills it from the system. Any thread.
//!
//! **Invariant:** all of them are the system's, or it is an error.

use std::io;
use std::path::Path;

use crate::base::fs::{PathError, at};

/// Fills `bytes`, which are for the file at `path`.
pub fn fill(path: &Path, bytes: &mut [u8]) -> Result<(), PathError> {
    let mut done = 0;
    while done < bytes.len() {
        let left = &mut bytes[done..];
        // SAFETY: the pointer and the length are those of a slice that lives for the whole call.
        let got = unsafe { libc::getrandom(left.as_mut_ptr().cast(), left.len(), 0) };
        match usize::try_from(got) {
            Ok(got) => done += got,
            Err(_) => {
                let err = io::Error::last_os_error();
                if err.kind() != io::ErrorKind::Interrupted {
                    return at("get random bytes for", path, Err(err));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_filled_and_never_the_same() {
        let (mut one, mut other) = ([0; 32], [0; 32]);
        fill(Path::new("key"), &mut one).unwrap();
        fill(Path::new("key"), &mut other).unwrap();
        assert!(one != other && one != [0; 32]);
    }
}

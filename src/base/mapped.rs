//! Files in memory that somebody cuts, and disks that vanish under them.
//!
//! A library maps an index or a pack into memory; another program truncates the file, or its disk
//! is gone: reading there is SIGBUS, which ends the process. Here the page reads as zeroes instead
//! and is counted; whoever reads such files compares the count and throws away what it read. Any
//! thread; [`guard`] is called once, early.
//!
//! **Invariant:** any other SIGBUS ends the process as it would have.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

static LOST: AtomicU64 = AtomicU64::new(0);

/// How many pages could not be read since the start: more than before means that something mapped
/// is not what was written.
pub fn lost_pages() -> u64 {
    LOST.load(Ordering::SeqCst)
}

/// Lets a lost page read as zeroes from now on.
pub fn guard() -> std::io::Result<()> {
    // SAFETY: `sigaction` is plain data; all zeroes is an empty mask and no flags. The handler does
    // only what a signal handler may: system calls and an atomic counter.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        match libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a valid `siginfo_t`; `mmap` over the one page of a file's mapping
    // that cannot be read puts zeroes there, which nobody else can hold in another way, as no read
    // of it ever succeeded. `sigaction` with the default ends the process at the next try.
    unsafe {
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
        let address = (*info).si_addr() as usize;
        if (*info).si_code == libc::BUS_ADRERR && address != 0 {
            let start = (address & !(page - 1)) as *mut libc::c_void;
            let put = libc::mmap(
                start,
                page,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
            if put != libc::MAP_FAILED {
                LOST.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
        let mut plain: libc::sigaction = std::mem::zeroed();
        plain.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &plain, ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_mapped_file_that_is_cut_reads_as_zeroes_and_is_counted() {
        guard().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[7; 3 * 4096]).unwrap();
        // SAFETY: the mapping is of a live file and unmapped below.
        let mapped = unsafe {
            let flags = libc::MAP_SHARED;
            libc::mmap(ptr::null_mut(), 3 * 4096, libc::PROT_READ, flags, file.as_raw_fd(), 0)
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        // SAFETY: within the mapping.
        let at = |offset: usize| unsafe { ptr::read_volatile(mapped.cast::<u8>().add(offset)) };
        assert_eq!([at(0), at(5000), at(9000)], [7; 3]);
        let before = lost_pages();
        file.set_len(4096).unwrap();
        assert_eq!([at(0), at(5000), at(9000)], [7, 0, 0]);
        assert!(lost_pages() >= before + 2);
        // SAFETY: the same mapping, used no more.
        unsafe {
            libc::munmap(mapped, 3 * 4096);
        }
    }
}

//! Files in memory that somebody cuts, and disks that vanish under them.
//!
//! A library maps an index or a pack into memory; another program truncates the file, or its disk
//! is gone: reading there is SIGBUS, which ends the process. Here the page reads as zeroes instead
//! and is counted; whoever reads such files compares the count and throws away what it read.
//! [`Map`] is our own such file, with a count of its own. Any thread; [`guard`] is called once,
//! early.
//!
//! **Invariant:** any other SIGBUS ends the process as it would have.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

static LOST: AtomicU64 = AtomicU64::new(0);

/// Where our own maps are, by which a lost page is known to be of one of them.
static OURS: [Stretch; MOST_OURS] = [const { Stretch::none() }; MOST_OURS];
/// A lost page of a map for which there is no place counts for all.
const MOST_OURS: usize = 256;

/// A stretch of memory that is a map, and how many pages of it were lost.
struct Stretch {
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicU64,
}

/// What `start` is where no map is, and while one comes or goes.
const FREE: usize = 0;
const MOVING: usize = 1;

impl Stretch {
    const fn none() -> Self {
        let end = AtomicUsize::new(0);
        Self { start: AtomicUsize::new(FREE), end, lost: AtomicU64::new(0) }
    }

    /// Takes a place for a map.
    fn take(start: usize, length: usize) -> Option<&'static Self> {
        let order = Ordering::SeqCst;
        let is_taken = |it: &&Self| it.start.compare_exchange(FREE, MOVING, order, order).is_ok();
        let stretch = OURS.iter().find(is_taken)?;
        stretch.lost.store(0, order);
        stretch.end.store(start + length, order);
        stretch.start.store(start, order);
        Some(stretch)
    }

    fn has(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::SeqCst);
        start > MOVING && start <= address && address < self.end.load(Ordering::SeqCst)
    }
}

/// How many pages could not be read since the start, but for those of our own maps: more than
/// before means that something mapped is not what was written.
pub fn lost_pages() -> u64 {
    LOST.load(Ordering::SeqCst)
}

/// Lets a lost page read as zeroes from now on.
pub fn guard() -> io::Result<()> {
    // SAFETY: `sigaction` is plain data; all zeroes is an empty mask and no flags. The handler does
    // only what a signal handler may: system calls and an atomic counter.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        match libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A whole file in memory, to read.
pub struct Map {
    start: NonNull<u8>,
    length: usize,
    stretch: Option<&'static Stretch>,
}

// SAFETY: the mapping is read only and lives as long as its owner, whatever thread that is on.
unsafe impl Send for Map {}
// SAFETY: as above; reading needs no lock.
unsafe impl Sync for Map {}

impl Map {
    /// Maps what the file holds now. It must not be written to any more; a file that somebody
    /// cuts all the same reads as zeroes behind the cut, and is counted.
    pub fn of(file: &File) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if length == 0 {
            return Ok(Self { start: NonNull::dangling(), length, stretch: None });
        }
        // SAFETY: a new mapping at a place of the kernel's choice; the descriptor is open.
        let start = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0)
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                let stretch = Stretch::take(start.as_ptr() as usize, length);
                Ok(Self { start, length, stretch })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How many pages of it could not be read, where that is not counted in [`lost_pages`].
    pub fn lost(&self) -> u64 {
        self.stretch.map_or(0, |it| it.lost.load(Ordering::SeqCst))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is that long, readable and unmapped by `drop` alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.length > 0 {
            if let Some(stretch) = self.stretch {
                stretch.start.store(MOVING, Ordering::SeqCst);
            }
            // SAFETY: the mapping that `of` made, used no more.
            unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.length);
            }
            if let Some(stretch) = self.stretch {
                stretch.start.store(FREE, Ordering::SeqCst);
            }
        }
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Map").field("length", &self.length).finish_non_exhaustive()
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
                let lost = OURS.iter().find(|it| it.has(address)).map_or(&LOST, |it| &it.lost);
                lost.fetch_add(1, Ordering::SeqCst);
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
    use super::*;

    #[test]
    fn a_mapped_file_that_is_cut_reads_as_zeroes_and_is_counted_as_its_own() {
        guard().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[7; 3 * 4096]).unwrap();
        let mapped = Map::of(&file).unwrap();
        // SAFETY: within the mapping.
        let at = |offset: usize| unsafe { ptr::read_volatile(mapped.as_ptr().add(offset)) };
        assert_eq!((mapped.len(), [at(0), at(5000), at(9000)]), (3 * 4096, [7; 3]));
        let other = Map::of(&file).unwrap();
        file.set_len(4096).unwrap();
        assert_eq!([at(0), at(5000), at(9000)], [7, 0, 0]);
        assert_eq!((mapped.lost(), other.lost()), (2, 0));
        drop(mapped);
        let again = Map::of(&file).unwrap();
        assert_eq!((again.len(), again.lost()), (4096, 0));
    }

    #[test]
    fn an_empty_file_is_mapped_as_nothing() {
        assert!(Map::of(&tempfile::tempfile().unwrap()).unwrap().is_empty());
    }
}

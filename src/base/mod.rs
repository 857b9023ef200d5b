//! What std lacks: things any program could have had.
//!
//! Nothing here knows what a vault or a note is. The only door to the disk ([`fs`]), to the time
//! ([`clock`]) and to child processes ([`process`]).

pub mod access;
pub mod address;
pub mod calendar;
pub mod clock;
pub mod cow;
pub mod errand;
pub mod fault;
pub mod fs;
pub mod latest;
pub mod lock;
pub mod mapped;
pub mod memory;
pub mod process;
pub mod random;
pub mod sink;
pub mod store;
pub mod trouble;
pub mod when;

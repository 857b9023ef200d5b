//! The mount, mounted for real over faked answers.
//!
//! Where `/dev/fuse` cannot be used these tests fail with the remedy, unless
//! `REMD_TEST_NO_FUSE=1` says that this is known.

mod fake;
mod fake_past;
mod fake_views;
mod healing;
mod identity;
mod kernel;
mod model;
mod paid;
mod past;
mod reference;
mod refusals;
mod slow;
mod tools;
mod walks;

use fake::House;

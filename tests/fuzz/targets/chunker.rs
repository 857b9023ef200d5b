//! Fuzz target: any note is cut.
//!
//! Takes bytes from libFuzzer, hands them to the property; a broken one panics.

#![no_main]

#[path = "../properties/chunker.rs"]
mod chunker;

libfuzzer_sys::fuzz_target!(|data: &[u8]| chunker::check(data));

//! Fuzz target: any text is asked.
//!
//! Takes bytes from libFuzzer, hands them to the property; a broken one panics.

#![no_main]

#[path = "../properties/query.rs"]
mod query;

libfuzzer_sys::fuzz_target!(|data: &[u8]| query::check(data));

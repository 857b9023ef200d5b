//! Fuzz target: any note has its links read and rewritten.
//!
//! Takes bytes from libFuzzer, hands them to the property; a broken one panics.

#![no_main]

#[path = "../properties/links.rs"]
mod links;

libfuzzer_sys::fuzz_target!(|data: &[u8]| links::check(data));

//! Fuzz target: any note has its frontmatter read and edited.
//!
//! Takes bytes from libFuzzer, hands them to the property; a broken one panics.

#![no_main]

#[path = "../properties/frontmatter.rs"]
mod frontmatter;

libfuzzer_sys::fuzz_target!(|data: &[u8]| frontmatter::check(data));

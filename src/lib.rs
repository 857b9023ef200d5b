#![doc = include_str!("architecture.md")]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test does to the disk what a person would")
)]

pub mod base;
pub mod secrets;

pub mod vault;

pub mod config;
pub mod embed;
pub mod history;
pub mod index;
pub mod watch;

pub mod search;

pub mod render;

pub mod mount;
pub mod serve;

pub mod daemon;

pub mod cli;

//! Whole-house tests: the real binary, real Git, a real mount, states instead of sleeps.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the house is looked at from outside: by the real disk and the real tools"
)]

mod adopt;
mod beyond;
mod blame;
mod cases;
mod commands;
mod corpus;
mod crash;
mod current;
mod drafts;
mod edits;
mod evaluated;
mod find;
mod full;
mod guard;
mod hooked;
mod hostile;
mod hostile_providers;
mod house;
mod kill;
mod lifecycle;
mod lint;
mod machine;
mod machine_git;
mod machine_vault;
mod meaning;
mod models;
mod moments;
mod mountpoint;
mod names;
mod neighbours;
mod odd_notes;
mod opened;
mod other_disks;
mod packing;
mod page;
mod paid;
mod past;
mod people;
mod providers;
mod pruned;
mod reach;
mod refused;
mod reindex;
mod scale;
mod secrets;
mod semantics;
mod service;
mod settings;
mod subfolder;
mod suspended;
mod taken_back;
mod told;
mod users;
mod views;
mod waiting;
mod watched;
mod why;
mod wild;
mod words;
mod workspaces;

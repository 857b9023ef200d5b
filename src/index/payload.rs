//! What tantivy carries with each commit, so that the stores beside it are known to belong to it.
//!
//! Takes an opened keyword index and the stores, gives the commits that they are true for. Blocking.
//!
//! **Invariant:** a step of a build is one commit of tantivy's: it says how long the stores were,
//! and whatever they got after it never was.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::index::error::Why;
use crate::index::schema;
use crate::index::stores::Stores;
use crate::vault::CommitId;

/// What tantivy carries with each commit.
#[derive(Serialize, Deserialize)]
pub(super) struct Payload {
    /// The commit that it is true for; none while it is being built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    pub(super) generation: String,
    /// While it is being built: how long the stores were, so that they are cut to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stores: Option<[u64; 4]>,
}

/// What the last commit says of itself.
pub(super) fn payload(keyword: &tantivy::Index) -> Result<Payload, Why> {
    let metas = keyword.load_metas().map_err(Why::from)?;
    let payload = metas.payload.ok_or(Why::Unfinished)?;
    serde_json::from_str(&payload).map_err(|err| Why::Corrupt(err.to_string()))
}

impl Payload {
    /// The commits that the stores and tantivy are true for, and their one generation.
    pub(super) fn cursors(&self, stores: &Stores) -> Result<(BTreeSet<CommitId>, String), Why> {
        let generation = self.generation_of(stores)?;
        let mut cursors = BTreeSet::new();
        for cursor in stores.cursors().into_iter().chain([self.at.as_deref()]) {
            let cursor = cursor.ok_or(Why::Unfinished)?;
            let commit = CommitId::from_hex(cursor);
            cursors.insert(commit.ok_or_else(|| Why::Corrupt(format!("cursor `{cursor}`")))?);
        }
        Ok((cursors, generation))
    }

    pub(super) fn generation_of(&self, stores: &Stores) -> Result<String, Why> {
        let generation = stores.generation().filter(|it| **it == self.generation);
        let generation = generation.ok_or(Why::Unfinished)?.to_owned();
        match generation.starts_with(&schema_mark()) {
            true => Ok(generation),
            false => Err(Why::Version(generation)),
        }
    }
}

/// What a generation starts with: the version of the documents in it.
pub(super) fn schema_mark() -> String {
    format!("v{}-", schema::VERSION)
}

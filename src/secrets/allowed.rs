//! What a person allowed.
//!
//! Takes the text of a list and a key that only this machine has, gives what is allowed and the
//! list's next text. The list names no credential: of each it has a keyed hash. Pure.
//!
//! **Invariant:** what is allowed is one credential as one rule found it, and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::secrets::scan::Finding;

/// How long the key is, in bytes.
pub const KEY_BYTES: usize = 32;

/// The key of this machine's fingerprints.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Key {
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }
}

/// Stands for one credential found by one rule; nobody without the key can guess by it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Fingerprint(String);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Fingerprint {
    /// From what was printed of one.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let is_one = text.len() == 32 && text.bytes().all(|it| it.is_ascii_hexdigit());
        is_one.then_some(Self(text))
    }
}

/// One line of the list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Allowed {
    pub rule: String,
    /// Where it was when it was allowed; it is allowed wherever it is.
    pub path: String,
    /// Unix seconds.
    pub at: i64,
}

/// What is allowed in one vault.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    key: Key,
    list: Arc<BTreeMap<Fingerprint, Allowed>>,
}

/// Why a list cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("The list of allowed findings is of no form that is known")]
pub struct AllowedError(#[from] serde_json::Error);

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    allowed: BTreeMap<Fingerprint, Allowed>,
}

impl Allowance {
    /// Nothing is allowed yet.
    pub fn new(key: Key) -> Self {
        Self { key, list: Arc::default() }
    }

    /// What the text of a list allows.
    pub fn read(key: Key, text: &str) -> Result<Self, AllowedError> {
        let file: File = serde_json::from_str(text)?;
        Ok(Self { key, list: Arc::new(file.allowed) })
    }

    /// The list's text.
    pub fn text(&self) -> Result<String, AllowedError> {
        let file = File { version: 1, allowed: (*self.list).clone() };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }

    pub fn fingerprint(&self, finding: &Finding) -> Fingerprint {
        // HMAC (RFC 2104) with a key shorter than a block.
        let pad = |byte: u8| {
            let mut block = [byte; 64];
            block.iter_mut().zip(self.key.0).for_each(|(it, key)| *it ^= key);
            block
        };
        let inner = Sha256::new().chain_update(pad(0x36)).chain_update(finding.digest).finalize();
        let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
        Fingerprint(outer.iter().take(16).map(|it| format!("{it:02x}")).collect())
    }

    pub fn allows(&self, finding: &Finding) -> bool {
        !self.list.is_empty() && self.list.contains_key(&self.fingerprint(finding))
    }

    pub fn has(&self, fingerprint: &Fingerprint) -> bool {
        self.list.contains_key(fingerprint)
    }

    /// Allows one more.
    pub fn allow(&mut self, fingerprint: Fingerprint, allowed: Allowed) {
        Arc::make_mut(&mut self.list).insert(fingerprint, allowed);
    }

    pub fn list(&self) -> impl Iterator<Item = (&Fingerprint, &Allowed)> {
        self.list.iter()
    }
}

//! What looks like a credential, for people and programs.
//!
//! Pure. **Invariant:** it says where and by which rule, never what.

use serde::{Deserialize, Serialize};

/// One finding that nobody has allowed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Leak {
    pub path: String,
    pub line: usize,
    pub rule: String,
    pub masked: String,
    /// By which it can be allowed wherever it is.
    pub fingerprint: String,
    /// Whether its file is held off the branch for it; else HEAD has it.
    pub held: bool,
}

//! What looks like a credential.
//!
//! Takes bytes and the path they are to have, gives findings: where, by which rule, and a text
//! that may be shown. The rules are data (`rules.json`, `own.json`; `NOTICE` says where they come
//! from). Pure.
//!
//! **Invariant:** no type of this room shows a credential: not by `Display`, not by `Debug`, not
//! by any text that it makes.
//! **Not here:** what becomes of a finding (`history` holds a file back, `embed` sends it masked).

mod allowed;
mod jsonl;
mod mask;
mod rules;
mod scan;
mod write;

#[cfg(test)]
mod tests;

pub use allowed::{Allowance, Allowed, AllowedError, Fingerprint, KEY_BYTES, Key};
pub use jsonl::mask_jsonl;
pub use mask::{Masked, mask};
pub use rules::edition;
pub use scan::{Finding, scan};
pub use write::{Refusal, check_write, new_findings};

/// What becomes of a file with something that looks like a credential.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Policy {
    /// It is committed like any other.
    Off,
    /// It is committed and named.
    Warn,
    /// It stays off the branch and is named.
    #[default]
    Hold,
}

impl Policy {
    /// From the one that lets most through to the strictest.
    pub const ALL: [Self; 3] = [Self::Off, Self::Warn, Self::Hold];

    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Hold => "hold",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

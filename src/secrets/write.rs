//! Says whether a text may be written where there is another one, or none.
//!
//! Takes both, gives what is new in the second. Pure.
//!
//! **Invariant:** what was there before stands in nobody's way.

use std::fmt;

use crate::secrets::allowed::Allowance;
use crate::secrets::scan::{Finding, scan};

/// Why a text is not written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub finding: Finding,
    /// How many others there are.
    pub more: usize,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { rule, line, masked, .. } = &self.finding;
        write!(f, "Line {line} has what looks like a credential (rule `{rule}`: {masked})")?;
        match self.more {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// What whoever writes can do about it.
    pub fn hint(&self) -> &'static str {
        "Write it without the credential; if it is none, a person allows it with `remd secrets allow`."
    }
}

/// What looks like a credential in `new`, is not in `old` and not allowed.
pub fn new_findings(
    path: &[u8],
    old: Option<&[u8]>,
    mut new: Vec<Finding>,
    allowance: &Allowance,
) -> Vec<Finding> {
    new.retain(|it| !allowance.allows(it));
    if let (false, Some(old)) = (new.is_empty(), old) {
        let old = scan(path, old);
        new.retain(|it| !old.iter().any(|old| old.is_same(it)));
    }
    new
}

/// Refuses a text with something that looks like a credential, as a job or a program writes it.
pub fn check_write(
    path: &[u8],
    old: Option<&[u8]>,
    new: &[u8],
    allowance: &Allowance,
) -> Result<(), Refusal> {
    let mut found = new_findings(path, old, scan(path, new), allowance).into_iter();
    match found.next() {
        None => Ok(()),
        Some(finding) => Err(Refusal { finding, more: found.count() }),
    }
}

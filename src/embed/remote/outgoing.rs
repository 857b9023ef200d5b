//! What of a text may leave the machine.
//!
//! Takes a text that is to be sent to a provider, gives it without what looks like a credential,
//! and counts how many such texts were sent. Any thread.
//!
//! **Invariant:** whatever the policy on commits is, and whatever was allowed: no provider is sent
//! what looks like a credential.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::secrets;

static SENT_MASKED: AtomicU64 = AtomicU64::new(0);

/// The text with a mask over each credential.
pub(super) fn masked(text: &str) -> Cow<'_, str> {
    secrets::mask(text).text
}

/// Counts a text that was sent, where something of it was left out.
pub(super) fn count(text: &str) {
    if matches!(masked(text), Cow::Owned(_)) {
        SENT_MASKED.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many texts this process has sent masked so far.
pub fn sent_masked() -> u64 {
    SENT_MASKED.load(Ordering::Relaxed)
}

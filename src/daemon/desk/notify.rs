//! What Git's hooks tell.

use crate::daemon::desk::Desk;
use crate::serve::Answer;

impl Desk {
    /// Has a look at where HEAD and the index are, at once.
    pub(super) fn hear_git(&self, event: &str) -> Answer {
        tracing::debug!(event, "a hook of Git's says that something moved");
        self.house.intake.hint_git();
        Answer::Done { said: "Heard.".to_owned(), paths: Vec::new() }
    }
}

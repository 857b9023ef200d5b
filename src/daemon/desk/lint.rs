//! Looks over the notes, and mends links.

use std::time::Duration;

use crate::daemon::desk::Desk;
use crate::daemon::linting;
use crate::mount::Unanswered;
use crate::search::lint::Part;
use crate::serve::Answer;
use crate::serve::protocol::LintAsked;
use crate::serve::socket::Caller;

/// How long what is on its way to a commit and to the index is waited for.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

impl Desk {
    /// What is to be mended now, edits of this moment included.
    pub(super) fn lint(&self, asked: &LintAsked, caller: &Caller) -> Answer {
        let Some(part) = linting::part(asked) else {
            return Answer::Failed {
                message: "The path cannot be read".to_owned(),
                hint: Some("Use the same remd.".to_owned()),
                usage: true,
            };
        };
        self.found(&part, caller)
    }

    fn found(&self, part: &Part, caller: &Caller) -> Answer {
        let waits = self.caught_up(caller);
        let seen = self.grounded(crate::search::Leave::Freely, |ground| {
            let survey = linting::survey(&self.house.vault, &self.house.reader, ground.view);
            let found = survey.map(|it| linting::linted(ground.view, &it, part));
            found.map(|it| (it, ground.partial.clone()))
        });
        match seen {
            Ok(Ok((mut linted, partial))) => {
                linted.partial = waits.or(partial).or(linted.partial);
                Answer::Linted(Box::new(linted))
            }
            Ok(Err(err)) => Answer::Failed {
                message: crate::base::trouble::told(&err),
                hint: Some(err.hint()),
                usage: false,
            },
            Err(err) => not_yet(&err),
        }
    }

    /// Has what is on the disk committed and indexed, where anything waits; says what still does.
    fn caught_up(&self, caller: &Caller) -> Option<String> {
        self.catch_up();
        let head = self.house.ledger.get().head.map(|it| it.commit);
        let at = self.index_view().and_then(|it| it.at());
        if self.house.intake.pending() == 0 && at == head {
            return None;
        }
        match self.settle(SETTLE_LIMIT, caller) {
            Answer::Settled { settled: false, waiting_for, .. } => {
                Some(format!("not all edits are looked at: {}", waiting_for.join("; ")))
            }
            _ => None,
        }
    }
}

fn not_yet(err: &Unanswered) -> Answer {
    Answer::Failed {
        message: err.to_string(),
        hint: Some("Ask again in a moment.".to_owned()),
        usage: false,
    }
}

//! Looks over the notes, and mends links.

use std::time::Duration;

use crate::base::trouble::told;
use crate::daemon::desk::{Desk, MARKER_LIMIT};
use crate::daemon::linting;
use crate::daemon::mending::{self, Decided};
use crate::history::ReadError;
use crate::index::IndexView;
use crate::render::changed::Outcome;
use crate::render::lint::Linted;
use crate::search::Leave;
use crate::search::lint::{Part, Survey};
use crate::serve::Answer;
use crate::serve::protocol::{Fix, LintAsked, Wish};
use crate::serve::socket::Caller;

/// How long what is on its way to a commit and to the index is waited for.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

impl Desk {
    /// What is to be mended now, edits of this moment included; and mends links where that is asked
    /// for.
    pub(super) fn lint(&self, asked: &LintAsked, caller: &Caller) -> Answer {
        let Some(part) = linting::part(asked) else {
            return Answer::Failed {
                message: "The path cannot be read".to_owned(),
                hint: Some("Use the same remd.".to_owned()),
                usage: true,
            };
        };
        self.linted(&part, asked.fix, caller).unwrap_or_else(|answer| answer)
    }

    fn linted(&self, part: &Part, fix: Fix, caller: &Caller) -> Result<Answer, Answer> {
        if fix == Fix::Nothing {
            let (linted, _) = self.surveyed(part, |_, _| Ok(()), caller)?;
            return Ok(Answer::Linted(Box::new(linted)));
        }
        let decide = |view: &IndexView, survey: &Survey| match view.at() {
            Some(at) => mending::decide(&self.house.reader, at, survey, part),
            None => Ok(Decided::default()),
        };
        let (linted, decided) = self.surveyed(part, decide, caller)?;
        if let Some(why) = linted.partial {
            return Err(Answer::Failed {
                message: format!("Nothing is changed, as not all is known: {why}"),
                hint: Some("`remd status` says more; then ask again.".to_owned()),
                usage: false,
            });
        }
        let Decided { mends, left, cut } = decided;
        let mut changed = match self.change(&Wish::Mend { mends }, fix == Fix::Rehearse, caller) {
            Answer::Changed(changed) => *changed,
            other => return Err(other),
        };
        let linted = match changed.outcome {
            Outcome::Done => self.surveyed(part, |_, _| Ok(()), caller)?.0,
            _ => linted,
        };
        changed.mended.get_or_insert_default().add(left, cut);
        Ok(Answer::Linted(Box::new(Linted { fix: Some(changed), ..linted })))
    }

    fn surveyed<T>(
        &self,
        part: &Part,
        ask: impl FnOnce(&IndexView, &Survey) -> Result<T, ReadError>,
        caller: &Caller,
    ) -> Result<(Linted, T), Answer> {
        let waits = self.caught_up(caller);
        let seen = self.grounded(Leave::Freely, |ground| {
            let survey = linting::survey(&self.house.vault, &self.house.reader, ground.view)?;
            let asked = ask(ground.view, &survey)?;
            let linted = linting::linted(ground.view, &survey, part);
            Ok::<_, ReadError>((linted, asked, ground.partial.clone()))
        });
        match seen {
            Ok(Ok((mut linted, asked, partial))) => {
                linted.partial = waits.or(partial).or(linted.partial);
                Ok((linted, asked))
            }
            Ok(Err(err)) => {
                Err(Answer::Failed { message: told(&err), hint: Some(err.hint()), usage: false })
            }
            Err(err) => Err(Answer::Failed {
                message: err.to_string(),
                hint: Some("Ask again in a moment.".to_owned()),
                usage: false,
            }),
        }
    }

    /// Has what is on the disk committed and indexed, where anything waits; says what still does.
    fn caught_up(&self, caller: &Caller) -> Option<String> {
        let is_heard = self.hear_watcher(MARKER_LIMIT);
        let ledger = self.house.ledger.get();
        let head = ledger.head.map(|it| it.commit);
        let at = self.index_view().and_then(|it| it.at());
        if is_heard && ledger.looked && self.house.intake.pending() == 0 && at == head {
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

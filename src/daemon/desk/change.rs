//! Takes something back, or brings something back.

use std::time::Duration;

use crate::base::clock;
use crate::daemon::changing::{self, NotChanged};
use crate::daemon::desk::Desk;
use crate::daemon::intake::{Ask, Claimed};
use crate::serve::Answer;
use crate::serve::protocol::Wish;
use crate::serve::socket::Caller;

/// How long a change may take, with the commit of what is on disk before it.
const LIMIT: Duration = Duration::from_secs(110);

impl Desk {
    /// Carries a wish out, or says what would be done.
    pub(super) fn change(&self, wish: &Wish, dry_run: bool, caller: &Caller) -> Answer {
        let deadline = clock::now() + LIMIT;
        let left = || deadline.saturating_duration_since(clock::now());
        // The last change may be on its way through the watcher.
        self.hear_watcher(left());
        if !dry_run {
            let wish = wish.clone();
            return match self.house.intake.change(wish, left(), &|| caller.is_gone()) {
                Claimed::Done(Ok(changed)) => Answer::Changed(Box::new(changed)),
                Claimed::Done(Err(why)) => answer(why),
                Claimed::Begun => answer(NotChanged::new(
                    "It is begun, and not done yet",
                    "`remd log -n 1` says whether it is, `remd status` what the committer does.",
                )),
                Claimed::Withdrawn => answer(NotChanged::new(
                    "The committer did not come to it in time; nothing is changed",
                    "`remd status` says what it does; then ask again.",
                )),
            };
        }
        let flushed = self.house.intake.ask(Ask::Flush, left(), &|| caller.is_gone());
        if let Some(why) = flushed.filter(|it| !it.committed) {
            let why = why.waiting_for.join("; ");
            return answer(NotChanged::new(
                format!("What is on disk is not committed yet: {why}"),
                "`remd status` says more; then ask again.",
            ));
        }
        match changing::rehearse(&self.house.reader, wish) {
            Ok(changed) => Answer::Changed(Box::new(changed)),
            Err(why) => answer(why),
        }
    }
}

fn answer(why: NotChanged) -> Answer {
    let NotChanged { message, hint, usage, needs_person } = why;
    match needs_person {
        true => Answer::Decide { message, hint },
        false => Answer::Failed { message, hint, usage },
    }
}

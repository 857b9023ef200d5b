//! The vectors of an index that is built beside the one in use, of a model that takes its time.
//!
//! Takes an index whose words are whole, asks the model in tasks as the encoder does, gives the notes of
//! which it does not take a text. The thread of the build; each task has one of its own, so that
//! whoever calls it off waits for no provider.
//!
//! **Invariant:** what the model refuses, or fails on while it answers others, ends nothing; what it
//! fails on is asked for again with growing pauses, which the progress names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::trouble::told;
use crate::daemon::encoder::blame;
use crate::daemon::refused::RefusedNote;
use crate::daemon::reindex::{BuildError, Stage};
use crate::embed::{EmbedError, Health};
use crate::index::{Index, Made, Task, VectorsError};
use crate::vault::VaultPath;

/// How often is looked whether it is called off.
const STEP: Duration = Duration::from_millis(100);
/// The first pause after a failure; it doubles up to [`MOST_PAUSE`].
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(300);
/// So many failures in a row while it answers others are no fault of the notes.
const MOST_IN_A_ROW: u32 = 3;

/// How a model is asked that takes its time.
pub struct Asks<'a> {
    /// Finds out whether it answers at all.
    pub health: &'a dyn Fn() -> Health,
    /// One that gives nothing for so long ends it.
    pub patience: Option<Duration>,
}

type GoesOn<'a> = &'a dyn Fn(Stage) -> Result<(), BuildError>;

/// Has the model asked until no note lacks vectors that it can be had for.
pub fn lack_no_vectors(
    index: &mut Index,
    all: usize,
    asks: &Asks<'_>,
    goes_on: GoesOn<'_>,
) -> Result<Vec<RefusedNote>, BuildError> {
    let mut refused: BTreeMap<VaultPath, RefusedNote> = BTreeMap::new();
    let (mut fails_since, mut pause, mut in_a_row) = (None::<Instant>, LEAST_PAUSE, 0);
    loop {
        let missing = index.view().vectors().map_or(0, |it| it.missing);
        let done = all.saturating_sub(missing);
        let stage = Stage { done, all, is_at_vectors: true, waits_for: None };
        goes_on(stage.clone())?;
        let failed = match step(index, &stage, asks, goes_on, &mut refused, &mut in_a_row)? {
            Ok(true) => {
                (fails_since, pause) = (None, LEAST_PAUSE);
                continue;
            }
            Ok(false) => return Ok(refused.into_values().collect()),
            Err(err) => err,
        };
        let since = *fails_since.get_or_insert(clock::now());
        let is_over = asks.patience.is_some_and(|it| clock::now() - since >= it);
        if !failed.is_transient() || is_over {
            return Err(failed.into());
        }
        tracing::debug!(err = told(&failed), "no vectors yet");
        let until = clock::now() + pause;
        pause = (pause * 2).min(MOST_PAUSE);
        let why = told(&failed);
        loop {
            let left = until.saturating_duration_since(clock::now());
            if left.is_zero() {
                break;
            }
            let waits_for = Some(format!("{why}; asked again in {} s", left.as_secs() + 1));
            goes_on(Stage { waits_for, ..stage.clone() })?;
            std::thread::sleep(STEP.min(left));
        }
    }
}

/// One task; says whether there may be more to do.
fn step(
    index: &mut Index,
    stage: &Stage,
    asks: &Asks<'_>,
    goes_on: GoesOn<'_>,
    refused: &mut BTreeMap<VaultPath, RefusedNote>,
    in_a_row: &mut u32,
) -> Result<Result<bool, VectorsError>, BuildError> {
    while index.owes_at_once() {
        goes_on(stage.clone())?;
        if let Err(err) = index.tend_at_once(clock::now() + STEP) {
            return Ok(Err(err));
        }
    }
    let task = match index.task() {
        Ok(Some(task)) => task,
        // Those that it fails on wait for their turn where others do.
        Ok(None) => return Ok(Ok(false)),
        Err(err) => return Ok(Err(err)),
    };
    let (is_again, embedder) = (task.is_again(), task.embedder());
    let (mut made, failed) = run(task, stage, goes_on)?;
    let of_model = failed.as_ref().and_then(|err| {
        blame(&mut made, err, asks.health).or_else(|| {
            *in_a_row += u32::from(!is_again);
            (*in_a_row >= MOST_IN_A_ROW).then(|| err.clone())
        })
    });
    if failed.is_none() {
        *in_a_row = 0;
    }
    for (card, why) in index.made_of(&made) {
        match why {
            Some(why) => drop(refused.insert(card.path.clone(), RefusedNote::of(card, why))),
            None => drop(refused.remove(&card.path)),
        }
    }
    let taken = index.take_made(made);
    let model = embedder.identity().model.clone();
    Ok(match of_model {
        Some(source) => Err(VectorsError::Embed { model, source }),
        None => taken.map(|()| true),
    })
}

/// Runs a task elsewhere, and lets go of it when the build is called off.
fn run(
    task: Task,
    stage: &Stage,
    goes_on: GoesOn<'_>,
) -> Result<(Made, Option<EmbedError>), BuildError> {
    let (send, receive) = channel();
    let is_let_go = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_let_go);
    let work = move || {
        // Where nobody waits any more, nobody is to be told.
        let _sent = send.send(task.run(&|| told.load(Ordering::SeqCst)));
    };
    std::thread::Builder::new()
        .name("reindexer-task".to_owned())
        .spawn(work)
        .map_err(BuildError::NoThread)?;
    loop {
        match receive.recv_timeout(STEP) {
            Ok(made) => return Ok(made),
            Err(RecvTimeoutError::Disconnected) => return Err(BuildError::Fault),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(err) = goes_on(stage.clone()) {
                    is_let_go.store(true, Ordering::SeqCst);
                    return Err(err);
                }
            }
        }
    }
}

//! Hits in the order of a server that the user's settings name.
//!
//! Takes the settings and found hits; asks the server once, with a deadline. The commands' door
//! only: a page under the mount costs nobody money. Any thread that may block.
//!
//! **Invariant:** whatever the server does, the answer is there: in its order, or in ours, and it
//! says which and why.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock;
use crate::base::trouble::told;
use crate::config::Settings;
use crate::embed::remote::rerank::{RerankSetup, Reranker};
use crate::search::{self, Query, Rerank, Results};

/// The setting's family.
const FAMILY: &str = "reranker_config.";
/// How long an answer waits for the server, whatever its own limit: less than a command waits.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// The server in use, made once for the same settings.
#[derive(Default)]
pub struct Rerankers(Mutex<Option<(Vec<String>, Choice)>>);

/// What the settings mean.
#[derive(Clone)]
pub enum Choice {
    Off,
    /// Asked for, and not to be had: why.
    Not(String),
    Server(Arc<Reranker>),
}

impl Rerankers {
    /// What the settings choose.
    pub fn chosen(&self, settings: &Settings) -> Choice {
        let ours = settings.texts.iter().filter(|it| it.0.starts_with(FAMILY));
        let texts: Vec<String> = ours.map(|(key, text)| format!("{key}={text}")).collect();
        // A panic between leaves what was there.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            Some((known, choice)) if *known == texts => choice.clone(),
            _ => {
                let choice = choose(settings);
                *state = Some((texts, choice.clone()));
                choice
            }
        }
    }
}

/// What the settings choose, where it is asked once.
pub fn choose(settings: &Settings) -> Choice {
    let setup =
        RerankSetup::read(|key| settings.texts.get(format!("{FAMILY}{key}").as_str()).cloned());
    match setup {
        RerankSetup::Off => Choice::Off,
        RerankSetup::Incomplete(why) => Choice::Not(why),
        RerankSetup::Ready(config) => match Reranker::new(config) {
            Ok(server) => Choice::Server(Arc::new(server)),
            Err(err) => Choice::Not(told(&err)),
        },
    }
}

/// The query with which as many hits are found as the server is to choose from.
pub fn wider(choice: &Choice, query: &Query) -> Query {
    let times = match choice {
        Choice::Server(server) if !is_left_alone(query) => server.config().candidate_multiplier,
        _ => 1,
    };
    let limit = query.limit.saturating_mul(times).min(Query::MAX_LIMIT).max(query.limit);
    Query { limit, ..query.clone() }
}

/// Puts the hits in the server's order and leaves as many as the query asks for; gives what is
/// wrong with the server, if something is.
pub fn apply(choice: &Choice, query: &Query, results: &mut Results) -> Option<String> {
    let mut trouble = None;
    results.rerank = match choice {
        Choice::Off => Rerank::Off,
        _ if is_left_alone(query) || results.hits.len() < 2 => Rerank::Off,
        Choice::Not(why) => Rerank::Failed(why.clone()),
        Choice::Server(server) => {
            let texts: Vec<&str> = results.hits.iter().map(|it| it.text.as_str()).collect();
            match server.order(&query.text, &texts, clock::now() + MOST_WAIT) {
                Ok(order) => {
                    let hits = std::mem::take(&mut results.hits);
                    results.hits = order.iter().filter_map(|it| hits.get(*it).cloned()).collect();
                    Rerank::Done(server.config().model_name.clone())
                }
                Err(err) => Rerank::Failed(err.to_string()),
            }
        }
    };
    if let Rerank::Failed(why) = &results.rerank {
        trouble = Some(why.clone());
    }
    results.hits.truncate(query.limit);
    trouble
}

/// What is meant to the letter stays in the order of the words.
fn is_left_alone(query: &Query) -> bool {
    search::is_to_the_letter(&query.text)
}

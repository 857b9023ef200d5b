//! The models at hand.
//!
//! Gives the one on board. It is read in when the first text is embedded, once a process: opening
//! an index and asking for the status need none of it. Any thread.
//!
//! **Invariant:** without a model everything goes on by keywords.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::base::trouble::told;
use crate::embed::{Answer, Embedder, Identity, Purpose, Slot, StaticModel};

/// The model that the program carries.
pub fn on_board() -> Arc<dyn Embedder> {
    static MODEL: OnceLock<Arc<OnBoard>> = OnceLock::new();
    let model = MODEL.get_or_init(|| {
        Arc::new(OnBoard { identity: StaticModel::on_board_identity(), model: OnceLock::new() })
    });
    Arc::clone(model) as Arc<dyn Embedder>
}

struct OnBoard {
    identity: Identity,
    model: OnceLock<Option<StaticModel>>,
}

impl OnBoard {
    fn model(&self) -> Option<&StaticModel> {
        let read = || match StaticModel::on_board() {
            Ok(model) => Some(model),
            Err(err) => {
                // Never but in a program that was damaged: its texts say nothing to it then.
                tracing::error!(err = told(&err), "the model on board can't be used");
                None
            }
        };
        self.model.get_or_init(read).as_ref()
    }
}

impl Embedder for OnBoard {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn window(&self) -> usize {
        StaticModel::WINDOW
    }

    fn count(&self, text: &str) -> usize {
        self.model().map_or(0, |it| it.count(text))
    }

    fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer {
        match self.model() {
            Some(model) => model.embed(texts, purpose, deadline),
            None => Answer { slots: vec![Slot::Silent; texts.len()], stopped: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_before_reading_is_what_is_read() {
        let (lazy, read) = (on_board(), StaticModel::on_board().unwrap());
        assert_eq!(lazy.identity(), read.identity());
        assert_eq!(lazy.window(), read.window());
    }
}

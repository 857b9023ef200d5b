//! From texts to vectors, by a model on board or a provider.
//!
//! Takes texts, gives unit [`Vector`]s with the [`Identity`] of the space they lie in: the model
//! that the program carries, or one behind HTTP. Keeps what a provider was paid for in a cache,
//! and computes how near vectors are. Blocking; not for the threads of an async runtime.
//!
//! **Invariant:** vectors of two identities never meet; what is no vector is refused where it
//! comes in. Nothing waits without a deadline, and no text, error or log carries a key.

mod cache;
mod cached;
mod error;
mod get;
mod health;
mod identity;
mod linear;
mod local;
mod onnx;
mod package;
mod product;
pub mod remote;
mod signs;
mod static_model;
mod tensors;
mod transformer;
mod vector;
mod windows;
mod wordpiece;

use std::borrow::Cow;
use std::time::Instant;

pub use cache::{Cache, CacheState};
pub use cached::Cached;
pub use error::EmbedError;
pub use get::{GetError, Place, get};
pub use health::{Health, check_health};
pub use identity::{ContentKey, Identity, Normalisation, Purpose};
pub use local::{
    FileSum, LocalError, LocalModel, MODEL_FILES, MOST_MODEL_BYTES, Manifest, fetched, is_name,
};
pub use product::{product, products};
pub use remote::fetch::shown;
pub use signs::{differing, signs, signs_width};
pub use static_model::{ModelError, NearestPart, StaticModel};
pub use tensors::{Tensor, TensorError, Tensors};
pub use transformer::Transformer;
pub use vector::{Quantised, Vector, VectorError, dot_halves};
pub use windows::windows;
pub use wordpiece::{VocabularyError, WordPiece};

#[cfg(test)]
mod tests;

/// What turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// The space of its vectors.
    fn identity(&self) -> &Identity;

    /// How much of a text it really reads, in what [`Self::count`] counts.
    fn window(&self) -> usize;

    /// How much of its window the text takes.
    fn count(&self, text: &str) -> usize;

    /// The text as it goes to the model: prefix before, what is too long cut off. And whether
    /// something was.
    fn prepare<'a>(&self, text: &'a str, purpose: Purpose) -> (Cow<'a, str>, bool) {
        match self.identity().prefix(purpose) {
            "" => (Cow::Borrowed(text), false),
            prefix => (Cow::Owned(format!("{prefix}{text}")), false),
        }
    }

    /// Whether texts go to somebody outside this machine's own process, who may want money for it.
    fn is_remote(&self) -> bool {
        false
    }

    /// So many texts go in one request.
    fn batch_size(&self) -> usize {
        usize::MAX
    }

    /// What became of a text that was sent before; nobody is asked.
    fn known(&self, _text: &str, _purpose: Purpose) -> Option<Slot> {
        None
    }

    /// Embeds what it can until the deadline: a slot for each text, in order.
    fn embed(&self, texts: &[&str], purpose: Purpose, deadline: Instant) -> Answer;

    /// Embeds a question; `leave` is asked right before it is sent to somebody outside, and says
    /// why it may not be.
    fn embed_by_leave(
        &self,
        question: &str,
        deadline: Instant,
        leave: &dyn Fn() -> Result<(), &'static str>,
    ) -> Result<Answer, &'static str> {
        if self.is_remote() {
            leave()?;
        }
        Ok(self.embed(&[question], Purpose::Query, deadline))
    }
}

/// What became of a list of texts.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// One for each text, in order.
    pub slots: Vec<Slot>,
    /// Why slots are [`Slot::Missing`].
    pub stopped: Option<EmbedError>,
}

/// What became of one text.
#[derive(Clone, PartialEq, Debug)]
pub enum Slot {
    /// Its vector, and whether only its beginning was read.
    Vector { vector: Vector, cut: bool },
    /// It says nothing to this model: it has no vector, and asking again changes nothing.
    Silent,
    /// The provider does not take it, and why: asking again changes nothing.
    Refused(String),
    /// Nothing came back for it; a later call may do better.
    Missing,
}

impl Slot {
    /// The vector of a text that was read whole.
    pub fn whole(vector: Vector) -> Self {
        Self::Vector { vector, cut: false }
    }

    pub fn vector(&self) -> Option<&Vector> {
        match self {
            Self::Vector { vector, .. } => Some(vector),
            _ => None,
        }
    }
}

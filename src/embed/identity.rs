//! Which space a vector lies in.
//!
//! Pure. An identity is written beside every vector; vectors of two identities never meet in one
//! search.
//!
//! **Invariant:** what changes a text's vector changes the identity: the program that embeds, the
//! model, its weights or endpoint, the dimension, the scaling, the prefixes.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::embed::vector::{Vector, VectorError};

/// A space of vectors.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// What embeds: `static`, `transformer`, or a provider as `openai`.
    pub backend: String,
    pub model: String,
    pub dimension: usize,
    /// Where the numbers come from: the digest of the weights, or the endpoint without its last
    /// slash.
    pub source: String,
    #[serde(default)]
    pub normalisation: Normalisation,
    /// What is put before a question.
    #[serde(default)]
    pub query_prefix: String,
    /// What is put before a passage of a note.
    #[serde(default)]
    pub passage_prefix: String,
}

/// How vectors are scaled before they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalisation {
    /// To length one.
    #[default]
    L2,
}

/// What a text is embedded for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purpose {
    /// To be asked with.
    Query,
    /// To be found.
    Passage,
}

/// The hash of a text as it went to the model: a key that survives a rename, an undo and a branch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ContentKey([u8; 32]);

/// Stands between the parts of what is hashed: no name has it.
const SEPARATOR: &str = "\u{1f}";

impl Identity {
    /// A short name, for files and lines: equal for equal identities.
    pub fn space(&self) -> String {
        let dimension = self.dimension.to_string();
        let mut parts = vec![&*self.backend, &*self.model, &*dimension, &*self.source];
        // Where no prefix is in use the name is the one that the documented stores have.
        if !(self.query_prefix.is_empty() && self.passage_prefix.is_empty()) {
            parts.extend([&*self.query_prefix, &*self.passage_prefix]);
        }
        hex(&Sha256::digest(parts.join(SEPARATOR)))[..12].to_owned()
    }

    /// Refuses a vector that can't be of this space.
    pub fn check(&self, vector: &Vector) -> Result<(), VectorError> {
        if vector.dimension() == self.dimension {
            Ok(())
        } else {
            let (actual, wanted) = (vector.dimension(), self.dimension);
            Err(VectorError::Dimension { actual, wanted })
        }
    }

    /// What goes before a text of this purpose.
    pub fn prefix(&self, purpose: Purpose) -> &str {
        match purpose {
            Purpose::Query => &self.query_prefix,
            Purpose::Passage => &self.passage_prefix,
        }
    }
}

impl ContentKey {
    /// The key of a text, prefix included, as it is sent to the model.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    pub fn to_hex(self) -> String {
        hex(&self.0)
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        if text.len() != 64 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(key))
    }
}

/// Digits of these bytes.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            backend: "openai".into(),
            model: "m".into(),
            dimension: 2,
            source: "http://h/v1".into(),
            normalisation: Normalisation::L2,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        }
    }

    #[test]
    fn a_space_s_name_is_the_documented_hash() {
        // printf 'openai\x1fm\x1f2\x1fhttp://h/v1' | sha256sum | cut -c1-12
        assert_eq!(identity().space(), "1cdde5e881d9");
    }

    #[test]
    fn whatever_changes_a_vector_changes_the_name() {
        let base = identity();
        let mut others = vec![base.clone(); 6];
        others[0].backend = "gemini".into();
        others[1].model = "n".into();
        others[2].dimension = 3;
        others[3].source = "http://other/v1".into();
        others[4].query_prefix = "query: ".into();
        others[5].passage_prefix = "query: ".into();
        let mut names: Vec<String> = others.iter().map(Identity::space).collect();
        names.push(base.space());
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 7);
        let line = serde_json::to_string(&others[4]).unwrap();
        assert_eq!(serde_json::from_str::<Identity>(&line).unwrap(), others[4]);
    }

    #[test]
    fn a_vector_of_another_size_is_refused() {
        let vector = Vector::new(vec![1.0, 2.0, 3.0]).unwrap();
        let refused = identity().check(&vector).unwrap_err();
        assert_eq!(refused.to_string(), "embedding dimension mismatch: 3 != 2");
        assert_eq!(identity().check(&Vector::new(vec![1.0, 2.0]).unwrap()), Ok(()));
    }

    #[test]
    fn a_key_is_the_sha_256_of_the_text() {
        let key = ContentKey::of("abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(key.to_hex(), hex);
        assert_eq!(ContentKey::from_hex(hex), Some(key));
        for odd in ["", "ba", &hex[1..], &hex.replace('b', "g"), &hex.replace("ba", "é")] {
            assert_eq!(ContentKey::from_hex(odd), None);
        }
    }
}

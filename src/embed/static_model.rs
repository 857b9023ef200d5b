//! The model on board: a table of word pieces, no network, microseconds a text.
//!
//! Pure. Takes a table (safetensors: `embedding` int8 [pieces, dimension], `scale` float32
//! [pieces]) and its vocabulary; gives of a text the scaled mean of its pieces' rows.
//!
//! The table was taught English and code. A text most of whose words it does not know has no
//! vector, and pieces of other scripts, whose rows say little, do not count: keywords find those.
//!
//! **Invariant:** the same text has the same vector on every machine; a text without a known word
//! has none.

use std::borrow::Cow;
use std::time::Instant;

use crate::embed::identity::{Identity, Normalisation, Purpose};
use crate::embed::tensors::{TensorError, Tensors};
use crate::embed::vector::Vector;
use crate::embed::wordpiece::{VocabularyError, WordPiece};
use crate::embed::{Answer, Embedder, Slot};

/// Why a model can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    #[error(transparent)]
    Tensors(#[from] TensorError),
    #[error("The table has {rows} rows and {scales} scales for {pieces} pieces")]
    Size { rows: usize, scales: usize, pieces: usize },
}

/// A table of word pieces.
#[derive(Debug)]
pub struct StaticModel {
    identity: Identity,
    pieces: WordPiece,
    /// The whole file; on board a part of the program, read in as it is used.
    file: Cow<'static, [u8]>,
    /// Where the table begins in it.
    table: usize,
    scales: Box<[f32]>,
    kinds: Box<[Kind]>,
}

/// What a piece says about a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A part of a word, or a number.
    Word,
    /// Punctuation and signs: they move a vector, and make none.
    Mark,
    /// Of a script that the table was not taught, or unknown.
    Foreign,
}

static ON_BOARD: &[u8] = include_bytes!("model/remd-static-256.safetensors");
static VOCABULARY: &[u8] = include_bytes!("model/tokenizer.json");
/// SHA-256 of both files, in this order; a test compares.
const ON_BOARD_DIGEST: &str = "ea5b3b44a4c98c33b91d72c1b8280a7a5a3cffd884507b270ee5f0c24ab61bf0";

/// The first letter that is not Latin's.
const FIRST_FOREIGN: char = '\u{250}';

impl StaticModel {
    /// The name of the model on board.
    pub const ON_BOARD: &'static str = "remd-static-256";

    /// The model that the program carries.
    pub fn on_board() -> Result<Self, ModelError> {
        Self::read(Self::ON_BOARD, ON_BOARD_DIGEST, Cow::Borrowed(ON_BOARD), VOCABULARY)
    }

    /// A model of the same kind, from its two files.
    pub fn read(
        name: &str,
        digest: &str,
        file: Cow<'static, [u8]>,
        vocabulary: &[u8],
    ) -> Result<Self, ModelError> {
        let pieces = WordPiece::from_json(vocabulary)?;
        let tensors = Tensors::read(&file)?;
        let table = tensors.get("embedding", "I8", 2)?;
        let scale = tensors.get("scale", "F32", 1)?;
        let (rows, dimension) = (table.shape[0], table.shape[1]);
        let (words, _) = scale.bytes.as_chunks::<4>();
        if rows != pieces.size() || words.len() != rows || dimension == 0 {
            let (scales, pieces) = (words.len(), pieces.size());
            return Err(ModelError::Size { rows, scales, pieces });
        }
        let scales = words.iter().map(|it| f32::from_le_bytes(*it)).collect();
        let table = table.bytes.as_ptr().addr() - file.as_ptr().addr();
        let mut kinds = vec![Kind::Foreign; rows];
        for (piece, id) in pieces.pieces() {
            kinds[id as usize] = Kind::of(piece);
        }
        kinds[pieces.unknown() as usize] = Kind::Foreign;
        let identity = Identity {
            backend: "static".to_owned(),
            model: name.to_owned(),
            dimension,
            source: digest.to_owned(),
            normalisation: Normalisation::L2,
            query_prefix: String::new(),
            passage_prefix: String::new(),
        };
        Ok(Self { identity, pieces, file, table, scales, kinds: kinds.into() })
    }

    /// The vector of a text; `None` where most of its words are unknown, or it has none.
    pub fn vector(&self, text: &str) -> Option<Vector> {
        let dimension = self.identity.dimension;
        let mut sum = vec![0.0_f32; dimension];
        let (mut words, mut foreign) = (0, 0);
        for id in self.pieces.encode(text) {
            let id = id as usize;
            match self.kinds[id] {
                Kind::Word => words += 1,
                Kind::Mark => {}
                Kind::Foreign => {
                    foreign += 1;
                    continue;
                }
            }
            let scale = self.scales[id];
            let from = self.table + id * dimension;
            for (sum, part) in sum.iter_mut().zip(&self.file[from..from + dimension]) {
                *sum += scale * f32::from(part.cast_signed());
            }
        }
        if words == 0 || words < foreign {
            return None;
        }
        // Rows that cancel each other say nothing, as no rows do.
        Vector::new(sum).ok()
    }

    /// How many pieces the text has for this model.
    pub fn count(&self, text: &str) -> usize {
        self.pieces.count(text)
    }
}

impl Kind {
    fn of(piece: &str) -> Self {
        if !piece.chars().any(char::is_alphanumeric) {
            Self::Mark
        } else if piece.chars().any(|it| it.is_alphanumeric() && it >= FIRST_FOREIGN) {
            Self::Foreign
        } else {
            Self::Word
        }
    }
}

impl Embedder for StaticModel {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    /// As much as the passages that it was taught with had at most.
    fn window(&self) -> usize {
        256
    }

    fn count(&self, text: &str) -> usize {
        Self::count(self, text)
    }

    /// Never stopped: the deadline is far away for what this costs.
    fn embed(&self, texts: &[&str], _purpose: Purpose, _deadline: Instant) -> Answer {
        let slot = |text: &&str| self.vector(text).map_or(Slot::Silent, Slot::whole);
        Answer { slots: texts.iter().map(slot).collect(), stopped: None }
    }
}

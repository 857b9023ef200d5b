//! The model on board: a table of word pieces, no network, microseconds a text.
//!
//! Pure. Takes a table (safetensors: `embedding` int8 `[pieces, dimension]`, `scale` float32
//! `[pieces]`) and its vocabulary; gives of a text the scaled mean of its pieces' rows.
//!
//! The table was taught English and code. A text most of whose words it does not know has no
//! vector, and pieces of other scripts, whose rows say little, do not count: keywords find those.
//!
//! **Invariant:** the same text has the same vector on every machine; a text without a known word
//! has none.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Instant;

use crate::embed::identity::{Identity, Normalisation, Purpose};
use crate::embed::tensors::{TensorError, Tensors};
use crate::embed::vector::Vector;
use crate::embed::windows::sentences;
use crate::embed::wordpiece::{VocabularyError, WordPiece};
use crate::embed::{Answer, Embedder, Slot};

/// Why a model can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    #[error(transparent)]
    Tensors(#[from] TensorError),
    #[error("The configuration can't be read")]
    Config(#[source] serde_json::Error),
    #[error("The model is of another kind: {0}")]
    Other(String),
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

/// The part of a text that is nearest to a question.
#[derive(Clone, PartialEq, Debug)]
pub struct NearestPart {
    /// Bytes of the text; whole lines or sentences.
    pub range: Range<usize>,
    pub cosine: f32,
}

/// What some pieces add up to.
struct Sum {
    parts: Vec<f32>,
    words: usize,
    foreign: usize,
    pieces: usize,
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

const ON_BOARD_DIMENSION: usize = 256;
/// The first letter that is not Latin's.
const FIRST_FOREIGN: char = '\u{250}';

impl StaticModel {
    /// The name of the model on board.
    pub const ON_BOARD: &'static str = "remd-static-256";

    /// How many pieces a part has at most, where its sentences are not longer.
    pub const PART: usize = 32;

    /// How much of a text a model of this kind reads: as much as the passages that it was taught
    /// with had at most.
    pub const WINDOW: usize = 256;

    /// The space of the model on board, known without reading it in.
    pub fn on_board_identity() -> Identity {
        identity(Self::ON_BOARD, ON_BOARD_DIGEST, ON_BOARD_DIMENSION)
    }

    /// The vocabulary that the program carries: that of BERT, uncased, as a `tokenizer.json`.
    pub(super) fn on_board_vocabulary() -> &'static [u8] {
        VOCABULARY
    }

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
        let identity = identity(name, digest, dimension);
        Ok(Self { identity, pieces, file, table, scales, kinds: kinds.into() })
    }

    /// The vector of a text; `None` where most of its words are unknown, or it has none.
    pub fn vector(&self, text: &str) -> Option<Vector> {
        let sum = self.sum(text);
        // Rows that cancel each other say nothing, as no rows do.
        if sum.says_something() { Vector::new(sum.parts).ok() } else { None }
    }

    /// The part of a text that is nearest to a vector: sentences together of about
    /// [`Self::PART`] pieces.
    ///
    /// The mean of a whole passage is about everything in it and near to nothing. A part says what
    /// it says: on LoCoMo's sessions (in halves) parts raise recall@5 of the fused order from .864
    /// and .866 to .874 and .867, and MRR from .782 to .800 and .803, also where they are worked
    /// out for the 15 best of each branch only.
    pub fn nearest_part(&self, text: &str, vector: &Vector) -> Option<NearestPart> {
        let sentences: Vec<(Range<usize>, Sum)> =
            sentences(text).map(|it| (it.clone(), self.sum(&text[it]))).collect();
        let total: usize = sentences.iter().map(|it| it.1.pieces).sum();
        let share = total.div_ceil(total.div_ceil(Self::PART).max(1));
        let mut best: Option<NearestPart> = None;
        let mut sentences = sentences.into_iter().peekable();
        while let Some((mut range, mut sum)) = sentences.next() {
            while let Some((next, more)) =
                sentences.next_if(|it| sum.pieces < share && sum.pieces + it.1.pieces <= Self::PART)
            {
                range.end = next.end;
                sum.add(&more);
            }
            let cosine = sum.cosine(vector);
            if let Some(cosine) = cosine.filter(|it| best.as_ref().is_none_or(|b| *it > b.cosine)) {
                best = Some(NearestPart { range, cosine });
            }
        }
        best
    }

    /// What the text's known pieces add up to.
    fn sum(&self, text: &str) -> Sum {
        let dimension = self.identity.dimension;
        let mut sum = Sum { parts: vec![0.0; dimension], words: 0, foreign: 0, pieces: 0 };
        for id in self.pieces.encode(text) {
            let id = id as usize;
            sum.pieces += 1;
            match self.kinds[id] {
                Kind::Word => sum.words += 1,
                Kind::Mark => {}
                Kind::Foreign => {
                    sum.foreign += 1;
                    continue;
                }
            }
            let scale = self.scales[id];
            let from = self.table + id * dimension;
            for (sum, part) in sum.parts.iter_mut().zip(&self.file[from..from + dimension]) {
                *sum += scale * f32::from(part.cast_signed());
            }
        }
        sum
    }

    /// How many pieces the text has for this model.
    pub fn count(&self, text: &str) -> usize {
        self.pieces.count(text)
    }
}

impl Sum {
    fn says_something(&self) -> bool {
        self.words > 0 && self.words >= self.foreign
    }

    fn add(&mut self, other: &Self) {
        self.parts.iter_mut().zip(&other.parts).for_each(|(sum, part)| *sum += part);
        self.words += other.words;
        self.foreign += other.foreign;
        self.pieces += other.pieces;
    }

    /// The cosine with a vector; `None` where this is no direction.
    fn cosine(&self, vector: &Vector) -> Option<f32> {
        if !self.says_something() || vector.dimension() != self.parts.len() {
            return None;
        }
        let product: f32 = self.parts.iter().zip(vector.parts()).map(|(a, b)| a * b).sum();
        let square: f32 = self.parts.iter().map(|it| it * it).sum();
        let cosine = product / square.sqrt();
        cosine.is_finite().then(|| cosine.clamp(-1.0, 1.0))
    }
}

fn identity(name: &str, digest: &str, dimension: usize) -> Identity {
    Identity {
        backend: "static".to_owned(),
        model: name.to_owned(),
        dimension,
        source: digest.to_owned(),
        normalisation: Normalisation::L2,
        query_prefix: String::new(),
        passage_prefix: String::new(),
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

    fn window(&self) -> usize {
        Self::WINDOW
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

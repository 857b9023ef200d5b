//! The uncased word pieces of BERT: from a text to the numbers that a model's table is keyed by.
//!
//! Pure. Takes the vocabulary of a `tokenizer.json` and a text, gives piece numbers without the
//! marks of beginning and end. What it does is what the file says: control characters go,
//! Chinese characters stand alone, accents go, letters become small, words end at white space and
//! at punctuation, and a word is cut into the longest pieces that the vocabulary has.
//!
//! **Invariant:** no input fails or takes more than time linear in its length; a name of a mark
//! in a text (`[SEP]`) is text, never a mark.

use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// Why a tokenizer file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    #[error("The tokenizer file can't be read")]
    Json(#[from] serde_json::Error),
    #[error("The tokenizer is not the uncased WordPiece of BERT: {0}")]
    Other(String),
}

/// A vocabulary of word pieces.
#[derive(Debug)]
pub struct WordPiece {
    /// Pieces that begin a word.
    first: HashMap<Box<str>, u32>,
    /// Pieces that go on with one, without their `##`.
    further: HashMap<Box<str>, u32>,
    unknown: u32,
    /// The longest piece, in bytes.
    longest: usize,
    most_chars: usize,
    size: usize,
}

#[derive(Deserialize)]
struct TokenizerFile {
    normalizer: Normalizer,
    pre_tokenizer: PreTokenizer,
    model: Model,
}

#[derive(Deserialize)]
struct Normalizer {
    r#type: String,
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

#[derive(Deserialize)]
struct PreTokenizer {
    r#type: String,
}

#[derive(Deserialize)]
struct Model {
    r#type: String,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: HashMap<String, u32>,
}

impl WordPiece {
    /// Reads a `tokenizer.json`; refuses one that asks for anything else than is done here.
    pub fn from_json(bytes: &[u8]) -> Result<Self, VocabularyError> {
        let file: TokenizerFile = serde_json::from_slice(bytes)?;
        let other = |what: &str| Err(VocabularyError::Other(what.to_owned()));
        let normal = &file.normalizer;
        if normal.r#type != "BertNormalizer"
            || !(normal.clean_text && normal.handle_chinese_chars && normal.lowercase)
            || normal.strip_accents == Some(false)
        {
            return other("it normalises in another way");
        }
        if file.pre_tokenizer.r#type != "BertPreTokenizer" {
            return other("it splits words in another way");
        }
        if file.model.r#type != "WordPiece" || file.model.continuing_subword_prefix != "##" {
            return other("its model is another");
        }
        let Some(&unknown) = file.model.vocab.get(&file.model.unk_token) else {
            return other("it has no piece for the unknown");
        };
        let size = file.model.vocab.len();
        let (mut first, mut further, mut longest) = (HashMap::new(), HashMap::new(), 0);
        for (piece, id) in file.model.vocab {
            if id as usize >= size {
                return other("its numbers have gaps");
            }
            longest = longest.max(piece.len());
            match piece.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => further.insert(rest.into(), id),
                _ => first.insert(piece.into_boxed_str(), id),
            };
        }
        let most_chars = file.model.max_input_chars_per_word;
        Ok(Self { first, further, unknown, longest, most_chars, size })
    }

    /// How many pieces there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The piece that stands for a word of which no piece is known.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The number of a piece that begins a word, or of a mark.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.first.get(piece).copied()
    }

    /// Every piece with its number, `##` left away, in no order.
    pub fn pieces(&self) -> impl Iterator<Item = (&str, u32)> {
        self.first.iter().chain(&self.further).map(|(piece, id)| (&**piece, *id))
    }

    /// The numbers of the text's pieces.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 4);
        for run in runs(text) {
            self.encode_run(&text[run], &mut ids);
        }
        ids
    }

    /// How many pieces the text has.
    pub fn count(&self, text: &str) -> usize {
        self.encode(text).len()
    }

    /// A run between white space: one word, or several with punctuation.
    fn encode_run(&self, run: &str, ids: &mut Vec<u32>) {
        let mut word = String::with_capacity(run.len());
        if run.is_ascii() {
            for byte in run.bytes().filter(|it| !it.is_ascii_control()) {
                if byte.is_ascii_punctuation() {
                    self.flush(&mut word, ids);
                    word.push(char::from(byte));
                    self.flush(&mut word, ids);
                } else {
                    word.push(char::from(byte.to_ascii_lowercase()));
                }
            }
            self.flush(&mut word, ids);
            return;
        }
        // Marks wait for their letter's decomposition, so what lies between two characters that
        // stand alone is normalised in one go.
        let mut plain = String::with_capacity(run.len());
        for char in run.chars().filter(|it| !is_dropped(*it)) {
            if is_chinese(char) {
                self.encode_plain(&plain, &mut word, ids);
                plain.clear();
                self.flush(&mut word, ids);
                self.encode_plain(char.encode_utf8(&mut [0; 4]), &mut word, ids);
                self.flush(&mut word, ids);
            } else {
                plain.push(char);
            }
        }
        self.encode_plain(&plain, &mut word, ids);
        self.flush(&mut word, ids);
    }

    fn encode_plain(&self, plain: &str, word: &mut String, ids: &mut Vec<u32>) {
        let bare = plain.nfd().filter(|it| !is_accent(*it));
        for char in bare.flat_map(char::to_lowercase) {
            if is_punctuation(char) {
                self.flush(word, ids);
                word.push(char);
                self.flush(word, ids);
            } else {
                word.push(char);
            }
        }
    }

    /// Cuts the word into pieces; a rest that is in no piece makes the whole word unknown.
    fn flush(&self, word: &mut String, ids: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let before = ids.len();
        let mut at = 0;
        if word.len() > self.most_chars && word.chars().count() > self.most_chars {
            ids.push(self.unknown);
            at = word.len();
        }
        while at < word.len() {
            let pieces = if at == 0 { &self.first } else { &self.further };
            let mut end = word.floor_char_boundary((at + self.longest).min(word.len()));
            let found = loop {
                if end == at {
                    break None;
                }
                if let Some(id) = pieces.get(&word[at..end]) {
                    break Some(*id);
                }
                end = word.floor_char_boundary(end - 1).max(at);
            };
            match found {
                Some(id) => {
                    ids.push(id);
                    at = end;
                }
                None => {
                    ids.truncate(before);
                    ids.push(self.unknown);
                    at = word.len();
                }
            }
        }
        word.clear();
    }
}

/// What lies between white space.
fn runs(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    text.split(is_space).filter_map(move |run| {
        // The parts lie in the text, in order.
        let start = at + text[at..].find(|it| !is_space(it)).unwrap_or(0);
        if run.is_empty() {
            return None;
        }
        at = start + run.len();
        Some(start..at)
    })
}

fn is_space(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\r') || (char.is_whitespace() && !char.is_control())
}

/// Characters that a text is cleaned of.
fn is_dropped(char: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    char == '\u{fffd}' || matches!(char.general_category(), Control | Format | PrivateUse)
}

fn is_accent(char: char) -> bool {
    !char.is_ascii() && char.general_category() == GeneralCategory::NonspacingMark
}

fn is_punctuation(char: char) -> bool {
    if char.is_ascii() {
        return char.is_ascii_punctuation();
    }
    char.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// The blocks whose characters stand alone.
fn is_chinese(char: char) -> bool {
    matches!(
        u32::from(char),
        0x4E00..=0x9FFF
            | 0x3400..=0x4DBF
            | 0x20000..=0x2A6DF
            | 0x2A700..=0x2B73F
            | 0x2B740..=0x2B81F
            | 0x2B920..=0x2CEAF
            | 0xF900..=0xFAFF
            | 0x2F800..=0x2FA1F
    )
}

//! Pieces of text as tantivy's tokens.
//!
//! Pure. Two forms: *exact* keeps every word as it is spelled (case folded) and its place, for
//! exact words and phrases; *stem* drops accents, English endings and stop words, for recall.
//!
//! **Invariant:** notes and queries go through the same forms.

use tantivy::tokenizer::{
    Language, RawTokenizer, Stemmer, StopWordFilter, TextAnalyzer, Token, TokenStream, Tokenizer,
    TokenizerManager,
};

use crate::index::words::{Kind, Piece, Words, fold_into, unaccented};

/// The names under which the schema knows the forms.
pub(super) const EXACT: &str = "remd_exact";
pub(super) const STEM: &str = "remd_stem";

/// The forms, ready for an index.
pub(super) fn tokenizers() -> TokenizerManager {
    let manager = TokenizerManager::default();
    manager.register(EXACT, TextAnalyzer::from(PieceTokenizer { form: Form::Exact }));
    manager.register(STEM, stemming(PieceTokenizer { form: Form::Stem }));
    manager
}

/// Gives single pieces of a query their two forms.
pub(super) struct Former {
    stem: TextAnalyzer,
}

impl Former {
    pub(super) fn new() -> Self {
        Self { stem: stemming(RawTokenizer::default()) }
    }

    /// The exact form; `None` where the piece has none.
    pub(super) fn exact(&self, kind: Kind, text: &str) -> Option<String> {
        if !Form::Exact.takes(kind) {
            return None;
        }
        let mut folded = String::new();
        fold_into(text, &mut folded);
        Some(folded)
    }

    /// The stem; `None` for a stop word or where the piece has none.
    pub(super) fn stem(&mut self, kind: Kind, text: &str) -> Option<String> {
        if !Form::Stem.takes(kind) {
            return None;
        }
        let mut folded = String::new();
        fold_into(text, &mut folded);
        let plain = unaccented(&folded);
        let mut stream = self.stem.token_stream(&plain);
        stream.next().map(|it| it.text.clone())
    }
}

fn stemming(tokenizer: impl Tokenizer) -> TextAnalyzer {
    let builder = TextAnalyzer::builder(tokenizer);
    match StopWordFilter::new(Language::English) {
        Some(stop_words) => {
            builder.filter(stop_words).filter(Stemmer::new(Language::English)).build()
        }
        None => builder.filter(Stemmer::new(Language::English)).build(),
    }
}

#[derive(Clone, Copy)]
enum Form {
    Exact,
    Stem,
}

impl Form {
    fn takes(self, kind: Kind) -> bool {
        match self {
            Self::Exact => kind != Kind::Pair,
            Self::Stem => !matches!(kind, Kind::Contraction | Kind::Char { alone: false }),
        }
    }
}

#[derive(Clone)]
struct PieceTokenizer {
    form: Form,
}

struct PieceStream<'a> {
    words: Words<'a>,
    form: Form,
    token: Token,
}

impl Tokenizer for PieceTokenizer {
    type TokenStream<'a> = PieceStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> PieceStream<'a> {
        PieceStream { words: Words::new(text), form: self.form, token: Token::default() }
    }
}

impl TokenStream for PieceStream<'_> {
    fn advance(&mut self) -> bool {
        let piece = loop {
            match self.words.next_piece() {
                Some(piece) if self.form.takes(piece.kind) => break piece,
                Some(_) => {}
                None => return false,
            }
        };
        let Piece { range, position, .. } = piece;
        self.token.text.clear();
        fold_into(&self.words.text()[range.clone()], &mut self.token.text);
        if matches!(self.form, Form::Stem) && !self.token.text.is_ascii() {
            self.token.text = unaccented(&self.token.text).into_owned();
        }
        self.token.position = position as usize;
        self.token.offset_from = range.start;
        self.token.offset_to = range.end;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(form: &str, text: &str) -> String {
        let mut analyzer = tokenizers().get(form).unwrap();
        let mut stream = analyzer.token_stream(text);
        let mut found = Vec::new();
        while let Some(token) = stream.next() {
            found.push(token.text.clone());
        }
        found.join(" ")
    }

    #[test]
    fn stems_drop_endings_accents_and_stop_words_and_exact_forms_keep_them() {
        let text = "The cafés don't serve 東京 at running speed";
        assert_eq!(tokens(EXACT, text), "the cafés don't don serve 東 京 at running speed");
        assert_eq!(tokens(STEM, text), "cafe don serv 東京 run speed");
    }

    #[test]
    fn a_query_has_the_forms_of_the_note() {
        let mut former = Former::new();
        assert_eq!(former.stem(Kind::Word, "Cafés").as_deref(), Some("cafe"));
        assert_eq!(former.stem(Kind::Word, "the"), None);
        assert_eq!(former.exact(Kind::Word, "The").as_deref(), Some("the"));
        assert_eq!(former.exact(Kind::Pair, "東京"), None);
    }
}

//! A question, taken apart.
//!
//! Pure. Takes text, gives words and phrases with their weights. No character is syntax, except
//! that a pair of double quotes makes a phrase.
//!
//! **Invariant:** whatever the text, the plan is bounded.

use std::collections::HashMap;

use crate::index::analyze::Former;
use crate::index::words::{Kind, Words, name_key};

/// What a query looks for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ask {
    pub(super) words: Vec<Word>,
    pub(super) phrases: Vec<Phrase>,
    /// Whether there is nothing but one word.
    pub(super) is_one_word: bool,
    /// Identifiers and paths, in their exact form: whoever types one means it.
    pub(super) identifiers: Vec<String>,
    /// The query as the name of a note.
    pub(super) key: String,
    /// Words beyond the bound, left out.
    pub(super) dropped: usize,
}

/// A word of the query in its two forms.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Word {
    pub(super) exact: Option<String>,
    pub(super) stem: Option<String>,
    pub(super) weight: f32,
}

impl Word {
    /// Whether it is `don't`: it has no stem, yet it is no stop word.
    pub(super) fn is_contraction(&self) -> bool {
        self.exact.as_ref().is_some_and(|it| it.contains('\''))
    }
}

/// Words in a row, as (place, exact form).
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Phrase {
    pub(super) exact: Vec<(usize, String)>,
    pub(super) stem: Vec<(usize, String)>,
}

/// What of a text is read at all.
const LONGEST_TEXT: usize = 1 << 18;
/// Distinct words that are looked up; the rarest of them are searched.
const MOST_WORDS: usize = 4096;
const MOST_PHRASES: usize = 16;
const LONGEST_PHRASE: usize = 64;
/// A part of an identifier or path counts for less than a word of its own: the whole carries it.
const PART_WEIGHT: f32 = 0.4;
const LIGHT_WEIGHT: f32 = 0.3;

impl Ask {
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(LONGEST_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (text, cut) = text.split_at(end);
        let (plain, quoted) = split_quotes(text);
        let mut former = Former::new();
        let mut ask = Self {
            key: name_key(
                text.trim().trim_start_matches("[[").trim_end_matches("]]").trim_matches('"'),
            ),
            ..Self::default()
        };
        ask.is_one_word = plain.split_whitespace().count() == 1 && quoted.is_empty();
        ask.add_words(&plain, &mut former);
        for phrase in quoted {
            ask.add_phrase(phrase, &mut former);
        }
        // Stop words are asked for only where there is nothing else: `to be or not to be`.
        if ask.words.iter().any(|it| it.stem.is_some()) || !ask.phrases.is_empty() {
            ask.words.retain(|it| it.stem.is_some() || it.is_contraction());
        }
        if !cut.is_empty() {
            ask.dropped += 1;
        }
        ask
    }

    /// Whether something in the text is meant to the letter: a quoted phrase, an identifier, a path.
    pub fn is_literal(&self) -> bool {
        !self.phrases.is_empty() || !self.identifiers.is_empty()
    }

    /// Whether all of it is: there is no word beside. One word alone is, too.
    pub fn is_all_literal(&self) -> bool {
        if self.is_one_word {
            return true;
        }
        let of_identifiers = self.words.iter().all(|it| {
            let whole = it.exact.as_ref().is_some_and(|it| self.identifiers.contains(it));
            whole || it.weight < 1.0
        });
        self.is_literal() && of_identifiers
    }

    /// The words that say something, as they are spelled: no stop words, nor those that only ask.
    pub fn subjects(&self) -> impl Iterator<Item = &str> {
        let says = |it: &&Word| it.stem.is_some() && it.weight >= 1.0;
        self.words.iter().filter(says).filter_map(|it| it.exact.as_deref())
    }

    /// Whether the text leaves nothing to look up, so that only reading can answer it.
    pub fn is_wordless(&self) -> bool {
        self.words.is_empty() && self.phrases.is_empty()
    }

    fn add_words(&mut self, text: &str, former: &mut Former) {
        let mut known: HashMap<(Option<String>, Option<String>), usize> = HashMap::new();
        // Parts of an identifier that have parts themselves come behind it.
        let mut inside = 0;
        let mut words = Words::new(text);
        while let Some(piece) = words.next_piece() {
            let slice = &words.text()[piece.range.clone()];
            if piece.kind == Kind::Whole
                && piece.range.start >= inside
                && (self.is_one_word || is_code(slice))
                && self.identifiers.len() < MOST_PHRASES
            {
                self.identifiers.extend(former.exact(piece.kind, slice));
                inside = piece.range.end;
            }
            let weight = match piece.kind {
                Kind::Part => PART_WEIGHT,
                Kind::Char { alone: false } => continue,
                _ => 1.0,
            };
            let weight = if is_light(slice) { weight * LIGHT_WEIGHT } else { weight };
            let forms = (former.exact(piece.kind, slice), former.stem(piece.kind, slice));
            if let Some(at) = known.get(&forms) {
                let word = &mut self.words[*at];
                word.weight = word.weight.max(weight);
            } else if self.words.len() < MOST_WORDS {
                self.words.push(Word { exact: forms.0.clone(), stem: forms.1.clone(), weight });
                known.insert(forms, self.words.len() - 1);
            } else {
                self.dropped += 1;
            }
        }
    }

    fn add_phrase(&mut self, text: &str, former: &mut Former) {
        let mut phrase = Phrase { exact: Vec::new(), stem: Vec::new() };
        let mut words = Words::new(text);
        while let Some(piece) = words.next_piece() {
            // The finest pieces lie side by side, whatever the coarse ones around them.
            if matches!(piece.kind, Kind::Whole | Kind::Contraction | Kind::Pair) {
                continue;
            }
            if phrase.exact.len() == LONGEST_PHRASE {
                self.dropped += 1;
                break;
            }
            let place = piece.position as usize;
            let slice = &words.text()[piece.range.clone()];
            phrase.exact.extend(former.exact(piece.kind, slice).map(|it| (place, it)));
            phrase.stem.extend(former.stem(piece.kind, slice).map(|it| (place, it)));
        }
        if phrase.exact.is_empty() {
            return;
        }
        if self.phrases.len() == MOST_PHRASES {
            self.dropped += 1;
        } else if !self.phrases.contains(&phrase) {
            self.phrases.push(phrase);
        }
    }
}

/// Words that ask rather than say: the frame of a question, not its subject. Kept light, so that
/// a short note with `what did you do` is no answer to every question. `user` is what an agent calls
/// whoever's memory this is.
const LIGHT: [&str; 59] = [
    "about", "also", "am", "any", "been", "being", "can", "could", "did", "do", "does", "done",
    "from", "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "i",
    "its", "just", "may", "me", "might", "my", "our", "ours", "shall", "she", "should", "so",
    "some", "than", "them", "those", "too", "us", "user", "very", "we", "were", "what", "when",
    "where", "which", "while", "who", "whom", "whose", "why", "would", "you", "your",
];

/// Whether a word with parts is one of a program rather than of a language.
fn is_code(word: &str) -> bool {
    let has = |pair: fn(char, char) -> bool| {
        word.chars().zip(word.chars().skip(1)).any(|(a, b)| pair(a, b))
    };
    word.contains(['_', '/', '\\'])
        || word.contains("::")
        || has(|a, b| a.is_lowercase() && b.is_uppercase())
        || (word.len() > 3 && has(|a, b| a.is_alphabetic() && b.is_ascii_digit()))
}

fn is_light(word: &str) -> bool {
    LIGHT.iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// The text outside pairs of double quotes, and what is inside each pair. A quote without a
/// partner is a character like any other.
fn split_quotes(text: &str) -> (String, Vec<&str>) {
    let (mut plain, mut quoted) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(open) = rest.find('"') {
        let inside = &rest[open + 1..];
        let Some(close) = inside.find('"') else { break };
        plain.push_str(&rest[..open]);
        plain.push(' ');
        quoted.push(&inside[..close]);
        rest = &inside[close + 1..];
    }
    plain.push_str(rest);
    (plain, quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(text: &str) -> String {
        let ask = Ask::new(text);
        let stems: Vec<&str> = ask.words.iter().filter_map(|it| it.stem.as_deref()).collect();
        stems.join(" ")
    }

    #[test]
    fn nothing_is_syntax_but_a_pair_of_quotes() {
        assert_eq!(stems("AND running - * NOT field:value ~2"), "run field:valu field valu 2");
        let ask = Ask::new("why \"Web Socket\" \" x");
        assert_eq!(ask.phrases.len(), 1);
        assert_eq!(ask.phrases[0].exact, [(0, "web".to_owned()), (1, "socket".to_owned())]);
        for wordless in ["- *", "\"", ">>>", "* ", "\"***\"", "\u{1f525}"] {
            assert!(Ask::new(wordless).is_wordless(), "{wordless}");
        }
    }

    #[test]
    fn what_is_typed_to_the_letter_is_known_as_such() {
        let identifiers = |text: &str| Ask::new(text).identifiers.join(" ");
        assert_eq!(identifiers("v0.4.2"), "v0.4.2");
        assert_eq!(identifiers("well-known"), "well-known"); // alone it is all that is asked
        assert_eq!(identifiers("a well-known O'Brien 2023-05-08 of the U.S."), "");
        let asked = "where is handleWebSocket in src/main.rs for MAX_LINES and E0308";
        assert_eq!(identifiers(asked), "handlewebsocket src/main.rs max_lines e0308");
        let all = |text: &str| Ask::new(text).is_all_literal();
        assert!(all("src/main.rs") && all("\"the tide\"") && all("\"the tide\" MAX_LINES"));
        assert!(!all("tide src/main.rs") && !all("the tide") && all("tide"));
        assert!(!Ask::new("the tide").is_literal() && Ask::new("\"the tide\"").is_literal());
    }

    #[test]
    fn stop_words_are_asked_for_where_there_is_nothing_else() {
        let exact = |text: &str| -> Vec<String> {
            Ask::new(text).words.into_iter().filter_map(|it| it.exact).collect()
        };
        assert_eq!(exact("OR NOT"), ["or", "not"]);
        assert_eq!(exact("the plan"), ["plan"]);
    }

    #[test]
    fn a_long_query_is_bounded() {
        let words: String = (0..10_000).map(|it| format!("w{it}x ")).collect();
        let ask = Ask::new(&words);
        assert!(ask.words.len() <= MOST_WORDS && ask.dropped > 0);
        let ask = Ask::new(&"\"a b\" ".repeat(200_000));
        assert!(ask.phrases.len() <= MOST_PHRASES);
        assert!(Ask::new(&"日本".repeat(200_000)).words.len() <= 4);
    }
}

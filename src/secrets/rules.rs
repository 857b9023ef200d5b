//! The rules, read from the data in the program.
//!
//! A rule is a pattern, words without one of which it is not asked, the least entropy of what it
//! found, and what it found that is none. Pure; patterns are compiled when they are first needed.
//!
//! **Invariant:** a pattern's time grows with the length of the text and nothing else.

use std::collections::BTreeSet;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

/// The most memory that one compiled pattern may take.
const LARGEST: usize = 64 << 20;

/// How the rules' patterns end: what may follow in source code.
const END_IN_CODE: &str = r#"(?:[\x60'"\s;]|\\[nr]|$)"#;
/// What may follow in prose as well.
const END_IN_PROSE: &str = r#"(?:[\x60'"\s;,.:!?)\]}>|*<&#]|\\[nr]|$)"#;

/// Looks at anything that a key word stands before; its pattern's end is left alone.
pub(super) const GENERIC: &str = "generic-api-key";

const PRIVATE_KEY: &str = "private-key";
/// Less than a line of any of them.
const KEY_RUN: usize = 32;

/// What is found and is no credential.
#[derive(Deserialize, Default)]
pub(super) struct Allow {
    /// Whether one of each kind must fit, not one of any kind.
    #[serde(default)]
    all: bool,
    /// What the patterns are asked of: `secret`, `match` or `line`.
    #[serde(default)]
    of: Of,
    #[serde(default)]
    regexes: Vec<Pattern>,
    #[serde(default)]
    paths: Vec<Pattern>,
    #[serde(default)]
    stopwords: Words,
}

/// Words that are in no credential, found in one pass.
#[derive(Deserialize, Default)]
#[serde(from = "Vec<String>")]
struct Words {
    list: Vec<String>,
    found_by: OnceLock<AhoCorasick>,
}

impl From<Vec<String>> for Words {
    fn from(list: Vec<String>) -> Self {
        Self { list, found_by: OnceLock::new() }
    }
}

impl Words {
    #[expect(clippy::expect_used, reason = "data in the program; a test builds it")]
    fn are_in(&self, text: &[u8]) -> bool {
        let build = || AhoCorasick::builder().ascii_case_insensitive(true).build(&self.list);
        self.found_by.get_or_init(|| build().expect("the words of the rules")).is_match(text)
    }
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Of {
    #[default]
    Secret,
    Match,
    Line,
}

/// What a rule found.
pub(super) struct Found<'a> {
    pub path: &'a [u8],
    pub secret: &'a [u8],
    pub whole: &'a [u8],
    pub line: &'a [u8],
}

impl Allow {
    pub fn allows(&self, found: &Found<'_>) -> bool {
        let text = match self.of {
            Of::Secret => found.secret,
            Of::Match => found.whole,
            Of::Line => found.line,
        };
        let of_text = (!self.regexes.is_empty())
            .then(|| self.regexes.iter().any(|it| it.get().is_match(text)));
        let of_path = (!self.paths.is_empty())
            .then(|| self.paths.iter().any(|it| it.get().is_match(found.path)));
        let of_words =
            (!self.stopwords.list.is_empty()).then(|| self.stopwords.are_in(found.secret));
        let mut kinds = [of_text, of_path, of_words].into_iter().flatten().peekable();
        kinds.peek().is_some()
            && match self.all {
                true => kinds.all(|it| it),
                false => kinds.any(|it| it),
            }
    }
}

/// A pattern, compiled when it is first needed.
#[derive(Deserialize)]
#[serde(from = "String")]
pub(super) struct Pattern {
    text: String,
    compiled: OnceLock<Regex>,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }
}

impl Pattern {
    #[cfg(test)]
    pub fn text(&self) -> &str {
        &self.text
    }

    #[expect(clippy::expect_used, reason = "data in the program; a test compiles each of them")]
    pub fn get(&self) -> &Regex {
        self.compiled.get_or_init(|| compile(&self.text).expect("a pattern of the rules"))
    }
}

/// ASCII classes, as the rules mean them: a credential has no other letters.
pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).size_limit(LARGEST).dfa_size_limit(1 << 20).build()
}

/// What one kind of credential looks like.
#[derive(Deserialize)]
pub(super) struct Rule {
    pub id: String,
    pub regex: Pattern,
    pub keywords: Vec<String>,
    /// What was found must have more, in bits a byte.
    #[serde(default)]
    pub entropy: f64,
    /// The part of the match that is the credential; the first that is there, if none is named.
    pub group: Option<usize>,
    /// Only in files with such a path.
    pub path: Option<Pattern>,
    /// Only what has three of small letters, capitals, digits and signs.
    #[serde(default)]
    pub mixed: bool,
    /// Only what has that many characters of base64 in a row.
    #[serde(default)]
    pub run: usize,
    #[serde(default)]
    pub allow: Vec<Allow>,
}

#[derive(Deserialize)]
struct File {
    allow: Allow,
    rules: Vec<Rule>,
}

/// All rules, and the words that say which are asked.
pub(super) struct Rules {
    pub allow: Allow,
    pub rules: Vec<Rule>,
    words: AhoCorasick,
    /// Of each word the rules that it is for.
    asked: Vec<Vec<usize>>,
}

const RULES: &str = include_str!("rules.json");
const OWN: &str = include_str!("own.json");

/// The rules in the program.
pub(super) fn rules() -> &'static Rules {
    static ALL: LazyLock<Rules> = LazyLock::new(|| {
        #[expect(clippy::expect_used, reason = "data in the program; a test reads it")]
        Rules::read().expect("the rules in the program")
    });
    &ALL
}

/// Names this edition of the rules: what was found clean by another one may not be by this one.
pub fn edition() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        use sha2::{Digest as _, Sha256};
        let hash = Sha256::new().chain_update(RULES).chain_update(OWN);
        let hash = hash.chain_update(env!("CARGO_PKG_VERSION")).finalize();
        hash.iter().take(8).map(|it| format!("{it:02x}")).collect()
    });
    &NAME
}

impl Rules {
    fn read() -> Result<Self, Box<dyn std::error::Error>> {
        let theirs: File = serde_json::from_str(RULES)?;
        let own: File = serde_json::from_str(OWN)?;
        let mut rules = theirs.rules;
        for rule in rules.iter_mut().filter(|it| it.id != GENERIC) {
            rule.regex.text = rule.regex.text.replace(END_IN_CODE, END_IN_PROSE);
            if rule.id == PRIVATE_KEY {
                // A text about keys has the two marks and no key.
                rule.run = KEY_RUN;
            }
        }
        rules.extend(own.rules);
        let mut words: Vec<&str> = Vec::new();
        let mut asked: Vec<Vec<usize>> = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            for word in &rule.keywords {
                match words.iter().position(|it| it == word) {
                    Some(known) => asked[known].push(at),
                    None => {
                        words.push(word);
                        asked.push(vec![at]);
                    }
                }
            }
        }
        let words = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(&words)?;
        Ok(Self { allow: theirs.allow, rules, words, asked })
    }

    /// The rules of which a word is in the text, in their order.
    pub fn asked(&self, text: &[u8]) -> BTreeSet<usize> {
        let mut seen = vec![false; self.asked.len()];
        let mut asked = BTreeSet::new();
        for hit in self.words.find_overlapping_iter(text) {
            let word = hit.pattern().as_usize();
            if !std::mem::replace(&mut seen[word], true) {
                asked.extend(&self.asked[word]);
            }
        }
        asked
    }
}

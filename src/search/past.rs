//! A literal search of notes that no index has.
//!
//! Pure. Takes notes one by one, as they were or are, gives the passages that have the words, best
//! first. Case does not matter; a word as a whole stands above a part of another one, and one in a
//! name or a heading above one in the text.
//!
//! **Invariant:** the hits are those that all notes together have, in whatever order and however
//! divided these come in.

use crate::index::Card;
use crate::search::filter::{Filter, QueryError, asked};
use crate::search::{BranchState, Heir, Hit, Query, Results};
use crate::vault::fold::folded;
use crate::vault::note::read_note;
use crate::vault::{BlobId, Chunk, CommitId, Role, VaultPath};

/// What a page of it says of itself.
pub const OF_THE_PAST: &str = "literal search of the vault as it was then";

/// How much a word counts as a part of another one, as a whole word, in a name or heading.
const PART: f32 = 0.5;
const WHOLE: f32 = 0.75;
const HEADING: f32 = 1.0;
/// How much of a note's score is that of its best passage.
const PASSAGE: f32 = 0.2;
/// Of a query more words are not looked for.
const MOST_WORDS: usize = 64;

/// What is looked for, and what was found so far.
#[derive(Clone)]
pub struct Scan {
    words: Vec<String>,
    filter: std::sync::Arc<Filter>,
    limit: usize,
    min_score: f32,
    hits: Vec<Hit>,
    found: usize,
}

impl Scan {
    pub fn new(query: &Query) -> Result<Self, QueryError> {
        let text = asked(query)?;
        Ok(Self { words: words(text), ..Self::of_all(query)? })
    }

    /// The same without a word: every note is a hit.
    pub fn of_all(query: &Query) -> Result<Self, QueryError> {
        Ok(Self {
            words: Vec::new(),
            filter: std::sync::Arc::new(Filter::new(query)?),
            limit: query.limit,
            min_score: query.min_score.unwrap_or(0.0),
            hits: Vec::new(),
            found: 0,
        })
    }

    /// Whether a note has to be read at all.
    pub fn is_asked(&self, path: &VaultPath, blob: BlobId, role: Role) -> bool {
        // By its path alone; what the note itself says comes later.
        self.filter.is_asked(&Card::of(path, blob, role, &read_note(path, b"")))
    }

    /// Whether its path has one of the words.
    pub fn is_named(&self, path: &VaultPath) -> bool {
        let name = fold(&String::from_utf8_lossy(path.as_bytes()));
        self.words.iter().any(|it| name.contains(it.as_str()))
    }

    /// Looks into a note.
    pub fn read(&mut self, path: &VaultPath, blob: BlobId, role: Role, bytes: &[u8]) {
        let Some(hit) = self.hit(path, blob, role, bytes) else { return };
        self.found += 1;
        self.hits.push(hit);
        if self.hits.len() > self.limit.saturating_mul(2) {
            self.shorten();
        }
    }

    /// The best passage of a note, if it is one that is asked for.
    pub fn hit(&self, path: &VaultPath, blob: BlobId, role: Role, bytes: &[u8]) -> Option<Hit> {
        // Most notes have none of the words: they are not taken apart.
        let whole = folded(bytes);
        let whole = String::from_utf8_lossy(&whole);
        let has = |word: &String| whole.contains(word.as_str());
        if !self.words.is_empty() && !self.words.iter().any(has) && !self.is_named(path) {
            return None;
        }
        let doc = read_note(path, bytes);
        if !self.filter.takes(&Card::of(path, blob, role, &doc)) {
            return None;
        }
        let mut named = vec![fold(&doc.name)];
        named.extend(doc.aliases.iter().map(|it| fold(it)));
        let of_note: Vec<f32> = self.words.iter().map(|word| in_names(word, &named)).collect();
        let mut best: Option<(f32, &Chunk)> = None;
        let mut levels = of_note.clone();
        for chunk in &doc.chunks {
            let (text, headings) = (fold(&chunk.text), chunk.headings.iter().map(|it| fold(it)));
            let headings: Vec<String> = headings.collect();
            let of_chunk: Vec<f32> = self
                .words
                .iter()
                .map(|word| in_names(word, &headings).max(in_text(word, &text)))
                .collect();
            for (level, here) in levels.iter_mut().zip(&of_chunk) {
                *level = level.max(*here);
            }
            let share = mean(&of_chunk);
            if best.is_none_or(|it| share > it.0) {
                best = Some((share, chunk));
            }
        }
        let (share, chunk) = best?;
        let score = (1.0 - PASSAGE) * mean(&levels) + PASSAGE * share;
        (score > 0.0 && score >= self.min_score).then(|| Hit {
            id: chunk.id.clone(),
            path: path.clone(),
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            score,
            vector: None,
            keyword: Some(score),
            name: doc.name.clone(),
            description: doc.description.clone(),
            headings: chunk.headings.clone(),
            text: chunk.text.clone(),
            uncommitted: false,
            outlinks: Vec::new(),
            outlinks_total: 0,
            inlinks: Vec::new(),
            inlinks_total: 0,
            superseded: doc.superseded.clone().map(|name| Heir { path: None, name }),
            trace: Vec::new(),
        })
    }

    /// Adds what somebody else found of other notes.
    pub fn join(&mut self, other: Self) {
        self.found += other.found;
        self.hits.extend(other.hits);
        self.shorten();
    }

    fn shorten(&mut self) {
        self.hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.path.cmp(&b.path)));
        self.hits.truncate(self.limit);
    }

    /// The page, true for a commit; `partial` says what it lacks.
    pub fn results(mut self, at: CommitId, partial: Option<String>) -> Results {
        self.shorten();
        Results {
            hits: self.hits,
            at: Some(at),
            unseen: Some(OF_THE_PAST),
            keyword: BranchState::Used(self.found),
            vector: BranchState::Off("the past has no vectors"),
            partial,
            ranking: "literal: the share of the query's words that a note has, whole words above \
                      parts, names and headings above text"
                .to_owned(),
            ..Results::default()
        }
    }
}

/// What is looked for: phrases in double quotes, words without the marks around them, and two
/// characters at a time of what a script without spaces has.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |word: &str| {
        let word = fold(word);
        if !word.is_empty() && !words.contains(&word) && words.len() < MOST_WORDS {
            words.push(word);
        }
    };
    for (at, part) in text.split('"').enumerate() {
        let part = part.trim();
        if at % 2 == 1 {
            add(part);
            continue;
        }
        for token in part.split_whitespace() {
            let word = token.trim_matches(|it: char| !it.is_alphanumeric());
            let letters: Vec<char> = word.chars().collect();
            if letters.len() > 2 && letters.iter().all(|it| is_unspaced(*it)) {
                letters.windows(2).for_each(|it| add(&it.iter().collect::<String>()));
            } else {
                // Marks alone are looked for as they stand.
                add(if word.is_empty() { token } else { word });
            }
        }
    }
    words
}

fn fold(text: &str) -> String {
    String::from_utf8_lossy(&folded(text.as_bytes())).into_owned()
}

/// Of Han or kana, which set no spaces between words.
fn is_unspaced(char: char) -> bool {
    matches!(char, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

fn in_names(word: &str, names: &[String]) -> f32 {
    names.iter().map(|it| if it.contains(word) { HEADING } else { 0.0 }).fold(0.0, f32::max)
}

fn in_text(word: &str, text: &str) -> f32 {
    let mut level: f32 = 0.0;
    for (at, _) in text.match_indices(word) {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let is_open =
            |it: Option<char>| it.is_none_or(|it| !it.is_alphanumeric() || is_unspaced(it));
        if is_open(before) && is_open(after) {
            return WHOLE;
        }
        level = PART;
    }
    level
}

/// 1 where nothing is looked for.
fn mean(levels: &[f32]) -> f32 {
    if levels.is_empty() { 1.0 } else { levels.iter().sum::<f32>() / levels.len() as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::Layout;
    use crate::vault::role::role_of;

    fn scan(query: &Query, notes: &[(&str, &str)]) -> Vec<(String, u32)> {
        let blob = BlobId::from_bytes(&[1; 20]).unwrap();
        let mut scan = Scan::new(query).unwrap();
        let mut other = scan.clone();
        for (at, (path, text)) in notes.iter().enumerate() {
            let path = VaultPath::new(path).unwrap();
            let role = role_of(&path, &Layout::default());
            let one = if at % 2 == 0 { &mut scan } else { &mut other };
            if one.is_asked(&path, blob, role) {
                one.read(&path, blob, role, text.as_bytes());
            }
        }
        scan.join(other);
        let at = CommitId::from_bytes(&[2; 20]).unwrap();
        let results = scan.results(at, None);
        results.hits.iter().map(|it| (it.path.to_string(), it.start_line)).collect()
    }

    fn paths(query: &str, notes: &[(&str, &str)]) -> Vec<String> {
        scan(&Query::new(query), notes).into_iter().map(|it| it.0).collect()
    }

    #[test]
    fn whole_words_and_names_stand_first_and_case_does_not_matter() {
        let notes = [
            ("a.md", "# Stores\n\nWe use mysqldump at night.\n"),
            ("b.md", "# Stores\n\nWe left MySQL.\n"),
            ("mysql.md", "# About it\n\nNothing.\n"),
            ("c.md", "# No\n\nOther.\n"),
            ("d.md", "---\naliases: [MySQL]\n---\n# D\n\nText.\n"),
        ];
        assert_eq!(paths("MYSQL", &notes), ["d.md", "mysql.md", "b.md", "a.md"]);
        assert_eq!(paths("mysql left", &notes)[0], "b.md");
        assert_eq!(paths("\"left mysql\"", &notes), ["b.md"]);
        assert_eq!(paths("nowhere", &notes), [""; 0]);
        assert_eq!(paths("???", &[("q.md", "why???\n"), ("r.md", "why\n")]), ["q.md"]);
    }

    #[test]
    fn scripts_without_spaces_are_found_by_their_parts() {
        let notes = [("a.md", "数据库的选型\n"), ("b.md", "数据库选型\n"), ("c.md", "天気\n")];
        assert_eq!(paths("数据库选型", &notes), ["b.md", "a.md"]);
        assert_eq!(paths("天気", &notes), ["c.md"]);
    }

    #[test]
    fn the_best_passage_is_shown_and_filters_hold() {
        let long = format!("# One\n\n{}\n\n# Two\n\nalfa bravo\n", "word ".repeat(600));
        let notes = [
            ("digest/wiki/a.md", long.as_str()),
            ("x.md", "alfa #sea\n"),
            ("mem_session/dialog/s.md", "alfa\n"),
        ];
        let check = |query: Query, expected: &[(&str, u32)]| {
            let found = scan(&query, &notes);
            let found: Vec<_> = found.iter().map(|it| (it.0.as_str(), it.1)).collect();
            assert_eq!(found, expected);
        };
        check(Query::new("alfa bravo"), &[("digest/wiki/a.md", 5), ("x.md", 1)]);
        check(Query { tags: vec!["sea".into()], ..Query::new("alfa") }, &[("x.md", 1)]);
        check(
            Query { within: vec!["digest".into()], ..Query::new("alfa") },
            &[("digest/wiki/a.md", 5)],
        );
        check(
            Query { path: Some("*.md".into()), limit: 1, ..Query::new("alfa") },
            &[("digest/wiki/a.md", 5)],
        );
        assert!(Scan::new(&Query::new(" ")).is_err());
        assert!(Scan::new(&Query { limit: 0, ..Query::new("x") }).is_err());
    }
}

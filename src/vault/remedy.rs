//! What to do about a note that is not read as it stands, what kind of problem that is, and how much
//! of it is searched.
//!
//! Pure. Takes a problem as `note`, `decode`, `frontmatter` and whoever reads the note's bytes from
//! Git word it.
//!
//! **Invariant:** what is said of the search is true for that problem.

use crate::vault::decode::is_cut;

/// What is wrong with a note, in kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A conflict that is still marked.
    Conflict,
    /// A key of the frontmatter that stands twice.
    DoubledKey,
    /// Frontmatter that is none, or not valid.
    Frontmatter,
    /// Text that is not UTF-8, no text, or too much of it.
    Text,
    /// Git has its text and does not give it.
    Unread,
}

/// Of what kind a problem is.
pub fn kind_of(problem: &str) -> Kind {
    let has = |part: &str| problem.contains(part);
    if has("a conflict is still marked") {
        Kind::Conflict
    } else if has(" stands twice") {
        Kind::DoubledKey
    } else if has("frontmatter") {
        Kind::Frontmatter
    } else if problem.starts_with("cannot be read from Git")
        || problem.starts_with("its text is with the remote only")
        || problem.starts_with("its content is kept by Git LFS")
        || problem.starts_with("it is encrypted")
    {
        Kind::Unread
    } else {
        Kind::Text
    }
}

/// The line that a problem names, and what it says of it.
pub fn place_of(problem: &str) -> (Option<u32>, &str) {
    let placed = problem.strip_prefix("line ").and_then(|it| it.split_once(": "));
    match placed.and_then(|(line, what)| Some((line.parse().ok()?, what))) {
        Some((line, what)) => (Some(line), what),
        None => (None, problem),
    }
}

/// One sentence or two for people.
pub fn of(problem: &str) -> &'static str {
    let has = |part: &str| problem.contains(part);
    if is_cut(problem) {
        "The part behind that is not searched: make several notes of it."
    } else if problem.starts_with("no text") {
        "Only its name is searched; a note is text in UTF-8."
    } else if problem.starts_with("cannot be read from Git") {
        "Only its name is searched until its object is back: `git fsck` in the vault says more."
    } else if problem.starts_with("its text is with the remote only") {
        "Only its name is searched until a `git checkout` or `git fetch` of yours brings its text."
    } else if problem.starts_with("its content is kept by Git LFS")
        || problem.starts_with("it is encrypted")
    {
        "Only its name is searched until it can be read here."
    } else if has("a conflict is still marked") {
        "All of it is searched, both sides of the conflict too; resolve it in the note."
    } else if has("not UTF-8") || has("UTF-16") || has("NUL bytes") {
        "All of it that can be read is searched; save it as UTF-8 to have it read as it is."
    } else if has("links: the first") {
        "All of its text is searched; links beyond that number are not followed."
    } else if has(" stands twice") {
        "All of it is searched; take one of the two out."
    } else if has("frontmatter") {
        "Its text is searched; mend that line to have its properties and tags read."
    } else {
        "The rest of it is searched."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::{VaultPath, read_note};

    /// Each problem as it is really worded.
    #[test]
    fn every_problem_of_a_note_has_a_remedy_that_is_true_for_it() {
        let check = |bytes: &[u8], kind: Kind, words: &str| {
            let note = read_note(&VaultPath::new("n.md").unwrap(), bytes);
            let problem = note.problems.first().unwrap_or_else(|| panic!("no problem: {words}"));
            assert!(of(problem).contains(words), "{problem}: {}", of(problem));
            assert_eq!(kind_of(problem), kind, "{problem}");
            let (line, what) = place_of(problem);
            assert_eq!(line.is_some(), problem.starts_with("line "), "{problem}");
            assert!(problem.ends_with(what));
        };
        check(&vec![b'x'; 5 << 20], Kind::Text, "is not searched");
        check(b"\0\0\0\0", Kind::Text, "Only its name");
        check(b"\x01\x02\xff\xfe\x03\x04", Kind::Text, "Only its name");
        check(b"\xff\xfeh\0i\0", Kind::Text, "save it as UTF-8");
        check(b"caf\xe9 au lait", Kind::Text, "save it as UTF-8");
        check("a note with text enough and a \u{0}".as_bytes(), Kind::Text, "save it as UTF-8");
        let conflict = b"<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n";
        check(conflict, Kind::Conflict, "both sides of the conflict");
        check("[[a]] ".repeat(110_000).as_bytes(), Kind::Text, "not followed");
        check(b"---\na: [\n---\ntext\n", Kind::Frontmatter, "mend that line");
        check(b"---\na: 1\na: 2\n---\ntext\n", Kind::DoubledKey, "take one of the two out");
        check(b"---\na: 1\n\ntext\n", Kind::Frontmatter, "mend that line");
    }

    #[test]
    fn what_git_does_not_give_is_not_said_to_be_searched() {
        for problem in [
            "cannot be read from Git: Cannot read an object",
            "its content is kept by Git LFS and is not on this machine (`git lfs pull`)",
            "its text is with the remote only: it is a partial clone, and nothing is fetched",
            "it is encrypted, and locked (`git-crypt unlock`)",
        ] {
            assert!(of(problem).starts_with("Only its name"), "{problem}");
            assert_eq!(kind_of(problem), Kind::Unread, "{problem}");
        }
    }
}

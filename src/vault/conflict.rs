//! Conflict markers that a merge left in a note.
//!
//! Pure. Takes a text, gives the line of the first conflict that is still marked in it.
//!
//! **Invariant:** a heading underlined by `=======` or a quote of seven levels is none: only the
//! three markers in their order are.

/// The line (from 1) where the first marked conflict begins.
pub fn first_conflict(text: &str) -> Option<usize> {
    // Most notes have none, and this search is as fast as memory.
    if !text.contains("<<<<<<< ") {
        return None;
    }
    let mut begun = None;
    let mut is_parted = false;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("<<<<<<< ") {
            begun = Some(at + 1);
            is_parted = false;
        } else if begun.is_some() && line == "=======" {
            is_parted = true;
        } else if is_parted && (line.starts_with(">>>>>>> ") || line == ">>>>>>>") {
            return begun;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, line: Option<usize>) {
        assert_eq!(first_conflict(text), line, "{text:?}");
        assert_eq!(first_conflict(&text.replace('\n', "\r\n")), line, "{text:?} with CRLF");
    }

    #[test]
    fn only_the_three_markers_in_their_order_are_a_conflict() {
        check("a\n<<<<<<< HEAD\nmine\n=======\ntheirs\n>>>>>>> side\nb\n", Some(2));
        check("<<<<<<< ours\na\n||||||| base\nb\n=======\nc\n>>>>>>> theirs", Some(1));
        check("<<<<<<< lost\n<<<<<<< HEAD\n=======\n>>>>>>> x\n", Some(2));
        check("Title\n=======\ntext\n", None);
        check("<<<<<<< HEAD\nmine\n>>>>>>> side\n", None);
        check("> > > > > > > quote\n=======\n<<<<<<< end\n", None);
        check(" <<<<<<< HEAD\n=======\n>>>>>>> x\n", None);
        check("", None);
    }
}

//! Three versions of a text made one.
//!
//! Pure. Takes what both sides began with and what each made of it, gives a text that has the edits
//! of both, or the lines on which they meet.
//!
//! **Invariant:** a line that only one side touched is as that side left it.

use std::ops::RangeInclusive;

use gix::diff::blob::{Algorithm, InternedInput};
use gix::merge::blob::Resolution;
use gix::merge::blob::builtin_driver::text::{Conflict, ConflictStyle, Labels, Merge};

/// Whose lines stand where both sides changed the same ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Favor {
    /// The later edits.
    Mine,
    /// What is brought back.
    Theirs,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Merged {
    Text(Vec<u8>),
    /// Lines of `mine`, from 1, that both sides changed; where nothing of `mine` is left of them,
    /// the line before which something else stood.
    Overlap(Vec<RangeInclusive<u32>>),
}

/// More than any text has of them on end.
const MARKS: u8 = 61;

/// Merges `mine` and `theirs`, which both began as `base`.
pub(super) fn merge(base: &[u8], mine: &[u8], theirs: &[u8], favor: Option<Favor>) -> Merged {
    let mut input = InternedInput::default();
    let merge = Merge::new(&mut input, mine, base, theirs, Algorithm::Histogram);
    let mut out = Vec::new();
    let conflict = match favor {
        Some(Favor::Mine) => Conflict::ResolveWithOurs,
        Some(Favor::Theirs) => Conflict::ResolveWithTheirs,
        None => Conflict::Keep {
            style: ConflictStyle::Merge,
            marker_size: std::num::NonZeroU8::new(MARKS).unwrap_or(std::num::NonZeroU8::MIN),
        },
    };
    match merge.run(&mut out, Labels::default(), conflict) {
        Resolution::Conflict => Merged::Overlap(overlaps(&out, mine)),
        Resolution::Complete | Resolution::CompleteWithAutoResolvedConflict => Merged::Text(out),
    }
}

/// The lines of `mine` between the marks of a text that has both sides.
fn overlaps(marked: &[u8], mine: &[u8]) -> Vec<RangeInclusive<u32>> {
    let marks = usize::from(MARKS);
    let is_mark = |line: &[u8], sign: u8| {
        line.len() >= marks
            && line[..marks].iter().all(|it| *it == sign)
            && line[marks..].iter().all(|it| b"\r\n".contains(it))
    };
    // The same text with `mine` alone between the marks, and where that stands in it.
    let mut text = Vec::new();
    let mut places = Vec::new();
    let mut line = 0u32;
    let mut lines = marked.split_inclusive(|it| *it == b'\n');
    while let Some(one) = lines.next() {
        if !is_mark(one, b'<') {
            text.extend_from_slice(one);
            line += 1;
            continue;
        }
        let start = line;
        for one in lines.by_ref().take_while(|it| !is_mark(it, b'=')) {
            text.extend_from_slice(one);
            line += 1;
        }
        places.push(start..line);
        lines.by_ref().take_while(|it| !is_mark(it, b'>')).for_each(drop);
    }
    // What the other side put in elsewhere, or took away, moves them.
    let input = InternedInput::new(mine, text.as_slice());
    let diff = gix::diff::blob::Diff::compute(Algorithm::Histogram, &input);
    let hunks: Vec<_> = diff.hunks().collect();
    let all = u32::try_from(input.before.len()).unwrap_or(u32::MAX);
    let of_mine = |line: u32| {
        let before = hunks.iter().take_while(|it| it.after.end <= line).last();
        before.map_or(line, |it| it.before.end + (line - it.after.end))
    };
    let numbers = places.into_iter().map(|it| {
        let (first, last) = (of_mine(it.start) + 1, of_mine(it.end));
        first.min(all.max(1))..=last.max(first).min(all.max(1))
    });
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(merged: Merged) -> String {
        match merged {
            Merged::Text(text) => String::from_utf8(text).unwrap(),
            Merged::Overlap(lines) => panic!("both changed {lines:?}"),
        }
    }

    #[test]
    fn edits_of_both_sides_stand() {
        let base = b"one\ntwo\nthree\nfour\nfive\n";
        let mine = b"one\ntwo\nthree\nfour\nfive and more\n";
        let theirs = b"one, before\ntwo\nthree\nfour\nfive\n";
        assert_eq!(
            text(merge(base, mine, theirs, None)),
            "one, before\ntwo\nthree\nfour\nfive and more\n"
        );
    }

    #[test]
    fn lines_that_both_changed_are_named_as_they_are_now() {
        let base = b"a\nb\nc\nd\ne\nf\n";
        let mine = b"new first\na\nb\nC of mine\nd\ne\nf";
        let theirs = b"a\nb\nC of theirs\nd\ne\nF of theirs\n";
        let Merged::Overlap(lines) = merge(base, mine, theirs, None) else { panic!("no overlap") };
        assert_eq!(lines, [4..=4, 7..=7]);
        let favored = |favor| text(merge(base, mine, theirs, Some(favor)));
        assert_eq!(favored(Favor::Mine), "new first\na\nb\nC of mine\nd\ne\nf");
        assert_eq!(favored(Favor::Theirs), "new first\na\nb\nC of theirs\nd\ne\nF of theirs\n");
    }

    #[test]
    fn what_is_gone_has_the_place_where_it_was() {
        let base = b"a\nb\nc\n";
        let Merged::Overlap(lines) = merge(base, b"a\nc\n", b"a\nB\nc\n", None) else {
            panic!("no overlap")
        };
        assert_eq!(lines, [2..=2]);
    }

    proptest! {
        #[test]
        fn edits_to_lines_apart_are_all_kept(
            at in prop::collection::btree_set(0usize..20, 2..8),
            whose in prop::collection::vec(any::<bool>(), 8),
        ) {
            let base: Vec<String> = (0..60).map(|it| format!("line {it}\n")).collect();
            let (mut mine, mut theirs, mut both) = (base.clone(), base.clone(), base.clone());
            for (at, is_mine) in at.iter().zip(&whose) {
                // Lines apart: none of the neighbours is another edit.
                let at = at * 3;
                let edited = format!("edited {at}\n");
                both[at].clone_from(&edited);
                if *is_mine { mine[at] = edited } else { theirs[at] = edited }
            }
            let joined = |it: &[String]| it.concat().into_bytes();
            prop_assert_eq!(
                merge(&joined(&base), &joined(&mine), &joined(&theirs), None),
                Merged::Text(joined(&both))
            );
        }
    }
}

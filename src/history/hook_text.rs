//! Our part of a hook, beside what a person wrote there.
//!
//! Pure. Takes the bytes of a hook and the name of one of ours, gives the bytes with our block, or
//! without it. The block stands right below the first line, so that what follows may end as it
//! likes, and the status of the hook stays that of what follows.
//!
//! **Invariant:** with the block and then without it is the hook as it was, byte for byte
//! (property-tested); what stands outside the marks is never changed.

/// Ours, by the event that they are about.
pub const HOOKS: [(&str, &str); 5] = [
    ("post-commit", include_str!("../../hooks/post-commit")),
    ("post-merge", include_str!("../../hooks/post-merge")),
    ("post-checkout", include_str!("../../hooks/post-checkout")),
    ("post-rewrite", include_str!("../../hooks/post-rewrite")),
    ("pre-push", include_str!("../../hooks/pre-push")),
];

/// What the first and the last line of the block begin with.
const BEGIN: &[u8] = b"# >>> remd >>>";
const END: &[u8] = b"# <<< remd <<<";
/// What a file begins with that is ours from its first line on.
const MADE: &[u8] = b"#!/bin/sh\n# Made by remd;";

/// What a hook is to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Nothing of it is ours.
    None,
    /// It has our block.
    Block { is_current: bool },
    /// A mark of ours without the other one.
    Broken,
}

/// What is left without our block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rest {
    Nothing,
    Text(Vec<u8>),
}

/// Why our block cannot stand in a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    #[error("it is a program, not a shell script")]
    Binary,
    #[error("it is no script of sh")]
    NotSh,
    #[error("its only line has no end")]
    NoLine,
    #[error("one of remd's marks in it has lost the other one")]
    Broken,
    #[error("{0} writes it and would write over what is added")]
    Managed(&'static str),
}

/// Who writes hooks by program, and a word by which such a file is known.
const MANAGERS: [(&str, &[u8]); 7] = [
    ("husky", b"husky"),
    ("lefthook", b"lefthook"),
    ("pre-commit", b"pre-commit.com"),
    ("Overcommit", b"overcommit"),
    ("simple-git-hooks", b"simple-git-hooks"),
    ("git-hooks", b"hooks4git"),
    ("captainhook", b"captainhook"),
];

/// What can read our block.
const SHELLS: [&[u8]; 7] = [b"sh", b"bash", b"dash", b"ash", b"ksh", b"mksh", b"zsh"];

/// The block of one of our scripts, with its marks.
fn block_of(script: &str) -> &[u8] {
    blocks(script.as_bytes()).first().map_or(b"", |it| &script.as_bytes()[it.clone()])
}

/// How much of `text` is ours.
pub fn part(text: &[u8], script: &str) -> Part {
    let blocks = blocks(text);
    if is_broken(text, blocks.len()) {
        return Part::Broken;
    }
    match blocks.as_slice() {
        [] => Part::None,
        [one] => Part::Block { is_current: text[one.clone()] == *block_of(script) },
        _ => Part::Block { is_current: false },
    }
}

/// `text` with our block in it.
pub fn with_block(text: &[u8], script: &str) -> Result<Vec<u8>, Unfit> {
    let found = blocks(text);
    if is_broken(text, found.len()) {
        return Err(Unfit::Broken);
    }
    let put = |at: std::ops::Range<usize>| {
        [&text[..at.start], block_of(script), &text[at.end..]].concat()
    };
    match found.as_slice() {
        [one] => Ok(put(one.clone())),
        [] => {
            let at = first_line(text)?;
            if let Some((name, _)) = MANAGERS.iter().find(|it| contains(text, it.1)) {
                return Err(Unfit::Managed(name));
            }
            Ok(put(at..at))
        }
        [..] => match without_block(text) {
            Rest::Text(text) => with_block(&text, script),
            Rest::Nothing => Ok(script.as_bytes().to_vec()),
        },
    }
}

/// `text` without what is ours in it.
pub fn without_block(text: &[u8]) -> Rest {
    let found = blocks(text);
    if found.is_empty() {
        return Rest::Text(text.to_vec());
    }
    let mut rest = Vec::with_capacity(text.len());
    let mut from = 0;
    for block in found {
        rest.extend_from_slice(&text[from..block.start]);
        from = block.end;
    }
    rest.extend_from_slice(&text[from..]);
    if text.starts_with(MADE) {
        let shebang = b"#!/bin/sh\n".len();
        let end = line_end(&rest, shebang);
        rest.drain(shebang..end);
        if rest.len() == shebang {
            return Rest::Nothing;
        }
    }
    Rest::Text(rest)
}

/// Whether a mark stands alone.
fn is_broken(text: &[u8], blocks: usize) -> bool {
    let count = |mark: &[u8]| lines(text).filter(|it| text[it.clone()].starts_with(mark)).count();
    count(BEGIN) != blocks || count(END) != blocks
}

/// The blocks with their marks, line ends included.
fn blocks(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut begin = None;
    for line in lines(text) {
        let is = |mark: &[u8]| text[line.clone()].starts_with(mark);
        if is(BEGIN) {
            begin = Some(line.start);
        } else if is(END)
            && let Some(begin) = begin.take()
        {
            found.push(begin..line.end);
        }
    }
    found
}

fn lines(text: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = at;
        at = line_end(text, from);
        (from < at).then_some(from..at)
    })
}

/// Where the line at `from` is over.
fn line_end(text: &[u8], from: usize) -> usize {
    let end = text[from..].iter().position(|it| *it == b'\n');
    end.map_or(text.len(), |it| from + it + 1)
}

/// Where our block goes in a script of sh: below the line that names the shell, if there is one.
fn first_line(text: &[u8]) -> Result<usize, Unfit> {
    if text.contains(&0) {
        return Err(Unfit::Binary);
    }
    // Git has sh run what names nobody.
    let Some(named) = text.strip_prefix(b"#!") else { return Ok(0) };
    let end = line_end(text, 0);
    let line = &named[..end - 2];
    let Some(line) = line.strip_suffix(b"\n") else { return Err(Unfit::NoLine) };
    let mut words = line.split(|it| *it == b' ' || *it == b'\t').filter(|it| !it.is_empty());
    let base = |word: &[u8]| word.rsplit(|it| *it == b'/').next().unwrap_or_default().to_vec();
    let mut shell = words.next().map(base).unwrap_or_default();
    if shell == b"env" {
        shell = words.find(|it| !it.starts_with(b"-")).map(base).unwrap_or_default();
    }
    SHELLS.contains(&shell.as_slice()).then_some(end).ok_or(Unfit::NotSh)
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|it| it == word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_script_is_a_block_in_a_file_of_ours() {
        for (name, script) in HOOKS {
            assert!(script.as_bytes().starts_with(MADE), "{name}");
            assert_eq!(part(script.as_bytes(), script), Part::Block { is_current: true }, "{name}");
            assert_eq!(without_block(script.as_bytes()), Rest::Nothing, "{name}");
            assert!(script.contains(&format!("remd notify {name}")), "{name}");
        }
    }

    #[test]
    fn what_a_person_adds_around_our_block_stays() {
        let script = HOOKS[0].1;
        let edited = format!("{script}echo mine\n");
        let mine = b"#!/bin/sh\necho mine\n".to_vec();
        assert_eq!(without_block(edited.as_bytes()), Rest::Text(mine.clone()));
        let chained = with_block(&mine, script).unwrap();
        let moved = [b"#!/bin/sh\nset -e\n", &chained[10..], b"echo more\n"].concat();
        let rest = b"#!/bin/sh\nset -e\necho mine\necho more\n".to_vec();
        assert_eq!(without_block(&moved), Rest::Text(rest));
        assert_eq!(with_block(&moved, script).unwrap(), moved, "where they put it");
        // An older block becomes a current one in its place; of two there is one left.
        let old = String::from_utf8(chained.clone()).unwrap().replace("Waits for nothing", "Waits");
        assert_eq!(part(old.as_bytes(), script), Part::Block { is_current: false });
        assert_eq!(with_block(old.as_bytes(), script).unwrap(), chained);
        let twice = [chained.as_slice(), &chained[10..chained.len() - 10]].concat();
        assert_eq!(blocks(&with_block(&twice, script).unwrap()).len(), 1);
    }

    #[test]
    fn only_a_script_of_sh_gets_a_block() {
        let script = HOOKS[0].1;
        let check = |text: &[u8], why: Option<Unfit>| {
            assert_eq!(with_block(text, script).err(), why, "{:?}", String::from_utf8_lossy(text));
        };
        for shell in ["/bin/sh", "/bin/sh -e", "/usr/bin/env bash", "/usr/bin/env -S bash -u"] {
            check(format!("#!{shell}\ntrue\n").as_bytes(), None);
        }
        check(b"# no shell is named\ntrue\n", None);
        check(b"", None);
        check(b"#! /bin/dash\nexit 3", None);
        check(b"#!/usr/bin/env python3\nprint(1)\n", Some(Unfit::NotSh));
        check(b"#!/usr/bin/env -S python3 sh\n", Some(Unfit::NotSh));
        check(b"#!/bin/sh\r\ntrue\r\n", Some(Unfit::NotSh));
        check(b"#!/bin/sh", Some(Unfit::NoLine));
        check(b"\x7fELF\x02\x01\0\0", Some(Unfit::Binary));
        check(b"#!/bin/sh\n# >>> remd >>>\ntrue\n", Some(Unfit::Broken));
        check(b"#!/bin/sh\n# <<< remd <<<\ntrue\n", Some(Unfit::Broken));
        let lefthook = b"#!/bin/sh\ncall_lefthook run \"pre-push\" \"$@\"\n";
        check(lefthook, Some(Unfit::Managed("lefthook")));
        let framework =
            b"#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n";
        check(framework, Some(Unfit::Managed("pre-commit")));
    }

    proptest! {
        #[test]
        fn with_and_then_without_is_as_it_was(
            shebang in prop::sample::select(vec!["", "#!/bin/sh\n", "#!/usr/bin/env bash\n"]),
            rest in "([ -~]{0,20}\n){0,6}[ -~]{0,10}",
            which in 0..HOOKS.len(),
        ) {
            let text = format!("{shebang}{rest}");
            let script = HOOKS[which].1;
            if let Ok(chained) = with_block(text.as_bytes(), script) {
                prop_assert_eq!(part(&chained, script), Part::Block { is_current: true });
                prop_assert_eq!(without_block(&chained), Rest::Text(text.clone().into_bytes()));
                prop_assert_eq!(with_block(&chained, script).unwrap(), chained);
            } else {
                prop_assert!(text.starts_with("#!") || text.contains("remd"));
            }
        }
    }
}

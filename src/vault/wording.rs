//! How a link says where it leads.
//!
//! Pure. Takes the vault's names, the note a link stands in, what it said and what it shall lead
//! to; gives what to write, in the manner of what was there: a bare name stays one where that is
//! enough, a path from the root or from the note's folder stays that, `.md` stays or stays away.
//!
//! **Invariant:** what is given leads to that path and could mean no other, by the rule of
//! [`crate::vault::resolve`].

use std::borrow::Cow;

use crate::vault::link::LinkKind;
use crate::vault::path::VaultPath;
use crate::vault::resolve::{Names, Resolution, markdown_stem, walked};

/// A link as it was.
#[derive(Clone, Copy, Debug)]
pub struct Old<'a> {
    pub kind: LinkKind,
    pub target: &'a str,
    /// What it led to, where that is known.
    pub led_to: Option<&'a VaultPath>,
}

/// What to write in the note `from` so that the link leads to `to`; nothing where no target does.
pub fn wording(names: &Names, from: &VaultPath, old: Old<'_>, to: &VaultPath) -> Option<String> {
    let whole = std::str::from_utf8(to.as_bytes()).ok()?;
    let bare = match markdown_stem(to.as_bytes()) {
        Some((stem, _)) => std::str::from_utf8(stem).ok()?,
        None => whole,
    };
    let keeps_extension = markdown_stem(last(old.target).as_bytes()).is_some();
    let forms = if keeps_extension { [whole, bare] } else { [bare, whole] };
    let leads_there = |it: &String| names.resolve(from, it, old.kind) == Resolution::To(to.clone());
    for manner in manners(from, old) {
        for form in forms {
            let target = match manner {
                Manner::Name => last(form).to_owned(),
                Manner::Root => form.to_owned(),
                Manner::Slash => format!("/{form}"),
                Manner::Relative => relative(from, form)?,
                Manner::Dotted => match relative(from, form)? {
                    up if up.starts_with("../") => up,
                    below => format!("./{below}"),
                },
            };
            if leads_there(&target) {
                return Some(target);
            }
        }
    }
    None
}

/// A way to write a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    Name,
    /// From the root.
    Root,
    /// The same behind a slash.
    Slash,
    /// From the note's folder.
    Relative,
    /// The same, and one can see it.
    Dotted,
}

/// That of the link first, then those that can say more.
fn manners(from: &VaultPath, old: Old<'_>) -> Vec<Manner> {
    let target = old.target.trim();
    let own = match target.split('/').next() {
        Some("." | "..") => Manner::Dotted,
        _ if target.starts_with('/') => Manner::Slash,
        _ if old.kind == LinkKind::Markdown && was_walked(from, old) => Manner::Relative,
        // A name alone is a path from the root, too, and in Markdown it was meant as one.
        _ if old.kind == LinkKind::Markdown && was_walked_from_root(old) => Manner::Root,
        Some(first) if first == target => Manner::Name,
        _ => Manner::Root,
    };
    let more = match old.kind {
        LinkKind::Markdown => [Manner::Relative, Manner::Slash],
        _ => [Manner::Root, Manner::Slash],
    };
    let mut manners = vec![own];
    manners.extend(more.into_iter().filter(|it| *it != own));
    manners
}

/// Whether a link was a path from its note's folder: in Markdown that is tried first.
fn was_walked(from: &VaultPath, old: Old<'_>) -> bool {
    let mut folder: Vec<&[u8]> = from.components().collect();
    folder.pop();
    old.led_to.is_none_or(|it| leads(folder, old.target, it))
}

fn was_walked_from_root(old: Old<'_>) -> bool {
    old.led_to.is_some_and(|it| leads(Vec::new(), old.target, it))
}

/// Whether `target`, with or without its extension, is the way from a folder to a path.
fn leads(folder: Vec<&[u8]>, target: &str, path: &VaultPath) -> bool {
    let Some(walked) = walked(folder, target.trim()) else { return false };
    let walked = walked.join(&b'/');
    let bare = |it: &[u8]| -> Vec<u8> { markdown_stem(it).map_or(it, |it| it.0).to_vec() };
    bare(&walked) == bare(path.as_bytes())
}

/// The path from the folder of `from`.
fn relative(from: &VaultPath, to: &str) -> Option<String> {
    let from = String::from_utf8_lossy(from.as_bytes());
    let from: Cow<'_, str> = from;
    let mut folder: Vec<&str> = from.split('/').collect();
    folder.pop();
    let to: Vec<&str> = to.split('/').collect();
    let (name, folders) = to.split_last()?;
    let common = folder.iter().zip(folders).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", folder.len() - common);
    let way: Vec<&str> = up.chain(folders[common..].iter().copied()).chain([*name]).collect();
    Some(way.join("/"))
}

fn last(path: &str) -> &str {
    path.trim().rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> VaultPath {
        VaultPath::new(path).unwrap()
    }

    #[test]
    fn a_link_is_written_as_it_was_and_leads_where_it_shall() {
        let paths = [
            "New.md",
            "a/Notes/Deep.md",
            "b/Deep.md",
            "a/S.md",
            "S.md",
            "pics/neu es.png",
            "日記/今日.md",
            "x.markdown",
            "a/b/New.md",
            "odd/one.md",
            "odd/one",
        ];
        let names: Names = paths.iter().map(|it| path(it)).collect();
        let check = |from: &str, old: &str, kind: LinkKind, led_to: &str, to: &str, new: &str| {
            let (from, to, led_to) = (path(from), path(to), path(led_to));
            let was = Old { kind, target: old, led_to: Some(&led_to) };
            let written = wording(&names, &from, was, &to);
            assert_eq!(written.as_deref(), Some(new), "{old} in {from}");
        };
        use LinkKind::{Embed, Frontmatter, Markdown, Wiki};
        // A bare name is the path from the root where there is one, so that it means no other.
        check("S.md", "Old", Wiki, "Old.md", "x.markdown", "x");
        check("S.md", "Old.md", Wiki, "Old.md", "日記/今日.md", "今日.md");
        check("S.md", "z/Old", Wiki, "z/Old.md", "日記/今日.md", "日記/今日");
        check("S.md", "Old", Frontmatter, "Old.md", "日記/今日.md", "今日");
        // Two are called so: more of the path.
        check("S.md", "Old", Wiki, "Old.md", "b/Deep.md", "b/Deep");
        check("S.md", "Old", Wiki, "Old.md", "a/Notes/Deep.md", "a/Notes/Deep");
        check("S.md", "/Old", Wiki, "Old.md", "b/Deep.md", "/b/Deep");
        check("S.md", "alt.png", Embed, "alt.png", "pics/neu es.png", "neu es.png");
        check("S.md", "pics/alt.png", Embed, "pics/alt.png", "pics/neu es.png", "pics/neu es.png");
        // A file without an extension is read first.
        check("S.md", "odd/two", Wiki, "odd/two.md", "odd/one.md", "odd/one.md");
        // Markdown links: from the note's folder, from the root, or by name, as they were.
        check("a/S.md", "Old.md", Markdown, "a/Old.md", "b/Deep.md", "../b/Deep.md");
        check("a/S.md", "../Old.md", Markdown, "Old.md", "b/Deep.md", "../b/Deep.md");
        check("a/S.md", "./Old.md", Markdown, "a/Old.md", "a/Notes/Deep.md", "./Notes/Deep.md");
        check("a/S.md", "b/Old.md", Markdown, "b/Old.md", "b/Deep.md", "b/Deep.md");
        check("a/S.md", "/b/Old.md", Markdown, "b/Old.md", "b/Deep.md", "/b/Deep.md");
        check("a/S.md", "Old.md", Markdown, "z/Old.md", "日記/今日.md", "今日.md");
        check("a/S.md", "Old", Markdown, "a/Old.md", "a/b/New.md", "b/New");
        check("a/S.md", "Old.md", Markdown, "z/Old.md", "New.md", "New.md");
        check("a/S.md", "Old.md", Markdown, "Old.md", "日記/今日.md", "日記/今日.md");
        // From where a name alone would lead to another note, the way is longer.
        check("a/b/x.md", "Old.md", Markdown, "z/Old.md", "New.md", "../../New.md");
    }

    #[test]
    fn a_name_that_no_target_says_is_not_written() {
        let names: Names = [b"\xff.md".as_slice(), b"cafe\xcc\x81.md", b"caf\xc3\xa9.md"]
            .iter()
            .map(|it| VaultPath::new(it).unwrap())
            .collect();
        let old = Old { kind: LinkKind::Wiki, target: "x", led_to: None };
        for name in [b"\xff.md".as_slice(), b"cafe\xcc\x81.md"] {
            let to = VaultPath::new(name).unwrap();
            assert_eq!(wording(&names, &path("S.md"), old, &to), None);
        }
    }
}

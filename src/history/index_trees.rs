//! The trees that git keeps in its index, so that it need not write them again.
//!
//! Takes the extension `TREE` as it is in the file and the paths that changed, gives it with the
//! folders on the way to them marked as out of date, as git does. Pure.
//!
//! **Invariant:** a tree that is not marked holds exactly what the entries below it say.

use std::collections::HashMap;
use std::ops::Range;

use gix::bstr::{BStr, ByteSlice as _};

/// Folders in folders; where there are more, git has to make its trees itself.
const DEPTH: usize = 512;

/// One folder of the extension, where its parts are.
struct Tree {
    name: Range<usize>,
    /// How many entries it has, in digits; `None` where it is out of date.
    entries: Option<Range<usize>>,
    id: Range<usize>,
    children: Vec<Tree>,
}

/// `body` with what `paths` (in order) make untrue marked; `None` where nothing changes, or
/// nothing where it cannot be read: it is only a cache.
pub(super) fn invalidated(body: &[u8], id_len: usize, paths: &[&BStr]) -> Option<Vec<u8>> {
    if body.is_empty() || paths.is_empty() {
        return None;
    }
    let mut at = 0;
    let Some(mut root) = read(body, &mut at, id_len, DEPTH).filter(|_| at == body.len()) else {
        return Some(Vec::new());
    };
    let paths: Vec<&[u8]> = paths.iter().map(|it| it.as_bytes()).collect();
    if !mark(body, &mut root, &paths) {
        return None;
    }
    let mut out = Vec::with_capacity(body.len() + 16);
    write(body, &root, &mut out);
    Some(out)
}

fn read(body: &[u8], at: &mut usize, id_len: usize, depth: usize) -> Option<Tree> {
    let mut until = |end: u8| -> Option<Range<usize>> {
        let start = *at;
        let len = body.get(start..)?.find_byte(end)?;
        *at = start + len + 1;
        Some(start..start + len)
    };
    let (name, entries, count) = (until(0)?, until(b' ')?, until(b'\n')?);
    let number = |range: &Range<usize>| body[range.clone()].to_str().ok()?.parse::<i64>().ok();
    let entries = (number(&entries)? >= 0).then_some(entries);
    let id = match entries {
        Some(_) => *at..(*at + id_len),
        None => *at..*at,
    };
    if id.end > body.len() || depth == 0 {
        return None;
    }
    *at = id.end;
    let mut children = Vec::new();
    for _ in 0..number(&count)? {
        children.push(read(body, at, id_len, depth - 1)?);
    }
    Some(Tree { name, entries, id, children })
}

/// Whether anything was marked.
fn mark(body: &[u8], tree: &mut Tree, paths: &[&[u8]]) -> bool {
    let mut changed = tree.entries.take().is_some();
    let first = |path: &[u8]| path.find_byte(b'/').unwrap_or(path.len());
    let groups: Vec<&[&[u8]]> = paths.chunk_by(|a, b| a[..first(a)] == b[..first(b)]).collect();
    let known: HashMap<&[u8], usize> = match groups.len() {
        0..4 => HashMap::new(),
        _ => tree.children.iter().enumerate().map(|(n, it)| (&body[it.name.clone()], n)).collect(),
    };
    let mut gone = vec![false; tree.children.len()];
    for group in &groups {
        let name = &group[0][..first(group[0])];
        let found = match groups.len() {
            0..4 => tree.children.iter().position(|it| &body[it.name.clone()] == name),
            _ => known.get(name).copied(),
        };
        let Some(found) = found else { continue };
        let below: Vec<&[u8]> = group.iter().filter_map(|it| it.get(name.len() + 1..)).collect();
        if below.len() < group.len() {
            // A file where a folder was.
            gone[found] = true;
            changed = true;
        } else {
            changed |= mark(body, &mut tree.children[found], &below);
        }
    }
    let mut gone = gone.into_iter();
    tree.children.retain(|_| gone.next() != Some(true));
    changed
}

fn write(body: &[u8], tree: &Tree, out: &mut Vec<u8>) {
    out.extend_from_slice(&body[tree.name.clone()]);
    out.push(0);
    out.extend_from_slice(tree.entries.as_ref().map_or(b"-1", |it| &body[it.clone()]));
    out.push(b' ');
    out.extend_from_slice(tree.children.len().to_string().as_bytes());
    out.push(b'\n');
    if tree.entries.is_some() {
        out.extend_from_slice(&body[tree.id.clone()]);
    }
    for child in &tree.children {
        write(body, child, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01234567890123456789";

    fn check(before: &str, paths: &[&str], after: Option<&str>) {
        let paths: Vec<&BStr> = paths.iter().map(|it| BStr::new(*it)).collect();
        let made = invalidated(before.replace('#', ID).as_bytes(), 20, &paths);
        let after = after.map(|it| it.replace('#', ID));
        assert_eq!(made.as_deref().map(BStr::new), after.as_deref().map(BStr::new), "{paths:?}");
    }

    #[test]
    fn the_way_to_a_path_is_marked() {
        let all = "\x006 2\n#b\x001 0\n#aa\x003 1\n#c\x002 0\n#";
        check(all, &["x"], Some("\0-1 2\nb\x001 0\n#aa\x003 1\n#c\x002 0\n#"));
        check(all, &["aa/x"], Some("\0-1 2\nb\x001 0\n#aa\0-1 1\nc\x002 0\n#"));
        check(all, &["aa/c/x", "b/x/y"], Some("\0-1 2\nb\0-1 0\naa\0-1 1\nc\0-1 0\n"));
        check(all, &["aa/cc/x"], Some("\0-1 2\nb\x001 0\n#aa\0-1 1\nc\x002 0\n#"));
        // A file where a folder was, alone and beside what was in it.
        check(all, &["aa"], Some("\0-1 1\nb\x001 0\n#"));
        check(all, &["aa", "aa/c/x", "b"], Some("\0-1 0\n"));
        check(all, &["a", "b/1", "c", "d", "e"], Some("\0-1 2\nb\0-1 0\naa\x003 1\n#c\x002 0\n#"));
    }

    #[test]
    fn what_is_marked_already_stays_as_it_is() {
        check("\0-1 1\nb\0-1 0\n", &["b/x", "c"], None);
        check("", &["b/x"], None);
        check("\x006 0\n#", &[], None);
    }

    #[test]
    fn what_cannot_be_read_goes() {
        for odd in
            ["\x006 1\n#", "\0x 0\n#", "\x006 0\n", "\x006", "\x006 0\n##", "\0-1 99999999\n"]
        {
            check(odd, &["x"], Some(""));
        }
        let deep = "\0-1 1\n".repeat(100_000);
        check(&deep, &["x"], Some(""));
    }
}

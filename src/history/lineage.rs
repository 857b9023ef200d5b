//! What a new file was called before.
//!
//! Takes a commit and one of its parents, says of which vanished file a new one was made. Any
//! thread.
//!
//! **Invariant:** only a file that the commit took away is a source, and of one that came again as
//! it was under another name nothing else was made. A message alone proves nothing.

use std::collections::{HashMap, HashSet};

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::history::error::{GitError, git};
use crate::history::message;
use crate::history::place::Place;
use crate::history::reader::tree_changes;
use crate::vault::VaultPath;

/// Vanished files that are compared line by line.
const MOST_COMPARED: usize = 400;
/// Nothing larger is compared.
const LARGEST: u64 = 1 << 20;
/// As git has it: half of the larger one's bytes are in both.
const ENOUGH: f64 = 0.5;

/// The file that became `path` between the trees `old` and `new` of a parent and the commit `id`.
pub(super) fn source(
    repo: &gix::Repository,
    place: &Place,
    id: ObjectId,
    (old, new): (ObjectId, ObjectId),
    path: &VaultPath,
) -> Result<Option<VaultPath>, GitError> {
    let (mut gone, mut made) = (Vec::new(), HashMap::new());
    let mut this = None;
    for (rela, before, after) in tree_changes(repo, Some(old), Some(new))? {
        let Some(changed) = place.vault_path(rela.as_ref()) else { continue };
        match (before, after) {
            (Some(before), None) if is_file(before.1) => gone.push((changed, before.0)),
            (None, Some(after)) if is_file(after.1) => {
                if changed == *path {
                    this = Some(after.0);
                } else {
                    made.insert(changed, after.0);
                }
            }
            _ => {}
        }
    }
    let Some(this) = this.filter(|_| !gone.is_empty()) else { return Ok(None) };
    let told = told(repo, id)?;
    let is_gone = |it: &VaultPath| gone.iter().any(|gone| gone.0 == *it);
    if let Some((source, _)) = told.iter().find(|it| it.1 == *path && is_gone(&it.0)) {
        return Ok(Some(source.clone()));
    }
    // What became another file did not become this one.
    let became: HashSet<&VaultPath> =
        told.iter().filter(|it| made.contains_key(&it.1)).map(|it| &it.0).collect();
    gone.retain(|it| !became.contains(&it.0));
    if !this.is_empty_blob() {
        let same: Vec<_> = gone.iter().filter(|it| it.1 == this).collect();
        let by_name = same.iter().find(|it| it.0.file_name() == path.file_name());
        if let Some((source, _)) = by_name.or(same.first()) {
            return Ok(Some(source.clone()));
        }
    }
    let elsewhere: HashSet<ObjectId> = made.into_values().collect();
    gone.retain(|it| !elsewhere.contains(&it.1));
    most_alike(repo, this, gone)
}

/// The files that `path` may have become between the trees of a parent and the commit `id`: those of
/// which [`source`] says that they were made of it.
pub(super) fn heirs(
    repo: &gix::Repository,
    place: &Place,
    id: ObjectId,
    (old, new): (ObjectId, ObjectId),
    path: &VaultPath,
) -> Result<Vec<VaultPath>, GitError> {
    let mut was = None;
    let mut made = Vec::new();
    for (rela, before, after) in tree_changes(repo, Some(old), Some(new))? {
        let Some(changed) = place.vault_path(rela.as_ref()) else { continue };
        match (before, after) {
            (Some(before), None) if changed == *path => was = Some(before.0),
            (None, Some(after)) if is_file(after.1) => made.push((changed, after.0)),
            _ => {}
        }
    }
    let Some(was) = was else { return Ok(Vec::new()) };
    let told = told(repo, id)?;
    let told_heirs = made.iter().filter(|it| told.contains(&(path.clone(), it.0.clone())));
    let told_heirs: Vec<VaultPath> = told_heirs.map(|it| it.0.clone()).collect();
    if !told_heirs.is_empty() {
        return Ok(told_heirs);
    }
    // What was made of another file was not made of this one.
    made.retain(|it| !told.iter().any(|told| told.1 == it.0));
    let same: Vec<VaultPath> = made
        .iter()
        .filter(|it| it.1 == was && !was.is_empty_blob())
        .map(|it| it.0.clone())
        .collect();
    if !same.is_empty() {
        let by_name: Vec<VaultPath> =
            same.iter().filter(|it| it.file_name() == path.file_name()).cloned().collect();
        return Ok(if by_name.len() == 1 { by_name } else { same });
    }
    let mut heirs = Vec::new();
    let Some(text) = small_text(repo, was)? else { return Ok(heirs) };
    for (other, blob) in made.into_iter().take(MOST_COMPARED) {
        let Some(now) = small_text(repo, blob)? else { continue };
        if likeness(&text, &now) >= ENOUGH
            && source(repo, place, id, (old, new), &other)?.as_ref() == Some(path)
        {
            heirs.push(other);
        }
    }
    Ok(heirs)
}

fn is_file(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Blob | EntryKind::BlobExecutable | EntryKind::Link)
}

/// The renames that the commit's message tells of: old path, new path.
pub(super) fn told(
    repo: &gix::Repository,
    id: ObjectId,
) -> Result<Vec<(VaultPath, VaultPath)>, GitError> {
    let commit = git("read a commit", repo.find_commit(id))?;
    let parsed = message::parse(git("read a commit", commit.message_raw())?);
    Ok(message::renames(&parsed))
}

/// The vanished file with the most lines of this one.
fn most_alike(
    repo: &gix::Repository,
    this: ObjectId,
    gone: Vec<(VaultPath, ObjectId)>,
) -> Result<Option<VaultPath>, GitError> {
    let Some(text) = small_text(repo, this)? else { return Ok(None) };
    let mut best = (ENOUGH, None);
    for (path, id) in gone.into_iter().take(MOST_COMPARED) {
        let Some(other) = small_text(repo, id)? else { continue };
        let likeness = likeness(&other, &text);
        if likeness >= best.0 && (best.1.is_none() || likeness > best.0) {
            best = (likeness, Some(path));
        }
    }
    Ok(best.1)
}

/// Nothing where it is empty, too large, or not here.
fn small_text(repo: &gix::Repository, id: ObjectId) -> Result<Option<Vec<u8>>, GitError> {
    match git("read a blob", repo.try_find_header(id))? {
        Some(header) if (1..=LARGEST).contains(&header.size()) => {
            Ok(Some(git("read a blob", repo.find_blob(id))?.detach().data))
        }
        _ => Ok(None),
    }
}

/// The share of the larger one's bytes that stand in lines of both.
pub(super) fn likeness(a: &[u8], b: &[u8]) -> f64 {
    let larger = a.len().max(b.len());
    // Too different in length to have half in common.
    if a.len().min(b.len()) * 2 < larger {
        return 0.0;
    }
    let mut lines = HashMap::<&[u8], usize>::new();
    for line in a.split_inclusive(|it| *it == b'\n') {
        *lines.entry(line).or_default() += 1;
    }
    let mut common = 0;
    for line in b.split_inclusive(|it| *it == b'\n') {
        if let Some(left) = lines.get_mut(line).filter(|it| **it > 0) {
            *left -= 1;
            common += line.len();
        }
    }
    common as f64 / larger.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeness_is_the_share_of_common_lines() {
        let check = |a: &str, b: &str, expected: f64| {
            let found = likeness(a.as_bytes(), b.as_bytes());
            assert!((found - expected).abs() < 1e-9, "{a:?} {b:?}: {found}");
        };
        check("a\nb\n", "a\nb\n", 1.0);
        check("a\nb\n", "b\nc\n", 0.5);
        check("a\na\n", "a\nb\n", 0.5);
        check("a\n", "a\nb\nc\n", 0.0);
        check("x\n", "y\n", 0.0);
    }
}

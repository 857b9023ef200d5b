//! What looks like a credential in commits.
//!
//! Takes commits, or a difference between two, gives findings with commit, path and line; each
//! content is looked at once. Any thread.
//!
//! **Invariant:** what was found clean is remembered by content, path and edition of the rules, and
//! by nothing else; what could not be looked at is named.

use std::collections::HashSet;
use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::objs::tree::EntryKind;
use sha2::{Digest as _, Sha256};

use crate::base::fs::{self, PathError};
use crate::base::trouble::told;
use crate::history::error::{GitError, ReadError, git};
use crate::history::reader::{Reader, object_id, tree_changes};
use crate::history::{Ignores, commit_id};
use crate::secrets::{self, Finding};
use crate::vault::change::Entry;
use crate::vault::{CommitId, VaultPath};

/// What is larger is not looked at, and named.
const LARGEST: u64 = 100_000_000;

/// A finding in a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exposed {
    /// The first one that has it.
    pub commit: CommitId,
    pub path: VaultPath,
    pub finding: Finding,
}

/// What a look at many commits gave.
#[derive(Clone, Default, Debug)]
pub struct Exposure {
    /// The oldest first.
    pub found: Vec<Exposed>,
    pub commits: usize,
    /// Contents that were read.
    pub contents: usize,
    /// What could not be looked at, and why.
    pub unread: Vec<(VaultPath, String)>,
}

/// Which commits are looked at.
#[derive(Clone, Debug)]
pub enum Span {
    /// Those of every branch, tag and remote, and of the stash.
    All,
    /// Those that the first have and the second have not, nor any branch of the remote that is
    /// called `remote`, as far as it was seen: what a push would take along.
    Push { new: Vec<CommitId>, known: Vec<CommitId>, remote: String },
}

/// Contents that were found clean, each with its path.
#[derive(Clone, Default, Debug)]
pub struct Clean {
    /// Where they are remembered; nowhere where there is none.
    file: Option<PathBuf>,
    known: HashSet<[u8; KEY]>,
    is_new: bool,
}

const KEY: usize = 16;

impl Clean {
    fn key(path: &VaultPath, id: &gix::oid) -> [u8; KEY] {
        let hash = Sha256::new().chain_update(id.as_bytes()).chain_update(path.as_bytes());
        let mut key = [0; KEY];
        key.copy_from_slice(&hash.finalize()[..KEY]);
        key
    }

    fn head() -> Vec<u8> {
        format!("{}\n", secrets::edition()).into_bytes()
    }

    fn note(&mut self, key: [u8; KEY]) {
        self.is_new |= self.known.insert(key);
    }
}

impl Reader {
    /// The ignore rules, for whoever looks at the disk without the writer's history.
    pub fn ignores(&self) -> Result<Ignores, GitError> {
        Ignores::new(self.repo.to_thread_local(), self.place.clone())
    }

    /// What earlier looks found clean.
    pub fn clean(&self) -> Result<Clean, PathError> {
        let file = self.place.own("looked-at");
        let bytes = fs::read_if_there(&file)?.unwrap_or_default();
        let head = Clean::head();
        let keys = bytes.strip_prefix(head.as_slice()).unwrap_or_default();
        let known = keys.chunks_exact(KEY).filter_map(|it| it.try_into().ok()).collect();
        Ok(Clean { file: Some(file), known, is_new: false })
    }

    /// Remembers what was found clean.
    pub fn keep_clean(&self, clean: &Clean) -> Result<(), PathError> {
        let Some(file) = clean.file.as_ref().filter(|_| clean.is_new) else { return Ok(()) };
        let mut bytes = Clean::head();
        clean.known.iter().for_each(|it| bytes.extend_from_slice(it));
        self.place.keep(file, &bytes)
    }

    /// What looks like a credential in `path` with this content; none where it was found clean.
    pub fn leaks_in(
        &self,
        path: &VaultPath,
        entry: Entry,
        clean: &mut Clean,
    ) -> Result<Result<Vec<Finding>, String>, ReadError> {
        let repo = self.repo.to_thread_local();
        let Some(id) = object_id(entry.blob.as_bytes()) else { return Ok(Ok(Vec::new())) };
        Ok(look(&repo, path, id, clean)?.1)
    }

    /// Looks at commits, the oldest first. `tell` hears how many of them are done and may end it.
    pub fn exposure(
        &self,
        span: &Span,
        clean: &mut Clean,
        tell: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<Exposure, ReadError> {
        let repo = self.repo.to_thread_local();
        let mut exposure = Exposure::default();
        let mut seen = HashSet::new();
        let mut named = HashSet::new();
        let commits = commits(&repo, span)?;
        for (done, id) in commits.iter().enumerate() {
            if !tell(done, commits.len()) {
                break;
            }
            exposure.commits += 1;
            let commit = git("read a commit", repo.find_commit(*id))?;
            let tree = git("read a commit", commit.tree_id())?.detach();
            // The parent of a shallow clone's first commit is not there: then all of it is new.
            let parent = commit.parent_ids().next().map(|it| it.detach());
            let old = parent.and_then(|it| repo.find_commit(it).ok()?.tree_id().ok());
            for (rela, old, new) in tree_changes(&repo, old.map(|it| it.detach()), Some(tree))? {
                let (Some(path), Some((blob, kind))) = (self.place.vault_path(rela.as_bstr()), new)
                else {
                    continue;
                };
                let is_file =
                    matches!(kind, EntryKind::Blob | EntryKind::BlobExecutable | EntryKind::Link);
                if !is_file || !seen.insert(Clean::key(&path, &blob)) {
                    continue;
                }
                let (is_read, leaks) = look(&repo, &path, blob, clean)?;
                exposure.contents += usize::from(is_read);
                match leaks {
                    Ok(findings) if findings.is_empty() => {}
                    Ok(mut findings) => {
                        // What was there before came with another commit.
                        if let Some((old, _)) = old
                            && let Ok(before) = look(&repo, &path, old, clean)?.1
                        {
                            findings.retain(|it| !before.iter().any(|old| old.is_same(it)));
                        }
                        for finding in findings {
                            if named.insert((path.clone(), finding.identity()))
                                && let Some(commit) = commit_id(id)
                            {
                                exposure.found.push(Exposed {
                                    commit,
                                    path: path.clone(),
                                    finding,
                                });
                            }
                        }
                    }
                    Err(why) => exposure.unread.push((path, why)),
                }
            }
        }
        Ok(exposure)
    }
}

/// Looks at one content; says whether it was read.
fn look(
    repo: &gix::Repository,
    path: &VaultPath,
    id: ObjectId,
    clean: &mut Clean,
) -> Result<(bool, Result<Vec<Finding>, String>), GitError> {
    let key = Clean::key(path, &id);
    if clean.known.contains(&key) {
        return Ok((false, Ok(Vec::new())));
    }
    let header = match repo.try_find_header(id) {
        Ok(Some(header)) => header,
        // A partial clone left it with its remote; nothing is fetched for a look.
        Ok(None) => return Ok((false, Err("its content is not here".to_owned()))),
        Err(err) => return Ok((false, Err(told(&err)))),
    };
    if header.size() > LARGEST {
        return Ok((false, Err(format!("{} MB are too much", header.size() / 1_000_000))));
    }
    let blob = match repo.find_blob(id) {
        Ok(blob) => blob,
        Err(err) => return Ok((false, Err(told(&err)))),
    };
    let findings = secrets::scan(path.as_bytes(), &blob.data);
    if findings.is_empty() {
        clean.note(key);
    }
    Ok((true, Ok(findings)))
}

/// The commits of the span, the oldest first.
fn commits(repo: &gix::Repository, span: &Span) -> Result<Vec<ObjectId>, ReadError> {
    let ids = |all: &[CommitId]| -> Vec<ObjectId> {
        all.iter().filter_map(|it| object_id(it.as_bytes())).collect()
    };
    let (tips, known) = match span {
        Span::All => (tips(repo, |name| !name.starts_with(b"refs/remd/"))?, Vec::new()),
        Span::Push { new, known, remote } => {
            let folder = format!("refs/remotes/{remote}/");
            let seen = tips(repo, |name| name.starts_with(folder.as_bytes()))?;
            (ids(new), ids(known).into_iter().chain(seen).collect())
        }
    };
    // What a remote has and we have not says nothing of what is new.
    let known: Vec<ObjectId> =
        known.into_iter().filter(|it| repo.find_commit(*it).is_ok()).collect();
    let order = gix::revision::walk::Sorting::ByCommitTime(Default::default());
    let walk = repo.rev_walk(tips).with_hidden(known).sorting(order).all();
    let mut commits = Vec::new();
    for step in git("walk the commits", walk)? {
        commits.push(git("walk the commits", step)?.id);
    }
    commits.reverse();
    Ok(commits)
}

/// The commits that references with such names stand at; HEAD is one of them.
fn tips(
    repo: &gix::Repository,
    is_meant: impl Fn(&[u8]) -> bool,
) -> Result<Vec<ObjectId>, GitError> {
    let head = repo.head_id().map(gix::Id::detach).ok().filter(|_| is_meant(b"HEAD"));
    let mut tips: Vec<ObjectId> = head.into_iter().collect();
    let all = git("read the references", repo.references())?;
    for reference in git("read the references", all.all())?.filter_map(Result::ok) {
        if is_meant(reference.name().as_bstr()) {
            tips.extend(reference.into_fully_peeled_id().ok().map(gix::Id::detach));
        }
    }
    // A tag may name a blob or a tree.
    tips.retain(|it| repo.find_header(*it).is_ok_and(|it| it.kind() == gix::object::Kind::Commit));
    Ok(tips)
}

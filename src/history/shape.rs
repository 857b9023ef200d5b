//! What kind of repository a vault lies in, for people.
//!
//! Takes a vault, gives what somebody should know before and while remd commits there. Any thread.

use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;

use crate::history::error::git;
use crate::history::find::{OpenError, find};
use crate::history::{reader, refs};

/// The kind of a repository, as far as it makes a difference.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Short; `None` while detached.
    pub branch: Option<String>,
    pub has_commits: bool,
    /// The repository above, where the vault is a folder in it.
    pub above: Option<PathBuf>,
    pub is_linked: bool,
    pub is_sparse: bool,
    pub is_shallow: bool,
    /// Contents may be missing that only the remote has.
    pub is_partial: bool,
    pub is_sha256: bool,
}

/// The kind of the repository that holds `root`.
pub fn shape(root: &Path) -> Result<Shape, OpenError> {
    let (repo, place) = find(root)?;
    let head = refs::read_head(&repo)?;
    let settings = repo.config_snapshot();
    Ok(Shape {
        branch: head.branch.map(|it| reader::short_branch(it.as_bstr())),
        has_commits: head.commit.is_some(),
        above: (!place.prefix.is_empty()).then(|| place.workdir.clone()),
        is_linked: place.git_dir != place.common_dir,
        is_sparse: settings.boolean("core.sparseCheckout").unwrap_or(false),
        is_shallow: git("read what a shallow clone left out", repo.is_shallow())?,
        is_partial: is_partial(&repo),
        is_sha256: repo.object_hash() != gix::hash::Kind::Sha1,
    })
}

/// Whether a remote has promised to keep what is not here.
pub(super) fn is_partial(repo: &gix::Repository) -> bool {
    let settings = repo.config_snapshot();
    let remotes = settings.plumbing().sections_by_name("remote").into_iter().flatten();
    let is_promised = remotes.filter_map(|it| it.value("promisor")).any(|it| it != "false");
    is_promised || settings.string("extensions.partialClone").is_some()
}

impl Shape {
    /// A line for each thing worth knowing.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![match (&self.branch, self.has_commits) {
            (Some(branch), true) => format!("commits go to the branch `{branch}`"),
            (Some(branch), false) => format!("the branch `{branch}` has no commit yet"),
            (None, _) => "HEAD is on no branch: commits wait until it is on one".to_owned(),
        }];
        if let Some(above) = &self.above {
            lines.push(format!(
                "a folder of the repository at `{}`: nothing outside it is committed",
                above.display()
            ));
        }
        let kinds = [
            (self.is_linked, "a linked work tree: the repository itself is elsewhere"),
            (self.is_sparse, "a sparse checkout: what is left out is not taken for deleted"),
            (self.is_shallow, "a shallow clone: older history is not here"),
            (self.is_partial, "a partial clone: nothing is fetched, what is missing stays so"),
            (self.is_sha256, "object ids are SHA-256"),
        ];
        lines.extend(kinds.into_iter().filter(|it| it.0).map(|it| it.1.to_owned()));
        lines
    }
}

//! Keeps what looks like a credential off the branch.
//!
//! Takes what a look found to commit, takes out each file with something in it that looks like a
//! credential, is new and not allowed; the others go on. What is taken out is kept in `wip`, named,
//! and looked at again with every look. Committer thread only.
//!
//! **Invariant:** what HEAD has already holds nothing back, and nothing that HEAD has is taken out
//! of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::error::{GitError, git};
use crate::history::kept::Kept;
use crate::history::look::Version;
use crate::history::seen::Seen;
use crate::history::snapshot::Batch;
use crate::history::{History, Snapshot};
use crate::secrets::{Allowance, Finding, Policy, new_findings};
use crate::vault::VaultPath;

/// What becomes of files with something that looks like a credential.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    pub policy: Policy,
    pub allowance: Allowance,
}

/// What files were found to hold that every look asks for.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<VaultPath, (Seen, Version, Vec<Finding>)>);

impl Known {
    /// What was found, if the file still is the one that was read.
    pub fn of(&self, path: &VaultPath, seen: &Seen) -> Option<(Version, &[Finding])> {
        let (then, version, findings) = self.0.get(path)?;
        then.is_same(seen).then_some((*version, findings.as_slice()))
    }

    pub fn remember(
        &mut self,
        path: VaultPath,
        seen: Seen,
        version: Version,
        findings: Vec<Finding>,
    ) {
        self.0.insert(path, (seen, version, findings));
    }

    /// Other settings may turn the same file into another content.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    fn keep(&mut self, held: &BTreeSet<VaultPath>) {
        self.0.retain(|path, _| held.contains(path));
    }
}

/// What was taken out of a batch.
#[derive(Default)]
pub(super) struct HeldBack {
    pub versions: BTreeMap<VaultPath, Version>,
    /// Both halves of a rename, so that the next look finds them together.
    pub paths: BTreeSet<VaultPath>,
}

impl History {
    /// Takes out of the batch what looks like a credential and is not in HEAD.
    pub(super) fn hold_leaks(
        &mut self,
        batch: &mut Batch,
        leaks: BTreeMap<VaultPath, Vec<Finding>>,
        snapshot: &mut Snapshot,
    ) -> Result<HeldBack, GitError> {
        let mut held = HeldBack::default();
        for (path, found) in leaks {
            let Some(touched) = batch.changes.get(&path) else { continue };
            let source = batch.renames.iter().find(|it| it.1 == path).map(|it| it.0.clone());
            let renamed = source.as_ref().and_then(|it| batch.changes.get(it));
            let old = renamed.and_then(|it| it.old).or(touched.old);
            let old = match old {
                Some((id, _)) => Some(git("read a note", self.repo.find_blob(id))?.detach().data),
                None => None,
            };
            let allowance = &self.options.secrets.allowance;
            let new = new_findings(path.as_bytes(), old.as_deref(), found, allowance);
            if new.is_empty() {
                continue;
            }
            held.versions.extend(touched.new.map(|it| (path.clone(), it)));
            batch.changes.remove(&path);
            if let Some(source) = source {
                batch.changes.remove(&source);
                let waits = Kept::WaitsFor { path: path.clone() };
                snapshot.kept_out.push((source.clone(), waits));
                held.paths.insert(source);
            }
            snapshot.kept_out.push((path.clone(), Kept::Secret { findings: new }));
            held.paths.insert(path);
        }
        let is_there = |path: &VaultPath| batch.changes.contains_key(path);
        batch.renames.retain(|(old, new)| is_there(old) && is_there(new));
        self.marked.leaks.keep(&held.paths);
        Ok(held)
    }
}

//! What the mount asks of the past.
//!
//! Reads the repository beside whoever writes it. Called from the mount's threads.
//!
//! **Invariant:** nothing is fetched, and nothing is written anywhere.

use std::time::Instant;

use crate::base::trouble::told;
use crate::daemon::desk::Desk;
use crate::history::{Held, LARGEST, ReadError};
use crate::mount::{Past, Stored, Unanswered, Version};
use crate::vault::{BlobId, CommitId, Listing, VaultPath};

impl Past for Desk {
    fn head(&self) -> Option<CommitId> {
        self.house.ledger.get().head.map(|it| it.commit)
    }

    fn moment(&self, name: &str) -> Result<Option<(CommitId, i64)>, Unanswered> {
        let reader = &self.house.reader;
        let found = reader.moment(name).and_then(|it| Ok((it, reader.committed_at(it)?)));
        match found {
            Ok(found) => Ok(Some(found)),
            Err(err) if err.is_not_found() => Ok(None),
            Err(err) => Err(failed(&err)),
        }
    }

    fn folder(
        &self,
        commit: CommitId,
        folder: Option<&VaultPath>,
    ) -> Result<Option<Listing>, Unanswered> {
        self.house.reader.folder(commit, folder).map_err(|err| failed(&err))
    }

    fn size(&self, path: &VaultPath, blob: BlobId) -> Result<Stored, Unanswered> {
        match self.house.reader.past_size(path, blob).map_err(|err| failed(&err))? {
            Held::Size(size) | Held::TooLarge(size) => Ok(Stored::Size(size)),
            Held::Bytes(bytes) => Ok(Stored::Bytes(bytes)),
            Held::LeftOut => Err(left_out()),
        }
    }

    fn bytes(&self, path: &VaultPath, blob: BlobId) -> Result<Vec<u8>, Unanswered> {
        match self.house.reader.past_bytes(path, blob).map_err(|err| failed(&err))? {
            Held::Bytes(bytes) => Ok(bytes),
            Held::LeftOut => Err(left_out()),
            Held::Size(size) | Held::TooLarge(size) => Err(Unanswered::TooLarge(format!(
                "it has {size} bytes, and at most {LARGEST} are held in memory; `git cat-file blob \
                 {blob}` writes it out"
            ))),
        }
    }

    fn versions(
        &self,
        commit: CommitId,
        path: &VaultPath,
        _until: Instant,
    ) -> Result<Vec<Version>, Unanswered> {
        let reader = &self.house.reader;
        let versions = reader.versions_from(commit, path, usize::MAX);
        let versions = versions.map_err(|err| failed(&err))?.into_iter().filter_map(|it| {
            // What a deletion left is nothing to read.
            let blob = it.entry?.blob;
            let when = it.when();
            let day = when.split(' ').next().unwrap_or_default().to_owned();
            Some(Version { commit: it.commit, time: it.time, day, path: it.path, blob })
        });
        Ok(versions.collect())
    }

    fn was_folder(&self, commit: CommitId, folder: &VaultPath) -> Result<bool, Unanswered> {
        let versions = self.house.reader.versions_from(commit, folder, 1);
        Ok(!versions.map_err(|err| failed(&err))?.is_empty())
    }
}

fn left_out() -> Unanswered {
    Unanswered::NotYet("a partial clone has left it with its remote".to_owned())
}

fn failed(err: &ReadError) -> Unanswered {
    Unanswered::Failed(told(err))
}

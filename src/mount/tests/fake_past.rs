//! A faked past: one commit after the other, each of a few files.

use std::time::Instant;

use super::fake::Fake;
use crate::mount::answers::{Past, Stored, Unanswered, Version};
use crate::vault::listing::Found;
use crate::vault::{BlobId, CommitId, Entry, FileMode, Listing, VaultPath};

/// What every commit has: path, mode, text (where a link points).
pub const FILES: &[(&str, FileMode, &str)] = &[
    ("a.md", FileMode::File, "as it was\n"),
    ("d/b.md", FileMode::File, "b\n"),
    ("d/in", FileMode::Symlink, "../a.md"),
    ("d/out", FileMode::Symlink, "../../a.md"),
    ("d/run.sh", FileMode::Executable, "#!/bin/sh\n"),
    (".hidden", FileMode::File, "dot\n"),
];

/// A note that only older commits have.
pub const GONE: &str = "gone/old.md";

/// The commit that HEAD is at after so many moves.
pub fn commit(number: usize) -> CommitId {
    let mut bytes = [0x4f; 20];
    bytes[..8].copy_from_slice(&u64::try_from(number).unwrap().to_be_bytes());
    CommitId::from_bytes(&bytes).unwrap()
}

fn blob(number: usize) -> BlobId {
    BlobId::from_bytes(&[u8::try_from(number).unwrap(); 20]).unwrap()
}

fn text_of(wanted: BlobId) -> &'static str {
    let at = (0..FILES.len()).find(|it| blob(*it) == wanted);
    at.map_or("a version\n", |it| FILES[it].2)
}

impl Past for Fake {
    fn head(&self) -> Option<CommitId> {
        Some(commit(*self.head.lock().unwrap()))
    }

    fn moment(&self, name: &str) -> Result<Option<(CommitId, i64)>, Unanswered> {
        match name {
            "HEAD" | "main" | "feature/x" => Ok(self.head().map(|it| (it, 1_000_000))),
            "first" => Ok(Some((commit(0), 1000))),
            "broken" => Err(Unanswered::Failed("an object is damaged".to_owned())),
            _ => Ok(None),
        }
    }

    fn folder(
        &self,
        _commit: CommitId,
        folder: Option<&VaultPath>,
    ) -> Result<Option<Listing>, Unanswered> {
        self.folders_read.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let prefix = folder.map_or(String::new(), |it| format!("{it}/"));
        let below = FILES.iter().zip(0..).filter_map(|((path, mode, text), number)| {
            let rest = path.strip_prefix(&prefix)?;
            Some(match rest.split_once('/') {
                Some((folder, _)) => (folder.into(), None, None),
                None => {
                    let target = (*mode == FileMode::Symlink).then(|| text.as_bytes().into());
                    (rest.into(), Some(Entry { blob: blob(number), mode: *mode }), target)
                }
            })
        });
        let found: Vec<Found> = below.collect();
        Ok((!found.is_empty()).then(|| Listing::new(found)))
    }

    fn size(&self, path: &VaultPath, blob: BlobId) -> Result<Stored, Unanswered> {
        // One that only its bytes tell the length of.
        match path.file_name() {
            b"b.md" => Ok(Stored::Bytes(text_of(blob).into())),
            _ => Ok(Stored::Size(u64::try_from(text_of(blob).len()).unwrap())),
        }
    }

    fn bytes(&self, _path: &VaultPath, blob: BlobId) -> Result<Vec<u8>, Unanswered> {
        self.blobs_read.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(text_of(blob).into())
    }

    fn versions(
        &self,
        commit: CommitId,
        path: &VaultPath,
        _until: Instant,
    ) -> Result<Vec<Version>, Unanswered> {
        let known = FILES.iter().any(|it| it.0 == path.to_string()) || path.to_string() == GONE;
        let version = |day: &str, number| Version {
            commit,
            time: 1000,
            day: day.to_owned(),
            path: path.clone(),
            blob: blob(number),
        };
        Ok(match known {
            true => vec![version("2026-06-02", 101), version("2026-06-01", 100)],
            false => Vec::new(),
        })
    }

    fn was_folder(&self, _commit: CommitId, folder: &VaultPath) -> Result<bool, Unanswered> {
        Ok(GONE.starts_with(&format!("{folder}/")))
    }
}

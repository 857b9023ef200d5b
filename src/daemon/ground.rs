//! Where a vault lies, and what a person should know of that.
//!
//! Takes the vault's folder; gives notes for `up`, `status` and `--dry-run`: another machine's
//! disk, a folder that a sync program carries between machines, a shallow clone. Blocking, a few
//! looks at the disk.
//!
//! **Invariant:** a note, never a refusal: what is only likely must not keep anybody out.

use std::path::Path;

use crate::base::fs;
use crate::daemon::problems::{Level, Problems};
use crate::history;
use crate::watch::{self, Remote};

/// Something to know, with what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub id: &'static str,
    pub what: String,
    pub remedy: String,
}

/// How a program that syncs folders is recognised.
struct Cloud {
    name: &'static str,
    /// Files and folders that it puts into the folder it syncs; one `*` stands for any letters.
    marks: &'static [&'static str],
    /// What its folder is called if nobody names it otherwise; also the beginning of
    /// `OneDrive - Company`.
    folders: &'static [&'static str],
}

const CLOUDS: &[Cloud] = &[
    Cloud { name: "Dropbox", marks: &[".dropbox", ".dropbox.cache"], folders: &["Dropbox"] },
    Cloud { name: "OneDrive", marks: &[".OneDrive-Share"], folders: &["OneDrive"] },
    Cloud {
        name: "Google Drive",
        marks: &[".tmp.drivedownload", ".tmp.driveupload", ".gd"],
        folders: &["Google Drive", "GoogleDrive", "My Drive"],
    },
    Cloud {
        name: "iCloud Drive",
        marks: &[],
        folders: &["Mobile Documents", "iCloud Drive", "iCloudDrive", "com~apple~CloudDocs"],
    },
    Cloud {
        name: "Nextcloud",
        marks: &[".sync_*.db", "._sync_*.db", ".nextcloudsync.log"],
        folders: &["Nextcloud"],
    },
    Cloud {
        name: "ownCloud",
        marks: &[".csync_journal.db", ".owncloudsync.log"],
        folders: &["ownCloud"],
    },
    Cloud { name: "Syncthing", marks: &[".stfolder"], folders: &[] },
    Cloud { name: "pCloud", marks: &[], folders: &["pCloudDrive", "pCloud Drive", "pCloud Sync"] },
    Cloud { name: "MEGA", marks: &[".megaignore", ".debris"], folders: &["MEGA", "MEGAsync"] },
    Cloud { name: "Resilio Sync", marks: &[".sync/ID", ".SyncID"], folders: &["Resilio Sync"] },
    Cloud { name: "Seafile", marks: &["seafile-ignore.txt"], folders: &["Seafile"] },
    Cloud { name: "Box", marks: &[], folders: &["Box Sync"] },
];

/// What there is to know of the vault at `root`.
pub fn of(root: &Path) -> Vec<Note> {
    let mut notes = Vec::new();
    notes.extend(watch::remote_of(root).map(|it| remote_note(root, &it)));
    notes.extend(cloud_of(root).map(|(name, at)| cloud_note(name, at)));
    // A repository that cannot be opened is refused elsewhere, with the reason.
    if history::shape(root).is_ok_and(|it| it.is_shallow) {
        notes.push(Note {
            id: "shallow",
            what: "The repository is a shallow clone: history ends where it was cut off".to_owned(),
            remedy: "Nothing is missing for new commits; `git fetch --unshallow` gets the rest."
                .to_owned(),
        });
    }
    notes
}

/// Shows them in `status`, as notes.
pub fn report(problems: &Problems, notes: &[Note]) {
    for note in notes {
        problems.report(note.id, Level::Note, &note.what, &note.remedy);
    }
}

fn remote_note(root: &Path, remote: &Remote) -> Note {
    Note {
        id: "network-disk",
        what: format!(
            "`{}` is on a network file system ({}, {}): writes of other machines raise no event \
             here, so the vault is polled",
            root.display(),
            remote.kind,
            remote.source
        ),
        remedy: "Run remd on the machine that has the disk, or keep the vault on a local disk and \
                 sync it through a Git remote. One agent a vault, whatever the machine."
            .to_owned(),
    }
}

fn cloud_note(name: &str, at: &Path) -> Note {
    Note {
        id: "cloud-folder",
        what: format!(
            "`{}` looks like a folder that {name} syncs: two machines that write to one `.git` \
             mix it up",
            at.display()
        ),
        remedy: format!(
            "Leave `.git` out of what {name} syncs, or run remd on one of the machines only; a \
             Git remote is the safe way between machines."
        ),
    }
}

/// The program that syncs `root` or a folder above it, and that folder.
fn cloud_of(root: &Path) -> Option<(&'static str, &Path)> {
    root.ancestors().filter(|it| it.parent().is_some()).find_map(|at| {
        let names = fs::read_dir(at).unwrap_or_default();
        let names: Vec<_> = names.iter().map(std::fs::DirEntry::file_name).collect();
        let is_marked = |mark: &str| match mark.split_once('/') {
            Some(_) => fs::lstat(&at.join(mark)).is_ok(),
            None => names.iter().any(|it| matches(mark, it.as_encoded_bytes())),
        };
        let called = at.file_name().unwrap_or_default().as_encoded_bytes();
        let is_called = |name: &str| {
            called
                .strip_prefix(name.as_bytes())
                .is_some_and(|it| it.is_empty() || it.starts_with(b" - ") || it.starts_with(b" ("))
        };
        CLOUDS
            .iter()
            .find(|it| {
                it.marks.iter().any(|it| is_marked(it)) || it.folders.iter().any(|it| is_called(it))
            })
            .map(|it| (it.name, at))
    })
}

fn matches(pattern: &str, name: &[u8]) -> bool {
    match pattern.split_once('*') {
        None => name == pattern.as_bytes(),
        Some((start, end)) => {
            name.len() >= start.len() + end.len()
                && name.starts_with(start.as_bytes())
                && name.ends_with(end.as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synced_folder_is_known_by_its_marks_and_its_name_upward() {
        let dir = tempfile::tempdir().unwrap();
        let check = |made: &str, vault: &str, expected: Option<&str>| {
            let root = dir.path().join(format!("{made} {vault}").replace(['/', '.'], "_"));
            fs::create_dir_all(&root.join(vault)).unwrap();
            if !made.is_empty() {
                fs::create_dir_all(&root.join(made)).unwrap();
            }
            assert_eq!(cloud_of(&root.join(vault)).map(|it| it.0), expected, "{made} {vault}");
        };
        check("plain", "notes", None);
        check(".stfolder", "notes/deep", Some("Syncthing"));
        check("notes/.stfolder", "notes", Some("Syncthing"));
        check(".dropbox.cache", "notes", Some("Dropbox"));
        check(".sync_0123abc.db", "notes", Some("Nextcloud"));
        check(".sync/ID", "notes", Some("Resilio Sync"));
        check(".megaignore", "notes", Some("MEGA"));
        check("x1", "Dropbox/notes", Some("Dropbox"));
        check("x2", "OneDrive - Example AG/notes", Some("OneDrive"));
        check("x3", "Library/Mobile Documents/notes", Some("iCloud Drive"));
        check("x4", "Nextcloud", Some("Nextcloud"));
        check("x5", "pCloudDrive/notes", Some("pCloud"));
        check("x6", "ownCloud/notes", Some("ownCloud"));
        check("x7", "Google Drive/notes", Some("Google Drive"));
        check("x8", "Dropboxes/notes", None);
    }

    /// Every word that a person needs: what it is, where, and what to do.
    #[test]
    fn a_note_has_its_remedy() {
        let remote = Remote { kind: "nfs4".into(), source: "server:/x".into() };
        let note = remote_note(Path::new("/v"), &remote);
        assert!(note.what.contains("nfs4, server:/x") && note.remedy.contains("Git remote"));
        let note = cloud_note("Syncthing", Path::new("/s"));
        assert!(note.what.contains("`/s`") && note.remedy.contains("`.git` out of what Syncthing"));
    }
}

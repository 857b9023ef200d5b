//! Notes on the disk, as a commit would have them.
//!
//! Takes vault paths, gives the text of those that are ordinary files and would be committed as they
//! stand: neither ignored, nor behind a symlink or in another repository, nor made into something
//! else by a filter. Any thread.
//!
//! **Invariant:** nothing is written, no program is started, and what cannot be had at once is left
//! to the commit.

use std::collections::HashMap;
use std::fs::Metadata;
use std::sync::Arc;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use crate::base::fs;
use crate::base::process::Stop;
use crate::history::drivers::{Drivers, Limits};
use crate::history::error::{ReadError, git};
use crate::history::filters::{Cleaning, Filtered, Filters};
use crate::history::ignores::Ignores;
use crate::history::reader::Reader;
use crate::history::seen::Seen;
use crate::vault::{BlobId, VaultPath};

/// A note that no commit need have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    pub path: VaultPath,
    pub state: FileState,
    /// What it says; `None` where that is surely what it said at an earlier look.
    pub text: Option<DraftText>,
}

/// What a draft says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DraftText {
    /// What Git would call it.
    pub blob: BlobId,
    pub bytes: Vec<u8>,
}

/// What the disk said of a file, beside its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileState(Seen);

impl FileState {
    pub fn of(meta: &Metadata) -> Self {
        Self(Seen::new(meta))
    }

    /// Whether a file that looks like `now` surely has the content that it had then.
    pub fn proves(&self, now: &Self) -> bool {
        self.0.proves(&now.0)
    }
}

/// A longer file waits for its commit.
pub const LONGEST_DRAFT: u64 = 1 << 20;

impl Reader {
    /// What the disk has at these paths. Git need not know a path that `is_known` knows to take a
    /// file that it ignores otherwise. What vanishes or changes meanwhile is left out; what surely is
    /// as it was at an earlier look, of which `had` knows the state, is not read.
    pub fn drafts<'a>(
        &self,
        paths: impl Iterator<Item = &'a VaultPath>,
        is_known: &dyn Fn(&VaultPath) -> bool,
        had: &dyn Fn(&VaultPath) -> Option<FileState>,
    ) -> Result<Vec<Draft>, ReadError> {
        let repo = self.repo.to_thread_local();
        let mut filters = Filters::new(&repo, &gix::index::State::new(repo.object_hash()))?;
        // No driver is asked.
        let mut drivers = Drivers::new(&self.place, Limits::default(), &Stop::default());
        let mut ignores = Ignores::new(repo.clone(), self.place.clone())?;
        let mut ways = HashMap::new();
        let mut drafts = Vec::new();
        for path in paths {
            if !self.is_open(path, &mut ways)
                || (!is_known(path) && ignores.is_ignored(path, false))
            {
                continue;
            }
            let on_disk = self.place.disk(path);
            let rela = self.place.rela(path);
            let rules = filters.rules(rela.as_bstr())?;
            let Ok(file) = fs::open_regular(&on_disk) else { continue };
            let Ok(meta) = file.metadata() else { continue };
            if !rules.is_plain() || meta.len() > LONGEST_DRAFT {
                continue;
            }
            let state = FileState::of(&meta);
            if had(path).is_some_and(|it| it.proves(&state)) {
                drafts.push(Draft { path: path.clone(), state, text: None });
                continue;
            }
            let job = Cleaning {
                rela: rela.as_bstr(),
                file: &Arc::new(file),
                seen: &state.0,
                size: meta.len(),
                limit: LONGEST_DRAFT,
            };
            let Filtered::Bytes(bytes) = filters.to_git(&rules, job, &mut drivers, &mut || None)
            else {
                continue;
            };
            let kind = gix::objs::Kind::Blob;
            let id: ObjectId =
                git("hash a file", gix::objs::compute_hash(repo.object_hash(), kind, &bytes))?;
            if let Some(blob) = BlobId::from_bytes(id.as_bytes()) {
                let text = Some(DraftText { blob, bytes });
                drafts.push(Draft { path: path.clone(), state, text });
            }
        }
        Ok(drafts)
    }

    /// Whether only folders of the vault lead to a path.
    fn is_open(&self, path: &VaultPath, known: &mut HashMap<VaultPath, bool>) -> bool {
        let Some(folder) = path.parent() else { return true };
        if let Some(known) = known.get(&folder) {
            return *known;
        }
        let on_disk = self.place.disk(&folder);
        let is_open = self.is_open(&folder, known)
            && fs::lstat(&on_disk).is_ok_and(|it| it.is_dir())
            && fs::lstat_if_there(&on_disk.join(".git")).is_ok_and(|it| it.is_none());
        known.insert(folder, is_open);
        is_open
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::history::{History, Options};

    #[test]
    fn only_what_a_commit_would_have_as_it_stands() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("vault");
        let at = |name: &str| root.join(name);
        create_dir_all(at("sub/nested/.git")).unwrap();
        create_dir_all(dir.path().join("elsewhere")).unwrap();
        write(dir.path().join("elsewhere/far.md"), "far").unwrap();
        write(at("sub/nested/n.md"), "n").unwrap();
        write(at("sub/note.md"), "note\n").unwrap();
        write(at("private.md"), "private").unwrap();
        write(at("known.md"), "known").unwrap();
        write(at("secret.md"), "secret").unwrap();
        write(at("lines.md"), "a\r\nb\r\n").unwrap();
        write(at("long.md"), vec![b'x'; 2 << 20]).unwrap();
        write(at(".gitignore"), "private.md\nknown.md\n").unwrap();
        write(at(".gitattributes"), "secret.md filter=git-crypt\nlines.md text\n").unwrap();
        symlink(at("sub/note.md"), at("link.md")).unwrap();
        symlink(dir.path().join("elsewhere"), at("out")).unwrap();
        History::init(&root, &Options::default()).unwrap();
        let reader = Reader::open(&root).unwrap();
        let names = [
            "sub/note.md",
            "sub/nested/n.md",
            "private.md",
            "known.md",
            "secret.md",
            "lines.md",
            "long.md",
            "link.md",
            "out/far.md",
            "gone.md",
            "sub",
        ];
        let paths: Vec<VaultPath> = names.iter().map(|it| VaultPath::new(it).unwrap()).collect();
        let is_known = |it: &VaultPath| it.as_bytes() == b"known.md";
        let look = |had: &dyn Fn(&VaultPath) -> Option<FileState>| {
            reader.drafts(paths.iter(), &is_known, had).unwrap()
        };
        let text = |it: &Draft| it.text.clone().map(|it| it.bytes);
        let drafts = look(&|_| None);
        let found: Vec<(String, Vec<u8>)> =
            drafts.iter().map(|it| (it.path.to_string(), text(it).unwrap())).collect();
        assert_eq!(
            found,
            [
                ("sub/note.md".to_owned(), b"note\n".to_vec()),
                ("known.md".to_owned(), b"known".to_vec()),
                ("lines.md".to_owned(), b"a\nb\n".to_vec()),
            ]
        );
        // printf 'note\n' | git hash-object --stdin
        let blob = drafts[0].text.as_ref().unwrap().blob.to_string();
        assert_eq!(blob, "519dd581e50e5b45d3b3c76c3172e9c3ec293488");
        // What is surely as it was is not read again, and what is ignored by now is none.
        let states = |drafts: &[Draft]| -> HashMap<VaultPath, FileState> {
            drafts.iter().map(|it| (it.path.clone(), it.state)).collect()
        };
        let is_still = || Seen::new(&fs::lstat(&at("known.md")).unwrap()).tick_left().is_none();
        while !is_still() {
            std::thread::yield_now();
        }
        let drafts = look(&|_| None);
        let had = states(&drafts);
        write(at("known.md"), "known, and longer").unwrap();
        write(at(".gitignore"), "private.md\nknown.md\nlines.md\n").unwrap();
        let again = look(&|it| had.get(it).copied());
        let found: Vec<_> = again.iter().map(|it| (it.path.to_string(), text(it))).collect();
        let longer = b"known, and longer".to_vec();
        assert_eq!(found, [("sub/note.md".into(), None), ("known.md".into(), Some(longer))]);
    }
}

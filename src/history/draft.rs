//! Notes on the disk, as a commit would have them.
//!
//! Takes vault paths, gives the text of those that are ordinary files and would be committed as they
//! stand: neither ignored, nor behind a symlink or in another repository, nor made into something
//! else by a filter. Any thread.
//!
//! **Invariant:** nothing is written, no program is started, and what cannot be had at once is left
//! to the commit.

use std::collections::HashMap;
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
    /// What Git would call it.
    pub blob: BlobId,
    pub bytes: Vec<u8>,
}

/// A longer file waits for its commit.
const LONGEST: u64 = 1 << 20;

impl Reader {
    /// What the disk has at these paths. Git need not know a path that `is_known` knows to take a
    /// file that it ignores otherwise. What vanishes or changes meanwhile is left out.
    pub fn drafts<'a>(
        &self,
        paths: impl Iterator<Item = &'a VaultPath>,
        is_known: &dyn Fn(&VaultPath) -> bool,
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
            if !rules.is_plain() || meta.len() > LONGEST {
                continue;
            }
            let job = Cleaning {
                rela: rela.as_bstr(),
                file: &Arc::new(file),
                seen: &Seen::new(&meta),
                size: meta.len(),
                limit: LONGEST,
            };
            let Filtered::Bytes(bytes) = filters.to_git(&rules, job, &mut drivers, &mut || None)
            else {
                continue;
            };
            let kind = gix::objs::Kind::Blob;
            let id: ObjectId =
                git("hash a file", gix::objs::compute_hash(repo.object_hash(), kind, &bytes))?;
            if let Some(blob) = BlobId::from_bytes(id.as_bytes()) {
                drafts.push(Draft { path: path.clone(), blob, bytes });
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
        let drafts = reader.drafts(paths.iter(), &|it| it.as_bytes() == b"known.md").unwrap();
        let found: Vec<(String, &[u8])> =
            drafts.iter().map(|it| (it.path.to_string(), it.bytes.as_slice())).collect();
        assert_eq!(
            found,
            [
                ("sub/note.md".to_owned(), &b"note\n"[..]),
                ("known.md".to_owned(), b"known"),
                ("lines.md".to_owned(), b"a\nb\n"),
            ]
        );
        // printf 'note\n' | git hash-object --stdin
        assert_eq!(drafts[0].blob.to_string(), "519dd581e50e5b45d3b3c76c3172e9c3ec293488");
    }
}

//! The room against the real kernel: a vault in a temp folder, a watcher on it, and what it said.
//!
//! No test sleeps: it flushes, or waits for a state with a limit.

mod edits;
mod failures;
mod folders;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::clock;
use crate::base::latest::Latest;
use crate::vault::VaultPath;
use crate::watch::{Filter, Hints, Watcher};

/// What no state should take longer than, also on a loaded machine.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

pub(super) struct Trial {
    _dir: tempfile::TempDir,
    /// The vault.
    pub root: PathBuf,
    /// A folder beside it, on the same file system.
    pub away: PathBuf,
    pub watcher: Option<Watcher>,
    pub said: Latest<Hints>,
}

impl Trial {
    /// A watched vault in which `prepare` was done first.
    pub fn new(prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(dir.path()).unwrap();
        let (root, away) = (base.join("vault"), base.join("away"));
        std::fs::create_dir(&away).unwrap();
        std::fs::create_dir_all(root.join(".git/refs/heads")).unwrap();
        std::fs::create_dir(root.join(".git/objects")).unwrap();
        std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        prepare(&root);
        let said = Latest::new(Hints::default());
        let watcher = Some(watch(&root, &said));
        Self { _dir: dir, root, away, watcher, said }
    }

    pub fn watcher(&self) -> &Watcher {
        self.watcher.as_ref().unwrap()
    }

    /// Writes a file of the vault, and its folders.
    pub fn write(&self, name: &str, content: &str) {
        write(&self.root.join(name), content);
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.root.join(name)).unwrap();
    }

    pub fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.root.join(from), self.root.join(to)).unwrap();
    }

    /// Everything said since the last call, for what was on disk when this one began.
    pub fn hints(&self) -> Hints {
        assert!(self.watcher().flush(LIMIT), "the marker came by");
        self.taken()
    }

    /// What was said so far.
    pub fn taken(&self) -> Hints {
        let mut taken = Hints::default();
        self.said.update(|it| taken = std::mem::take(it));
        taken
    }

    /// Waits until what was said since the last call is enough.
    pub fn wait(&self, enough: impl Fn(&Hints) -> bool) -> Hints {
        let until = clock::now() + LIMIT;
        loop {
            let (seen, said) = self.said.get_versioned();
            if enough(&said) {
                return self.taken();
            }
            let left = until.saturating_duration_since(clock::now());
            assert!(!left.is_zero(), "not said within {LIMIT:?}; so far {said:?}");
            self.said.wait_newer(seen, left);
        }
    }

    pub fn watches(&self) -> usize {
        self.watcher().stats().watches
    }
}

/// A watcher that looks away from `mem_metadata` and from folders named in the top `.gitignore`.
pub(super) fn watch(root: &Path, said: &Latest<Hints>) -> Watcher {
    let said = said.clone();
    let ignored_root = root.to_owned();
    Watcher::start(
        root,
        &[root.join(".git")],
        Filter::new([path("mem_metadata")]),
        Box::new(move |it| {
            let rules = std::fs::read(ignored_root.join(".gitignore")).unwrap_or_default();
            rules.split(|it| *it == b'\n').any(|line| line == it.file_name())
        }),
        Box::new(move |hints, span| {
            assert!(span.first <= span.last);
            said.update(|it| it.merge(hints.clone()));
        }),
    )
    .unwrap()
}

pub(super) fn path(text: &str) -> VaultPath {
    VaultPath::new(text).unwrap()
}

pub(super) fn write(file: &Path, content: &str) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, content).unwrap();
}

pub(super) fn set_mode(file: &Path, mode: u32) {
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

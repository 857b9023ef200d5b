//! Room tests, against real git: the fixture, and what every test asks in the end.

mod bulk;
mod coexist;
mod commits;
mod crash;
mod departed;
mod filters;
mod forget;
mod guests;
mod held;
mod index;
mod leaks;
mod marked;
mod model;
mod model_people;
mod odd;
mod packing;
mod past;
mod path_log;
mod people;
mod purge;
mod reading;
mod refusals;
mod shapes;
mod sparse;
mod swap;
mod undo;
mod undo_model;
mod x509;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::history::*;
use crate::vault::VaultPath;

/// A vault of its own in a temp folder, with its history open.
pub(super) struct Vault {
    pub dir: tempfile::TempDir,
    pub root: PathBuf,
    pub options: Options,
    pub history: Option<History>,
}

impl Vault {
    /// A fresh repository, opened.
    pub fn new() -> Self {
        let vault = Self::plain();
        History::init(&vault.root, &vault.options).unwrap();
        vault.opened()
    }

    /// A repository that git made, not opened yet.
    pub fn by_git(arguments: &[&str]) -> Self {
        let vault = Self::plain();
        let mut all = vec!["init", "-q"];
        all.extend_from_slice(arguments);
        vault.git(&all);
        vault
    }

    pub fn plain() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("vault");
        std::fs::create_dir(&root).unwrap();
        let options = Options { host: "testhost".into(), ..Options::default() };
        Self { dir, root, options, history: None }
    }

    pub fn opened(mut self) -> Self {
        self.reopen();
        self
    }

    pub fn reopen(&mut self) {
        self.history = None;
        self.history = Some(History::open(&self.root, &self.options).unwrap());
        self.git(&["config", "user.name", "Ada"]);
        self.git(&["config", "user.email", "ada@example.org"]);
    }

    pub fn history(&mut self) -> &mut History {
        self.history.as_mut().unwrap()
    }

    pub fn reader(&self) -> Reader {
        self.history.as_ref().unwrap().reader()
    }

    pub fn write(&self, path: impl AsRef<[u8]>, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn path(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.root.join(OsStr::from_bytes(path.as_ref()))
    }

    pub fn remove(&self, path: impl AsRef<[u8]>) {
        std::fs::remove_file(self.path(path)).unwrap();
    }

    /// Everything that a scan would list.
    pub fn scan(&self) -> Look {
        let mut found = BTreeSet::new();
        walk(&self.root, &self.root, &mut found);
        Look { found, complete_below: vec![None], ..Look::default() }
    }

    pub fn snapshot_all(&mut self) -> Snapshot {
        self.try_snapshot_all().unwrap()
    }

    pub fn try_snapshot_all(&mut self) -> Result<Snapshot, SnapshotError> {
        let look = self.scan();
        self.history().snapshot(&look, &Cause::edit())
    }

    /// A snapshot of the paths that a watcher would name.
    pub fn snapshot(&mut self, paths: &[&str]) -> Snapshot {
        let look = hints(paths);
        self.history().snapshot(&look, &Cause::edit()).unwrap()
    }

    pub fn try_git(&self, arguments: &[&str]) -> Option<String> {
        let output = git_command(&self.root, arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        let output = git_command(&self.root, arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn subject(&self) -> String {
        self.git(&["log", "-1", "--format=%s"]).trim().to_owned()
    }

    pub fn commits(&self) -> usize {
        self.try_git(&["rev-list", "--count", "HEAD"]).map_or(0, |it| it.trim().parse().unwrap())
    }

    /// Nothing left to say for git, and nothing broken.
    pub fn assert_clean(&self) {
        assert_eq!(self.git(&["status", "--porcelain", "-z"]), "", "git status");
        self.assert_sound();
    }

    pub fn assert_sound(&self) {
        let output = git_command(&self.root, &["fsck", "--strict"]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "git fsck: {}", String::from_utf8_lossy(&text));
        assert!(!self.root.join(".git/index.lock").exists());
    }

    /// What HEAD has at a path.
    pub fn committed(&self, path: &str) -> Option<String> {
        self.committed_at("HEAD", path)
    }

    /// What a commit has at a path.
    pub fn committed_at(&self, commit: &str, path: &str) -> Option<String> {
        self.try_git(&["show", &format!("{commit}:{path}")])
    }
}

pub(super) fn git_command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    // What git looks after by itself is over when the command is.
    let at_once = ["-c", "maintenance.autoDetach=false", "-c", "gc.autoDetach=false"];
    command.current_dir(root).args(at_once).args(arguments);
    command.env("GIT_AUTHOR_NAME", "Ada").env("GIT_AUTHOR_EMAIL", "ada@example.org");
    command.env("GIT_COMMITTER_NAME", "Ada").env("GIT_COMMITTER_EMAIL", "ada@example.org");
    command.env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

pub(super) fn hints(paths: &[&str]) -> Look {
    Look { paths: paths.iter().map(vault_path).collect(), ..Look::default() }
}

pub(super) fn vault_path(path: impl AsRef<[u8]>) -> VaultPath {
    VaultPath::new(path).unwrap()
}

fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<VaultPath>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == ".git" {
            continue;
        }
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            if !path.join(".git").exists() {
                walk(root, &path, found);
            }
        } else {
            found.insert(VaultPath::from_os(path.strip_prefix(root).unwrap()).unwrap());
        }
    }
}

//! Random edits, a person's Git, locks and crashes against what must always hold.
//!
//! **Invariant:** whatever a look has seen on the disk is in a commit that some reference or reflog
//! reaches, or still on the disk; what a person staged is as they staged it; git's status names
//! nothing but what the look named; a clean disk is never committed.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::model::{Step, cases, run, step};
use super::*;

/// What happens next.
#[derive(Clone, Debug)]
enum Act {
    Edit(Step),
    Look {
        by_scan: bool,
    },
    Accept,
    Git(&'static [&'static str]),
    /// To one of three branches, made where it is not there.
    Switch(u8),
    With(&'static str, u8),
    Lock(bool),
    Reopen,
    /// A look that is killed at this fault point, if it gets there.
    Crash(u8),
}

const POINTS: [&str; 6] = [
    "committer.before_objects",
    "committer.before_lock",
    "committer.before_ref",
    "committer.in_ref",
    "committer.before_index",
    "committer.after_index",
];

fn act() -> impl Strategy<Value = Act> {
    let git: [&'static [&'static str]; 17] = [
        &["add", "-A"],
        &["add", "a.md"],
        &["add", "d"],
        &["reset", "-q"],
        &["commit", "-qm", "by hand"],
        &["commit", "-qam", "by hand"],
        &["rm", "-qrf", "--ignore-unmatch", "d"],
        &["stash", "-q"],
        &["stash", "-qu"],
        &["stash", "pop", "-q"],
        &["merge", "--abort"],
        &["rebase", "--abort"],
        &["rebase", "--continue"],
        &["reset", "-q", "--hard", "HEAD~1"],
        &["reset", "-q", "--soft", "HEAD~1"],
        &["reset", "-q", "HEAD~1"],
        &["checkout", "-q", "--detach"],
    ];
    prop_oneof![
        10 => step().prop_map(Act::Edit),
        6 => any::<bool>().prop_map(|by_scan| Act::Look { by_scan }),
        1 => Just(Act::Accept),
        6 => (0..git.len()).prop_map(move |at| Act::Git(git[at])),
        2 => (0..3u8).prop_map(Act::Switch),
        1 => (prop_oneof![Just("merge"), Just("rebase")], 0..3u8).prop_map(|it| Act::With(it.0, it.1)),
        1 => any::<bool>().prop_map(Act::Lock),
        1 => Just(Act::Reopen),
        1 => (0..6u8).prop_map(Act::Crash),
    ]
}

/// Run by itself as a child: looks at a vault until a fault point kills it.
#[test]
fn child_that_looks() {
    let Some(root) = std::env::var_os("REMD_TEST_LOOK_VAULT") else { return };
    let mut vault = Vault { root: PathBuf::from(root), ..Vault::plain() };
    vault.options.hold_deletions = policy();
    vault.history = Some(History::open(&vault.root, &vault.options).unwrap());
    let _told = vault.try_snapshot_all();
}

fn policy() -> HoldPolicy {
    HoldPolicy { count: 3, share: 0.5 }
}

type Blob = String;

struct World {
    vault: Vault,
    /// Every content that a look has seen.
    seen: BTreeSet<Blob>,
    /// What changed since the last look, as a watcher would name it.
    hints: BTreeSet<VaultPath>,
}

fn blob(bytes: &[u8]) -> Blob {
    let kind = gix::objs::Kind::Blob;
    gix::objs::compute_hash(gix::hash::Kind::Sha1, kind, bytes).unwrap().to_string()
}

impl World {
    fn new() -> Self {
        let mut vault = Vault::new();
        vault.options.hold_deletions = policy();
        vault.reopen();
        vault.write("first.md", "first\n");
        vault.snapshot_all();
        Self { vault, seen: BTreeSet::new(), hints: BTreeSet::new() }
    }

    /// The blobs on disk, by path.
    fn disk(&self) -> BTreeMap<VaultPath, Blob> {
        let read = |path: &VaultPath| {
            let on_disk = self.vault.root.join(path.as_path());
            match on_disk.is_symlink() {
                true => blob(std::fs::read_link(on_disk).unwrap().as_os_str().as_bytes()),
                false => blob(&std::fs::read(on_disk).unwrap()),
            }
        };
        self.vault.scan().found.into_iter().map(|path| (path.clone(), read(&path))).collect()
    }

    /// The blobs of a tree, by path.
    fn tree(&self, revision: &str) -> BTreeMap<VaultPath, Blob> {
        let list = self.vault.try_git(&["ls-tree", "-r", "-z", revision]).unwrap_or_default();
        let lines = list.split('\0').filter(|it| !it.is_empty());
        lines
            .map(|line| {
                let (what, path) = line.split_once('\t').unwrap();
                (vault_path(path), what.rsplit(' ').next().unwrap().to_owned())
            })
            .collect()
    }

    /// Every blob that a reference or a reflog reaches.
    fn reachable(&self) -> BTreeSet<Blob> {
        let list = self.vault.git(&["rev-list", "--objects", "--all", "--reflog"]);
        list.lines().map(|it| it.split(' ').next().unwrap().to_owned()).collect()
    }

    fn staged(&self) -> String {
        self.vault.git(&["diff", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z"])
    }

    fn status(&self) -> BTreeSet<VaultPath> {
        let list = self.vault.git(&["status", "--porcelain", "-z", "-uall", "--no-renames"]);
        list.split('\0').filter(|it| !it.is_empty()).map(|it| vault_path(&it[3..])).collect()
    }

    /// Does something by the hands of a person, and takes down what a watcher would see.
    fn by_person(&mut self, act: impl FnOnce(&Vault)) {
        let before = self.vault.scan().found;
        act(&self.vault);
        let after = self.vault.scan().found;
        self.hints.extend(before.union(&after).cloned());
        let above: Vec<_> = self.hints.iter().filter_map(VaultPath::parent).collect();
        self.hints.extend(above);
    }

    fn look(&mut self, by_scan: bool) -> Result<(), TestCaseError> {
        let disk = self.disk();
        let staged = self.staged();
        let unmerged = self.vault.git(&["ls-files", "-u"]);
        let head = self.vault.git(&["rev-parse", "HEAD"]);
        let was_clean = self.status().is_empty();
        let look = match by_scan {
            true => self.vault.scan(),
            false => Look { paths: self.hints.clone(), ..Look::default() },
        };
        let result = self.vault.history().snapshot(&look, &Cause::edit());
        self.seen.extend(disk.values().cloned());
        prop_assert_eq!(self.disk(), disk.clone(), "the disk is the person's");
        prop_assert_eq!(self.staged(), staged, "and so is what they staged");
        prop_assert_eq!(self.vault.git(&["ls-files", "-u"]), unmerged);
        match result {
            Ok(snapshot) => {
                self.hints.clear();
                prop_assert!(snapshot.again.is_empty());
                let mut named: BTreeSet<_> = snapshot.held.iter().cloned().collect();
                named.extend(snapshot.kept_out.iter().map(|it| it.0.clone()));
                let status = self.status();
                prop_assert!(status.is_subset(&named), "{:?} but {:?}", status, named);
                if was_clean {
                    prop_assert_eq!(snapshot.head, None, "a clean disk is never committed");
                }
            }
            Err(SnapshotError::Busy { .. } | SnapshotError::Locked { .. }) => {
                prop_assert_eq!(self.vault.git(&["rev-parse", "HEAD"]), head);
                let in_head = self.tree("HEAD");
                let kept = self.tree("refs/remd/wip/testhost");
                for (path, blob) in disk.iter().filter(|it| look.found.contains(it.0)) {
                    let is_kept = in_head.get(path) == Some(blob) || kept.get(path) == Some(blob);
                    prop_assert!(is_kept, "{} is neither in HEAD nor in wip", path);
                }
            }
            Err(err) => prop_assert!(false, "{:?}", err),
        }
        Ok(())
    }

    fn act(&mut self, act: &Act) -> Result<(), TestCaseError> {
        match act {
            Act::Edit(step) => self.by_person(|vault| run(vault, step)),
            Act::Git(arguments) => self.by_person(|vault| {
                // Some of these have nothing to do; then nothing happens.
                let _said = vault.try_git(arguments);
            }),
            Act::Switch(branch) => self.by_person(|vault| {
                let name = format!("b{branch}");
                if vault.try_git(&["switch", "-q", &name]).is_none() {
                    let _said = vault.try_git(&["switch", "-qc", &name]);
                }
            }),
            Act::With(verb, branch) => self.by_person(|vault| {
                let _said = vault.try_git(&[verb, "-q", &format!("b{branch}")]);
            }),
            Act::Lock(true) => {
                let lock = self.vault.path(".git/index.lock");
                let _there = std::fs::File::create_new(lock);
            }
            Act::Lock(false) => {
                let _gone = std::fs::remove_file(self.vault.path(".git/index.lock"));
            }
            Act::Accept => {
                self.vault.history().accept_held();
            }
            Act::Reopen => self.vault.reopen(),
            Act::Crash(point) => {
                self.vault.history = None;
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "history::tests::model_people::child_that_looks"])
                    .env("REMD_TEST_LOOK_VAULT", &self.vault.root)
                    .env("REMD_FAULT", POINTS[usize::from(*point)])
                    .output()
                    .unwrap();
                let staged = self.staged();
                let is_cut_short = self.vault.path(".git/remd/unfinished").exists();
                self.vault.reopen();
                if !is_cut_short {
                    prop_assert_eq!(self.staged(), staged);
                }
                return self.look(true);
            }
            Act::Look { by_scan } => return self.look(*by_scan),
        }
        Ok(())
    }

    /// Nothing in the way any more: all is well, and all that was seen is there.
    fn end(mut self) -> Result<(), TestCaseError> {
        let _gone = std::fs::remove_file(self.vault.path(".git/index.lock"));
        for arguments in [&["merge", "--abort"][..], &["rebase", "--abort"], &["reset", "-q"]] {
            self.by_person(|vault| {
                let _said = vault.try_git(arguments);
            });
        }
        if self.vault.try_git(&["symbolic-ref", "-q", "HEAD"]).is_none() {
            self.by_person(|vault| {
                vault.git(&["switch", "-qc", "end"]);
            });
        }
        self.look(false)?;
        self.vault.history().accept_held();
        self.look(true)?;
        prop_assert_eq!(self.status(), BTreeSet::new());
        let on_disk: BTreeSet<_> = self.disk().into_values().collect();
        let reachable = self.reachable();
        for blob in &self.seen {
            let is_there = reachable.contains(blob) || on_disk.contains(blob);
            prop_assert!(is_there, "{} was seen and is lost", blob);
        }
        let fsck = git_command(&self.vault.root, &["fsck", "--strict"]).output().unwrap();
        prop_assert!(fsck.status.success(), "{:?}", fsck);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(20), max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_seen_is_lost_and_nothing_staged_is_changed(
        acts in prop::collection::vec(act(), 1..24),
    ) {
        let mut world = World::new();
        for act in &acts {
            world.act(act)?;
        }
        world.end()?;
    }
}

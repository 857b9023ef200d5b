//! Random operations against a reference model.
//!
//! **Invariant:** after each batch HEAD's tree is the disk, git's status is empty and the index
//! has nothing of its own.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Write(u8, u8),
    Append(u8),
    Delete(u8),
    Rename(u8, u8),
    Executable(u8),
    Link(u8, u8),
    Folder(u8),
    Touch(u8),
}

const NAMES: [&str; 9] =
    ["a.md", "b.md", "d/a.md", "d/b.md", "d/e/c.md", "d", "d/e", "q\"\n.md", "é/x.md"];

pub(super) fn step() -> impl Strategy<Value = Step> {
    let name = || 0..u8::try_from(NAMES.len()).unwrap();
    prop_oneof![
        4 => (name(), 0..4u8).prop_map(|(name, text)| Step::Write(name, text)),
        1 => name().prop_map(Step::Append),
        2 => name().prop_map(Step::Delete),
        3 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name().prop_map(Step::Executable),
        1 => (name(), name()).prop_map(|(name, to)| Step::Link(name, to)),
        1 => name().prop_map(Step::Folder),
        1 => name().prop_map(Step::Touch),
    ]
}

/// Does the step as far as the disk allows; what it refuses did not happen.
pub(super) fn run(vault: &Vault, step: &Step) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = |name: &u8| vault.path(NAMES[usize::from(*name)]);
    let with_parent = |name: &u8| {
        let path = path(name);
        std::fs::create_dir_all(path.parent().unwrap()).is_ok().then_some(path)
    };
    let _done: Option<std::io::Result<()>> = match step {
        Step::Write(name, text) => with_parent(name)
            .filter(|it| !it.is_symlink())
            .map(|it| std::fs::write(it, "line\n".repeat(usize::from(*text)))),
        Step::Append(name) => {
            Some(path(name)).filter(|it| it.is_file() && !it.is_symlink()).map(|it| {
                let mut text = std::fs::read(&it)?;
                text.extend_from_slice(b"more\n");
                std::fs::write(&it, text)
            })
        }
        Step::Delete(name) => Some(match path(name) {
            it if it.is_dir() && !it.is_symlink() => std::fs::remove_dir_all(it),
            it => std::fs::remove_file(it),
        }),
        Step::Rename(from, to) => with_parent(to).map(|to| std::fs::rename(path(from), to)),
        Step::Executable(name) => {
            Some(path(name)).filter(|it| it.is_file() && !it.is_symlink()).map(|it| {
                let mode = std::fs::metadata(&it)?.permissions().mode() ^ 0o100;
                std::fs::set_permissions(&it, std::fs::Permissions::from_mode(mode))
            })
        }
        Step::Link(name, to) => {
            with_parent(name).map(|it| std::os::unix::fs::symlink(NAMES[usize::from(*to)], it))
        }
        Step::Folder(name) => Some(std::fs::create_dir_all(path(name))),
        Step::Touch(name) => {
            Some(path(name)).filter(|it| it.is_file() && !it.is_symlink()).map(|it| {
                std::fs::File::options()
                    .append(true)
                    .open(it)?
                    .set_modified(std::time::SystemTime::now())
            })
        }
    };
}

/// How many cases: `PROPTEST_CASES` where it is set.
pub(super) fn cases(normally: u32) -> u32 {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse().ok());
    wanted.unwrap_or(normally)
}

type Tree = BTreeMap<Vec<u8>, (String, Vec<u8>)>;

fn on_disk(vault: &Vault) -> Tree {
    use std::os::unix::fs::PermissionsExt as _;
    let mut tree = Tree::new();
    for path in vault.scan().found {
        let on_disk = vault.root.join(path.as_path());
        let meta = std::fs::symlink_metadata(&on_disk).unwrap();
        let version = if meta.is_symlink() {
            let target = std::fs::read_link(&on_disk).unwrap();
            ("120000".to_owned(), target.as_os_str().as_bytes().to_vec())
        } else {
            let executable = meta.permissions().mode() & 0o100 != 0;
            let mode = if executable { "100755" } else { "100644" };
            (mode.to_owned(), std::fs::read(&on_disk).unwrap())
        };
        tree.insert(path.as_bytes().to_vec(), version);
    }
    tree
}

fn in_head(vault: &Vault) -> Tree {
    let mut tree = Tree::new();
    let Some(list) = vault.try_git(&["ls-tree", "-r", "-z", "HEAD"]) else { return tree };
    for line in list.split('\0').filter(|it| !it.is_empty()) {
        let (what, path) = line.split_once('\t').unwrap();
        let mut words = what.split(' ');
        let (mode, _, blob) = (words.next().unwrap(), words.next(), words.next().unwrap());
        let content = vault.git(&["cat-file", "blob", blob]).into_bytes();
        tree.insert(path.as_bytes().to_vec(), (mode.to_owned(), content));
    }
    tree
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(24), max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn head_is_the_disk_after_every_batch(
        batches in prop::collection::vec((prop::collection::vec(step(), 1..6), any::<bool>()), 1..6),
    ) {
        let mut vault = Vault::new();
        for (steps, by_hints) in batches {
            let before: BTreeSet<_> = vault.scan().found;
            for step in &steps {
                run(&vault, step);
            }
            let look = if by_hints {
                // What a watcher names: whatever was or is there, and the folders above.
                let after = vault.scan().found;
                let mut paths: BTreeSet<_> = before.union(&after).cloned().collect();
                let above = paths.iter().filter_map(VaultPath::parent).collect::<Vec<_>>();
                paths.extend(above);
                Look { paths, ..Look::default() }
            } else {
                vault.scan()
            };
            let snapshot = vault.history().snapshot(&look, &Cause::edit()).unwrap();
            prop_assert!(snapshot.kept_out.is_empty(), "{:?}", snapshot.kept_out);
            prop_assert!(snapshot.again.is_empty(), "{:?}", snapshot.again);
            prop_assert_eq!(in_head(&vault), on_disk(&vault));
            prop_assert_eq!(vault.git(&["status", "--porcelain", "-z"]), "");
            if let Some(head) = snapshot.head {
                let parent = vault.reader().parent(head.commit).unwrap();
                let changes = vault.reader().diff(parent, head.commit).unwrap();
                prop_assert_eq!(changes, snapshot.changes);
            }
        }
    }
}

//! In a sparse checkout absence is not deletion, and what is there all the same is committed.

use super::*;

/// A vault with folders `in` and `out`, of which only `in` is checked out.
fn sparse(set: &[&str], settings: &[(&str, &str)]) -> Vault {
    let mut vault = Vault::new();
    for path in ["top.md", "in/a.md", "out/b.md", "out/deep/c.md"] {
        vault.write(path, format!("{path}\n"));
    }
    vault.snapshot_all();
    for (key, value) in settings {
        vault.git(&["config", key, value]);
    }
    vault.git(&[&["sparse-checkout", "set"], set].concat());
    assert!(vault.path("in/a.md").exists() && !vault.path("out").exists());
    vault.reopen();
    vault
}

/// E20, with and without cones, with the index whole and sparse.
#[test]
fn absence_is_not_deletion_and_a_note_outside_is_committed() {
    type Settings = &'static [(&'static str, &'static str)];
    let kinds: [(&[&str], Settings); 3] = [
        (&["--cone", "in"], &[]),
        (&["--cone", "--sparse-index", "in"], &[("index.sparse", "true")]),
        (&["--no-cone", "/*", "!/out/"], &[]),
    ];
    for (set, settings) in kinds {
        let mut vault = sparse(set, settings);
        let is_sparse = vault.git(&["ls-files", "--sparse"]).contains("out/\n");
        assert_eq!(is_sparse, set.contains(&"--sparse-index"), "{set:?}");
        let listed = vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
        assert_eq!(vault.snapshot_all().head, None, "{set:?}");
        vault.write("in/a.md", "edited\n");
        let snapshot = vault.snapshot_all();
        assert_eq!(vault.subject(), "memory: update in/a.md", "{set:?}");
        assert_eq!((snapshot.kept_out, snapshot.held.len()), (vec![], 0), "{set:?}");
        assert_eq!(vault.git(&["ls-tree", "-r", "--name-only", "HEAD"]), listed);
        vault.assert_clean();
        // By a look at the absent paths and their folders, too.
        assert_eq!(vault.snapshot(&["out", "out/b.md", "out/deep", "out/deep/c.md"]).head, None);

        // New outside the cone, and a tracked one come back with another text.
        vault.write("out/new.md", "new\n");
        vault.write("out/b.md", "written again\n");
        let snapshot = vault.snapshot_all();
        assert_eq!(snapshot.changes.len(), 2, "{set:?}");
        assert_eq!(snapshot.kept_out, [], "{set:?}");
        assert_eq!(vault.committed("out/b.md").unwrap(), "written again\n");
        assert_eq!(vault.committed("out/deep/c.md").unwrap(), "out/deep/c.md\n");
        vault.assert_clean();
        // What git then takes away again is not deleted either.
        vault.git(&["sparse-checkout", "reapply"]);
        assert!(!vault.path("out/new.md").exists(), "{set:?}");
        assert_eq!(vault.snapshot_all().head, None, "{set:?}");
        vault.assert_clean();
        // What is inside the cone and goes, is.
        vault.remove("in/a.md");
        vault.snapshot_all();
        assert_eq!(vault.subject(), "memory: delete in/a.md", "{set:?}");
        vault.git(&["sparse-checkout", "disable"]);
        assert_eq!(std::fs::read_to_string(vault.path("out/new.md")).unwrap(), "new\n");
        assert_eq!(vault.snapshot_all().head, None, "{set:?}");
        vault.assert_clean();
    }
}

/// An index that is lost in a sparse checkout is made again with what the checkout left out.
#[test]
fn a_lost_index_of_a_sparse_checkout_deletes_nothing() {
    let mut vault = sparse(&["--cone", "in"], &[]);
    std::fs::remove_file(vault.path(".git/index")).unwrap();
    vault.write("in/a.md", "edited\n");
    let snapshot = vault.snapshot_all();
    assert_eq!((snapshot.changes.len(), snapshot.kept_out), (1, vec![]));
    assert!(vault.committed("out/deep/c.md").is_some());
    vault.assert_clean();
}

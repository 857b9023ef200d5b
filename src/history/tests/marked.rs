//! What git tracks and remd never commits: its own folders, and files that a person told git to
//! look away from.

use super::*;
use crate::history::kept::Kept;

fn kept(paths: &[(&str, Kept)]) -> Vec<(VaultPath, Kept)> {
    paths.iter().map(|(path, why)| (vault_path(path), why.clone())).collect()
}

fn flags(vault: &Vault, path: &str) -> String {
    vault.git(&["ls-files", "-v", path])
}

/// Tracked by force, changed, new or deleted: HEAD keeps its version, and one line names it.
#[test]
fn our_own_folders_are_never_committed_even_where_git_tracks_them() {
    let mut vault = Vault::new();
    vault.write("a.md", "a\n");
    for path in ["mem_metadata/x", "mem_metadata/deep/y", "mem_metadata/z", "mem_agent/log"] {
        vault.write(path, "old\n");
    }
    vault.snapshot_all();
    vault.git(&["add", "-f", "mem_metadata"]);
    let derived = kept(&[("mem_metadata", Kept::Derived)]);
    assert_eq!(vault.snapshot(&["a.md"]).kept_out, derived, "staged by force");
    vault.git(&["commit", "-q", "-m", "all of it"]);

    vault.write("mem_metadata/x", "new\n");
    vault.remove("mem_metadata/deep/y");
    std::fs::remove_dir(vault.path("mem_metadata/deep")).unwrap();
    vault.write("mem_metadata/w", "new\n");
    vault.write("a.md", "b\n");
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.kept_out, derived);
    assert_eq!(vault.subject(), "memory: update a.md");
    assert_eq!(vault.committed("mem_metadata/x").unwrap(), "old\n");
    assert_eq!(vault.committed("mem_metadata/deep/y").unwrap(), "old\n");
    assert_eq!(vault.committed("mem_metadata/w"), None);
    // A look that is about something else names it too, also when the folder is gone.
    std::fs::remove_dir_all(vault.path("mem_metadata")).unwrap();
    let snapshot = vault.snapshot(&["a.md"]);
    assert_eq!((snapshot.head, snapshot.kept_out, snapshot.held.len()), (None, derived, 0));

    // What the remedy says ends it.
    vault.write("mem_metadata/x", "newer\n");
    let (path, why) = &kept(&[("mem_metadata", Kept::Derived)])[0];
    assert!(why.hint(path).contains("`git rm -r --cached mem_metadata`"), "{}", why.hint(path));
    vault.git(&["rm", "-rq", "--cached", "mem_metadata"]);
    vault.git(&["commit", "-q", "-m", "without"]);
    assert_eq!(vault.snapshot(&["a.md"]).kept_out, []);
    let snapshot = vault.snapshot_all();
    assert_eq!((snapshot.head, snapshot.kept_out), (None, vec![]));
    vault.assert_clean();
}

/// Where somebody writes `info/exclude` anew, our lines come
/// back at the next look, beside a person's.
#[test]
fn our_exclude_lines_come_back_when_they_vanish() {
    let mut vault = Vault::new();
    vault.write("a.md", "a\n");
    vault.write("mem_metadata/x", "x\n");
    vault.snapshot_all();
    vault.write(".git/info/exclude", "*.log\n");
    assert!(vault.git(&["status", "--porcelain"]).contains("mem_metadata"));
    let snapshot = vault.snapshot_all();
    assert_eq!((snapshot.head, snapshot.kept_out), (None, vec![]));
    let text = std::fs::read_to_string(vault.path(".git/info/exclude")).unwrap();
    assert!(text.starts_with("*.log\n/mem_metadata/\n/mem_agent/\n"), "{text}");
    vault.assert_clean();

    std::fs::remove_file(vault.path(".git/info/exclude")).unwrap();
    vault.write(".remd-tmp-1", "half\n");
    let snapshot = vault.snapshot_all();
    assert_eq!((snapshot.head, snapshot.kept_out), (None, vec![]));
    vault.assert_clean();
}

/// A `.git` that is removed and made anew under the agent has none of our lines.
#[test]
fn a_repository_made_anew_with_our_folders_in_it_commits_none_of_them() {
    let mut vault = Vault::new();
    vault.write("a.md", "a\n");
    vault.write("mem_metadata/x", "x\n");
    vault.snapshot_all();
    std::fs::remove_dir_all(vault.path(".git")).unwrap();
    vault.git(&["init", "-q", "-b", "main"]);
    vault.git(&["add", "-A"]);
    vault.git(&["commit", "-q", "-m", "anew"]);
    vault.write("a.md", "b\n");
    vault.write("mem_metadata/x", "y\n");
    vault.write("mem_metadata/new", "y\n");
    let snapshot = vault.snapshot_all();
    assert_eq!(snapshot.kept_out, kept(&[("mem_metadata", Kept::Derived)]));
    assert_eq!(vault.git(&["show", "--format=", "--name-only", "HEAD"]), "a.md\n");
    let text = std::fs::read_to_string(vault.path(".git/info/exclude")).unwrap();
    assert!(text.contains("\n/mem_metadata/\n"), "{text}");
}

/// Outside a sparse checkout git keeps the flag whatever the file is, and so do we.
#[test]
fn what_is_marked_skip_worktree_is_left_alone_and_named() {
    what_is_marked_is_left_alone("--skip-worktree", "--no-skip-worktree", "S", Kept::SkipWorktree);
}

#[test]
fn what_is_marked_assume_unchanged_is_left_alone_and_named() {
    let option = ("--assume-unchanged", "--no-assume-unchanged");
    what_is_marked_is_left_alone(option.0, option.1, "h", Kept::AssumeUnchanged);
}

fn what_is_marked_is_left_alone(mark: &str, unmark: &str, letter: &str, why: Kept) {
    let mut vault = Vault::new();
    for path in ["changed.md", "gone.md", "same.md", "free.md"] {
        vault.write(path, "old\n");
    }
    vault.snapshot_all();
    vault.git(&["update-index", mark, "changed.md", "gone.md", "same.md"]);
    assert_eq!(vault.snapshot_all().kept_out, [], "nothing differs");
    vault.write("changed.md", "local secret\n");
    vault.remove("gone.md");
    // Written again with the same text.
    vault.write("same.md", "old\n");
    vault.write("free.md", "new\n");
    let both = kept(&[("changed.md", why.clone()), ("gone.md", why.clone())]);
    for round in 0..2 {
        let snapshot = vault.snapshot_all();
        assert_eq!(snapshot.kept_out, both, "{round}");
        assert_eq!(snapshot.held.len(), 0);
    }
    assert_eq!(vault.subject(), "memory: update free.md");
    assert_eq!(vault.committed("changed.md").unwrap(), "old\n");
    assert_eq!(vault.committed("gone.md").unwrap(), "old\n");
    for path in ["changed.md", "gone.md", "same.md"] {
        assert_eq!(flags(&vault, path), format!("{letter} {path}\n"), "the mark stays");
    }
    // Its content is nowhere in git, not even beside the branch.
    let id = vault.git(&["hash-object", "changed.md"]);
    assert_eq!(vault.try_git(&["cat-file", "-e", id.trim()]), None);
    // Another text is seen as such, and the old one as the same.
    vault.write("changed.md", "old\n");
    let snapshot = vault.snapshot(&["free.md"]);
    assert_eq!(snapshot.kept_out, both[1..]);

    // What the remedy says ends it.
    vault.write("changed.md", "for all\n");
    assert_eq!(vault.snapshot(&["free.md", "changed.md"]).kept_out, both);
    let hint = why.hint(&vault_path("changed.md")).into_owned();
    assert!(hint.contains(&format!("`git update-index {unmark} changed.md`")), "{hint}");
    vault.git(&["update-index", unmark, "changed.md", "gone.md", "same.md"]);
    let snapshot = vault.snapshot(&["free.md"]);
    assert_eq!((snapshot.kept_out, snapshot.changes.len()), (vec![], 2));
    assert_eq!(vault.committed("changed.md").unwrap(), "for all\n");
    assert_eq!(vault.committed("gone.md"), None);
    vault.assert_clean();
}

/// A path is one word in the remedy.
#[test]
fn a_remedy_quotes_what_a_shell_would_read_otherwise() {
    let hint = Kept::SkipWorktree.hint(&vault_path("a b/it's $(x).md"));
    assert!(hint.contains(r"--no-skip-worktree './a b/it'\''s $(x).md'`"), "{hint}");
}

/// What a finished cherry-pick may leave behind is no cherry-pick.
#[test]
fn an_empty_sequencer_folder_is_no_operation() {
    let mut vault = Vault::new();
    std::fs::create_dir(vault.path(".git/sequencer")).unwrap();
    vault.write("a.md", "a\n");
    assert!(vault.snapshot_all().head.is_some());
    vault.write(".git/sequencer/todo", "revert 1234567 x\n");
    vault.write("a.md", "b\n");
    let refused = vault.try_snapshot_all();
    assert!(
        matches!(refused, Err(SnapshotError::Busy { operation: Operation::Revert, .. })),
        "{refused:?}"
    );
}

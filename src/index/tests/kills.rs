//! Kills and damage: what is left is gone on with, or made anew, and never believed.

use std::collections::BTreeSet;

use super::{
    Model, assert_equals_a_rebuild, difference, full, go_on, model, open, open_index, reopened,
    updates,
};
use crate::index::testing::{commit, hits, path, put, rebuild};
use crate::index::{Index, IndexError, IndexReader, Models, Opened, Why};
use crate::vault::{CommitId, Layout};

/// Not a test of its own: what the killed process does, see below.
#[test]
fn crashing_builder() {
    let Ok(dir) = std::env::var("REMD_TEST_BUILD_DIR") else { return };
    let (mut index, _) = open_index(std::path::Path::new(&dir)).unwrap();
    let mut build = index.begin_rebuild(0).unwrap();
    for update in full(&after()) {
        build.take(update).unwrap();
        build.step().unwrap();
    }
    build.end(commit(0)).unwrap();
}

#[test]
fn a_build_that_is_killed_goes_on_from_its_last_step() {
    // After how many steps, and what is left to be put then.
    for (point, left) in [
        ("indexer.before_commit:1", None),
        ("indexer.after_commit:1", Some(4)),
        ("indexer.before_commit:2", Some(4)),
        ("indexer.before_commit:4", Some(2)),
        ("indexer.after_commit:5", Some(0)),
        ("indexer.before_commit:6", Some(0)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        // No steps but its own.
        let faults = dir.path().join("faults");
        std::fs::write(&faults, "indexer.step=600000").unwrap();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "index::tests::kills::crashing_builder"])
            .env("REMD_FAULTS", faults)
            .env("REMD_TEST_BUILD_DIR", dir.path())
            .env("REMD_FAULT", point)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success(), "{point}");
        let (mut index, opened) = open_index(dir.path()).unwrap();
        match left {
            None => assert!(matches!(opened, Opened::Rebuild(Why::Unfinished)), "{opened:?}"),
            Some(left) => {
                assert!(matches!(opened, Opened::Unfinished), "{point}: {opened:?}");
                assert_eq!(go_on(&mut index, &after(), commit(1)), left, "{point}");
                assert_equals_a_rebuild(&index, &after());
                drop(index);
                let index = reopened(dir.path(), &[after(), after()]);
                assert_equals_a_rebuild(&index, &after());
            }
        }
    }
}

/// Not a test of its own: what the killed process does, see below.
#[test]
fn crashing_child() {
    let Ok(dir) = std::env::var("REMD_TEST_CRASH_DIR") else { return };
    let mut index = open(std::path::Path::new(&dir), full(&before()), commit(0));
    index.stage(updates(&difference(&before(), &after())), commit(1)).unwrap();
    index.flush().unwrap();
}

fn before() -> Model {
    Model::from([(0, 0), (1, 1), (2, 2), (5, 3)])
}

fn after() -> Model {
    Model::from([(0, 5), (2, 2), (3, 3), (5, 3), (6, 0)])
}

#[test]
fn a_kill_at_any_point_loses_nothing() {
    for (point, cursors) in [
        ("indexer.before_stores", vec![0]),
        // The first is the build's own commit.
        ("indexer.before_commit:2", vec![0, 1]),
        ("indexer.after_commit:2", vec![1]),
        ("indexer.before_commit", vec![]),
        ("indexer.before_vectors", vec![1]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "index::tests::kills::crashing_child"])
            .env("REMD_TEST_CRASH_DIR", dir.path())
            .env("REMD_FAULT", point)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success(), "{point}");
        let (index, opened) = open_index(dir.path()).unwrap();
        drop(index);
        let expected: BTreeSet<CommitId> = cursors.into_iter().map(commit).collect();
        match opened {
            Opened::Ready { cursors } => assert_eq!(cursors, expected, "{point}"),
            Opened::Unfinished => panic!("{point}: no step was made"),
            Opened::Rebuild(why) => {
                assert!(matches!(why, Why::Unfinished) && expected.is_empty(), "{point}: {why}");
            }
        }
        let index = reopened(dir.path(), &[before(), after()]);
        assert_equals_a_rebuild(&index, &after());
        assert_eq!(index.view().at(), Some(commit(1)));
    }
}

#[test]
fn what_is_missing_damaged_or_of_another_version_is_built_again() {
    let notes = || vec![put("a.md", "tide tables"), put("b.md", "[[a]]")];
    let stores = [
        "file_store/file_chunks_default_v1.jsonl.zst",
        "file_graph/default.jsonl.zst",
        "file_catalog/default.jsonl.zst",
        "file_catalog/digest.jsonl.zst",
        "keyword_index/meta.json",
    ];
    for store in stores {
        for damage in ["gone", "cut", "flipped"] {
            let dir = tempfile::tempdir().unwrap();
            drop(open(dir.path(), notes(), commit(1)));
            let file = dir.path().join(store);
            let mut bytes = std::fs::read(&file).unwrap();
            match damage {
                "gone" => std::fs::remove_file(&file).unwrap(),
                "cut" => std::fs::write(&file, &bytes[..bytes.len() / 3]).unwrap(),
                _ => {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 0xff;
                    std::fs::write(&file, &bytes).unwrap();
                }
            }
            let (mut index, opened) = open_index(dir.path()).unwrap();
            let Opened::Rebuild(why) = opened else { panic!("{store} {damage}") };
            assert_eq!(matches!(why, Why::Missing), damage == "gone", "{store} {damage}: {why}");
            assert!(
                IndexReader::open(dir.path(), &Layout::default()).unwrap().is_err()
                    || damage == "flipped"
            );
            rebuild(&mut index, notes(), commit(2));
            assert_eq!(hits(&index.view(), "tide").len(), 1);
            assert_eq!(index.view().inlinks(&path("a.md")).len(), 1);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (_, opened) = open_index(dir.path()).unwrap();
    assert!(matches!(opened, Opened::Rebuild(Why::Missing)), "{opened:?}");
}

#[test]
fn damage_in_a_segment_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), vec![put("a.md", "tide tables")], commit(1)));
    let segment = std::fs::read_dir(dir.path().join("keyword_index"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .find(|it| it.extension().is_some_and(|it| it == "idx"))
        .unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[2] ^= 0xff;
    std::fs::write(&segment, &bytes).unwrap();
    let (_, opened) = open_index(dir.path()).unwrap();
    assert!(matches!(opened, Opened::Rebuild(Why::Corrupt(_))), "{opened:?}");
}

#[test]
fn an_index_is_searched_before_it_is_proven_and_written_only_after() {
    let layout = Layout::default();
    let notes = || vec![put("a.md", "tide tables"), put("b.md", "[[a]]")];
    let names = [
        "file_store/file_chunks_default_v1.jsonl.zst",
        "file_catalog/digest.jsonl.zst",
        "keyword_index/*.idx",
        "keyword_index/*.store",
    ];
    for name in names {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path(), notes(), commit(1)));
        // Whole: searched at once, proven in steps, and no mark is left.
        let (mut index, opened) =
            Index::open_soon(dir.path(), &layout, Models::only(model())).unwrap();
        assert!(matches!(opened, Opened::Ready { .. }), "{opened:?}");
        assert!(!index.is_proven() && dir.path().join("unproven").exists());
        let view = index.view();
        assert_eq!((hits(&view, "tide").len(), view.is_proven()), (1, false));
        let mut steps = 0;
        while !index.is_proven() {
            index.prove().unwrap();
            steps += 1;
        }
        assert!(view.is_proven());
        assert!(steps > 5 && !dir.path().join("unproven").exists(), "{steps}");
        drop(index);
        // Damaged, in its last bytes but the footer: not believed for long, and not written to.
        let file = match name.split_once('*') {
            None => dir.path().join(name),
            Some((folder, end)) => std::fs::read_dir(dir.path().join(folder))
                .unwrap()
                .map(|it| it.unwrap().path())
                .find(|it| it.to_str().unwrap().ends_with(end))
                .unwrap(),
        };
        let mut bytes = std::fs::read(&file).unwrap();
        let at = if name.contains('*') { 2 } else { 30 };
        bytes[at] ^= 0xff;
        std::fs::write(&file, &bytes).unwrap();
        let left =
            |dir: &std::path::Path| std::fs::read(dir.join("keyword_index/meta.json")).unwrap();
        let before = left(dir.path());
        let (mut index, opened) =
            Index::open_soon(dir.path(), &layout, Models::only(model())).unwrap();
        if let Opened::Ready { .. } = opened {
            let err = index.apply(vec![put("c.md", "tide")], commit(2)).unwrap_err();
            assert!(matches!(err, IndexError::Damaged(_)), "{name}: {err}");
            assert_eq!(left(dir.path()), before, "{name}");
            drop(index);
            // The next one is warned, as after a kill.
            let opened = Index::open_soon(dir.path(), &layout, Models::only(model())).unwrap().1;
            assert!(matches!(opened, Opened::Rebuild(Why::Corrupt(_))), "{name}: {opened:?}");
        } else {
            drop(index);
        }
        let (mut index, opened) = open_index(dir.path()).unwrap();
        assert!(matches!(opened, Opened::Rebuild(Why::Corrupt(_))), "{name}: {opened:?}");
        rebuild(&mut index, notes(), commit(2));
        assert!(index.is_proven());
        assert_eq!(hits(&index.view(), "tide").len(), 1);
    }
}

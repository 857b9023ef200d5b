//! Killed at any point: no lost edit, no stale mount, the index equal to a rebuild.

use std::fs;

use crate::house::{House, has_fuse};

/// All that can be asked of an index: which notes a word finds, which links there are.
fn picture(house: &House) -> Vec<String> {
    let mut all = Vec::new();
    for word in ["needle", "first", "second", "gone", "renamed"] {
        let mut found = house.found(word);
        found.sort();
        all.push(format!("{word}: {found:?}"));
    }
    let status = house.status();
    all.push(format!(
        "{} {} {}",
        status["index"]["notes"], status["index"]["chunks"], status["index"]["links"]
    ));
    all
}

fn rebuilt(house: &mut House) -> Vec<String> {
    house.stop();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    house.start();
    house.settle_and_check();
    picture(house)
}

fn check(fault: &str) {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-qb", "main"]);
    house.start();
    house.write("a.md", "needle first [[b]]\n");
    house.write("b.md", "needle gone [[a]]\n");
    house.write("c.md", "needle second\n");
    house.settle_and_check();
    house.stop();
    if fault == "indexer.note" {
        // Only a build takes them one by one.
        fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    }

    house.env("REMD_FAULT", fault);
    house.spawn();
    house.write("a.md", "needle first again [[b]] [[d]]\n");
    fs::remove_file(house.at("b.md")).unwrap();
    fs::rename(house.at("c.md"), house.at("d.md")).unwrap();
    house.write("e/new.md", "needle renamed [[a]]\n");
    assert_eq!(house.wait_for_end(), None, "{fault} was not reached\n{}", house.log());

    house.env("REMD_FAULT", "");
    house.start();
    house.settle_and_check();
    assert_eq!(house.head_paths(), [&b"a.md"[..], b"d.md", b"e/new.md"], "{fault}");
    assert_eq!(house.in_head("a.md"), b"needle first again [[b]] [[d]]\n");
    let git_dir: Vec<String> = fs::read_dir(house.at(".git"))
        .unwrap()
        .map(|it| it.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|it| it.ends_with(".lock"))
        .collect();
    assert!(git_dir.is_empty(), "{fault} left {git_dir:?}");
    let after = picture(&house);
    assert_eq!(after, rebuilt(&mut house), "{fault}");
    if has_fuse(fault) {
        assert!(house.cat("search/needle").contains("a.md"));
    }
}

macro_rules! kill_at {
    ($($test:ident $fault:literal)*) => {
        $(#[test] fn $test() { check($fault); })*
        pub const TESTED: &[&str] = &[$($fault),*];
    };
}

kill_at! {
    killed_before_objects "committer.before_objects"
    killed_before_the_lock "committer.before_lock"
    killed_before_the_ref "committer.before_ref"
    killed_in_the_middle_of_the_ref "committer.in_ref"
    killed_before_the_index_file "committer.before_index"
    killed_after_the_index_file "committer.after_index"
    killed_before_the_stores "indexer.before_stores"
    killed_before_the_index_commit "indexer.before_commit"
    killed_before_the_vectors "indexer.before_vectors"
    killed_after_the_index_commit "indexer.after_commit"
    killed_in_a_build_of_the_index "indexer.note"
}

/// Killed by `index::tests::neighbours::a_kill_leaves_a_whole_graph_or_none` and
/// `models::a_kill_while_a_model_is_fetched_leaves_a_whole_one`,
/// `history::tests::undo::killed_anywhere_it_is_done_whole_or_not_at_all`,
/// `history::tests::purge::killed_anywhere_the_next_one_finishes_it`.
const ELSEWHERE: [&str; 11] = [
    "neighbours.before_write",
    "neighbours.after_write",
    "model.before_files",
    "model.before_manifest",
    "model.before_tidying",
    "swap.staged",
    "swap.first",
    "swap.all",
    "swap.committed",
    "purge.before_refs",
    "purge.after_refs",
];

#[test]
fn every_fault_point_has_a_kill_test() {
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|it| it != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for line in text.lines().filter(|it| !it.trim_start().starts_with("//")) {
                let Some((_, rest)) = line.split_once("fault::point(\"") else { continue };
                let name = rest.split('"').next().unwrap();
                let is_tested = TESTED.contains(&name)
                    || crate::reindex::TESTED.contains(&name)
                    || ELSEWHERE.contains(&name);
                assert!(is_tested, "{name} has no kill test");
                seen += 1;
            }
        }
    }
    assert!(
        seen >= TESTED.len() + crate::reindex::TESTED.len() + ELSEWHERE.len(),
        "a kill test names a point that is gone"
    );
}

#[test]
fn killed_again_and_again_while_edits_arrive() {
    let mut house = House::open();
    house.stop();
    house.args(["commit.quiet=20ms"]);
    for round in 0..8 {
        house.spawn();
        for at in 0..60 {
            house.write(format!("r{round}/{at}.md"), format!("needle {round} {at}\n"));
        }
        // Somewhere in the middle, by what is done and not by a clock.
        let wanted = 20 + round * 30;
        crate::house::wait_for("some of the commits", || {
            let listed = house.git(["ls-files"]);
            listed.lines().count() >= wanted || listed.lines().count() >= (round + 1) * 60
        });
        house.kill();
    }
    house.start();
    house.settle_and_check();
    assert_eq!(house.head_paths().len(), 480);
    assert_eq!(house.status()["index"]["notes"], 480);
    let after = picture(&house);
    assert_eq!(after, rebuilt(&mut house));
}

#[test]
fn broken_derived_state_comes_back() {
    let mut house = House::open();
    house.write("a.md", "needle first [[b]]\n");
    house.write("b.md", "needle second\n");
    house.settle_and_check();
    let whole = picture(&house);
    house.stop();
    let files = files_below(&house.at("mem_metadata"));
    assert!(files.len() > 5, "{files:?}");
    for file in files.iter().filter(|it| fs::metadata(it).is_ok_and(|it| it.len() > 0)) {
        // Only what the last round left is broken in turn: cut in half, then filled with noise.
        for noise in [false, true] {
            let Ok(bytes) = fs::read(file) else { continue };
            let broken =
                if noise { vec![0x5a; bytes.len()] } else { bytes[..bytes.len() / 2].to_vec() };
            fs::write(file, broken).unwrap();
            house.start();
            house.settle_and_check();
            assert_eq!(picture(&house), whole, "{} broken", file.display());
            house.stop();
        }
    }
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

#[test]
fn started_again_before_the_killed_one_is_gone() {
    let mut house = House::open();
    for round in 0..15 {
        house.write("a.md", format!("needle round {round}\n"));
        let mut dying = house.kill_and_go_on();
        house.start();
        house.settle_and_check();
        assert_eq!(house.in_head("a.md"), format!("needle round {round}\n").into_bytes());
        dying.wait().unwrap();
    }
}

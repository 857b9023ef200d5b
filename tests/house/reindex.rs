//! The index made anew: what is there answers until the new one is whole, whatever happens.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::house::{House, NEEDLES, is_there, wait_for};

const QUESTION: &str = "travelling to work on two wheels";
const WORDS: [&str; 1] = ["keyword_index"];
const VECTORS: [&str; 1] = ["vector_index"];
const STORES: [&str; 3] = ["file_store", "file_graph", "file_catalog"];

/// A vault with a needle in each note, and an agent that waits at each note of a reindex while the
/// file is there.
fn held() -> (House, PathBuf) {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    for needle in NEEDLES {
        house.write(
            format!("n/{needle}.md"),
            format!("# {needle}\n\nA {needle} needle. See [[commute]]. #t{needle}\n"),
        );
    }
    house.write("commute.md", "# Commute\n\nEvery morning I ride my bicycle to the office.\n");
    let file = house.root().join("hold");
    house.env("REMD_HOLD", &format!("reindex.note:{}", file.display()));
    house.args(["--no-mount"]).start();
    house.settle_and_check();
    (house, file)
}

fn is_under_way(house: &House) -> bool {
    !house.status()["index"]["reindex"].is_null()
}

fn wait_for_its_end(house: &House) {
    wait_for("the end of the reindex", || !is_under_way(house));
}

/// Which of the folders of the index are which.
fn folders(house: &House) -> BTreeMap<&'static str, u64> {
    let all = WORDS.iter().chain(&VECTORS).chain(&STORES);
    all.map(|it| (*it, fs::metadata(house.at("mem_metadata").join(it)).unwrap().ino())).collect()
}

/// All is found: each needle in its note and no other, the question, links and tags.
fn check(house: &House) {
    for needle in NEEDLES {
        assert_eq!(house.found(&format!("\"{needle} needle\"")), [format!("n/{needle}.md")]);
    }
    assert_eq!(house.found(QUESTION).first().map(String::as_str), Some("commute.md"));
    let said = house.run(["search", "--json", "--tag", "tgolf", "needle"]);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 1, "{json:#}");
    assert_eq!(json["results"][0]["path"], "n/golf.md");
}

fn check_clean(house: &House) {
    let status = house.status();
    let problems = status["problems"].as_array().unwrap();
    let about = |it: &&serde_json::Value| it["id"] == "index" || it["id"] == "reindex";
    assert_eq!(problems.iter().filter(about).count(), 0, "{problems:#?}\n{}", house.log());
    assert_eq!(status["index"]["vectors"]["missing"], 0);
    for left in ["mem_metadata/reindex", "mem_metadata/reindex.wanted"] {
        assert!(!is_there(&house.at(left)), "{left}");
    }
}

#[test]
fn each_part_is_made_anew_while_the_old_one_answers_and_follows() {
    let (mut house, hold) = held();
    for (scope, changed) in [
        ("bm25", &WORDS[..]),
        ("embedding", &VECTORS),
        ("tag", &STORES),
        ("all", &["keyword_index", "vector_index", "file_store", "file_graph", "file_catalog"]),
    ] {
        let before = folders(&house);
        fs::write(&hold, "").unwrap();
        let said = house.run(["reindex", "--scope", scope]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(said.stderr.contains("in the background"), "{}", said.stderr);
        wait_for("its beginning", || {
            house.status()["index"]["reindex"]["all"] == 17 + u64::from(scope != "bm25")
        });
        assert_eq!(house.status()["index"]["reindex"]["scope"], scope);
        let text = house.run(["status"]).stdout;
        assert!(text.contains(&format!("  reindex  {scope}: 0 of ")), "{text}");
        // One at a time.
        for other in ["all", "tag"] {
            let said = house.run(["reindex", "--scope", other]);
            assert_eq!(said.code, 1, "{}", said.stderr);
            assert!(said.stderr.contains(&format!("A reindex (`{scope}`) is under way: ")));
        }
        // What is there answers, and follows what comes.
        check(&house);
        house.write("late.md", format!("# Late\n\nIt came while {scope} was made anew.\n"));
        house.settle_and_check();
        assert_eq!(house.found(&format!("\"while {scope} was made\"")), ["late.md"]);
        assert!(house.run(["search", "bicycle office"]).stdout.contains(", current, "));

        fs::remove_file(&hold).unwrap();
        wait_for_its_end(&house);
        house.settle_and_check();
        assert_eq!(house.found(&format!("\"while {scope} was made\"")), ["late.md"]);
        check(&house);
        wait_for("vectors of what came late", || {
            house.status()["index"]["vectors"]["missing"] == 0
        });
        check_clean(&house);
        for (folder, now) in folders(&house) {
            assert_eq!(now != before[folder], changed.contains(&folder), "{scope}: {folder}");
        }
    }
    // What is on the disk is that, too.
    house.stop();
    house.start();
    house.settle_and_check();
    check(&house);
    check_clean(&house);
}

#[test]
fn one_that_is_called_off_leaves_everything_as_it_was() {
    let (mut house, hold) = held();
    let before = folders(&house);
    let said = house.run(["reindex", "--cancel"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    let said = house.run(["reindex", "--dry-run", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["said"], "The whole index would be made anew from 17 notes.");
    assert!(!is_under_way(&house));
    fs::write(&hold, "").unwrap();
    assert_eq!(house.run(["reindex"]).code, 0);
    wait_for("its beginning", || house.status()["index"]["reindex"]["all"] == 17);
    let said = house.run(["reindex", "--cancel"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("Called off; the whole index stays as it was."));
    fs::remove_file(&hold).unwrap();
    wait_for("its place is empty", || !is_there(&house.at("mem_metadata/reindex")));
    wait_for("another can be asked for", || house.run(["reindex", "--scope", "tag"]).code == 0);
    wait_for_its_end(&house);
    check(&house);
    check_clean(&house);
    let now = folders(&house);
    for folder in ["keyword_index", "vector_index"] {
        assert_eq!(now[folder], before[folder], "{folder}");
    }
    // Stopped in the middle it is begun anew by the next start, once.
    fs::write(&hold, "").unwrap();
    assert_eq!(house.run(["reindex", "--scope", "bm25"]).code, 0);
    wait_for("its beginning", || house.status()["index"]["reindex"]["all"] == 17);
    assert_eq!(house.stop(), Some(0));
    house.start();
    wait_for("it begins anew", || house.status()["index"]["reindex"]["scope"] == "bm25");
    fs::remove_file(&hold).unwrap();
    wait_for_its_end(&house);
    check(&house);
    check_clean(&house);
    assert_ne!(folders(&house)["keyword_index"], now["keyword_index"]);
}

/// The vault is away for a moment, as a disk that is plugged in again: it begins anew by itself.
#[test]
fn one_whose_vault_is_away_for_a_moment_goes_on_when_it_is_back() {
    let (house, hold) = held();
    let before = folders(&house);
    fs::write(&hold, "").unwrap();
    assert_eq!(house.run(["reindex", "--scope", "bm25"]).code, 0);
    wait_for("its beginning", || house.status()["index"]["reindex"]["all"] == 17);
    let away = house.root().join("away");
    fs::rename(&house.vault, &away).unwrap();
    fs::remove_file(&hold).unwrap();
    wait_for("somebody to notice", || house.log().contains("a reindex waits for the vault"));
    fs::rename(&away, &house.vault).unwrap();
    wait_for("it is whole", || {
        house.log().contains("the index built anew is in use") && !is_under_way(&house)
    });
    house.settle_and_check();
    assert_ne!(folders(&house)["keyword_index"], before["keyword_index"]);
    check(&house);
    check_clean(&house);
}

/// Nobody hears that all stays as it was while it does not.
#[test]
fn who_calls_it_off_too_late_is_told_so() {
    let (mut house, _) = held();
    let before = folders(&house);
    house.stop();
    let hold = house.root().join("hold");
    house.env("REMD_HOLD", &format!("reindex.placing:{}", hold.display())).start();
    house.settle();
    fs::write(&hold, "").unwrap();
    assert_eq!(house.run(["reindex", "--scope", "bm25"]).code, 0);
    wait_for("it to be too late", || house.log().contains("putting it in place"));
    let said = house.run(["reindex", "--cancel"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("It is too late: the index of words"), "{}", said.stderr);
    fs::remove_file(&hold).unwrap();
    wait_for_its_end(&house);
    house.settle_and_check();
    assert_ne!(folders(&house)["keyword_index"], before["keyword_index"]);
    check(&house);
    check_clean(&house);
}

/// The fault points at which the next test kills.
pub const TESTED: [&str; 2] = ["reindex.note", "reindex.exchanged"];

#[test]
fn a_kill_at_any_point_leaves_a_whole_index() {
    let (mut house, _) = held();
    house.env("REMD_HOLD", "");
    let [note, exchanged] = TESTED;
    for (point, nth) in [(note, 5), (exchanged, 1), (exchanged, 3), (exchanged, 5)] {
        house.stop();
        house.env("REMD_FAULT", &format!("{point}:{nth}")).start();
        house.settle();
        let _said = house.run(["reindex"]);
        assert_eq!(house.wait_for_end(), None, "killed at {point}");
        // Without an agent, as it lies there.
        check(&house);
        house.env("REMD_FAULT", "").start();
        wait_for("its second beginning", || house.log().matches("building anew").count() >= 2);
        wait_for_its_end(&house);
        house.settle_and_check();
        check(&house);
        check_clean(&house);
    }
}

#[test]
fn without_an_agent_the_command_does_it() {
    let (mut house, _) = held();
    house.stop();
    house.write("late.md", "# Late\n\nCommitted by a person.\n");
    house.git(["add", "late.md"]);
    house.git(["commit", "-qm", "late"]);
    let before = folders(&house);
    let said = house.run(["reindex", "--dry-run"]);
    assert_eq!((said.code, folders(&house) == before), (0, true), "{}", said.stderr);
    for (scope, what) in [
        ("bm25", "The index of words"),
        ("embedding", "The index of vectors"),
        ("tag", "The catalog of notes, tags and links"),
        ("all", "The whole index"),
    ] {
        let said = house.run(["reindex", "--scope", scope]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(
            said.stderr.contains(&format!("{what} is made anew from 18 notes.")),
            "{}",
            said.stderr
        );
        check(&house);
        assert_eq!(house.found("\"Committed by a person\""), ["late.md"]);
    }
    assert!(folders(&house).iter().all(|it| before[it.0] != *it.1));
    assert_eq!(house.run(["reindex", "--cancel"]).code, 1);
    // No index at all: the same, from nothing.
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    let said = house.run(["reindex"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    check(&house);
    house.start();
    house.settle_and_check();
    check(&house);
    check_clean(&house);
}

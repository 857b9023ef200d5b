//! Meaning, out of the box: no key, no download, and never in the way of a word.

use std::fs;
use std::path::{Path, PathBuf};

use crate::house::{House, has_fuse, wait_for};

fn house() -> House {
    let house = House::open();
    house.write("commute.md", "# Commute\n\nEvery morning I ride my bicycle to the office.\n");
    house.write("soup.md", "# Soup\n\nBoil lentils with carrots, salt and a bay leaf.\n");
    house
        .write("db.md", "# Database\n\nWe left MySQL; `handleWebSocket` writes to Postgres now.\n");
    house.settle_and_check();
    house
}

#[test]
fn a_question_finds_the_note_that_has_none_of_its_words() {
    let house = house();
    let question = "travelling to work on two wheels";
    let said = house.run(["search", question]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let first = said.stdout.lines().next().unwrap();
    assert!(first.starts_with("========== commute.md:1-3 [score="), "{}", said.stdout);
    assert!(said.stdout.ends_with(", current, keyword + vector\n"), "{}", said.stdout);
    if has_fuse("a question under the mount") {
        assert_eq!(house.cat(&format!("search/{question}")), said.stdout);
    }
    let status = house.status();
    assert_eq!(status["index"]["vectors"]["model"], "remd-static-256");
    assert_eq!(status["index"]["vectors"]["missing"], 0);
    let listed = house.run(["model", "list"]);
    assert_eq!(listed.stdout, "remd-static-256  static, 256 parts, on board, in use\n");
}

#[test]
fn both_branches_are_shown_and_explained_with_an_agent_and_without() {
    let mut house = house();
    let check = |house: &House| {
        let said = house.run(["search", "--explain", "bicycle to the office"]);
        let header = said.stdout.lines().next().unwrap();
        let scores = header.split_once('[').unwrap().1;
        for name in ["score=", " vector=0.", " keyword="] {
            assert!(scores.contains(name), "{header}");
        }
        for part in [" keyword: rank 1, BM25 ", " vector: rank 1, cosine 0.", "rule score: "] {
            assert!(said.stdout.contains(part), "{}", said.stdout);
        }
        let rrf = house.run(["search", "--json", "--vector-weight", "0.7", "bicycle office"]);
        let json: serde_json::Value = serde_json::from_str(&rrf.stdout).unwrap();
        assert_eq!((&json["fusion"], &json["counts"]["hybrid"]), (&"rrf".into(), &true.into()));
        let score = json["results"][0]["score"].as_f64().unwrap();
        assert!((score - 1.0 / 61.0).abs() < 1e-6, "first of both: .7/61 + .3/61, not {score}");
        said.stdout
            .lines()
            .filter(|it| !it.starts_with("-- "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let with = check(&house);
    house.stop();
    assert_eq!(check(&house), with);
}

#[test]
fn what_is_typed_to_the_letter_has_no_neighbours() {
    let house = house();
    for query in ["handleWebSocket", "\"lentils with carrots\""] {
        let said = house.run(["search", query]);
        assert!(said.stdout.contains("-- 1 hit as of "), "{}", said.stdout);
        assert!(said.stdout.ends_with("keyword (vector off: the query is meant to the letter)\n"));
    }
    // Another script falls to the words, and the page says so.
    house.write("zh.md", "把機器推論洗成權威事實的做法\n");
    house.settle_and_check();
    let said = house.run(["search", "機器推論 權威事實"]);
    assert!(said.stdout.contains("zh.md:1-1"), "{}", said.stdout);
    assert!(said.stdout.contains("(vector off: the model knows too few words of the query)"));
}

#[test]
fn settings_choose_the_rule() {
    let mut house = house();
    house.stop();
    house.write("remd.yaml", "search:\n  fusion: rrf\n  vector_weight: 0.5\n");
    house.start();
    house.settle_and_check();
    let said = house.run(["search", "--json", "bicycle office"]);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["fusion"], "rrf", "{json:#}");
    assert!(json["ranking"].as_str().unwrap().contains("0.5/(60 + rank among vectors)"));
}

/// The files of vectors.
fn rows(house: &House) -> Vec<PathBuf> {
    let spaces = fs::read_dir(house.at("mem_metadata/vector_index")).unwrap();
    let files = spaces.flat_map(|it| fs::read_dir(it.unwrap().path()).unwrap());
    files.map(|it| it.unwrap().path()).filter(|it| it.extension().is_some()).collect()
}

fn is_mended(house: &House) -> bool {
    let status = house.status();
    status["index"]["vectors"]["missing"] == 0
        && status["problems"].as_array().unwrap().iter().all(|it| it["id"] != "vectors")
}

/// Whatever becomes of vectors, words are searched.
fn words_go_on(house: &House) {
    assert_eq!(house.found("bicycle"), ["commute.md"]);
    let status = house.status();
    let problems = status["problems"].as_array().unwrap();
    assert!(problems.iter().all(|it| it["id"] != "index"), "{status}");
}

#[test]
fn vectors_that_are_damaged_or_gone_are_never_believed_and_made_again() {
    let mut house = house();
    let question = "travelling to work on two wheels";
    for damage in ["flipped", "cut", "gone"] {
        for while_it_runs in [false, true] {
            wait_for("vectors on the disk", || !rows(&house).is_empty() && is_mended(&house));
            if !while_it_runs {
                house.stop();
            }
            for file in rows(&house) {
                let mut bytes = fs::read(&file).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x10;
                match damage {
                    "flipped" => fs::write(&file, &bytes).unwrap(),
                    "cut" => fs::write(&file, &bytes[..middle]).unwrap(),
                    _ => fs::remove_file(&file).unwrap(),
                }
            }
            if !while_it_runs {
                house.start();
                house.settle_and_check();
            }
            wait_for("whole vectors", || {
                words_go_on(&house);
                rows(&house).iter().any(is_whole)
            });
            wait_for("the end of it", || {
                words_go_on(&house);
                is_mended(&house)
            });
            assert_eq!(house.found(question), ["commute.md"], "{damage} {while_it_runs}");
        }
    }
}

/// Whether what a file of vectors says of its own bytes is true.
fn is_whole(file: impl AsRef<Path>) -> bool {
    fs::read(file)
        .is_ok_and(|it| it.len() > 16 && crc32fast::hash(&it[16..]).to_le_bytes() == it[12..16])
}

/// A command that builds the index leaves no note to an agent that may never come.
#[test]
fn without_an_agent_a_very_long_note_has_its_vectors_too() {
    let mut house = house();
    let sections =
        (0..90).map(|it| format!("# Part {it}\n\n{}\n", "lentils and salt ".repeat(130)));
    let ride = "# Ride\n\nThe bicycle brought me to the office again.\n";
    house.write("long.md", sections.collect::<String>() + ride);
    house.settle();
    house.stop();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    let said = house.run(["search", "travelling to work on two wheels"]);
    assert!(said.stdout.ends_with(" keyword + vector\n"), "{}", said.stdout);
    assert!(said.stdout.contains("========== long.md:"), "{}", said.stdout);
}

//! Large indexes: searched before they are proven, and what is found to be damaged then; builds
//! that were killed.

use std::fs;
use std::path::PathBuf;

use crate::house::{House, wait_for};

#[test]
fn damage_that_is_found_while_the_index_is_searched_already_is_told_and_mended() {
    let mut house = House::open();
    house.write("a.md", "alfa bravo\n");
    house.settle_and_check();
    house.stop();
    // As if it were large.
    let faults = house.temp.path().join("faults");
    fs::write(&faults, "index.prove_late=5\n").unwrap();
    house.env("REMD_FAULTS", faults.to_str().unwrap());

    // A whole one is proven soon, and the next start is not warned.
    let mark = house.at("mem_metadata/unproven");
    house.start();
    house.settle_and_check();
    wait_for("the proof", || !mark.exists());
    assert_eq!(house.found("alfa"), ["a.md"]);
    house.stop();
    assert!(!house.log().contains("damaged"), "{}", house.log());

    let file = segment(&house, "store");
    let mut bytes = fs::read(&file).unwrap();
    // Before the footer with the checksum.
    bytes[0] ^= 0xff;
    fs::write(&file, &bytes).unwrap();
    house.start();
    wait_for("the damage to be told", || house.log().contains("so may answers be"));
    house.settle_and_check();
    assert_eq!(house.found("alfa"), ["a.md"]);
    assert!(house.log().contains("it is corrupt"), "{}", house.log());
    wait_for("the end of it", || {
        let problems = house.status()["problems"].as_array().unwrap().clone();
        !problems.iter().any(|it| it["id"] == "index")
    });
    // Who was killed before the proof leaves it to the next one, before anything is believed.
    house.stop();
    fs::write(&mark, "").unwrap();
    let file = segment(&house, "store");
    let mut bytes = fs::read(&file).unwrap();
    bytes[0] ^= 0xff;
    fs::write(&file, &bytes).unwrap();
    house.start();
    house.settle_and_check();
    assert_eq!(house.found("alfa"), ["a.md"]);
    assert_eq!(house.log().matches("so may answers be").count(), 1);
    assert!(!mark.exists());
    house.stop();
}

fn segment(house: &House, extension: &str) -> PathBuf {
    let mut files = fs::read_dir(house.at("mem_metadata/keyword_index")).unwrap();
    let is_it = |it: &PathBuf| it.extension().is_some_and(|it| it == extension);
    files.find_map(|it| Some(it.unwrap().path()).filter(is_it)).expect("a segment")
}

#[test]
fn an_index_that_many_notes_come_to_goes_on_where_it_was_killed() {
    const MANY: usize = 700;
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-qb", "main"]);
    for number in 0..30 {
        house.write(format!("first/{number}.md"), format!("alfa {}\n", word(number)));
    }
    // Each note a step.
    let faults = house.temp.path().join("faults");
    fs::write(&faults, "indexer.step=0\n").unwrap();
    house.env("REMD_FAULTS", faults.to_str().unwrap());
    house.env("REMD_FAULT", "indexer.note:21");
    house.spawn();
    assert_eq!(house.wait_for_end(), None, "{}", house.log());
    house.env("REMD_FAULT", "");
    house.start();
    house.settle_and_check();
    assert_eq!(left_to_do(&house), [(10, 30)]);
    assert_eq!(house.found(&word(7)), ["first/7.md"]);

    // To a whole index, with some notes changed and gone; killed near the end.
    house.stop();
    for number in 0..MANY {
        house.write(
            format!("many/{number}.md"),
            format!("bravo {} [[{number}]]\n", word(1000 + number)),
        );
    }
    house.write("first/7.md", "charlie\n");
    fs::remove_file(house.at("first/8.md")).unwrap();
    fs::write(&faults, "indexer.step=100\n").unwrap();
    house.env("REMD_FAULT", "indexer.note:690");
    house.spawn();
    assert_eq!(house.wait_for_end(), None, "{}", house.log());
    house.env("REMD_FAULT", "");
    house.start();
    house.settle_and_check();
    let (left, all) = left_to_do(&house)[1];
    // What was deleted a moment before the start may be left to the next commit.
    assert!((MANY + 29..=MANY + 30).contains(&all), "{all}");
    assert!((10..MANY).contains(&left), "{left} of {all}");
    assert_eq!(house.found("charlie"), ["first/7.md"]);
    assert!(house.found(&word(7)).is_empty() && house.found(&word(8)).is_empty());
    assert_eq!(house.found(&word(1699)), ["many/699.md"]);
    assert_eq!(house.status()["index"]["notes"], MANY + 29);
    // What the kills took of the vectors is made again.
    wait_for("the vectors", || house.status()["index"]["vectors"]["missing"] == 0);
    house.stop();
}

/// A word of letters for a number.
fn word(number: usize) -> String {
    let letter = |it: char| "bcdfghjklm".chars().nth(it.to_digit(10).unwrap() as usize).unwrap();
    format!("qua{}z", number.to_string().chars().map(letter).collect::<String>())
}

/// Of how many notes a start had to put how many, for each start that went on with a build.
fn left_to_do(house: &House) -> Vec<(usize, usize)> {
    let number = |line: &str, name: &str| -> usize {
        let at = line.find(name).unwrap() + name.len();
        let digits: String = line[at..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    };
    let log = house.log();
    let lines = log.lines().filter(|it| it.contains("going on with the index"));
    lines.map(|it| (number(it, " notes="), number(it, " all="))).collect()
}

//! Large indexes: searched before they are proven, and what is found to be damaged then.

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

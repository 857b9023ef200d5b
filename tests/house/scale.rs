//! Many files at once: adopted with progress, through a kill and a stop in the middle.
//!
//! Small enough for every run; `benches/speed` measures at 100,000.

use std::fs;

use crate::house::{House, wait_for};

const FILES: usize = 3000;
/// Every so many is a note; the others are adopted and not indexed, which takes a while as well.
const NOTE_EVERY: usize = 60;

fn name(number: usize) -> String {
    let extension = if number.is_multiple_of(NOTE_EVERY) { "md" } else { "dat" };
    format!("notes/{}/{number}.{extension}", number % 30)
}

/// Text that no two files share and that does not pack well, so that adopting takes a while.
fn text(number: usize) -> String {
    if number.is_multiple_of(NOTE_EVERY) {
        return format!("# Note {number}\n\nneedle{number}x\n");
    }
    let mut state = number as u64 + 1;
    let mut words = String::new();
    for _ in 0..500 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words.push_str(&format!("{:x} ", state >> 48));
    }
    words
}

fn folder() -> House {
    let house = House::closed();
    for number in 0..FILES {
        let path = house.vault.join(name(number));
        if number < 30 {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        fs::write(path, text(number)).unwrap();
    }
    house
}

/// Waits until the adoption is in the middle, asking as a person would.
fn wait_for_the_middle(house: &House) {
    wait_for("the adoption to be in the middle", || {
        let said = house.run(["status", "--json"]);
        let Ok(status) = serde_json::from_str::<serde_json::Value>(&said.stdout) else {
            return false;
        };
        let committing = &status["pending"]["committing"];
        if committing.is_null() {
            assert!(status["head"].is_null(), "adopted before anybody could look");
            return false;
        }
        let (done, all) =
            (committing["done"].as_u64().unwrap(), committing["all"].as_u64().unwrap());
        assert!(done <= all && all >= FILES as u64, "{done} of {all}");
        assert_eq!(committing["adopting"], true);
        assert_eq!(status["verdict"], "working");
        let summary = status["summary"].as_str().unwrap();
        assert!(summary.starts_with("adopting ") && summary.contains(" of 3,0"), "{summary}");
        true
    });
}

fn assert_adopted(house: &House) {
    house.settle();
    assert_eq!(house.git(["status", "--porcelain"]), "");
    assert_eq!(house.git(["ls-files", "notes"]).lines().count(), FILES);
    assert_eq!(house.git(["rev-list", "--count", "HEAD"]).trim(), "1");
    house.git(["fsck", "--strict"]);
    for number in [0, NOTE_EVERY, FILES - NOTE_EVERY] {
        let said = house.run(["search", "--json", &format!("needle{number}x")]);
        assert!(said.stdout.contains(&name(number)), "{}", said.stdout);
    }
}

#[test]
fn an_adoption_says_how_far_it_is_and_goes_on_after_a_kill() {
    let mut house = folder();
    house.spawn();
    wait_for_the_middle(&house);
    house.kill();
    house.start();
    assert_adopted(&house);
    // A handful of packs, not a loose object for each file.
    let objects = house.git(["count-objects", "-v"]);
    let loose = objects.lines().find_map(|it| it.strip_prefix("count: ")).unwrap();
    assert!(loose.parse::<usize>().unwrap() < 200, "{objects}");
    assert_eq!(house.stop(), Some(0));
}

#[test]
fn a_stop_in_the_middle_of_an_adoption_is_a_clean_end_j07() {
    let mut house = folder();
    house.spawn();
    wait_for_the_middle(&house);
    assert_eq!(house.stop(), Some(0), "{}", house.log());
    house.start();
    assert_adopted(&house);
}

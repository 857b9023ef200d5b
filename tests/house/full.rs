//! A disk without room for the index, and an index whose files somebody touches: what `status`
//! says meanwhile, how often it is tried, and what *settled* waits for.

use std::fs;
use std::process::Command;

use crate::house::{House, wait_for};
use crate::machine::{Disk, named, problem};

fn signal(house: &House, name: &str) {
    let pid = house.pid().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
}

#[test]
fn an_index_without_room_is_never_called_damaged_or_current_and_tried_only_with_more_room() {
    let mut house = House::closed();
    let disk = Disk::mount(&house.vault, "size=14m");
    house.git(["init", "-qb", "main"]);
    // Words of their own, so that the index is large beside the notes.
    for note in 0..600 {
        let words: String = (0..60).map(|at| format!("w{:x} ", (note * 61 + at) * 7919)).collect();
        house.write(format!("{note}.md"), format!("alfa {words}\n"));
    }
    house.args(["--no-mount"]).start();
    house.settle_and_check();
    let builds = || house.log().matches("building the index").count();
    let before = builds();
    let fillers = house.at(".git/fillers");
    fs::create_dir(&fillers).unwrap();
    let mut fill = (0..).map(|at: u32| disk.fill(&fillers.join(at.to_string())));
    // Nothing is built in the room that is free in between.
    signal(&house, "STOP");
    fill.next();
    fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    fill.next();
    signal(&house, "CONT");
    let mut count = 0;
    let mut is_said = |house: &House| {
        // What the agent had open of the folder is room when it lets go of it.
        fill.next();
        let status = house.status();
        assert_ne!(status["verdict"], "ok", "{status}");
        let Some(index) = problem(house, "index") else { return 0 };
        let said = format!("{} {}", index["what"], index["remedy"]);
        // What was taken away in the middle of a write may be called that; a full disk may not.
        assert!(!said.contains("damaged") || !said.contains("space"), "{said}");
        count = count.max(index["count"].as_u64().unwrap());
        count
    };
    wait_for("some tries", || is_said(&house) >= 3);
    let said = named(&house, "index");
    assert!(said.contains("the disk is full") && said.contains("Free some space"), "{said}");
    // One may have begun in the room that came free then.
    assert!(builds() <= before + 1, "{}", house.log());

    fs::remove_dir_all(&fillers).unwrap();
    wait_for("the index, by itself", || problem(&house, "index").is_none());
    house.settle_and_check();
    assert_eq!(house.status()["verdict"], "ok");
    assert_eq!(house.stop(), Some(0));
}

#[test]
fn settled_waits_for_an_index_that_is_looked_at_and_made_anew() {
    let house = House::open();
    for note in 0..120 {
        house.write(format!("{note}.md"), "alfa\n");
    }
    house.settle_and_check();
    let metadata = house.at("mem_metadata");
    for round in 0..6 {
        match round % 3 {
            0 => {
                let list = metadata.join("keyword_index/.managed.json");
                fs::File::options().write(true).open(list).unwrap().set_len(3).unwrap();
            }
            1 => fs::write(metadata.join("file_graph/default.jsonl.zst"), "odd").unwrap(),
            _ => fs::remove_dir_all(&metadata).unwrap(),
        }
        // With a new commit and without one.
        if round < 5 {
            house.write(format!("new {round}.md"), format!("bravo {round}\n"));
        }
        let settled = house.run(["status", "--wait", "settled", "--timeout", "60s"]);
        assert_eq!(settled.code, 0, "{round}: {}", settled.stdout);
        assert!(settled.stdout.starts_with("ok"), "{round}: {}", settled.stdout);
        assert!(metadata.join("keyword_index/meta.json").is_file(), "{round}");
        assert_eq!(house.found("bravo").len(), (round + 1).min(5), "{round}");
    }
}

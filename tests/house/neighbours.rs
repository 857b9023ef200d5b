//! A graph of neighbours through the binary: built when all is quiet, read after a restart.

use serde_json::Value;

use crate::house::{House, wait_for};

const SUBJECTS: [&str; 8] = [
    "The bicycle in the garage needs a new chain before the ride to work",
    "Soup of lentils with carrots for the guests on Sunday",
    "The violin lesson moved to Thursday evening",
    "A dentist appointment for the children next month",
    "The landlord wants the rent by bank transfer",
    "Tomato seedlings on the balcony need more sun",
    "The train to the mountains leaves at dawn",
    "The printer in the office is out of toner",
];

fn graph(house: &House) -> Value {
    house.status()["index"]["vectors"]["graph"].clone()
}

fn first(house: &House, query: &str) -> (String, String) {
    let said = house.run(["search", "--json", query]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let found: Value = serde_json::from_str(&said.stdout).unwrap();
    let path = found["results"][0]["path"].as_str().unwrap().to_owned();
    (path, found["ranking"].as_str().unwrap().to_owned())
}

fn check(house: &House) {
    wait_for("a graph in use", || graph(house)["state"] == "in_use");
    let (path, ranking) = first(house, "how do I commute, by cycling?");
    assert!(path.starts_with("memory/subject0/"), "{path}: {ranking}");
    let said = house.run(["status"]);
    assert!(said.stdout.contains("a graph of neighbours is in use"), "{}", said.stdout);
}

#[test]
fn many_vectors_get_a_graph_that_a_restart_reads_and_damage_costs_nothing() {
    let mut house = House::closed();
    for (at, subject) in SUBJECTS.iter().enumerate() {
        for note in 0..8 {
            let path = format!("memory/subject{at}/{note}.md");
            house.write(&path, format!("# Note {note}\n\n{subject}; note {note} says so.\n"));
        }
    }
    house.env("REMD_SEARCH_ANN_ABOVE", "off").start();
    house.settle_and_check();
    assert_eq!(graph(&house), Value::Null);
    house.stop();
    house.env("REMD_SEARCH_ANN_ABOVE", "20").start();
    house.settle_and_check();
    check(&house);
    let all = graph(&house)["all"].as_u64().unwrap();
    assert!(all >= 64, "{all}");
    house.stop();
    let file = file(&house);
    let built = std::fs::metadata(&file).unwrap().modified().unwrap();
    house.start();
    check(&house);
    assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), built, "read, not built");
    // An edit is found beside it.
    house.write("memory/new.md", "# Whale\n\nA whale watching tour from the harbour.\n");
    house.settle_and_check();
    assert_eq!(first(&house, "looking at whales from a boat").0, "memory/new.md");
    house.stop();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&file, bytes).unwrap();
    house.start();
    check(&house);
    assert!(std::fs::metadata(&file).unwrap().modified().unwrap() > built, "built again");
    // Written into and cut while it is in use: no answer goes by it, and it is built again.
    for damage in ["written", "cut", "gone"] {
        let before = std::fs::metadata(&file).unwrap().modified().unwrap();
        let whole = std::fs::read(&file).unwrap();
        match damage {
            "written" => {
                use std::os::unix::fs::FileExt as _;
                let open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
                open.write_all_at(&vec![0xff; whole.len() / 2], whole.len() as u64 / 4).unwrap();
            }
            "cut" => {
                let open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
                open.set_len(500).unwrap();
            }
            _ => std::fs::remove_file(&file).unwrap(),
        }
        assert_eq!(first(&house, "looking at whales from a boat").0, "memory/new.md", "{damage}");
        wait_for(damage, || {
            let is_new = std::fs::metadata(&file).is_ok_and(|it| it.modified().unwrap() > before);
            is_new && graph(&house)["state"] == "in_use"
        });
        check(&house);
    }
    let status = house.status();
    let problems = status["problems"].as_array().unwrap();
    assert!(problems.iter().all(|it| it["id"] == "identity"), "{problems:?}");
}

fn file(house: &House) -> std::path::PathBuf {
    let spaces = std::fs::read_dir(house.at("mem_metadata/vector_index")).unwrap();
    let mut files = spaces.map(|it| it.unwrap().path().join("neighbours.hnsw"));
    files.find(|it| it.exists()).unwrap()
}

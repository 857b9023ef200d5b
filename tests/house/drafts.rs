//! What was just written is found before its commit: by its words and by what it means.

use std::fs;

use serde_json::Value;

use crate::house::{House, has_fuse, wait_for};

fn house() -> House {
    let house = House::open();
    house.write("commute.md", "# Commute\n\nEvery morning I take the tram to the office.\n");
    house.write("soup.md", "# Soup\n\nBoil lentils with carrots, salt and a bay leaf.\n");
    house.settle_and_check();
    house
}

fn page(house: &House, query: &str) -> Value {
    serde_json::from_str(&house.run(["search", "--json", query]).stdout).unwrap()
}

/// The hits, each with whether it is uncommitted.
fn hits(house: &House, query: &str) -> Vec<(String, bool)> {
    let page = page(house, query);
    let hits = page["results"].as_array().into_iter().flatten();
    hits.map(|it| {
        let path = it["path"].as_str().unwrap().to_owned();
        (path, it["uncommitted"].as_bool().unwrap())
    })
    .collect()
}

const ON_TWO_WHEELS: &str = "travelling to work on two wheels";

#[test]
fn what_no_commit_has_is_found_by_words_and_by_meaning() {
    let mut house = house();
    assert_eq!(house.run(["pause"]).code, 0);
    house.write("new/deep/bike.md", "# Ride\n\nThe bicycle brought me to the office again.\n");
    house.write("soup.md", "# Soup\n\nQuinoa with zucchini.\n");
    let first = |house: &House, query: &str| hits(house, query).first().cloned();
    let draft = |path: &str| Some((path.to_owned(), true));
    wait_for("the new note", || first(&house, ON_TWO_WHEELS) == draft("new/deep/bike.md"));
    wait_for("the edit", || first(&house, "zucchini") == draft("soup.md"));
    assert!(hits(&house, "\"bay leaf\"").is_empty(), "the edit is in the place of the old text");
    let text = house.run(["search", "zucchini"]).stdout;
    assert!(text.contains("\n  uncommitted: on disk, in no commit yet\n"), "{text}");
    assert!(text.contains(" edits uncommitted, keyword"), "{text}");
    if has_fuse("uncommitted notes under the mount") {
        assert_eq!(house.cat("search/zucchini"), text);
        let link = house.cat("note/new/deep/bike.md/links");
        assert!(link.contains("uncommitted"), "{link}");
    }
    // It adds and replaces, and takes nothing away.
    house.write("commute.md", "");
    fs::remove_file(house.at("soup.md")).unwrap();
    wait_for("the text of the last commit", || {
        hits(&house, "\"bay leaf\"") == [("soup.md".to_owned(), false)]
    });
    assert_eq!(hits(&house, "tram"), [("commute.md".to_owned(), false)]);
    // What is written while nobody looks is found by whoever comes next.
    house.kill();
    house.write("more.md", "A penny-farthing parked outside.\n");
    house.start();
    house.settle_and_check();
    for (query, path) in [(ON_TWO_WHEELS, "new/deep/bike.md"), ("penny", "more.md")] {
        assert_eq!(first(&house, query), Some((path.to_owned(), false)));
    }
    assert!(hits(&house, "\"bay leaf\"").is_empty() && hits(&house, "tram").is_empty());
    assert!(house.run(["search", "penny"]).stdout.contains(", current, "));
    assert_eq!(house.status()["index"]["vectors"]["missing"], 0);
}

#[test]
fn what_a_commit_would_not_have_is_no_draft() {
    let house = house();
    fs::create_dir_all(house.at("mem_agent")).unwrap();
    house.write(".gitignore", "private/\n");
    house.write(".gitattributes", "*.secret.md filter=git-crypt\n");
    house.settle();
    assert_eq!(house.run(["pause"]).code, 0);
    house.write("private/a.md", "zebra\n");
    house.write("mem_agent/b.md", "zebra\n");
    house.write("c.secret.md", "zebra\n");
    house.write("d.txt", "zebra\n");
    std::os::unix::fs::symlink(house.at("d.txt"), house.at("e.md")).unwrap();
    house.write("z.md", "zebra\n");
    wait_for("the one note", || !hits(&house, "zebra").is_empty());
    assert_eq!(hits(&house, "zebra"), [("z.md".to_owned(), true)]);
    assert_eq!(house.run(["resume"]).code, 0);
    house.settle();
    wait_for("its commit", || hits(&house, "zebra") == [("z.md".to_owned(), false)]);
}

#[test]
fn while_a_person_is_in_the_middle_of_something_edits_are_found_all_the_same() {
    let house = house();
    house.git(["checkout", "-qb", "other"]);
    house.write("soup.md", "theirs\n");
    house.settle();
    house.git(["checkout", "-q", "main"]);
    house.settle();
    house.write("soup.md", "ours\n");
    house.settle();
    let rebase = std::process::Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(["rebase", "-q", "other"])
        .current_dir(&house.vault)
        .output()
        .unwrap();
    assert!(!rebase.status.success(), "a conflict stops it");
    house.write("bike.md", "The bicycle brought me to the office again.\n");
    wait_for("the edit", || {
        hits(&house, ON_TWO_WHEELS).first() == Some(&("bike.md".to_owned(), true))
    });
    house.git(["rebase", "--abort"]);
    house.settle();
    wait_for("its commit", || {
        hits(&house, ON_TWO_WHEELS).first() == Some(&("bike.md".to_owned(), false))
    });
}

/// Whoever saves and asks at once, after a quiet while, finds it or is told that it is not all.
#[test]
fn the_first_edit_after_quiet_is_found_or_counted_at_once() {
    let house = house();
    house.write("bike.md", "# Bike\n\nOld.\n");
    std::fs::write(house.root().join("outside.md"), "# Outside\n\nThe word is outside4.\n")
        .unwrap();
    house.settle_and_check();
    let text = |word: &str| format!("# Bike\n\nThe word is {word}.\n");
    type Save<'a> = (&'a str, &'a str, Box<dyn Fn(&str) + 'a>);
    let saves: [Save; 5] = [
        ("plain", "bike.md", Box::new(|word| house.write("bike.md", text(word)))),
        (
            "temp and rename",
            "bike.md",
            Box::new(|word| {
                house.write(".bike.md.tmp", text(word));
                std::fs::rename(house.at(".bike.md.tmp"), house.at("bike.md")).unwrap();
            }),
        ),
        ("new", "new.md", Box::new(|word| house.write("new.md", text(word)))),
        (
            "from outside",
            "from.md",
            Box::new(|word| {
                let outside = house.root().join("outside.md");
                std::fs::write(&outside, text(word)).unwrap();
                std::fs::rename(outside, house.at("from.md")).unwrap();
            }),
        ),
        ("new folder", "sub/deep.md", Box::new(|word| house.write("sub/deep.md", text(word)))),
    ];
    for round in 0..2 {
        for (at, (how, path, save)) in saves.iter().enumerate() {
            let word = format!("quick{round}{at}");
            save(&word);
            let page = house.run(["search", &word]).stdout;
            let last = page.lines().last().unwrap_or_default().to_owned();
            assert!(page.contains(path) || !last.contains("current"), "{how}: {page}");
            wait_for(how, || hits(&house, &word).iter().any(|it| it.0 == *path));
            house.settle();
        }
    }
}

/// A long pause, or a lock that somebody left: a thousand edits wait, and one more is typed.
#[test]
fn of_very_many_edits_that_wait_the_newest_are_found() {
    let house = house();
    assert_eq!(house.run(["pause"]).code, 0);
    let write = |number: u32| {
        let text = format!("# Waiting {number}\n\nThe word stands at {number:03} here.\n");
        house.write(format!("a/{number:03}.md"), text);
    };
    // A new folder is one place that waits, until it is watched.
    write(0);
    wait_for("the folder", || {
        hits(&house, "\"stands at 000 here\"") == [("a/000.md".to_owned(), true)]
    });
    (1..1000).for_each(write);
    let edits = |house: &House| house.status()["pending"]["edits"].as_u64().unwrap_or(0);
    wait_for("all of them to be noticed", || edits(&house) >= 1000);
    for word in ["quagga", "nyala"] {
        // Below all others by its path, and again when it was read already.
        house.write("zz/typed.md", format!("# Typed\n\nThe {word} came by bicycle.\n"));
        wait_for(word, || hits(&house, word) == [("zz/typed.md".to_owned(), true)]);
    }
    assert!(hits(&house, "quagga").is_empty(), "it says something else by now");
    // One of the many, too; and what was found before is found on.
    house.write("a/017.md", "# Rewritten\n\nThe addax came.\n");
    wait_for("addax", || hits(&house, "addax") == [("a/017.md".to_owned(), true)]);
    assert_eq!(hits(&house, "nyala"), [("zz/typed.md".to_owned(), true)]);
    // A hundred newer ones that say what HEAD says keep no other out.
    for _ in 0..2 {
        house.write("soup.md", "# Soup\n\nBoil lentils with carrots, salt and a bay leaf.\n");
    }
    house.write("a/018.md", "# Rewritten\n\nThe kudu came.\n");
    wait_for("kudu", || hits(&house, "kudu") == [("a/018.md".to_owned(), true)]);
    let text = house.run(["search", "kudu"]).stdout;
    assert!(text.contains(" edits uncommitted"), "the page says that it is not all: {text}");
    assert_eq!(house.run(["resume"]).code, 0);
    house.settle_and_check();
    for (word, path) in
        [("nyala", "zz/typed.md"), ("\"stands at 999 here\"", "a/999.md"), ("addax", "a/017.md")]
    {
        wait_for(word, || hits(&house, word) == [(path.to_owned(), false)]);
    }
}

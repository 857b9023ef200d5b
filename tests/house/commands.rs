//! Commands at their edges: a wrong argument says so, and never reads as an answer.

use crate::house::House;

#[test]
fn a_wrong_option_is_refused_with_and_without_an_agent() {
    let mut house = House::open();
    house.write("a/note.md", "alfa\n");
    house.settle();
    let wrong = [
        ["--min-score", "nan"],
        ["--min-score", "inf"],
        ["--limit", "0"],
        ["--limit", "201"],
        ["--since", "2026-02-29"],
        ["--in", ""],
        ["--in", "a/../.."],
        ["--tag", "#"],
        ["--path", "["],
    ];
    let ask = |house: &House| -> Vec<String> {
        wrong
            .iter()
            .map(|[option, value]| {
                let said = house.run(["search", option, value, "alfa"]);
                assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{option} {value}");
                assert!(said.stderr.contains("hint: "), "{option} {value}: {}", said.stderr);
                said.stderr
            })
            .collect()
    };
    let with_agent = ask(&house);
    house.stop();
    assert_eq!(ask(&house), with_agent);
}

#[test]
fn what_is_neither_revision_nor_path_is_an_error() {
    let house = House::open();
    house.write("a/note.md", "alfa\n");
    house.settle();
    for range in ["nonsense", "HEAD~1..HEAD", "HEAD..nonsense", "HEAD~9", "a/other.md"] {
        let said = house.run(["diff", range]);
        assert_eq!(said.code, 2, "{range}: {}", said.stdout);
        assert!(said.stderr.contains("hint: "), "{range}: {}", said.stderr);
    }
    for same in ["HEAD", "HEAD..HEAD", "a", "a/note.md"] {
        assert_eq!(house.run(["diff", same]).code, 1, "{same}");
    }
    house.write("a/note.md", "bravo\n");
    house.settle();
    for changed in [&["diff", "HEAD~1"][..], &["diff", "HEAD~1..", "a"], &["diff", "HEAD~1..HEAD"]]
    {
        let said = house.run(changed);
        assert!(said.code == 0 && said.stdout.contains("+bravo"), "{changed:?}: {}", said.stderr);
    }
    let said = house.run(["log", "no/such.md"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("no/such.md"), "{}", said.stderr);
    assert_eq!(house.run(["log", "-n", "0"]).code, 2);
}

#[test]
fn a_note_that_is_not_read_as_written_is_named_b05() {
    let mut house = House::open();
    house.write("dup.md", "---\ntags: [alfa, bravo]\nstatus: open\nstatus: closed\n---\nbody\n");
    house.write("latin.md", b"caf\xe9 needle\n");
    house.write("nul.md", b"\0\0\0\0needle\n");
    house.write("fine.md", "---\ntags: [alfa]\n---\nbody\n");
    let named = |house: &House| -> Vec<(String, String)> {
        let status = house.status();
        assert_eq!(
            status["index"]["troubled_notes"],
            status["index"]["troubled"].as_array().unwrap().len()
        );
        let problem = status["problems"].as_array().unwrap().iter().find(|it| it["id"] == "notes");
        assert!(problem.is_none_or(|it| it["level"] == "note"), "{problem:?}");
        let text = |it: &serde_json::Value| it.as_str().unwrap().to_owned();
        status["index"]["troubled"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (text(&it["path"]), text(&it["problems"][0])))
            .collect()
    };
    house.settle_and_check();
    let first = named(&house);
    let paths: Vec<&str> = first.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(paths, ["dup.md", "latin.md", "nul.md"]);
    assert!(first[0].1.contains("line 4") && first[0].1.contains("status"), "{first:?}");
    // It is a property of the note: also without an agent, after a restart and from a rebuild.
    house.stop();
    assert_eq!(named(&house), first);
    house.start();
    house.settle();
    assert_eq!(named(&house), first);
    house.stop();
    std::fs::remove_dir_all(house.at("mem_metadata")).unwrap();
    house.start();
    house.settle();
    assert_eq!(named(&house), first);
    // And it ends with its cause.
    house.write("dup.md", "---\ntags: [alfa, bravo]\nstatus: closed\n---\nbody\n");
    std::fs::remove_file(house.at("nul.md")).unwrap();
    house.settle();
    assert_eq!(named(&house).len(), 1);
}

#[test]
fn a_variable_set_to_nothing_is_not_set() {
    let house = House::open();
    house.write("note.md", "alfa\n");
    house.settle();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_remd"))
        .env("REMD_VAULT", "")
        .current_dir(&house.vault)
        .arg("log")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_repository_that_is_only_adopted_yet_is_found_from_inside() {
    let house = House::closed();
    std::fs::create_dir_all(house.vault.join("sub")).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    house.write("sub/note.md", "alfa\n");
    house.git(["add", "-A"]);
    house.git(["commit", "-qm", "by hand"]);
    let log = |at: &std::path::Path| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_remd"))
            .env_remove("REMD_VAULT")
            .env("HOME", house.root().join("home"))
            .env("XDG_CONFIG_HOME", house.root().join("home"))
            .current_dir(at)
            .arg("log")
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(log(&house.vault).0, Some(2), "not a vault yet");
    assert_eq!(house.run(["init"]).code, 0);
    for at in [house.vault.clone(), house.vault.join("sub")] {
        let (code, said) = log(&at);
        assert!(code == Some(0) && said.contains("by hand"), "{}: {said}", at.display());
    }
    assert_eq!(log(&house.root()).0, Some(2), "beside it");
}

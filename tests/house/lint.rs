//! `remd lint`: what of the notes should be mended, and the links that it mends.

use std::fs;

use serde_json::Value;

use crate::house::{House, wait_for};

fn json(said: &str) -> Value {
    serde_json::from_str(said).unwrap_or_else(|err| panic!("{err}: {said}"))
}

/// An agent on a vault that Obsidian made: folders with spaces, pictures, templates, a table.
fn house() -> House {
    let house = House::open();
    house.write("Projects/Ideas & Plans.md", "see [[Home server]] and ![[Bild 1.png]]\n");
    house.write("Notes/Home server.md", "back to [[Ideas & Plans]]\n");
    house.write("Anhänge/Bild 1.png", b"\x89PNG\r\n\x1a\n");
    house.write("Templates/Tag.md", "[[{{title}}]]\n");
    house.write(".obsidian/app.json", "{}\n");
    house.settle();
    house
}

#[test]
fn what_is_to_be_mended_is_told_a_line_each_with_and_without_an_agent() {
    let mut house = house();
    let said = house.run(["lint"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{}", said.stderr);
    assert!(said.stderr.starts_with("Nothing to mend in 2 notes with 3 links"), "{}", said.stderr);
    // Not committed yet: what was just saved is looked at, too.
    house.write("Notes/bad.md", "---\nname: x\ndescription: explains: badly\n---\n[[Gone]]\n");
    house.write("Notes/日記.md", "---\na: 1\na: 2\n---\n| [[Ghost\\|x]] | `[[code]]` |\n|-|-|\n");
    house.write("Notes/\u{1b}[31m.md", "[[bad]] [[日記]]\n");
    let expected = "\
Notes/\\033[31m.md: name-trouble: no wikilink can hold its name: it has a control character. \
Give it a name without `[`, `]`, `|`, `#` and odd spaces.
Notes/\\033[31m.md: orphan: no other note links to it. Link to it from where somebody would look for \
it.
Notes/bad.md:3: bad-frontmatter: frontmatter is not valid YAML (mapping values are not allowed in \
this context). Its text is searched; mend that line to have its properties and tags read.
Notes/bad.md:5: broken-link: [[Gone]] leads nowhere. Write that note, or mend the link.
Notes/日記.md:3: duplicate-key: key `a` stands twice, the last one counts. All of it is searched; \
take one of the two out.
Notes/日記.md:5: broken-link: [[Ghost]] leads nowhere. Write that note, or mend the link.
";
    let said = house.run(["lint"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, expected), "{}", said.stderr);
    assert!(said.stderr.contains("remd lint --fix"), "{}", said.stderr);
    house.settle();
    house.stop();
    let said = house.run(["lint"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, expected), "{}", said.stderr);
    assert!(said.stderr.contains("no agent"), "{}", said.stderr);
    let said = house.run(["lint", "--json", "Notes/bad.md", "--only", "broken-link"]);
    let found = json(&said.stdout);
    assert_eq!((said.code, &found["schema_version"]), (1, &1.into()), "{}", said.stderr);
    assert_eq!(found["findings"].as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!(found["findings"][0]["path"], "Notes/bad.md");
    assert_eq!(found["findings"][0]["target"], "Gone");
    assert_eq!(found["findings"][0]["line"], 5);
    for (args, code) in [
        (vec!["lint", "Projects"], 0),
        (vec!["lint", "--only", "duplicate-key,duplicate-note", "Projects"], 0),
        (vec!["lint", "Notes", "--only", "bad-frontmatter"], 1),
        (vec!["lint", "no such folder"], 2),
        (vec!["lint", "--only", "no-such-check"], 2),
        (vec!["lint", "../x.md"], 2),
    ] {
        let said = house.run(&args);
        assert_eq!(said.code, code, "{args:?}: {}{}", said.stdout, said.stderr);
    }
}

#[test]
fn a_file_that_git_does_not_have_is_there_all_the_same() {
    let house = House::open();
    house.write(".gitignore", "*.mp4\nprivate/\n");
    house.write("clips/big.mp4", "x");
    house.write("private/diary.md", "mine\n");
    house.write("a.md", "![[big.mp4]] [[diary]] [f](clips/) ![[small.mp4]] [g](nowhere/)\n");
    house.write("b.md", "[[a]]\n");
    house.settle();
    let said = house.run(["lint", "--only", "broken-link"]);
    let told: Vec<&str> =
        said.stdout.lines().map(|it| it.split(" leads").next().unwrap()).collect();
    let expected = ["a.md:1: broken-link: ![[small.mp4]]", "a.md:1: broken-link: (nowhere/)"];
    assert_eq!(told, expected, "{}", said.stderr);
    fs::remove_file(house.at("clips/big.mp4")).unwrap();
    assert_eq!(house.run(["lint", "--only", "broken-link"]).stdout.lines().count(), 3);
}

/// Case C01, C02, C07: table cells, code, the note itself, every form, nothing else.
#[test]
fn a_rename_by_hand_is_followed_by_every_form_of_link_and_nothing_else_changes() {
    let house = House::open();
    let old =
        "[[Old]] [[#H]] [[Old#H|x]] [[Old#^blk]] ![[Old#H]] Old as a word\n\n## H\n\nt ^blk\n";
    house.write("Old.md", old);
    house.write("Host — A (VM 111).md", "a host, and [[Old]]\n");
    let table = "| [[Host — A (VM 111)\\|a]] | x |\n|---|---|\n\nprose [[Host — A (VM 111)|a]]\n";
    house.write("t.md", table);
    let others = "---\nup: \"[[Old]]\"\nsee: ['[[Old|it''s]]']\n---\n\
        [[Old.md]] [[Old#H|y]] ![[Old]] [m](Old.md#h \"t\") [n](<Old.md>) [o]: no\n\n\
        `[[Old]]` <!-- [[Old]] --> %%[[Old]]%% Old\n\n```\n[[Old]]\n```\n\n    [[Old]]\n";
    house.write("sub/others.md", others);
    house.settle();
    fs::create_dir(house.at("folder")).unwrap();
    fs::rename(house.at("Old.md"), house.at("folder/New note.md")).unwrap();
    fs::rename(house.at("Host — A (VM 111).md"), house.at("Host - A (VM 111).md")).unwrap();
    house.settle();
    let head = house.git(["rev-parse", "HEAD"]);
    let said = house.run(["lint", "--only", "broken-link"]);
    assert_eq!((said.code, said.stdout.lines().count()), (1, 14), "{}", said.stdout);
    let dry = house.run(["lint", "--fix", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(dry.stdout.contains("+| [[Host - A (VM 111)\\|a]] | x |\n"), "{}", dry.stdout);
    assert!(dry.stderr.starts_with("Would retarget 14 links in 4 notes"), "{}", dry.stderr);
    assert_eq!(house.git(["rev-parse", "HEAD"]), head);
    assert_eq!(fs::read_to_string(house.at("t.md")).unwrap(), table);
    let said = house.run(["lint", "--fix", "--json", "--only", "broken-link"]);
    let fixed = json(&said.stdout);
    assert_eq!(said.code, 0, "{:#}", fixed["findings"]);
    assert_eq!(fixed["fix"]["mended"]["links"].as_array().unwrap().len(), 14, "{fixed:#}");
    assert_eq!(fixed["fix"]["commit"], house.git(["rev-parse", "HEAD"]));
    let read = |path: &str| fs::read_to_string(house.at(path)).unwrap();
    assert_eq!(read("t.md"), table.replace(" — A", " - A"));
    assert_eq!(
        read("folder/New note.md"),
        "[[New note]] [[#H]] [[New note#H|x]] [[New note#^blk]] ![[New note#H]] Old as a word\n\n\
         ## H\n\nt ^blk\n"
    );
    assert_eq!(read("Host - A (VM 111).md"), "a host, and [[New note]]\n");
    assert_eq!(
        read("sub/others.md"),
        "---\nup: \"[[New note]]\"\nsee: ['[[New note|it''s]]']\n---\n\
         [[New note.md]] [[New note#H|y]] ![[New note]] [m](folder/New%20note.md#h \"t\") \
         [n](<folder/New%20note.md>) [o]: no\n\n\
         `[[Old]]` <!-- [[Old]] --> %%[[Old]]%% Old\n\n```\n[[Old]]\n```\n\n    [[Old]]\n"
    );
    let message = house.git(["log", "-1", "--format=%s%n%b"]);
    assert!(message.starts_with("memory: 4 changes"), "{message}");
    assert!(message.contains("Links to Old.md lead to folder/New note.md."), "{message}");
    assert!(message.contains("Remd-Cause: api"), "{message}");
    house.settle_and_check();
    // Nothing of it is found again, and nothing is done again.
    let again = house.run(["lint", "--fix", "--only", "broken-link"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, ""), "{}", again.stderr);
    assert!(again.stderr.starts_with("No link is known"), "{}", again.stderr);
    assert_eq!(house.run(["undo"]).code, 0);
    assert_eq!(house.git(["diff", "--stat", head.as_str(), "HEAD"]), "");
    assert_eq!(read("sub/others.md"), others);
}

/// By `mv` with nobody there, by `git mv` and a commit of one's own, and in the same moment.
#[test]
fn it_is_all_the_same_who_renamed_and_when() {
    let mut house = House::open();
    let text = "enough of a text that it is known again\nline after line\nthree of them\n";
    for name in ["one", "two", "three", "four", "five"] {
        house.write(format!("{name}.md"), format!("{name}\n{text}"));
    }
    let links = "[[one]] [[two|2]] [[three#x]] [4](four.md) ![[five]]\n";
    house.write("links.md", links);
    house.settle();
    let mv = |old: &str, new: &str| {
        fs::create_dir_all(house.at(new).parent().unwrap()).unwrap();
        fs::rename(house.at(old), house.at(new)).unwrap();
    };
    // While the agent runs, twice.
    mv("one.md", "uno.md");
    house.settle();
    mv("uno.md", "日記/ichi.md");
    house.settle();
    // Git's own rename and a commit by hand.
    house.git(["mv", "two.md", "dos.md"]);
    house.git(["commit", "-q", "-m", "two is dos now"]);
    // Renamed and edited at once.
    mv("three.md", "tres.md");
    house.write("tres.md", format!("three\n{text}and more of it\n"));
    house.settle();
    house.stop();
    // With nobody there.
    fs::create_dir_all(house.at("sub")).unwrap();
    fs::rename(house.at("four.md"), house.at("sub/cuatro.md")).unwrap();
    house.start();
    // In this very moment.
    fs::rename(house.at("five.md"), house.at("cinco.md")).unwrap();
    let said = house.run(["lint", "--fix"]);
    let expected = "\
links.md:1: five → cinco
links.md:1: four.md → sub/cuatro.md
links.md:1: one → ichi
links.md:1: three → tres
links.md:1: two → dos
";
    assert!(said.stdout.starts_with(expected), "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.starts_with("Retargeted 5 links in 1 note, as commit "), "{}", said.stderr);
    let now = "[[ichi]] [[dos|2]] [[tres#x]] [4](sub/cuatro.md) ![[cinco]]\n";
    assert_eq!(fs::read_to_string(house.at("links.md")).unwrap(), now);
    house.settle_and_check();
    // The same by the command itself, of a rename that nobody has committed.
    house.stop();
    fs::rename(house.at("cinco.md"), house.at("fünf.md")).unwrap();
    let said = house.run(["lint", "--fix", "--only", "broken-link"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (0, "links.md:1: cinco → fünf\n"),
        "{}",
        said.stderr
    );
    assert_eq!(house.git(["status", "--porcelain"]), "");
    let now = "[[ichi]] [[dos|2]] [[tres#x]] [4](sub/cuatro.md) ![[fünf]]\n";
    assert_eq!(fs::read_to_string(house.at("links.md")).unwrap(), now);
    assert_eq!(house.run(["undo"]).code, 0);
    let before = "[[ichi]] [[dos|2]] [[tres#x]] [4](sub/cuatro.md) ![[cinco]]\n";
    assert_eq!(fs::read_to_string(house.at("links.md")).unwrap(), before);
    house.start();
    house.settle_and_check();
}

/// A folder with pictures that is renamed, and a note that moves away from what it links to.
#[test]
fn what_moves_with_its_folder_and_links_of_a_note_that_moves_are_found_again() {
    let house = House::open();
    house.write("Anhänge/Bild 1.png", b"\x89PNG\r\n\x1a\n1");
    house.write(
        "Notes/a.md",
        "![[Anhänge/Bild 1.png]] ![b](../Anh%C3%A4nge/Bild%201.png)\n[s](sib.md) [[sib]]\n",
    );
    house.write("Notes/sib.md", "[[a]]\n");
    house.write("by-name.md", "[[elsewhere/SIB]] [x](no/such/sib.md)\n[[2026-06-28/plan]]\n");
    house.write("memory/2026-07-01/plan.md", "[[by-name]]\n");
    house.settle();
    fs::rename(house.at("Anhänge"), house.at("assets")).unwrap();
    fs::create_dir_all(house.at("Archive/2026")).unwrap();
    fs::rename(house.at("Notes/a.md"), house.at("Archive/2026/a.md")).unwrap();
    let said = house.run(["lint", "--fix", "--only", "broken-link"]);
    assert_eq!(
        fs::read_to_string(house.at("Archive/2026/a.md")).unwrap(),
        "![[assets/Bild 1.png]] ![b](../../assets/Bild%201.png)\n[s](sib.md) [[sib]]\n"
    );
    // What only one note is called, in another folder or case; never that of another day.
    assert_eq!(
        fs::read_to_string(house.at("by-name.md")).unwrap(),
        "[[Notes/sib]] [x](Notes/sib.md)\n[[2026-06-28/plan]]\n"
    );
    assert_eq!(said.code, 1, "{}", said.stderr);
    let left: Vec<&str> = said.stdout.lines().filter(|it| it.contains("broken-link")).collect();
    assert_eq!(left.len(), 1, "{}", said.stdout);
    assert!(left[0].contains("[[2026-06-28/plan]] leads nowhere"), "{left:?}");
    house.settle_and_check();
}

/// Cases B02, C03, C08: where more than one is possible, or none can be written, a person is asked.
#[test]
fn nothing_is_guessed_and_what_cannot_be_written_stays_as_it_is() {
    let mut house = House::open();
    let bad = "---\nname: my-note\ndescription: explains: badly\nup: \"[[Plan]]\"\n---\n[[Plan]]\n";
    house.write("bad.md", bad);
    house.write("Plan.md", "a plan with a text of its own\n");
    house.write("gone.md", "a note that goes\n");
    house.write("copied.md", "a note that is copied\n");
    house.write("x/README.md", "x\n");
    house.write("y/README.md", "y\n");
    house.write("Bar.md", "a bar\n");
    let links = "[[gone]]\n[[copied]]\n[[z/README]]\n[[Bar]] [b](Bar.md)\n[[never was]]\n";
    house.write("links.md", links);
    house.settle();
    house.stop();
    for (old, new) in [("Plan.md", "Plans.md"), ("Bar.md", "A|B.md")] {
        fs::rename(house.at(old), house.at(new)).unwrap();
    }
    fs::remove_file(house.at("gone.md")).unwrap();
    fs::copy(house.at("copied.md"), house.at("c1.md")).unwrap();
    fs::rename(house.at("copied.md"), house.at("c2.md")).unwrap();
    house.git(["add", "-A"]);
    house.git(["commit", "-q", "-m", "all by hand"]);
    house.start();
    house.settle();
    let said = house.run(["lint", "--fix", "--only", "broken-link", "--json"]);
    let fixed = json(&said.stdout);
    assert_eq!(said.code, 1, "{fixed:#}");
    let links_now = "[[gone]]\n[[copied]]\n[[z/README]]\n[[Bar]] [b](A%7CB.md)\n[[never was]]\n";
    assert_eq!(fs::read_to_string(house.at("links.md")).unwrap(), links_now);
    // Frontmatter that does not parse is not touched: its bytes are as they were.
    let bad_now = bad.replace("---\n[[Plan]]", "---\n[[Plans]]");
    assert_eq!(fs::read_to_string(house.at("bad.md")).unwrap(), bad_now);
    let left = fixed["fix"]["mended"]["left"].as_array().unwrap();
    let told: Vec<String> = left
        .iter()
        .map(|it| {
            format!(
                "{}:{} {}",
                it["path"].as_str().unwrap(),
                it["line"],
                it["target"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "bad.md:4 Plan",
            "links.md:1 gone",
            "links.md:2 copied",
            "links.md:3 z/README",
            "links.md:4 Bar"
        ]
    );
    let why = |at: usize| left[at]["why"].as_str().unwrap();
    assert!(why(0).contains("frontmatter cannot be read"), "{}", why(0));
    assert!(why(1).contains("remd restore 'gone.md'"), "{}", why(1));
    assert_eq!(left[2]["candidates"], serde_json::json!(["c1.md", "c2.md"]), "{}", why(2));
    assert_eq!(left[3]["candidates"], serde_json::json!(["x/README.md", "y/README.md"]));
    assert!(why(4).contains("it has a bar"), "{}", why(4));
    let said = house.run(["lint", "--fix", "--only", "broken-link"]);
    assert!(said.stderr.starts_with("No link is known to lead elsewhere"), "{}", said.stderr);
    assert_eq!(said.stderr.matches("is left as it is").count(), 5, "{}", said.stderr);
    house.settle_and_check();
}

#[test]
fn a_note_that_is_saved_while_its_links_are_mended_keeps_both() {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    house.git(["init", "-q", "-b", "main"]);
    let held = house.root().join("held");
    fs::write(&held, "").unwrap();
    house.env("REMD_HOLD", &format!("swap.staged:{}", held.display()));
    house.start();
    house.write("old.md", "a note\n");
    house.write("a.md", "first\n\n[[old]]\n\nlast\n");
    house.settle();
    fs::rename(house.at("old.md"), house.at("new.md")).unwrap();
    house.settle();
    let mut fix = house.spawn_command(["lint", "--fix", "--only", "broken-link"]);
    let is_beside = || {
        let names = fs::read_dir(&house.vault).unwrap();
        names
            .filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().contains("swap"))
            .count()
    };
    wait_for("the old text beside", || is_beside() == 1);
    house.write("a.md", "first, saved meanwhile [[old|twice]]\n\n[[old]]\n\nlast\n");
    fs::remove_file(&held).unwrap();
    assert_eq!(fix.wait().unwrap().code(), Some(0));
    let expected = "first, saved meanwhile [[new|twice]]\n\n[[new]]\n\nlast\n";
    assert_eq!(fs::read_to_string(house.at("a.md")).unwrap(), expected);
    house.settle_and_check();
    let causes =
        house.git(["log", "-2", "--format=%(trailers:key=Remd-Cause,valueonly,separator=)"]);
    assert_eq!(causes.lines().collect::<Vec<_>>(), ["api", "edit"]);
    // A pause or somebody's merge keeps it from writing, and it says so.
    fs::rename(house.at("new.md"), house.at("newer.md")).unwrap();
    house.settle();
    assert_eq!(house.run(["pause"]).code, 0);
    let said = house.run(["lint", "--fix"]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("remd resume"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(house.at("a.md")).unwrap(), expected);
    assert_eq!(house.run(["resume"]).code, 0);
    assert_eq!(house.run(["lint", "--fix", "--only", "broken-link"]).code, 0);
}

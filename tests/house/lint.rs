//! `remd lint`: what of the notes should be mended, and the links that it mends.

use std::fs;

use serde_json::Value;

use crate::house::House;

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
        (vec!["lint", "--only", "orphan,duplicate-note"], 0),
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
    assert_eq!(house.run(["lint"]).stdout.lines().count(), 3);
}

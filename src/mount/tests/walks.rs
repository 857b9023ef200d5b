//! Walking the mount shows what is there and asks nothing.

use super::House;

#[test]
fn the_root_lists_what_works() {
    let Some(house) = House::open() else { return };
    assert_eq!(
        house.says("ls -1"),
        "README.md\nat\nbroken-links.md\nhistory\nlinks\nlog.md\nnodes\nnote\norphans.md\nrecent\nsearch\n\
         similar\nstatus.json\nstatus.md\ntag\ntoday.md\n"
    );
    assert!(house.read("README.md").contains(&*house.vault().to_string_lossy()));
    let status: serde_json::Value = serde_json::from_str(&house.read("status.json")).unwrap();
    assert_eq!(status["verdict"], "ok");
    assert!(house.read("status.md").starts_with("# ok: asked"));
    for folder in
        ["at", "history", "links", "nodes", "note", "similar", "search", "search/limit=3/tag=x"]
    {
        assert_eq!(house.says(&format!("ls -A {folder}")), "", "{folder}");
    }
    assert!(house.says("df .").contains("remd"));
    assert_eq!(house.says("stat -f -c %l .").trim(), "1024");
}

/// Field case G05: whatever walks the tree starts no query.
#[test]
fn walkers_ask_nothing() {
    let Some(house) = House::open() else { return };
    house.read("search/needle");
    house.read("search/needle.json");
    house.says("cat search/limit=2/other > /dev/null");
    // Known to be asked for: the two status pages of each walk that reads or sizes files.
    let asked = house.fake.asked();
    for line in [
        "find . > /dev/null",
        "find . -name '*x*' -o -type d > /dev/null",
        "for i in 1 2 3 4 5; do ls -la search nodes links note > /dev/null; done",
        "grep -r needle search nodes links note > /dev/null",
        "ls -lR search nodes links note > /dev/null",
        "du -sh search nodes links note > /dev/null",
        "git -C . status > /dev/null 2>&1; git -C search status > /dev/null 2>&1; true",
        "compgen -f search/que; compgen -f nodes/; true",
        "cp -r search $OUT/copied",
        "tar cf $OUT/out.tar search",
        "stat .git .Trash .hidden search/.git links/.Trash-1000 nodes/autorun.inf \
         search/desktop.ini search/Thumbs.db search/HEAD nodes/package.json links/node_modules \
         'search/#x#' > /dev/null 2>&1; true",
    ] {
        house.says(line);
        assert_eq!(house.fake.asked(), asked, "{line}");
    }
    assert_eq!(house.says("ls $OUT/copied"), "needle\nneedle.json\n");
    assert_eq!(house.says("tar xOf $OUT/out.tar search/needle"), house.read("search/needle"));
    assert_eq!(house.fake.asked(), asked);
    // The whole tree: nothing but the status is asked.
    house.says(
        "grep -r zzz . > /dev/null; cp -r . $OUT/all; tar cf $OUT/all.tar . ; ls -lR > /dev/null",
    );
    let status_pages = house.fake.asked() - asked;
    assert!(status_pages <= 16, "{status_pages}");
    // An edit later the answers are no longer at hand, and a walk still asks nothing.
    house.fake.say("changed");
    let asked = house.fake.asked();
    assert_eq!(house.says("ls search; grep -r needle search; true"), "");
    assert_eq!(house.fake.asked(), asked);
    // The three that were read at the start, and the tally says the same.
    assert_eq!(house.tally.read().questions, 3);
}

#[test]
fn recent_questions_are_those_that_were_read() {
    let Some(house) = House::open() else { return };
    house.says("stat search/only-looked-at > /dev/null; head -c 3 search/read > /dev/null");
    house.says("cat 'search/a%2Fb.json' search/%2ENET search/limit%3D10 > /dev/null");
    house.sh("cat search/broken");
    assert_eq!(house.says("ls search"), "%2ENET\na%2Fb.json\nlimit%3D10\nread\n");
    for number in 0..30 {
        house.read(&format!("search/question {number}"));
    }
    assert_eq!(house.says("ls search | wc -l").trim(), "20");
}

#[test]
fn links_are_ranked_and_lead_into_the_vault() {
    let Some(house) = House::open() else { return };
    let asked = house.fake.asked();
    assert_eq!(
        house.says("ls links/needle"),
        "01-memory-2026-b.md.md\n02-memory-a.md.md\n03-memory-bad\u{fffd}.md.md\n04-top.md.md\n"
    );
    assert_eq!(house.says("cat links/needle/04-*"), "top\n");
    assert_eq!(
        house.says("readlink links/needle/02-*").trim(),
        house.vault().join("memory/a.md").to_string_lossy()
    );
    house.says("ls -lR links/needle > /dev/null; find links/needle -type l > /dev/null");
    assert_eq!(house.fake.asked(), asked + 1, "one question, one answer");
    assert_eq!(house.says("ls links/limit=1/needle | wc -l").trim(), "1");
    assert_eq!(house.errno("links/needle/05-none.md"), libc::ENOENT);
    // A shell that stands in the folder while the answer changes.
    house.says("cd links/needle && ls > /dev/null");
}

#[test]
fn notes_show_their_links_and_list_fully_once_named() {
    let Some(house) = House::open() else { return };
    assert_eq!(
        house.says("find note/memory note/top.md | sort").replace('\u{fffd}', "?").lines().count(),
        // memory, 2026, b.md, a.md, bad.md, top.md, and four pages for each note.
        6 + 16
    );
    let page = house.read("note/memory/a.md/backlinks");
    assert!(page.contains("← memory/a.md  name=\"In memory/a.md\""), "{page}");
    assert!(house.read("note/memory/2026/b.md/links").starts_with("memory/2026/b.md\n  outlinks"));
    assert_eq!(
        house.says("cat note/memory/bad$'\\xff'.md/links | head -n1"),
        "memory/bad\\377.md\n"
    );
    for absent in ["note/none.md", "note/memory/none", "note/top.md/versions", "note/.git/config"] {
        assert_eq!(house.errno(absent), libc::ENOENT, "{absent}");
    }
    // A note that goes is gone at once.
    house.fake.notes.lock().unwrap().retain(|it, _| it.as_bytes() != b"top.md");
    assert_eq!(house.errno("note/top.md/links"), libc::ENOENT);
}

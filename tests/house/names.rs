//! Names and bytes as people have them: never renamed, never lost, never forging a line.

use std::fs;

use crate::house::{House, NEEDLES, has_fuse};

#[test]
fn two_spellings_of_one_name_stay_two_files_a01() {
    let house = House::open();
    let (nfc, nfd) = ("caf\u{e9}.md", "cafe\u{301}.md");
    house.write(nfc, "one needle\n");
    house.write(nfd, "two needle\n");
    house.write("third.md", "see [[caf\u{e9}]]\n");
    house.settle_and_check();
    assert_eq!(house.in_head(nfc), b"one needle\n");
    assert_eq!(house.in_head(nfd), b"two needle\n");
    for query in ["caf\u{e9}", "cafe\u{301}"] {
        let found = house.found(query);
        assert!(found.contains(&nfc.to_owned()) && found.contains(&nfd.to_owned()), "{found:?}");
    }
    // The one spelled as the link is meant; status names the twin.
    assert_eq!(house.status()["index"]["ambiguous_links"], 1);
    let inlinks = |query: &str| {
        let said = house.run(["search", "--json", query]).stdout;
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        json["results"][0]["inlinks"].as_array().unwrap().len()
    };
    assert_eq!((inlinks("one"), inlinks("two")), (1, 0));
    fs::remove_file(house.at(nfd)).unwrap();
    house.settle_and_check();
    assert_eq!(house.found("needle"), [nfc]);
    assert_eq!(house.head_paths(), [nfc.as_bytes(), b"third.md"]);
    assert_eq!(house.status()["index"]["ambiguous_links"], 0);
}

#[test]
fn odd_names_are_committed_byte_for_byte_a02_a03() {
    if !has_fuse("odd_names_are_committed_byte_for_byte_a02_a03") {
        return;
    }
    let house = House::open();
    let names: [&[u8]; 9] = [
        "日記 🔥.md".as_bytes(),
        b"q\"uote.md",
        b"back\\slash.md",
        b"tab\tname.md",
        b"a b/ c.md",
        b"line\nbreak.md",
        b"-dash.md",
        b"glob[*]?.md",
        b"bad\xff\xfe.md",
    ];
    for (at, name) in names.iter().enumerate() {
        house.write(name, format!("{}\n", NEEDLES[at]));
    }
    house.settle_and_check();
    let mut wanted: Vec<Vec<u8>> = names.iter().map(|it| it.to_vec()).collect();
    wanted.sort();
    assert_eq!(house.head_paths(), wanted);
    for (at, name) in names.iter().enumerate() {
        assert_eq!(house.found(NEEDLES[at]).len(), 1, "{name:?}");
        let page = house.cat(&format!("search/{}", NEEDLES[at]));
        let headers = page.lines().filter(|it| it.starts_with("==========")).count();
        assert_eq!(headers, 1, "a name forges no second hit: {page}");
    }
    for (at, name) in names.iter().enumerate() {
        house.write(name, format!("again {}\n", NEEDLES[at]));
    }
    house.settle_and_check();
    fs::rename(house.at(names[5]), house.at("ok.md")).unwrap();
    house.settle_and_check();
    assert_eq!(house.found(NEEDLES[5]), ["ok.md"]);
    let json = house.run(["search", "--json", NEEDLES[8]]).stdout;
    assert!(json.contains("\"path_hex\""), "{json}");
}

#[test]
fn text_is_never_cut_inside_a_character_a09() {
    if !has_fuse("text_is_never_cut_inside_a_character_a09") {
        return;
    }
    let house = House::open();
    let fillers = [("box", "─"), ("day", "日"), ("family", "👨‍👩‍👧"), ("acute", "é")];
    for (at, (name, filler)) in fillers.iter().enumerate() {
        for k in 0..4 {
            let text = format!("{}{} {}\n", "a".repeat(k), filler.repeat(400), NEEDLES[at * 4 + k]);
            house.write(format!("{name}/{k}.md"), text);
        }
    }
    house.write("🔥".repeat(60) + ".md", "needlefire\n");
    house.settle_and_check();
    for (at, (name, _)) in fillers.iter().enumerate() {
        for k in 0..4 {
            let needle = NEEDLES[at * 4 + k];
            assert_eq!(house.found(needle), [format!("{name}/{k}.md")]);
            assert!(house.cat(&format!("search/{needle}")).contains(needle));
        }
    }
    assert_eq!(house.found("needlefire").len(), 1);
}

#[test]
fn hostile_content_never_stops_its_neighbours() {
    let house = House::open();
    house.write("utf16.md", b"\xff\xfeh\0i\0".as_slice());
    house.write("latin1.md", b"caf\xe9 needlelatin\n".as_slice());
    house.write("nul.md", b"a\0b\0needlenul\n".as_slice());
    house.write("crlf.md", "---\r\ntitle: Crlf\r\n---\r\nneedlecrlf\r\n");
    house.write("bom.md", "\u{feff}---\ntitle: Bom\n---\nneedlebom\n");
    house.write("line.md", format!("needleline {}\n", "x".repeat(2_000_000)));
    house.write("links.md", "[[a]] ".repeat(100_000) + "needlelinks\n");
    house.write("headings.md", (0..10_000).map(|it| format!("# h{it}\n")).collect::<String>());
    house.write("yaml.md", "---\n\tname: [unclosed\n---\nneedleyaml\n");
    house.write("bomb.md", "---\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n---\nneedlebomb\n");
    house.write("good.md", "needlegood\n");
    #[cfg(unix)]
    {
        let fifo = house.at("fifo.md");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    }
    house.settle();
    house.git(["fsck", "--strict"]);
    assert_eq!(house.in_head("latin1.md"), b"caf\xe9 needlelatin\n", "committed byte for byte");
    assert_eq!(house.in_head("crlf.md"), b"---\r\ntitle: Crlf\r\n---\r\nneedlecrlf\r\n");
    for name in ["latin", "crlf", "bom", "line", "links", "yaml", "bomb", "good"] {
        assert_eq!(house.found(&format!("needle{name}")).len(), 1, "needle{name}");
    }
    assert_eq!(house.found("Crlf")[0], "crlf.md");
    assert_eq!(house.found("Bom")[0], "bom.md");
}

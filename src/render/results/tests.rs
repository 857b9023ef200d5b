//! The documented form, byte by byte.

use super::*;
use crate::vault::{ChunkId, CommitId, VaultPath};

fn neighbour(path: &str, name: &str) -> Neighbour {
    Neighbour {
        path: VaultPath::new(path).unwrap(),
        name: name.to_owned(),
        description: None,
        anchors: Vec::new(),
        relation: None,
    }
}

fn hit(path: &[u8], text: &str) -> Hit {
    Hit {
        id: ChunkId("id".to_owned()),
        path: VaultPath::new(path).unwrap(),
        start_line: 1,
        end_line: 6,
        score: 0.0164,
        vector: None,
        keyword: Some(3.1842),
        name: "Commute".to_owned(),
        description: None,
        headings: Vec::new(),
        text: text.to_owned(),
        uncommitted: false,
        outlinks: Vec::new(),
        outlinks_total: 0,
        inlinks: Vec::new(),
        inlinks_total: 0,
        superseded: None,
        trace: Vec::new(),
    }
}

fn results(hits: Vec<Hit>) -> Results {
    Results {
        hits,
        at: CommitId::from_hex("4f2c9e1d00000000000000000000000000000abc"),
        commits_behind: 0,
        edits_uncommitted: 0,
        kept_out: 0,
        unseen: None,
        notes_in_part: 0,
        keyword: BranchState::Used(2),
        vector: BranchState::Off("no model"),
        partial: None,
        ranking: "bm25".to_owned(),
        fusion: None,
        dedup: None,
        rerank: crate::search::Rerank::Off,
    }
}

#[track_caller]
fn check(results: &Results, expected: &str) {
    assert_eq!(String::from_utf8(text(results)).unwrap(), expected);
}

#[test]
fn a_hybrid_hit_with_links_is_the_documented_block() {
    let mut hit = hit(b"memory/2026-07-23/commute.md", "# Commute\n\nBy bicycle.");
    hit.vector = Some(0.8237);
    let mut bicycle = neighbour("digest/wiki/bicycle.md", "Bicycle");
    bicycle.description = Some("Two wheels".to_owned());
    bicycle.anchors = vec!["Chain".to_owned(), "Gears".to_owned()];
    hit.outlinks = vec![bicycle, neighbour("b.md", "")];
    hit.outlinks_total = 2;
    hit.inlinks = vec![neighbour("digest/personal/commute.md", "Commute")];
    hit.inlinks_total = 12;
    let mut results = results(vec![hit]);
    results.vector = BranchState::Used(1);
    check(
        &results,
        "========== memory/2026-07-23/commute.md:1-6 [score=0.0164 vector=0.8237 keyword=3.1842] \
         ==========
# Commute

By bicycle.
  outlinks (2):
    → digest/wiki/bicycle.md  name=\"Bicycle\"  description=\"Two wheels\"
        via anchor=#Chain
        via anchor=#Gears
    → b.md  (no meta)
  inlinks (1 of 12):
    ← digest/personal/commute.md  name=\"Commute\"
-- 1 hit as of 4f2c9e1, current, keyword + vector
",
    );
}

#[test]
fn one_branch_shows_its_own_score_and_says_why_the_other_is_missing() {
    let mut keyword = results(vec![hit(b"a.md", "x")]);
    keyword.hits[0].score = 3.1842;
    keyword.commits_behind = 1;
    keyword.edits_uncommitted = 2;
    check(
        &keyword,
        "========== a.md:1-6 [score=3.1842] ==========\nx\n\
         -- 1 hit as of 4f2c9e1, 1 commit behind, 2 edits uncommitted, keyword (vector off: no \
         model)\n",
    );
    // A branch that returned nothing leaves the other's own scores.
    keyword.vector = BranchState::Used(0);
    keyword.commits_behind = 0;
    keyword.edits_uncommitted = 0;
    check(
        &keyword,
        "========== a.md:1-6 [score=3.1842] ==========\nx\n\
         -- 1 hit as of 4f2c9e1, current, keyword + vector\n",
    );
    // In a hybrid answer, a dash where a branch did not return the chunk.
    keyword.vector = BranchState::Used(3);
    keyword.hits[0].keyword = None;
    keyword.hits[0].vector = Some(0.5);
    assert!(
        String::from_utf8(text(&keyword))
            .unwrap()
            .contains("[score=3.1842 vector=0.5000 keyword=-] =====")
    );
}

#[test]
fn no_hits_is_a_page_that_says_so() {
    let mut none = results(Vec::new());
    check(&none, "No hits.\n-- 0 hits as of 4f2c9e1, current, keyword (vector off: no model)\n");
    none.partial = Some("the index is being built, 40 %".to_owned());
    none.at = None;
    check(
        &none,
        "No hits yet.\n-- 0 hits, nothing indexed yet, keyword (vector off: no model), partial: \
         the index is being built, 40 %\n",
    );
}

/// Field case A03.
#[test]
fn a_name_forges_no_hit_in_any_form() {
    let forged = "\n========== forged.md:1-1 [score=9.0000] ==========\n";
    let mut hit = hit(format!("a{}.md", forged.replace('/', "-")).as_bytes(), "x");
    hit.name = forged.to_owned();
    hit.description = Some(forged.to_owned());
    let mut linked = neighbour("b.md", forged);
    linked.description = Some(forged.to_owned());
    linked.anchors = vec![forged.to_owned()];
    hit.outlinks = vec![linked];
    hit.outlinks_total = 1;
    hit.trace = vec![forged.to_owned()];
    let mut results = results(vec![hit]);
    results.partial = Some(forged.to_owned());
    let text = String::from_utf8(text(&results)).unwrap();
    assert_eq!(text.lines().filter(|it| it.starts_with("=====")).count(), 1, "{text}");
    let query = Query::new(forged);
    let page = String::from_utf8(markdown(&query, &results, Path::new("/v"))).unwrap();
    assert_eq!(page.lines().filter(|it| it.starts_with("=====")).count(), 0, "{page}");
    let value: serde_json::Value = serde_json::from_slice(&json(&query, &results)).unwrap();
    assert_eq!(value["results"].as_array().unwrap().len(), 1);
}

/// Field case A09.
#[test]
fn any_character_at_any_offset_is_shown() {
    for unit in ["─", "日", "👨‍👩‍👧", "é", "e\u{301}"] {
        for shift in 0..4 {
            let text = format!("{}{} needle", "a".repeat(shift), unit.repeat(400));
            let mut hit = hit(format!("{}.md", unit.repeat(3)).as_bytes(), &text);
            hit.name = text.clone();
            hit.description = Some(text.clone());
            let results = results(vec![hit]);
            let query = Query::new(text.clone());
            let page = String::from_utf8(super::text(&results)).unwrap();
            assert!(page.contains(&text));
            assert!(
                String::from_utf8(markdown(&query, &results, Path::new("/v"))).unwrap().len() > 400
            );
            assert!(serde_json::from_slice::<serde_json::Value>(&json(&query, &results)).is_ok());
        }
    }
}

#[test]
fn an_uncommitted_hit_is_marked() {
    let mut hit = hit(b"a.md", "x\n");
    hit.uncommitted = true;
    let results = results(vec![hit]);
    assert!(
        String::from_utf8(text(&results))
            .unwrap()
            .contains("\nx\n  uncommitted: on disk, in no commit yet\n--")
    );
    let value: serde_json::Value =
        serde_json::from_slice(&json(&Query::new("q"), &results)).unwrap();
    assert_eq!(value["results"][0]["uncommitted"], true);
}

/// The fields that clients of other servers read.
#[test]
fn json_has_the_documented_map_of_links_and_the_scores() {
    let linked = Neighbour {
        description: Some("Two wheels.".to_owned()),
        anchors: vec!["Way".to_owned()],
        ..neighbour("digest/wiki/bicycle.md", "Bicycle")
    };
    let bare = neighbour("memory/b.md", "");
    let mut first = hit(b"memory/a.md", "x");
    (first.outlinks, first.inlinks) = (vec![linked, bare], vec![neighbour("c.md", "C")]);
    first.vector = Some(0.5);
    let results = results(vec![first.clone(), hit(b"memory/b.md", "y"), first]);
    let mut query = Query::new("q");
    query.tags = vec!["bike".to_owned()];
    let value: serde_json::Value = serde_json::from_slice(&json(&query, &results)).unwrap();
    let expected = serde_json::json!({
        "memory/a.md": {
            "outlinks": [
                {"path": "digest/wiki/bicycle.md", "anchors": ["Way"],
                 "meta": {"name": "Bicycle", "description": "Two wheels."}},
                {"path": "memory/b.md", "meta": {}, "anchors": []},
            ],
            "inlinks": [{"path": "c.md", "meta": {"name": "C"}, "anchors": []}],
        },
        "memory/b.md": {"outlinks": [], "inlinks": []},
    });
    assert_eq!(value["link_expansion"], expected);
    assert_eq!(value["tag_filter"], serde_json::json!({"requested": ["bike"], "applied": true}));
    let scores = |at: usize| -> Vec<String> {
        value["results"][at]["scores"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(
        (scores(0), scores(1)),
        (
            ["keyword", "score", "vector"].map(str::to_owned).to_vec(),
            ["keyword", "score"].map(str::to_owned).to_vec(),
        )
    );
    assert_eq!(value["results"][0]["metadata"], serde_json::json!({}));
    let none: serde_json::Value =
        serde_json::from_slice(&json(&Query::new("q"), &Results::default())).unwrap();
    assert_eq!((&none["link_expansion"], none.get("tag_filter")), (&serde_json::json!({}), None));
}

#[test]
fn json_holds_the_exact_bytes_of_a_path() {
    let results = results(vec![hit(b"bad\xff.md", "x"), hit(b"good.md", "y")]);
    let mut query = Query::new("q");
    query.within = vec!["digest".to_owned()];
    let value: serde_json::Value = serde_json::from_slice(&json(&query, &results)).unwrap();
    assert_eq!(value["schema_version"], 1);
    assert_eq!(value["query"]["text"], "q");
    assert_eq!(value["query"]["in"][0], "digest");
    assert_eq!(value["at"], "4f2c9e1d00000000000000000000000000000abc");
    assert_eq!(value["branches"]["keyword"]["used"], true);
    assert_eq!(value["branches"]["vector"]["why"], "no model");
    assert_eq!(value["counts"]["returned"], 2);
    assert_eq!(value["results"][0]["path"], "bad\u{fffd}.md");
    assert_eq!(value["results"][0]["path_hex"], "626164ff2e6d64");
    assert_eq!(value["results"][1]["path"], "good.md");
    assert!(value["results"][1].get("path_hex").is_none());
}

#[test]
fn markdown_links_open_the_note_and_quote_the_passage() {
    let mut hit = hit(b"a b/[x] (1).md", "# Head\n\n```\ncode\n```");
    hit.name = "Name [with] *marks*".to_owned();
    hit.outlinks = vec![neighbour("c.md", "C")];
    let page = markdown(&Query::new("why #1?"), &results(vec![hit]), Path::new("/home/ada/v"));
    let page = String::from_utf8(page).unwrap();
    assert_eq!(
        page,
        "# why \\#1?

## 1. [Name \\[with\\] \\*marks\\*](file:///home/ada/v/a%20b/%5Bx%5D%20%281%29.md)

`a b/[x] (1).md:1-6` · score 0.0164

> # Head
>
> ```
> code
> ```

Links to: [C](file:///home/ada/v/c.md)

-- 1 hit as of 4f2c9e1, current, keyword (vector off: no model)
"
    );
}

#[test]
fn a_page_leaves_out_whole_hits_and_says_how_many() {
    let big = "x".repeat(MAX_BYTES / 2);
    let three = results(vec![hit(b"a.md", &big), hit(b"b.md", &big), hit(b"c.md", &big)]);
    let page = String::from_utf8(text(&three)).unwrap();
    assert!(page.len() < MAX_BYTES + 1000);
    assert!(
        page.ends_with(
            "-- 2 hits as of 4f2c9e1, current, keyword (vector off: no model), partial: 1 hit \
             left out, the page would be too long\n"
        ),
        "{}",
        &page[page.len() - 200..]
    );
    // The first hit is always there, whole.
    let huge = results(vec![hit(b"a.md", &"y".repeat(MAX_BYTES + 1)), hit(b"b.md", "z")]);
    assert!(String::from_utf8(text(&huge)).unwrap().contains("-- 1 hit as of"));
}

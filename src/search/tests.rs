//! Search as a whole, on small vaults: what is found, in what order, and what is never done.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock;
use crate::index::IndexView;
use crate::index::testing::{built, commit, path, put, remove};
use crate::search::{BranchState, Hit, Leave, Query, QueryError, Results, Rules, nodes, search};

mod beyond;
mod hybrid;

fn ask(view: &IndexView, query: &Query) -> Results {
    search(view, query, Rules::default(), clock::now() + Duration::from_secs(60)).unwrap()
}

fn found(view: &IndexView, text: &str) -> Vec<String> {
    paths(&ask(view, &Query::new(text)))
}

fn paths(results: &Results) -> Vec<String> {
    results.hits.iter().map(|it| it.path.to_string()).collect()
}

fn hits(view: &IndexView, text: &str, limit: usize) -> Vec<Hit> {
    ask(view, &Query { limit, ..Query::new(text) }).hits
}

/// Case F03: whatever a note holds is found by typing it.
#[test]
fn no_text_is_syntax_and_each_finds_its_note() {
    let strings = [
        "@nasa",
        "#tag",
        "why?",
        "50%",
        "a=b",
        "C++",
        ".NET",
        "C#",
        "usb-c",
        "--error-on-warnings",
        "don't",
        "\"",
        "test\"",
        ">>>",
        "following:",
        "https://wiki.x.org/a?b=c",
        "y+(y+25)",
        "AND",
        "OR NOT",
        "[[Link]]",
        "path/to/file.rs:42",
        "e:\\dir",
        "- *",
        "-*",
        "+ *",
        "*",
        "NOT *",
        "\u{1f525}",
        "=>",
        "snake_case",
        "ECONNREFUSED",
        "v0.4.2",
        "to be or not to be",
        "don\u{2019}t",
    ];
    let mut notes: Vec<(String, String)> = strings
        .iter()
        .enumerate()
        .map(|(at, text)| (format!("n{at}.md"), format!("Some words, then {text} and more.\n")))
        .collect();
    notes.extend(
        (0..40).map(|it| (format!("other{it}.md"), format!("Filler {it}: net tag link c dir.\n"))),
    );
    let (_dir, index) = built(notes);
    let view = index.view();
    for (at, text) in strings.iter().enumerate() {
        let found = found(&view, text);
        assert!(found.contains(&format!("n{at}.md")), "`{text}`: {found:?}");
    }
    for empty in ["", "  ", "\n\t"] {
        let query = Query::new(empty);
        assert_eq!(search(&view, &query, Rules::default(), clock::now()), Err(QueryError::Empty));
    }
}

/// Case F01: what breaks a query parser is ordinary here, with other queries in flight.
#[test]
fn queries_of_marks_answer_beside_others() {
    let (_dir, index) = built([("a.md", "tide tables"), ("b.md", "+ * and - *")]);
    let view = index.view();
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for text in ["- *", "-*", "+ *", "* ", "NOT *", "field:", "a AND (", "\\", "\u{0}"]
                {
                    ask(&view, &Query::new(text));
                    assert_eq!(found(&view, "tide"), ["a.md"]);
                }
            });
        }
    });
    let results = ask(&view, &Query::new("+ *"));
    assert_eq!(paths(&results), ["b.md"]);
    assert!(results.ranking.starts_with("literal"), "{}", results.ranking);
}

/// Case F04: scripts without spaces, long tokens, full width.
#[test]
fn scripts_and_long_tokens_are_found_by_any_part() {
    let hash = "9bab2837f00dfeed9bab2837f00dfeed9bab28373686";
    let url = "https://example.org/a/very/long/path/to/some/document.html?x=1";
    let endless = "x".repeat(5000);
    let notes = [
        ("zh.md", "把機器推論洗成權威事實的做法".to_owned()),
        ("ja.md", "東京都庁の会議は月曜日です".to_owned()),
        ("ko.md", "어제의 회의록을 보았다".to_owned()),
        ("mixed.md", "使用JWT令牌登录".to_owned()),
        ("url.md", format!("See {url} for more")),
        ("hash.md", format!("commit {hash} broke it")),
        ("wide.md", "型番ＡＢＣ１２３です".to_owned()),
        ("endless.md", format!("so {endless} it goes")),
        ("other.md", "nothing of the kind".to_owned()),
    ];
    let (_dir, index) = built(notes);
    let view = index.view();
    for (text, note) in [
        ("權威事實", "zh.md"),
        ("機器推論", "zh.md"),
        ("推論", "zh.md"),
        ("事實", "zh.md"),
        ("洗", "zh.md"),
        ("東京都庁", "ja.md"),
        ("会議", "ja.md"),
        ("会", "ja.md"),
        ("月曜日", "ja.md"),
        ("회의록을", "ko.md"),
        ("회의록", "ko.md"),
        ("록", "ko.md"),
        ("JWT", "mixed.md"),
        ("令牌", "mixed.md"),
        ("使用JWT令牌", "mixed.md"),
        (url, "url.md"),
        ("document.html", "url.md"),
        (hash, "hash.md"),
        ("ABC123", "wide.md"),
        ("ＡＢＣ１２３", "wide.md"),
        ("abc123", "wide.md"),
        (endless.as_str(), "endless.md"),
        ("\"權威事實\"", "zh.md"),
        ("\"会議は月\"", "ja.md"),
    ] {
        assert_eq!(found(&view, text).first().map(String::as_str), Some(note), "{text}");
    }
    assert_eq!(found(&view, "\"實權威\""), Vec::<String>::new());
}

#[test]
fn identifiers_are_found_whole_first_and_by_their_parts() {
    let (_dir, index) = built([
        ("parts.md", "handle the web socket and reconnect; handle it, handle it"),
        (
            "whole.md",
            "Calls `handleWebSocketReconnect` on close. A long note about other things too.",
        ),
        ("other.md", "plain text"),
    ]);
    let view = index.view();
    assert_eq!(found(&view, "handleWebSocketReconnect")[0], "whole.md");
    for part in ["socket", "reconnect", "WebSocket", "handlewebsocketreconnect", "\"web socket\""] {
        assert!(found(&view, part).contains(&"whole.md".to_owned()), "{part}");
    }
}

/// Case A01: two names that look the same are two notes, found by either spelling.
#[test]
fn accents_are_found_in_either_form_and_exact_ones_first() {
    let (nfc, nfd) = ("caf\u{e9}", "cafe\u{301}");
    let (_dir, mut index) = built([
        (format!("{nfc}.md"), format!("We met at the {nfc} by the harbour")),
        (format!("{nfd}.md"), format!("We met at the {nfd} by the harbour")),
        ("plain.md".to_owned(), "We met at the cafe by the harbour".to_owned()),
        ("text-accent.md".to_owned(), "The café again, by the harbour".to_owned()),
        ("text-plain.md".to_owned(), "The cafe again, by the harbour".to_owned()),
    ]);
    let twins = [format!("{nfc}.md"), format!("{nfd}.md")];
    for spelling in [nfc, nfd] {
        let found = found(&index.view(), spelling);
        assert!(twins.iter().all(|it| found[..2].contains(it)), "{found:?}");
        assert_eq!(found.len(), 5);
    }
    let place = |found: &[String], note: &str| found.iter().position(|it| it == note).unwrap();
    let accent = found(&index.view(), "café again");
    assert!(place(&accent, "text-accent.md") < place(&accent, "text-plain.md"));
    let plain = found(&index.view(), "cafe again");
    assert!(place(&plain, "text-plain.md") < place(&plain, "text-accent.md"));
    index.apply(vec![remove(&twins[1])], commit(2)).unwrap();
    let left = found(&index.view(), nfd);
    assert!(left.contains(&twins[0]) && !left.contains(&twins[1]));
}

#[test]
fn exact_forms_stand_before_their_stems() {
    let (_dir, index) = built([
        ("a.md", "the runner is running late today"),
        ("b.md", "the runner that runs is late today"),
    ]);
    assert_eq!(found(&index.view(), "running"), ["a.md", "b.md"]);
    assert_eq!(found(&index.view(), "runs"), ["b.md", "a.md"]);
}

/// Case A09: no cut falls inside a character.
#[test]
fn characters_of_every_width_survive_at_every_offset() {
    let mut notes = BTreeMap::new();
    for (kind, wide) in ["─", "日", "👨\u{200d}👩\u{200d}👧", "é", "e\u{301}"].iter().enumerate()
    {
        for k in 0..4 {
            let text = format!("{}{} needle{kind}x{k}", "a".repeat(k), wide.repeat(3000));
            notes.insert(format!("{kind}-{k}.md"), text);
        }
    }
    let (_dir, index) = built(notes);
    let view = index.view();
    for kind in 0..5 {
        for k in 0..4 {
            assert_eq!(found(&view, &format!("needle{kind}x{k}"))[0], format!("{kind}-{k}.md"));
        }
    }
    for wide in ["─", "日", "👨\u{200d}👩\u{200d}👧"] {
        let found = hits(&view, wide, 20);
        assert_eq!(found.iter().filter(|it| it.text.contains(wide)).count(), 4, "{wide}");
    }
}

/// Case A10: chunk ids are unique, a repeated paragraph is shown once a note.
#[test]
fn repeated_text_gives_one_hit_a_note_and_ids_of_their_own() {
    let line = "function e(a){return a}".repeat(20_000);
    let paragraph = "the tide tables of the harbour are kept by the pilot ".repeat(30);
    let (_dir, index) = built([
        ("min.md", format!("---\nname: Minified\n---\n```js\n{line}\n```\n")),
        ("pasted.md", vec![paragraph; 50].join("\n\n")),
    ]);
    let view = index.view();
    assert_eq!(found(&view, "tide tables"), ["pasted.md"]);
    assert_eq!(found(&view, "minified")[0], "min.md");
    assert!(found(&view, "return a").contains(&"min.md".to_owned()));
}

/// Case F07: nothing that is gone is found, in the overlay and on the disk.
#[test]
fn what_is_gone_is_found_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let notes =
        ["a", "b", "d", "e"].map(|it| put(format!("{it}.md"), format!("needle{it} common")));
    let mut index = crate::index::testing::open(dir.path(), notes.to_vec(), commit(1));
    let updates = vec![
        remove("a.md"),
        remove("b.md"),
        put("c.md", "needleb common"),
        put("d.md", ""),
        put("e.md", "common"),
    ];
    index.stage(updates, commit(2)).unwrap();
    let check = |view: &IndexView| {
        for (needle, expected) in [
            ("needlea", vec![]),
            ("needleb", vec!["c.md"]),
            ("needled", vec![]),
            ("needlee", vec![]),
        ] {
            assert_eq!(found(view, needle), expected, "{needle}");
        }
        assert_eq!(found(view, "common").len(), 2);
    };
    check(&index.view());
    index.flush().unwrap();
    check(&index.view());
    index.rest().unwrap();
    check(&index.view());
    drop(index);
    check(&crate::index::testing::open(dir.path(), Vec::new(), commit(2)).view());
}

/// Case F10: thresholds mean the score that is shown; a named note stands first.
#[test]
fn a_named_note_stands_first_above_any_threshold_to_one() {
    let mut notes: Vec<(String, String)> = (0..200)
        .map(|it| {
            (
                format!("n{it:03}.md"),
                format!("deployment process {it}: deployment process process\n"),
            )
        })
        .collect();
    notes.push(("x/deployment-process.md".into(), "How we ship.\n".into()));
    let (_dir, index) = built(notes);
    let view = index.view();
    for text in [
        "deployment process",
        "Deployment-Process",
        "[[deployment-process]]",
        "x/deployment-process.md",
    ] {
        for threshold in [0.0, 0.3, 0.9, 1.0] {
            let query = Query { min_score: Some(threshold), ..Query::new(text) };
            let results = ask(&view, &query);
            assert_eq!(paths(&results)[0], "x/deployment-process.md", "{text} {threshold}");
            assert!(results.hits.iter().all(|it| it.score >= threshold));
            assert!(results.hits.is_sorted_by(|a, b| (b.score, &a.path) <= (a.score, &b.path)));
        }
    }
    let query = Query { limit: 50, ..Query::new("process") };
    assert_eq!(ask(&view, &query), ask(&view, &query));
    let (_dir, index) = built((0..9).map(|it| (format!("{it}.md"), "same words")));
    assert_eq!(
        hits(&index.view(), "same", 9).iter().map(|it| it.path.to_string()).collect::<Vec<_>>(),
        (0..9).map(|it| format!("{it}.md")).collect::<Vec<_>>()
    );
    let none = Query { min_score: Some(1e6), ..Query::new("same") };
    assert!(ask(&index.view(), &none).hits.is_empty());
}

/// Case F11: filters narrow what is ranked, not what was ranked.
#[test]
fn filters_are_asked_inside_the_search() {
    let mut notes: Vec<(String, String)> =
        (0..600).map(|it| (format!("A/{it}.md"), "tide tables tide tables\n".to_owned())).collect();
    for it in 0..3 {
        let text = format!(
            "---\ntags: [Sea/Deep]\ndate: 2026-05-0{}\n---\nlong note that speaks of the tide once {}\n",
            it + 1,
            "and then of other things ".repeat(20)
        );
        notes.push((format!("B/{it}.md"), text));
    }
    let (_dir, index) = built(notes);
    let view = index.view();
    let expected = ["B/0.md", "B/1.md", "B/2.md"];
    let base = Query::new("tide tables");
    for query in [
        Query { within: vec!["B".into()], ..base.clone() },
        Query { within: vec!["C".into(), "/B/".into()], ..base.clone() },
        Query { path: Some("B/*.md".into()), ..base.clone() },
        Query { path: Some("B/**".into()), ..base.clone() },
        Query { tags: vec!["none".into(), "#sea".into()], ..base.clone() },
        Query { tags: vec!["sea/deep".into()], ..base.clone() },
    ] {
        let mut found = paths(&ask(&view, &query));
        found.sort();
        assert_eq!(found, expected, "{query:?}");
    }
    let one = Query { path: Some("B/1.md".into()), ..base.clone() };
    assert_eq!(paths(&ask(&view, &one)), ["B/1.md"]);
    // Undated notes pass; dated ones only within the dates.
    let dated = Query {
        since: Some("2026-05-02".into()),
        until: Some("2026-05-02".into()),
        within: vec!["B".into()],
        ..base.clone()
    };
    assert_eq!(paths(&ask(&view, &dated)), ["B/1.md"]);
    for (query, wrong) in [
        (Query { since: Some("May".into()), ..base.clone() }, "date"),
        (Query { until: Some("2026-13-01".into()), ..base.clone() }, "date"),
        (Query { path: Some("a[".into()), ..base.clone() }, "pattern"),
        (Query { tags: vec!["#".into()], ..base.clone() }, "tag"),
        (Query { since: Some("2026-02-29".into()), ..base.clone() }, "date"),
        (Query { within: vec!["".into()], ..base.clone() }, "folder"),
        (Query { within: vec!["B/../A".into()], ..base.clone() }, "folder"),
        (Query { limit: 0, ..base.clone() }, "limit"),
        (Query { limit: Query::MAX_LIMIT + 1, ..base.clone() }, "limit"),
        (Query { min_score: Some(f32::INFINITY), ..base.clone() }, "score"),
        (Query { min_score: Some(f32::NAN), ..base }, "score"),
    ] {
        let err = search(&view, &query, Rules::default(), clock::now()).unwrap_err();
        assert!(
            err.to_string().contains(wrong) || err.hint().is_some_and(|it| it.contains(wrong)),
            "{err}"
        );
    }
}

#[test]
fn resources_and_sessions_are_read_only_where_asked_for() {
    let (_dir, index) = built([
        ("memory/2026-06-29/plan.md", "budget of the harbour"),
        ("resource/2026-06-29/budget.txt", "budget of the harbour"),
        ("mem_session/dialog/s.jsonl", "{\"text\": \"budget of the harbour\"}"),
        ("plan.conflict-4f2c9e1.md", "budget of the harbour"),
    ]);
    let view = index.view();
    assert_eq!(found(&view, "budget"), ["memory/2026-06-29/plan.md"]);
    let within = |folder: &str| {
        paths(&ask(&view, &Query { within: vec![folder.into()], ..Query::new("budget") }))
    };
    assert_eq!(within("resource"), ["resource/2026-06-29/budget.txt"]);
    assert_eq!(within("mem_session"), ["mem_session/dialog/s.jsonl"]);
    assert_eq!(within("memory"), ["memory/2026-06-29/plan.md"]);
    assert_eq!(within(".").len(), 4);
}

#[test]
fn the_page_of_a_day_stands_below_the_notes_it_lists() {
    let list =
        "# 2026-06-29\n\n- [[memory/2026-06-29/plan]] tide tables tide tables\n- tide tables\n";
    let (_dir, index) = built([
        ("memory/2026-06-29.md", list),
        ("memory/2026-06-28/index.md", list),
        (
            "memory/2026-06-29/plan.md",
            "A long plan, which speaks of the tide once, and of much else besides.",
        ),
        (
            "memory/2026-06-28/log.md",
            "A long log, which speaks of tables once, and of much else besides.",
        ),
        ("memory/2026-06-27.md", list),
        ("memory/2026-06-27/other.md", "nothing of the kind"),
    ]);
    let found = found(&index.view(), "tide tables");
    let place = |note: &str| found.iter().position(|it| it == note).unwrap();
    assert!(place("memory/2026-06-29/plan.md") < place("memory/2026-06-29.md"));
    assert!(place("memory/2026-06-28/log.md") < place("memory/2026-06-28/index.md"));
    assert_eq!(place("memory/2026-06-27.md"), 0);
}

#[test]
fn a_hit_has_its_lines_headings_and_neighbours() {
    let mut notes: Vec<(String, String)> = (0..15)
        .map(|it| (format!("in{it:02}.md"), "see [[target#Part|x]] and [[target]]".into()))
        .collect();
    notes.push((
        "target.md".into(),
        "---\nname: The Target\ndescription: what is meant\n---\n# Top\n\nintro [[in03]] [[missing]]\n\n## Part\n\nup:: [[in01#a]] [[in01#b]] zebra\n".into(),
    ));
    let (_dir, index) = built(notes);
    let view = index.view();
    let hit = &hits(&view, "zebra", 5)[0];
    assert_eq!((hit.path.to_string().as_str(), hit.name.as_str()), ("target.md", "The Target"));
    assert_eq!(hit.description.as_deref(), Some("what is meant"));
    assert!(hit.text.contains("zebra") && hit.start_line >= 5 && hit.end_line == 11, "{hit:?}");
    let out: Vec<String> = hit.outlinks.iter().map(|it| it.path.to_string()).collect();
    assert_eq!((out, hit.outlinks_total), (vec!["in03.md".to_owned(), "in01.md".to_owned()], 2));
    assert_eq!(hit.outlinks[1].anchors, ["a", "b"]);
    assert_eq!(hit.outlinks[1].relation.as_deref(), Some("up"));
    assert_eq!((hit.inlinks.len(), hit.inlinks_total), (10, 15));
    assert_eq!(hit.inlinks[0].path, path("in00.md"));
    assert_eq!(hit.inlinks[0].anchors, ["Part"]);
    assert_eq!(hit.keyword, Some(hit.score));
}

/// Issue 3.3: a note of 100,000 links, and a note that as many lead to, cost no more than they say.
#[test]
fn a_note_of_very_many_links_answers_like_any_other() {
    let n = 4000;
    let mut notes: Vec<(String, String)> =
        (0..n).map(|it| (format!("n{it}.md"), "to [[hub]]\n".into())).collect();
    notes.push(("hub.md".into(), "zebra\n".into()));
    let all: String = (0..25).flat_map(|_| 0..n).map(|it| format!("[[n{it}]] ")).collect();
    notes.push(("list.md".into(), format!("giraffe\n\n{all}\n")));
    let anchors: String = (0..20_000).map(|it| format!("[[hub#a{it}]] ")).collect();
    notes.push(("anchors.md".into(), format!("okapi\n\n{anchors}\n")));
    let (_dir, index) = built(notes);
    let view = index.view();
    let begun = clock::now();
    let list = &hits(&view, "giraffe", 5)[0];
    assert_eq!((list.outlinks.len(), list.outlinks_total), (10, n));
    let hub = &hits(&view, "zebra", 5)[0];
    assert_eq!((hub.inlinks.len(), hub.inlinks_total), (10, n + 1));
    let okapi = &hits(&view, "okapi", 5)[0];
    assert_eq!((okapi.outlinks_total, okapi.outlinks[0].anchors.len()), (1, 100));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_trace_adds_up_to_its_score() {
    let (_dir, index) = built([
        ("tide-tables.md", "# Tide tables\n\nof the harbour\n"),
        ("memory/2026-06-29.md", "tide tables of the day, tide tables"),
        ("memory/2026-06-29/a.md", "the harbour and its tide"),
        ("long.md", "the tides were high and the \"tide tables\" wrong"),
    ]);
    for text in ["tide tables", "\"tide tables\" harbour", "what is the tide"] {
        let results = ask(&index.view(), &Query { explain: true, ..Query::new(text) });
        assert!(results.hits.len() > 2);
        for hit in results.hits {
            let (last, parts) = hit.trace.split_last().unwrap();
            let figure = |it: &String| -> f32 { it.split(' ').next().unwrap().parse().unwrap() };
            let sum: f32 = parts.iter().map(figure).sum();
            assert!((sum - hit.score).abs() < 0.002, "{:?}", hit.trace);
            assert_eq!(*last, format!("={:.4}", hit.score));
        }
    }
}

#[test]
fn the_digest_is_never_crowded_out() {
    let mut notes: Vec<(String, String)> = (0..300)
        .map(|it| (format!("memory/2026-06-29/{it}.md"), "bicycle bicycle".into()))
        .collect();
    notes.push(("digest/wiki/bike.md".into(), "---\nname: Bike\ndescription: how one commutes\n---\nA long text that names the bicycle once.\n".into()));
    let (_dir, index) = built(notes);
    let found = nodes(
        &index.view(),
        &Query::new("bicycle"),
        Rules::default(),
        clock::now() + Duration::from_secs(60),
        Leave::Freely,
    )
    .unwrap()
    .nodes;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].name.as_str(), found[0].description.as_deref()),
        ("Bike", Some("how one commutes"))
    );
}

#[test]
fn an_endless_query_is_bounded_and_says_what_it_left_out() {
    let (_dir, index) = built((0..50).map(|it| {
        let words: String =
            (0..400).map(|at| format!("w{} ", (at * 37 + it * 11) % 9000)).collect();
        (format!("{it}.md"), words)
    }));
    let view = index.view();
    let words: String = (0..10_000).map(|it| format!("w{it} ")).collect();
    let results = ask(&view, &Query::new(&words));
    assert_eq!(results.hits.len(), 5);
    assert!(results.ranking.contains("left out"), "{}", results.ranking);
    for text in
        ["w1 ".repeat(350_000), "\"".repeat(1 << 20), "日".repeat(300_000), ">".repeat(1 << 20)]
    {
        ask(&view, &Query::new(text));
    }
}

#[test]
fn a_deadline_gives_a_part_that_says_so() {
    let (_dir, index) = built((0..50).map(|it| (format!("{it}.md"), "tide tables >>>")));
    for text in ["tide", ">>>"] {
        let results =
            search(&index.view(), &Query::new(text), Rules::default(), clock::now()).unwrap();
        assert!(results.partial.is_some_and(|it| it.contains("deadline")), "{text}");
    }
}

#[test]
fn a_result_says_what_it_is_true_for() {
    let (_dir, index) = built([("a.md", "tide")]);
    let results = ask(&index.view(), &Query::new("tide"));
    assert_eq!((results.at, results.partial.clone()), (Some(commit(1)), None));
    assert_eq!(results.keyword, BranchState::Used(1));
    assert!(matches!(results.vector, BranchState::Off(_)));
    assert!(ask(&index.view(), &Query::new("nothing")).hits.is_empty());
}

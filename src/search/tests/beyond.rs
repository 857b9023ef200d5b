//! Beyond one query: times that a question names, and what else moves a note a little.

use std::time::Duration;

use crate::base::calendar::Day;
use crate::base::clock;
use crate::index::IndexView;
use crate::index::testing::{WordModel, built, commit, open_with_model, put};
use crate::search::contexts::Contexts;
use crate::search::graph::{Direction, Walk, snapshot, traverse};
use crate::search::tags::{TagOrder, TagsAsked, tags};
use crate::search::tests::paths;
use crate::search::{Leave, Query, Results, Rules, search, search_but};

/// A Monday.
fn today() -> Day {
    Day::read("2026-11-30").unwrap()
}

fn dated() -> Rules {
    Rules { dates_from: Some(today()), ..Rules::default() }
}

fn asked(view: &IndexView, text: &str, rules: Rules) -> Results {
    let query = Query { explain: true, limit: 50, ..Query::new(text) };
    search(view, &query, rules, clock::now() + Duration::from_secs(60)).unwrap()
}

/// Twenty days of the same dinner; only the day differs.
fn dinners() -> Vec<(String, String)> {
    (10..30)
        .map(|day| {
            (format!("memory/2026-11-{day}/dinner.md"), "Dinner with Ada and soup.\n".to_owned())
        })
        .collect()
}

#[test]
fn notes_of_the_time_that_a_question_names_move_up_and_none_comes_or_goes() {
    let mut notes = dinners();
    notes.push(("memory/2026-11-29/walk.md".into(), "A walk by the sea.\n".into()));
    let (_dir, index) = built(notes);
    let view = index.view();
    let plain = asked(&view, "the dinner with Ada yesterday", Rules::default());
    assert_eq!(paths(&plain)[0], "memory/2026-11-10/dinner.md");
    for text in [
        "the dinner with Ada yesterday",
        "dinner with Ada on 29 November",
        "dinner with Ada on 2026-11-29",
        "dinner with Ada 昨天",
    ] {
        let found = asked(&view, text, dated());
        assert_eq!(paths(&found)[0], "memory/2026-11-29/dinner.md", "{text}");
        let (mut all, mut before) = (paths(&found), paths(&asked(&view, text, Rules::default())));
        all.sort();
        before.sort();
        assert_eq!(all, before, "{text}");
        let first = &found.hits[0];
        let says = first.trace.iter().find(|it| it.contains("the time that the query names"));
        assert!(says.is_some_and(|it| it.starts_with('+')), "{:?}", first.trace);
        assert!(found.hits.is_sorted_by(|a, b| a.score >= b.score));
        assert!(found.ranking.contains("11-29"), "{}", found.ranking);
    }
    // A week: its notes before all others, by path among themselves.
    let found = paths(&asked(&view, "dinner with Ada last week", dated()));
    let wanted: Vec<String> =
        (23..30).map(|day| format!("memory/2026-11-{day}/dinner.md")).collect();
    assert_eq!(found[..7], wanted);
}

#[test]
fn a_question_of_nothing_but_a_time_is_answered_by_the_notes_of_it() {
    let notes = [
        ("memory/2026-11-29/fence.md", "Painted the fence green.\n"),
        ("memory/2026-11-29/zoo.md", "Elephants.\n"),
        (
            "memory/2026-11-20/other.md",
            "It happened yesterday, she said, and what happened: 昨天.\n",
        ),
        ("memory/2026-10-01/old.md", "What happened happened.\n"),
        ("undated.md", "what happened yesterday\n"),
    ];
    let words = built(notes);
    let dir = tempfile::tempdir().unwrap();
    let puts = notes.iter().map(|(path, text)| put(path, text)).collect();
    let model = WordModel::instant("m");
    let both = (&dir, open_with_model(dir.path(), model, puts, commit(1)));
    for view in [words.1.view(), both.1.view()] {
        for text in ["what happened yesterday", "yesterday", "昨天", "my notes of 2026-11-29?"] {
            let found = asked(&view, text, dated());
            let first = ["memory/2026-11-29/fence.md", "memory/2026-11-29/zoo.md"];
            let mut two = paths(&found)[..2].to_vec();
            two.sort();
            assert_eq!(two, first, "{text}: {:?}", paths(&found));
            assert!(found.hits.is_sorted_by(|a, b| a.score >= b.score));
            assert!(found.ranking.contains("the question names nothing else"), "{}", found.ranking);
            let trace = &found.hits[0].trace;
            assert!(
                trace.iter().any(|it| it.contains("the time that the query names")),
                "{trace:?}"
            );
        }
        let within = Query { within: vec!["memory/2026-11-20".into()], ..Query::new("yesterday") };
        let until = clock::now() + Duration::from_secs(60);
        let found = search(&view, &within, dated(), until).unwrap();
        assert_eq!(paths(&found), ["memory/2026-11-20/other.md"], "a filter holds");
        // Whoever says more, or types a date alone, looks for that.
        let found = asked(&view, "elephants last month", dated());
        assert_eq!(paths(&found)[0], "memory/2026-11-29/zoo.md");
        assert!(!asked(&view, "2026-11-29", dated()).ranking.contains("the question names"));
    }
}

#[test]
fn fewer_hits_are_the_first_of_more() {
    let word = |it: usize| ["tide", "harbour", "boat", "net", "gull"][it % 5];
    let notes = (0..60).map(|it| {
        let text = format!("{} {} {} {}\n", word(it), word(it / 5), word(it / 7), "x ".repeat(it));
        (format!("n{it:02}.md"), text)
    });
    let dir = tempfile::tempdir().unwrap();
    let puts = notes.map(|(path, text)| put(&path, &text)).collect();
    let index = open_with_model(dir.path(), WordModel::instant("m"), puts, commit(1));
    let view = index.view();
    let found = |limit: usize| {
        let query = Query { limit, ..Query::new("a boat and a gull in the harbour") };
        paths(&search(&view, &query, dated(), clock::now() + Duration::from_secs(60)).unwrap())
    };
    let ten = found(10);
    assert_eq!(ten.len(), 10);
    for limit in 1..10 {
        assert_eq!(found(limit), ten[..limit]);
    }
}

#[test]
fn a_clearly_better_note_of_another_day_stays_first() {
    let (_dir, index) = built([
        (
            "memory/2026-11-29/a.md",
            "A long day with much of everything, in which the tide came up once, late, and nobody minded it at all.\n",
        ),
        ("memory/2025-01-05/b.md", "tide tables of the harbour: tide, tables, harbour\n"),
        ("undated.md", "the harbour\n"),
    ]);
    let found = asked(&index.view(), "tide tables of the harbour yesterday", dated());
    assert_eq!(paths(&found)[0], "memory/2025-01-05/b.md");
    assert!(paths(&found).contains(&"undated.md".to_owned()));
}

#[test]
fn what_is_meant_to_the_letter_and_rank_fusion_know_no_times() {
    let (_dir, index) = built(dinners());
    let view = index.view();
    for text in ["\"dinner with Ada\"", "yesterday", "\"dinner yesterday\"", "2026-11-29"] {
        let found = asked(&view, text, dated());
        assert!(!found.ranking.contains("preferred"), "{text}: {}", found.ranking);
    }
    let by_rank = Rules { by_rank: Some(0.7), ..dated() };
    assert!(!asked(&view, "dinner yesterday", by_rank).ranking.contains("preferred"));
    // A quoted phrase beside a time: both count.
    let found = asked(&view, "\"dinner with Ada\" yesterday evening", dated());
    assert_eq!(paths(&found)[0], "memory/2026-11-29/dinner.md");
}

#[test]
fn the_day_of_the_frontmatter_counts_where_the_path_has_none() {
    let note = |date: &str| format!("---\ndate: {date}\n---\nDinner with Ada and soup.\n");
    let (_dir, index) = built([
        ("a.md", note("2023-05-30")),
        ("b.md", note("2023-05-08")),
        ("c.md", "Dinner with Ada and soup.\n".to_owned()),
    ]);
    let found = asked(&index.view(), "the dinner with Ada on 8 May 2023", dated());
    assert_eq!(paths(&found)[0], "b.md");
    assert_eq!(found.hits.len(), 3);
}

#[test]
fn recent_notes_move_up_only_where_the_settings_say_so() {
    let (_dir, index) = built(dinners());
    let view = index.view();
    let recent = Rules { recent_from: Some((today(), 30)), ..Rules::default() };
    let found = asked(&view, "dinner with Ada", recent);
    assert_eq!(paths(&found)[0], "memory/2026-11-29/dinner.md");
    assert!(found.ranking.contains("recent notes preferred"), "{}", found.ranking);
    assert!(found.hits[0].trace.iter().any(|it| it.ends_with(" it is recent")));
    let plain = asked(&view, "dinner with Ada", Rules::default());
    assert_eq!(paths(&plain)[0], "memory/2026-11-10/dinner.md");
}

fn old(by: &str) -> String {
    format!(
        "---\nname: Old way\n{by}\n---\nThe tide tables come by post, tide tables, tide tables.\n"
    )
}

#[test]
fn a_superseded_note_is_found_below_the_one_that_replaced_it() {
    for by in [
        "superseded_by: \"[[new]]\"",
        "superseded_by: new.md",
        "superseded_by: [[new]]",
        "status: superseded\nsuperseded_by: '[[new#Part|the new way]]'",
        "superseded-by:\n  - \"[[new]]\"",
    ] {
        let (_dir, index) = built([
            ("old.md", old(by)),
            (
                "new.md",
                "A long note of much else beside, in which the tide tables are online.\n"
                    .to_owned(),
            ),
        ]);
        let found = asked(&index.view(), "tide tables by post", Rules::default());
        assert_eq!(paths(&found), ["new.md", "old.md"], "{by}");
        let heir = found.hits[1].superseded.as_ref().expect(by);
        assert_eq!(heir.path.as_ref().map(|it| it.to_string()).as_deref(), Some("new.md"));
        assert_eq!(found.hits[0].superseded, None);
        assert!(found.hits[1].trace.iter().any(|it| it.ends_with(" another note has replaced it")));
        assert!(found.hits.is_sorted_by(|a, b| a.score >= b.score));
    }
}

#[test]
fn heirs_in_line_in_a_circle_and_those_that_are_not_there() {
    let text = "The tide tables of the harbour.\n";
    let note = |head: &str| format!("---\n{head}\n---\n{text}");
    let (_dir, index) = built([
        ("a.md", note("superseded_by: '[[b]]'")),
        ("b.md", note("superseded_by: '[[c]]'")),
        ("c.md", text.to_owned()),
        ("d.md", note("status: Superseded")),
        ("e.md", note("superseded_by: '[[nowhere]]'")),
        ("x.md", note("superseded_by: '[[y]]'")),
        ("y.md", note("superseded_by: '[[x]]'")),
        ("z.md", note("status: active")),
    ]);
    let found = asked(&index.view(), "tide tables of the harbour", Rules::default());
    let all = paths(&found);
    let place = |note: &str| all.iter().position(|it| it == note).unwrap();
    assert_eq!(all.len(), 8);
    assert!(place("c.md") < place("b.md") && place("b.md") < place("a.md"), "{all:?}");
    assert!(place("z.md") < place("d.md") && place("z.md") < place("e.md"), "{all:?}");
    let heir = |note: &str| found.hits[place(note)].superseded.clone();
    assert_eq!(heir("d.md").map(|it| (it.path, it.name)), Some((None, String::new())));
    assert_eq!(heir("e.md").map(|it| (it.path, it.name)), Some((None, "nowhere".to_owned())));
    assert_eq!(heir("z.md"), None);
    // The name of the old one is still its name.
    let named = paths(&asked(&index.view(), "a.md", Rules::default()));
    assert_eq!(named[0], "a.md");
}

fn graph_vault() -> (tempfile::TempDir, crate::index::Index) {
    built([
        (
            "digest/wiki/bicycle.md",
            "---\nname: Bicycle\n---\nSee [[commute#Way]] and [[missing]].\n",
        ),
        ("digest/personal/me.md", "I ride: [[digest/wiki/bicycle.md]].\n"),
        ("digest/odd.md", "No bucket.\n"),
        ("memory/2026-07-23/commute.md", "# Way\n\nBy [[bicycle]], see [[tide]].\n"),
        ("memory/tide.md", "High.\n"),
        ("notes/far.md", "To [[tide]].\n"),
    ])
}

#[test]
fn a_walk_follows_links_both_ways_and_ends() {
    let (_dir, index) = graph_vault();
    let view = index.view();
    let walk = |seed: &str, depth, direction: &str| {
        let direction = direction.parse().unwrap();
        let walk = Walk { seeds: vec![seed.to_owned()], depth, direction };
        let found = traverse(&view, &walk).unwrap();
        let nodes: Vec<(usize, String)> =
            found.nodes.iter().map(|it| (it.depth, it.path.clone())).collect();
        (nodes, found)
    };
    let at = |depth: usize, path: &str| (depth, path.to_owned());
    let bicycle = "digest/wiki/bicycle.md";
    assert_eq!(walk(bicycle, 0, "both").0, [at(0, bicycle)]);
    assert_eq!(
        walk(bicycle, 1, "out").0,
        [at(0, bicycle), at(1, "memory/2026-07-23/commute.md"), at(1, "missing")]
    );
    assert_eq!(
        walk(bicycle, 1, "backward").0,
        [at(0, bicycle), at(1, "digest/personal/me.md"), at(1, "memory/2026-07-23/commute.md")]
    );
    let (nodes, found) = walk("bicycle", 3, "both");
    assert_eq!(nodes.len(), 6, "{nodes:?}");
    assert_eq!(nodes[5], at(3, "notes/far.md"));
    let edges: Vec<_> = found
        .edges
        .iter()
        .map(|it| (it.depth, it.source.as_str(), it.target.as_str(), it.anchor.as_deref()))
        .collect();
    let commute = "memory/2026-07-23/commute.md";
    assert_eq!(
        edges,
        [
            (1, "digest/personal/me.md", bicycle, None),
            (1, bicycle, commute, Some("Way")),
            (1, bicycle, "missing", None),
            (1, commute, bicycle, None),
            (2, commute, "memory/tide.md", None),
            (3, "notes/far.md", "memory/tide.md", None),
        ]
    );
    // What is not there is asked about from its side as well.
    let (nodes, found) = walk("missing", 1, "in");
    assert_eq!(nodes, [at(0, "missing"), at(1, bicycle)]);
    assert!(!found.nodes[0].is_indexed && found.nodes[1].is_indexed);
    assert_eq!(walk("digest\\wiki\\bicycle.md", 0, "both").0, [at(0, bicycle)]);
    let none = Walk { seeds: vec!["  ".to_owned()], depth: 1, direction: Direction::Both };
    assert_eq!(traverse(&view, &none).unwrap_err().to_string(), "path is required");
    assert!("up".parse::<Direction>().is_err());
}

#[test]
fn the_graph_is_the_digest_with_the_days_that_it_links_to() {
    let (_dir, index) = graph_vault();
    let found = snapshot(&index.view());
    let nodes: Vec<(&str, bool, bool)> =
        found.nodes.iter().map(|it| (it.id.as_str(), it.is_virtual, it.is_indexed)).collect();
    assert_eq!(
        nodes,
        [
            ("virtual:wiki", true, false),
            ("virtual:personal", true, false),
            ("virtual:procedure", true, false),
            ("digest/odd.md", false, true),
            ("digest/personal/me.md", false, true),
            ("digest/wiki/bicycle.md", false, true),
            ("memory/2026-07-23/commute.md", false, true),
        ]
    );
    let edges: Vec<(&str, &str)> =
        found.edges.iter().map(|it| (it.source.as_str(), it.target.as_str())).collect();
    assert_eq!(
        edges,
        [
            ("digest/personal/me.md", "digest/wiki/bicycle.md"),
            ("digest/wiki/bicycle.md", "memory/2026-07-23/commute.md"),
            ("virtual:personal", "digest/personal/me.md"),
            ("virtual:wiki", "digest/wiki/bicycle.md"),
        ]
    );
}

#[test]
fn tags_are_counted_a_note_once_whatever_their_case() {
    let (_dir, index) = built([
        ("a.md", "---\ntags: [Sea, cooking]\nmemory_tags: [Project X]\n---\n#sea again\n"),
        ("b.md", "#Sea and #tide\n"),
        ("resource/c.md", "#hidden\n"),
    ]);
    let view = index.view();
    let list = |asked| tags(&view, asked);
    let item = |tag: &str, count: usize| (tag.to_owned(), count);
    let all = list(TagsAsked::default());
    assert_eq!(
        all.items,
        [item("cooking", 1), item("project_x", 1), item("sea", 2), item("tide", 1)]
    );
    assert_eq!((all.total_tags, all.total_pages, all.page, all.range), (4, 1, 1, (1, 4)));
    let by_count =
        TagsAsked { order_by: TagOrder::Count, is_descending: true, ..TagsAsked::default() };
    assert_eq!(list(by_count).items[..2], [item("sea", 2), item("cooking", 1)]);
    let second = list(TagsAsked { page: 2, page_size: 3, ..TagsAsked::default() });
    assert_eq!(
        (second.items, second.range, second.total_pages),
        (vec![item("tide", 1)], (4, 4), 2)
    );
    let beyond = list(TagsAsked { page: 9, page_size: 3, ..TagsAsked::default() });
    assert_eq!((beyond.items, beyond.range), (vec![], (0, 0)));
    // A tag with a blank is found by either spelling.
    for tag in ["project_x", "Project X", "#PROJECT_X"] {
        let query = Query { tags: vec![tag.to_owned()], ..Query::new("sea again") };
        let found = search(&view, &query, Rules::default(), clock::now() + Duration::from_secs(60));
        assert_eq!(paths(&found.unwrap()), ["a.md"], "{tag}");
    }
}

#[test]
fn a_conversation_gets_no_passage_twice_within_a_day() {
    let (_dir, index) = built((0..5).map(|it| (format!("{it}.md"), "tide tables\n")));
    let view = index.view();
    let contexts = Contexts::default();
    let start = clock::now();
    let ask = |name: &str, hours: u64| {
        let now = start + Duration::from_secs(3600 * hours);
        let query = Query { limit: 2, ..Query::new("tide tables") };
        let (given, expired) = contexts.given(name, now);
        let until = clock::now() + Duration::from_secs(60);
        let (found, skipped) =
            search_but(&view, &query, Rules::default(), until, &given, Leave::Freely).unwrap();
        let dedup = contexts.finish(name, (given.len(), expired), skipped, &found.hits, now);
        (paths(&found), dedup)
    };
    assert_eq!(ask("one", 0).0, ["0.md", "1.md"]);
    let (found, dedup) = ask("one", 1);
    assert_eq!(found, ["2.md", "3.md"]);
    assert_eq!((dedup.seen_before, dedup.skipped_seen, dedup.seen_after), (2, 2, 4));
    assert_eq!((dedup.tool_context_id.as_str(), dedup.ttl_seconds), ("one", 86_400));
    // Another conversation was given nothing.
    assert_eq!(ask("two", 1).0, ["0.md", "1.md"]);
    assert_eq!(ask("one", 2).0, ["4.md"]);
    let (none, dedup) = ask("one", 3);
    assert_eq!((none.len(), dedup.skipped_seen), (0, 5));
    // A day after the first answer its passages are new again.
    let (found, dedup) = ask("one", 24);
    assert_eq!((found, dedup.expired), (vec!["0.md".to_owned(), "1.md".to_owned()], 2));
    // Bounded: of too many conversations those asked longest ago are forgotten.
    let later = start + Duration::from_secs(3600 * 25);
    for name in 0..2000 {
        contexts.give(&format!("many {name}"), &[], later);
    }
    assert!(contexts.given("one", later).0.is_empty());
}

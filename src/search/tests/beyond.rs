//! Beyond one query: times that a question names, and what else moves a note a little.

use std::time::Duration;

use crate::base::calendar::Day;
use crate::base::clock;
use crate::index::IndexView;
use crate::index::testing::built;
use crate::search::tests::paths;
use crate::search::{Query, Results, Rules, search};

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

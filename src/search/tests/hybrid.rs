//! Both branches together: meaning adds what words miss and never overrules what they are sure of.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tempfile::TempDir;

use crate::base::clock;
use crate::embed::Embedder;
use crate::index::testing::{WordModel, commit, make_vectors, open_with_model, put};
use crate::index::{Index, IndexView};
use crate::search::tests::{ask, paths};
use crate::search::{BranchState, Query, Results, Rules, search, similar};

fn vault(model: Arc<dyn Embedder>, notes: &[(&str, &str)]) -> (TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let notes = notes.iter().map(|(path, text)| put(path, text)).collect();
    let index = open_with_model(dir.path(), model, notes, commit(1));
    (dir, index)
}

const NOTES: [(&str, &str); 4] = [
    ("bicycle.md", "bicycle"),
    ("tide.md", "tide tables"),
    ("moon.md", "moon and tide and many other words beside it"),
    ("silent.md", "silent"),
];

fn small() -> (TempDir, Index) {
    vault(WordModel::instant("m"), &NOTES)
}

/// What adds up in a trace, and what it adds up to.
fn sum(trace: &[String]) -> (f32, f32) {
    let number = |line: &str| line.split(' ').next().unwrap().parse::<f32>().unwrap();
    let (last, parts) = trace.split_last().unwrap();
    let parts = parts.iter().filter(|it| it.starts_with(['+', '-']));
    (parts.map(|it| number(it)).sum(), number(&last[1..]))
}

#[test]
fn a_note_without_a_word_of_the_query_is_found_behind_the_best_that_has_it() {
    let (_dir, index) = small();
    let results = ask(&index.view(), &Query { explain: true, ..Query::new("bike tide") });
    // The moon has one of the two words among many others.
    assert_eq!(paths(&results), ["tide.md", "bicycle.md", "moon.md"]);
    assert_eq!((&results.vector, results.fusion), (&BranchState::Used(3), Some("score")));
    let [tide, bicycle, _] = &results.hits[..] else { panic!("three hits") };
    assert!((tide.score - 1.0).abs() < 1e-6, "it has half of the query, not {}", tide.score);
    assert!(tide.vector.is_some() && tide.keyword.is_some_and(|it| it > 0.0));
    assert_eq!(bicycle.keyword, None);
    let cosine = bicycle.vector.unwrap();
    // It is the nearest.
    assert!(cosine > 0.5 && (bicycle.score - 0.5).abs() < 1e-5, "{bicycle:?}");
    for hit in &results.hits {
        let (parts, whole) = sum(&hit.trace);
        assert!((parts - whole).abs() < 0.002 && (whole - hit.score).abs() < 0.001, "{hit:?}");
    }
    let alone = ask(&index.view(), &Query { explain: true, ..Query::new("riding bike") });
    assert_eq!(paths(&alone)[0], "bicycle.md");
    let hit = &alone.hits[0];
    assert_eq!((Some(hit.score), alone.fusion), (hit.vector, None)); // the one branch's own
    assert!((sum(&hit.trace).0 - hit.score).abs() < 0.001, "{:?}", hit.trace);
}

#[test]
fn min_score_is_on_the_scale_of_the_fused_score_also_without_one_branch() {
    let (_dir, index) = small();
    let at = |text: &str, least: f32| {
        paths(&ask(&index.view(), &Query { min_score: Some(least), ..Query::new(text) }))
    };
    assert_eq!(at("bike tide", 0.99), ["tide.md"]);
    // One word is answered by words alone: the best has 1, though its own score is shown.
    assert_eq!(at("tables", 1.0), ["tide.md"]);
    assert!(at("tables", 1.01).is_empty());
}

#[test]
fn what_is_meant_to_the_letter_comes_first_and_alone_has_no_neighbours() {
    let notes = [
        ("has.md", "a long note of many words that has tide tables in it and much else beside"),
        ("near.md", "tables tide bicycle bicycle ride"),
        ("code.md", "calls max_lines once"),
    ];
    let (_dir, index) = vault(WordModel::instant("m"), &notes);
    let results = ask(&index.view(), &Query::new("\"tide tables\" bike ride"));
    assert_eq!(paths(&results)[0], "has.md");
    for text in ["\"tide tables\"", "max_lines", "tide"] {
        let results = ask(&index.view(), &Query::new(text));
        assert_eq!(results.vector, BranchState::Off("the query is meant to the letter"), "{text}");
    }
    // What no note has is looked for by its meaning.
    assert_eq!(ask(&index.view(), &Query::new("bike")).hits[0].path.to_string(), "near.md");
}

#[test]
fn a_named_note_is_first_and_a_day_page_below_its_notes() {
    let notes = [
        ("memory/2026-01-02.md", "bike tide\n\n- [[memory/2026-01-02/a]]\n"),
        ("memory/2026-01-02/a.md", "bicycle ride and many other words beside these two here"),
        ("bike ride.md", "nothing of it"),
    ];
    let (_dir, index) = vault(WordModel::instant("m"), &notes);
    let found = paths(&ask(&index.view(), &Query::new("bike ride")));
    assert_eq!(found[0], "bike ride.md");
    let at = |path: &str| found.iter().position(|it| it == path).unwrap();
    assert!(at("memory/2026-01-02/a.md") < at("memory/2026-01-02.md"), "{found:?}");
}

#[test]
fn a_note_of_the_manual_stands_behind_others_and_is_found_where_there_is_none() {
    let manual = "---\ntags: [remd, manual, tide]\n---\ntide tables in short";
    let notes = [
        ("a.md", manual),
        ("b.md", "---\ntags: [remd]\n---\ntide tables in a few more words than those of the other"),
        ("silent.md", "silent"),
    ];
    let (_dir, index) = vault(WordModel::instant("m"), &notes);
    let asked = |weight: Option<f64>, text: &str| {
        let query = Query { vector_weight: weight, explain: true, ..Query::new(text) };
        ask(&index.view(), &query)
    };
    let results = asked(None, "tide tables");
    assert_eq!(paths(&results), ["b.md", "a.md"]);
    let hit = &results.hits[1];
    let (parts, whole) = sum(&hit.trace);
    assert!((parts - whole).abs() < 0.002 && (whole - hit.score).abs() < 0.001, "{hit:?}");
    let line = hit.trace.iter().find(|it| it.contains("it is of remd's manual")).unwrap();
    assert!(line.starts_with(&format!("{:+.3}", -hit.score)[..6]), "half is left: {hit:?}");
    // Neither what is typed to the letter nor the documented rule knows of it.
    assert_eq!(paths(&asked(None, "\"tide tables\""))[0], "a.md");
    assert_eq!(paths(&asked(Some(0.7), "tide tables"))[0], "a.md");
}

#[test]
fn the_documented_rule_is_there_for_those_who_ask() {
    let (_dir, index) = small();
    let asked = |weight: Option<f64>, rules: Rules| -> Results {
        let query = Query { vector_weight: weight, ..Query::new("bike tide") };
        search(&index.view(), &query, rules, clock::now() + Duration::from_secs(60)).unwrap()
    };
    let by_rank = Rules { by_rank: Some(0.7), ..Rules::default() };
    for results in [asked(Some(0.7), Rules::default()), asked(None, by_rank)] {
        assert_eq!(results.fusion, Some("rrf"));
        // First among vectors and in no words: .7 / 61.
        let bicycle = results.hits.iter().find(|it| it.keyword.is_none()).unwrap();
        assert!((bicycle.score - 0.7 / 61.0).abs() < 1e-6, "{bicycle:?}");
    }
    let words = asked(Some(0.0), Rules::default());
    assert_eq!((words.vector, words.hits.len()), (BranchState::Off("`vector_weight` is 0"), 2));
    let vectors = asked(Some(1.0), Rules::default());
    assert_eq!(vectors.keyword, BranchState::Off("`vector_weight` is 1"));
    assert!(vectors.hits.iter().all(|it| Some(it.score) == it.vector));
}

#[test]
fn a_model_that_is_away_or_behind_costs_the_branch_and_says_so() {
    let model = WordModel::remote("m");
    let (_dir, mut index) = vault(model.clone(), &NOTES);
    let vector = |view: &IndexView| {
        let results = ask(view, &Query::new("bike tide"));
        assert_eq!(paths(&results)[0], "tide.md");
        results.vector
    };
    assert_eq!(vector(&index.view()), BranchState::Off("vectors are being made"));
    make_vectors(&mut index);
    index.stage(vec![put("new.md", "pilot")], commit(2)).unwrap();
    assert_eq!(vector(&index.view()), BranchState::Part { found: 3, missing: 1 });
    model.is_away.store(true, Ordering::SeqCst);
    assert_eq!(vector(&index.view()), BranchState::Off("the model gave no answer"));
    let silent = ask(&index.view(), &Query::new("silent silent"));
    assert_eq!((silent.hits.len(), silent.fusion), (1, None));
}

#[test]
fn similar_notes_are_near_by_meaning_and_never_the_note_itself() {
    let notes = [
        ("bicycle.md", "bicycle ride"),
        ("bike.md", "bike ride"),
        ("memory/2026-01-02.md", "bicycle ride\n"),
        ("resource/ride.md", "bicycle ride\n"),
        ("tide.md", "tide tables"),
        ("silent.md", "silent"),
    ];
    let (_dir, index) = vault(WordModel::instant("m"), &notes);
    let view = index.view();
    let near = |path: &str| {
        let path = crate::vault::VaultPath::new(path).unwrap();
        let card = view.note(&path).unwrap();
        similar(&view, card, 10, clock::now() + Duration::from_secs(60))
    };
    let found = near("bicycle.md");
    assert_eq!(paths(&found)[0], "bike.md");
    for none in ["bicycle.md", "memory/2026-01-02.md", "resource/ride.md"] {
        assert!(!paths(&found).contains(&none.to_owned()), "{none}");
    }
    let hit = &found.hits[0];
    assert_eq!((Some(hit.score), hit.keyword), (hit.vector, None));
    assert!(matches!(found.vector, BranchState::Used(_)), "{:?}", found.vector);
    let none = near("silent.md");
    assert_eq!((none.hits.len(), none.vector), (0, BranchState::Off("this note has no vector")));
    let (_dir, bare) = crate::index::testing::built([("a.md", "tide")]);
    let view = bare.view();
    let card = view.notes()[0].clone();
    let off = similar(&view, &card, 10, clock::now() + Duration::from_secs(60));
    assert_eq!(off.vector, BranchState::Off("no model"));
}

/// Case F11: filters narrow what is ranked by meaning, not what was ranked.
#[test]
fn filters_are_asked_inside_both_branches_f11() {
    let mut notes: Vec<(String, String)> = (0..600)
        .map(|it| {
            let date = format!("2026-01-{:02}", it % 28 + 1);
            (format!("A/{it}.md"), format!("---\ndate: {date}\ntags: [a]\n---\nbicycle ride\n"))
        })
        .collect();
    for it in 0..3 {
        let text =
            "---\ndate: 2026-05-01\ntags: [b]\n---\nbicycle and many other words beside it\n";
        notes.push((format!("B/{it}.md"), text.to_owned()));
    }
    let notes: Vec<(&str, &str)> = notes.iter().map(|it| (it.0.as_str(), it.1.as_str())).collect();
    let (_dir, index) = vault(WordModel::instant("m"), &notes);
    let view = index.view();
    let base = Query::new("bike ride");
    for weight in [None, Some(1.0), Some(0.7)] {
        for query in [
            Query { within: vec!["B".into()], ..base.clone() },
            Query { path: Some("B/*.md".into()), ..base.clone() },
            Query { tags: vec!["b".into()], ..base.clone() },
            Query { since: Some("2026-04-01".into()), ..base.clone() },
        ] {
            let query = Query { vector_weight: weight, ..query };
            let mut found = paths(&ask(&view, &query));
            found.sort();
            assert_eq!(found, ["B/0.md", "B/1.md", "B/2.md"], "{query:?}");
        }
    }
}

/// Case F07: what is gone is found by no engine, in the overlay, on the disk and after a restart.
#[test]
fn what_is_gone_has_no_meaning_left_f07() {
    let notes = ["a", "b", "d", "e"].map(|it| (format!("{it}.md"), "bicycle ride".to_owned()));
    let notes: Vec<(&str, &str)> = notes.iter().map(|it| (it.0.as_str(), it.1.as_str())).collect();
    let (dir, mut index) = vault(WordModel::instant("m"), &notes);
    let updates = vec![
        crate::index::testing::remove("a.md"),
        crate::index::testing::remove("b.md"),
        put("c.md", "bicycle ride"),
        put("d.md", ""),
        put("e.md", "tide tables"),
    ];
    index.stage(updates, commit(2)).unwrap();
    let check = |view: &IndexView| {
        for weight in [None, Some(1.0)] {
            let query = Query { vector_weight: weight, ..Query::new("bike ride") };
            let found = paths(&ask(view, &query));
            assert_eq!(found[0], "c.md", "{weight:?}");
            assert!(found.iter().all(|it| it == "c.md" || it == "e.md"), "{weight:?}: {found:?}");
        }
        let tide = view.note(&crate::vault::VaultPath::new("c.md").unwrap()).unwrap();
        let near = similar(view, tide, 10, clock::now() + Duration::from_secs(60));
        for gone in ["a.md", "b.md", "d.md"] {
            assert!(!paths(&near).contains(&gone.to_owned()), "{gone}");
        }
    };
    check(&index.view());
    index.flush().unwrap();
    check(&index.view());
    index.rest().unwrap();
    check(&index.view());
    drop(index);
    check(&open_with_model(dir.path(), WordModel::instant("m"), Vec::new(), commit(2)).view());
}

/// Case F10: the score that is shown sorts and is what a threshold means, by words, by meaning and
/// fused in either way; a note of that very name is first above any threshold to 1.
#[test]
fn thresholds_mean_the_score_that_is_shown_f10() {
    let mut notes: Vec<(String, String)> = (0..200)
        .map(|it| (format!("n{it:03}.md"), format!("bicycle ride {it}: tide bicycle ride\n")))
        .collect();
    notes.push(("x/bicycle-ride.md".into(), "How we ship.\n".into()));
    let notes: Vec<(&str, &str)> = notes.iter().map(|it| (it.0.as_str(), it.1.as_str())).collect();
    let (_dir, index) = vault(WordModel::instant("m"), &notes);
    let view = index.view();
    for weight in [None, Some(0.0), Some(0.7), Some(1.0)] {
        for threshold in [0.0, 0.3, 0.9] {
            let query = Query {
                vector_weight: weight,
                min_score: Some(threshold),
                ..Query::new("bicycle ride")
            };
            let found = ask(&view, &query);
            assert!(found.hits.iter().all(|it| it.score >= threshold), "{weight:?} {threshold}");
            let is_sorted =
                found.hits.is_sorted_by(|a, b| (b.score, &a.path) <= (a.score, &b.path));
            assert!(is_sorted, "{weight:?} {threshold}");
            assert_eq!(found, ask(&view, &query));
            // By meaning alone no name is looked up.
            if weight != Some(1.0) {
                assert_eq!(paths(&found)[0], "x/bicycle-ride.md", "{weight:?} {threshold}");
            }
        }
    }
}

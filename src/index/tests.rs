//! The index as a whole: whatever happens to it, it equals one built anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use crate::base::clock;
use crate::index::testing::{
    WordModel, built, commit, facts, hits, make_vectors, open_with_model, path, put, rebuild,
    remove,
};
use crate::index::{Ask, Index, IndexError, IndexReader, Opened, Update, Why};
use crate::vault::{CommitId, Layout, VaultPath};

mod at_rest;
mod beside;
mod kills;
mod neighbours;
mod spaces;
mod vectors;

fn model() -> Arc<WordModel> {
    WordModel::instant("words")
}

fn open_index(dir: &std::path::Path) -> Result<(Index, Opened), IndexError> {
    Index::open_with_model(dir, &Layout::default(), model())
}

fn open(dir: &std::path::Path, updates: Vec<Update>, at: CommitId) -> Index {
    open_with_model(dir, model(), updates, at)
}

const QUERIES: [&str; 7] =
    ["tide tables", "moon", "\"tide tables\"", "common", "shared heading", "n1", "日本"];

fn texts(seed: u8) -> String {
    match seed % 6 {
        0 => "# Tide tables\n\nSee [[n1]] and [[n2#Moon|the moon]].\n".into(),
        1 => "---\nname: Moon\ntags: [sky]\n---\ncommon words, up:: [[sub/n3]]\n".into(),
        2 => "# Shared heading\n\n## Tide\n\ntables of the moon [n0](n0.md)\n".into(),
        3 => format!("common {}\n\n# 日本\n\n{}\n", "x ".repeat(1500), "moon ".repeat(500)),
        4 => String::new(),
        _ => "- [[N2]] and [[n9]]\n\ntide pools, common tables\n".into(),
    }
}

const PATHS: [&[u8]; 8] = [
    b"n0.md",
    b"n1.md",
    b"n2.md",
    b"sub/n3.md",
    b"sub/n1.md",
    b"memory/2026-01-01.md",
    b"digest/wiki/n5.md",
    b"bad\xff.md",
];

type Model = BTreeMap<usize, u8>;

fn full(model: &Model) -> Vec<Update> {
    model.iter().map(|(at, seed)| put(PATHS[*at], texts(*seed))).collect()
}

fn difference(from: &Model, to: &Model) -> BTreeMap<usize, Option<u8>> {
    (0..PATHS.len())
        .filter(|at| from.get(at) != to.get(at))
        .map(|at| (at, to.get(&at).copied()))
        .collect()
}

fn updates(changes: &BTreeMap<usize, Option<u8>>) -> Vec<Update> {
    changes
        .iter()
        .map(|(at, seed)| match seed {
            Some(seed) => put(PATHS[*at], texts(*seed)),
            None => remove(PATHS[*at]),
        })
        .collect()
}

/// Opens after a stop or a crash, and catches up from each cursor it finds.
fn reopened(dir: &std::path::Path, history: &[Model]) -> Index {
    let (mut index, opened) = open_index(dir).unwrap();
    let head = commit(u8::try_from(history.len() - 1).unwrap());
    let now = history.last().unwrap();
    let cursors = match opened {
        Opened::Ready { cursors } => cursors,
        Opened::Unfinished => {
            go_on(&mut index, now, head);
            return index;
        }
        Opened::Rebuild(_) => {
            rebuild(&mut index, full(now), head);
            return index;
        }
    };
    let mut changes = BTreeMap::new();
    for cursor in cursors {
        changes.extend(difference(&history[usize::from(cursor.as_bytes()[0])], now));
    }
    index.apply(updates(&changes), head).unwrap();
    // What a crash took.
    make_vectors(&mut index);
    index
}

/// Ends a build that was left off: the difference between what it holds and what there is. Gives
/// how many notes that were.
fn go_on(index: &mut Index, now: &Model, head: CommitId) -> usize {
    let view = index.view();
    let mut changes: BTreeMap<VaultPath, Update> =
        view.notes().iter().map(|it| (it.path.clone(), Update::Remove(it.path.clone()))).collect();
    for update in full(now) {
        let Update::Put { path, blob, .. } = &update else { unreachable!() };
        match view.note(path).is_some_and(|it| it.blob == *blob) {
            true => changes.remove(path),
            false => changes.insert(path.clone(), update),
        };
    }
    let count = changes.len();
    let mut build = index.go_on(count).unwrap();
    for update in changes.into_values() {
        build.take(update).unwrap();
    }
    build.end(head).unwrap();
    // What a kill took.
    make_vectors(index);
    count
}

fn assert_equals_a_rebuild(index: &Index, model: &Model) {
    let dir = tempfile::tempdir().unwrap();
    let anew = open(dir.path(), full(model), commit(99));
    assert_eq!(facts(&index.view()), facts(&anew.view()));
    assert_eq!(index.view().counts(), anew.view().counts());
    assert_vectors_equal(index, &anew);
    for query in QUERIES {
        let own: BTreeSet<String> = hits(&index.view(), query).into_iter().map(|it| it.0).collect();
        let other: BTreeSet<String> =
            hits(&anew.view(), query).into_iter().map(|it| it.0).collect();
        assert_eq!(own, other, "{query}");
        let (own, other) = (scores(&index.view(), query), scores(&anew.view(), query));
        for (path, score) in own {
            assert!((score - other[&path]).abs() < 0.001, "{query} {path}: {score} {other:?}");
        }
    }
}

/// Each living note has the vectors that a rebuild gives it, and those answer in the same order.
fn assert_vectors_equal(index: &Index, anew: &Index) {
    let (own, other) = (index.view(), anew.view());
    assert!(!index.view().all_vectors().is_empty() || own.notes().is_empty());
    assert_eq!(own.all_vectors(), other.all_vectors());
    assert_eq!(own.vectors().map(|it| it.missing), Some(0));
    let deadline = clock::now() + Duration::from_secs(60);
    for query in QUERIES {
        let Some(asked) = model().vector(query) else { continue };
        let near = |view: &crate::index::IndexView| -> Vec<(String, usize, u32)> {
            let found = view.nearest(&asked, &|_| true, 5, deadline);
            let near = found.near.iter();
            near.map(|it| (it.card.path.to_string(), it.chunk, it.cosine.to_bits())).collect()
        };
        assert_eq!(near(&own), near(&other), "{query}");
    }
}

fn scores(view: &crate::index::IndexView, query: &str) -> BTreeMap<String, f32> {
    let deadline = clock::now() + Duration::from_secs(60);
    let found = view.find(&Ask::new(query), &|_| true, 200, deadline).unwrap();
    found.candidates.iter().map(|it| (it.card.path.to_string(), it.score())).collect()
}

/// What is kept beside each change is what a look at every document finds.
fn assert_sums(index: &Index) {
    let (kept, counted) = index.view().sums_kept_and_counted().unwrap();
    assert_eq!(kept, counted);
}

#[derive(Clone, Debug)]
enum Step {
    Edit(Vec<(usize, Option<u8>)>),
    Flush,
    Rest,
    Stop,
    Crash,
    /// The next edits come in bulk, of which so many get to a step before a crash.
    Bulk(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let edit = prop::collection::vec((0..PATHS.len(), prop::option::weighted(0.75, 0..6u8)), 1..4);
    let step = prop_oneof![
        6 => edit.prop_map(Step::Edit),
        2 => Just(Step::Flush),
        1 => Just(Step::Rest),
        1 => Just(Step::Stop),
        2 => Just(Step::Crash),
        2 => (0..4usize).prop_map(Step::Bulk),
    ];
    prop::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn whatever_happens_the_index_equals_a_rebuild(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let mut history = vec![Model::from([(0, 0), (1, 1), (5, 3)])];
        let mut index = open(dir.path(), full(&history[0]), commit(0));
        let mut bulk = None;
        for step in steps {
            assert_sums(&index);
            // What is remembered of a term is carried over to the next commit.
            QUERIES[3..5].iter().for_each(|it| drop(scores(&index.view(), it)));
            match step {
                Step::Edit(edits) => {
                    let mut model = history.last().unwrap().clone();
                    for (at, seed) in edits {
                        match seed {
                            Some(seed) => model.insert(at, seed),
                            None => model.remove(&at),
                        };
                    }
                    let changes = difference(history.last().unwrap(), &model);
                    history.push(model);
                    let at = commit(u8::try_from(history.len() - 1).unwrap());
                    let Some(before_step) = bulk.take() else {
                        index.stage(updates(&changes), at).unwrap();
                        prop_assert_eq!(index.view().at(), Some(at));
                        continue;
                    };
                    let mut build = index.go_on(changes.len()).unwrap();
                    for (at, update) in updates(&changes).into_iter().enumerate() {
                        if at == before_step {
                            build.step().unwrap();
                        }
                        build.take(update).unwrap();
                    }
                    if before_step < changes.len() {
                        // What came after the step is gone, and HEAD may have moved on or back.
                        drop(index);
                        if before_step % 2 == 0 {
                            history.pop();
                        }
                        index = reopened(dir.path(), &history);
                    } else {
                        build.end(at).unwrap();
                        prop_assert_eq!(index.view().at(), Some(at));
                    }
                    assert_equals_a_rebuild(&index, history.last().unwrap());
                }
                Step::Bulk(before_step) => bulk = Some(before_step),
                Step::Flush => index.flush().unwrap(),
                Step::Rest => index.rest().unwrap(),
                Step::Stop => {
                    index.rest().unwrap();
                    drop(index);
                    index = reopened(dir.path(), &history);
                }
                Step::Crash => {
                    drop(index);
                    index = reopened(dir.path(), &history);
                    assert_equals_a_rebuild(&index, history.last().unwrap());
                }
            }
        }
        assert_equals_a_rebuild(&index, history.last().unwrap());
        index.rest().unwrap();
        drop(index);
        let reader = IndexReader::open(dir.path(), &Layout::default()).unwrap().unwrap_or_else(|it| panic!("{it}"));
        let at = commit(u8::try_from(history.len() - 1).unwrap());
        prop_assert_eq!(reader.cursors(), &BTreeSet::from([at]));
        let view = reader.view(Vec::new(), Some(at)).unwrap();
        let (_own, anew) = built(history.last().unwrap().iter().map(|(at, seed)| (PATHS[*at], texts(*seed))));
        prop_assert_eq!(facts(&view), facts(&anew.view()));
    }
}

#[test]
fn a_build_shows_its_parts_and_an_old_index_serves_to_the_end_of_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut index, _) = open_index(dir.path()).unwrap();
    let deadline = clock::now() + Duration::from_secs(60);
    let mut rebuild = index.begin_rebuild(0).unwrap();
    let mut number = 0;
    loop {
        assert!(clock::now() < deadline, "a part is shown after a while");
        let Update::Put { path, blob, role, doc } = put(format!("{number}.md"), "tide") else {
            unreachable!()
        };
        number += 1;
        if rebuild.add(&path, blob, role, &doc).unwrap() {
            break;
        }
    }
    let view = rebuild.view();
    assert_eq!(view.building().map(|it| it.done), Some(number));
    assert_eq!((view.at(), hits(&view, "tide").len()), (None, number.min(200)));
    // A build that stops here has its parts, and is true for no commit.
    drop(index);
    let (mut index, opened) = open_index(dir.path()).unwrap();
    assert!(matches!(opened, Opened::Unfinished) && index.is_unfinished(), "{opened:?}");
    assert_eq!((index.view().at(), hits(&index.view(), "tide").len()), (None, number.min(200)));
    let read = IndexReader::open(dir.path(), &Layout::default()).unwrap();
    assert!(matches!(read, Err(Why::Unfinished)));
    super::testing::rebuild(&mut index, vec![put("old.md", "tide")], commit(1));
    let mut rebuild = index.begin_rebuild(1).unwrap();
    let Update::Put { path, blob, role, doc } = put("new.md", "tide") else { unreachable!() };
    rebuild.add(&path, blob, role, &doc).unwrap();
    let paths = |view: &crate::index::IndexView| -> Vec<String> {
        hits(view, "tide").into_iter().map(|it| it.0).collect()
    };
    assert_eq!(paths(&rebuild.view()), ["old.md"]);
    let view = rebuild.finish(commit(2)).unwrap();
    assert_eq!((paths(&view), view.at()), (vec!["new.md".to_owned()], Some(commit(2))));
}

#[test]
fn the_overlay_ranks_like_a_commit() {
    let words = ["tide", "moon", "table", "harbour", "pilot", "chart", "depth", "light"];
    let text = |seed: usize| -> String {
        (0..60 + seed % 40)
            .map(|at| format!("{} ", words[(seed * 7 + at * at) % words.len()]))
            .collect()
    };
    let notes: Vec<(String, String)> = (0..300).map(|it| (format!("{it}.md"), text(it))).collect();
    let (_dir, mut index) = built(notes);
    let changed: Vec<Update> = (0..60)
        .map(|it| put(format!("{}.md", it * 5), text(it * 11 + 3)))
        .chain((0..20).map(|it| put(format!("new-{it}.md"), text(it * 13 + 5))))
        .collect();
    index.stage(changed, commit(2)).unwrap();
    let overlay = index.view();
    index.flush().unwrap();
    let committed = index.view();
    let deadline = clock::now() + Duration::from_secs(60);
    for query in ["tide pilot", "harbour light depth", "chart moon", "table"] {
        let ask = Ask::new(query);
        let ranked = |view: &crate::index::IndexView| -> Vec<(String, f32)> {
            let found = view.find(&ask, &|_| true, 20, deadline).unwrap();
            found.candidates.iter().map(|it| (it.card.path.to_string(), it.score())).collect()
        };
        let (before, after) = (ranked(&overlay), ranked(&committed));
        for (before, after) in before.iter().zip(&after) {
            assert!((before.1 - after.1).abs() < 0.02 * after.1, "{query}: {before:?} {after:?}");
        }
        let top = |ranked: &[(String, f32)]| -> BTreeSet<String> {
            ranked.iter().take(10).map(|it| it.0.clone()).collect()
        };
        assert!(top(&before).intersection(&top(&after)).count() >= 9, "{query}");
    }
}

#[test]
fn dead_lines_are_dropped_and_the_rest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let long =
        |it: usize| format!("# One\n\n{}\n\n# Two\n\nnote {it} [[b]]\n", "word ".repeat(800));
    let mut index = open(dir.path(), vec![put("b.md", "tide"), put("digest/c.md", "x")], commit(0));
    let chunks = dir.path().join("file_store/file_chunks_default_v1.jsonl.zst");
    for round in 0..20_usize {
        let updates = (0..40).map(|it| put(format!("{it}.md"), long(round * 40 + it))).collect();
        index.apply(updates, commit(u8::try_from(round + 1).unwrap())).unwrap();
    }
    let before = std::fs::metadata(&chunks).unwrap().len();
    index.rest().unwrap();
    assert!(std::fs::metadata(&chunks).unwrap().len() * 4 < before);
    let said = facts(&index.view());
    drop(index);
    let (index, opened) = open_index(dir.path()).unwrap();
    let Opened::Ready { cursors } = opened else { panic!("{opened:?}") };
    assert_eq!(cursors, BTreeSet::from([commit(20)]));
    assert_eq!(facts(&index.view()), said);
    assert_eq!(index.view().inlinks(&path("b.md")).len(), 40);
}

#[test]
fn a_reader_beside_a_writer_sees_the_last_commit_and_lays_the_rest_over_it() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::default();
    let mut index = open(dir.path(), vec![put("a.md", "tide"), put("b.md", "tide")], commit(1));
    index.stage(vec![put("c.md", "tide")], commit(2)).unwrap();
    let reader =
        IndexReader::open(dir.path(), &layout).unwrap().unwrap_or_else(|it| panic!("{it}"));
    assert_eq!(reader.cursors(), &BTreeSet::from([commit(1)]));
    let view = reader.view(vec![put("c.md", "tide"), remove("a.md")], Some(commit(2))).unwrap();
    let paths: Vec<String> = hits(&view, "tide").into_iter().map(|it| it.0).collect();
    assert_eq!(paths, ["b.md", "c.md"]);
    let view = IndexReader::empty(&layout).view(vec![put("x.md", "moon")], None).unwrap();
    assert_eq!(hits(&view, "moon").len(), 1);
    assert!(IndexReader::empty(&layout).view(Vec::new(), None).unwrap().notes().is_empty());
}

/// Which of many equals are the best does not hang on where they lie in the index.
#[test]
fn of_equals_the_first_by_path_are_the_best() {
    let names: Vec<String> = (0..40).map(|it| format!("n{it:02}.md")).collect();
    for order in [names.clone(), names.iter().rev().cloned().collect()] {
        let (_dir, index) = built(order.into_iter().map(|it| (it, "needle")));
        let deadline = clock::now() + std::time::Duration::from_secs(60);
        let found = index.view().find(&Ask::new("needle"), &|_| true, 5, deadline).unwrap();
        let paths: Vec<String> =
            found.candidates.iter().map(|it| it.card.path.to_string()).collect();
        assert_eq!(paths, names[..5]);
    }
}

/// A merge of tantivy's writes beside us what no view reads yet.
#[test]
fn a_segment_in_the_making_is_no_damage() {
    let (dir, mut index) = built([("a.md", "one")]);
    let growing =
        crate::index::open::keyword_dir(dir.path()).join("0123456789abcdef0123456789abcdef.idx");
    std::fs::write(&growing, "begun").unwrap();
    index.apply(vec![put("b.md", "two")], commit(2)).unwrap();
    std::fs::write(&growing, "begun and ended").unwrap();
    index.check().unwrap();
    index.view().check().unwrap();
}

//! Vectors beside the words: whatever happens, each living note gets its own and no other's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::base::clock;
use crate::embed::Embedder;
use crate::index::testing::{
    WordModel, commit, make_vectors, open_with_model, put, rebuild, remove,
};
use crate::index::{Index, IndexReader, IndexView, Models, Opened, Update};
use crate::vault::Layout;

pub(super) fn notes() -> Vec<Update> {
    vec![put("a.md", "tide tables"), put("b.md", "moon"), put("c.md", "silent"), put("d.md", "")]
}

pub(super) fn near(view: &IndexView, model: &WordModel, text: &str) -> Vec<String> {
    let deadline = clock::now() + Duration::from_secs(60);
    let query = model.vector(text).unwrap();
    let near = view.nearest(&query, &|_| true, 10, deadline).near;
    near.iter().map(|it| it.card.path.to_string()).collect()
}

pub(super) fn missing(index: &Index) -> usize {
    index.view().vectors().unwrap().missing
}

/// The files of vectors.
fn files(dir: &Path) -> Vec<PathBuf> {
    let spaces = std::fs::read_dir(dir.join("vector_index")).unwrap();
    let mut files: Vec<PathBuf> = spaces
        .flat_map(|it| std::fs::read_dir(it.unwrap().path()).unwrap())
        .map(|it| it.unwrap().path())
        .collect();
    files.sort();
    files
}

pub(super) fn reopened(dir: &Path, model: Arc<dyn Embedder>) -> Index {
    let (index, opened) = Index::open_with_model(dir, &Layout::default(), model).unwrap();
    assert!(matches!(opened, Opened::Ready { .. }), "{opened:?}");
    index
}

/// More rows than are all compared: the nearest are found by their signs, and whatever a filter
/// takes is found though all else is nearer.
#[test]
fn of_many_rows_the_nearest_are_compared_and_a_filter_loses_none() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    let notes: Vec<Update> =
        (0..400).map(|it| put(format!("n/{it}.md"), format!("w{it}"))).collect();
    let index = open_with_model(dir.path(), model.clone(), notes, commit(1));
    let (view, deadline) = (index.view(), clock::now() + Duration::from_secs(60));
    for asked in [0, 7, 399] {
        let query = model.vector(&format!("w{asked}")).unwrap();
        let exact = |other: u32| -> f32 {
            let other = model.vector(&format!("w{other}")).unwrap();
            query.parts().iter().zip(other.parts()).map(|(a, b)| a * b).sum()
        };
        let near = view.nearest(&query, &|_| true, 5, deadline).near;
        assert_eq!(near[0].card.path.to_string(), format!("n/{asked}.md"));
        assert_eq!(near.len(), 5);
        // The farthest five of all, and nothing else.
        let mut others: Vec<u32> = (0..400).collect();
        others.sort_by(|a, b| exact(*a).total_cmp(&exact(*b)));
        let far: Vec<String> = others[..5].iter().rev().map(|it| format!("n/{it}.md")).collect();
        let keep = |card: &crate::index::Card| far.contains(&card.path.to_string());
        let found = view.nearest(&query, &keep, 5, deadline).near;
        let found: Vec<String> = found.iter().map(|it| it.card.path.to_string()).collect();
        assert_eq!(found, far);
    }
}

#[test]
fn a_note_is_near_at_once_and_after_a_restart_and_gone_with_its_note() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    let mut index = open_with_model(dir.path(), model.clone(), notes(), commit(1));
    assert_eq!((near(&index.view(), &model, "moon")[0].as_str(), missing(&index)), ("b.md", 0));
    // Those that say nothing are known not to, and are no answer.
    assert_eq!(near(&index.view(), &model, "moon").len(), 2);
    let before = index.view();
    index
        .stage(vec![put("e.md", "pilot"), remove("b.md"), put("a.md", "chart")], commit(2))
        .unwrap();
    let view = index.view();
    assert_eq!(near(&view, &model, "pilot")[0], "e.md");
    assert_eq!(near(&view, &model, "moon").len(), 2);
    assert!(!near(&view, &model, "moon").contains(&"b.md".to_owned()));
    assert_eq!(near(&before, &model, "moon")[0], "b.md"); // a view stays what it is
    index.rest().unwrap();
    drop(index);
    let index = reopened(dir.path(), model.clone());
    assert_eq!((near(&index.view(), &model, "chart")[0].as_str(), missing(&index)), ("a.md", 0));
    assert_eq!(files(dir.path()).len(), 1);
    let reader = IndexReader::open(dir.path(), &Layout::default()).unwrap().unwrap();
    let updates = vec![put("f.md", "depth"), remove("e.md")];
    let view = reader.with_model(model.clone()).view(updates, None).unwrap();
    assert_eq!(near(&view, &model, "depth")[0], "f.md");
    assert_eq!((near(&view, &model, "pilot").len(), view.vectors().unwrap().missing), (2, 0));
}

#[test]
fn a_filter_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    let mut notes: Vec<Update> = (0..300).map(|it| put(format!("n{it:03}.md"), "tide")).collect();
    notes.extend((0..3).map(|it| put(format!("far/{it}.md"), "moon harbour tide")));
    let index = open_with_model(dir.path(), model.clone(), notes, commit(1));
    let view = index.view();
    let deadline = clock::now() + Duration::from_secs(60);
    let query = model.vector("tide").unwrap();
    let found = view.nearest(&query, &|it| it.path.is_within(b"far"), 5, deadline);
    assert_eq!((found.near.len(), found.cut), (3, false));
    let found = view.nearest(&query, &|_| true, 2, deadline);
    let paths: Vec<String> = found.near.iter().map(|it| it.card.path.to_string()).collect();
    assert_eq!(paths, ["n000.md", "n001.md"]); // of equals the first by its path
    assert!(view.nearest(&query, &|_| true, 2, clock::now()).cut);
}

#[test]
fn a_damaged_cut_or_missing_file_is_made_again_and_never_believed() {
    for damage in ["gone", "cut", "flipped", "empty", "folder"] {
        let dir = tempfile::tempdir().unwrap();
        let model = WordModel::instant("m");
        drop(open_with_model(dir.path(), model.clone(), notes(), commit(1)));
        let [file] = &files(dir.path())[..] else { panic!("one file") };
        let mut bytes = std::fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        match damage {
            "cut" => std::fs::write(file, &bytes[..middle]).unwrap(),
            "flipped" => std::fs::write(file, &bytes).unwrap(),
            "empty" => std::fs::write(file, b"").unwrap(),
            _ => std::fs::remove_file(file).unwrap(),
        }
        if damage == "folder" {
            std::fs::create_dir(file).unwrap();
        }
        let mut index = reopened(dir.path(), model.clone());
        assert_eq!(missing(&index), 4, "{damage}");
        assert!(near(&index.view(), &model, "moon").is_empty(), "{damage}");
        make_vectors(&mut index);
        assert_eq!(near(&index.view(), &model, "moon")[0], "b.md", "{damage}");
        drop(index);
        assert_eq!(missing(&reopened(dir.path(), model)), 0, "{damage}");
    }
}

#[test]
fn somebody_who_touches_the_file_costs_vectors_until_they_are_made_again_and_no_word() {
    for damage in ["cut", "other", "gone", "touched"] {
        let dir = tempfile::tempdir().unwrap();
        let model = WordModel::instant("m");
        let mut index = open_with_model(dir.path(), model.clone(), notes(), commit(1));
        index.rest().unwrap();
        index.check_vectors().unwrap();
        let [file] = &files(dir.path())[..] else { panic!("one file") };
        let bytes = std::fs::read(file).unwrap();
        let view = index.view();
        match damage {
            "cut" => std::fs::write(file, &bytes[..bytes.len() - 1]).unwrap(),
            "other" => std::fs::write(file, vec![7; bytes.len()]).unwrap(),
            "gone" => std::fs::remove_file(file).unwrap(),
            _ => std::fs::write(file, &bytes).unwrap(),
        }
        assert!(index.check_vectors().is_err(), "{damage}");
        // What is mapped of a file that is gone can still be read.
        assert_eq!(view.has_whole_vectors(), damage == "gone", "{damage}");
        index.check().unwrap();
        view.check().unwrap();
        assert_eq!(super::hits(&view, "moon").len(), 1);
        index.mend_vectors();
        index.check_vectors().unwrap();
        assert_eq!(missing(&index), if damage == "touched" { 0 } else { 4 }, "{damage}");
        make_vectors(&mut index);
        index.check_vectors().unwrap();
        assert!(index.view().has_whole_vectors());
        assert_eq!(near(&index.view(), &model, "moon")[0], "b.md", "{damage}");
        assert_eq!(missing(&reopened_beside(index, dir.path(), model)), 0, "{damage}");
    }
}

fn reopened_beside(index: Index, dir: &Path, model: Arc<dyn Embedder>) -> Index {
    drop(index);
    reopened(dir, model)
}

#[test]
fn a_note_that_is_too_much_for_a_model_stops_none_behind_it_and_is_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::remote("m");
    *model.too_much.lock().unwrap() = Some("tables");
    let mut index = open_with_model(dir.path(), model.clone(), notes(), commit(1));
    let mut failures = 0;
    let mut work = |index: &mut Index| {
        let task = index.task().unwrap().unwrap();
        let (made, failed) = task.run(&|| false);
        failures += usize::from(failed.is_some());
        index.take_made(made).unwrap();
        failures
    };
    // The one that is too much comes first, in all that is asked for and alone.
    assert_eq!((work(&mut index), work(&mut index)), (1, 2));
    for _ in 0..20 {
        if missing(&index) == 1 {
            break;
        }
        work(&mut index);
    }
    assert_eq!(missing(&index), 1, "those behind it have theirs");
    assert_eq!(near(&index.view(), &model, "moon")[0], "b.md");
    index.stage(vec![put("e.md", "pilot")], commit(2)).unwrap();
    work(&mut index);
    assert_eq!(near(&index.view(), &model, "pilot")[0], "e.md", "who comes later comes first");
    *model.too_much.lock().unwrap() = None;
    work(&mut index);
    assert_eq!((missing(&index), near(&index.view(), &model, "tide")[0].as_str()), (0, "a.md"));
}

#[test]
fn files_that_cannot_be_made_one_are_owed_and_no_fault_of_the_words() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    let mut index = open_with_model(dir.path(), model.clone(), notes(), commit(1));
    for at in 0..3 {
        index.apply(vec![put("a.md", format!("edit {at}"))], commit(2)).unwrap();
    }
    let [file, ..] = &files(dir.path())[..] else { panic!("some files") };
    let space = file.parent().unwrap().to_owned();
    let aside = dir.path().join("aside");
    std::fs::rename(&space, &aside).unwrap();
    std::fs::write(&space, "in the way").unwrap();
    index.rest().unwrap();
    assert!(index.owes_vectors());
    assert_eq!(near(&index.view(), &model, "moon")[0], "b.md");
    let far = clock::now() + Duration::from_secs(60);
    assert!(!index.tend_vectors(far).unwrap_err().to_string().is_empty());
    std::fs::remove_file(&space).unwrap();
    std::fs::rename(&aside, &space).unwrap();
    index.tend_vectors(far).unwrap();
    assert!(!index.owes_vectors() && files(dir.path()).len() <= 2);
    index.check_vectors().unwrap();
}

#[test]
fn an_index_from_before_and_another_model_get_their_vectors_in_the_background() {
    let dir = tempfile::tempdir().unwrap();
    let (mut index, _) = Index::open(dir.path(), &Layout::default()).unwrap();
    rebuild(&mut index, notes(), commit(1));
    assert_eq!(index.view().vectors(), None);
    drop(index);
    let (old, new) = (WordModel::instant("old"), WordModel::remote("new"));
    let mut index = reopened(dir.path(), old.clone());
    assert_eq!(missing(&index), 4);
    make_vectors(&mut index);
    assert_eq!(near(&index.view(), &old, "moon")[0], "b.md");
    drop(index);

    let mut index = reopened(dir.path(), new.clone());
    assert_eq!((missing(&index), near(&index.view(), &new, "moon").len()), (4, 0));
    index.stage(vec![put("e.md", "pilot")], commit(2)).unwrap();
    assert_eq!(missing(&index), 5); // a provider is not waited for
    index.rest().unwrap();
    assert_eq!(files(dir.path()).len(), 1, "the old space stays until the new one is whole");
    make_vectors(&mut index);
    assert_eq!(near(&index.view(), &new, "pilot")[0], "e.md");
    index.rest().unwrap();
    let left = std::fs::read_dir(dir.path().join("vector_index")).unwrap().count();
    assert_eq!((left, missing(&index)), (1, 0));
}

#[test]
fn a_provider_that_is_away_costs_vectors_and_nothing_else_and_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::remote("m");
    model.is_away.store(true, Ordering::SeqCst);
    let mut index = open_with_model(dir.path(), model.clone(), notes(), commit(1));
    let err = index.tend_vectors(clock::now()).unwrap_err();
    assert!(err.is_transient() && err.to_string().contains("connection refused"), "{err}");
    assert_eq!((missing(&index), super::hits(&index.view(), "moon").len()), (4, 1));
    index.rest().unwrap();
    model.is_away.store(false, Ordering::SeqCst);
    make_vectors(&mut index);
    assert_eq!(near(&index.view(), &model, "moon")[0], "b.md");
}

#[test]
fn a_long_note_is_made_in_the_background_and_found_by_its_best_passage() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    let mut index = open_with_model(dir.path(), model.clone(), notes(), commit(1));
    let sections = (0..90).map(|it| format!("# s{it}\n\n{}\n", format!("w{it} ").repeat(450)));
    let text = sections.collect::<String>() + "# End\n\n" + &"pilot ".repeat(300);
    index.stage(vec![put("long.md", &text)], commit(2)).unwrap();
    assert_eq!(missing(&index), 1);
    index.flush().unwrap();
    make_vectors(&mut index);
    let deadline = clock::now() + Duration::from_secs(60);
    let query = model.vector("pilot").unwrap();
    let found = index.view().nearest(&query, &|_| true, 1, deadline).near.remove(0);
    assert_eq!(found.chunk + 1, found.card.chunks.len());
    assert!(found.cosine > 0.99, "{found:?}");
    let rows = &index.view().all_vectors()["long.md"];
    assert!(rows.iter().any(|it| it.1 > 0), "long passages have several windows");
}

/// A crash, or a copy of the folder, can leave vectors of notes that nothing else knows.
#[test]
fn the_number_of_a_lost_note_is_not_given_to_another() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    let mut index = open_with_model(dir.path(), model.clone(), notes(), commit(1));
    index.rest().unwrap();
    drop(index);
    let kept = tempfile::tempdir().unwrap();
    let copy = |from: &Path, to: &Path| {
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            if entry.file_name() == "vector_index" {
                continue;
            }
            let status = std::process::Command::new("cp")
                .args(["-a".as_ref(), entry.path().as_os_str(), to.as_os_str()])
                .status();
            assert!(status.unwrap().success());
        }
    };
    copy(dir.path(), kept.path());
    let mut index = reopened(dir.path(), model.clone());
    index.apply(vec![put("lost.md", "moon moon")], commit(2)).unwrap();
    drop(index);
    std::fs::remove_dir_all(dir.path().join("keyword_index")).unwrap();
    copy(kept.path(), dir.path());
    let mut index = reopened(dir.path(), model.clone());
    index.apply(vec![put("new.md", "silent"), put("other.md", "harbour")], commit(2)).unwrap();
    let found = near(&index.view(), &model, "moon moon");
    assert!(!found.contains(&"new.md".to_owned()) && found[0] == "b.md", "{found:?}");
    assert_eq!(near(&index.view(), &model, "harbour")[0], "other.md");
}

#[test]
fn edits_leave_few_files_and_no_more_dead_than_living() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    let mut index = open_with_model(dir.path(), model.clone(), notes(), commit(1));
    for at in 0..40 {
        index.apply(vec![put("a.md", format!("edit {at}"))], commit(2)).unwrap();
    }
    assert!(files(dir.path()).len() <= 25);
    index.rest().unwrap();
    assert!(files(dir.path()).len() <= 2, "{:?}", files(dir.path()));
    assert!(index.view().vectors().unwrap().vectors <= 4);
    assert_eq!(near(&index.view(), &model, "edit 39")[0], "a.md");
    drop(index);
    assert_eq!(missing(&reopened(dir.path(), model)), 0);
}

#[test]
fn nothing_is_made_or_written_of_what_is_not_proven() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    drop(open_with_model(dir.path(), model.clone(), notes(), commit(1)));
    let [file] = &files(dir.path())[..] else { panic!("one file") };
    std::fs::remove_file(file).unwrap();
    let layout = Layout::default();
    let (mut index, _) =
        Index::open_soon(dir.path(), &layout, Models::only(model.clone())).unwrap();
    assert!(!index.is_proven() && !index.owes_vectors());
    assert_eq!(missing(&index), 4);
    index.tend_vectors(clock::now()).unwrap();
    assert_eq!((missing(&index), files(dir.path()).len()), (4, 0));
    while !index.is_proven() {
        index.prove().unwrap();
    }
    make_vectors(&mut index);
    assert_eq!(near(&index.view(), &model, "moon")[0], "b.md");
}

#[test]
fn an_index_that_is_built_anew_leaves_no_vectors_of_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (WordModel::instant("old"), WordModel::instant("new"));
    drop(open_with_model(dir.path(), old, notes(), commit(1)));
    let mut index = reopened(dir.path(), new.clone());
    rebuild(&mut index, vec![put("e.md", "pilot"), put("f.md", "moon")], commit(2));
    assert_eq!((files(dir.path()).len(), missing(&index)), (1, 0));
    assert_eq!(near(&index.view(), &new, "pilot")[0], "e.md");
    drop(index);
    assert_eq!(missing(&reopened(dir.path(), new)), 0);
}

#[test]
fn drafts_are_found_at_once_take_nothing_away_and_are_gone_with_their_commit() {
    let dir = tempfile::tempdir().unwrap();
    for model in [WordModel::instant("m"), WordModel::remote("n")] {
        let is_instant = model.identity().backend == "static";
        let dir = dir.path().join(&model.identity().model);
        let mut index = open_with_model(&dir, model.clone(), notes(), commit(1));
        make_vectors(&mut index);
        let notes =
            vec![put("b.md", "pilot"), put("new.md", "chart [[a]]"), put("a.md", "tide tables")];
        let drafts = index.view().drafts(notes.clone()).unwrap();
        let before = index.view();
        let view = before.laid_over(&drafts).unwrap();
        let words = |view: &Arc<IndexView>, query: &str| super::hits(view, query).len();
        assert_eq!([words(&view, "pilot"), words(&view, "chart"), words(&view, "moon")], [1, 1, 0]);
        assert_eq!((words(&view, "tide"), words(&before, "moon")), (1, 1));
        let is_draft = |at: &str| view.note(&super::path(at)).unwrap().is_uncommitted();
        assert_eq!([is_draft("b.md"), is_draft("new.md"), is_draft("a.md")], [true, true, false]);
        assert_eq!(view.inlinks(&super::path("a.md")).len(), 1);
        let (kept, counted) = view.sums_kept_and_counted().unwrap();
        assert_eq!(kept, counted);
        let lacking = view.vectors().unwrap().missing;
        match is_instant {
            true => assert_eq!((near(&view, &model, "pilot")[0].as_str(), lacking), ("b.md", 0)),
            // A provider is not waited for, and the view says so.
            false => assert_eq!((near(&view, &model, "moon"), lacking), (vec!["a.md".into()], 2)),
        }
        index.stage(notes, commit(2)).unwrap();
        make_vectors(&mut index);
        let after = index.view().laid_over(&drafts).unwrap();
        assert!(after.notes().iter().all(|it| !it.is_uncommitted()));
        assert_eq!(super::facts(&after), super::facts(&index.view()));
        assert_eq!(near(&after, &model, "pilot")[0], "b.md");
        index.rest().unwrap();
        drop(index);
        assert_eq!(missing(&reopened(&dir, model)), 0);
    }
}

/// The vectors of drafts made with another model mean nothing to this one.
#[test]
fn drafts_of_another_space_are_found_by_words_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (WordModel::instant("old"), WordModel::instant("new"));
    let index = open_with_model(dir.path(), old, notes(), commit(1));
    let drafts = index.view().drafts(vec![put("new.md", "pilot")]).unwrap();
    drop(index);
    let mut index = reopened(dir.path(), new.clone());
    make_vectors(&mut index);
    let view = index.view().laid_over(&drafts).unwrap();
    assert_eq!(super::hits(&view, "pilot").len(), 1);
    assert!(!near(&view, &new, "pilot").contains(&"new.md".to_owned()));
    assert_eq!(view.vectors().unwrap().missing, 1);
}

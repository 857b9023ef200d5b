//! Two models, one after the other: the old space is searched until the new one is whole.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::vectors::{missing, near, notes, reopened};
use crate::base::clock;
use crate::embed::{Cache, Cached, Embedder};
use crate::index::testing::{
    WordModel, commit, make_vectors, open_with_model, put, rebuild, remove,
};
use crate::index::{Index, Models, Opened, Update};
use crate::vault::Layout;

fn models(wanted: &Arc<WordModel>, meanwhile: &Arc<WordModel>) -> Models {
    let wanted = Arc::clone(wanted) as Arc<dyn Embedder>;
    Models { wanted, meanwhile: Some(Arc::clone(meanwhile) as Arc<dyn Embedder>) }
}

fn opened(dir: &Path, models: Models) -> Index {
    let (mut index, opened) = Index::open_with_models(dir, &Layout::default(), models).unwrap();
    if let Opened::Rebuild(_) = opened {
        crate::index::testing::rebuild(&mut index, notes(), commit(1));
    }
    index
}

fn model(index: &Index) -> String {
    index.view().vectors().unwrap().model
}

/// What goes out as tasks comes back; the index itself asks nobody.
fn work(index: &mut Index) {
    while let Some(task) = index.task().unwrap() {
        let (made, failed) = task.run(&|| false);
        assert_eq!(failed, None);
        index.take_made(made).unwrap();
    }
    while index.owes_at_once() {
        index.tend_at_once(clock::now()).unwrap();
    }
}

#[test]
fn the_stand_in_is_searched_until_the_wanted_one_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (board, remote) = (WordModel::instant("board"), WordModel::remote("remote"));
    let mut index = opened(dir.path(), models(&remote, &board));
    assert_eq!((model(&index), missing(&index)), ("board".to_owned(), 0));
    assert_eq!(near(&index.view(), &board, "moon")[0], "b.md");
    let next = index.next_space().unwrap();
    assert_eq!((&*next.model, next.done, next.all), ("remote", 0, 4));
    // Both follow what is edited, and a note that is gone is not waited for.
    let task = index.task().unwrap().unwrap();
    let updates = vec![put("e.md", "pilot"), put("b.md", "moon moon moon"), remove("a.md")];
    index.stage(updates, commit(2)).unwrap();
    assert_eq!(near(&index.view(), &board, "pilot")[0], "e.md");
    index.take_made(task.run(&|| false).0).unwrap();
    let next = index.next_space().unwrap();
    assert_eq!((next.done, next.all, &*model(&index)), (2, 4, "board"));
    work(&mut index);
    assert_eq!((model(&index), index.next_space()), ("remote".to_owned(), None));
    for (word, path) in [("pilot", "e.md"), ("moon", "b.md")] {
        assert_eq!(near(&index.view(), &remote, word)[0], path);
    }
    index.rest().unwrap();
    let left = std::fs::read_dir(dir.path().join("vector_index")).unwrap().count();
    assert_eq!(left, 1, "of the old space nothing is left");
    // What is whole is not begun again, and a note more is no reason to.
    drop(index);
    let mut index = opened(dir.path(), models(&remote, &board));
    assert_eq!((model(&index), missing(&index)), ("remote".to_owned(), 0));
    index.stage(vec![put("f.md", "harbour")], commit(3)).unwrap();
    assert_eq!((model(&index), missing(&index)), ("remote".to_owned(), 1));
    drop(index);
    let index = opened(dir.path(), models(&remote, &board));
    assert_eq!(model(&index), "remote");
}

#[test]
fn a_change_that_was_cut_off_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (board, remote) = (WordModel::instant("board"), WordModel::remote("remote"));
    drop(open_with_model(dir.path(), board.clone(), notes(), commit(1)));
    let mut index = opened(dir.path(), models(&remote, &board));
    assert_eq!(model(&index), "board");
    let mut task = index.task().unwrap().unwrap();
    task.notes.truncate(2);
    index.take_made(task.run(&|| false).0).unwrap();
    index.rest().unwrap();
    drop(index);
    let mut index = opened(dir.path(), models(&remote, &board));
    assert_eq!((model(&index), missing(&index)), ("board".to_owned(), 0));
    assert_eq!(index.next_space().unwrap().done, 2);
    work(&mut index);
    assert_eq!((model(&index), missing(&index)), ("remote".to_owned(), 0));
}

#[test]
fn what_fails_in_the_next_space_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (board, remote) = (WordModel::instant("board"), WordModel::remote("remote"));
    let mut index = opened(dir.path(), models(&remote, &board));
    remote.is_away.store(true, Ordering::SeqCst);
    let (made, failed) = index.task().unwrap().unwrap().run(&|| false);
    assert!(failed.is_some());
    index.take_made(made).unwrap();
    // The empty note has all that it can have.
    assert_eq!((model(&index), index.next_space().unwrap().done), ("board".to_owned(), 1));
    assert_eq!(near(&index.view(), &board, "moon")[0], "b.md");
    // Who takes it back has what there was; a third one begins beside it.
    index.change_models(Models::only(board.clone()));
    assert_eq!((model(&index), index.next_space()), ("board".to_owned(), None));
    let third = WordModel::remote("third");
    index.change_models(models(&third, &board));
    work(&mut index);
    assert_eq!(model(&index), "third");
    // A provider that was left is asked nothing more, not even meanwhile.
    remote.is_away.store(false, Ordering::SeqCst);
    index.change_models(models(&remote, &board));
    assert_eq!(model(&index), "board");
    work(&mut index);
    assert_eq!(model(&index), "remote");
    make_vectors(&mut index);
    assert_eq!(near(&index.view(), &remote, "moon")[0], "b.md");
}

/// What answers and says nothing is no model to search by, whatever is restarted meanwhile.
#[test]
fn a_space_that_has_no_vectors_takes_nobody_s_place() {
    let dir = tempfile::tempdir().unwrap();
    let (board, remote) = (WordModel::instant("board"), WordModel::remote("remote"));
    remote.refuses.store(true, Ordering::SeqCst);
    let mut index = opened(dir.path(), models(&remote, &board));
    let check = |index: &Index, mute: usize, all: usize| {
        assert_eq!((model(index), missing(index)), ("board".to_owned(), 0));
        assert_eq!(near(&index.view(), &board, "moon")[0], "b.md");
        let next = index.next_space().unwrap();
        assert_eq!(
            (&*next.model, next.done, next.all, next.mute),
            ("remote", all, all, Some(mute))
        );
        assert!(!index.owes_at_once(), "nothing is to be done about it");
    };
    work(&mut index);
    // The empty note says nothing to anybody.
    check(&index, 3, 4);
    index.rest().unwrap();
    drop(index);
    let mut index = opened(dir.path(), models(&remote, &board));
    work(&mut index);
    check(&index, 3, 4);
    index.stage(vec![put("e.md", "pilot"), remove("a.md")], commit(2)).unwrap();
    work(&mut index);
    check(&index, 3, 4);
    // It is mended, and asked for all again.
    remote.refuses.store(false, Ordering::SeqCst);
    let asked = remote.asked.load(Ordering::SeqCst);
    index.change_models(models(&remote, &board));
    assert_eq!((model(&index), index.next_space().unwrap().mute), ("board".to_owned(), None));
    work(&mut index);
    assert_eq!((model(&index), index.next_space()), ("remote".to_owned(), None));
    assert_eq!(remote.asked.load(Ordering::SeqCst) - asked, 3);
    assert_eq!(near(&index.view(), &remote, "pilot")[0], "e.md");
    index.rest().unwrap();
    drop(index);
    let index = opened(dir.path(), models(&remote, &board));
    assert_eq!((model(&index), missing(&index)), ("remote".to_owned(), 0));
}

/// One that was searched once, and has no vectors: the stand-in is made again.
#[test]
fn a_space_without_vectors_is_left_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (board, remote) = (WordModel::instant("board"), WordModel::remote("remote"));
    remote.refuses.store(true, Ordering::SeqCst);
    let mut index = open_with_model(dir.path(), remote.clone(), notes(), commit(1));
    make_vectors(&mut index);
    index.rest().unwrap();
    assert_eq!(model(&index), "remote");
    drop(index);
    let mut index = opened(dir.path(), models(&remote, &board));
    work(&mut index);
    assert_eq!((model(&index), missing(&index)), ("board".to_owned(), 0));
    assert_eq!(near(&index.view(), &board, "moon")[0], "b.md");
}

/// A rename, an undo, a checkout and a second branch bring texts that the cache has.
/// The numbers of notes begin anew with each opening: what was made for an earlier one is of others.
#[test]
fn what_was_made_before_an_index_was_opened_anew_is_nobody_s() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::remote("m");
    let mut index = open_with_model(dir.path(), model.clone(), three(), commit(1));
    let task = index.task().unwrap().unwrap();
    let (made, failed) = task.run(&|| false);
    assert_eq!((failed, index.made_of(&made).count(), missing(&index)), (None, 3, 3));
    drop(index);
    let mut index = reopened(dir.path(), model);
    assert_eq!(index.made_of(&made).count(), 0);
    index.take_made(made).unwrap();
    assert_eq!(missing(&index), 3);
    make_vectors(&mut index);
    assert_eq!(missing(&index), 0);
}

#[test]
fn no_text_is_embedded_twice_whatever_happens_to_its_note() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let model = WordModel::remote("m");
    let open_cache = || {
        let room = std::num::NonZeroUsize::new(1000).unwrap();
        Cache::open(kept.path(), model.identity(), room).unwrap().0
    };
    let cached = Arc::new(Cached::new(model.clone(), open_cache()));
    let mut index = open_with_model(dir.path(), cached.clone(), three(), commit(1));
    make_vectors(&mut index);
    let asked = || model.asked.load(Ordering::SeqCst);
    assert_eq!(asked(), 3);
    let mut at = 1;
    let mut apply = |index: &mut Index, updates: Vec<Update>| {
        at += 1;
        index.apply(updates, commit(at)).unwrap();
        make_vectors(index);
    };
    let renamed = vec![remove("a.md"), put("z/a.md", "tide tables")];
    apply(&mut index, renamed);
    assert_eq!(near(&index.view(), &model, "tide")[0], "z/a.md");
    apply(&mut index, vec![put("b.md", "harbour"), remove("c.md")]); // a commit …
    assert_eq!(asked(), 4);
    apply(&mut index, vec![put("b.md", "moon"), put("copy.md", "moon")]); // … undone, and a copy
    apply(&mut index, vec![put("b.md", "harbour")]); // another branch, and back
    apply(&mut index, three());
    // After a kill, and of an index that was deleted.
    cached.flush().unwrap();
    drop(index);
    std::fs::remove_dir_all(dir.path().join("vector_index")).unwrap();
    let mut index = reopened(dir.path(), Arc::new(Cached::new(model.clone(), open_cache())));
    assert!(missing(&index) >= 3);
    make_vectors(&mut index);
    rebuild(&mut index, three(), commit(9));
    make_vectors(&mut index);
    assert_eq!(near(&index.view(), &model, "moon")[0], "b.md");
    let silent = 2; // says nothing, so that there is nothing to keep
    assert!(asked() <= 4 + silent * 2, "{}", asked());
}

fn three() -> Vec<Update> {
    vec![put("a.md", "tide tables"), put("b.md", "moon"), put("c.md", "silent")]
}

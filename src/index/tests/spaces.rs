//! Two models, one after the other: the old space is searched until the new one is whole.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::vectors::{missing, near, notes};
use crate::base::clock;
use crate::embed::Embedder;
use crate::index::testing::{WordModel, commit, make_vectors, open_with_model, put, remove};
use crate::index::{Index, Models, Opened};
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

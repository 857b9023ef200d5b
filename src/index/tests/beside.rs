//! Building beside the one in use: each part fits the rest, whatever came meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock;
use crate::embed::Embedder;
use crate::index::testing::{
    WordModel, commit, make_vectors, open_with_model, put, rebuild, remove,
};
use crate::index::{Ask, Index, IndexError, IndexView, Opened, Scope, Update};
use crate::vault::Layout;

const ALL: [Scope; 4] = [Scope::All, Scope::Bm25, Scope::Embedding, Scope::Tag];

fn first() -> Vec<Update> {
    vec![
        put("a.md", "tide tables #sea [[b]]"),
        put("b.md", "moon"),
        put("c.md", "harbour [[a]]"),
        put("gone.md", "buoy"),
    ]
}

/// What comes while the other one is built.
fn later() -> Vec<Update> {
    vec![put("b.md", "moon and sun [[c]]"), remove("gone.md"), put("e.md", "lighthouse #sea")]
}

/// All that a view says, for comparing: notes with tags and links, and what each word and each
/// meaning finds.
fn said(view: &IndexView, model: &WordModel) -> Vec<String> {
    let deadline = clock::now() + Duration::from_secs(60);
    let mut said = vec![format!("{:?}", view.counts())];
    for card in view.notes() {
        let out: Vec<_> =
            view.outlinks(&card.path).iter().map(|it| it.card.path.to_string()).collect();
        let back: Vec<_> =
            view.inlinks(&card.path).iter().map(|it| it.card.path.to_string()).collect();
        said.push(format!("{} {:?} {:?} {out:?} {back:?}", card.path, card.tags, card.chunks));
    }
    for word in ["tide", "moon", "sun", "harbour", "buoy", "lighthouse"] {
        let found = view.find(&Ask::new(word), &|_| true, 10, deadline).unwrap();
        let mut paths: Vec<_> =
            found.candidates.iter().map(|it| it.card.path.to_string()).collect();
        paths.sort();
        let near = view.nearest(&model.vector(word).unwrap(), &|_| true, 10, deadline).near;
        let best = near.first().map(|it| it.card.path.to_string());
        said.push(format!("{word}: {paths:?}, nearest {best:?} of {}", near.len()));
    }
    said
}

fn reopened(dir: &Path, model: Arc<dyn Embedder>) -> (Index, usize) {
    let (index, opened) = Index::open_with_model(dir, &Layout::default(), model).unwrap();
    let Opened::Ready { cursors } = opened else { panic!("{opened:?}") };
    (index, cursors.len())
}

/// Builds beside `index` from `notes`, as a reindex does.
fn build_beside(index: &Index, scope: Scope, notes: Vec<Update>) {
    let beside = index.beside(scope).unwrap();
    assert_eq!(beside.at(), commit(1));
    let mut other = beside.open().unwrap();
    rebuild(&mut other, notes, commit(1));
    make_vectors(&mut other);
    other.rest().unwrap();
}

#[test]
fn each_part_of_the_new_one_fits_the_rest_of_the_old_one() {
    for model in [WordModel::instant("m"), WordModel::remote("m")] {
        let fresh = {
            let dir = tempfile::tempdir().unwrap();
            let mut index = open_with_model(dir.path(), model.clone(), first(), commit(1));
            index.apply(later(), commit(2)).unwrap();
            make_vectors(&mut index);
            said(&index.view(), &model)
        };
        for scope in ALL {
            let dir = tempfile::tempdir().unwrap();
            let mut index = open_with_model(dir.path(), model.clone(), first(), commit(1));
            make_vectors(&mut index);
            build_beside(&index, scope, first());
            // The one in use went on, and a view of it is asked to the end.
            index.apply(later(), commit(2)).unwrap();
            make_vectors(&mut index);
            let old = index.view();
            assert_eq!(said(&old, &model), fresh, "{scope:?}");
            index.take_over(scope).unwrap();
            assert_eq!(said(&old, &model), fresh, "{scope:?}: a view reads on");
            assert!(old.check().is_ok(), "{scope:?}: its files are not taken for others");
            assert!(!dir.path().join("reindex").exists());

            let (mut index, cursors) = reopened(dir.path(), model.clone());
            let mixed = matches!(scope, Scope::Bm25 | Scope::Tag);
            assert_eq!(cursors, if mixed { 2 } else { 1 }, "{scope:?}");
            if scope != Scope::Embedding {
                index.apply(later(), commit(2)).unwrap();
            }
            make_vectors(&mut index);
            assert_eq!(said(&index.view(), &model), fresh, "{scope:?}");
            // And again, from there, with edits after it.
            index.rest().unwrap();
            index.apply(vec![put("f.md", "buoy")], commit(3)).unwrap();
            make_vectors(&mut index);
            drop(index);
            let (index, _) = reopened(dir.path(), model.clone());
            assert_eq!(index.view().vectors().unwrap().missing, 0, "{scope:?}");
            assert!(
                said(&index.view(), &model)
                    .contains(&"buoy: [\"f.md\"], nearest Some(\"f.md\") of 5".to_owned())
            );
        }
    }
}

#[test]
fn what_was_built_beside_an_index_is_not_put_in_the_place_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    let mut index = open_with_model(dir.path(), model.clone(), first(), commit(1));
    index.rest().unwrap();
    let beside = index.beside(Scope::Bm25).unwrap();
    let mut twin = beside.open().unwrap();
    rebuild(&mut twin, first(), beside.at());
    drop(twin);
    // Its commit is gone from history, say.
    rebuild(&mut index, first(), commit(2));
    index.rest().unwrap();
    assert!(matches!(index.take_over(Scope::Bm25), Err(IndexError::Overtaken)));
    let (index, cursors) = reopened(dir.path(), model.clone());
    assert_eq!((cursors, index.view().at()), (1, Some(commit(2))));
}

#[test]
fn nothing_is_built_beside_what_is_not_whole() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    let (mut index, _) =
        Index::open_with_model(dir.path(), &Layout::default(), model.clone()).unwrap();
    assert!(ALL.iter().all(|it| index.beside(*it).is_none()), "there is none yet");
    let mut build = index.begin_rebuild(4).unwrap();
    for update in first() {
        build.take(update).unwrap();
    }
    build.step().unwrap();
    drop(build);
    assert!(ALL.iter().all(|it| index.beside(*it).is_none()), "it is half there");
}

//! The chunk store has the vectors of its passages, and says of which space they are.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::vectors::reopened;
use crate::base::store::Store;
use crate::embed::Vector;
use crate::index::testing::{WordModel, commit, make_vectors, open_with_model, put};
use crate::index::{Index, Update};

/// The last line of each text in the chunk store.
fn lines(dir: &Path) -> BTreeMap<String, Value> {
    let path = dir.join("file_store/file_chunks_default_v1.jsonl.zst");
    let store = Store::open_read_only(&path, "file_chunks", 3).unwrap();
    let mut lines = BTreeMap::new();
    let read = store.replay(|_, line| {
        let line: Value = serde_json::from_slice(line).map_err(|err| err.to_string())?;
        if let Some(text) = line["text"].as_str() {
            lines.insert(text.trim().to_owned(), line.clone());
        }
        Ok(())
    });
    read.unwrap();
    lines
}

fn vector(line: &Value) -> Vector {
    Vector::from_f16_base64(line["_embedding_f16_b64"].as_str().unwrap(), 16).unwrap()
}

fn check(line: &Value, model: &WordModel, wanted: &Vector) {
    let space = &line["_embedding_space"];
    let identity = crate::embed::Embedder::identity(model);
    assert_eq!(
        (&space["model"], &space["dimension"]),
        (&identity.model.as_str().into(), &16.into())
    );
    assert_eq!(space["space"], identity.space());
    assert!(vector(line).cosine(wanted) > 0.9999, "{line}");
}

#[test]
fn a_line_has_the_vector_of_its_passage_built_or_edited_and_none_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::instant("m");
    // Of more than the model reads at once: two windows of other words.
    let (first, second) = ("tide ".repeat(100), "moon ".repeat(60));
    let long = format!("{first}\n{second}").trim().to_owned();
    let notes = vec![put("a.md", "tide tables"), put("b.md", "silent"), put("c.md", &long)];
    let mut index = open_with_model(dir.path(), model.clone(), notes, commit(1));
    index.apply(vec![put("d.md", "moon pools"), put("a.md", "tide pools")], commit(2)).unwrap();
    let lines = lines(dir.path());
    for text in ["tide tables", "moon pools", "tide pools"] {
        check(&lines[text], &model, &model.vector(text).unwrap());
    }
    for field in ["_embedding_f16_b64", "_embedding_space"] {
        assert!(lines["silent"].get(field).is_none());
    }
    let windows = [&first, &second].map(|it| model.vector(it).unwrap());
    let mean = windows[0].parts().iter().zip(windows[1].parts()).map(|(a, b)| a + b).collect();
    check(&lines[&long], &model, &Vector::new(mean).unwrap());
    // Two bytes a number, the first number first and its lower byte before the upper.
    let said = lines["tide pools"]["_embedding_f16_b64"].as_str().unwrap();
    assert_eq!(said, model.vector("tide pools").unwrap().to_f16_base64());
}

#[test]
fn what_is_made_later_is_in_the_store_when_it_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let model = WordModel::remote("far");
    let notes = |round: u32| -> Vec<Update> {
        (0..450).map(|it| put(format!("{it}.md"), format!("own{it} round{round}"))).collect()
    };
    let mut index: Index = open_with_model(dir.path(), model.clone(), notes(0), commit(1));
    index.apply(notes(1), commit(2)).unwrap();
    index.apply(notes(2), commit(3)).unwrap();
    let is_in = |round: u32| {
        let lines = lines(dir.path());
        let line = |it: u32| lines.get(&format!("own{it} round{round}")).cloned();
        (0..450)
            .map(line)
            .map(|it| it.filter(|it| it.get("_embedding_f16_b64").is_some()))
            .collect()
    };
    let vectors: Vec<Option<Value>> = is_in(2);
    assert!(vectors.iter().all(Option::is_none), "nobody waited for them");
    make_vectors(&mut index);
    index.rest().unwrap();
    let vectors: Vec<Option<Value>> = is_in(2);
    for (at, line) in vectors.into_iter().enumerate() {
        let wanted = model.vector(&format!("own{at} round2")).unwrap();
        check(&line.unwrap(), &model, &wanted);
    }
    assert!(!lines(dir.path()).contains_key("own0 round0"), "it was written anew");
    drop(index);
    reopened(dir.path(), model);
}

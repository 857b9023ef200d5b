//! A graph of neighbours beside many vectors: it is used, followed, read again and never believed.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::vectors::reopened;
use crate::base::clock;
use crate::index::testing::{WordModel, commit, open_with_model, put, remove};
use crate::index::{Card, GraphState, Index, IndexView, Update};

/// More vectors than these have a graph here.
const ABOVE: usize = 50;
/// Notes of a few subjects, so that near ones lie close together.
const NOTES: u32 = 240;

fn text(note: u32) -> String {
    format!("subject{} aside{} own{note}", note % 12, note % 5)
}

fn note(note: u32) -> Update {
    put(format!("n/{note}.md"), text(note))
}

fn model() -> Arc<WordModel> {
    WordModel::instant("m")
}

fn graph(index: &Index) -> GraphState {
    index.view().vectors().unwrap().graph
}

fn wait_for(index: &Index, what: &str, is_so: impl Fn(&GraphState) -> bool) {
    let deadline = clock::now() + Duration::from_secs(60);
    while !is_so(&graph(index)) {
        assert!(clock::now() < deadline, "{what}: {:?}", graph(index));
        std::thread::yield_now();
    }
}

fn wait_for_vectors(index: &Index, wanted: usize) {
    wait_for(
        index,
        &format!("a graph of {wanted}"),
        |it| matches!(it, GraphState::InUse { vectors, unkept: None } if *vectors == wanted),
    );
}

/// An index of all notes with a graph.
fn drawn(dir: &Path) -> Index {
    let mut index = open_with_model(dir, model(), (0..NOTES).map(note).collect(), commit(1));
    assert!(index.draw_neighbours_above(ABOVE));
    assert!(!index.draw_neighbours_above(ABOVE));
    assert_eq!(graph(&index), GraphState::None, "none is built before it rests");
    index.rest().unwrap();
    wait_for_vectors(&index, NOTES as usize);
    index
}

/// The index in `dir` as it is, with what it needs to have a graph.
fn taken_up(dir: &Path) -> Index {
    let mut index = reopened(dir, model());
    index.draw_neighbours_above(ABOVE);
    index
}

fn file(dir: &Path) -> PathBuf {
    let spaces = std::fs::read_dir(dir.join("vector_index")).unwrap();
    let mut files = spaces.map(|it| it.unwrap().path().join("neighbours.hnsw"));
    files.find(|it| it.exists()).unwrap_or_else(|| dir.join("no graph"))
}

fn inode(dir: &Path) -> u64 {
    std::fs::metadata(file(dir)).unwrap().ino()
}

fn nearest(
    view: &IndexView,
    asked: &str,
    keep: &dyn Fn(&Card) -> bool,
    count: usize,
) -> Vec<String> {
    let deadline = clock::now() + Duration::from_secs(60);
    let found = view.nearest(&model().vector(asked).unwrap(), keep, count, deadline);
    assert!(!found.cut);
    found.near.iter().map(|it| it.card.path.to_string()).collect()
}

/// The right answer, by a look at each living note's text.
fn exact(texts: &[(String, String)], asked: &str, count: usize) -> Vec<String> {
    let model = model();
    let query = model.vector(asked).unwrap();
    let cosine = |text: &str| -> f32 {
        let other = model.vector(text).unwrap();
        query.parts().iter().zip(other.parts()).map(|(a, b)| a * b).sum()
    };
    let mut all: Vec<(f32, &String)> = texts.iter().map(|it| (cosine(&it.1), &it.0)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().take(count).map(|it| it.1.clone()).collect()
}

fn living(notes: impl Iterator<Item = u32>) -> Vec<(String, String)> {
    notes.map(|it| (format!("n/{it}.md"), text(it))).collect()
}

/// Asks for many notes by the graph, and holds what it says to the right answer.
fn check(index: &Index, living: &[(String, String)]) {
    let view = index.view();
    let (mut found, mut all) = (0, 0);
    for asked in (0..NOTES).step_by(7) {
        let asked = text(asked);
        let query = model().vector(&asked).unwrap();
        assert!(view.named_by_graph(&query) > 0, "the graph is asked");
        let right = exact(living, &asked, 10);
        let near = nearest(&view, &asked, &|_| true, 10);
        assert_eq!(near.len(), 10);
        found += right.iter().filter(|it| near.contains(it)).count();
        all += right.len();
    }
    assert!(found * 100 >= all * 98, "{found} of {all}");
}

#[test]
fn many_vectors_are_asked_by_a_graph_that_says_what_a_look_at_all_says() {
    let dir = tempfile::tempdir().unwrap();
    let index = drawn(dir.path());
    check(&index, &living(0..NOTES));
    // What a filter takes is found though all else is nearer.
    let (view, all) = (index.view(), living(0..NOTES));
    for asked in [0, 7, 133] {
        let asked = text(asked);
        let far = exact(&all, &asked, NOTES as usize).split_off(NOTES as usize - 5);
        let keep = |card: &Card| far.contains(&card.path.to_string());
        assert_eq!(nearest(&view, &asked, &keep, 5), far);
        let half = |card: &Card| card.path.to_string().ends_with("1.md");
        let of_half: Vec<_> = all.iter().filter(|it| it.0.ends_with("1.md")).cloned().collect();
        assert_eq!(nearest(&view, &asked, &half, 5), exact(&of_half, &asked, 5));
    }
    // A deadline that has come is kept.
    let late = view.nearest(&model().vector("own3").unwrap(), &|_| true, 5, clock::now());
    assert!(late.cut);
}

#[test]
fn what_comes_is_found_beside_a_graph_and_what_goes_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut index = drawn(dir.path());
    let before = inode(dir.path());
    let updates = vec![note(900), note(901), remove("n/0.md"), put("n/1.md", text(902))];
    index.stage(updates, commit(2)).unwrap();
    let changed = || {
        let mut living = living((2..NOTES).chain(900..902));
        living.push(("n/1.md".to_owned(), text(902)));
        living
    };
    check(&index, &changed());
    assert_eq!(nearest(&index.view(), &text(901), &|_| true, 1), ["n/901.md"]);
    assert_eq!(nearest(&index.view(), &text(902), &|_| true, 1), ["n/1.md"]);
    // Files become one; the graph is the same.
    index.flush().unwrap();
    index.stage(vec![note(903)], commit(3)).unwrap();
    index.flush().unwrap();
    index.rest().unwrap();
    let mut now = changed();
    now.extend(living(903..904));
    check(&index, &now);
    drop(index);
    let mut index = taken_up(dir.path());
    wait_for_vectors(&index, NOTES as usize);
    assert_eq!(inode(dir.path()), before, "read, not built");
    check(&index, &now);
    // More than every fifth is dead, and the next one has the living alone.
    index.apply((100..160).map(|it| remove(format!("n/{it}.md"))).collect(), commit(4)).unwrap();
    now.retain(|it| !(100..160).any(|gone| it.0 == format!("n/{gone}.md")));
    check(&index, &now);
    index.rest().unwrap();
    wait_for_vectors(&index, now.len());
    assert_ne!(inode(dir.path()), before);
    check(&index, &now);
    // More than every tenth is not in it.
    index.apply((910..950).map(note).collect(), commit(5)).unwrap();
    now.extend(living(910..950));
    check(&index, &now);
    index.rest().unwrap();
    wait_for_vectors(&index, now.len());
    check(&index, &now);
    // So few that none is needed.
    let gone = (0..240).chain(910..940).map(|it| remove(format!("n/{it}.md"))).collect();
    index.apply(gone, commit(6)).unwrap();
    index.rest().unwrap();
    wait_for(&index, "none", |it| *it == GraphState::None);
    assert!(!file(dir.path()).exists());
    assert_eq!(nearest(&index.view(), &text(901), &|_| true, 1), ["n/901.md"]);
}

fn copied(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to.path()).status();
    assert!(done.unwrap().success());
    to
}

#[test]
fn a_damaged_graph_is_built_again_and_nothing_is_answered_by_it() {
    let whole = tempfile::tempdir().unwrap();
    drop(drawn(&whole.path().join("index")));
    let bytes = std::fs::read(file(&whole.path().join("index"))).unwrap();
    let flipped = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let with_sum = |mut bytes: Vec<u8>| {
        let sum = crc32fast::hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    let mut of_another_index = bytes.clone();
    let generation = b"\"generation\":\"";
    let at = bytes.windows(generation.len()).position(|it| it == generation).unwrap();
    of_another_index[at + generation.len()] ^= 1;
    let mut of_another_version = bytes.clone();
    of_another_version[8] += 1;
    let damages = [
        ("empty", Some(Vec::new())),
        ("cut", Some(bytes[..bytes.len() / 2].to_vec())),
        ("a link", Some(flipped(bytes.len() / 2))),
        ("a part", Some(flipped(bytes.len() - 1))),
        ("a length", Some(with_sum(flipped(41)))),
        ("another index", Some(with_sum(of_another_index))),
        ("another version", Some(with_sum(of_another_version))),
        ("gone", None),
    ];
    for (what, damaged) in damages {
        let dir = copied(&whole.path().join("index"));
        let dir = dir.path().join("index");
        let file = file(&dir);
        match damaged {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let mut index = taken_up(&dir);
        let asked = text(17);
        wait_for(&index, what, |it| *it == GraphState::Waiting);
        assert_eq!(nearest(&index.view(), &asked, &|_| true, 1), ["n/17.md"], "{what}");
        index.rest().unwrap();
        wait_for_vectors(&index, NOTES as usize);
        assert_eq!(std::fs::read(&file).unwrap().len(), bytes.len(), "{what}");
        check(&index, &living(0..NOTES));
    }
}

/// Not a test of its own: what the killed process does, see below.
#[test]
fn crashing_drawer() {
    let Ok(dir) = std::env::var("REMD_TEST_DRAW_DIR") else { return };
    drawn(Path::new(&dir));
}

#[test]
fn a_kill_leaves_a_whole_graph_or_none() {
    for (point, is_there) in [("neighbours.before_write", false), ("neighbours.after_write", true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "index::tests::neighbours::crashing_drawer"])
            .env("REMD_TEST_DRAW_DIR", dir.path())
            .env("REMD_FAULT", point)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success(), "{point}");
        assert_eq!(file(dir.path()).exists(), is_there, "{point}");
        let mut index = taken_up(dir.path());
        if is_there {
            wait_for_vectors(&index, NOTES as usize);
        } else {
            wait_for(&index, point, |it| *it == GraphState::Waiting);
            index.rest().unwrap();
            wait_for_vectors(&index, NOTES as usize);
        }
        check(&index, &living(0..NOTES));
    }
}

#[test]
fn whoever_ends_waits_for_no_graph() {
    let dir = tempfile::tempdir().unwrap();
    let many = (0..3000).map(note).collect();
    let mut index = open_with_model(dir.path(), model(), many, commit(1));
    index.draw_neighbours_above(ABOVE);
    index.rest().unwrap();
    wait_for(&index, "a build", |it| matches!(it, GraphState::Building { done, .. } if *done > 0));
    // Meanwhile all is searched and written.
    index.apply(vec![note(5000)], commit(2)).unwrap();
    assert_eq!(nearest(&index.view(), &text(5000), &|_| true, 1), ["n/5000.md"]);
    let view = index.view();
    drop(index);
    let built = || match view.vectors().unwrap().graph {
        GraphState::Building { done, .. } => done,
        state => panic!("it went on: {state:?}"),
    };
    let deadline = clock::now() + Duration::from_secs(60);
    while view.draws_graph() {
        assert!(clock::now() < deadline);
        std::thread::yield_now();
    }
    assert!(built() < 3000);
    assert!(!file(dir.path()).exists());
}

/// What is built while the disk is read-only is used, and said not to be kept.
#[test]
fn a_graph_that_cannot_be_written_is_used_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let index_dir = dir.path();
    let mut index = open_with_model(index_dir, model(), (0..NOTES).map(note).collect(), commit(1));
    index.rest().unwrap();
    // A folder in its place: nothing is put over that.
    let space = std::fs::read_dir(index_dir.join("vector_index")).unwrap().next().unwrap();
    std::fs::create_dir(space.unwrap().path().join("neighbours.hnsw")).unwrap();
    index.draw_neighbours_above(ABOVE);
    index.rest().unwrap();
    wait_for(
        &index,
        "one in memory",
        |it| matches!(it, GraphState::InUse { unkept: Some(why), .. } if why.contains("neighbours.hnsw")),
    );
    check(&index, &living(0..NOTES));
}

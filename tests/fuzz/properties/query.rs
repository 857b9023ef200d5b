//! What holds for any text that is asked.
//!
//! Takes bytes as a query, asks a small index, panics where a property is broken. For the fuzz
//! target and for the corpus in `cargo test`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use remd::embed::StaticModel;
use remd::index::{Index, IndexView, Opened, Update};
use remd::render::results as page;
use remd::search::{self, Query, QueryError, Rules};
use remd::vault::role::role_of;
use remd::vault::{BlobId, CommitId, Layout, VaultPath, read_note};

/// A generous limit for a search in so few notes: one that needs it has no bound.
const LIMIT: Duration = Duration::from_secs(20);

const NOTES: &[(&str, &str)] = &[
    (
        "tides.md",
        "---\ntags: [sea]\n---\n# Tide tables\n\nSpring tides, neap tides, C++ and .NET.\n",
    ),
    (
        "digest/wiki/moon.md",
        "---\nname: Moon\ndescription: It pulls.\n---\nThe moon, see [[tides]].\n",
    ),
    ("memory/2026-06-29.md", "- [[tides]]\n- [[moon]]\n"),
    ("memory/2026-06-29/walk.md", "A walk to `path/to/file.rs:42` at 50% of why? \"quotes\".\n"),
    ("日記 🔥.md", "東京都庁の会議 使用JWT令牌 회의록을 ＡＢＣ１２３ naïve café\n"),
    ("line\nbreak.md", "AND OR NOT * - + ( ) [ ] { } ^ ~ : \\ /\n"),
    ("empty.md", ""),
    ("don't.md", "don't you know that you can't\n"),
];

/// Every text that is not blank runs to an answer, and the answer keeps its promises.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    // The last byte also picks the options.
    let mut query = Query::new(&*text);
    let pick = data.last().copied().unwrap_or(0);
    query.limit = 1 + usize::from(pick % 7);
    query.explain = pick % 2 == 0;
    if pick % 11 == 0 {
        query.tags = vec![text.chars().take(20).collect()];
    }
    if pick % 13 == 0 {
        query.within = vec![text.chars().take(20).collect()];
    }
    if pick % 17 == 0 {
        query.path = Some(text.chars().take(40).collect());
    }
    let view = view();
    let begun = Instant::now();
    match search::search(view, &query, Rules::default(), begun + LIMIT) {
        Ok(results) => {
            assert!(!text.trim().is_empty(), "a blank query has no answer");
            assert!(results.partial.is_none(), "{:?}", results.partial);
            assert!(results.hits.len() <= query.limit);
            let paths: HashSet<_> = results.hits.iter().map(|it| &it.path).collect();
            assert_eq!(paths.len(), results.hits.len(), "each note once");
            assert!(results.hits.iter().all(|it| it.score.is_finite()));
            assert!(results.hits.is_sorted_by(|a, b| a.score >= b.score), "by the score shown");
            let lines = page::text(&results).split(|it| *it == b'\n').count();
            assert!(lines > 1, "a page has its last line");
            let json = page::json(&query, &results);
            assert!(json.iter().all(|it| *it >= b' ' || *it == b'\n'), "no raw control in JSON");
            page::markdown(&query, &results, Path::new("/vault"));
        }
        Err(QueryError::Empty) => assert!(text.trim().is_empty(), "{text:?}"),
        Err(QueryError::Folder(_) | QueryError::Pattern { .. } | QueryError::Tag) => {
            assert!(pick % 11 == 0 || pick % 13 == 0 || pick % 17 == 0);
        }
        Err(other) => panic!("{other}"),
    }
    if let Ok(nodes) =
        search::nodes(view, &query, Rules::default(), begun + LIMIT, search::Leave::Freely)
    {
        assert!(nodes.nodes.iter().all(|it| it.path.is_within(b"digest")));
    }
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
}

/// The small index, built once.
fn view() -> &'static Arc<IndexView> {
    static VIEW: OnceLock<(tempfile::TempDir, Arc<IndexView>)> = OnceLock::new();
    &VIEW.get_or_init(build).1
}

fn build() -> (tempfile::TempDir, Arc<IndexView>) {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = Layout::default();
    let model = Arc::new(StaticModel::on_board().expect("a model"));
    let (mut index, opened) =
        Index::open_with_model(folder.path(), &layout, model).expect("an index");
    assert!(matches!(opened, Opened::Rebuild(_)));
    let commit = CommitId::from_bytes(&[1; 20]).expect("a commit");
    index.begin_rebuild(0).and_then(|it| it.finish(commit)).expect("an empty index");
    let updates = NOTES.iter().enumerate().map(|(at, (path, text))| {
        let path = VaultPath::new(path).expect("a path");
        let blob = BlobId::from_bytes(&[at as u8; 20]).expect("a blob");
        let doc = read_note(&path, text.as_bytes());
        Update::Put { blob, role: role_of(&path, &layout), doc, path }
    });
    index
        .apply(updates.collect(), CommitId::from_bytes(&[2; 20]).expect("a commit"))
        .expect("notes");
    (folder, index.view())
}

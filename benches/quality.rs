//! Answers the questions of a labelled set, for `quality/evaluate.py` to judge.
//!
//! `cargo bench --bench quality -- VAULT QUERIES.jsonl RUN.jsonl [MODE]` indexes the Markdown files
//! of VAULT in a temporary folder, asks each `query` of QUERIES and writes a line for each to RUN:
//! `{"qid": …, "paths": [best first], "ms": …}`. Prints how long the index took. MODE is `hybrid`
//! (the default, as the program searches), `keyword`, `vector`, `rrf` (the documented rule), or a
//! number: hybrid with that weight of the cosine; `undated` is hybrid that takes no time out of a
//! question.
//!
//! `REMD_BENCH_MINILM=DIR` takes the files of all-MiniLM-L6-v2 instead of the model on board; its
//! vectors are kept by content in `REMD_BENCH_CACHE`, so that a second run costs nothing.
//! `REMD_BENCH_LIMIT` says how many notes each line has; each has its cosine and its BM25, too, for
//! whoever tries other rules.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench talks to its caller and stops at the first fault"
)]

use std::error::Error;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use remd::base::calendar::Day;
use remd::embed::{Cache, Cached, Embedder, StaticModel, Transformer};
use remd::index::Index;
use remd::search::fuse::RRF_VECTOR_WEIGHT;
use remd::search::{Query, Rules, search};
use remd::vault::note::read_note;
use remd::vault::role::role_of;
use remd::vault::{BlobId, CommitId, Layout, VaultPath};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let [vault, queries, run, mode @ ..] = args.as_slice() else {
        eprintln!("VAULT QUERIES.jsonl RUN.jsonl are needed; nothing measured");
        return Ok(());
    };
    let mode = mode.first().map_or("hybrid", String::as_str);
    let (weight, rules) = match mode {
        // Any day does: what the questions call yesterday is no day of these notes.
        "hybrid" | "keyword" => {
            (None, Rules { dates_from: Day::of(2026, 12, 1), ..Rules::default() })
        }
        "undated" => (None, Rules::default()),
        "vector" => (Some(1.0), Rules::default()),
        "rrf" => (Some(RRF_VECTOR_WEIGHT), Rules::default()),
        weight => (None, Rules { by_score: Some(weight.parse()?), ..Rules::default() }),
    };
    let dir = tempfile::tempdir()?;
    let layout = Layout::default();
    let (mut index, _) = match mode {
        "keyword" => Index::open(dir.path(), &layout)?,
        _ => Index::open_with_model(dir.path(), &layout, model()?)?,
    };
    let started = Instant::now();
    let notes = build(&mut index, Path::new(vault), &layout)?;
    while index.owes_vectors() {
        index.tend_vectors(Instant::now() + Duration::from_secs(10))?;
        let counts = index.view().vectors();
        let missing = counts.map_or(0, |it| it.missing);
        eprintln!("{missing} notes lack vectors after {:.0} s", started.elapsed().as_secs_f64());
    }
    eprintln!("{notes} notes indexed in {:.2} s", started.elapsed().as_secs_f64());
    let view = index.view();
    let mut out = BufWriter::new(std::fs::File::create(run)?);
    let mut times = Vec::new();
    let limit = std::env::var("REMD_BENCH_LIMIT").ok().map_or(Ok(20), |it| it.parse())?;
    for line in BufReader::new(std::fs::File::open(queries)?).lines() {
        let line: serde_json::Value = serde_json::from_str(&line?)?;
        let text = line["query"].as_str().or(line["question"].as_str()).unwrap_or_default();
        let mut query = Query::new(text);
        query.limit = limit;
        query.vector_weight = weight;
        let started = Instant::now();
        let results = search(&view, &query, rules, started + Duration::from_secs(10))?;
        let ms = started.elapsed().as_secs_f64() * 1e3;
        times.push(ms);
        let paths: Vec<_> = results.hits.iter().map(|it| it.path.lossy()).collect();
        let cosines: Vec<_> = results.hits.iter().map(|it| it.vector).collect();
        let words: Vec<_> = results.hits.iter().map(|it| it.keyword).collect();
        let object = serde_json::json!({
            "qid": line["qid"], "paths": paths, "ms": ms, "vector": cosines, "keyword": words,
        });
        writeln!(out, "{object}")?;
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    eprintln!(
        "{} queries, ms p50 {:.3} p90 {:.3} max {:.3}",
        times.len(),
        at(0.5),
        at(0.9),
        at(1.0)
    );
    Ok(())
}

/// The model on board, or the one whose files are named.
fn model() -> Result<Arc<dyn Embedder>, Box<dyn Error>> {
    let Some(dir) = std::env::var_os("REMD_BENCH_MINILM") else {
        return Ok(Arc::new(StaticModel::on_board()?));
    };
    let read = |name: &str| std::fs::read(Path::new(&dir).join(name));
    let (config, pieces) = (read("config.json")?, read("tokenizer.json")?);
    let weights = read("model.safetensors")?;
    let digest = format!("crc32:{:08x}", crc32fast::hash(&weights));
    let model = Transformer::read("all-MiniLM-L6-v2", &digest, &config, &pieces, &weights)?;
    let Some(kept) = std::env::var_os("REMD_BENCH_CACHE") else { return Ok(Arc::new(model)) };
    let room = NonZeroUsize::new(1_000_000).ok_or("room")?;
    std::fs::create_dir_all(&kept)?;
    let (cache, _) = Cache::open(Path::new(&kept), model.identity(), room)?;
    Ok(Arc::new(Cached::new(Arc::new(model), cache)))
}

fn build(index: &mut Index, vault: &Path, layout: &Layout) -> Result<usize, Box<dyn Error>> {
    let mut rebuild = index.begin_rebuild(0)?;
    let mut notes = 0;
    for entry in walkdir::WalkDir::new(vault).sort_by_file_name() {
        let entry = entry?;
        if !entry.file_type().is_file() || entry.path().extension().is_none_or(|it| it != "md") {
            continue;
        }
        let path = VaultPath::from_os(entry.path().strip_prefix(vault)?)?;
        let doc = read_note(&path, &std::fs::read(entry.path())?);
        let blob = BlobId::from_bytes(&[1; 20]).ok_or("blob")?;
        rebuild.add(&path, blob, role_of(&path, layout), &doc)?;
        notes += 1;
    }
    rebuild.finish(CommitId::from_bytes(&[1; 20]).ok_or("commit")?)?;
    Ok(notes)
}

//! What the index costs: to build, to ask, to keep up, in memory and on the disk.
//!
//! `cargo bench --bench index -- VAULT QUERIES.txt [words]` (see `gen_vault.py`) indexes the
//! Markdown files of VAULT in a temporary folder and prints medians, slowest and memory; `words`:
//! without a model.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench talks to its caller and stops at the first fault"
)]

/// What the agent is measured with.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "../src/memory.rs"]
mod memory;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use remd::embed::StaticModel;
use remd::index::{Index, IndexReader, Update};
use remd::search::{Query, Rules, search};
use remd::vault::note::read_note;
use remd::vault::role::role_of;
use remd::vault::{BlobId, CommitId, Layout, VaultPath};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    if let [open, dir, queries, words @ ..] = args.as_slice()
        && open == "open"
    {
        return fresh(Path::new(dir), queries, words.is_empty());
    }
    let [vault, queries, words @ ..] = args.as_slice() else {
        eprintln!("VAULT QUERIES.txt are needed; nothing measured");
        return Ok(());
    };
    let (vault, layout) = (Path::new(vault), Layout::default());
    let queries_file = queries;
    let queries = std::fs::read_to_string(queries)?;
    let dir = tempfile::tempdir()?;
    let commit = |it: u8| CommitId::from_bytes(&[it; 20]).ok_or("commit");

    let mut index = opened(dir.path(), &layout, words.is_empty())?;
    let started = Instant::now();
    let mut reading = Duration::ZERO;
    let mut notes = Vec::new();
    let mut rebuild = index.begin_rebuild(0)?;
    for entry in walkdir::WalkDir::new(vault).sort_by_file_name() {
        let entry = entry?;
        if !entry.file_type().is_file() || entry.path().extension().is_none_or(|it| it != "md") {
            continue;
        }
        let path = VaultPath::from_os(entry.path().strip_prefix(vault)?)?;
        let read = Instant::now();
        let doc = read_note(&path, &std::fs::read(entry.path())?);
        reading += read.elapsed();
        rebuild.add(&path, blob(0)?, role_of(&path, &layout), &doc)?;
        notes.push(path);
    }
    rebuild.finish(commit(1)?)?;
    println!(
        "built {} notes in {:.2} s ({:.2} s of it reading them)",
        notes.len(),
        started.elapsed().as_secs_f64(),
        reading.as_secs_f64()
    );
    println!("memory after the build: {}; {:?}", memory()?, index.view().vectors());
    ask("queries", &index, &queries)?;

    let mut shown = Vec::new();
    for (at, path) in notes.iter().cycle().step_by(37).take(200).enumerate() {
        let text = std::fs::read(vault.join(path.as_path()))?;
        let text = [text.as_slice(), format!("\nedit {at}\n").as_bytes()].concat();
        let started = Instant::now();
        let doc = read_note(path, &text);
        let update = Update::Put {
            path: path.clone(),
            blob: blob(u8::try_from(at % 250 + 1)?)?,
            role: role_of(path, &layout),
            doc,
        };
        index.stage(vec![update], commit(2)?)?;
        let found =
            search(&index.view(), &Query::new(format!("edit {at}")), Rules::default(), far())?;
        shown.push(started.elapsed());
        assert!(!found.hits.is_empty());
    }
    print("edit to a searched view", &mut shown);
    ask("queries with 200 notes in the overlay", &index, &queries)?;
    let started = Instant::now();
    index.flush()?;
    println!("flush of 200 notes: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let mut flushes = Vec::new();
    for (at, path) in notes.iter().step_by(97).take(20).enumerate() {
        let doc = read_note(path, format!("flush {at}").as_bytes());
        let role = role_of(path, &layout);
        let update = Update::Put { path: path.clone(), blob: blob(251)?, role, doc };
        let started = Instant::now();
        index.apply(vec![update], commit(3)?)?;
        flushes.push(started.elapsed());
    }
    print("apply of one note, durable", &mut flushes);
    println!("memory with the writer open: {}", memory()?);
    index.rest()?;
    println!("memory at rest: {}", memory()?);
    let bytes = index.view().bytes_on_disk();
    println!("disk: {bytes} bytes, {} a note", bytes / notes.len() as u64);
    drop(index);
    let fresh = std::process::Command::new(std::env::current_exe()?)
        .args(["open".as_ref(), dir.path().as_os_str(), queries_file.as_ref()])
        .args(words)
        .status()?;
    assert!(fresh.success());
    Ok(())
}

/// What a process pays that finds a whole index.
fn fresh(dir: &Path, queries: &str, has_model: bool) -> Result<(), Box<dyn Error>> {
    let queries = std::fs::read_to_string(queries)?;
    let layout = Layout::default();
    let started = Instant::now();
    let reader = IndexReader::open(dir, &layout)?.map_err(|it| it.to_string())?;
    let reader = if has_model { reader.with_model(model()?) } else { reader };
    let view = reader.view(Vec::new(), None)?;
    search(&view, &Query::new(queries.lines().next().unwrap_or("x")), Rules::default(), far())?;
    println!("reader: open and first query {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    drop((reader, view));
    let started = Instant::now();
    let index = opened(dir, &layout, has_model)?;
    println!("open: {:.1} ms, {}", started.elapsed().as_secs_f64() * 1e3, memory()?);
    ask("queries after opening", &index, &queries)?;
    let started = Instant::now();
    let counts = index.view().counts();
    println!("{counts:?} in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    println!("memory of a fresh process: {}", memory()?);
    Ok(())
}

fn opened(dir: &Path, layout: &Layout, has_model: bool) -> Result<Index, Box<dyn Error>> {
    Ok(match has_model {
        true => Index::open_with_model(dir, layout, model()?)?.0,
        false => Index::open(dir, layout)?.0,
    })
}

fn ask(what: &str, index: &Index, queries: &str) -> Result<(), Box<dyn Error>> {
    let view = index.view();
    for (branches, vector_weight) in [("hybrid", None), ("words alone", Some(0.0))] {
        let mut times = Vec::new();
        for line in queries.lines() {
            let query = Query { vector_weight, ..Query::new(line) };
            let started = Instant::now();
            search(&view, &query, Rules::default(), far())?;
            times.push(started.elapsed());
        }
        print(&format!("{what}, {branches}"), &mut times);
    }
    Ok(())
}

fn model() -> Result<Arc<StaticModel>, Box<dyn Error>> {
    let started = Instant::now();
    let model = Arc::new(StaticModel::on_board()?);
    println!("model on board: read in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    Ok(model)
}

fn print(what: &str, times: &mut [Duration]) {
    times.sort();
    let ms = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!("{what}: ms p50 {:.3} p90 {:.3} max {:.3}", ms(50), ms(90), ms(100));
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn blob(number: u8) -> Result<BlobId, &'static str> {
    BlobId::from_bytes(&[number; 20]).ok_or("blob")
}

fn memory() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let lines = ["RssAnon", "RssFile", "VmHWM"].iter().filter_map(|name| {
        status.lines().find(|it| it.starts_with(name)).map(|it| it.replace('\t', " "))
    });
    Ok(lines.collect::<Vec<_>>().join(", "))
}

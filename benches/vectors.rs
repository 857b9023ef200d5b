//! What vectors cost: to make with the model on board, and to find the nearest of many.
//!
//! `cargo bench --bench vectors -- [COUNT…]` (default 10,000 and 100,000) scans vectors of random
//! sentences, whole and under a filter that lets one in a hundred in, and prints medians, slowest
//! and memory; beside it the plain scan of single precision that it stands against.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench talks to its caller and stops at the first fault"
)]

use std::error::Error;
use std::time::{Duration, Instant};

use remd::embed::{Halves, StaticModel, Table, Vector, WordPiece};

const QUERIES: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let counts: Result<Vec<usize>, _> =
        std::env::args().skip(1).filter(|it| it != "--bench").map(|it| it.parse()).collect();
    let mut counts = counts?;
    if counts.is_empty() {
        counts = vec![10_000, 100_000];
    }
    let started = Instant::now();
    let model = StaticModel::on_board()?;
    println!("model on board: read in {:.1} ms", ms(started.elapsed()));
    let vocabulary = WordPiece::from_json(include_bytes!("../src/embed/model/tokenizer.json"))?;
    let mut words: Vec<&str> = vocabulary
        .pieces()
        .map(|it| it.0)
        .filter(|it| it.len() > 2 && it.bytes().all(|it| it.is_ascii_lowercase()))
        .collect();
    words.sort_unstable();
    let mut random = Random(7);
    let most = counts.iter().copied().max().unwrap_or(0) + QUERIES;
    let texts: Vec<String> = (0..most).map(|_| sentence(&words, &mut random)).collect();
    let started = Instant::now();
    let vectors: Vec<Vector> = texts.iter().filter_map(|it| model.vector(it)).collect();
    let each = started.elapsed() / u32::try_from(texts.len())?;
    println!("embedding: {:.1} µs a text of about 12 words", ms(each) * 1e3);
    let long: String = texts[..100].join(" ");
    let started = Instant::now();
    let found = model.vector(&long);
    println!("  {:.2} ms a text of 1,200 words ({})", ms(started.elapsed()), found.is_some());

    let passage = &long[..long.floor_char_boundary(2000)];
    times(
        "  nearest part of 2,000 bytes",
        &vectors[..QUERIES],
        |_| {},
        |query| model.nearest_part(passage, query).map_or(0, |it| it.range.start),
    );

    let (queries, rest) = vectors.split_at(QUERIES);
    for count in counts {
        let rows = &rest[..count.min(rest.len())];
        let (mut table, mut halves) = (Table::new(rows[0].dimension()), Halves::new(256));
        table.reserve(rows.len(), rows.len());
        let started = Instant::now();
        for (name, vector) in rows.iter().enumerate() {
            table.put(name as u64, std::slice::from_ref(vector))?;
            halves.push(vector);
        }
        println!(
            "{} vectors: built in {:.0} ms, {:.1} MB in eight bits, {:.1} MB exact beside them",
            rows.len(),
            ms(started.elapsed()),
            table.bytes() as f64 / 1e6,
            (rows.len() * 256 * 2) as f64 / 1e6,
        );
        let mut kept = 0;
        times(
            "  scan, top 40",
            queries,
            |query| {
                let found = table.nearest(query, 40, &|_| true, &halves);
                let mut exact: Vec<f32> = rows.iter().map(|it| it.cosine(query)).collect();
                exact.sort_by(|a, b| b.total_cmp(a));
                kept += found.iter().take(10).filter(|it| it.cosine >= exact[9] - 1e-3).count();
            },
            |query| table.nearest(query, 40, &|_| true, &halves).len(),
        );
        println!("  of the exact ten nearest {:.1} % found", kept as f64 / QUERIES as f64 * 10.0);
        times(
            "  scan, one in a hundred, top 40",
            queries,
            |_| {},
            |query| table.nearest(query, 40, &|it| it % 100 == 0, &halves).len(),
        );
        times(
            "  plain scan in single precision",
            queries,
            |_| {},
            |query| {
                rows.iter().map(|it| it.cosine(query)).fold(0, |n, it| n + usize::from(it > 0.9))
            },
        );
    }
    Ok(())
}

/// Runs `work` for each query and prints how long it took; `check` is not timed.
fn times(
    what: &str,
    queries: &[Vector],
    mut check: impl FnMut(&Vector),
    work: impl Fn(&Vector) -> usize,
) {
    let mut took: Vec<Duration> = queries
        .iter()
        .map(|query| {
            let started = Instant::now();
            std::hint::black_box(work(query));
            let took = started.elapsed();
            check(query);
            took
        })
        .collect();
    took.sort();
    println!(
        "{what}: min {:.2} p50 {:.2} p90 {:.2} ms",
        ms(took[0]),
        ms(took[took.len() / 2]),
        ms(took[took.len() * 9 / 10]),
    );
}

fn sentence(words: &[&str], random: &mut Random) -> String {
    let count = 6 + random.below(13);
    let words: Vec<&str> = (0..count).map(|_| words[random.below(words.len())]).collect();
    words.join(" ")
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A xorshift generator: the same texts in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

//! What vectors cost to make with the model on board. What it costs to find the nearest of them is
//! in `benches/index.rs`.
//!
//! `cargo bench --bench vectors` embeds random sentences and long texts, and finds the part of a
//! passage that is nearest to a question; it prints medians and what is slow.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench talks to its caller and stops at the first fault"
)]

use std::error::Error;
use std::time::{Duration, Instant};

use remd::embed::{StaticModel, Vector, WordPiece};

const QUERIES: usize = 100;
const TEXTS: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
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
    let texts: Vec<String> = (0..TEXTS).map(|_| sentence(&words, &mut random)).collect();
    let started = Instant::now();
    let vectors: Vec<Vector> = texts.iter().filter_map(|it| model.vector(it)).collect();
    let each = started.elapsed() / u32::try_from(texts.len())?;
    println!("embedding: {:.1} µs a text of about 12 words", ms(each) * 1e3);
    let long: String = texts[..100].join(" ");
    let started = Instant::now();
    let found = model.vector(&long);
    println!("  {:.2} ms a text of 1,200 words ({})", ms(started.elapsed()), found.is_some());

    let passage = &long[..long.floor_char_boundary(2000)];
    times("  nearest part of 2,000 bytes", &vectors[..QUERIES], |query| {
        model.nearest_part(passage, query).map_or(0, |it| it.range.start)
    });

    Ok(())
}

/// Runs `work` for each query and prints how long it took.
fn times(what: &str, queries: &[Vector], work: impl Fn(&Vector) -> usize) {
    let mut took: Vec<Duration> = queries
        .iter()
        .map(|query| {
            let started = Instant::now();
            std::hint::black_box(work(query));
            started.elapsed()
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

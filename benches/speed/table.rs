//! Measurements and the lines they are printed on.
//!
//! Takes durations, prints medians beside their baseline.

use std::time::{Duration, Instant};

/// What one thing took, in milliseconds, each time.
#[derive(Default)]
pub struct Series(Vec<f64>);

impl Series {
    pub fn push(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64() * 1e3);
    }

    /// Measures once.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let made = work();
        self.push(started.elapsed());
        made
    }

    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1) as f64;
        sorted.get((last * share).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

/// The heading of a table.
pub fn head() {
    println!(
        "{:<58} {:>4} {:>10} {:>10} {:>10} {:>10}  ratio",
        "ms", "n", "median", "min", "p95", "p99"
    );
}

/// A baseline: what the next lines are compared with.
pub fn base(what: &str, series: &Series) {
    line(&format!("  {what}"), series, String::new());
}

/// A figure of ours beside its baseline.
pub fn ours(what: &str, series: &Series, base: &str, baseline: &Series) {
    let ratio = series.median() / baseline.median();
    line(what, series, format!("{ratio:.2} x {base}"));
}

/// A figure of ours that nothing compares with, and its goal.
pub fn alone(what: &str, series: &Series, goal: &str) {
    line(what, series, goal.to_owned());
}

/// A figure that is no time.
pub fn fact(what: &str, value: String) {
    println!("{what:<58} {value}");
}

fn line(what: &str, series: &Series, note: String) {
    let [median, min, p95, p99] = [0.5, 0.0, 0.95, 0.99].map(|it| series.at(it));
    println!(
        "{what:<58} {:>4} {median:>10.3} {min:>10.3} {p95:>10.3} {p99:>10.3}  {note}",
        series.0.len()
    );
}

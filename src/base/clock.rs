//! The time, asked in one place.
//!
//! Takes nothing, gives wall time for what people read and monotonic time for deadlines.
//! Any thread. In debug builds `REMD_CLOCK` names a file with two numbers, the seconds by which the
//! wall clock is wrong and those that the machine has slept: a test sets them while we run.
//!
//! **Invariant:** nobody else asks the system for the time (`clippy.toml` sees to it); no deadline
//! and no pause is counted in wall time, which jumps.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::base::calendar::Day;

/// Monotonic time, for deadlines and durations.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn now() -> Instant {
    Instant::now()
}

/// Wall time, for what people read.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn wall() -> SystemTime {
    let now = SystemTime::now();
    match shift(0) {
        0 => now,
        shift @ 1.. => now + Duration::from_secs(shift.unsigned_abs()),
        shift => now.checked_sub(Duration::from_secs(shift.unsigned_abs())).unwrap_or(UNIX_EPOCH),
    }
}

/// How long the machine has slept since it was started: what [`now`] leaves out.
pub fn slept() -> Duration {
    let boot = ticks(libc::CLOCK_BOOTTIME);
    // Asked in this order the difference is never negative, but for a test's own shift.
    let slept = boot.saturating_sub(ticks(libc::CLOCK_MONOTONIC));
    slept + Duration::from_secs(shift(1).unsigned_abs())
}

fn ticks(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local; a clock that is unknown leaves it as it is.
    unsafe {
        libc::clock_gettime(clock, &mut time);
    }
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What a test wants the clocks to be off by: its first or second number.
#[cfg(debug_assertions)]
fn shift(at: usize) -> i64 {
    use std::path::PathBuf;
    use std::sync::OnceLock;

    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os("REMD_CLOCK").map(PathBuf::from));
    let Some(text) = file.as_ref().and_then(|it| super::fs::read(it).ok()) else { return 0 };
    let text = String::from_utf8_lossy(&text);
    text.split_whitespace().nth(at).and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// The clocks are right in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
fn shift(_at: usize) -> i64 {
    0
}

/// Whole seconds since the Unix epoch; 0 for a clock set before it.
pub fn unix_seconds() -> i64 {
    seconds_of(wall())
}

/// Whole seconds from the Unix epoch to `time`; 0 for a time before it.
pub fn seconds_of(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
}

/// The day it is here.
pub fn today() -> Day {
    let now = unix_seconds();
    Day::at(now + i64::from(local_offset(now)))
}

/// Seconds that local time is ahead of UTC at `seconds` since the Unix epoch.
pub fn local_offset(seconds: i64) -> i32 {
    broken_down(seconds).map_or(0, |it| i32::try_from(it.tm_gmtoff).unwrap_or(0))
}

/// `2026-06-29 14:03:11 +0200`: a moment in local time, for people.
pub fn local_text(seconds: i64) -> String {
    let Some(it) = broken_down(seconds) else {
        return format!("@{seconds}");
    };
    let minutes = it.tm_gmtoff / 60;
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02} {}{:02}{:02}",
        i64::from(it.tm_year) + 1900,
        it.tm_mon + 1,
        it.tm_mday,
        it.tm_hour,
        it.tm_min,
        it.tm_sec,
        if minutes < 0 { '-' } else { '+' },
        minutes.abs() / 60,
        minutes.abs() % 60,
    )
}

/// Local calendar fields; `None` for a year that does not fit.
fn broken_down(seconds: i64) -> Option<libc::tm> {
    // SAFETY: `tm` is plain numbers and one pointer, for which all zeroes is a value.
    let mut fields: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals; the reentrant form keeps no state of its own.
    let found = unsafe { libc::localtime_r(&seconds, &mut fields) };
    (!found.is_null()).then_some(fields)
}

/// `1.2 s`, `3 min`, `5 h`, `2 d`: an age a person reads at a glance.
pub fn age_text(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..=9 => format!("{:.1} s", age.as_secs_f64()),
        10..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

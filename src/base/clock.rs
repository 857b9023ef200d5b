//! The time, asked in one place.
//!
//! Takes nothing, gives wall time for what people read and monotonic time for deadlines.
//! Any thread. **Invariant:** nobody else asks the system for the time (`clippy.toml` sees to it).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time, for deadlines and durations.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn now() -> Instant {
    Instant::now()
}

/// Wall time, for what people read.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Whole seconds since the Unix epoch; 0 for a clock set before it.
pub fn unix_seconds() -> i64 {
    seconds_of(wall())
}

/// Whole seconds from the Unix epoch to `time`; 0 for a time before it.
pub fn seconds_of(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
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

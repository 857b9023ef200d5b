//! Moments as people write them.
//!
//! Takes a text and the time it is, gives the stretch of time that is meant: a date is all of its
//! day, an age one second. On local clocks, but where a zone is written.
//!
//! **Invariant:** what is no moment gives nothing; no text of any length or number is too much.

use crate::base::calendar::{Day, days_in};
use crate::base::clock;

/// From the first to the last second that is meant, since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub from: i64,
    pub to: i64,
}

/// Longer than any moment is written.
const LONGEST: usize = 64;

const DAY: i64 = 86_400;

/// The time that `text` means at the time `now`: `2026-06-01`, `2026-06`, `2026-06-01T14:00`,
/// `2026-06-01 14:00:30+02:00`, `yesterday`, `2h`, `3 days ago`, `昨天`, `3天前`.
pub fn read(text: &str, now: i64) -> Option<Stretch> {
    if text.len() > LONGEST {
        return None;
    }
    let text = text.trim().to_lowercase();
    dated(&text).or_else(|| named(&text, now)).or_else(|| aged(&text, now))
}

/// `2026`, `2026-06`, `2026-06-01`, and that with a time of day.
fn dated(text: &str) -> Option<Stretch> {
    let Some((date, time)) = text.split_once(['t', ' ']) else {
        return match text.len() {
            10 => Day::read(text).map(|it| days(it, it)),
            7 => month(text),
            4 => month(&format!("{text}-01")).zip(month(&format!("{text}-12"))).and_then(|it| {
                // Any other four digits are no year that a note was written in.
                (1900..2200)
                    .contains(&text.parse().unwrap_or(0))
                    .then_some(Stretch { from: it.0.from, to: it.1.to })
            }),
            _ => None,
        };
    };
    let day = Day::read(date)?;
    let (time, zone) = zoned(time.trim())?;
    let mut parts = time.split(':');
    let mut part = |most: i64| parts.next().map(|it| two_digits(it, most));
    let (hour, minute) = (part(23)??, part(59)??);
    let (second, length) = match part(60) {
        Some(second) => (second?, 0),
        None => (0, 59),
    };
    if parts.next().is_some() {
        return None;
    }
    let of_day = hour * 3600 + minute * 60 + second;
    let from = match zone {
        Some(offset) => i64::from(day.since(Day::at(0))) * DAY + of_day - offset,
        None => local(day, of_day),
    };
    Some(Stretch { from, to: from + length })
}

/// A time of day without its zone, and how many seconds that is ahead of UTC.
fn zoned(time: &str) -> Option<(&str, Option<i64>)> {
    if let Some(time) = time.strip_suffix('z') {
        return Some((time, Some(0)));
    }
    let Some(at) = time.find(['+', '-']) else { return Some((time, None)) };
    let sign = if time[at..].starts_with('-') { -1 } else { 1 };
    let zone = &time[at + 1..];
    let (hours, minutes) = match zone.split_once(':') {
        Some(parts) => parts,
        None if zone.is_ascii() && zone.len() == 4 => zone.split_at(2),
        None => (zone, "00"),
    };
    let offset = two_digits(hours, 23)? * 3600 + two_digits(minutes, 59)? * 60;
    Some((time[..at].trim_end(), Some(sign * offset)))
}

fn two_digits(text: &str, most: i64) -> Option<i64> {
    let is_number = text.len() == 2 && text.bytes().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|it| is_number && *it <= most)
}

/// All of a month, `2026-06`.
fn month(text: &str) -> Option<Stretch> {
    let first = Day::read(&format!("{text}-01"))?;
    let (year, month, _) = first.civil();
    Some(days(first, Day::of(year, month, days_in(year, month))?))
}

/// `yesterday` and the like.
fn named(text: &str, now: i64) -> Option<Stretch> {
    const NAMES: [(&[&str], i32); 3] = [
        (&["today", "今天", "今日", "오늘"], 0),
        (&["yesterday", "昨天", "昨日", "어제"], -1),
        (&["the day before yesterday", "前天", "一昨日", "그저께"], -2),
    ];
    if text == "now" {
        return Some(Stretch { from: now, to: now });
    }
    let (_, later) = NAMES.iter().find(|it| it.0.contains(&text))?;
    let day = day_of(now).plus(*later);
    Some(days(day, day))
}

/// What is counted back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Seconds(i64),
    Months(i32),
}

/// `90m`, `2h`, `3d`, `2w`, `6mo`, `1y`, `3 days ago`, `3天前`.
fn aged(text: &str, now: i64) -> Option<Stretch> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    // More would be before all calendars.
    let count: i32 = count.parse().ok().filter(|it| *it <= 1_000_000)?;
    let at = match unit_of(unit.trim())? {
        Unit::Seconds(seconds) => now - i64::from(count) * seconds,
        Unit::Months(months) => {
            let (year, month, day) = day_of(now).civil();
            let month = year.checked_mul(12)?.checked_add(i32::try_from(month).ok()? - 1)?;
            let month = month.checked_sub(count.checked_mul(months)?)?;
            let (year, month) = (month.div_euclid(12), u32::try_from(month.rem_euclid(12)).ok()?);
            let of_day = (now + i64::from(clock::local_offset(now))).rem_euclid(DAY);
            local(Day::of(year, month + 1, day.min(days_in(year, month + 1)))?, of_day)
        }
    };
    Some(Stretch { from: at, to: at })
}

fn unit_of(text: &str) -> Option<Unit> {
    const UNITS: [(&[&str], &[&str], Unit); 7] = [
        (&["s", "sec", "secs", "second", "seconds"], &["秒前", "초전"], Unit::Seconds(1)),
        (
            &["m", "min", "mins", "minute", "minutes"],
            &["分钟前", "分鐘前", "分前", "분전"],
            Unit::Seconds(60),
        ),
        (
            &["h", "hour", "hours"],
            &["小时前", "小時前", "个小时前", "個小時前", "時間前", "시간전"],
            Unit::Seconds(3600),
        ),
        (&["d", "day", "days"], &["天前", "天以前", "天之前", "日前", "일전"], Unit::Seconds(DAY)),
        (
            &["w", "week", "weeks"],
            &["周前", "週前", "週間前", "个星期前", "個星期前", "주전"],
            Unit::Seconds(7 * DAY),
        ),
        (
            &["mo", "month", "months"],
            &["个月前", "個月前", "ヶ月前", "か月前", "개월전"],
            Unit::Months(1),
        ),
        (&["y", "year", "years"], &["年前", "년전"], Unit::Months(12)),
    ];
    let plain = text.strip_suffix("ago").map_or(text, str::trim_end);
    let packed: String = text.split_whitespace().collect();
    UNITS.iter().find(|it| it.0.contains(&plain) || it.1.contains(&packed.as_str())).map(|it| it.2)
}

/// The day that it is here.
fn day_of(seconds: i64) -> Day {
    Day::at(seconds + i64::from(clock::local_offset(seconds)))
}

/// From the first to the last second of these days.
fn days(from: Day, to: Day) -> Stretch {
    Stretch { from: local(from, 0), to: local(to.plus(1), 0) - 1 }
}

/// The moment at which clocks here show that; where they show it never or twice, one beside.
fn local(day: Day, of_day: i64) -> i64 {
    let shown = i64::from(day.since(Day::at(0))) * DAY + of_day;
    let near = shown - i64::from(clock::local_offset(shown));
    shown - i64::from(clock::local_offset(near))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-06-15 12:00:00 UTC; tests of local time go by what the machine's clock says.
    const NOW: i64 = 1_781_524_800;

    fn utc(text: &str) -> i64 {
        read(&format!("{text}Z"), NOW).unwrap().from
    }

    #[test]
    fn a_date_with_a_zone_is_one_moment_everywhere() {
        let check = |text: &str, from: i64, to: i64| {
            assert_eq!(read(text, 0), Some(Stretch { from, to }), "{text}");
        };
        check("1970-01-01T00:00:00Z", 0, 0);
        check("1970-01-02T00:00Z", 86_400, 86_459);
        check("2026-06-15T12:00:00+00:00", NOW, NOW);
        check("2026-06-15 14:00:00+0200", NOW, NOW);
        check("2026-06-15 14:00:00 +02", NOW, NOW);
        check("2026-06-15T06:30:00-05:30", NOW, NOW);
    }

    #[test]
    fn a_date_is_its_whole_day_here() {
        let day = read("2026-06-01", NOW).unwrap();
        assert_eq!(clock::local_text(day.from)[..19], *"2026-06-01 00:00:00");
        assert_eq!(clock::local_text(day.to)[..19], *"2026-06-01 23:59:59");
        let month = read("2024-02", NOW).unwrap();
        assert_eq!(clock::local_text(month.from)[..19], *"2024-02-01 00:00:00");
        assert_eq!(clock::local_text(month.to)[..19], *"2024-02-29 23:59:59");
        let year = read("2025", NOW).unwrap();
        assert_eq!(clock::local_text(year.from)[..19], *"2025-01-01 00:00:00");
        assert_eq!(clock::local_text(year.to)[..19], *"2025-12-31 23:59:59");
        let minute = read("2026-06-01T14:05", NOW).unwrap();
        assert_eq!(clock::local_text(minute.from)[..19], *"2026-06-01 14:05:00");
        assert_eq!(minute.to, minute.from + 59);
    }

    #[test]
    fn ages_count_back_from_now() {
        let check = |text: &str, seconds: i64| {
            let at = NOW - seconds;
            assert_eq!(read(text, NOW), Some(Stretch { from: at, to: at }), "{text}");
        };
        check("90m", 5400);
        check("2h", 7200);
        check("3d", 3 * 86_400);
        check("365d", 365 * 86_400);
        check("2w", 14 * 86_400);
        check("30 Seconds ago", 30);
        check("2 hours ago", 7200);
        check("3天前", 3 * 86_400);
        check("2 小时前", 7200);
        check("3일 전", 3 * 86_400);
        check("now", 0);
        let month = read("1mo", NOW).unwrap().from;
        assert_eq!(clock::local_text(month)[..10], *"2026-05-15");
        // From a day that the month has not.
        let leap = utc("2024-03-31T12:00:00");
        assert_eq!(clock::local_text(read("1 month ago", leap).unwrap().from)[..10], *"2024-02-29");
        assert_eq!(clock::local_text(read("1y", NOW).unwrap().from)[..10], *"2025-06-15");
    }

    #[test]
    fn days_have_names() {
        let yesterday = read("yesterday", NOW).unwrap();
        assert_eq!(yesterday, read("2026-06-14", NOW).unwrap());
        assert_eq!(read("昨天", NOW), Some(yesterday));
        assert_eq!(read("今日", NOW), read("2026-06-15", NOW));
        assert_eq!(read("前天", NOW), read("2026-06-13", NOW));
    }

    #[test]
    fn what_is_no_moment_is_nothing() {
        for text in [
            "",
            "h",
            "2",
            "2x",
            "2026-13",
            "2026-02-30",
            "2026-06-01T24:00",
            "2026-06-01T12",
            "2026-06-01T12:00:00:00",
            "2026-06-01T1:00",
            "2026-06-01T12:00+",
            "0999",
            "1234567m ago",
            "99999999999999999999d",
            "2026-06-01T+1:+2",
            "日記",
            "2026-06-01T12:00+1é",
        ] {
            assert_eq!(read(text, NOW), None, "{text}");
        }
        assert_eq!(read(&"9".repeat(100_000), NOW), None);
    }
}

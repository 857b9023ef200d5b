//! When to ask again.
//!
//! Pure. Takes what a server said about waiting (a `Retry-After` header in seconds or as a date,
//! Gemini's `RetryInfo` in the body), gives how long.
//!
//! What it asks for is never less than our own pause, which the caller sees to.
//!
//! **Invariant:** no server makes us wait longer than [`MOST`]; what can't be read is not a wait of
//! nought.

use std::time::Duration;

use serde_json::Value;

/// The longest pause that a server can ask for.
pub(super) const MOST: Duration = Duration::from_secs(3600);

/// How often one request is sent again.
pub(super) const RETRIES: u32 = 3;

/// A pause doubles so often: after about a minute it stays as it is.
pub(super) const MOST_DOUBLED: u32 = 6;

/// The pause before the try after this one, where the server says nothing: 1, 2, 4 units.
pub(super) fn backoff(tried: u32, unit: Duration) -> Duration {
    unit.saturating_mul(1 << tried.min(10))
}

/// How long the server asks us to wait; `now` is in seconds since the Unix epoch.
pub(super) fn asked(header: Option<&str>, body: &Value, now: i64) -> Option<Duration> {
    let from_header = header.map(str::trim).and_then(|text| {
        seconds(text).or_else(|| http_date(text).map(|at| (at - now).max(0) as f64))
    });
    let from_body = || {
        let details = body.pointer("/error/details")?.as_array()?;
        let delay = details.iter().find_map(|it| it.get("retryDelay")?.as_str())?;
        seconds(delay.strip_suffix('s')?)
    };
    let wait = from_header.or_else(from_body)?;
    Some(Duration::try_from_secs_f64(wait).map_or(MOST, |it| it.min(MOST)))
}

fn seconds(text: &str) -> Option<f64> {
    let begins = text.starts_with(|it: char| it.is_ascii_digit());
    text.parse().ok().filter(|it: &f64| begins && *it >= 0.0)
}

/// `Wed, 21 Oct 2015 07:28:00 GMT` in seconds since the Unix epoch.
fn http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let [day, month, year, time, "GMT"] = rest.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let number = |text: &str, most: i64| {
        let is_digits = text.bytes().all(|it| it.is_ascii_digit());
        text.parse::<i64>().ok().filter(|it| is_digits && *it <= most)
    };
    let month = i64::try_from(MONTHS.iter().position(|it| *it == month)?).ok()? + 1;
    let (day, year) = (number(day, 31)?, number(year, 9999)?);
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>()[..] else { return None };
    let clock = number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?;
    // Days from the civil calendar, counted from a March so that leap days come last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_seconds_or_a_date() {
        // date -u -d '2015-10-21 07:28:00' +%s
        let at = 1_445_412_480;
        let check = |header: &str, now: i64, wanted: Option<u64>| {
            let found = asked(Some(header), &Value::Null, now);
            assert_eq!(found, wanted.map(Duration::from_secs), "{header}");
        };
        check("2", at, Some(2));
        check(" 0 ", at, Some(0));
        check("1e9", at, Some(3600));
        check("1e999", at, Some(3600));
        check("99999999999999999999", at, Some(3600));
        for odd in ["-1", "abc", "", "inf", "NaN", "+2", "2 s"] {
            check(odd, at, None);
        }
        check("Wed, 21 Oct 2015 07:28:00 GMT", at - 90, Some(90));
        check("Wed, 21 Oct 2015 07:28:00 GMT", at + 90, Some(0));
        check("Wed, 21 Oct 2015 07:28:00 GMT", at - 7200, Some(3600));
        for odd in [
            "Wed, 21 Oct 2015 07:28:00",
            "Wed, 21 okt 2015 07:28:00 GMT",
            "Wed, 21 anF 2015 07:28:00 GMT",
            "Wed, -1 Oct 2015 07:28:00 GMT",
            "Wed, 21 Oct 2015 7:28 GMT",
        ] {
            check(odd, at, None);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        // date -u -d '...' +%s
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Mon, 30 Nov 2026 23:59:59 GMT", 1_796_083_199),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
        ] {
            assert_eq!(http_date(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn gemini_says_it_in_the_body() {
        let body = serde_json::json!({"error": {"details": [
            {"@type": "other"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"},
        ]}});
        assert_eq!(asked(None, &body, 0), Some(Duration::from_millis(17_500)));
        assert_eq!(asked(Some("3"), &body, 0), Some(Duration::from_secs(3)));
        assert_eq!(asked(Some("abc"), &body, 0), Some(Duration::from_millis(17_500)));
        let odd = serde_json::json!({"error": {"details": [{"retryDelay": 5}]}});
        assert_eq!(asked(None, &odd, 0), None);
    }

    #[test]
    fn pauses_double() {
        let unit = Duration::from_secs(1);
        assert_eq!([0, 1, 2].map(|it| backoff(it, unit).as_secs()), [1, 2, 4]);
    }
}

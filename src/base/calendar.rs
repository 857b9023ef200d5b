//! Days of the Gregorian calendar, counted.
//!
//! Pure. Takes years, months and days, gives [`Day`]s that can be compared and added to.
//!
//! **Invariant:** a [`Day`] is a day that there is; arithmetic ends at the ends of time.

/// A day, counted from 1970-01-01.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Day(i32);

/// Years beyond are no dates of notes.
const YEARS: std::ops::RangeInclusive<i32> = 0..=9999;

impl Day {
    /// Before every day.
    pub const MIN: Self = Self(i32::MIN);
    /// After every day.
    pub const MAX: Self = Self(i32::MAX);

    /// `None` for a day that the calendar does not have.
    pub fn of(year: i32, month: u32, day: u32) -> Option<Self> {
        if !YEARS.contains(&year) || !(1..=days_in(year, month)).contains(&day) {
            return None;
        }
        // Counted from a March, so that leap days come last.
        let (year, month) = match month {
            1 | 2 => (year - 1, month + 9),
            _ => (year, month - 3),
        };
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let of_year = (153 * i32::try_from(month).ok()? + 2) / 5 + i32::try_from(day).ok()? - 1;
        let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        Some(Self(era * 146_097 + day_of_era - 719_468))
    }

    /// The day at `seconds` since the Unix epoch, UTC.
    pub fn at(seconds: i64) -> Self {
        Self(i32::try_from(seconds.div_euclid(86_400)).unwrap_or(i32::MAX))
    }

    /// A day of a text that is `YYYY-MM-DD`.
    pub fn read(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_shape = bytes.len() == 10
            && bytes.iter().enumerate().all(|(at, it)| match at {
                4 | 7 => *it == b'-',
                _ => it.is_ascii_digit(),
            });
        if !is_shape {
            return None;
        }
        Self::of(text[..4].parse().ok()?, text[5..7].parse().ok()?, text[8..].parse().ok()?)
    }

    /// Year, month and day.
    pub fn civil(self) -> (i32, u32, u32) {
        let days = i64::from(self.0) + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let narrow = |it: i64| u32::try_from(it).unwrap_or(0);
        (i32::try_from(year + era * 400 + next).unwrap_or(0), narrow(month), narrow(day))
    }

    /// 0 for a Monday.
    pub fn weekday(self) -> i32 {
        // 1970-01-01 was a Thursday.
        i32::try_from((i64::from(self.0) + 3).rem_euclid(7)).unwrap_or(0)
    }

    pub fn plus(self, days: i32) -> Self {
        Self(self.0.saturating_add(days))
    }

    /// How many days lie from `other` to this one.
    pub fn since(self, other: Self) -> i32 {
        self.0.saturating_sub(other.0)
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// How many days a month has; 0 for what is no month.
pub fn days_in(year: i32, month: u32) -> u32 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_one_number_and_the_next_day_the_next() {
        assert_eq!(Day::of(1970, 1, 1), Some(Day(0)));
        assert_eq!(Day::of(2000, 2, 29), Some(Day(11_016)));
        assert_eq!(Day::of(1969, 12, 31), Some(Day(-1)));
        let mut expected = Day::of(1899, 12, 31).unwrap();
        for year in 1900..2101 {
            for month in 1..=12 {
                for day in 1..=days_in(year, month) {
                    expected = expected.plus(1);
                    assert_eq!(Day::of(year, month, day), Some(expected));
                    assert_eq!(expected.civil(), (year, month, day));
                }
            }
        }
    }

    #[test]
    fn what_is_no_day_is_none() {
        for text in ["2023-02-29", "2023-13-01", "2023-00-10", "2023-1-10", "2023/01/10", "", "日"]
        {
            assert_eq!(Day::read(text), None, "{text}");
        }
        assert_eq!(Day::read("2024-02-29").unwrap().to_string(), "2024-02-29");
        // 2026-11-30 was a Monday.
        assert_eq!(Day::read("2026-11-30").map(Day::weekday), Some(0));
        assert_eq!(Day::at(1_796_000_000), Day::read("2026-11-30").unwrap());
        assert_eq!((Day::MAX.plus(1), Day::MIN.since(Day::MAX)), (Day::MAX, i32::MIN));
    }
}

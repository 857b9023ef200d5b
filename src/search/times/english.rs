//! Times in English words and in figures.
//!
//! Pure. **Invariant:** a word that may be something else (`may`, `march`) is a month only where
//! its neighbours say so; a date inside a path or a longer name is none.

use super::{Span, Unit, ago, any_year, days, month, month_of, week, year, year_of};
use crate::base::calendar::{Day, days_in};

/// Adds the times that `text` names; gives the words beside.
pub(super) fn read(text: &str, today: Day, spans: &mut Vec<Span>) -> String {
    let words: Vec<Word> = text.split_whitespace().filter_map(Word::new).collect();
    let (mut at, mut rest) = (0, String::new());
    while at < words.len() {
        let reader = Reader { words: &words, today };
        match reader.span_at(at) {
            Some((span, length)) => {
                spans.extend(reader.bounded(at, span));
                at += length.max(1);
            }
            None => {
                rest.push_str(words[at].said);
                rest.push(' ');
                at += 1;
            }
        }
    }
    rest
}

struct Word<'a> {
    low: String,
    is_capital: bool,
    said: &'a str,
}

impl<'a> Word<'a> {
    fn new(said: &'a str) -> Option<Self> {
        let text = said.trim_matches(|it: char| !it.is_alphanumeric());
        let text = text.strip_suffix("'s").or(text.strip_suffix("’s")).unwrap_or(text);
        // No word or figure of a date is longer.
        if text.is_empty() || text.len() > 16 {
            return (!text.is_empty()).then(|| Self {
                low: String::new(),
                is_capital: false,
                said,
            });
        }
        let is_capital = text.starts_with(|it: char| it.is_ascii_uppercase());
        Some(Self { low: text.to_ascii_lowercase(), is_capital, said })
    }
}

struct Reader<'a> {
    words: &'a [Word<'a>],
    today: Day,
}

const MONTHS: [(&str, &str); 12] = [
    ("january", "jan"),
    ("february", "feb"),
    ("march", "mar"),
    ("april", "apr"),
    ("may", "may"),
    ("june", "jun"),
    ("july", "jul"),
    ("august", "aug"),
    ("september", "sep"),
    ("october", "oct"),
    ("november", "nov"),
    ("december", "dec"),
];
const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const NUMBERS: [&str; 12] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];
/// What may stand before a month or a year on its own.
const BEFORE: [&str; 19] = [
    "in",
    "on",
    "during",
    "of",
    "since",
    "until",
    "till",
    "by",
    "before",
    "after",
    "from",
    "to",
    "between",
    "early",
    "mid",
    "late",
    "around",
    "throughout",
    "year",
];

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |it| &it.low)
    }

    fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |it| self.word(it))
    }

    /// The time that begins at a word, and how many words it takes.
    fn span_at(&self, at: usize) -> Option<(Span, usize)> {
        self.figures(at)
            .or_else(|| self.month_named(at))
            .or_else(|| self.relative(at))
            .or_else(|| self.counted(at))
            .or_else(|| self.year_alone(at))
    }

    /// `2023-05-08`, `2023/05/08`, `8.5.2023`, `2023-05`, `Q3 2023`.
    fn figures(&self, at: usize) -> Option<(Span, usize)> {
        let word = self.word(at);
        if let Some(quarter) = word.strip_prefix('q').and_then(|it| it.parse::<u32>().ok()) {
            let year = year_in(self.word(at + 1))?;
            let from = Day::of(year, quarter.checked_mul(3)?.checked_sub(2)?, 1)?;
            let to = Day::of(year, quarter * 3, days_in(year, quarter * 3))?;
            return Some((days(from, to), 2));
        }
        let split = |by: char| -> Option<Vec<u32>> {
            let parts: Option<Vec<u32>> = word.split(by).map(figure).collect();
            parts.filter(|it| (2..=3).contains(&it.len()))
        };
        let dotted = split('.').filter(|it| it.len() == 3);
        if let Some([day, month, year]) = dotted.as_deref() {
            return one_day(*year, *month, *day);
        }
        match split('-').or_else(|| split('/').filter(|it| it.len() == 3))?.as_slice() {
            [year, month, day] => one_day(*year, *month, *day),
            [year, month] if (1900..2100).contains(year) => {
                Some((month_of(i32::try_from(*year).ok()?, *month)?, 1))
            }
            _ => None,
        }
    }

    /// `in May`, `May 2023`, `8 May`, `May 8th, 2023`, `8th of May`, `last May`.
    fn month_named(&self, at: usize) -> Option<(Span, usize)> {
        // `8 May`, `8th of May`: the day comes first.
        if let Some(day) = day_in(self.word(at)) {
            let of = usize::from(self.word(at + 1) == "of");
            let month = self.month_at(at + 1 + of).filter(|it| it.1 || of == 1)?.0;
            return self.day_of(month, day, at + 2 + of, 2 + of);
        }
        let (month, is_sure) = self.month_at(at)?;
        if let Some(day) = day_in(self.word(at + 1)).filter(|_| is_sure) {
            return self.day_of(month, day, at + 2, 2);
        }
        let of = usize::from(self.word(at + 1) == "of");
        if let Some(year) = year_in(self.word(at + 1 + of)) {
            return Some((month_of(year, month)?, 2 + of));
        }
        let (year, this, _) = self.today.civil();
        match self.before(at) {
            "last" | "past" | "previous" => {
                Some((month_of(if month < this { year } else { year - 1 }, month)?, 1))
            }
            "this" => Some((month_of(year, month)?, 1)),
            "next" => Some((month_of(if month > this { year } else { year + 1 }, month)?, 1)),
            before if BEFORE.contains(&before) => Some((any_year(month), 1)),
            _ => None,
        }
    }

    /// A month by its name, and whether it can be nothing else.
    fn month_at(&self, at: usize) -> Option<(u32, bool)> {
        let word = self.words.get(at)?;
        let low = if word.low == "sept" { "sep" } else { &word.low };
        let found = MONTHS.iter().position(|it| it.0 == low || it.1 == low)?;
        let may_be_else = matches!(low, "may" | "march" | "mar" | "dec" | "jan" | "sep");
        Some((u32::try_from(found).ok()? + 1, !may_be_else || word.is_capital))
    }

    /// A day of a month, with the year at `at` where one stands there.
    fn day_of(&self, month: u32, day: u32, at: usize, length: usize) -> Option<(Span, usize)> {
        if let Some(year) = year_in(self.word(at)) {
            let day = Day::of(year, month, day)?;
            return Some((days(day, day), length + 1));
        }
        // A leap year has them all.
        Day::of(2000, month, day)?;
        Some((Span::Yearly { month, first: day, last: day }, length))
    }

    /// `yesterday`, `last week`, `this year`, `last Friday`, `on Monday`.
    fn relative(&self, at: usize) -> Option<(Span, usize)> {
        let today = self.today;
        let day = |later: i32| days(today.plus(later), today.plus(later));
        let one = |span| Some((span, 1));
        match (self.word(at), self.word(at + 1)) {
            ("today" | "tonight", _) => return one(day(0)),
            ("yesterday", _) if self.before(at) == "before" && at >= 2 => {
                return (self.word(at - 2) == "day").then(|| (day(-2), 1));
            }
            ("yesterday", _) => return one(day(-1)),
            ("tomorrow", _) => return one(day(1)),
            ("this", "morning" | "afternoon" | "evening") => return Some((day(0), 2)),
            ("last", "night") => return Some((days(today.plus(-1), today), 2)),
            ("last" | "past" | "previous", "weekend") => {
                let monday = today.plus(-today.weekday());
                return Some((days(monday.plus(-2), monday.plus(-1)), 2));
            }
            ("this", "weekend") => {
                let monday = today.plus(-today.weekday());
                return Some((days(monday.plus(5), monday.plus(6)), 2));
            }
            ("past", unit) => {
                let unit = unit_in(unit)?;
                return Some((days(today.plus(-unit.days()), today), 2));
            }
            _ => {}
        }
        let later = match self.word(at) {
            "last" | "previous" => -1,
            "this" | "current" => 0,
            "next" => 1,
            "on" => {
                let weekday = weekday_in(self.word(at + 1))?;
                let back = (today.weekday() - weekday).rem_euclid(7);
                return Some((day(-back), 2));
            }
            _ => return None,
        };
        let span = match self.word(at + 1) {
            "week" => week(today, later),
            "month" => month(today, later)?,
            "year" => year(today, later)?,
            other => {
                let weekday = weekday_in(other)?;
                let back = (today.weekday() - weekday).rem_euclid(7);
                match later {
                    -1 => day(if back == 0 { -7 } else { -back }),
                    0 => day(weekday - today.weekday()),
                    _ => day(7 - back),
                }
            }
        };
        Some((span, 2))
    }

    /// `3 days ago`, `a couple of weeks ago`, `the last two months`.
    fn counted(&self, at: usize) -> Option<(Span, usize)> {
        let is_back = matches!(self.word(at), "last" | "past" | "previous");
        let start = at + usize::from(is_back);
        let (count, mut length) = self.count_at(start)?;
        if self.word(start + length) == "of" {
            length += 1;
        }
        let unit = unit_in(self.word(start + length))?;
        if is_back {
            let from = self.today.plus(-count.saturating_mul(unit.days()));
            return Some((days(from, self.today), length + 2));
        }
        let is_ago = self.word(start + length + 1) == "ago";
        is_ago.then(|| ago(count, unit, self.today)).flatten().map(|it| (it, length + 2))
    }

    /// A number in words or figures, and how many words it takes.
    fn count_at(&self, at: usize) -> Option<(i32, usize)> {
        let word = self.word(at);
        if let Some(place) = NUMBERS.iter().position(|it| *it == word) {
            return Some((i32::try_from(place).ok()? + 1, 1));
        }
        match (word, self.word(at + 1)) {
            ("a", "couple") => Some((2, 2)),
            ("a", "few") => Some((3, 2)),
            ("couple", _) => Some((2, 1)),
            ("few", _) => Some((3, 1)),
            ("several", _) => Some((4, 1)),
            ("a" | "an", _) => Some((1, 1)),
            _ => Some((word.parse().ok().filter(|it| (1..1000).contains(it))?, 1)),
        }
    }

    /// `in 2023`, `the year 2023`.
    fn year_alone(&self, at: usize) -> Option<(Span, usize)> {
        let year = year_in(self.word(at))?;
        BEFORE.contains(&self.before(at)).then(|| year_of(year)).flatten().map(|it| (it, 1))
    }

    /// What `since`, `before` and the like make of the time that begins at `at`.
    fn bounded(&self, at: usize, span: Span) -> Option<Span> {
        let Span::Days { from, to } = span else { return Some(span) };
        let counted = |unit_at: usize| {
            let unit = unit_in(self.word(unit_at))?;
            let count = unit_at.checked_sub(1).and_then(|it| self.count_at(it));
            Some(unit.days().saturating_mul(count.map_or(1, |it| it.0)))
        };
        // `the day before yesterday` is read as a whole.
        if (self.before(at), self.word(at)) == ("before", "yesterday") {
            return Some(span);
        }
        let around = at.checked_sub(2).and_then(counted);
        match (self.before(at), around) {
            // `two weeks before 11 August`, `the week after`.
            ("before", Some(length)) => Some(days(from.plus(-length), to)),
            ("after", Some(length)) => Some(days(from, to.plus(length))),
            ("since" | "after", None) => Some(days(from, Day::MAX)),
            ("before" | "until" | "till", None) => Some(days(Day::MIN, to)),
            _ => Some(span),
        }
    }
}

fn one_day(year: u32, month: u32, day: u32) -> Option<(Span, usize)> {
    let day = Day::of(i32::try_from(year).ok().filter(|it| *it >= 1000)?, month, day)?;
    Some((days(day, day), 1))
}

fn figure(text: &str) -> Option<u32> {
    let is_figure = (1..=4).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
    is_figure.then(|| text.parse().ok()).flatten()
}

/// A year of our time.
fn year_in(word: &str) -> Option<i32> {
    let year = figure(word).filter(|_| word.len() == 4)?;
    i32::try_from(year).ok().filter(|it| (1900..2100).contains(it))
}

/// `8`, `8th`.
fn day_in(word: &str) -> Option<u32> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|it| word.strip_suffix(it));
    figure(digits.unwrap_or(word)).filter(|it| (1..=31).contains(it))
}

fn unit_in(word: &str) -> Option<Unit> {
    match word.strip_suffix('s').unwrap_or(word) {
        "day" => Some(Unit::Day),
        "week" => Some(Unit::Week),
        "month" => Some(Unit::Month),
        "year" => Some(Unit::Year),
        _ => None,
    }
}

fn weekday_in(word: &str) -> Option<i32> {
    let place = WEEKDAYS.iter().position(|it| *it == word)?;
    i32::try_from(place).ok()
}

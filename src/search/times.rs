//! The time that a question names.
//!
//! Pure. Takes the words and today, gives [`Times`]: stretches of days, and how near a note's day
//! is to them. A wish, not a filter: ranking turns it into a bounded part of the score.
//!
//! **Invariant:** the same words on the same day give the same times; a question that names no
//! time gives none.

mod cjk;
mod english;

use crate::base::calendar::{Day, days_in};

/// What of a question is read for times.
const LONGEST: usize = 4096;
/// The most stretches that one question names.
const MOST: usize = 8;
/// What a day just outside is near; less with every day farther.
const OUTSIDE: f32 = 0.5;
/// How many days around a stretch still are near it: at least, and at most.
const AROUND: (i32, i32) = (7, 14);

/// Days that a question names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Times {
    /// At least one.
    spans: Vec<Span>,
    /// What the question says beside.
    rest: String,
}

/// A stretch of days, its ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    Days {
        from: Day,
        to: Day,
    },
    /// These days of that month in any year.
    Yearly {
        month: u32,
        first: u32,
        last: u32,
    },
}

impl Times {
    /// The times that `text` names on the day `today`. What stands in double quotes is meant to the
    /// letter and names none.
    pub fn named(text: &str, today: Day) -> Option<Self> {
        let text = &text[..text.floor_char_boundary(LONGEST)];
        let (mut spans, mut rest) = (Vec::new(), String::new());
        let mut is_quoted = false;
        let parts: Vec<&str> = text.split('"').collect();
        for (at, part) in parts.iter().enumerate() {
            // The last quote has no partner.
            let is_last = at + 1 == parts.len();
            let mut left = (*part).to_owned();
            if !is_quoted || is_last {
                left = english::read(part, today, &mut spans);
                if !left.is_ascii() {
                    left = cjk::read(&left, today, &mut spans);
                }
            }
            rest.push_str(&left);
            rest.push(' ');
            is_quoted = !is_quoted;
        }
        let mut distinct: Vec<Span> = Vec::new();
        for span in spans {
            if !distinct.contains(&span) && distinct.len() < MOST {
                distinct.push(span);
            }
        }
        (!distinct.is_empty()).then_some(Self { spans: distinct, rest })
    }

    /// How near a day (`YYYY-MM-DD`) is: 1 for one that is meant, 0 for one that is far.
    pub fn nearness(&self, day: &str) -> f32 {
        let Some(day) = Day::read(day) else { return 0.0 };
        self.spans.iter().map(|it| it.nearness(day)).fold(0.0, f32::max)
    }

    /// For people.
    pub fn text(&self) -> String {
        let spans: Vec<String> = self.spans.iter().map(Span::text).collect();
        spans.join(", ")
    }

    /// What the question says beside its times.
    pub fn rest(&self) -> &str {
        &self.rest
    }
}

impl Span {
    fn nearness(&self, day: Day) -> f32 {
        match *self {
            Self::Days { from, to } => nearness(day, from, to),
            Self::Yearly { month, first, last } => {
                let year = day.civil().0;
                let in_year = |year: i32| {
                    let last = last.min(days_in(year, month));
                    let first = first.min(last);
                    Some(nearness(day, Day::of(year, month, first)?, Day::of(year, month, last)?))
                };
                (year - 1..=year + 1).filter_map(in_year).fold(0.0, f32::max)
            }
        }
    }

    fn text(&self) -> String {
        match *self {
            Self::Days { from, to } if from == to => from.to_string(),
            Self::Days { from: Day::MIN, to } => format!("until {to}"),
            Self::Days { from, to: Day::MAX } => format!("since {from}"),
            Self::Days { from, to } => format!("{from} to {to}"),
            Self::Yearly { month, first, last } if first == last => {
                format!("{month:02}-{first:02} of any year")
            }
            Self::Yearly { month, first, last } => {
                format!("{month:02}-{first:02} to {month:02}-{last:02} of any year")
            }
        }
    }
}

fn nearness(day: Day, from: Day, to: Day) -> f32 {
    let far = from.since(day).max(day.since(to));
    if far <= 0 {
        return 1.0;
    }
    let around = (to.since(from).saturating_add(1) / 2).clamp(AROUND.0, AROUND.1);
    let share = 1.0 - (far - 1) as f32 / around as f32;
    (OUTSIDE * share).max(0.0)
}

fn days(from: Day, to: Day) -> Span {
    Span::Days { from, to }
}

/// The week that a day lies in, Monday first, so many weeks later.
fn week(of: Day, later: i32) -> Span {
    let monday = of.plus(7 * later - of.weekday());
    days(monday, monday.plus(6))
}

/// The calendar month of a day, so many months later.
fn month(of: Day, later: i32) -> Option<Span> {
    let (year, month, _) = of.civil();
    let count = year.checked_mul(12)?.checked_add(i32::try_from(month).ok()? - 1)?;
    let count = count.checked_add(later)?;
    month_of(count.div_euclid(12), u32::try_from(count.rem_euclid(12)).ok()? + 1)
}

/// A month without a year.
fn any_year(month: u32) -> Span {
    // A leap year has all of its days.
    Span::Yearly { month, first: 1, last: days_in(2000, month) }
}

fn month_of(year: i32, month: u32) -> Option<Span> {
    Some(days(Day::of(year, month, 1)?, Day::of(year, month, days_in(year, month))?))
}

/// The calendar year of a day, so many years later.
fn year(of: Day, later: i32) -> Option<Span> {
    year_of(of.civil().0.checked_add(later)?)
}

fn year_of(year: i32) -> Option<Span> {
    Some(days(Day::of(year, 1, 1)?, Day::of(year, 12, 31)?))
}

/// So many of a unit before today.
fn ago(count: i32, unit: Unit, today: Day) -> Option<Span> {
    match unit {
        Unit::Day => {
            let day = today.plus(-count);
            Some(days(day, day))
        }
        Unit::Week => {
            let day = today.plus(count.saturating_mul(-7));
            Some(days(day.plus(-3), day.plus(3)))
        }
        Unit::Month => month(today, -count),
        Unit::Year => year(today, -count),
    }
}

/// How long a unit is, about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    fn days(self) -> i32 {
        match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 30,
            Self::Year => 365,
        }
    }
}

#[cfg(test)]
mod tests;

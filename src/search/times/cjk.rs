//! Times in Chinese, Japanese and Korean words, which no space sets off.
//!
//! Pure. **Invariant:** a number means a time only with its unit behind it.

use super::{Span, Unit, ago, any_year, days, month, month_of, week, year, year_of};
use crate::base::calendar::Day;

/// Adds the times that `text` names; gives the rest, where some are named without its spaces.
pub(super) fn read(text: &str, today: Day, spans: &mut Vec<Span>) -> String {
    let chars: Vec<char> = text.chars().filter(|it| !it.is_whitespace()).map(narrow).collect();
    let (mut at, mut rest, before) = (0, String::new(), spans.len());
    while at < chars.len() {
        let found = dated(&chars[at..]).or_else(|| counted(&chars[at..], today));
        let found = found.or_else(|| named(&chars[at..], today));
        match found {
            Some((span, length)) => {
                spans.extend(span);
                at += length.max(1);
            }
            // A number is read from its first figure.
            None if chars[at].is_ascii_digit() => {
                let figures = chars[at..].iter().take_while(|it| it.is_ascii_digit());
                rest.extend(figures.clone());
                at += figures.count();
            }
            None => {
                rest.push(chars[at]);
                at += 1;
            }
        }
    }
    if spans.len() == before { text.to_owned() } else { rest }
}

/// Full-width figures as the others.
fn narrow(char: char) -> char {
    match char {
        '０'..='９' => char::from(b'0' + u8::try_from(char as u32 - '０' as u32).unwrap_or(0)),
        it => it,
    }
}

/// A number in figures or up to 99 in Chinese, and how many characters it takes.
fn number(chars: &[char]) -> Option<(u32, usize)> {
    let figures: String = chars.iter().take_while(|it| it.is_ascii_digit()).collect();
    if !figures.is_empty() {
        return Some((figures.parse().ok()?, figures.len()));
    }
    let digit = |it: char| "一二三四五六七八九".chars().position(|known| known == it);
    let digit = |at: usize| match chars.get(at) {
        Some('两' | '兩') => Some(2),
        Some(it) => digit(*it).and_then(|it| u32::try_from(it).ok()).map(|it| it + 1),
        None => None,
    };
    let tens = digit(0);
    let ten_at = usize::from(tens.is_some());
    if chars.get(ten_at) != Some(&'十') {
        return tens.map(|it| (it, 1));
    }
    let ones = digit(ten_at + 1);
    let length = ten_at + 1 + usize::from(ones.is_some());
    Some((tens.unwrap_or(1) * 10 + ones.unwrap_or(0), length))
}

type Found = Option<(Option<Span>, usize)>;

/// `2023年`, `2023年5月`, `2023年5月8日`, `5月8日`, `5月`, and the same in Korean.
fn dated(chars: &[char]) -> Found {
    let part = |at: usize, units: &[char]| {
        let (value, length) = number(chars.get(at..)?)?;
        let unit = chars.get(at + length)?;
        units.contains(unit).then_some((value, at + length + 1))
    };
    let year = part(0, &['年', '년']).filter(|it| (1900..2100).contains(&it.0));
    let start = year.map_or(0, |it| it.1);
    let months = part(start, &['月', '월']).filter(|it| (1..=12).contains(&it.0));
    let of = |year: u32| i32::try_from(year).ok();
    let Some((month, after)) = months else {
        let (value, after) = year?;
        return Some((year_of(of(value)?), after));
    };
    let day = part(after, &['日', '号', '號', '일']).filter(|it| (1..=31).contains(&it.0));
    let Some((day, end)) = day else {
        let span = match year {
            Some((year, _)) => month_of(of(year)?, month),
            None => Some(any_year(month)),
        };
        return Some((span, after));
    };
    let span = match year {
        Some((year, _)) => Day::of(of(year)?, month, day).map(|it| days(it, it)),
        // A leap year has them all.
        None => Day::of(2000, month, day).map(|_| Span::Yearly { month, first: day, last: day }),
    };
    Some((span, end))
}

/// `三天前`, `2周前`, `两个月前`, `5年前`, `3일 전`.
fn counted(chars: &[char], today: Day) -> Found {
    let (count, at) = number(chars)?;
    let count = i32::try_from(count).ok().filter(|it| *it < 1000)?;
    let rest: String = chars.get(at..)?.iter().take(5).collect();
    const UNITS: [(&str, Unit); 20] = [
        ("天前", Unit::Day),
        ("天以前", Unit::Day),
        ("天之前", Unit::Day),
        ("日前", Unit::Day),
        ("일전", Unit::Day),
        ("周前", Unit::Week),
        ("週前", Unit::Week),
        ("周以前", Unit::Week),
        ("週間前", Unit::Week),
        ("个星期前", Unit::Week),
        ("個星期前", Unit::Week),
        ("个礼拜前", Unit::Week),
        ("주전", Unit::Week),
        ("个月前", Unit::Month),
        ("個月前", Unit::Month),
        ("ヶ月前", Unit::Month),
        ("か月前", Unit::Month),
        ("개월전", Unit::Month),
        ("年前", Unit::Year),
        ("년전", Unit::Year),
    ];
    let (text, unit) = UNITS.iter().find(|it| rest.starts_with(it.0))?;
    Some((ago(count, *unit, today), at + text.chars().count()))
}

/// `昨天`, `上周`, `先月`, `작년` and others of the kind.
fn named(chars: &[char], today: Day) -> Found {
    const DAYS: [(&str, i32); 17] = [
        ("大前天", -3),
        ("前天", -2),
        ("昨天", -1),
        ("昨晚", -1),
        ("今天", 0),
        ("今晚", 0),
        ("明天", 1),
        ("后天", 2),
        ("後天", 2),
        ("一昨日", -2),
        ("昨日", -1),
        ("今日", 0),
        ("明日", 1),
        ("그저께", -2),
        ("어제", -1),
        ("오늘", 0),
        ("내일", 1),
    ];
    const WEEKS: [(&str, i32); 19] = [
        ("上上周", -2),
        ("上上週", -2),
        ("上个星期", -1),
        ("上個星期", -1),
        ("上个礼拜", -1),
        ("上星期", -1),
        ("上礼拜", -1),
        ("上周", -1),
        ("上週", -1),
        ("先週", -1),
        ("지난주", -1),
        ("这个星期", 0),
        ("这星期", 0),
        ("这周", 0),
        ("這週", 0),
        ("本周", 0),
        ("今週", 0),
        ("이번주", 0),
        ("下周", 1),
    ];
    const MONTHS: [(&str, i32); 13] = [
        ("上上个月", -2),
        ("上个月", -1),
        ("上個月", -1),
        ("上月", -1),
        ("先月", -1),
        ("지난달", -1),
        ("这个月", 0),
        ("這個月", 0),
        ("本月", 0),
        ("今月", 0),
        ("이번달", 0),
        ("下个月", 1),
        ("下個月", 1),
    ];
    const YEARS: [(&str, i32); 9] = [
        ("前年", -2),
        ("去年", -1),
        ("昨年", -1),
        ("작년", -1),
        ("今年", 0),
        ("올해", 0),
        ("明年", 1),
        ("来年", 1),
        ("내년", 1),
    ];
    let text: String = chars.iter().take(4).collect();
    let of = |table: &'static [(&'static str, i32)]| {
        let found = table.iter().find(|it| text.starts_with(it.0))?;
        Some((found.1, found.0.chars().count()))
    };
    if let Some((later, length)) = of(&DAYS) {
        let day = today.plus(later);
        return Some((Some(days(day, day)), length));
    }
    if let Some((later, length)) = of(&WEEKS) {
        // `上周五`: a day of that week.
        let of_week =
            chars.get(length).and_then(|it| "一二三四五六日".chars().position(|at| at == *it));
        let of_week = of_week.or_else(|| (chars.get(length) == Some(&'天')).then_some(6));
        let span = match of_week.and_then(|it| i32::try_from(it).ok()) {
            Some(weekday) => {
                let day = today.plus(7 * later - today.weekday() + weekday);
                days(day, day)
            }
            None => week(today, later),
        };
        return Some((Some(span), length + usize::from(of_week.is_some())));
    }
    if let Some((later, length)) = of(&MONTHS) {
        return Some((month(today, later), length));
    }
    of(&YEARS).map(|(later, length)| (year(today, later), length))
}

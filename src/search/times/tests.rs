//! What names a time, and what does not.

use super::*;

/// A Monday.
fn today() -> Day {
    Day::read("2026-11-30").unwrap()
}

fn check(text: &str, expected: &str) {
    let found = Times::named(text, today()).map_or_else(String::new, |it| it.text());
    assert_eq!(found, expected, "{text}");
}

#[test]
fn figures_name_a_day_a_month_a_year() {
    check("what was decided on 2023-05-08?", "2023-05-08");
    check("notes of 2023/05/08", "2023-05-08");
    check("am 8.5.2023", "2023-05-08");
    check("budget for 2023-05", "2023-05-01 to 2023-05-31");
    check("what happened in 2023", "2023-01-01 to 2023-12-31");
    check("revenue in Q3 2023", "2023-07-01 to 2023-09-30");
    for none in [
        "2023-02-29",
        "error 2023",
        "version 1.2.3",
        "memory/2023-05-08/plan.md and more",
        "10-20 people",
        "RFC 2026 of the IETF",
        "ids 12345678901234567890 and more",
        "\"on 2023-05-08\" in the log",
    ] {
        check(none, "");
    }
}

#[test]
fn months_have_a_year_a_day_or_a_word_before() {
    check("what did Gina buy in May 2023?", "2023-05-01 to 2023-05-31");
    check("in may 2023", "2023-05-01 to 2023-05-31");
    check("the trip on 3 June", "06-03 of any year");
    check("the trip on June 3rd", "06-03 of any year");
    check("Who had dinner on May 3, 2023?", "2023-05-03");
    check("on the 8th of May 2023", "2023-05-08");
    check("camping in June?", "06-01 to 06-30 of any year");
    check("the end of Sept. 2023", "2023-09-01 to 2023-09-30");
    check("last May", "2026-05-01 to 2026-05-31");
    check("last December", "2025-12-01 to 2025-12-31");
    check("this November", "2026-11-01 to 2026-11-30");
    check("between May 2023 and July 2023", "2023-05-01 to 2023-05-31, 2023-07-01 to 2023-07-31");
    for none in ["may I ask", "which of the 5 may fail", "the march of time", "mayonnaise", "May"] {
        check(none, "");
    }
    check("on February 30", "");
}

#[test]
fn words_count_from_today() {
    check("what did we do yesterday", "2026-11-29");
    check("the day before yesterday", "2026-11-28");
    check("today's plan", "2026-11-30");
    check("last week", "2026-11-23 to 2026-11-29");
    check("this week", "2026-11-30 to 2026-12-06");
    check("LAST MONTH?", "2026-10-01 to 2026-10-31");
    check("last year", "2025-01-01 to 2025-12-31");
    check("past week", "2026-11-23 to 2026-11-30");
    check("in the last three days", "2026-11-27 to 2026-11-30");
    check("over the past 2 months", "2026-10-01 to 2026-11-30");
    check("3 days ago", "2026-11-27");
    check("two weeks ago", "2026-11-13 to 2026-11-19");
    check("a month ago", "2026-10-01 to 2026-10-31");
    check("a couple of years ago", "2024-01-01 to 2024-12-31");
    check("last weekend", "2026-11-28 to 2026-11-29");
    check("last Friday", "2026-11-27");
    check("last Monday", "2026-11-23");
    check("on Monday", "2026-11-30");
    check("last night", "2026-11-29 to 2026-11-30");
    for none in ["the last time", "next to the door", "a day of rest", "weekly", "ago", "last"] {
        check(none, "");
    }
}

#[test]
fn since_and_before_are_open_and_counted_ones_are_not() {
    check("since May 2023", "since 2023-05-01");
    check("before 3 June 2023", "until 2023-06-03");
    check("after 2023-06-03", "since 2023-06-03");
    check("two weeks before August 11, 2023", "2023-07-28 to 2023-08-11");
    check("the week after 11 August 2023", "2023-08-11 to 2023-08-18");
}

#[test]
fn other_scripts_name_times_too() {
    check("昨天开会说了什么", "2026-11-29");
    check("上周的会议", "2026-11-23 to 2026-11-29");
    check("上周五讨论", "2026-11-27");
    check("上个月的计划", "2026-10-01 to 2026-10-31");
    check("去年买的车", "2025-01-01 to 2025-12-31");
    check("2023年5月", "2023-05-01 to 2023-05-31");
    check("２０２３年５月８日の会議", "2023-05-08");
    check("五月三日", "05-03 of any year");
    check("十二月", "12-01 to 12-31 of any year");
    check("三天前", "2026-11-27");
    check("两个月前", "2026-09-01 to 2026-09-30");
    check("2年前", "2024-01-01 to 2024-12-31");
    check("先週の会議", "2026-11-23 to 2026-11-29");
    check("昨日の夕食", "2026-11-29");
    check("어제 회의", "2026-11-29");
    check("2023년 5월 8일", "2023-05-08");
    for none in ["机器学习", "三个人", "一月", "東京都庁", "月", "年"] {
        let expected = if none == "一月" { "01-01 to 01-31 of any year" } else { "" };
        check(none, expected);
    }
}

#[test]
fn nearness_ends() {
    let times = Times::named("in May 2023", today()).unwrap();
    let near = |day: &str| times.nearness(day);
    assert_eq!((near("2023-05-01"), near("2023-05-31")), (1.0, 1.0));
    assert_eq!(near("2023-06-01"), 0.5);
    assert!(near("2023-06-10") > 0.0 && near("2023-06-10") < near("2023-06-02"));
    assert_eq!((near("2023-07-01"), near("2022-05-10"), near("no day")), (0.0, 0.0, 0.0));
    let yearly = Times::named("on 31 December", today()).unwrap();
    assert_eq!((yearly.nearness("2020-12-31"), yearly.nearness("2021-01-01")), (1.0, 0.5));
    let leap = Times::named("on 29 February", today()).unwrap();
    assert_eq!((leap.nearness("2024-02-29"), leap.nearness("2023-02-28")), (1.0, 1.0));
}

#[test]
fn whatever_the_text_it_is_bounded() {
    for text in
        ["1".repeat(1 << 20), "上".repeat(1 << 18), "last ".repeat(1 << 18), "十".repeat(99)]
    {
        Times::named(&text, today());
    }
    let many: String = (1..60).map(|it| format!("in {} ", 1900 + it)).collect();
    assert_eq!(Times::named(&many, today()).unwrap().spans.len(), MOST);
    let far = Day::read("0000-01-01").unwrap();
    for text in ["999 years ago", "last year", "999 months ago", "last 999 years"] {
        Times::named(text, far);
    }
}

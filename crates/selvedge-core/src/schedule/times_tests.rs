//! Times over the changes of clocks by a written table, leap days, and the agreement of both directions.

use super::*;

fn millis(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().expect("is a time").as_millisecond()
}

fn at(text: &str) -> Timestamp {
    Timestamp::from_millis(millis(text))
}

fn cron(expression: &str, time_zone: &str) -> Times {
    let timing = Timing::Cron { expression: expression.into(), time_zone: time_zone.into() };
    Times::new(&timing, Timestamp::default()).expect("is valid")
}

fn text(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.millis()).expect("is representable").to_string()
}

/// Returns the times after one and until another, by steps forward, and checks that steps back find the same.
fn between(times: &Times, after: &str, until: &str) -> Vec<String> {
    let (after, until) = (at(after), at(until));
    let mut found = Vec::new();
    let mut position = after;
    while let Some(next) = times.next_after(position).filter(|next| *next <= until) {
        found.push(next);
        position = next;
    }
    let mut back = Vec::new();
    let mut position = until;
    while let Some(last) = times.last_until(position).filter(|last| *last > after) {
        back.push(last);
        position = Timestamp::from_millis(last.millis() - 1);
    }
    back.reverse();
    assert_eq!(found, back, "both directions agree");
    found.into_iter().map(text).collect()
}

/// Zone, expression, after, until, and all times in between, on the days on which clocks change.
const CHANGES: &[(&str, &str, &str, &str, &[&str])] = &[
    // Forward: 02:00 to 03:00 on 2026-03-29, at 01:00Z.
    (
        "Europe/Berlin",
        "30 2 * * *",
        "2026-03-27T12:00:00Z",
        "2026-03-30T12:00:00Z",
        &["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
    ),
    (
        "Europe/Berlin",
        "*/15 2 * * *",
        "2026-03-28T12:00:00Z",
        "2026-03-29T12:00:00Z",
        &["2026-03-29T01:00:00Z"],
    ),
    (
        "Europe/Berlin",
        "*/30 * * * *",
        "2026-03-28T23:59:00Z",
        "2026-03-29T02:00:00Z",
        &[
            "2026-03-29T00:00:00Z",
            "2026-03-29T00:30:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-29T01:30:00Z",
            "2026-03-29T02:00:00Z",
        ],
    ),
    // Back: 03:00 to 02:00 on 2026-10-25, at 01:00Z.
    (
        "Europe/Berlin",
        "30 2 * * *",
        "2026-10-24T12:00:00Z",
        "2026-10-26T12:00:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
    ),
    (
        "Europe/Berlin",
        "0 1-4 * * *",
        "2026-10-24T12:00:00Z",
        "2026-10-25T12:00:00Z",
        &["2026-10-24T23:00:00Z", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"],
    ),
    (
        "Europe/Berlin",
        "0 * * * *",
        "2026-10-24T23:30:00Z",
        "2026-10-25T03:00:00Z",
        &["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"],
    ),
    // Forward: 02:00 to 03:00 on 2026-03-08, at 07:00Z.
    (
        "America/New_York",
        "15 2 * * *",
        "2026-03-07T12:00:00Z",
        "2026-03-09T12:00:00Z",
        &["2026-03-08T07:00:00Z", "2026-03-09T06:15:00Z"],
    ),
    // Back: 02:00 to 01:00 on 2026-11-01, at 06:00Z.
    (
        "America/New_York",
        "30 1 * * *",
        "2026-10-31T12:00:00Z",
        "2026-11-02T12:00:00Z",
        &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
    ),
    (
        "America/New_York",
        "0 2 * * *",
        "2026-10-31T12:00:00Z",
        "2026-11-01T12:00:00Z",
        &["2026-11-01T07:00:00Z"],
    ),
    (
        "America/New_York",
        "30 * * * *",
        "2026-11-01T04:00:00Z",
        "2026-11-01T08:00:00Z",
        &["2026-11-01T04:30:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-01T07:30:00Z"],
    ),
    // Forward by half an hour: 02:00 to 02:30 on 2026-10-04, at 2026-10-03T15:30Z.
    (
        "Australia/Lord_Howe",
        "15 2 * * *",
        "2026-10-02T18:00:00Z",
        "2026-10-05T00:00:00Z",
        &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
    ),
    (
        "Australia/Lord_Howe",
        "45 2 * * *",
        "2026-10-02T18:00:00Z",
        "2026-10-04T00:00:00Z",
        &["2026-10-03T15:45:00Z"],
    ),
    // Back by half an hour: 02:00 to 01:30 on 2026-04-05, at 2026-04-04T15:00Z.
    (
        "Australia/Lord_Howe",
        "45 1 * * *",
        "2026-04-04T00:00:00Z",
        "2026-04-06T00:00:00Z",
        &["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"],
    ),
    (
        "Australia/Lord_Howe",
        "*/15 * * * *",
        "2026-04-04T14:15:00Z",
        "2026-04-04T15:45:00Z",
        &[
            "2026-04-04T14:30:00Z",
            "2026-04-04T14:45:00Z",
            "2026-04-04T15:00:00Z",
            "2026-04-04T15:15:00Z",
            "2026-04-04T15:30:00Z",
            "2026-04-04T15:45:00Z",
        ],
    ),
    // No change of clocks, and an offset of 5:45.
    (
        "Asia/Kathmandu",
        "30 2 * * *",
        "2026-03-28T00:00:00Z",
        "2026-03-30T00:00:00Z",
        &["2026-03-28T20:45:00Z", "2026-03-29T20:45:00Z"],
    ),
    // Clocks were set back at one minute past midnight, into the day before.
    (
        "America/St_Johns",
        "0,30 0,23 * * *",
        "2010-11-06T20:00:00Z",
        "2010-11-07T12:00:00Z",
        &["2010-11-07T01:30:00Z", "2010-11-07T02:00:00Z", "2010-11-07T02:30:00Z", "2010-11-07T04:00:00Z"],
    ),
    // A day that never was: 2011-12-30.
    (
        "Pacific/Apia",
        "0 12 * * *",
        "2011-12-29T00:00:00Z",
        "2012-01-01T00:00:00Z",
        &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"],
    ),
];

#[test]
fn cron_times_follow_the_table_where_clocks_change() {
    for (zone, expression, after, until, expected) in CHANGES {
        assert_eq!(between(&cron(expression, zone), after, until), *expected, "{expression} in {zone}");
    }
}

#[test]
fn a_leap_day_is_found_over_a_century_without_one() {
    let leap = cron("0 0 29 2 *", "UTC");
    let found = between(&leap, "2024-01-01T00:00:00Z", "2033-01-01T00:00:00Z");
    assert_eq!(found, ["2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
    let next = leap.next_after(at("2096-03-01T00:00:00Z")).map(text);
    assert_eq!(next.as_deref(), Some("2104-02-29T00:00:00Z"));
    let last = leap.last_until(at("2104-02-28T00:00:00Z")).map(text);
    assert_eq!(last.as_deref(), Some("2096-02-29T00:00:00Z"));
}

#[test]
fn either_day_field_suffices_if_both_are_restricted() {
    let found = between(&cron("0 0 13 * 5", "UTC"), "2026-02-10T00:00:00Z", "2026-03-01T00:00:00Z");
    assert_eq!(found, ["2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z"]);
}

#[test]
fn an_interval_counts_elapsed_time_from_its_anchor() {
    let timing = Timing::Interval { interval_ms: 90_000 };
    let times = Times::new(&timing, at("2026-03-29T00:59:00.250Z")).expect("is valid");
    let found = between(&times, "2026-03-29T00:00:00Z", "2026-03-29T01:04:00Z");
    assert_eq!(found, ["2026-03-29T01:00:30.25Z", "2026-03-29T01:02:00.25Z", "2026-03-29T01:03:30.25Z"]);
    for interval_ms in [999, 0, -5, 366 * 24 * 3600 * 1000 + 1] {
        let wrong = Times::new(&Timing::Interval { interval_ms }, Timestamp::default());
        assert!(matches!(wrong, Err(WrongTiming::Interval(_))), "{interval_ms}");
    }
}

#[test]
fn unknown_zones_and_expressions_are_refused() {
    let timing = |expression: &str, time_zone: &str| {
        let timing = Timing::Cron { expression: expression.into(), time_zone: time_zone.into() };
        Times::new(&timing, Timestamp::default()).map(drop)
    };
    assert!(matches!(timing("* * * * *", "Mars/Olympus"), Err(WrongTiming::TimeZone(_))));
    assert!(matches!(timing("* * *", "UTC"), Err(WrongTiming::Expression(_))));
    assert_eq!(timing("* * * * *", "Europe/Berlin"), Ok(()));
}

#[test]
fn the_end_of_the_calendar_is_the_end_of_the_times() {
    let yearly = cron("0 0 1 1 *", "UTC");
    assert_eq!(yearly.next_after(at("9999-06-01T00:00:00Z")), None);
    assert_eq!(
        yearly.last_until(at("1970-01-01T00:00:00Z")).map(text).as_deref(),
        Some("1970-01-01T00:00:00Z")
    );
    assert_eq!(cron("0 0 2 1 *", "UTC").last_until(at("1970-01-01T00:00:00Z")), None);
}

#[test]
fn both_directions_agree_on_every_day_of_a_year_in_many_zones() {
    let zones = ["Africa/Casablanca", "America/Sao_Paulo", "Asia/Tehran", "Europe/Dublin", "Pacific/Chatham"];
    for zone in zones {
        for expression in ["37 */5 * * *", "0 0 * * *", "30 23 * * 6"] {
            let found = between(&cron(expression, zone), "2018-01-01T00:00:00Z", "2019-01-01T00:00:00Z");
            assert!(found.len() >= 50, "{expression} in {zone}: {}", found.len());
        }
    }
}

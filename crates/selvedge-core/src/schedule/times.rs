//! The times of a schedule: a cron expression in a time zone, or an interval. Pure: a time is passed in, none is read.
//!
//! Cron times are local times of a zone from the IANA database, which is part of the program. Where the clocks of the zone change:
//!
//! - A time that does not exist fires at the first instant after the gap. Several such times fire once.
//! - A time that occurs twice fires at its first occurrence. If the hour field admits every hour, it fires at both: such an
//!   expression means "every n minutes".
//!
//! An interval counts elapsed time from its anchor, whatever clocks do. All times are whole milliseconds.

use super::cron::Cron;
use crate::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};

/// The shortest and the longest interval, in milliseconds.
pub const INTERVAL_MS: std::ops::RangeInclusive<i64> = 1000..=366 * 24 * 3600 * 1000;
/// The number of days in which a time is searched: the 29th of February may be missing for eight years.
const SEARCH_DAYS: u32 = 9 * 366;
const MINUTE_MS: i64 = 60_000;

/// The times at which a schedule fires, as a store keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// At the times of a cron expression.
    Cron {
        /// The expression, as the caller gave it.
        expression: String,
        /// The name of the time zone in the IANA database.
        time_zone: String,
    },
    /// Again and again after the same time.
    Interval {
        /// The time between two firings, in milliseconds.
        interval_ms: i64,
    },
}

/// The times of a schedule, ready to be asked.
#[derive(Clone, Debug)]
pub enum Times {
    Cron(Cron, TimeZone),
    /// See [`Timing::Interval`]: the interval and the anchor, in milliseconds.
    Interval(i64, i64),
}

/// A part of [`Timing`] that is wrong, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongTiming {
    Expression(String),
    TimeZone(String),
    Interval(String),
}

impl Times {
    /// Reads a timing. An interval counts from `anchor`.
    pub fn new(timing: &Timing, anchor: Timestamp) -> Result<Times, WrongTiming> {
        match timing {
            Timing::Cron { expression, time_zone } => {
                let cron = Cron::parse(expression).map_err(WrongTiming::Expression)?;
                let zone = TimeZoneDatabase::bundled().get(time_zone).map_err(|_| {
                    let why = format!("is {time_zone:?}, which the IANA database does not have");
                    WrongTiming::TimeZone(why)
                })?;
                Ok(Times::Cron(cron, zone))
            }
            Timing::Interval { interval_ms } if INTERVAL_MS.contains(interval_ms) => {
                Ok(Times::Interval(*interval_ms, anchor.millis()))
            }
            Timing::Interval { interval_ms } => {
                let (least, most) = (INTERVAL_MS.start(), INTERVAL_MS.end());
                let why = format!("is {interval_ms}; it must be between {least} and {most}");
                Err(WrongTiming::Interval(why))
            }
        }
    }

    /// Returns the first time after `after`. None if the calendar ends before.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = after.millis();
        match self {
            Times::Interval(every, anchor) => {
                let passed = (after - anchor).div_euclid(*every).max(0);
                representable(anchor + (passed + 1) * every)
            }
            Times::Cron(cron, zone) => next_cron(cron, zone, after).and_then(representable),
        }
    }

    /// Returns the last time that is not after `until`. None if there is none.
    pub fn last_until(&self, until: Timestamp) -> Option<Timestamp> {
        let until = until.millis();
        match self {
            Times::Interval(every, anchor) => {
                let passed = (until - anchor).div_euclid(*every);
                (passed >= 1).then(|| anchor + passed * every).and_then(representable)
            }
            Times::Cron(cron, zone) => last_cron(cron, zone, until).and_then(representable),
        }
    }
}

fn representable(millis: i64) -> Option<Timestamp> {
    let at = Timestamp::from_millis(millis);
    (at.millis() == millis).then_some(at)
}

/// Returns the local date and time of an instant.
fn local(zone: &TimeZone, millis: i64) -> Option<DateTime> {
    let at = jiff::Timestamp::from_millisecond(millis).ok()?;
    Some(zone.to_offset(at).to_datetime(at))
}

fn next_cron(cron: &Cron, zone: &TimeZone, after: i64) -> Option<i64> {
    let here = local(zone, after)?;
    // The day before may have times that the change of clocks moves behind this one.
    let mut date = here.date().yesterday().ok()?;
    for _ in 0..SEARCH_DAYS {
        if !cron.has_month(date.month()) {
            date = date.last_of_month().tomorrow().ok()?;
            continue;
        }
        if let Some(first) = first_of_day(cron, zone, date, after) {
            // The next day may begin before this one ends, where clocks are set back over midnight.
            let next_day = date.tomorrow().ok().and_then(|date| first_of_day(cron, zone, date, after));
            return Some(next_day.map_or(first, |other| first.min(other)));
        }
        date = date.tomorrow().ok()?;
    }
    None
}

fn last_cron(cron: &Cron, zone: &TimeZone, until: i64) -> Option<i64> {
    let here = local(zone, until)?;
    let mut date = here.date().tomorrow().ok()?;
    for _ in 0..SEARCH_DAYS {
        if !cron.has_month(date.month()) {
            date = date.first_of_month().yesterday().ok()?;
            continue;
        }
        if let Some(last) = last_of_day(cron, zone, date, until) {
            let day_before = date.yesterday().ok().and_then(|date| last_of_day(cron, zone, date, until));
            return Some(day_before.map_or(last, |other| last.max(other)));
        }
        date = date.yesterday().ok()?;
    }
    None
}

fn matches(cron: &Cron, date: Date) -> bool {
    cron.has_day(date.month(), date.day(), date.weekday().to_sunday_zero_offset())
}

/// Returns the instant at which a day begins, if its clocks do not change on it and it has 24 hours.
fn plain_day(zone: &TimeZone, date: Date) -> Option<i64> {
    let midnight = |date: Date| {
        let at = date.to_datetime(jiff::civil::Time::midnight());
        match zone.to_ambiguous_timestamp(at).offset() {
            AmbiguousOffset::Unambiguous { offset } => Some((offset, offset.to_timestamp(at).ok()?)),
            AmbiguousOffset::Gap { .. } | AmbiguousOffset::Fold { .. } => None,
        }
    };
    let ((offset, from), (next_offset, to)) = (midnight(date)?, midnight(date.tomorrow().ok()?)?);
    let unchanged =
        offset == next_offset && zone.following(from).next().is_none_or(|one| one.timestamp() > to);
    unchanged.then(|| from.as_millisecond())
}

/// Returns the first time of a day after `after`.
fn first_of_day(cron: &Cron, zone: &TimeZone, date: Date, after: i64) -> Option<i64> {
    if !matches(cron, date) {
        return None;
    }
    if let Some(begin) = plain_day(zone, date) {
        let minute = (after - begin).div_euclid(MINUTE_MS) + 1;
        let minute = u32::try_from(minute.clamp(0, 1440)).ok()?;
        return cron.first_minute_from(minute).map(|minute| begin + i64::from(minute) * MINUTE_MS);
    }
    instants(cron, zone, date).filter(|at| *at > after).min()
}

/// Returns the last time of a day that is not after `until`.
fn last_of_day(cron: &Cron, zone: &TimeZone, date: Date, until: i64) -> Option<i64> {
    if !matches(cron, date) {
        return None;
    }
    if let Some(begin) = plain_day(zone, date) {
        let minute = (until - begin).div_euclid(MINUTE_MS).min(1439);
        let minute = u32::try_from(minute).ok()?;
        return cron.last_minute_until(minute).map(|minute| begin + i64::from(minute) * MINUTE_MS);
    }
    instants(cron, zone, date).filter(|at| *at <= until).max()
}

/// Iterates over the instants of a matching day on which clocks change.
fn instants(cron: &Cron, zone: &TimeZone, date: Date) -> impl Iterator<Item = i64> {
    let (twice, zone) = (cron.has_every_hour(), zone.clone());
    cron.minutes_of_day().flat_map(move |minute| {
        let at = date.at((minute / 60) as i8, (minute % 60) as i8, 0, 0);
        let [first, second] = match zone.to_ambiguous_timestamp(at).offset() {
            AmbiguousOffset::Unambiguous { offset } => [offset.to_timestamp(at).ok(), None],
            AmbiguousOffset::Fold { before, after } => {
                let second = after.to_timestamp(at).ok().filter(|_| twice);
                [before.to_timestamp(at).ok(), second]
            }
            // By the clocks after the change, the time lies before it.
            AmbiguousOffset::Gap { after, .. } => {
                let change = |at| zone.following(at).next().map(|change| change.timestamp());
                [after.to_timestamp(at).ok().and_then(change), None]
            }
        };
        [first, second].into_iter().flatten().map(jiff::Timestamp::as_millisecond)
    })
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;

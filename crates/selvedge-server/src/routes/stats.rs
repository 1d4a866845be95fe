//! Minute rollups by lane.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::json::{self, Object};
use crate::wire::paging::{invalid_cursor, is_hexadecimal, name_cursor, parse_name_cursor};
use crate::wire::problem::Problem;
use crate::wire::query::Query;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rollup::{KEPT_MS, Spread};
use selvedge_core::{Name, Timestamp};
use selvedge_engine::{LaneMinute, StatsQuery};

/// `GET /v1/stats`: the minutes of the last 24 hours, by minute and lane.
pub async fn list(caller: Caller, mut query: Query) -> HandlerResult {
    let lane = query.text("lane")?;
    let lane = lane.map(|lane| Name::parse("/query/lane", &lane, NAME_LIMIT)).transpose()?;
    let to = query.time("to")?;
    let from = query.time("from")?;
    let limit = query.limit()?;
    let after = query.text("cursor")?.map(|cursor| parse_cursor(&cursor)).transpose()?;
    query.finish()?;
    let now = caller.namespace.engine().store_time();
    // The minute that has begun is included.
    let to = to.unwrap_or(now.plus_ms(60_000)).min(now.plus_ms(60_000));
    let from = from.unwrap_or_default().max(now.minus_ms(KEPT_MS));
    let (minutes, more) = caller.namespace.stats(StatsQuery { lane, from, to, after, limit }).await?;
    let next_cursor = minutes.last().filter(|_| more).map(format_cursor);
    Ok(json::page(&minutes, next_cursor, |out, minute| json::object(out, |object| write(object, minute))))
}

fn write(object: &mut Object<'_>, minute: &LaneMinute) {
    let rollup = &minute.rollup;
    object.value("lane", &minute.lane);
    object.time("minute_at", Some(minute.minute_at));
    object.value("submitted", &rollup.submitted);
    object.value("started", &rollup.started);
    object.value("completed", &rollup.completed);
    object.value("failed", &rollup.failed);
    object.value("cancelled", &rollup.cancelled);
    object.value("expired", &rollup.expired);
    object.value("skipped", &rollup.skipped);
    object.value("retries", &rollup.retries);
    object.object("queue_ms", |object| write_spread(object, &rollup.queue));
    object.object("run_ms", |object| write_spread(object, &rollup.run));
}

/// Writes the distribution of durations, in milliseconds; null where there are none.
fn write_spread(object: &mut Object<'_>, spread: &Spread) {
    let ms = |micros: Option<u64>| micros.map(|micros| micros as f64 / 1000.0);
    object.value("count", &spread.count);
    object.value("mean", &ms(spread.mean_us()));
    object.value("p50", &ms(spread.quantile_us(0.5)));
    object.value("p95", &ms(spread.quantile_us(0.95)));
    object.value("max", &ms(Some(spread.max_us).filter(|_| spread.count > 0)));
}

/// Returns the cursor of an item: a version digit, the minute and the lane, in hexadecimal.
fn format_cursor(minute: &LaneMinute) -> String {
    let lane = minute.lane.as_ref().map_or("", Name::as_str);
    format!("1{:016x}{}", minute.minute_at.micros(), name_cursor(lane))
}

fn parse_cursor(cursor: &str) -> Result<(Timestamp, Option<Name>), Problem> {
    let digits = cursor.strip_prefix('1').filter(|digits| digits.len() >= 16 && is_hexadecimal(digits));
    let (minute, lane) = digits.ok_or_else(invalid_cursor)?.split_at(16);
    let minute = i64::from_str_radix(minute, 16).map_err(|_| invalid_cursor())?;
    let lane = parse_name_cursor(lane)?;
    let lane = (!lane.is_empty()).then(|| Name::trusted(&lane));
    Ok((Timestamp::from_micros(minute), lane))
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::rollup::Rollup;

    #[test]
    fn a_cursor_survives_its_text_and_anything_else_is_refused() {
        for lane in [None, Some(Name::trusted("ä lane"))] {
            let minute_at = Timestamp::from_millis(1_700_000_040_000);
            let minute = LaneMinute { minute_at, lane: lane.clone(), rollup: Rollup::default() };
            assert_eq!(parse_cursor(&format_cursor(&minute)).ok(), Some((minute_at, lane)));
        }
        for text in ["", "1", "x", "10000", "100000000000000zz", "2000000000000000061", "10000000000000000f"]
        {
            assert!(parse_cursor(text).is_err(), "{text}");
        }
    }
}

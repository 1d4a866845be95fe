//! Times: written as RFC 3339 in UTC with exactly three fraction digits.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::Pieces;
use selvedge_core::Timestamp;
use serde_json::Value;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Writes a time such as `2026-01-31T23:59:59.000Z`.
pub fn write(out: &mut Vec<u8>, time: Timestamp) {
    let at = EPOCH.checked_add(SignedDuration::from_millis(time.millis())).unwrap_or(DateTime::MAX);
    let mut digits = |value: i32, width: u32, after: u8| {
        for place in (0..width).rev() {
            out.push(b'0' + (value / 10_i32.pow(place) % 10) as u8);
        }
        out.push(after);
    };
    digits(at.year().into(), 4, b'-');
    digits(at.month().into(), 2, b'-');
    digits(at.day().into(), 2, b'T');
    digits(at.hour().into(), 2, b':');
    digits(at.minute().into(), 2, b':');
    digits(at.second().into(), 2, b'.');
    digits(at.millisecond().into(), 3, b'Z');
}

/// Formats a time as [`write()`] does.
pub fn text(time: Timestamp) -> String {
    let mut out = Vec::with_capacity(24);
    write(&mut out, time);
    String::from_utf8(out).expect("a time is written in ASCII")
}

/// Replaces the milliseconds in fields named `…_at` with text. Skips `usage`, whose names are chosen by callers.
pub fn format_fields(data: &mut Value) {
    match data {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut().filter(|(name, _)| *name != "usage") {
                match value.as_i64().filter(|_| name.ends_with("_at")) {
                    Some(millis) => *value = text(Timestamp::from_millis(millis)).into(),
                    None => format_fields(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(format_fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Parses an RFC 3339 time. Any offset is accepted, but none is assumed: text without an offset is refused.
pub fn parse(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let local = pieces.date().to_datetime(pieces.time()?);
    let offset = pieces.to_numeric_offset()?;
    let micros = local.duration_since(EPOCH).as_micros() - i128::from(offset.seconds()) * 1_000_000;
    Some(Timestamp::from_micros(i64::try_from(micros).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_time_survives_its_text() {
        for (written, read) in [
            ("2026-03-01T12:30:45.678Z", "2026-03-01T12:30:45.678Z"),
            ("1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999999Z"),
            ("2024-02-29T22:00:00.000Z", "2024-03-01T00:00:00+02:00"),
            ("2024-02-29T23:59:59.100Z", "2024-02-29T23:59:59.1Z"),
        ] {
            assert_eq!(text(parse(read).expect(read)), written);
        }
    }

    #[test]
    fn times_in_milliseconds_become_text_at_every_depth() {
        let mut data = json!({ "until_at": 0, "at": 5, "set": { "seen_at": "7" }, "list": [{ "x_at": 1000 }], "usage": { "x_at": 9 } });
        format_fields(&mut data);
        let expected = json!({
            "until_at": "1970-01-01T00:00:00.000Z", "at": 5, "set": { "seen_at": "7" },
            "list": [{ "x_at": "1970-01-01T00:00:01.000Z" }], "usage": { "x_at": 9 },
        });
        assert_eq!(data, expected);
    }

    #[test]
    fn text_that_is_not_a_time_is_refused() {
        for text in ["", "now", "2024-02-30T00:00:00Z", "2024-02-01", "2024-02-01T00:00:00", "1700000000"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

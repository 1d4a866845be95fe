//! Times for people: how long ago, and when exactly.

use jiff::Timestamp;

/// Returns the time of this machine in milliseconds. It is only used to say how long ago something was.
fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Returns the milliseconds of an RFC 3339 time.
fn parse(time: &str) -> Option<i64> {
    Some(time.parse::<Timestamp>().ok()?.as_millisecond())
}

/// Returns the milliseconds since a time; negative for one in the future.
pub fn since(time: &str) -> Option<i64> {
    Some(now_ms() - parse(time)?)
}

/// Returns how long ago a time was, such as `3m`; for one in the future `in 3m`. Empty without a time.
pub fn age(time: &str) -> String {
    match since(time) {
        Some(ago) if ago < 0 => format!("in {}", duration_ms(-ago)),
        Some(ago) => duration_ms(ago),
        None => String::new(),
    }
}

/// Returns how long ago a time was as part of a sentence, such as `3m ago`.
pub fn relative(time: &str) -> String {
    match since(time) {
        Some(ago) if ago < 0 => format!("in {}", duration_ms(-ago)),
        Some(ago) => format!("{} ago", duration_ms(ago)),
        None => String::new(),
    }
}

/// Returns a time absolutely and relatively, such as `2026-03-01 12:00:00.000Z (3m ago)`. Empty without a time.
pub fn when(time: &str) -> String {
    match time {
        "" => String::new(),
        time => format!("{} ({})", time.replacen('T', " ", 1), relative(time)),
    }
}

/// Returns the time between two times, until now if the second one is missing. Empty if the first one is.
pub fn elapsed(from: &str, to: &str) -> String {
    let Some(from) = parse(from) else { return String::new() };
    duration_ms((parse(to).unwrap_or_else(now_ms) - from).max(0))
}

/// Returns a duration with its two largest units, such as `1h 5m`, `42s` or `350ms`.
pub fn duration_ms(ms: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    if ms < 1_000 {
        return format!("{}ms", ms.max(0));
    }
    if ms < 10_000 {
        return format!("{}.{}s", ms / 1_000, ms % 1_000 / 100);
    }
    let Some(index) = UNITS.iter().position(|(unit, _)| ms >= *unit) else { return format!("{ms}ms") };
    let (unit, name) = UNITS[index];
    let rest = UNITS.get(index + 1).map(|(smaller, name)| (ms % unit / smaller, name));
    match rest {
        Some((rest, smaller)) if rest > 0 => format!("{}{name} {rest}{smaller}", ms / unit),
        _ => format!("{}{name}", ms / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_at_most_two_units() {
        for (ms, expected) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_540, "1.5s"),
            (42_900, "42s"),
            (60_000, "1m"),
            (3_900_000, "1h 5m"),
            (7 * 86_400_000 + 3_600_000, "7d 1h"),
        ] {
            assert_eq!(duration_ms(ms), expected);
        }
    }
}

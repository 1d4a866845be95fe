//! Durations on the command line: a whole number and its unit, such as `500ms`, `90s`, `30m`, `12h` or `7d`.

use std::time::Duration;

/// The units and their milliseconds. A unit that ends with another one comes before it.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 24 * 3_600_000)];

/// A hundred years, so that adding it to a time cannot overflow.
const LONGEST: &str = "36500d";

/// Parses a duration between 1 s and 36500 days. The error says what is allowed.
pub fn parse(text: &str) -> Result<Duration, String> {
    between("1s", LONGEST)(text)
}

/// Returns a parser of durations within bounds, which are durations too. The error says what is allowed.
pub fn between(
    least: &'static str,
    longest: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let malformed = || "write a whole number and its unit, for example 90s, 30m, 12h or 7d".to_owned();
        let given = milliseconds(text).ok_or_else(malformed)?;
        let bounds = milliseconds(least).zip(milliseconds(longest)).ok_or_else(malformed)?;
        match (bounds.0..=bounds.1).contains(&given) {
            true => Ok(Duration::from_millis(given)),
            false => Err(format!("must lie between {least} and {longest}")),
        }
    }
}

/// Returns the milliseconds of a duration, or as many as there are if they are too many to count.
fn milliseconds(text: &str) -> Option<u64> {
    let (digits, unit) = UNITS.iter().find_map(|(name, unit)| {
        let digits = text.strip_suffix(name)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some((digits, unit))
    })?;
    match digits {
        "" => None,
        digits => Some(digits.parse().unwrap_or(u64::MAX).saturating_mul(*unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_its_unit() {
        for (text, seconds) in [("1s", 1), ("30m", 1800), ("12h", 43_200), ("7d", 604_800), ("2000ms", 2)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "7",
            "d",
            "ms",
            "-7d",
            "+7d",
            "7 d",
            "7days",
            "1.5h",
            "0s",
            "999ms",
            "99999999999999999999d",
            "36501d",
            "7é",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(between("1ms", "1h")("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(between("1ms", "1h")("2h"), Err("must lie between 1ms and 1h".into()));
    }
}

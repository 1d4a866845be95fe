//! Durations on the command line: a whole number and its unit, such as `90s`, `30m`, `12h` or `7d`.

use std::time::Duration;

/// Parses a duration between 1 s and 36500 days. The error says what is allowed.
pub fn parse(text: &str) -> Result<Duration, String> {
    let malformed = || "write a whole number and its unit, for example 90s, 30m, 12h or 7d".to_owned();
    let (digits, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(malformed()),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed());
    }
    let count: u64 = digits.parse().map_err(|_| malformed())?;
    // A hundred years, so that adding it to a time cannot overflow.
    let longest = 100 * 365 * 24 * 3600;
    let seconds = count.checked_mul(seconds).filter(|seconds| (1..=longest).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "must lie between 1s and 36500d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_its_unit() {
        for (text, seconds) in [("1s", 1), ("30m", 1800), ("12h", 43_200), ("7d", 604_800)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "7",
            "d",
            "-7d",
            "+7d",
            "7 d",
            "7days",
            "1.5h",
            "0s",
            "99999999999999999999d",
            "36501d",
            "7é",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

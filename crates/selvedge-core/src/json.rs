//! The limits of JSON values that callers send: inputs, results, payloads, step results and frames.
//!
//! The engine keeps these values byte for byte and hands them to clients in other languages, so it accepts only what
//! the usual parsers read. Python's `json` fails on values nested a thousand deep and on integers with thousands of
//! digits, and one such value fails the whole response that contains it. JavaScript reads a number beyond the range of
//! a double as infinity. A number within that range is accepted even where a double cannot represent it exactly, as
//! 0.1 or 2^53 + 1.
//!
//! The check is one pass over the bytes. It neither recurses nor allocates, so it is safe for any input, and it runs
//! before the value is parsed.

use crate::Refusal;
use serde::de::DeserializeOwned;

/// The deepest nesting of arrays and objects.
pub const DEPTH_MAX: usize = 128;
/// The longest number, in characters. The exact decimal form of every double of at least 1e-200 is shorter.
pub const NUMBER_MAX: usize = 1000;
/// A number without an exponent up to this length is within the range of a double, which has up to 309 digits.
const SURELY_IN_RANGE: usize = 300;
/// The number of characters of a refused number that the refusal quotes.
const QUOTED: usize = 40;

/// Refuses a value that is nested deeper than [`DEPTH_MAX`], and a number that is longer than [`NUMBER_MAX`] or beyond
/// the range of a double. Does not check the syntax.
pub fn check_limits(pointer: &str, json: &[u8]) -> Result<(), Refusal> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = end_of_string(json, at + 1),
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    let detail = format!(
                        "nests deeper than {DEPTH_MAX} arrays and objects at byte {at}; nest at most {DEPTH_MAX}, or send \
                         the inner part as a string"
                    );
                    return Err(Refusal::field(pointer, detail));
                }
                at += 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let rest = &json[at..];
                let length = rest.iter().position(|byte| !is_part_of_number(*byte)).unwrap_or(rest.len());
                check_number(pointer, &rest[..length])?;
                at += length;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// Parses a value of any nesting that [`check_limits`] accepts, one level more than serde_json reads by default. A
/// value that was stored before there was a limit is parsed with the default limit.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    if check_limits("", json).is_ok() {
        deserializer.disable_recursion_limit();
    }
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Returns the position after the string whose first character is at `at`.
fn end_of_string(json: &[u8], mut at: usize) -> usize {
    while let Some(byte) = json.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    json.len()
}

fn is_part_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')
}

fn check_number(pointer: &str, number: &[u8]) -> Result<(), Refusal> {
    if number.len() > NUMBER_MAX {
        let detail = format!(
            "has a number of {} characters ({}); a number may have at most {NUMBER_MAX}: send it as a string",
            number.len(),
            quoted(number)
        );
        return Err(Refusal::field(pointer, detail));
    }
    let has_exponent = || number.iter().any(|byte| matches!(byte, b'e' | b'E'));
    if number.len() <= SURELY_IN_RANGE && !has_exponent() {
        return Ok(());
    }
    // Text that is not a number is left to the check of the syntax.
    let value = std::str::from_utf8(number).ok().and_then(|text| text.parse::<f64>().ok());
    match value.is_some_and(f64::is_infinite) {
        false => Ok(()),
        true => {
            let detail = format!(
                "has the number {}, which is beyond the range of a double (about 1.8e308); send it as a string",
                quoted(number)
            );
            Err(Refusal::field(pointer, detail))
        }
    }
}

/// Returns the beginning of a number for a refusal.
fn quoted(number: &[u8]) -> String {
    let text = String::from_utf8_lossy(&number[..number.len().min(QUOTED)]);
    if number.len() > QUOTED { format!("{text}…") } else { text.into_owned() }
}

/// Keeps JSON as text inside of a stored document, byte for byte.
pub(crate) mod as_text {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer, de::Error, ser::Error as _};

    pub fn serialize<S: Serializer>(json: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(json).map_err(S::Error::custom)?)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer).map_err(D::Error::custom)?;
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn nested(depth: usize) -> Vec<u8> {
        [b"[".repeat(depth), b"]".repeat(depth)].concat()
    }

    fn refused(json: &[u8]) -> bool {
        match check_limits("/input", json) {
            Ok(()) => false,
            Err(Refusal::InvalidField { pointer, .. }) => pointer == "/input",
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_value_nests_at_most_128_deep() {
        assert!(!refused(&nested(DEPTH_MAX)));
        assert!(refused(&nested(DEPTH_MAX + 1)));
        assert!(refused(&nested(500_000)));
        let objects = |depth: usize| ["{\"a\":".repeat(depth), "1".into(), "}".repeat(depth)].concat();
        assert!(!refused(objects(DEPTH_MAX).as_bytes()));
        assert!(refused(objects(DEPTH_MAX + 1).as_bytes()));
        let siblings = format!("[{}]", ["[[]]"; 1000].join(","));
        assert!(!refused(siblings.as_bytes()));
    }

    #[test]
    fn brackets_and_digits_in_strings_do_not_count() {
        let deep = "[".repeat(1000);
        for text in [format!("\"{deep}\""), format!("\"\\\"{deep}\""), format!("[\"\\\\\", \"{deep}\"]")] {
            assert!(!refused(text.as_bytes()), "{text}");
        }
        assert!(refused(format!("[\"\\\\\", {deep}]").as_bytes()));
        assert!(!refused(format!("{{\"{}\": \"1e999\"}}", "9".repeat(5000)).as_bytes()));
    }

    #[test]
    fn a_number_must_be_within_the_range_of_a_double() {
        let digits = |count: usize| "9".repeat(count);
        for number in ["0", "-0.5", "1e308", "-1.7976931348623157e308", "1E-400", "12345678901234567890123"] {
            assert!(!refused(number.as_bytes()), "{number}");
        }
        for number in [digits(308), format!("0.{}", digits(998)), format!("1{}", "0".repeat(308))] {
            assert!(!refused(number.as_bytes()), "{number}");
        }
        for number in ["1e309", "1e400", "-1e400", "1.8e+308", "1e99999999999999999999"] {
            assert!(refused(number.as_bytes()), "{number}");
            assert!(refused(format!("{{\"a\": [true, {number}]}}").as_bytes()), "{number}");
        }
        for number in [digits(309), digits(5000), format!("0.{}", digits(999)), format!("-{}", digits(400))] {
            assert!(refused(number.as_bytes()), "{number}");
        }
    }

    #[test]
    fn every_accepted_value_can_be_parsed() {
        assert!(parse::<Value>(&nested(DEPTH_MAX)).is_ok());
        assert!(parse::<Value>(&nested(500_000)).is_err());
        assert!(parse::<Value>(b"[1] 2").is_err());
        assert_eq!(parse::<Vec<u8>>(b" [1, 2] ").expect("an array of numbers"), [1, 2]);
    }
}

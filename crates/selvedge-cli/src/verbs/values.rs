//! Values on the command line: JSON, pairs, durations, rates, limits.

use crate::duration;
use crate::failure::Failure;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::time::Duration;

/// Reads JSON from an argument: the text itself, `@FILE`, or `-` for standard input.
pub fn json_argument(argument: &str, what: &str) -> Result<Box<RawValue>, Failure> {
    let text = match argument {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::Failed(format!("cannot read standard input: {error}")))?;
            text
        }
        argument => match argument.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| Failure::Failed(format!("cannot read {file}: {error}")))?,
            None => argument.to_owned(),
        },
    };
    serde_json::from_str(text.trim()).map_err(|error| {
        let hint = match argument.starts_with(['@', '-']) {
            true => String::new(),
            false => format!("; write a text with quotes: '{}'", json!(argument)),
        };
        Failure::Usage(format!("{what} is not JSON: {error}{hint}"))
    })
}

/// Parses `name=value`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it like name=value".into()),
    }
}

/// Parses a tag of a filter, `name=value` or `name:value`, into the form of the API.
pub fn tag_filter(text: &str) -> Result<String, String> {
    match text.find(['=', ':']) {
        Some(at) if at > 0 => Ok(format!("{}:{}", &text[..at], &text[at + 1..])),
        _ => Err("write it like name=value".into()),
    }
}

/// Parses a duration from zero on, such as `30s`.
pub fn span(text: &str) -> Result<Duration, String> {
    duration::between("0s", "36500d")(text)
}

/// Returns the milliseconds of a duration.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Parses a limit: a number, or `none`.
pub fn limit(text: &str) -> Result<Value, String> {
    match text {
        "none" => Ok(Value::Null),
        text => text.parse::<u64>().map(Value::from).map_err(|_| "write a whole number, or none".into()),
    }
}

/// Parses a rate such as `100/1m`, or `none`.
pub fn rate(text: &str) -> Result<Value, String> {
    let malformed = || "write the number of starts and the window, for example 100/1m, or none".to_owned();
    if text == "none" {
        return Ok(Value::Null);
    }
    let (count, window) = text.split_once('/').ok_or_else(malformed)?;
    let count: u64 = count.parse().map_err(|_| malformed())?;
    let window = match window {
        // 100/m is as clear as 100/1m.
        "s" | "m" | "h" | "d" => format!("1{window}"),
        window => window.to_owned(),
    };
    let window = duration::between("1ms", "36500d")(&window).map_err(|_| malformed())?;
    Ok(json!({"count": count, "window_ms": millis(window)}))
}

/// Returns a rate for people, such as `100/1m`.
pub fn rate_text(rate: &Value) -> String {
    match (rate["count"].as_u64(), rate["window_ms"].as_i64()) {
        (Some(count), Some(window)) => format!("{count}/{}", crate::terminal::duration_ms(window)),
        _ => "–".into(),
    }
}

/// Returns a limit for people; a dash if there is none.
pub fn limit_text(limit: &Value) -> String {
    match limit {
        Value::Null => "–".into(),
        other => crate::terminal::flat(other),
    }
}

/// Parses an amount of a dimension, `name=number`, where the number may be a decimal one.
pub fn amount(text: &str) -> Result<(String, Value), String> {
    let (name, value) = pair(text)?;
    // The number is kept as it is written: budgets count exact decimals.
    let number: serde_json::Number =
        serde_json::from_str(&value).map_err(|_| "write it like tokens=1000".to_owned())?;
    Ok((name, Value::Number(number)))
}

/// Adds a value to an object if there is one.
pub fn add(object: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_window() {
        assert_eq!(rate("100/1m"), Ok(json!({"count": 100, "window_ms": 60_000})));
        assert_eq!(rate("5/s"), Ok(json!({"count": 5, "window_ms": 1000})));
        assert_eq!(rate("none"), Ok(Value::Null));
        for text in ["100", "x/1m", "1/", "1/0m", "/1m"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_tag_of_a_filter_is_written_with_an_equals_sign_or_a_colon() {
        assert_eq!(tag_filter("team=a:b"), Ok("team:a:b".into()));
        assert_eq!(tag_filter("team:a=b"), Ok("team:a=b".into()));
        assert!(tag_filter("team").is_err() && tag_filter("=x").is_err());
    }

    #[test]
    fn text_that_is_no_json_is_refused_with_its_quoted_form() {
        let refused = json_argument("Ada", "the input").expect_err("Ada is not JSON");
        assert!(refused.to_string().contains(r#"'"Ada"'"#), "{refused}");
        assert_eq!(
            json_argument(" {\"b\": 1, \"a\": 2} ", "the input").expect("it is JSON").get(),
            "{\"b\": 1, \"a\": 2}"
        );
    }
}

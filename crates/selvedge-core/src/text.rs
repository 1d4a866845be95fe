//! Text for people: what callers wrote, cut where it is too long for its place and without U+0000, which Postgres cannot store,
//! and durations.

use serde_json::Value;

/// Returns the text, or its beginning and its length if it is longer than `limit` bytes. The shortened text is at most
/// `limit` bytes long, unless `limit` is too small for the length.
pub fn shortened(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let note = format!("… ({} bytes)", text.len());
        text.truncate(cut(&text, limit.saturating_sub(note.len())).len());
        text.push_str(&note);
    }
    text
}

/// Replaces the character U+0000, which Postgres cannot store in text, by U+FFFD.
pub fn replace_nul(text: &mut String) {
    if text.as_bytes().contains(&0) {
        *text = text.replace('\0', "\u{fffd}");
    }
}

/// Replaces U+0000 in all texts of a JSON value: Postgres cannot convert a document that contains it to `jsonb`, so one text would
/// fail every query that does. Names of fields stay.
pub fn replace_nul_in(value: &mut Value) {
    match value {
        Value::String(text) => replace_nul(text),
        Value::Array(items) => items.iter_mut().for_each(replace_nul_in),
        Value::Object(fields) => fields.values_mut().for_each(replace_nul_in),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the longest beginning of the text that is at most `limit` bytes long and ends at a character.
pub fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// Returns a duration in words, with at most two units: `1 h 30 min`.
pub fn duration(ms: i64) -> String {
    const UNITS: [(i64, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];
    let ms = ms.max(0);
    let Some(at) = UNITS.iter().position(|(unit, _)| ms >= *unit) else { return "0 ms".into() };
    let (unit, word) = UNITS[at];
    let rest =
        UNITS.get(at + 1).map(|(small, word)| (ms % unit / small, word)).filter(|(count, _)| *count > 0);
    match rest {
        Some((count, small)) => format!("{} {word} {count} {small}", ms / unit),
        None => format!("{} {word}", ms / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_words_for_their_units() {
        for (ms, words) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1 s"),
            (1500, "1 s 500 ms"),
            (60_000, "1 min"),
            (600_000, "10 min"),
            (5_400_000, "1 h 30 min"),
            (86_400_000, "1 d"),
        ] {
            assert_eq!(duration(ms), words);
        }
    }

    #[test]
    fn long_text_ends_at_a_character_and_says_how_long_it_was() {
        assert_eq!(shortened("short".into(), 5), "short");
        assert_eq!(shortened("x".repeat(100), 20), "xxxxx… (100 bytes)");
        let shortened = shortened("é".repeat(1000), 101);
        assert!(shortened.len() <= 101 && shortened.ends_with("é… (2000 bytes)"), "{shortened}");
    }

    #[test]
    fn the_character_zero_is_replaced_in_every_text_of_a_document() {
        let mut value = serde_json::json!({"a": ["x\0\0y", 1, {"b": "\\u0000\0"}], "c": null});
        replace_nul_in(&mut value);
        let expected =
            serde_json::json!({"a": ["x\u{fffd}\u{fffd}y", 1, {"b": "\\u0000\u{fffd}"}], "c": null});
        assert_eq!(value, expected);
    }
}

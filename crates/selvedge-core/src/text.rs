//! Text of callers that does not fit its place: error messages in histories and in problems that are too long, and the
//! character U+0000, which Postgres cannot store.

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

/// Returns the longest beginning of the text that is at most `limit` bytes long and ends at a character.
pub fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_ends_at_a_character_and_says_how_long_it_was() {
        assert_eq!(shortened("short".into(), 5), "short");
        assert_eq!(shortened("x".repeat(100), 20), "xxxxx… (100 bytes)");
        let shortened = shortened("é".repeat(1000), 101);
        assert!(shortened.len() <= 101 && shortened.ends_with("é… (2000 bytes)"), "{shortened}");
    }
}

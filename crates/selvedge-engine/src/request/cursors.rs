//! The cursors of lists: the last item of a page as text, after which the next page begins. They hold only characters that are
//! safe in an address.

use crate::Error;
use selvedge_core::filter::ListPosition;
use selvedge_core::{ExecutionId, Timestamp};
use uuid::Uuid;

/// Returns the cursor of a name in a list ordered by name: the name in hexadecimal.
pub fn name_cursor(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a cursor of [`name_cursor`].
pub fn parse_name_cursor(cursor: &str) -> Result<String, Error> {
    let digits = cursor.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(Error::InvalidCursor)
}

/// Returns the cursor of a place in a list of executions, flows or waitpoints: a version digit, the time and the id, in
/// hexadecimal.
pub fn format_cursor(place: ListPosition) -> String {
    format!("1{:016x}{}", place.submitted_at.micros(), place.id.0.simple())
}

/// Parses a cursor of [`format_cursor`].
pub fn parse_cursor(cursor: &str) -> Result<ListPosition, Error> {
    let place = || {
        let digits = cursor.strip_prefix('1').filter(|digits| digits.len() == 48)?;
        if !is_hexadecimal(digits) {
            return None;
        }
        let (time, id) = digits.split_at(16);
        Some(ListPosition {
            submitted_at: Timestamp::from_micros(i64::from_str_radix(time, 16).ok()?),
            id: ExecutionId(Uuid::try_parse(id).ok()?),
        })
    };
    place().ok_or(Error::InvalidCursor)
}

/// Reports whether `text` consists of lower-case hexadecimal digits.
pub fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_anything_else_is_refused() {
        let place = ListPosition {
            submitted_at: Timestamp::from_millis(1_700_000_000_123),
            id: ExecutionId(Uuid::from_u128(42)),
        };
        let text = format_cursor(place);
        assert_eq!(parse_cursor(&text).ok(), Some(place));
        for text in ["", "1", "x", &text[1..], &format!("{text}0"), &text.replace('1', "Z")] {
            assert!(parse_cursor(text).is_err(), "{text}");
        }
        assert_eq!(parse_name_cursor(&name_cursor("größe/1")).ok().as_deref(), Some("größe/1"));
        assert!(parse_name_cursor("6").is_err() && parse_name_cursor("zz").is_err());
    }
}

//! The pages and cursors of lists. A cursor names the last item of a page; the next page begins after it.

use crate::wire::json;
use crate::wire::problem::Problem;
use crate::wire::query::Query;
use axum::response::Response;
use selvedge_core::filter::ListPosition;
use selvedge_core::{ExecutionId, Timestamp};
use selvedge_engine::RecordPage;
use uuid::Uuid;

/// A page of a list ordered by name: workers, lanes, quotas or budgets. The cursor is the last name in hexadecimal, so
/// that it holds only characters that are safe in an address.
pub struct NamePage {
    /// The name after which the page begins; none for the first page.
    pub after: Option<String>,
    /// The most items of the page.
    pub limit: u32,
}

impl NamePage {
    /// Reads `limit` and `cursor`, and refuses any other parameter.
    pub fn read(mut query: Query) -> Result<Self, Problem> {
        let limit = query.limit()?;
        let after = query.text("cursor")?.map(|cursor| parse_name_cursor(&cursor)).transpose()?;
        query.finish()?;
        Ok(NamePage { after, limit })
    }
}

/// Returns the cursor of a name.
pub fn name_cursor(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a cursor of [`name_cursor`].
pub fn parse_name_cursor(cursor: &str) -> Result<String, Problem> {
    let digits = cursor.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(invalid_cursor)
}

/// A page of items that are numbered within an execution, oldest first: signals, steps or waitpoints. The cursor is the
/// number of the last item.
pub struct NumberPage {
    /// The number after which the page begins; 0 for the first page.
    pub after: u32,
    limit: u32,
}

impl NumberPage {
    /// Reads `limit` and `cursor`, and refuses any other parameter.
    pub fn read(mut query: Query) -> Result<Self, Problem> {
        let limit = query.limit()?;
        let cursor = query.text("cursor")?;
        query.finish()?;
        let after = cursor.map(|cursor| cursor.parse().map_err(|_| invalid_cursor())).transpose()?;
        Ok(NumberPage { after: after.unwrap_or(0), limit })
    }

    /// Returns the most items of the page.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the number of items to load: one more than the page shows, to learn whether another page follows.
    pub fn load_limit(&self) -> u32 {
        self.limit + 1
    }

    /// Writes the page of the loaded `items`.
    pub fn response<T>(
        self,
        items: Vec<T>,
        number: impl Fn(&T) -> u32,
        write: fn(&mut Vec<u8>, &T),
    ) -> Response {
        self.record_response(RecordPage { items, is_cut: false }, number, write)
    }

    /// Writes the page of the loaded `records`, which may be shorter because they are large.
    pub fn record_response<T>(
        self,
        records: RecordPage<T>,
        number: impl Fn(&T) -> u32,
        write: fn(&mut Vec<u8>, &T),
    ) -> Response {
        let RecordPage { mut items, is_cut } = records;
        let more = is_cut || items.len() > self.limit as usize;
        items.truncate(self.limit as usize);
        let next_cursor = items.last().filter(|_| more).map(|item| number(item).to_string());
        json::page(&items, next_cursor, write)
    }
}

/// Returns the cursor of a place in a list of executions or flows: a version digit, the time and the id, in
/// hexadecimal.
pub fn format_cursor(place: ListPosition) -> String {
    format!("1{:016x}{}", place.submitted_at.micros(), place.id.0.simple())
}

/// Parses a cursor of [`format_cursor`].
pub fn parse_cursor(cursor: &str) -> Result<ListPosition, Problem> {
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
    place().ok_or_else(invalid_cursor)
}

/// Reports whether `text` consists of lower-case hexadecimal digits.
pub fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the problem of a cursor that this server did not issue.
pub fn invalid_cursor() -> Problem {
    selvedge_engine::Error::InvalidCursor.into()
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
    }
}

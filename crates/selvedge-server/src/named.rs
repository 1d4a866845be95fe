//! Lists by name: workers, lanes, quotas and budgets. A cursor is the last name seen, in hexadecimal, so that it holds only
//! characters that are safe in an address.

use crate::filter::invalid_cursor;
use crate::problem::Problem;
use crate::query::Query;

/// Which part of such a list is asked for.
pub struct ByName {
    /// After which name.
    pub after: Option<String>,
    /// How many.
    pub limit: u32,
}

impl ByName {
    /// Reads `limit` and `cursor`, and nothing else.
    pub fn read(mut query: Query) -> Result<Self, Problem> {
        let limit = query.limit()?;
        let after = query.text("cursor")?.map(|cursor| unhex(&cursor)).transpose()?;
        query.finish()?;
        Ok(ByName { after, limit })
    }
}

/// The cursor of a name.
pub fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(cursor: &str) -> Result<String, Problem> {
    let digits = cursor.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(invalid_cursor)
}

//! The pages and cursors of lists. A cursor names the last item of a page; the next page begins after it.

use crate::wire::json;
use crate::wire::problem::Problem;
use crate::wire::query::Query;
use axum::response::Response;
use selvedge_engine::RecordPage;

pub use selvedge_engine::request::cursors::{
    format_cursor, is_hexadecimal, name_cursor, parse_cursor, parse_name_cursor,
};

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

/// Returns the problem of a cursor that this server did not issue.
pub fn invalid_cursor() -> Problem {
    selvedge_engine::Error::InvalidCursor.into()
}
